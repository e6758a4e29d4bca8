//! LR-06: a token that never ends is exchanged, once, for one that is renewed.

use std::time::Duration;

use futures::future::join_all;
use holdfast_core::{
    ApiClient, AuthError, Health, Need, Secret,
    credential::{Fingerprint, Reason},
    ports::Trigger,
    testkit::{Fault, Op},
};
use holdfast_sandbox::Canned;
use secrecy::ExposeSecret;
use serde_json::json;

use crate::rig::Rig;

const SOON: Need = Need::ValidFor(Duration::from_mins(1));

fn text(secret: &Secret) -> String {
    secret.tokens().unwrap().access_token.expose_secret().to_owned()
}

#[tokio::test]
async fn many_callers_of_two_replicas_exchange_an_endless_token_once() {
    let rig = Rig::start().await;
    let connector = rig.import_endless();
    let old = text(&rig.store.row(&connector).credential.secret);
    let other = rig.second();

    let callers = (0..20).map(|number| {
        let engine = if number % 2 == 0 { &rig.engine } else { &other };
        engine.fresh(&connector, &SOON, Trigger::Caller)
    });
    let served = join_all(callers).await;

    let row = rig.store.row(&connector);
    let tokens = row.credential.secret.tokens().unwrap();
    for snapshot in served {
        assert_eq!(text(&snapshot.unwrap().credential.secret), text(&row.credential.secret));
    }
    assert_eq!((rig.acme.counters().rotations, rig.acme.counters().replays), (1, 0));
    assert!(tokens.refresh_token.is_some() && tokens.life().unwrap().num_seconds() == 3600);
    assert!(!rig.acme.accepts(&old) && rig.acme.accepts(&text(&row.credential.secret)));
    // From now on it is one like any other.
    rig.clock.advance(Duration::from_mins(61));
    rig.sandbox.advance(Duration::from_mins(61));
    rig.engine.fresh(&connector, &SOON, Trigger::Caller).await.unwrap();
    assert_eq!((rig.acme.counters().rotations, rig.acme.counters().exchanges), (2, 1));
}

