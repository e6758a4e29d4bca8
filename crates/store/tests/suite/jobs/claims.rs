//! One worker's at a time, whoever dies or stands still.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use holdfast_core::{
    error::Retry,
    job::{Kind, Next, Outcome, State},
};
use holdfast_store::{JobsWanted, Store, Turn};
use sqlx::{Connection as _, Executor as _, PgConnection};

use super::{LEASE, NO_LEASE, POLICY, attempt, busy, claim, enqueue, event, job, outcomes, settle, state, wanted};
use crate::{
    agents::another,
    harness::{TestDatabase, connect, moment, on_both, on_postgres},
};

on_both! {
    a_job_whose_process_dies_each_time_is_dead_after_its_attempts,
    a_worker_that_stood_still_past_its_lease_is_not_heard,
    a_sign_of_life_keeps_a_job,
    what_is_given_back_costs_no_attempt_and_is_next,
    each_of_many_jobs_is_done_once_by_many_workers,
    no_more_of_a_connector_run_at_once_than_may,
}

/// QJ-01
async fn a_job_whose_process_dies_each_time_is_dead_after_its_attempts(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let id = enqueue(&store, &job(&org, Kind::Mail, "one")).await;
    let wanted = JobsWanted { lease: NO_LEASE, ..wanted(Kind::Mail, 10) };

    for attempts in 1..=3 {
        let now = moment(100 * attempts);
        store.ready_due_jobs(now).await.unwrap();
        assert_eq!(claim(&store, &wanted, now).await.len(), 1, "attempt {attempts}");
        // Its process is gone without a word.
        assert_eq!(store.recover_jobs(now, |_| POLICY, || 1.0).await.unwrap(), 1);
        assert_eq!(store.recover_jobs(now, |_| POLICY, || 1.0).await.unwrap(), 0);
        let job = store.find_job(&org, id.as_str()).await.unwrap().unwrap();
        assert_eq!(i64::from(job.attempts), attempts);
        assert_eq!(job.state, if attempts < 3 { State::Waiting } else { State::Dead });
        assert_eq!(job.fault.unwrap().code, "lost");
    }

    assert_eq!(outcomes(&store, &id).await, ["lost", "lost", "lost"]);
}

async fn a_worker_that_stood_still_past_its_lease_is_not_heard(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let id = enqueue(&store, &job(&org, Kind::Mail, "one")).await;
    let stalled = claim(&store, &JobsWanted { lease: NO_LEASE, ..wanted(Kind::Mail, 1) }, moment(0)).await.remove(0);
    store.recover_jobs(moment(1), |_| POLICY, || 0.0).await.unwrap();
    store.ready_due_jobs(moment(10)).await.unwrap();
    let other = claim(&store, &wanted(Kind::Mail, 1), moment(10)).await.remove(0);
    assert_eq!((&other.job.id, other.job.attempts), (&id, 2));

    let late = store.renew_jobs(&[(stalled.job.id.clone(), stalled.claim)], LEASE).await.unwrap();
    assert!(late.iter().eq([&id]), "it is told that it has lost the job");
    for outcome in [Outcome::Done, busy(Retry::Never), busy(Retry::Backoff), Outcome::GivenBack] {
        assert_eq!(settle(&store, &stalled, outcome, moment(11)).await, None);
    }
    let both = [attempt(&stalled, Outcome::Done, moment(12)), attempt(&other, Outcome::Done, moment(12))];

    assert_eq!(store.settle_jobs(&both).await.unwrap(), [None, Some(Next::Done)]);
    assert_eq!(outcomes(&store, &id).await, ["lost", "done"]);
}

