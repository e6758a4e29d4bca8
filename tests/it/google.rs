//! Google through the service: a consent that leaves something out, accounts that are people, grants that end together.

use std::{sync::Arc, time::Duration};

use holdfast_core::{Role, ports::Clock};
use holdfast_sandbox::{Canned, GoogleRig};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    service::{Answer, TestApp, oauth_app},
    wait::until,
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    a_person_may_leave_products_out_and_is_told_what_will_not_work,
    a_consent_without_any_product_or_without_a_refresh_token_connects_nothing,
    a_reconnect_as_another_person_is_refused_with_both_named,
    a_person_is_the_same_under_another_address,
    a_grant_is_not_given_back_while_another_connector_works_with_one_of_the_same_person,
    a_grant_is_not_given_back_while_another_consent_is_exchanged_and_not_stored,
    a_code_is_not_exchanged_while_a_grant_is_given_back,
    a_database_that_cannot_say_who_it_was_changes_nothing,
    a_grant_that_died_after_seven_days_is_told_as_an_app_in_testing,
    the_proxy_reaches_each_api_of_the_account_by_its_name,
}

const ADA: &str = "ada@example.com";
const WEEK: Duration = Duration::from_hours(7 * 24);

async fn start(db: &Arc<Database>) -> (TestApp, GoogleRig) {
    let app = TestApp::builder(db)
        .with(|config| drop(config.oauth_apps.insert("google".to_owned(), oauth_app())))
        .start()
        .await;
    let google = app.sandbox.google();
    (app, google)
}

async fn link(app: &TestApp, account: &str) -> (String, String) {
    let made = app.post("/connect-sessions", json!({"provider": "google", "account": account})).await.expect(201);
    (made.text_of("url"), made.text_of("connector_id"))
}

/// Through a consent in which these boxes are unticked.
async fn consent(google: &GoogleRig, link: &str, who: &str, unticked: &[&str]) -> Page {
    let browser = Browser::new();
    let authorize = browser.post(link).await.location();
    browser.get(&google.consent(&authorize, who, unticked).unwrap()).await
}

async fn connect(app: &TestApp, google: &GoogleRig, account: &str, who: &str) -> String {
    let (link, id) = link(app, account).await;
    let page = consent(google, &link, who, &[]).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    id
}

async fn tool(app: &TestApp, id: &str, name: &str, arguments: Value) -> Answer {
    app.post(&format!("/connectors/{id}/tools/{name}"), json!({ "arguments": arguments })).await
}

async fn disconnected(app: &TestApp, id: &str) -> Value {
    let _off = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
    app.timeline(id).await.into_iter().find(|line| line["kind"] == "disconnected").unwrap()
}

/// CO-08
async fn a_person_may_leave_products_out_and_is_told_what_will_not_work(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    let (link, id) = link(&app, "Ada@Example.com").await;

    let page = consent(&google, &link, "ada", &["gmail.send", "spreadsheets"]).await;

    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    assert!(page.says("send_mail, reply_mail") && page.says("read_sheet, append_sheet"), "{}", page.text);
    assert!(!page.says("list_events"), "{}", page.text);
    let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
    let missing = tested.json["missing_scopes"].as_array().unwrap();
    assert_eq!(missing.len(), 2, "{}", tested.text);

    let refused = tool(&app, &id, "send_mail", json!({"to": ["bob@example.com"], "subject": "x", "body": "x"})).await;
    let refused = refused.problem(403, "connector_missing_scope");
    assert!(refused.text_of("detail").contains("gmail.send") && refused.text_of("detail").contains("ticked"));
    assert_eq!(refused.json["connector_id"], json!(id));
    assert!(refused.text_of("reconnect_url").starts_with(&app.base), "{}", refused.text);
    let send = json!({"name": "https://www.googleapis.com/auth/gmail.send",
        "words": "Gmail: send mail in the person's name"});
    assert_eq!(refused.json["missing_scopes"], json!([send]), "what it lacks and not what it has: {}", refused.text);
    let mail = app.sandbox.google().mails("ada")[0]["id"].clone();
    let reply = tool(&app, &id, "reply_mail", json!({"message_id": mail, "body": "x", "to_all": false})).await;
    assert_eq!(reply.problem(403, "connector_missing_scope").json["missing_scopes"], json!([send]));
    let found = tool(&app, &id, "search_mail", json!({"from": "mira@customer.example"})).await.expect(200);
    assert!(found.text.contains("Where is my order 1042?"), "{}", found.text);
    let _events = tool(&app, &id, "list_events", json!({"time_min": "2020-01-01T00:00:00Z"})).await.expect(200);
    assert_eq!(app.show(&id).await["health"], "connected");
    assert_eq!(google.counters().exchanges, 0, "a missing scope is no reason to refresh");
}

