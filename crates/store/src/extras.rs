//! Table `extras`: what rides along with a credential, sealed, one row each.

use holdfast_core::{ConnectorId, OrgId, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use secrecy::SecretString;
use serde_json::{Value, json};
use tracing::warn;

use crate::{
    audit::CHANGED,
    seal::{DataKey, Place},
    sql::{self, failed, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Row {
    org_id: String,
    sealed_data_key: Vec<u8>,
    name: String,
    sealed: Vec<u8>,
}

impl Store {
    /// By name. One that cannot be opened is left out, and logged.
    pub async fn extras(&self, connector: &ConnectorId) -> Result<Vec<(String, SecretString)>, StoreError> {
        let sql = "SELECT o.id AS org_id, o.sealed_data_key, x.name, x.sealed FROM extras x \
                   JOIN connectors c ON c.id = x.connector_id JOIN orgs o ON o.id = c.org_id \
                   WHERE x.connector_id = $1 ORDER BY x.name";
        let rows: Vec<Row> = sql::all(self.db(), "read extras", sql, values![connector.as_str()]).await?;
        let mut extras = Vec::with_capacity(rows.len());
        for row in rows {
            let org = OrgId::from(row.org_id);
            let opened = self.inner.sealer.data_key(&org, &row.sealed_data_key).and_then(|key| {
                let field = field(&row.name);
                key.open_text(Place { org: &org, owner: connector.as_str(), field: &field }, &row.sealed)
            });
            match opened {
                Ok(value) => extras.push((row.name, value)),
                Err(error) => warn!(connector.id = %connector, error = %error, "cannot open the extra {}", row.name),
            }
        }
        Ok(extras)
    }

    /// Writes one, over an older value. An error when there is no such connector.
    pub async fn put_extra(&self, connector: &ConnectorId, name: &str, value: &SecretString) -> Result<(), StoreError> {
        let doing = "write an extra";
        let sql = "SELECT org_id AS id FROM connectors WHERE id = $1";
        let org: Option<sql::Id> = sql::one(self.db(), doing, sql, values![connector.as_str()]).await?;
        let org = org.map(|org| OrgId::from(org.id));
        let org = org.ok_or_else(|| StoreError::new(format!("there is no connector {connector}")))?;
        let key = self.data_key(self.db(), &org).await?;
        let doing = "write an extra";
        let tx = self.transaction(doing).await?;
        insert(&tx, &key, &org, connector, name, value).await?;
        let now = json!({ "extra": name, "value": CHANGED });
        self.audit_connector(&tx, &org, connector, "connector.extra_changed", (Value::Null, now)).await?;
        tx.commit().await.map_err(failed(doing))
    }
}

/// Writes one, over an older value.
pub(crate) async fn insert(
    db: &impl ConnectionTrait,
    key: &DataKey,
    org: &OrgId,
    connector: &ConnectorId,
    name: &str,
    value: &SecretString,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO extras (connector_id, name, sealed) VALUES ($1, $2, $3) \
               ON CONFLICT (connector_id, name) DO UPDATE SET sealed = excluded.sealed";
    let field = field(name);
    let sealed = key.seal_text(Place { org, owner: connector.as_str(), field: &field }, value);
    sql::run(db, "write an extra", sql, values![connector.as_str(), name, sealed]).await.map(|_| ())
}

fn field(name: &str) -> String {
    format!("extra.{name}")
}
