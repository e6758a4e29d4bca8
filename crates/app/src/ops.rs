//! For the operator's tools: is it alive, is it ready, what do the numbers say. No secrets and no tenants here.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    job::{Kind, State as JobState},
    ports::Signals,
};
use holdfast_store::JobCount;
use metrics::{counter, gauge};
use serde_json::json;
use tracing::{error, warn};

use crate::{
    app::App,
    metrics::{
        EXCHANGES_OPEN, HELD, JOBS, JOBS_OLDEST_SECONDS, LIFEBOAT_FAILURES, LIFEBOAT_OK, LIFEBOAT_SETS, LIFEBOAT_TAKEN,
        LIFEBOAT_UNREADABLE, MAIL_TROUBLE_SECONDS, MAILS_OPEN, REFRESHES_DUE, REFRESHES_OVERDUE, clock_ahead,
    },
};

/// A refresh that has been due for longer is overdue: the scheduler does not keep up, or is kept from it.
pub(crate) const OVERDUE: TimeDelta = TimeDelta::minutes(1);

/// `/healthz`, `/readyz`, `/metrics`.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(numbers))
        .with_state(app)
}

/// Ready: the database answers, signals arrive, and the service is not stopping. Redis is told of and takes nobody out:
/// it is the same one for every replica, and without it they still serve what lives. Beside it, what is degraded.
async fn ready(State(app): State<Arc<App>>) -> impl IntoResponse {
    let database = app.store.ping().await;
    if let Err(error) = &database {
        warn!(%error, "not ready: the database does not answer");
    }
    // A file that was removed under us still answers, and keeps nothing.
    let there = app.config.database.sqlite_path().is_none_or(|path| path.exists());
    if !there {
        error!("not ready: the database file is gone; stop, and bring it back from a backup");
    }
    let checks = [
        ("database", database.is_ok() && there),
        ("signals", app.store.era().is_some()),
        ("serving", !app.draining.is_cancelled()),
    ];
    let all = checks.iter().all(|(_, good)| *good);
    let status = if all { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut checks: serde_json::Map<_, _> =
        checks.iter().map(|(name, good)| ((*name).to_owned(), json!(good))).collect();
    if let Some(redis) = &app.redis {
        checks.insert("redis".to_owned(), json!(redis.ping().await.is_ok()));
    }
    // Trouble that keeps nobody from serving: a balancer that took replicas out for it would turn it into an outage.
    let degraded: Vec<_> = app.lifeboat.state().await.trouble.map(|_| "lifeboat").into_iter().collect();
    (status, Json(json!({"ready": all, "checks": checks, "degraded": degraded})))
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 of anything here")]
async fn numbers(State(app): State<Arc<App>>) -> impl IntoResponse {
    let ids: Vec<_> = app.providers().iter().map(|provider| provider.about().id).collect();
    let now = app.seams.clock.now();
    if let Ok(counts) = app.store.due_counts(&ids, now, now - OVERDUE).await {
        for count in counts {
            gauge!(REFRESHES_DUE, "provider" => count.provider.clone()).set(count.due as f64);
            gauge!(REFRESHES_OVERDUE, "provider" => count.provider).set(count.overdue as f64);
        }
    }
    if let Ok(open) = app.store.open_exchange_count().await {
        gauge!(EXCHANGES_OPEN).set(open as f64);
    }
    if let Ok(ahead) = app.clock_ahead().await {
        clock_ahead("database", ahead);
    }
    if let Ok(held) = app.store.held_count().await {
        gauge!(HELD).set(held as f64);
    }
    if let Ok(counts) = app.store.count_jobs().await {
        jobs(&counts, app.seams.clock.now());
    }
    if let Ok(open) = app.store.open_mail_count().await {
        gauge!(MAILS_OPEN).set(open as f64);
    }
    if let Ok(trouble) = app.store.mail_trouble().await {
        let lasted = trouble.map_or(0, |trouble| (app.seams.clock.now() - trouble.since).num_seconds().max(0));
        gauge!(MAIL_TROUBLE_SECONDS).set(lasted as f64);
    }
    let lifeboat = app.lifeboat.state().await;
    gauge!(LIFEBOAT_SETS).set(lifeboat.sets as f64);
    gauge!(LIFEBOAT_UNREADABLE).set(lifeboat.unreadable as f64);
    gauge!(LIFEBOAT_OK).set(if lifeboat.trouble.is_none() { 1.0 } else { 0.0 });
    counter!(LIFEBOAT_TAKEN).absolute(lifeboat.taken);
    counter!(LIFEBOAT_FAILURES).absolute(lifeboat.failures);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render())
}

/// Of every kind and state, so that what is gone is 0.
#[expect(clippy::cast_precision_loss, reason = "gauges are floating point numbers")]
fn jobs(counts: &[JobCount], now: DateTime<Utc>) {
    for kind in Kind::ALL {
        let of = |state| counts.iter().find(|count| count.kind == kind && count.state == state);
        for state in JobState::ALL.into_iter().filter(|state| !matches!(state, JobState::Done | JobState::Discarded)) {
            let count = of(state).map_or(0, |count| count.count);
            gauge!(JOBS, "kind" => kind.as_str(), "state" => state.as_str()).set(count as f64);
        }
        let age = of(JobState::Ready).map_or(0.0, |ready| (now - ready.oldest).as_seconds_f64().max(0.0));
        gauge!(JOBS_OLDEST_SECONDS, "kind" => kind.as_str()).set(age);
    }
}
