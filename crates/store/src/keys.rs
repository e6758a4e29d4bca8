//! Table `api_keys`: keys by their hash; the key itself is nowhere.

use chrono::{DateTime, Utc};
use holdfast_core::{
    OrgId,
    ports::{Changed, StoreError},
};

use sea_orm::FromQueryResult;
use serde_json::{Value, json};

use crate::{
    audit::Change,
    mails::{MailKind, Tell},
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// An API key to be made.
#[derive(Clone, Debug)]
pub struct NewKey<'a> {
    /// Whose.
    pub org: &'a OrgId,
    /// One of [`Store::new_key_id`].
    pub id: &'a str,
    /// What people call it.
    pub name: &'a str,
    /// What it may do.
    pub scopes: &'a [String],
    /// SHA-256 of its text.
    pub hash: &'a [u8; 32],
    /// When.
    pub at: DateTime<Utc>,
}

/// An API key, without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id.
    pub id: String,
    /// Whose.
    pub org: OrgId,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was taken back.
    pub revoked_at: Option<DateTime<Utc>>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    org_id: String,
    name: String,
    scopes: Value,
    created_at: DateTime<Utc>,
    revoked_at: Option<DateTime<Utc>>,
}

impl TryFrom<Row> for ApiKey {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            scopes: serde_json::from_value(row.scopes).map_err(|_| nonsense("api_keys", "scopes", &row.id))?,
            id: row.id,
            org: row.org_id.into(),
            name: row.name,
            created_at: row.created_at,
            revoked_at: row.revoked_at,
        })
    }
}

const SELECT: &str = "SELECT id, org_id, name, scopes, created_at, revoked_at FROM api_keys WHERE ";

impl Store {
    /// An id for a key that is to be made.
    pub fn new_key_id(&self) -> String {
        self.id("key")
    }

    /// Adds a key by the SHA-256 of its text; answers its id.
    pub async fn create_key(
        &self,
        org: &OrgId,
        name: &str,
        scopes: &[String],
        hash: &[u8; 32],
        at: DateTime<Utc>,
    ) -> Result<String, StoreError> {
        let id = self.new_key_id();
        self.create_key_as(&NewKey { org, id: &id, name, scopes, hash, at }, None).await?;
        Ok(id)
    }

    /// The same under an id of its own, once: a key that has it already is left as it is. The org's admins are told of it,
    /// and by whom it was made, where that is asked for.
    pub async fn create_key_as(&self, key: &NewKey<'_>, told: Option<(&Tell, &str)>) -> Result<Changed, StoreError> {
        let doing = "add an API key";
        let tx = self.transaction(doing).await?;
        let sql = "INSERT INTO api_keys (id, org_id, name, hash, scopes, created_at) VALUES ($1, $2, $3, $4, $5, $6) \
                   ON CONFLICT (id) DO NOTHING";
        let scopes = Value::from(key.scopes.to_vec());
        let values = values![key.id, key.org.as_str(), key.name, key.hash.to_vec(), scopes, micros(key.at)];
        if sql::run(&tx, doing, sql, values).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        }
        let now = json!({ "scopes": key.scopes });
        self.audit(&tx, Change::new(key.org, "key.created", ("key", key.id, key.name)).now(now)).await?;
        if let Some((tell, by)) = told {
            let about = json!({ "key": key.id, "by": by });
            self.tell_admins(&tx, tell, key.org, MailKind::KeyMade, &about).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        self.key_changed(key.id);
        Ok(Changed::Yes)
    }

    /// All of an org, revoked ones too, oldest first.
    pub async fn keys(&self, org: &OrgId) -> Result<Vec<ApiKey>, StoreError> {
        let sql = format!("{SELECT} org_id = $1 ORDER BY id");
        let rows: Vec<Row> = sql::all(self.db(), "list API keys", sql, values![org.as_str()]).await?;
        rows.into_iter().map(ApiKey::try_from).collect()
    }

    /// Takes a key back, once.
    pub async fn revoke_key(&self, org: &OrgId, id: &str, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let doing = "revoke an API key";
        let tx = self.transaction(doing).await?;
        let sql = "UPDATE api_keys SET revoked_at = $3 WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL \
                   RETURNING name AS id";
        let revoked: Option<sql::Id> = sql::one(&tx, doing, sql, values![org.as_str(), id, micros(at)]).await?;
        let Some(name) = revoked.map(|row| row.id) else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        };
        self.audit(&tx, Change::new(org, "key.revoked", ("key", id, &name))).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.key_changed(id);
        Ok(Changed::Yes)
    }

    /// The key with this SHA-256, revoked or not. The one query without an org: the key says whose it is.
    pub async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>, StoreError> {
        let sql = format!("{SELECT} hash = $1");
        let row: Option<Row> = sql::one(self.db(), "look for an API key", sql, values![hash.to_vec()]).await?;
        row.map(ApiKey::try_from).transpose()
    }
}
