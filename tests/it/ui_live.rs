//! Pages that follow what happens: the stream of events behind them.

use std::{sync::Arc, time::Duration};

use holdfast_core::{Role, ports::Clock as _};
use holdfast_tests::{
    database::{Database, on_postgres},
    on_both,
    people::Person,
    service::TestApp,
    wait::until,
};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;

on_both! {
    a_failure_is_told_and_the_page_shows_it,
    only_what_concerns_the_page_is_told,
    many_changes_at_once_are_told_once,
    what_a_page_missed_before_it_listened_is_told_at_once,
    a_stream_ends_with_the_session,
    a_stream_ends_when_the_service_stops,
    a_session_has_only_so_many_streams,
    a_deleted_connector_is_told_to_the_list,
    what_happens_to_an_agent_is_told_to_its_page_and_to_the_list,
}

/// Longer than an event takes on a busy machine.
const BOUND: Duration = Duration::from_secs(20);
/// What nobody is told within is not told.
const SILENCE: Duration = Duration::from_millis(700);

/// An open stream.
struct Events {
    response: Response,
    read: String,
}

fn ask(person: &Person, path: &str) -> RequestBuilder {
    person.browser.request(Method::GET, &person.url(path)).header("accept", "text/event-stream")
}

impl Events {
    async fn open(person: &Person, path: &str) -> Self {
        let response = ask(person, path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-cache");
        let mut events = Self { response, read: String::new() };
        events.wait_for("retry: 1000").await;
        // Who does not say what they know, is told to look.
        if !path.contains("since=") {
            events.changed().await;
        }
        events
    }

    async fn wait_for(&mut self, words: &str) {
        let waited = tokio::time::timeout(BOUND, async {
            while !self.read.contains(words) {
                let chunk = self.response.chunk().await.unwrap();
                let chunk = chunk.unwrap_or_else(|| panic!("the stream ended before {words:?}: {:?}", self.read));
                self.read.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{words:?} never came: {:?}", self.read));
    }

    /// Waits for an event. It has data, without which browsers drop it.
    async fn changed(&mut self) {
        self.read.clear();
        self.wait_for("event: changed\ndata: now\n").await;
    }

    /// Nothing comes for a while.
    async fn silent(&mut self) {
        let more = tokio::time::timeout(SILENCE, self.response.chunk()).await;
        assert!(more.is_err(), "{more:?}");
    }

    async fn ends(mut self) {
        let ended = tokio::time::timeout(BOUND, async { while let Ok(Some(_)) = self.response.chunk().await {} });
        assert!(ended.await.is_ok(), "the stream goes on");
    }
}

/// Takes the access away at the provider and lets a caller find out.
async fn fail(app: &TestApp, id: &str) {
    let token = app.token(id).await.expect(200).text_of("access_token");
    app.acme.revoke(None);
    let rejected = app.post(&format!("/connectors/{id}/token/rejected"), json!({ "access_token": token })).await;
    let _told = rejected.problem(409, "connector_auth_failed");
}

/// HL-01
async fn a_failure_is_told_and_the_page_shows_it(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    let ada = app.somebody(Role::Viewer).await;
    let stream = ada.open(&format!("/connectors/{id}")).await.stream().unwrap();
    assert!(stream.starts_with(&format!("/events?connector={id}&since=")), "{stream}");
    let home = ada.open("/connectors").await.stream().unwrap();
    assert!(home.starts_with("/events?since="), "{home}");
    let (mut of_page, mut of_home) = (Events::open(&ada, &stream).await, Events::open(&ada, &home).await);
    // A page that has missed nothing is not fetched again. Replicas' clocks may differ, so that theirs are to make sure.
    if db.is_sqlite() {
        tokio::join!(of_page.silent(), of_home.silent());
    }

    fail(&app, &id).await;

    tokio::join!(of_page.changed(), of_home.changed());
    assert!(ada.open(&format!("/connectors/{id}")).await.says("It stopped working"));
    assert!(ada.open("/connectors").await.says("Needs you Support"));
}

async fn only_what_concerns_the_page_is_told(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (one, two) = (app.import("acme").await, app.import("globex").await);
    let ada = app.somebody(Role::Viewer).await;
    let stranger = app.somebody_of("Other", Role::Owner).await;
    let mut of_one = Events::open(&ada, &format!("/events?connector={one}")).await;
    let mut of_all = Events::open(&ada, "/events").await;
    let mut elsewhere = Events::open(&stranger, "/events").await;

    let _tested = app.post(&format!("/connectors/{two}/test"), json!({})).await.expect(200);

    of_all.changed().await;
    tokio::join!(of_one.silent(), elsewhere.silent());
    let _tested = app.post(&format!("/connectors/{one}/test"), json!({})).await.expect(200);
    tokio::join!(of_one.changed(), of_all.changed());
    elsewhere.silent().await;
}

async fn many_changes_at_once_are_told_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Viewer).await;
    let mut events = Events::open(&ada, "/events").await;

    let made = futures::future::join_all((0..20).map(|number| {
        let body = json!({ "provider": "zendesk", "account": format!("desk{number}") });
        app.post("/connectors", body)
    }));
    for made in made.await {
        let _made = made.expect(201);
    }
    events.changed().await;
    let more = tokio::time::timeout(SILENCE, async {
        while let Ok(Some(chunk)) = events.response.chunk().await {
            events.read.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    });
    assert!(more.await.is_err());

    let told = events.read.matches("event: changed").count();
    assert!(told <= 10, "{told} events for 20 changes");
}

async fn what_a_page_missed_before_it_listened_is_told_at_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (id, other) = (app.import("acme").await, app.import("globex").await);
    let ada = app.somebody(Role::Viewer).await;
    let page = ada.open(&format!("/connectors/{id}")).await.stream().unwrap();
    let others = ada.open(&format!("/connectors/{other}")).await.stream().unwrap();
    let home = ada.open("/connectors").await.stream().unwrap();

    let _tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);

    for missed in [&page, &home] {
        Events::open(&ada, missed).await.wait_for("event: changed").await;
    }
    if !db.is_sqlite() {
        return;
    }
    Events::open(&ada, &others).await.silent().await;
    // One that broke off says what it heard last; one of another time is told to look again.
    app.clock.advance(Duration::from_secs(5));
    let now = app.clock.now().timestamp_micros();
    let (path, before) = page.split_once("since=").unwrap();
    let before = before.parse::<i64>().unwrap();
    for (since, id, told) in [(before, now, false), (now, before, true), (0, 0, true), (i64::MAX, i64::MAX, true)] {
        let request = ask(&ada, &format!("{path}since={since}"));
        let response = request.header("last-event-id", id.to_string()).send().await.unwrap();
        let mut again = Events { response, read: String::new() };
        again.wait_for("retry: 1000").await;
        if told {
            again.wait_for("event: changed").await;
        } else {
            again.silent().await;
        }
    }
}

async fn a_stream_ends_with_the_session(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let ada = app.somebody(Role::Admin).await;
    let (idle, busy) = (Events::open(&ada, "/events").await, Events::open(&ada, "/events").await);

    let _signed_out = ada.submit("/connectors", "/sign-out", &[]).await.expect(303);

    // The next change is not told any more.
    let _tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
    busy.ends().await;
    // Nor does a quiet stream outlive it for long.
    app.clock.advance(Duration::from_secs(21));
    idle.ends().await;
    let page = ada.browser.get(&ada.url("/events")).await;
    assert_eq!((page.status, page.location()), (303, "/sign-in?next=%2Fevents".to_owned()));

    // However alive the session is, the stream has to be asked for again.
    let bea = app.somebody(Role::Viewer).await;
    let events = Events::open(&bea, "/events").await;
    app.clock.advance(Duration::from_mins(11));
    events.ends().await;
    let _again = Events::open(&bea, "/events").await;
}

async fn a_stream_ends_when_the_service_stops(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Viewer).await;
    let events = Events::open(&ada, "/events").await;

