//! A PostgreSQL database of its own on the given server.

use anyhow::Context;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use url::Url;

use super::process::random_word;

const POSTGRES: &str = "HOLDFAST_TEST_POSTGRES";

/// Dropped with [`Self::drop`].
pub(super) struct Database {
    server: String,
    name: String,
    url: Url,
}

impl Database {
    pub(super) async fn create() -> anyhow::Result<Self> {
        let server = std::env::var_os(POSTGRES).filter(|url| !url.is_empty());
        let server = server.with_context(|| format!("set {POSTGRES}, or run `cargo xtask bench`"))?;
        let server = server.into_string().ok().context("its URL is no text")?;
        let name = format!("holdfast_bench_{}", random_word());
        let mut url = Url::parse(&server).context("its URL is none")?;
        url.set_path(&name);
        let database = Self { server, name, url };
        database.run("CREATE DATABASE", "").await?;
        Ok(database)
    }

    pub(super) async fn drop(self) -> anyhow::Result<()> {
        self.run("DROP DATABASE", "WITH (FORCE)").await
    }

    pub(super) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// A session behind everybody's back.
    pub(super) async fn session(&self) -> anyhow::Result<PgConnection> {
        PgConnection::connect(self.url.as_str()).await.context("PostgreSQL cannot be reached")
    }

    async fn run(&self, before: &str, after: &str) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect(&self.server).await.context("PostgreSQL cannot be reached")?;
        let sql = format!("{before} {} {after}", self.name);
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        Ok(connection.close().await?)
    }
}
