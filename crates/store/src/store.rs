//! The store: one pool, the sealing, the signals.

use std::{fs::OpenOptions, path::Path, str::FromStr as _, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use holdfast_core::{
    OrgId,
    ports::{Clock, Random, StoreError},
};
use sea_orm::{
    ConnectOptions, Database, DatabaseConnection, DatabaseTransaction, DbBackend, FromQueryResult,
    SqliteTransactionMode, TransactionOptions,
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use tracing::log::LevelFilter;

use crate::{
    patience::{Patience, Patient},
    seal::{DataKey, MasterKey, Sealer},
    signals::Hub,
    sql::{self, Number, because, failed, values},
};

/// Waiting for a pooled connection or a new one takes no longer than a caller of the engine waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// SQLite writers queue for this long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that rested for longer is tried before it is used.
const TEST_AFTER: Duration = Duration::from_secs(10);
/// A transaction whose client went away without a sign, or stands still, keeps its locks no longer than this: nobody else
/// could store a token, not even its owner over another connection. Between our statements lie milliseconds.
const IDLE_IN_TRANSACTION: (&str, &str) = ("idle_in_transaction_session_timeout", "5s");
/// Statements that take longer are logged, without their values.
const SLOW: Duration = Duration::from_secs(1);

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
    /// `sqlite://path/to/file.db` or `postgres://…`. A pooler in transaction mode in between must keep prepared
    /// statements apart (PgBouncer from 1.21 on, with `max_prepared_statements` above 0), and should end transactions
    /// that stand still (`idle_transaction_timeout`); where `url` is direct, we see to that.
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
    /// Between two signs of life; [`Options::HEARTBEAT`] unless a test is in a hurry. A replica counts as alive for
    /// four of them, so it has to be the same everywhere.
    pub heartbeat: Duration,
}

impl Options {
    /// Alive is who was seen within 8 s: one lost beat, or two, is no death.
    pub const HEARTBEAT: Duration = Duration::from_secs(2);
}

/// Everything that is stored. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) db: Patient<DatabaseConnection>,
    pub(crate) kind: Kind,
    pub(crate) options: Options,
    pub(crate) sealer: Sealer,
    pub(crate) hub: Hub,
}

#[derive(FromQueryResult)]
struct SealedKey {
    sealed_data_key: Vec<u8>,
}

impl Store {
    /// Opens the pool. Does not migrate and does not look at the master key: see [`Store::migrate`] and
    /// [`Store::unlock`].
    pub async fn connect(options: Options) -> Result<Self, StoreError> {
        let kind = if options.url.starts_with("sqlite:") {
            // Also to say what is wrong with it, if something is.
            let sqlite = SqliteConnectOptions::from_str(&options.url)
                .map_err(|error| because("read the database's URL", error))?;
            make_private(sqlite.get_filename());
            Kind::Sqlite
        } else if options.url.starts_with("postgres:") || options.url.starts_with("postgresql:") {
            Kind::Postgres
        } else {
            return Err(StoreError::new("the database's URL begins with neither sqlite: nor postgres:"));
        };
        let mut connect = ConnectOptions::new(&options.url);
        connect
            .max_connections(options.max_connections)
            .connect_timeout(CONNECT_TIMEOUT)
            .acquire_timeout(CONNECT_TIMEOUT)
            .test_before_acquire_if_idle_for(TEST_AFTER)
            .sqlx_logging_level(LevelFilter::Trace)
            .sqlx_slow_statements_logging_settings(LevelFilter::Warn, SLOW)
            .map_sqlx_sqlite_opts(|sqlite| {
                sqlite
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    .busy_timeout(BUSY_TIMEOUT)
                    // NORMAL would lose the last commits at a power cut, a rotated token among them.
                    .synchronous(SqliteSynchronous::Full)
                    .foreign_keys(true)
            });
        let patience = (kind == Kind::Postgres).then(|| Patience::new(Arc::clone(&options.clock)));
        if let Some(patience) = patience.clone() {
            connect.map_sqlx_postgres_pool_opts(move |pool| patience.watch(pool, TEST_AFTER));
            // A pooler in between takes no such setting; it has one of its own for this.
            if options.listen_url.is_none() {
                connect.map_sqlx_postgres_opts(|postgres| postgres.options([IDLE_IN_TRANSACTION]));
            }
        }
        if kind == Kind::Postgres {
            knock(&options.url).await?;
        }
        let db = Database::connect(connect).await.map_err(failed("connect to the database"))?;
        let db = Patient::new(db, patience);
        let sealer = Sealer::new(&options.master_key, Arc::clone(&options.random));
        let hub = Hub::new(kind);
        Ok(Self { inner: Arc::new(Inner { db, kind, options, sealer, hub }) })
    }

