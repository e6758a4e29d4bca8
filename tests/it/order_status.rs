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
    runs_work_through_more_tickets_than_one_of_them_takes,
}

async fn shop(app: &TestApp) -> String {
    let link = app.post("/connect-sessions", json!({ "provider": "shopify", "account": "acme" })).await.expect(201);
    assert_eq!(app.consent(&link.text_of("url")).await.title(), "Connected");
    // Time stands still within a run, and with it what this rate limit gives back.
    app.sandbox.shop("acme").unwrap().set_rules(|rules| (rules.bucket, rules.restore_rate) = (1e9, 1e9));
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

        // There and back again: what was true once is news when it is true again.
        let order = found[0].split([' ', ':']).find(|word| word.starts_with('#')).unwrap();
        for (status, count) in [("PARTIALLY_REFUNDED", 2), ("PAID", 3)] {
            app.sandbox
                .shop("acme")
                .unwrap()
                .change_order(order, |order| order["displayFinancialStatus"] = json!(status));
            let mut found = Vec::new();
            for _ in 0..40 {
                let _run = run_of(&app, &agent).await;
                found = notes(&app, &helpdesk, &asks).await;
                if found.len() == count {
                    break;
                }
            }
            assert_eq!(found.len(), count, "{found:?}");
            let words = format!("payment {}", status.to_lowercase());
            assert!(found[count - 1].contains(&words), "{found:?}");
        }
    }
}

/// One run to its end, as the API shows it.
async fn run_of(app: &TestApp, agent: &str) -> Value {
    app.advance(Duration::from_mins(5));
    let run = app.post(&format!("/agents/{agent}/run"), json!({})).await.expect(202).text_of("id");
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1);
    let run = app.get(&format!("/agents/{agent}/runs/{run}")).await.expect(200).json;
    assert_eq!(run["state"], "succeeded", "{run}");
    run
}

async fn runs_work_through_more_tickets_than_one_of_them_takes(db: Arc<Database>) {
    let builder = TestApp::builder(&db).with(|config| {
        config.oauth_apps.insert("shopify".to_owned(), oauth_app());
    });
    let app = builder.start().await;
    let shop = shop(&app).await;

    for helpdesk in [app.import("acme").await, freshdesk(&app).await] {
        let mut tickets = Vec::new();
        for number in 0..60 {
            // On a desk whose lists hold no descriptions, the word is where lists do not show it.
            let (subject, body) = if number % 2 == 0 { ("Where is my order?", "Hm.") } else { ("Hello", "My parcel?") };
            let asked = json!({ "subject": subject, "body": body, "requester": "mira.castellan@example.com" });
            let made = call(&app, &helpdesk, "create_ticket", asked).await;
            tickets.push(made["ticket"]["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned());
            app.advance(Duration::from_secs(2));
        }
        app.advance(Duration::from_mins(10));
        let body = json!({
            "sample": "order_status", "trigger": { "kind": "manual" },
            "connectors": [{ "connector": helpdesk, "role": "helpdesk" }, { "connector": shop, "role": "shop" }],
        });
        let agent = app.post("/agents", body).await.expect(201).text_of("id");

        let first = run_of(&app, &agent).await;
        let said = first["steps"].as_array().unwrap().iter().filter_map(|step| step["detail"].as_str());
        let left = said.clone().find(|words| words.contains("left for the next ones"));
        assert!(left.is_some_and(|words| words.starts_with("25 of ")), "{left:?} {first}");
        let mut missing = tickets.clone();
        // On a desk whose lists hold no descriptions every open ticket is read.
        for _ in 0..40 {
            let mut still = Vec::new();
            for ticket in missing {
                if notes(&app, &helpdesk, &ticket).await.is_empty() {
                    still.push(ticket);
                }
            }
            missing = still;
            if missing.is_empty() {
                break;
            }
            let _next = run_of(&app, &agent).await;
        }

        assert_eq!(missing, [""; 0], "every ticket has its turn");
        // The next round begins with the first ones, and finds nothing new to say.
        let _round = run_of(&app, &agent).await;
        for ticket in &tickets {
            assert_eq!(notes(&app, &helpdesk, ticket).await.len(), 1, "{ticket}");
        }
    }
}
