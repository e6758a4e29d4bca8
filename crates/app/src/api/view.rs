//! Connectors and tests as the API shows them; never a secret.

use std::collections::HashMap;

use chrono::{DateTime, NaiveDate, Utc};
use holdfast_core::{ConnectorId, Fingerprint, Providers, Secret, ports::StoreError, refresh::TestReport};
use holdfast_store::{AgentBrief, ConnectorView, MustReconnect, Owner, TimelineItem};
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{agents::AgentBriefBody, sync::SyncBody, webhooks::WebhookBody};
use crate::{app::App, care, sync};

/// A connector.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConnectorBody {
    id: String,
    provider: String,
    /// The account's id at the provider; null until it is known.
    account: Option<String>,
    name: String,
    /// `pending`, `connected`, `auth_failed` or `disconnected`.
    health: &'static str,
    /// Why it is in `auth_failed`, as a stable word.
    health_reason: Option<&'static str>,
    /// The same in words, with what usually causes it.
    health_words: Option<String>,
    /// What the provider said.
    health_detail: Option<String>,
    health_since: DateTime<Utc>,
    /// Grows with each change of health and each new grant.
    epoch: i64,
    degraded: Option<DegradedBody>,
    /// It works, and has to be reconnected all the same: its provider changes how access works. Null: it need not.
    must_reconnect: Option<MustReconnectBody>,
    alias: Option<String>,
    credential: CredentialBody,
    /// What the provider's who-am-I call said last.
    identity: Option<Value>,
    /// The webhook of this connector; null: it has none.
    webhook: Option<WebhookBody>,
    /// The mirror of its tickets; null: nothing is mirrored of it.
    sync: Option<SyncBody>,
    /// The agents that use it, by name.
    agents: Vec<AgentBriefBody>,
    created_at: DateTime<Utc>,
}

/// A provider's migration that a connector has to be reconnected for.
#[derive(Debug, Serialize, ToSchema)]
struct MustReconnectBody {
    /// The last day; null: none is set.
    by: Option<NaiveDate>,
    /// Why, in the words of whoever runs the installation.
    reason: Option<String>,
    /// The migration's id.
    migration: String,
}

/// Somebody's trouble that needs no person of the org.
#[derive(Debug, Serialize, ToSchema)]
struct DegradedBody {
    /// `busy`, `transient`, `ambiguous`, `app_broken`, `held` or `ours`.
    class: &'static str,
    since: DateTime<Utc>,
    /// When the next exchange may be tried.
    retry_at: Option<DateTime<Utc>>,
}

/// What is known of a credential, without secrets.
#[derive(Debug, Serialize, ToSchema)]
struct CredentialBody {
    /// `oauth2`, `api_key`, `none`, or `unreadable`: stored, but it cannot be decrypted.
    kind: &'static str,
    version: i64,
    scopes: Vec<String>,
    expires_at: Option<DateTime<Utc>>,
    /// The answer did not say; the provider's default was taken.
    expires_assumed: bool,
    refresh_expires_at: Option<DateTime<Utc>>,
    /// When the access ends for good, whatever is refreshed until then: a person has to reconnect before. Null: nothing is
    /// known that would end it.
    ends_at: Option<DateTime<Utc>>,
    rotated_at: Option<DateTime<Utc>>,
    /// When it is refreshed ahead of its expiry.
    due_at: Option<DateTime<Utc>>,
    /// Names the access token without revealing it: the first 16 hex digits of its SHA-256.
    fingerprint: Option<String>,
}

impl ConnectorBody {
    /// One, with its agents.
    pub async fn of(app: &App, view: &ConnectorView) -> Result<Self, StoreError> {
        Ok(Self::all(app, std::slice::from_ref(view)).await?.remove(0))
    }

    /// Several; their agents are asked for once.
    pub async fn all(app: &App, views: &[ConnectorView]) -> Result<Vec<Self>, StoreError> {
        let ids: Vec<_> = views.iter().map(|view| view.snapshot.connector.clone()).collect();
        let agents = app.store.agents_of(&ids).await?;
        let mut must = app.store.must_reconnect(&ids).await?;
        let mut webhooks = webhooks(app, views).await?;
        let mut mirrors = mirrors(app, views).await?;
        let mut body = |view: &ConnectorView| {
            let id = &view.snapshot.connector;
            let (webhook, sync) = (webhooks.remove(id), mirrors.remove(id));
            Self { webhook, sync, ..Self::new(view, agents.get(id).map_or(&[], Vec::as_slice), must.remove(id)) }
        };
        Ok(views.iter().map(&mut body).collect())
    }

