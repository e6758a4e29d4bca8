//! Events to the endpoints of an org: told once for what they tell of, signed, tried again, sent again, and given up.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use holdfast_app::admin::{self, Ask};
use holdfast_core::{
    ConnectorId,
    event::{About, EventType},
    ports::Clock as _,
};
use holdfast_sandbox::Canned;
use holdfast_store::{NewEvent, Published};
use holdfast_tests::{
    database::Database,
    on_both,
    receiver::{Receiver, Told},
    service::{Answer, LIFE, TestApp},
    wait::until,
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    each_type_is_told_once_for_what_it_tells_of_and_as_it_is_documented,
    who_runs_a_ticket_event_twice_tells_it_once,
    what_a_helpdesk_tells_of_a_ticket_is_told_once,
    an_endpoint_hears_what_it_has_chosen_and_nothing_else,
    the_official_library_takes_what_is_sent_also_while_the_secret_is_changed,
    what_is_not_taken_is_tried_again_by_the_plan_with_the_same_id,
    an_endpoint_that_says_when_is_not_tried_before,
    an_event_that_is_never_taken_is_given_up_after_the_last_pause,
    an_endpoint_that_is_gone_hears_nothing_more,
    an_endpoint_that_fails_for_days_is_disabled,
    one_that_is_silent_holds_up_no_other,
    a_redirect_is_not_followed,
    a_test_goes_to_one_endpoint_and_its_attempt_is_shown,
    what_was_missed_is_sent_again_with_the_ids_that_it_had,
    a_deleted_endpoint_hears_nothing_more,
    the_same_wish_makes_one_endpoint_and_one_secret,
    another_orgs_endpoint_is_not_there_and_hears_nothing,
    what_an_endpoint_cannot_be_is_told_by_field,
    a_private_address_is_refused_when_it_is_entered_and_when_it_is_called,
}

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const PATH: &str = "/event-endpoints";

/// A service whose usual key may do everything.
async fn start(db: &Arc<Database>) -> TestApp {
    start_with(db, |_| {}).await
}

async fn start_with(db: &Arc<Database>, change: impl FnOnce(&mut holdfast_app::Config)) -> TestApp {
    let mut app = TestApp::builder(db).with(change).start().await;
    app.key = app.key_with(&["admin"]).await;
    app
}

/// The same of another organisation.
async fn key_of(app: &TestApp, org: &str) -> String {
    app.app.store.ensure_org(org).await.unwrap();
    let ask = Ask::KeyCreate { org: org.to_owned(), name: "admin".to_owned(), scopes: vec!["admin".to_owned()] };
    admin::run(&app.app, ask).await.unwrap()["key"].as_str().unwrap().to_owned()
}

struct Endpoint {
    id: String,
    secret: String,
}

impl Endpoint {
    fn path(&self, end: &str) -> String {
        format!("{PATH}/{}{end}", self.id)
    }
}

async fn make(app: &TestApp, receiver: &Receiver, types: &[&str]) -> Endpoint {
    let made = app.post(PATH, json!({ "url": receiver.url, "types": types })).await.expect(201);
    Endpoint { id: made.text_of("id"), secret: made.text_of("secret") }
}

async fn show(app: &TestApp, endpoint: &Endpoint) -> Value {
    app.get(&endpoint.path("")).await.expect(200).json
}

async fn attempts(app: &TestApp, endpoint: &Endpoint) -> Vec<Value> {
    app.get(&endpoint.path("/attempts?limit=200")).await.expect(200).json["data"].as_array().unwrap().clone()
}

/// Waits until so many attempts are written down; newest first.
async fn attempted(app: &TestApp, endpoint: &Endpoint, count: usize) -> Vec<Value> {
    let what = format!("{count} attempts are noted");
    until(&what, async || attempts(app, endpoint).await, |all| all.len() >= count).await
}

async fn patch(app: &TestApp, endpoint: &Endpoint, body: Value) -> Answer {
    app.call(Method::PATCH, &endpoint.path(""), Some(&app.key), Some(body)).await
}

