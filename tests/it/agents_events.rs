//! Agents that events set off: one run for each event and agent, whatever happens meanwhile.

use std::{sync::Arc, time::Duration};

use holdfast_sandbox::{Canned, EventOrder};
use holdfast_tests::{
    database::Database,
    hooks::Hook,
    on_both,
    service::{Answer, TestApp},
    wait::until,
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    an_event_gives_each_agent_that_waits_for_it_one_run_about_its_ticket,
    what_a_connector_does_itself_sets_nothing_off,
    events_of_a_failed_connector_are_worked_on_once_it_is_reconnected,
    a_run_waits_while_another_connector_of_its_agent_is_dead,
    a_paused_agent_lets_events_go_by,
    an_agent_that_sets_itself_off_is_stopped_at_that_ticket,
    a_run_that_is_begun_again_does_nothing_twice,
    a_run_that_fails_is_a_dead_job_until_somebody_tries_it_again,
    what_a_job_may_begin_anew_is_not_forgotten,
    a_person_asks_for_a_run_about_a_ticket,
    a_run_by_hand_knows_the_connector_of_its_ticket,
    a_bad_trigger_is_told_what_there_is,
}

const TICKET: i64 = 42;

/// What Zendesk says of a ticket.
pub(crate) fn said(hook: &Hook, id: &str, kind: &str, author: Option<&str>) -> EventOrder {
    let comment = author.map(|author| json!({ "id": "9", "author": { "id": author, "is_staff": false } }));
    let body = json!({
        "id": id, "type": format!("zen:event-type:ticket.{kind}"), "subject": format!("zen:ticket:{TICKET}"),
        "event": { "comment": comment }, "detail": { "id": TICKET.to_string() },
    });
    EventOrder { body: Some(body.to_string()), ..hook.event(id) }
}

async fn send(app: &TestApp, order: &EventOrder) {
    assert_eq!(app.sent(order).await, 200);
}

/// An agent that writes one note on the ticket of the event.
fn noting(connectors: &Value, events: &[&str]) -> Value {
    json!({
        "name": "Noting",
        "runner": { "kind": "playbook", "steps": [
            { "id": "read", "tool": "get_ticket", "on": "main", "with": { "ticket_id": "{{ event.ticket_id }}" } },
            { "id": "note", "tool": "reply_to_ticket", "on": "main", "with": {
                "ticket_id": "{{ event.ticket_id }}", "public": false,
                "body": "{{ agent.name }} saw {{ event.topic }} of {{ read.ticket.id }}"
            } },
        ] },
        "connectors": connectors,
        "trigger": { "kind": "events", "events": events },
    })
}

pub(crate) async fn make(app: &TestApp, connector: &str, events: &[&str]) -> String {
    let body = noting(&json!([{ "connector": connector }]), events);
    app.post("/agents", body).await.expect(201).text_of("id")
}

pub(crate) fn notes(app: &TestApp) -> usize {
    let all = app.acme.comments(TICKET);
    all.iter().filter(|comment| comment["body"].as_str().unwrap().contains("Noting saw ")).count()
}

pub(crate) async fn runs(app: &TestApp, agent: &str) -> Vec<Value> {
    app.get(&format!("/agents/{agent}/runs")).await.expect(200).json["data"].as_array().unwrap().clone()
}

/// The runs of an agent once there are so many, and all are over; newest first.
pub(crate) async fn ended(app: &TestApp, agent: &str, number: usize) -> Vec<Value> {
    let look = async || runs(app, agent).await;
    until("the runs are over", look, |runs| runs.len() >= number && runs.iter().all(|run| !run["ended_at"].is_null()))
        .await
}

pub(crate) async fn patch(app: &TestApp, agent: &str, body: Value) -> Answer {
    app.call(Method::PATCH, &format!("/agents/{agent}"), Some(&app.key), Some(body)).await
}

async fn jobs(app: &TestApp) -> Vec<Value> {
    app.get("/jobs?kind=agent_run").await.expect(200).json["data"].as_array().unwrap().clone()
}

