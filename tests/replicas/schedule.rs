//! Replicas that share what is due: real processes with their schedulers on.

use futures::future::join_all;
use holdfast_sandbox::{GrantRequest, Helpdesk, PresentationOutcome::Rotated};
use holdfast_tests::{
    cluster::{Cluster, Setup},
    process::{Replica, answer},
    wait::within,
};
use reqwest::Method;
use serde_json::json;

use crate::{BOUND, presented};

const SOON: (&str, &str) = ("refresh.loop_interval_secs", "0.2");

/// Connectors on helpdesks of their own, due in a while.
async fn connectors(cluster: &Cluster, replica: &Replica, count: i64) -> Vec<Helpdesk> {
    let mut desks = Vec::new();
    for number in 0..count {
        let account = format!("desk{number}");
        let desk = cluster.sandbox.create_helpdesk(&account).expect("it is a DNS label");
        let grant = desk.grant(&GrantRequest::default()).expect("Ada is there");
        let body = json!({
            "provider": "zendesk", "account": account, "credential": {
                "access_token": grant.access_token, "refresh_token": grant.refresh_token,
                "expires_in": grant.expires_in, "scope": grant.scope,
            },
        });
        assert_eq!(answer(replica.request(Method::POST, "/api/v1/connectors").json(&body)).await.status, 201);
        desks.push(desk);
    }
    desks
}

/// All of them are due at once.
async fn make_due(cluster: &Cluster) {
    let mut session = cluster.database.session().await;
    let due = "UPDATE credentials SET due_at = clock_timestamp()";
    sqlx::query(due).execute(&mut session).await.expect("the statement is right");
}

async fn start(cluster: &Cluster, names: &[&'static str], change: impl Fn(Setup<'_>) -> Setup<'_>) -> Vec<Replica> {
    let replicas = join_all(names.iter().map(|name| change(cluster.replica(name)).start())).await;
    // Their places are known once all have given a sign of life, and others have looked again.
    within("all of them live", BOUND, || async {
        let alive = "SELECT COUNT(*) FROM replicas WHERE seen_at_ms - started_at_ms >= 2000";
        let alive = cluster.database.number(alive).await;
        if usize::try_from(alive).is_ok_and(|alive| alive == names.len()) { Ok(()) } else { Err(alive) }
    })
    .await;
    replicas
}

async fn all_refreshed(cluster: &Cluster, count: i64) {
    within("all are refreshed", BOUND, || async {
        let left = "SELECT COUNT(*) FROM credentials WHERE version > 1";
        let done = cluster.database.number(left).await;
        if done == count { Ok(()) } else { Err(done) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_refresh_what_is_due_once_and_keep_the_limit_together() {
    for (count, names) in [(2, &["one", "two"][..]), (4, &["one", "two", "three", "four"])] {
        let cluster = Cluster::start().await;
        let replicas =
            start(&cluster, names, |setup| setup.with_all(&[SOON]).with("providers.zendesk.refresh_at_once", "6"))
                .await;
        let desks = connectors(&cluster, &replicas[0], 60).await;
        for desk in &desks {
            desk.trouble(|faults| faults.delay_ms = 50);
        }

        make_due(&cluster).await;
        all_refreshed(&cluster, 60).await;

        assert!(desks.iter().all(|desk| presented(desk) == [Rotated]));
        let most = cluster.sandbox.most_exchanges_at_once();
        assert!((2..=6).contains(&most), "{most} at once on {count} replicas");
        let holders = "SELECT COUNT(DISTINCT holder) FROM exchanges";
        assert_eq!(cluster.database.number(holders).await, count, "each has done some");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_replica_has_claimed_is_refreshed_by_another_one() {
    let cluster = Cluster::start().await;
    let settings = [
        SOON,
        ("refresh.claim_secs", "5"),
        ("refresh.lease_secs", "4"),
        ("refresh.exchange_timeout_secs", "2"),
        ("refresh.lease_slack_secs", "0.5"),
        ("refresh.orphan_wait_secs", "0.5"),
        ("providers.zendesk.refresh_at_once", "2"),
    ];
    let one = cluster.replica("one").with_all(&settings).start().await;
    let desks = connectors(&cluster, &one, 8).await;
    for desk in &desks {
        desk.trouble(|faults| faults.hold = true);
    }
    make_due(&cluster).await;
    within("it has claimed more than it may begin", BOUND, || async {
        let claims = cluster.database.number("SELECT COUNT(*) FROM refresh_claims").await;
        if claims == 4 { Ok(()) } else { Err(claims) }
    })
    .await;

    one.kill().await;
    desks.iter().for_each(Helpdesk::calm);
    let _two = cluster.replica("two").with_all(&settings).start().await;

    // Two were at the provider when it died: what became of them is another story, and not the scheduler's.
    within("the others are refreshed", BOUND, || async {
        let done = cluster.database.number("SELECT COUNT(*) FROM credentials WHERE version > 1").await;
        if done >= 6 { Ok(()) } else { Err(done) }
    })
    .await;
    assert!(desks.iter().all(|desk| desk.counters().exchanges <= 2), "none was presented again and again");
}

/// EX-04: the process lives in one time zone, the database in another.
#[tokio::test(flavor = "multi_thread")]
async fn time_zones_move_no_expiry() {
    let cluster = Cluster::start().await;
    let mut session = cluster.database.session().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut session).await.unwrap();
    let berlin = sqlx::AssertSqlSafe(format!("ALTER DATABASE {name} SET timezone TO 'Europe/Berlin'"));
    sqlx::query(berlin).execute(&mut session).await.unwrap();
    let one = cluster.replica("one").with_all(&[SOON]).with_variable("TZ", "Australia/Brisbane").start().await;

    let desks = connectors(&cluster, &one, 1).await;
    let life = "SELECT EXTRACT(EPOCH FROM expires_at - obtained_at)::int8 FROM credentials";
    assert_eq!(cluster.database.number(life).await, 1800);
    let off = "SELECT abs(EXTRACT(EPOCH FROM obtained_at - clock_timestamp()))::int8 FROM credentials";
    assert!(cluster.database.number(off).await < 60, "it was received now, wherever now is");
    assert_eq!(cluster.database.number("SELECT COUNT(*) FROM credentials WHERE due_at < now()").await, 0);

    make_due(&cluster).await;
    all_refreshed(&cluster, 1).await;

    assert_eq!(presented(&desks[0]), [Rotated]);
    assert!(cluster.database.number(off).await < 60);
    let ahead = "SELECT EXTRACT(EPOCH FROM due_at - clock_timestamp())::int8 FROM credentials";
    assert!((600..1800).contains(&cluster.database.number(ahead).await), "the next one is before its end");
}
