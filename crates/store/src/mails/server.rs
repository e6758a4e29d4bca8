//! The mail server's trouble: known to every replica and after a restart. While it lasts nothing is claimed, and one
//! replica at a time looks whether it is over.

use chrono::{DateTime, Utc};
use holdfast_core::ports::{Changed, StoreError};
use sea_orm::FromQueryResult;

use crate::{
    sql::{self, micros, nonsense, values},
    store::Store,
};

/// The mail server takes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailTrouble {
    /// Since when, without a break.
    pub since: DateTime<Utc>,
    /// The last attempt.
    pub tried_at: DateTime<Utc>,
    /// The next one.
    pub retry_at: DateTime<Utc>,
    /// Attempts in a row that came to nothing.
    pub failures: u32,
    /// What the last one came to, in short; for operators.
    pub error: String,
}

#[derive(FromQueryResult)]
struct Row {
    since: DateTime<Utc>,
    tried_at: DateTime<Utc>,
    retry_at: DateTime<Utc>,
    failures: i64,
    error: String,
}

/// There is one mail server.
const ID: &str = "server";

impl Store {
    /// The mail server's trouble; `None`: as far as is known it takes mail.
    pub async fn mail_trouble(&self) -> Result<Option<MailTrouble>, StoreError> {
        let sql = "SELECT since, tried_at, retry_at, failures, error FROM mail_trouble WHERE id = $1";
        let row: Option<Row> = sql::one(self.db(), "look at the mail server's trouble", sql, values![ID]).await?;
        row.map(|row| {
            Ok(MailTrouble {
                since: row.since,
                tried_at: row.tried_at,
                retry_at: row.retry_at,
                failures: u32::try_from(row.failures).map_err(|_| nonsense("mail_trouble", "failures", ID))?,
                error: row.error,
            })
        })
        .transpose()
    }

    /// An attempt came to nothing: the trouble begins, or goes on.
    pub async fn note_mail_trouble(
        &self,
        at: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        error: &str,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO mail_trouble (id, since, tried_at, retry_at, failures, error) \
                   VALUES ($1, $2, $2, $3, 1, $4) ON CONFLICT (id) DO UPDATE SET tried_at = EXCLUDED.tried_at, \
                   retry_at = EXCLUDED.retry_at, failures = mail_trouble.failures + 1, error = EXCLUDED.error";
        let values = values![ID, micros(at), micros(retry_at), error];
        sql::run(self.db(), "note the mail server's trouble", sql, values).await.map(|_| ())
    }

    /// The right to be the next one who tries, until `until`.
    pub async fn take_mail_retry(&self, at: DateTime<Utc>, until: DateTime<Utc>) -> Result<Changed, StoreError> {
        let sql = "UPDATE mail_trouble SET retry_at = $3 WHERE id = $1 AND retry_at <= $2";
        Ok(sql::changed(
            sql::run(self.db(), "try the mail server again", sql, values![ID, micros(at), micros(until)]).await?,
        ))
    }

    /// It takes mail again. `No`: there was no trouble.
    pub async fn end_mail_trouble(&self) -> Result<Changed, StoreError> {
        let sql = "DELETE FROM mail_trouble WHERE id = $1";
        Ok(sql::changed(sql::run(self.db(), "end the mail server's trouble", sql, values![ID]).await?))
    }
}
