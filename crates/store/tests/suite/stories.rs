//! From a ticket to what came in about it and to its runs.

use std::{sync::Arc, time::Duration};

use holdfast_core::{
    ConnectorId, RunId,
    agent::{RunState, StepOutcome, TicketEvents, Trigger},
    tool::Access,
    webhook::{Author, Event, Key, Topic},
};
use holdfast_store::{
    Began, DeliveryFilter, End, NewAgent, OnlyOn, RunStep, RunTicket, SaidBy, Store, TakenDelivery, WhyNoRun, WorkedOff,
};
use serde_json::json;

use crate::{
    agents::{another, bound, make, new_agent},
    harness::{TestDatabase, connect, moment, on_both},
    webhooks::{event, rig, take},
};

on_both! {
    the_run_that_answered_is_found_behind_all_that_only_read,
    a_ticket_is_looked_for_on_the_connector_that_is_meant,
    what_a_connector_wrote_itself_is_told_from_what_people_said,
}

const LEASE: Duration = Duration::from_mins(1);

fn step(position: i64, connector: &ConnectorId, write: Option<bool>) -> RunStep {
    RunStep {
        position,
        step: "step".to_owned(),
        title: None,
        item: None,
        tool: Some(if write.is_some() { "reply_to_ticket" } else { "get_ticket" }.to_owned()),
        access: Some(if write.is_some() { Access::Write } else { Access::Read }),
        connector: Some(connector.clone()),
        input: Some(json!({ "ticket_id": "42", "public": write })),
        output: None,
        outcome: Some(StepOutcome::Done),
        code: None,
        detail: None,
        started_at: moment(10),
        duration: None,
    }
}

fn words(position: i64, connector: &ConnectorId) -> RunStep {
    let skipped = Some(StepOutcome::Skipped);
    RunStep {
        item: Some("ticket 42 (1 of 3)".to_owned()),
        tool: None,
        access: None,
        connector: None,
        input: None,
        outcome: skipped,
        ..step(position, connector, None)
    }
}

/// The agent that is due has a run with these steps.
async fn ran(store: &Store, secs: i64, steps: &[RunStep]) -> RunId {
    assert_eq!(store.queue_due(moment(secs), 10, || 0.0).await.unwrap(), 1);
    let claimed = store.claim_runs(moment(secs), LEASE, 10).await.unwrap().remove(0);
    for step in steps {
        assert_eq!(store.begin_step(&claimed, step, LEASE).await.unwrap(), Began::Yes);
    }
    let end = End {
        state: RunState::Succeeded,
        code: None,
        detail: None,
        connector: None,
        calls: 0,
        writes: 0,
        failures: 0,
        again: false,
        at: moment(secs),
    };
    store.end_run(&claimed, &end, 50).await.unwrap();
    claimed.run.id
}

async fn the_run_that_answered_is_found_behind_all_that_only_read(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    make(&store, &new_agent(&org, vec![bound(&acme, "desk")])).await;
    let on = RunTicket { connector: acme.clone(), ticket: "42".to_owned() };
    assert_eq!(store.answer_of_ticket(&org, &on).await.unwrap(), None);

    let reads = [step(1, &acme, None)];
    let _read = ran(&store, 1000, &reads).await;
    let answered = ran(&store, 2000, &[step(1, &acme, None), step(2, &acme, Some(true))]).await;
    let noted = ran(&store, 3000, &[step(1, &acme, Some(false))]).await;
    for secs in [4000, 5000, 6000] {
        let _read = ran(&store, secs, &reads).await;
    }
    let newest = ran(&store, 7000, &reads).await;

    let answer = store.answer_of_ticket(&org, &on).await.unwrap().map(|(run, _)| run.id);
    assert_eq!(answer, Some(answered.clone()));
    let listed = store.runs_of_ticket(&org, &on, None, 10).await.unwrap();
    let ids: Vec<_> = listed.data.iter().map(|(run, _)| &run.id).collect();
    assert_eq!((ids, listed.next_cursor), (vec![&newest, &noted, &answered], None));
    let first = store.runs_of_ticket(&org, &on, None, 2).await.unwrap();
    assert_eq!(first.data.len(), 2);
    let second = store.runs_of_ticket(&org, &on, first.next_cursor.as_deref(), 2).await.unwrap();
    assert_eq!(second.data.iter().map(|(run, _)| &run.id).collect::<Vec<_>>(), [&answered]);
}

