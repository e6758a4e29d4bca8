//! Two who touch one record at the same moment: whatever comes first, no event is lost, none has two runs, and each state is
//! told with what it follows from.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use holdfast_app::{App, jobs::Handler};
use holdfast_core::{
    error::Retry,
    job::{Fault, Kind, Outcome},
};
use holdfast_sandbox::EventOrder;
use holdfast_store::ClaimedJob;
use holdfast_tests::{database::Database, hooks::Hook, on_both, service::TestApp, wait::until};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::agents_events::{ended, make, notes, runs, said};

on_both! {
    the_same_event_twice_at_once_is_one_event,
    a_reconnect_while_deliveries_arrive_loses_none,
    a_disconnect_while_deliveries_arrive_loses_none,
    a_failure_while_deliveries_arrive_parks_the_rest,
    another_secret_while_deliveries_arrive_refuses_none,
    a_pause_while_events_arrive_is_told_where_it_counted,
    a_retry_and_a_discard_at_once_leave_one_of_both,
}

const EVENTS: usize = 24;

/// Sends events one after another. When a third of them is answered, `half_way` hears of it; answers those that were taken.
async fn stream(app: &TestApp, hook: &Hook, half_way: &Notify) -> HashSet<String> {
    let mut taken = HashSet::new();
    for number in 0..EVENTS {
        if number == EVENTS / 3 {
            half_way.notify_one();
        }
        let id = format!("evt-{number}");
        match app.sent(&said(hook, &id, "created", None)).await {
            200 => {
                taken.insert(id);
            }
            // What is disconnected is told to come again.
            status => assert_eq!(status, 503),
        }
    }
    taken
}

/// The brake on runs about one ticket is not what this is about.
async fn start(db: &Arc<Database>) -> TestApp {
    TestApp::builder(db).with(|config| config.agents.runs_per_ticket = 1000).start().await
}

async fn every_one_is_kept_once(app: &TestApp, hook: &Hook, taken: usize) -> Vec<Value> {
    // Jobs of what is disconnected are dead, and their events learn of it in this round.
    holdfast_app::hooks::forget(&app.app).await;
    let kept = app.deliveries(&hook.connector).await;
    assert_eq!(kept.len(), taken, "{kept:?}");
    kept
}

async fn the_same_event_twice_at_once_is_one_event(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let agent = make(&app, &hook.connector, &["ticket.created"]).await;

    for number in 0..EVENTS {
        let order = said(&hook, &format!("evt-{number}"), "created", None);
        assert_eq!(tokio::join!(app.sent(&order), app.sent(&order), app.sent(&order)), (200, 200, 200));
    }

    let kept = every_one_is_kept_once(&app, &hook, EVENTS).await;
    assert!(kept.iter().all(|one| one["repeats"] == 2), "{kept:?}");
    assert_eq!((ended(&app, &agent, EVENTS).await.len(), notes(&app)), (EVENTS, EVENTS));
}

async fn a_reconnect_while_deliveries_arrive_loses_none(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let agent = make(&app, &hook.connector, &["ticket.created"]).await;
    app.fail(&hook.connector).await;
    let link = app.reconnect_link(&hook.connector).await;
    let half_way = Notify::new();

    let reconnect = async {
        half_way.notified().await;
        assert_eq!(app.consent(&link).await.status, 200);
    };
    let (taken, ()) = tokio::join!(stream(&app, &hook, &half_way), reconnect);

    assert_eq!(taken.len(), EVENTS);
    let runs = ended(&app, &agent, EVENTS).await;
    let kept = every_one_is_kept_once(&app, &hook, EVENTS).await;
    assert!(kept.iter().all(|one| one["state"] == "processed"), "{kept:?}");
    assert_eq!((runs.len(), notes(&app)), (EVENTS, EVENTS), "{runs:?}");
}

async fn a_disconnect_while_deliveries_arrive_loses_none(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let half_way = Notify::new();

    let disconnect = async {
        half_way.notified().await;
        let _done = app.post(&format!("/connectors/{}/disconnect", hook.connector), json!({})).await.expect(200);
    };
    let (taken, ()) = tokio::join!(stream(&app, &hook, &half_way), disconnect);

    assert!(taken.len() >= EVENTS / 3 && taken.len() < EVENTS, "{} were taken", taken.len());
    let kept = every_one_is_kept_once(&app, &hook, taken.len()).await;
    for one in &kept {
        let is_told = one["state"] == "processed" || (one["state"] == "failed" && one["detail"].is_string());
        assert!(is_told, "{one}");
    }
}

