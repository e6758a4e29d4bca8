//! Tools for API keys: arguments, answers, refusals, and keys that have one effect.

use std::sync::Arc;

use holdfast_sandbox::Canned;
use holdfast_tests::{
    database::Database,
    on_both,
    service::{Answer, LIFE, TestApp},
};
use serde_json::{Value, json};

on_both! {
    a_tool_answers_as_its_schema_says,
    wrong_arguments_are_refused_before_anything_is_sent,
    a_stale_token_is_renewed_on_the_way,
    each_refusal_says_what_to_do,
    a_key_has_one_effect_however_often_it_is_used,
    an_effect_that_nobody_knows_of_is_not_repeated,
}

async fn call(app: &TestApp, connector: &str, tool: &str, body: Value) -> Answer {
    app.post(&format!("/connectors/{connector}/tools/{tool}"), body).await
}

fn reply(key: Option<&str>, body: &str) -> Value {
    json!({ "arguments": { "ticket_id": "1", "body": body, "public": false }, "idempotency_key": key })
}

async fn a_tool_answers_as_its_schema_says(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "alias": "old-7" })).await;
    let providers = app.get("/providers").await.expect(200).json;
    let zendesk = providers["data"].as_array().unwrap().iter().find(|provider| provider["id"] == "zendesk").unwrap();
    let schema = zendesk["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "search_tickets");

    let by_id = call(&app, &id, "search_tickets", json!({ "arguments": { "limit": 2 } })).await.expect(200);
    let by_alias = call(&app, "old-7", "search_tickets", json!({ "arguments": { "limit": 2 } })).await.expect(200);

    let result = &by_id.json["result"];
    assert_eq!(result["tickets"].as_array().unwrap().len(), 2);
    for required in schema.unwrap()["output_schema"]["required"].as_array().unwrap() {
        assert!(result.get(required.as_str().unwrap()).is_some(), "{required}");
    }
    assert_eq!(by_id.json, by_alias.json);
    let _nothing_asked = call(&app, &id, "search_tickets", json!({})).await.expect(200);
}

async fn wrong_arguments_are_refused_before_anything_is_sent(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let before = app.acme.counters();

    for (tool, body, field, words) in [
        ("get_ticket", json!({}), "arguments.ticket_id", "arguments.ticket_id of get_ticket: it is missing."),
        ("get_ticket", json!({ "arguments": [] }), "arguments", "expected an object, found a list"),
        (
            "get_ticket",
            json!({ "arguments": { "ticket_id": 5 } }),
            "arguments.ticket_id",
            "expected text, found a number",
        ),
        (
            "get_ticket",
            json!({ "arguments": { "ticket_id": "5", "x": 1 } }),
            "arguments.x",
            "there are cursor, ticket_id",
        ),
        (
            "search_tickets",
            json!({ "arguments": { "status": ["opened"] } }),
            "arguments.status[0]",
            "expected one of new, open",
        ),
        ("search_tickets", json!({ "arguments": { "limit": 1000 } }), "arguments.limit", "at most 100"),
        ("reply_to_ticket", reply(Some("two words"), "x"), "idempotency_key", "visible ASCII"),
        ("reply_to_ticket", reply(Some(""), "x"), "idempotency_key", "1 to 200"),
    ] {
        let told = call(&app, &id, tool, body.clone()).await.problem(422, "invalid");
        assert_eq!(told.json["field"], field, "{body}: {}", told.text);
        assert!(told.text_of("detail").contains(words), "{body}: {}", told.text);
    }
    for name in ["nothing", "search_ticket", "%20"] {
        let told = call(&app, &id, name, json!({})).await.problem(404, "unknown_tool");
        let list = "Zendesk has no such tool; it has search_tickets, get_ticket, reply_to_ticket, update_ticket, \
                    create_ticket, find_customer, search_articles.";
        assert_eq!(told.text_of("detail"), list);
    }
    let _unknown = call(&app, "con_x", "search_tickets", json!({})).await.problem(404, "not_found");
    assert_eq!(app.acme.counters(), before, "the provider was not asked");
}

async fn a_stale_token_is_renewed_on_the_way(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);

    let _answered = call(&app, &id, "search_tickets", json!({})).await.expect(200);

    assert_eq!(app.acme.counters().rotations, 1);
}

