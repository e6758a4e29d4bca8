//! Freshdesk through the whole service: a key that is imported, works, is reset, and is given anew.

use std::sync::Arc;

use holdfast_sandbox::Freshdesk;
use holdfast_tests::{database::Database, on_both, service::TestApp};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    a_key_works_everywhere_until_it_is_reset,
}

fn import(acme: &Freshdesk) -> Value {
    let key = acme.api_key("ada").unwrap();
    json!({ "provider": "freshdesk", "account": "https://ACME.freshdesk.com/a/tickets/1", "credential": { "api_key": key } })
}

async fn a_key_works_everywhere_until_it_is_reset(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.sandbox.freshdesk("acme").unwrap();

    let id = app.post("/connectors", import(&acme)).await.expect(201).text_of("id");

    let shown = app.show(&id).await;
    assert_eq!((&shown["account"], &shown["credential"]["kind"]), (&json!("acme"), &json!("api_key")));
    let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200).json;
    assert_eq!((&tested["ok"], &tested["identity"]["name"]), (&json!(true), &json!("Ada Admin")), "{tested}");
    assert_eq!(tested["rate_limit"]["limit"], 700, "{tested}");
    let tool = format!("/connectors/{id}/tools/reply_to_ticket");
    let note = json!({ "arguments": { "ticket_id": "5", "body": "Seen.", "public": false } });
    let _sent = app.post(&tool, note.clone()).await.expect(200);
    assert_eq!(acme.conversations(5).last().unwrap()["body_text"], "Seen.");
    let passed = app.proxy(Method::GET, &id, "api/v2/tickets/5", "").await.expect(200);
    assert_eq!(passed.json["id"], 5);
    assert_eq!(app.token(&id).await.expect(200).json["base_url"], acme.url());

    acme.reset_key("ada");
    let before = acme.counters().api_calls;
    let _refused = app.post(&tool, note.clone()).await.problem(409, "connector_auth_failed");
    assert_eq!(acme.counters().api_calls - before, 2, "the call, and the one that confirms");
    let _refused = app.post(&tool, note).await.problem(409, "connector_auth_failed");
    assert_eq!(acme.counters().api_calls - before, 2);
    let shown = app.show(&id).await;
    assert_eq!(
        (&shown["health"], &shown["health_reason"]),
        (&json!("auth_failed"), &json!("access_refused")),
        "{shown}"
    );
    let seen = String::from_utf8(app.seen()).unwrap();
    let key = import(&acme)["credential"]["api_key"].as_str().unwrap().to_owned();
    assert!(!seen.contains(&key), "the new key was never given, the old one never shown but where it was asked for");
}
