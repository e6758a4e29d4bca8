//! Jobs of a connector follow its health.

use std::sync::Arc;

use holdfast_core::{
    ConnectorId, OrgId,
    job::{Fault, Kind, Next, Outcome, State},
};
use holdfast_store::{JobFilter, JobsWanted, Store, Turn};

use super::{claim, enqueue, event, job, outcomes, settle, state, wanted};
use crate::{
    agents::{another, fail, heal},
    harness::{TestDatabase, connect, moment, on_both},
};

on_both! {
    jobs_of_a_dead_connector_wait_for_free_and_go_on_in_order,
    an_event_that_comes_while_its_connector_is_dead_waits_with_the_others,
    more_than_one_statement_moves_wait_and_go_on_in_order,
    what_waits_for_too_long_is_dead,
    jobs_end_with_their_connector,
    what_tells_of_a_connector_does_not_wait_for_it,
    a_job_that_was_parked_behind_a_recovery_is_found,
}

async fn parked(store: &Store, org: &OrgId, connector: &ConnectorId) -> usize {
    let filter = JobFilter { state: Some(State::Parked), connector: Some(connector.clone()), kind: Some(Kind::Event) };
    store.jobs(org, &filter, None, 10_000).await.unwrap().data.len()
}

/// Works off everything, in the order in which it was begun.
async fn work_off(store: &Store, at_once: u32) -> Vec<String> {
    let wanted = JobsWanted { per_connector: at_once, ..wanted(Kind::Event, 100) };
    let mut turn = Turn::default();
    let mut begun = Vec::new();
    loop {
        let claims = store.claim_jobs(&wanted, &mut turn, moment(20_000)).await.unwrap();
        if claims.jobs.is_empty() && !claims.moved {
            return begun;
        }
        let mut attempts = Vec::new();
        for claimed in claims.jobs {
            attempts.push(super::attempt(&claimed, Outcome::Done, moment(20_000)));
            begun.push(claimed.job.key);
        }
        assert!(store.settle_jobs(&attempts).await.unwrap().iter().all(Option::is_some));
    }
}

/// QJ-03
async fn jobs_of_a_dead_connector_wait_for_free_and_go_on_in_order(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    let mut keys = Vec::new();
    let mut first = None;
    for number in 0..30 {
        let new = event(&org, &acme, number);
        keys.push(new.key.clone());
        first.get_or_insert(enqueue(&store, &new).await);
    }
    for number in 0..50 {
        enqueue(&store, &event(&org, &globex, number)).await;
        enqueue(&store, &job(&org, Kind::Mail, &format!("mail {number}"))).await;
    }
    let first = first.unwrap();
    let running = claim(&store, &wanted(Kind::Event, 1), moment(100)).await.remove(0);
    assert_eq!(running.job.id, first);

    fail(&store, &acme).await;

    assert_eq!(parked(&store, &org, &acme).await, 29);
    let refused = Outcome::NeedsReconnect(Fault::new("auth_failed", "A person has to reconnect it."));
    assert_eq!(settle(&store, &running, refused, moment(101)).await, Some(Next::Parked));
    let waits = store.find_job(&org, first.as_str()).await.unwrap().unwrap();
    assert_eq!((waits.state, waits.attempts), (State::Parked, 0), "no attempt is used up");
    assert_eq!(outcomes(&store, &first).await, ["needs_reconnect"]);
    let others = work_off(&store, 1).await;
    assert_eq!(others.len(), 50, "the others are not delayed");
    assert_eq!(claim(&store, &wanted(Kind::Mail, 100), moment(100)).await.len(), 50);
    assert_eq!(parked(&store, &org, &acme).await, 30);

    heal(&store, &acme).await;

    assert_eq!(parked(&store, &org, &acme).await, 0);
    assert_eq!(work_off(&store, 1).await, keys, "each once, in order");
    let done = store.find_job(&org, first.as_str()).await.unwrap().unwrap();
    assert_eq!((done.state, done.attempts), (State::Done, 1));
}

async fn an_event_that_comes_while_its_connector_is_dead_waits_with_the_others(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    fail(&store, &acme).await;
    let mut keys = Vec::new();
    for number in 0..3 {
        keys.push(event(&org, &acme, number).key);
        enqueue(&store, &event(&org, &acme, number)).await;
    }

    let claims = store.claim_jobs(&wanted(Kind::Event, 10), &mut Turn::default(), moment(50)).await.unwrap();

    assert_eq!((claims.jobs.len(), claims.moved), (0, true));
    assert_eq!(parked(&store, &org, &acme).await, 3);
    heal(&store, &acme).await;
    keys.push(event(&org, &acme, 60).key);
    enqueue(&store, &event(&org, &acme, 60)).await;
    assert_eq!(work_off(&store, 1).await, keys);
}

