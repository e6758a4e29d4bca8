//! Table `outbox`: effects of a change of health, written with it, so that a crash loses none.

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, health::Effect, notify, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::Value;

use crate::{
    sql::{self, micros, values},
    store::Store,
};

/// An effect that has to follow.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxRow {
    /// Of the row.
    pub id: String,
    /// Whose.
    pub org: OrgId,
    /// Of which connector.
    pub connector: ConnectorId,
    /// Of the change.
    pub epoch: i64,
    /// As a stable word.
    pub effect: String,
    /// The change: `from`, `to`, `reason`, `detail`, `at`.
    pub payload: Value,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// When it was done.
    pub done_at: Option<DateTime<Utc>>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    org_id: String,
    connector_id: String,
    epoch: i64,
    effect: String,
    payload: Value,
    created_at: DateTime<Utc>,
    done_at: Option<DateTime<Utc>>,
}

impl From<Row> for OutboxRow {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            org: row.org_id.into(),
            connector: row.connector_id.into(),
            epoch: row.epoch,
            effect: row.effect,
            payload: row.payload,
            created_at: row.created_at,
            done_at: row.done_at,
        }
    }
}

const SELECT: &str = "SELECT id, org_id, connector_id, epoch, effect, payload, created_at, done_at FROM outbox WHERE ";

impl Store {
    /// The effects of one connector, oldest first; of a deleted one too.
    pub async fn outbox_rows(&self, connector: &ConnectorId) -> Result<Vec<OutboxRow>, StoreError> {
        let sql = format!("{SELECT} connector_id = $1 ORDER BY epoch, id");
        let rows: Vec<Row> = sql::all(self.db(), "read the outbox", sql, values![connector.as_str()]).await?;
        Ok(rows.into_iter().map(OutboxRow::from).collect())
    }

    /// The effects of one org, oldest first.
    pub async fn outbox(&self, org: &OrgId) -> Result<Vec<OutboxRow>, StoreError> {
        let sql = format!("{SELECT} org_id = $1 ORDER BY created_at, id");
        let rows: Vec<Row> = sql::all(self.db(), "read the outbox", sql, values![org.as_str()]).await?;
        Ok(rows.into_iter().map(OutboxRow::from).collect())
    }
}

/// Writes the effects of one change, each at most once.
#[expect(clippy::too_many_arguments, reason = "the columns of the table")]
pub(crate) async fn insert(
    store: &Store,
    tx: &impl ConnectionTrait,
    org: &OrgId,
    connector: &ConnectorId,
    epoch: i64,
    effects: &[Effect],
    payload: &Value,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    if effects.is_empty() {
        return Ok(());
    }
    let mut values = values![org.as_str(), connector.as_str(), epoch, payload.clone(), micros(at)];
    let mut rows = Vec::with_capacity(effects.len());
    for effect in effects {
        let next = values.len();
        rows.push(format!("(${}, $1, $2, $3, $4, $5, ${}, ${}, ${})", next + 1, next + 2, next + 3, next + 4));
        let key = format!("{connector}:{epoch}:{}", effect.as_str());
        let remind_at = notify::reminder(at, at).1.filter(|_| *effect == Effect::MailAdmins);
        values.extend(values![store.id("out"), effect.as_str(), key, remind_at.map(micros)]);
    }
    let sql = format!(
        "INSERT INTO outbox (id, org_id, connector_id, epoch, payload, created_at, effect, key, remind_at) VALUES {} \
         ON CONFLICT (key) DO NOTHING",
        rows.join(", ")
    );
    sql::run(tx, "write the outbox", sql, values).await.map(|_| ())
}
