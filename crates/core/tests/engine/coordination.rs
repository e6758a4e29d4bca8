//! RF: lock, re-read, compare, fence, waiters.

use std::{sync::Arc, time::Duration};

use holdfast_core::{
    AuthError, Engine, Health, Need, Version,
    credential::{Fingerprint, Reason, Trouble},
    health::Effect,
    ports::{Acquired, Clock, LeaseStore, Trigger},
    refresh::OutcomeKind,
    testkit::{Fault, Op, Script},
};
use secrecy::SecretString;

use crate::{HOUR, Rig, ask, ask_token, token};

#[tokio::test(start_paused = true)]
async fn two_hundred_callers_on_two_replicas_spend_a_refresh_token_once() {
    let rig = Rig::new();
    let (one, two) = (rig.replica("a").0, rig.replica("b").0);
    let connector = rig.expired_connector("con");
    rig.endpoint.script([Script::Slow(Duration::from_millis(200))]);

    let callers = (0..200).map(|n| {
        let (engine, connector) = (if n % 2 == 0 { one.clone() } else { two.clone() }, connector.clone());
        tokio::spawn(async move { ask_token(&engine, &connector).await })
    });
    let tokens = futures::future::join_all(callers).await;

    assert!(tokens.into_iter().all(|token| token.unwrap() == "AT2"));
    assert_eq!(rig.spent(), ["RT1"]);
}

/// RF-01
#[tokio::test(start_paused = true)]
async fn a_lost_answer_blocks_nobody_until_a_restart() {
    let (rig, engine, connector) = Rig::expired();
    let broken = Script::Answer { status: 200, headers: vec![], body: "{\"access_tok".to_owned() };
    rig.endpoint.script([broken]);

    ask(&engine, &connector).await.unwrap_err();
    assert!(!rig.store.leased(&rig.store.row(&connector).credential.id));
    assert!(rig.store.journal().iter().all(Option::is_some), "no journal row says that a refresh is running");
    rig.pass(Duration::from_mins(1)).await;

    assert_eq!(ask_token(&engine, &connector).await, "AT2");
    assert_eq!(rig.endpoint.posts().len(), 2);
}

/// RF-02, RF-04
#[tokio::test(start_paused = true)]
async fn the_row_is_read_again_inside_the_lease() {
    let rig = Rig::new();
    let ((a, _), (b, faults)) = (rig.replica("a"), rig.replica("b"));
    let connector = rig.expired_connector("con");
    let (arrived, go) = faults.hold(Op::Acquire);

    let late = tokio::spawn({
        let connector = connector.clone();
        async move { ask_token(&b, &connector).await }
    });
    arrived.notified().await;
    assert_eq!(ask_token(&a, &connector).await, "AT2");
    go.notify_one();

    assert_eq!(late.await.unwrap(), "AT2");
    assert_eq!(rig.spent(), ["RT1"]);
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

/// RF-03
#[tokio::test(start_paused = true)]
async fn an_answer_slower_than_the_lease_is_given_up_before_the_lease_ends() {
    let rig = Rig::new();
    let (a, b) = (rig.replica("a").0, rig.replica("b").0);
    let connector = rig.expired_connector("con");
    let lease = rig.settings.lease;
    rig.endpoint.script([Script::After(lease + Duration::from_secs(5), Box::new(Script::json(503, &"".into())))]);

    let slow = tokio::spawn({
        let (a, connector) = (a.clone(), connector.clone());
        async move { ask(&a, &connector).await }
    });
    rig.pass(Duration::from_secs(1)).await;
    let (mut spent_while_open, mut asking) = (0, Vec::new());
    while !slow.is_finished() {
        let (b, connector) = (b.clone(), connector.clone());
        asking.push(tokio::spawn(async move { ask(&b, &connector).await }));
        spent_while_open = spent_while_open.max(rig.endpoint.posts().len());
        rig.pass(Duration::from_secs(1)).await;
    }

    assert_eq!(spent_while_open, 1, "nobody presents the token while the first request may still be open");
    for other in asking {
        other.await.unwrap().unwrap_err();
    }
    let error = slow.await.unwrap().unwrap_err();
    assert!(matches!(error, AuthError::Unavailable { class: Trouble::Ambiguous, .. }), "{error:?}");
    rig.pass(rig.settings.backoff_cap).await;
    assert_eq!(ask_token(&b, &connector).await, "AT2");
}

/// RF-05, RC-04
#[tokio::test(start_paused = true)]
async fn a_refusal_that_arrives_after_a_newer_grant_changes_nothing() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::After(Duration::from_secs(10), Box::new(Script::invalid_grant()))]);

    let late = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { ask(&engine, &connector).await }
    });
    rig.pass(Duration::from_secs(3)).await;
    rig.store.reconnect(&connector, &("AT9".to_owned(), "RT9".to_owned()), HOUR);

    assert_eq!(token(&late.await.unwrap().unwrap()), "AT9");
    assert_eq!(rig.endpoint.posts().len(), 1, "no confirming attempt with a token that is not the stored one");
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
    assert!(rig.store.effects().is_empty());
}

