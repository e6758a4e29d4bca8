//! The queue: what is asked for is there once, is one worker's at a time, and comes to one end.

mod claims;
mod hand;
mod lanes;
mod turns;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, JobId, OrgId,
    error::Retry,
    job::{Fault, Kind, Next, Outcome, Policy, State},
};
use holdfast_store::{Attempt, ClaimedJob, Enqueued, JobFilter, JobsWanted, NewJob, Store, Turn};
use serde_json::json;

use crate::harness::{TestDatabase, eventually, moment, on_both, on_postgres};

on_both! {
    the_same_key_is_the_same_job,
    what_is_done_is_kept_with_its_attempt_and_forgotten_in_time,
    a_job_for_later_is_ready_when_its_time_has_come,
    jobs_are_counted_and_listed,
}

const LEASE: Duration = Duration::from_mins(1);
/// Over as soon as it has begun.
const NO_LEASE: Duration = Duration::ZERO;
const POLICY: Policy =
    Policy { attempts: 3, backoff_base: Duration::from_secs(2), backoff_cap: Duration::from_mins(1) };

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

/// An event of this connector.
fn event(org: &OrgId, connector: &ConnectorId, number: i64) -> NewJob {
    NewJob {
        connector: Some(connector.clone()),
        due_at: moment(number),
        at: moment(number),
        ..job(org, Kind::Event, &format!("{connector} {number}"))
    }
}

async fn enqueue(store: &Store, job: &NewJob) -> JobId {
    match store.enqueue(job).await.unwrap() {
        Enqueued::Yes(id) => id,
        there @ Enqueued::Already(_) => panic!("{there:?}"),
    }
}

fn wanted(kind: Kind, count: usize) -> JobsWanted {
    JobsWanted { kind, count, per_connector: 1, lease: LEASE }
}

async fn claim(store: &Store, wanted: &JobsWanted, now: DateTime<Utc>) -> Vec<ClaimedJob> {
    store.claim_jobs(wanted, &mut Turn::default(), now).await.unwrap().jobs
}

fn attempt(claimed: &ClaimedJob, outcome: Outcome, at: DateTime<Utc>) -> Attempt {
    Attempt { claimed: claimed.clone(), outcome, policy: POLICY, unit: 1.0, at }
}

fn busy(retry: Retry) -> Outcome {
    Outcome::Failed(Fault::new("busy", "It is busy."), retry)
}

async fn settle(store: &Store, claimed: &ClaimedJob, outcome: Outcome, at: DateTime<Utc>) -> Option<Next> {
    store.settle_jobs(&[attempt(claimed, outcome, at)]).await.unwrap().remove(0)
}

async fn state(store: &Store, org: &OrgId, id: &JobId) -> State {
    store.find_job(org, id.as_str()).await.unwrap().expect("it is there").state
}

async fn outcomes(store: &Store, id: &JobId) -> Vec<String> {
    let attempts = store.job_attempts(id, 100).await.unwrap();
    attempts.into_iter().rev().map(|attempt| attempt.outcome).collect()
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

    // By many at once, for two agents each.
    let ask = |number: usize| {
        let (store, org) = (store.clone(), org.clone());
        async move { store.enqueue(&job(&org, Kind::AgentRun, &format!("event 2, agent {}", number % 2))).await }
    };
    let asked: Vec<_> = futures::future::join_all((0..16).map(ask)).await;

    let new = asked.iter().filter(|asked| matches!(asked, Ok(Enqueued::Yes(_)))).count();
    assert_eq!((new, asked.iter().filter(|asked| asked.is_err()).count()), (2, 0));
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs WHERE key LIKE 'event 2%'").await, 2);
}

async fn what_is_done_is_kept_with_its_attempt_and_forgotten_in_time(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let id = enqueue(&store, &job(&org, Kind::Mail, "one")).await;
    let dead = enqueue(&store, &job(&org, Kind::Mail, "two")).await;
    let claimed = claim(&store, &wanted(Kind::Mail, 10), moment(5)).await;
    assert_eq!(claimed.len(), 2);
    let of = |id: &JobId| claimed.iter().find(|claimed| claimed.job.id == *id).unwrap();

    assert_eq!(settle(&store, of(&id), Outcome::Done, moment(6)).await, Some(Next::Done));
    assert_eq!(settle(&store, of(&id), Outcome::Done, moment(7)).await, None, "it is not its any more");
    let refused = settle(&store, of(&dead), busy(Retry::Never), moment(6)).await;
    assert_eq!(refused, Some(Next::Dead(Fault::new("busy", "It is busy."))));

    let done = store.find_job(&org, id.as_str()).await.unwrap().unwrap();
    assert_eq!((done.state, done.attempts, done.fault), (State::Done, 1, None));
    assert_eq!((done.subject.as_str(), done.payload["n"].as_i64()), ("about one", Some(1)));
    let attempts = store.job_attempts(&id, 10).await.unwrap();
    let [only] = attempts.as_slice() else { panic!("{attempts:?}") };
    assert_eq!((only.number, only.outcome.as_str(), only.holder.as_deref()), (1, "done", Some("one")));
    assert!((only.ended_at - only.started_at).num_seconds() == 1, "{only:?}");
    assert_eq!(store.job_attempts(&dead, 10).await.unwrap()[0].fault, Some(Fault::new("busy", "It is busy.")));

    assert_eq!(store.forget_jobs(moment(6), moment(6)).await.unwrap(), 0);
    assert_eq!(store.forget_jobs(moment(60), moment(6)).await.unwrap(), 1);
    assert_eq!(
        (store.find_job(&org, id.as_str()).await.unwrap(), state(&store, &org, &dead).await),
        (None, State::Dead)
    );
    assert_eq!(db.number("SELECT COUNT(*) FROM job_attempts").await, 1);
}

