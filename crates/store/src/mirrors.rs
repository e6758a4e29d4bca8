//! Tables `mirrors` and `mirrored_tickets`: the tickets of helpdesks as they were when somebody synced last, and how far
//! that has come.
//!
//! - [`page`]: what a sync read, its cursor and its news, in one transaction.
//! - `twin`: whether a change was told before, by a webhook or by a sync.
//! - [`search`]: tickets by what lies open of them.

mod page;
mod search;
mod twin;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, Health, JobId, OrgId,
    job::{Fault, Kind},
    ports::{Changed, StoreError},
    webhook::Topic,
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::json;

use crate::{
    jobs::{self, NewJob},
    seal::Place,
    sql::{self, failed, micros, values},
    store::Store,
};

pub use page::{Kept, MirrorPage};
pub use search::{MirrorQuery, MirroredTickets};
pub(crate) use twin::{BY_SYNC, Told};

/// How far the mirror of a connector's tickets has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Of which connector.
    pub connector: ConnectorId,
    /// Whose.
    pub org: OrgId,
    /// Of the next page, in the adapter's words; `None`: nothing was read yet.
    pub cursor: Option<String>,
    /// When somebody syncs next; `None`: nobody does.
    pub due_at: Option<DateTime<Utc>>,
    /// The job that synced last, or is at it.
    pub job: Option<JobId>,
    /// When the first page was read.
    pub began_at: Option<DateTime<Utc>>,
    /// When the first page was asked for since somebody had read all last; `None`: none was.
    pub walk_began_at: Option<DateTime<Utc>>,
    /// When the first sync had read all.
    pub first_at: Option<DateTime<Utc>>,
    /// When one had read all last.
    pub caught_up_at: Option<DateTime<Utc>>,
    /// The moment that it shows.
    pub as_of: Option<DateTime<Utc>>,
    /// Tickets that were read since the last one that had read all.
    pub read: u64,
    /// Tickets that are in it.
    pub tickets: u64,
    /// Why the last sync did not read all.
    pub fault: Option<Fault>,
    /// Since when.
    pub failing_since: Option<DateTime<Utc>>,
}

/// A mirror whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSync {
    /// Of which connector.
    pub connector: ConnectorId,
    /// Whose.
    pub org: OrgId,
    /// Its provider's id.
    pub provider: String,
    /// When it was due; what is claimed.
    pub due_at: DateTime<Utc>,
    /// The job that synced last.
    job: Option<String>,
}

#[derive(FromQueryResult)]
struct Row {
    connector_id: String,
    org_id: String,
    cursor: Option<String>,
    due_at: Option<DateTime<Utc>>,
    job_id: Option<String>,
    began_at: Option<DateTime<Utc>>,
    walk_began_at: Option<DateTime<Utc>>,
    first_at: Option<DateTime<Utc>>,
    caught_up_at: Option<DateTime<Utc>>,
    as_of: Option<DateTime<Utc>>,
    read: i64,
    tickets: i64,
    code: Option<String>,
    detail: Option<String>,
    failing_since: Option<DateTime<Utc>>,
}

const SELECT: &str = "SELECT connector_id, org_id, cursor, due_at, job_id, began_at, walk_began_at, first_at, caught_up_at, as_of, \
                      \"read\", tickets, code, detail, failing_since FROM mirrors WHERE ";

impl From<Row> for Mirror {
    fn from(row: Row) -> Self {
        Self {
            connector: row.connector_id.into(),
            org: row.org_id.into(),
            cursor: row.cursor,
            due_at: row.due_at,
            job: row.job_id.map(JobId::from),
            began_at: row.began_at,
            walk_began_at: row.walk_began_at,
            first_at: row.first_at,
            caught_up_at: row.caught_up_at,
            as_of: row.as_of,
            read: row.read.unsigned_abs(),
            tickets: row.tickets.unsigned_abs(),
            fault: row.code.map(|code| Fault::new(code, row.detail.unwrap_or_default())),
            failing_since: row.failing_since,
        }
    }
}

