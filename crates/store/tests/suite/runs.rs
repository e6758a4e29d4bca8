//! Runs: claimed once by however many, begun step by step, ended once.

use std::{sync::Arc, time::Duration};

use chrono::DateTime;
use holdfast_core::{
    AgentId, OrgId, RunId,
    agent::{RunState, StepOutcome, StopReason},
    ports::Changed,
    tool::Access,
};
use holdfast_store::{Attempts, Began, Claimed, End, KeyUse, Queued, RunStep, StepEnd, Store};
use serde_json::json;

use crate::{
    agents::{agent, bound, fail, make, new_agent},
    harness::{TestDatabase, connect, moment, on_both, on_postgres},
};

on_both! {
    an_agent_that_is_due_gets_one_run_and_another_time,
    an_agent_runs_once_at_a_time,
    many_who_look_at_once_share_what_is_due,
    a_run_is_written_down_step_by_step,
    no_step_is_begun_after_a_pause_or_a_stop,
    a_run_whose_lease_is_over_is_ended_once_and_its_owner_finds_out,
    the_newest_runs_are_kept,
    a_key_has_one_effect,
    a_key_whose_owner_lives_no_more_is_known_as_lost,
    what_the_process_before_was_running_is_lost,
}

const LEASE: Duration = Duration::from_mins(1);

async fn an_agent(store: &Store) -> (OrgId, AgentId) {
    let (org, acme) = connect(store, "acme").await;
    let id = make(store, &new_agent(&org, vec![bound(&acme, "desk")])).await;
    (org, id)
}

