//! The queue: what is asked for is there once.

use std::sync::Arc;

use holdfast_core::{OrgId, job::Kind};
use holdfast_store::{Enqueued, NewJob};
use serde_json::json;

use crate::harness::{TestDatabase, moment, on_both};

on_both! {
    the_same_key_is_the_same_job,
}

fn job(org: &OrgId, kind: Kind, key: &str) -> NewJob {
    NewJob {
        org: org.clone(),
        kind,
        key: key.to_owned(),
        connector: None,
        subject: format!("about {key}"),
        payload: json!({"n": 1}),
        due_at: moment(0),
        at: moment(0),
    }
}

/// QJ-05
async fn the_same_key_is_the_same_job(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let other = store.ensure_org("Globex").await.unwrap();

    let Enqueued::Yes(one) = store.enqueue(&job(&org, Kind::Event, "event 1")).await.unwrap() else {
        panic!("it is new")
    };
    let again = store.enqueue(&job(&org, Kind::Event, "event 1")).await.unwrap();
    let elsewhere = store.enqueue(&job(&other, Kind::Event, "event 1")).await.unwrap();
    let kind = store.enqueue(&job(&org, Kind::AgentRun, "event 1")).await.unwrap();

    assert_eq!(again, Enqueued::Already(one.clone()));
    assert!(matches!((&elsewhere, &kind), (Enqueued::Yes(_), Enqueued::Yes(_))), "{elsewhere:?} {kind:?}");
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs").await, 3);
}
