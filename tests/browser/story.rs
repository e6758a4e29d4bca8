//! The whole story in a browser: somebody signs in, connects a helpdesk, sees it fail by itself, and brings it back in place.

use holdfast_core::Role;
use holdfast_tests::{
    chromium::{Chromium, Visitor},
    database::Database,
    people::PASSWORD,
    service::TestApp,
};
use serde_json::json;

use crate::{revoke, service, sign_in};

const ADA: &str = "ada@example.com";
const TILE: &str = "Zendesk Helpdesk: search, read, answer, update and create tickets; find customers and articles";
const CONTINUE: &str = "Continue to Zendesk";
const CONSENT: &str = "Allow Holdfast to access Acme?";
const CONNECTED: &str = "acme.zendesk.com is connected";

/// The id in the address of a connector's page.
async fn id_of(chromium: &Chromium) -> String {
    let url = chromium.url().await;
    url.path().strip_prefix("/connectors/").unwrap_or_else(|| panic!("{url}")).to_owned()
}

/// Marks the page that is shown: another one, or this one loaded again, has no mark.
async fn mark(chromium: &Chromium) {
    chromium.driver().execute("window.isTheSame = true", Vec::new()).await.unwrap();
}

async fn is_marked(chromium: &Chromium) -> bool {
    let seen = chromium.driver().execute("return window.isTheSame === true", Vec::new()).await.unwrap();
    *seen.json() == json!(true)
}

/// What a screen reader was told last.
async fn told(chromium: &Chromium) -> String {
    let said = "return document.querySelector('[aria-live=polite]#live').textContent";
    chromium.driver().execute(said, Vec::new()).await.unwrap().convert().unwrap()
}

/// From the catalogue to the connector's page, where it is connected.
async fn connects(app: &TestApp, chromium: &Chromium) -> String {
    sign_in(app, chromium, ADA, "/connectors").await;
    chromium.heading("Connectors").await;
    chromium.shows("Nothing is connected yet").await;
    chromium.follow(TILE).await;
    chromium.heading("Connect Zendesk").await;
    chromium.fill("Zendesk subdomain", "https://ACME.zendesk.com/agent").await;
    chromium.press(CONTINUE).await;
    chromium.heading(CONSENT).await;
    chromium.press("Allow").await;
    chromium.heading("acme.zendesk.com").await;
    chromium.shows(CONNECTED).await;
    for step in ["Ada Admin, admin of acme.zendesk.com", "All that was asked for", "Zendesk answered in"] {
        chromium.shows(step).await;
    }
    id_of(chromium).await
}

async fn kinds(app: &TestApp, id: &str) -> Vec<String> {
    let timeline = app.timeline(id).await;
    timeline.iter().map(|line| line["kind"].as_str().unwrap().to_owned()).collect()
}

