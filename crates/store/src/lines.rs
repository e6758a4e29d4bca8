//! Connectors as lists show them: no secret is opened, nothing is asked for twice.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use holdfast_core::{
    AgentId, ConnectorId, Health, OrgId,
    credential::{Degraded, Reason, Trouble},
    ports::StoreError,
};
use sea_orm::{FromQueryResult, Value};

use crate::{
    listing::{Page, page_limit},
    provider_migrations,
    row::{self, TOKENS},
    sql::{self, anywhere, by_bytes, nonsense, values},
    store::Store,
};

/// A connector in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorLine {
    /// Its id.
    pub id: ConnectorId,
    /// The provider's id.
    pub provider: String,
    /// The account's id at the provider; empty while nobody has named it.
    pub account: String,
    /// What people call it; empty while nobody has.
    pub name: String,
    /// Whether it works.
    pub health: Health,
    /// Why not.
    pub reason: Option<Reason>,
    /// The provider's own words to it.
    pub detail: Option<String>,
    /// Since when.
    pub since: DateTime<Utc>,
    /// The mark beside health.
    pub degraded: Option<Degraded>,
    /// End of the access token.
    pub expires_at: Option<DateTime<Utc>>,
    /// Whether something renews it ahead of its end.
    pub renewed: bool,
    /// When the access ends for good.
    pub ends_at: Option<DateTime<Utc>>,
}

/// Which lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineFilter {
    /// Only of this provider.
    pub provider: Option<String>,
    /// Only in this state.
    pub state: Option<LineState>,
    /// Only with this in name, account or alias, capitals or not; or of this id.
    pub search: Option<String>,
}

/// Health and the mark beside it, as people filter by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// Of this health, marked or not.
    Health(Health),
    /// Connected, with the mark.
    Degraded,
    /// A provider's migration wants it reconnected.
    MustReconnect,
}

/// How many there are of one provider and health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineCount {
    /// The provider's id.
    pub provider: String,
    /// Which health.
    pub health: Health,
    /// So many.
    pub count: u64,
    /// So many of them are connected and marked as degraded.
    pub degraded: u64,
}

#[derive(FromQueryResult)]
struct LineRow {
    id: String,
    provider: String,
    account: String,
    name: String,
    health: String,
    health_reason: Option<String>,
    health_detail: Option<String>,
    health_since: DateTime<Utc>,
    degraded_class: Option<String>,
    degraded_since: Option<DateTime<Utc>>,
    kind: String,
    expires_at: Option<DateTime<Utc>>,
    due_at: Option<DateTime<Utc>>,
    ends_at: Option<DateTime<Utc>>,
    sort: String,
}

#[derive(FromQueryResult)]
struct CountRow {
    provider: String,
    health: String,
    number: i64,
    degraded: i64,
}

const COLUMNS: &str = "SELECT c.id, c.provider, c.account, c.name, c.health, c.health_reason, c.health_detail, \
                       c.health_since, k.degraded_class, k.degraded_since, k.kind, k.expires_at, k.due_at, k.ends_at, \
                       lower(c.name) AS sort FROM connectors c JOIN credentials k ON k.id = c.credential_id \
                       WHERE c.org_id = $1";

impl TryFrom<LineRow> for ConnectorLine {
    type Error = StoreError;

    fn try_from(row: LineRow) -> Result<Self, StoreError> {
        let degraded = match (&row.degraded_class, row.degraded_since) {
            (Some(class), Some(since)) => {
                let class = Trouble::parse(class).ok_or_else(|| nonsense("credentials", "degraded_class", &row.id))?;
                Some(Degraded { class, since })
            }
            _ => None,
        };
        Ok(Self {
            health: row::health(&row.health, &row.id)?,
            reason: row::reason(row.health_reason.as_deref(), &row.id)?,
            degraded,
            renewed: row.kind != TOKENS || row.due_at.is_some() || row.expires_at.is_none(),
            id: row.id.into(),
            provider: row.provider,
            account: row.account,
            name: row.name,
            detail: row.health_detail,
            since: row.health_since,
            expires_at: row.expires_at,
            ends_at: row.ends_at,
        })
    }
}

