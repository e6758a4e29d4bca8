//! What providers send by themselves: `/hooks/{endpoint}`.
//!
//! - [`body`]: the bytes, bounded in size, time and memory.
//! - [`receive`]: from a request to an answer; no provider is asked anything meanwhile.
//! - [`keys`]: public keys of those who sign, fetched beside.
//! - [`tally`]: what is turned away, counted in memory and written down every second.
//! - [`manage`]: addresses, made and given a secret; what people see of them.
//! - [`event`]: what is done with an event.
//! - [`subscriptions`]: what makes providers send, and when it is looked at.

mod body;
mod event;
mod keys;
pub mod manage;
mod masked;
mod receive;
pub mod subscriptions;
mod tally;

use std::{sync::Arc, time::Duration};

use axum::{Router, routing::any};
use chrono::TimeDelta;
use tokio::sync::Notify;
use tracing::warn;

use crate::{app::App, sync};

pub(crate) use event::Events;
pub(crate) use keys::Keys;
pub(crate) use tally::Tally;

/// Between two times that counts are written down.
const EVERY: Duration = Duration::from_secs(1);
/// Between two looks for what is too old.
const FORGET_EVERY: Duration = Duration::from_mins(1);
/// So many are forgotten in one statement: it must not hold up what arrives.
const FORGOTTEN_AT_ONCE: u64 = 1000;

/// What this replica remembers of webhooks.
#[derive(Default)]
pub struct Hooks {
    pub(crate) keys: Keys,
    pub(crate) tally: Tally,
    pub(crate) held: body::Held,
    /// A subscription is to be looked at, or a connector to be synced, now.
    pub(crate) due: Notify,
}

/// The one route, for every method: a sender that uses another one is told by its adapter.
pub fn router(app: Arc<App>) -> Router {
    Router::new().route("/hooks/{endpoint}", any(receive::receive)).with_state(app)
}

/// Whether programs call here, and read problems instead of pages.
pub(crate) fn is_hook(path: &str) -> bool {
    path.starts_with("/hooks/")
}

/// Writes down what was turned away, fetches keys and forgets what is old, until the service is asked to stop.
pub(crate) async fn work(app: Arc<App>) {
    let mut forgot = None;
    loop {
        let stopping = app.draining.is_cancelled();
        round(&app).await;
        if stopping {
            return;
        }
        if let Err(error) = subscriptions::round(&app).await {
            warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not look for webhooks to look at");
        }
        if let Err(error) = sync::round(&app).await {
            warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not look for mirrors to sync");
        }
        let now = app.seams.clock.uptime();
        if forgot.is_none_or(|at| now.saturating_sub(at) >= FORGET_EVERY) {
            forgot = Some(now);
            forget(&app).await;
        }
        tokio::select! {
            () = app.seams.clock.sleep(EVERY) => {}
            () = app.hooks.keys.wanted() => {}
            () = app.hooks.due.notified() => {}
            () = app.draining.cancelled() => {}
        }
    }
}

/// One look: what was turned away is written down, what is wanted is fetched.
pub async fn round(app: &App) {
    if let Err(error) = app.hooks.tally.write_down(&app.store).await {
        warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not note what webhooks turned away");
    }
    app.hooks.keys.fetch_wanted(app).await;
}

/// Events follow their jobs; then bodies and rows go that were kept for long enough.
pub async fn forget(app: &App) {
    if let Err(error) = app.store.follow_jobs(app.seams.clock.now()).await {
        warn!(
            error = format!("{:#}", anyhow::Error::new(error)),
            "could not look for events whose jobs were given up or wait"
        );
    }
    if let Err(error) = app.store.end_given_up_runs(app.seams.clock.now()).await {
        warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not look for runs that were given up");
    }
    let (now, settings) = (app.seams.clock.now(), &app.config.webhooks);
    let before = |kept: Duration| now - TimeDelta::from_std(kept).unwrap_or(TimeDelta::MAX);
    let (bodies, rows) = (before(settings.keep_bodies), before(settings.keep));
    loop {
        match app.store.forget_deliveries(bodies, rows, FORGOTTEN_AT_ONCE).await {
            Ok(gone) if gone >= FORGOTTEN_AT_ONCE && !app.draining.is_cancelled() => {}
            Ok(_) => return,
            Err(error) => {
                warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not forget old deliveries");
                return;
            }
        }
    }
}
