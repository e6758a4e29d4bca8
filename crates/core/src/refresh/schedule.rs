//! The scheduler: refreshes what is due ahead of its expiry, whether anybody asks for it or not. Every replica runs one,
//! and they claim past each other.
//!
//! Each OAuth app has a lane of its own, with its own limits and its own claims, so a provider that is slow, busy or
//! behind takes nothing from another one. What comes of a refresh is written by its flight, as for any caller.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    AuthError, Engine, Need,
    engine::{FlightResult, ROUNDS, chain, landed},
    lane::Lane,
    timing,
};
use crate::{
    credential::Trouble,
    oauth_app::AppId,
    ports::{ClaimDue, DueRefresh, DueStore, Place, StoreError, Trigger},
};

pub use super::lane::{Allowance, share};

/// A refresh that brought nothing and left no back-off of its own rests for this long.
const IDLE_REST: Duration = Duration::from_mins(1);
/// What has been due for so long was missed: nobody was there to refresh it.
const MISSED_AFTER: Duration = Duration::from_mins(1);
/// How long this replica's place among the live ones is believed; a replica counts as dead after some seconds only.
const PLACE_HOLDS: Duration = Duration::from_secs(1);

/// The numbers of the scheduler; `Default` is what `config/default.toml` says.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleSettings {
    /// How often it looks.
    pub interval: Duration,
    /// Most credentials of one claim.
    pub batch: u32,
    /// How long a claim keeps others away. That of a replica that died is free after it.
    pub claim: Duration,
    /// Access tokens that ended while nobody was there to refresh them are renewed over this time; zero: at once.
    pub catch_up: Duration,
    /// What an OAuth app may be asked.
    pub allowance: Allowance,
    /// The same for the apps of single providers.
    pub providers: BTreeMap<String, Allowance>,
}

impl Default for ScheduleSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            batch: 64,
            claim: Duration::from_mins(1),
            catch_up: Duration::from_mins(5),
            allowance: Allowance { at_once: 64, per_second: None },
            providers: BTreeMap::new(),
        }
    }
}

impl ScheduleSettings {
    fn allowance_of(&self, app: &AppId) -> Allowance {
        self.providers.get(app.provider()).copied().unwrap_or(self.allowance)
    }
}

/// One replica's scheduler.
pub struct Scheduler {
    engine: Arc<Engine>,
    due: Arc<dyn DueStore>,
    settings: ScheduleSettings,
    /// Of each app that has had something to do, and of the instance's in any case.
    lanes: BTreeMap<AppId, Lane>,
    refreshes: JoinSet<(AppId, Ended)>,
    /// With the uptime at which it was asked for.
    place: Option<(Place, Duration)>,
    /// By the uptime.
    looked_at: Option<Duration>,
}

/// What a refresh means for its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Refreshed,
    Busy(Duration),
    Nothing,
}

impl Scheduler {
    /// Does nothing yet.
    pub fn new(engine: Arc<Engine>, due: Arc<dyn DueStore>, settings: ScheduleSettings) -> Self {
        let ids = engine.providers().iter().map(|provider| AppId::instance(provider.about().id));
        let lanes = ids.map(|app| (app.clone(), Lane::new(settings.allowance_of(&app)))).collect();
        Self { engine, due, settings, lanes, refreshes: JoinSet::new(), place: None, looked_at: None }
    }

