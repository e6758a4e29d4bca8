//! Expiry where clocks and answers are odd: calls go on, and nobody is failed for it.

use std::{sync::Arc, time::Duration};

use holdfast_app::config::Config;
use holdfast_sandbox::{Canned, GrantRequest, TokenAnswer};
use holdfast_tests::{
    database::Database,
    on_both,
    service::{Builder, TestApp},
    wait::within,
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    a_clock_that_is_behind_the_providers_costs_no_call,
    an_end_by_the_providers_clock_costs_no_call,
    a_life_in_milliseconds_costs_no_call,
    what_is_refreshed_ahead_never_meets_its_end,
    how_far_the_clocks_are_off_is_measured,
}

const ME: &str = "api/v2/users/me.json";
const BOUND: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_secs(10);
const TEN_MINUTES: Duration = Duration::from_mins(10);

/// Tokens of a quarter of an hour.
fn short(config: &mut Config) {
    let zendesk = config.providers.by_id.entry("zendesk".to_owned()).or_default();
    zendesk.access_token_life = Some(Duration::from_mins(15));
}

async fn start(db: &Arc<Database>, change: impl FnOnce(Builder) -> Builder) -> TestApp {
    change(TestApp::builder(db).with(short)).start().await
}

/// A connector with a grant of a quarter of an hour, of whose end is told what `end` makes of it.
async fn import(app: &TestApp, end: impl FnOnce(&TokenAnswer) -> Value) -> String {
    let grant = app.acme.grant(&GrantRequest { expires_in: Some(900), ..GrantRequest::default() }).unwrap();
    let mut credential = end(&grant);
    credential["access_token"] = json!(grant.access_token);
    credential["refresh_token"] = json!(grant.refresh_token);
    credential["scope"] = json!(grant.scope);
    let body = json!({ "provider": "zendesk", "account": "acme", "credential": credential });
    app.post("/connectors", body).await.expect(201).text_of("id")
}

/// A call every ten seconds for so long; each has to go well.
async fn call_for(app: &TestApp, id: &str, time: Duration) {
    let mut passed = Duration::ZERO;
    while passed < time {
        let answer = app.proxy(Method::GET, id, ME, "").await;
        assert_eq!(answer.status, 200, "after {passed:?}: {}", answer.text);
        app.advance(STEP);
        passed += STEP;
    }
}

/// The instance's clock runs ahead of the database's; the provider's answers are dated by the wall.
async fn how_far_the_clocks_are_off_is_measured(db: Arc<Database>) {
    let app = start(&db, |builder| builder).await;
    let id = import(&app, |grant| json!({"expires_in": grant.expires_in})).await;
    app.advance(TEN_MINUTES * 2);
    let _alive = app.token(&id).await.expect(200);

    // The numbers are the process's, which other tests share.
    for of in ["database", "zendesk"] {
        let name = format!("holdfast_clock_ahead_seconds{{of=\"{of}\"}} ");
        within(&format!("the clock of {of} is seen to be behind"), BOUND, async || {
            let (_, text) = app.plain("/metrics").await;
            let ahead: Option<f64> = text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok());
            if ahead.is_some_and(|secs| secs < -1000.0) { Ok(()) } else { Err(ahead) }
        })
        .await;
    }
    still_connected(&app, &id).await;
}

async fn still_connected(app: &TestApp, id: &str) {
    assert_eq!(app.show(id).await["health"], "connected");
}

/// EX-05, first variant: lives are relative, so our own clock does not matter.
async fn a_clock_that_is_behind_the_providers_costs_no_call(db: Arc<Database>) {
    let app = start(&db, |builder| builder).await;
    app.sandbox.advance(TEN_MINUTES);
    let id = import(&app, |grant| json!({ "expires_in": grant.expires_in })).await;

    call_for(&app, &id, Duration::from_mins(20)).await;

    let counters = app.acme.counters();
    assert_eq!(counters.unauthorized, 0, "the API never had to refuse a token");
    assert!((1..=3).contains(&counters.exchanges), "{} exchanges in 20 minutes", counters.exchanges);
    still_connected(&app, &id).await;
}

/// EX-05, second variant: one 401 for each life at most, which no caller sees.
async fn an_end_by_the_providers_clock_costs_no_call(db: Arc<Database>) {
    let app = start(&db, |builder| builder).await;
    app.sandbox.advance(TEN_MINUTES);
    let end = app.sandbox.now() + Duration::from_mins(15);
    let id = import(&app, |_| json!({ "expires_at": end.to_rfc3339() })).await;

    call_for(&app, &id, Duration::from_mins(40)).await;

    let counters = app.acme.counters();
    assert!(counters.unauthorized <= 1, "{} refused", counters.unauthorized);
    assert!((2..=5).contains(&counters.exchanges), "{} exchanges in 40 minutes", counters.exchanges);
    still_connected(&app, &id).await;
}

/// EX-07
async fn a_life_in_milliseconds_costs_no_call(db: Arc<Database>) {
    let app = start(&db, |builder| builder).await;
    let id = app.import_with("acme", json!({})).await;
    let answer = r#"{"access_token": "{access_token}", "refresh_token": "{refresh_token}", "token_type": "bearer",
                     "scope": "read write", "expires_in": 900000}"#;
    app.acme.trouble(|faults| faults.token_answer = Some(Canned::new(200, answer).after_processing()));
    app.advance(Duration::from_mins(31));

    call_for(&app, &id, Duration::from_hours(1)).await;

    let counters = app.acme.counters();
    assert!((1..=5).contains(&counters.unauthorized), "{} refused", counters.unauthorized);
    assert!(counters.exchanges <= 6, "one for each true life: {}", counters.exchanges);
    still_connected(&app, &id).await;
}

/// EX-10, as far as it is about being ahead: whatever an API says about a token that is over, it is never asked to.
async fn what_is_refreshed_ahead_never_meets_its_end(db: Arc<Database>) {
    let app = start(&db, |builder| builder).await;
    let id = app.import("acme").await;
    let mut scheduler = app.app.scheduler();

    for _ in 0..120 {
        scheduler.round().await.unwrap();
        let answer = app.proxy(Method::GET, &id, ME, "").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        app.advance(Duration::from_mins(1));
    }

    let counters = app.acme.counters();
    assert_eq!(counters.unauthorized, 0);
    let timeline = app.timeline(&id).await;
    let exchanges: Vec<_> = timeline.iter().filter(|line| line["kind"] == "exchange").collect();
    // The first token lives for half an hour, and each a little less or more than the others, by its credential.
    assert!(exchanges.len() >= 6 && exchanges.iter().all(|line| line["actor"] == "schedule"), "{exchanges:?}");
}
