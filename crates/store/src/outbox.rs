//! Table `outbox`: effects of a change of health, written with it.

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, ports::StoreError};
use serde_json::Value;

use crate::store::Store;

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
    /// What the effect needs to know.
    pub payload: Value,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// When it was done.
    pub done_at: Option<DateTime<Utc>>,
}

impl Store {
    /// The effects of one connector, oldest first.
    pub async fn outbox_rows(&self, connector: &ConnectorId) -> Result<Vec<OutboxRow>, StoreError> {
        let _ = connector;
        todo!()
    }

    /// The effects of one org, oldest first.
    pub async fn outbox(&self, org: &OrgId) -> Result<Vec<OutboxRow>, StoreError> {
        let _ = org;
        todo!()
    }
}