/// RF-07
#[tokio::test(start_paused = true)]
async fn a_provider_that_never_answers_holds_up_its_own_connector_alone() {
    let rig = Rig::new();
    let engine = rig.replica("a").0;
    let stuck = rig.expired_connector("stuck");
    let fine = rig.store.connect("fine", &("ATfine".to_owned(), "RTfine".to_owned()), HOUR);
    rig.endpoint.script([Script::Slow(HOUR)]);

    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let (engine, stuck) = (engine.clone(), stuck.clone());
            tokio::spawn(async move { ask(&engine, &stuck).await })
        })
        .collect();
    rig.pass(Duration::from_millis(10)).await;

    assert_eq!(ask_token(&engine, &fine).await, "ATfine");
    for caller in waiting {
        let error = caller.await.unwrap().unwrap_err();
        assert!(matches!(error, AuthError::Unavailable { .. }), "{error:?}");
    }
}

/// RF-08
#[tokio::test(start_paused = true)]
async fn late_rejections_of_an_old_token_trigger_no_further_refresh() {
    let rig = Rig::new();
    let engine = rig.replica("a").0;
    let connector = rig.store.connect("con", &rig.endpoint.grant(), HOUR);
    rig.endpoint.expire_access();
    let rejected = Need::Not(Fingerprint::of(&SecretString::from("AT1")));

    for _ in 0..10 {
        let snapshot = engine.fresh(&connector, &rejected, Trigger::Rejected).await.unwrap();
        assert_eq!(token(&snapshot), "AT2");
        rig.pass(Duration::from_millis(500)).await;
    }

    assert_eq!(rig.spent(), ["RT1"]);
}

/// RF-09
#[tokio::test(start_paused = true)]
async fn waiters_do_not_get_the_old_token_when_the_winner_fails() {
    let rig = Rig::new();
    let (a, b) = (rig.replica("a").0, rig.replica("b").0);
    let connector = rig.expired_connector("con");
    rig.endpoint.script([Script::After(Duration::from_secs(1), Box::new(Script::json(500, &"".into())))]);

    let (first, second) = tokio::join!(ask(&a, &connector), ask(&b, &connector));

    for result in [first, second] {
        let error = result.unwrap_err();
        assert!(matches!(&error, AuthError::Unavailable { retry_after, .. } if !retry_after.is_zero()), "{error:?}");
    }
    assert_eq!(rig.endpoint.posts().len(), 1);
}

/// RF-10
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_cuts_no_rotation_off() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::Slow(Duration::from_secs(2))]);

    let caller = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { ask(&engine, &connector).await }
    });
    rig.pass(Duration::from_millis(100)).await;
    caller.abort();
    rig.pass(Duration::from_secs(3)).await;

    assert_eq!(rig.store.row(&connector).credential.version, Version(2));
    assert_eq!(ask_token(&engine, &connector).await, "AT2");
    assert_eq!(rig.endpoint.posts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_the_rotation_under_way() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::Slow(Duration::from_secs(2))]);
    let caller = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { ask(&engine, &connector).await }
    });
    rig.pass(Duration::from_millis(100)).await;
    caller.abort();

    engine.drain().await;

    assert_eq!(rig.store.row(&connector).credential.version, Version(2));
}

