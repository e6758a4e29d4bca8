//! Providers that give keys: a key is asked for on a page of ours, proven, stored, and replaced in place.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_sandbox::{Canned, Freshdesk};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    people::Person,
    service::TestApp,
    wait::until,
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    somebody_connects_with_a_key_and_sees_each_step,
    a_key_that_the_provider_refuses_is_not_stored,
    a_wrong_key_a_wrong_address_missing_rights_and_an_outage_are_told_apart,
    what_is_no_key_is_refused_on_its_page_and_shown_to_nobody,
    a_key_is_replaced_in_place,
    a_customer_gives_a_key_by_a_link,
    the_page_for_a_key_is_its_browsers_once_and_for_ten_minutes,
    a_key_that_was_reset_needs_a_person_and_trouble_needs_none,
}

const FORM: &str = "/connectors/new/freshdesk";

fn desk(app: &TestApp) -> Freshdesk {
    app.sandbox.freshdesk("acme").expect("it exists from the start")
}

/// Up to the page that asks for the key: its path.
async fn asked(person: &Person) -> String {
    let started = person.submit(FORM, FORM, &[("account", "https://ACME.freshdesk.com/a/tickets")]).await.expect(303);
    let page = started.location();
    assert!(page.starts_with("/connect/key/"), "{page}");
    page
}

/// The page once what is under way there has ended.
async fn given(person: &Person, page: &str, key: &str) -> Page {
    let taken = person.submit(page, page, &[("key", key)]).await.expect(303);
    let shown = person.browser.go_on(taken).await;
    assert!(shown.url.contains("?consent=sess_"), "{}: {}", shown.url, shown.text);
    let look = async || person.browser.visit(&shown.url).await.expect(200);
    until("it has ended", look, |page| !page.text.contains("under way")).await
}

fn id_of(page: &Page) -> String {
    let url = url::Url::parse(&page.url).unwrap();
    url.path().strip_prefix("/connectors/").unwrap().to_owned()
}

async fn search(app: &TestApp, id: &str) -> Value {
    let path = format!("/connectors/{id}/tools/search_tickets");
    app.post(&path, json!({ "arguments": { "limit": 2 } })).await.expect(200).json
}

/// CO-01, as far as a key goes.
async fn somebody_connects_with_a_key_and_sees_each_step(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let form = ada.open(FORM).await.expect(200);
    assert!(form.says("You need an API key") && form.says("Profile settings, View API key"), "{}", form.text);
    let page = asked(&ada).await;
    let shown = ada.open(&page).await.expect(200);
    assert!(shown.says("acme.freshdesk.com") && shown.says("Profile settings, View API key"), "{}", shown.text);
    let key = desk(&app).api_key("ada").unwrap();

    let done = given(&ada, &page, &format!("  {key}\n")).await;

    assert!(done.says("acme.freshdesk.com is connected") && done.says("It was given here"), "{}", done.text);
    assert!(!done.text.contains(&key), "it is shown to nobody");
    let id = id_of(&done);
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["credential"]["kind"]), (&json!("connected"), &json!("api_key")), "{shown}");
    let token = app.token(&id).await.expect(200);
    assert_eq!((token.text_of("access_token"), token.text_of("token_type")), (key, "ApiKey".to_owned()));
    assert_eq!(search(&app, &id).await["result"]["tickets"].as_array().unwrap().len(), 2);
}

async fn a_key_that_the_provider_refuses_is_not_stored(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let page = asked(&ada).await;

    let refused = given(&ada, &page, "thisIsNoKeyOfAnybody").await;

    assert!(refused.says("Freshdesk did not let us in") && refused.says("Try again"), "{}", refused.text);
    assert!(!refused.text.contains("thisIsNoKeyOfAnybody"));
    let id = id_of(&refused);
    assert_eq!(app.show(&id).await["health"], "pending");
    // Another try, from there.
    let again = ada.submit(&format!("/connectors/{id}"), &format!("/connectors/{id}/reconnect"), &[]).await.expect(303);
    let done = given(&ada, &again.location(), &desk(&app).api_key("ada").unwrap()).await;
    assert_eq!((id_of(&done), &app.show(&id).await["health"]), (id.clone(), &json!("connected")));
}

