//! Table `replicas`: signs of life, by the database's clock.

use holdfast_core::ports::StoreError;
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

impl Store {
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
            "INSERT INTO replicas (id, started_at_ms, seen_at_ms) VALUES ($1, {now}, {now}) \
             ON CONFLICT (id) DO UPDATE SET seen_at_ms = excluded.seen_at_ms"
        );
        sql::run(self.db(), "give a sign of life", sql, values![self.replica()]).await.map(|_| ())
    }

    async fn forget_old_replicas(&self) -> Result<(), StoreError> {
        let sql = format!("DELETE FROM replicas WHERE seen_at_ms < {} - $1", sql::now_ms(self.backend()));
        sql::run(self.db(), "clear away old replicas", sql, values![FORGET_MS]).await.map(|_| ())
    }
}