/// RF-11
#[tokio::test(start_paused = true)]
async fn a_stale_holders_failure_mark_is_fenced() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    rig.endpoint.script([Script::invalid_grant(), Script::invalid_grant()]);
    let (arrived, go) = faults.hold(Op::Fail);

    let stalled = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { ask(&engine, &connector).await }
    });
    arrived.notified().await;
    rig.store.reconnect(&connector, &("AT9".to_owned(), "RT9".to_owned()), HOUR);
    go.notify_one();

    assert_eq!(token(&stalled.await.unwrap().unwrap()), "AT9");
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
    assert!(rig.store.effects().is_empty());
}

/// RF-12
#[tokio::test(start_paused = true)]
async fn a_stale_holder_releases_nothing_of_the_next_one() {
    let rig = Rig::new();
    let (_, store) = rig.replica("a");
    let connector = rig.expired_connector("con");
    let credential = rig.store.row(&connector).credential.id;
    let ttl = Duration::from_secs(30);
    let Acquired::Yes(stale) = store.acquire(&credential, "a", ttl).await.unwrap() else { panic!("it is free") };
    rig.pass(ttl + Duration::from_secs(1)).await;
    let Acquired::Yes(next) = store.acquire(&credential, "b", ttl).await.unwrap() else { panic!("it is over") };

    store.release(&stale).await.unwrap();
    assert_eq!(store.renew(&stale, ttl).await.unwrap(), None);

    assert!(matches!(store.acquire(&credential, "c", ttl).await.unwrap(), Acquired::Held { .. }));
    assert!(next.fencing_token > stale.fencing_token);
}

/// RF-13
#[tokio::test(start_paused = true)]
async fn a_failing_lease_statement_is_repeated_at_once_and_never_skipped() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    faults.fault(Op::Acquire, [Fault::Error, Fault::Error]);
    let before = rig.clock.uptime();

    assert_eq!(ask_token(&engine, &connector).await, "AT2");
    assert!(rig.clock.uptime() - before < Duration::from_secs(1));

    rig.pass(HOUR * 2).await;
    faults.fault(Op::Acquire, vec![Fault::Error; 20]);
    let error = ask(&engine, &connector).await.unwrap_err();
    assert!(matches!(error, AuthError::Unavailable { class: Trouble::Ours, .. }), "{error:?}");
    assert_eq!(rig.endpoint.posts().len(), 1, "no exchange without the lease");
}

/// LR-03
#[tokio::test(start_paused = true)]
async fn no_token_is_spent_when_the_journal_cannot_be_written() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    faults.fault(Op::Begin, [Fault::Error]);

    let error = ask(&engine, &connector).await.unwrap_err();

    assert!(matches!(error, AuthError::Unavailable { class: Trouble::Ours, .. }), "{error:?}");
    assert!(rig.endpoint.posts().is_empty());
    assert_eq!(ask_token(&engine, &connector).await, "AT2");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_cannot_be_written_is_written_later_and_keeps_nobody_out() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let other = rig.replica("b").0;
    let connector = rig.expired_connector("con");
    rig.endpoint.script([Script::invalid_grant(), Script::invalid_grant()]);
    faults.fault(Op::Fail, vec![Fault::Error; 5]);

    let error = ask(&engine, &connector).await.unwrap_err();
    assert!(matches!(error, AuthError::Unavailable { class: Trouble::Ours, .. }), "{error:?}");
    rig.pass(Duration::from_secs(30)).await;

    let error = ask(&other, &connector).await.unwrap_err();
    assert!(matches!(error, AuthError::AuthFailed { .. }), "{error:?}");
    assert!(rig.store.journal().iter().all(Option::is_some), "no row is left open");
}

#[tokio::test(start_paused = true)]
async fn a_database_that_hangs_keeps_no_caller_past_the_bound() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    let (_arrived, _never) = faults.hold(Op::Load);
    let before = rig.clock.uptime();

    let error = ask(&engine, &connector).await.unwrap_err();

    assert!(matches!(error, AuthError::Unavailable { .. }), "{error:?}");
    assert_eq!(rig.clock.uptime() - before, rig.settings.wait_bound);
}