/// CO-11
async fn a_consent_without_any_product_or_without_a_refresh_token_connects_nothing(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    let (link, id) = link(&app, ADA).await;

    let all = ["gmail.readonly", "gmail.send", "calendar.events", "spreadsheets"];
    let page = consent(&google, &link, "ada", &all).await;
    assert_eq!((page.status, page.title()), (409, "A permission is missing"), "{}", page.text);
    assert_eq!(google.living("ada"), 0, "what is of no use is given back");

    let answer = r#"{"access_token": "{access_token}", "expires_in": 3599, "token_type": "Bearer"}"#;
    google.trouble(|faults| faults.token_answer = Some(Canned::new(200, answer).after_processing().times(1)));
    let page = consent(&google, &link, "ada", &[]).await;
    assert_eq!((page.status, page.title()), (409, "Google gave no lasting access"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "pending");

    assert_eq!(consent(&google, &link, "ada", &[]).await.title(), "Connected");
}

/// RC-01
async fn a_reconnect_as_another_person_is_refused_with_both_named(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    let id = connect(&app, &google, ADA, "ada").await;
    let token = app.token(&id).await.expect(200).text_of("access_token");
    let again = app.reconnect_link(&id).await;

    let page = consent(&google, &again, "bob", &[]).await;

    assert_eq!((page.status, page.title()), (409, "That was another account"), "{}", page.text);
    assert!(page.says(ADA) && page.says("bob@example.com"), "{}", page.text);
    assert_eq!(google.living("bob"), 0, "the mistaken grant is given back");
    assert!(google.accepts(&token));
    assert_eq!(app.show(&id).await["credential"]["version"], 1);

    // Bob's own connector works with a grant that would end with the mistaken one.
    let bobs = connect(&app, &google, "bob@example.com", "bob").await;
    let page = consent(&google, &again, "bob", &[]).await;
    assert_eq!(page.title(), "That was another account", "{}", page.text);
    assert_eq!(google.living("bob"), 2, "nothing of Bob's is revoked");
    let token = app.token(&bobs).await.expect(200).text_of("access_token");
    assert!(google.accepts(&token));
}

/// RC-02
async fn a_person_is_the_same_under_another_address(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    let id = connect(&app, &google, ADA, "ada").await;
    assert!(google.rename("ada", "ada@married.example", "Ada King"));
    google.add_person("999", ADA, "Zoe New");

    let other = consent(&google, &app.reconnect_link(&id).await, "999", &[]).await;
    assert_eq!((other.status, other.title()), (409, "That was another account"), "{}", other.text);
    assert!(other.says("another one that is called ada@example.com"), "{}", other.text);

    let same = consent(&google, &app.reconnect_link(&id).await, "ada@married.example", &[]).await;
    assert_eq!((same.status, same.title()), (200, "Connected"), "{}", same.text);
    assert_eq!(app.show(&id).await["identity"]["email"], "ada@married.example");
}

async fn a_grant_is_not_given_back_while_another_connector_works_with_one_of_the_same_person(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    let first = connect(&app, &google, ADA, "ada").await;
    google.rename("ada", "ada@married.example", "Ada King");
    let second = connect(&app, &google, "ada@married.example", "ada@married.example").await;

    let line = disconnected(&app, &first).await;

    assert_eq!(line["outcome"], "not_revoked");
    assert!(line["detail"].as_str().unwrap().contains("would end both"), "{line}");
    assert_eq!(google.living("ada@married.example"), 2);
    let token = app.token(&second).await.expect(200).text_of("access_token");
    assert!(google.accepts(&token));

    // The last one takes all with it, also when its access token is over.
    app.advance(Duration::from_hours(2));
    let line = disconnected(&app, &second).await;
    assert_eq!(line["outcome"], "revoked", "{line}");
    assert_eq!(google.living("ada@married.example"), 0);
}

/// Bob connects his own account, and in another window mistakes himself for Ada: given back, the one ends both.
async fn a_grant_is_not_given_back_while_another_consent_is_exchanged_and_not_stored(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    let ada = connect(&app, &google, ADA, "ada").await;
    let again = app.reconnect_link(&ada).await;
    let (bobs_link, bobs) = link(&app, "bob@example.com").await;
    let browser = Browser::new();
    let authorize = browser.post(&bobs_link).await.location();
    let back = google.consent(&authorize, "bob", &[]).unwrap();
    let claimed = async || db.number("SELECT COUNT(*) FROM grant_claims").await;
    // Exchanged, and the database does not take it.
    db.refuse_writes(&["credentials"]).await;

    let ((), page) = tokio::join!(
        async {
            until("Bob's code is exchanged", async || google.living("bob"), |living| *living == 1).await;
            let mistaken = consent(&google, &again, "bob", &[]).await;
            assert_eq!(mistaken.title(), "That was another account", "{}", mistaken.text);
            assert_eq!(google.living("bob"), 2, "nothing of Bob's is revoked");
            db.allow_writes().await;
        },
        browser.get(&back),
    );

    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    let token = app.token(&bobs).await.expect(200).text_of("access_token");
    assert!(google.accepts(&token));
    assert_eq!(claimed().await, 0);
    // Alone, it is given back as ever.
    let _off = disconnected(&app, &bobs).await;
    assert_eq!(google.living("bob"), 0);
}

async fn a_code_is_not_exchanged_while_a_grant_is_given_back(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    let marker =
        app.app.store.begin_giving_back("google", None, Clock::now(app.clock.as_ref())).await.unwrap().unwrap();
    let (link, id) = link(&app, ADA).await;
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    let back = google.consent(&authorize, "ada", &[]).unwrap();
    let used = "SELECT COUNT(*) FROM connect_sessions WHERE state_used_at IS NOT NULL";

    let (page, ()) = tokio::join!(browser.get(&back), async {
        until("the browser is back", async || db.number(used).await, |count| *count == 1).await;
        assert_eq!(google.counters().code_exchanges, 0);
        app.app.store.end_giving_back(&marker).await.unwrap();
    });

    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "connected");
}

