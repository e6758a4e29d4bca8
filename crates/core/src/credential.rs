//! What a connector authenticates with, and the snapshot of it that callers read.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use chrono::{DateTime, TimeDelta, Utc};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    health::Health,
    id::{ConnectorId, CredentialId, OrgId},
    oauth_app::AppId,
};

/// Counts the token sets of a credential: one more with each rotation or new grant, and with nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub i64);

impl Version {
    /// No token set yet.
    pub const NONE: Self = Self(0);

    /// The version that the next token set gets.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a token without revealing it: the first 16 hex digits of its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of a token or key.
    pub fn of(secret: &SecretString) -> Self {
        let digest = Sha256::digest(secret.expose_secret().as_bytes());
        Self(hex(&digest[..8]))
    }

    /// As shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}

/// One token set as a provider issued it (RFC 6749 section 5.1).
#[derive(Clone, Debug)]
pub struct TokenSet {
    /// Goes to the API.
    pub access_token: SecretString,
    /// Buys the next token set. Without it the connector works until the access token ends.
    pub refresh_token: Option<SecretString>,
    /// When we received it.
    pub obtained_at: DateTime<Utc>,
    /// End of the access token; `None`: it is said not to expire.
    pub expires_at: Option<DateTime<Utc>>,
    /// True when the answer carried no usable life and the provider's default was taken.
    pub expires_assumed: bool,
    /// End of the refresh token, where the provider says it.
    pub refresh_expires_at: Option<DateTime<Utc>>,
    /// No refresh moves that end: only a person's new grant does.
    pub refresh_end_fixed: bool,
    /// What was granted.
    pub scopes: Vec<String>,
    /// API base that the answer named, or that was found at the consent, where it differs from the account's own; host
    /// checked before it is kept.
    pub base_url: Option<url::Url>,
    /// What requests need beside the token, as it was found at the consent, by the adapter's names: ids, never a secret.
    pub found: BTreeMap<String, String>,
}

impl TokenSet {
    /// Whether nothing ends it and nothing renews it.
    pub fn is_endless(&self) -> bool {
        self.refresh_token.is_none() && self.expires_at.is_none()
    }

    /// Life of the access token, as issued.
    pub fn life(&self) -> Option<TimeDelta> {
        self.expires_at.map(|end| (end - self.obtained_at).max(TimeDelta::zero()))
    }

    /// When the access ends for good, whatever we do: a person has to give it anew before then. `None`: it can be renewed
    /// for ever, as far as that is known.
    pub fn ends_at(&self) -> Option<DateTime<Utc>> {
        if self.refresh_token.is_none() {
            return self.expires_at;
        }
        self.refresh_expires_at.filter(|_| self.refresh_end_fixed)
    }

    /// Whether the access token lives for at least `left` more.
    pub fn lives_for(&self, left: TimeDelta, now: DateTime<Utc>) -> bool {
        self.expires_at.is_none_or(|end| end - now >= left)
    }

    /// Whether the access token is not over yet.
    pub fn alive(&self, now: DateTime<Utc>) -> bool {
        self.expires_at.is_none_or(|end| end > now)
    }
}

/// The secret part of a credential.
#[derive(Clone, Debug)]
pub enum Secret {
    /// Nothing yet (pending), or nothing any more (disconnected).
    Absent,
    /// OAuth 2.0.
    Tokens(TokenSet),
    /// An API key; never refreshed.
    ApiKey(SecretString),
    /// Stored, but it cannot be opened: a damaged row, or another master key.
    Unreadable,
}

impl Secret {
    /// What goes to the API, if there is something.
    pub fn bearer(&self) -> Option<&SecretString> {
        match self {
            Self::Tokens(tokens) => Some(&tokens.access_token),
            Self::ApiKey(key) => Some(key),
            Self::Absent | Self::Unreadable => None,
        }
    }

    /// The token set, if it is one.
    pub fn tokens(&self) -> Option<&TokenSet> {
        match self {
            Self::Tokens(tokens) => Some(tokens),
            _ => None,
        }
    }
}

/// Why a connector is marked degraded: somebody's trouble that needs no person of the org.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The provider asks us to wait.
    Busy,
    /// The provider could not be reached, or refused without a verdict.
    Transient,
    /// The provider may have rotated without our seeing the answer.
    Ambiguous,
    /// The OAuth app is at fault.
    AppBroken,
    /// The provider refuses so many at once that its verdicts are held.
    Held,
    /// Our database, lease store or key.
    Ours,
}

