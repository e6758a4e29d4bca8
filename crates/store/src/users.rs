//! Table `users`.

use chrono::{DateTime, Utc};
use holdfast_core::{OrgId, ports::StoreError};
use secrecy::SecretString;

use crate::store::Store;

/// A person to be added.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// Whose.
    pub org: OrgId,
    /// Stored in lower case; unique in the org.
    pub email: String,
    /// `owner`, `admin`, `member` or `viewer`.
    pub role: String,
    /// Whether they run the instance.
    pub operator: bool,
    /// PHC string; `None`: cannot sign in with a password yet.
    pub password_hash: Option<SecretString>,
    /// When.
    pub at: DateTime<Utc>,
}

/// The org has a person with this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the org has a person with this address already")]
pub struct EmailTaken;

impl Store {
    /// Adds a person; answers their id.
    pub async fn create_user(&self, user: &NewUser) -> Result<Result<String, EmailTaken>, StoreError> {
        let _ = user;
        todo!()
    }
}
