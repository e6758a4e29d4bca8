//! A database of its own for each test, of either kind, and looks behind the service's back.

use std::{
    collections::BTreeMap, panic::AssertUnwindSafe, path::PathBuf, str::FromStr as _, sync::Arc, time::Duration,
};

use futures::FutureExt as _;
use holdfast_app::seams::OsRandom;
use holdfast_core::ports::Random as _;
use holdfast_store::MasterKey;
use secrecy::SecretString;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, SqliteConnection};
use tempfile::TempDir;

/// Both databases run each test; `async fn name(db: Arc<Database>)`.
#[macro_export]
macro_rules! on_both {
    ($($name:ident,)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let db = $crate::database::Database::sqlite();
                super::$name(std::sync::Arc::new(db)).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                $crate::database::on_postgres(super::$name).await;
            })*
        }
    };
}

/// One database, empty at first.
pub struct Database {
    /// As the setting `database.url`.
    pub url: String,
    /// Seals it.
    pub master_key: SecretString,
    dir: TempDir,
}

impl Database {
    /// A file in a folder of its own.
    pub fn sqlite() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let url = format!("sqlite://{}", dir.path().join("holdfast.sqlite").display());
        Self { url, master_key: MasterKey::generate(&OsRandom), dir }
    }

    /// Whether it is a file.
    pub fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    /// A folder for what else a test keeps.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs SQL.
    pub async fn execute(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        let done = if self.is_sqlite() {
            self.file().await.execute(sql).await.map(|_| ())
        } else {
            self.server().await.execute(sql).await.map(|_| ())
        };
        done.expect("the statement is right");
    }

    /// From here on the database refuses to write to these tables, or to write at all where none is named, to everybody.
    pub async fn refuse_writes(&self, tables: &[&str]) {
        if tables.is_empty() && !self.is_sqlite() {
            // As after a failover to a standby: whoever is connected has to connect again, and may only read.
            self.execute(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", self.name())).await;
            return self.hang_up().await;
        }
        let all = ["leases", "exchanges", "credentials", "connectors", "connect_sessions", "replicas"];
        for table in if tables.is_empty() { &all } else { tables } {
            if self.is_sqlite() {
                for event in ["INSERT", "UPDATE", "DELETE"] {
                    self.execute(&format!(
                        "CREATE TRIGGER refuse_{event}_{table} BEFORE {event} ON {table} \
                         BEGIN SELECT RAISE(ABORT, 'writes are refused'); END"
                    ))
                    .await;
                }
            } else {
                self.execute(
                    "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                     $$ BEGIN RAISE EXCEPTION 'writes are refused'; END $$",
                )
                .await;
                self.execute(&format!(
                    "CREATE TRIGGER refuse_{table} BEFORE INSERT OR UPDATE OR DELETE ON {table} \
                     FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
                ))
                .await;
            }
        }
    }

    /// It takes everything again.
    pub async fn allow_writes(&self) {
        if self.is_sqlite() {
            let triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'refuse_%'";
            for trigger in self.texts(triggers).await {
                self.execute(&format!("DROP TRIGGER {trigger}")).await;
            }
            return;
        }
        let mut server = self.server().await;
        let reset = format!("ALTER DATABASE {} RESET default_transaction_read_only", self.name());
        for sql in ["SET default_transaction_read_only = off", &reset, "DROP FUNCTION IF EXISTS refuse CASCADE"] {
            server.execute(AssertSqlSafe(sql.to_owned())).await.expect("the statement is right");
        }
        self.hang_up().await;
    }

    fn name(&self) -> &str {
        self.url.rsplit('/').next().expect("a URL has a path")
    }

    async fn hang_up(&self) {
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await;
    }

    /// One number.
    pub async fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        let found = if self.is_sqlite() {
            sqlx::query_scalar(sql).fetch_one(&mut self.file().await).await
        } else {
            sqlx::query_scalar(sql).fetch_one(&mut self.server().await).await
        };
        found.expect("the statement answers one number")
    }

    /// Everything that is stored, as bytes: the files themselves, or each value of each column.
    pub async fn dump(&self) -> Vec<u8> {
        let mut all = Vec::new();
        if self.is_sqlite() {
            for end in ["", "-wal", "-shm"] {
                all.extend(std::fs::read(self.path(&format!("holdfast.sqlite{end}"))).unwrap_or_default());
            }
            return all;
        }
        let mut server = self.server().await;
        let columns = "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns \
                       WHERE table_schema = 'public'";
        for column in sqlx::query(columns).fetch_all(&mut server).await.expect("the catalogue can be read") {
            let (table, name, kind): (String, String, String) = (column.get(0), column.get(1), column.get(2));
            let value = format!("\"{name}\"");
            let value = if kind == "bytea" { value } else { format!("convert_to({value}::text, 'UTF8')") };
            let sql = format!("SELECT {value} FROM \"{table}\"");
            let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut server).await.expect("a column can be read");
            for row in rows {
                all.extend(row.get::<Option<Vec<u8>>, _>(0).unwrap_or_default());
                all.push(b'\n');
            }
        }
        all
    }

    /// Every row of every table as text, sorted: to be compared with itself later.
    pub async fn content(&self) -> BTreeMap<String, Vec<String>> {
        let tables = if self.is_sqlite() {
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        } else {
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'"
        };
        let mut all = BTreeMap::new();
        for table in self.texts(tables).await {
            let row = if self.is_sqlite() {
                let columns = format!("SELECT 'quote(\"' || name || '\")' FROM pragma_table_info('{table}')");
                self.texts(&columns).await.join(" || ',' || ")
            } else {
                "whole::text".to_owned()
            };
            let mut rows = self.texts(&format!("SELECT {row} FROM \"{table}\" AS whole")).await;
            rows.sort_unstable();
            all.insert(table, rows);
        }
        all
    }

    async fn texts(&self, sql: &str) -> Vec<String> {
        let sql = AssertSqlSafe(sql.to_owned());
        let found = if self.is_sqlite() {
            sqlx::query_scalar(sql).fetch_all(&mut self.file().await).await
        } else {
            sqlx::query_scalar(sql).fetch_all(&mut self.server().await).await
        };
        found.expect("the statement answers texts")
    }

    async fn file(&self) -> SqliteConnection {
        let options = sqlx::sqlite::SqliteConnectOptions::from_str(&self.url).expect("the URL is right");
        let options = options.busy_timeout(Duration::from_secs(10));
        SqliteConnection::connect_with(&options).await.expect("the file can be opened")
    }

    async fn server(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("the server can be reached")
    }
}

