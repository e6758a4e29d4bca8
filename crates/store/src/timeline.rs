//! Table `timeline`, and the journal read as a part of it.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{ConnectorId, OrgId, Version, ports::StoreError};

use sea_orm::{ConnectionTrait, FromQueryResult};

use crate::{
    exchanges::whole_ms,
    listing::{Page, page_limit},
    sql::{self, micros, values},
    store::Store,
};

/// Of a line: it says what a connector's health became.
pub(crate) const OF_HEALTH: &str = "kind IN ('health', 'connected', 'reconnected')";

/// Something that happened to a connector, beside exchanges, which the journal holds.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Whose.
    pub org: OrgId,
    /// To which.
    pub connector: ConnectorId,
    /// When.
    pub at: DateTime<Utc>,
    /// What, as a stable word.
    pub kind: String,
    /// How it ended, as a stable word.
    pub outcome: Option<String>,
    /// Who.
    pub actor: Option<String>,
    /// In words, without secrets.
    pub detail: Option<String>,
    /// How long it took.
    pub duration: Option<Duration>,
    /// Of the credential at that time.
    pub version: Option<Version>,
}

/// The last time a connector began to work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// When.
    pub at: DateTime<Utc>,
    /// By a person's consent; else the provider took the access again.
    pub reconnected: bool,
    /// Whose consent, as the provider calls them, where it says so.
    pub by: Option<String>,
}

/// A line of a connector's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineItem {
    /// Of the row.
    pub id: String,
    /// When; of an exchange, when it began.
    pub at: DateTime<Utc>,
    /// `exchange`, `health`, `connected`, `reconnected`, or what was written.
    pub kind: String,
    /// How it ended; an exchange without one is still open.
    pub outcome: Option<String>,
    /// Who; of an exchange, its trigger.
    pub actor: Option<String>,
    /// In words.
    pub detail: Option<String>,
    /// How long it took.
    pub duration: Option<Duration>,
    /// Of the credential; of an exchange, the one it was to replace.
    pub version: Option<Version>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    at: DateTime<Utc>,
    kind: String,
    outcome: Option<String>,
    actor: Option<String>,
    detail: Option<String>,
    duration_ms: Option<i64>,
    version: Option<i64>,
}

impl From<Row> for TimelineItem {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            at: row.at,
            kind: row.kind,
            outcome: row.outcome,
            actor: row.actor,
            detail: row.detail,
            duration: row.duration_ms.map(|ms| Duration::from_millis(ms.unsigned_abs())),
            version: row.version.map(Version),
        }
    }
}

impl Store {
    /// Adds a line.
    pub async fn add_timeline(&self, entry: &Entry) -> Result<(), StoreError> {
        insert(self, self.db(), entry).await?;
        self.connector_changed(&entry.connector);
        Ok(())
    }

    /// The last time this connector began to work, or the one at this very moment.
    pub async fn find_recovery(
        &self,
        org: &OrgId,
        connector: &ConnectorId,
        at: Option<DateTime<Utc>>,
    ) -> Result<Option<Recovery>, StoreError> {
        #[derive(FromQueryResult)]
        struct Line {
            at: DateTime<Utc>,
            kind: String,
            actor: Option<String>,
        }
        let mut values = values![org.as_str(), connector.as_str()];
        let when = if at.is_some() { " AND \"at\" = $3" } else { "" };
        values.extend(at.map(|at| sea_orm::Value::from(micros(at))));
        let sql = format!(
            "SELECT \"at\", kind, actor FROM timeline WHERE org_id = $1 AND connector_id = $2 \
             AND {OF_HEALTH} AND outcome = 'connected'{when} \
             ORDER BY \"at\" DESC, id DESC LIMIT 1"
        );
        let line: Option<Line> = sql::one(self.db(), "look who reconnected", sql, values).await?;
        Ok(line.map(|line| Recovery { at: line.at, reconnected: line.kind != "health", by: line.actor }))
    }

