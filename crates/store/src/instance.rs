//! Secrets of the whole instance in table `instance`: random, made once, the same for every replica.

use holdfast_core::ports::StoreError;
use sea_orm::{ConnectionTrait, FromQueryResult};

use crate::{
    sql::{self, because, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Held {
    value: Vec<u8>,
}

/// Rows beside these hold something else.
const PREFIX: &str = "secret.";

impl Store {
    /// The secret of this name, 32 random bytes; made by whoever asks first.
    pub async fn instance_secret(&self, name: &str) -> Result<[u8; 32], StoreError> {
        let doing = "make a secret of the instance";
        if let Some(secret) = self.find_instance_secret(name).await? {
            return Ok(secret);
        }
        let mut secret = [0; 32];
        self.inner.options.random.fill(&mut secret);
        let sealed = self.inner.sealer.seal_for_instance(name, &secret);
        let sql = "INSERT INTO instance (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING";
        sql::run(self.db(), doing, sql, values![format!("{PREFIX}{name}"), sealed]).await?;
        // Another replica may have been faster: its secret counts.
        self.find_instance_secret(name).await?.ok_or_else(|| StoreError::new(doing))
    }

    /// The secret of this name, if there is one.
    pub async fn find_instance_secret(&self, name: &str) -> Result<Option<[u8; 32]>, StoreError> {
        let doing = "open a secret of the instance";
        let sql = "SELECT value FROM instance WHERE key = $1";
        let held: Option<Held> = sql::one(self.db(), doing, sql, values![format!("{PREFIX}{name}")]).await?;
        let Some(held) = held else { return Ok(None) };
        let plain = self.inner.sealer.open_for_instance(name, &held.value).map_err(|error| because(doing, error))?;
        plain.as_slice().try_into().map(Some).map_err(|error| because(doing, error))
    }
}

/// Takes the secret of this name away; whether it was there. Whoever else wants to, waits until this transaction ends.
pub(crate) async fn spend(db: &impl ConnectionTrait, doing: &'static str, name: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM instance WHERE key = $1";
    Ok(sql::run(db, doing, sql, values![format!("{PREFIX}{name}")]).await? > 0)
}