/// Tells of a ticket as its helpdesk's webhook leads to it, under this key.
async fn tell_of_ticket(app: &TestApp, connector: &str, kind: EventType, key: &str) -> Published {
    let id = ConnectorId::from(connector);
    let about =
        About { id: id.clone(), provider: "zendesk".to_owned(), account: "acme".to_owned(), name: String::new() };
    let event = NewEvent {
        org: &app.org,
        kind,
        key: Some(key.to_owned()),
        connector: Some(&id),
        data: about.ticket("42", "x:created"),
        at: app.clock.now(),
    };
    app.app.store.publish_event(&event).await.unwrap()
}

/// Tells of a new ticket, under this key.
async fn ticket(app: &TestApp, connector: &str, key: &str) -> Published {
    tell_of_ticket(app, connector, EventType::TicketCreated, key).await
}

async fn what_a_helpdesk_tells_of_a_ticket_is_told_once(db: Arc<Database>) {
    let (app, receiver) = (start(&db).await, Receiver::start().await);
    let endpoint = make(&app, &receiver, &["ticket.replied"]).await;
    let hook = app.zendesk_hook("acme").await;

    for id in ["evt-1", "evt-1", "evt-2"] {
        assert_eq!(app.sent(&hook.event(id)).await, 200);
    }

    receiver.hears(2).await;
    let all = settled(&app, &receiver).await;
    assert_eq!(all.len(), 2, "an event that comes again is the same event");
    let said = all[0].json();
    assert_eq!((&said["type"], &said["data"]["ticket"]["id"]), (&json!("ticket.replied"), &json!("42")), "{said}");
    assert_eq!(
        (&said["data"]["connector"]["id"], &said["data"]["provider_type"]),
        (&json!(hook.connector), &json!("ticket.comment_added"))
    );
    assert_eq!(attempts(&app, &endpoint).await.len(), 2);
}

/// The jobs of kind `deliver` that are in this state, by their code.
async fn jobs(app: &TestApp, state: &str) -> Vec<Value> {
    let answer = app.get(&format!("/jobs?kind=deliver&state={state}")).await.expect(200);
    answer.json["data"].as_array().unwrap().clone()
}

/// Waits until nothing is to be sent now, and answers what came. Time that moves while something is on its way is a time-out.
async fn settled(app: &TestApp, receiver: &Receiver) -> Vec<Told> {
    let open = async || jobs(app, "ready").await.len() + jobs(app, "running").await.len();
    until("nothing is to be sent", open, |open| *open == 0).await;
    receiver.told()
}

/// Waits until one event waits for its next attempt.
async fn waits(app: &TestApp) -> Value {
    until("it waits", async || jobs(app, "waiting").await, |waiting| waiting.len() == 1).await.remove(0)
}

/// The example of each type in docs/EVENTS.md.
fn documented() -> BTreeMap<String, Value> {
    let page = include_str!("../../docs/EVENTS.md");
    let mut examples = BTreeMap::new();
    for section in page.split("\n### ").skip(1) {
        let (name, rest) = section.split_once('\n').unwrap();
        let json = rest.split_once("```json\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
        examples.insert(name.trim().to_owned(), serde_json::from_str(json).unwrap());
    }
    examples
}

/// The same fields, at every depth; a value that is null in one place may be anything in the other.
fn same_shape(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| same_shape(value, other)))
        }
        (Value::Null, _) | (_, Value::Null) => true,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

