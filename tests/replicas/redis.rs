//! Leases on Redis: two processes, and a Redis that is killed, comes back empty, or answers nothing.

use std::{collections::BTreeSet, time::Duration};

use holdfast_sandbox::PresentationOutcome::Rotated;
use holdfast_tests::{
    cluster::{Cluster, storm},
    cut::Line,
    process::{Answer, Replica},
    redis::Redis,
    wait::within,
};

use crate::{BOUND, issued, presented, shown};

/// What a caller may wait for one answer.
const WAIT_BOUND: Duration = Duration::from_secs(4);

const SETTINGS: [(&str, &str); 7] = [
    ("lock.backend", "redis"),
    ("refresh.lease_secs", "6"),
    ("refresh.exchange_timeout_secs", "4"),
    ("refresh.lease_slack_secs", "0.5"),
    ("refresh.orphan_wait_secs", "1"),
    ("refresh.confirm_pause_secs", "0.5"),
    ("refresh.wait_bound_secs", "4"),
];

async fn two(cluster: &Cluster, url: &str) -> (Replica, Replica) {
    let start = |name| cluster.replica(name).with_all(&SETTINGS).with("lock.redis_url", url).start();
    tokio::join!(start("one"), start("two"))
}

fn tokens(answers: &[Answer]) -> BTreeSet<&str> {
    answers.iter().map(Answer::access_token).collect()
}

/// A token, or a true error: whose trouble it is, when to come back, and within the bound.
fn is_fair(answer: &Answer) {
    // The machine may have other things to do.
    assert!(answer.took < WAIT_BOUND + Duration::from_secs(3), "{answer:?}");
    if answer.status != 200 {
        assert_eq!((answer.status.as_u16(), answer.code()), (503, "refresh_unavailable"), "{answer:?}");
        assert!(answer.retry_after.is_some_and(|after| (1..=15).contains(&after)), "{answer:?}");
    }
}

/// And it is called trouble of ours, whatever the provider does.
fn is_ours(answer: &Answer) {
    is_fair(answer);
    assert!(answer.text("detail").contains("(ours)"), "{answer:?}");
}

