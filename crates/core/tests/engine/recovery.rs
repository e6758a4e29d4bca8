//! Owners that are gone: early relief, grace replay, second answers, rows for which nobody calls; and lost answers (LR).

use std::{sync::Arc, time::Duration};

use holdfast_core::{
    AuthError, ConnectorId, Engine, Health, Snapshot, Version,
    credential::{Reason, Trouble},
    ports::{Acquired, Clock, LeaseStore},
    refresh::OutcomeKind,
    testkit::{FakeProvider, Fault, Op, Script},
};
use serde_json::json;
use tokio::{sync::Notify, task::JoinHandle};

use crate::{HOUR, Rig, ask, ask_token, refresh_due, token};

/// Replica `a` is stopped with its answer at hand, and gives no sign of life.
struct Stopped {
    connector: ConnectorId,
    go: Arc<Notify>,
    asked: JoinHandle<Result<Arc<Snapshot>, AuthError>>,
}

async fn stopped(rig: &Rig) -> Stopped {
    let (a, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    let (arrived, go) = faults.hold(Op::StoreRotation);
    rig.boat("a").set_full(true);
    let asked = tokio::spawn({
        let connector = connector.clone();
        async move { ask(&a, &connector).await }
    });
    arrived.notified().await;
    rig.store.bury("a");
    Stopped { connector, go, asked }
}

fn is_lost(told: &Result<Arc<Snapshot>, AuthError>) -> bool {
    matches!(told, Err(AuthError::AuthFailed { reason: Reason::ResponseLost, .. }))
}

#[tokio::test(start_paused = true)]
async fn inside_a_grace_another_replica_replays_the_token_of_a_dead_owner() {
    let rig = Rig::with_grace(true);
    let stopped = stopped(&rig).await;
    let b = rig.replica("b").0;
    let before = rig.clock.uptime();

    assert_eq!(ask_token(&b, &stopped.connector).await, "AT3");

    let took = rig.clock.uptime() - before;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(rig.spent(), ["RT1", "RT1"]);
    assert_eq!(rig.store.row(&stopped.connector).health, Health::Connected);
    assert!(rig.store.effects().is_empty());
}

/// The owner only stood still: its answer is the second one to be stored, and may be the one that counts.
#[tokio::test(start_paused = true)]
async fn the_second_answer_to_a_token_is_tried_before_a_verdict() {
    for second_works in [true, false] {
        let rig = Rig::with_grace(!second_works);
        let stopped = stopped(&rig).await;
        let b = rig.replica("b").0;
        assert_eq!(ask_token(&b, &stopped.connector).await, "AT3");
        stopped.go.notify_one();
        assert_eq!(token(&stopped.asked.await.unwrap().unwrap()), "AT3", "what is stored is what is served");
        rig.pass(HOUR * 2).await;
        if !second_works {
            rig.endpoint.revoke();
        }

        let told = ask(&b, &stopped.connector).await;

        if second_works {
            assert_eq!(token(&told.unwrap()), "AT4");
            assert_eq!(rig.spent(), ["RT1", "RT1", "RT3", "RT3", "RT2"]);
            assert_eq!(rig.store.row(&stopped.connector).credential.version, Version(3));
            assert!(rig.store.effects().is_empty());
        } else {
            assert!(matches!(told, Err(AuthError::AuthFailed { reason: Reason::RefreshRefused, .. })), "{told:?}");
            assert_eq!(rig.spent(), ["RT1", "RT1", "RT3", "RT3", "RT2"], "each once, and the refusal confirmed");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_meanwhile_leaves_no_second_answer() {
    let rig = Rig::with_grace(true);
    let stopped = stopped(&rig).await;
    rig.store.reconnect(&stopped.connector, &rig.endpoint.grant(), HOUR);
    stopped.go.notify_one();
    stopped.asked.await.unwrap().unwrap();
    let b = rig.replica("b").0;
    rig.endpoint.revoke();
    rig.pass(HOUR * 2).await;

    ask(&b, &stopped.connector).await.unwrap_err();

    assert_eq!(rig.spent(), ["RT1", "RT3", "RT3"], "the old grant's set is no part of the new grant");
}

#[tokio::test(start_paused = true)]
async fn without_a_grace_a_dead_owners_time_is_told_at_once_and_then_the_answer_was_lost() {
    let rig = Rig::new();
    let stopped = stopped(&rig).await;
    let b = rig.replica("b").0;
    let before = rig.clock.uptime();

    let told = ask(&b, &stopped.connector).await;

    let Err(AuthError::Unavailable { class: Trouble::Ambiguous, retry_after, .. }) = told else { panic!("{told:?}") };
    assert!(rig.clock.uptime() - before < Duration::from_secs(3), "at once");
    assert_eq!(rig.spent(), ["RT1"]);
    rig.pass(retry_after).await;
    assert!(is_lost(&ask(&b, &stopped.connector).await));
    let took = rig.clock.uptime() - before;
    assert!(took < rig.settings.lease + rig.settings.orphan_wait + Duration::from_secs(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_died_before_its_exchange_is_relieved_before_its_lease_ends() {
    let rig = Rig::new();
    let (_, store) = rig.replica("dead");
    let b = rig.replica("b").0;
    let connector = rig.expired_connector("con");
    let credential = rig.store.row(&connector).credential.id;
    let Acquired::Yes(lease) = store.acquire(&credential, "dead", rig.settings.lease).await.unwrap() else { panic!() };
    rig.store.bury("dead");
    let before = rig.clock.uptime();

    assert_eq!(ask_token(&b, &connector).await, "AT2");

    assert!(rig.clock.uptime() - before < Duration::from_secs(3));
    assert_eq!(store.renew(&lease, rig.settings.lease).await.unwrap(), None, "should it live, it cannot go on");
}

/// A cut line is no death: whoever lives, and has an exchange open, is waited for, whatever its lease.
#[tokio::test(start_paused = true)]
async fn an_owner_that_is_cut_off_and_lives_is_not_relieved() {
    let rig = Rig::new();
    let (a, faults) = rig.replica("a");
    let b = rig.replica("b").0;
    let connector = rig.expired_connector("con");
    let (arrived, go) = faults.hold(Op::StoreRotation);
    let asked = tokio::spawn({
        let connector = connector.clone();
        async move { ask(&a, &connector).await }
    });
    arrived.notified().await;
    rig.store.cut_off("a", true);

    for _ in 0..3 {
        let told = ask(&b, &connector).await;
        assert!(matches!(told, Err(AuthError::Unavailable { .. })), "{told:?}");
        assert_eq!(b.settle_lost().await.unwrap(), 0);
        rig.pass(rig.settings.lease).await;
    }

    assert_eq!(rig.spent(), ["RT1"]);
    rig.store.cut_off("a", false);
    go.notify_one();
    // Its caller has gone past its bound; the token is stored all the same.
    let _past = asked.await.unwrap();
    assert_eq!(ask_token(&b, &connector).await, "AT2");
}

/// A line that was lost for a moment is no reason for anything.
#[tokio::test(start_paused = true)]
async fn a_line_that_was_away_for_a_moment_relieves_nobody() {
    let rig = Rig::with_grace(true);
    let (a, b) = (rig.replica("a").0, rig.replica("b").0);
    let connector = rig.expired_connector("con");
    rig.endpoint.script([Script::Slow(Duration::from_secs(4))]);
    let first = tokio::spawn({
        let connector = connector.clone();
        async move { ask_token(&a, &connector).await }
    });
    rig.pass(Duration::from_millis(100)).await;
    rig.store.cut_off("a", true);
    let second = tokio::spawn({
        let connector = connector.clone();
        async move { ask_token(&b, &connector).await }
    });
    rig.pass(Duration::from_millis(1100)).await;
    rig.store.cut_off("a", false);

    assert_eq!((first.await.unwrap().as_str(), second.await.unwrap().as_str()), ("AT2", "AT2"));
    assert_eq!(rig.spent(), ["RT1"]);
}

async fn settled(rig: &Rig, b: &Arc<Engine>) {
    rig.pass(rig.settings.lease + rig.settings.orphan_wait).await;
    assert_eq!(b.settle_lost().await.unwrap(), 1);
    assert_eq!(b.settle_lost().await.unwrap(), 0, "once");
    assert!(rig.store.journal().iter().all(Option::is_some));
}

#[tokio::test(start_paused = true)]
async fn a_lost_owners_row_is_settled_when_no_caller_comes() {
    let rig = Rig::new();
    let stopped = stopped(&rig).await;
    let b = rig.replica("b").0;
    assert_eq!(b.settle_lost().await.unwrap(), 0, "not before its time");
    assert_eq!(rig.store.journal(), [None]);

    settled(&rig, &b).await;

    let row = rig.store.row(&stopped.connector);
    assert_eq!((row.health, row.health_reason), (Health::AuthFailed, Some(Reason::ResponseLost)));
    assert_eq!(rig.spent(), ["RT1"; 3]);

    // While the access token lives, haste gains nothing.
    let rig = Rig::new();
    let stopped = self::stopped(&rig).await;
    let b = rig.replica("b").0;
    rig.store.change(&stopped.connector, |row| {
        if let holdfast_core::Secret::Tokens(tokens) = &mut row.credential.secret {
            tokens.expires_at = Some(tokens.obtained_at + HOUR);
        }
    });
    settled(&rig, &b).await;
    let row = rig.store.row(&stopped.connector);
    assert!(row.credential.answer_lost);
    assert_eq!((row.health, rig.spent().len()), (Health::Connected, 1));
}

/// Found by torture: the database's last commits were lost with it, the closing of a living replica's row among them, and
/// everybody waited for that replica for ever.
#[tokio::test(start_paused = true)]
async fn a_row_whose_closing_the_database_forgot_is_settled_by_its_own_replica() {
    for a_caller_comes in [true, false] {
        let (rig, a, connector) = Rig::expired();
        rig.endpoint.script([Script::Answer { status: 503, headers: vec![], body: String::new() }]);
        ask(&a, &connector).await.unwrap_err();
        rig.store.forget_last_exchange(&connector);
        rig.pass(rig.settings.lease + rig.settings.backoff_cap).await;
        let b = rig.replica("b").0;
        assert_eq!(b.settle_lost().await.unwrap(), 0, "its owner lives");

        if a_caller_comes {
            assert_eq!(ask_token(&a, &connector).await, "AT2");
        } else {
            assert_eq!(a.settle_lost().await.unwrap(), 1);
        }

        assert_eq!(ask_token(&b, &connector).await, "AT2");
        let outcomes: Vec<_> = rig.store.journal().into_iter().flatten().map(|(outcome, _)| outcome).collect();
        assert_eq!(outcomes, [OutcomeKind::OwnerLost, OutcomeKind::Rotated]);
    }
}

/// The same of a row that brought a token set: that is gone with the commit, and the provider's refusal is no "revoked".
#[tokio::test(start_paused = true)]
async fn a_token_set_that_the_database_forgot_is_a_lost_answer() {
    let (rig, a, connector) = Rig::expired();
    let before = rig.store.row(&connector).credential.secret;
    assert_eq!(ask_token(&a, &connector).await, "AT2");
    rig.store.forget_last_exchange(&connector);
    rig.store.change(&connector, |row| row.credential.secret = before.clone());
    rig.pass(rig.settings.lease).await;

    assert!(is_lost(&ask(&a, &connector).await));
}

/// What a flight still works on is nobody's to settle, not even its own replica's, however long it takes.
#[tokio::test(start_paused = true)]
async fn a_row_that_is_worked_on_is_not_settled_by_its_own_replica() {
    for (op, script) in [
        (Op::StoreRotation, None),
        (Op::Close, Some(Script::Answer { status: 503, headers: vec![], body: String::new() })),
        (Op::Fail, Some(Script::json(400, &json!({"error": "invalid_grant"})))),
    ] {
        let rig = Rig::new();
        let (a, faults) = rig.replica("a");
        let connector = rig.expired_connector("con");
        rig.endpoint.script(vec![script; 3].into_iter().flatten());
        faults.fault(op, vec![Fault::Error; 3]);
        let (arrived, go) = faults.hold(op);
        let asked = tokio::spawn({
            let (a, connector) = (a.clone(), connector.clone());
            async move { ask(&a, &connector).await }
        });
        arrived.notified().await;
        rig.pass(rig.settings.lease * 2).await;

        assert_eq!(a.settle_lost().await.unwrap(), 0, "{op:?}");

        go.notify_one();
        let _told = asked.await.unwrap();
        rig.pass(Duration::from_secs(5)).await;
        assert!(
            rig.store.journal().iter().all(|row| row.is_some_and(|(outcome, _)| outcome != OutcomeKind::OwnerLost))
        );
    }
}

/// The row is settled by somebody else between our look at the credential and our own row.
#[tokio::test(start_paused = true)]
async fn a_row_that_is_settled_in_between_is_no_reason_to_call_a_lost_answer_a_refusal() {
    let rig = Rig::new();
    let stopped = stopped(&rig).await;
    rig.pass(rig.settings.lease + rig.settings.orphan_wait).await;
    let ((b, faults), c) = (rig.replica("b"), rig.replica("c").0);
    let (arrived, go) = faults.hold(Op::Begin);
    let told = tokio::spawn({
        let connector = stopped.connector.clone();
        async move { ask(&b, &connector).await }
    });
    arrived.notified().await;
    let settled = tokio::spawn(async move { c.settle_lost().await });
    rig.pass(Duration::from_millis(10)).await;
    assert!(rig.store.journal().iter().all(Option::is_some));
    go.notify_one();

    let told = told.await.unwrap();

    assert!(is_lost(&told), "{told:?}");
    assert_eq!(settled.await.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_owners_token_is_replayed_inside_the_grace_when_no_caller_comes() {
    let rig = Rig::with_grace(true);
    let stopped = stopped(&rig).await;
    let b = rig.replica("b").0;
    let before = rig.clock.uptime();

    assert_eq!(b.settle_lost().await.unwrap(), 1);

    assert!(rig.clock.uptime() - before < Duration::from_secs(5));
    assert_eq!(token(&rig.store.row(&stopped.connector)), "AT3");
    let outcomes: Vec<_> = rig.store.journal().into_iter().flatten().map(|(outcome, _)| outcome).collect();
    assert_eq!(outcomes, [OutcomeKind::OwnerLost, OutcomeKind::Rotated]);
}

/// LR-01
#[tokio::test(start_paused = true)]
async fn a_gateway_error_after_the_rotation_is_a_lost_answer_once_the_old_token_is_over() {
    let mut rig = Rig::new();
    let mut provider = FakeProvider::new();
    provider.facts.rejected_codes = vec!["invalid_request".to_owned()];
    rig.provider = Arc::new(provider);
    let engine = rig.replica("a").0;
    let connector = rig.store.connect("con", &rig.endpoint.grant(), HOUR);
    rig.pass(Duration::from_mins(52)).await;
    rig.store.change(&connector, |row| row.credential.due_at = Some(row.health_since));
    let gateway = Script::Answer { status: 520, headers: vec![], body: "error code: 520".to_owned() };
    let refused = Script::json(401, &json!({"error": "invalid_request"}));
    rig.endpoint.script([gateway].into_iter().chain(vec![refused; 1000]));

    while rig.clock.now() < rig.store.row(&connector).credential.secret.tokens().unwrap().expires_at.unwrap() {
        refresh_due(&rig, &engine).await;
        assert_eq!(ask_token(&engine, &connector).await, "AT1");
        assert_eq!(rig.store.row(&connector).health, Health::Connected);
        rig.pass(Duration::from_secs(5)).await;
    }
    rig.pass(Duration::from_secs(5)).await;
    assert!(is_lost(&ask(&engine, &connector).await));

    let mails =
        rig.store.effects().into_iter().filter(|(_, _, effect)| *effect == holdfast_core::health::Effect::MailAdmins);
    assert_eq!(mails.count(), 1);
    let attempts = rig.endpoint.posts().len();
    assert!(attempts <= 9, "{attempts} attempts");
    rig.pass(HOUR).await;
    refresh_due(&rig, &engine).await;
    assert_eq!(rig.endpoint.posts().len(), attempts, "attempts have stopped");
}

/// LR-02
#[tokio::test(start_paused = true)]
async fn a_gateway_that_times_out_three_times_costs_nobody_a_reconnect() {
    let (rig, engine, connector) = Rig::expired();
    let slow = Script::Answer {
        status: 504,
        headers: vec![("content-type", "text/html".to_owned())],
        body: "<html><h1>504 Gateway Time-out</h1></html>".to_owned(),
    };
    rig.endpoint.script(vec![slow; 3]);

    let mut refused = 0;
    let token = loop {
        match ask(&engine, &connector).await {
            Ok(snapshot) => break token(&snapshot).to_owned(),
            Err(AuthError::Unavailable { retry_after, .. }) => {
                assert!(!retry_after.is_zero());
                refused += 1;
                rig.pass(retry_after).await;
            }
            Err(error) => panic!("{error:?}"),
        }
        assert_eq!(rig.store.row(&connector).health, Health::Connected);
    };

    assert_eq!((token.as_str(), refused), ("AT2", 3));
    assert!(rig.store.effects().is_empty());
    assert!(rig.store.row(&connector).credential.degraded.is_none());
}
