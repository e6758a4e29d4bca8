//! A connector with its credential, as one row, and how it becomes a [`Snapshot`]; a secret to its columns and back.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, Credential, CredentialId, Fingerprint, Health, OrgId, Secret, Snapshot, TokenSet, Version,
    credential::{Backoff, Degraded, Reason, Trouble},
    ports::StoreError,
};
use sea_orm::FromQueryResult;
use secrecy::{ExposeSecret, SecretString, zeroize::Zeroizing};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use crate::{
    listing::ConnectorView,
    seal::{DataKey, Place, Sealer, Unopenable},
    sql::{micros, nonsense},
};

/// What [`Row`] is read from; `c`, `k` and `o` are connector, credential and org.
pub(crate) const SELECT: &str = "SELECT c.id, c.org_id, c.credential_id, c.provider, c.account, c.name, c.alias, \
     c.health, c.health_reason, c.health_detail, c.health_since, c.epoch, c.identity, c.created_at, \
     k.provider AS app, k.kind, k.sealed, k.version, k.scopes, k.obtained_at, k.expires_at, k.expires_assumed, \
     k.refresh_expires_at, k.ends_at, k.base_url, k.found, k.rotated_at, k.due_at, k.retry_at, k.failures, \
     k.degraded_class, k.degraded_since, k.answer_lost, \
     o.sealed_data_key \
     FROM connectors c JOIN credentials k ON k.id = c.credential_id JOIN orgs o ON o.id = c.org_id";

#[derive(FromQueryResult)]
pub(crate) struct Row {
    pub(crate) id: String,
    org_id: String,
    credential_id: String,
    provider: String,
    account: String,
    name: String,
    alias: Option<String>,
    health: String,
    health_reason: Option<String>,
    health_detail: Option<String>,
    health_since: DateTime<Utc>,
    epoch: i64,
    identity: Option<Value>,
    created_at: DateTime<Utc>,
    app: Option<String>,
    kind: String,
    sealed: Option<Vec<u8>>,
    version: i64,
    scopes: Value,
    obtained_at: Option<DateTime<Utc>>,
    expires_at: Option<DateTime<Utc>>,
    expires_assumed: bool,
    refresh_expires_at: Option<DateTime<Utc>>,
    ends_at: Option<DateTime<Utc>>,
    base_url: Option<String>,
    found: Option<Value>,
    rotated_at: Option<DateTime<Utc>>,
    due_at: Option<DateTime<Utc>>,
    retry_at: Option<DateTime<Utc>>,
    failures: i64,
    degraded_class: Option<String>,
    degraded_since: Option<DateTime<Utc>>,
    answer_lost: bool,
    sealed_data_key: Vec<u8>,
}

impl Row {
    /// A secret that does not open is [`Secret::Unreadable`], whatever else is in the row.
    pub(crate) fn view(self, sealer: &Sealer) -> Result<ConnectorView, StoreError> {
        let secret = self.secret(sealer);
        let degraded = match (&self.degraded_class, self.degraded_since) {
            (Some(class), Some(since)) => {
                let class = Trouble::parse(class)
                    .ok_or_else(|| nonsense("credentials", "degraded_class", &self.credential_id))?;
                Some(Degraded { class, since })
            }
            _ => None,
        };
        let credential = Credential {
            app: app_of(self.app.as_deref(), &self.provider, &self.org_id, &self.credential_id)?,
            version: Version(self.version),
            secret,
            rotated_at: self.rotated_at,
            due_at: self.due_at,
            backoff: Backoff {
                retry_at: self.retry_at,
                failures: u32::try_from(self.failures)
                    .map_err(|_| nonsense("credentials", "failures", &self.credential_id))?,
            },
            degraded,
            answer_lost: self.answer_lost,
            id: CredentialId::from(self.credential_id),
        };
        let snapshot = Snapshot {
            health: health(&self.health, &self.id)?,
            health_reason: reason(self.health_reason.as_deref(), &self.id)?,
            connector: self.id.into(),
            org: self.org_id.into(),
            provider: self.provider,
            account: self.account,
            name: self.name,
            health_detail: self.health_detail,
            health_since: self.health_since,
            epoch: self.epoch,
            credential,
        };
        Ok(ConnectorView { snapshot, alias: self.alias, identity: self.identity, created_at: self.created_at })
    }

    /// What is held, opened.
    pub(crate) fn secret(&self, sealer: &Sealer) -> Secret {
        if self.kind == NONE {
            return Secret::Absent;
        }
        self.open(sealer).unwrap_or_else(|| {
            warn!(connector.id = %self.id, "the credential of connector {} cannot be opened", self.id);
            Secret::Unreadable
        })
    }

    fn open(&self, sealer: &Sealer) -> Option<Secret> {
        let org = OrgId::from(self.org_id.as_str());
        let key = sealer.data_key(&org, &self.sealed_data_key).ok()?;
        let place = Place { org: &org, owner: &self.credential_id, field: &self.kind };
        let held = self.sealed.as_deref()?;
        match self.kind.as_str() {
            API_KEY => key.open_text(place, held).ok().map(Secret::ApiKey),
            TOKENS => {
                let (access_token, refresh_token) = open_tokens(&key, place, held).ok()?;
                Some(Secret::Tokens(TokenSet {
                    access_token,
                    refresh_end_fixed: refresh_token.is_some() && self.ends_at.is_some(),
                    refresh_token,
                    obtained_at: self.obtained_at?,
                    expires_at: self.expires_at,
                    expires_assumed: self.expires_assumed,
                    refresh_expires_at: self.refresh_expires_at,
                    scopes: serde_json::from_value(self.scopes.clone()).ok()?,
                    base_url: self.base_url.as_deref().map(url::Url::parse).transpose().ok()?,
                    found: read_found(self.found.clone())?,
                }))
            }
            _ => None,
        }
    }
}

