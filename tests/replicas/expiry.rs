//! Callers at the moment of expiry, spread over two processes.

use std::{collections::BTreeSet, time::Duration};

use holdfast_sandbox::PresentationOutcome::Rotated;
use holdfast_tests::{
    cluster::{Cluster, storm},
    cut::Line,
    process::Answer,
    wait::within,
};
use tokio::{net::TcpStream, task::JoinSet};

use crate::{BOUND, issued, presented, shown};

/// A lease that a slow provider outlasts.
const SHORT: [(&str, &str); 6] = [
    ("refresh.lease_secs", "4"),
    ("refresh.exchange_timeout_secs", "2.5"),
    ("refresh.lease_slack_secs", "0.5"),
    ("refresh.orphan_wait_secs", "1"),
    ("refresh.confirm_pause_secs", "0.5"),
    ("refresh.wait_bound_secs", "10"),
];

fn tokens(answers: &[Answer]) -> BTreeSet<&str> {
    answers.iter().map(Answer::access_token).collect()
}

fn slowest(answers: &[Answer]) -> Duration {
    answers.iter().map(|answer| answer.took).max().unwrap_or_default()
}

/// RF-02, RF-04.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_callers_at_expiry_get_one_token_from_one_exchange() {
    let cluster = Cluster::start().await;
    let (one, two) = cluster.two(&[]).await;

    for account in ["desk1", "desk2", "desk3", "desk4", "desk5"] {
        let expired = cluster.expired(&one, account).await;
        expired.helpdesk.trouble(|faults| faults.delay_ms = 200);

        let answers = storm(&[&one, &two], &expired.id, 200).await;

        println!("{account}: the slowest of 200 callers on two replicas waited {:?}", slowest(&answers));
        assert_eq!(tokens(&answers).len(), 1);
        assert!(expired.helpdesk.accepts(answers[0].access_token()));
        assert_eq!(presented(&expired.helpdesk), [Rotated]);
        let counters = expired.helpdesk.counters();
        assert_eq!((counters.exchanges, counters.reuses), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_a_refresh_names_its_connector_version_and_fence() {
    let cluster = Cluster::start().await;
    let (one, _two) = cluster.two(&[]).await;
    let expired = cluster.expired(&one, "acme").await;

    one.token(&expired.id).await;

    let said = one.said("rotated the credential of connector");
    let line: serde_json::Value = serde_json::from_str(&said[0]).unwrap();
    let span = &line["span"];
    assert_eq!(span["connector.id"], expired.id.as_str(), "{line}");
    assert_eq!((&span["credential.version"], &span["lease.fencing_token"]), (&1.into(), &1.into()), "{line}");
}

/// RF-10.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_ends_well_although_all_its_callers_hang_up() {
    let cluster = Cluster::start().await;
    let (one, two) = cluster.two(&[]).await;
    let expired = cluster.expired(&one, "acme").await;
    expired.helpdesk.trouble(|faults| faults.hold = true);
    let mut callers = JoinSet::new();
    for caller in 0..200 {
        let replica = if caller % 2 == 0 { &one } else { &two };
        callers.spawn(replica.token_call(&expired.id));
    }
    shown(&expired.helpdesk, 1).await;

    // Their sockets are closed with their tasks.
    callers.shutdown().await;
    expired.helpdesk.calm();

    let version = "SELECT max(version) FROM credentials";
    within("the token is stored", BOUND, || async {
        let version = cluster.database.number(version).await;
        if version == 2 { Ok(()) } else { Err(version) }
    })
    .await;
    let answers = [one.token(&expired.id).await, two.token(&expired.id).await];
    assert_eq!(tokens(&answers).len(), 1);
    assert!(expired.helpdesk.accepts(answers[0].access_token()));
    assert_eq!(presented(&expired.helpdesk), [Rotated]);
}

/// RF-03, for a provider that takes long before it looks at the token.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_slower_than_the_lease_never_has_two_requests_open() {
    slower_than_the_lease(|faults| faults.delay_ms = 5_000).await;
}

/// RF-03, for a provider that rotates at once and takes long to say so.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_slower_than_the_lease_is_lost_and_said_to_be() {
    slower_than_the_lease(|faults| faults.delay_after_ms = 5_000).await;
}

async fn slower_than_the_lease(trouble: impl FnOnce(&mut holdfast_sandbox::Faults)) {
    let cluster = Cluster::start().await;
    // Each request of an exchange has a connection of its own, so this line knows how many are open at once.
    let line = Line::to(cluster.sandbox.addr()).await;
    let by_line = format!("http://{}/zendesk/{{account}}", line.address());
    let mut settings = SHORT.to_vec();
    settings.push(("providers.zendesk.base_url_override", &by_line));
    let (one, two) = cluster.two(&settings).await;
    let expired = cluster.expired(&one, "acme").await;
    expired.helpdesk.trouble(trouble);

    let answers = storm(&[&one, &two], &expired.id, 200).await;

    println!("a provider slower than the lease: the slowest of 200 callers waited {:?}", slowest(&answers));
    for answer in &answers {
        assert_eq!((answer.status.as_u16(), answer.code()), (503, "refresh_unavailable"), "{answer:?}");
        assert!(answer.retry_after.is_some_and(|after| after >= 1), "{answer:?}");
        assert!(answer.took < Duration::from_secs(12), "{answer:?}");
    }
    // The provider goes on with what its caller has given up: there is no grace, and the new set is lost.
    issued(&expired.helpdesk, 2).await;
    expired.helpdesk.calm();
    let ((first, _), (second, _)) =
        tokio::join!(one.token_in_the_end(&expired.id, BOUND), two.token_in_the_end(&expired.id, BOUND));
    for answer in [first, second] {
        assert_eq!((answer.status.as_u16(), answer.code()), (409, "connector_auth_failed"), "{answer:?}");
    }
    let shown = one.show(&expired.id).await;
    assert_eq!((&shown["health"], &shown["health_reason"]), (&"auth_failed".into(), &"response_lost".into()));
    assert_eq!(line.most_open(), 1, "of {} requests", line.ever_open());
}

/// RF-10, AP: a replica that is told to stop.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_told_to_stop_ends_its_exchange_first() {
    let cluster = Cluster::start().await;
    let (mut one, two) = cluster.two(&[]).await;
    let expired = cluster.expired(&one, "acme").await;
    expired.helpdesk.trouble(|faults| faults.hold = true);
    let waiting = tokio::spawn(one.token_call(&expired.id));
    let gone = tokio::spawn(one.token_call(&expired.id));
    shown(&expired.helpdesk, 1).await;
    gone.abort();

    one.ask_to_stop();
    within("it takes no new callers", BOUND, || async {
        let connected = TcpStream::connect(one.address()).await;
        if connected.is_err() { Ok(()) } else { Err("it still listens") }
    })
    .await;
    let still_runs = one.runs();
    expired.helpdesk.calm();
    let status = one.end().await;

    assert!(still_runs, "it ended while the provider still held its exchange");
    assert_eq!(status.code(), Some(0));
    assert_eq!(cluster.database.number("SELECT max(version) FROM credentials").await, 2);
    let token = waiting.await.unwrap();
    assert_eq!(token.access_token(), two.token(&expired.id).await.access_token());
    assert_eq!(presented(&expired.helpdesk), [Rotated]);
}
