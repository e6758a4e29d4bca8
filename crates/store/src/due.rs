//! Due refreshes: the port [`DueStore`] over `credentials`, by an index that holds only what a scheduler has to do with,
//! and table `refresh_claims`, so that a claim writes no credential and wakes nobody.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, CredentialId,
    ports::{ClaimDue, DueRefresh, DueStore, Place, StoreError},
};
use sea_orm::{ConnectionTrait as _, FromQueryResult, Statement, Value};

use crate::{
    exchanges::whole_ms,
    sql::{self, failed, micros, values},
    store::{Kind, Store},
};

/// When it is due, as the index `credentials_due` has it: word by word, or the index is not used.
const NEXT: &str = "CASE WHEN k.retry_at > k.due_at THEN k.retry_at ELSE k.due_at END";
/// What is in that index.
const INDEXED: &str = "k.due_at IS NOT NULL AND NOT k.parked";
/// The OAuth apps that have anything in that index, with a probe for each. Column `provider` names a credential's app.
const APPS: &str = "WITH RECURSIVE apps(app) AS (\
     SELECT (SELECT k.provider FROM credentials k WHERE k.due_at IS NOT NULL AND NOT k.parked \
     AND k.provider IS NOT NULL ORDER BY k.provider LIMIT 1) \
     UNION ALL SELECT (SELECT k.provider FROM credentials k WHERE k.due_at IS NOT NULL AND NOT k.parked \
     AND k.provider > apps.app ORDER BY k.provider LIMIT 1) FROM apps WHERE apps.app IS NOT NULL)";
/// One of its connectors works.
const WORKS: &str = "EXISTS (SELECT 1 FROM connectors c WHERE c.credential_id = k.id AND c.health = 'connected')";
/// Among so many of the longest due, a claim looks for those whose tokens end first.
const RIPE: u32 = 256;
/// What is put off by one statement.
const PUT_OFF: i64 = 1000;

#[derive(FromQueryResult)]
struct First {
    app: String,
    due_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct Claimed {
    credential_id: String,
    connector_id: String,
    due_at: DateTime<Utc>,
}

/// How much is due of one provider, for the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueCount {
    /// The provider.
    pub provider: String,
    /// Refreshes whose time has come.
    pub due: u64,
    /// Those of them whose time came before the given moment.
    pub overdue: u64,
}

#[derive(FromQueryResult)]
struct Counted {
    app: String,
    due: i64,
    overdue: i64,
}

#[async_trait]
impl DueStore for Store {
    async fn first_due(
        &self,
        providers: &[&str],
        now: DateTime<Utc>,
    ) -> Result<Vec<(AppId, DateTime<Utc>)>, StoreError> {
        let unclaimed = self.unclaimed();
        let first = format!(
            "{APPS} SELECT * FROM (SELECT apps.app, (SELECT {NEXT} FROM credentials k \
             WHERE k.provider = apps.app AND {INDEXED} AND {NEXT} <= $1 AND {WORKS} AND {unclaimed} \
             ORDER BY {NEXT} LIMIT 1) AS due_at FROM apps) AS first WHERE due_at IS NOT NULL"
        );
        let first: Vec<First> = sql::all(self.db(), "look for what is due", first, values![micros(now)]).await?;
        let known = first.into_iter().filter_map(|first| Some((AppId::parse(&first.app)?, first.due_at)));
        Ok(known.filter(|(app, _)| providers.contains(&app.provider())).collect())
    }

    async fn claim_due(&self, claim: &ClaimDue<'_>) -> Result<Vec<DueRefresh>, StoreError> {
        let claimed: Vec<Claimed> =
            sql::all(self.db(), "claim what is due", self.claim_sql(), claim_values(claim)).await?;
        let due = |row: Claimed| DueRefresh {
            credential: row.credential_id.into(),
            connector: row.connector_id.into(),
            due_at: row.due_at,
        };
        Ok(claimed.into_iter().map(due).collect())
    }

    async fn give_back(&self, holder: &str, credentials: &[CredentialId]) -> Result<(), StoreError> {
        let mut values: Vec<Value> = credentials.iter().map(|id| id.as_str().into()).collect();
        values.push(holder.into());
        let list = sql::list(credentials.len());
        let back = format!(
            "DELETE FROM refresh_claims WHERE credential_id IN ({list}) AND holder = ${}",
            credentials.len() + 1
        );
        sql::run(self.db(), "give claims back", back, values).await.map(|_| ())
    }

    async fn put_off_missed(
        &self,
        app: &AppId,
        missed: DateTime<Utc>,
        now: DateTime<Utc>,
        window: Duration,
    ) -> Result<u64, StoreError> {
        let later = sql::random_moment(self.backend(), "$3", "$4");
        let free = sql::for_update_of_the_free(self.backend());
        let put_off = format!(
            "UPDATE credentials SET due_at = {later} WHERE id IN (SELECT k.id FROM credentials k \
             WHERE k.provider = $1 AND {INDEXED} AND {NEXT} < $2 AND k.expires_at <= $3 \
             ORDER BY {NEXT} LIMIT {PUT_OFF}{free})"
        );
        let values = values![app.to_string(), micros(missed), micros(now), window.as_secs_f64()];
        let mut all = 0;
        loop {
            let some = sql::run(self.db(), "put off what was missed", put_off.clone(), values.clone()).await?;
            all += some;
            if some < PUT_OFF.unsigned_abs() {
                return Ok(all);
            }
        }
    }

