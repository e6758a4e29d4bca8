//! Few connections to the database, and poolers in between.

use std::time::Duration;

use futures::future::join_all;
use holdfast_tests::{
    cluster::{Cluster, storm},
    pooler::Pooler,
    process::{Answer, Replica, answer},
    wait::within,
};
use reqwest::Method;
use serde_json::json;

use crate::{BOUND, shown};

const ADVISORY_LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

async fn another(replica: &Replica, connector: &str, rejected: &str) -> Answer {
    let path = format!("/api/v1/connectors/{connector}/token/rejected");
    answer(replica.request(Method::POST, &path).json(&json!({ "access_token": rejected }))).await
}

/// RF-06.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_transaction_mode_breaks_no_refresh_and_keeps_no_lock() {
    const CONNECTORS: usize = 20;
    const ROUNDS: u64 = 10;
    let cluster = Cluster::start().await;
    let pooler = Pooler::to(cluster.database.address().await, 3).await;
    let (by_pooler, direct) = (cluster.database.url_by(pooler.address()), cluster.database.url().clone());
    let settings = [
        ("database.url", by_pooler.as_str()),
        ("database.listen_url", direct.as_str()),
        // Each round rejects the token of the round before.
        ("refresh.rejection_interval_secs", "0"),
    ];
    let (one, two) = cluster.two(&settings).await;
    let mut connectors = Vec::new();
    for number in 0..CONNECTORS {
        connectors.push(cluster.expired(&one, &format!("desk{number}")).await);
    }

    let chains = connectors.iter().map(|expired| async {
        let mut token = one.token(&expired.id).await.access_token().to_owned();
        let mut slowest = Duration::ZERO;
        for _ in 1..ROUNDS {
            let (a, b) = tokio::join!(another(&one, &expired.id, &token), another(&two, &expired.id, &token));
            assert_eq!(a.access_token(), b.access_token());
            assert_ne!(a.access_token(), token);
            slowest = slowest.max(a.took).max(b.took);
            a.access_token().clone_into(&mut token);
        }
        slowest
    });
    let slowest = join_all(chains).await.into_iter().max();

    println!(
        "{} refreshes over {} transactions on {} server connections; the slowest caller waited {slowest:?}",
        cluster.sandbox.counters().rotations,
        pooler.transactions(),
        pooler.server_connections()
    );
    let counters = cluster.sandbox.counters();
    assert_eq!((counters.exchanges, counters.rotations, counters.reuses), (200, 200, 0));
    assert_eq!(pooler.server_connections(), 3);
    assert_eq!(cluster.database.number(ADVISORY_LOCKS).await, 0);
    assert!(slowest < Some(Duration::from_secs(10)), "{slowest:?}");
}

/// RF-07, for the token API.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_never_answers_holds_no_connection_to_the_database() {
    const IDLE: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND state = 'idle in transaction' AND state_change < clock_timestamp() - interval '1 second'";
    let cluster = Cluster::start().await;
    let (one, two) = cluster
        .two(&[
            ("database.max_connections", "4"),
            ("refresh.lease_secs", "10"),
            ("refresh.exchange_timeout_secs", "6"),
            ("refresh.lease_slack_secs", "1"),
        ])
        .await;
    let (stuck, fine) = (cluster.expired(&one, "acme").await, cluster.expired(&one, "globex").await);
    for replica in [&one, &two] {
        assert!(fine.helpdesk.accepts(replica.token(&fine.id).await.access_token()));
    }
    stuck.helpdesk.trouble(|faults| faults.hold = true);
    let mut waiting = Vec::new();
    for caller in 0..50 {
        let replica = if caller % 2 == 0 { &one } else { &two };
        waiting.push(tokio::spawn(replica.token_call(&stuck.id)));
    }
    shown(&stuck.helpdesk, 1).await;

    let both = [&one, &two];
    let (mut slowest, mut rounds) = (Duration::ZERO, 0);
    while !waiting.iter().all(tokio::task::JoinHandle::is_finished) {
        // Y's valid token; one that needs an exchange; a read of the database.
        let fresh = cluster.expired(&two, &format!("desk{rounds}")).await;
        let (valid, renewed, read) = tokio::join!(
            storm(&both, &fine.id, 20),
            storm(&both, &fresh.id, 20),
            answer(one.request(Method::GET, "/api/v1/connectors")),
        );
        assert_eq!(read.status, 200, "{read:?}");
        for answer in valid.iter().chain(&renewed) {
            assert!(!answer.access_token().is_empty());
            slowest = slowest.max(answer.took);
        }
        slowest = slowest.max(read.took);
        assert_eq!(cluster.database.number(IDLE).await, 0);
        rounds += 1;
    }

    println!("{rounds} rounds beside 50 callers of a silent provider; the slowest of them waited {slowest:?}");
    assert!(rounds > 0);
    // Without a connection they would wait until the provider's time is over. A loaded machine alone takes less.
    assert!(slowest < Duration::from_secs(4), "{slowest:?}");
    for call in waiting {
        let answer = call.await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.code()), (503, "refresh_unavailable"), "{answer:?}");
        assert!(answer.retry_after.is_some(), "{answer:?}");
        assert!(answer.took < Duration::from_secs(15), "{answer:?}");
    }
    stuck.helpdesk.calm();
    within("no exchange is open", BOUND, || async {
        let open = cluster.database.number("SELECT count(*) FROM exchanges WHERE closed_at IS NULL").await;
        if open == 0 { Ok(()) } else { Err(open) }
    })
    .await;
}
