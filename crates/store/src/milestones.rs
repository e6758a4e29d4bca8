//! When the turns of an org's connectors last happened, each read where it is written: journal, timeline, connector.

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, Health, OrgId, ports::StoreError, refresh::OutcomeKind};
use sea_orm::FromQueryResult;

use crate::{
    row,
    sql::{self, values},
    store::Store,
    timeline::OF_HEALTH,
};

/// The turns of one connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Milestones {
    /// Which.
    pub connector: ConnectorId,
    /// Whose.
    pub provider: String,
    /// As people named it.
    pub name: String,
    /// At its provider.
    pub account: String,
    /// Now.
    pub health: Health,
    /// Of the last change of health or grant.
    pub epoch: i64,
    /// An exchange last replaced its tokens.
    pub rotated_at: Option<DateTime<Utc>>,
    /// It last needed a person.
    pub failed_at: Option<DateTime<Utc>>,
    /// It last began or went on to work: by a grant, or because the provider took it back.
    pub worked_at: Option<DateTime<Utc>>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    provider: String,
    name: String,
    account: String,
    health: String,
    epoch: i64,
    rotated_at: Option<DateTime<Utc>>,
    failed_at: Option<DateTime<Utc>>,
    worked_at: Option<DateTime<Utc>>,
}

impl Store {
    /// Of all of the org's connectors, oldest first.
    pub async fn milestones(&self, org: &OrgId) -> Result<Vec<Milestones>, StoreError> {
        let last = |outcome: &str| {
            format!(
                "(SELECT MAX(t.\"at\") FROM timeline t WHERE t.org_id = c.org_id AND t.connector_id = c.id \
                 AND t.{OF_HEALTH} AND t.outcome = '{outcome}')"
            )
        };
        let sql = format!(
            "SELECT c.id, c.provider, c.name, c.account, c.health, c.epoch, \
             (SELECT MAX(e.closed_at) FROM exchanges e WHERE e.org_id = c.org_id AND e.connector_id = c.id \
             AND e.outcome = '{}') AS rotated_at, {} AS failed_at, {} AS worked_at FROM connectors c WHERE c.org_id = $1 ORDER BY c.id",
            OutcomeKind::Rotated.as_str(),
            last(Health::AuthFailed.as_str()),
            last(Health::Connected.as_str()),
        );
        let rows: Vec<Row> = sql::all(self.db(), "read milestones", sql, values![org.as_str()]).await?;
        let read = |row: Row| {
            Ok(Milestones {
                health: row::health(&row.health, &row.id)?,
                connector: row.id.into(),
                provider: row.provider,
                name: row.name,
                account: row.account,
                epoch: row.epoch,
                rotated_at: row.rotated_at,
                failed_at: row.failed_at,
                worked_at: row.worked_at,
            })
        };
        rows.into_iter().map(read).collect()
    }
}
