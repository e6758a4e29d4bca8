//! Table `jobs`: work that is stored before it is done.
//!
//! A job is written in the transaction of what it follows from, so that neither is there without the other. Its key is
//! unique within org and kind for as long as the row is kept: what asks for the same work twice finds it there.
//!
//! - `claim`: whose turn it is, and the right to a job for as long as its lease.
//! - `settle`: what became of an attempt, and of those whose replica is gone.
//! - `lanes`: the jobs of a connector follow its health.
//! - `hand`: people try again and discard.
//! - `list`: what is shown and counted, and what is forgotten.
//! - `names`: what people call what they are about.

mod claim;
mod hand;
mod lanes;
mod list;
mod names;
mod settle;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, JobId, OrgId,
    job::{Fault, Kind, State},
    ports::StoreError,
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::Value;
use tracing::warn;

use crate::{
    sql::{self, micros, nonsense, values},
    store::Store,
};

pub use claim::{ClaimedJob, JobClaims, JobsWanted, Turn};
pub use hand::{ByHand, Did};
pub(crate) use lanes::{end_deliveries, end_lane, park_lane, release_lane};
pub use list::{JobAttempt, JobCount, JobFilter};
pub use names::{JobNames, NamedConnector};
pub use settle::Attempt;

/// The lane of kinds that know none.
const NO_LANE: &str = "-";
/// Rows that one statement moves at most: it has to end well within what a statement may take.
const ROWS: i64 = 1000;

/// Work to be done.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Whose.
    pub org: OrgId,
    /// What it does.
    pub kind: Kind,
    /// Names this work among all of org and kind: the same key is the same job, whoever asks, however often.
    pub key: String,
    /// The connector that it works with, or tells of.
    pub connector: Option<ConnectorId>,
    /// What it is about: the id of an event, a run, a mail.
    pub subject: String,
    /// What its handler needs beside that: small, and no secrets.
    pub payload: Value,
    /// Not before. Within a connector, jobs of one kind begin in this order.
    pub due_at: DateTime<Utc>,
    /// Now.
    pub at: DateTime<Utc>,
}

/// A job as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id; newer ones are greater.
    pub id: JobId,
    /// Whose.
    pub org: OrgId,
    /// What it does.
    pub kind: Kind,
    /// Names the work.
    pub key: String,
    /// The connector that it works with, or tells of.
    pub connector: Option<ConnectorId>,
    /// What it is about.
    pub subject: String,
    /// What its handler needs.
    pub payload: Value,
    /// Where it is.
    pub state: State,
    /// Not before.
    pub due_at: DateTime<Utc>,
    /// Attempts that count, the one under way among them.
    pub attempts: u32,
    /// The replica that had it last.
    pub holder: Option<String>,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When its last attempt began.
    pub started_at: Option<DateTime<Utc>>,
    /// Since when it waits for its connector.
    pub parked_at: Option<DateTime<Utc>>,
    /// When it was over.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it is where it is, where something went wrong.
    pub fault: Option<Fault>,
    /// Who tried it again, or discarded it, last.
    pub actor: Option<String>,
}

const COLUMNS: &str = "id, org_id, kind, key, connector_id, subject, payload, state, due_at, attempts, claim, holder, \
                       created_at, started_at, parked_at, ended_at, code, detail, actor";

#[derive(FromQueryResult)]
struct Row {
    id: String,
    org_id: String,
    kind: String,
    key: String,
    connector_id: Option<String>,
    subject: String,
    payload: Value,
    state: String,
    due_at: DateTime<Utc>,
    attempts: i64,
    claim: i64,
    holder: Option<String>,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    parked_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    code: Option<String>,
    detail: Option<String>,
    actor: Option<String>,
}

impl TryFrom<Row> for Job {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            kind: kind(&row.kind, &row.id)?,
            state: State::parse(&row.state).ok_or_else(|| nonsense("jobs", "state", &row.id))?,
            attempts: u32::try_from(row.attempts).map_err(|_| nonsense("jobs", "attempts", &row.id))?,
            fault: row.code.map(|code| Fault::new(code, row.detail.unwrap_or_default())),
            id: row.id.into(),
            org: row.org_id.into(),
            key: row.key,
            connector: row.connector_id.map(ConnectorId::from),
            subject: row.subject,
            payload: row.payload,
            due_at: row.due_at,
            holder: row.holder,
            created_at: row.created_at,
            started_at: row.started_at,
            parked_at: row.parked_at,
            ended_at: row.ended_at,
            actor: row.actor,
        })
    }
}

