//! Table `users`: people.

use chrono::{DateTime, Utc};
use holdfast_core::{OrgId, ports::StoreError};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    sql::{self, micros, values},
    store::Store,
};

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
        let id = self.id("user");
        let sql = "INSERT INTO users (id, org_id, email, role, operator, password_hash, created_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (org_id, email) DO NOTHING";
        let values = values![
            id.as_str(),
            user.org.as_str(),
            user.email.trim().to_lowercase(),
            user.role.as_str(),
            user.operator,
            user.password_hash.as_ref().map(|hash| hash.expose_secret().to_owned()),
            micros(user.at),
        ];
        Ok(match sql::run(self.db(), "add a person", sql, values).await? {
            0 => Err(EmailTaken),
            _ => Ok(id),
        })
    }
}