async fn a_sign_of_life_keeps_a_job(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    for key in ["one", "two"] {
        enqueue(&store, &job(&org, Kind::Mail, key)).await;
    }
    let claimed = claim(&store, &JobsWanted { lease: NO_LEASE, ..wanted(Kind::Mail, 2) }, moment(0)).await;

    assert!(store.renew_jobs(&[(claimed[0].job.id.clone(), claimed[0].claim)], LEASE).await.unwrap().is_empty());

    assert_eq!(store.recover_jobs(moment(1), |_| POLICY, || 0.0).await.unwrap(), 1);
    assert_eq!(settle(&store, &claimed[0], Outcome::Done, moment(2)).await, Some(Next::Done));
    assert_eq!(settle(&store, &claimed[1], Outcome::Done, moment(2)).await, None);
}

/// WD-05
async fn what_is_given_back_costs_no_attempt_and_is_next(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let id = enqueue(&store, &job(&org, Kind::Mail, "one")).await;
    let claimed = claim(&store, &wanted(Kind::Mail, 1), moment(0)).await.remove(0);

    assert_eq!(settle(&store, &claimed, Outcome::GivenBack, moment(1)).await, Some(Next::Back));

    let again = claim(&store, &wanted(Kind::Mail, 1), moment(1)).await.remove(0);
    assert_eq!((&again.job.id, again.job.attempts), (&id, 1));
    settle(&store, &again, Outcome::Done, moment(2)).await;
    assert_eq!(outcomes(&store, &id).await, ["given_back", "done"]);
}

/// QJ-02: a thousand jobs, eight workers, four of them replicas of their own where the database has replicas.
async fn each_of_many_jobs_is_done_once_by_many_workers(db: Arc<TestDatabase>) {
    let store = db.store().await;
    store.ensure_org("Acme").await.unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
                INSERT INTO jobs (id, org_id, kind, key, lane, subject, payload, state, due_at, created_at) \
                SELECT 'job_' || i, org.id, 'deliver', 'key ' || i, '-', '', '{}', 'ready', at.due_at, at.due_at \
                FROM n CROSS JOIN (SELECT id FROM orgs) org CROSS JOIN (SELECT created_at AS due_at FROM orgs) at";
    db.execute(fill).await;
    let mut replicas = vec![store.clone()];
    if !db.is_sqlite() {
        for name in ["two", "three", "four"] {
            replicas.push(db.replica(name).await);
        }
    }
    let done = Arc::new(Mutex::new(HashMap::<String, u32>::new()));
    let worker = |number: usize| {
        let (store, done): (Store, _) = (replicas[number % replicas.len()].clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let mut turn = Turn::default();
            loop {
                let wanted = wanted(Kind::Deliver, 7 + number);
                let claimed = store.claim_jobs(&wanted, &mut turn, moment(0)).await.unwrap().jobs;
                if claimed.is_empty() {
                    // Others may have the last ones; nothing comes back here.
                    return;
                }
                for claimed in claimed {
                    *done.lock().unwrap().entry(claimed.job.id.to_string()).or_default() += 1;
                    if number.is_multiple_of(2) {
                        tokio::task::yield_now().await;
                    }
                    let settled = settle(&store, &claimed, Outcome::Done, moment(1)).await;
                    assert_eq!(settled, Some(Next::Done));
                }
            }
        })
    };
    let workers: Vec<_> = (0..8).map(worker).collect();
    for worker in workers {
        worker.await.unwrap();
    }

    // Whoever saw only rows that others were taking stopped early.
    while let Some(claimed) = claim(&store, &wanted(Kind::Deliver, 1), moment(0)).await.pop() {
        *done.lock().unwrap().entry(claimed.job.id.to_string()).or_default() += 1;
        settle(&store, &claimed, Outcome::Done, moment(1)).await;
    }
    let done = done.lock().unwrap().clone();
    assert_eq!((done.len(), done.values().max()), (1000, Some(&1)));
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs WHERE state = 'done' AND claim = 1").await, 1000);
    assert_eq!(db.number("SELECT COUNT(*) FROM job_attempts").await, 1000);
}