async fn each_type_is_told_once_for_what_it_tells_of_and_as_it_is_documented(db: Arc<Database>) {
    let app = start(&db).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &[]).await;

    let id = app.import("acme").await;
    let agent = json!({
        "name": "Reader", "trigger": { "kind": "manual" }, "connectors": [{ "connector": id }],
        "runner": { "kind": "playbook", "steps": [{ "id": "found", "tool": "search_tickets", "with": { "limit": 1 } }] },
    });
    let agent = app.post("/agents", agent).await.expect(201).text_of("id");
    settled(&app, &receiver).await;
    app.advance(LIFE);
    app.acme.trouble(|faults| faults.token_answer = Some(Canned::new(503, "{}")));
    for _ in 0..3 {
        let _busy = app.token(&id).await.problem(503, "refresh_unavailable");
    }
    app.acme.calm();
    settled(&app, &receiver).await;
    app.advance(MINUTE * 6);
    let token = app.token(&id).await.expect(200).text_of("access_token");
    app.fail(&id).await;
    assert_eq!(app.consent(&app.reconnect_link(&id).await).await.title(), "Connected");
    let mut ending = app.import_body("globex");
    let credential = ending["credential"].as_object_mut().unwrap();
    credential.remove("refresh_token");
    credential.insert("expires_in".to_owned(), json!(DAY.as_secs() * 10));
    let ending = app.post("/connectors", ending).await.expect(201).text_of("id");
    settled(&app, &receiver).await;
    app.advance(DAY * 3 + HOUR);
    for _ in 0..2 {
        app.app.warn_of_ends().await.unwrap();
    }
    for (kind, key) in
        [(EventType::TicketCreated, "1"), (EventType::TicketReplied, "2"), (EventType::TicketChanged, "3")]
    {
        tell_of_ticket(&app, &id, kind, key).await;
    }
    let _off = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
    let gone = app.call(Method::DELETE, &format!("/connectors/{ending}"), Some(&app.key), None).await;
    assert_eq!(gone.status, 204);
    let test = app.post(&endpoint.path("/test"), json!({})).await.expect(202).text_of("event_id");

    receiver.hears(15).await;
    let all = settled(&app, &receiver).await;
    assert!(all.iter().any(|told| told.id() == test));
    let of = |kind: &str, about: &str| -> Vec<Value> {
        let one =
            |told: &Told| Some(told.json()).filter(|event| event["type"] == kind && event.to_string().contains(about));
        all.iter().filter_map(one).collect()
    };
    for (kind, about, count) in [
        ("connector.connected", id.as_str(), 1),
        ("connector.connected", &ending, 1),
        ("connector.degraded", &id, 1),
        ("connector.auth_failed", &id, 1),
        ("agent.deactivated", &agent, 2),
        ("connector.recovered", &id, 1),
        ("agent.reactivated", &agent, 1),
        ("connector.expiring", &ending, 1),
        ("ticket.created", &id, 1),
        ("ticket.replied", &id, 1),
        ("ticket.changed", &id, 1),
        ("connector.disconnected", &id, 1),
        ("connector.deleted", &ending, 1),
        ("endpoint.test", &endpoint.id, 1),
    ] {
        assert_eq!(of(kind, about).len(), count, "{kind}: {:?}", receiver.kinds());
    }
    assert_eq!(all.len(), 15, "and nothing else: {:?}", receiver.kinds());
    let documented = documented();
    assert!(documented.keys().map(String::as_str).eq({
        let mut words: Vec<_> = EventType::ALL.map(EventType::as_str).to_vec();
        words.sort_unstable();
        words
    }));
    for told in &all {
        let event = told.json();
        let example = &documented[&told.kind()];
        assert!(same_shape(&event, example), "{event}\nis documented as\n{example}");
        assert!(event["timestamp"].as_str().unwrap().parse::<DateTime<Utc>>().is_ok(), "{event}");
        assert!(told.signatures() == [told.signature_by(&endpoint.secret)], "the official library signs alike");
        assert!(!event.to_string().contains(&token) && !event.to_string().contains("whsec_"), "{event}");
    }
    let failed = &of("connector.auth_failed", &id)[0];
    assert_eq!(
        (&failed["data"]["previous_health"], &failed["data"]["reason"]),
        (&json!("connected"), &json!("refresh_refused"))
    );
}

async fn who_runs_a_ticket_event_twice_tells_it_once(db: Arc<Database>) {
    let app = start(&db).await;
    let id = app.import("acme").await;
    assert_eq!(ticket(&app, &id, "dlv_0").await, Published::ToNobody, "nobody listens, and nothing is written");
    let receiver = Receiver::start().await;
    make(&app, &receiver, &[]).await;

    let first = ticket(&app, &id, "dlv_1").await;
    let again = futures::future::join_all((0..4).map(|_| ticket(&app, &id, "dlv_1"))).await;
    let other = ticket(&app, &id, "dlv_2").await;

    let Published::Yes(event, 1) = first else { panic!("{first:?}") };
    assert!(again.iter().all(|again| *again == Published::Already(event.clone())), "{again:?}");
    assert!(matches!(other, Published::Yes(_, 1)), "{other:?}");
    let told = receiver.hears(2).await;
    assert_eq!(told.iter().filter(|told| told.id() == event.as_str()).count(), 1);
    assert_eq!(told.len(), 2);
}

