//! Webhooks: events are taken once, counts lose nothing, and an address is gone once.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, ConnectorId, OrgId, Role, Secret,
    ports::Changed,
    webhook::{Author, Event, Key, Topic},
};
use holdfast_store::{
    Arrived, Created, DeliveryFilter, DeliveryState, Endpoint, Known, NewConnector, NewEndpoint, NewUser, Owner,
    Receiver, Rejections, Store, TakenDelivery, Tell, Threshold,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::{
    grants::grant,
    harness::{TestDatabase, kept, moment, new_connector, on_both, tokens},
};

on_both! {
    an_event_and_its_job_are_stored_once_however_many_bring_it,
    the_same_event_is_taken_once_by_each_connector,
    a_digest_is_another_event_once_its_window_is_over,
    the_threshold_trips_once_at_its_number_whoever_counts,
    number_and_time_have_to_be_reached_both,
    an_accepted_delivery_and_a_reconnect_start_the_count_anew,
    the_secret_before_counts_for_a_while,
    a_deleted_connectors_address_is_known_to_be_gone,
    an_apps_address_finds_its_connectors_by_their_account,
    what_is_old_is_forgotten_unless_it_waits,
    admins_are_told_once_of_a_webhook_that_is_gone,
    a_flood_of_what_nothing_proves_makes_one_row_for_each_reason,
}

const THRESHOLD: Threshold = Threshold { number: 100, span: Duration::from_hours(1) };

async fn connector(store: &Store, org: &OrgId, account: &str) -> ConnectorId {
    match store.create_connector(&new_connector(org, account, Secret::Tokens(tokens("first")))).await.unwrap() {
        Created::New(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn endpoint(store: &Store, org: &OrgId, connector: &ConnectorId) -> Endpoint {
    let owner = Owner::Connector(connector.clone());
    let secret = SecretString::from("s3cret-one");
    let new = NewEndpoint {
        org: Some(org),
        owner: &owner,
        provider: "zendesk",
        kind: "events",
        secret: Some(&secret),
        at: moment(0),
        actor: "Ada",
    };
    store.make_endpoint(&new).await.unwrap().0
}

/// The address of a new connector, as it is found by a delivery.
pub(crate) async fn rig(store: &Store, org: &OrgId, account: &str) -> (Endpoint, Receiver) {
    let connector = connector(store, org, account).await;
    let endpoint = endpoint(store, org, &connector).await;
    find(store, &endpoint.id, moment(0)).await
}

async fn find(store: &Store, id: &str, now: DateTime<Utc>) -> (Endpoint, Receiver) {
    match store.find_endpoint(id, now).await.unwrap() {
        Some(Known::Live(endpoint, Some(receiver))) => (*endpoint, *receiver),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn event(key: Key) -> Event {
    let subject = Some("42".to_owned());
    Event {
        key,
        kind: "ticket.created".to_owned(),
        topic: Topic::TicketCreated,
        subject,
        account: None,
        author: Author::Unknown,
        at: None,
    }
}

fn id(id: &str) -> Event {
    event(Key::Id(id.to_owned()))
}

pub(crate) async fn take(
    store: &Store,
    (endpoint, receiver): &(Endpoint, Receiver),
    event: &Event,
    at: i64,
) -> TakenDelivery {
    let arrived = Arrived {
        endpoint,
        receiver,
        event: Ok(event),
        parked: false,
        headers: json!({}),
        body: b"{\"id\":1}",
        at: moment(at),
    };
    store.take_delivery(&arrived).await.unwrap()
}

/// WD-01, WD-04
async fn an_event_and_its_job_are_stored_once_however_many_bring_it(db: Arc<TestDatabase>) {
    let (one, two) = (db.store().await, db.replica("two").await);
    let org = one.ensure_org("Acme").await.unwrap();
    let here = rig(&one, &org, "acme").await;

    let event = id("evt-1");
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let (store, here, event) =
            (if number % 2 == 0 { one.clone() } else { two.clone() }, here.clone(), event.clone());
        tasks.spawn(async move { take(&store, &here, &event, 1).await });
    }
    let taken = tasks.join_all().await;

    let new: Vec<_> = taken.iter().filter(|taken| **taken != TakenDelivery::Again).collect();
    assert_eq!(new.len(), 1, "{taken:?}");
    let TakenDelivery::New(delivery, Some(job)) = new[0] else { panic!("{new:?}") };
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs").await, 1);
    let all = one.deliveries(&org, &DeliveryFilter::default(), None, 10).await.unwrap().data;
    assert_eq!((all.len(), &all[0].id, all[0].job.as_ref(), all[0].repeats), (1, delivery, Some(job), 15));
    assert_eq!(one.delivery_body(&org, delivery).await.unwrap().as_deref(), Some(&b"{\"id\":1}"[..]));
    let raw = "SELECT COUNT(*) FROM deliveries WHERE CAST(sealed_body AS TEXT) LIKE '%id%'";
    assert_eq!(db.number(raw).await, 0, "bodies are sealed");
}

/// WD-03
async fn the_same_event_is_taken_once_by_each_connector(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (acme, globex) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    let (one, two) = (rig(&store, &acme, "shop").await, rig(&store, &globex, "shop").await);

    for here in [&one, &two] {
        assert!(matches!(take(&store, here, &id("evt-1"), 1).await, TakenDelivery::New(..)));
        assert_eq!(take(&store, here, &id("evt-1"), 2).await, TakenDelivery::Again);
    }

    let mine = store.deliveries(&acme, &DeliveryFilter::default(), None, 10).await.unwrap().data;
    assert_eq!(mine.len(), 1);
    assert_eq!(store.find_delivery(&globex, mine[0].id.as_str()).await.unwrap(), None);
    assert_eq!(store.delivery_body(&globex, &mine[0].id).await.unwrap(), None);
}

/// WD-09
async fn a_digest_is_another_event_once_its_window_is_over(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let here = rig(&store, &org, "acme").await;
    let same = event(Key::Digest("d1".to_owned(), Some(Duration::from_mins(10))));
    let other = event(Key::Digest("d2".to_owned(), Some(Duration::from_mins(10))));
    let lasting = event(Key::Digest("d3".to_owned(), None));

    // Whatever the borders of windows are, the first ten minutes are one.
    for (event, at, new) in [
        (&same, 0, true),
        (&other, 0, true),
        (&same, 1, false),
        (&same, 300, false),
        (&same, 599, false),
        (&same, 1300, true),
        (&lasting, 0, true),
        (&lasting, 999_999, false),
    ] {
        let taken = take(&store, &here, event, at).await;
        assert_eq!(taken != TakenDelivery::Again, new, "{event:?} {at}");
    }
}

/// WR-04
async fn the_threshold_trips_once_at_its_number_whoever_counts(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let (endpoint, _) = rig(&store, &org, "acme").await;
    let threshold = Threshold { number: 100, span: Duration::ZERO };
    let mut replicas = vec![store.clone()];
    for name in ["two", "three", "four"] {
        replicas.push(db.replica(name).await);
    }

    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..99 {
        let (store, endpoint) = (replicas[number % 4].clone(), endpoint.clone());
        tasks.spawn(async move { store.turn_away(&endpoint, "disconnected", threshold, 50, moment(1)).await.unwrap() });
    }
    let before = tasks.join_all().await;
    assert!(before.iter().all(|turned| !turned.gone && !turned.tripped));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let (store, endpoint) = (replicas[number % 4].clone(), endpoint.clone());
        tasks.spawn(async move { store.turn_away(&endpoint, "disconnected", threshold, 50, moment(2)).await.unwrap() });
    }
    let after = tasks.join_all().await;

    assert!(after.iter().all(|turned| turned.gone), "{after:?}");
    assert_eq!(after.iter().filter(|turned| turned.tripped).count(), 1);
    let (endpoint, _) = find(&store, &endpoint.id, moment(3)).await;
    assert_eq!((endpoint.refused, endpoint.gone_at), (100, Some(kept(2))));
    let lines = "SELECT COUNT(*) FROM timeline WHERE kind = 'webhook' AND outcome = 'gone'";
    assert_eq!(db.number(lines).await, 1);
}

/// WR-03
async fn number_and_time_have_to_be_reached_both(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let (endpoint, _) = rig(&store, &org, "acme").await;
    let turn = async |at| store.turn_away(&endpoint, "disconnected", THRESHOLD, 50, moment(at)).await.unwrap();

    for _ in 0..200 {
        assert!(!turn(1).await.gone, "a burst is no time");
    }
    assert!(!turn(3600).await.gone);
    assert!(turn(3601).await.tripped);
    assert!(turn(3602).await.gone);
}

async fn an_accepted_delivery_and_a_reconnect_start_the_count_anew(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let here = rig(&store, &org, "acme").await;
    let turn = async |at| store.turn_away(&here.0, "parked_too_much", THRESHOLD, 50, moment(at)).await.unwrap();
    for _ in 0..150 {
        turn(1).await;
    }

    let counted = find(&store, &here.0.id, moment(2)).await;
    assert_eq!((counted.0.refused, counted.0.failures), (150, 150));
    assert!(matches!(take(&store, &counted, &id("evt-1"), 2).await, TakenDelivery::New(..)));

    let (endpoint, _) = find(&store, &here.0.id, moment(3)).await;
    assert_eq!((endpoint.refused, endpoint.failures, endpoint.refused_since), (0, 0, None));
    assert_eq!((endpoint.first_at, endpoint.accepted_at), (Some(kept(2)), Some(kept(2))));
    assert!(!turn(4000).await.gone, "the time counts from here");
    for _ in 0..99 {
        turn(8000).await;
    }
    let (endpoint, _) = find(&store, &here.0.id, moment(8000)).await;
    assert_eq!(endpoint.gone_at, Some(kept(8000)));
    // What was on its way brings nothing back.
    assert!(matches!(take(&store, &here, &id("evt-2"), 8001).await, TakenDelivery::New(..)));
    assert!(find(&store, &endpoint.id, moment(8001)).await.0.gone_at.is_some());

    store.store_grant(&grant(&here.1.connector, 1, "again")).await.unwrap();

    let (endpoint, receiver) = find(&store, &here.0.id, moment(9000)).await;
    assert_eq!((endpoint.gone_at, endpoint.refused, endpoint.failures), (None, 0, 0));
    assert_eq!(endpoint.secrets[0].expose_secret(), "s3cret-one", "address and secret stay");
    assert_eq!(receiver.connector, here.1.connector);
}

async fn the_secret_before_counts_for_a_while(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let (endpoint, _) = rig(&store, &org, "acme").await;
    let secrets = async |at| -> Vec<String> {
        let (endpoint, _) = find(&store, &endpoint.id, moment(at)).await;
        endpoint.secrets.iter().map(|secret| secret.expose_secret().to_owned()).collect()
    };

    let put = async |secret: &str, until: Option<i64>| {
        let secret = SecretString::from(secret);
        store.put_endpoint_secret(&endpoint, &secret, until.map(moment), "Ada", moment(0)).await.unwrap();
    };
    put("s3cret-two", Some(100)).await;

    assert_eq!(secrets(99).await, ["s3cret-two", "s3cret-one"]);
    assert_eq!(secrets(100).await, ["s3cret-two"]);
    put("s3cret-three", None).await;
    assert_eq!(secrets(1).await, ["s3cret-three"]);
    // A value that was moved to another row does not open (WV-05).
    let (other, _) = rig(&store, &org, "globex").await;
    db.execute(&format!(
        "UPDATE webhook_endpoints SET sealed_secret = (SELECT sealed_secret FROM webhook_endpoints WHERE id = '{}') \
         WHERE id = '{}'",
        endpoint.id, other.id
    ))
    .await;
    let (other, _) = find(&store, &other.id, moment(1)).await;
    assert!(other.unreadable && other.secrets.is_empty());
}

/// WR-07
async fn a_deleted_connectors_address_is_known_to_be_gone(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let here = rig(&store, &org, "acme").await;
    take(&store, &here, &id("evt-1"), 1).await;

    store.delete_connector(&org, &here.1.connector).await.unwrap();

    assert!(matches!(store.find_endpoint(&here.0.id, moment(2)).await.unwrap(), Some(Known::Deleted)));
    assert!(store.find_endpoint("hook_0123", moment(2)).await.unwrap().is_none());
    assert_eq!(db.number("SELECT COUNT(*) FROM deliveries").await, 0);
    assert_eq!(db.number("SELECT COUNT(*) FROM webhook_endpoints WHERE sealed_secret IS NOT NULL").await, 0);
}

async fn an_apps_address_finds_its_connectors_by_their_account(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (acme, globex) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    let (instance, own) = (AppId::instance("zendesk"), AppId::own("zendesk", acme.clone(), "client"));
    let connect = async |org: &OrgId, account: &str, app: &AppId| {
        let new =
            NewConnector { app: Some(app.clone()), ..new_connector(org, account, Secret::Tokens(tokens("first"))) };
        match store.create_connector(&new).await.unwrap() {
            Created::New(id) => id,
            other => panic!("{other:?}"),
        }
    };
    let one = connect(&acme, "shop", &instance).await;
    let two = connect(&globex, "shop", &instance).await;
    let three = connect(&acme, "other", &own).await;
    store.set_test(&three, &json!({}), Some(&json!({ "id": "cmp_1" }))).await.unwrap();

    let found = async |app: &AppId, told: &str| -> Vec<ConnectorId> {
        store.receivers(app, told).await.unwrap().into_iter().map(|receiver| receiver.connector).collect()
    };

    let mut both = vec![one, two];
    both.sort();
    assert_eq!(found(&instance, "SHOP").await, both);
    assert_eq!(found(&own, "shop").await, []);
    assert_eq!(found(&own, "cmp_1").await, [three]);
    assert_eq!(found(&instance, "cmp_1").await, []);
    let owner = Owner::App(instance.clone());
    let secret = SecretString::from("of-the-app");
    let new = NewEndpoint {
        org: None,
        owner: &owner,
        provider: "zendesk",
        kind: "app",
        secret: Some(&secret),
        at: moment(0),
        actor: "operator",
    };
    let (made, changed) = store.make_endpoint(&new).await.unwrap();
    let (again, unchanged) = store.make_endpoint(&new).await.unwrap();
    assert_eq!((changed, unchanged, &made.id), (Changed::Yes, Changed::No, &again.id));
    let Some(Known::Live(endpoint, None)) = store.find_endpoint(&made.id, moment(1)).await.unwrap() else { panic!() };
    assert_eq!(endpoint.secrets[0].expose_secret(), "of-the-app");
    let turned =
        store.turn_away(&endpoint, "disconnected", Threshold { number: 1, span: Duration::ZERO }, 1, moment(1));
    assert!(!turned.await.unwrap().gone, "it serves others too");
}

async fn what_is_old_is_forgotten_unless_it_waits(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let here = rig(&store, &org, "acme").await;
    let mut ids = Vec::new();
    for (name, at) in [("old", 10), ("waiting", 10), ("older", 20), ("new", 30)] {
        let TakenDelivery::New(delivery, _) = take(&store, &here, &id(name), at).await else { panic!() };
        ids.push(delivery);
    }
    let settle =
        async |index: usize| store.settle_delivery(&ids[index], DeliveryState::Processed, None, moment(31)).await;
    for index in [0, 2, 3] {
        assert_eq!(settle(index).await.unwrap(), Changed::Yes);
        assert_eq!(settle(index).await.unwrap(), Changed::No);
    }

    store.forget_deliveries(moment(25), moment(15), 100).await.unwrap();

    let left = store.deliveries(&org, &DeliveryFilter::default(), None, 10).await.unwrap().data;
    let left: Vec<_> = left.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(left, [ids[3].clone(), ids[2].clone(), ids[1].clone()], "newest first");
    let body = async |index: usize| store.delivery_body(&org, &ids[index]).await.unwrap().is_some();
    assert_eq!((body(3).await, body(2).await, body(1).await), (true, false, true));
}

/// EM-07, WR-04: one mail to each admin, whoever looks.
async fn admins_are_told_once_of_a_webhook_that_is_gone(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let two = db.replica("two").await;
    let org = store.ensure_org("Acme").await.unwrap();
    for (email, role) in
        [("a@example.com", Role::Owner), ("b@example.com", Role::Admin), ("c@example.com", Role::Member)]
    {
        let user = NewUser {
            org: org.clone(),
            email: email.to_owned(),
            name: None,
            role,
            operator: false,
            password_hash: None,
            at: moment(0),
        };
        store.create_user(&user).await.unwrap().unwrap();
    }
    let (endpoint, receiver) = rig(&store, &org, "acme").await;
    let tell = async |store: &Store, at| {
        store.tell_webhooks(&Tell { at: moment(at), domain: "hub.example".to_owned(), sends: true }).await.unwrap()
    };
    let threshold = Threshold { number: 20, span: Duration::from_mins(1) };
    let turn = async |at| store.turn_away(&endpoint, "disconnected", threshold, 5, moment(at)).await.unwrap();
    let mails = async || db.number("SELECT COUNT(*) FROM mails WHERE kind = 'webhook_stopped'").await;

    for _ in 0..4 {
        turn(1).await;
    }
    assert!(!store.webhook_is_untold(moment(1)).await.unwrap());
    turn(1).await;
    assert!(store.webhook_is_untold(moment(1)).await.unwrap(), "a warning comes first");
    let (one, other) = tokio::join!(tell(&store, 2), tell(&two, 2));
    assert_eq!((one + other, mails().await), (1, 2));
    turn(3).await;
    assert_eq!((tell(&store, 4).await, mails().await), (0, 2), "once");

    for at in 0..20 {
        turn(100 + at).await;
    }
    let (one, other) = tokio::join!(tell(&store, 200), tell(&two, 200));
    assert_eq!((one + other, mails().await), (1, 4));
    assert_eq!((tell(&store, 300).await, mails().await), (0, 4));
    let trouble = store.find_webhook_trouble(&org, &endpoint.id, false).await.unwrap().unwrap();
    assert_eq!((&trouble.connector, trouble.failures), (&receiver.connector, 20));
    let stranger = store.ensure_org("Globex").await.unwrap();
    assert_eq!(store.find_webhook_trouble(&stranger, &endpoint.id, false).await.unwrap(), None);
}

async fn a_flood_of_what_nothing_proves_makes_one_row_for_each_reason(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let (endpoint, _) = rig(&store, &org, "acme").await;
    let samples = [json!({ "n": 2 }), json!({ "n": 1 })];
    let note = async |reason: &str, count, at| {
        let (reason, samples) = (reason.to_owned(), samples.clone());
        let one = Rejections {
            endpoint: &endpoint.id,
            reason: &reason,
            count,
            samples: &samples,
            in_a_row: count,
            warn_at: 50_000,
            first_at: moment(at),
            last_at: moment(at + 1),
        };
        let unknown = Rejections { endpoint: "hook_unknown", ..one.clone() };
        store.note_rejections(&[one, unknown]).await.unwrap();
    };

    note("no_signature", 49_999, 10).await;
    assert!(!store.webhook_is_untold(moment(20)).await.unwrap());
    note("no_signature", 50_001, 20).await;
    note("stale", 1, 30).await;

    assert_eq!(db.number("SELECT COUNT(*) FROM webhook_rejections").await, 2);
    let noted = store.rejections(&endpoint).await.unwrap();
    assert_eq!((noted[0].reason.as_str(), noted[1].count), ("stale", 100_000));
    assert_eq!((noted[1].first_at, noted[1].last_at), (kept(10), kept(21)));
    assert_eq!(noted[1].samples, samples);
    let (endpoint, _) = find(&store, &endpoint.id, moment(40)).await;
    assert_eq!((endpoint.failures, endpoint.refused, endpoint.gone_at), (100_001, 0, None), "they never lead to gone");
    assert!(store.webhook_is_untold(moment(40)).await.unwrap());

    store.note_heard(&endpoint, moment(50)).await.unwrap();
    note("stale", 1, 45).await;
    let (endpoint, _) = find(&store, &endpoint.id, moment(60)).await;
    assert_eq!(endpoint.failures, 0, "they came before the one that was accepted, and were written down after it");
    note("stale", 1, 55).await;
    let (endpoint, _) = find(&store, &endpoint.id, moment(60)).await;
    assert_eq!(endpoint.failures, 1);
}
