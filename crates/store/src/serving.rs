//! One serving process per SQLite file: an OS lock beside it, and what its holder may clear away.

use std::{
    fs::{File, OpenOptions},
    str::FromStr as _,
};

use holdfast_core::{
    ports::{Signal, StoreError},
    refresh::OutcomeKind,
};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use sqlx::sqlite::SqliteConnectOptions;

use crate::{
    sql::{self, because, failed, micros, values},
    store::{Kind, Store},
};

/// The right to serve; ends when dropped, and with the process.
#[derive(Debug)]
#[must_use = "dropping it gives the right away"]
pub struct ServingLock(#[expect(dead_code, reason = "held for its lock")] Option<File>);

impl Store {
    /// Takes the OS lock beside the SQLite file (`<file>.lock`); an error when another process has it. On PostgreSQL
    /// there is none to take.
    pub fn lock_for_serving(&self) -> Result<ServingLock, StoreError> {
        if self.kind() == Kind::Postgres {
            return Ok(ServingLock(None));
        }
        let options = SqliteConnectOptions::from_str(&self.inner.options.url);
        let options = options.map_err(|error| because("read the database's URL", error))?;
        let mut path = options.get_filename().as_os_str().to_owned();
        path.push(".lock");
        let doing = format!("lock the database with {}", path.display());
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| because(doing.as_str(), error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(ServingLock(Some(file))),
            Err(Errno::WOULDBLOCK) => {
                Err(StoreError::new(format!("another process serves this database: it holds {}", path.display())))
            }
            Err(error) => Err(because(doing, error)),
        }
    }

    /// Voids the leases of the process before, of its runs too, and closes its open exchanges as lost, with `answer_lost` marked; answers
    /// how many those were. Only for the holder of the [`ServingLock`]; does nothing on PostgreSQL, where others live.
    pub async fn void_previous(&self, _lock: &ServingLock) -> Result<u64, StoreError> {
        if self.kind() == Kind::Postgres {
            return Ok(0);
        }
        let doing = "clear up after the process before";
        let tx = self.transaction(doing).await?;
        sql::run(&tx, doing, "UPDATE leases SET expires_at_ms = 0", values![]).await?;
        sql::run(&tx, doing, "DELETE FROM refresh_claims", values![]).await?;
        sql::run(&tx, doing, Self::VOID_MAIL_CLAIMS, values![]).await?;
        // It lives no more, whenever it was seen last.
        sql::run(&tx, doing, "DELETE FROM replicas", values![]).await?;
        let mark = "UPDATE credentials SET answer_lost = TRUE WHERE EXISTS (SELECT 1 FROM exchanges e \
                    WHERE e.credential_id = credentials.id AND e.version = credentials.version \
                    AND e.closed_at IS NULL)";
        sql::run(&tx, doing, mark, values![]).await?;
        let close = "UPDATE exchanges SET closed_at = $1, outcome = $2 WHERE closed_at IS NULL";
        let values = values![micros(self.clock().now()), OutcomeKind::OwnerLost.as_str()];
        let closed = sql::run(&tx, doing, close, values).await?;
        // Nobody is running them any more: the next look sees to them.
        sql::run(&tx, doing, "UPDATE runs SET lease_expires_at_ms = 0 WHERE state = 'running'", values![]).await?;
        sql::run(&tx, doing, "UPDATE jobs SET lease_expires_at_ms = 0 WHERE state = 'running'", values![]).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.tell(Signal::All);
        Ok(closed)
    }
}