async fn an_endpoint_hears_what_it_has_chosen_and_nothing_else(db: Arc<Database>) {
    let app = start(&db).await;
    let (all, tickets) = (Receiver::start().await, Receiver::start().await);
    make(&app, &all, &[]).await;
    let chosen = make(&app, &tickets, &["ticket.created", "ticket.created"]).await;

    let id = app.import("acme").await;
    ticket(&app, &id, "1").await;

    all.hears(2).await;
    let told = tickets.hears(1).await;
    assert_eq!(told[0].kind(), "ticket.created");
    assert_eq!(show(&app, &chosen).await["types"], json!(["ticket.created"]));
    let _changed = patch(&app, &chosen, json!({ "types": ["connector.disconnected"] })).await.expect(200);
    ticket(&app, &id, "2").await;
    let _off = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
    tickets.hears(2).await;
    all.hears(4).await;
    assert_eq!(tickets.kinds(), ["ticket.created", "connector.disconnected"]);
}

async fn the_official_library_takes_what_is_sent_also_while_the_secret_is_changed(db: Arc<Database>) {
    let app = start(&db).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &[]).await;
    let id = app.import("acme").await;

    let told = receiver.hears(1).await.remove(0);
    assert!(told.is_verified_by(&endpoint.secret) && told.signatures().len() == 1);
    let wrong = app.post(PATH, json!({ "url": receiver.url, "types": ["ticket.replied"] })).await.text_of("secret");
    assert!(!told.is_verified_by(&wrong));
    assert_eq!(told.headers["content-type"], "application/json");

    let rotated = app.post(&endpoint.path("/rotate-secret"), json!({})).await.expect(200);
    let new = rotated.text_of("secret");
    assert!(new != endpoint.secret && rotated.json["previous_secret_until"].is_string(), "{}", rotated.text);
    ticket(&app, &id, "1").await;
    let told = receiver.hears(2).await.remove(1);
    assert!(told.is_verified_by(&new) && told.is_verified_by(&endpoint.secret));
    assert_eq!(told.signatures(), [told.signature_by(&new), told.signature_by(&endpoint.secret)]);

    app.advance(DAY + HOUR);
    ticket(&app, &id, "2").await;
    let told = receiver.hears(3).await.remove(2);
    assert_eq!(told.signatures(), [told.signature_by(&new)], "the day is over");
    assert_eq!(show(&app, &endpoint).await["previous_secret_until"], Value::Null);
    let last = app.post(&endpoint.path("/rotate-secret"), json!({ "at_once": true })).await.expect(200);
    ticket(&app, &id, "3").await;
    let told = receiver.hears(4).await.remove(3);
    assert_eq!(told.signatures(), [told.signature_by(&last.text_of("secret"))]);
}

async fn what_is_not_taken_is_tried_again_by_the_plan_with_the_same_id(db: Arc<Database>) {
    let app = start(&db).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &["ticket.created"]).await;
    let id = app.import("acme").await;
    for status in [500, 404, 301] {
        receiver.answer(status);
    }

    ticket(&app, &id, "1").await;
    for (number, pause) in [(1, 0), (2, 5), (3, 5 * 60), (4, 30 * 60)] {
        if pause > 0 {
            waits(&app).await;
            app.advance(Duration::from_secs(pause) - Duration::from_secs(3));
            assert_eq!(receiver.told().len(), number - 1, "not before its time");
            app.advance(Duration::from_secs(pause) / 10 + Duration::from_secs(4));
        }
        receiver.hears(number).await;
        attempted(&app, &endpoint, number).await;
    }

    let told = receiver.told();
    assert!(told.iter().all(|one| one.id() == told[0].id() && one.body == told[0].body));
    assert!(told.windows(2).all(|pair| pair[0].timestamp() < pair[1].timestamp()));
    assert!(told.iter().all(|one| one.signatures() == [one.signature_by(&endpoint.secret)]));
    let all = attempts(&app, &endpoint).await;
    let of = |field: &str| all.iter().map(|one| one[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("status"), [json!(204), json!(301), json!(404), json!(500)]);
    assert_eq!(of("delivered"), [json!(true), json!(false), json!(false), json!(false)]);
    assert_eq!(of("attempt"), [json!(4), json!(3), json!(2), json!(1)]);
    assert!(all[3]["detail"].as_str().unwrap().contains("It answered 500"), "{}", all[3]);
    assert_eq!((&all[0]["event_id"], &all[0]["type"]), (&json!(told[0].id()), &json!("ticket.created")));
    until("it is active again", async || show(&app, &endpoint).await, |shown| shown["status"] == "active").await;
    until("it is done", async || jobs(&app, "done").await, |done| done.len() == 1).await;
    let page = app.get(&endpoint.path("/attempts?limit=3")).await.expect(200).json;
    let rest = app.get(&endpoint.path(&format!("/attempts?cursor={}", page["next_cursor"].as_str().unwrap()))).await;
    assert_eq!(rest.expect(200).json["data"].as_array().unwrap().len(), 1);
}

