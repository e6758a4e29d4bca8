//! The queue of a service: jobs are done, tried again, held and told of, over the API and in the browser.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use holdfast_app::{App, jobs::Handler};
use holdfast_core::{
    JobId, Role,
    error::Retry,
    job::{Fault, Kind, Outcome},
};
use holdfast_store::{ClaimedJob, Enqueued, NewJob};
use holdfast_tests::{browser::Browser, database::Database, html::Html, on_both, service::TestApp, wait::until};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

on_both! {
    a_job_begins_within_moments_of_being_asked_for,
    a_job_that_fails_is_tried_again_and_says_why_it_is_dead,
    a_retry_by_hand_while_it_runs_is_no_second_run,
    jobs_of_a_dead_connector_wait_for_its_reconnect,
    all_of_a_filter_are_told_over_the_api,
    a_handler_that_panics_or_hangs_ends_nothing_else,
    a_service_that_stops_waits_for_what_runs,
    another_orgs_job_is_not_there,
    what_the_api_does_not_know_is_named,
    jobs_are_seen_and_handled_in_a_browser,
    who_looks_sees_no_button,
    the_numbers_tell_of_the_queue,
}

/// Does what the test says next; done when it says nothing.
#[derive(Default)]
struct Scripted {
    outcomes: Mutex<Vec<Outcome>>,
    seen: Mutex<Vec<String>>,
    /// Held back until there are permits.
    gate: Option<Semaphore>,
    at_once: AtomicUsize,
    most: AtomicUsize,
}

impl Scripted {
    fn saying(outcomes: Vec<Outcome>) -> Arc<Self> {
        Arc::new(Self { outcomes: Mutex::new(outcomes), ..Self::default() })
    }

    fn held() -> Arc<Self> {
        Arc::new(Self { gate: Some(Semaphore::new(0)), ..Self::default() })
    }

