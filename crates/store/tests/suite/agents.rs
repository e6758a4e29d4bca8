//! Agents: what a connector's failure stops, and what its recovery takes back.

use std::{sync::Arc, time::Duration};

use holdfast_core::{
    AgentId, AppId, ConnectorId, OrgId, Secret,
    agent::{Status, StopReason, Trigger},
    health::Event,
    ports::{Changed, CredentialStore as _, Signal, Signals as _},
};
use holdfast_store::{Agent, AgentChange, Altered, Created, Grant, Granted, Made, NewAgent, NewBinding, Store};
use serde_json::json;

use crate::harness::{TestDatabase, connect, load, moment, new_connector, on_both, refusal, tokens};

on_both! {
    a_failure_stops_exactly_the_agents_that_need_it_and_a_recovery_reactivates_exactly_those,
    an_agent_of_two_failed_connectors_runs_when_both_are_back,
    two_recoveries_at_once_leave_no_agent_behind,
    what_a_person_paused_stays_paused,
    an_agent_that_is_bound_to_what_does_not_work_is_stopped_at_once,
    a_disconnect_takes_the_place_of_a_failure,
    a_deleted_connector_leaves_its_agent_stopped_until_it_is_bound_anew,
    an_agent_is_changed_as_a_whole_or_not_at_all,
    another_orgs_agent_is_not_there,
    the_agents_of_connectors_are_listed,
    every_change_of_an_agent_is_told,
}

pub(crate) fn bound(connector: &ConnectorId, role: &str) -> NewBinding {
    NewBinding { role: role.to_owned(), connector: connector.clone(), tools: vec!["search_tickets".to_owned()] }
}

pub(crate) fn new_agent(org: &OrgId, bindings: Vec<NewBinding>) -> NewAgent {
    NewAgent {
        id: None,
        org: org.clone(),
        name: "Annotate".to_owned(),
        runner: json!({"kind": "playbook", "steps": []}),
        trigger: Trigger::Every(Duration::from_mins(1)),
        bindings,
        paused_by: None,
        at: moment(0),
    }
}