async fn an_endpoint_that_says_when_is_not_tried_before(db: Arc<Database>) {
    let app = start(&db).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &["ticket.created"]).await;
    let id = app.import("acme").await;
    receiver.answer_with(503, "retry-after", "3600");

    ticket(&app, &id, "1").await;
    attempted(&app, &endpoint, 1).await;
    let due: DateTime<Utc> = waits(&app).await["due_at"].as_str().unwrap().parse().unwrap();
    let wait = (due - app.clock.now()).num_seconds();

    assert!((3590..=3970).contains(&wait), "{wait}");
    app.advance(HOUR + MINUTE * 7);
    receiver.hears(2).await;
}

async fn an_event_that_is_never_taken_is_given_up_after_the_last_pause(db: Arc<Database>) {
    let app = start_with(&db, |config| config.events.retries = vec![Duration::from_secs(5); 2]).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &["ticket.created"]).await;
    let id = app.import("acme").await;
    for _ in 0..3 {
        receiver.answer(500);
    }

    ticket(&app, &id, "1").await;
    for number in 1..=2 {
        attempted(&app, &endpoint, number).await;
        waits(&app).await;
        app.advance(Duration::from_secs(6));
    }

    let dead = until("it is given up", async || jobs(&app, "dead").await, |dead| !dead.is_empty()).await;
    assert_eq!((&dead[0]["code"], &dead[0]["subject"]), (&json!("refused"), &json!(endpoint.id)));
    assert_eq!(receiver.told().len(), 3);
    assert_eq!(show(&app, &endpoint).await["status"], "failing");
    let job = dead[0]["id"].as_str().unwrap();
    let _again = app.post(&format!("/jobs/{job}/retry"), json!({})).await.expect(200);
    let told = receiver.hears(4).await;
    assert_eq!(told[3].id(), told[0].id(), "a person may try it again");
}

async fn an_endpoint_that_is_gone_hears_nothing_more(db: Arc<Database>) {
    let app = start(&db).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &["ticket.created"]).await;
    let id = app.import("acme").await;
    receiver.answer(410);

    ticket(&app, &id, "1").await;
    let shown = until("it is gone", async || show(&app, &endpoint).await, |shown| shown["status"] == "gone").await;

    assert!(shown["enabled"] == json!(false) && shown["disabled_at"].is_string(), "{shown}");
    let dead = until("it is not tried again", async || jobs(&app, "dead").await, |dead| !dead.is_empty()).await;
    assert_eq!(dead[0]["code"], "gone");
    assert!(matches!(ticket(&app, &id, "2").await, Published::Yes(_, 0)));
    let refused = app.post(&endpoint.path("/test"), json!({})).await.problem(409, "endpoint_disabled");
    assert!(refused.text_of("detail").contains("Enable it first"), "{}", refused.text);
    let enabled = patch(&app, &endpoint, json!({ "enabled": true })).await.expect(200);
    assert_eq!((&enabled.json["status"], &enabled.json["disabled_at"]), (&json!("active"), &Value::Null));
    ticket(&app, &id, "3").await;
    receiver.hears(2).await;
}

async fn an_endpoint_that_fails_for_days_is_disabled(db: Arc<Database>) {
    let app = start(&db).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &["ticket.created"]).await;
    let id = app.import("acme").await;
    for _ in 0..3 {
        receiver.answer(500);
    }

    ticket(&app, &id, "1").await;
    attempted(&app, &endpoint, 1).await;
    waits(&app).await;
    app.advance(DAY);
    attempted(&app, &endpoint, 2).await;
    waits(&app).await;
    assert_eq!(show(&app, &endpoint).await["status"], "failing");
    app.advance(DAY * 4 + HOUR);
    let shown = until("it is given up", async || show(&app, &endpoint).await, |shown| shown["enabled"] == false).await;
    waits(&app).await;

    assert_eq!((&shown["status"], &shown["failures"]), (&json!("given_up"), &json!(3)), "{shown}");
    app.advance(DAY);
    let dead = until("what waits is over", async || jobs(&app, "dead").await, |dead| !dead.is_empty()).await;
    assert_eq!(dead[0]["code"], "endpoint_disabled");
    assert_eq!(receiver.told().len(), 3);
}