async fn a_ticket_is_looked_for_on_the_connector_that_is_meant(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    make(&store, &new_agent(&org, vec![bound(&acme, "desk"), bound(&globex, "other")])).await;
    let alone = ran(&store, 1000, &[step(1, &acme, None), words(2, &acme)]).await;
    let both = ran(&store, 2000, &[step(1, &acme, None), step(2, &globex, None), words(3, &globex)]).await;

    let known = async |only: OnlyOn, most| store.connectors_of_ticket(&org, "42", &only, most).await.unwrap();
    assert_eq!(known(OnlyOn::Any, 21).await.len(), 2);
    for one in [&acme, &globex] {
        assert_eq!(known(OnlyOn::Connector(one.clone()), 1).await, std::slice::from_ref(one));
    }
    assert_eq!(known(OnlyOn::Provider("zendesk".to_owned()), 21).await.len(), 2);
    assert!(known(OnlyOn::Provider("front".to_owned()), 21).await.is_empty());

    // What was said of an item is of this ticket where the run had to do with no other of its id.
    let on = RunTicket { connector: acme.clone(), ticket: "42".to_owned() };
    let lines = store.lines_of_ticket(&[&alone, &both], &on).await.unwrap();
    assert_eq!(lines.iter().map(|line| &line.run).collect::<Vec<_>>(), [&alone]);

    let gone = async || {
        let tickets = store.tickets_of_runs(&[&both]).await.unwrap().remove(&both).unwrap();
        tickets.iter().filter(|ticket| ticket.gone).map(|ticket| ticket.on.connector.clone()).collect::<Vec<_>>()
    };
    assert!(gone().await.is_empty());
    store.delete_connector(&org, &globex).await.unwrap();
    assert_eq!(gone().await, [globex]);
}

async fn what_a_connector_wrote_itself_is_told_from_what_people_said(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let here = rig(&store, &org, "acme").await;
    let connector = here.1.connector.clone();
    let trigger = Trigger::Events(TicketEvents::of(&["ticket.created"]).unwrap());
    make(&store, &NewAgent { trigger, ..new_agent(&org, vec![bound(&connector, "desk")]) }).await;
    let replied =
        |id: &str, author: Author| Event { topic: Topic::TicketReplied, author, ..event(Key::Id(id.to_owned())) };
    let come = async |event: Event, whoever: bool| {
        let TakenDelivery::New(delivery, _) = take(&store, &here, &event, 1).await else { panic!("it is new") };
        let worked = store.work_off_event(&delivery, 20, whoever, moment(2)).await.unwrap();
        (delivery, worked)
    };

    let id = || Some("7".to_owned());
    let (unclear, worked) = come(replied("evt-0", Author::Staff(id())), false).await;
    assert_eq!(worked, WorkedOff::WhoIs(connector.clone()), "its agents wait for other events; it may be our own");
    db.execute("UPDATE connectors SET identity = '{\"id\": \"7\"}'").await;
    assert_eq!(store.work_off_event(&unclear, 20, false, moment(3)).await.unwrap(), WorkedOff::Yes);
    for (key, author, by) in [
        ("evt-1", Author::Staff(id()), SaidBy::Us),
        ("evt-2", Author::Somebody("7".to_owned()), SaidBy::Us),
        ("evt-3", Author::Program, SaidBy::Us),
        ("evt-4", Author::Unknown, SaidBy::Unknown),
        ("evt-5", Author::Staff(None), SaidBy::Staff),
        ("evt-6", Author::Somebody("8".to_owned()), SaidBy::Customer),
        ("evt-7", Author::Customer(Some("8".to_owned())), SaidBy::Customer),
    ] {
        let (delivery, _) = come(replied(key, author), false).await;
        let kept = store.find_delivery(&org, delivery.as_str()).await.unwrap().unwrap();
        let why = if by == SaidBy::Us { WhyNoRun::OurOwn } else { WhyNoRun::OtherEvents };
        let passed: Vec<_> = kept.passed_over.iter().flatten().map(|passed| passed.why).collect();
        assert_eq!((kept.by, passed), (by, vec![why]), "{key}");
    }

    let on = RunTicket { connector, ticket: "42".to_owned() };
    let said = store.said_on_ticket(&org, &on, 10).await.unwrap();
    assert_eq!(
        said.iter().map(|one| one.by).collect::<Vec<_>>(),
        [SaidBy::Customer, SaidBy::Customer, SaidBy::Staff, SaidBy::Unknown]
    );
    assert_eq!(store.deliveries(&org, &DeliveryFilter::default(), None, 20).await.unwrap().data.len(), 8);
}
