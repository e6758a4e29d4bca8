//! The lifeboat: what the database cannot take survives a crash, and is stored as a fresh answer would be.

use std::{collections::HashSet, sync::Arc, time::Duration};

use holdfast_core::{
    AuthError, ConnectorId, Engine, Health, Version,
    credential::Trouble,
    health::Effect,
    ports::Clock,
    provider::Revoke,
    refresh::OutcomeKind,
    testkit::{FakeProvider, Fault, Op, Replica, Script},
};
use serde_json::json;

use crate::{HOUR, Rig, ask, ask_token, refresh_due, token};

/// Far more than a test needs.
const ALWAYS: usize = 10_000;

/// A rig whose replica `a` has a new set that its database does not take; `a` is gone for good then.
async fn wrecked() -> (Rig, ConnectorId) {
    let mut rig = Rig::new();
    let mut provider = FakeProvider::new();
    let url = "https://acme.fake.test/current".parse().unwrap();
    provider.facts.revoke = Some(Revoke::Bearer { method: http::Method::DELETE, url });
    rig.provider = Arc::new(provider);
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    faults.fault(Op::StoreRotation, vec![Fault::Error; ALWAYS]);
    let error = ask(&engine, &connector).await.unwrap_err();
    assert!(matches!(error, AuthError::Unavailable { .. }), "{error:?}");
    assert_eq!(rig.boat("a").len(), 1);
    (rig, connector)
}

/// The machine of `a` starts again.
fn again(rig: &Rig) -> (Arc<Engine>, Arc<Replica>) {
    rig.store.bury("a");
    let replica = rig.store.replica();
    (rig.on("b", "a", replica.clone()), replica)
}

#[tokio::test(start_paused = true)]
async fn a_set_that_the_database_takes_at_once_never_goes_into_the_lifeboat() {
    let (rig, engine, connector) = Rig::expired();
    rig.boat("a").set_full(true);

    assert_eq!(ask_token(&engine, &connector).await, "AT2");

    assert!(rig.boat("a").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_set_that_the_database_does_not_take_is_kept_until_it_is_stored() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    faults.fault(Op::StoreRotation, vec![Fault::Error; 6]);
    let asked = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { ask_token(&engine, &connector).await }
    });
    rig.pass(Duration::from_millis(100)).await;
    assert_eq!(rig.boat("a").len(), 1, "at once after the first failure");

    assert_eq!(asked.await.unwrap(), "AT2");

    engine.drain().await;
    assert!(rig.boat("a").is_empty());
    assert_eq!(rig.spent(), ["RT1"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_answered_soon_is_doubted() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    let (arrived, go) = faults.hold(Op::StoreRotation);
    let asked = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { ask_token(&engine, &connector).await }
    });
    arrived.notified().await;
    assert!(rig.boat("a").is_empty());
    rig.pass(Duration::from_secs(1)).await;
    assert_eq!(rig.boat("a").len(), 1);

    go.notify_one();

    assert_eq!(asked.await.unwrap(), "AT2");
    engine.drain().await;
    assert!(rig.boat("a").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lifeboat_that_was_full_takes_the_set_as_soon_as_there_is_room() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    rig.boat("a").set_full(true);
    faults.fault(Op::StoreRotation, vec![Fault::Error; ALWAYS]);
    ask(&engine, &connector).await.unwrap_err();
    assert!(rig.boat("a").is_empty());
    rig.boat("a").set_full(false);
    rig.pass(Duration::from_secs(5)).await;
    assert_eq!(rig.boat("a").len(), 1, "as soon as there is room");
}

/// LR-07: a panic in our own storing step is one more failure of it.
#[tokio::test(start_paused = true)]
async fn a_panic_while_storing_loses_no_set() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    faults.fault(Op::StoreRotation, vec![Fault::Panic; 3]);

    assert_eq!(ask_token(&engine, &connector).await, "AT2");

    assert_eq!(rig.store.journal(), [Some((OutcomeKind::Rotated, 1))]);
    engine.drain().await;
    assert!(rig.boat("a").is_empty());
}

