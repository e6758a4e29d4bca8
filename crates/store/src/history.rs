//! How the health of an org's connectors went, read from the timeline and from what was mailed.

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, Health, OrgId, ports::StoreError};
use sea_orm::FromQueryResult;

use crate::{
    row,
    sql::{self, micros, values},
    store::Store,
    timeline::{DayCount, OF_HEALTH},
};

/// From then on, until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthChange {
    /// When.
    pub at: DateTime<Utc>,
    /// What it became.
    pub to: Health,
}

/// A connector failed.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct Failure {
    /// Which.
    pub connector: String,
    /// Its provider's id.
    pub provider: String,
    /// At its provider.
    pub account: String,
    /// As people named it; empty while nobody has.
    pub name: String,
    /// When.
    pub failed_at: DateTime<Utc>,
    /// When the mail server had taken the first mail about it.
    pub mailed_at: Option<DateTime<Utc>>,
    /// When it worked again.
    pub repaired_at: Option<DateTime<Utc>>,
}

impl Store {
    /// The changes of a connector's health since then, and the last one before, oldest first.
    pub async fn health_changes(
        &self,
        org: &OrgId,
        connector: &ConnectorId,
        since: DateTime<Utc>,
    ) -> Result<Vec<HealthChange>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            at: DateTime<Utc>,
            outcome: String,
        }
        let sql = format!(
            "SELECT \"at\", outcome FROM timeline WHERE org_id = $1 AND connector_id = $2 AND {OF_HEALTH} \
             AND outcome IS NOT NULL AND \"at\" >= COALESCE((SELECT MAX(\"at\") FROM timeline WHERE org_id = $1 \
             AND connector_id = $2 AND {OF_HEALTH} AND outcome IS NOT NULL AND \"at\" < $3), $3) ORDER BY \"at\", id"
        );
        let values = values![org.as_str(), connector.as_str(), micros(since)];
        let rows: Vec<Row> = sql::all(self.db(), "read how health went", sql, values).await?;
        let read = |row: Row| Ok(HealthChange { at: row.at, to: row::health(&row.outcome, connector.as_str())? });
        rows.into_iter().map(read).collect()
    }

    /// The org's connectors that failed since then, the last one first; at most so many.
    pub async fn failures(&self, org: &OrgId, since: DateTime<Utc>, limit: u32) -> Result<Vec<Failure>, StoreError> {
        let sql = format!(
            "SELECT t.connector_id AS connector, c.provider, c.account, c.name, t.\"at\" AS failed_at, \
             (SELECT MIN(m.settled_at) FROM mail_items i JOIN mails m ON m.id = i.mail_id \
             WHERE i.connector_id = t.connector_id AND i.kind = 'needs_you' AND i.since >= t.\"at\" \
             AND m.state = 'sent' AND m.user_id IS NOT NULL) AS mailed_at, \
             (SELECT MIN(r.\"at\") FROM timeline r WHERE r.org_id = t.org_id AND r.connector_id = t.connector_id \
             AND r.{OF_HEALTH} AND r.outcome = 'connected' AND r.\"at\" > t.\"at\") AS repaired_at \
             FROM timeline t JOIN connectors c ON c.id = t.connector_id \
             WHERE t.org_id = $1 AND t.{OF_HEALTH} AND t.outcome = 'auth_failed' AND t.\"at\" >= $2 \
             ORDER BY t.\"at\" DESC, t.id DESC LIMIT {limit}"
        );
        let failures: Vec<Failure> =
            sql::all(self.db(), "read what failed", sql, values![org.as_str(), micros(since)]).await?;
        // A mail after the repair is of the next failure: this one was over before anybody was told.
        let own = |one: Failure| Failure {
            mailed_at: one.mailed_at.filter(|at| one.repaired_at.is_none_or(|end| *at < end)),
            ..one
        };
        Ok(failures.into_iter().map(own).collect())
    }

    /// How many of the org's connectors were repaired (good) and failed (bad), by day.
    pub async fn failure_days(&self, org: &OrgId, since: DateTime<Utc>) -> Result<Vec<DayCount>, StoreError> {
        let day = sql::day_of(self.backend(), "t.\"at\"");
        let before = "(SELECT b.outcome FROM timeline b WHERE b.org_id = t.org_id AND b.connector_id = t.connector_id";
        let sql = format!(
            "SELECT {day} AS day, COUNT(CASE WHEN t.outcome = 'auth_failed' THEN 1 END) AS bad, \
             COUNT(CASE WHEN t.outcome = 'connected' AND {before} AND b.{OF_HEALTH} AND b.\"at\" < t.\"at\" \
             ORDER BY b.\"at\" DESC, b.id DESC LIMIT 1) = 'auth_failed' THEN 1 END) AS good \
             FROM timeline t WHERE t.org_id = $1 AND t.{OF_HEALTH} AND t.\"at\" >= $2 GROUP BY 1 ORDER BY 1"
        );
        sql::all(self.db(), "count what failed", sql, values![org.as_str(), micros(since)]).await
    }
}
