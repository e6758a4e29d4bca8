//! Gorgias through the service: by OAuth in both readings of what a refresh does, and by a key.

use std::{collections::HashSet, sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_sandbox::{Canned, Gorgias, GorgiasRotation};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    people::Person,
    service::{Answer, TestApp, oauth_app},
    wait::until,
};
use reqwest::Method;
use serde_json::{Value, json};
use url::Url;

on_both! {
    an_account_is_connected_with_a_new_nonce_each_time_and_its_tickets_are_found,
    every_spelling_of_an_account_is_the_same_connector,
    tokens_are_renewed_for_days_whether_the_refresh_token_is_replaced_or_stays,
    many_callers_at_the_end_of_a_token_make_one_refresh_in_either_reading,
    a_lost_answer_costs_nothing_where_the_refresh_token_stays,
    a_consent_without_offline_or_tickets_connects_nothing_and_one_without_people_says_so,
    a_reconnect_to_another_account_is_refused,
    a_code_of_another_account_buys_nothing,
    a_grant_that_was_taken_back_is_told_and_reconnected_in_place,
    a_plan_that_is_used_up_fails_no_connector,
    a_pair_of_user_name_and_key_connects_and_is_replaced_in_place,
    a_refused_key_is_asked_for_again,
    a_key_and_oauth_take_each_others_place,
    an_imported_pair_works_and_half_a_pair_is_refused,
}

const FORM: &str = "/connectors/new/gorgias";
const DAY: Duration = Duration::from_hours(24);

async fn start(db: &Arc<Database>) -> (TestApp, Gorgias) {
    let app = TestApp::builder(db)
        .with(|config| drop(config.oauth_apps.insert("gorgias".to_owned(), oauth_app())))
        .start()
        .await;
    let acme = app.sandbox.gorgias("acme").unwrap();
    (app, acme)
}

async fn link(app: &TestApp, account: &str) -> (String, String) {
    let made = app.post("/connect-sessions", json!({"provider": "gorgias", "account": account})).await.expect(201);
    (made.text_of("url"), made.text_of("connector_id"))
}

async fn connect(app: &TestApp, account: &str) -> String {
    let (link, id) = link(app, account).await;
    let page = app.consent(&link).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    id
}

async fn tool(app: &TestApp, id: &str, name: &str, arguments: Value) -> Answer {
    app.post(&format!("/connectors/{id}/tools/{name}"), json!({ "arguments": arguments })).await
}

async fn token(app: &TestApp, id: &str) -> String {
    app.token(id).await.expect(200).text_of("access_token")
}

async fn an_account_is_connected_with_a_new_nonce_each_time_and_its_tickets_are_found(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    let mut nonces = HashSet::new();
    for _ in 0..2 {
        let (link, _) = link(&app, "acme").await;
        let authorize = Url::parse(&Browser::new().post(&link).await.location()).unwrap();
        let nonce = authorize.query_pairs().find(|(name, _)| name == "nonce").unwrap().1.into_owned();
        assert!(nonce.len() >= 43 && nonces.insert(nonce));
        assert!(authorize.query_pairs().all(|(name, _)| name != "code_challenge"));
    }

    let id = connect(&app, "acme").await;

    let shown = app.show(&id).await;
    assert_eq!((&shown["account"], &shown["name"]), (&json!("acme"), &json!("acme.gorgias.com")));
    assert_eq!(
        (&shown["health"], &shown["identity"]["email"]),
        (&json!("connected"), &json!("ada.admin@acme.example"))
    );
    let found = tool(&app, &id, "search_tickets", json!({"status": ["open"], "limit": 3})).await.expect(200);
    assert_eq!(found.json["result"]["tickets"].as_array().unwrap().len(), 3, "{}", found.text);
    let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200).json;
    assert_eq!((&tested["ok"], &tested["rate_limit"]["limit"]), (&json!(true), &json!(80)), "{tested}");
    let passed = app.proxy(Method::GET, &id, "api/tickets/5", "").await.expect(200);
    assert_eq!(passed.json["id"], 5);
    let closed = app.proxy(Method::POST, &id, "oauth/token", "").await;
    assert_eq!(closed.status, 403, "{}", closed.text);
    assert_eq!(app.token(&id).await.expect(200).json["base_url"], acme.url());
}

