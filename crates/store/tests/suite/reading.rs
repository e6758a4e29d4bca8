//! Lists, keys and the timeline.

use std::{sync::Arc, time::Duration};

use chrono::SubsecRound as _;
use holdfast_core::{
    ConnectorId, Health,
    health::Event,
    ports::{Changed, CredentialStore as _},
    refresh::OutcomeKind,
};
use holdfast_store::{Entry, Filter};

use crate::harness::{TestDatabase, close, connect, exchange, lease, load, moment, on_both, refusal, rotation};

on_both! {
    pages_of_connectors_show_each_once,
    the_timeline_merges_exchanges_and_lines_newest_first,
    milestones_are_the_last_turns_of_each_connector,
    a_key_is_found_by_its_hash_and_revoked_once,
}

async fn pages_of_connectors_show_each_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let mut all = Vec::new();
    let (org, _) = {
        let (org, id) = connect(&store, "acme0").await;
        all.push(id.clone());
        (org, id)
    };
    for n in 1..7 {
        all.push(connect(&store, &format!("acme{n}")).await.1);
    }
    all.sort();

    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.connectors(&org, &Filter::default(), cursor.as_deref(), 3).await.unwrap();
        assert!(page.data.len() <= 3);
        seen.extend(page.data.into_iter().map(|view| view.snapshot.connector));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, all);

    let broken = load(&store, &all[2]).await;
    store.fail(&broken.credential.id, &refusal(broken.credential.version), None).await.unwrap();
    let failed = Filter { health: Some(Health::AuthFailed), provider: Some("zendesk".to_owned()), ..Filter::default() };
    let page = store.connectors(&org, &failed, None, 10).await.unwrap();
    assert_eq!(page.data.len(), 1);
    assert_eq!(page.data[0].snapshot.connector, all[2]);
    let front = Filter { provider: Some("front".to_owned()), ..Filter::default() };
    assert!(store.connectors(&org, &front, None, 10).await.unwrap().data.is_empty());
}

async fn the_timeline_merges_exchanges_and_lines_newest_first(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let closed = exchange(&snapshot, &lease, "a");
    store.begin(&closed).await.unwrap();
    store.close(&closed, &close(OutcomeKind::Busy)).await.unwrap();
    let mut open = exchange(&snapshot, &lease, "b");
    open.started_at = moment(300);
    store.begin(&open).await.unwrap();
    let entry = Entry {
        org: org.clone(),
        connector: id.clone(),
        at: moment(200),
        kind: "test".to_owned(),
        outcome: Some("passed".to_owned()),
        actor: Some("ada".to_owned()),
        detail: None,
        duration: Some(Duration::from_millis(5)),
        version: None,
    };
    store.add_timeline(&entry).await.unwrap();

    let mut lines = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.timeline(&org, &id, cursor.as_deref(), 1).await.unwrap();
        lines.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }

    let kinds: Vec<_> = lines.iter().map(|line| (line.kind.as_str(), line.outcome.as_deref())).collect();
    assert_eq!(
        kinds,
        [("exchange", None), ("test", Some("passed")), ("exchange", Some("busy")), ("connected", Some("connected")),]
    );
    assert_eq!(lines[0].duration, None);
    assert_eq!(lines[2].duration, Some(Duration::from_millis(80)));
    assert_eq!(lines[2].actor.as_deref(), Some("caller"));
    assert_eq!(store.open_exchange_count().await.unwrap(), 1);
}

async fn milestones_are_the_last_turns_of_each_connector(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let (_, quiet) = connect(&store, "globex").await;
    let other = store.ensure_org("Other").await.unwrap();
    let kept = |secs: i64| Some(moment(secs).trunc_subsecs(6));
    let turns = async |id: &ConnectorId| {
        let all = store.milestones(&org).await.unwrap();
        assert_eq!(all.len(), 2);
        all.into_iter().find(|one| one.connector == *id).unwrap()
    };
    let fresh = turns(&id).await;
    assert_eq!((fresh.health, fresh.rotated_at, fresh.failed_at), (Health::Connected, None, None));
    assert!(fresh.worked_at.is_some());

    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let exchange = exchange(&snapshot, &lease, "a");
    store.begin(&exchange).await.unwrap();
    store.store_rotation(&exchange, &rotation("second")).await.unwrap();
    let version = load(&store, &id).await.credential.version;
    store.fail(&snapshot.credential.id, &refusal(version), None).await.unwrap();

    let failed = turns(&id).await;
    assert_eq!((failed.health, failed.failed_at), (Health::AuthFailed, kept(103)));
    assert!(failed.rotated_at.is_some() && failed.epoch > fresh.epoch && failed.worked_at == fresh.worked_at);
    store.heal(&id, version, Event::TestPassed, moment(200)).await.unwrap();
    let healed = turns(&id).await;
    assert_eq!((healed.worked_at, healed.failed_at), (kept(200), kept(103)));
    assert_eq!(turns(&quiet).await.rotated_at, None);
    assert!(store.milestones(&other).await.unwrap().is_empty(), "an org sees its own");
}

async fn a_key_is_found_by_its_hash_and_revoked_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let other = store.ensure_org("Other").await.unwrap();
    let scopes = ["connectors:read".to_owned()];
    let id = store.create_key(&org, "CI", &scopes, &[7; 32], moment(0)).await.unwrap();

    let found = store.find_key(&[7; 32]).await.unwrap().unwrap();

    assert_eq!((found.id.as_str(), &found.org, found.scopes.as_slice()), (id.as_str(), &org, scopes.as_slice()));
    assert_eq!(store.find_key(&[8; 32]).await.unwrap(), None);
    assert_eq!(store.revoke_key(&other, &id, moment(1)).await.unwrap(), Changed::No);
    assert_eq!(store.revoke_key(&org, &id, moment(1)).await.unwrap(), Changed::Yes);
    assert_eq!(store.revoke_key(&org, &id, moment(2)).await.unwrap(), Changed::No);
    assert!(store.keys(&org).await.unwrap()[0].revoked_at.is_some());
    assert!(store.keys(&other).await.unwrap().is_empty());
}
