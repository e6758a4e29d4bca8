//! What the service does by itself, and what its numbers say of it.

use std::{sync::Arc, time::Duration};

use holdfast_tests::{database::Database, on_both, service::TestApp, wait::until};
use serde_json::json;

on_both! {
    what_is_due_is_refreshed_without_a_caller,
    a_token_lives_as_long_as_was_asked_for,
    exchanges_are_counted_by_provider_and_outcome,
}

async fn what_is_due_is_refreshed_without_a_caller(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.refresh.loop_interval = Duration::from_secs(5)).start().await;
    let (one, two) = (app.import("acme").await, app.import("globex").await);
    let exchanges = async || app.sandbox.counters().exchanges;
    let before = app.token(&one).await.expect(200).json;

    app.advance(Duration::from_mins(10));
    let _alive = app.token(&one).await.expect(200);
    assert_eq!(exchanges().await, 0, "nothing is due yet");
    // The token lives for 30 minutes, and is renewed 3 to 9 minutes ahead of its end.
    app.advance(Duration::from_mins(18));

    until("both are refreshed", exchanges, |count| *count == 2).await;
    for id in [&one, &two] {
        until("the new version is seen", async || app.show(id).await, |seen| seen["credential"]["version"] == 2).await;
    }
    let after = app.token(&one).await.expect(200).json;
    assert_ne!(after["access_token"], before["access_token"]);
    assert_eq!(exchanges().await, 2, "a caller finds it done");
    let line = app.timeline(&one).await.into_iter().find(|line| line["kind"] == "exchange").unwrap();
    assert_eq!((&line["outcome"], &line["actor"]), (&json!("rotated"), &json!("schedule")), "{line}");
}

/// AP-07
async fn a_token_lives_as_long_as_was_asked_for(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let left = |token: &serde_json::Value| {
        let end: chrono::DateTime<chrono::Utc> = token["expires_at"].as_str().unwrap().parse().unwrap();
        (end - holdfast_core::ports::Clock::now(app.clock.as_ref())).num_seconds()
    };
    // 20 seconds are left.
    app.advance(Duration::from_secs(1780));

    let short = app.get(&format!("/connectors/{id}/token?min_ttl=5")).await.expect(200).json;
    let usual = app.token(&id).await.expect(200).json;
    let longest = app.get(&format!("/connectors/{id}/token?min_ttl=86400")).await.expect(200).json;

    assert_eq!((&short["version"], &usual["version"]), (&json!(1), &json!(2)));
    assert!((15..=20).contains(&left(&short)), "{short}");
    assert!(left(&usual) >= 60, "{usual}");
    assert_eq!(longest["access_token"], usual["access_token"], "the longest possible, with its true end");
}

async fn exchanges_are_counted_by_provider_and_outcome(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    // The recorder is the process's, and other tests count too: growth is what can be held.
    let count = async |outcome: &str| -> f64 {
        let (status, text) = app.plain("/metrics").await;
        assert_eq!(status, 200);
        let line = format!("holdfast_exchanges_total{{provider=\"zendesk\",outcome=\"{outcome}\"}} ");
        let found = text.lines().find_map(|found| found.strip_prefix(&line)).unwrap_or("0");
        found.parse().unwrap()
    };
    let (rotated, refused) = (count("rotated").await, count("rejected").await);

    app.advance(holdfast_tests::service::LIFE);
    let _alive = app.token(&id).await.expect(200);
    app.fail(&id).await;

    assert!(count("rotated").await >= rotated + 1.0);
    assert!(count("rejected").await >= refused + 1.0);
    let (status, text) = app.plain("/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "# TYPE holdfast_exchanges_total counter",
        "holdfast_refreshes_due{",
        "holdfast_refreshes_overdue{",
        "holdfast_exchanges_open ",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
