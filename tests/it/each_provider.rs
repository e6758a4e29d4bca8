//! What has to hold at each provider, not at one: consents, switching off, shapes of answers, how a credential is sent.

use std::{sync::Arc, time::Duration};

use holdfast_sandbox::CLIENT_SECRET;
use holdfast_tests::{
    browser::Browser,
    database::Database,
    everywhere::{self, BY_CONSENT},
    on_both,
    service::{Answer, TestApp},
    wait::{until, uptime},
    wire::{Fault, Kind},
};
use reqwest::Method;
use serde_json::{Value, json};
use url::Url;

on_both! {
    a_callback_that_comes_twice_exchanges_once,
    an_error_of_the_provider_is_no_denial,
    another_browser_neither_connects_nor_burns_the_state,
    no_consent_is_a_success_before_it_is_one,
    a_client_secret_that_was_rotated_upstream_is_cured_without_a_consent,
    what_is_switched_off_during_a_refresh_stays_off,
    switching_off_works_whatever_the_provider_does,
    a_credential_goes_out_as_its_answer_says,
    odd_shapes_are_read_and_what_cannot_be_read_names_provider_and_field,
    an_answer_about_another_ticket_is_refused,
    files_of_a_message_are_told,
    a_bad_argument_is_named_by_every_adapter,
}

const HELPDESKS: [&str; 4] = ["zendesk", "freshdesk", "front", "gorgias"];

/// Longer than any access token lives.
const AGES: Duration = Duration::from_hours(25);

async fn name(app: &TestApp, provider: &str) -> String {
    app.provider(provider).await["name"].as_str().unwrap().to_owned()
}

/// Up to the way back from the provider: the browser, the callback, the connector.
async fn consented(app: &TestApp, provider: &str, account: &str, who: &str) -> (Browser, String, String) {
    let (link, id) = everywhere::link(app, provider, account).await;
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    (browser, app.sandbox.consent(&authorize, who).unwrap(), id)
}

/// CO-02
async fn a_callback_that_comes_twice_exchanges_once(db: Arc<Database>) {
    let (app, wire) = everywhere::start(&db).await;

    for (provider, account, who) in BY_CONSENT {
        let (browser, back, id) = consented(&app, provider, account, who).await;
        let before = wire.exchanges();
        wire.always(&[Kind::Exchange], Fault::Held);

        let (one, two, ()) = tokio::join!(browser.get(&back), browser.get(&back), async {
            until("the code is exchanged", async || wire.exchanges() - before, |count| *count == 1).await;
            wire.calm();
        });

        for page in [&one, &two, &browser.get(&back).await] {
            assert_eq!((page.status, page.title()), (200, "Connected"), "{provider}: {}", page.text);
        }
        assert_eq!(wire.exchanges() - before, 1, "{provider}");
        assert_eq!(app.show(&id).await["credential"]["version"], 1, "{provider}");
    }
}

/// CO-03, CO-04
async fn an_error_of_the_provider_is_no_denial(db: Arc<Database>) {
    let (app, wire) = everywhere::start(&db).await;

    for (provider, account, _) in BY_CONSENT {
        let (link, id) = everywhere::link(&app, provider, account).await;
        let (browser, name) = (Browser::new(), name(&app, provider).await);
        for (answer, title) in [
            ("error=server_error", format!("{name} has a problem")),
            ("error=temporarily_unavailable", format!("{name} has a problem")),
            ("error=invalid_scope", "The OAuth app is not set up right".to_owned()),
            ("error=unauthorized_client", "The OAuth app is not set up right".to_owned()),
            ("error=something_new", format!("{name} sent an error")),
            ("nothing=1", "Nothing was received".to_owned()),
            ("error=access_denied", "Access was not allowed".to_owned()),
        ] {
            let authorize = Url::parse(&browser.post(&link).await.location()).unwrap();
            let state = authorize.query_pairs().find(|(key, _)| key == "state").unwrap().1.into_owned();
            let callback = |answer: &str| format!("{}/oauth/callback?{answer}&state={state}", app.base);

            let page = browser.get(&callback(answer)).await;
            let late = browser.get(&callback("code=late")).await;

            assert_eq!(page.title(), title, "{provider} {answer}: {}", page.text);
            assert_eq!(page.says("declined"), answer == "error=access_denied", "{provider} {answer}: {}", page.text);
            assert!(page.status >= 400, "{provider} {answer}");
            assert_eq!(late.title(), title, "{provider}: a state works once: {}", late.text);
        }
        assert_eq!(app.show(&id).await["health"], "pending", "{provider}");
    }
    assert_eq!(wire.exchanges(), 0);
}