/// HL-01: the connector fails and comes back under its id, on the same page.
async fn goes_through(visitor: impl FnOnce(&TestApp) -> Visitor, scripts: bool, name: &str) {
    let (db, app) = service().await;
    app.person("Acme", ADA, Role::Admin).await;
    visitor(&app)
        .run(async |chromium| {
            let id = connects(&app, chromium).await;
            chromium.picture(&format!("{name}-1-connected")).await;
            if scripts {
                mark(chromium).await;
                chromium.tab_to("Test").await;
            }

            revoke(&app, &app.acme, &id).await;
            let before = app.show(&id).await;
            if !scripts {
                chromium.reload().await;
            }
            chromium.shows("It stopped working").await;
            chromium.shows("Zendesk refused the refresh token.").await;
            chromium.picture(&format!("{name}-2-failed")).await;
            if scripts {
                assert!(is_marked(chromium).await, "the page was loaded again");
                chromium.focus_is_on("Test").await;
                assert_eq!(told(chromium).await, "acme.zendesk.com: Needs Reconnect");
            }

            chromium.press("Reconnect").await;
            chromium.heading(CONSENT).await;
            chromium.press("Allow").await;
            chromium.heading("acme.zendesk.com").await;
            chromium.shows(CONNECTED).await;
            chromium.picture(&format!("{name}-3-reconnected")).await;
            assert_eq!(id_of(chromium).await, id);
            let after = app.show(&id).await;
            assert_eq!((&after["health"], &after["created_at"]), (&json!("connected"), &before["created_at"]));
            assert_eq!(after["epoch"], before["epoch"].as_i64().unwrap() + 1);
            assert!(kinds(&app, &id).await.contains(&"reconnected".to_owned()));

            chromium.open(&app.at("/connectors")).await;
            chromium.shows("Nothing needs you.").await;
        })
        .await;
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 1);
    assert_eq!(app.acme.counters().code_exchanges, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connector_is_made_fails_before_ones_eyes_and_is_mended() {
    goes_through(Chromium::visitor_of, true, "story").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_goes_without_scripts() {
    goes_through(|app| Chromium::visitor_of(app).without_scripts(), false, "story-without-scripts").await;
}

/// Somebody at the page of a connector that works.
async fn at_a_connector(test: impl AsyncFnOnce(&Database, &TestApp, &Chromium, String)) {
    let (db, app) = service().await;
    app.person("Acme", ADA, Role::Admin).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, ADA, &format!("/connectors/{id}")).await;
            chromium.heading("Support").await;
            test(&db, &app, chromium, id).await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_answers_in_place_and_is_told() {
    at_a_connector(async |_db, app, chromium, id| {
        chromium.shows("Not tested yet").await;
        mark(chromium).await;

        chromium.press("Test").await;
        chromium.focus_is_on("Test passed").await;

        assert!(is_marked(chromium).await, "the page was loaded again");
        assert_eq!(told(chromium).await, "Test passed");
        chromium.shows("Ada Admin, admin").await;
        assert_eq!(chromium.url().await.path(), format!("/connectors/{id}"));

        app.acme.revoke(None);
        chromium.press("Test").await;
        chromium.focus_is_on("Test failed").await;
        assert_eq!(told(chromium).await, "Test failed");
        chromium.shows("It stopped working").await;
        assert!(is_marked(chromium).await, "the page was loaded again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_on_test_tests_once() {
    at_a_connector(async |_db, app, chromium, id| {
        chromium.press_twice("Test").await;
        chromium.focus_is_on("Test passed").await;
        assert_eq!(kinds(app, &id).await.iter().filter(|kind| *kind == "test").count(), 1);
        // And it can be pressed again.
        chromium.press("Test").await;
        let tests = async || kinds(app, &id).await.iter().filter(|kind| *kind == "test").count();
        holdfast_tests::wait::until("it is tested again", tests, |tests| *tests == 2).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_on_reconnect_starts_one_consent() {
    at_a_connector(async |db, app, chromium, id| {
        revoke(app, &app.acme, &id).await;
        chromium.shows("It stopped working").await;

        let started = async || db.number("SELECT COUNT(*) FROM connect_sessions").await;
        let before = started().await;
        chromium.press_twice("Reconnect").await;
        chromium.heading(CONSENT).await;
        assert_eq!(started().await, before + 1);
        chromium.press_twice("Allow").await;
        chromium.heading("Support").await;
        chromium.shows(CONNECTED).await;

        assert_eq!(id_of(chromium).await, id);
        assert_eq!(app.acme.counters().code_exchanges, 1);
        assert_eq!(kinds(app, &id).await.iter().filter(|kind| *kind == "reconnected").count(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_in_the_middle_of_a_consent_loses_nothing() {
    let (db, app) = service().await;
    let ada = app.somebody(Role::Admin).await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, &ada.email, "/connectors/new/zendesk").await;
            chromium.heading("Connect Zendesk").await;
            chromium.fill("Zendesk subdomain", "acme").await;
            chromium.press(CONTINUE).await;
            chromium.heading(CONSENT).await;
            let ended = ada.submit("/settings/account", "/settings/account/sessions/end-others", &[]).await;
            let _ended = ended.expect(303);

            chromium.press("Allow").await;
            chromium.heading("Sign in").await;
            chromium.fill("E-mail address", &ada.email).await;
            chromium.fill("Password", PASSWORD).await;
            chromium.press("Sign in").await;
            chromium.heading("acme.zendesk.com").await;
            chromium.shows(CONNECTED).await;
            assert_eq!(app.show(&id_of(chromium).await).await["health"], "connected");
        })
        .await;
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 1);
    assert_eq!(app.acme.counters().code_exchanges, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_after_the_session_has_ended_says_so_and_leads_back() {
    let (_db, app) = service().await;
    let ada = app.somebody(Role::Admin).await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, &ada.email, "/connectors/new/zendesk").await;
            chromium.heading("Connect Zendesk").await;
            chromium.fill("Zendesk subdomain", "acme").await;
            let ended = ada.submit("/settings/account", "/settings/account/sessions/end-others", &[]).await;
            let _ended = ended.expect(303);

            chromium.press(CONTINUE).await;
            chromium.shows("what you had typed was not sent").await;
            chromium.picture("story-session-ended").await;
            chromium.follow("Sign in").await;
            chromium.heading("Sign in").await;
            chromium.fill("E-mail address", &ada.email).await;
            chromium.fill("Password", PASSWORD).await;
            chromium.press("Sign in").await;
            chromium.heading("Connect Zendesk").await;
        })
        .await;
}