/// I5
#[tokio::test(start_paused = true)]
async fn a_set_in_the_lifeboat_is_stored_before_the_next_lease_and_closes_the_open_row() {
    let (rig, connector) = wrecked().await;
    let (engine, _) = again(&rig);
    assert_eq!(rig.store.journal(), [None], "the dead owner's row is open");

    assert_eq!(engine.empty_lifeboat().await.unwrap(), 0);

    assert_eq!(rig.store.row(&connector).credential.version, Version(2));
    assert_eq!(rig.store.journal(), [Some((OutcomeKind::Rotated, 1))]);
    assert_eq!(ask_token(&engine, &connector).await, "AT2");
    assert_eq!(rig.spent(), ["RT1"]);
    assert!(rig.boat("a").is_empty());
}

/// Nobody has to empty it first: the first lease does.
#[tokio::test(start_paused = true)]
async fn the_first_caller_after_a_crash_gets_the_token_of_the_lifeboat() {
    let (rig, connector) = wrecked().await;
    let (engine, _) = again(&rig);

    assert_eq!(ask_token(&engine, &connector).await, "AT2");

    assert_eq!(rig.spent(), ["RT1"], "no lease was taken with the spent token");
}

#[tokio::test(start_paused = true)]
async fn with_a_set_in_the_lifeboat_its_credential_is_not_exchanged_and_others_are() {
    let (rig, connector) = wrecked().await;
    let (engine, faults) = again(&rig);
    let other = rig.expired_connector("other");
    rig.pass(HOUR).await;
    faults.fault(Op::StoreRotation, vec![Fault::Error; 2]);

    let error = ask(&engine, &connector).await.unwrap_err();

    assert!(matches!(error, AuthError::Unavailable { class: Trouble::Ours, .. }), "{error:?}");
    assert_eq!(rig.spent(), ["RT1"]);
    faults.forget(Op::StoreRotation);
    ask(&engine, &other).await.unwrap();
    assert_eq!(rig.store.row(&connector).credential.version, Version(1), "nobody has asked for it again");
    assert_eq!(engine.empty_lifeboat().await.unwrap(), 0);
    assert_eq!(rig.store.row(&connector).credential.version, Version(2));
}