async fn keeps(replica: &Replica, connector: &str) {
    let shown = replica.show(connector).await;
    assert_eq!(shown["health"], "connected", "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_callers_at_expiry_get_one_token_from_one_exchange() {
    let (cluster, redis) = (Cluster::start().await, Redis::start().await);
    let (one, two) = two(&cluster, &redis.url()).await;

    for account in ["desk1", "desk2", "desk3"] {
        let expired = cluster.expired(&one, account).await;
        expired.helpdesk.trouble(|faults| faults.delay_ms = 200);

        let answers = storm(&[&one, &two], &expired.id, 200).await;

        let slowest = answers.iter().map(|answer| answer.took).max();
        println!("{account}: the slowest of 200 callers on two replicas waited {slowest:?}");
        assert_eq!(tokens(&answers).len(), 1);
        assert!(expired.helpdesk.accepts(answers[0].access_token()));
        assert_eq!(presented(&expired.helpdesk), [Rotated]);
        assert_eq!(expired.helpdesk.counters().exchanges, 1);
    }
    assert_eq!(redis.keys().await, 0, "every lease was released");
    for replica in [&one, &two] {
        assert_eq!(replica.said(redis.password()), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_comes_back_empty_grants_no_second_exchange() {
    let (cluster, mut redis) = (Cluster::start().await, Redis::start().await);
    let (one, two) = two(&cluster, &redis.url()).await;
    let expired = cluster.expired(&one, "acme").await;
    expired.helpdesk.trouble(|faults| faults.hold_answers = true);
    let owner = tokio::spawn(one.token_call(&expired.id));
    issued(&expired.helpdesk, 2).await;

    redis.kill().await;
    redis.start_again().await;
    let waiting = tokio::spawn(two.token_call(&expired.id));
    // The other replica gets a lease from the empty Redis, and meets the open journal row.
    within("the other replica draws a number", BOUND, || async {
        let number = cluster.database.number("SELECT max(fencing_token) FROM leases").await;
        if number >= 2 { Ok(()) } else { Err(number) }
    })
    .await;
    expired.helpdesk.calm();

    let answers = [owner.await.unwrap(), waiting.await.unwrap()];
    answers.iter().for_each(is_fair);
    assert_eq!(tokens(&answers).len(), 1);
    assert!(expired.helpdesk.accepts(answers[0].access_token()));
    assert_eq!(presented(&expired.helpdesk), [Rotated]);
    assert_eq!(cluster.database.number("SELECT count(*) FROM exchanges").await, 1, "there was one journal row");
    keeps(&two, &expired.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_dies_in_the_middle_loses_no_token() {
    let (cluster, mut redis) = (Cluster::start().await, Redis::start().await);
    let (one, two) = two(&cluster, &redis.url()).await;
    let expired = cluster.expired(&one, "acme").await;
    let other = cluster.expired(&one, "other").await;
    expired.helpdesk.trouble(|faults| faults.hold_answers = true);
    let owner = tokio::spawn(one.token_call(&expired.id));
    issued(&expired.helpdesk, 2).await;

    redis.kill().await;
    // Nothing new is begun, on either replica.
    for replica in [&one, &two] {
        let refused = replica.token(&other.id).await;
        assert_eq!(refused.status, 503);
        is_ours(&refused);
    }
    is_ours(&two.token(&expired.id).await);
    expired.helpdesk.calm();

    // What had begun is ended well, and the other replica serves it without any lease.
    let answer = owner.await.unwrap();
    is_fair(&answer);
    let (served, _) = two.token_in_the_end(&expired.id, BOUND).await;
    assert_eq!(served.access_token(), answer.access_token());
    assert_eq!(presented(&expired.helpdesk), [Rotated]);
    assert_eq!(presented(&other.helpdesk), []);
    keeps(&one, &other.id).await;

    redis.start_again().await;
    let (mended, _) = two.token_in_the_end(&other.id, BOUND).await;
    assert!(other.helpdesk.accepts(mended.access_token()));
    assert_eq!(presented(&other.helpdesk), [Rotated]);
}

#[tokio::test(flavor = "multi_thread")]
async fn storms_over_a_dying_redis_spend_each_token_once() {
    let (cluster, mut redis) = (Cluster::start().await, Redis::start().await);
    let (one, two) = two(&cluster, &redis.url()).await;

    for account in ["desk1", "desk2", "desk3", "desk4"] {
        let expired = cluster.expired(&one, account).await;
        expired.helpdesk.trouble(|faults| faults.delay_ms = 300);
        let replicas = [&one, &two];
        let storm = storm(&replicas, &expired.id, 60);
        let dying = async {
            shown(&expired.helpdesk, 1).await;
            redis.kill().await;
            redis.start_again().await;
            redis.kill().await;
            redis.start_again().await;
        };
        let (answers, ()) = tokio::join!(storm, dying);

        answers.iter().for_each(is_fair);
        let (last, _) = two.token_in_the_end(&expired.id, BOUND).await;
        let given: BTreeSet<_> =
            answers.iter().filter(|answer| answer.status == 200).map(Answer::access_token).collect();
        assert!(given.iter().all(|token| *token == last.access_token()), "{given:?}");
        assert!(expired.helpdesk.accepts(last.access_token()));
        assert_eq!(presented(&expired.helpdesk), [Rotated], "{account}");
        keeps(&one, &expired.id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_answers_nothing_holds_no_caller_past_its_bound() {
    let (cluster, redis) = (Cluster::start().await, Redis::start().await);
    let line = Line::to(redis.address()).await;
    let (one, two) = two(&cluster, &redis.url_by(line.address())).await;
    let expired = cluster.expired(&one, "acme").await;

    line.silence();
    let refused = storm(&[&one, &two], &expired.id, 40).await;

    for answer in &refused {
        assert_eq!(answer.status, 503, "{answer:?}");
        is_ours(answer);
    }
    assert_eq!(presented(&expired.helpdesk), []);
    keeps(&one, &expired.id).await;

    // The old connections stay silent, as after a failover to another host.
    line.strand();
    let (mended, _) = one.token_in_the_end(&expired.id, BOUND).await;
    assert!(expired.helpdesk.accepts(mended.access_token()));
    assert_eq!(presented(&expired.helpdesk), [Rotated]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_starts_and_serves_while_redis_is_away() {
    let (cluster, mut redis) = (Cluster::start().await, Redis::start().await);
    let expired = cluster.expired(&cluster.replica("before").start().await, "acme").await;
    redis.kill().await;

    let (one, _two) = two(&cluster, &redis.url()).await;

    one.says("Redis is in trouble", BOUND).await;
    is_ours(&one.token(&expired.id).await);
    redis.start_again().await;
    let (mended, _) = one.token_in_the_end(&expired.id, BOUND).await;
    assert!(expired.helpdesk.accepts(mended.access_token()));
    one.says("Redis answers again", BOUND).await;
    assert_eq!(one.said(redis.password()), Vec::<String>::new());
}