fn lane(job: &NewJob) -> &str {
    match &job.connector {
        _ if job.kind.has_lane_of_subject() => &job.subject,
        Some(connector) if job.kind.needs_connector() => connector.as_str(),
        _ => NO_LANE,
    }
}

fn kind(word: &str, job: &str) -> Result<Kind, StoreError> {
    Kind::parse(word).ok_or_else(|| nonsense("jobs", "kind", job))
}

/// What moved, to be told of.
#[derive(FromQueryResult)]
pub(crate) struct Moved {
    org_id: String,
    pub(crate) kind: String,
}

/// Jobs of an org and kind: there are new ones, or some have moved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobsChanged {
    /// Whose.
    pub org: OrgId,
    /// Which.
    pub kind: Kind,
}

/// What became of a wish for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It is in the queue.
    Yes(JobId),
    /// It was there already, and may be over.
    Already(JobId),
}

impl Enqueued {
    /// Either way.
    pub fn id(&self) -> &JobId {
        match self {
            Self::Yes(id) | Self::Already(id) => id,
        }
    }
}

/// Writes a job in the caller's transaction. After the commit the caller says so: [`Store::jobs_changed`].
pub(crate) async fn enqueue(store: &Store, db: &impl ConnectionTrait, job: &NewJob) -> Result<Enqueued, StoreError> {
    let doing = "enqueue a job";
    let id = JobId::from(store.id("job"));
    let connector = job.connector.as_ref().map(ConnectorId::as_str);
    let state = if job.due_at <= job.at { State::Ready } else { State::Waiting };
    let insert = "INSERT INTO jobs (id, org_id, kind, key, connector_id, lane, subject, payload, state, due_at, \
                  created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
                  ON CONFLICT (org_id, kind, key) DO NOTHING";
    let values = values![
        id.as_str(),
        job.org.as_str(),
        job.kind.as_str(),
        job.key.as_str(),
        connector,
        lane(job),
        job.subject.as_str(),
        job.payload.clone(),
        state.as_str(),
        micros(job.due_at),
        micros(job.at),
    ];
    if sql::run(db, doing, insert, values).await? == 1 {
        return Ok(Enqueued::Yes(id));
    }
    let there = "SELECT id FROM jobs WHERE org_id = $1 AND kind = $2 AND key = $3";
    let there: Option<sql::Id> =
        sql::one(db, doing, there, values![job.org.as_str(), job.kind.as_str(), job.key.as_str()]).await?;
    there.map(|there| Enqueued::Already(there.id.into())).ok_or_else(|| StoreError::new(doing))
}

impl Store {
    /// Writes a job in a transaction of its own.
    pub async fn enqueue(&self, job: &NewJob) -> Result<Enqueued, StoreError> {
        let enqueued = enqueue(self, self.db(), job).await?;
        if matches!(enqueued, Enqueued::Yes(_)) {
            self.jobs_changed(&job.org, job.kind);
        }
        Ok(enqueued)
    }

    /// After a commit that put jobs of this org into the queue, or moved them: workers look, and pages are made anew. No
    /// trigger of the schema does it: `NOTIFY` in the writing transaction lets PostgreSQL commit only one at a time.
    /// Where a crash comes between, the workers' poll finds the job.
    pub(crate) fn jobs_changed(&self, org: &OrgId, kind: Kind) {
        self.tell_of_jobs(JobsChanged { org: org.clone(), kind });
    }

    /// After a commit that changed a connector's health.
    pub(crate) async fn jobs_of_changed(&self, connector: &ConnectorId) {
        let sql = "SELECT org_id AS id FROM connectors WHERE id = $1";
        match sql::one::<sql::Id>(self.db(), "tell of a change", sql, values![connector.as_str()]).await {
            Ok(Some(org)) => {
                // Those that work with it, and those that tell of it.
                for kind in Kind::ALL.into_iter().filter(|kind| kind.needs_connector() || *kind == Kind::Deliver) {
                    self.jobs_changed(&org.id.as_str().into(), kind);
                }
            }
            Ok(None) => {}
            Err(error) => warn!(error = %error, "cannot tell that jobs moved; a poll finds them"),
        }
    }

    /// The same of many. A kind that makes no sense is nobody's to wait for.
    pub(crate) fn jobs_moved(&self, moved: &[Moved]) {
        let mut told: Vec<(&str, &str)> = moved.iter().map(|row| (row.org_id.as_str(), row.kind.as_str())).collect();
        told.sort_unstable();
        told.dedup();
        for (org, kind) in told {
            if let Some(kind) = Kind::parse(kind) {
                self.jobs_changed(&org.into(), kind);
            }
        }
    }
}
