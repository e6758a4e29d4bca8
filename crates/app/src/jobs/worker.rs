//! The worker of a replica: it looks when it is told of jobs, when a place is free, when the next one is due, and once in a
//! while in any case.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use chrono::TimeDelta;
use futures::FutureExt as _;
use holdfast_core::{
    error::Retry,
    job::{Fault, Kind, Outcome},
    ports::{Changed, StoreError},
};
use holdfast_store::{Attempt, ClaimedJob, JobsWanted, Turn};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tracing::{Instrument as _, info_span, warn};

use super::Handler;
use crate::app::App;

/// Jobs that are taken at a time.
const BATCH: usize = 100;
/// What is due and not to be had, others are about to make ready.
const LEAST_PAUSE: Duration = Duration::from_millis(10);
/// Between two looks at what is parked.
const TEND_EVERY: Duration = Duration::from_secs(10);
/// Between two looks for what is too old.
const FORGET_EVERY: Duration = Duration::from_mins(10);

/// What a worker remembers.
#[derive(Default)]
struct Worker {
    turns: BTreeMap<Kind, Turn>,
    /// By our uptime.
    recovered: Option<Duration>,
    tended: Option<Duration>,
    forgot: Option<Duration>,
}

impl App {
    /// Works off what is ready, here and now, until nothing is; answers how many attempts that were. Jobs that fail are
    /// tried again when they are due, and so by a later call. The worker does the same by itself; this is for whoever
    /// wants to see the end of it.
    pub async fn run_due_jobs(self: &Arc<Self>) -> Result<usize, StoreError> {
        let mut worker = Worker::default();
        worker.tidy(self).await?;
        let mut count = 0;
        loop {
            let mut taken = Vec::new();
            let mut moved = false;
            for kind in self.jobs.kinds() {
                let claims = worker.claim(self, kind, BATCH).await?;
                moved |= claims.1;
                taken.extend(claims.0);
            }
            if taken.is_empty() && !moved {
                return Ok(count);
            }
            count += taken.len();
            let attempts = futures::future::join_all(taken.iter().map(|claimed| attempt(self, claimed))).await;
            self.store.settle_jobs(&attempts).await?;
        }
    }
}

