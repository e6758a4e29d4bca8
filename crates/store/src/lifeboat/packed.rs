//! What is sealed into a file of the lifeboat, as JSON.

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, OrgId, TokenSet, Version,
    ports::{Castaway, Exchange, Lease, Rotation, Trigger},
};
use secrecy::{ExposeSecret, SecretString, zeroize::Zeroizing};
use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use super::{CheckedGrant, KeptGrant};

#[derive(Serialize, Deserialize)]
struct Packed {
    provider: String,
    account: String,
    /// `None`: written before orgs had apps of their own.
    app: Option<AppId>,
    credential: String,
    version: i64,
    holder: String,
    fencing_token: i64,
    lease_expires_at_ms: i64,
    trigger: String,
    started_at: DateTime<Utc>,
    sends: u32,
    duration_ms: u64,
    due_at: Option<DateTime<Utc>>,
    at: DateTime<Utc>,
    tokens: Tokens,
}

#[derive(Serialize, Deserialize)]
struct Tokens {
    #[serde(serialize_with = "exposed")]
    access_token: SecretString,
    #[serde(serialize_with = "exposed_if_any")]
    refresh_token: Option<SecretString>,
    obtained_at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
    expires_assumed: bool,
    refresh_expires_at: Option<DateTime<Utc>>,
    refresh_end_fixed: bool,
    scopes: Vec<String>,
    base_url: Option<Url>,
    #[serde(default)]
    found: BTreeMap<String, String>,
}

/// Into what is sealed.
fn exposed<S: Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

#[expect(clippy::ref_option, reason = "serde passes the field as it is")]
fn exposed_if_any<S: Serializer>(secret: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(ExposeSecret::expose_secret).serialize(serializer)
}

impl From<&TokenSet> for Tokens {
    fn from(tokens: &TokenSet) -> Self {
        Self {
            access_token: tokens.access_token.clone(),
            refresh_token: tokens.refresh_token.clone(),
            obtained_at: tokens.obtained_at,
            expires_at: tokens.expires_at,
            expires_assumed: tokens.expires_assumed,
            refresh_expires_at: tokens.refresh_expires_at,
            refresh_end_fixed: tokens.refresh_end_fixed,
            scopes: tokens.scopes.clone(),
            base_url: tokens.base_url.clone(),
            found: tokens.found.clone(),
        }
    }
}

impl From<Tokens> for TokenSet {
    fn from(tokens: Tokens) -> Self {
        Self {
            access_token: tokens.access_token,
            refresh_token: tokens.refresh_token,
            obtained_at: tokens.obtained_at,
            expires_at: tokens.expires_at,
            expires_assumed: tokens.expires_assumed,
            refresh_expires_at: tokens.refresh_expires_at,
            refresh_end_fixed: tokens.refresh_end_fixed,
            scopes: tokens.scopes,
            base_url: tokens.base_url,
            found: tokens.found,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct PackedGrant {
    provider: String,
    account: String,
    /// `None`: written before orgs had apps of their own.
    app: Option<AppId>,
    tokens: Tokens,
    scopes: Option<Vec<String>>,
    checked: Option<CheckedGrant>,
}

/// A grant, without what its label says.
pub(super) fn pack_grant(grant: &KeptGrant) -> Zeroizing<Vec<u8>> {
    let packed = PackedGrant {
        provider: grant.provider.clone(),
        account: grant.account.clone(),
        app: Some(grant.app.clone()),
        tokens: Tokens::from(&grant.tokens),
        scopes: grant.scopes.clone(),
        checked: grant.checked.clone(),
    };
    Zeroizing::new(serde_json::to_vec(&packed).expect("plain data is JSON"))
}

/// `None`: it makes no sense.
pub(super) fn unpack_grant(org: OrgId, connector: &str, id: &str, plain: &[u8]) -> Option<KeptGrant> {
    let (session, sequence) = id.rsplit_once('-')?;
    let packed: PackedGrant = serde_json::from_slice(plain).ok()?;
    Some(KeptGrant {
        org,
        connector: connector.into(),
        session: session.to_owned(),
        sequence: sequence.parse().ok()?,
        app: packed.app.unwrap_or_else(|| AppId::instance(packed.provider.as_str())),
        provider: packed.provider,
        account: packed.account,
        tokens: packed.tokens.into(),
        scopes: packed.scopes,
        checked: packed.checked,
    })
}

/// A rotation, without what its label says.
pub(super) fn pack(castaway: &Castaway) -> Zeroizing<Vec<u8>> {
    let (exchange, rotation) = (&castaway.exchange, &castaway.rotation);
    let packed = Packed {
        provider: castaway.provider.clone(),
        account: castaway.account.clone(),
        app: Some(castaway.app.clone()),
        credential: exchange.credential.to_string(),
        version: exchange.version.0,
        holder: exchange.lease.holder.clone(),
        fencing_token: exchange.lease.fencing_token,
        lease_expires_at_ms: exchange.lease.expires_at_ms,
        trigger: exchange.trigger.as_str().to_owned(),
        started_at: exchange.started_at,
        sends: rotation.sends,
        duration_ms: u64::try_from(rotation.duration.as_millis()).unwrap_or(u64::MAX),
        due_at: rotation.due_at,
        at: rotation.at,
        tokens: Tokens::from(&rotation.tokens),
    };
    Zeroizing::new(serde_json::to_vec(&packed).expect("plain data is JSON"))
}

/// `None`: it makes no sense.
pub(super) fn unpack(org: OrgId, connector: &str, exchange: &str, plain: &[u8]) -> Option<Castaway> {
    let packed: Packed = serde_json::from_slice(plain).ok()?;
    Some(Castaway {
        app: packed.app.unwrap_or_else(|| AppId::instance(packed.provider.as_str())),
        provider: packed.provider,
        account: packed.account,
        exchange: Exchange {
            id: exchange.into(),
            credential: packed.credential.as_str().into(),
            connector: connector.into(),
            org,
            version: Version(packed.version),
            lease: Lease {
                credential: packed.credential.into(),
                holder: packed.holder,
                fencing_token: packed.fencing_token,
                expires_at_ms: packed.lease_expires_at_ms,
            },
            trigger: Trigger::parse(&packed.trigger)?,
            started_at: packed.started_at,
        },
        rotation: Rotation {
            tokens: packed.tokens.into(),
            due_at: packed.due_at,
            sends: packed.sends,
            duration: Duration::from_millis(packed.duration_ms),
            at: packed.at,
        },
    })
}