#[tokio::test(start_paused = true)]
async fn a_rotated_token_survives_a_database_that_cannot_take_it() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let other = rig.replica("b").0;
    let connector = rig.expired_connector("con");
    faults.fault(Op::StoreRotation, vec![Fault::Error; 30]);

    let (first, second) = tokio::join!(ask(&engine, &connector), ask(&other, &connector));
    assert!(first.is_err() && second.is_err(), "callers are not kept past their bound");
    rig.pass(Duration::from_mins(3)).await;

    assert_eq!(ask_token(&other, &connector).await, "AT2");
    assert_eq!(rig.spent(), ["RT1"], "the living holder's open row kept the other replica from exchanging");
}

#[tokio::test(start_paused = true)]
async fn a_lost_owner_is_relieved_after_its_time_and_the_refusal_says_that_the_answer_was_lost() {
    let rig = Rig::new();
    let (a, faults) = rig.replica("a");
    let b = rig.replica("b").0;
    let connector = rig.expired_connector("con");
    let (arrived, _never) = faults.hold(Op::StoreRotation);
    let lost = tokio::spawn({
        let (a, connector) = (a.clone(), connector.clone());
        async move { ask(&a, &connector).await }
    });
    arrived.notified().await;
    rig.store.bury("a");

    let error = ask(&b, &connector).await.unwrap_err();
    assert!(matches!(&error, AuthError::Unavailable { retry_after, .. } if !retry_after.is_zero()), "{error:?}");
    assert_eq!(rig.spent(), ["RT1"], "nobody else exchanges while the owner may live");
    rig.pass(rig.settings.lease + rig.settings.orphan_wait).await;

    let error = ask(&b, &connector).await.unwrap_err();
    assert!(matches!(error, AuthError::AuthFailed { reason: Reason::ResponseLost, .. }), "{error:?}");
    lost.abort();
}

/// Found by the model: a slow replica settles the lost owner's row between another one's read and its own row.
#[tokio::test(start_paused = true)]
async fn a_refusal_says_that_an_answer_was_lost_even_if_that_was_noted_after_the_first_read() {
    let rig = Rig::new();
    let (a, faults) = rig.replica("a");
    let (slow, faults_of_slow) = rig.replica("slow");
    let (b, faults_of_b) = rig.replica("b");
    let connector = rig.expired_connector("con");
    let asked = |engine: &Arc<Engine>| {
        let (engine, connector) = (Arc::clone(engine), connector.clone());
        tokio::spawn(async move { ask(&engine, &connector).await })
    };
    let (arrived, _never) = faults.hold(Op::StoreRotation);
    let lost = asked(&a);
    arrived.notified().await;
    rig.store.bury("a");
    rig.pass(rig.settings.lease + rig.settings.orphan_wait).await;
    let (slow_is_about_to, let_slow_go) = faults_of_slow.hold(Op::Begin);
    let slows = asked(&slow);
    slow_is_about_to.notified().await;
    rig.pass(rig.settings.lease).await;
    let (b_is_about_to, let_b_go) = faults_of_b.hold(Op::Begin);
    let bs = asked(&b);
    b_is_about_to.notified().await;

    let_slow_go.notify_one();
    wait_for(|| rig.store.row(&connector).credential.answer_lost).await;
    let_b_go.notify_one();

    let error = bs.await.unwrap().unwrap_err();
    assert!(matches!(error, AuthError::AuthFailed { reason: Reason::ResponseLost, .. }), "{error:?}");
    lost.abort();
    slows.abort();
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_died_before_its_exchange_costs_a_lease_and_nothing_else() {
    let mut rig = Rig::new();
    rig.settings.lease = Duration::from_secs(6);
    rig.settings.exchange_timeout = Duration::from_secs(3);
    let (_, store) = rig.replica("dead");
    let b = rig.replica("b").0;
    let connector = rig.expired_connector("con");
    let credential = rig.store.row(&connector).credential.id;
    store.acquire(&credential, "dead", rig.settings.lease).await.unwrap();
    rig.store.bury("dead");

    assert_eq!(ask_token(&b, &connector).await, "AT2");
    assert_eq!(rig.spent(), ["RT1"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_success_after_a_failure_mark_is_stored_and_heals_once_its_test_call_passes() {
    let rig = Rig::new();
    let (a, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    let (arrived, go) = faults.hold(Op::StoreRotation);
    let late = tokio::spawn({
        let (a, connector) = (a.clone(), connector.clone());
        async move { ask(&a, &connector).await }
    });
    arrived.notified().await;
    rig.store.change(&connector, |row| row.health = Health::AuthFailed);
    go.notify_one();

    assert_eq!(token(&late.await.unwrap().unwrap()), "AT2");
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
    assert!(rig.store.effects().iter().any(|(_, _, effect)| *effect == Effect::MailRecovery));
    assert_eq!(rig.endpoint.calls(), ["AT2"], "the test call was made with the new token");
}

/// RC-05
#[tokio::test(start_paused = true)]
async fn a_rotation_of_a_connector_that_was_disconnected_meanwhile_is_discarded() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::Slow(Duration::from_secs(5))]);
    let caller = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { ask(&engine, &connector).await }
    });
    rig.pass(Duration::from_secs(1)).await;
    rig.store.disconnect(&connector);

    assert_eq!(caller.await.unwrap().unwrap_err(), AuthError::Disconnected);
    assert!(rig.store.row(&connector).credential.secret.bearer().is_none());
    assert_eq!(rig.store.journal(), [Some((OutcomeKind::Discarded, 1))]);
}

