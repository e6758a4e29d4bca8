//! Table `replicas`: signs of life, by the database's clock.

use chrono::{DateTime, Utc};
use holdfast_core::ports::StoreError;
use sea_orm::FromQueryResult;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    sql::{self, values},
    store::{Kind, Store},
};

/// Beats that may be missed until a replica counts as dead.
const BEATS: u32 = 4;
/// Rows of replicas that were last seen before this serve nothing any more.
const FORGET_MS: i64 = 24 * 60 * 60 * 1000;

/// What this is built as.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A process that serves, or has served within a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its name.
    pub id: String,
    /// What it runs; `None`: a release that does not say so.
    pub version: Option<String>,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it gave its last sign of life. All three by the database's clock.
    pub seen_at: DateTime<Utc>,
    /// Whether that is so recent that it counts as alive.
    pub alive: bool,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    version: Option<String>,
    started_at_ms: i64,
    seen_at_ms: i64,
    alive: bool,
}

impl Store {
    /// The replicas of the last day, those that live first.
    pub async fn replicas(&self) -> Result<Vec<Replica>, StoreError> {
        let sql = format!(
            "SELECT id, version, started_at_ms, seen_at_ms, {} AS alive FROM replicas ORDER BY alive DESC, seen_at_ms DESC, id",
            self.is_alive("replicas.id", "$1")
        );
        let rows: Vec<Row> = sql::all(self.db(), "list the replicas", sql, values![self.alive_ms()]).await?;
        let moment = |ms| DateTime::from_timestamp_millis(ms).unwrap_or_default();
        let replica = |row: Row| Replica {
            started_at: moment(row.started_at_ms),
            seen_at: moment(row.seen_at_ms),
            id: row.id,
            version: row.version,
            alive: row.alive,
        };
        Ok(rows.into_iter().map(replica).collect())
    }

    /// Signs of life, and on PostgreSQL the listener; until `stop`. Everything that serves has to run it: without it, a
    /// replica counts as dead, and on PostgreSQL [`alive`](holdfast_core::ports::Signals::alive) stays false.
    pub async fn run(&self, stop: CancellationToken) {
        let work = async {
            match self.kind() {
                Kind::Sqlite => self.live().await,
                Kind::Postgres => tokio::join!(self.live(), self.listen(), self.call(), self.tell_others_of_jobs()).0,
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    /// This replica.
    pub(crate) fn replica(&self) -> &str {
        &self.inner.options.replica
    }

    /// Whether this replica is one that lives: this one, or one that was seen lately.
    pub(crate) async fn lives(&self, replica: &str) -> Result<bool, StoreError> {
        if replica == self.replica() {
            return Ok(true);
        }
        let sql = format!("SELECT id FROM replicas WHERE id = $1 AND {}", self.is_alive("replicas.id", "$2"));
        let found: Option<sql::Id> =
            sql::one(self.db(), "look whether a replica lives", sql, values![replica, self.alive_ms()]).await?;
        Ok(found.is_some())
    }

    /// A replica that was seen within this is alive.
    pub(crate) fn alive_ms(&self) -> i64 {
        i64::try_from((self.inner.options.heartbeat * BEATS).as_millis()).unwrap_or(i64::MAX)
    }

    /// SQL that says whether the replica that this column names gave a sign of life within `$N` milliseconds.
    pub(crate) fn is_alive(&self, column: &str, parameter: &str) -> String {
        let now = sql::now_ms(self.backend());
        format!("EXISTS (SELECT 1 FROM replicas r WHERE r.id = {column} AND r.seen_at_ms > {now} - {parameter})")
    }

    /// SQL that says whether the line of the replica that this column names is open: its listener has a session, under its
    /// name. The server ends that at once when the process does. On SQLite there is one process and no line.
    pub(crate) fn is_connected(&self, column: &str) -> String {
        match self.kind() {
            Kind::Sqlite => "TRUE".to_owned(),
            Kind::Postgres => {
                format!("EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.application_name = {column})")
            }
        }
    }

    async fn live(&self) {
        if let Err(error) = self.forget_old_replicas().await {
            warn!(error = %error, "could not clear away old replicas");
        }
        loop {
            if let Err(error) = self.beat().await {
                warn!(error = %error, "could not give a sign of life");
            }
            self.clock().sleep(self.inner.options.heartbeat).await;
        }
    }

    async fn beat(&self) -> Result<(), StoreError> {
        let now = sql::now_ms(self.backend());
        let sql = format!(
            "INSERT INTO replicas (id, started_at_ms, seen_at_ms, version) VALUES ($1, {now}, {now}, $2) \
             ON CONFLICT (id) DO UPDATE SET seen_at_ms = excluded.seen_at_ms, version = excluded.version"
        );
        sql::run(self.db(), "give a sign of life", sql, values![self.replica(), VERSION]).await.map(|_| ())
    }

    async fn forget_old_replicas(&self) -> Result<(), StoreError> {
        let sql = format!("DELETE FROM replicas WHERE seen_at_ms < {} - $1", sql::now_ms(self.backend()));
        sql::run(self.db(), "clear away old replicas", sql, values![FORGET_MS]).await.map(|_| ())
    }
}
