//! Connect and Reconnect by a link, through the sandbox's consent page, as a person goes: with and without scripts, with
//! the keyboard alone, twice, backwards, in two tabs.

use std::time::Duration;

use holdfast_tests::{
    browser::Browser,
    chromium::{Chromium, Visitor},
    service::TestApp,
};
use reqwest::Method;
use serde_json::json;
use thirtyfour::Key;

use crate::service;

const CONTINUE: &str = "Continue to Zendesk";
const CONSENT: &str = "Allow Holdfast to access Acme?";

/// Whoever uses what was connected gets a token, and the provider has issued no more than it should.
async fn works(app: &TestApp, id: &str, version: u64) {
    let shown = app.show(id).await;
    assert_eq!((&shown["health"], &shown["credential"]["version"]), (&json!("connected"), &json!(version)), "{shown}");
    let token = app.token(id).await.expect(200).text_of("access_token");
    assert!(app.acme.accepts(&token));
}

/// From the link to the end; pictures under this name.
async fn goes_through(app: &TestApp, visitor: Visitor, reconnect: bool, name: &str) {
    let (mut link, id) = app.link("acme").await;
    if reconnect {
        assert_eq!(app.consent(&link).await.title(), "Connected");
        app.fail(&id).await;
        link = app.reconnect_link(&id).await;
    }
    let verb = if reconnect { "Reconnect" } else { "Connect" };
    visitor
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.heading(&format!("{verb} acme.zendesk.com")).await;
            chromium.picture(&format!("{name}-1-link")).await;
            chromium.press(CONTINUE).await;
            chromium.heading(CONSENT).await;
            chromium.picture(&format!("{name}-2-consent")).await;
            chromium.press("Allow").await;
            chromium.heading("Connected").await;
            chromium.shows("acme.zendesk.com is connected as Ada Admin").await;
            chromium.picture(&format!("{name}-3-ended")).await;
            let url = chromium.url().await;
            assert!(url.query().is_none(), "code and state have left the address bar: {url}");
        })
        .await;
    works(app, &id, if reconnect { 2 } else { 1 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helpdesk_is_connected_with_scripts() {
    let (_db, app) = service().await;
    goes_through(&app, Chromium::visitor_of(&app), false, "connect").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helpdesk_is_connected_without_scripts() {
    let (_db, app) = service().await;
    goes_through(&app, Chromium::visitor_of(&app).without_scripts(), false, "connect-without-scripts").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_connector_is_reconnected_with_scripts() {
    let (_db, app) = service().await;
    goes_through(&app, Chromium::visitor_of(&app), true, "reconnect").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_connector_is_reconnected_without_scripts() {
    let (_db, app) = service().await;
    goes_through(&app, Chromium::visitor_of(&app).without_scripts(), true, "reconnect-without-scripts").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helpdesk_is_connected_with_the_keyboard_alone() {
    let (_db, app) = service().await;
    let made = app.post("/connect-sessions", json!({ "provider": "zendesk" })).await.expect(201);
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&made.text_of("url")).await;
            chromium.tab_to("Zendesk subdomain").await;
            chromium.keys("acme.zendesk.com").await;
            let stops = chromium.tab_to(CONTINUE).await;
            assert_eq!(stops.len(), 1, "the button follows the field: {stops:?}");
            chromium.key(Key::Enter).await;
            chromium.heading(CONSENT).await;
            let first = chromium.tab_to("Ada Admin administrator").await;
            assert_eq!(first.len(), 1, "{first:?}");
            // To the next of the group: an agent may connect as well.
            chromium.key(Key::Down).await;
            chromium.focus_is_on("Gus Agent agent").await;
            chromium.tab_to("Allow").await;
            chromium.key(Key::Space).await;
            chromium.heading("Connected").await;
            chromium.shows("as Gus Agent").await;
        })
        .await;
    works(&app, &made.text_of("connector_id"), 1).await;
}

/// CO-12
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_cuts_its_window_off_and_a_slow_reader_lose_nothing() {
    let (_db, app) = service().await;
    let (link, id) = app.link("acme").await;
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.press(CONTINUE).await;
            chromium.heading(CONSENT).await;
            let page = Browser::new().get(chromium.url().await.as_str()).await;
            assert_eq!(page.headers["cross-origin-opener-policy"], "same-origin");
            assert_eq!(chromium.tabs().await, 1, "no pop-up that could be blocked");
            app.advance(Duration::from_mins(3));
            chromium.press("Allow").await;
            chromium.heading("Connected").await;
        })
        .await;
    works(&app, &id, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_is_none_is_kept_and_explained_beside_its_field() {
    let (_db, app) = service().await;
    let made = app.post("/connect-sessions", json!({ "provider": "zendesk" })).await.expect(201);
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&made.text_of("url")).await;
            chromium.inspect("connect-account").await;
            for typed in
                ["<img src=x onerror=alert(1)>", "\"><script>alert(1)</script>", "شركة.zendesk.com", "株式会社"]
            {
                chromium.fill("Zendesk subdomain", typed).await;
                chromium.press(CONTINUE).await;
                chromium.shows("Expected the part before .zendesk.com").await;
                assert_eq!(chromium.value("Zendesk subdomain").await, typed);
                let told = chromium.description("Zendesk subdomain").await;
                assert!(told.contains("Expected the part before"), "{told}");
            }
            chromium.inspect("connect-account-refused").await;
            chromium.fill("Zendesk subdomain", "acme").await;
            chromium.press(CONTINUE).await;
            chromium.press("Allow").await;
            chromium.heading("Connected").await;
        })
        .await;
    works(&app, &made.text_of("connector_id"), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_any_script_and_with_markup_are_shown_as_they_are() {
    let (_db, app) = service().await;
    let org = "<b>株式会社</b> & \"العربية\" हिन्दी 한국어 Ελληνικά עברית ไทย";
    let key = app.key_of(org).await;
    let body = json!({ "provider": "zendesk", "account": "acme" });
    let link = app.call(Method::POST, "/connect-sessions", Some(&key), Some(body)).await.expect(201).text_of("url");
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.shows(org).await;
            chromium.inspect("connect-any-script").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_the_flow_can_be_used_by_everybody() {
    let (_db, app) = service().await;
    let (link, _) = app.link("acme").await;
    let (other, _) = app.link("globex").await;
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.inspect("connect-link").await;

            chromium.press(CONTINUE).await;
            chromium.press("Deny").await;
            chromium.heading("Access was not allowed").await;
            chromium.inspect("connect-denied").await;

            chromium.open(&link).await;
            chromium.press(CONTINUE).await;
            chromium.press("Allow").await;
            chromium.heading("Connected").await;
            chromium.inspect("connect-connected").await;

            chromium.open(&link).await;
            chromium.heading("This link has been used").await;
            chromium.inspect("connect-link-used").await;

            chromium.open(&format!("{}/connect/cut-off", app.base)).await;
            chromium.heading("This link is not known").await;
            chromium.inspect("connect-link-unknown").await;

            chromium.open(&other).await;
            chromium.press(CONTINUE).await;
            chromium.heading("Allow Holdfast to access Globex?").await;
            app.advance(Duration::from_mins(11));
            chromium.press("Allow").await;
            chromium.heading("That took too long").await;
            chromium.inspect("connect-too-long").await;

            app.advance(Duration::from_mins(50));
            chromium.open(&other).await;
            chromium.heading("This link is over").await;
            chromium.inspect("connect-link-over").await;

            for (word, heading) in [
                ("nothing-received", "Nothing was received"),
                ("unknown", "This consent is not known"),
                ("other-browser", "This was started in another browser"),
                ("not-now", "Not at the moment"),
            ] {
                chromium.open(&format!("{}/connect/trouble/{word}", app.base)).await;
                chromium.heading(heading).await;
                chromium.inspect(&format!("connect-trouble-{word}")).await;
            }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_after_the_end_starts_nothing_twice() {
    let (_db, app) = service().await;
    let (link, id) = app.link("acme").await;
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.press(CONTINUE).await;
            chromium.heading(CONSENT).await;
            // Second thoughts, and again.
            chromium.back().await;
            chromium.heading("Connect acme.zendesk.com").await;
            chromium.press(CONTINUE).await;
            chromium.press("Allow").await;
            chromium.heading("Connected").await;

            chromium.reload().await;
            chromium.heading("Connected").await;

            chromium.back().await;
            chromium.heading(CONSENT).await;
            chromium.press("Allow").await;
            chromium.heading("Connected").await;

            chromium.back().await;
            chromium.back().await;
            chromium.heading("This link has been used").await;
        })
        .await;
    works(&app, &id, 1).await;
    assert_eq!(app.acme.counters().code_exchanges, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_connects_once() {
    let (_db, app) = service().await;
    let (link, id) = app.link("acme").await;
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.press_twice(CONTINUE).await;
            chromium.heading(CONSENT).await;
            chromium.press_twice("Allow").await;
            chromium.heading("Connected").await;
        })
        .await;
    works(&app, &id, 1).await;
    assert_eq!(app.acme.counters().code_exchanges, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_tabs_the_one_started_last_connects() {
    let (_db, app) = service().await;
    let (link, id) = app.link("acme").await;
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.press(CONTINUE).await;
            chromium.heading(CONSENT).await;
            let first = chromium.open_in_new_tab(&link).await;
            chromium.press(CONTINUE).await;
            chromium.heading(CONSENT).await;

            let second = chromium.go_to(&first).await;
            chromium.press("Allow").await;
            chromium.heading("This consent is not known").await;
            chromium.go_to(&second).await;
            chromium.press("Allow").await;
            chromium.heading("Connected").await;
        })
        .await;
    works(&app, &id, 1).await;
    assert_eq!(app.acme.counters().code_exchanges, 1);
}

/// CO-06
#[tokio::test(flavor = "multi_thread")]
async fn a_consent_link_that_was_sent_on_connects_nobody() {
    let (_db, app) = service().await;
    let (link, id) = app.link("acme").await;
    let mut consent = None;
    let sender = Chromium::visitor_of(&app);
    sender
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.press(CONTINUE).await;
            chromium.heading(CONSENT).await;
            consent = Some(chromium.url().await);
        })
        .await;

    let receiver = Chromium::visitor_of(&app);
    receiver
        .run(async |chromium| {
            chromium.open(consent.expect("it was shown").as_str()).await;
            chromium.press("Allow").await;
            chromium.heading("This was started in another browser").await;
        })
        .await;

    assert_eq!(app.show(&id).await["health"], "pending");
    assert_eq!(app.acme.counters().code_exchanges, 0);
}
