//! The owner of an exchange is killed: before, during and after it.

use std::time::Duration;

use holdfast_sandbox::PresentationOutcome::{Open, Reused, Rotated};
use holdfast_tests::{
    cluster::{Cluster, Expired},
    cut::Line,
    process::{Answer, Replica},
    wait::{uptime, within},
};
use sqlx::{Connection as _, Executor as _};

use crate::{BOUND, issued, presented, shown};

/// What a caller may wait for one answer.
const WAIT_BOUND: Duration = Duration::from_secs(2);

/// Short, so that a lost owner's time is over soon. That it is lost is known 8 s after its last sign of life.
const SHORT: [(&str, &str); 6] = [
    ("refresh.lease_secs", "4"),
    ("refresh.exchange_timeout_secs", "2.5"),
    ("refresh.lease_slack_secs", "0.5"),
    ("refresh.orphan_wait_secs", "1"),
    ("refresh.confirm_pause_secs", "0.5"),
    ("refresh.wait_bound_secs", "2"),
];

/// As [`SHORT`], for an exchange that is under way for longer: it must not time out before its owner is killed.
const PATIENT: [(&str, &str); 6] = [
    ("refresh.lease_secs", "12"),
    ("refresh.exchange_timeout_secs", "10"),
    ("refresh.lease_slack_secs", "1"),
    ("refresh.orphan_wait_secs", "1"),
    ("refresh.confirm_pause_secs", "0.5"),
    ("refresh.wait_bound_secs", "2"),
];

/// Calls the other replica until there is an answer, and checks what callers get meanwhile: soon, 503 with a time.
async fn in_the_end(replica: &Replica, expired: &Expired) -> Answer {
    let killed = uptime();
    let (answer, refused) = replica.token_in_the_end(&expired.id, BOUND).await;
    let after = uptime() - killed;
    println!("an answer ({}) {after:?} after the kill; {} calls were put off before", answer.status, refused.len());
    for early in &refused {
        assert_eq!(early.code(), "refresh_unavailable", "{early:?}");
        // What is put off is put off within the bound, whatever the machine has to do besides.
        assert!(early.took < WAIT_BOUND + Duration::from_secs(3), "{early:?}");
        assert!(early.retry_after.is_some_and(|after| (1..=15).contains(&after)), "{early:?}");
    }
    assert!(!refused.is_empty(), "the lost owner's time was not kept: {answer:?}");
    answer
}

async fn is_lost(replica: &Replica, expired: &Expired) {
    let answer = in_the_end(replica, expired).await;

    assert_eq!((answer.status.as_u16(), answer.code()), (409, "connector_auth_failed"), "{answer:?}");
    let shown = replica.show(&expired.id).await;
    assert_eq!((&shown["health"], &shown["health_reason"]), (&"auth_failed".into(), &"response_lost".into()));
    // Lost with its answer, then shown twice: the attempt and the one that confirms the refusal.
    assert_eq!(presented(&expired.helpdesk), [Rotated, Reused, Reused]);
    let log = replica.said("refresh_refused");
    assert!(log.is_empty(), "{log:?}");
}

async fn is_mended(replica: &Replica, expired: &Expired) {
    let answer = in_the_end(replica, expired).await;

    assert!(expired.helpdesk.accepts(answer.access_token()));
    assert_eq!(presented(&expired.helpdesk), [Rotated]);
    assert_eq!(expired.helpdesk.counters().exchanges, 1);
    assert_eq!(replica.show(&expired.id).await["health"], "connected");
}

/// RF-01.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_between_lease_and_journal_costs_no_more_than_its_lease() {
    let cluster = Cluster::start().await;
    let (one, two) = cluster.two(&SHORT).await;
    let expired = cluster.expired(&one, "acme").await;
    // The journal row is written under a lock of the credential's row; the lease is not.
    let mut session = cluster.database.session().await;
    let mut lock = session.begin().await.unwrap();
    lock.execute("SELECT 1 FROM credentials FOR UPDATE").await.unwrap();
    let call = tokio::spawn(one.token_call(&expired.id));
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND wait_event_type = 'Lock'";
    within("the owner waits to open its journal row", BOUND, || async {
        let blocked = cluster.database.number(blocked).await;
        if blocked > 0 { Ok(()) } else { Err(blocked) }
    })
    .await;

    call.abort();
    one.kill().await;
    // The server would go on with the statement of a client that is gone.
    let ended = "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock') ended";
    assert!(cluster.database.number(ended).await > 0);
    lock.rollback().await.unwrap();

    assert_eq!(cluster.database.number("SELECT count(*) FROM exchanges").await, 0);
    // No exchange of the dead owner is open: it is relieved before its lease ends.
    let relieved = two.token(&expired.id).await;
    println!("the dead owner was relieved after {:?}", relieved.took);
    assert!(expired.helpdesk.accepts(relieved.access_token()));
    assert_eq!(presented(&expired.helpdesk), [Rotated]);
}