/// CO-06
async fn another_browser_neither_connects_nor_burns_the_state(db: Arc<Database>) {
    let (app, wire) = everywhere::start(&db).await;

    for (provider, account, who) in BY_CONSENT {
        let (browser, back, id) = consented(&app, provider, account, who).await;
        let before = wire.exchanges();

        let page = Browser::new().get(&back).await;

        assert_eq!((page.status, page.title()), (403, "This was started in another browser"), "{provider}");
        assert_eq!((wire.exchanges(), &app.show(&id).await["health"]), (before, &json!("pending")), "{provider}");
        let page = browser.get(&back).await;
        assert_eq!((page.status, page.title()), (200, "Connected"), "{provider}: {}", page.text);
    }
}

/// CO-07
async fn no_consent_is_a_success_before_it_is_one(db: Arc<Database>) {
    let (app, wire) = everywhere::start(&db).await;

    for (provider, account, who) in BY_CONSENT {
        for fault in [
            Fault::Status(401),
            Fault::Status(500),
            Fault::Says(r#"{"token_type":"bearer"}"#),
            Fault::Says(r#"{"access_token":""}"#),
            Fault::Says("<html>"),
        ] {
            let (browser, back, id) = consented(&app, provider, account, who).await;
            wire.always(&[Kind::Exchange], fault);

            let page = browser.get(&back).await;
            wire.calm();

            assert!(page.status >= 400 && page.title() != "Connected", "{provider} {fault:?}: {}", page.text);
            assert!(page.says("Nothing was changed") || page.says("nothing was changed"), "{provider}: {}", page.text);
            assert_eq!(app.show(&id).await["health"], "pending", "{provider} {fault:?}");
            let gone = app.call(Method::DELETE, &format!("/connectors/{id}"), Some(&app.key), None).await;
            assert_eq!(gone.status, 204, "{}", gone.text);
        }
        let _connected = everywhere::connect(&app, provider).await;
    }
}

/// RC-03
async fn a_client_secret_that_was_rotated_upstream_is_cured_without_a_consent(db: Arc<Database>) {
    let (app, _wire) = everywhere::start(&db).await;

    for (provider, ..) in BY_CONSENT {
        let id = everywhere::connect(&app, provider).await;
        app.sandbox.set_client_secret("rotated-upstream", None);
        app.advance(AGES);

        let told = app.token(&id).await.problem(502, "oauth_app_rejected");
        assert!(told.text_of("detail").contains("not the connector"), "{provider}: {}", told.text);
        let shown = app.show(&id).await;
        assert_eq!(
            (&shown["health"], &shown["degraded"]["class"]),
            (&json!("connected"), &json!("app_broken")),
            "{provider}: {shown}"
        );
        app.sandbox.set_client_secret(CLIENT_SECRET, None);
        app.advance(Duration::from_mins(10));

        let token = app.token(&id).await.expect(200);
        assert_eq!(token.json["version"], 2, "{provider}");
        assert_eq!(app.show(&id).await["degraded"], json!(null), "{provider}");
    }
}

/// RC-05. An organisation cannot be deleted.
async fn what_is_switched_off_during_a_refresh_stays_off(db: Arc<Database>) {
    let (app, wire) = everywhere::start(&db).await;

    for (provider, ..) in BY_CONSENT {
        for delete in [false, true] {
            let id = everywhere::connect(&app, provider).await;
            app.advance(AGES);
            let before = wire.exchanges();
            wire.always(&[Kind::Exchange], Fault::Held);
            let path = format!("/connectors/{id}");

            let (token, ()) = tokio::join!(app.token(&id), async {
                until("it is being exchanged", async || wire.exchanges() - before, |count| *count == 1).await;
                let off = if delete {
                    app.call(Method::DELETE, &path, Some(&app.key), None).await
                } else {
                    app.post(&format!("{path}/disconnect"), json!({})).await
                };
                assert!(off.status < 300, "{provider}: {}", off.text);
                wire.calm();
            });

            assert!([404, 409].contains(&token.status), "{provider}: {}", token.text);
            let sealed = "SELECT COUNT(*) FROM credentials WHERE sealed IS NOT NULL";
            until("nothing is kept", async || db.number(sealed).await, |count| *count == 0).await;
            if delete {
                let _gone = app.get(&path).await.problem(404, "not_found");
            } else {
                assert_eq!(app.show(&id).await["health"], "disconnected", "{provider}");
                let gone = app.call(Method::DELETE, &path, Some(&app.key), None).await;
                assert_eq!(gone.status, 204, "{provider}: {}", gone.text);
            }
        }
    }
}

/// RC-06, for the grant.
async fn switching_off_works_whatever_the_provider_does(db: Arc<Database>) {
    let (app, wire) = everywhere::start(&db).await;

    for (provider, ..) in BY_CONSENT {
        for (fault, failed) in [
            (Fault::Status(401), false),
            (Fault::Status(404), false),
            (Fault::Silence, false),
            (Fault::Status(401), true),
            (Fault::Silence, true),
        ] {
            let at = format!("{provider}, {fault:?}, failed before: {failed}");
            let id = everywhere::connect(&app, provider).await;
            if failed {
                // The provider takes neither the access nor what renews it.
                wire.always(&[Kind::Exchange, Kind::Read], Fault::Status(401));
                let token = app.token(&id).await.expect(200).text_of("access_token");
                let _refused =
                    app.post(&format!("/connectors/{id}/token/rejected"), json!({"access_token": token})).await;
            }
            wire.always(&[Kind::Exchange, Kind::Write, Kind::Read], fault);
            let started = uptime();

            let off = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);

            let took = uptime() - started;
            wire.calm();
            assert!(took < Duration::from_secs(2), "{at}: it took {took:?}");
            assert_eq!(off.json["health"], "disconnected", "{at}");
            let line = app.timeline(&id).await.into_iter().find(|line| line["kind"] == "disconnected").unwrap();
            let told = line["detail"].as_str().unwrap_or_default();
            assert!(line["outcome"] != "revoked" && told.contains("provider"), "{at}: {line}");
            assert_eq!(app.token(&id).await.code(), "connector_disconnected", "{at}");
            let gone = app.call(Method::DELETE, &format!("/connectors/{id}"), Some(&app.key), None).await;
            assert_eq!(gone.status, 204, "{at}: {}", gone.text);
        }
    }
}

async fn a_credential_goes_out_as_its_answer_says(db: Arc<Database>) {
    let (app, _wire) = everywhere::start(&db).await;
    let http = holdfast_tests::process::client();

    for (provider, method, path, header) in [
        ("zendesk", Method::GET, "api/v2/users/me.json", "Authorization"),
        ("freshdesk", Method::GET, "api/v2/agents/me", "Authorization"),
        ("front", Method::GET, "me", "Authorization"),
        ("google", Method::GET, "calendar/v3/calendars/primary/events", "Authorization"),
        ("gorgias", Method::GET, "api/account", "Authorization"),
        ("pipedrive", Method::GET, "v1/users/me", "Authorization"),
        ("shopify", Method::POST, "admin/api/2026-10/graphql.json", "X-Shopify-Access-Token"),
    ] {
        let id = everywhere::connect(&app, provider).await;
        let token = app.token(&id).await.expect(200);
        assert_eq!(token.text_of("header"), header, "{provider}");
        let base = token.text_of("base_url");
        let url = format!("{}/{path}", base.trim_end_matches('/'));
        let ask = http.request(method, &url).json(&json!({"query": "query Shop { shop { id } }"}));

        let answer = ask.header(token.text_of("header"), token.text_of("header_value")).send().await.unwrap();

        let status = answer.status().as_u16();
        assert_eq!(status, 200, "{provider}: {url}: {}", answer.text().await.unwrap());
    }
}

async fn call(app: &TestApp, id: &str, tool: &str, arguments: Value) -> Answer {
    app.post(&format!("/connectors/{id}/tools/{tool}"), json!({ "arguments": arguments })).await
}

/// A ticket of each helpdesk.
fn ticket_of(app: &TestApp, helpdesk: &str) -> String {
    match helpdesk {
        "front" => app.sandbox.front().conversation_id("acme", 4).unwrap(),
        "gorgias" | "freshdesk" => "5".to_owned(),
        _ => "1".to_owned(),
    }
}

/// Does this to each field of each object.
fn each_field(json: &mut Value, change: &dyn Fn(&str, &mut Value)) {
    match json {
        Value::Array(items) => items.iter_mut().for_each(|item| each_field(item, change)),
        Value::Object(fields) => {
            for (name, value) in fields {
                change(name, value);
                each_field(value, change);
            }
        }
        _ => {}
    }
}

fn is_id(name: &str) -> bool {
    name == "id" || name.ends_with("_id")
}

fn is_moment(name: &str) -> bool {
    name.ends_with("_at") || name.ends_with("_datetime")
}

async fn odd_shapes_are_read_and_what_cannot_be_read_names_provider_and_field(db: Arc<Database>) {
    fn ids_as_text(json: &mut Value) {
        each_field(json, &|name, value| {
            if is_id(name) && value.is_number() {
                *value = json!(value.to_string());
            }
        });
    }
    fn without_zone(json: &mut Value) {
        each_field(json, &|name, value| {
            if let (true, Some(text)) = (is_moment(name), value.as_str()) {
                *value = json!(text.trim_end_matches('Z').trim_end_matches("+00:00"));
            }
        });
    }
    fn nothing_known(json: &mut Value) {
        each_field(json, &|name, value| {
            if ["tags", "status", "priority", "channel", "via", "source", "subject", "attachments"].contains(&name) {
                *value = Value::Null;
            }
        });
    }
    fn no_moment(json: &mut Value) {
        each_field(json, &|name, value| {
            if name == "created_at" || name == "created_datetime" {
                *value = json!("the customer's secret words");
            }
        });
    }
    fn no_id(json: &mut Value) {
        each_field(json, &|name, value| {
            if name == "id" {
                *value = json!({"customer": "secret words"});
            }
        });
    }
    let (app, wire) = everywhere::start(&db).await;

    for helpdesk in HELPDESKS {
        let (id, ticket) = (everywhere::connect(&app, helpdesk).await, ticket_of(&app, helpdesk));
        let plain = call(&app, &id, "get_ticket", json!({ "ticket_id": ticket })).await.expect(200).json;
        let read = async |change: fn(&mut Value)| {
            wire.always(&[Kind::Read], Fault::Changed(change));
            let answer = call(&app, &id, "get_ticket", json!({ "ticket_id": ticket })).await;
            let found = call(&app, &id, "search_tickets", json!({ "limit": 2 })).await;
            wire.calm();
            (answer, found)
        };

        for change in [ids_as_text, without_zone] {
            let (answer, found) = read(change).await;
            assert_eq!(answer.expect(200).json, plain, "{helpdesk}: it is the same ticket");
            assert_eq!(found.status, 200, "{helpdesk}: {}", found.text);
        }
        let (answer, found) = read(nothing_known).await;
        let answer = answer.expect(200);
        let unknown = &answer.json["result"]["ticket"];
        assert_eq!(unknown["id"], plain["result"]["ticket"]["id"], "{helpdesk}");
        assert_eq!((&unknown["tags"], &unknown["status"]["value"]), (&json!([]), &json!("open")), "{helpdesk}");
        assert_eq!(found.status, 200, "{helpdesk}: {}", found.text);

        let name = name(&app, helpdesk).await;
        for (change, field) in [(no_moment as fn(&mut Value), "created_"), (no_id, "id")] {
            let (answer, _) = read(change).await;
            let told = answer.problem(502, "provider_unreadable");
            let words = told.text_of("detail");
            assert!(words.contains(&name) && words.contains(field), "{helpdesk}: {words}");
            assert!(!words.contains("secret"), "{helpdesk}: {words}");
        }
    }
}

async fn an_answer_about_another_ticket_is_refused(db: Arc<Database>) {
    fn another(json: &mut Value) {
        for part in ["ticket", ""] {
            let place = if part.is_empty() { &mut *json } else { &mut json[part] };
            if place["id"].is_number() {
                place["id"] = json!(8_888);
            }
        }
    }
    let (app, wire) = everywhere::start(&db).await;

    for helpdesk in ["zendesk", "freshdesk", "gorgias"] {
        let (id, ticket) = (everywhere::connect(&app, helpdesk).await, ticket_of(&app, helpdesk));
        wire.always(&[Kind::Read], Fault::Changed(another));

        let told =
            call(&app, &id, "get_ticket", json!({ "ticket_id": ticket })).await.problem(502, "provider_unreadable");

        wire.calm();
        assert!(told.text_of("detail").contains("another ticket than was asked for"), "{helpdesk}: {}", told.text);
    }
}

/// In the spelling of each provider's documentation.
async fn files_of_a_message_are_told(db: Arc<Database>) {
    fn with_files(json: &mut Value) {
        // All four spellings at once: each adapter reads its own.
        let file = json!({"id": 77, "file_name": "cup.jpg", "name": "cup.jpg", "filename": "cup.jpg", "size": 1200,
            "content_type": "image/jpeg", "content_url": "https://files.example.com/77",
            "attachment_url": "https://files.example.com/77", "url": "https://files.example.com/77"});
        each_field(json, &|name, value| {
            if name == "attachments" {
                *value = json!([file]);
            }
        });
    }
    let (app, wire) = everywhere::start(&db).await;

    for helpdesk in HELPDESKS {
        let (id, ticket) = (everywhere::connect(&app, helpdesk).await, ticket_of(&app, helpdesk));
        wire.always(&[Kind::Read], Fault::Changed(with_files));

        let read = call(&app, &id, "get_ticket", json!({ "ticket_id": ticket })).await.expect(200).json;

        wire.calm();
        let messages = read["result"]["messages"].as_array().unwrap();
        assert!(!messages.is_empty(), "{helpdesk}");
        let file = json!([{"name": "cup.jpg", "size_bytes": 1200, "content_type": "image/jpeg",
            "url": "https://files.example.com/77"}]);
        for message in messages {
            assert_eq!(message["attachments"], file, "{helpdesk}: {message}");
        }
    }
}

async fn a_bad_argument_is_named_by_every_adapter(db: Arc<Database>) {
    let (app, wire) = everywhere::start(&db).await;
    let blank = json!({ "ticket_id": "5", "body": " \n", "public": false });
    let new = |field: &str, value: Value| {
        let mut new = json!({ "subject": "s", "body": "b", "requester": "a@b.example" });
        new[field] = value;
        new
    };
    for helpdesk in HELPDESKS {
        let id = everywhere::connect(&app, helpdesk).await;
        for (tool, arguments, field) in [
            ("reply_to_ticket", blank.clone(), "body"),
            ("create_ticket", new("body", json!("\n")), "body"),
            ("create_ticket", new("subject", json!(" ")), "subject"),
            ("create_ticket", new("requester", json!("Mira C")), "requester"),
            ("update_ticket", json!({ "ticket_id": "5", "tags": ["a"], "add_tags": ["b"] }), "tags"),
            ("update_ticket", json!({ "ticket_id": "5", "status": "on_hold", "add_tags": [" "] }), ""),
            ("get_ticket", json!({ "ticket_id": "five/../6" }), "ticket_id"),
            ("search_tickets", json!({ "cursor": "of nobody's" }), "cursor"),
        ] {
            wire.always(&[Kind::Write], Fault::Status(500));
            let told = call(&app, &id, tool, arguments.clone()).await.problem(422, "invalid");
            let named = told.json["field"].as_str().unwrap_or_default();
            assert!(named.starts_with("arguments."), "{helpdesk} {tool} {arguments}: {}", told.text);
            assert!(named.contains(field), "{helpdesk} {tool} {arguments}: {}", told.text);
        }
    }
    wire.calm();
    let shop = everywhere::connect(&app, "shopify").await;
    let order = app.sandbox.shop("acme").unwrap().order("#1001").unwrap()["id"].clone();
    let refund = |more: Value| {
        let mut refund = json!({ "order_id": order, "amount": "1.00", "currency": "EUR" });
        refund.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refund
    };
    for (tool, arguments, field) in [
        ("refund_order", refund(json!({})), "arguments.line_items"),
        ("refund_order", refund(json!({ "line_items": [] })), "arguments.line_items"),
        ("refund_order", refund(json!({ "refund_shipping": false })), "arguments.line_items"),
        (
            "refund_order",
            refund(json!({ "line_items": [{ "line_item_id": "x", "quantity": 1 }] })),
            "arguments.line_items[0].line_item_id",
        ),
        ("refund_order", refund(json!({ "refund_shipping": true, "amount": "ten" })), "arguments.amount"),
        ("get_order", json!({ "order_id": "#5" }), "arguments.order_id"),
        ("find_order", json!({ "cursor": "of nobody's" }), "arguments.cursor"),
    ] {
        let told = call(&app, &shop, tool, arguments.clone()).await.problem(422, "invalid");
        assert_eq!(told.json["field"], field, "{tool} {arguments}: {}", told.text);
    }
}