async fn one_that_is_silent_holds_up_no_other(db: Arc<Database>) {
    let few = |config: &mut holdfast_app::Config| {
        config.jobs.deliver.at_once = Some(2);
        config.jobs.deliver.per_connector = Some(1);
    };
    let app = start_with(&db, few).await;
    let (silent, well) = (Receiver::start().await, Receiver::start().await);
    silent.keep_silent();
    let id = app.import("acme").await;
    make(&app, &silent, &[]).await;
    make(&app, &well, &[]).await;

    for number in 0..20 {
        ticket(&app, &id, &number.to_string()).await;
    }

    well.hears(20).await;
    assert_eq!(silent.told().len(), 1, "it still has the first one");
}

async fn a_redirect_is_not_followed(db: Arc<Database>) {
    let app = start(&db).await;
    let (receiver, elsewhere) = (Receiver::start().await, Receiver::start().await);
    let endpoint = make(&app, &receiver, &[]).await;
    receiver.answer_with(307, "location", &elsewhere.url);

    let _sent = app.post(&endpoint.path("/test"), json!({})).await.expect(202);

    let all = attempted(&app, &endpoint, 1).await;
    assert_eq!(all[0]["status"], 307);
    assert!(all[0]["detail"].as_str().unwrap().contains("redirects are not followed"), "{}", all[0]);
    assert!(elsewhere.told().is_empty());
}

async fn a_test_goes_to_one_endpoint_and_its_attempt_is_shown(db: Arc<Database>) {
    let app = start(&db).await;
    let (one, two) = (Receiver::start().await, Receiver::start().await);
    let endpoint = make(&app, &one, &["ticket.created"]).await;
    make(&app, &two, &[]).await;

    let path = format!("/api/v1{}", endpoint.path("/test"));
    let ask = async || app.raw(Method::POST, &path, Some(&app.key), &[("idempotency-key", "t-1")], Vec::new()).await;
    let (first, again) = (ask().await.expect(202), ask().await.expect(202));

    assert_eq!(first.text_of("event_id"), again.text_of("event_id"));
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), ("", "true"));
    let all = attempted(&app, &endpoint, 1).await;
    assert_eq!((&all[0]["type"], &all[0]["delivered"]), (&json!("endpoint.test"), &json!(true)), "{}", all[0]);
    assert!(all[0]["duration_ms"].is_u64() && all[0]["at"].is_string(), "{}", all[0]);
    let job = app.get(&format!("/jobs/{}", all[0]["job_id"].as_str().unwrap())).await.expect(200);
    assert_eq!(job.text_of("kind"), "deliver");
    assert_eq!((one.kinds(), two.told().len()), (vec!["endpoint.test".to_owned()], 0));
}

async fn what_was_missed_is_sent_again_with_the_ids_that_it_had(db: Arc<Database>) {
    let app = start(&db).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &["ticket.created"]).await;
    let id = app.import("acme").await;
    ticket(&app, &id, "0").await;
    let first = receiver.hears(1).await.remove(0).id();
    attempted(&app, &endpoint, 1).await;
    app.advance(MINUTE);
    let since = app.clock.now();
    let _off = patch(&app, &endpoint, json!({ "enabled": false })).await.expect(200);
    let mut missed = Vec::new();
    for key in ["1", "2", "3"] {
        app.advance(Duration::from_secs(1));
        let Published::Yes(event, 0) = ticket(&app, &id, key).await else { panic!("it is disabled") };
        missed.push(event.to_string());
    }
    let _on = patch(&app, &endpoint, json!({ "enabled": true })).await.expect(200);

    let path = format!("/api/v1{}", endpoint.path("/replay"));
    let replay = async |key: &str, body: Value| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        app.raw(Method::POST, &path, Some(&app.key), &headers, body.to_string().into_bytes()).await
    };
    for _ in 0..2 {
        let replayed = replay("r-1", json!({ "since": since })).await.expect(202);
        assert_eq!((&replayed.json["count"], &replayed.json["next_since"]), (&json!(3), &Value::Null));
    }
    receiver.hears(4).await;
    let one = replay("r-2", json!({ "event_id": first })).await.expect(202);
    assert_eq!(one.json["count"], 1);

    let told = receiver.hears(5).await;
    let mut again: Vec<String> = told[1..4].iter().map(Told::id).collect();
    again.sort();
    assert_eq!(again, missed, "each once, though it was asked for twice");
    assert_eq!((told.len(), told[4].id()), (5, first));
    for body in [json!({ "event_id": "evt_1", "since": since }), json!({}), json!({ "event_id": "evt_unknown" })] {
        let refused = replay("r-3", body).await.problem(422, "invalid");
        assert_eq!(refused.json["field"], "event_id", "{}", refused.text);
    }
}