/// CO-09
async fn every_spelling_of_an_account_is_the_same_connector(db: Arc<Database>) {
    let (app, _) = start(&db).await;
    app.sandbox.create_gorgias("acme-store").unwrap();
    let id = connect(&app, "Acme-Store.Gorgias.com").await;
    assert_eq!(app.show(&id).await["account"], "acme-store");
    for typed in ["acme-store", "https://ACME-store.gorgias.com/app/ticket/1"] {
        assert_eq!(link(&app, typed).await.1, id, "{typed}");
    }
    // CO-10
    for typed in ["acme.gorgias.com.evil.example", "evil.com#.gorgias.com", "127.0.0.1", "\u{430}cme"] {
        let body = json!({"provider": "gorgias", "account": typed});
        let refused = app.post("/connect-sessions", body).await;
        assert!((400..=422).contains(&refused.status) && refused.text.contains("acme.gorgias.com"), "{}", refused.text);
    }
}

/// TE-03
async fn tokens_are_renewed_for_days_whether_the_refresh_token_is_replaced_or_stays(db: Arc<Database>) {
    for rotation in [GorgiasRotation::SingleUse, GorgiasRotation::Stays, GorgiasRotation::SameAgain] {
        let (app, _) = start(&db).await;
        let name = format!("shop{}", rotation as u8);
        let shop = app.sandbox.create_gorgias(&name).unwrap();
        shop.set_rules(|rules| rules.rotation = rotation);
        let id = connect(&app, &name).await;
        let mut seen = HashSet::from([token(&app, &id).await]);
        for _ in 0..3 {
            app.advance(DAY + Duration::from_mins(1));

            let next = token(&app, &id).await;

            assert!(shop.accepts(&next) && seen.insert(next), "{rotation:?}");
        }
        assert_eq!((shop.counters().rotations, shop.counters().reuses), (3, 0), "{rotation:?}");
        assert_eq!(app.show(&id).await["health"], "connected");
    }
}

async fn many_callers_at_the_end_of_a_token_make_one_refresh_in_either_reading(db: Arc<Database>) {
    for rotation in [GorgiasRotation::SingleUse, GorgiasRotation::Stays] {
        let (app, _) = start(&db).await;
        let name = format!("shop{}", rotation as u8);
        let shop = app.sandbox.create_gorgias(&name).unwrap();
        shop.set_rules(|rules| rules.rotation = rotation);
        let id = connect(&app, &name).await;
        app.advance(DAY + Duration::from_mins(1));

        let tokens: HashSet<String> =
            futures::future::join_all((0..20).map(|_| token(&app, &id))).await.into_iter().collect();

        assert_eq!((tokens.len(), shop.counters().exchanges, shop.counters().reuses), (1, 1, 0), "{rotation:?}");
    }
}

async fn a_lost_answer_costs_nothing_where_the_refresh_token_stays(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    acme.set_rules(|rules| rules.rotation = GorgiasRotation::Stays);
    let id = connect(&app, "acme").await;
    app.advance(DAY + Duration::from_mins(1));
    acme.trouble(|faults| faults.lose_next_answer = 1);
    let lost = app.token(&id).await;
    assert_ne!(lost.status, 200, "{}", lost.text);

    let look = async || {
        app.advance(Duration::from_secs(30));
        app.token(&id).await
    };
    let healed = until("the token is renewed", look, |answer| answer.status == 200).await;

    assert!(acme.accepts(&healed.text_of("access_token")));
    assert_eq!(app.show(&id).await["health"], "connected");
}

