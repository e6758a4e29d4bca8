//! The conditional write, verdicts and recoveries.

use std::sync::Arc;

use holdfast_core::{
    Health, Secret,
    credential::{Reason, Trouble},
    health::Event,
    ports::{Begun, Changed, CredentialStore as _, Loss, Marks, Stored},
    provider::Found,
    refresh::OutcomeKind,
};
use secrecy::{ExposeSecret as _, SecretString};

use crate::harness::{
    TestDatabase, close, connect, exchange, lease, load, moment, new_connector, on_both, refusal, rotation, tokens,
};

on_both! {
    a_rotation_is_stored_whole_and_comes_back_as_committed,
    what_is_found_later_is_kept_for_its_version_alone,
    of_two_answers_to_one_version_the_second_is_superseded,
    a_rotation_whose_commit_was_not_heard_of_is_ours_when_stored_again,
    a_disconnected_connector_takes_no_rotation,
    a_verdict_holds_only_for_the_version_that_it_is_about,
    effects_are_written_once_per_epoch,
    a_late_success_is_stored_and_heals_only_by_proof,
    marks_go_to_their_version_and_a_success_clears_them,
    a_refresh_token_of_six_kilobytes_fits,
}

async fn a_rotation_is_stored_whole_and_comes_back_as_committed(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    let lease = lease(&store, &before, "one").await;
    let exchange = exchange(&before, &lease, "a");
    assert_eq!(store.begin(&exchange).await.unwrap(), Begun::Yes);

    let stored = store.store_rotation(&exchange, &rotation("second")).await.unwrap();

    let Stored::Yes(told) = stored else { panic!("{stored:?}") };
    let read = load(&store, &id).await;
    assert_eq!(format!("{told:?}"), format!("{read:?}"), "the answer is what a read finds");
    assert_eq!(read.credential.version, before.credential.version.next());
    assert_eq!(read.epoch, before.epoch, "a rotation is no change of health");
    let set = read.credential.secret.tokens().unwrap();
    assert_eq!(set.access_token.expose_secret(), "access-second");
    assert_eq!(set.refresh_token.as_ref().unwrap().expose_secret(), "refresh-second");
    assert_eq!(set.scopes, ["read", "write"]);
    assert_eq!(set.base_url.as_ref().unwrap().as_str(), "https://acme.example/api/");
    assert!(set.found.contains_key("tenant_id"), "what was found at the consent stays with it: {:?}", set.found);
    assert!(set.expires_assumed);
    assert_eq!(set.expires_at.unwrap().timestamp_subsec_nanos(), 123_456_000, "times are cut to microseconds");
    assert_eq!(store.extras(&id).await.unwrap()[0].1.expose_secret(), "wh_1");
    assert_eq!(store.open_exchange_count().await.unwrap(), 0);
}

async fn what_is_found_later_is_kept_for_its_version_alone(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    let found = |tenant: &str, base: Option<&str>| Found {
        base_url: base.map(|base| base.parse().unwrap()),
        values: [("tenant_id".to_owned(), tenant.to_owned())].into(),
    };

    let kept = store.keep_found(&id, before.credential.version, &found("tenant-later", None)).await.unwrap();

    let read = load(&store, &id).await;
    let set = read.credential.secret.tokens().unwrap();
    assert_eq!((kept, set.found["tenant_id"].as_str()), (Changed::Yes, "tenant-later"));
    assert_eq!(set.base_url.as_ref().unwrap().as_str(), "https://acme.example/api/", "what is not said stays");
    assert_eq!(set.access_token.expose_secret(), "access-first");
    assert_eq!((read.credential.version, read.epoch), (before.credential.version, before.epoch));

    let next = before.credential.version.next();
    let late = store.keep_found(&id, next, &found("another", Some("https://another.example/"))).await.unwrap();
    assert_eq!(late, Changed::No);
    assert_eq!(load(&store, &id).await.credential.secret.tokens().unwrap().found["tenant_id"], "tenant-later");
}