async fn more_than_one_statement_moves_wait_and_go_on_in_order(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let moment_of = if db.is_sqlite() {
        "strftime('%Y-%m-%dT%H:%M:%f', '2027-01-15', i || ' seconds') || '+00:00'"
    } else {
        "TIMESTAMPTZ '2027-01-15 00:00:00+00' + i * interval '1 second'"
    };
    db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
         INSERT INTO jobs (id, org_id, kind, key, connector_id, lane, subject, payload, state, due_at, created_at) \
         SELECT 'job_' || i, c.org_id, 'event', 'key ' || (10000 + i), c.id, c.id, '', '{{}}', 'ready', {moment_of}, \
         {moment_of} FROM n CROSS JOIN connectors c"
    ))
    .await;

    fail(&store, &acme).await;
    assert!(work_off(&store, 50).await.is_empty(), "the rest is parked by whoever meets it");
    assert_eq!(parked(&store, &org, &acme).await, 2500);
    heal(&store, &acme).await;
    assert_eq!(parked(&store, &org, &acme).await, 1500, "the oldest go on at once");
    enqueue(&store, &event(&org, &acme, 10_000)).await;
    let begun = work_off(&store, 50).await;

    assert_eq!(begun.len(), 2501);
    assert!(begun[..2500].is_sorted(), "in order");
    assert_eq!(begun[2500], event(&org, &acme, 10_000).key, "what came later is last");
}

async fn what_waits_for_too_long_is_dead(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let id = enqueue(&store, &event(&org, &acme, 0)).await;
    fail(&store, &acme).await;
    let since = store.find_job(&org, id.as_str()).await.unwrap().unwrap().parked_at.unwrap();
    let second = chrono::TimeDelta::seconds(1);

    assert_eq!(store.tend_parked_jobs(moment(9000), since - second).await.unwrap(), 0);
    assert_eq!(state(&store, &org, &id).await, State::Parked);
    assert_eq!(store.tend_parked_jobs(moment(9000), since + second).await.unwrap(), 1);

    let dead = store.find_job(&org, id.as_str()).await.unwrap().unwrap();
    assert_eq!((dead.state, dead.fault.unwrap().code.as_str()), (State::Dead, "parked_too_long"));
}

async fn jobs_end_with_their_connector(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    let waiting = enqueue(&store, &event(&org, &acme, 0)).await;
    let parked = enqueue(&store, &event(&org, &globex, 0)).await;
    fail(&store, &globex).await;

    store.disconnect(&org, &acme, moment(10)).await.unwrap();
    store.delete_connector(&org, &globex).await.unwrap();

    for (id, code) in [(waiting, "connector_disconnected"), (parked, "connector_deleted")] {
        let dead = store.find_job(&org, id.as_str()).await.unwrap().unwrap();
        assert_eq!((dead.state, dead.fault.unwrap().code.as_str()), (State::Dead, code));
    }
    // One that comes after it is met at the next claim.
    let late = enqueue(&store, &event(&org, &acme, 20)).await;
    assert!(claim(&store, &wanted(Kind::Event, 10), moment(30)).await.is_empty());
    assert_eq!(state(&store, &org, &late).await, State::Dead);
}

async fn what_tells_of_a_connector_does_not_wait_for_it(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let mut mail = job(&org, Kind::Mail, "it has failed");
    mail.connector = Some(acme.clone());
    enqueue(&store, &mail).await;

    fail(&store, &acme).await;

    assert_eq!(claim(&store, &wanted(Kind::Mail, 10), moment(10)).await.len(), 1);
}

async fn a_job_that_was_parked_behind_a_recovery_is_found(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let id = enqueue(&store, &event(&org, &acme, 0)).await;
    fail(&store, &acme).await;
    heal(&store, &acme).await;
    // As by who had looked at the connector before.
    db.execute("UPDATE jobs SET state = 'parked', parked_at = created_at").await;

    assert_eq!(store.tend_parked_jobs(moment(50), moment(-1000)).await.unwrap(), 1);

    assert_eq!(state(&store, &org, &id).await, State::Ready);
}
