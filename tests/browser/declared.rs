//! A provider that a file describes, in a browser: an admin meets it as any other.

use std::sync::Arc;

use holdfast_core::Role;
use holdfast_tests::{
    chromium::Chromium,
    database::Database,
    service::{TestApp, oauth_app},
};
use serde_json::json;

use crate::sign_in;

const TILE: &str = "GitHub Repositories, issues and pull requests, for your own programs";
const CONSENT: &str = "Holdfast wants access to your github account";
const BOB: &str = "Bob, of another account";

/// HL-01, RC-01
#[tokio::test(flavor = "multi_thread")]
async fn what_a_file_describes_is_connected_fails_and_is_reconnected_in_place() {
    let db = Arc::new(Database::sqlite());
    let with_app = |config: &mut holdfast_app::Config| {
        config.oauth_apps.insert("github".to_owned(), oauth_app());
    };
    let app = TestApp::builder(&db).at_localhost().with(with_app).start().await;
    let owner = app.somebody(Role::Owner).await;

    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, &owner.email, "/connectors/new").await;
            chromium.follow(TILE).await;
            chromium.heading("Connect GitHub").await;
            chromium.inspect("declared-1-form").await;
            chromium.fill("GitHub user", "octo cat").await;
            chromium.press("Continue to GitHub").await;
            chromium.shows("octocat").await;
            chromium.fill("GitHub user", "https://github.com/Octocat/").await;
            chromium.press("Continue to GitHub").await;
            chromium.heading(CONSENT).await;
            chromium.press("Allow").await;
            chromium.shows("octocat is connected").await;
            chromium.inspect("declared-2-connected").await;
            let url = chromium.url().await;
            let id = url.path().strip_prefix("/connectors/").expect("it is the connector's page").to_owned();
            let before = app.show(&id).await;

            let token = app.token(&id).await.expect(200).text_of("access_token");
            app.sandbox.generic().revoke("github");
            let refused = json!({ "access_token": token });
            let told = app.post(&format!("/connectors/{id}/token/rejected"), refused).await;
            let _told = told.problem(409, "connector_auth_failed");
            chromium.shows("GitHub refused the refresh token").await;
            chromium.inspect("declared-3-failed").await;

            chromium.press("Reconnect").await;
            chromium.heading(CONSENT).await;
            chromium.choose(BOB).await;
            chromium.press("Allow").await;
            chromium.shows("This connector belongs to octocat, and you signed in to hubot").await;
            assert_eq!(app.show(&id).await["health"], "auth_failed");

            chromium.press("Try again").await;
            chromium.heading(CONSENT).await;
            chromium.press("Allow").await;
            chromium.shows("octocat is connected").await;
            chromium.inspect("declared-4-reconnected").await;

            let after = app.show(&id).await;
            assert_eq!((&after["health"], &after["id"]), (&"connected".into(), &before["id"]), "{after}");
            let _token = app.token(&id).await.expect(200);
        })
        .await;
}
