//! Lists of connectors, and what is counted for pages.

use std::sync::Arc;

use holdfast_core::{
    ConnectorId, Health, OrgId, Secret, TokenSet,
    credential::Trouble,
    ports::{Close, CredentialStore as _, Marks},
    refresh::OutcomeKind,
};
use holdfast_store::{ConnectorLine, Created, LineFilter, LineState, NewConnector, Store};
use serde_json::json;

use crate::harness::{
    TestDatabase, close, connect, exchange, lease, load, moment, new_connector, on_both, refusal, rotation, tokens,
};

on_both! {
    lines_are_sorted_by_name_and_paged,
    lines_are_found_by_what_people_type,
    lines_say_what_needs_somebody,
    exchanges_are_counted_by_day,
    a_timeline_of_one_kind_has_nothing_else,
    what_a_test_said_is_kept,
}

async fn named(store: &Store, org: &OrgId, account: &str, name: &str, alias: Option<&str>) -> ConnectorId {
    let new = NewConnector {
        name: name.to_owned(),
        alias: alias.map(str::to_owned),
        ..new_connector(org, account, Secret::Tokens(tokens("first")))
    };
    match store.create_connector(&new).await.unwrap() {
        Created::New(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn all(store: &Store, org: &OrgId, filter: &LineFilter, limit: u64) -> Vec<ConnectorLine> {
    let (mut lines, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.connector_lines(org, filter, cursor.as_deref(), limit).await.unwrap();
        assert!(page.data.len() as u64 <= limit);
        lines.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return lines;
        }
    }
}

async fn lines_are_sorted_by_name_and_paged(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, other) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Other").await.unwrap());
    named(&store, &other, "acme", "Another org's", None).await;
    for (number, name) in ["beta", "Alpha.2", "alpha", "Ünder", "beta", "-dash", "_under", "Zulu"].iter().enumerate() {
        named(&store, &org, &format!("acme{number}"), name, None).await;
    }

    for limit in [1, 2, 3, 100] {
        let lines = all(&store, &org, &LineFilter::default(), limit).await;

        let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["-dash", "_under", "alpha", "Alpha.2", "beta", "beta", "Zulu", "Ünder"], "by {limit}");
        assert!(lines[4].id < lines[5].id);
    }
    assert_eq!(store.connector_ids(&org, 100).await.unwrap().len(), 8);
    let first = &all(&store, &org, &LineFilter::default(), 1).await[0];
    assert_eq!(store.org_of_connector(&first.id).await.unwrap(), Some(org.clone()));
    assert_eq!(store.org_of_connector(&"con_none".into()).await.unwrap(), None);
    let found = store.find_account(&org, "zendesk", "acme5").await.unwrap().unwrap();
    assert_eq!(found.name, "-dash");
    assert_eq!(store.find_account(&other, "zendesk", "acme5").await.unwrap(), None);
}

async fn lines_are_found_by_what_people_type(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let plain = named(&store, &org, "acme", "Support (EU)", Some("old-7")).await;
    let percent = named(&store, &org, "percent", "100% sure", None).await;
    let tokyo = named(&store, &org, "tokyo", "東京サポート", None).await;

    for (typed, expected) in [
        ("support", vec![&plain]),
        ("SUPPORT (e", vec![&plain]),
        (" acme ", vec![&plain]),
        ("old-7", vec![&plain]),
        (plain.as_str(), vec![&plain]),
        ("%", vec![&percent]),
        ("100% s", vec![&percent]),
        ("_", vec![]),
        (&plain.as_str()[..20], vec![]),
        ("京サ", vec![&tokyo]),
        ("\\", vec![]),
        ("' OR 1 = 1 --", vec![]),
        ("nothing like it", vec![]),
    ] {
        let filter = LineFilter { search: Some(typed.to_owned()), ..LineFilter::default() };
        let found: Vec<_> = all(&store, &org, &filter, 10).await.into_iter().map(|line| line.id).collect();
        assert_eq!(found.len(), expected.len(), "{typed}: {found:?}");
        assert!(expected.iter().all(|id| found.contains(id)), "{typed}: {found:?}");
    }
    let nowhere = LineFilter { provider: Some("front".to_owned()), ..LineFilter::default() };
    assert!(all(&store, &org, &nowhere, 10).await.is_empty());
}

