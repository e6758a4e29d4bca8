//! Jobs in a browser: the list and one job's page follow what happens, and people act on what is dead.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use holdfast_app::{App, jobs::Handler};
use holdfast_core::{
    Role,
    error::Retry,
    job::{Fault, Kind, Outcome},
};
use holdfast_store::{ClaimedJob, NewJob};
use holdfast_tests::{chromium::Chromium, service::TestApp};
use serde_json::json;

use crate::{service, sign_in};

const ADA: &str = "ada@example.com";

/// Refuses the first one.
#[derive(Default)]
struct RefusesOnce(AtomicUsize);

#[async_trait]
impl Handler for RefusesOnce {
    async fn run(&self, _: &Arc<App>, _: &ClaimedJob) -> Outcome {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Outcome::Failed(Fault::new("refused", "Zendesk does not know the ticket."), Retry::Never),
            _ => Outcome::Done,
        }
    }
}

async fn enqueue(app: &TestApp, kind: Kind, number: u32, connector: &str) -> String {
    let at = app.app.seams.clock.now();
    let job = NewJob {
        org: app.org.clone(),
        kind,
        key: format!("{kind:?} {number}"),
        connector: Some(connector.into()),
        subject: format!("ticket {number}"),
        payload: json!({}),
        due_at: at,
        at,
    };
    app.app.store.enqueue(&job).await.unwrap().id().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_followed_tried_again_and_discarded() {
    let (_db, app) = service().await;
    app.person("Acme", ADA, Role::Member).await;
    let acme = app.import_with("acme", json!({ "name": "Support" })).await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, ADA, "/jobs").await;
            chromium.shows("No job yet").await;
            chromium.inspect("jobs-empty").await;

            app.app.jobs.handle(Kind::Event, Arc::new(RefusesOnce::default()));
            let dead = enqueue(&app, Kind::Event, 1, &acme).await;
            // The page follows by itself.
            chromium.shows("Zendesk does not know the ticket.").await;
            enqueue(&app, Kind::Sync, 2, &acme).await;
            chromium.shows("Sync the tickets of Support").await;
            chromium.press("Change all jobs").await;
            chromium.inspect("jobs-list").await;

            chromium.open(&app.at(&format!("/jobs/{dead}"))).await;
            chromium.shows("It is not tried again by itself.").await;
            chromium.press("For programs").await;
            chromium.inspect("jobs-dead").await;
            chromium.press("Try again now").await;
            chromium.shows("It is tried again.").await;
            chromium.shows("It is done.").await;
            chromium.inspect("jobs-done").await;

            app.fail(&acme).await;
            let waits = enqueue(&app, Kind::Event, 3, &acme).await;
            chromium.open(&app.at(&format!("/jobs/{waits}"))).await;
            chromium.shows("Waiting for reconnect").await;
            chromium.inspect("jobs-parked").await;
            chromium.press("Discard").await;
            chromium.shows("It is discarded.").await;
            chromium.inspect("jobs-discarded").await;
            chromium.open(&app.at("/jobs?state=discarded")).await;
            chromium.shows("Work off an event of Support").await;
        })
        .await;
}
