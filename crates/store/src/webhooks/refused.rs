//! Table `webhook_rejections`, and the count that leads to "gone": what was turned away, and why.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdfast_core::ports::StoreError;
use sea_orm::FromQueryResult;
use serde_json::Value;

use super::{Endpoint, Owner, json};
use crate::{
    sql::{self, failed, micros, values},
    store::Store,
};

/// When an address says that it is gone: both have to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Proven deliveries that were turned away in a row.
    pub number: u64,
    /// From the first of them to the last.
    pub span: Duration,
}

/// A proven delivery was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnedAway {
    /// It is gone for good, as far as the sender is told.
    pub gone: bool,
    /// This one was the last straw: of all replicas, one learns it.
    pub tripped: bool,
}

/// What was turned away at one address for one reason since the last time it was written down.
#[derive(Clone, Debug)]
pub struct Rejections<'a> {
    /// Where.
    pub endpoint: &'a str,
    /// Why, as a stable word.
    pub reason: &'a str,
    /// How many.
    pub count: u64,
    /// Those of them that nothing proved, since one was accepted. What is proven was counted when it came.
    pub in_a_row: u64,
    /// The last of them, masked, newest first.
    pub samples: &'a [Value],
    /// From how many failures in a row on people are warned.
    pub warn_at: u64,
    /// When the first of them came.
    pub first_at: DateTime<Utc>,
    /// When the last of them came.
    pub last_at: DateTime<Utc>,
}

/// What was turned away for one reason, ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// Why, as a stable word.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// The first time.
    pub first_at: DateTime<Utc>,
    /// The last time.
    pub last_at: DateTime<Utc>,
    /// The last of them, masked, newest first.
    pub samples: Vec<Value>,
}

#[derive(FromQueryResult)]
struct Count {
    refused: i64,
    gone_at: Option<DateTime<Utc>>,
}

impl Store {
    /// Counts a proven delivery that was turned away, in one statement, so that no replica's count is lost and one of them
    /// alone reaches the threshold. The line in the timeline is written with it.
    pub async fn turn_away(
        &self,
        endpoint: &Endpoint,
        reason: &str,
        threshold: Threshold,
        warn_at: u64,
        at: DateTime<Utc>,
    ) -> Result<TurnedAway, StoreError> {
        let doing = "count a delivery that was turned away";
        let (Owner::Connector(connector), Some(org)) = (&endpoint.owner, &endpoint.org) else {
            // One address for many: it never says that it is gone.
            return Ok(TurnedAway { gone: false, tripped: false });
        };
        let early = at - chrono::TimeDelta::from_std(threshold.span).unwrap_or(chrono::TimeDelta::MAX);
        let sql = "UPDATE webhook_endpoints SET refused = refused + 1, refused_since = COALESCE(refused_since, $2), \
                   failures = failures + 1, failing_since = COALESCE(failing_since, $2), \
                   warned_at = CASE WHEN warned_at IS NULL AND failures + 1 >= $5 THEN $2 ELSE warned_at END, \
                   gone_at = CASE WHEN refused + 1 >= $3 AND COALESCE(refused_since, $2) <= $4 THEN $2 ELSE gone_at END \
                   WHERE id = $1 AND gone_at IS NULL AND deleted_at IS NULL RETURNING refused, gone_at";
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let values = values![endpoint.id.as_str(), micros(at), whole(threshold.number), micros(early), whole(warn_at)];
        let tx = self.transaction(doing).await?;
        let count: Option<Count> = sql::one(&tx, doing, sql, values).await?;
        let tripped = count.as_ref().filter(|count| count.gone_at.is_some());
        if let Some(count) = tripped {
            let detail = format!("{} deliveries in a row were turned away ({reason})", count.refused);
            self.webhook_line(&tx, org, connector, "gone", None, Some(detail), at).await?;
        }
        let tripped = tripped.is_some();
        tx.commit().await.map_err(failed(doing))?;
        if tripped {
            self.connector_changed(connector);
        }
        // No row: another one was the last straw, just now.
        Ok(TurnedAway { gone: tripped || count.is_none(), tripped })
    }

    /// Writes down what was turned away, many at a time.
    pub async fn note_rejections(&self, all: &[Rejections<'_>]) -> Result<(), StoreError> {
        let doing = "note what was turned away";
        let tx = self.transaction(doing).await?;
        for one in all {
            let count = i64::try_from(one.count).unwrap_or(i64::MAX);
            let (first_at, last_at) = (micros(one.first_at), micros(one.last_at));
            // One whose endpoint is gone meanwhile has nowhere to be noted.
            let there = "SELECT id FROM webhook_endpoints WHERE id = $1 AND deleted_at IS NULL";
            if sql::one::<sql::Id>(&tx, doing, there, values![one.endpoint]).await?.is_none() {
                continue;
            }
            let note = "INSERT INTO webhook_rejections (endpoint_id, reason, count, first_at, last_at, samples) \
                        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (endpoint_id, reason) DO UPDATE SET \
                        count = webhook_rejections.count + excluded.count, last_at = excluded.last_at, \
                        samples = excluded.samples";
            let samples = json(doing, &one.samples)?;
            let values = values![one.endpoint, one.reason, count, first_at, last_at, samples];
            sql::run(&tx, doing, note, values).await?;
            if one.in_a_row > 0 {
                // One that was accepted while these were on their way has ended their row.
                let fail = "UPDATE webhook_endpoints SET failures = failures + $2, \
                            failing_since = COALESCE(failing_since, $3), \
                            warned_at = CASE WHEN warned_at IS NULL AND failures + $2 >= $4 THEN $5 ELSE warned_at END \
                            WHERE id = $1 AND (accepted_at IS NULL OR accepted_at <= $5)";
                let warn_at = i64::try_from(one.warn_at).unwrap_or(i64::MAX);
                let in_a_row = i64::try_from(one.in_a_row).unwrap_or(i64::MAX);
                sql::run(&tx, doing, fail, values![one.endpoint, in_a_row, first_at, warn_at, last_at]).await?;
            }
        }
        tx.commit().await.map_err(failed(doing))
    }

    /// What was turned away at an address, last first.
    pub async fn rejections(&self, endpoint: &Endpoint) -> Result<Vec<Rejection>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            reason: String,
            count: i64,
            first_at: DateTime<Utc>,
            last_at: DateTime<Utc>,
            samples: Value,
        }
        let sql = "SELECT reason, count, first_at, last_at, samples FROM webhook_rejections WHERE endpoint_id = $1 \
                   ORDER BY last_at DESC, reason";
        let rows: Vec<Row> =
            sql::all(self.db(), "read what was turned away", sql, values![endpoint.id.as_str()]).await?;
        let read = |row: Row| Rejection {
            reason: row.reason,
            count: row.count.unsigned_abs(),
            first_at: row.first_at,
            last_at: row.last_at,
            samples: row.samples.as_array().cloned().unwrap_or_default(),
        };
        Ok(rows.into_iter().map(read).collect())
    }
}