    /// Exchanges and lines together, newest first. The cursor is stable while new ones come; one that was not made here
    /// begins at the newest.
    pub async fn timeline(
        &self,
        org: &OrgId,
        connector: &ConnectorId,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<TimelineItem>, StoreError> {
        self.timeline_of(org, connector, &[], cursor, limit).await
    }

    /// The same of these kinds alone, `exchange` being one; of all, where none is named.
    pub async fn timeline_of(
        &self,
        org: &OrgId,
        connector: &ConnectorId,
        kinds: &[&str],
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<TimelineItem>, StoreError> {
        let mut values = values![org.as_str(), connector.as_str(), page_limit(limit)];
        let after = match cursor.and_then(parse_cursor) {
            Some((at, id)) => {
                values.extend(values![at, id]);
                "WHERE lines.\"at\" < $4 OR (lines.\"at\" = $4 AND lines.id < $5)"
            }
            None => "",
        };
        let exchanges = kinds.is_empty() || kinds.contains(&"exchange");
        let no_exchange = if exchanges { "" } else { " AND 1 = 0" };
        let mut of_kind = String::new();
        if !kinds.is_empty() {
            let places: Vec<_> = (values.len() + 1..).take(kinds.len()).map(|place| format!("${place}")).collect();
            values.extend(kinds.iter().map(|&kind| sea_orm::Value::from(kind)));
            of_kind = format!(" AND t.kind IN ({})", places.join(", "));
        }
        let sql = format!(
            "SELECT id, \"at\", kind, outcome, actor, detail, duration_ms, version FROM ( \
             SELECT e.id AS id, e.started_at AS \"at\", 'exchange' AS kind, e.outcome AS outcome, \
             e.\"trigger\" AS actor, e.detail AS detail, \
             CASE WHEN e.closed_at IS NULL THEN NULL ELSE e.duration_ms END AS duration_ms, e.version AS version \
             FROM exchanges e WHERE e.org_id = $1 AND e.connector_id = $2{no_exchange} \
             UNION ALL \
             SELECT t.id, t.\"at\", t.kind, t.outcome, t.actor, t.detail, t.duration_ms, t.version \
             FROM timeline t WHERE t.org_id = $1 AND t.connector_id = $2{of_kind} \
             ) AS lines {after} ORDER BY \"at\" DESC, id DESC LIMIT $3"
        );
        let rows: Vec<Row> = sql::all(self.db(), "read a timeline", sql, values).await?;
        let items = rows.into_iter().map(TimelineItem::from).collect();
        Ok(Page::cut(items, limit, |last: &TimelineItem| format!("{}_{}", last.at.timestamp_micros(), last.id)))
    }
}

/// How often something went well on a day, and how often not. Lists of these leave out days without either.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct DayCount {
    /// In UTC: `2026-11-29`.
    pub day: String,
    /// Well.
    pub good: i64,
    /// Not.
    pub bad: i64,
}

impl Store {
    /// The exchanges since this moment of the org's connectors, or of this one of them, by day: good ones brought a token
    /// set, or found a newer one. What is under way, and what was never sent, does not count.
    pub async fn exchange_days(
        &self,
        org: &OrgId,
        connector: Option<&ConnectorId>,
        since: DateTime<Utc>,
    ) -> Result<Vec<DayCount>, StoreError> {
        let day = sql::day_of(self.backend(), "e.started_at");
        let sql = format!(
            "SELECT {day} AS day, \
             COUNT(CASE WHEN e.outcome IN ('rotated', 'superseded') THEN 1 END) AS good, \
             COUNT(CASE WHEN e.outcome NOT IN ('rotated', 'superseded', 'not_sent', 'discarded') THEN 1 END) AS bad \
             FROM exchanges e WHERE e.org_id = $1 AND {} AND e.started_at >= $2 GROUP BY 1 ORDER BY 1",
            // Ids begin with their moment, so that the primary key finds those of all connectors; clocks may differ.
            if connector.is_some() { "e.connector_id = $3" } else { "e.id >= $3" },
        );
        let first = || exchange_ids_from(since - TimeDelta::hours(1));
        let which = connector.map_or_else(first, |one| one.as_str().to_owned());
        let values = values![org.as_str(), micros(since), which];
        sql::all(self.db(), "count the exchanges of each day", sql, values).await
    }
}

/// How exchanges with a provider ended.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct ExchangeOutcomes {
    /// The provider.
    pub provider: String,
    /// As `OutcomeKind` spells it.
    pub outcome: String,
    /// So many.
    pub count: i64,
    /// How long they took on average, in milliseconds.
    pub mean_ms: i64,
}

impl Store {
    /// How the exchanges that began after a moment have ended, in the whole instance. It reads as many rows as there were.
    pub async fn exchange_outcomes(&self, since: DateTime<Utc>) -> Result<Vec<ExchangeOutcomes>, StoreError> {
        // Ids begin with their moment, so that the primary key finds them.
        let sql = "SELECT c.provider, e.outcome, COUNT(*) AS count, CAST(AVG(e.duration_ms) AS BIGINT) AS mean_ms \
                   FROM exchanges e JOIN connectors c ON c.id = e.connector_id \
                   WHERE e.id >= $1 AND e.outcome IS NOT NULL GROUP BY c.provider, e.outcome ORDER BY c.provider, e.outcome";
        sql::all(self.db(), "count how exchanges ended", sql, values![exchange_ids_from(since)]).await
    }
}

/// Where the ids of exchanges begin that were begun from then on.
fn exchange_ids_from(since: DateTime<Utc>) -> String {
    format!("exch_{:012x}", since.timestamp_millis())
}

/// Adds a line, in the transaction that it tells of.
pub(crate) async fn insert(store: &Store, tx: &impl ConnectionTrait, entry: &Entry) -> Result<(), StoreError> {
    let sql = "INSERT INTO timeline (id, org_id, connector_id, \"at\", kind, outcome, actor, detail, duration_ms, \
               version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let values = values![
        store.id("line"),
        entry.org.as_str(),
        entry.connector.as_str(),
        micros(entry.at),
        entry.kind.as_str(),
        entry.outcome.clone(),
        entry.actor.clone(),
        entry.detail.clone(),
        entry.duration.map(whole_ms),
        entry.version.map(|version| version.0),
    ];
    sql::run(tx, "write the timeline", sql, values).await.map(|_| ())
}

/// Whether a text is a cursor of a timeline.
pub fn is_timeline_cursor(cursor: &str) -> bool {
    parse_cursor(cursor).is_some()
}

fn parse_cursor(cursor: &str) -> Option<(DateTime<Utc>, &str)> {
    let (at, id) = cursor.split_once('_')?;
    Some((DateTime::from_timestamp_micros(at.parse().ok()?)?, id))
}