/// The only run's job, once it is in this state.
async fn job_in(app: &TestApp, state: &str) -> Value {
    until("the job is there", async || jobs(app).await, |jobs| jobs.iter().any(|job| job["state"] == state))
        .await
        .remove(0)
}

async fn an_event_gives_each_agent_that_waits_for_it_one_run_about_its_ticket(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let first = make(&app, &hook.connector, &["ticket.created"]).await;
    let second = make(&app, &hook.connector, &["ticket.replied", "ticket.created"]).await;
    let third = make(&app, &hook.connector, &["ticket.changed"]).await;
    let manual = json!({ "sample": "annotate_urgent_tickets", "connectors": [{ "connector": hook.connector }],
        "trigger": { "kind": "manual" } });
    let by_hand = app.post("/agents", manual).await.expect(201).text_of("id");

    for _ in 0..2 {
        send(&app, &said(&hook, "evt-1", "created", None)).await;
    }
    send(&app, &said(&hook, "evt-2", "comment_added", Some("7"))).await;

    let of_first = ended(&app, &first, 1).await;
    let of_second = ended(&app, &second, 2).await;
    assert_eq!((of_first.len(), of_second.len()), (1, 2), "{of_second:?}");
    assert_eq!((runs(&app, &third).await.len(), runs(&app, &by_hand).await.len()), (0, 0));
    assert_eq!(notes(&app), 3);
    let run = &of_second[0];
    assert_eq!(
        (&run["state"], &run["trigger"], &run["event"]["topic"]),
        (&json!("succeeded"), &json!("event"), &json!("ticket.replied"))
    );
    assert_eq!((&run["event"]["ticket_id"], &run["event"]["by"]), (&json!("42"), &json!("customer")));
    let delivery = app.delivery(run["event"]["id"].as_str().unwrap()).await;
    assert_eq!(delivery["runs"], json!([run["id"]]), "a delivery's whole path");
    assert!(jobs(&app).await.iter().all(|job| job["state"] == "done"));
}

async fn what_a_connector_does_itself_sets_nothing_off(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let agent = make(&app, &hook.connector, &["ticket.replied"]).await;
    // Nobody has tested it: who it is at the provider is asked when it matters.
    let me = app.proxy(Method::GET, &hook.connector, "api/v2/users/me.json", "").await.expect(200);
    let own = me.json["user"]["id"].to_string();

    send(&app, &said(&hook, "evt-1", "comment_added", Some(&own))).await;
    send(&app, &said(&hook, "evt-2", "comment_added", Some("7"))).await;

    let runs = ended(&app, &agent, 1).await;
    let kept = app.deliveries(&hook.connector).await;
    assert!(kept.iter().all(|one| one["state"] == "processed"), "{kept:?}");
    assert_eq!((runs.len(), &runs[0]["event"]["id"]), (1, &kept[0]["id"]));
    let why = kept[1]["detail"].as_str().unwrap_or_default();
    assert!(why.contains("did it itself") && kept[0]["detail"].is_null(), "{kept:?}");
}

/// QJ-03
async fn events_of_a_failed_connector_are_worked_on_once_it_is_reconnected(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let agent = make(&app, &hook.connector, &["ticket.created"]).await;
    app.fail(&hook.connector).await;
    for number in 0..3 {
        send(&app, &said(&hook, &format!("evt-{number}"), "created", None)).await;
    }
    assert!(runs(&app, &agent).await.is_empty());

    let link = app.reconnect_link(&hook.connector).await;
    let _page = app.consent(&link).await;

    let runs = ended(&app, &agent, 3).await;
    assert!(runs.iter().all(|run| run["state"] == "succeeded"), "{runs:?}");
    assert_eq!((runs.len(), notes(&app)), (3, 3));
}

