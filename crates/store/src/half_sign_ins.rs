//! Table `half_sign_ins`: people who have shown the right password and owe their second factor. No session: it opens nothing.

use chrono::{DateTime, Utc};
use holdfast_core::ports::StoreError;
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use crate::{
    sql::{self, because, micros, nonsense, values},
    store::Store,
};

/// The first half of a sign-in.
#[derive(Clone, Debug)]
pub struct HalfSignIn {
    /// Who.
    pub user: String,
    /// The same person's rows in other orgs, whose password was proven too.
    pub also: Vec<String>,
    /// Where they go on.
    pub next: String,
    /// Until when.
    pub expires_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct Row {
    user_id: String,
    also: Value,
    sealed_next: Vec<u8>,
    expires_at: DateTime<Utc>,
}

const COLUMNS: &str = "user_id, also, sealed_next, expires_at";
/// Where the sealed path belongs.
const NEXT: &str = "half-sign-in";

impl Store {
    /// Keeps it under the SHA-256 of a cookie. What is over goes.
    pub async fn begin_half_sign_in(
        &self,
        cookie: &[u8; 32],
        half: &HalfSignIn,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let doing = "keep the half of a sign-in";
        sql::run(self.db(), doing, "DELETE FROM half_sign_ins WHERE expires_at <= $1", values![micros(at)]).await?;
        let sql = format!("INSERT INTO half_sign_ins (cookie_hash, {COLUMNS}) VALUES ($1, $2, $3, $4, $5)");
        let also = json!(half.also);
        let sealed = self.inner.sealer.seal_for_instance(NEXT, half.next.as_bytes());
        let values = values![cookie.to_vec(), half.user.as_str(), also, sealed, micros(half.expires_at)];
        sql::run(self.db(), doing, sql, values).await.map(|_| ())
    }

    /// The half of this cookie, unless it is over.
    pub async fn find_half_sign_in(
        &self,
        cookie: &[u8; 32],
        at: DateTime<Utc>,
    ) -> Result<Option<HalfSignIn>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM half_sign_ins WHERE cookie_hash = $1 AND expires_at > $2");
        let values = values![cookie.to_vec(), micros(at)];
        let row: Option<Row> = sql::one(self.db(), "look for the half of a sign-in", sql, values).await?;
        row.map(|row| self.half(row)).transpose()
    }

    /// The same, and it is over with that: of two who take it, one has it.
    pub async fn take_half_sign_in(
        &self,
        cookie: &[u8; 32],
        at: DateTime<Utc>,
    ) -> Result<Option<HalfSignIn>, StoreError> {
        let sql = format!("DELETE FROM half_sign_ins WHERE cookie_hash = $1 AND expires_at > $2 RETURNING {COLUMNS}");
        let values = values![cookie.to_vec(), micros(at)];
        let row: Option<Row> = sql::one(self.db(), "take the half of a sign-in", sql, values).await?;
        row.map(|row| self.half(row)).transpose()
    }

    /// A path of ours that was sealed for this field.
    pub(crate) fn open_path(&self, doing: &'static str, field: &str, sealed: &[u8]) -> Result<String, StoreError> {
        let plain = self.inner.sealer.open_for_instance(field, sealed).map_err(|error| because(doing, error))?;
        String::from_utf8(plain.to_vec()).map_err(|error| because(doing, error))
    }

    fn half(&self, row: Row) -> Result<HalfSignIn, StoreError> {
        Ok(HalfSignIn {
            also: serde_json::from_value(row.also).map_err(|_| nonsense("half_sign_ins", "also", &row.user_id))?,
            user: row.user_id,
            next: self.open_path("open the half of a sign-in", NEXT, &row.sealed_next)?,
            expires_at: row.expires_at,
        })
    }
}

/// After somebody's password has changed: what the one before had proven is over, in whichever of their rows.
pub(crate) async fn void(tx: &impl ConnectionTrait, doing: &'static str, user: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM half_sign_ins WHERE user_id IN \
               (SELECT id FROM users WHERE email = (SELECT email FROM users WHERE id = $1))";
    sql::run(tx, doing, sql, values![user]).await.map(|_| ())
}
