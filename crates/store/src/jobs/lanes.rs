//! The jobs of a connector follow its health: they wait while it has to be reconnected, go on where they were, and end
//! with it. Each step moves a bounded number of rows and passes over what others have; it is taken in the transaction of
//! the change of health, at each claim that meets the lane, and by a look of its own, until nothing is left to move.

use chrono::{DateTime, Utc};
use holdfast_core::{
    EventEndpointId, Health,
    agent::StopReason,
    job::{self, Admission, Fault},
    ports::StoreError,
};
use sea_orm::{ConnectionTrait, FromQueryResult};

use super::{Moved, ROWS};
use crate::{
    sql::{self, failed, micros, values},
    store::Store,
};

/// As the index has it.
pub(super) const OPEN: &str = "state IN ('ready', 'waiting', 'parked')";

/// Jobs of the connector wait for it, at no cost.
pub(crate) async fn park_lane(
    tx: &impl ConnectionTrait,
    connector: &str,
    at: DateTime<Utc>,
) -> Result<Vec<Moved>, StoreError> {
    let sql = format!(
        "UPDATE jobs SET state = 'parked', parked_at = $2 WHERE id IN ({}) AND state IN ('ready', 'waiting') \
         RETURNING org_id, kind",
        some(tx, "state IN ('ready', 'waiting')")
    );
    sql::all(tx, "park jobs", sql, values![connector, micros(at)]).await
}

/// They go on, the oldest first.
pub(crate) async fn release_lane(
    tx: &impl ConnectionTrait,
    connector: &str,
    at: DateTime<Utc>,
) -> Result<Vec<Moved>, StoreError> {
    let sql = format!(
        "UPDATE jobs SET state = CASE WHEN due_at <= $2 THEN 'ready' ELSE 'waiting' END, parked_at = NULL \
         WHERE id IN ({}) AND state = 'parked' RETURNING org_id, kind",
        some(tx, "state = 'parked'")
    );
    sql::all(tx, "release jobs", sql, values![connector, micros(at)]).await
}

/// They are over, since nobody is expected to bring the connector back.
pub(crate) async fn end_lane(
    tx: &impl ConnectionTrait,
    connector: &str,
    reason: StopReason,
    at: DateTime<Utc>,
) -> Result<Vec<Moved>, StoreError> {
    end(tx, connector, Admission::end(reason), at).await
}

/// The endpoint is gone, and what was to be delivered there is over. What is left is ended when its turn comes.
pub(crate) async fn end_deliveries(
    tx: &impl ConnectionTrait,
    endpoint: &EventEndpointId,
    at: DateTime<Utc>,
) -> Result<Vec<Moved>, StoreError> {
    end(tx, endpoint.as_str(), Fault::new("endpoint_deleted", "Its endpoint was deleted."), at).await
}

async fn end(tx: &impl ConnectionTrait, lane: &str, fault: Fault, at: DateTime<Utc>) -> Result<Vec<Moved>, StoreError> {
    let sql = format!(
        "UPDATE jobs SET state = 'dead', parked_at = NULL, ended_at = $2, code = $3, detail = $4 \
         WHERE id IN ({}) AND {OPEN} RETURNING org_id, kind",
        some(tx, OPEN)
    );
    sql::all(tx, "end jobs", sql, values![lane, micros(at), fault.code, fault.detail]).await
}

/// The oldest jobs of lane `$1` in these states that nobody has.
fn some(tx: &impl ConnectionTrait, states: &str) -> String {
    let free = sql::for_update_of_the_free(tx.get_database_backend());
    format!("SELECT id FROM jobs WHERE lane = $1 AND {states} AND {OPEN} ORDER BY due_at, id LIMIT {ROWS}{free}")
}

#[derive(FromQueryResult)]
struct Lane {
    id: String,
    health: Option<String>,
}

impl Store {
    /// Looks at every connector whose jobs are parked: what a change of health left for later, or what was parked behind
    /// its back, goes on or ends. Jobs that were parked before `too_old` end too. Answers how many moved.
    pub async fn tend_parked_jobs(&self, now: DateTime<Utc>, too_old: DateTime<Utc>) -> Result<usize, StoreError> {
        let doing = "look at parked jobs";
        let parked = format!("FROM jobs j WHERE j.state = 'parked' AND j.{OPEN} AND j.lane");
        let lanes = format!(
            "WITH RECURSIVE l(id) AS (SELECT (SELECT MIN(j.lane) {parked} > '') UNION ALL \
             SELECT (SELECT MIN(j.lane) {parked} > l.id) FROM l WHERE l.id IS NOT NULL) \
             SELECT l.id, (SELECT c.health FROM connectors c WHERE c.id = l.id) AS health FROM l WHERE l.id IS NOT NULL"
        );
        let lanes: Vec<Lane> = sql::all(self.db(), doing, lanes, values![]).await?;
        let mut count = 0;
        for lane in lanes {
            let moved = match job::admission(lane.health.as_deref().and_then(Health::parse)) {
                Admission::Park => continue,
                Admission::Run => release_lane(self.db(), &lane.id, now).await?,
                Admission::End(reason) => end_lane(self.db(), &lane.id, reason, now).await?,
            };
            count += moved.len();
            self.jobs_moved(&moved);
        }
        Ok(count + self.end_parked(now, too_old).await?)
    }

    async fn end_parked(&self, now: DateTime<Utc>, too_old: DateTime<Utc>) -> Result<usize, StoreError> {
        let doing = "end jobs that were parked for too long";
        let old = "SELECT id FROM jobs WHERE state = 'parked' AND parked_at < $1";
        if sql::one::<sql::Id>(self.db(), doing, format!("{old} LIMIT 1"), values![micros(too_old)]).await?.is_none() {
            return Ok(0);
        }
        let free = sql::for_update_of_the_free(self.backend());
        let sql = format!(
            "UPDATE jobs SET state = 'dead', ended_at = $2, code = 'parked_too_long', detail = $3 \
             WHERE id IN ({old} LIMIT {ROWS}{free}) AND state = 'parked' RETURNING org_id, kind"
        );
        let detail = "Its connector was not reconnected in time.";
        let tx = self.transaction(doing).await?;
        let moved: Vec<Moved> = sql::all(&tx, doing, sql, values![micros(too_old), micros(now), detail]).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.jobs_moved(&moved);
        Ok(moved.len())
    }
}
