//! Tools for API keys: arguments, answers, refusals, and keys that have one effect.

use std::{sync::Arc, time::Duration};

use holdfast_sandbox::Canned;
use holdfast_tests::{
    database::Database,
    everywhere, on_both,
    service::{Answer, LIFE, TestApp},
    wire::Fault,
};
use serde_json::{Value, json};

on_both! {
    a_tool_answers_as_its_schema_says,
    wrong_arguments_are_refused_before_anything_is_sent,
    a_stale_token_is_renewed_on_the_way,
    each_refusal_says_what_to_do,
    a_key_has_one_effect_however_often_it_is_used,
    an_effect_that_nobody_knows_of_is_not_repeated,
    a_key_may_come_in_the_header,
    what_the_provider_knows_again_by_its_key_is_repeated,
    a_call_is_maybe_done_from_its_first_writing_request_on_and_not_before,
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
    let provider = app.provider("zendesk").await;
    let schema = provider["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "search_tickets");

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
    let replayed = |answer: &Answer| answer.header("idempotent-replayed") == "true";
    assert!(replayed(&later), "{:?}", later.headers);
    let done = [&one, &two, &three].into_iter().filter(|answer| answer.status == 200 && !replayed(answer)).count();
    assert_eq!(done, 1, "one of them did it; whoever came later is told so");
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
    let broke =
        call(&app, &id, "reply_to_ticket", reply(Some("k-1"), "Perhaps")).await.problem(503, "provider_unavailable");
    assert_eq!(broke.json["maybe_done"], true, "{}", broke.text);
    let read = call(&app, &id, "get_ticket", json!({ "arguments": { "ticket_id": "1" } })).await;
    assert_eq!(read.json.get("maybe_done"), None, "reading does nothing: {}", read.text);
    app.acme.calm();
    let before = app.acme.comments(1).len();

    let told =
        call(&app, &id, "reply_to_ticket", reply(Some("k-1"), "Perhaps")).await.problem(409, "call_outcome_unknown");

    assert!(told.text_of("detail").contains("take a new key"), "{}", told.text);
    assert_eq!(told.json["maybe_done"], true, "{}", told.text);
    assert_eq!(app.acme.comments(1).len(), before);
    let _again = call(&app, &id, "reply_to_ticket", reply(Some("k-2"), "Perhaps")).await.expect(200);
    assert_eq!(app.acme.comments(1).len(), before + 1);
}

async fn a_key_may_come_in_the_header(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let before = app.acme.comments(1).len();
    let call = async |header: &str, body: Value| {
        let path = format!("/api/v1/connectors/{id}/tools/reply_to_ticket");
        let headers = [("idempotency-key", header), ("content-type", "application/json")];
        app.raw(reqwest::Method::POST, &path, Some(&app.key), &headers, body.to_string().into()).await
    };

    let once = call("h-1", reply(None, "Once")).await.expect(200);
    let again = call("h-1", reply(None, "Once")).await.expect(200);
    let both = call("h-1", reply(Some("h-1"), "Once")).await.expect(200);

    assert_eq!((&once.json, &once.json), (&again.json, &both.json));
    assert_eq!(app.acme.comments(1).len(), before + 1);
    for (header, body) in
        [("h-2", reply(Some("h-3"), "Twice")), ("", reply(None, "Twice")), ("two words", reply(None, "Twice"))]
    {
        let told = call(header, body).await.problem(422, "invalid");
        assert_eq!(told.json["field"], "idempotency_key", "{header:?}");
    }
    assert_eq!(app.acme.comments(1).len(), before + 1);
}

fn new_ticket(subject: &str, key: &str) -> Value {
    let arguments = json!({ "subject": subject, "body": "It leaks.", "requester": "mira@example.com" });
    json!({ "arguments": arguments, "idempotency_key": key })
}

/// Zendesk knows a key of a new ticket again for two hours; it is worth no second ticket, and no person's look.
async fn what_the_provider_knows_again_by_its_key_is_repeated(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let found = async || {
        let body = json!({ "arguments": { "query": "Kettle" } });
        call(&app, &id, "search_tickets", body).await.expect(200).json["result"]["total"].as_u64().unwrap()
    };
    let body = new_ticket("Kettle", "n-1");
    let create = async || call(&app, &id, "create_ticket", body.clone()).await;
    app.acme.trouble(|faults| faults.api_answer = Some(Canned::new(502, "<html>").times(1)));
    let broke = create().await.problem(503, "provider_unavailable");
    assert_eq!(broke.json["maybe_done"], true, "{}", broke.text);

    let (one, two) = tokio::join!(create(), create());
    let made = create().await.expect(200);

    for answer in [one, two] {
        match answer.status {
            200 => assert_eq!(answer.json, made.json),
            _ => drop(answer.problem(409, "call_under_way")),
        }
    }
    app.advance(Duration::from_mins(10));
    assert_eq!(found().await, 1);

    // Longer than the provider remembers, it is a person's matter.
    let late = new_ticket("Pot", "n-2");
    app.acme.trouble(|faults| faults.api_answer = Some(Canned::new(502, "<html>").times(1)));
    let _broke = call(&app, &id, "create_ticket", late.clone()).await.problem(503, "provider_unavailable");
    app.advance(Duration::from_hours(3));
    let _unknown = call(&app, &id, "create_ticket", late).await.problem(409, "call_outcome_unknown");
}

/// Every tool that writes, with arguments that make it read before where it can.
fn writes(app: &TestApp, round: usize) -> Vec<(&'static str, &'static str, Value)> {
    let tag = format!("round-{round}");
    let new = json!({"subject": tag, "body": "It leaks.", "requester": "mira@example.com"});
    let conversation = app.sandbox.front().conversation_id("acme", 4).unwrap();
    let (shop, google) = (app.sandbox.shop("acme").unwrap(), app.sandbox.google());
    let (cancelled, refunded) = (shop.order("#1007").unwrap(), shop.order("#1001").unwrap());
    let item = refunded["lineItems"][1].clone();
    vec![
        ("zendesk", "reply_to_ticket", json!({"ticket_id": "1", "body": tag, "public": false})),
        ("zendesk", "update_ticket", json!({"ticket_id": "1", "add_tags": [tag]})),
        ("zendesk", "create_ticket", new.clone()),
        ("freshdesk", "reply_to_ticket", json!({"ticket_id": "5", "body": tag, "public": false})),
        (
            "freshdesk",
            "update_ticket",
            json!({"ticket_id": "5", "add_tags": [tag], "assignee": "gus.agent@acme.example"}),
        ),
        ("freshdesk", "create_ticket", new.clone()),
        ("front", "reply_to_ticket", json!({"ticket_id": conversation, "body": tag, "public": true})),
        ("front", "update_ticket", json!({"ticket_id": conversation, "status": "open", "assignee": null})),
        ("front", "create_ticket", new.clone()),
        ("gorgias", "reply_to_ticket", json!({"ticket_id": "5", "body": tag, "public": true})),
        ("gorgias", "update_ticket", json!({"ticket_id": "5", "status": "open", "add_tags": [tag]})),
        ("gorgias", "create_ticket", new),
        ("google", "send_mail", json!({"to": ["bob@example.com"], "subject": tag, "body": "x"})),
        ("google", "reply_mail", json!({"message_id": google.mails("ada")[0]["id"], "body": tag, "to_all": false})),
        ("google", "append_sheet", json!({"spreadsheet_id": google.spreadsheet(), "range": "Orders", "rows": [[tag]]})),
        (
            "google",
            "create_event",
            json!({"summary": tag, "start": "2030-05-01T18:00:00Z", "end": "2030-05-01T19:00:00Z"}),
        ),
        (
            "shopify",
            "cancel_order",
            json!({"order_id": cancelled["id"], "currency": "EUR", "reason": "customer", "refund": true, "restock": true,
                "expected_total": cancelled["currentTotalPriceSet"]["shopMoney"]["amount"]}),
        ),
        (
            "shopify",
            "refund_order",
            json!({"order_id": refunded["id"], "currency": "EUR", "line_items": [{"line_item_id": item["id"], "quantity": 1}],
                "amount": item["originalUnitPriceSet"]["shopMoney"]["amount"]}),
        ),
    ]
}

async fn a_call_is_maybe_done_from_its_first_writing_request_on_and_not_before(db: Arc<Database>) {
    let (app, wire) = everywhere::start(&db).await;
    let mut connectors = std::collections::HashMap::new();
    for provider in ["zendesk", "freshdesk", "front", "gorgias", "google", "shopify"] {
        connectors.insert(provider, everywhere::connect(&app, provider).await);
    }
    let mut read_before = 0;

    for (round, fault) in [Fault::Status(503), Fault::Lost].into_iter().enumerate() {
        for (at, (provider, tool, arguments)) in writes(&app, round).into_iter().enumerate() {
            // One key all along: where nothing can have been done it is free again.
            let body = json!({ "arguments": arguments, "idempotency_key": format!("k-{round}-{at}") });
            for after in 0..20 {
                let at = format!("{provider} {tool}, {fault:?} after {after} requests");
                wire.arm(fault, after);
                let told = call(&app, &connectors[provider], tool, body.clone()).await;
                let seen = wire.seen();
                assert!(seen.struck, "{at}: {} {}", told.status, told.text);
                let told = told.problem(503, "provider_unavailable");
                assert_eq!(told.json["maybe_done"] == true, seen.wrote, "{at}: {}", told.text);
                if seen.wrote {
                    break;
                }
                read_before += 1;
                assert!(told.json["retry_after"].is_u64(), "{at}: it passes: {}", told.text);
            }
        }
    }

    assert!(read_before >= 16, "many of them read before they write: {read_before}");
}
