//! Event endpoints in both widths and schemes, with script and without.

use holdfast_core::Role;
use holdfast_tests::{chromium::Chromium, receiver::Receiver};

use crate::{service, sign_in};

const HERE: &str = "/settings/event-endpoints";

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_made_tried_and_watched() {
    let (_db, app) = service().await;
    let ada = app.somebody(Role::Admin).await;
    let receiver = Receiver::start().await;

    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, &ada.email, HERE).await;
            chromium.shows("No endpoint yet").await;
            chromium.inspect("event-endpoints-empty").await;
            chromium.fill("Address", "http://app.example.com/events").await;
            chromium.press("Add the endpoint").await;
            chromium.shows("The address has to begin with https://").await;
            chromium.inspect("event-endpoints-wrong").await;

            chromium.fill("Address", &receiver.url).await;
            chromium.press("Add the endpoint").await;
            chromium.shows("the only time that you see it").await;
            chromium.inspect("event-endpoint-made").await;
            receiver.answer(500);
            chromium.press("Send a test").await;
            chromium.shows("Not taken, 500").await;
            chromium.shows("Failing").await;
            chromium.inspect("event-endpoint-failing").await;
            // The page follows what happens.
            app.import("acme").await;
            chromium.shows("connector.connected").await;
            chromium.shows("It takes what it is sent").await;
            chromium.inspect("event-endpoint-working").await;
            chromium.press("Disable").await;
            chromium.press("Disable it").await;
            chromium.shows("Somebody disabled it").await;
            chromium.inspect("event-endpoint-disabled").await;
            chromium.open(&app.at(HERE)).await;
            chromium.shows("Disabled").await;
            chromium.inspect("event-endpoints").await;
        })
        .await;
}
