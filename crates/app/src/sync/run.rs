//! A job of kind `sync`: page by page, each kept with its cursor, until nothing more has changed or it is another's turn. A
//! job that breaks off anywhere goes on behind the last page that was kept.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    ApiClient, ConnectorId,
    error::{Error, ErrorKind, Retry},
    job::{Fault, Outcome},
    mirror::Feed,
    ports::{Changed, StoreError},
};
use holdfast_store::{ClaimedJob, Kept, Mirror, MirrorPage};
use tracing::{debug, info};

use super::feed;
use crate::{app::App, jobs::Handler, words};

/// What a person has to set right at the provider is looked at again after this.
const FORBIDDEN_FOR: TimeDelta = TimeDelta::hours(1);

/// Syncs the connector that its job names.
pub(crate) struct Syncs;

#[async_trait]
impl Handler for Syncs {
    async fn run(&self, app: &Arc<App>, claimed: &ClaimedJob) -> Outcome {
        let Some(connector) = &claimed.job.connector else { return Outcome::Done };
        let done = sync(app, connector).await;
        done.unwrap_or_else(|error| Outcome::Failed(Fault::new("ours", error.to_string()), Retry::Backoff))
    }
}

async fn sync(app: &Arc<App>, connector: &ConnectorId) -> Result<Outcome, StoreError> {
    let Some(known) = app.engine.snapshot(connector).await? else { return Ok(Outcome::Done) };
    let Some(feed) = feed(app, &known.provider) else { return Ok(Outcome::Done) };
    let Some(api) = ApiClient::new(&app.engine, &known) else { return Ok(Outcome::Done) };
    let until = app.seams.clock.uptime() + app.config.sync.slice;
    let mut slice = Slice { app, feed, api: &api, begun_anew: false };
    loop {
        let Some(mirror) = app.store.mirror(connector).await? else { return Ok(Outcome::Done) };
        if let Some(outcome) = slice.page(&mirror).await? {
            return Ok(outcome);
        }
        if app.draining.is_cancelled() || app.seams.clock.uptime() >= until {
            app.store.sync_soon(connector, app.seams.clock.now()).await?;
            return Ok(Outcome::Done);
        }
    }
}

/// One go at a connector.
struct Slice<'a> {
    app: &'a Arc<App>,
    feed: &'a dyn Feed,
    api: &'a ApiClient,
    /// The cursor was refused, and another one taken.
    begun_anew: bool,
}

impl Slice<'_> {
    /// Reads and keeps one page. `None`: there are more.
    async fn page(&mut self, mirror: &Mirror) -> Result<Option<Outcome>, StoreError> {
        let before = self.app.seams.clock.now();
        // Pages behind the first one may leave out what changed since it was asked for.
        let walk_began_at = mirror.walk_began_at.unwrap_or(before);
        let cursor = mirror.cursor.clone().unwrap_or_else(|| self.feed.begin(self.since(before)));
        let page = match self.feed.page(self.api, &cursor).await {
            Ok(page) => page,
            Err(error) if error.kind == ErrorKind::Invalid && mirror.cursor.is_some() && !self.begun_anew => {
                return self.begin_anew(mirror, &error).await;
            }
            Err(error) => return self.failed(mirror, error).await.map(Some),
        };
        let lag = TimeDelta::from_std(self.feed.lag()).unwrap_or_default();
        let now = self.app.seams.clock.now();
        let kept = MirrorPage {
            mirror,
            changes: &page.changes,
            cursor: &page.cursor,
            walk_began_at,
            as_of: page.caught_up.then_some(walk_began_at - lag),
            news_since: now - delta(self.app.config.webhooks.park),
            at: now,
        };
        let connector = &mirror.connector;
        match self.app.store.keep_page(&kept).await? {
            Kept::Overtaken => Ok(Some(Outcome::Done)),
            Kept::Yes { told } => {
                debug!(connector.id = %connector, tickets = page.changes.len(), told, "kept a page of a sync");
                Ok(page.caught_up.then_some(Outcome::Done))
            }
        }
    }

    /// How far back the first sync reads.
    fn since(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        now - TimeDelta::days(self.app.config.sync.first_days.into())
    }

    /// The provider takes the cursor no more. From the moment that the mirror shows on, nothing is lost.
    async fn begin_anew(&mut self, mirror: &Mirror, error: &Error) -> Result<Option<Outcome>, StoreError> {
        self.begun_anew = true;
        let since = mirror.as_of.unwrap_or_else(|| self.since(self.app.seams.clock.now()));
        info!(connector.id = %mirror.connector, "a sync begins anew, its cursor was refused: {error}");
        let moved = self.app.store.restart_sync(mirror, &self.feed.begin(since)).await?;
        Ok((moved == Changed::No).then_some(Outcome::Done))
    }

    async fn failed(&self, mirror: &Mirror, error: Error) -> Result<Outcome, StoreError> {
        let now = self.app.seams.clock.now();
        let detail = words::sentence(&error.message);
        if error.kind == ErrorKind::AuthFailed {
            return Ok(Outcome::NeedsReconnect(Fault::new("auth_failed", detail)));
        }
        let fault = Fault::new(words::kind(error.kind), detail);
        let later = match (error.kind, error.retry) {
            (ErrorKind::Forbidden, _) => Some(now + FORBIDDEN_FOR),
            (ErrorKind::Busy, Retry::After(pause)) => Some(now + TimeDelta::from_std(pause).unwrap_or(FORBIDDEN_FOR)),
            _ => None,
        };
        self.app.store.note_sync_fault(&mirror.connector, &fault, later, now).await?;
        // Where it is known when to come again, the turn is put off, and no attempt is counted. What no repetition mends is
        // told on the connector's page, and the next turn looks again: dead jobs would say the same every few minutes.
        let over = later.is_some() || error.retry == Retry::Never;
        Ok(if over { Outcome::Done } else { Outcome::Failed(fault, error.retry) })
    }
}

fn delta(time: Duration) -> TimeDelta {
    TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX)
}
