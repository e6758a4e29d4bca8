//! Connectors that were begun and never connected: a form that was left, a link that nobody followed.

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, Health, OrgId, ports::StoreError};
use sea_orm::{FromQueryResult, Value};
use serde_json::json;

use crate::{
    credentials::lock_of,
    sql::{self, failed, micros, values},
    store::Store,
};

/// So many in one transaction.
const AT_ONCE: u64 = 100;

/// What became of another account for an unfinished connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is for that one now.
    Yes,
    /// The org has that account on this connector; nothing was changed.
    Taken(ConnectorId),
    /// It is connected by now, or not there any more; nothing was changed.
    No,
}

#[derive(FromQueryResult)]
struct Was {
    provider: String,
    account: String,
}

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

    /// Gives one that was never connected another account. What consents bring that were begun for the one before is not
    /// stored any more: [`Granted::Older`](crate::Granted::Older). Two connectors at once for one account: one gets an error,
    /// and finds out at the next try.
    pub async fn move_unfinished(&self, org: &OrgId, id: &ConnectorId, account: &str) -> Result<Moved, StoreError> {
        let doing = "give an unfinished connector another account";
        let tx = self.transaction(doing).await?;
        // Whoever stores a grant locks the same.
        let ours = lock_of(&tx, doing, id).await?.is_some_and(|found| found.org_id == org.as_str());
        let was = "SELECT provider, account FROM connectors WHERE id = $1 AND health = $2";
        let was: Option<Was> = sql::one(&tx, doing, was, values![id.as_str(), Health::Pending.as_str()]).await?;
        let Some(was) = was.filter(|_| ours) else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Moved::No);
        };
        let other = "SELECT id FROM connectors WHERE org_id = $1 AND provider = $2 AND account = $3 AND id <> $4";
        let other_values = values![org.as_str(), was.provider.as_str(), account, id.as_str()];
        if let Some(other) = sql::one::<sql::Id>(&tx, doing, other, other_values).await? {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Moved::Taken(other.id.into()));
        }
        let sql = "UPDATE connectors SET account = $2, consent_sequence = consent_sequence + 1, \
                   grant_sequence = consent_sequence + 1 WHERE id = $1";
        sql::run(&tx, doing, sql, values![id.as_str(), account]).await?;
        let both = (json!({ "account": was.account }), json!({ "account": account }));
        self.audit_connector(&tx, org, id, "connector.account_changed", both).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.connector_changed(id);
        Ok(Moved::Yes)
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
