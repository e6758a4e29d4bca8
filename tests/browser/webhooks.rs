//! Webhooks and deliveries in both widths and schemes.

use holdfast_core::Role;
use holdfast_sandbox::EventOrder;
use holdfast_tests::{chromium::Chromium, people::PASSWORD};
use serde_json::json;

use crate::service;

const ADA: &str = "ada@example.com";

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_set_up_and_its_deliveries_are_looked_at() {
    let (_db, app) = service().await;
    app.person("Acme", ADA, Role::Admin).await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            chromium.open(&app.at("/sign-in?next=/deliveries")).await;
            chromium.fill("E-mail address", ADA).await;
            chromium.fill("Password", PASSWORD).await;
            chromium.press("Sign in").await;
            chromium.heading("Deliveries").await;
            chromium.inspect("deliveries-empty").await;

            let id = app.import_of("gorgias", "acme").await;
            chromium.open(&app.at(&format!("/connectors/{id}"))).await;
            chromium.follow("Set up").await;
            chromium.heading("Webhook").await;
            chromium.inspect("webhook-none").await;
            chromium.press("Make the address for HTTP integration").await;
            chromium.shows("this is the only time that you see it").await;
            chromium.inspect("webhook-made").await;

            let hook = app.hook(&id, "gorgias", "acme", json!({ "rotate_secret": true })).await;
            assert_eq!(app.sent(&hook.event("1")).await, 200);
            assert_eq!(app.sent(&EventOrder { secret: "wrong-secret".to_owned(), ..hook.event("2") }).await, 401);
            chromium.open(&app.at(&format!("/connectors/{id}/webhook"))).await;
            chromium.shows("Their signature is wrong").await;
            chromium.inspect("webhook-working").await;
            chromium.follow("Its deliveries").await;
            chromium.heading("Deliveries").await;
            chromium.inspect("deliveries").await;
            let kept = app.deliveries(&id).await;
            chromium.open(&app.at(&format!("/deliveries/{}", kept[0]["id"].as_str().expect("it has an id")))).await;
            chromium.shows("What it said").await;
            chromium.inspect("delivery").await;
        })
        .await;
}
