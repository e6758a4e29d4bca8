//! The mirror of helpdesks' tickets: when a connector is synced, and what is done in a job of kind `sync`.
//!
//! - `run`: the job.
//! - `search`: `search_tickets` from the mirror.

mod run;
mod search;

use chrono::TimeDelta;
use holdfast_core::{
    ConnectorId,
    mirror::Feed,
    ports::{Changed, StoreError},
};
use holdfast_store::{ByHand, Mirror};
use tracing::warn;

use crate::app::App;

pub(crate) use run::Syncs;
pub(crate) use search::from_mirror;

/// Connectors that one look takes at most; there is another one within a second.
const AT_ONCE: u32 = 100;

/// One look: the jobs for what is due are put into the queue. Any number of replicas may do it.
pub async fn round(app: &App) -> Result<(), StoreError> {
    if !app.config.sync.enabled {
        return Ok(());
    }
    let now = app.seams.clock.now();
    let next = now + TimeDelta::from_std(app.config.sync.every).unwrap_or(TimeDelta::MAX);
    for due in app.store.due_syncs(now, AT_ONCE).await? {
        let next = feed(app, &due.provider).map(|_| next);
        // Another replica may have been faster.
        let _claimed = app.store.claim_sync(&due, next, now).await?;
    }
    Ok(())
}

/// What changes at this provider; `None`: it is no helpdesk, or nobody here syncs.
pub(crate) fn feed<'a>(app: &'a App, provider: &str) -> Option<&'a dyn Feed> {
    app.engine.providers().find(provider).filter(|_| app.config.sync.enabled)?.feed()
}

/// The mirror of a connector, where one is kept.
pub(crate) async fn mirror(app: &App, provider: &str, connector: &ConnectorId) -> Result<Option<Mirror>, StoreError> {
    if feed(app, provider).is_none() {
        return Ok(None);
    }
    app.store.mirror(connector).await
}

/// A person wants it synced now: a job that rests after a failure goes on, too. `No`: the connector does not work.
pub(crate) async fn now(app: &App, mirror: &Mirror, actor: &str) -> Result<Changed, StoreError> {
    let at = app.seams.clock.now();
    let changed = app.store.sync_soon(&mirror.connector, at).await?;
    if let Some(job) = &mirror.job {
        app.store.handle_job(&mirror.org, job.as_str(), ByHand::Retry, actor, at).await?;
    }
    app.hooks.due.notify_one();
    Ok(changed)
}

/// Events of this connector may be missing: what the mirror finds takes their place.
pub(crate) async fn catch_up(app: &App, connector: &ConnectorId) {
    if !app.config.sync.enabled {
        return;
    }
    match app.store.sync_soon(connector, app.seams.clock.now()).await {
        Ok(_) => app.hooks.due.notify_one(),
        Err(error) => warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not ask for a sync"),
    }
}