#[tokio::test(start_paused = true)]
async fn memory_is_not_trusted_while_signals_may_be_missed() {
    let rig = Rig::new();
    let (engine, signals) = rig.replica("a");
    let connector = rig.store.connect("con", &("AT1".to_owned(), "RT1".to_owned()), HOUR);
    assert_eq!(ask_token(&engine, &connector).await, "AT1");
    signals.set_deaf(true);
    rig.store.reconnect(&connector, &("AT9".to_owned(), "RT9".to_owned()), HOUR);

    assert_eq!(ask_token(&engine, &connector).await, "AT9");
    assert_eq!(ask_token(&engine, &connector).await, "AT9");
    rig.store.change_unheard(&connector, |row| row.health = Health::Disconnected);
    signals.set_deaf(false);
    let error = ask(&engine, &connector).await.unwrap_err();
    assert_eq!(error, AuthError::Disconnected, "what was remembered before the silence is void");
}

#[tokio::test(start_paused = true)]
async fn the_hot_path_asks_nobody() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.store.connect("con", &("AT1".to_owned(), "RT1".to_owned()), HOUR);
    ask_token(&engine, &connector).await;
    for op in [Op::Load, Op::Acquire, Op::Begin] {
        faults.fault(op, [Fault::Panic]);
    }

    for _ in 0..100 {
        assert_eq!(ask_token(&engine, &connector).await, "AT1");
    }
}

/// HL-07
#[tokio::test(start_paused = true)]
async fn a_panic_of_ours_is_nobodys_verdict() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.store.connect("con", &rig.endpoint.grant(), HOUR);
    rig.store.change(&connector, |row| row.credential.due_at = Some(row.health_since));
    rig.endpoint.script([Script::invalid_grant()]);
    let served = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { engine.fresh(&connector, &Need::Ahead, Trigger::Schedule).await }
    });
    rig.pass(Duration::from_secs(1)).await;
    faults.fault(Op::Load, [Fault::Panic]);

    let served = served.await.unwrap();

    assert_eq!(token(&served.unwrap()), "AT1", "the token that still lives is served");
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
    assert_eq!(rig.store.journal(), [Some((OutcomeKind::Internal, 1))]);
    assert!(!rig.store.leased(&rig.store.row(&connector).credential.id));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_connector_is_not_found_and_not_remembered() {
    let rig = Rig::new();
    let engine = rig.replica("a").0;

    let error = ask(&engine, &"nobody".into()).await.unwrap_err();

    assert_eq!(error, AuthError::NotFound);
    let connector = rig.store.connect("nobody", &("AT1".to_owned(), "RT1".to_owned()), HOUR);
    assert_eq!(ask_token(&engine, &connector).await, "AT1");
}

async fn wait_for(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}