    app.stop();

    events.ends().await;
}

async fn a_session_has_only_so_many_streams(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (ada, bea) = (app.somebody(Role::Viewer).await, app.somebody(Role::Viewer).await);
    let mut open = Vec::new();
    for _ in 0..12 {
        open.push(Events::open(&ada, "/events").await);
    }

    assert_eq!(ask(&ada, "/events").send().await.unwrap().status(), 429);
    assert_eq!(ada.open("/events").await.status, 406, "an address bar would wait for ever");
    let _another_persons = Events::open(&bea, "/events").await;
    drop(open);
    let free = async || ask(&ada, "/events").send().await.unwrap().status().as_u16();
    until("a closed tab makes room", free, |status| *status == 200).await;
}

async fn a_deleted_connector_is_told_to_the_list(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    // One that has just started, and has heard of no connector yet.
    let ada = app.somebody(Role::Viewer).await;
    let mut events = Events::open(&ada, "/events").await;

    let gone = app.call(Method::DELETE, &format!("/connectors/{id}"), Some(&app.key), None).await;

    assert_eq!(gone.status, 204);
    events.changed().await;
    assert!(ada.open("/connectors").await.says("Nothing is connected yet"));
}

async fn what_happens_to_an_agent_is_told_to_its_page_and_to_the_list(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let connector = app.import("acme").await;
    let body = json!({ "sample": "annotate_urgent_tickets", "connectors": [{ "connector": connector }],
                       "trigger": { "kind": "manual" } });
    let agent = app.post("/agents", body.clone()).await.expect(201).text_of("id");
    let other = app.post("/agents", body).await.expect(201).text_of("id");
    let ada = app.somebody(Role::Viewer).await;
    let mut page = Events::open(&ada, &format!("/events?agent={agent}")).await;
    let mut list = Events::open(&ada, "/events").await;

    let _asked = app.post(&format!("/agents/{other}/run"), json!({})).await.expect(202);
    list.changed().await;
    page.silent().await;
    let _asked = app.post(&format!("/agents/{agent}/run"), json!({})).await.expect(202);
    page.changed().await;
    app.app.run_due_agents().await.unwrap();
    page.changed().await;
    assert!(ada.open(&format!("/agents/{agent}")).await.says("Succeeded"));
    fail(&app, &connector).await;
    page.changed().await;
    list.changed().await;
    assert!(ada.open("/agents").await.says("Zendesk acme needs Reconnect"));
    let gone = app.call(Method::DELETE, &format!("/agents/{agent}"), Some(&app.key), None).await;
    assert_eq!(gone.status, 204);
    page.changed().await;
    let stranger = app.somebody_of("Globex", Role::Owner).await;
    assert_eq!(ask(&stranger, &format!("/events?agent={other}")).send().await.unwrap().status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_on_one_replica_is_told_on_the_other() {
    on_postgres(async |db: Arc<Database>| {
        let one = TestApp::start(&db).await;
        let two = TestApp::builder(&db).beside(&one).start().await;
        let id = one.import_with("acme", json!({ "name": "Support" })).await;
        let ada = two.somebody(Role::Viewer).await;
        let (path, stream) = (format!("/connectors/{id}"), format!("/events?connector={id}"));
        let mut events = Events::open(&ada, &stream).await;

        fail(&one, &id).await;
        events.changed().await;
        assert!(ada.open(&path).await.says("It stopped working"));

        let _tested = one.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
        events.changed().await;
        assert!(ada.open(&path).await.says("Test failed"), "a line of the timeline is told as well");

        assert_eq!(one.consent(&one.reconnect_link(&id).await).await.title(), "Connected");
        events.changed().await;
        let fine = async || ada.open(&path).await.text;
        until("it works again", fine, |text| !text.contains("It stopped working")).await;
    })
    .await;
}
