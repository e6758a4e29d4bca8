//! What a call to a provider's API ends in, when it does not succeed.

use std::time::Duration;

/// What the caller should do now; causes that nobody would treat differently share a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A person reconnects.
    AuthFailed,
    /// A person grants a scope or a right.
    Forbidden,
    /// It is not there: the agent looks again.
    NotFound,
    /// It changed meanwhile: the agent looks again.
    Conflict,
    /// The agent changes its input.
    Invalid,
    /// Wait as long as `retry` says.
    Busy,
    /// Later, backing off.
    Unavailable,
    /// We misread the provider: ours to mend.
    Unreadable,
}

/// When to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same call brings the same answer.
    Never,
    /// Backing off.
    Backoff,
    /// Not before this long.
    After(Duration),
}

/// A failed call to a provider. The message never holds a secret, a body or a query string.
#[derive(Debug, thiserror::Error)]
#[error("{provider} {operation}: {message}")]
pub struct Error {
    /// What to do.
    pub kind: ErrorKind,
    /// When.
    pub retry: Retry,
    /// The provider's id.
    pub provider: &'static str,
    /// The tool or endpoint, in a few words.
    pub operation: &'static str,
    /// For people: what happened and the next step.
    pub message: String,
    /// The cause, for the log.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What a provider names as lacking where it forbids a call: scopes that were not granted. It stands as the error's source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not granted: {}", .0.join(", "))]
pub struct MissingScopes(pub Vec<String>);

/// The result of a call to a provider.
pub type Result<T, E = Error> = std::result::Result<T, E>;