async fn a_run_waits_while_another_connector_of_its_agent_is_dead(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let other = app.import_of("gorgias", "acme").await;
    let both =
        json!([{ "connector": hook.connector, "role": "main" }, { "connector": other, "role": "shop", "tools": [] }]);
    let agent = app.post("/agents", noting(&both, &["ticket.created"])).await.expect(201).text_of("id");
    let _done = app.post(&format!("/connectors/{other}/disconnect"), json!({})).await.expect(200);

    send(&app, &said(&hook, "evt-1", "created", None)).await;

    let job = job_in(&app, "waiting").await;
    assert_eq!((&job["code"], &job["attempts"]), (&json!("agent_deactivated"), &json!(0)), "{job}");
    assert_eq!((runs(&app, &agent).await[0]["state"].clone(), notes(&app)), (json!("queued"), 0));

    let alone = json!({ "connectors": [{ "connector": hook.connector, "role": "main" }] });
    let _changed = patch(&app, &agent, alone).await.expect(200);
    app.advance(Duration::from_mins(2));

    let runs = ended(&app, &agent, 1).await;
    assert_eq!((&runs[0]["state"], notes(&app)), (&json!("succeeded"), 1), "{runs:?}");
}

async fn a_paused_agent_lets_events_go_by(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let agent = make(&app, &hook.connector, &["ticket.created"]).await;
    let _paused = app.post(&format!("/agents/{agent}/pause"), json!({})).await.expect(200);
    send(&app, &said(&hook, "evt-1", "created", None)).await;
    let kept = app.deliveries(&hook.connector).await;
    assert_eq!(
        (&kept[0]["state"], &kept[0]["detail"]),
        (&json!("processed"), &json!("It set no agent off: Noting was paused."))
    );
    let delivery = app.delivery(kept[0]["id"].as_str().unwrap()).await;
    assert_eq!(delivery["passed_over"], json!([{ "agent": agent, "name": "Noting", "why": "paused" }]));

    let _resumed = app.post(&format!("/agents/{agent}/resume"), json!({})).await.expect(200);
    send(&app, &said(&hook, "evt-2", "created", None)).await;

    assert_eq!((ended(&app, &agent, 1).await.len(), notes(&app)), (1, 1));
}

async fn an_agent_that_sets_itself_off_is_stopped_at_that_ticket(db: Arc<Database>) {
    let few = |config: &mut holdfast_app::Config| {
        config.agents.runs_per_ticket = 3;
        // What is counted is kept for as long as it counts.
        config.agents.keep_runs = 1;
    };
    let app = TestApp::builder(&db).with(few).start().await;
    let hook = app.zendesk_hook("acme").await;
    let agent = make(&app, &hook.connector, &["ticket.changed"]).await;

    for number in 0..5 {
        send(&app, &said(&hook, &format!("evt-{number}"), "tags_changed", None)).await;
    }

    let runs = ended(&app, &agent, 5).await;
    let codes: Vec<_> = runs.iter().map(|run| run["error"]["code"].as_str()).collect();
    assert_eq!(codes, [Some("too_often"), Some("too_often"), None, None, None], "{runs:?}");
    assert_eq!(notes(&app), 3);
    app.advance(Duration::from_mins(61));
    send(&app, &said(&hook, "evt-9", "tags_changed", None)).await;
    until("it runs again", async || notes(&app), |notes| *notes == 4).await;
}

async fn a_run_that_is_begun_again_does_nothing_twice(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let other = app.import("globex").await;
    let globex = app.sandbox.helpdesk("globex").unwrap();
    let mut body = noting(
        &json!([{ "connector": hook.connector, "role": "main" }, { "connector": other, "role": "other" }]),
        &["ticket.created"],
    );
    let read_there = json!({ "id": "there", "tool": "get_ticket", "on": "other", "with": { "ticket_id": "1" } });
    body["runner"]["steps"].as_array_mut().unwrap().push(read_there);
    let agent = app.post("/agents", body).await.expect(201).text_of("id");
    globex.trouble(|faults| faults.api_answer = Some(Canned::new(503, "{}")));

    send(&app, &said(&hook, "evt-1", "created", None)).await;
    let job = job_in(&app, "waiting").await;
    assert_eq!((&job["code"], notes(&app)), (&json!("provider_unavailable"), 1), "{job}");
    assert_eq!(runs(&app, &agent).await[0]["state"], "queued");
    globex.calm();
    app.advance(Duration::from_mins(10));

    let runs = ended(&app, &agent, 1).await;
    assert_eq!((&runs[0]["state"], notes(&app)), (&json!("succeeded"), 1), "{runs:?}");
}