    fn new(view: &ConnectorView, agents: &[AgentBrief], must: Option<MustReconnect>) -> Self {
        let snapshot = &view.snapshot;
        let credential = &snapshot.credential;
        let tokens = credential.secret.tokens();
        let bearer = credential.secret.bearer().filter(|secret| !secret.expose_secret().is_empty());
        let kind = match &credential.secret {
            Secret::Absent => "none",
            Secret::Tokens(_) => "oauth2",
            Secret::ApiKey(_) => "api_key",
            Secret::Unreadable => "unreadable",
        };
        Self {
            id: snapshot.connector.to_string(),
            provider: snapshot.provider.clone(),
            account: Some(snapshot.account.clone()).filter(|account| !account.is_empty()),
            name: snapshot.name.clone(),
            health: snapshot.health.as_str(),
            health_reason: snapshot.health_reason.map(holdfast_core::credential::Reason::as_str),
            health_words: snapshot.health_reason.map(|reason| reason.sentence("The provider")),
            health_detail: snapshot.health_detail.clone(),
            health_since: snapshot.health_since,
            epoch: snapshot.epoch,
            degraded: credential.degraded.map(|degraded| DegradedBody {
                class: degraded.class.as_str(),
                since: degraded.since,
                retry_at: credential.backoff.retry_at,
            }),
            must_reconnect: must.map(|must| MustReconnectBody {
                by: must.by,
                reason: must.reason,
                migration: must.migration,
            }),
            alias: view.alias.clone(),
            credential: CredentialBody {
                kind,
                version: credential.version.0,
                scopes: tokens.map(|tokens| tokens.scopes.clone()).unwrap_or_default(),
                expires_at: tokens.and_then(|tokens| tokens.expires_at),
                expires_assumed: tokens.is_some_and(|tokens| tokens.expires_assumed),
                refresh_expires_at: tokens.and_then(|tokens| tokens.refresh_expires_at),
                ends_at: tokens.and_then(holdfast_core::TokenSet::ends_at),
                rotated_at: credential.rotated_at,
                due_at: credential.due_at,
                fingerprint: bearer.map(|secret| Fingerprint::of(secret).to_string()),
            },
            identity: view.identity.clone(),
            webhook: None,
            sync: None,
            agents: agents.iter().map(AgentBriefBody::from).collect(),
            created_at: view.created_at,
        }
    }
}

/// The first webhook of each connector that has one; all of them are of one org.
async fn webhooks(app: &App, views: &[ConnectorView]) -> Result<HashMap<ConnectorId, WebhookBody>, StoreError> {
    let Some(first) = views.first() else { return Ok(HashMap::new()) };
    let ids: Vec<_> = views.iter().map(|view| &view.snapshot.connector).collect();
    let endpoints = app.store.endpoints_of_all(&first.snapshot.org, &ids, app.seams.clock.now()).await?;
    let mut found = HashMap::new();
    for endpoint in &endpoints {
        if let (Owner::Connector(connector), Some(body)) = (&endpoint.owner, WebhookBody::of(app, endpoint)) {
            found.entry(connector.clone()).or_insert(body);
        }
    }
    Ok(found)
}

/// The mirrors of those that have one.
async fn mirrors(app: &App, views: &[ConnectorView]) -> Result<HashMap<ConnectorId, SyncBody>, StoreError> {
    let has = |view: &&ConnectorView| sync::feed(app, &view.snapshot.provider).is_some();
    let ids: Vec<_> = views.iter().filter(has).map(|view| &view.snapshot.connector).collect();
    let found = app.store.mirrors(&ids).await?;
    Ok(found.into_iter().map(|mirror| (mirror.connector.clone(), mirror.into())).collect())
}

/// What a test found.
#[derive(Debug, Serialize, ToSchema)]
pub struct TestBody {
    /// Whether the provider accepts the credential.
    pub ok: bool,
    /// The connector's health after the test.
    health: &'static str,
    identity: Option<IdentityBody>,
    scopes: Vec<String>,
    /// Asked for, and not granted.
    missing_scopes: Vec<String>,
    expires_at: Option<DateTime<Utc>>,
    latency_ms: u64,
    checked_at: DateTime<Utc>,
    rate_limit: Option<RateBody>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Who the credential speaks for.
#[derive(Debug, Serialize, ToSchema)]
struct IdentityBody {
    id: String,
    name: Option<String>,
    email: Option<String>,
    role: Option<String>,
    account: String,
}

/// What is left of the provider's rate limit.
#[derive(Debug, Serialize, ToSchema)]
struct RateBody {
    limit: u64,
    remaining: u64,
}

impl TestBody {
    /// `asked`: the scopes that the provider's adapter asks for.
    pub fn new(report: &TestReport, providers: &Providers) -> Self {
        let identity = report.identity.as_ref().ok();
        let tokens = report.snapshot.credential.secret.tokens();
        let (scopes, missing_scopes) = care::scopes(report, providers);
        Self {
            ok: identity.is_some(),
            health: report.snapshot.health.as_str(),
            missing_scopes,
            identity: identity.map(|identity| IdentityBody {
                id: identity.user_id.clone(),
                name: identity.name.clone(),
                email: identity.email.clone(),
                role: identity.role.clone(),
                account: identity.account_name.clone(),
            }),
            scopes,
            expires_at: tokens.and_then(|tokens| tokens.expires_at),
            latency_ms: u64::try_from(report.latency.as_millis()).unwrap_or(u64::MAX),
            checked_at: report.checked_at,
            rate_limit: report.rate_room.map(|room| RateBody { limit: room.limit, remaining: room.remaining }),
            error: report.identity.as_ref().err().map(|error| error.message.clone()),
        }
    }
}

impl TestBody {
    /// How long it took, or why it failed.
    pub(crate) fn outcome(&self) -> Result<u64, String> {
        match &self.error {
            None => Ok(self.latency_ms),
            Some(error) => Err(error.clone()),
        }
    }
}

/// A line of a connector's timeline.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TimelineBody {
    id: String,
    at: DateTime<Utc>,
    /// `exchange`, `health`, `test`, `connected`, `reconnected`, `disconnected`, ...
    kind: String,
    /// How it ended; null: an exchange that is under way.
    outcome: Option<String>,
    /// Who or what; of an exchange, its trigger.
    actor: Option<String>,
    detail: Option<String>,
    duration_ms: Option<u64>,
    version: Option<i64>,
}

impl From<TimelineItem> for TimelineBody {
    fn from(item: TimelineItem) -> Self {
        Self {
            id: item.id,
            at: item.at,
            kind: item.kind,
            outcome: item.outcome,
            actor: item.actor,
            detail: item.detail,
            duration_ms: item.duration.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            version: item.version.map(|version| version.0),
        }
    }
}