/// Of an agent that is due: claimed.
async fn claimed(store: &Store, secs: i64) -> Claimed {
    assert_eq!(store.queue_due(moment(secs), 10, || 0.0).await.unwrap(), 1);
    let mut claimed = store.claim_runs(moment(secs), LEASE, 10).await.unwrap();
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

fn step(position: i64, outcome: Option<StepOutcome>) -> RunStep {
    RunStep {
        position,
        step: "found".to_owned(),
        title: Some("Look".to_owned()),
        item: None,
        tool: Some("search_tickets".to_owned()),
        access: Some(Access::Read),
        connector: Some("con_1".into()),
        input: Some(json!({"query": "x"})),
        output: None,
        outcome,
        code: None,
        detail: None,
        started_at: moment(10),
        duration: None,
    }
}

fn end(state: RunState, secs: i64) -> End {
    End {
        state,
        code: None,
        detail: None,
        connector: None,
        calls: 3,
        writes: 1,
        failures: 0,
        again: false,
        at: moment(secs),
    }
}

async fn an_agent_that_is_due_gets_one_run_and_another_time(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = an_agent(&store).await;

    assert_eq!(store.queue_due(moment(-1), 10, || 0.0).await.unwrap(), 0, "not yet");
    assert_eq!(store.queue_due(moment(5), 10, || 0.5).await.unwrap(), 1);
    assert_eq!(store.queue_due(moment(5), 10, || 0.5).await.unwrap(), 0, "once");

    let due = agent(&store, &org, &id).await;
    assert_eq!(due.due_at.unwrap().timestamp(), moment(5 + 63).timestamp(), "a minute and half of a tenth");
    let run = due.last_run.unwrap();
    assert_eq!((run.state, run.actor, run.started_at), (RunState::Queued, None, None));
    let taken = store.claim_runs(moment(6), LEASE, 10).await.unwrap();
    assert_eq!((taken.len(), &taken[0].run.id, taken[0].run.state), (1, &run.id, RunState::Running));
    assert!(store.claim_runs(moment(6), LEASE, 10).await.unwrap().is_empty());
    // The next time comes while it runs: that one is missed, not made up for.
    assert_eq!(store.queue_due(moment(100), 10, || 0.0).await.unwrap(), 1);
    assert!(store.claim_runs(moment(100), LEASE, 10).await.unwrap().is_empty());
    assert_eq!(store.end_run(&taken[0], &end(RunState::Succeeded, 101), 50).await.unwrap(), Changed::Yes);
    assert_eq!(store.queue_due(moment(101), 10, || 0.0).await.unwrap(), 0);
}

async fn an_agent_runs_once_at_a_time(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = an_agent(&store).await;

    let asked = futures::future::join_all((0..6).map(|n| {
        let (store, org, id) = (store.clone(), org.clone(), id.clone());
        async move { store.queue_run(&org, &id, &format!("key {n}"), n % 2 == 0, None, moment(1)).await.unwrap() }
    }))
    .await;

    let new: Vec<&RunId> =
        asked.iter().filter_map(|one| if let Queued::Yes(run) = one { Some(run) } else { None }).collect();
    let [run] = new.as_slice() else { panic!("{asked:?}") };
    assert!(asked.iter().all(|one| *one == Queued::Yes((*run).clone()) || *one == Queued::Other((*run).clone())));
    let nobody = store.queue_run(&org, &AgentId::from("agent_x"), "x", false, None, moment(1)).await.unwrap();
    assert_eq!(nobody, Queued::NoAgent);
    let stranger = store.ensure_org("Globex").await.unwrap();
    assert_eq!(store.queue_run(&stranger, &id, "x", false, None, moment(1)).await.unwrap(), Queued::NoAgent);
    let taken = store.claim_runs(moment(2), LEASE, 10).await.unwrap().remove(0);
    store.end_run(&taken, &end(RunState::Succeeded, 3), 50).await.unwrap();
    assert!(matches!(store.queue_run(&org, &id, "x", true, None, moment(4)).await.unwrap(), Queued::Yes(_)));
    let listed = store.runs(&org, &id, None, 1).await.unwrap();
    assert!(listed.data[0].dry);
    let next = store.runs(&org, &id, listed.next_cursor.as_deref(), 1).await.unwrap();
    assert_eq!(next.data[0].id, **run);
    assert!(store.find_run(&stranger, id.as_str(), run.as_str()).await.unwrap().is_none());
    assert!(store.find_run(&org, "agent_x", run.as_str()).await.unwrap().is_none());
}

async fn share(db: Arc<TestDatabase>) {
    let first = db.store().await;
    let (org, acme) = connect(&first, "acme").await;
    for _ in 0..12 {
        make(&first, &new_agent(&org, vec![bound(&acme, "desk")])).await;
    }
    // On SQLite there is one store; many of its tasks look at once.
    let mut stores = vec![first.clone(), first.clone()];
    if !db.is_sqlite() {
        stores = vec![db.replica("two").await, db.replica("three").await, first];
    }

    let looks = stores.iter().cycle().take(9).map(|store| {
        let store = store.clone();
        tokio::spawn(async move {
            let due = store.queue_due(moment(1), 3, || 0.0).await.unwrap();
            let claimed = store.claim_runs(moment(1), LEASE, 3).await.unwrap();
            (due, claimed.into_iter().map(|claimed| claimed.run.agent).collect::<Vec<_>>())
        })
    });
    let found = futures::future::join_all(looks.collect::<Vec<_>>()).await;
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();

    let store = &stores[0];
    let mut claimed: Vec<_> = found.iter().flat_map(|(_, agents)| agents.clone()).collect();
    while store.queue_due(moment(1), 3, || 0.0).await.unwrap() > 0 {}
    claimed.extend(store.claim_runs(moment(1), LEASE, 20).await.unwrap().into_iter().map(|claimed| claimed.run.agent));
    claimed.sort();
    let count = claimed.len();
    claimed.dedup();
    assert_eq!((count, claimed.len()), (12, 12), "each agent once");
    assert_eq!(db.number("SELECT COUNT(*) FROM runs").await, 12);
}

async fn many_who_look_at_once_share_what_is_due(db: Arc<TestDatabase>) {
    share(db).await;
}

async fn a_run_is_written_down_step_by_step(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = an_agent(&store).await;
    let claimed = claimed(&store, 1).await;
    let run = &claimed.run.id;

    assert_eq!(store.begin_step(&claimed, &step(1, None), LEASE).await.unwrap(), Began::Yes);
    let open = store.run_steps(&org, run).await.unwrap();
    assert_eq!((open.len(), open[0].outcome), (1, None), "it is seen while it is under way");
    let done = StepEnd {
        outcome: StepOutcome::Done,
        output: Some(json!({"total": 7})),
        code: None,
        detail: None,
        duration: Duration::from_millis(120),
    };
    store.end_step(&claimed, 1, &done).await.unwrap();
    let skipped =
        RunStep { detail: Some("its condition did not hold".to_owned()), ..step(2, Some(StepOutcome::Skipped)) };
    assert_eq!(store.begin_step(&claimed, &skipped, LEASE).await.unwrap(), Began::Yes);
    assert_eq!(store.renew_run(&claimed, LEASE).await.unwrap(), Changed::Yes);
    let failed = End {
        code: Some("connector_auth_failed".to_owned()),
        detail: Some("Zendesk refused".to_owned()),
        connector: Some("con_1".into()),
        ..end(RunState::Failed, 20)
    };
    assert_eq!(store.end_run(&claimed, &failed, 50).await.unwrap(), Changed::Yes);

    let steps = store.run_steps(&org, run).await.unwrap();
    let expected = RunStep {
        outcome: Some(StepOutcome::Done),
        output: Some(json!({"total": 7})),
        duration: Some(Duration::from_millis(120)),
        started_at: steps[0].started_at,
        ..step(1, None)
    };
    assert_eq!(steps[0], expected);
    assert_eq!(steps[1].outcome, Some(StepOutcome::Skipped));
    let read = store.find_run(&org, id.as_str(), run.as_str()).await.unwrap().unwrap();
    assert_eq!(
        (read.state, read.code.as_deref(), read.calls, read.writes),
        (RunState::Failed, Some("connector_auth_failed"), 3, 1)
    );
    assert_eq!(store.end_run(&claimed, &end(RunState::Succeeded, 21), 50).await.unwrap(), Changed::No, "it ends once");
    assert_eq!(store.begin_step(&claimed, &step(3, None), LEASE).await.unwrap(), Began::Lost);
    let stranger = store.ensure_org("Globex").await.unwrap();
    assert!(store.run_steps(&stranger, run).await.unwrap().is_empty());
}

async fn no_step_is_begun_after_a_pause_or_a_stop(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let id = make(&store, &new_agent(&org, vec![bound(&acme, "desk")])).await;
    let real = claimed(&store, 1).await;
    store.pause_agent(&org, &id, "ada", moment(5)).await.unwrap();

    let Began::Paused(paused) = store.begin_step(&real, &step(1, None), LEASE).await.unwrap() else {
        panic!("it is paused")
    };
    assert_eq!(paused.by.as_deref(), Some("ada"));
    store.end_run(&real, &end(RunState::Stopped, 6), 50).await.unwrap();
    store.queue_run(&org, &id, "ada", true, None, moment(7)).await.unwrap();
    let dry = store.claim_runs(moment(7), LEASE, 1).await.unwrap().remove(0);
    assert_eq!(store.begin_step(&dry, &step(1, None), LEASE).await.unwrap(), Began::Yes, "a dry run changes nothing");
    fail(&store, &acme).await;

    let Began::Stopped(causes) = store.begin_step(&dry, &step(2, None), LEASE).await.unwrap() else {
        panic!("it is stopped")
    };
    assert_eq!((causes.len(), causes[0].reason), (1, StopReason::AuthFailed));
    assert_eq!(store.run_steps(&org, &dry.run.id).await.unwrap().len(), 1);
    store.delete_agent(&org, &id).await.unwrap();
    assert_eq!(store.begin_step(&dry, &step(2, None), LEASE).await.unwrap(), Began::Lost);
}

async fn a_run_whose_lease_is_over_is_ended_once_and_its_owner_finds_out(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = an_agent(&store).await;
    let lost = claimed(&store, 1).await;
    store.begin_step(&lost, &step(1, None), LEASE).await.unwrap();
    assert_eq!(store.end_lost_runs(moment(2)).await.unwrap(), 0, "its lease lasts");
    db.execute("UPDATE runs SET lease_expires_at_ms = 1").await;

    let ended: usize = futures::future::join_all((0..4).map(|_| store.end_lost_runs(moment(3))))
        .await
        .into_iter()
        .map(Result::unwrap)
        .sum();

    assert_eq!(ended, 1);
    let read = agent(&store, &org, &id).await.last_run.unwrap();
    assert_eq!((read.state, read.code.as_deref()), (RunState::Failed, Some("lost")));
    let steps = store.run_steps(&org, &read.id).await.unwrap();
    assert_eq!((steps[0].outcome, steps[0].code.as_deref()), (Some(StepOutcome::Failed), Some("lost")));
    assert_eq!(store.renew_run(&lost, LEASE).await.unwrap(), Changed::No);
    assert_eq!(store.begin_step(&lost, &step(2, None), LEASE).await.unwrap(), Began::Lost);
    assert_eq!(store.end_run(&lost, &end(RunState::Succeeded, 4), 50).await.unwrap(), Changed::No);
    assert!(matches!(store.queue_run(&org, &id, "x", false, None, moment(5)).await.unwrap(), Queued::Yes(_)));
}

async fn the_newest_runs_are_kept(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = an_agent(&store).await;
    let mut runs = Vec::new();
    for n in 0..6 {
        store.queue_run(&org, &id, "x", false, None, moment(n)).await.unwrap();
        let taken = store.claim_runs(moment(n), LEASE, 1).await.unwrap().remove(0);
        store.begin_step(&taken, &step(1, None), LEASE).await.unwrap();
        store.end_run(&taken, &end(RunState::Succeeded, n), 3).await.unwrap();
        runs.push(taken.run.id);
        // Ids sort by the millisecond.
        let now = store.database_clock().await.unwrap();
        crate::harness::eventually("the millisecond is over", || async {
            (store.database_clock().await.unwrap() > now).then_some(())
        })
        .await;
    }

    let kept: Vec<_> = store.runs(&org, &id, None, 50).await.unwrap().data.into_iter().map(|run| run.id).collect();

    assert_eq!(kept, [runs[5].clone(), runs[4].clone(), runs[3].clone()]);
    assert_eq!(db.number("SELECT COUNT(*) FROM run_steps").await, 3);
}

async fn a_key_has_one_effect(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let stranger = store.ensure_org("Globex").await.unwrap();
    let used = async |hash: u8| store.use_key(&org, "k1", &[hash; 32], moment(1)).await.unwrap();

    let first = futures::future::join_all((0..6).map(|_| used(1))).await;

    assert_eq!(first.iter().filter(|one| **one == KeyUse::New).count(), 1, "{first:?}");
    assert!(matches!(used(1).await, KeyUse::UnderWay(_)));
    assert_eq!(used(2).await, KeyUse::Another);
    assert_eq!(store.use_key(&stranger, "k1", &[1; 32], moment(1)).await.unwrap(), KeyUse::New);
    store.give_key_up(&org, "k1", moment(1), true).await.unwrap();
    assert_eq!(used(1).await, KeyUse::New, "it had no effect, so it may be repeated");
    store.give_key_up(&org, "k1", moment(1), false).await.unwrap();
    let KeyUse::Unknown(attempts) = used(1).await else { panic!("nobody knows") };
    let micros = |at: i64| DateTime::from_timestamp_micros(moment(at).timestamp_micros()).unwrap();
    assert_eq!(attempts, Attempts { first: micros(1), last: micros(1) });
    let again = async |at: i64| store.use_key_again(&org, "k1", attempts, moment(at)).await.unwrap();
    let both = tokio::join!(again(5), again(5));
    assert_eq!([both.0, both.1].iter().filter(|one| **one == Changed::Yes).count(), 1, "one of them repeats it");
    assert_eq!(used(1).await, KeyUse::UnderWay(Attempts { first: micros(1), last: micros(5) }));
    // What was overtaken has no say; and what is sure of the second attempt is not sure of the first.
    store.give_key_up(&org, "k1", moment(1), true).await.unwrap();
    assert!(matches!(used(1).await, KeyUse::UnderWay(_)));
    store.give_key_up(&org, "k1", moment(5), true).await.unwrap();
    assert_eq!(used(1).await, KeyUse::Unknown(Attempts { first: micros(1), last: micros(5) }));
    store.keep_answer(&org, "k1", &json!({"ticket_id": "7"})).await.unwrap();
    assert_eq!(used(1).await, KeyUse::Done(json!({"ticket_id": "7"})));
    assert_eq!(store.forget_keys(moment(1)).await.unwrap(), 0);
    assert_eq!(store.forget_keys(moment(2)).await.unwrap(), 2);
    assert_eq!(used(2).await, KeyUse::New);
}

async fn a_key_whose_owner_lives_no_more_is_known_as_lost(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let used = async || store.use_key(&org, "k1", &[1; 32], moment(1)).await.unwrap();
    assert_eq!(used().await, KeyUse::New);
    let first = DateTime::from_timestamp_micros(moment(1).timestamp_micros()).unwrap();
    let attempts = Attempts { first, last: first };
    assert_eq!(used().await, KeyUse::UnderWay(attempts), "it is ours");

    // One that never gave a sign of life; and one of a release that named nobody.
    db.execute("UPDATE tool_calls SET holder = 'gone'").await;
    assert_eq!(used().await, KeyUse::Lost(attempts));
    assert_eq!(store.use_key_again(&org, "k1", attempts, moment(2)).await.unwrap(), Changed::Yes);
    assert!(matches!(used().await, KeyUse::UnderWay(_)), "now it is ours");
    db.execute("UPDATE tool_calls SET holder = NULL").await;
    assert!(matches!(used().await, KeyUse::UnderWay(_)), "only time tells");
}

async fn what_the_process_before_was_running_is_lost(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = an_agent(&store).await;
    let _before = claimed(&store, 1).await;
    let lock = store.lock_for_serving().unwrap();

    store.void_previous(&lock).await.unwrap();
    let ended = store.end_lost_runs(moment(2)).await.unwrap();

    // On PostgreSQL other replicas live; there the lease decides.
    let expected = usize::from(db.is_sqlite());
    assert_eq!(ended, expected);
    let run = agent(&store, &org, &id).await.last_run.unwrap();
    assert_eq!(run.state == RunState::Failed, db.is_sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_what_is_due_again_and_again() {
    for _ in 0..3 {
        on_postgres(share).await;
    }
}
