//! Table `throttles`: attempts that slow down guessing, counted over all replicas.

use chrono::{DateTime, Utc};
use holdfast_core::ports::{Changed, StoreError};
use sea_orm::FromQueryResult;

use crate::{
    sql::{self, micros, values},
    store::Store,
};

/// What has been counted for a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Attempts in a row that have not succeeded, one that is under way included.
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

    /// Counts an attempt before it is made, if nobody has counted another one since `seen` was read: a thousand that are
    /// made at once are a thousand attempts. What is older than `forget_before` goes.
    pub async fn count_attempt(
        &self,
        subject: &[u8; 32],
        seen: Option<&Throttle>,
        at: DateTime<Utc>,
        forget_before: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "count an attempt";
        let seen = seen.filter(|seen| seen.last_at >= forget_before);
        let counted = if let Some(seen) = seen {
            let sql = "UPDATE throttles SET failures = failures + 1, last_at = $2 \
                       WHERE subject = $1 AND failures = $3 AND last_at = $4";
            sql::run(self.db(), doing, sql, values![subject.to_vec(), micros(at), seen.failures, seen.last_at]).await?
        } else {
            let old = "DELETE FROM throttles WHERE last_at < $1";
            sql::run(self.db(), doing, old, values![micros(forget_before)]).await?;
            let sql = "INSERT INTO throttles (subject, failures, last_at) VALUES ($1, 1, $2) \
                       ON CONFLICT (subject) DO NOTHING";
            sql::run(self.db(), doing, sql, values![subject.to_vec(), micros(at)]).await?
        };
        Ok(if counted == 0 { Changed::No } else { Changed::Yes })
    }

    /// An attempt has succeeded, or was not made after all: it counts no more, and those before it still do.
    pub async fn uncount_attempt(&self, subject: &[u8; 32]) -> Result<(), StoreError> {
        let sql = "UPDATE throttles SET failures = failures - 1 WHERE subject = $1 AND failures > 0";
        sql::run(self.db(), "count an attempt no more", sql, values![subject.to_vec()]).await.map(|_| ())
    }

    /// Nothing is held against the subject any more.
    pub async fn forget_failures(&self, subject: &[u8; 32]) -> Result<(), StoreError> {
        let sql = "DELETE FROM throttles WHERE subject = $1";
        sql::run(self.db(), "forget failures", sql, values![subject.to_vec()]).await.map(|_| ())
    }
}