impl Store {
    /// The org's connectors by name, capitals and small letters alike. The cursor is stable while others come and go.
    pub async fn connector_lines(
        &self,
        org: &OrgId,
        filter: &LineFilter,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<ConnectorLine>, StoreError> {
        let bytes = by_bytes(self.backend());
        let mut sql = COLUMNS.to_owned();
        let mut values: Vec<Value> = values![org.as_str(), page_limit(limit)];
        let mut with = |condition: &str, value: Value| {
            values.push(value);
            let place = format!("${}", values.len());
            write!(sql, " AND {}", condition.replace("$?", &place)).expect("writing to a String cannot fail");
        };
        if let Some(provider) = &filter.provider {
            with("c.provider = $?", provider.as_str().into());
        }
        match filter.state {
            Some(LineState::Health(health)) => with("c.health = $?", health.as_str().into()),
            Some(LineState::Degraded) => {
                with("c.health = $? AND k.degraded_class IS NOT NULL", Health::Connected.as_str().into());
            }
            Some(LineState::MustReconnect) => {
                write!(sql, " AND {}", provider_migrations::must_reconnect()).expect("writing to a String cannot fail");
            }
            None => {}
        }
        if let Some(search) = filter.search.as_deref().map(str::trim).filter(|search| !search.is_empty()) {
            values.extend(values![anywhere(search), search]);
            let (like, is) = (values.len() - 1, values.len());
            // Once as typed: not every database knows the small letters of every script.
            write!(
                sql,
                " AND (c.name LIKE ${like} ESCAPE '\\' OR lower(c.name) LIKE lower(${like}) ESCAPE '\\' \
                 OR c.account LIKE lower(${like}) ESCAPE '\\' OR c.alias LIKE ${like} ESCAPE '\\' OR c.id = ${is})"
            )
            .expect("writing to a String cannot fail");
        }
        if let Some((id, name)) = cursor.and_then(parse_cursor) {
            values.extend(values![name, id]);
            let (name, id) = (values.len() - 1, values.len());
            write!(sql, " AND (lower(c.name){bytes}, c.id) > (${name}, ${id})")
                .expect("writing to a String cannot fail");
        }
        write!(sql, " ORDER BY lower(c.name){bytes}, c.id LIMIT $2").expect("writing to a String cannot fail");
        let rows: Vec<LineRow> = sql::all(self.db(), "list connectors", sql, values).await?;
        let Page { data, next_cursor } = Page::cut(rows, limit, |last: &LineRow| format!("{}.{}", last.id, last.sort));
        Ok(Page { data: data.into_iter().map(ConnectorLine::try_from).collect::<Result<_, _>>()?, next_cursor })
    }

    /// The org's connectors that failed, the one that waits longest first; at most so many.
    pub async fn failed_lines(&self, org: &OrgId, limit: u64) -> Result<Vec<ConnectorLine>, StoreError> {
        let sql = format!("{COLUMNS} AND c.health = $2 ORDER BY c.health_since, c.id LIMIT $3");
        self.lines(sql, values![org.as_str(), Health::AuthFailed.as_str(), limit_of(limit)]).await
    }

    /// The org's connectors that are marked as degraded, the oldest trouble first; at most so many.
    pub async fn degraded_lines(&self, org: &OrgId, limit: u64) -> Result<Vec<ConnectorLine>, StoreError> {
        let sql = format!(
            "{COLUMNS} AND c.health = $2 AND k.degraded_class IS NOT NULL ORDER BY k.degraded_since, c.id LIMIT $3"
        );
        self.lines(sql, values![org.as_str(), Health::Connected.as_str(), limit_of(limit)]).await
    }

    /// The org's connectors that work now and end before this moment, since nothing renews them; the first one to end
    /// first; at most so many.
    pub async fn ending_lines(
        &self,
        org: &OrgId,
        before: DateTime<Utc>,
        limit: u64,
    ) -> Result<Vec<ConnectorLine>, StoreError> {
        let sql = format!("{COLUMNS} AND c.health = $2 AND k.ends_at < $3 ORDER BY k.ends_at, c.id LIMIT $4");
        let values = values![org.as_str(), Health::Connected.as_str(), sql::micros(before), limit_of(limit)];
        self.lines(sql, values).await
    }

    /// The org's connectors that this migration wants reconnected, by name; at most so many.
    pub async fn migration_lines(
        &self,
        org: &OrgId,
        migration: &str,
        limit: u64,
    ) -> Result<Vec<ConnectorLine>, StoreError> {
        let sql = format!(
            "{COLUMNS} AND EXISTS (SELECT 1 FROM migration_connectors m JOIN provider_migrations g \
             ON g.id = m.migration_id WHERE m.connector_id = c.id AND g.id = $2 AND g.ended_at IS NULL AND {}) \
             ORDER BY lower(c.name), c.id LIMIT $3",
            provider_migrations::open()
        );
        self.lines(sql, values![org.as_str(), migration, limit_of(limit)]).await
    }

    async fn lines(&self, sql: String, values: Vec<Value>) -> Result<Vec<ConnectorLine>, StoreError> {
        let rows: Vec<LineRow> = sql::all(self.db(), "list connectors", sql, values).await?;
        rows.into_iter().map(ConnectorLine::try_from).collect()
    }

    /// How many connectors the org has, by provider and health.
    pub async fn count_connectors(&self, org: &OrgId) -> Result<Vec<LineCount>, StoreError> {
        let sql = "SELECT c.provider, c.health, COUNT(*) AS number, \
                   COUNT(CASE WHEN c.health = 'connected' THEN k.degraded_class END) AS degraded \
                   FROM connectors c JOIN credentials k ON k.id = c.credential_id \
                   WHERE c.org_id = $1 GROUP BY c.provider, c.health ORDER BY c.provider, c.health";
        let rows: Vec<CountRow> = sql::all(self.db(), "count connectors", sql, values![org.as_str()]).await?;
        let count = |row: CountRow| {
            Ok(LineCount {
                health: row::health(&row.health, "of a count")?,
                provider: row.provider,
                count: row.number.unsigned_abs(),
                degraded: row.degraded.unsigned_abs(),
            })
        };
        rows.into_iter().map(count).collect()
    }

    /// The ids of the org's connectors, at most so many.
    pub async fn connector_ids(&self, org: &OrgId, limit: u64) -> Result<Vec<ConnectorId>, StoreError> {
        let sql = "SELECT id FROM connectors WHERE org_id = $1 ORDER BY id LIMIT $2";
        let rows: Vec<sql::Id> =
            sql::all(self.db(), "list the ids of connectors", sql, values![org.as_str(), limit_of(limit)]).await?;
        Ok(rows.into_iter().map(|row| row.id.into()).collect())
    }

    /// Whose this connector is.
    pub async fn org_of_connector(&self, id: &ConnectorId) -> Result<Option<OrgId>, StoreError> {
        let sql = "SELECT org_id AS id FROM connectors WHERE id = $1";
        let row: Option<sql::Id> = sql::one(self.db(), "look whose a connector is", sql, values![id.as_str()]).await?;
        Ok(row.map(|row| row.id.into()))
    }

    /// The ids of the org's newest agents.
    pub async fn agent_ids(&self, org: &OrgId, limit: u64) -> Result<Vec<AgentId>, StoreError> {
        let sql = "SELECT id FROM agents WHERE org_id = $1 ORDER BY id DESC LIMIT $2";
        let rows: Vec<sql::Id> =
            sql::all(self.db(), "list the ids of agents", sql, values![org.as_str(), limit_of(limit)]).await?;
        Ok(rows.into_iter().map(|row| row.id.into()).collect())
    }

    /// Whose this agent is.
    pub async fn org_of_agent(&self, id: &AgentId) -> Result<Option<OrgId>, StoreError> {
        let sql = "SELECT org_id AS id FROM agents WHERE id = $1";
        let row: Option<sql::Id> = sql::one(self.db(), "look whose an agent is", sql, values![id.as_str()]).await?;
        Ok(row.map(|row| row.id.into()))
    }

    /// Whether the org has a connector on this account: its id and health.
    pub async fn find_account(
        &self,
        org: &OrgId,
        provider: &str,
        account: &str,
    ) -> Result<Option<ConnectorLine>, StoreError> {
        let sql = format!("{COLUMNS} AND c.provider = $2 AND c.account = $3 LIMIT 1");
        Ok(self.lines(sql, values![org.as_str(), provider, account]).await?.pop())
    }
}

fn limit_of(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// An id, a dot, and the name that it was sorted by.
fn parse_cursor(cursor: &str) -> Option<(&str, &str)> {
    cursor.split_once('.').filter(|(id, _)| id.starts_with("con_"))
}