/// RF-01.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_before_the_provider_saw_anything_costs_nobody_a_reconnect() {
    let cluster = Cluster::start().await;
    let line = Line::to(cluster.sandbox.addr()).await;
    let by_line = format!("http://{}/zendesk/{{account}}", line.address());
    let setup = cluster.replica("one").with_all(&PATIENT).with("providers.zendesk.base_url_override", &by_line);
    let (one, two) = tokio::join!(setup.start(), cluster.replica("two").with_all(&PATIENT).start());
    let expired = cluster.expired(&one, "acme").await;
    line.silence();
    let call = tokio::spawn(one.token_call(&expired.id));
    within("the owner sends its request", BOUND, || async {
        if line.open() == 1 { Ok(()) } else { Err(line.ever_open()) }
    })
    .await;

    call.abort();
    one.kill().await;
    line.cut();

    assert_eq!(cluster.database.number("SELECT count(*) FROM exchanges WHERE closed_at IS NULL").await, 1);
    is_mended(&two, &expired).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_while_the_provider_rotates_leaves_a_lost_answer_and_no_refusal() {
    let cluster = Cluster::start().await;
    let (one, two) = cluster.two(&PATIENT).await;
    let expired = cluster.expired(&one, "acme").await;
    expired.helpdesk.trouble(|faults| faults.hold = true);
    let call = tokio::spawn(one.token_call(&expired.id));
    shown(&expired.helpdesk, 1).await;
    assert_eq!(presented(&expired.helpdesk), [Open]);

    call.abort();
    one.kill().await;
    expired.helpdesk.calm();

    issued(&expired.helpdesk, 2).await;
    is_lost(&two, &expired).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_with_the_new_token_unstored_leaves_a_lost_answer_and_no_refusal() {
    let cluster = Cluster::start().await;
    let line = Line::to(cluster.database.address().await).await;
    let by_line = cluster.database.url_by(line.address());
    let setup = cluster.replica("one").with_all(&PATIENT).with("database.url", by_line.as_str());
    let (one, two) = tokio::join!(setup.start(), cluster.replica("two").with_all(&PATIENT).start());
    let expired = cluster.expired(&one, "acme").await;
    expired.helpdesk.trouble(|faults| faults.hold_answers = true);
    let call = tokio::spawn(one.token_call(&expired.id));
    issued(&expired.helpdesk, 2).await;

    line.cut();
    expired.helpdesk.calm();
    one.says("could not store the rotated token", BOUND).await;
    call.abort();
    one.kill().await;

    is_lost(&two, &expired).await;
}

/// The provider takes a used token again for ten seconds: the other replica asks again at once.
#[tokio::test(flavor = "multi_thread")]
async fn inside_a_grace_a_killed_owners_answer_is_asked_for_again_by_another_replica() {
    for with_a_caller in [true, false] {
        let cluster = Cluster::start().await;
        let mut options = cluster.sandbox.options();
        options.reuse_grace_secs = 10;
        cluster.sandbox.set_options(options);
        let start = |name| {
            let setup = cluster.replica(name).with("providers.zendesk.reuse_grace_secs", "10");
            setup.with("refresh.confirm_pause_secs", "0.5").start()
        };
        let (one, two) = tokio::join!(start("one"), start("two"));
        let expired = cluster.expired(&one, "acme").await;
        expired.helpdesk.trouble(|faults| faults.hold_answers = true);
        let call = tokio::spawn(one.token_call(&expired.id));
        issued(&expired.helpdesk, 2).await;

        let killed = uptime();
        one.kill().await;
        call.abort();
        expired.helpdesk.calm();

        if with_a_caller {
            let answer = two.token(&expired.id).await;
            println!("a live token {:?} after the kill", uptime() - killed);
            assert!(expired.helpdesk.accepts(answer.access_token()));
        }
        within("the set is stored", BOUND, || async {
            let version = cluster.database.number("SELECT max(version) FROM credentials").await;
            if version == 2 { Ok(()) } else { Err(version) }
        })
        .await;
        println!("stored {:?} after the kill", uptime() - killed);
        assert!(expired.helpdesk.accepts(two.token(&expired.id).await.access_token()));
        assert_eq!(presented(&expired.helpdesk).len(), 2, "{:?}", presented(&expired.helpdesk));
        assert_eq!(two.show(&expired.id).await["health"], "connected");
    }
}

/// Without a grace, and with nobody who calls: the row is settled, and the verdict says what happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owners_exchange_is_settled_although_nobody_calls() {
    let cluster = Cluster::start().await;
    let (one, two) = cluster.two(&PATIENT).await;
    let expired = cluster.expired(&one, "acme").await;
    expired.helpdesk.trouble(|faults| faults.hold_answers = true);
    let call = tokio::spawn(one.token_call(&expired.id));
    issued(&expired.helpdesk, 2).await;

    one.kill().await;
    call.abort();
    expired.helpdesk.calm();

    let shown = within("there is a verdict", BOUND, || async {
        let shown = two.show(&expired.id).await;
        if shown["health"] == "auth_failed" { Ok(shown) } else { Err(shown) }
    })
    .await;
    assert_eq!(shown["health_reason"], "response_lost");
    assert_eq!(presented(&expired.helpdesk), [Rotated, Reused, Reused]);
}
