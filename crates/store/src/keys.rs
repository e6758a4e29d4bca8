//! Table `api_keys`.

use chrono::{DateTime, Utc};
use holdfast_core::{
    OrgId,
    ports::{Changed, StoreError},
};

use crate::store::Store;

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

impl Store {
    /// Adds a key by the SHA-256 of its text; answers its id.
    pub async fn create_key(
        &self,
        org: &OrgId,
        name: &str,
        scopes: &[String],
        hash: &[u8; 32],
        at: DateTime<Utc>,
    ) -> Result<String, StoreError> {
        let _ = (org, name, scopes, hash, at);
        todo!()
    }

    /// All of an org, revoked ones too, oldest first.
    pub async fn keys(&self, org: &OrgId) -> Result<Vec<ApiKey>, StoreError> {
        let _ = org;
        todo!()
    }

    /// Takes a key back, once.
    pub async fn revoke_key(&self, org: &OrgId, id: &str, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let _ = (org, id, at);
        todo!()
    }

    /// The key with this SHA-256, revoked or not. The one query without an org: the key says whose it is.
    pub async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>, StoreError> {
        let _ = hash;
        todo!()
    }
}
