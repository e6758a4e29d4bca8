//! Table `connector_usage`: what each connector was used for, by day.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, NaiveDate, Utc};
use holdfast_core::{ConnectorId, OrgId, ports::StoreError};
use sea_orm::FromQueryResult;

use crate::{
    sql::{self, failed, micros, values},
    store::Store,
    timeline::DayCount,
};

/// What a connector was used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Requests to the provider's API.
    pub calls: u64,
    /// Those of them that were not answered, or with a status from 400 on.
    pub failed: u64,
    /// How often a caller was given the token.
    pub tokens: u64,
}

impl Used {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.tokens += other.tokens;
    }
}

impl Store {
    /// Adds this to the day's. What has been deleted meanwhile is counted nowhere.
    pub async fn add_usage(&self, counts: &HashMap<ConnectorId, Used>, at: DateTime<Utc>) -> Result<(), StoreError> {
        if counts.is_empty() {
            return Ok(());
        }
        let doing = "note what connectors were used for";
        let tx = self.transaction(doing).await?;
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        // In an order that all replicas keep.
        for (connector, used) in counts.iter().collect::<BTreeMap<_, _>>() {
            let sql = "INSERT INTO connector_usage (connector_id, day, calls, failed, tokens, last_at) \
                       SELECT id, $2, $3, $4, $5, $6 FROM connectors WHERE id = $1 \
                       ON CONFLICT (connector_id, day) DO UPDATE SET calls = connector_usage.calls + excluded.calls, \
                       failed = connector_usage.failed + excluded.failed, \
                       tokens = connector_usage.tokens + excluded.tokens, last_at = excluded.last_at";
            let (calls, failed, tokens) = (whole(used.calls), whole(used.failed), whole(used.tokens));
            let values = values![connector.as_str(), day(at.date_naive()), calls, failed, tokens, micros(at)];
            sql::run(&tx, doing, sql, values).await?;
        }
        tx.commit().await.map_err(failed(doing))
    }

    /// The calls to providers for the org's connectors, or for this one of them, from this day on, whole: good ones were answered,
    /// with a status below 400.
    pub async fn call_days(
        &self,
        org: &OrgId,
        connector: Option<&ConnectorId>,
        since: DateTime<Utc>,
    ) -> Result<Vec<DayCount>, StoreError> {
        let sql = "SELECT u.day, CAST(SUM(u.calls - u.failed) AS BIGINT) AS good, CAST(SUM(u.failed) AS BIGINT) AS bad \
                   FROM connectors c JOIN connector_usage u ON u.connector_id = c.id \
                   WHERE c.org_id = $1 AND u.day >= $2 AND ($3 = '' OR c.id = $3) AND u.calls > 0 \
                   GROUP BY u.day ORDER BY u.day";
        let one = connector.map_or("", ConnectorId::as_str);
        sql::all(self.db(), "count calls", sql, values![org.as_str(), day(since.date_naive()), one]).await
    }

    /// When each of these was used last: a request went to its provider, or somebody was given its token.
    pub async fn last_used(
        &self,
        connectors: &[ConnectorId],
    ) -> Result<HashMap<ConnectorId, DateTime<Utc>>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            id: String,
            at: DateTime<Utc>,
        }
        if connectors.is_empty() {
            return Ok(HashMap::new());
        }
        let sql = format!(
            "SELECT connector_id AS id, MAX(last_at) AS \"at\" FROM connector_usage WHERE connector_id IN ({}) GROUP BY 1",
            sql::list(connectors.len())
        );
        let values = connectors.iter().map(|id| id.as_str().into()).collect();
        let rows: Vec<Row> = sql::all(self.db(), "look when connectors were used", sql, values).await?;
        Ok(rows.into_iter().map(|row| (row.id.into(), row.at)).collect())
    }

    /// Forgets the days before this one.
    pub async fn forget_usage(&self, before: NaiveDate) -> Result<(), StoreError> {
        let sql = "DELETE FROM connector_usage WHERE day < $1";
        sql::run(self.db(), "forget old usage", sql, values![day(before)]).await.map(|_| ())
    }
}

/// `2026-11-30`, on both databases.
fn day(of: NaiveDate) -> String {
    of.format("%Y-%m-%d").to_string()
}