/// Works off jobs until the service is asked to stop. A drain waits for those that have begun; those that have not are
/// given back.
pub(crate) async fn work(app: Arc<App>) {
    let mut worker = Worker::default();
    let mut signals = app.store.subscribe_jobs();
    let mut kinds: BTreeSet<Kind> = app.jobs.kinds().into_iter().collect();
    while !app.draining.is_cancelled() {
        let (full, due) = match worker.look(&app, &kinds).await {
            Ok(found) => found,
            Err(error) => {
                warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not look for jobs");
                (BTreeSet::new(), None)
            }
        };
        kinds = full;
        if !kinds.is_empty() {
            continue;
        }
        let all = || app.jobs.kinds().into_iter().collect();
        let interval = app.config.jobs.loop_interval;
        let pause = due.map_or(interval, |due| due.max(LEAST_PAUSE).min(interval));
        tokio::select! {
            told = signals.recv() => match told {
                Ok(told) => { kinds.insert(told.kind); }
                Err(RecvError::Lagged(_)) => kinds = all(),
                Err(RecvError::Closed) => return,
            },
            () = app.jobs.running.freed.notified() => kinds = all(),
            () = app.seams.clock.sleep(pause) => kinds = all(),
            () = app.draining.cancelled() => {}
        }
        // Signals that came together are one look.
        loop {
            match signals.try_recv() {
                Ok(told) => {
                    kinds.insert(told.kind);
                }
                Err(TryRecvError::Lagged(_)) => kinds = all(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
    }
}

/// Gives signs of life of what runs here, until the service has stopped.
pub(crate) async fn keep_alive(app: Arc<App>) {
    let every = app.config.jobs.lease / 3;
    loop {
        tokio::select! {
            () = app.seams.clock.sleep(every) => app.jobs.running.renew(&app).await,
            () = app.stop.cancelled() => return,
        }
    }
}

impl Worker {
    /// Takes and begins what there are places for. Answers of which kinds there may be more at once, and when the next
    /// job is due.
    async fn look(
        &mut self,
        app: &Arc<App>,
        kinds: &BTreeSet<Kind>,
    ) -> Result<(BTreeSet<Kind>, Option<Duration>), StoreError> {
        let due = self.tidy(app).await?;
        let mut full = BTreeSet::new();
        for &kind in kinds {
            let Some(handler) = app.jobs.handler(kind) else { continue };
            let places = app.config.jobs.at_once(kind).saturating_sub(app.jobs.running.count(kind)).min(BATCH);
            if places == 0 {
                continue;
            }
            // Counted from before it was asked for: a slow answer only shortens it.
            let until = app.seams.clock.uptime() + app.config.jobs.lease;
            let (taken, moved) = self.claim(app, kind, places).await?;
            if moved || taken.len() == places {
                full.insert(kind);
            }
            for claimed in taken {
                begin(app, &handler, claimed, until);
            }
        }
        Ok((full, due))
    }

    async fn claim(&mut self, app: &App, kind: Kind, count: usize) -> Result<(Vec<ClaimedJob>, bool), StoreError> {
        let config = &app.config.jobs;
        let wanted = JobsWanted { kind, count, per_connector: config.per_connector(kind), lease: config.lease };
        let turn = self.turns.entry(kind).or_default();
        let claims = app.store.claim_jobs(&wanted, turn, app.seams.clock.now()).await?;
        Ok((claims.jobs, claims.moved))
    }

    /// What is to be done beside: each step looks, compares, and moves what it finds. Answers when the next job is due.
    async fn tidy(&mut self, app: &App) -> Result<Option<Duration>, StoreError> {
        let (now, uptime, config) = (app.seams.clock.now(), app.seams.clock.uptime(), &app.config.jobs);
        let days = |days: u32| now - TimeDelta::days(i64::from(days));
        if is_time(&mut self.recovered, uptime, config.loop_interval) {
            app.store.recover_jobs(now, |kind| app.job_policy(kind), || app.seams.random.unit()).await?;
        }
        if is_time(&mut self.tended, uptime, TEND_EVERY) {
            app.store.tend_parked_jobs(now, days(config.parked_at_most_days)).await?;
        }
        if is_time(&mut self.forgot, uptime, FORGET_EVERY) {
            app.store.forget_jobs(days(config.keep_done_days), days(config.keep_dead_days)).await?;
            while app.store.forget_events(days(app.config.events.keep_days)).await? == Changed::Yes {}
        }
        let due = app.store.ready_due_jobs(now).await?;
        Ok(due.map(|due| (due - now).to_std().unwrap_or_default()))
    }
}

fn is_time(last: &mut Option<Duration>, now: Duration, every: Duration) -> bool {
    let is_time = last.is_none_or(|last| now.saturating_sub(last) >= every);
    if is_time {
        *last = Some(now);
    }
    is_time
}

/// Begins one on a task of its own, which ends when that is written down.
fn begin(app: &Arc<App>, handler: &Arc<dyn Handler>, claimed: ClaimedJob, until: Duration) {
    let lost = app.jobs.running.begin(&claimed, until);
    let (worker, handler) = (Arc::clone(app), Arc::clone(handler));
    app.engine.spawn(async move {
        let app = &worker;
        let attempt = if app.draining.is_cancelled() {
            Some(ended(app, &claimed, Outcome::GivenBack))
        } else {
            tokio::select! {
                attempt = attempt_with(app, handler.as_ref(), &claimed) => Some(attempt),
                () = lost.cancelled() => None,
            }
        };
        if let Some(attempt) = attempt {
            app.jobs.running.write_down(attempt).await;
        } else {
            let id = &claimed.job.id;
            warn!(job.id = %id, job.kind = claimed.job.kind.as_str(), "job {id} is not ours any more: stopped at it");
            app.jobs.running.end(&claimed);
        }
    });
}

async fn attempt(app: &Arc<App>, claimed: &ClaimedJob) -> Attempt {
    match app.jobs.handler(claimed.job.kind) {
        Some(handler) => attempt_with(app, handler.as_ref(), claimed).await,
        None => ended(app, claimed, Outcome::GivenBack),
    }
}

async fn attempt_with(app: &Arc<App>, handler: &dyn Handler, claimed: &ClaimedJob) -> Attempt {
    let job = &claimed.job;
    let span = info_span!(
        "job", job.id = %job.id, job.kind = job.kind.as_str(), job.attempt = job.attempts, org.id = %job.org,
        connector.id = job.connector.as_ref().map(tracing::field::display)
    );
    let run = AssertUnwindSafe(handler.run(app, claimed)).catch_unwind().instrument(span);
    let outcome = tokio::select! {
        outcome = run => outcome.unwrap_or_else(|_| {
            let detail = "Something went wrong on our side; the log has more.";
            Outcome::Failed(Fault::new("internal", detail), Retry::Backoff)
        }),
        () = app.seams.clock.sleep(app.config.jobs.longest_attempt) => {
            let detail = "It took too long and was broken off; how far it came is unknown.";
            Outcome::Failed(Fault::new("timed_out", detail), Retry::Backoff)
        }
    };
    ended(app, claimed, outcome)
}

fn ended(app: &App, claimed: &ClaimedJob, outcome: Outcome) -> Attempt {
    Attempt {
        claimed: claimed.clone(),
        outcome,
        policy: app.job_policy(claimed.job.kind),
        unit: app.seams.random.unit(),
        at: app.seams.clock.now(),
    }
}
