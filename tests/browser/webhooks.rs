//! Webhooks and deliveries in both widths and schemes.

use holdfast_core::Role;
use holdfast_sandbox::EventOrder;
use holdfast_tests::{chromium::Chromium, people::PASSWORD, wait::until};
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

            let id = app.import_of("freshdesk", "acme").await;
            chromium.open(&app.at(&format!("/connectors/{id}"))).await;
            chromium.follow("Set up").await;
            chromium.heading("Webhook").await;
            chromium.inspect("webhook-none").await;
            chromium.press("Make the address for Automation rule").await;
            chromium.shows("this is the only time that you see it").await;
            chromium.inspect("webhook-made").await;

            let hook = app.hook(&id, "freshdesk", "acme", json!({ "rotate_secret": true })).await;
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
            chromium.open(&app.at("/deliveries?ticket=%23999")).await;
            chromium.shows("Nothing has come in about").await;
            chromium.inspect("ticket-nothing").await;
            chromium.fill("Ticket", "the printer").await;
            chromium.press("What happened to it?").await;
            chromium.shows("That names no ticket").await;
            chromium.inspect("ticket-problem").await;
            chromium.fill("Ticket", "#42").await;
            chromium.press("What happened to it?").await;
            chromium.shows("No agent was set off").await;
            chromium.inspect("ticket").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_switched_on_and_off_with_one_button() {
    let (_db, app) = service().await;
    app.person("Acme", ADA, Role::Admin).await;
    let id = app.import("acme").await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            chromium.open(&app.at(&format!("/sign-in?next=/connectors/{id}/webhook"))).await;
            chromium.fill("E-mail address", ADA).await;
            chromium.fill("Password", PASSWORD).await;
            chromium.press("Sign in").await;
            chromium.heading("Webhook").await;
            chromium.shows("look after it, and take it away again").await;
            chromium.inspect("webhook-automatic").await;
            chromium.press("Receive events").await;
            until("it is made", async || app.acme.webhooks().len(), |there| *there == 1).await;
            let stands = async || app.show(&id).await["webhook"]["status"].clone();
            until("it is known", stands, |status| status == "waiting").await;
            chromium.open(&app.at(&format!("/connectors/{id}/webhook"))).await;
            chromium.shows("Holdfast has made the webhook there").await;
            chromium.inspect("webhook-receiving").await;
            chromium.press("Stop receiving events").await;
            chromium.press("Take the webhook away").await;
            until("it is gone", async || app.acme.webhooks().len(), |there| *there == 0).await;
        })
        .await;
}
