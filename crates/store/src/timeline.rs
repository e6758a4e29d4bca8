//! Table `timeline`, and the journal read as a part of it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, Version, ports::StoreError};

use crate::{listing::Page, store::Store};

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

impl Store {
    /// Adds a line.
    pub async fn add_timeline(&self, entry: &Entry) -> Result<(), StoreError> {
        let _ = entry;
        todo!()
    }

    /// Exchanges and lines together, newest first; the cursor is stable while new ones come.
    pub async fn timeline(
        &self,
        org: &OrgId,
        connector: &ConnectorId,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<TimelineItem>, StoreError> {
        let _ = (org, connector, cursor, limit);
        todo!()
    }
}