async fn a_failure_while_deliveries_arrive_parks_the_rest(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let half_way = Notify::new();

    let fail = async {
        half_way.notified().await;
        app.acme.revoke(None);
        let tested = app.post(&format!("/connectors/{}/test", hook.connector), json!({})).await.expect(200);
        assert_eq!(tested.json["health"], "auth_failed", "{}", tested.text);
    };
    let (taken, ()) = tokio::join!(stream(&app, &hook, &half_way), fail);

    assert_eq!(taken.len(), EVENTS);
    let kept = every_one_is_kept_once(&app, &hook, EVENTS).await;
    assert!(kept.iter().all(|one| one["state"] == "processed" || one["state"] == "parked"), "{kept:?}");
    assert_eq!(app.consent(&app.reconnect_link(&hook.connector).await).await.status, 200);
    let all = async || app.deliveries(&hook.connector).await;
    until("all are worked off", all, |all| all.iter().all(|one| one["state"] == "processed")).await;
}

async fn another_secret_while_deliveries_arrive_refuses_none(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let half_way = Notify::new();

    let rotate = async {
        half_way.notified().await;
        let path = format!("/connectors/{}/webhook", hook.connector);
        let _kept = app.post(&path, json!({ "secret": "another-signing-secret" })).await.expect(200);
        let signed = EventOrder { secret: "another-signing-secret".to_owned(), ..hook.event("with-the-new-one") };
        assert_eq!(app.sent(&signed).await, 200);
    };
    let (taken, ()) = tokio::join!(stream(&app, &hook, &half_way), rotate);

    assert_eq!(taken.len(), EVENTS, "the one before counts for a while");
    every_one_is_kept_once(&app, &hook, EVENTS + 1).await;
}

async fn a_pause_while_events_arrive_is_told_where_it_counted(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let agent = make(&app, &hook.connector, &["ticket.created"]).await;
    let half_way = Notify::new();

    let pause = async {
        half_way.notified().await;
        for act in ["pause", "resume", "pause"] {
            let _done = app.post(&format!("/agents/{agent}/{act}"), json!({})).await.expect(200);
        }
    };
    let (taken, ()) = tokio::join!(stream(&app, &hook, &half_way), pause);
    assert_eq!(taken.len(), EVENTS);

    let kept = every_one_is_kept_once(&app, &hook, EVENTS).await;
    let all = until(
        "its runs are over",
        async || runs(&app, &agent).await,
        |all| all.iter().all(|run| !run["ended_at"].is_null()),
    )
    .await;
    for one in &kept {
        let of = all.iter().filter(|run| run["event"]["id"] == one["id"]).count();
        let was_paused = one["detail"] == "It set no agent off: Noting was paused.";
        assert_eq!((one["state"].as_str(), of), (Some("processed"), usize::from(!was_paused)), "{one}");
    }
    let written = all.iter().filter(|run| run["state"] == "succeeded").count();
    assert_eq!(notes(&app), written, "a run that the pause has stopped wrote nothing, or says so");
}

/// Refuses once, and counts.
#[derive(Default)]
struct Refusing(AtomicUsize);

#[async_trait]
impl Handler for Refusing {
    async fn run(&self, _: &Arc<App>, _: &ClaimedJob) -> Outcome {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Outcome::Failed(Fault::new("refused", "It does not want it."), Retry::Never),
            _ => Outcome::Done,
        }
    }
}

async fn a_retry_and_a_discard_at_once_leave_one_of_both(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    for number in 0..EVENTS {
        let handler = Arc::new(Refusing::default());
        app.app.jobs.handle(Kind::Event, handler.clone());
        assert_eq!(app.sent(&said(&hook, &format!("evt-{number}"), "created", None)).await, 200);
        let newest = async || {
            let all = app.get("/jobs?kind=event").await.expect(200).json;
            all["data"][0].clone()
        };
        let id = until("it is dead", newest, |job| job["state"] == "dead").await["id"].as_str().unwrap().to_owned();

        let act = async |act: &str| app.post(&format!("/jobs/{id}/{act}"), json!({})).await.status;
        let told = if number % 2 == 0 {
            tokio::join!(act("retry"), act("discard"))
        } else {
            let (discard, retry) = tokio::join!(act("discard"), act("retry"));
            (retry, discard)
        };

        let show = async || app.get(&format!("/jobs/{id}")).await.expect(200).json;
        let over = |job: &Value| job["state"] == "done" || job["state"] == "discarded";
        let job = until("one of both counts", show, over).await;
        let ran = handler.0.load(Ordering::SeqCst) - 1;
        let (retried, discarded) = (told.0 == 200, told.1 == 200);
        assert!(retried || discarded, "{told:?}");
        assert_eq!(ran, usize::from(job["state"] == "done"), "{told:?}: {job}");
        assert!(ran == 0 || retried, "nobody else has begun it: {told:?}");
    }
}
