//! Connectors that were begun and never connected: a form that was left, a link that nobody followed.

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, ports::StoreError};
use sea_orm::{FromQueryResult, Value};

use crate::{
    sql::{self, failed, micros, values},
    store::Store,
};

/// So many in one transaction.
const AT_ONCE: u64 = 100;

#[derive(FromQueryResult)]
struct Forgotten {
    id: String,
    credential_id: String,
}

impl Store {
    /// A connector of this name that was begun without an account and is not connected yet.
    pub async fn find_unnamed(
        &self,
        org: &OrgId,
        provider: &str,
        name: &str,
    ) -> Result<Option<ConnectorId>, StoreError> {
        let sql = "SELECT id FROM connectors WHERE org_id = $1 AND provider = $2 AND name = $3 AND account = '' \
                   AND health = 'pending' ORDER BY created_at LIMIT 1";
        let values = values![org.as_str(), provider, name];
        let found: Option<sql::Id> = sql::one(self.db(), "look for an unfinished connector", sql, values).await?;
        Ok(found.map(|found| found.id.into()))
    }

    /// Removes some that were made before this moment and have had no link since. One that anything hangs on stays: an
    /// alias, extras, an agent, an address for webhooks. Answers which; none: there are no more.
    pub async fn forget_unfinished(&self, before: DateTime<Utc>) -> Result<Vec<ConnectorId>, StoreError> {
        let doing = "remove connectors that were never connected";
        let tx = self.transaction(doing).await?;
        let none =
            |table: &str, more: &str| format!("NOT EXISTS (SELECT 1 FROM {table} o WHERE o.connector_id = c.id{more})");
        let unfinished = [
            "c.health = 'pending' AND c.created_at < $1 AND c.alias IS NULL".to_owned(),
            none("connect_sessions", " AND o.created_at >= $1"),
            none("extras", ""),
            none("agent_connectors", ""),
            none("webhook_endpoints", " AND o.deleted_at IS NULL"),
        ];
        let which = format!(
            "SELECT c.id FROM connectors c WHERE {} ORDER BY c.created_at LIMIT {AT_ONCE}{}",
            unfinished.join(" AND "),
            sql::for_update_of_the_free(self.backend())
        );
        let delete = format!("DELETE FROM connectors WHERE id IN ({which}) RETURNING id, credential_id");
        let gone: Vec<Forgotten> = sql::all(&tx, doing, delete, values![micros(before)]).await?;
        if !gone.is_empty() {
            let credentials = format!(
                "DELETE FROM credentials WHERE id IN ({}) \
                 AND NOT EXISTS (SELECT 1 FROM connectors c WHERE c.credential_id = credentials.id)",
                sql::list(gone.len())
            );
            let ids: Vec<Value> = gone.iter().map(|gone| Value::from(gone.credential_id.as_str())).collect();
            sql::run(&tx, doing, credentials, ids).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        let gone: Vec<_> = gone.into_iter().map(|gone| ConnectorId::from(gone.id)).collect();
        for connector in &gone {
            self.connector_changed(connector);
        }
        Ok(gone)
    }
}
