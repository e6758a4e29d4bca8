//! Reading connectors: one, or a page.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use holdfast_core::{Health, OrgId, Snapshot, ports::StoreError};
use serde_json::Value;

use crate::{
    provider_migrations,
    row::{self, Row},
    sql::{self, values},
    store::Store,
};

/// A connector as pages and the API show it.
#[derive(Clone, Debug)]
pub struct ConnectorView {
    /// The connector with its credential.
    pub snapshot: Snapshot,
    /// A foreign id that the API accepts too.
    pub alias: Option<String>,
    /// What the provider's who-am-I call said.
    pub identity: Option<Value>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Which connectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this provider.
    pub provider: Option<String>,
    /// Only in this state.
    pub health: Option<Health>,
    /// Only those that a provider's migration wants reconnected, or only the others.
    pub must_reconnect: Option<bool>,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// In order.
    pub data: Vec<T>,
    /// For the next page; `None`: this was the last.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// From one row more than asked for.
    pub(crate) fn cut(mut data: Vec<T>, limit: u64, cursor: impl Fn(&T) -> String) -> Self {
        let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
        let more = data.len() > limit;
        data.truncate(limit);
        let next_cursor = if more { data.last().map(cursor) } else { None };
        Self { data, next_cursor }
    }
}

/// For `LIMIT`: one more than asked for, to learn whether there are more.
pub(crate) fn page_limit(limit: u64) -> i64 {
    i64::try_from(limit.max(1)).unwrap_or(i64::MAX - 1).saturating_add(1)
}

impl Store {
    /// The org's connector of this id or alias; of two that could be meant, the one whose id it is.
    pub async fn find_connector(&self, org: &OrgId, id_or_alias: &str) -> Result<Option<ConnectorView>, StoreError> {
        let sql = format!(
            "{} WHERE c.org_id = $1 AND (c.id = $2 OR c.alias = $2) ORDER BY (c.id = $2) DESC LIMIT 1",
            row::SELECT
        );
        let row: Option<Row> = sql::one(self.db(), "read a connector", sql, values![org.as_str(), id_or_alias]).await?;
        row.map(|row| row.view(&self.inner.sealer)).transpose()
    }

    /// The org's connectors, oldest first; a damaged one is in the list, with an unreadable secret.
    pub async fn connectors(
        &self,
        org: &OrgId,
        filter: &Filter,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<ConnectorView>, StoreError> {
        let mut sql = format!("{} WHERE c.org_id = $1 AND c.id > $2", row::SELECT);
        let mut values = values![org.as_str(), cursor.unwrap_or_default(), page_limit(limit)];
        if let Some(provider) = &filter.provider {
            values.push(provider.as_str().into());
            write!(sql, " AND c.provider = ${}", values.len()).expect("writing to a String cannot fail");
        }
        if let Some(health) = filter.health {
            values.push(health.as_str().into());
            write!(sql, " AND c.health = ${}", values.len()).expect("writing to a String cannot fail");
        }
        if let Some(must) = filter.must_reconnect {
            let not = if must { "" } else { "NOT " };
            write!(sql, " AND {not}{}", provider_migrations::must_reconnect())
                .expect("writing to a String cannot fail");
        }
        sql.push_str(" ORDER BY c.id LIMIT $3");
        let rows: Vec<Row> = sql::all(self.db(), "list connectors", sql, values).await?;
        let views = rows.into_iter().map(|row| row.view(&self.inner.sealer)).collect::<Result<_, _>>()?;
        Ok(Page::cut(views, limit, |last: &ConnectorView| last.snapshot.connector.to_string()))
    }
}
