//! What people do to a credential: a new grant, and taking it off.

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, Secret, Snapshot, TokenSet, ports::StoreError};
use secrecy::SecretString;
use serde_json::Value;

use crate::store::Store;

/// A grant, exchanged and checked, to be stored.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Of which connector.
    pub connector: ConnectorId,
    /// Of the consent, from [`Store::start_session`].
    pub sequence: i64,
    /// What the code brought.
    pub tokens: TokenSet,
    /// What the provider's who-am-I call said; `None` keeps what is stored.
    pub identity: Option<Value>,
    /// Merged by name; others survive.
    pub extras: Vec<(String, SecretString)>,
    /// Next time for the scheduler.
    pub due_at: Option<DateTime<Utc>>,
    /// When.
    pub at: DateTime<Utc>,
    /// Who gave it, for the timeline.
    pub actor: Option<String>,
}

/// What became of a [`Grant`].
#[derive(Clone, Debug)]
pub enum Granted {
    /// It is stored; the snapshot as committed.
    Yes(Box<Snapshot>),
    /// A consent that was started later is stored already; nothing was written.
    Older,
    /// The connector was deleted meanwhile.
    Gone,
}

impl Store {
    /// Stores a grant: version and epoch grow by one, marks are cleared, extras are merged. Of concurrent ones the one
    /// whose consent was started last wins.
    pub async fn store_grant(&self, grant: &Grant) -> Result<Granted, StoreError> {
        let _ = grant;
        todo!()
    }

    /// Takes a connector off and wipes its secret, unless another connector shares it. Answers what was held, for a
    /// revocation; [`Secret::Absent`] when nothing was, or when it is shared. `None`: there is no such connector.
    pub async fn disconnect(
        &self,
        org: &OrgId,
        id: &ConnectorId,
        at: DateTime<Utc>,
    ) -> Result<Option<Secret>, StoreError> {
        let _ = (org, id, at);
        todo!()
    }
}
