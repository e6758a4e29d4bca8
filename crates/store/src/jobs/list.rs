//! What is shown of jobs, what is counted, and what is forgotten.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, JobId, OrgId,
    job::{Fault, Kind, State},
    ports::StoreError,
};
use sea_orm::{FromQueryResult, Value};

use super::{COLUMNS, Job, ROWS, Row, kind};
use crate::{
    listing::{Page, page_limit},
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// Which jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only of this kind.
    pub kind: Option<Kind>,
    /// Only in this state.
    pub state: Option<State>,
    /// Only of this connector.
    pub connector: Option<ConnectorId>,
}

/// An attempt as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAttempt {
    /// From 1; those that do not count are counted here too.
    pub number: i64,
    /// The replica that made it.
    pub holder: Option<String>,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it was over.
    pub ended_at: DateTime<Utc>,
    /// How it ended: [`holdfast_core::job::Outcome::as_str`].
    pub outcome: String,
    /// Why it was not done.
    pub fault: Option<Fault>,
}

/// How many there are, in the whole instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobCount {
    /// Of this kind.
    pub kind: Kind,
    /// In this state.
    pub state: State,
    /// So many.
    pub count: u64,
    /// When the first of them was due.
    pub oldest: DateTime<Utc>,
}

/// Adds what a filter says to a `WHERE`.
pub(super) fn conditions(filter: &JobFilter, sql: &mut String, values: &mut Vec<Value>) {
    let words = [
        ("kind", filter.kind.map(Kind::as_str)),
        ("state", filter.state.map(State::as_str)),
        ("connector_id", filter.connector.as_ref().map(ConnectorId::as_str)),
    ];
    for (column, word) in words {
        if let Some(word) = word {
            values.push(word.into());
            write!(sql, " AND {column} = ${}", values.len()).expect("writing to a String cannot fail");
        }
    }
}

impl Store {
    /// The org's jobs, newest first.
    pub async fn jobs(
        &self,
        org: &OrgId,
        filter: &JobFilter,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<Job>, StoreError> {
        let mut values = values![org.as_str(), page_limit(limit)];
        let mut sql = format!("SELECT {COLUMNS} FROM jobs WHERE org_id = $1");
        conditions(filter, &mut sql, &mut values);
        if let Some(cursor) = cursor {
            values.push(cursor.into());
            write!(sql, " AND id < ${}", values.len()).expect("writing to a String cannot fail");
        }
        sql.push_str(" ORDER BY id DESC LIMIT $2");
        let rows: Vec<Row> = sql::all(self.db(), "list jobs", sql, values).await?;
        let jobs = rows.into_iter().map(Job::try_from).collect::<Result<_, _>>()?;
        Ok(Page::cut(jobs, limit, |last: &Job| last.id.to_string()))
    }

    /// One of the org's jobs.
    pub async fn find_job(&self, org: &OrgId, job: &str) -> Result<Option<Job>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM jobs WHERE org_id = $1 AND id = $2");
        let row: Option<Row> = sql::one(self.db(), "read a job", sql, values![org.as_str(), job]).await?;
        row.map(Job::try_from).transpose()
    }

    /// Its attempts that are over, the newest first, at most so many.
    pub async fn job_attempts(&self, job: &JobId, limit: u64) -> Result<Vec<JobAttempt>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            number: i64,
            holder: Option<String>,
            started_at: DateTime<Utc>,
            ended_at: DateTime<Utc>,
            outcome: String,
            code: Option<String>,
            detail: Option<String>,
        }
        let sql = "SELECT number, holder, started_at, ended_at, outcome, code, detail FROM job_attempts \
                   WHERE job_id = $1 ORDER BY number DESC LIMIT $2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows: Vec<Row> = sql::all(self.db(), "read attempts", sql, values![job.as_str(), limit]).await?;
        let attempt = |row: Row| JobAttempt {
            number: row.number,
            holder: row.holder,
            started_at: row.started_at,
            ended_at: row.ended_at,
            outcome: row.outcome,
            fault: row.code.map(|code| Fault::new(code, row.detail.unwrap_or_default())),
        };
        Ok(rows.into_iter().map(attempt).collect())
    }

    /// Jobs that are not done and not discarded, by kind and state.
    pub async fn count_jobs(&self) -> Result<Vec<JobCount>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            kind: String,
            state: String,
            number: i64,
            oldest: DateTime<Utc>,
        }
        let sql = "SELECT kind, state, COUNT(*) AS number, MIN(due_at) AS oldest FROM jobs \
                   WHERE state IN ('ready', 'waiting', 'running', 'parked', 'dead') GROUP BY kind, state";
        let rows: Vec<Row> = sql::all(self.db(), "count jobs", sql, values![]).await?;
        let count = |row: Row| {
            Ok(JobCount {
                kind: kind(&row.kind, "of a count")?,
                state: State::parse(&row.state).ok_or_else(|| nonsense("jobs", "state", "of a count"))?,
                count: row.number.unsigned_abs(),
                oldest: row.oldest,
            })
        };
        rows.into_iter().map(count).collect()
    }

    /// Forgets what was done or discarded before `done_before`, and dead before `dead_before`, with its attempts; answers
    /// how many jobs. Their keys may come again.
    pub async fn forget_jobs(&self, done_before: DateTime<Utc>, dead_before: DateTime<Utc>) -> Result<u64, StoreError> {
        let doing = "forget old jobs";
        let mut count = 0;
        for (state, before) in [(State::Done, done_before), (State::Discarded, done_before), (State::Dead, dead_before)]
        {
            let free = sql::for_update_of_the_free(self.backend());
            let sql = format!(
                "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE state = $1 AND ended_at IS NOT NULL \
                 AND ended_at < $2 ORDER BY ended_at LIMIT {ROWS}{free})"
            );
            loop {
                let tx = self.transaction(doing).await?;
                let forgotten = sql::run(&tx, doing, sql.as_str(), values![state.as_str(), micros(before)]).await?;
                tx.commit().await.map_err(failed(doing))?;
                count += forgotten;
                if forgotten == 0 {
                    break;
                }
            }
        }
        Ok(count)
    }
}
