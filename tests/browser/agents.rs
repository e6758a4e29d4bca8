//! Agents in a browser: each page in both widths and schemes, with and without scripts.

use holdfast_core::Role;
use holdfast_tests::{chromium::Chromium, people::PASSWORD, service::TestApp};

use crate::service;

const ADA: &str = "ada@example.com";

async fn sign_in(app: &TestApp, chromium: &Chromium) {
    chromium.open(&app.at("/sign-in?next=/agents")).await;
    chromium.fill("E-mail address", ADA).await;
    chromium.fill("Password", PASSWORD).await;
    chromium.press("Sign in").await;
    chromium.heading("Agents").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_made_tried_run_stopped_and_mended() {
    let (_db, app) = service().await;
    app.person("Acme", ADA, Role::Admin).await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium).await;
            chromium.shows("No agent yet").await;
            chromium.inspect("agents-empty").await;

            let acme = app.import_with("acme", serde_json::json!({ "name": "Support" })).await;
            chromium.open(&app.at("/agents/new")).await;
            chromium.heading("What should the agent do?").await;
            chromium.inspect("agents-samples").await;
            chromium.open(&app.at("/agents/new?sample=tag_and_answer_by_rule")).await;
            chromium.heading("Tag and answer by rule").await;
            chromium.press("What it may do there").await;
            chromium.press("The playbook").await;
            chromium.inspect("agents-form").await;
            chromium.fill("Steps, as JSON", "{\"steps\": [{\"id\": \"a\", \"tool\": \"get_ticket\"}]}").await;
            chromium.press("Make the agent").await;
            chromium.shows("at steps[0].with.ticket_id: it is missing.").await;
            chromium.inspect("agents-form-wrong").await;

            chromium.open(&app.at("/agents/new?sample=annotate_urgent_tickets")).await;
            chromium.fill("Name", "Night watch").await;
            chromium.press("Make the agent").await;
            chromium.heading("Night watch").await;
            chromium.shows("The agent is made.").await;
            chromium.press("Dry run").await;
            chromium.heading("Dry run of Night watch").await;
            assert_eq!(app.app.run_due_agents().await.unwrap(), 1);
            // The page follows by itself.
            chromium.shows("Not done: dry run").await;
            chromium.shows("it read, and changed nothing").await;
            chromium.inspect("agents-dry-run").await;
            chromium.open(&format!("{}/steps/1", chromium.url().await)).await;
            chromium.heading("Step 1: Look for urgent tickets").await;
            chromium.inspect("agents-step").await;
            chromium.follow("Night watch").await;
            chromium.press("Run now").await;
            chromium.heading("Run of Night watch").await;
            chromium.shows("Waiting").await;
            app.app.run_due_agents().await.unwrap();
            chromium.shows("Succeeded").await;
            chromium.inspect("agents-run").await;
            chromium.follow("Night watch").await;
            chromium.inspect("agents-show").await;

            app.fail(&acme).await;
            chromium.shows("Zendesk acme needs Reconnect").await;
            chromium.inspect("agents-stopped").await;
            chromium.open(&app.at("/agents")).await;
            chromium.shows("Stopped: Zendesk acme needs Reconnect").await;
            chromium.inspect("agents-list").await;
            let page = app.consent(&app.reconnect_link(&acme).await).await;
            assert_eq!(page.status, 200, "{}", page.text);
            chromium.shows("Active").await;

            chromium.follow("Night watch").await;
            chromium.press("Pause").await;
            chromium.shows("The agent is paused.").await;
            chromium.inspect("agents-paused").await;
            chromium.follow("Delete").await;
            chromium.heading("Delete Night watch?").await;
            chromium.inspect("agents-delete").await;
            chromium.fill("Type its name to be sure: Night watch", "Night watch").await;
            chromium.press("Delete it").await;
            chromium.shows("The agent is deleted").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_it_works_without_scripts() {
    let (_db, app) = service().await;
    app.person("Acme", ADA, Role::Admin).await;
    let _acme = app.import("acme").await;
    Chromium::visitor_of(&app)
        .without_scripts()
        .run(async |chromium| {
            sign_in(&app, chromium).await;
            chromium.open(&app.at("/agents/new?sample=annotate_urgent_tickets")).await;
            chromium.press("Make the agent").await;
            chromium.shows("The agent is made.").await;
            app.app.run_due_agents().await.unwrap();
            chromium.press("Run now").await;
            chromium.heading("Run of Annotate urgent tickets").await;
            app.app.run_due_agents().await.unwrap();
            chromium.reload().await;
            chromium.shows("Succeeded").await;
            let run = chromium.url().await;
            chromium.open(&format!("{run}/steps/1")).await;
            chromium.shows("\"priority\"").await;
            chromium.follow("Annotate urgent tickets").await;
            chromium.press("Pause").await;
            chromium.shows("The agent is paused.").await;
            chromium.press("Resume").await;
            chromium.shows("The agent goes on.").await;
        })
        .await;
}
