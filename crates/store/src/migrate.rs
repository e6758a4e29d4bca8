//! Migrations, safe with many replicas starting at once, and the check of the master key.

use holdfast_core::ports::StoreError;
use holdfast_migrations::{Migrator, MigratorTrait};
use sea_orm::FromQueryResult;
use sea_orm_migration::MigrationStatus;

use crate::{
    sql::{self, failed, values},
    store::{Kind, Store},
};

/// "holdfast" as a number: nobody else's lock.
const LOCK: i64 = i64::from_be_bytes(*b"holdfast");

#[derive(FromQueryResult)]
struct Canary {
    value: Vec<u8>,
}

impl Store {
    /// Applies what is pending, all of it or nothing. Safe with any number of processes starting at once: on SQLite the
    /// transaction is `Immediate`; on PostgreSQL it holds an advisory lock, which ends with it, so that a pooler in
    /// transaction mode may stand in between.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let doing = "migrate the database";
        let tx = self.transaction(doing).await?;
        if self.kind() == Kind::Postgres {
            sql::run(tx.unhurried(), doing, "SELECT pg_advisory_xact_lock($1)", values![LOCK]).await?;
        }
        Migrator::up(tx.unhurried(), None).await.map_err(failed(doing))?;
        tx.commit().await.map_err(failed(doing))
    }

    /// Every step by name, oldest first, and whether it is applied. Writes nothing.
    pub async fn migration_status(&self) -> Result<Vec<(String, bool)>, StoreError> {
        let steps = Migrator::get_migration_with_status_read_only(self.db().unhurried()).await;
        let steps = steps.map_err(failed("look at the migrations"))?;
        Ok(steps
            .iter()
            .map(|step| (step.name().to_owned(), matches!(step.status(), MigrationStatus::Applied)))
            .collect())
    }

    /// Checks that this master key sealed this database; an empty one is marked as this key's. After
    /// [`Store::migrate`].
    pub async fn unlock(&self) -> Result<(), StoreError> {
        let doing = "check the master key";
        let mark = "INSERT INTO instance (key, value) VALUES ('canary', $1) ON CONFLICT (key) DO NOTHING";
        let look = "SELECT value FROM instance WHERE key = 'canary'";
        let mut canary: Option<Canary> = sql::one(self.db(), doing, look, values![]).await?;
        if canary.is_none() {
            sql::run(self.db(), doing, mark, values![self.inner.sealer.canary()]).await?;
            canary = sql::one(self.db(), doing, look, values![]).await?;
        }
        match canary {
            Some(canary) if self.inner.sealer.knows(&canary.value) => Ok(()),
            Some(_) => Err(StoreError::new("this database was sealed with another master key")),
            None => Err(StoreError::new(doing)),
        }
    }
}