    fn let_go(&self, count: usize) {
        self.gate.as_ref().unwrap().add_permits(count);
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

#[async_trait]
impl Handler for Scripted {
    async fn run(&self, _: &Arc<App>, claimed: &ClaimedJob) -> Outcome {
        self.seen.lock().unwrap().push(claimed.job.key.clone());
        self.most.fetch_max(self.at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        let mut outcomes = self.outcomes.lock().unwrap();
        if outcomes.is_empty() { Outcome::Done } else { outcomes.remove(0) }
    }
}

struct Broken;

#[async_trait]
impl Handler for Broken {
    async fn run(&self, _: &Arc<App>, claimed: &ClaimedJob) -> Outcome {
        assert!(claimed.job.key != "panics", "as the test wants it");
        std::future::pending().await
    }
}

fn busy() -> Outcome {
    Outcome::Failed(Fault::new("busy", "The helpdesk is busy."), Retry::Backoff)
}

fn refused() -> Outcome {
    Outcome::Failed(Fault::new("refused", "The helpdesk does not want it."), Retry::Never)
}

async fn enqueue(app: &TestApp, kind: Kind, key: &str, connector: Option<&str>) -> JobId {
    let now = app.app.seams.clock.now();
    let job = NewJob {
        org: app.org.clone(),
        kind,
        key: key.to_owned(),
        connector: connector.map(Into::into),
        subject: format!("event_{key}"),
        payload: json!({}),
        due_at: now,
        at: now,
    };
    match app.app.store.enqueue(&job).await.unwrap() {
        Enqueued::Yes(id) => id,
        there @ Enqueued::Already(_) => panic!("{there:?}"),
    }
}

async fn show(app: &TestApp, id: &JobId) -> Value {
    app.get(&format!("/jobs/{id}")).await.expect(200).json
}

/// Waits until the job is in this state, and answers it.
async fn becomes(app: &TestApp, id: &JobId, state: &str) -> Value {
    until(&format!("{id} is {state}"), async || show(app, id).await, |job| job["state"] == state).await
}

async fn a_job_begins_within_moments_of_being_asked_for(db: Arc<Database>) {
    // No poll helps: the service's time stands still.
    let app = TestApp::start(&db).await;
    let handler = Scripted::saying(Vec::new());
    app.app.jobs.handle(Kind::Mail, handler.clone());

    let id = enqueue(&app, Kind::Mail, "one", None).await;

    let done = becomes(&app, &id, "done").await;
    assert_eq!(handler.seen(), ["one"]);
    assert_eq!((done["kind"].as_str(), done["subject"].as_str()), (Some("mail"), Some("event_one")));
    assert_eq!((done["attempts"].as_i64(), done["attempt_list"][0]["outcome"].as_str()), (Some(1), Some("done")));
}

async fn a_job_that_fails_is_tried_again_and_says_why_it_is_dead(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.jobs.attempts = 3).start().await;
    let handler = Scripted::saying(vec![busy(), busy(), busy()]);
    app.app.jobs.handle(Kind::Mail, handler.clone());
    let id = enqueue(&app, Kind::Mail, "one", None).await;

    for attempts in 1..3 {
        let waiting = until(
            "it rests after its failure",
            async || show(&app, &id).await,
            |job| job["state"] == "waiting" && job["attempts"] == attempts,
        )
        .await;
        assert_eq!(
            (waiting["code"].as_str(), waiting["detail"].as_str()),
            (Some("busy"), Some("The helpdesk is busy."))
        );
        app.advance(Duration::from_hours(1));
    }
    let dead = becomes(&app, &id, "dead").await;

    assert_eq!((dead["attempts"].as_i64(), dead["code"].as_str()), (Some(3), Some("busy")));
    let outcomes: Vec<_> = dead["attempt_list"].as_array().unwrap().iter().map(|one| one["outcome"].clone()).collect();
    assert_eq!(outcomes, ["failed", "failed", "failed"]);
    let again = app.post(&format!("/jobs/{id}/retry"), json!({})).await.expect(200).json;
    assert_eq!((again["state"].as_str(), again["attempts"].as_i64()), (Some("ready"), Some(0)));
    let done = becomes(&app, &id, "done").await;
    assert!(done["by"].as_str().unwrap().starts_with("key "), "{done}");
    assert_eq!(done["attempt_list"].as_array().unwrap().len(), 4, "what was before is kept");
}

async fn a_retry_by_hand_while_it_runs_is_no_second_run(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let handler = Scripted::held();
    app.app.jobs.handle(Kind::Mail, handler.clone());
    let id = enqueue(&app, Kind::Mail, "one", None).await;
    until("it runs", async || handler.seen().len(), |runs| *runs == 1).await;

    for act in ["retry", "discard"] {
        let told = app.post(&format!("/jobs/{id}/{act}"), json!({})).await.problem(409, "job_state");
        assert!(told.text_of("detail").contains("is not begun a second time"), "{}", told.text);
        assert_eq!(app.post(&format!("/jobs/{act}"), json!({})).await.expect(200).json["changed"], 0);
    }
    handler.let_go(5);

    let done = becomes(&app, &id, "done").await;
    assert_eq!((handler.seen().len(), done["attempt_list"].as_array().unwrap().len()), (1, 1));
    let told = app.post(&format!("/jobs/{id}/retry"), json!({})).await.problem(409, "job_state");
    assert!(told.text_of("detail").starts_with("This job is done."), "{}", told.text);
}

/// QJ-03
async fn jobs_of_a_dead_connector_wait_for_its_reconnect(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let handler = Scripted::saying(Vec::new());
    let (acme, globex) = (app.connect("acme").await, app.connect("globex").await);
    app.fail(&acme).await;
    app.app.jobs.handle(Kind::Event, handler.clone());
    let mut waiting = Vec::new();
    for number in 0..5 {
        waiting.push(enqueue(&app, Kind::Event, &format!("acme {number}"), Some(&acme)).await);
        app.advance(Duration::from_millis(1));
    }
    let other = enqueue(&app, Kind::Event, "globex", Some(&globex)).await;

    becomes(&app, &other, "done").await;
    for id in &waiting {
        assert_eq!(becomes(&app, id, "parked").await["attempts"], 0);
    }
    let parked = app.get(&format!("/jobs?state=parked&connector={acme}")).await.expect(200).json;
    assert_eq!(parked["data"].as_array().unwrap().len(), 5);
    app.advance(Duration::from_hours(3));
    let page = app.consent(&app.reconnect_link(&acme).await).await;
    assert_eq!(page.status, 200, "{}", page.text);

    for id in &waiting {
        assert_eq!(becomes(&app, id, "done").await["attempts"], 1);
    }
    let expected: Vec<_> = (0..5).map(|number| format!("acme {number}")).collect();
    assert_eq!(handler.seen()[1..], expected, "each once, in their order");
}

async fn all_of_a_filter_are_told_over_the_api(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    app.app.jobs.handle(Kind::Mail, Scripted::saying(vec![refused(), refused(), refused()]));
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(enqueue(&app, Kind::Mail, &format!("{number}"), None).await);
    }
    for id in &ids {
        becomes(&app, id, "dead").await;
    }
    // Nobody works these off here.
    let sync = enqueue(&app, Kind::Sync, "one", None).await;

    let first = app.get("/jobs?limit=2").await.expect(200).json;
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = app.get(&format!("/jobs?limit=2&cursor={cursor}")).await.expect(200).json;
    assert_eq!((first["data"].as_array().unwrap().len(), rest["data"].as_array().unwrap().len()), (2, 2));
    let told = app.post("/jobs/retry", json!({ "kind": "mail", "state": "dead" })).await.expect(200);
    assert_eq!(told.json["changed"], 3);
    for id in &ids {
        becomes(&app, id, "done").await;
    }
    let told = app.post("/jobs/discard", json!({ "kind": "sync" })).await.expect(200);
    assert_eq!(
        (told.json["changed"].as_i64(), show(&app, &sync).await["state"].as_str()),
        (Some(1), Some("discarded"))
    );
}

async fn a_handler_that_panics_or_hangs_ends_nothing_else(db: Arc<Database>) {
    let longest = Duration::from_secs(20);
    let app = TestApp::builder(&db).with(|config| config.jobs.longest_attempt = longest).start().await;
    app.app.jobs.handle(Kind::Mail, Arc::new(Broken));
    app.app.jobs.handle(Kind::Deliver, Scripted::saying(Vec::new()));
    let panics = enqueue(&app, Kind::Mail, "panics", None).await;
    let hangs = enqueue(&app, Kind::Mail, "hangs", None).await;
    let good = enqueue(&app, Kind::Deliver, "good", None).await;

    becomes(&app, &good, "done").await;
    assert_eq!(becomes(&app, &panics, "waiting").await["code"], "internal");
    becomes(&app, &hangs, "running").await;
    app.advance(longest);
    let broken_off =
        until("it is broken off", async || show(&app, &hangs).await, |job| job["code"] == "timed_out").await;
    assert_eq!(broken_off["attempt_list"][0]["outcome"], "failed");
}

/// WD-05
async fn a_service_that_stops_waits_for_what_runs(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.jobs.at_once = 2).start().await;
    let handler = Scripted::held();
    app.app.jobs.handle(Kind::Mail, handler.clone());
    let mut ids = Vec::new();
    for number in 0..4 {
        ids.push(enqueue(&app, Kind::Mail, &format!("{number}"), None).await);
    }
    until("two of them run", async || handler.seen().len(), |runs| *runs == 2).await;