pub(crate) async fn make(store: &Store, new: &NewAgent) -> AgentId {
    match store.create_agent(new).await.unwrap() {
        Made::Yes(id) => id,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn agent(store: &Store, org: &OrgId, id: &AgentId) -> Agent {
    store.find_agent(org, id.as_str()).await.unwrap().expect("it is there")
}

/// Another connector of the org Acme.
pub(crate) async fn another(store: &Store, org: &OrgId, account: &str) -> ConnectorId {
    let new = new_connector(org, account, Secret::Tokens(tokens("first")));
    match store.create_connector(&new).await.unwrap() {
        Created::New(id) => id,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn fail(store: &Store, connector: &ConnectorId) {
    let snapshot = load(store, connector).await;
    let failed = store.fail(&snapshot.credential.id, &refusal(snapshot.credential.version), None).await.unwrap();
    assert_eq!(failed, Changed::Yes);
}

pub(crate) async fn heal(store: &Store, connector: &ConnectorId) -> Changed {
    let version = load(store, connector).await.credential.version;
    store.heal(connector, version, Event::TestPassed, moment(400)).await.unwrap()
}

async fn reconnect(store: &Store, connector: &ConnectorId, sequence: i64) {
    let grant = Grant {
        connector: connector.clone(),
        sequence,
        app: AppId::instance("zendesk"),
        secret: Secret::Tokens(tokens("again")),
        identity: None,
        extras: Vec::new(),
        due_at: None,
        at: moment(500),
        actor: None,
    };
    assert!(matches!(store.store_grant(&grant).await.unwrap(), Granted::Yes(_)));
}

async fn a_failure_stops_exactly_the_agents_that_need_it_and_a_recovery_reactivates_exactly_those(
    db: Arc<TestDatabase>,
) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    let one = make(&store, &new_agent(&org, vec![bound(&acme, "desk")])).await;
    let both = make(&store, &new_agent(&org, vec![bound(&acme, "from"), bound(&globex, "to")])).await;
    let other = make(&store, &new_agent(&org, vec![bound(&globex, "desk")])).await;

    fail(&store, &acme).await;

    let epoch = load(&store, &acme).await.epoch;
    for stopped in [&one, &both] {
        let stopped = agent(&store, &org, stopped).await;
        assert_eq!((stopped.status(), stopped.due_at), (Status::Deactivated, None));
        let [cause] = stopped.stops.as_slice() else { panic!("{:?}", stopped.stops) };
        assert_eq!((&cause.connector, cause.epoch, cause.reason), (&acme, epoch, StopReason::AuthFailed));
        assert_eq!((cause.provider.as_str(), cause.account.as_str()), ("zendesk", "acme"));
    }
    let untouched = agent(&store, &org, &other).await;
    assert_eq!(untouched.status(), Status::Active);
    assert!(untouched.due_at.is_some());
    let left: Vec<_> = store.outbox_rows(&acme).await.unwrap().into_iter().map(|row| row.effect).collect();
    assert!(!left.iter().any(|effect| effect.ends_with("_agents")), "it is done, nothing is left: {left:?}");

    reconnect(&store, &acme, 1).await;

    for id in [&one, &both, &other] {
        let running = agent(&store, &org, id).await;
        assert_eq!((running.status(), running.stops.len()), (Status::Active, 0));
        assert!(running.due_at.is_some());
    }
}

async fn an_agent_of_two_failed_connectors_runs_when_both_are_back(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    let id = make(&store, &new_agent(&org, vec![bound(&acme, "from"), bound(&globex, "to")])).await;
    fail(&store, &acme).await;
    fail(&store, &globex).await;
    assert_eq!(agent(&store, &org, &id).await.stops.len(), 2);

    assert_eq!(heal(&store, &acme).await, Changed::Yes);

    let half = agent(&store, &org, &id).await;
    assert_eq!((half.status(), half.due_at), (Status::Deactivated, None));
    assert_eq!(half.stops.iter().map(|stop| &stop.connector).collect::<Vec<_>>(), [&globex]);
    assert_eq!(heal(&store, &acme).await, Changed::No, "it is healthy");
    assert_eq!(agent(&store, &org, &id).await.stops, half.stops);

    assert_eq!(heal(&store, &globex).await, Changed::Yes);

    let whole = agent(&store, &org, &id).await;
    assert_eq!(whole.status(), Status::Active);
    assert!(whole.due_at.is_some());
}

/// Each sees the other's cause, or none: never do both leave it to the other.
async fn two_recoveries_at_once_leave_no_agent_behind(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(make(&store, &new_agent(&org, vec![bound(&acme, "from"), bound(&globex, "to")])).await);
    }

    for _ in 0..10 {
        tokio::join!(fail(&store, &acme), fail(&store, &globex));
        for id in &ids {
            assert_eq!(agent(&store, &org, id).await.stops.len(), 2);
        }
        let healed = tokio::join!(heal(&store, &acme), heal(&store, &globex));
        assert_eq!(healed, (Changed::Yes, Changed::Yes));
        for id in &ids {
            let agent = agent(&store, &org, id).await;
            assert!(agent.stops.is_empty() && agent.due_at.is_some(), "{agent:?}");
        }
    }
}

async fn what_a_person_paused_stays_paused(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let id = make(&store, &new_agent(&org, vec![bound(&acme, "desk")])).await;

    assert_eq!(store.pause_agent(&org, &id, "ada@acme.example", moment(100)).await.unwrap(), Changed::Yes);
    assert_eq!(store.pause_agent(&org, &id, "gus@acme.example", moment(101)).await.unwrap(), Changed::No);
    let paused = agent(&store, &org, &id).await;
    assert_eq!((paused.status(), paused.due_at), (Status::Paused, None));
    assert_eq!(paused.paused.unwrap().by.as_deref(), Some("ada@acme.example"));
    fail(&store, &acme).await;
    let failed = agent(&store, &org, &id).await;
    assert!(failed.paused.is_some());
    assert_eq!(failed.status(), Status::Deactivated);
    heal(&store, &acme).await;

    let healed = agent(&store, &org, &id).await;
    assert_eq!((healed.status(), healed.due_at), (Status::Paused, None));
    fail(&store, &acme).await;
    assert_eq!(store.resume_agent(&org, &id, moment(600)).await.unwrap(), Changed::Yes);
    let resumed = agent(&store, &org, &id).await;
    assert_eq!((resumed.status(), resumed.due_at), (Status::Deactivated, None), "what stops it still does");
    heal(&store, &acme).await;
    assert_eq!(agent(&store, &org, &id).await.status(), Status::Active);
    assert_eq!(store.resume_agent(&org, &id, moment(700)).await.unwrap(), Changed::No);
}

async fn an_agent_that_is_bound_to_what_does_not_work_is_stopped_at_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    fail(&store, &acme).await;
    let pending = new_connector(&org, "globex", Secret::Absent);
    let Created::New(pending) = store.create_connector(&pending).await.unwrap() else { panic!("it is new") };

    let id = make(&store, &new_agent(&org, vec![bound(&acme, "from"), bound(&pending, "to")])).await;

    let stopped = agent(&store, &org, &id).await;
    assert_eq!((stopped.status(), stopped.due_at), (Status::Deactivated, None));
    let reasons = |agent: &Agent| agent.stops.iter().map(|stop| stop.reason).collect::<Vec<_>>();
    let mut found = reasons(&stopped);
    found.sort_by_key(|reason| reason.as_str());
    assert_eq!(found, [StopReason::AuthFailed, StopReason::Pending]);
    heal(&store, &acme).await;
    assert_eq!(reasons(&agent(&store, &org, &id).await), [StopReason::Pending]);
    reconnect(&store, &pending, 1).await;
    assert_eq!(agent(&store, &org, &id).await.status(), Status::Active);
}

async fn a_disconnect_takes_the_place_of_a_failure(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let id = make(&store, &new_agent(&org, vec![bound(&acme, "desk")])).await;
    fail(&store, &acme).await;
    let failed = agent(&store, &org, &id).await;

    store.disconnect(&org, &acme, moment(300)).await.unwrap();

    let off = agent(&store, &org, &id).await;
    let (before, after) = (&failed.stops[0], &off.stops[0]);
    assert_eq!((off.stops.len(), after.reason, after.epoch), (1, StopReason::Disconnected, before.epoch + 1));
    assert_eq!(after.since, before.since, "it has been stopped for so long");
    reconnect(&store, &acme, 1).await;
    assert_eq!(agent(&store, &org, &id).await.status(), Status::Active);
}

async fn a_deleted_connector_leaves_its_agent_stopped_until_it_is_bound_anew(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    let id = make(&store, &new_agent(&org, vec![bound(&acme, "desk"), bound(&globex, "other")])).await;
    fail(&store, &acme).await;

    store.delete_connector(&org, &acme).await.unwrap().unwrap();

    let orphan = agent(&store, &org, &id).await;
    assert_eq!((orphan.status(), orphan.due_at), (Status::Deactivated, None));
    assert_eq!(orphan.bindings.iter().map(|binding| &binding.connector).collect::<Vec<_>>(), [&globex]);
    assert_eq!((orphan.stops[0].reason, orphan.stops[0].account.as_str()), (StopReason::Deleted, "acme"));
    // Neither the same account again nor another one's recovery brings it back by itself.
    let again = another(&store, &org, "acme").await;
    fail(&store, &globex).await;
    heal(&store, &globex).await;
    assert_eq!(agent(&store, &org, &id).await.status(), Status::Deactivated);

    let change = AgentChange { bindings: Some(vec![bound(&again, "desk")]), ..AgentChange::default() };
    assert_eq!(store.change_agent(&org, &id, &change, moment(700)).await.unwrap(), Altered::Yes);

    let bound = agent(&store, &org, &id).await;
    assert_eq!((bound.status(), bound.stops.len()), (Status::Active, 0));
    assert!(bound.due_at.is_some());
}

async fn an_agent_is_changed_as_a_whole_or_not_at_all(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let id = make(&store, &new_agent(&org, vec![bound(&acme, "desk")])).await;
    let nowhere = ConnectorId::from("con_nowhere");

    let bad = AgentChange {
        name: Some("New".to_owned()),
        bindings: Some(vec![bound(&acme, "desk"), bound(&nowhere, "other")]),
        ..AgentChange::default()
    };
    let refused = store.change_agent(&org, &id, &bad, moment(10)).await.unwrap();

    assert_eq!(refused, Altered::NoConnector(nowhere.clone()));
    let same = agent(&store, &org, &id).await;
    assert_eq!((same.name.as_str(), same.bindings.len()), ("Annotate", 1));
    let made = store.create_agent(&new_agent(&org, vec![bound(&nowhere, "desk")])).await.unwrap();
    assert_eq!(made, Made::NoConnector(nowhere));
    let again = NewAgent { id: Some(id.clone()), ..new_agent(&org, vec![bound(&acme, "desk")]) };
    assert_eq!(store.create_agent(&again).await.unwrap(), Made::Already, "a wish that comes twice makes one");
    assert_eq!(db.number("SELECT COUNT(*) FROM agents").await, 1);

    let runner = json!({"kind": "playbook", "steps": [{"id": "a"}]});
    let good = AgentChange {
        name: Some("New".to_owned()),
        runner: Some(runner.clone()),
        trigger: Some(Trigger::Manual),
        bindings: None,
    };
    assert_eq!(store.change_agent(&org, &id, &good, moment(20)).await.unwrap(), Altered::Yes);
    let new = agent(&store, &org, &id).await;
    assert_eq!((new.name.as_str(), &new.runner, new.trigger, new.due_at), ("New", &runner, Trigger::Manual, None));
    assert_eq!(new.bindings.len(), 1, "what is absent stays");
    let again = AgentChange { trigger: Some(Trigger::Every(Duration::from_secs(30))), ..AgentChange::default() };
    store.change_agent(&org, &id, &again, moment(30)).await.unwrap();
    let due = agent(&store, &org, &id).await.due_at.unwrap();
    assert_eq!(due.timestamp(), moment(30).timestamp());
}

async fn another_orgs_agent_is_not_there(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let id = make(&store, &new_agent(&org, vec![bound(&acme, "desk")])).await;
    let stranger = store.ensure_org("Globex").await.unwrap();

    assert!(store.find_agent(&stranger, id.as_str()).await.unwrap().is_none());
    assert!(store.agents(&stranger, None, 10).await.unwrap().data.is_empty());
    assert!(store.gate(&stranger, &id, &acme).await.unwrap().is_none());
    let change = AgentChange { name: Some("Mine".to_owned()), ..AgentChange::default() };
    assert_eq!(store.change_agent(&stranger, &id, &change, moment(1)).await.unwrap(), Altered::NoAgent);
    assert_eq!(store.pause_agent(&stranger, &id, "x", moment(1)).await.unwrap(), Changed::No);
    assert_eq!(store.resume_agent(&stranger, &id, moment(1)).await.unwrap(), Changed::No);
    assert_eq!(store.delete_agent(&stranger, &id).await.unwrap(), Changed::No);
    let made = store.create_agent(&new_agent(&stranger, vec![bound(&acme, "desk")])).await.unwrap();
    assert_eq!(made, Made::NoConnector(acme.clone()));

    let gate = store.gate(&org, &id, &acme).await.unwrap().unwrap();
    assert_eq!(gate.tools, Some(vec!["search_tickets".to_owned()]));
    assert_eq!(store.gate(&org, &id, &ConnectorId::from("con_x")).await.unwrap().unwrap().tools, None);
    assert_eq!(store.delete_agent(&org, &id).await.unwrap(), Changed::Yes);
    assert!(store.find_agent(&org, id.as_str()).await.unwrap().is_none());
    assert_eq!(db.number("SELECT COUNT(*) FROM agent_connectors").await, 0);
}

async fn the_agents_of_connectors_are_listed(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    let both = NewAgent {
        name: "Both".to_owned(),
        ..new_agent(&org, vec![bound(&acme, "a"), bound(&acme, "b"), bound(&globex, "c")])
    };
    make(&store, &both).await;
    let one = NewAgent { name: "A".to_owned(), ..new_agent(&org, vec![bound(&acme, "desk")]) };
    let one = make(&store, &one).await;
    store.pause_agent(&org, &one, "ada", moment(1)).await.unwrap();
    fail(&store, &globex).await;

    let found = store.agents_of(&[acme.clone(), globex.clone(), ConnectorId::from("con_x")]).await.unwrap();

    let names =
        |id: &ConnectorId| found[id].iter().map(|agent| (agent.name.as_str(), agent.status)).collect::<Vec<_>>();
    assert_eq!(names(&acme), [("A", Status::Paused), ("Both", Status::Deactivated)]);
    assert_eq!(names(&globex), [("Both", Status::Deactivated)]);
    assert_eq!(found.len(), 2);
    assert!(store.agents_of(&[]).await.unwrap().is_empty());
    let first = store.agents(&org, None, 1).await.unwrap();
    let second = store.agents(&org, first.next_cursor.as_deref(), 1).await.unwrap();
    assert_eq!((first.data[0].name.as_str(), second.data[0].name.as_str()), ("Both", "A"));
    assert_eq!(second.next_cursor, None);
}

async fn every_change_of_an_agent_is_told(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let _running = crate::signals::running(&store).await;
    let (org, acme) = connect(&store, "acme").await;
    let mut signals = store.subscribe();
    let id = make(&store, &new_agent(&org, vec![bound(&acme, "desk")])).await;
    let told = Signal::Agent(id.clone());
    crate::signals::heard(&mut signals, &told).await;

    crate::signals::drain(&mut signals);
    fail(&store, &acme).await;
    crate::signals::heard(&mut signals, &told).await;
    crate::signals::drain(&mut signals);
    heal(&store, &acme).await;
    crate::signals::heard(&mut signals, &told).await;
    crate::signals::drain(&mut signals);
    store.disconnect(&org, &acme, moment(300)).await.unwrap();
    crate::signals::heard(&mut signals, &told).await;
    crate::signals::drain(&mut signals);
    reconnect(&store, &acme, 1).await;
    crate::signals::heard(&mut signals, &told).await;
    crate::signals::drain(&mut signals);
    store.pause_agent(&org, &id, "ada", moment(310)).await.unwrap();
    crate::signals::heard(&mut signals, &told).await;
    crate::signals::drain(&mut signals);
    store.resume_agent(&org, &id, moment(320)).await.unwrap();
    crate::signals::heard(&mut signals, &told).await;
    crate::signals::drain(&mut signals);
    store.queue_run(&org, &id, "ada", false, None, moment(330)).await.unwrap();
    crate::signals::heard(&mut signals, &told).await;
    crate::signals::drain(&mut signals);
    store.delete_connector(&org, &acme).await.unwrap();
    crate::signals::heard(&mut signals, &told).await;
    crate::signals::drain(&mut signals);
    store.delete_agent(&org, &id).await.unwrap();
    crate::signals::heard(&mut signals, &told).await;
}
