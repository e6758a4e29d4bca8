//! Reading connectors: one, or a page.

use chrono::{DateTime, Utc};
use holdfast_core::{Health, OrgId, Snapshot, ports::StoreError};
use serde_json::Value;

use crate::store::Store;

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
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// In order.
    pub data: Vec<T>,
    /// For the next page; `None`: this was the last.
    pub next_cursor: Option<String>,
}

impl Store {
    /// The org's connector of this id or alias.
    pub async fn find_connector(&self, org: &OrgId, id_or_alias: &str) -> Result<Option<ConnectorView>, StoreError> {
        let _ = (org, id_or_alias);
        todo!()
    }

    /// The org's connectors, oldest first; a damaged one is in the list, with an unreadable secret.
    pub async fn connectors(
        &self,
        org: &OrgId,
        filter: &Filter,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<ConnectorView>, StoreError> {
        let _ = (org, filter, cursor, limit);
        todo!()
    }
}