async fn a_deleted_endpoint_hears_nothing_more(db: Arc<Database>) {
    let app = start(&db).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &["ticket.created"]).await;
    let id = app.import("acme").await;
    receiver.answer(500);
    ticket(&app, &id, "1").await;
    waits(&app).await;

    let gone = app.call(Method::DELETE, &endpoint.path(""), Some(&app.key), None).await;

    assert_eq!(gone.status, 204, "{}", gone.text);
    assert_eq!(jobs(&app, "dead").await[0]["code"], "endpoint_deleted");
    assert_eq!(ticket(&app, &id, "2").await, Published::ToNobody);
    app.advance(DAY);
    let _gone = app.get(&endpoint.path("")).await.problem(404, "not_found");
    assert_eq!(receiver.told().len(), 1);
}

async fn the_same_wish_makes_one_endpoint_and_one_secret(db: Arc<Database>) {
    let app = start(&db).await;
    let send = async |path: &str, key: &str, body: Value| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        app.raw(Method::POST, &format!("/api/v1{path}"), Some(&app.key), &headers, body.to_string().into_bytes()).await
    };
    let body = json!({ "url": "https://app.example.com/events", "description": "Our app" });

    let made = send(PATH, "k-1", body.clone()).await.expect(201);
    let again = send(PATH, "k-1", body.clone()).await.expect(201);
    let other = send(PATH, "k-2", body).await.expect(201);

    assert_eq!((made.text_of("id"), made.text_of("secret")), (again.text_of("id"), again.text_of("secret")));
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_ne!(other.text_of("id"), made.text_of("id"));
    let reused = send(PATH, "k-1", json!({ "url": "https://else.example.com/" })).await.problem(422, "invalid");
    assert_eq!(reused.json["field"], "idempotency_key");
    let rotate = format!("{PATH}/{}/rotate-secret", made.text_of("id"));
    let secret = send(&rotate, "s-1", json!({})).await.expect(200).text_of("secret");
    assert_eq!(send(&rotate, "s-1", json!({})).await.expect(200).text_of("secret"), secret);
    assert_ne!(send(&rotate, "s-2", json!({})).await.expect(200).text_of("secret"), secret);
    let listed = app.get(PATH).await.expect(200);
    assert_eq!(listed.json["data"].as_array().unwrap().len(), 2);
    assert!(!listed.text.contains("whsec_") && !listed.text.contains("\"secret\""), "{}", listed.text);
}

