//! Table `throttles`: failures that slow down guessing, counted over all replicas.

use chrono::{DateTime, Utc};
use holdfast_core::ports::StoreError;
use sea_orm::FromQueryResult;

use crate::{
    sql::{self, micros, values},
    store::Store,
};

/// What has been counted for a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// In a row.
    pub failures: i64,
    /// The last one.
    pub last_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct Row {
    failures: i64,
    last_at: DateTime<Utc>,
}

impl Store {
    /// What has been counted for this subject, a hash.
    pub async fn find_throttle(&self, subject: &[u8; 32]) -> Result<Option<Throttle>, StoreError> {
        let sql = "SELECT failures, last_at FROM throttles WHERE subject = $1";
        let row: Option<Row> = sql::one(self.db(), "look for failures", sql, values![subject.to_vec()]).await?;
        Ok(row.map(|row| Throttle { failures: row.failures, last_at: row.last_at }))
    }

    /// Counts a failure; one that is older than `forget_before` begins anew.
    pub async fn count_failure(
        &self,
        subject: &[u8; 32],
        at: DateTime<Utc>,
        forget_before: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let doing = "count a failure";
        let old = "DELETE FROM throttles WHERE last_at < $1";
        sql::run(self.db(), doing, old, values![micros(forget_before)]).await?;
        let sql = "INSERT INTO throttles (subject, failures, last_at) VALUES ($1, 1, $2) \
                   ON CONFLICT (subject) DO UPDATE SET failures = throttles.failures + 1, last_at = EXCLUDED.last_at";
        sql::run(self.db(), doing, sql, values![subject.to_vec(), micros(at)]).await.map(|_| ())
    }

    /// A success: nothing is held against the subject.
    pub async fn forget_failures(&self, subject: &[u8; 32]) -> Result<(), StoreError> {
        let sql = "DELETE FROM throttles WHERE subject = $1";
        sql::run(self.db(), "forget failures", sql, values![subject.to_vec()]).await.map(|_| ())
    }
}