    app.app.draining.cancel();
    // The places that are freed now take nothing new.
    handler.let_go(10);
    app.app.engine.drain().await;

    let jobs = app.app.store.jobs(&app.org, &holdfast_store::JobFilter::default(), None, 10).await.unwrap().data;
    let states: Vec<_> = jobs.iter().rev().map(|job| job.state.as_str()).collect();
    assert_eq!(states.iter().filter(|state| **state == "done").count(), 2, "{states:?}");
    assert_eq!(states.iter().filter(|state| **state == "ready").count(), 2, "{states:?}");
    assert_eq!((handler.seen().len(), handler.most.load(Ordering::SeqCst)), (2, 2));
    assert!(jobs.iter().filter(|job| job.state.as_str() == "ready").all(|job| job.attempts == 0));
}

async fn another_orgs_job_is_not_there(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = enqueue(&app, Kind::Sync, "one", None).await;
    let other = app.key_of("Globex").await;

    for (method, path) in [
        (Method::GET, format!("/jobs/{id}")),
        (Method::POST, format!("/jobs/{id}/retry")),
        (Method::POST, format!("/jobs/{id}/discard")),
    ] {
        let told = app.call(method, &path, Some(&other), None).await;
        let _nothing = told.problem(404, "not_found");
    }
    let listed = app.call(Method::GET, "/jobs", Some(&other), None).await.expect(200).json;
    assert_eq!(listed["data"], json!([]));
    let told = app.call(Method::POST, "/jobs/discard", Some(&other), Some(json!({}))).await.expect(200).json;
    assert_eq!((told["changed"].as_i64(), show(&app, &id).await["state"].as_str()), (Some(0), Some("ready")));
}

async fn what_the_api_does_not_know_is_named(db: Arc<Database>) {
    let app = TestApp::start(&db).await;

    let told = app.get("/jobs?kind=letter").await.problem(422, "invalid");
    assert!(told.text_of("detail").contains("event, sync, mail, deliver, agent_run, subscription"), "{}", told.text);
    let told = app.get("/jobs?state=asleep").await.problem(422, "invalid");
    assert!(told.text_of("detail").contains("ready, waiting, running, parked"), "{}", told.text);
    let _cursor = app.get("/jobs?cursor=x").await.problem(422, "invalid");
    let _word = app.post("/jobs/retry", json!({ "colour": "red" })).await.problem(422, "invalid");
    let _none = app.get("/jobs/job_x").await.problem(404, "not_found");
}

