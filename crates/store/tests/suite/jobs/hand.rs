//! What people do to jobs.

use std::sync::Arc;

use holdfast_core::{
    error::Retry,
    job::{Kind, Next, Outcome, State},
};
use holdfast_store::{ByHand, Did, JobFilter};

use super::{busy, claim, enqueue, event, job, outcomes, settle, state, wanted};
use crate::{
    agents::fail,
    harness::{TestDatabase, connect, moment, on_both},
};

on_both! {
    a_retry_of_a_job_that_runs_changes_nothing_and_says_so,
    of_many_retries_at_once_one_is_heard,
    what_is_dead_is_tried_again_with_all_attempts,
    what_is_discarded_is_not_done,
    all_of_a_filter_are_told_at_once,
}

async fn a_retry_of_a_job_that_runs_changes_nothing_and_says_so(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let other = store.ensure_org("Globex").await.unwrap();
    let id = enqueue(&store, &job(&org, Kind::Mail, "one")).await;
    let running = claim(&store, &wanted(Kind::Mail, 1), moment(0)).await.remove(0);

    for wish in [ByHand::Retry, ByHand::Discard] {
        let did = store.handle_job(&org, id.as_str(), wish, "user_1", moment(1)).await.unwrap();
        assert_eq!(did, Did::No(State::Running));
        let all = store.handle_jobs(&org, &JobFilter::default(), wish, "user_1", moment(1)).await.unwrap();
        assert_eq!(all, 0);
        assert_eq!(store.handle_job(&other, id.as_str(), wish, "user_2", moment(1)).await.unwrap(), Did::NoJob);
    }

    assert!(claim(&store, &wanted(Kind::Mail, 1), moment(2)).await.is_empty(), "there is no second run");
    assert_eq!(settle(&store, &running, Outcome::Done, moment(3)).await, Some(Next::Done));
    let did = store.handle_job(&org, id.as_str(), ByHand::Retry, "user_1", moment(4)).await.unwrap();
    assert_eq!(did, Did::No(State::Done));
    assert_eq!(outcomes(&store, &id).await, ["done"]);
}

async fn of_many_retries_at_once_one_is_heard(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let id = enqueue(&store, &job(&org, Kind::Mail, "one")).await;
    let running = claim(&store, &wanted(Kind::Mail, 1), moment(0)).await.remove(0);
    settle(&store, &running, busy(Retry::Never), moment(1)).await;

    let retry = |_| store.handle_job(&org, id.as_str(), ByHand::Retry, "user_1", moment(2));
    let did = futures::future::join_all((0..8).map(retry)).await;

    assert_eq!(did.iter().filter(|did| matches!(did, Ok(Did::Yes))).count(), 1, "{did:?}");
    assert_eq!(claim(&store, &wanted(Kind::Mail, 8), moment(3)).await.len(), 1);
}

async fn what_is_dead_is_tried_again_with_all_attempts(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let id = enqueue(&store, &job(&org, Kind::Mail, "one")).await;
    for round in 0..3 {
        store.ready_due_jobs(moment(100 * round)).await.unwrap();
        let claimed = claim(&store, &wanted(Kind::Mail, 1), moment(100 * round)).await.remove(0);
        settle(&store, &claimed, busy(Retry::Backoff), moment(100 * round)).await;
    }
    assert_eq!(state(&store, &org, &id).await, State::Dead);

    let did = store.handle_job(&org, id.as_str(), ByHand::Retry, "user_1", moment(400)).await.unwrap();

    assert_eq!(did, Did::Yes);
    let ready = store.find_job(&org, id.as_str()).await.unwrap().unwrap();
    assert_eq!((ready.state, ready.attempts, ready.fault, ready.ended_at), (State::Ready, 0, None, None));
    assert_eq!(ready.actor.as_deref(), Some("user_1"));
    let claimed = claim(&store, &wanted(Kind::Mail, 1), moment(400)).await.remove(0);
    let next = settle(&store, &claimed, busy(Retry::Backoff), moment(400)).await;
    assert!(matches!(next, Some(Next::Again(_))), "{next:?}");
    assert_eq!(outcomes(&store, &id).await.len(), 4, "what was before is kept");
    // It rests; a person may not want to wait.
    let did = store.handle_job(&org, id.as_str(), ByHand::Retry, "user_1", moment(401)).await.unwrap();
    assert_eq!((did, state(&store, &org, &id).await), (Did::Yes, State::Ready));
}

async fn what_is_discarded_is_not_done(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let ready = enqueue(&store, &job(&org, Kind::Mail, "one")).await;
    let parked = enqueue(&store, &event(&org, &acme, 0)).await;
    fail(&store, &acme).await;

    for id in [&ready, &parked] {
        let did = store.handle_job(&org, id.as_str(), ByHand::Discard, "user_1", moment(1)).await.unwrap();
        assert_eq!((did, state(&store, &org, id).await), (Did::Yes, State::Discarded));
        let again = store.handle_job(&org, id.as_str(), ByHand::Discard, "user_1", moment(2)).await.unwrap();
        assert_eq!(again, Did::No(State::Discarded));
    }

    assert!(claim(&store, &wanted(Kind::Mail, 10), moment(5)).await.is_empty());
    let did = store.handle_job(&org, ready.as_str(), ByHand::Retry, "user_1", moment(6)).await.unwrap();
    assert_eq!(did, Did::Yes, "whoever thinks better of it");
}

async fn all_of_a_filter_are_told_at_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let other = store.ensure_org("Globex").await.unwrap();
    for number in 0..10 {
        enqueue(&store, &job(&org, Kind::Mail, &format!("{number}"))).await;
        enqueue(&store, &job(&org, Kind::Deliver, &format!("{number}"))).await;
        enqueue(&store, &job(&other, Kind::Mail, &format!("{number}"))).await;
    }
    for kind in [Kind::Mail, Kind::Deliver] {
        for claimed in claim(&store, &wanted(kind, 100), moment(0)).await {
            settle(&store, &claimed, busy(Retry::Never), moment(1)).await;
        }
    }
    let dead = JobFilter { state: Some(State::Dead), kind: Some(Kind::Mail), connector: None };

    let told = store.handle_jobs(&org, &dead, ByHand::Retry, "user_1", moment(2)).await.unwrap();

    assert_eq!(told, 10);
    assert_eq!(claim(&store, &wanted(Kind::Mail, 100), moment(3)).await.len(), 10);
    let rest = JobFilter { kind: Some(Kind::Deliver), ..JobFilter::default() };
    assert_eq!(store.handle_jobs(&org, &rest, ByHand::Discard, "user_1", moment(4)).await.unwrap(), 10);
    assert_eq!(store.handle_jobs(&org, &rest, ByHand::Discard, "user_1", moment(5)).await.unwrap(), 0);
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs WHERE state = 'dead'").await, 10, "the other org's");
}
