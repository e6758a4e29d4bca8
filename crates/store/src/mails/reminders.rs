//! Failures that still wait: people are reminded after some days, each time once. The failure's own notice says when the next
//! look is (`remind_at`); what is due becomes a notice of its own.

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, notify,
    ports::{Changed, StoreError},
};
use sea_orm::FromQueryResult;
use serde_json::json;

use super::{
    MailKind,
    gather::{NOTICES, Notice},
};
use crate::{
    sql::{self, failed, micros, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Waiting {
    connector_id: String,
    number: i64,
}

impl Store {
    /// Looks at one failure whose time has come: where it still waits, its people are to be reminded. `No`: there was none.
    pub async fn remind_of_a_failure(&self, now: DateTime<Utc>) -> Result<Changed, StoreError> {
        let doing = "remind of a failure";
        let due = "SELECT id FROM outbox WHERE remind_at <= $1 AND remind_at IS NOT NULL LIMIT 1";
        if sql::one::<sql::Id>(self.db(), doing, due, values![micros(now)]).await?.is_none() {
            return Ok(Changed::No);
        }
        let tx = self.transaction(doing).await?;
        let free = if self.kind() == crate::store::Kind::Postgres { " FOR UPDATE OF o SKIP LOCKED" } else { "" };
        let next =
            format!("{NOTICES} WHERE o.remind_at <= $1 AND o.remind_at IS NOT NULL ORDER BY o.remind_at LIMIT 1{free}");
        let Some(failure) = sql::one::<Notice>(&tx, doing, next, values![micros(now)]).await? else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        };
        let (failed_at, waits) = (failure.at(), failure.stands(MailKind::StillWaiting));
        let (days, next) = if waits { notify::reminder(failed_at, now) } else { (None, None) };
        let note = "UPDATE outbox SET remind_at = $2 WHERE id = $1";
        sql::run(&tx, doing, note, values![failure.id.as_str(), next.map(micros)]).await?;
        if let (Some(days), Some(effect)) = (days, MailKind::StillWaiting.notice()) {
            let insert = "INSERT INTO outbox (id, org_id, connector_id, epoch, payload, created_at, effect, key) \
                          VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (key) DO NOTHING";
            let values = values![
                self.id("out"),
                failure.org_id.as_str(),
                failure.connector_id.as_str(),
                failure.epoch,
                json!({ "event": "connector.still_waiting", "days": days, "at": micros(failed_at) }),
                micros(now),
                effect,
                format!("{}:{}:{effect}:{days}", failure.connector_id, failure.epoch),
            ];
            sql::run(&tx, doing, insert, values).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(Changed::Yes)
    }

    /// Of these connectors, how many jobs wait for each.
    pub async fn waiting_jobs(&self, connectors: &[ConnectorId]) -> Result<Vec<(ConnectorId, u64)>, StoreError> {
        if connectors.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT connector_id, COUNT(*) AS number FROM jobs WHERE state = 'parked' AND lane IN ({}) \
             AND connector_id IS NOT NULL GROUP BY connector_id",
            sql::list(connectors.len())
        );
        let values = connectors.iter().map(|id| sea_orm::Value::from(id.as_str())).collect();
        let rows: Vec<Waiting> = sql::all(self.db(), "count what waits", sql, values).await?;
        Ok(rows.into_iter().map(|row| (row.connector_id.into(), row.number.unsigned_abs())).collect())
    }
}