async fn each_refusal_says_what_to_do(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let (_, pending) = app.link("globex").await;
    let ticket = |id: &str| json!({ "arguments": { "ticket_id": id } });

    let _gone = call(&app, &id, "get_ticket", ticket("999999999")).await.problem(404, "provider_not_found");
    let told = call(&app, &pending, "get_ticket", ticket("1")).await.problem(409, "connector_pending");
    assert!(told.text_of("reconnect_url").contains("/connect/"), "{}", told.text);
    assert_eq!(told.json["connector_id"], json!(pending));
    app.acme.trouble(|faults| faults.api_answer = Some(Canned::new(503, "{}")));
    let told = call(&app, &id, "get_ticket", ticket("1")).await.problem(503, "provider_unavailable");
    assert!(told.json["retry_after"].is_u64(), "{}", told.text);
    app.acme.trouble(|faults| faults.api_answer = Some(Canned::new(429, "{}").header("Retry-After", "60")));
    let told = call(&app, &id, "get_ticket", ticket("1")).await.problem(503, "provider_busy");
    assert_eq!(told.header("retry-after"), "60");
    app.acme.calm();
    app.fail(&id).await;
    let told = call(&app, &id, "get_ticket", ticket("1")).await.problem(409, "connector_auth_failed");
    assert_eq!(told.json["reason"], "refresh_refused");
    assert!(told.text_of("detail").contains("Zendesk refused the refresh token"), "{}", told.text);
}

async fn a_key_has_one_effect_however_often_it_is_used(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let notes = || app.acme.comments(1).len();
    let before = notes();

    let (one, two, three) = tokio::join!(
        call(&app, &id, "reply_to_ticket", reply(Some("k-1"), "Once")),
        call(&app, &id, "reply_to_ticket", reply(Some("k-1"), "Once")),
        call(&app, &id, "reply_to_ticket", reply(Some("k-1"), "Once")),
    );
    let later = call(&app, &id, "reply_to_ticket", reply(Some("k-1"), "Once")).await.expect(200);

    assert_eq!(notes(), before + 1);
    for answer in [one, two, three] {
        match answer.status {
            200 => assert_eq!(answer.json, later.json),
            _ => drop(answer.problem(409, "call_under_way")),
        }
    }
    let told = call(&app, &id, "reply_to_ticket", reply(Some("k-1"), "Another")).await.problem(422, "invalid");
    assert_eq!(told.json["field"], "idempotency_key");
    let _other = call(&app, &id, "reply_to_ticket", reply(Some("k-2"), "Once")).await.expect(200);
    let _without = call(&app, &id, "reply_to_ticket", reply(None, "Once")).await.expect(200);
    assert_eq!(notes(), before + 3);
    // Another organisation's keys are its own.
    let stranger = app.key_of("Globex").await;
    let theirs = app.call(reqwest::Method::POST, "/connectors", Some(&stranger), Some(app.import_body("acme"))).await;
    let path = format!("/connectors/{}/tools/reply_to_ticket", theirs.expect(201).text_of("id"));
    let _theirs =
        app.call(reqwest::Method::POST, &path, Some(&stranger), Some(reply(Some("k-1"), "Theirs"))).await.expect(200);
    // A refusal spends no key: nothing was done.
    let missing =
        json!({ "arguments": { "ticket_id": "999999999", "body": "x", "public": false }, "idempotency_key": "k-3" });
    for _ in 0..2 {
        let _gone = call(&app, &id, "reply_to_ticket", missing.clone()).await.problem(404, "provider_not_found");
    }
}

async fn an_effect_that_nobody_knows_of_is_not_repeated(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_answer = Some(Canned::new(500, "{}")));
    let _broke =
        call(&app, &id, "reply_to_ticket", reply(Some("k-1"), "Perhaps")).await.problem(503, "provider_unavailable");
    app.acme.calm();
    let before = app.acme.comments(1).len();

    let told =
        call(&app, &id, "reply_to_ticket", reply(Some("k-1"), "Perhaps")).await.problem(409, "call_outcome_unknown");

    assert!(told.text_of("detail").contains("take a new key"), "{}", told.text);
    assert_eq!(app.acme.comments(1).len(), before);
    let _again = call(&app, &id, "reply_to_ticket", reply(Some("k-2"), "Perhaps")).await.expect(200);
    assert_eq!(app.acme.comments(1).len(), before + 1);
}