async fn of_two_answers_to_one_version_the_second_is_superseded(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    let lease = lease(&store, &before, "one").await;
    let (first, second) = (exchange(&before, &lease, "a"), exchange(&before, &lease, "b"));
    assert_eq!(store.begin(&first).await.unwrap(), Begun::Yes);
    store.close_lost(&first.id, Loss::Silent, moment(101)).await.unwrap();
    assert_eq!(store.begin(&second).await.unwrap(), Begun::Yes);

    let (news, late) = (rotation("a"), rotation("b"));
    let (one, two) = tokio::join!(store.store_rotation(&first, &news), store.store_rotation(&second, &late));

    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(
        matches!((&one, &two), (Stored::Yes(_), Stored::Superseded) | (Stored::Superseded, Stored::Yes(_))),
        "{one:?} {two:?}"
    );
    let read = load(&store, &id).await;
    assert_eq!(read.credential.version, before.credential.version.next());
    let winner = if matches!(one, Stored::Yes(_)) { "access-a" } else { "access-b" };
    assert_eq!(read.credential.secret.bearer().unwrap().expose_secret(), winner);
}

async fn a_rotation_whose_commit_was_not_heard_of_is_ours_when_stored_again(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    let lease = lease(&store, &before, "one").await;
    let exchange = exchange(&before, &lease, "a");
    store.begin(&exchange).await.unwrap();
    store.store_rotation(&exchange, &rotation("second")).await.unwrap();

    let again = store.store_rotation(&exchange, &rotation("second")).await.unwrap();

    let Stored::Yes(snapshot) = again else { panic!("{again:?}") };
    assert_eq!(snapshot.credential.version, before.credential.version.next());
}

async fn a_disconnected_connector_takes_no_rotation(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    let lease = lease(&store, &before, "one").await;
    let exchange = exchange(&before, &lease, "a");
    store.begin(&exchange).await.unwrap();
    let held = store.disconnect(&org, &id, moment(100)).await.unwrap().unwrap();
    assert_eq!(held.bearer().unwrap().expose_secret(), "access-first");

    let stored = store.store_rotation(&exchange, &rotation("second")).await.unwrap();

    assert!(matches!(stored, Stored::Gone), "{stored:?}");
    let read = load(&store, &id).await;
    assert_eq!((read.health, read.credential.version), (Health::Disconnected, before.credential.version));
    assert!(matches!(read.credential.secret, Secret::Absent));
    assert_eq!(store.open_exchange_count().await.unwrap(), 0);
    assert_eq!(store.extras(&id).await.unwrap().len(), 1, "extras stay");
    assert!(matches!(store.disconnect(&org, &id, moment(101)).await.unwrap(), Some(Secret::Absent)));

    store.delete_connector(&org, &id).await.unwrap().unwrap();
    let stored = store.store_rotation(&exchange, &rotation("second")).await.unwrap();
    assert!(matches!(stored, Stored::Gone), "{stored:?}");
}

async fn a_verdict_holds_only_for_the_version_that_it_is_about(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let first = load(&store, &id).await;
    let lease = lease(&store, &first, "one").await;
    let rotated = exchange(&first, &lease, "a");
    store.begin(&rotated).await.unwrap();
    store.store_rotation(&rotated, &rotation("second")).await.unwrap();
    let second = load(&store, &id).await;

    let late = store.fail(&first.credential.id, &refusal(first.credential.version), None).await.unwrap();
    assert_eq!(late, Changed::No);
    assert_eq!(load(&store, &id).await.health, Health::Connected);

    let refused = exchange(&second, &lease, "b");
    store.begin(&refused).await.unwrap();
    let closing = close(OutcomeKind::Rejected);
    let failure = refusal(second.credential.version);
    let declared = store.fail(&first.credential.id, &failure, Some((&refused, &closing))).await.unwrap();

    assert_eq!(declared, Changed::Yes);
    let read = load(&store, &id).await;
    assert_eq!((read.health, read.epoch), (Health::AuthFailed, second.epoch + 1));
    assert_eq!(read.health_reason, Some(Reason::RefreshRefused));
    assert_eq!(read.health_detail.as_deref(), Some("invalid_grant"));
    assert_eq!(store.open_exchange_count().await.unwrap(), 0, "the exchange is closed in the same transaction");
    assert_eq!(store.begin(&exchange(&read, &lease, "c")).await.unwrap(), Begun::Moved);
}