/// RC-02: who consented last is not known to be nobody.
async fn a_database_that_cannot_say_who_it_was_changes_nothing(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    let id = connect(&app, &google, ADA, "ada").await;
    let before = app.show(&id).await;
    assert!(google.rename("ada", "ada@married.example", "Ada King"));
    google.add_person("999", ADA, "Zoe New");
    let browser = Browser::new();
    let authorize = browser.post(&app.reconnect_link(&id).await).await.location();
    let back = google.consent(&authorize, "999", &[]).unwrap();
    let exchanges = google.counters().code_exchanges;
    google.trouble(|faults| faults.hold_answers = true);

    let (page, ()) = tokio::join!(browser.get(&back), async {
        until("it is exchanged", async || google.counters().code_exchanges, |count| *count > exchanges).await;
        db.execute("ALTER TABLE connectors RENAME COLUMN identity TO away").await;
        google.calm();
    });

    db.execute("ALTER TABLE connectors RENAME COLUMN away TO identity").await;
    assert_eq!((page.status, page.title()), (409, "Not at the moment"), "{}", page.text);
    assert_eq!(app.show(&id).await, before);
    let same = consent(&google, &app.reconnect_link(&id).await, "ada@married.example", &[]).await;
    assert_eq!(same.title(), "Connected", "{}", same.text);
}

/// RC-09
async fn a_grant_that_died_after_seven_days_is_told_as_an_app_in_testing(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    google.set(|options| {
        options.testing = true;
        options.tells_end = false;
    });
    let id = connect(&app, &google, ADA, "ada").await;
    app.advance(WEEK);

    let _failed = app.token(&id).await.problem(409, "connector_auth_failed");

    let ada = app.somebody(Role::Admin).await;
    let page = ada.open(&format!("/connectors/{id}")).await.expect(200);
    assert!(page.says("7 days") && page.says("Testing") && page.says("publish the app"), "{}", page.text);
    assert_eq!(consent(&google, &app.reconnect_link(&id).await, "ada", &[]).await.title(), "Connected");
    google.revoke("ada");
    app.advance(Duration::from_hours(2));
    let _failed = app.token(&id).await.problem(409, "connector_auth_failed");
    let page = ada.open(&format!("/connectors/{id}")).await.expect(200);
    assert!(!page.says("Testing"), "nobody guesses without a reason: {}", page.text);
}

async fn the_proxy_reaches_each_api_of_the_account_by_its_name(db: Arc<Database>) {
    let (app, google) = start(&db).await;
    let id = connect(&app, &google, ADA, "ada").await;
    let sheet = google.spreadsheet();
    for (path, said) in [
        ("gmail/v1/users/me/profile", "historyId"),
        ("calendar/v3/calendars/primary/events?maxResults=1", "Standup"),
        (&format!("sheets/v4/spreadsheets/{sheet}/values/Orders%21A1:C"), "Sum"),
        ("openid/v1/userinfo", "110248495921238986420"),
    ] {
        let answer = app.proxy(Method::GET, &id, path, "").await.expect(200);
        assert!(answer.text.contains(said), "{path}: {}", answer.text);
    }
    let calls = google.counters().api_calls;
    for (path, status, code) in
        [("oauth2/v4/token", 403, "path_closed"), ("%67mail/v1/users/me/profile", 422, "invalid")]
    {
        let _refused = app.proxy(Method::GET, &id, path, "").await.problem(status, code);
    }
    assert_eq!(google.counters().api_calls, calls, "nothing of these was sent");
}
