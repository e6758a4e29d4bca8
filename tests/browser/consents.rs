//! Consents that do not bring what was asked for: less, somebody else's, nothing. Each end says what to do about it.

use std::sync::Arc;

use holdfast_core::Role;
use holdfast_tests::{
    chromium::Chromium,
    database::Database,
    service::{TestApp, oauth_app},
};
use serde_json::json;

use crate::sign_in;

const ASKED: &str = "Holdfast wants access to your Google Account";
const SEND: &str = "Send email on your behalf";

async fn service() -> (Arc<Database>, TestApp) {
    let db = Arc::new(Database::sqlite());
    let builder = TestApp::builder(&db).at_localhost().with(|config| {
        for provider in ["google", "shopify"] {
            config.oauth_apps.insert(provider.to_owned(), oauth_app());
        }
    });
    let app = builder.start().await;
    (db, app)
}

/// A connect link and its connector.
async fn link(app: &TestApp, provider: &str, account: &str) -> (String, String) {
    let made = app.post("/connect-sessions", json!({ "provider": provider, "account": account })).await.expect(201);
    (made.text_of("url"), made.text_of("connector_id"))
}

/// CO-08
#[tokio::test(flavor = "multi_thread")]
async fn a_consent_that_leaves_something_out_names_what_will_not_work() {
    let (_db, app) = service().await;
    let (link, id) = link(&app, "google", "ada@example.com").await;
    let owner = app.somebody(Role::Owner).await;

    Chromium::visitor_of(&app)
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.press("Continue to Google").await;
            chromium.heading(ASKED).await;
            chromium.choose(SEND).await;
            chromium.press("Continue").await;
            chromium.heading("Connected").await;
            chromium.shows("Not allowed, so that it does not work").await;
            chromium.shows("send_mail, reply_mail").await;
            chromium.inspect("consent-partial-1-link").await;

            sign_in(&app, chromium, &owner.email, &format!("/connectors/{id}")).await;
            chromium.press("Reconnect").await;
            chromium.heading(ASKED).await;
            chromium.choose(SEND).await;
            chromium.press("Continue").await;
            chromium.shows("ada@example.com is connected").await;
            chromium.shows("send_mail, reply_mail").await;
            chromium.inspect("consent-partial-2-connector").await;
        })
        .await;

    assert_eq!(app.show(&id).await["health"], "connected");
}

/// RC-01
#[tokio::test(flavor = "multi_thread")]
async fn a_reconnect_as_somebody_else_names_both_accounts() {
    let (_db, app) = service().await;
    let (link, id) = link(&app, "google", "ada@example.com").await;
    let owner = app.somebody(Role::Owner).await;
    let both = "This connector belongs to ada@example.com, and you signed in to bob@example.com";

    Chromium::visitor_of(&app)
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.press("Continue to Google").await;
            chromium.press("Continue").await;
            chromium.heading("Connected").await;

            chromium.open(&app.reconnect_link(&id).await).await;
            chromium.press("Continue to Google").await;
            chromium.choose("Bob Okafor bob@example.com").await;
            chromium.press("Continue").await;
            chromium.heading("That was another account").await;
            chromium.shows(both).await;
            chromium.inspect("consent-other-1-link").await;

            sign_in(&app, chromium, &owner.email, &format!("/connectors/{id}")).await;
            chromium.press("Reconnect").await;
            chromium.heading(ASKED).await;
            chromium.choose("Bob Okafor bob@example.com").await;
            chromium.press("Continue").await;
            chromium.shows(both).await;
            chromium.shows("Connect bob@example.com as a new connector").await;
            chromium.inspect("consent-other-2-connector").await;
        })
        .await;

    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["credential"]["version"]), (&json!("connected"), &json!(1)), "{shown}");
    assert_eq!(app.sandbox.google().living("bob"), 0, "both mistaken grants are given back");
}

/// CO-03
#[tokio::test(flavor = "multi_thread")]
async fn a_consent_that_is_declined_says_so_and_can_be_given_later() {
    let (_db, app) = service().await;
    for (provider, name, account, allow) in
        [("google", "Google", "ada@example.com", "Continue"), ("shopify", "Shopify", "acme", "Install")]
    {
        let (link, id) = link(&app, provider, account).await;
        let owner = app.somebody(Role::Owner).await;
        Chromium::visitor_of(&app)
            .run(async |chromium| {
                chromium.open(&link).await;
                chromium.press(&format!("Continue to {name}")).await;
                chromium.press("Cancel").await;
                chromium.heading("Access was not allowed").await;
                chromium.shows(&format!("{name} says that the request was declined.")).await;
                chromium.inspect(&format!("consent-denied-{provider}-1-link")).await;

                sign_in(&app, chromium, &owner.email, &format!("/connectors/{id}")).await;
                chromium.press(&format!("Continue to {name}")).await;
                chromium.press("Cancel").await;
                chromium.shows("Access was not allowed").await;
                chromium.shows("Nothing was changed.").await;
                chromium.inspect(&format!("consent-denied-{provider}-2-connector")).await;
                assert_eq!(app.show(&id).await["health"], "pending");

                chromium.press("Try again").await;
                chromium.press(allow).await;
                chromium.shows("is connected").await;
            })
            .await;
        assert_eq!(app.show(&id).await["health"], "connected");
    }
}