async fn a_run_that_fails_is_a_dead_job_until_somebody_tries_it_again(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let mut body = noting(&json!([{ "connector": hook.connector }]), &["ticket.created"]);
    let good = body["runner"].clone();
    body["runner"]["steps"][0]["with"]["ticket_id"] = json!("999999999");
    let agent = app.post("/agents", body).await.expect(201).text_of("id");

    send(&app, &said(&hook, "evt-1", "created", None)).await;

    let job = job_in(&app, "dead").await;
    assert_eq!(job["code"], "provider_not_found", "{job}");
    assert_eq!(ended(&app, &agent, 1).await[0]["state"], "failed");
    let _changed = patch(&app, &agent, json!({ "runner": good })).await.expect(200);
    let _again = app.post(&format!("/jobs/{}/retry", job["id"].as_str().unwrap()), json!({})).await.expect(200);
    let look = async || runs(&app, &agent).await;
    let runs = until("it has succeeded", look, |runs| runs[0]["state"] == "succeeded").await;
    assert_eq!((runs.len(), notes(&app)), (1, 1), "the same run, begun anew");

    // Somebody thinks that another one is not worth it.
    let _broken = patch(
        &app,
        &agent,
        json!({ "runner": { "kind": "playbook", "steps": [
        { "id": "read", "tool": "get_ticket", "with": { "ticket_id": "999999999" } } ] } }),
    )
    .await
    .expect(200);
    send(&app, &said(&hook, "evt-2", "created", None)).await;
    let job = job_in(&app, "dead").await;
    let _discarded = app.post(&format!("/jobs/{}/discard", job["id"].as_str().unwrap()), json!({})).await.expect(200);
    assert_eq!(ended(&app, &agent, 2).await.len(), 2);
}

async fn what_a_job_may_begin_anew_is_not_forgotten(db: Arc<Database>) {
    let one = |config: &mut holdfast_app::Config| config.agents.keep_runs = 1;
    let app = TestApp::builder(&db).with(one).start().await;
    let hook = app.zendesk_hook("acme").await;
    let mut body = noting(&json!([{ "connector": hook.connector }]), &["ticket.created"]);
    let good = body["runner"].clone();
    body["runner"]["steps"][1]["with"]["ticket_id"] = json!("999999999");
    let agent = app.post("/agents", body).await.expect(201).text_of("id");
    send(&app, &said(&hook, "evt-1", "created", None)).await;
    let job = job_in(&app, "dead").await;

    let _changed = patch(&app, &agent, json!({ "runner": good })).await.expect(200);
    app.advance(Duration::from_hours(2));
    for number in 2..5 {
        send(&app, &said(&hook, &format!("evt-{number}"), "created", None)).await;
        ended(&app, &agent, 1).await;
    }
    let _again = app.post(&format!("/jobs/{}/retry", job["id"].as_str().unwrap()), json!({})).await.expect(200);

    until("all have their note", async || notes(&app), |notes| *notes == 4).await;
}

async fn a_person_asks_for_a_run_about_a_ticket(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let connector = app.import("acme").await;
    let agent = make(&app, &connector, &["ticket.created"]).await;
    let ask = async |body: Value| app.post(&format!("/agents/{agent}/run"), body).await;
    for body in [json!({}), json!({ "ticket_id": " " }), json!({ "ticket_id": "4".repeat(101) })] {
        assert_eq!(ask(body).await.problem(422, "invalid").json["field"], "ticket_id");
    }

    let _asked = ask(json!({ "ticket_id": "42" })).await.expect(202);
    app.app.run_due_agents().await.unwrap();

    let runs = ended(&app, &agent, 1).await;
    assert_eq!((&runs[0]["trigger"], &runs[0]["event"]["ticket_id"]), (&json!("manual"), &json!("42")));
    assert_eq!((&runs[0]["state"], notes(&app)), (&json!("succeeded"), 1));
}

