//! The sandbox's own pages: the consent page, and the control page that people press in a demo.

use holdfast_tests::chromium::Chromium;

use crate::service;

#[tokio::test(flavor = "multi_thread")]
async fn the_consent_page_can_be_used_by_everybody() {
    let (_db, app) = service().await;
    let (link, _) = app.link("acme").await;
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.press("Continue to Zendesk").await;
            chromium.heading("Allow Holdfast to access Acme?").await;
            chromium.inspect("sandbox-consent").await;

            chromium.open(&format!("{}/oauth/authorizations/new", app.acme.url())).await;
            chromium.heading("Invalid authorization request").await;
            chromium.inspect("sandbox-consent-refused").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_page_can_be_used_by_everybody() {
    let (_db, app) = service().await;
    let id = app.connect("acme").await;
    let visitor = Chromium::visitor_of(&app);
    visitor
        .run(async |chromium| {
            chromium.open(&format!("{}/control", app.sandbox.url())).await;
            chromium.heading("The providers, imitated").await;
            chromium.inspect("sandbox-control").await;
            chromium.press("Remove Ada's access: Google").await;
            chromium.shows("Google: the access is gone there").await;
        })
        .await;
    assert_eq!(app.show(&id).await["health"], "connected");
}
