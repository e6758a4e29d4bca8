//! Table `jobs`: work that is stored before it is done.
//!
//! A job is written in the transaction of what it follows from, so that neither is there without the other. Its key is
//! unique within org and kind for as long as the row is kept: what asks for the same work twice finds it there.

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, JobId, OrgId,
    job::{Kind, State},
    ports::StoreError,
};
use sea_orm::ConnectionTrait;
use serde_json::Value;

use crate::{
    sql::{self, micros, values},
    store::Store,
};

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
        connector.filter(|_| job.kind.needs_connector()).unwrap_or_default(),
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
        self.inner.hub.send_jobs(&JobsChanged { org: org.clone(), kind });
    }
}