/// CO-08, CO-11
async fn a_consent_without_offline_or_tickets_connects_nothing_and_one_without_people_says_so(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    let (link, id) = link(&app, "acme").await;
    let answer = |refresh: &str, scope: &str| {
        let body = format!(
            r#"{{"access_token": "{{access_token}}", "expires_in": 86400, "token_type": "Bearer"{refresh}, "scope": "{scope}"}}"#
        );
        acme.trouble(|faults| faults.token_answer = Some(Canned::new(200, body).after_processing().times(1)));
    };
    let refresh = r#", "refresh_token": "{refresh_token}""#;

    answer("", "openid email profile offline account:read tickets:read");
    let page = app.consent(&link).await;
    assert_eq!((page.status, page.title()), (409, "Gorgias gave no lasting access"), "{}", page.text);
    answer(refresh, "openid email profile offline account:read users:read customers:read");
    let page = app.consent(&link).await;
    assert_eq!((page.status, page.title()), (409, "A permission is missing"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "pending");

    answer(refresh, "openid email profile offline account:read tickets:read users:read");
    let page = app.consent(&link).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    assert!(page.says("reply_to_ticket") && page.says("find_customer") && !page.says("get_ticket"), "{}", page.text);
}

/// RC-01
async fn a_reconnect_to_another_account_is_refused(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    let id = connect(&app, "acme").await;
    let before = app.show(&id).await;
    let again = app.reconnect_link(&id).await;
    let elsewhere = json!({"id": 7, "domain": "globex"}).to_string();
    acme.answer_at("account", Canned::new(200, elsewhere).times(1));

    let page = app.consent(&again).await;

    assert_eq!((page.status, page.title()), (409, "That was another account"), "{}", page.text);
    assert!(page.says("acme.gorgias.com") && page.says("globex.gorgias.com"), "{}", page.text);
    assert_eq!(app.show(&id).await, before);
    assert!(acme.accepts(&token(&app, &id).await));
}

/// The token endpoint is the account's own, so that a code of another one is worth nothing there.
async fn a_code_of_another_account_buys_nothing(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    let id = connect(&app, "acme").await;
    let browser = Browser::new();
    let authorize = browser.post(&app.reconnect_link(&id).await).await.location();
    let elsewhere = authorize.replace("/gorgias/acme/", "/gorgias/globex/");

    let page = browser.get(&app.sandbox.consent(&elsewhere, "ada").unwrap()).await;

    assert_ne!(page.title(), "Connected", "{}", page.text);
    assert_eq!(app.sandbox.gorgias("globex").unwrap().counters().code_exchanges, 0);
    assert_eq!(app.show(&id).await["credential"]["version"], 1);
    assert!(acme.accepts(&token(&app, &id).await));
}

async fn a_grant_that_was_taken_back_is_told_and_reconnected_in_place(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    let id = connect(&app, "acme").await;
    acme.revoke(None);
    app.advance(DAY + Duration::from_mins(1));
    let look = async || {
        app.advance(Duration::from_secs(10));
        app.token(&id).await
    };
    let _failed = until("the refusal is confirmed", look, |answer| answer.status == 409).await;
    assert_eq!(app.show(&id).await["health"], "auth_failed");

    let page = app.consent(&app.reconnect_link(&id).await).await;

    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "connected");
    assert!(acme.accepts(&token(&app, &id).await));
}

/// HL-02
async fn a_plan_that_is_used_up_fails_no_connector(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    let id = connect(&app, "acme").await;
    acme.set_rules(|rules| rules.quota_used_up = true);

    let refused = tool(&app, &id, "reply_to_ticket", json!({"ticket_id": "1", "body": "x", "public": true})).await;

    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(refused.text_of("detail").contains("Messaging quota exceeded"), "{}", refused.text);
    assert_eq!(app.show(&id).await["health"], "connected");
    assert_eq!(acme.counters().exchanges, 0, "a used-up plan is no reason to refresh");
}

/// Up to the page that asks for user name and key: its path.
async fn asked(person: &Person) -> String {
    let fields = [("account", "https://ACME.gorgias.com/app/views"), ("by", "key")];
    let page = person.submit(FORM, FORM, &fields).await.expect(303).location();
    assert!(page.starts_with("/connect/key/"), "{page}");
    page
}

/// The page once what is under way there has ended.
async fn given(person: &Person, page: &str, user: &str, key: &str) -> Page {
    let taken = person.submit(page, page, &[("user", user), ("key", key)]).await.expect(303);
    let shown = person.browser.go_on(taken).await;
    let look = async || person.browser.visit(&shown.url).await.expect(200);
    until("it has ended", look, |page| !page.text.contains("under way")).await
}

fn id_of(page: &Page) -> String {
    let url = Url::parse(&page.url).unwrap();
    url.path().strip_prefix("/connectors/").unwrap().to_owned()
}

