//! Table `connect_sessions`: a link, a consent that was started, its state.

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, ports::StoreError};
use secrecy::SecretString;
use serde_json::Value;

use crate::store::Store;

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The first grant.
    Connect,
    /// Another one, in place.
    Reconnect,
}

/// A session to be made.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Whose.
    pub org: OrgId,
    /// Of which connector.
    pub connector: ConnectorId,
    /// SHA-256 of the link's secret.
    pub link_hash: [u8; 32],
    /// What for.
    pub purpose: Purpose,
    /// Where the browser goes in the end.
    pub return_url: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
    /// End of the link.
    pub expires_at: DateTime<Utc>,
}

/// The start of a consent.
#[derive(Clone, Debug)]
pub struct StartSession {
    /// SHA-256 of the link's secret.
    pub link_hash: [u8; 32],
    /// SHA-256 of `state`.
    pub state_hash: [u8; 32],
    /// SHA-256 of the browser's cookie.
    pub browser_hash: [u8; 32],
    /// The PKCE verifier; sealed at rest.
    pub verifier: Option<SecretString>,
    /// When.
    pub at: DateTime<Utc>,
    /// End of the state.
    pub state_expires_at: DateTime<Utc>,
}

/// A session as stored.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Whose.
    pub org: OrgId,
    /// Of which connector.
    pub connector: ConnectorId,
    /// What for.
    pub purpose: Purpose,
    /// Where the browser goes in the end.
    pub return_url: Option<String>,
    /// Of the consent that was started last in it; 0 before the first.
    pub sequence: i64,
    /// SHA-256 of the browser's cookie.
    pub browser_hash: Option<Vec<u8>>,
    /// The PKCE verifier; `None` also when it cannot be opened.
    pub verifier: Option<SecretString>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// End of the link.
    pub expires_at: DateTime<Utc>,
    /// End of the state.
    pub state_expires_at: Option<DateTime<Utc>>,
    /// When the state came back.
    pub state_used_at: Option<DateTime<Utc>>,
    /// How it ended.
    pub result: Option<Value>,
}

/// What a `state` that came back was worth. It is spent by the first look.
#[derive(Clone, Debug)]
pub enum Taken {
    /// Good, once.
    Yes(Box<Session>),
    /// Used before; how that ended, if it has.
    Used(Option<Value>),
    /// Too late.
    Expired,
    /// Not ours, or of a consent that was started again since.
    Unknown,
}

impl Store {
    /// Makes a session; answers its id.
    pub async fn create_session(&self, new: &NewSession) -> Result<String, StoreError> {
        let _ = new;
        todo!()
    }

    /// The session of this link, whatever became of it.
    pub async fn find_session_by_link(&self, link_hash: &[u8; 32]) -> Result<Option<Session>, StoreError> {
        let _ = link_hash;
        todo!()
    }

    /// Starts a consent; answers its sequence, which grows over all sessions of the connector. A start before it in the
    /// same session is void. `None`: the link is unknown, over, or has had its result.
    pub async fn start_session(&self, start: &StartSession) -> Result<Option<i64>, StoreError> {
        let _ = start;
        todo!()
    }

    /// Spends a `state`.
    pub async fn take_state(&self, state_hash: &[u8; 32], at: DateTime<Utc>) -> Result<Taken, StoreError> {
        let _ = (state_hash, at);
        todo!()
    }

    /// Notes how a session ended.
    pub async fn finish_session(&self, id: &str, result: &Value) -> Result<(), StoreError> {
        let _ = (id, result);
        todo!()
    }
}