/// Nothing yet, or nothing any more.
pub(crate) const NONE: &str = "none";
/// A token set.
pub(crate) const TOKENS: &str = "tokens";
/// An API key.
pub(crate) const API_KEY: &str = "api_key";

/// The columns of a credential that come from its secret.
pub(crate) struct Columns {
    pub(crate) kind: &'static str,
    pub(crate) sealed: Option<Vec<u8>>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) scopes: Value,
    pub(crate) obtained_at: Option<DateTime<Utc>>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) expires_assumed: bool,
    pub(crate) refresh_expires_at: Option<DateTime<Utc>>,
    pub(crate) ends_at: Option<DateTime<Utc>>,
    pub(crate) base_url: Option<String>,
    pub(crate) found: Option<Value>,
}

impl Columns {
    /// Seals it. `None`: there is nothing that could be sealed in [`Secret::Unreadable`].
    pub(crate) fn of(secret: &Secret, key: &DataKey, org: &OrgId, credential: &str) -> Option<Self> {
        let mut columns = Self {
            kind: NONE,
            sealed: None,
            fingerprint: secret.bearer().map(|bearer| Fingerprint::of(bearer).as_str().to_owned()),
            scopes: Value::Array(Vec::new()),
            obtained_at: None,
            expires_at: None,
            expires_assumed: false,
            refresh_expires_at: None,
            ends_at: None,
            base_url: None,
            found: None,
        };
        match secret {
            Secret::Unreadable => return None,
            Secret::Absent => {}
            Secret::ApiKey(api_key) => {
                columns.kind = API_KEY;
                let place = Place { org, owner: credential, field: API_KEY };
                columns.sealed = Some(key.seal_text(place, api_key));
            }
            Secret::Tokens(tokens) => {
                columns.kind = TOKENS;
                let place = Place { org, owner: credential, field: TOKENS };
                columns.sealed = Some(seal_tokens(key, place, tokens));
                columns.scopes = tokens.scopes.clone().into();
                columns.obtained_at = Some(micros(tokens.obtained_at));
                columns.expires_at = tokens.expires_at.map(micros);
                columns.expires_assumed = tokens.expires_assumed;
                columns.refresh_expires_at = tokens.refresh_expires_at.map(micros);
                columns.ends_at = tokens.ends_at().map(micros);
                columns.base_url = tokens.base_url.as_ref().map(ToString::to_string);
                columns.found = write_found(&tokens.found);
            }
        }
        Some(columns)
    }
}

/// Null where nothing was found, as in rows of before there was anything to find.
pub(crate) fn write_found(found: &BTreeMap<String, String>) -> Option<Value> {
    (!found.is_empty()).then(|| serde_json::to_value(found).expect("texts by name are JSON"))
}

/// `None`: it makes no sense.
pub(crate) fn read_found(found: Option<Value>) -> Option<BTreeMap<String, String>> {
    found.map_or_else(|| Some(BTreeMap::new()), |found| serde_json::from_value(found).ok())
}

/// A token set as it comes back from the database.
pub(crate) fn as_stored(tokens: &TokenSet) -> TokenSet {
    TokenSet {
        obtained_at: micros(tokens.obtained_at),
        expires_at: tokens.expires_at.map(micros),
        refresh_expires_at: tokens.refresh_expires_at.map(micros),
        ..tokens.clone()
    }
}

/// Both tokens in one value: they can neither be torn apart nor be mixed.
#[derive(Serialize)]
struct Sealing<'a> {
    access_token: &'a str,
    refresh_token: Option<&'a str>,
}

#[derive(Deserialize)]
struct Opened {
    access_token: String,
    refresh_token: Option<String>,
}

pub(crate) fn seal_tokens(key: &DataKey, place: Place<'_>, tokens: &TokenSet) -> Vec<u8> {
    let both = Sealing {
        access_token: tokens.access_token.expose_secret(),
        refresh_token: tokens.refresh_token.as_ref().map(ExposeSecret::expose_secret),
    };
    let plain = Zeroizing::new(serde_json::to_vec(&both).expect("two strings are JSON"));
    key.seal(place, &plain)
}

pub(crate) fn open_tokens(
    key: &DataKey,
    place: Place<'_>,
    sealed: &[u8],
) -> Result<(SecretString, Option<SecretString>), Unopenable> {
    let plain = key.open(place, sealed)?;
    let opened: Opened = serde_json::from_slice(&plain).map_err(|_| Unopenable)?;
    Ok((opened.access_token.into(), opened.refresh_token.map(SecretString::from)))
}

/// The OAuth app of a credential. One of another org would be asked for in vain, and is not even tried.
pub(crate) fn app_of(stored: Option<&str>, provider: &str, org: &str, credential: &str) -> Result<AppId, StoreError> {
    let app = stored.map_or_else(|| Some(AppId::instance(provider)), AppId::parse);
    app.filter(|app| app.provider() == provider && app.org().is_none_or(|of| of.as_str() == org))
        .ok_or_else(|| nonsense("credentials", "provider", credential))
}

pub(crate) fn health(word: &str, connector: &str) -> Result<Health, StoreError> {
    Health::parse(word).ok_or_else(|| nonsense("connectors", "health", connector))
}

pub(crate) fn reason(word: Option<&str>, connector: &str) -> Result<Option<Reason>, StoreError> {
    word.map(|word| Reason::parse(word).ok_or_else(|| nonsense("connectors", "health_reason", connector))).transpose()
}