impl Store {
    /// Of one connector; `None`: it was never connected, or was taken off.
    pub async fn mirror(&self, connector: &ConnectorId) -> Result<Option<Mirror>, StoreError> {
        let sql = format!("{SELECT} connector_id = $1");
        let row: Option<Row> = sql::one(self.db(), "read a mirror", sql, values![connector.as_str()]).await?;
        Ok(row.map(Mirror::from))
    }

    /// Of several, for lists.
    pub async fn mirrors(&self, connectors: &[&ConnectorId]) -> Result<Vec<Mirror>, StoreError> {
        if connectors.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!("{SELECT} connector_id IN ({})", sql::list(connectors.len()));
        let values = connectors.iter().map(|id| sea_orm::Value::from(id.as_str())).collect();
        let rows: Vec<Row> = sql::all(self.db(), "read mirrors", sql, values).await?;
        Ok(rows.into_iter().map(Mirror::from).collect())
    }

    /// Mirrors of connectors that work and whose time has come; the longest due first.
    pub async fn due_syncs(&self, at: DateTime<Utc>, most: u32) -> Result<Vec<DueSync>, StoreError> {
        #[derive(FromQueryResult)]
        struct Found {
            connector_id: String,
            org_id: String,
            provider: String,
            due_at: DateTime<Utc>,
            job_id: Option<String>,
        }
        let sql = "SELECT m.connector_id, m.org_id, c.provider, m.due_at, m.job_id FROM mirrors m \
                   JOIN connectors c ON c.id = m.connector_id WHERE m.due_at <= $1 AND c.health = $2 \
                   ORDER BY m.due_at LIMIT $3";
        let values = values![micros(at), Health::Connected.as_str(), i64::from(most)];
        let rows: Vec<Found> = sql::all(self.db(), "look for mirrors to sync", sql, values).await?;
        let read = |row: Found| DueSync {
            connector: row.connector_id.into(),
            org: row.org_id.into(),
            provider: row.provider,
            due_at: row.due_at,
            job: row.job_id,
        };
        Ok(rows.into_iter().map(read).collect())
    }

    /// Puts the job into the queue, and the next sync to `next`, both or neither. There is one open job for a connector:
    /// where one waits, only the moment moves. Without `next` nobody syncs it, and there is no job. `No`: another replica was
    /// faster, or somebody is at it, and this is for afterwards.
    pub async fn claim_sync(
        &self,
        due: &DueSync,
        next: Option<DateTime<Utc>>,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "claim a sync";
        let tx = self.transaction(doing).await?;
        let sql = "UPDATE mirrors SET due_at = $3 WHERE connector_id = $1 AND due_at = $2 \
                   AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = mirrors.job_id AND j.state = 'running')";
        let values = values![due.connector.as_str(), micros(due.due_at), next.map(micros)];
        if sql::run(&tx, doing, sql, values).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        }
        let open = "SELECT id FROM jobs WHERE id = $1 AND state NOT IN ('done', 'dead', 'discarded')";
        let open: Option<sql::Id> = sql::one(&tx, doing, open, values![due.job.clone().unwrap_or_default()]).await?;
        if next.is_some() && open.is_none() {
            let job = NewJob {
                org: due.org.clone(),
                kind: Kind::Sync,
                key: format!("{}:{}", due.connector, due.due_at.timestamp_micros()),
                connector: Some(due.connector.clone()),
                subject: due.connector.to_string(),
                payload: json!({}),
                due_at: at,
                at,
            };
            let job = jobs::enqueue(self, &tx, &job).await?;
            let sql = "UPDATE mirrors SET job_id = $2 WHERE connector_id = $1";
            sql::run(&tx, doing, sql, values![due.connector.as_str(), job.id().as_str()]).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        self.jobs_changed(&due.org, Kind::Sync);
        Ok(Changed::Yes)
    }

    /// It is synced at the next chance: somebody asked for it, or events may be missing. `No`: the connector does not work.
    pub async fn sync_soon(&self, connector: &ConnectorId, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let sql = "UPDATE mirrors SET due_at = $2 WHERE connector_id = $1 AND EXISTS (SELECT 1 FROM connectors c \
                   WHERE c.id = mirrors.connector_id AND c.health = $3)";
        let values = values![connector.as_str(), micros(at), Health::Connected.as_str()];
        Ok(sql::changed(sql::run(self.db(), "ask for a sync", sql, values).await?))
    }