async fn a_job_for_later_is_ready_when_its_time_has_come(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let later = NewJob { due_at: moment(100), ..job(&org, Kind::Sync, "later") };
    let id = enqueue(&store, &later).await;
    let failing = enqueue(&store, &job(&org, Kind::Sync, "failing")).await;
    let claimed = claim(&store, &wanted(Kind::Sync, 10), moment(1)).await;
    assert_eq!(claimed.len(), 1, "{claimed:?}");

    let told = busy(Retry::After(Duration::from_secs(1000)));
    let next = settle(&store, &claimed[0], told, moment(1)).await;

    assert_eq!(next, Some(Next::Again(Duration::from_secs(1100))), "as told, and the jitter at its most");
    let failed = store.find_job(&org, failing.as_str()).await.unwrap().unwrap();
    assert_eq!((failed.state, failed.attempts), (State::Waiting, 1));
    assert_eq!(failed.fault, Some(Fault::new("busy", "It is busy.")));
    let next = store.ready_due_jobs(moment(99)).await.unwrap().unwrap();
    assert_eq!((next - moment(100)).num_milliseconds(), 0);
    assert!(claim(&store, &wanted(Kind::Sync, 10), moment(99)).await.is_empty());

    let next = store.ready_due_jobs(moment(101)).await.unwrap().unwrap();

    assert_eq!((next - moment(1101)).num_milliseconds(), 0);
    let claimed = claim(&store, &wanted(Kind::Sync, 10), moment(101)).await;
    assert_eq!(claimed.iter().map(|claimed| &claimed.job.id).collect::<Vec<_>>(), [&id]);
}

async fn jobs_are_counted_and_listed(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let other = store.ensure_org("Globex").await.unwrap();
    for number in 0..5 {
        enqueue(&store, &job(&org, Kind::Mail, &format!("mail {number}"))).await;
        enqueue(&store, &job(&org, Kind::Deliver, &format!("delivery {number}"))).await;
        enqueue(&store, &job(&other, Kind::Mail, &format!("mail {number}"))).await;
    }
    let claimed = claim(&store, &wanted(Kind::Deliver, 2), moment(0)).await;
    settle(&store, &claimed[0], busy(Retry::Never), moment(1)).await;

    let mut counts: Vec<_> = store.count_jobs().await.unwrap();
    counts.sort_by_key(|count| (count.kind, count.state));
    let counts: Vec<_> = counts.into_iter().map(|count| (count.kind, count.state, count.count)).collect();
    assert_eq!(
        counts,
        [
            (Kind::Mail, State::Ready, 10),
            (Kind::Deliver, State::Ready, 3),
            (Kind::Deliver, State::Running, 1),
            (Kind::Deliver, State::Dead, 1),
        ]
    );

    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = store.jobs(&org, &JobFilter::default(), cursor.as_deref(), 4).await.unwrap();
        seen.extend(page.data.into_iter().map(|job| job.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 10);
    assert!(seen.is_sorted_by(|a, b| a > b), "newest first, each once");
    let dead = JobFilter { kind: Some(Kind::Deliver), state: Some(State::Dead), connector: None };
    assert_eq!(store.jobs(&org, &dead, None, 10).await.unwrap().data.len(), 1);
    assert_eq!(store.jobs(&other, &dead, None, 10).await.unwrap().data.len(), 0);
    assert_eq!(store.find_job(&other, seen[0].as_str()).await.unwrap(), None);
}

async fn told(db: Arc<TestDatabase>) {
    let (one, two) = (db.replica("one").await, db.replica("two").await);
    let (_one, _two) = (crate::signals::running(&one).await, crate::signals::running(&two).await);
    let org = one.ensure_org("Acme").await.unwrap();
    let mut here = one.subscribe_jobs();
    let there = tokio::sync::Mutex::new(two.subscribe_jobs());

    enqueue(&one, &job(&org, Kind::Event, "one")).await;

    let told = here.try_recv().expect("at once in the process itself");
    assert_eq!((&told.org, told.kind), (&org, Kind::Event));
    eventually("the other replica hears of it", || async { there.lock().await.try_recv().ok() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_one_replica_is_heard_of_by_another() {
    on_postgres(told).await;
}
