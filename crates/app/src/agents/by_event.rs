//! Runs that events ask for: the work of jobs of the kind `agent_run`. A run is begun anew as often as its job is; its calls
//! carry the same idempotency keys then, so that what was done is not done twice, and what may have been is told.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use holdfast_core::{
    error::Retry,
    job::{Fault, Outcome},
    ports::StoreError,
};
use holdfast_store::ClaimedJob;

use super::run::{self, Why};
use crate::{app::App, jobs::Handler};

/// Goes through the run that its job names.
pub(crate) struct EventRuns;

#[async_trait]
impl Handler for EventRuns {
    async fn run(&self, app: &Arc<App>, claimed: &ClaimedJob) -> Outcome {
        match attempt(app, claimed).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(Fault::new("ours", error.to_string()), Retry::Backoff),
        }
    }
}

async fn attempt(app: &Arc<App>, claimed: &ClaimedJob) -> Result<Outcome, StoreError> {
    let (job, now) = (&claimed.job, app.seams.clock.now());
    // No claim of a replica is older than the job's: whoever had the run before has lost it with the job.
    let Some(run) = app.store.open_run(&job.subject, &job.id, now, app.config.agents.run_lease).await? else {
        // Done by an attempt whose end was not written down, or deleted with its agent.
        return Ok(Outcome::Done);
    };
    let waits_at_most = TimeDelta::days(i64::from(app.config.jobs.parked_at_most_days));
    let is_old = now - job.created_at > waits_at_most;
    let last = job.attempts >= app.job_policy(job.kind).attempts;
    let connector = job.connector.clone();
    let outcome = move |why: &Why| {
        let fault = Fault::new(why.code, why.detail.as_str());
        match why.code {
            // A person did not want it.
            "agent_paused" | "deleted" => Outcome::Done,
            "shutdown" | "lost" => Outcome::GivenBack,
            "agent_deactivated" | "connector_auth_failed" | "connector_pending" if is_old => {
                Outcome::Failed(fault, Retry::Never)
            }
            "agent_deactivated" | "connector_auth_failed" | "connector_pending" if why.connector == connector => {
                Outcome::NeedsReconnect(fault)
            }
            // Another connector of the agent is to be reconnected.
            "agent_deactivated" | "connector_auth_failed" | "connector_pending" => Outcome::Waits(fault),
            _ => Outcome::Failed(fault, why.retry),
        }
    };
    let goes_on = |why: &Why| match outcome(why) {
        Outcome::Failed(_, Retry::Never) | Outcome::Done => false,
        Outcome::Failed(..) => !last,
        _ => true,
    };
    Ok(match run::run(Arc::clone(app), run, goes_on).await {
        Ok(()) => Outcome::Done,
        Err(why) => outcome(&why),
    })
}