/// Releases and failures in between put older jobs back while others are being claimed.
async fn no_more_of_a_connector_run_at_once_than_may(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    for number in 0..20 {
        enqueue(&store, &event(&org, &acme, number)).await;
        enqueue(&store, &event(&org, &globex, number)).await;
    }
    let running = Arc::new(Mutex::new(HashMap::<String, i32>::new()));
    let worker = |number: u32| {
        let (store, running) = (store.clone(), Arc::clone(&running));
        tokio::spawn(async move {
            let mut turn = Turn::default();
            let wanted = JobsWanted { per_connector: 2, ..wanted(Kind::Event, 5) };
            let mut done = 0;
            for round in 0..60 {
                let now = moment(1000 + i64::from(round));
                store.ready_due_jobs(now).await.unwrap();
                for claimed in store.claim_jobs(&wanted, &mut turn, now).await.unwrap().jobs {
                    let lane = claimed.job.connector.clone().unwrap().to_string();
                    let at_once = {
                        let mut running = running.lock().unwrap();
                        let count = running.entry(lane.clone()).or_default();
                        *count += 1;
                        *count
                    };
                    assert!(at_once <= 2, "{at_once} of {lane} run at once");
                    tokio::task::yield_now().await;
                    *running.lock().unwrap().get_mut(&lane).unwrap() -= 1;
                    let first = claimed.job.attempts == 1 && number == 0;
                    let outcome = if first { busy(Retry::Backoff) } else { Outcome::Done };
                    done += u32::from(outcome == Outcome::Done);
                    settle(&store, &claimed, outcome, now - chrono::TimeDelta::seconds(5)).await;
                }
            }
            done
        })
    };
    let workers: Vec<_> = (0..4).map(worker).collect();
    let mut done = 0;
    for worker in workers {
        done += worker.await.unwrap();
    }

    assert_eq!(i64::from(done), db.number("SELECT COUNT(*) FROM jobs WHERE state = 'done'").await);
    assert_eq!(done, 40, "all of them come to their end");
}

/// QJ-02: on PostgreSQL somebody stands still with rows and a lane locked.
async fn stands_still(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    let (slow, free) =
        (enqueue(&store, &job(&org, Kind::Mail, "a")).await, enqueue(&store, &job(&org, Kind::Mail, "b")).await);
    enqueue(&store, &event(&org, &acme, 1)).await;
    let other = enqueue(&store, &event(&org, &globex, 2)).await;
    let mut somebody = PgConnection::connect(&db.url).await.unwrap();
    let mut standing = somebody.begin().await.unwrap();
    let row = format!("SELECT 1 FROM jobs WHERE id = '{slow}' FOR UPDATE");
    standing.execute(sqlx::AssertSqlSafe(row)).await.unwrap();
    let lane = format!("SELECT pg_advisory_xact_lock(hashtextextended('jobs event {acme}', 0))");
    standing.execute(sqlx::AssertSqlSafe(lane)).await.unwrap();

    let both = async {
        let mails = claim(&store, &wanted(Kind::Mail, 10), moment(10)).await;
        let events = claim(&store, &wanted(Kind::Event, 10), moment(10)).await;
        (mails, events)
    };
    let (mails, events) = tokio::time::timeout(std::time::Duration::from_secs(4), both).await.expect("nobody waits");

    assert_eq!(mails.iter().map(|claimed| &claimed.job.id).collect::<Vec<_>>(), [&free]);
    assert_eq!(events.iter().map(|claimed| &claimed.job.id).collect::<Vec<_>>(), [&other]);
    standing.rollback().await.unwrap();
    assert_eq!(claim(&store, &wanted(Kind::Mail, 10), moment(10)).await.len(), 1);
    assert_eq!(claim(&store, &wanted(Kind::Event, 10), moment(10)).await.len(), 1);
    assert_eq!(state(&store, &org, &slow).await, State::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_what_somebody_else_holds() {
    on_postgres(stands_still).await;
}