async fn a_bad_trigger_is_told_what_there_is(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let connector = app.import("acme").await;
    for (trigger, field) in [
        (json!({ "kind": "events" }), "trigger.events"),
        (json!({ "kind": "events", "events": [] }), "trigger.events"),
        (json!({ "kind": "events", "events": ["ticket.exploded"] }), "trigger.events"),
        (json!({ "kind": "events", "events": ["ticket.created"], "every_secs": 60 }), "trigger.every_secs"),
        (json!({ "kind": "schedule", "every_secs": 60, "events": ["ticket.created"] }), "trigger.events"),
        (json!({ "kind": "monthly" }), "trigger.kind"),
    ] {
        let mut body = noting(&json!([{ "connector": connector }]), &[]);
        body["trigger"] = trigger.clone();
        let problem = app.post("/agents", body).await.problem(422, "invalid");
        assert_eq!(problem.json["field"], field, "{trigger}");
    }
    let agent = make(&app, &connector, &["ticket.created"]).await;
    // Its playbook is about a ticket, and a timetable has none.
    for trigger in [json!({ "kind": "schedule", "every_secs": 60 }), json!({ "kind": "cron", "cron": "0 9 * * *" })] {
        let problem = patch(&app, &agent, json!({ "trigger": trigger })).await.problem(422, "invalid");
        assert_eq!(problem.json["field"], "runner.steps[0].with");
        assert!(problem.text_of("detail").contains("choose events as the trigger"), "{}", problem.json);
    }
    let changed = patch(&app, &agent, json!({ "trigger": { "kind": "manual" } })).await.expect(200);
    assert_eq!(
        (&changed.json["trigger"]["kind"], &changed.json["trigger"]["events"]),
        (&json!("manual"), &Value::Null)
    );
    let without = app.post(&format!("/agents/{agent}/run"), json!({})).await.problem(422, "invalid");
    assert_eq!(without.json["field"], "ticket_id", "its runs are about a ticket still");
}

async fn a_run_by_hand_knows_the_connector_of_its_ticket(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (acme, globex) = (app.import("acme").await, app.import("globex").await);
    let shop = app.import_of("shopify", "acme").await;
    let mut body = noting(
        &json!([{ "connector": acme, "role": "main" }, { "connector": globex, "role": "second" },
            { "connector": shop, "role": "shop" }]),
        &["ticket.created"],
    );
    body["runner"]["steps"][1]["with"]["body"] = json!("Noting saw {{ event.connector.account }} as {{ event.role }}");
    let agent = app.post("/agents", body.clone()).await.expect(201).text_of("id");
    let ask = async |agent: &str, body: Value| app.post(&format!("/agents/{agent}/run"), body).await;
    for (body, field) in [
        (json!({ "ticket_id": "42" }), "role"),
        (json!({ "ticket_id": "42", "role": "shop" }), "role"),
        (json!({ "ticket_id": "42", "role": "nobody" }), "role"),
        (json!({ "role": "main" }), "role"),
    ] {
        assert_eq!(ask(&agent, body.clone()).await.problem(422, "invalid").json["field"], field, "{body}");
    }

    let _asked = ask(&agent, json!({ "ticket_id": "42", "role": "main" })).await.expect(202);
    app.app.run_due_agents().await.unwrap();

    let runs = ended(&app, &agent, 1).await;
    assert_eq!(runs[0]["state"], "succeeded", "{runs:?}");
    let comments = app.acme.comments(TICKET);
    assert!(comments.iter().any(|one| one["body"] == "Noting saw acme as main"), "{comments:?}");
    body["connectors"] = json!([{ "connector": shop, "role": "main" }]);
    body["runner"]["steps"] =
        json!([{ "id": "found", "tool": "find_order", "with": { "order_name": "{{ event.ticket_id }}" } }]);
    let of_shop = app.post("/agents", body).await.expect(201).text_of("id");
    assert_eq!(ask(&of_shop, json!({ "ticket_id": "42" })).await.problem(422, "invalid").json["field"], "ticket_id");
}
