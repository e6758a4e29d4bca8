//! Table `event_attempts`: what became of each attempt, and when an endpoint is not tried any more.

use std::{fmt::Write as _, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{EventEndpointId, EventId, JobId, OrgId, ports::StoreError};
use sea_orm::FromQueryResult;

use super::Stopped;
use crate::{
    exchanges::whole_ms,
    listing::{Page, page_limit},
    sql::{self, failed, micros, values},
    store::Store,
};

/// An attempt that is over.
#[derive(Clone, Debug)]
pub struct AttemptMade<'a> {
    /// Where to.
    pub endpoint: &'a EventEndpointId,
    /// What was sent.
    pub event: &'a EventId,
    /// Its type.
    pub kind: &'a str,
    /// The job that sent it.
    pub job: &'a JobId,
    /// Which of the job's attempts, from 1.
    pub number: u32,
    /// When it began.
    pub at: DateTime<Utc>,
    /// How long it took.
    pub took: Duration,
    /// What was answered; `None`: nothing.
    pub status: Option<u16>,
    /// Why it was not taken; `None`: it was.
    pub fault: Option<&'a str>,
    /// It answered that it is gone.
    pub gone: bool,
    /// An endpoint where every attempt has failed for so long is not tried any more.
    pub stop_after: Duration,
}

/// An attempt as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventAttempt {
    /// Its id; newer ones are greater.
    pub id: String,
    /// What was sent.
    pub event: EventId,
    /// Its type.
    pub kind: String,
    /// The job that sent it.
    pub job: JobId,
    /// Which of the job's attempts, from 1.
    pub number: u64,
    /// When it began.
    pub at: DateTime<Utc>,
    /// How long it took.
    pub took: Duration,
    /// What was answered; `None`: nothing.
    pub status: Option<u16>,
    /// Why it was not taken; `None`: it was.
    pub fault: Option<String>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    event_id: String,
    kind: String,
    job_id: String,
    number: i64,
    at: DateTime<Utc>,
    duration_ms: i64,
    status: Option<i64>,
    detail: Option<String>,
}

impl From<Row> for EventAttempt {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            event: row.event_id.into(),
            kind: row.kind,
            job: row.job_id.into(),
            number: row.number.unsigned_abs(),
            at: row.at,
            took: Duration::from_millis(row.duration_ms.unsigned_abs()),
            status: row.status.and_then(|status| u16::try_from(status).ok()),
            fault: row.detail,
        }
    }
}

impl Store {
    /// Writes an attempt down. `Some`: it was the last straw, and the endpoint is disabled from now on; of many attempts at
    /// once, one learns it. Of an endpoint that is gone meanwhile nothing is written.
    pub async fn note_event_attempt(&self, made: &AttemptMade<'_>) -> Result<Option<Stopped>, StoreError> {
        let doing = "note an attempt at an event";
        let (endpoint, at) = (made.endpoint.as_str(), micros(made.at));
        let tx = self.transaction(doing).await?;
        let insert = "INSERT INTO event_attempts (id, endpoint_id, event_id, kind, job_id, number, \"at\", duration_ms, \
                      outcome, status, detail) SELECT $1, e.id, $3, $4, $5, $6, $7, $8, $9, $10, $11 \
                      FROM event_endpoints e WHERE e.id = $2";
        let values = values![
            self.id("att"),
            endpoint,
            made.event.as_str(),
            made.kind,
            made.job.as_str(),
            i64::from(made.number),
            at,
            whole_ms(made.took),
            if made.fault.is_none() { "delivered" } else { "failed" },
            made.status.map(i64::from),
            made.fault.map(str::to_owned),
        ];
        sql::run(&tx, doing, insert, values).await?;
        let mut stopped = None;
        if made.fault.is_none() {
            let sql = "UPDATE event_endpoints SET delivered_at = $2, failing_since = NULL, failures = 0 WHERE id = $1";
            sql::run(&tx, doing, sql, values![endpoint, at]).await?;
        } else {
            let sql = "UPDATE event_endpoints SET failures = failures + 1, failing_since = COALESCE(failing_since, $2) \
                       WHERE id = $1";
            sql::run(&tx, doing, sql, values![endpoint, at]).await?;
            let reason = if made.gone { Stopped::Gone } else { Stopped::Failing };
            let stop_after = TimeDelta::from_std(made.stop_after).unwrap_or(TimeDelta::MAX);
            let before = if made.gone { at } else { micros(made.at - stop_after) };
            let sql = "UPDATE event_endpoints SET enabled = FALSE, disabled_at = $2, stopped = $3, told_at = NULL \
                       WHERE id = $1 AND enabled AND failing_since <= $4";
            if sql::run(&tx, doing, sql, values![endpoint, at, reason.as_str(), before]).await? > 0 {
                stopped = Some(reason);
            }
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(stopped)
    }

    /// The attempts at an endpoint of the org, newest first.
    pub async fn event_attempts(
        &self,
        org: &OrgId,
        endpoint: &EventEndpointId,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<EventAttempt>, StoreError> {
        let mut values = values![org.as_str(), endpoint.as_str(), page_limit(limit)];
        let mut sql =
            "SELECT a.id, a.event_id, a.kind, a.job_id, a.number, a.\"at\", a.duration_ms, a.status, a.detail \
                       FROM event_attempts a JOIN event_endpoints e ON e.id = a.endpoint_id \
                       WHERE e.org_id = $1 AND a.endpoint_id = $2"
                .to_owned();
        if let Some(cursor) = cursor {
            values.push(cursor.into());
            write!(sql, " AND a.id < ${}", values.len()).expect("writing to a String cannot fail");
        }
        sql.push_str(" ORDER BY a.id DESC LIMIT $3");
        let rows: Vec<Row> = sql::all(self.db(), "list attempts at events", sql, values).await?;
        let attempts = rows.into_iter().map(EventAttempt::from).collect();
        Ok(Page::cut(attempts, limit, |last: &EventAttempt| last.id.clone()))
    }
}