#[tokio::test]
async fn a_database_that_does_not_take_the_pair_is_tried_until_it_does() {
    let rig = Rig::start().await;
    let connector = rig.import_endless();
    rig.replica.fault(Op::StoreRotation, [Fault::Error, Fault::Error, Fault::Error]);
    let other = rig.second();

    let (one, two, ()) = tokio::join!(
        rig.engine.fresh(&connector, &SOON, Trigger::Caller),
        other.fresh(&connector, &SOON, Trigger::Caller),
        rig.pass(10),
    );

    assert!(rig.acme.accepts(&text(&one.unwrap().credential.secret)));
    assert!(rig.acme.accepts(&text(&two.unwrap().credential.secret)));
    assert_eq!((rig.acme.counters().rotations, rig.acme.counters().replays), (1, 0));
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_until_it_comes() {
    let rig = Rig::start().await;
    let connector = rig.import_endless();
    let old = rig.store.row(&connector).credential.secret.tokens().unwrap().access_token.clone();
    // The first, and the one that is sent at once after it.
    rig.acme.trouble(|faults| faults.lose_next_answer = 2);
    rig.engine.fresh(&connector, &SOON, Trigger::Caller).await.unwrap();
    assert!(!rig.acme.accepts(old.expose_secret()), "it is dead, and nobody knows");

    // Somebody finds out before the next attempt, and that is no verdict.
    let rejected = Need::Not(Fingerprint::of(&old));
    rig.engine.fresh(&connector, &rejected, Trigger::Rejected).await.unwrap_err();
    assert_eq!(rig.store.row(&connector).health, Health::Connected);

    rig.clock.advance(Duration::from_mins(30));
    rig.sandbox.advance(Duration::from_mins(30));
    let fresh = rig.engine.fresh(&connector, &rejected, Trigger::Rejected).await.unwrap();

    assert!(rig.acme.accepts(&text(&fresh.credential.secret)));
    assert_eq!((rig.acme.counters().rotations, rig.acme.counters().replays), (1, 2));
}

#[tokio::test]
async fn an_answer_that_is_lost_for_good_needs_a_person_and_is_no_loop() {
    let rig = Rig::start().await;
    let connector = rig.import_endless();
    rig.acme.trouble(|faults| faults.lose_next_answer = 2);
    rig.engine.fresh(&connector, &SOON, Trigger::Caller).await.unwrap();
    rig.clock.advance(Duration::from_hours(8 * 24));
    rig.sandbox.advance(Duration::from_hours(8 * 24));

    let (error, ()) = tokio::join!(rig.engine.fresh(&connector, &SOON, Trigger::Caller), rig.pass(8));

    error.unwrap_err();
    let row = rig.store.row(&connector);
    assert_eq!((row.health, row.health_reason), (Health::AuthFailed, Some(Reason::ResponseLost)));
    let presented = rig.acme.counters().code_exchanges + rig.acme.counters().api_calls;
    rig.engine.fresh(&connector, &SOON, Trigger::Caller).await.unwrap_err();
    assert_eq!(rig.acme.counters().code_exchanges + rig.acme.counters().api_calls, presented, "nothing more is tried");
}

#[tokio::test]
async fn a_token_that_is_not_exchanged_and_works_goes_on_working() {
    let rig = Rig::start().await;
    let connector = rig.import_endless();
    let old = text(&rig.store.row(&connector).credential.secret);
    let refusal = Canned::new(400, json!({"error": "invalid_subject_token"}).to_string());
    rig.acme.trouble(|faults| faults.token_answer = Some(refusal));
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();

    let (read, ()) = tokio::join!(rig.call(&api, "search_products", json!({})), rig.pass(8));

    read.unwrap();
    let row = rig.store.row(&connector);
    assert_eq!((row.health, text(&row.credential.secret)), (Health::Connected, old));
    // And it is not asked for with each call.
    rig.acme.calm();
    rig.call(&api, "search_products", json!({})).await.unwrap();
    assert_eq!(rig.acme.counters().rotations, 0);
}

#[tokio::test]
async fn a_token_that_is_neither_exchanged_nor_works_needs_a_person() {
    let rig = Rig::start().await;
    let connector = rig.import_endless();
    rig.acme.uninstall();

    let (error, ()) = tokio::join!(rig.engine.fresh(&connector, &SOON, Trigger::Caller), rig.pass(8));

    error.unwrap_err();
    let row = rig.store.row(&connector);
    assert_eq!((row.health, row.health_reason), (Health::AuthFailed, Some(Reason::RefreshRefused)));
}

#[tokio::test]
async fn a_rejected_token_is_proven_where_there_is_no_app_to_exchange_it() {
    let rig = Rig::start().await;
    let connector = rig.import_endless();
    let bare = rig.without_app();
    let token = rig.store.row(&connector).credential.secret.tokens().unwrap().access_token.clone();
    let rejected = Need::Not(Fingerprint::of(&token));

    bare.fresh(&connector, &SOON, Trigger::Caller).await.unwrap();
    let good = bare.fresh(&connector, &rejected, Trigger::Rejected).await.unwrap_err();
    assert_eq!((good, rig.store.row(&connector).health), (AuthError::StillGood, Health::Connected));

    rig.acme.uninstall();
    let dead = bare.fresh(&connector, &rejected, Trigger::Rejected).await.unwrap_err();
    assert!(matches!(dead, AuthError::AuthFailed { .. }), "{dead:?}");
    let row = rig.store.row(&connector);
    assert_eq!((row.health, row.health_reason), (Health::AuthFailed, Some(Reason::AccessRefused)));
}

#[tokio::test]
async fn a_token_that_is_rejected_while_its_exchange_rests_is_proven() {
    let rig = Rig::start().await;
    let connector = rig.import_endless();
    let token = rig.store.row(&connector).credential.secret.tokens().unwrap().access_token.clone();
    let rejected = Need::Not(Fingerprint::of(&token));
    rig.acme.trouble(|faults| faults.token_answer = Some(Canned::new(429, "").header("Retry-After", "60")));
    rig.engine.fresh(&connector, &SOON, Trigger::Caller).await.unwrap();
    assert!(rig.store.row(&connector).credential.backoff.failures > 0, "the exchange rests");

    let good = rig.engine.fresh(&connector, &rejected, Trigger::Rejected).await.unwrap_err();
    assert_eq!((good, rig.store.row(&connector).health), (AuthError::StillGood, Health::Connected));

    rig.acme.uninstall();
    rig.engine.fresh(&connector, &rejected, Trigger::Rejected).await.unwrap_err();
    let row = rig.store.row(&connector);
    assert_eq!((row.health, row.health_reason), (Health::AuthFailed, Some(Reason::AccessRefused)));
}