    /// Why a sync did not read all; where it is to go on at another moment than its turn, at which.
    pub async fn note_sync_fault(
        &self,
        connector: &ConnectorId,
        fault: &Fault,
        due_at: Option<DateTime<Utc>>,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE mirrors SET code = $2, detail = $3, failing_since = COALESCE(failing_since, $4), \
                   due_at = CASE WHEN due_at IS NULL THEN NULL ELSE COALESCE($5, due_at) END WHERE connector_id = $1";
        let values =
            values![connector.as_str(), fault.code.as_str(), fault.detail.as_str(), micros(at), due_at.map(micros)];
        sql::run(self.db(), "note why a sync failed", sql, values).await?;
        self.connector_changed(connector);
        Ok(())
    }

    /// It begins anew with this cursor, since the provider takes the one before no more. `No`: somebody else moved it.
    pub async fn restart_sync(&self, mirror: &Mirror, cursor: &str) -> Result<Changed, StoreError> {
        let sql = "UPDATE mirrors SET cursor = $3, walk_began_at = NULL \
                   WHERE connector_id = $1 AND cursor IS NOT DISTINCT FROM $2";
        let values = values![mirror.connector.as_str(), mirror.cursor.clone(), cursor];
        Ok(sql::changed(sql::run(self.db(), "begin a sync anew", sql, values).await?))
    }

    /// This service has just created a ticket, replied to one or changed one: what a sync finds of that is no news. What
    /// others do to the ticket meanwhile is.
    pub async fn note_ticket_write(
        &self,
        connector: &ConnectorId,
        ticket: &str,
        topic: Topic,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO ticket_writes (connector_id, ticket_id, topic, written_at) \
                   SELECT connector_id, $2, $3, $4 FROM mirrors WHERE connector_id = $1 \
                   ON CONFLICT (connector_id, ticket_id, topic) DO UPDATE SET written_at = excluded.written_at";
        // Whatever is done to a ticket changes it.
        for topic in [topic, Topic::TicketChanged] {
            let values = values![connector.as_str(), ticket, topic.as_str(), micros(at)];
            sql::run(self.db(), "note that a ticket was written", sql, values).await?;
        }
        Ok(())
    }
}

/// A sealed ticket's place.
fn owner(connector: &ConnectorId, ticket: &str) -> String {
    format!("{connector}:{ticket}")
}

fn place<'a>(org: &'a OrgId, owner: &'a str) -> Place<'a> {
    Place { org, owner, field: "mirror.ticket" }
}

/// The connector works: its tickets are synced at once, from where the last sync had come.
pub(crate) async fn begin(
    tx: &impl ConnectionTrait,
    org: &OrgId,
    connector: &str,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO mirrors (connector_id, org_id, due_at) VALUES ($1, $2, $3) \
               ON CONFLICT (connector_id) DO UPDATE SET due_at = excluded.due_at, code = NULL, detail = NULL, failing_since = NULL";
    sql::run(tx, "have a connector synced", sql, values![connector, org.as_str(), micros(at)]).await.map(|_| ())
}

/// Nobody can sync it.
pub(crate) async fn rest(tx: &impl ConnectionTrait, connector: &str) -> Result<(), StoreError> {
    let sql = "UPDATE mirrors SET due_at = NULL WHERE connector_id = $1 AND due_at IS NOT NULL";
    sql::run(tx, "have syncs rest", sql, values![connector]).await.map(|_| ())
}

/// The connector was taken off: nothing of its tickets is kept.
pub(crate) async fn forget(tx: &impl ConnectionTrait, connector: &str) -> Result<(), StoreError> {
    for table in ["mirrored_tickets", "ticket_writes", "mirrors"] {
        let sql = format!("DELETE FROM {table} WHERE connector_id = $1");
        sql::run(tx, "forget a mirror", sql, values![connector]).await?;
    }
    Ok(())
}
