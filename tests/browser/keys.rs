//! A provider that gives keys: connected by a link, and replaced in place, with the page that asks for the key.

use holdfast_core::Role;
use holdfast_tests::chromium::Chromium;
use serde_json::json;

use crate::{service, sign_in};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_given_by_a_link_and_replaced_in_place() {
    let (_db, app) = service().await;
    let desk = app.sandbox.freshdesk("acme").unwrap();
    let made = app.post("/connect-sessions", json!({ "provider": "freshdesk", "account": "acme" })).await.expect(201);
    let (link, id) = (made.text_of("url"), made.text_of("connector_id"));
    let extras = json!({ "extras": { "webhook_secret": "hush" } });
    let owner = app.somebody(Role::Owner).await;

    Chromium::visitor_of(&app)
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.heading("Connect acme.freshdesk.com").await;
            chromium.inspect("key-1-link").await;
            chromium.press("Continue").await;
            chromium.heading("Freshdesk API key").await;
            chromium.inspect("key-2-asked").await;
            chromium.fill("API key", "no such key").await;
            chromium.press("Connect").await;
            chromium.shows("This is no key").await;
            chromium.inspect("key-3-refused").await;
            chromium.fill("API key", &desk.api_key("ada").unwrap()).await;
            chromium.press("Connect").await;
            chromium.heading("Connected").await;
        })
        .await;
    let path = format!("/connectors/{id}");
    let _kept = app.call(reqwest::Method::PATCH, &path, Some(&app.key), Some(extras)).await.expect(200);
    let new = desk.reset_key("ada").unwrap();
    let told = app.post(&format!("{path}/tools/search_tickets"), json!({})).await;
    let _told = told.problem(409, "connector_auth_failed");

    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, &owner.email, &path).await;
            chromium.shows("Freshdesk refuses").await;
            chromium.press("Reconnect").await;
            chromium.heading("Freshdesk API key").await;
            chromium.fill("API key", &new).await;
            chromium.press("Replace the key").await;
            chromium.shows("acme.freshdesk.com is connected").await;
            chromium.shows("A key is not refreshed.").await;
            chromium.inspect("key-4-replaced").await;
            chromium.open(&app.at("/connectors/new/freshdesk")).await;
            chromium.inspect("key-5-form").await;
        })
        .await;

    assert_eq!(app.show(&id).await["health"], "connected");
    assert_eq!(app.token(&id).await.expect(200).text_of("access_token"), new);
    assert_eq!(app.app.store.extras(&id.as_str().into()).await.unwrap().len(), 1, "the webhook's secret is kept");
}
