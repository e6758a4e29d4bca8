//! Home, the catalogue and the page of a connector, by somebody who is signed in.

use holdfast_app::admin::{self, Ask};
use holdfast_core::Role;
use holdfast_tests::{
    chromium::Chromium,
    days::{deadline, deadline_in_words},
    people::PASSWORD,
    service::TestApp,
    wait::until,
};
use serde_json::json;
use thirtyfour::{By, Key};

use crate::{service, service_with};

const EMAIL: &str = "ada@example.com";

async fn sign_in(app: &TestApp, chromium: &Chromium) {
    app.person_with("Acme", EMAIL, Role::Owner, true, PASSWORD).await;
    chromium.open(&app.at("/sign-in?next=/connectors")).await;
    chromium.fill("E-mail address", EMAIL).await;
    chromium.fill("Password", PASSWORD).await;
    chromium.press("Sign in").await;
    chromium.heading("Connectors").await;
}

/// Takes the access away at the provider and lets a caller find out.
async fn fail(app: &TestApp, id: &str) {
    let token = app.token(id).await.expect(200).text_of("access_token");
    app.acme.revoke(None);
    let rejected = app.post(&format!("/connectors/{id}/token/rejected"), json!({ "access_token": token })).await;
    let _told = rejected.problem(409, "connector_auth_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_connectors_can_be_used_by_everybody() {
    let (_db, app) = service().await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium).await;
            chromium.inspect("home-empty").await;
            chromium.open(&app.at("/connectors/new")).await;
            chromium.inspect("catalogue").await;
            chromium.open(&app.at("/connectors/new/zendesk")).await;
            chromium.fill("Zendesk subdomain", "help.acme.com").await;
            chromium.shows("not an address below zendesk.com").await;
            chromium.inspect("connect-form-refused").await;
            chromium.fill("Zendesk subdomain", "https://acme.zendesk.com/agent").await;
            chromium.shows("Understood: acme.zendesk.com").await;
            chromium.inspect("connect-form").await;

            chromium.press("Continue to Zendesk").await;
            chromium.press("Deny").await;
            chromium.shows("Access was not allowed").await;
            chromium.inspect("connector-denied").await;
            chromium.press("Try again").await;
            chromium.press("Allow").await;
            chromium.shows("Zendesk answered in").await;
            chromium.inspect("connector-connected").await;

            let id = app.get("/connectors").await.json["data"][0]["id"].as_str().unwrap().to_owned();
            for name in ["Annotate urgent tickets", "Answer billing questions"] {
                let agent = json!({
                    "name": name, "sample": "annotate_urgent_tickets", "connectors": [{ "connector": id }],
                });
                let _made = app.post("/agents", agent).await.expect(201);
            }
            let ends = json!({
                "provider": "zendesk", "account": "ends", "name": "A name that is long enough for two lines on a phone",
                "credential": { "access_token": "secret", "expires_in": 3600 },
            });
            let _made = app.post("/connectors", ends).await.expect(201);
            let _pending = app.post("/connectors", json!({ "provider": "zendesk", "account": "pending" })).await;
            fail(&app, &id).await;
            chromium.open(&app.at("/connectors")).await;
            chromium.inspect("home-needs-you").await;
            chromium.open(&app.at("/connectors?q=nothing")).await;
            chromium.inspect("home-nothing-found").await;
            chromium.open(&app.at(&format!("/connectors/{id}"))).await;
            chromium.inspect("connector-failed").await;
            for end in ["disconnect", "delete"] {
                chromium.open(&app.at(&format!("/connectors/{id}/{end}"))).await;
                chromium.inspect(&format!("connector-{end}")).await;
            }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_follows_what_happens_and_a_test_answers_in_place() {
    let (_db, app) = service().await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    let page = app.at(&format!("/connectors/{id}"));
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium).await;
            chromium.open(&page).await;

            chromium.press("Test").await;
            chromium.shows("Signed in as").await;
            chromium.focus_is_on("Test passed").await;
            assert_eq!(chromium.url().await.as_str(), page, "it is the same page");
            // Its menu is closed by Escape, which leads back to the button, and by a press beside it.
            let more = "More: rename, disconnect, delete";
            for by_key in [true, false] {
                chromium.press(more).await;
                chromium.shows("Make a link for somebody else").await;
                if by_key {
                    chromium.key(Key::Escape).await;
                    chromium.focus_is_on(more).await;
                } else {
                    chromium.driver().find(By::Css("h1")).await.unwrap().click().await.unwrap();
                }
                let closed = async || !chromium.text().await.contains("Make a link for somebody else");
                until("the menu is closed", closed, |closed| *closed).await;
            }

            // From an empty record: what a page weighs is meant for a load of it.
            chromium.open(&page).await;
            fail(&app, &id).await;
            chromium.shows("It stopped working").await;
            chromium.press("Reconnect").await;
            chromium.press("Allow").await;
            chromium.shows("acme.zendesk.com is connected").await;
            chromium.shows("Zendesk answered in").await;

            chromium.open(&app.at("/connectors")).await;
            chromium.shows("Nothing needs you.").await;
            fail(&app, &id).await;
            chromium.shows("Needs you").await;
            chromium.press("Reconnect Support").await;
            chromium.press("Allow").await;
            chromium.shows("acme.zendesk.com is connected").await;

            // Also where there was nothing to test yet when the page was opened.
            app.sandbox.create_helpdesk("second").unwrap();
            let (link, pending) = app.link("second").await;
            chromium.open(&app.at(&format!("/connectors/{pending}"))).await;
            chromium.shows("Not connected yet").await;
            assert_eq!(app.consent(&link).await.title(), "Connected");
            chromium.shows("Signed in as").await;
            chromium.press("Test").await;
            chromium.focus_is_on("Test passed").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_migration_asks_for_is_done_from_the_list() {
    let (_db, app) = service().await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    let name = "A name that is long enough for two lines on a phone, wherever it stands";
    app.import_with("second", json!({ "name": name })).await;
    let start = Ask::MigrationStart {
        provider: "zendesk".to_owned(),
        deadline: Some(deadline()),
        reason: Some("Zendesk ends tokens that never expire".to_owned()),
        only_endless: false,
        dry_run: false,
    };
    let _started = admin::run(&app.app, start).await.unwrap();
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium).await;
            chromium.shows(&format!("2 connectors have to be reconnected by {}", deadline_in_words())).await;
            chromium.inspect("home-migration").await;
            chromium.open(&app.at(&format!("/connectors/{id}"))).await;
            chromium.shows(&format!("It has to be reconnected by {}", deadline_in_words())).await;
            chromium.inspect("connector-migration").await;

            chromium.open(&app.at("/connectors")).await;
            chromium.press("Reconnect Support").await;
            chromium.press("Allow").await;
            chromium.shows("acme.zendesk.com is connected").await;

            chromium.open(&app.at("/connectors")).await;
            chromium.shows(&format!("1 connector has to be reconnected by {}", deadline_in_words())).await;
            chromium.shows("1 of 2 done.").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_does_not_reach_the_server_says_so_beside_its_button() {
    let (_db, app) = service().await;
    let id = app.connect("acme").await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium).await;
            chromium.open(&app.at(&format!("/connectors/{id}"))).await;
            let gone = "window.there = window.fetch; window.fetch = () => Promise.reject(new TypeError('gone'));";
            chromium.driver().execute(gone, Vec::new()).await.unwrap();

            chromium.press("Test").await;

            let told = By::Css("form[data-in-place] .unreached");
            let shown = async || chromium.driver().find(told.clone()).await.is_ok();
            until("it is said beside the button", shown, |shown| *shown).await;
            chromium.shows("That did not reach the server. Try again.").await;
            chromium.driver().execute("window.fetch = window.there;", Vec::new()).await.unwrap();
            chromium.press("Test").await;
            chromium.focus_is_on("Test passed").await;
            assert!(chromium.driver().find(told).await.is_err(), "it is over");
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_from_the_provider_keeps_what_was_typed() {
    let (_db, app) = service().await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium).await;
            chromium.open(&app.at("/connectors/new/zendesk")).await;
            chromium.fill("Zendesk subdomain", "acme").await;
            chromium.fill("Name (optional)", "Support & more").await;
            chromium.press("Continue to Zendesk").await;
            chromium.heading("Allow Holdfast to access Acme?").await;

            chromium.back().await;

            chromium.heading("Connect Zendesk").await;
            assert_eq!(chromium.value("Zendesk subdomain").await, "acme");
            assert_eq!(chromium.value("Name (optional)").await, "Support & more");
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_shows_how_far_the_mirror_is_and_has_it_synced() {
    let (_db, app) = service_with(|config| {
        config.sync.enabled = true;
        config.sync.first_days = 3650;
    })
    .await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium).await;
            let id = app.connect("acme").await;
            chromium.open(&app.at(&format!("/connectors/{id}"))).await;
            chromium.shows("Up to date").await;
            chromium.shows("320 tickets").await;
            chromium.inspect("connector-mirror").await;

            let next = app.show(&id).await["sync"]["caught_up_at"].clone();
            app.advance(std::time::Duration::from_secs(5));
            chromium.press("Sync now").await;
            let seen = async || app.show(&id).await["sync"]["caught_up_at"].clone();
            until("it is synced once more", seen, |seen| seen.as_str() > next.as_str()).await;
        })
        .await;
}