impl Trouble {
    /// The stable word in API, metrics and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Transient => "transient",
            Self::Ambiguous => "ambiguous",
            Self::AppBroken => "app_broken",
            Self::Held => "held",
            Self::Ours => "ours",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Busy, Self::Transient, Self::Ambiguous, Self::AppBroken, Self::Held, Self::Ours]
            .into_iter()
            .find(|trouble| trouble.as_str() == word)
    }
}

/// The mark beside health: tokens may still be served, nobody has to reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degraded {
    /// Whose trouble.
    pub class: Trouble,
    /// Since when without a break.
    pub since: DateTime<Utc>,
}

/// When the next exchange may be tried; stored with the credential, so that no herd forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Not before this moment.
    pub retry_at: Option<DateTime<Utc>>,
    /// Exchanges in a row that brought nothing.
    pub failures: u32,
}

/// A credential as committed.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Its id; several connectors of one org may share it.
    pub id: CredentialId,
    /// What its grant was made with, and is renewed with.
    pub app: AppId,
    /// Of the token set below.
    pub version: Version,
    /// Sealed at rest, opened here.
    pub secret: Secret,
    /// When the last token set was stored.
    pub rotated_at: Option<DateTime<Utc>>,
    /// When the scheduler should refresh.
    pub due_at: Option<DateTime<Utc>>,
    /// Back-off between exchanges.
    pub backoff: Backoff,
    /// The mark beside health.
    pub degraded: Option<Degraded>,
    /// The answer to an exchange of this version may be lost: a later refusal says so.
    pub answer_lost: bool,
}

/// One connector with its credential, as committed: what the hot path reads.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The connector.
    pub connector: ConnectorId,
    /// Whose it is.
    pub org: OrgId,
    /// The provider's id.
    pub provider: String,
    /// The account's id at the provider, in its canonical form.
    pub account: String,
    /// What people call it.
    pub name: String,
    /// Whether it works.
    pub health: Health,
    /// Why, as a stable word ([`Reason`]).
    pub health_reason: Option<Reason>,
    /// The provider's own words to it, cut to 300 characters.
    pub health_detail: Option<String>,
    /// Since when.
    pub health_since: DateTime<Utc>,
    /// Grows by one with each change of health and each new grant.
    pub epoch: i64,
    /// What it authenticates with.
    pub credential: Credential,
}

/// Why a connector is in `auth_failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The provider refused the refresh token.
    RefreshRefused,
    /// It refused after an answer that never reached us: the token was probably rotated without us.
    ResponseLost,
    /// It refuses access tokens that it has just issued, or an API key; confirmed by a test call.
    AccessRefused,
    /// The access token is over and there is no refresh token.
    NotRefreshable,
    /// The provider says that the app was taken off there, and refuses the credential since.
    Uninstalled,
}

impl Reason {
    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RefreshRefused => "refresh_refused",
            Self::ResponseLost => "response_lost",
            Self::AccessRefused => "access_refused",
            Self::NotRefreshable => "not_refreshable",
            Self::Uninstalled => "uninstalled",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::RefreshRefused, Self::ResponseLost, Self::AccessRefused, Self::NotRefreshable, Self::Uninstalled]
            .into_iter()
            .find(|reason| reason.as_str() == word)
    }

    /// For people: what happened, and what usually causes it.
    pub fn sentence(self, provider: &str) -> String {
        match self {
            Self::RefreshRefused => format!(
                "{provider} refused the refresh token. Usually the app was removed or the user was deactivated."
            ),
            Self::ResponseLost => format!(
                "{provider} refused the refresh token after an answer of theirs never arrived: they have probably \
                 issued a new one that was lost on the way."
            ),
            Self::AccessRefused => {
                format!("{provider} refuses the credential. Usually the user was suspended, or the key was deleted.")
            }
            Self::Uninstalled => format!("Somebody has taken the app off at {provider}."),
            Self::NotRefreshable => format!("The access is over, and {provider} gave nothing to renew it with."),
        }
    }
}