async fn effects_are_written_once_per_epoch(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    let failure = refusal(before.credential.version);
    let credential = before.credential.id.clone();

    let verdicts = futures::future::join_all((0..8).map(|_| store.fail(&credential, &failure, None))).await;

    assert_eq!(verdicts.iter().filter(|verdict| *verdict.as_ref().unwrap() == Changed::Yes).count(), 1);
    let effects: Vec<_> =
        store.outbox_rows(&id).await.unwrap().into_iter().map(|row| (row.epoch, row.effect)).collect();
    let expected = [(1, "make_webhooks"), (1, "first_sync"), (2, "mail_admins")];
    let mut expected = expected.map(|(epoch, effect)| (epoch, effect.to_owned())).to_vec();
    let mut found = effects;
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    let mail = store.outbox_rows(&id).await.unwrap().into_iter().find(|row| row.effect == "mail_admins").unwrap();
    assert_eq!(mail.payload["reason"], "refresh_refused");
}

async fn a_late_success_is_stored_and_heals_only_by_proof(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    let lease = lease(&store, &before, "one").await;
    let exchange = exchange(&before, &lease, "a");
    store.begin(&exchange).await.unwrap();
    store.close_lost(&exchange.id, Loss::Silent, moment(101)).await.unwrap();
    store.fail(&before.credential.id, &refusal(before.credential.version), None).await.unwrap();

    let stored = store.store_rotation(&exchange, &rotation("late")).await.unwrap();

    let Stored::Yes(snapshot) = stored else { panic!("{stored:?}") };
    assert_eq!(snapshot.health, Health::AuthFailed, "it stays failed until its test call has passed");
    assert_eq!(snapshot.credential.secret.bearer().unwrap().expose_secret(), "access-late");
    let old = store.heal(&id, before.credential.version, Event::LateSuccess, moment(110)).await.unwrap();
    assert_eq!(old, Changed::No);
    let healed = store.heal(&id, snapshot.credential.version, Event::LateSuccess, moment(111)).await.unwrap();
    assert_eq!(healed, Changed::Yes);
    let read = load(&store, &id).await;
    assert_eq!((read.health, read.health_reason, read.epoch), (Health::Connected, None, snapshot.epoch + 1));
    let effects = store.outbox_rows(&id).await.unwrap();
    assert!(effects.iter().any(|row| row.epoch == read.epoch && row.effect == "mail_recovery"));
    let again = store.heal(&id, snapshot.credential.version, Event::TestPassed, moment(112)).await.unwrap();
    assert_eq!(again, Changed::No);
}

async fn marks_go_to_their_version_and_a_success_clears_them(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    let lease = lease(&store, &before, "one").await;
    let marks = |failures, answer_lost, secs| Marks {
        trouble: Trouble::Ambiguous,
        retry_at: moment(secs),
        failures,
        answer_lost,
    };
    let lost = exchange(&before, &lease, "a");
    store.begin(&lost).await.unwrap();
    let mut closing = close(OutcomeKind::Ambiguous);
    closing.marks = Some(marks(1, true, 200));
    store.close(&lost, &closing).await.unwrap();

    let marked = load(&store, &id).await;
    assert_eq!(marked.credential.backoff.failures, 1);
    assert!(marked.credential.answer_lost);
    let since = marked.credential.degraded.unwrap().since;

    let again = exchange(&before, &lease, "b");
    store.begin(&again).await.unwrap();
    closing.marks = Some(marks(2, false, 300));
    closing.at = moment(150);
    store.close(&again, &closing).await.unwrap();
    let marked = load(&store, &id).await;
    assert_eq!(marked.credential.degraded.unwrap().since, since, "since when without a break");
    assert!(marked.credential.answer_lost, "a lost answer stays lost until a success");

    let good = exchange(&before, &lease, "c");
    store.begin(&good).await.unwrap();
    store.store_rotation(&good, &rotation("second")).await.unwrap();
    let clear = load(&store, &id).await;
    assert_eq!(clear.credential.backoff.failures, 0);
    assert!(clear.credential.degraded.is_none() && !clear.credential.answer_lost);

    // Too late, about the old version.
    store.close(&again, &closing).await.unwrap();
    assert!(load(&store, &id).await.credential.degraded.is_none());
}

async fn a_refresh_token_of_six_kilobytes_fits(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let mut set = tokens("long");
    let long = "r".repeat(6 * 1024);
    set.refresh_token = Some(SecretString::from(long.as_str()));
    store.create_connector(&new_connector(&org, "acme", Secret::Tokens(set))).await.unwrap();

    let list = store.connectors(&org, &holdfast_store::Filter::default(), None, 10).await.unwrap();

    let read = list.data[0].snapshot.credential.secret.tokens().unwrap().refresh_token.clone().unwrap();
    assert_eq!(read.expose_secret(), long);
}