async fn another_orgs_endpoint_is_not_there_and_hears_nothing(db: Arc<Database>) {
    let app = start(&db).await;
    let receiver = Receiver::start().await;
    let endpoint = make(&app, &receiver, &[]).await;
    let stranger = key_of(&app, "Globex").await;

    for (method, end, body) in [
        (Method::GET, "", None),
        (Method::PATCH, "", Some(json!({ "enabled": false }))),
        (Method::DELETE, "", None),
        (Method::POST, "/test", None),
        (Method::POST, "/rotate-secret", Some(json!({}))),
        (Method::POST, "/replay", Some(json!({ "event_id": "evt_1" }))),
        (Method::GET, "/attempts", None),
    ] {
        let theirs = app.call(method.clone(), &endpoint.path(end), Some(&stranger), body.clone()).await;
        let unknown = app.call(method, &format!("{PATH}/eep_unknown{end}"), Some(&stranger), body).await;
        assert_eq!(theirs.problem(404, "not_found").text, unknown.problem(404, "not_found").text, "{end}");
    }
    let listed = app.call(Method::GET, PATH, Some(&stranger), None).await.expect(200);
    assert_eq!(listed.json["data"], json!([]));
    let body = app.import_body("acme");
    let _theirs = app.call(Method::POST, "/connectors", Some(&stranger), Some(body)).await.expect(201);
    let ours = app.import("acme").await;
    receiver.hears(1).await;
    assert_eq!(receiver.told()[0].json()["data"]["connector"]["id"], json!(ours));
    assert_eq!(show(&app, &endpoint).await["enabled"], true);
    let lacking = app.key_with(&["connectors:read", "connectors:write", "jobs", "agents"]).await;
    let _lacks = app.call(Method::GET, PATH, Some(&lacking), None).await.problem(403, "missing_scope");
}

async fn what_an_endpoint_cannot_be_is_told_by_field(db: Arc<Database>) {
    let app = start(&db).await;
    let good = "https://app.example.com/events";

    for (body, field, words) in [
        (json!({ "url": "app.example.com" }), "url", "https://app.example.com"),
        (json!({ "url": "ftp://app.example.com/" }), "url", "https://app.example.com"),
        (json!({ "url": "http://app.example.com/" }), "url", "begin with https://"),
        (json!({ "url": "https://ada:secret@app.example.com/" }), "url", "user, password"),
        (json!({ "url": format!("{good}#part") }), "url", "out of the address"),
        (json!({ "url": format!("{good}/{}", "x".repeat(2000)) }), "url", "at most 2000"),
        (json!({ "url": good, "types": ["connector.exploded"] }), "types", "connector.auth_failed"),
        (json!({ "url": good, "types": ["endpoint.test"] }), "types", "no such type"),
        (json!({ "url": good, "description": "two\nlines" }), "description", "one line"),
        (json!({ "url": good, "description": "x".repeat(201) }), "description", "200"),
        (json!({}), "url", ""),
    ] {
        let refused = app.post(PATH, body.clone()).await.problem(422, "invalid");
        assert_eq!(refused.json["field"], field, "{body}: {}", refused.text);
        assert!(refused.text_of("detail").contains(words), "{body}: {}", refused.text);
        assert!(!refused.text.contains("secret"), "{}", refused.text);
    }
    let made = app.post(PATH, json!({ "url": good })).await.expect(201);
    let endpoint = Endpoint { id: made.text_of("id"), secret: made.text_of("secret") };
    let refused = patch(&app, &endpoint, json!({ "url": "http://app.example.com/" })).await.problem(422, "invalid");
    assert_eq!(refused.json["field"], "url");
    let _bad = app.get(&endpoint.path("/attempts?cursor=x")).await.problem(422, "invalid");
}

/// A private address is refused unless the operator has allowed it, whatever a name leads to.
async fn a_private_address_is_refused_when_it_is_entered_and_when_it_is_called(db: Arc<Database>) {
    let app = start_with(&db, |config| config.events.allow_private_hosts.clear()).await;
    let receiver = Receiver::start().await;
    for url in [
        receiver.url.as_str(),
        "https://127.0.0.1/",
        "https://localhost/",
        "https://app.localhost/",
        "https://10.0.0.1/",
        "https://192.168.1.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://2130706433/",
    ] {
        let refused = app.post(PATH, json!({ "url": url })).await.problem(422, "invalid");
        assert_eq!(refused.json["field"], "url", "{url}: {}", refused.text);
    }
    // One that was entered before the rule, or whose name leads elsewhere now.
    let made = app.post(PATH, json!({ "url": "https://app.example.com/" })).await.expect(201);
    let endpoint = Endpoint { id: made.text_of("id"), secret: made.text_of("secret") };
    db.execute("UPDATE event_endpoints SET url = 'https://localhost:9/'").await;

    let _sent = app.post(&endpoint.path("/test"), json!({})).await.expect(202);

    let all = attempted(&app, &endpoint, 1).await;
    assert_eq!((&all[0]["delivered"], &all[0]["status"]), (&json!(false), &Value::Null), "{}", all[0]);
    assert_eq!(all[0]["detail"], "localhost does not lead to a public address.");
}
