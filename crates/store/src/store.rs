//! The store: one pool, the sealing, the signals.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use holdfast_core::ports::{Clock, Random, StoreError};
use tokio_util::sync::CancellationToken;

use crate::seal::MasterKey;

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One machine, one serving process.
    Sqlite,
    /// Any number of replicas.
    Postgres,
}

/// How to reach the database, and what is passed in.
#[derive(Clone)]
pub struct Options {
    /// `sqlite://path/to/file.db` or `postgres://…`.
    pub url: String,
    /// PostgreSQL without a pooler in between, for the listener; `None`: `url` is direct.
    pub listen_url: Option<String>,
    /// Size of the pool.
    pub max_connections: u32,
    /// Opens the data keys.
    pub master_key: MasterKey,
    /// This replica, as leases and journal name their holder; unique among all that ever lived.
    pub replica: String,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids, keys and nonces.
    pub random: Arc<dyn Random>,
    /// Between two signs of life; [`Options::HEARTBEAT`] unless a test is in a hurry.
    pub heartbeat: Duration,
}

impl Options {
    /// Four of them fit into the time after which a replica counts as dead, so that one lost beat is no death.
    pub const HEARTBEAT: Duration = Duration::from_secs(2);
}

/// Everything that is stored. Cheap to clone.
#[derive(Clone)]
pub struct Store {}

impl Store {
    /// Opens the pool. Does not migrate and does not look at the master key: see [`Store::migrate`] and [`Store::unlock`].
    pub async fn connect(options: Options) -> Result<Self, StoreError> {
        let _ = options;
        todo!()
    }

    /// Which database this is.
    pub fn kind(&self) -> Kind {
        todo!()
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        todo!()
    }

    /// Now, by the database's clock.
    pub async fn database_clock(&self) -> Result<DateTime<Utc>, StoreError> {
        todo!()
    }

    /// Signs of life, and on PostgreSQL the listener; until `stop`. Everything that serves has to run it.
    pub async fn run(&self, stop: CancellationToken) {
        let _ = stop;
        todo!()
    }
}
