//! The jobs that this replica has: their places, their leases, and how their ends are written down.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdfast_core::{
    JobId,
    job::{Kind, Next, Outcome},
};
use holdfast_store::{Attempt, ClaimedJob};
use metrics::{counter, histogram};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    app::App,
    metrics::{JOB_ATTEMPTS, JOB_SECONDS},
};

/// Attempts that are written down in one transaction.
const BATCH: usize = 200;

/// What this replica has.
pub(super) struct Running {
    jobs: Mutex<HashMap<(JobId, i64), Held>>,
    /// A place was freed.
    pub(super) freed: Notify,
    ended: mpsc::UnboundedSender<Ended>,
    /// Taken by whoever settles.
    endings: Mutex<Option<mpsc::UnboundedReceiver<Ended>>>,
}

struct Held {
    kind: Kind,
    /// By our uptime, counted from before the lease was asked for: later, somebody else may have it.
    until: Duration,
    lost: CancellationToken,
}

/// An attempt that waits to be written down.
struct Ended {
    attempt: Attempt,
    written: oneshot::Sender<()>,
}

impl Default for Running {
    fn default() -> Self {
        let (ended, endings) = mpsc::unbounded_channel();
        Self { jobs: Mutex::default(), freed: Notify::new(), ended, endings: Mutex::new(Some(endings)) }
    }
}

impl Running {
    fn jobs(&self) -> MutexGuard<'_, HashMap<(JobId, i64), Held>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.jobs().values().filter(|held| held.kind == kind).count()
    }

    /// From now on it is this replica's; the token ends when it is not any more.
    pub(super) fn begin(&self, claimed: &ClaimedJob, until: Duration) -> CancellationToken {
        let lost = CancellationToken::new();
        let held = Held { kind: claimed.job.kind, until, lost: lost.clone() };
        self.jobs().insert((claimed.job.id.clone(), claimed.claim), held);
        lost
    }

    /// Its place is free.
    pub(super) fn end(&self, claimed: &ClaimedJob) {
        self.jobs().remove(&(claimed.job.id.clone(), claimed.claim));
        self.freed.notify_one();
    }

    /// Waits until the end of an attempt is written down.
    pub(super) async fn write_down(&self, attempt: Attempt) {
        let (written, done) = oneshot::channel();
        if self.ended.send(Ended { attempt, written }).is_ok() {
            // Gone only with the settler, at the end of the process; the lease ends by itself.
            let _written_or_gone = done.await;
        }
    }

    /// Gives signs of life, and tells those of whom the database says that they are lost, or of whom it said nothing for
    /// as long as their lease.
    pub(super) async fn renew(&self, app: &App) {
        let lease = app.config.jobs.lease;
        let asked = app.seams.clock.uptime();
        let held: Vec<(JobId, i64)> = self.jobs().keys().cloned().collect();
        if held.is_empty() {
            return;
        }
        match app.store.renew_jobs(&held, lease).await {
            Ok(lost) => {
                let mut jobs = self.jobs();
                for key in &held {
                    if let Some(held) = jobs.get_mut(key) {
                        if lost.contains(&key.0) {
                            held.lost.cancel();
                        } else {
                            held.until = asked + lease;
                        }
                    }
                }
            }
            Err(error) => {
                warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not renew the leases of jobs");
                let now = app.seams.clock.uptime();
                self.jobs().values().filter(|held| held.until <= now).for_each(|held| held.lost.cancel());
            }
        }
    }
}

/// Writes down how attempts end, as many at a time as have come meanwhile, until the service has stopped.
pub(crate) async fn settle(app: Arc<App>) {
    let running = &app.jobs.running;
    let endings = running.endings.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut endings) = endings else { return };
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            count = endings.recv_many(&mut batch, BATCH) => if count == 0 { return },
            () = app.stop.cancelled() => return,
        }
        let (attempts, written): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|ended| (ended.attempt, ended.written)).unzip();
        let settled = tokio::select! {
            settled = app.engine.insist("write down how jobs ended", || app.store.settle_jobs(&attempts)) => settled,
            () = app.stop.cancelled() => return,
        };
        for ((attempt, next), written) in attempts.iter().zip(settled).zip(written) {
            tell(attempt, next.as_ref());
            running.end(&attempt.claimed);
            // Nobody may be waiting.
            let _told = written.send(());
        }
    }
}

fn tell(attempt: &Attempt, next: Option<&Next>) {
    let (job, outcome) = (&attempt.claimed.job, &attempt.outcome);
    let (kind, word) = (job.kind.as_str(), if next.is_some() { outcome.as_str() } else { "not_ours" });
    counter!(JOB_ATTEMPTS, "kind" => kind, "outcome" => word).increment(1);
    let took = job.started_at.map(|started| (attempt.at - started).to_std().unwrap_or_default());
    histogram!(JOB_SECONDS, "kind" => kind).record(took.unwrap_or_default());
    let id = &job.id;
    match (next, outcome) {
        (None, _) => warn!(job.id = %id, job.kind = kind, "job {id} was another worker's when its attempt ended here"),
        (Some(Next::Dead(fault)), _) => {
            warn!(job.id = %id, job.kind = kind, job.code = fault.code, "job {id} is dead: {}", fault.detail);
        }
        (Some(Next::Again(pause)), Outcome::Failed(fault, _)) => {
            debug!(job.id = %id, job.kind = kind, job.code = fault.code, "job {id} is tried again in {pause:?}");
        }
        (Some(_), _) => debug!(job.id = %id, job.kind = kind, job.outcome = word, "an attempt at job {id} ended"),
    }
}
