//! Agents at work: what is due gets a run, a replica claims it, and goes through its playbook.
//!
//! - [`manage`]: what people and keys do to an agent.
//! - [`samples`]: playbooks to begin with.
//! - `run`: one run.
//! - `by_event`: runs that events ask for.

mod by_event;
pub mod manage;
mod run;
pub mod samples;

pub(crate) use by_event::EventRuns;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use holdfast_core::ports::StoreError;
use holdfast_store::Claimed;
use tokio::sync::{Notify, Semaphore};
use tracing::warn;

use crate::{app::App, tools};

/// Runs that are taken at a time.
const BATCH: u64 = 100;
/// Between two looks for idempotency keys that are too old.
const FORGET_EVERY: Duration = Duration::from_hours(1);

/// What the agents of this replica share.
#[derive(Default)]
pub struct Agents {
    wake: Notify,
    /// When old idempotency keys were last forgotten, by the uptime in seconds, plus one; 0: never.
    forgot: AtomicU64,
}

impl Agents {
    /// There is something to run: this replica looks at once.
    pub fn wake(&self) {
        self.wake.notify_one();
    }
}

impl App {
    /// Gives every agent that is due its run, takes runs that wait, and goes through them; at most a batch of each.
    /// Answers how many runs came to their end here. However many replicas do so at once, a run is one replica's. The
    /// worker does the same by itself; this is for whoever wants to see the end of it.
    pub async fn run_due_agents(self: &Arc<Self>) -> Result<usize, StoreError> {
        let claimed = claim(self, BATCH).await?;
        let runs = claimed.into_iter().map(|claimed| run::run(Arc::clone(self), claimed, |_| false));
        Ok(futures::future::join_all(runs).await.len())
    }
}

async fn claim(app: &Arc<App>, limit: u64) -> Result<Vec<Claimed>, StoreError> {
    let now = app.seams.clock.now();
    app.store.end_lost_runs(now).await?;
    forget_keys(app).await?;
    if limit == 0 {
        return Ok(Vec::new());
    }
    app.store.queue_due(now, limit, || app.seams.random.unit()).await?;
    app.store.claim_runs(now, app.config.agents.run_lease, limit).await
}

async fn forget_keys(app: &App) -> Result<(), StoreError> {
    let now = app.seams.clock.uptime().as_secs();
    let forgot = app.agents.forgot.load(Ordering::Relaxed);
    if forgot > 0 && now < forgot - 1 + FORGET_EVERY.as_secs() {
        return Ok(());
    }
    app.agents.forgot.store(now + 1, Ordering::Relaxed);
    app.store.forget_keys(app.seams.clock.now() - tools::KEY_LIFE).await.map(|_| ())
}

/// Runs agents until the service is asked to stop, a few at once. A drain waits for the step that each is at.
pub(crate) async fn work(app: Arc<App>) {
    let at_once = usize::try_from(app.config.agents.at_once).unwrap_or(usize::MAX);
    let free = Arc::new(Semaphore::new(at_once));
    while !app.draining.is_cancelled() {
        let places = free.available_permits();
        match claim(&app, places as u64).await {
            Ok(claimed) => {
                for claimed in claimed {
                    let place = Arc::clone(&free).try_acquire_owned().ok();
                    let worker = Arc::clone(&app);
                    app.engine.spawn(async move {
                        // Why it ended stands in the run.
                        let _ended = run::run(Arc::clone(&worker), claimed, |_| false).await;
                        drop(place);
                        // Somebody may have waited for the place.
                        worker.agents.wake();
                    });
                }
            }
            Err(error) => warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not look for agents to run"),
        }
        tokio::select! {
            () = app.seams.clock.sleep(app.config.agents.loop_interval) => {}
            () = app.agents.wake.notified() => {}
            () = app.draining.cancelled() => {}
        }
    }
}