async fn a_pair_of_user_name_and_key_connects_and_is_replaced_in_place(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let page = asked(&ada).await;
    let shown = ada.open(&page).await.expect(200);
    assert!(
        shown.says("acme.gorgias.com") && shown.says("Settings, REST API") && shown.says("User name"),
        "{}",
        shown.text
    );
    let (email, key) = acme.api_key("gus").unwrap();
    let half = ada.submit(&page, &page, &[("user", ""), ("key", &key)]).await;
    assert!(half.status == 422 && half.says("This belongs to the key"), "{}", half.text);

    let done = given(&ada, &page, &email, &key).await;

    assert!(done.says("acme.gorgias.com is connected") && !done.text.contains(&key), "{}", done.text);
    let id = id_of(&done);
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["credential"]["kind"]), (&json!("connected"), &json!("api_key")), "{shown}");
    assert_eq!(shown["identity"]["name"], "Gus Agent");
    let passed = app.proxy(Method::GET, &id, "api/users/0", "").await.expect(200);
    assert_eq!(passed.json["email"], email);
    let note = json!({"ticket_id": "5", "body": "Seen.", "public": false});
    let _sent = tool(&app, &id, "reply_to_ticket", note.clone()).await.expect(200);

    let next = acme.reset_key("gus").unwrap();
    let _refused = tool(&app, &id, "reply_to_ticket", note.clone()).await.problem(409, "connector_auth_failed");
    let again = ada.submit(&format!("/connectors/{id}"), &format!("/connectors/{id}/reconnect"), &[]).await.expect(303);
    let done = given(&ada, &again.location(), &email, &next).await;
    assert_eq!((id_of(&done), &app.show(&id).await["health"]), (id.clone(), &json!("connected")), "{}", done.text);
    let _sent = tool(&app, &id, "reply_to_ticket", note).await.expect(200);
    assert!(!String::from_utf8(app.seen()).unwrap().contains(&next), "it is shown to nobody");
}

async fn a_refused_key_is_asked_for_again(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let (email, key) = acme.api_key("gus").unwrap();

    let refused = given(&ada, &asked(&ada).await, &email, "a-key-of-nobody").await;

    let id = id_of(&refused);
    let reconnect = format!("/connectors/{id}/reconnect");
    assert!(refused.says("did not let us in") && refused.says("Sign in at Gorgias instead"), "{}", refused.text);
    let again = ada.submit(&format!("/connectors/{id}"), &reconnect, &[]).await.expect(303).location();
    assert!(again.starts_with("/connect/key/"), "{again}");
    let done = given(&ada, &again, &email, &key).await;
    assert!(done.says("acme.gorgias.com is connected"), "{}", done.text);
}

async fn a_key_and_oauth_take_each_others_place(db: Arc<Database>) {
    let (app, acme) = start(&db).await;
    let id = connect(&app, "acme").await;
    let ada = app.somebody(Role::Admin).await;
    let reconnect = format!("/connectors/{id}/reconnect");
    let (email, key) = acme.api_key("ada").unwrap();

    let to_key = ada.submit(&format!("/connectors/{id}"), &reconnect, &[("by", "key")]).await.expect(303);
    let done = given(&ada, &to_key.location(), &email, &key).await;
    assert_eq!(app.show(&id).await["credential"]["kind"], "api_key", "{}", done.text);
    let _found = tool(&app, &id, "get_ticket", json!({"ticket_id": "5"})).await.expect(200);

    let to_oauth = ada.submit(&format!("/connectors/{id}"), &reconnect, &[("by", "oauth")]).await.expect(303);
    let back = app.sandbox.consent(&to_oauth.location(), "ada").unwrap();
    let shown = ada.browser.visit(&back).await;
    let look = async || app.show(&id).await;
    let tokens = until("the tokens are stored", look, |shown| shown["credential"]["kind"] != "api_key").await;
    assert_eq!(tokens["health"], "connected", "{}", shown.text);
    assert!(acme.accepts(&token(&app, &id).await));
}

async fn an_imported_pair_works_and_half_a_pair_is_refused(db: Arc<Database>) {
    // Without an OAuth app: a key needs none.
    let app = TestApp::start(&db).await;
    let acme = app.sandbox.gorgias("acme").unwrap();
    let (email, key) = acme.api_key("gus").unwrap();
    let import = |key: &str| json!({"provider": "gorgias", "account": "acme", "credential": {"api_key": key}});
    for half in [key.as_str(), "gus@acme.example:", ":key"] {
        let refused = app.post("/connectors", import(half)).await;
        assert!(refused.status >= 400 && refused.text.contains("user:key"), "{}", refused.text);
    }

    let id = app.post("/connectors", import(&format!("{email}:{key}"))).await.expect(201).text_of("id");

    let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200).json;
    assert_eq!((&tested["ok"], &tested["identity"]["email"]), (&json!(true), &json!(email)), "{tested}");
    assert_eq!(tested["rate_limit"]["limit"], 40, "{tested}");
}