async fn open(app: &TestApp, browser: &Browser, path: &str) -> Html {
    browser.open(&app.at(path)).await
}

fn has_form(page: &Html, path: &str) -> bool {
    page.forms.iter().any(|form| form.goes_to(path))
}

async fn jobs_are_seen_and_handled_in_a_browser(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    app.person("Acme", "ada@example.com", Role::Member).await;
    let ada = app.signed_in("ada@example.com").await;
    let empty = open(&app, &ada, "/jobs").await;
    assert!(empty.text.contains("No job yet"), "{}", empty.text);
    let acme = app.import_with("acme", json!({ "name": "Support" })).await;
    app.app.jobs.handle(Kind::Event, Scripted::saying(vec![refused()]));
    let dead = enqueue(&app, Kind::Event, "one", Some(&acme)).await;
    becomes(&app, &dead, "dead").await;
    let sync = enqueue(&app, Kind::Sync, "two", None).await;

    let list = open(&app, &ada, "/jobs").await;
    assert!(list.text.contains("Work off an event of Support The helpdesk does not want it. Dead"), "{}", list.text);
    assert!(list.text.contains("Sync the tickets Next in line"), "{}", list.text);
    let filtered = open(&app, &ada, &format!("/jobs?state=dead&connector={acme}")).await;
    assert!(filtered.text.contains("Of Support") && !filtered.text.contains("Sync the tickets"), "{}", filtered.text);
    let page = open(&app, &ada, &format!("/jobs/{dead}")).await;
    assert!(page.text.contains("The helpdesk does not want it. It is not tried again by itself."), "{}", page.text);
    assert!(page.text.contains("Failed attempt 1 on rep_"), "{}", page.text);

    let (at, after) = ada.follow(&page.form(&format!("/jobs/{dead}/retry"))).await;
    let after = after.html(&at);
    assert!(after.text.contains("It is tried again."), "{}", after.text);
    becomes(&app, &dead, "done").await;
    let done = open(&app, &ada, &format!("/jobs/{dead}")).await;
    assert!(!has_form(&done, &format!("/jobs/{dead}/retry")), "there is nothing to be done about it");
    let late = ada.send_form(&page.form(&format!("/jobs/{dead}/retry"))).await;
    assert!(late.status == 409 && late.text.contains("This job is done. Nothing was changed."), "{}", late.text);

    let all = open(&app, &ada, "/jobs?kind=sync").await;
    let (at, after) = ada.follow(&all.form("/jobs/discard")).await;
    let after = after.html(&at);
    assert!(after.text.contains("Discarded 1 job."), "{}", after.text);
    assert_eq!(show(&app, &sync).await["state"], "discarded");
}

async fn who_looks_sees_no_button(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    app.person("Acme", "vera@example.com", Role::Viewer).await;
    let vera = app.signed_in("vera@example.com").await;
    let id = enqueue(&app, Kind::Sync, "one", None).await;

    let list = open(&app, &vera, "/jobs").await;
    let page = open(&app, &vera, &format!("/jobs/{id}")).await;

    for act in ["retry", "discard"] {
        assert!(!has_form(&list, &format!("/jobs/{act}")) && !has_form(&page, &format!("/jobs/{id}/{act}")), "{act}");
    }
    assert!(page.text.contains("Its turn comes next"), "{}", page.text);
}

async fn the_numbers_tell_of_the_queue(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    app.app.jobs.handle(Kind::Mail, Scripted::saying(vec![refused()]));
    let dead = enqueue(&app, Kind::Mail, "one", None).await;
    becomes(&app, &dead, "dead").await;
    enqueue(&app, Kind::Sync, "two", None).await;
    app.advance(Duration::from_mins(1));

    let numbers = app.plain("/metrics").await.1;

    for line in [
        "holdfast_jobs{kind=\"mail\",state=\"dead\"} 1",
        "holdfast_jobs{kind=\"sync\",state=\"ready\"} 1",
        "holdfast_jobs{kind=\"event\",state=\"parked\"} 0",
        "holdfast_job_attempts_total{kind=\"mail\",outcome=\"failed\"} ",
        "holdfast_jobs_oldest_seconds{kind=\"sync\"} 60",
    ] {
        assert!(numbers.contains(line), "{line} is not in\n{numbers}");
    }
}