    /// Which database this is.
    pub fn kind(&self) -> Kind {
        self.inner.kind
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.db().ping().await.map_err(failed("reach the database"))
    }

    /// Closes the pool; what is called afterwards fails. On SQLite the write-ahead log is folded into the file.
    pub async fn shut(&self) -> Result<(), StoreError> {
        self.db().unhurried().close_by_ref().await.map_err(failed("close the database"))
    }

    /// Now, by the database's clock, in whole milliseconds.
    pub async fn database_clock(&self) -> Result<DateTime<Utc>, StoreError> {
        let doing = "ask the database for the time";
        let sql = format!("SELECT {} AS number", sql::now_ms(self.backend()));
        let now: Option<Number> = sql::one(self.db(), doing, sql, values![]).await?;
        now.and_then(|now| DateTime::from_timestamp_millis(now.number)).ok_or_else(|| StoreError::new(doing))
    }

    /// Whether the database says that something is stored before it would survive a crash of the server: PostgreSQL with
    /// `synchronous_commit` off, as our sessions have it. SQLite is told to keep what it commits.
    pub async fn loses_commits(&self) -> Result<bool, StoreError> {
        if self.kind() == Kind::Sqlite {
            return Ok(false);
        }
        let sql = "SELECT current_setting('synchronous_commit') AS id";
        let found: Option<sql::Id> = sql::one(self.db(), "ask whether commits last", sql, values![]).await?;
        Ok(found.is_some_and(|found| found.id == "off"))
    }

    pub(crate) fn db(&self) -> &Patient<DatabaseConnection> {
        &self.inner.db
    }

    pub(crate) fn backend(&self) -> DbBackend {
        match self.inner.kind {
            Kind::Sqlite => DbBackend::Sqlite,
            Kind::Postgres => DbBackend::Postgres,
        }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.inner.options.clock.as_ref()
    }

    /// A new id with this prefix.
    pub(crate) fn id(&self, prefix: &str) -> String {
        holdfast_core::id::new(prefix, self.clock(), self.inner.options.random.as_ref())
    }

    /// A transaction that may write. SQLite would refuse to upgrade a deferred one that another writer overtook.
    pub(crate) async fn transaction(&self, doing: &'static str) -> Result<Patient<DatabaseTransaction>, StoreError> {
        let options = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        };
        self.db().begin(options).await.map_err(failed(doing))
    }

    /// The org's data key.
    pub(crate) async fn data_key(
        &self,
        db: &impl sea_orm::ConnectionTrait,
        org: &OrgId,
    ) -> Result<DataKey, StoreError> {
        let key = self.find_data_key(db, org).await?;
        key.ok_or_else(|| StoreError::new(format!("there is no org {org}")))
    }

    /// The same, or `None` where there is no such org.
    pub(crate) async fn find_data_key(
        &self,
        db: &impl sea_orm::ConnectionTrait,
        org: &OrgId,
    ) -> Result<Option<DataKey>, StoreError> {
        if let Some(key) = self.inner.sealer.known(org) {
            return Ok(Some(key));
        }
        let doing = "open the org's data key";
        let sql = "SELECT sealed_data_key FROM orgs WHERE id = $1";
        let row: Option<SealedKey> = sql::one(db, doing, sql, values![org.as_str()]).await?;
        let open = |row: SealedKey| self.inner.sealer.data_key(org, &row.sealed_data_key);
        row.map(open).transpose().map_err(|error| because(doing, error))
    }
}

/// A new database file is its owner's alone; what SQLite makes beside it takes after it. One that is there stays as it is.
fn make_private(file: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Where it cannot be made, opening it says why.
        let _there_or_not = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    }
}

/// The pool tries a server that refuses connections for as long as it may wait for one; whoever starts a service wants to
/// know at once.
async fn knock(url: &str) -> Result<(), StoreError> {
    use sqlx::Connection as _;
    match tokio::time::timeout(CONNECT_TIMEOUT, sqlx::PgConnection::connect(url)).await {
        Ok(Ok(connection)) => {
            // Whether it is told so or not, it ends.
            let _closed = connection.close().await;
            Ok(())
        }
        Ok(Err(error @ sqlx::Error::Io(_))) => Err(because("connect to the database", error)),
        // Anything else is the pool's to meet, and to tell.
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}