    /// Goes on until `stop`, looking every so often and at each `wake`. Refreshes under way at the end go on: the engine's
    /// drain waits for them.
    pub async fn run(mut self, wake: &Notify, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let look_again = self.uptime() + self.settings.interval;
            if let Err(error) = self.look().await {
                warn!(error = %chain(&error), "could not look for what is due");
            }
            while self.uptime() < look_again {
                self.fill().await;
                let engine = Arc::clone(&self.engine);
                let pause_ends = self.next_start().map_or(look_again, |at| at.min(look_again));
                tokio::select! {
                    Some(over) = self.refreshes.join_next() => { self.take(over); }
                    () = engine.clock().sleep(pause_ends.saturating_sub(engine.clock().uptime())) => {}
                    () = wake.notified() => break,
                    () = stop.cancelled() => break,
                }
            }
        }
        self.give_back().await;
    }

    /// Refreshes all that is due now, as fast as the limits let it. Answers how many were refreshed here.
    pub async fn round(&mut self) -> Result<usize, StoreError> {
        self.look().await?;
        let mut refreshed = 0;
        loop {
            self.fill().await;
            if self.lanes.values().all(Lane::is_idle) {
                return Ok(refreshed);
            }
            let engine = Arc::clone(&self.engine);
            let pause =
                self.next_start().map_or(self.settings.interval, |at| at.saturating_sub(engine.clock().uptime()));
            tokio::select! {
                Some(ended) = self.refreshes.join_next() => refreshed += usize::from(self.take(ended)),
                () = engine.clock().sleep(pause) => {}
            }
        }
    }

    /// Finds out which lanes have work.
    async fn look(&mut self) -> Result<(), StoreError> {
        let uptime = self.uptime();
        let gap = self.settings.interval + MISSED_AFTER;
        let was_away = self.looked_at.replace(uptime).is_none_or(|at| uptime.saturating_sub(at) > gap);
        let engine = Arc::clone(&self.engine);
        let ids: Vec<&str> = engine.providers().iter().map(|provider| provider.about().id).collect();
        let now = self.engine.now();
        let missed = now - timing::delta(MISSED_AFTER);
        for (app, first) in self.due.first_due(&ids, now).await? {
            if was_away && first < missed && !self.settings.catch_up.is_zero() {
                let count = self.due.put_off_missed(&app, missed, now, self.settings.catch_up).await?;
                let over = self.settings.catch_up.as_secs();
                info!(
                    "{count} access tokens of {} ended while nobody refreshed them; they follow within {over} s",
                    app.provider()
                );
            }
            let allowance = self.settings.allowance_of(&app);
            self.lanes.entry(app).or_insert_with(|| Lane::new(allowance)).more = true;
        }
        Ok(())
    }

    /// Claims for each lane and begins what may be begun.
    async fn fill(&mut self) {
        if self.lanes.values().all(|lane| !lane.more && lane.is_idle()) {
            return;
        }
        let place = match self.find_place().await {
            Ok(place) => place,
            Err(error) => return warn!(error = %chain(&error), "could not count the live replicas"),
        };
        let Self { engine, due, settings, lanes, refreshes, .. } = self;
        for (app, lane) in lanes {
            let provider = app.provider();
            loop {
                while let Some(begun) = lane.begin(place, engine.clock().uptime()) {
                    let late = (engine.now() - begun.due_at).to_std().unwrap_or_default();
                    engine.ports.meter.late(provider, late);
                    let (engine, app) = (Arc::clone(engine), app.clone());
                    refreshes.spawn(async move { (app, engine.refresh_ahead(&begun).await) });
                }
                let limit = lane.wants(place).min(settings.batch);
                if !lane.more || limit == 0 {
                    break;
                }
                let asked = engine.clock().uptime();
                let (now, holder) = (engine.now(), engine.holder.as_str());
                let claim = ClaimDue { app, now, holder, ttl: settings.claim, limit };
                match due.claim_due(&claim).await {
                    Ok(claimed) => {
                        lane.more = claimed.len() == limit as usize;
                        engine.ports.meter.claimed(provider, claimed.len());
                        lane.keep(claimed, asked + settings.claim / 2);
                    }
                    Err(error) => {
                        lane.more = false;
                        warn!(provider, error = %chain(&error), "could not claim what is due");
                    }
                }
            }
        }
    }

    async fn find_place(&mut self) -> Result<Place, StoreError> {
        let now = self.uptime();
        if let Some((place, asked)) = self.place
            && now.saturating_sub(asked) < PLACE_HOLDS
        {
            return Ok(place);
        }
        let place = self.due.place(&self.engine.holder).await?;
        self.place = Some((place, now));
        Ok(place)
    }

    /// Takes note of an end. Answers whether it was a refresh.
    fn take(&mut self, over: Result<(AppId, Ended), tokio::task::JoinError>) -> bool {
        let refreshed = matches!(&over, Ok((_, Ended::Refreshed)));
        let (now, place) = (self.uptime(), self.place.map_or(Place { rank: 0, of: 1 }, |(place, _)| place));
        match over {
            Ok((app, ended)) => {
                let unit = self.engine.ports.random.unit();
                if let Some(lane) = self.lanes.get_mut(&app) {
                    lane.ended();
                    match ended {
                        Ended::Refreshed => lane.went_well(),
                        Ended::Busy(told) => lane.slow_down(told, place, now, unit),
                        Ended::Nothing => {}
                    }
                }
            }
            // The flights are on tasks of their own and panics are caught there: only a runtime that ends does this.
            Err(error) => warn!(%error, "a scheduled refresh was cut off"),
        }
        refreshed
    }

    /// When a lane with something that waits may begin it.
    fn next_start(&self) -> Option<Duration> {
        let place = self.place?.0;
        self.lanes.values().filter_map(|lane| lane.next_start(place)).min()
    }

    async fn give_back(&mut self) {
        let waiting: Vec<_> = self.lanes.values_mut().flat_map(Lane::take_waiting).map(|due| due.credential).collect();
        if !waiting.is_empty()
            && let Err(error) = self.due.give_back(&self.engine.holder, &waiting).await
        {
            warn!(error = %chain(&error), "could not give claims back; they end by themselves");
        }
    }

    fn uptime(&self) -> Duration {
        self.engine.clock().uptime()
    }
}

