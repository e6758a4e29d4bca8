//! What only a browser shows: redirects, forms, focus, no script, a phone's width, how it looks.

#![expect(clippy::unwrap_used, reason = "all of this is tests")]

mod agents;
mod connect;
mod connectors;
mod consents;
mod declared;
mod demo;
mod event_endpoints;
mod harness;
mod jobs;
mod keys;
mod mail;
mod pages;
mod picture;
mod sandbox;
mod story;
mod team;
mod two_factor;
mod webhooks;

use holdfast_sandbox::Helpdesk;
use holdfast_tests::{chromium::Chromium, database::Database, people::PASSWORD, service::TestApp};

/// The service, which the browser calls by another name than the sandbox.
async fn service() -> (std::sync::Arc<Database>, TestApp) {
    service_with(|_| {}).await
}

/// The same with other settings.
async fn service_with(change: impl FnOnce(&mut holdfast_app::Config)) -> (std::sync::Arc<Database>, TestApp) {
    let db = std::sync::Arc::new(Database::sqlite());
    let app = TestApp::builder(&db).at_localhost().with(change).start().await;
    (db, app)
}

/// Signs in with the usual password, on the way to this page, and waits until it is there: an address that is opened while
/// the form is still on its way is overtaken by the form's answer.
async fn sign_in(app: &TestApp, chromium: &Chromium, email: &str, next: &str) {
    chromium.open(&app.at(&format!("/sign-in?next={next}"))).await;
    chromium.heading("Sign in").await;
    chromium.fill("E-mail address", email).await;
    chromium.fill("Password", PASSWORD).await;
    chromium.press("Sign in").await;
    chromium.arrives(&app.at(next)).await;
}

/// The provider takes the consent back, and the service learns it from somebody whose call was refused. Time stands still,
/// so that what pages say of it is the same by the browser's clock.
async fn revoke(app: &TestApp, desk: &Helpdesk, id: &str) {
    let token = app.token(id).await.expect(200).text_of("access_token");
    desk.revoke(None);
    let refused = serde_json::json!({ "access_token": token });
    let told = app.post(&format!("/connectors/{id}/token/rejected"), refused).await;
    let _told = told.problem(409, "connector_auth_failed");
}