/// I2
#[tokio::test(start_paused = true)]
async fn a_reconnect_meanwhile_is_not_replaced_by_the_lifeboat() {
    let (rig, connector) = wrecked().await;
    rig.store.reconnect(&connector, &("AT9".to_owned(), "RT9".to_owned()), HOUR);
    let (engine, _) = again(&rig);

    engine.empty_lifeboat().await.unwrap();

    assert_eq!(ask_token(&engine, &connector).await, "AT9");
    assert_eq!(rig.store.journal(), [Some((OutcomeKind::Superseded, 1))]);
    assert!(rig.boat("a").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_meanwhile_gives_the_lifeboats_set_back() {
    let (rig, connector) = wrecked().await;
    rig.store.disconnect(&connector);
    let (engine, _) = again(&rig);

    engine.empty_lifeboat().await.unwrap();

    assert_eq!(ask(&engine, &connector).await.unwrap_err(), AuthError::Disconnected);
    assert_eq!(rig.store.journal(), [Some((OutcomeKind::Discarded, 1))]);
    assert_eq!((rig.endpoint.calls(), rig.endpoint.targets()), (vec!["AT2".to_owned()], vec!["/current".to_owned()]));
    assert!(rig.boat("a").is_empty());
}

/// I3: the other machine has met the refusal of the spent token; the lifeboat's set lives, or it does not.
#[tokio::test(start_paused = true)]
async fn a_set_stored_after_a_refusal_heals_only_after_a_test_call() {
    for lives in [true, false] {
        let (rig, connector) = wrecked().await;
        rig.store.change(&connector, |row| row.health = Health::AuthFailed);
        if !lives {
            rig.endpoint.expire_access();
        }
        let (engine, _) = again(&rig);

        engine.empty_lifeboat().await.unwrap();
        rig.pass(Duration::from_secs(1)).await;

        let row = rig.store.row(&connector);
        assert_eq!(row.credential.version, Version(2), "it is stored in any case");
        assert_eq!(token(&row), "AT2");
        assert_eq!(row.health == Health::Connected, lives);
        assert_eq!(rig.store.effects().iter().any(|(_, _, effect)| *effect == Effect::MailRecovery), lives);
        assert_eq!(rig.endpoint.calls(), ["AT2"]);
    }
}

/// A look at the lifeboat while a flight of this process is still at it leaves that flight its set.
#[tokio::test(start_paused = true)]
async fn a_look_into_the_lifeboat_takes_nothing_from_a_flight_under_way() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    let connector = rig.expired_connector("con");
    let (arrived, go) = faults.hold(Op::StoreRotation);
    let asked = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { ask_token(&engine, &connector).await }
    });
    arrived.notified().await;
    rig.pass(Duration::from_secs(1)).await;
    let before = rig.clock.uptime();

    assert_eq!(engine.empty_lifeboat().await.unwrap(), 0);

    assert_eq!(rig.boat("a").len(), 1);
    assert_eq!(rig.clock.uptime(), before);
    go.notify_one();
    assert_eq!(asked.await.unwrap(), "AT2");
}

/// LR-07: a release that cannot read what the provider answers, with every connector due.
#[tokio::test(start_paused = true)]
async fn a_bad_release_spends_no_more_tokens_than_it_may_lose() {
    let rig = Rig::new();
    let limit = usize::try_from(rig.settings.unstored_limit).unwrap();
    let connectors: Vec<_> = (0..40).map(|n| rig.expired_connector(&format!("con{n:02}"))).collect();
    let bad = rig.replica("bad").0;
    let misread = Script::json(200, &json!({"acces_token": "a slip"}));
    rig.endpoint.script(vec![Script::After(Duration::from_millis(200), Box::new(misread)); 1000]);
    let spent = || rig.spent().into_iter().collect::<HashSet<_>>().len();

    let told = futures::future::join_all(connectors.iter().map(|connector| ask(&bad, connector))).await;
    for _ in 0..50 {
        rig.pass(Duration::from_mins(1)).await;
        refresh_due(&rig, &bad).await;
    }

    let stopped = |told: &Result<_, AuthError>| matches!(told, Err(AuthError::Unavailable { class: Trouble::Ours, detail, .. }) if detail.contains("no more"));
    assert_eq!(told.iter().filter(|told| stopped(told)).count(), connectors.len() - limit);
    assert_eq!(spent(), limit);
    assert!(connectors.iter().all(|connector| rig.store.row(connector).health == Health::Connected));

    // The version before is back: a process that has met nothing of it.
    rig.endpoint.clear_script();
    let good = rig.replica("good").0;
    rig.pass(HOUR).await;
    let healthy = rig.store.connect("healthy", &rig.endpoint.grant(), Duration::ZERO);
    ask(&good, &healthy).await.unwrap();
}

/// LR-07: what could not be stored at first is stored in the end, and then the provider's tokens are spent as ever.
#[tokio::test(start_paused = true)]
async fn what_is_stored_in_the_end_stops_nothing() {
    let rig = Rig::new();
    let (engine, faults) = rig.replica("a");
    for n in 0..20 {
        let connector = rig.expired_connector(&format!("con{n:02}"));
        faults.fault(Op::StoreRotation, vec![Fault::Error; 3]);
        ask(&engine, &connector).await.unwrap();
    }

    assert_eq!(rig.endpoint.posts().len(), 20);
}
