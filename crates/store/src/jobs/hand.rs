//! What people do to jobs: try again, discard. Each is one conditional statement, like a worker's, and meets a job in the
//! state that it was seen in or not at all: a job that runs is never begun a second time by hand.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use holdfast_core::{OrgId, job::State, ports::StoreError};
use serde_json::json;

use super::{JobFilter, Moved, ROWS, list::conditions};
use crate::{
    audit::Change,
    sql::{self, failed, micros, values},
    store::Store,
};

/// What a person wants of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByHand {
    /// Try again now, with all attempts: what is dead or discarded, or rests after a failure.
    Retry,
    /// Never do it: what is not begun, or dead.
    Discard,
}

/// What became of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// It is so.
    Yes,
    /// It is in this state, of which it is not: nothing was changed.
    No(State),
    /// The org has no such job.
    NoJob,
}

impl ByHand {
    /// Whether a job in this state can be told so.
    pub fn takes(self, state: State) -> bool {
        match self {
            Self::Retry => matches!(state, State::Waiting | State::Dead | State::Discarded),
            Self::Discard => matches!(state, State::Ready | State::Waiting | State::Parked | State::Dead),
        }
    }

    /// In the audit log.
    fn action(self) -> &'static str {
        match self {
            Self::Retry => "job.retried",
            Self::Discard => "job.discarded",
        }
    }

    /// On `jobs`, of what it takes.
    fn condition(self) -> &'static str {
        match self {
            Self::Retry => "state IN ('waiting', 'dead', 'discarded')",
            Self::Discard => "state IN ('ready', 'waiting', 'parked', 'dead')",
        }
    }

    /// With the moment at `$2` and the actor at `$3`.
    fn change(self) -> &'static str {
        match self {
            Self::Retry => {
                "state = 'ready', due_at = $2, attempts = 0, ended_at = NULL, code = NULL, detail = NULL, actor = $3"
            }
            Self::Discard => "state = 'discarded', ended_at = $2, parked_at = NULL, actor = $3",
        }
    }
}

impl Store {
    /// One job. `actor` is kept with it.
    pub async fn handle_job(
        &self,
        org: &OrgId,
        job: &str,
        wish: ByHand,
        actor: &str,
        at: DateTime<Utc>,
    ) -> Result<Did, StoreError> {
        let doing = "change a job by hand";
        let sql = format!(
            "UPDATE jobs SET {} WHERE org_id = $1 AND id = $4 AND {} RETURNING org_id, kind",
            wish.change(),
            wish.condition()
        );
        let values = values![org.as_str(), micros(at), actor, job];
        let tx = self.transaction(doing).await?;
        let moved: Vec<Moved> = sql::all(&tx, doing, sql, values).await?;
        if let Some(one) = moved.first() {
            self.audit(&tx, Change::new(org, wish.action(), ("job", job, &one.kind))).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        self.jobs_moved(&moved);
        if !moved.is_empty() {
            return Ok(Did::Yes);
        }
        Ok(self.find_job(org, job).await?.map_or(Did::NoJob, |job| Did::No(job.state)))
    }

    /// All of the org's jobs that the filter means and that can be told so; what comes to be so meanwhile is left alone.
    /// Answers how many.
    pub async fn handle_jobs(
        &self,
        org: &OrgId,
        filter: &JobFilter,
        wish: ByHand,
        actor: &str,
        at: DateTime<Utc>,
    ) -> Result<usize, StoreError> {
        let doing = "change jobs by hand";
        let mut values = values![org.as_str(), micros(at), actor];
        let mut which = format!("SELECT id FROM jobs WHERE org_id = $1 AND {}", wish.condition());
        // What is told so now, and fails again meanwhile, is not told twice.
        which.push_str(" AND (ended_at IS NULL OR ended_at < $2)");
        if wish == ByHand::Retry {
            which.push_str(" AND (state <> 'waiting' OR started_at IS NULL OR started_at < $2)");
        }
        conditions(filter, &mut which, &mut values);
        let free = sql::for_update_of_the_free(self.backend());
        write!(which, " ORDER BY due_at, id LIMIT {ROWS}{free}").expect("writing to a String cannot fail");
        let sql = format!(
            "UPDATE jobs SET {} WHERE id IN ({which}) AND {} RETURNING org_id, kind",
            wish.change(),
            wish.condition()
        );
        let mut count = 0;
        loop {
            let tx = self.transaction(doing).await?;
            let moved: Vec<Moved> = sql::all(&tx, doing, sql.as_str(), values.clone()).await?;
            if !moved.is_empty() {
                let line = Change::new(org, wish.action(), ("jobs", "", ""));
                self.audit(&tx, line.now(json!({ "jobs": moved.len() }))).await?;
            }
            tx.commit().await.map_err(failed(doing))?;
            self.jobs_moved(&moved);
            count += moved.len();
            if moved.is_empty() {
                return Ok(count);
            }
        }
    }
}