    async fn place(&self, holder: &str) -> Result<Place, StoreError> {
        // The process before, on SQLite, may still look alive.
        if self.kind() == Kind::Sqlite {
            return Ok(Place { rank: 0, of: 1 });
        }
        let sql =
            format!("SELECT id FROM replicas WHERE seen_at_ms > {} - $1 AND id <> $2", sql::now_ms(self.backend()));
        let others: Vec<sql::Id> =
            sql::all(self.db(), "count the live replicas", sql, values![self.alive_ms(), holder]).await?;
        let before = others.iter().filter(|other| other.id.as_str() < holder).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX - 1);
        Ok(Place { rank: number(before), of: number(others.len()) + 1 })
    }
}

impl Store {
    /// How much is due at `now`, and how much of it has been since before `late`; of these providers.
    pub async fn due_counts(
        &self,
        providers: &[&str],
        now: DateTime<Utc>,
        late: DateTime<Utc>,
    ) -> Result<Vec<DueCount>, StoreError> {
        let due =
            format!("SELECT COUNT(*) FROM credentials k WHERE k.provider = apps.app AND {INDEXED} AND {NEXT} <= $1");
        let count = format!(
            "{APPS} SELECT app, ({due}) AS due, ({due} AND {NEXT} < $2) AS overdue FROM apps WHERE app IS NOT NULL"
        );
        let values = values![micros(now), micros(late)];
        let counted: Vec<Counted> = sql::all(self.db(), "count what is due", count, values).await?;
        let mut counts: BTreeMap<&str, DueCount> = providers
            .iter()
            .map(|provider| (*provider, DueCount { provider: (*provider).to_owned(), due: 0, overdue: 0 }))
            .collect();
        for found in counted {
            let app = AppId::parse(&found.app);
            if let Some(count) = app.and_then(|app| counts.get_mut(app.provider())) {
                count.due += found.due.unsigned_abs();
                count.overdue += found.overdue.unsigned_abs();
            }
        }
        Ok(counts.into_values().collect())
    }

    /// How the database goes about a claim, in its own words; for benchmarks and tests.
    pub async fn explain_claim(&self, claim: &ClaimDue<'_>) -> Result<String, StoreError> {
        let doing = "explain a claim";
        // The words stand in another column.
        let (explain, column) = match self.kind() {
            Kind::Sqlite => ("EXPLAIN QUERY PLAN", 3),
            Kind::Postgres => ("EXPLAIN", 0),
        };
        let sql = format!("{explain} {}", self.claim_sql());
        let statement = Statement::from_sql_and_values(self.backend(), sql, claim_values(claim));
        let rows = self.db().query_all_raw(statement).await.map_err(failed(doing))?;
        let lines: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get_by_index(column)).collect();
        Ok(lines.map_err(failed(doing))?.join("\n"))
    }

    /// Two at once meet at the lock and take different rows; who looked before the other's claim was committed meets it
    /// at the unique key.
    fn claim_sql(&self) -> String {
        let now = sql::now_ms(self.backend());
        let free = sql::for_update_of_the_free(self.backend());
        let unclaimed = self.unclaimed();
        let connector = "SELECT MIN(c.id) FROM connectors c WHERE c.credential_id = refresh_claims.credential_id \
                         AND c.health = 'connected'";
        format!(
            "INSERT INTO refresh_claims (credential_id, due_at, holder, until_ms) \
             SELECT k.id, {NEXT}, $3, {now} + $4 FROM credentials k WHERE k.id IN (\
             SELECT k.id FROM credentials k WHERE k.provider = $1 AND {INDEXED} AND {NEXT} <= $2 \
             AND {WORKS} AND {unclaimed} ORDER BY {NEXT} LIMIT $5) \
             ORDER BY k.expires_at IS NULL, k.expires_at, k.id LIMIT $6{free} \
             ON CONFLICT (credential_id) DO UPDATE SET due_at = excluded.due_at, holder = excluded.holder, \
             until_ms = excluded.until_ms \
             WHERE refresh_claims.due_at <> excluded.due_at OR refresh_claims.until_ms <= {now} \
             RETURNING credential_id, due_at, ({connector}) AS connector_id"
        )
    }

    fn unclaimed(&self) -> String {
        let now = sql::now_ms(self.backend());
        format!(
            "NOT EXISTS (SELECT 1 FROM refresh_claims r WHERE r.credential_id = k.id AND r.due_at = {NEXT} \
             AND r.until_ms > {now})"
        )
    }
}

fn claim_values(claim: &ClaimDue<'_>) -> Vec<Value> {
    values![
        claim.app.to_string(),
        micros(claim.now),
        claim.holder,
        whole_ms(claim.ttl),
        i64::from(claim.limit.max(RIPE)),
        i64::from(claim.limit),
    ]
}
