//! Front through the service: companies that are known only once somebody consented, and refresh tokens that stay until
//! their last day.

use std::{sync::Arc, time::Duration};

use holdfast_sandbox::FrontRig;
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    service::{TestApp, oauth_app},
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    a_company_is_connected_by_its_name_and_worked_with,
    a_refresh_token_is_kept_until_its_last_day_and_the_new_one_is_stored_there,
    a_reconnect_by_another_company_is_refused_with_both_named,
    a_company_is_the_same_under_another_name,
    a_removed_app_asks_for_a_person_and_comes_back_in_place,
}

const DAY: Duration = Duration::from_hours(24);

async fn start(db: &Arc<Database>) -> (TestApp, FrontRig) {
    let app = TestApp::builder(db)
        .with(|config| drop(config.oauth_apps.insert("front".to_owned(), oauth_app())))
        .start()
        .await;
    let front = app.sandbox.front();
    (app, front)
}

async fn consent(app: &TestApp, link: &str, who: &str) -> Page {
    let browser = Browser::new();
    let authorize = browser.post(link).await.location();
    browser.get(&app.sandbox.consent(&authorize, who).unwrap()).await
}

async fn connect(app: &TestApp, company: &str, who: &str) -> String {
    let made = app.post("/connect-sessions", json!({"provider": "front", "account": company})).await.expect(201);
    let page = consent(app, &made.text_of("url"), who).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    made.text_of("connector_id")
}

async fn a_company_is_connected_by_its_name_and_worked_with(db: Arc<Database>) {
    let (app, front) = start(&db).await;

    let id = connect(&app, "ACME", "ada").await;

    let shown = app.show(&id).await;
    assert_eq!((&shown["account"], &shown["health"]), (&json!("acme"), &json!("connected")), "{shown}");
    assert_eq!(shown["identity"]["account"], "Acme", "{shown}");
    let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200).json;
    assert_eq!((&tested["ok"], &tested["rate_limit"]["limit"]), (&json!(true), &json!(200)), "{tested}");
    let ticket = front.conversation_id("acme", 4).unwrap();
    let note = json!({"arguments": {"ticket_id": ticket, "body": "Seen.", "public": false}});
    let _sent = app.post(&format!("/connectors/{id}/tools/reply_to_ticket"), note).await.expect(200);
    assert_eq!(front.comments("acme", &ticket)[0]["body"], "Seen.");
    let passed = app.proxy(Method::GET, &id, &format!("conversations/{ticket}"), "").await.expect(200);
    assert_eq!(passed.json["id"], ticket);
    let line = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
    assert_eq!(line.json["health"], "disconnected", "{}", line.text);
}

async fn a_refresh_token_is_kept_until_its_last_day_and_the_new_one_is_stored_there(db: Arc<Database>) {
    let (app, front) = start(&db).await;
    let id = connect(&app, "Acme", "ada").await;

    app.advance(DAY * 180);
    let token = app.token(&id).await.expect(200).text_of("access_token");
    assert!(front.accepts(&token));
    assert_eq!((front.counters().exchanges, front.counters().rotations), (1, 0), "the same one came back");

    app.advance(DAY + Duration::from_hours(3));
    let _token = app.token(&id).await.expect(200);
    assert_eq!(front.counters().rotations, 1);
    app.advance(DAY * 2);
    let token = app.token(&id).await.expect(200).text_of("access_token");
    assert!(front.accepts(&token), "the old one is dead, the new one was stored");
    assert_eq!((front.living("acme"), front.counters().exchanges), (1, 3));
    assert_eq!(app.show(&id).await["health"], "connected");
}

/// RC-01
async fn a_reconnect_by_another_company_is_refused_with_both_named(db: Arc<Database>) {
    let (app, front) = start(&db).await;
    let id = connect(&app, "Acme", "ada").await;
    let token = app.token(&id).await.expect(200).text_of("access_token");

    let page = consent(&app, &app.reconnect_link(&id).await, "gina").await;

    assert_eq!((page.status, page.title()), (409, "That was another account"), "{}", page.text);
    assert!(page.says("acme") && page.says("Globex"), "{}", page.text);
    assert!(front.accepts(&token));
    assert_eq!(app.show(&id).await["credential"]["version"], 1);
    // One who is no admin never comes back from Front.
    let authorize = Browser::new().post(&app.reconnect_link(&id).await).await.location();
    assert!(app.sandbox.consent(&authorize, "gus").is_err());
    assert_eq!(consent(&app, &app.reconnect_link(&id).await, "ada").await.title(), "Connected");
}

/// RC-02
async fn a_company_is_the_same_under_another_name(db: Arc<Database>) {
    let (app, front) = start(&db).await;
    let id = connect(&app, "Acme", "ada").await;
    front.rename("acme", "Zeta");
    front.add_company("acme-two", "Acme", "zoe");

    let other = consent(&app, &app.reconnect_link(&id).await, "zoe").await;
    assert_eq!((other.status, other.title()), (409, "That was another account"), "{}", other.text);
    assert!(other.says("another one that is called Acme"), "{}", other.text);

    let same = consent(&app, &app.reconnect_link(&id).await, "ada").await;
    assert_eq!((same.status, same.title()), (200, "Connected"), "{}", same.text);
    assert_eq!(app.show(&id).await["identity"]["account"], "Zeta");
}

async fn a_removed_app_asks_for_a_person_and_comes_back_in_place(db: Arc<Database>) {
    let (app, front) = start(&db).await;
    let id = connect(&app, "Acme", "ada").await;
    front.remove_app("acme");
    app.advance(Duration::from_hours(2));

    let _failed = app.token(&id).await.problem(409, "connector_auth_failed");

    let page = consent(&app, &app.reconnect_link(&id).await, "ada").await;
    assert_eq!(page.title(), "Connected", "{}", page.text);
    let healed: Value = app.show(&id).await;
    assert_eq!((&healed["id"], &healed["health"]), (&json!(id), &json!("connected")));
}