/// HL-08, while somebody connects: at each provider that takes keys.
async fn a_wrong_key_a_wrong_address_missing_rights_and_an_outage_are_told_apart(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (fresh, gorgias) = (desk(&app), app.sandbox.gorgias("acme").unwrap());
    let ada = app.somebody(Role::Admin).await;
    let ends = async |provider: &str, account: &str, user: Option<&str>, key: &str| {
        let form = format!("/connectors/new/{provider}");
        let by = if user.is_some() { "key" } else { "" };
        let page = ada.submit(&form, &form, &[("account", account), ("by", by)]).await.expect(303).location();
        let mut fields = vec![("key", key)];
        fields.extend(user.map(|user| ("user", user)));
        let taken = ada.submit(&page, &page, &fields).await.expect(303);
        let shown = ada.browser.go_on(taken).await;
        let look = async || ada.browser.visit(&shown.url).await.expect(200);
        until("it has ended", look, |page| !page.text.contains("under way")).await
    };
    let refusal = |status| Canned::new(status, r#"{"code":"access_denied","message":"No."}"#);
    let (key, (user, pair)) = (fresh.api_key("ada").unwrap(), gorgias.api_key("ada").unwrap());
    for (provider, name, user, key, wrong_key, no_right) in [
        ("freshdesk", "Freshdesk", None, key.as_str(), "refuses the API key", "its agent may not use the API"),
        (
            "gorgias",
            "Gorgias",
            Some(user.as_str()),
            pair.as_str(),
            "does not accept the credential",
            "lacks a scope, the user who connected it has another role",
        ),
    ] {
        let not_in = format!("{name} did not let us in");
        let not_said = format!("{name} did not say whose account this is");
        let answer = |canned: Option<Canned>| {
            fresh.trouble(|trouble| trouble.answer.clone_from(&canned));
            gorgias.trouble(|faults| faults.api_answer = canned);
        };
        for (account, key, canned, title, words) in [
            ("acme", "noKeyOfAnybody0000", None, &not_in, wrong_key),
            ("nobody-at-all", key, None, &not_said, "at this address; was it renamed or closed"),
            ("acme", key, Some(refusal(403)), &not_in, no_right),
            ("acme", key, Some(refusal(500)), &not_said, "is in trouble (HTTP 500)"),
        ] {
            answer(canned);
            let page = ends(provider, account, user, key).await;
            answer(None);
            assert!(page.says(title) && page.says(words), "{provider} {account}: {}", page.text);
            assert!(!page.says("..") && page.says("othing was changed"), "{}", page.text);
        }
    }
}

async fn what_is_no_key_is_refused_on_its_page_and_shown_to_nobody(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let page = asked(&ada).await;

    for (typed, words) in [
        ("", "Paste the key here."),
        ("   ", "Paste the key here."),
        ("my secret key", "This is no key"),
        ("schlüssel", "This is no key"),
        (&"k".repeat(5000), "This is no key"),
    ] {
        let refused = ada.submit(&page, &page, &[("key", typed)]).await.expect(422);
        assert!(refused.says(words), "{typed:?}: {}", refused.text);
        assert!(typed.trim().is_empty() || !refused.text.contains(typed), "{typed}");
    }
    assert_eq!(desk(&app).counters().api_calls, 0, "nobody was asked");
    let done = given(&ada, &page, &desk(&app).api_key("ada").unwrap()).await;
    assert!(done.says("is connected"), "the page is still good: {}", done.text);
}

/// RC-01, RC-04: same id, agents and extras; only the key is another one.
async fn a_key_is_replaced_in_place(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let page = asked(&ada).await;
    let id = id_of(&given(&ada, &page, &desk(&app).api_key("ada").unwrap()).await);
    let extras = json!({ "extras": { "webhook_id": "wh_1", "webhook_secret": "hush" } });
    let _kept = app.call(Method::PATCH, &format!("/connectors/{id}"), Some(&app.key), Some(extras)).await.expect(200);
    let before = app.show(&id).await;
    let new = desk(&app).reset_key("ada").unwrap();
    let told = app.post(&format!("/connectors/{id}/tools/search_tickets"), json!({})).await;
    let _told = told.problem(409, "connector_auth_failed");
    assert_eq!(app.show(&id).await["health"], "auth_failed");

    let here = format!("/connectors/{id}");
    let started = ada.submit(&here, &format!("{here}/reconnect"), &[]).await.expect(303);
    let asks = ada.open(&started.location()).await.expect(200);
    assert!(asks.says("Replace the key"), "{}", asks.text);
    let done = given(&ada, &started.location(), &new).await;

    assert!(done.says("Everything that uses it goes on by itself"), "{}", done.text);
    let after = app.show(&id).await;
    assert_eq!((&after["health"], &after["id"], &after["name"]), (&json!("connected"), &before["id"], &before["name"]));
    assert_eq!(app.token(&id).await.expect(200).text_of("access_token"), new);
    let extras = app.app.store.extras(&id.as_str().into()).await.unwrap();
    let mut extras: Vec<_> =
        extras.iter().map(|(name, value)| (name.as_str(), secrecy::ExposeSecret::expose_secret(value))).collect();
    extras.sort_unstable();
    assert_eq!(extras, [("webhook_id", "wh_1"), ("webhook_secret", "hush")]);
}

async fn a_customer_gives_a_key_by_a_link(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let body = json!({ "provider": "freshdesk", "account": "acme" });
    let link = app.post("/connect-sessions", body).await.expect(201);
    let (url, id) = (link.text_of("url"), link.text_of("connector_id"));
    let browser = Browser::new();
    let page = browser.get(&url).await.expect(200);
    assert!(page.says("lets programs in with an API key"), "{}", page.text);

    let asks = browser.post(&url).await.expect(303);
    let asks = format!("{}{}", app.base, asks.location());
    let taken = browser.fill(&asks, "key", &desk(&app).api_key("gus").unwrap()).await.expect(303);
    let ended = browser.go_on(taken).await;

    assert_eq!(ended.title(), "Connected");
    assert_eq!(app.show(&id).await["health"], "connected");
}

/// CO-03 and its kin: bound to the browser, spent once, over after ten minutes.
async fn the_page_for_a_key_is_its_browsers_once_and_for_ten_minutes(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let key = desk(&app).api_key("ada").unwrap();
    let page = asked(&ada).await;
    let here = format!("{}{page}", app.base);

    let other = Browser::new().get(&here).await;
    assert_eq!((other.status, other.title()), (403, "This was started in another browser"));
    assert_eq!(Browser::new().get(&format!("{here}x")).await.status, 400);
    let form = ada.open(&page).await.expect(200).form(&page).unwrap();
    let given = |(name, value): (String, String)| if name == "key" { (name, key.clone()) } else { (name, value) };
    let filled: Vec<_> = form.fields.into_iter().map(given).collect();
    let twice = tokio::join!(
        ada.browser.send_fields(&here, &filled, &[], &[]),
        ada.browser.send_fields(&here, &filled, &[], &[])
    );
    assert_eq!((twice.0.status, twice.0.location()), (303, twice.1.location()));
    let done = ada.browser.go_on(twice.0).await;
    let id = id_of(&done);
    until("it is connected", async || app.show(&id).await["health"].clone(), |health| health == "connected").await;
    let lines = app.timeline(&id).await;
    assert_eq!(lines.iter().filter(|line| line["kind"] == "connected").count(), 1, "{lines:?}");
    assert!(ada.open(&page).await.url.contains("?consent=sess_"), "it is spent, and shows its end");

    let started = ada.submit(&format!("/connectors/{id}"), &format!("/connectors/{id}/reconnect"), &[]).await;
    app.advance(Duration::from_mins(11));
    let late = ada.open(&started.location()).await;
    assert_eq!((late.status, late.title()), (410, "That took too long"));
}

/// HL-02, HL-03: only a refusal that the test call confirms is one.
async fn a_key_that_was_reset_needs_a_person_and_trouble_needs_none(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let page = asked(&ada).await;
    let id = id_of(&given(&ada, &page, &desk(&app).api_key("ada").unwrap()).await);
    let rejected = format!("/connectors/{id}/token/rejected");
    let key = desk(&app).api_key("ada").unwrap();

    for answer in [Canned::new(503, "<html>"), Canned::new(429, "{}"), Canned::new(500, "")] {
        desk(&app).trouble(|trouble| trouble.answer = Some(answer.clone()));
        let told = app.post(&rejected, json!({ "access_token": key })).await;
        let _later = told.problem(503, "refresh_unavailable");
        assert_eq!(app.show(&id).await["health"], "connected");
    }
    desk(&app).calm();
    let still = app.post(&rejected, json!({ "access_token": key })).await;
    assert_eq!(app.show(&id).await["health"], "connected", "{}", still.text);
    desk(&app).reset_key("ada").unwrap();
    let told = app.post(&rejected, json!({ "access_token": key })).await.problem(409, "connector_auth_failed");

    assert!(told.text_of("detail").contains("Profile settings, View API key"), "{}", told.text);
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["health_reason"]), (&json!("auth_failed"), &json!("access_refused")));
}