impl Engine {
    /// Refreshes one credential that is due. The flight writes what comes of it; what brought nothing and left no
    /// back-off rests for a while, so that one whose refresh cannot even begin (no OAuth app, an unreadable credential)
    /// is not begun again and again.
    async fn refresh_ahead(self: &Arc<Self>, due: &DueRefresh) -> Ended {
        let trouble = match self.fly_ahead(due).await {
            Ok(snapshot) if !is_due(&snapshot, self.now()) => return Ended::Refreshed,
            // A person's matter: it is not due any more.
            Err(AuthError::AuthFailed { .. } | AuthError::NotFound | AuthError::Pending | AuthError::Disconnected) => {
                return Ended::Nothing;
            }
            Err(AuthError::Unavailable { class: Trouble::Busy, retry_after, .. }) => {
                return Ended::Busy(retry_after);
            }
            Err(AuthError::AppRejected { .. }) => Trouble::AppBroken,
            Err(AuthError::Unreadable) => Trouble::Ours,
            Err(AuthError::Unavailable { class, .. }) => class,
            Ok(_) | Err(AuthError::StillGood) => Trouble::Transient,
        };
        let now = self.now();
        let rested = self.ports.store.postpone(&due.connector, trouble, now, now + timing::delta(IDLE_REST)).await;
        if let Err(error) = rested {
            warn!(error = %chain(&error), "could not let connector {} rest", due.connector);
        }
        Ended::Nothing
    }

    /// A flight that was under way may have been for less than this.
    async fn fly_ahead(self: &Arc<Self>, due: &DueRefresh) -> FlightResult {
        let mut round = 1;
        loop {
            let flown = landed(self.join(&due.connector, &due.credential, &Need::Ahead, Trigger::Schedule)).await;
            match &flown {
                Ok(snapshot) if is_due(snapshot, self.now()) && round < ROUNDS => round += 1,
                _ => return flown,
            }
        }
    }
}

/// Whether it is still to be refreshed, backing off or not.
fn is_due(snapshot: &crate::Snapshot, now: DateTime<Utc>) -> bool {
    snapshot.credential.due_at.is_some_and(|due| due <= now)
}
