//! The refresh engine: the only way to an access token, for every connector and every caller.
//!
//! [`Engine::fresh`] serves from memory while it can. Otherwise one *flight* per credential and process acquires the
//! lease, reads the credential again, compares, journals, exchanges once and stores the result where the version has
//! not moved; everybody else waits for that result. The decisions stand in [`decide`] as pure functions.

mod cache;
mod call;
pub mod decide;
mod engine;
mod flight;
mod lane;
mod lifeboat;
pub mod mass;
mod probe;
mod recovery;
pub mod schedule;
mod spending;
pub mod timing;

pub use call::ClientTaken;
pub use engine::{Engine, Ports};
pub use probe::TestReport;

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::credential::{Fingerprint, Reason, Trouble};

/// What a caller needs of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// One that lives for this long; clamped to half of the token's life.
    ValidFor(Duration),
    /// Another one than this, which an API has rejected.
    Not(Fingerprint),
    /// Renewed ahead of its expiry, if that is due: the scheduler's need.
    Ahead,
    /// One that lives, also while the connector is in `auth_failed`: for Test, which asks whether the provider has
    /// taken it back.
    Revived,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No such connector.
    #[error("there is no such connector")]
    NotFound,
    /// Not authorised yet.
    #[error("the connector is not authorised yet")]
    Pending,
    /// An admin took it off.
    #[error("the connector is disconnected")]
    Disconnected,
    /// A person has to reconnect.
    #[error("the connector has to be reconnected")]
    AuthFailed {
        /// Why.
        reason: Reason,
        /// The provider's words.
        detail: Option<String>,
        /// Since when.
        since: DateTime<Utc>,
    },
    /// The provider refuses our OAuth app, or none is set up.
    #[error("the OAuth app is refused: {detail}")]
    AppRejected {
        /// The provider's words.
        detail: String,
        /// When it will be tried again.
        retry_after: Duration,
    },
    /// The stored credential cannot be opened.
    #[error("the stored credential cannot be decrypted")]
    Unreadable,
    /// The provider's own test call accepts the token that the caller says was rejected.
    #[error("the token is accepted by the provider's test call")]
    StillGood,
    /// Not now.
    #[error("no token at the moment: {detail}")]
    Unavailable {
        /// Whose trouble.
        class: Trouble,
        /// In words.
        detail: String,
        /// When to come back.
        retry_after: Duration,
    },
}

/// What came of an exchange, as the journal, the timeline and the metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    /// A new token set is stored.
    Rotated,
    /// The provider refused the grant.
    Rejected,
    /// The provider refused the OAuth app.
    AppBroken,
    /// The provider asked to wait.
    Busy,
    /// Nothing was consumed.
    Transient,
    /// It may have been consumed.
    Ambiguous,
    /// Somebody newer wrote meanwhile.
    Superseded,
    /// The connector was disconnected meanwhile.
    Discarded,
    /// Nothing was sent: the lease could not be held.
    NotSent,
    /// The owner vanished between start and end.
    OwnerLost,
    /// Our own fault.
    Internal,
}

impl OutcomeKind {
    /// The stable word in API, metrics and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rotated => "rotated",
            Self::Rejected => "rejected",
            Self::AppBroken => "app_broken",
            Self::Busy => "busy",
            Self::Transient => "transient",
            Self::Ambiguous => "ambiguous",
            Self::Superseded => "superseded",
            Self::Discarded => "discarded",
            Self::NotSent => "not_sent",
            Self::OwnerLost => "owner_lost",
            Self::Internal => "internal",
        }
    }
}

/// The numbers of the engine; `Default` is what `config/default.toml` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How long a lease lasts.
    pub lease: Duration,
    /// How long one token request may take; below the lease.
    pub exchange_timeout: Duration,
    /// What the lease must outlast the exchange by.
    pub lease_slack: Duration,
    /// How long a caller waits, in all.
    pub wait_bound: Duration,
    /// How long a lost owner's open exchange keeps others out after its lease has ended.
    pub orphan_wait: Duration,
    /// Between a refusal and its one confirming attempt.
    pub confirm_pause: Duration,
    /// A token that was minted for a rejection is not replaced again within this without a test call.
    pub rejection_interval: Duration,
    /// Margin ahead of expiry as a share of the life.
    pub margin_share: f64,
    /// Its floor.
    pub margin_floor: Duration,
    /// Its cap.
    pub margin_cap: Duration,
    /// Refusals are compared with successes over about this time.
    pub mass_window: Duration,
    /// So many credentials have to be refused before verdicts are held.
    pub mass_number: u64,
    /// And so large a share of what the provider has answered, `0.0..=1.0`.
    pub mass_share: f64,
    /// A credential whose verdict is held is tried again about this often.
    pub hold_retry: Duration,
    /// Verdicts are held for no longer.
    pub hold_at_most: Duration,
    /// After so many connectors in a row for which a provider said yes and nothing was stored, none of its tokens is spent.
    pub unstored_limit: u32,
    /// Then one is tried after this long.
    pub unstored_rest: Duration,
    /// First step of the back-off.
    pub backoff_base: Duration,
    /// Its cap.
    pub backoff_cap: Duration,
    /// Connectors that are kept in memory at most.
    pub cache_connectors: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            exchange_timeout: Duration::from_secs(20),
            lease_slack: Duration::from_secs(2),
            wait_bound: Duration::from_secs(25),
            orphan_wait: Duration::from_secs(5),
            confirm_pause: Duration::from_secs(3),
            rejection_interval: Duration::from_mins(1),
            margin_share: 0.1,
            margin_floor: Duration::from_secs(30),
            margin_cap: Duration::from_mins(10),
            mass_window: Duration::from_mins(5),
            mass_number: 10,
            mass_share: 0.5,
            hold_retry: Duration::from_mins(10),
            hold_at_most: Duration::from_hours(6),
            unstored_limit: 5,
            unstored_rest: Duration::from_hours(1),
            backoff_base: Duration::from_secs(1),
            backoff_cap: Duration::from_mins(5),
            cache_connectors: 100_000,
        }
    }
}