async fn lines_say_what_needs_somebody(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, failed) = connect(&store, "failed").await;
    let (_, tired) = connect(&store, "tired").await;
    let (_, fine) = connect(&store, "fine").await;
    let unrenewable = Secret::Tokens(TokenSet { refresh_token: None, ..tokens("first") });
    let ending = NewConnector { due_at: None, ..new_connector(&org, "ending", unrenewable) };
    let Created::New(ending) = store.create_connector(&ending).await.unwrap() else { panic!("it is new") };
    let snapshot = load(&store, &failed).await;
    store.fail(&snapshot.credential.id, &refusal(snapshot.credential.version), None).await.unwrap();
    let snapshot = load(&store, &tired).await;
    let lease = lease(&store, &snapshot, "one").await;
    let busy = exchange(&snapshot, &lease, "a");
    store.begin(&busy).await.unwrap();
    let marks = Marks { trouble: Trouble::Busy, retry_at: moment(500), failures: 1, answer_lost: false };
    store.close(&busy, &Close { marks: Some(marks), ..close(OutcomeKind::Busy) }).await.unwrap();

    let needs = store.failed_lines(&org, 5).await.unwrap();
    assert_eq!(needs.len(), 1);
    assert_eq!((&needs[0].id, needs[0].health), (&failed, Health::AuthFailed));
    assert_eq!(needs[0].detail.as_deref(), Some("invalid_grant"));
    let marked = store.degraded_lines(&org, 5).await.unwrap();
    assert_eq!(marked.iter().map(|line| &line.id).collect::<Vec<_>>(), [&tired]);
    assert_eq!(marked[0].degraded.unwrap().class, Trouble::Busy);
    let over = store.ending_lines(&org, moment(100_000), 5).await.unwrap();
    assert_eq!(over.iter().map(|line| (&line.id, line.renewed)).collect::<Vec<_>>(), [(&ending, false)]);
    assert!(store.ending_lines(&org, moment(10), 5).await.unwrap().is_empty());

    for (state, expected) in [
        (LineState::Health(Health::AuthFailed), vec![&failed]),
        (LineState::Degraded, vec![&tired]),
        (LineState::Health(Health::Connected), vec![&ending, &fine, &tired]),
        (LineState::Health(Health::Pending), vec![]),
    ] {
        let filter = LineFilter { state: Some(state), ..LineFilter::default() };
        let found = all(&store, &org, &filter, 10).await;
        assert_eq!(found.iter().map(|line| &line.id).collect::<Vec<_>>(), expected, "{state:?}");
    }
    let counts = store.count_connectors(&org).await.unwrap();
    let counts: Vec<_> = counts.iter().map(|count| (count.health, count.count, count.degraded)).collect();
    assert_eq!(counts, [(Health::AuthFailed, 1, 0), (Health::Connected, 3, 1)]);
    let other = store.ensure_org("Other").await.unwrap();
    assert!(store.count_connectors(&other).await.unwrap().is_empty());
    assert!(store.failed_lines(&other, 5).await.unwrap().is_empty());
}

async fn exchanges_are_counted_by_day(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let day = 86_400;
    let lease = lease(&store, &load(&store, &id).await, "one").await;
    for (number, (at, outcome)) in [
        (0, OutcomeKind::Rotated),
        (10, OutcomeKind::Busy),
        (20, OutcomeKind::NotSent),
        (day, OutcomeKind::Rejected),
        (day + 1, OutcomeKind::OwnerLost),
    ]
    .into_iter()
    .enumerate()
    {
        let snapshot = load(&store, &id).await;
        let mut made = exchange(&snapshot, &lease, &number.to_string());
        made.started_at = moment(at);
        store.begin(&made).await.unwrap();
        if outcome == OutcomeKind::Rotated {
            store.store_rotation(&made, &rotation("second")).await.unwrap();
        } else {
            store.close(&made, &close(outcome)).await.unwrap();
        }
    }

    let days = store.exchange_days(&org, Some(&id), moment(-day)).await.unwrap();

    let names: Vec<_> = [0, day].map(|at| moment(at).format("%Y-%m-%d").to_string()).into();
    let days: Vec<_> = days.iter().map(|day| (day.day.as_str(), day.good, day.bad)).collect();
    assert_eq!(days, [(names[0].as_str(), 1, 1), (names[1].as_str(), 0, 2)]);
    assert_eq!(store.exchange_days(&org, Some(&id), moment(day)).await.unwrap().len(), 1);
    assert_eq!(
        store.exchange_days(&org, None, moment(day)).await.unwrap(),
        store.exchange_days(&org, Some(&id), moment(day)).await.unwrap()
    );
    let other = store.ensure_org("Other").await.unwrap();
    assert!(store.exchange_days(&other, None, moment(0)).await.unwrap().is_empty());
    assert!(store.exchange_days(&other, Some(&id), moment(0)).await.unwrap().is_empty());
}

async fn a_timeline_of_one_kind_has_nothing_else(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let made = exchange(&snapshot, &lease, "a");
    store.begin(&made).await.unwrap();
    store.close(&made, &close(OutcomeKind::Busy)).await.unwrap();

    for (kinds, expected) in [
        (&["exchange"][..], vec!["exchange"]),
        (&["connected", "health"], vec!["connected"]),
        (&["test"], vec![]),
        (&["exchange", "connected"], vec!["exchange", "connected"]),
        (&[], vec!["exchange", "connected"]),
    ] {
        let page = store.timeline_of(&org, &id, kinds, None, 10).await.unwrap();
        let found: Vec<_> = page.data.iter().map(|line| line.kind.as_str()).collect();
        assert_eq!(found, expected, "{kinds:?}");
        let cursor = store.timeline_of(&org, &id, kinds, None, 1).await.unwrap().next_cursor;
        assert_eq!(cursor.is_some(), expected.len() > 1);
        if let Some(cursor) = cursor {
            let rest = store.timeline_of(&org, &id, kinds, Some(&cursor), 10).await.unwrap();
            assert_eq!(rest.data.len(), expected.len() - 1, "{kinds:?}");
        }
    }
}

async fn what_a_test_said_is_kept(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    assert_eq!(store.last_test(&org, &id).await.unwrap(), None);

    store.set_test(&id, &json!({"ok": true}), Some(&json!({"name": "Ada"}))).await.unwrap();
    store.set_test(&id, &json!({"ok": false}), None).await.unwrap();

    assert_eq!(store.last_test(&org, &id).await.unwrap(), Some(json!({"ok": false})));
    let view = store.find_connector(&org, id.as_str()).await.unwrap().unwrap();
    assert_eq!(view.identity, Some(json!({"name": "Ada"})), "a test that failed says nothing of who it is");
    let other = store.ensure_org("Other").await.unwrap();
    assert_eq!(store.last_test(&other, &id).await.unwrap(), None);
}
