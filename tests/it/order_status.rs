//! A playbook across connectors: tickets of a helpdesk, orders of a shop.

use std::{sync::Arc, time::Duration};

use holdfast_tests::{
    database::Database,
    on_both,
    service::{TestApp, oauth_app},
};
use serde_json::{Value, json};

on_both! {
    who_asks_for_an_order_gets_a_note_with_its_status_once,
}

async fn shop(app: &TestApp) -> String {
    let link = app.post("/connect-sessions", json!({ "provider": "shopify", "account": "acme" })).await.expect(201);
    assert_eq!(app.consent(&link.text_of("url")).await.title(), "Connected");
    link.text_of("connector_id")
}

async fn freshdesk(app: &TestApp) -> String {
    let key = app.sandbox.freshdesk("acme").unwrap().api_key("ada").unwrap();
    let body = json!({ "provider": "freshdesk", "account": "acme", "credential": { "api_key": key } });
    app.post("/connectors", body).await.expect(201).text_of("id")
}

async fn call(app: &TestApp, id: &str, tool: &str, arguments: Value) -> Value {
    let path = format!("/connectors/{id}/tools/{tool}");
    app.post(&path, json!({ "arguments": arguments })).await.expect(200).json["result"].clone()
}

async fn notes(app: &TestApp, id: &str, ticket: &str) -> Vec<String> {
    let read = call(app, id, "get_ticket", json!({ "ticket_id": ticket })).await;
    let messages = read["messages"].as_array().unwrap().iter();
    let internal = messages.filter(|message| message["public"] == false);
    internal.map(|message| message["body"].as_str().unwrap().to_owned()).collect()
}

async fn who_asks_for_an_order_gets_a_note_with_its_status_once(db: Arc<Database>) {
    let builder = TestApp::builder(&db).with(|config| {
        config.oauth_apps.insert("shopify".to_owned(), oauth_app());
    });
    let app = builder.start().await;
    let shop = shop(&app).await;

    for helpdesk in [app.import("acme").await, freshdesk(&app).await] {
        let ticket = async |subject: &str, requester: &str| {
            let asked =
                json!({ "subject": subject, "body": "Please look.", "requester": requester, "requester_name": "Mira" });
            let made = call(&app, &helpdesk, "create_ticket", asked).await;
            made["ticket"]["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
        };
        let asks = ticket("Where is my order?", "mira.castellan@example.com").await;
        let stranger = ticket("Where is my parcel?", "nobody.known@example.com").await;
        let other = ticket("The lamp is too bright", "mira.castellan@example.com").await;
        // Until it can be searched for.
        app.advance(Duration::from_mins(10));
        let body = json!({
            "sample": "order_status", "trigger": { "kind": "manual" },
            "connectors": [{ "connector": helpdesk, "role": "helpdesk" }, { "connector": shop, "role": "shop" }],
        });
        let agent = app.post("/agents", body).await.expect(201).text_of("id");

        let run = app.post(&format!("/agents/{agent}/run"), json!({})).await.expect(202).text_of("id");
        assert_eq!(app.app.run_due_agents().await.unwrap(), 1);
        let first = app.get(&format!("/agents/{agent}/runs/{run}")).await.expect(200).json;
        assert_eq!(first["state"], "succeeded", "{first}");
        let _again = app.post(&format!("/agents/{agent}/run"), json!({})).await.expect(202);
        assert_eq!(app.app.run_due_agents().await.unwrap(), 1);

        let found = notes(&app, &helpdesk, &asks).await;
        assert_eq!(found.len(), 1, "{found:?} {first}");
        assert!(found[0].contains("Order #10") && found[0].contains("payment paid"), "{found:?}");
        assert!(found[0].contains("tracking") && found[0].contains("(holdfast_order_status)"), "{found:?}");
        for untouched in [stranger, other] {
            assert_eq!(notes(&app, &helpdesk, &untouched).await, [""; 0]);
        }
    }
}