/// Where the server is. The half of the suite that needs it fails without it, so that nobody takes half for the whole.
#[expect(clippy::disallowed_methods, reason = "the one setting of this suite")]
fn postgres_server() -> String {
    std::env::var("HOLDFAST_TEST_POSTGRES")
        .expect("HOLDFAST_TEST_POSTGRES is not set; run `cargo xtask test`, which starts a PostgreSQL for it")
}

/// Runs the test on a PostgreSQL database of its own, and drops that, also after a failure.
pub async fn on_postgres(test: impl AsyncFnOnce(Arc<Database>)) {
    let server = postgres_server();
    let mut random = [0; 8];
    OsRandom.fill(&mut random);
    let name = format!("holdfast_it_{:016x}", u64::from_le_bytes(random));
    let mut admin = PgConnection::connect(&server).await.expect("HOLDFAST_TEST_POSTGRES is reachable");
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.expect("databases may be created there");
    let mut url = url::Url::parse(&server).expect("HOLDFAST_TEST_POSTGRES is a URL");
    url.set_path(&name);
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let db = Database { url: url.to_string(), master_key: MasterKey::generate(&OsRandom), dir };
    let outcome = AssertUnwindSafe(test(Arc::new(db))).catch_unwind().await;
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    admin.execute(AssertSqlSafe(drop)).await.expect("what was made can be dropped");
    if let Err(failure) = outcome {
        std::panic::resume_unwind(failure);
    }
}
