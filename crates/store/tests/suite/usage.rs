//! What connectors were used for.

use std::{collections::HashMap, sync::Arc};

use holdfast_core::{ConnectorId, Secret};
use holdfast_store::{Created, DayCount, Store, Used};

use crate::harness::{TestDatabase, kept, moment, new_connector, on_both, tokens};

on_both! {
    usage_of_all_replicas_adds_up_by_day,
}

async fn made(store: &Store, org: &str, account: &str) -> ConnectorId {
    let org = store.ensure_org(org).await.unwrap();
    match store.create_connector(&new_connector(&org, account, Secret::Tokens(tokens("first")))).await.unwrap() {
        Created::New(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn usage_of_all_replicas_adds_up_by_day(db: Arc<TestDatabase>) {
    let (store, two) = (db.store().await, db.replica("two").await);
    let (acme, beta) = (made(&store, "Acme", "acme").await, made(&store, "Acme", "beta").await);
    let theirs = made(&store, "Globex", "globex").await;
    let (org, day) = (store.ensure_org("Acme").await.unwrap(), 86_400);
    let counts = |calls, failed| {
        let used = Used { calls, failed, tokens: 0 };
        let given = Used { tokens: 1, ..Used::default() };
        HashMap::from([(acme.clone(), used), (theirs.clone(), used), (beta.clone(), given), ("con_gone".into(), used)])
    };
    let (first, second) = (counts(5, 1), counts(10, 4));
    let (one, other) = tokio::join!(store.add_usage(&first, moment(0)), two.add_usage(&second, moment(1)));
    one.and(other).unwrap();
    store.add_usage(&first, moment(day)).await.unwrap();

    let name = |at| moment(at).format("%Y-%m-%d").to_string();
    let (today, next) = (moment(0), moment(day).date_naive());
    let both = [DayCount { day: name(0), good: 10, bad: 5 }, DayCount { day: name(day), good: 4, bad: 1 }];
    assert_eq!(store.call_days(&org, None, today).await.unwrap(), both);
    assert_eq!(store.call_days(&org, Some(&acme), today).await.unwrap(), both);
    assert_eq!(store.call_days(&org, Some(&theirs), today).await.unwrap(), [], "another org's");
    assert_eq!(store.call_days(&org, Some(&beta), today).await.unwrap(), [], "no call");

    let used = store.last_used(&[acme.clone(), beta.clone(), "con_gone".into()]).await.unwrap();
    assert_eq!(used, HashMap::from([(acme, kept(day)), (beta, kept(day))]));
    assert!(store.last_used(&[]).await.unwrap().is_empty());

    store.forget_usage(next).await.unwrap();
    assert_eq!(store.call_days(&org, None, today).await.unwrap(), both[1..]);
}
