//! Addresses: made, given a secret, let take deliveries again; and how they stand, in words that pages and API share.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    AppId, ConnectorId, OrgId,
    credential::hex,
    mask,
    ports::{Changed, StoreError},
    webhook::{Scope, SecretFrom, Webhook, WebhookFacts, subscription::Standing as Subscription},
};
use holdfast_store::{Endpoint, NewEndpoint, Owner};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::subscriptions;
use crate::{app::App, sync};

/// Of a secret that a person brings: shorter ones are guessed, longer ones are something else.
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 8..=512;

/// How an address stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It takes deliveries.
    Active,
    /// It is to be made at the provider, and nobody has come to that yet.
    Subscribing,
    /// It is to be made at the provider, and that is not possible.
    NotSubscribed,
    /// Nothing has come yet.
    Waiting,
    /// It was taken away at the provider because nobody wants its events, and nothing has come since.
    Off,
    /// It cannot take any before somebody brings its secret.
    NeedsSecret,
    /// More and more is turned away.
    Failing,
    /// It says that it is gone.
    Gone,
}

impl Standing {
    /// By what is known of it.
    pub(crate) fn of(app: &App, endpoint: &Endpoint, facts: &WebhookFacts) -> Self {
        let needs =
            !matches!(facts.secret, SecretFrom::OAuthApp) && endpoint.secrets.is_empty() && !by_app(endpoint, facts);
        let subscribed = &endpoint.subscribed;
        let absent = match subscribed.standing {
            Some(Subscription::Forbidden) => true,
            Some(Subscription::Failing) => subscribed.known.is_empty(),
            Some(Subscription::Made | Subscription::Removed) | None => false,
        };
        if endpoint.gone_at.is_some() {
            Self::Gone
        } else if subscribed.receive && absent {
            Self::NotSubscribed
        } else if subscribed.receive && subscribed.standing != Some(Subscription::Made) && subscribed.known.is_empty() {
            Self::Subscribing
        } else if taken_away(endpoint) {
            Self::Off
        } else if needs {
            Self::NeedsSecret
        } else if endpoint.failures >= warn_at(app, facts) {
            Self::Failing
        } else if endpoint.accepted_at.is_none() {
            Self::Waiting
        } else {
            Self::Active
        }
    }

    /// Whether events arrive, or are about to.
    pub(crate) fn hears(self) -> bool {
        match self {
            Self::Active | Self::Subscribing | Self::Waiting | Self::Failing => true,
            Self::NotSubscribed | Self::Off | Self::NeedsSecret | Self::Gone => false,
        }
    }

    /// The stable word in the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Subscribing => "subscribing",
            Self::NotSubscribed => "not_subscribed",
            Self::Waiting => "waiting",
            Self::Off => "off",
            Self::NeedsSecret => "needs_secret",
            Self::Failing => "failing",
            Self::Gone => "gone",
        }
    }
}

/// What to do with an address.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    /// Which of the provider's ways; `None`: the first.
    pub(crate) kind: Option<String>,
    /// One that a person brings.
    pub(crate) secret: Option<SecretString>,
    /// Another one, made here.
    pub(crate) rotate: bool,
    /// Whether its provider's side is kept here from now on; `None`: as before.
    pub(crate) receive: Option<bool>,
}

/// What came of it.
pub(crate) struct Made {
    pub(crate) endpoint: Endpoint,
    /// One that was made here just now: it is shown this once.
    pub(crate) secret: Option<SecretString>,
    /// Whether the address is new.
    pub(crate) new: bool,
}

/// Why nothing was done.
#[derive(Debug)]
pub(crate) enum NotMade {
    /// The provider tells of nothing, or not in this way.
    NoSuchWay,
    /// What was brought is no secret, or none is wanted; why.
    BadSecret(&'static str),
    /// Its provider's side cannot be kept here; why.
    NotKept(&'static str),
    /// Something of ours.
    Store(StoreError),
}

impl From<StoreError> for NotMade {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Whether its provider, though it is kept here, sends to the address of the whole OAuth app: Gmail's push does.
pub(crate) fn by_app(endpoint: &Endpoint, facts: &WebhookFacts) -> bool {
    endpoint.subscribed.receive && facts.scope == Scope::App && facts.secret == SecretFrom::Sender
}

fn taken_away(endpoint: &Endpoint) -> bool {
    let subscribed = &endpoint.subscribed;
    !subscribed.receive
        && subscribed.standing == Some(Subscription::Removed)
        && endpoint.accepted_at.is_none_or(|accepted| subscribed.looked_at.is_some_and(|looked| accepted <= looked))
}

/// Whether a connector's provider tells of what happens there.
pub(crate) async fn hears(
    app: &App,
    org: &OrgId,
    connector: &ConnectorId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let endpoints = app.store.endpoints_of(org, connector, now).await?;
    let hears = |endpoint: &Endpoint| {
        adapter(app, endpoint).is_some_and(|way| Standing::of(app, endpoint, way.facts()).hears())
    };
    Ok(endpoints.iter().any(hears))
}

/// Whether what happens to its tickets is told here: by a webhook, or else by a sync.
pub(crate) async fn is_told(
    app: &App,
    org: &OrgId,
    provider: &str,
    connector: &ConnectorId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    if hears(app, org, connector, now).await? {
        return Ok(true);
    }
    let synced = sync::mirror(app, provider, connector).await?;
    Ok(synced.is_some_and(|mirror| mirror.fault.is_none()))
}

/// The adapter's part for an address.
pub(crate) fn adapter<'a>(app: &'a App, endpoint: &Endpoint) -> Option<&'a dyn Webhook> {
    way(app, &endpoint.provider, Some(&endpoint.kind))
}

/// One of a provider's ways; without a name, the first.
pub(crate) fn way<'a>(app: &'a App, provider: &str, kind: Option<&str>) -> Option<&'a dyn Webhook> {
    let ways = app.providers().find(provider)?.webhooks();
    ways.into_iter().find(|way| kind.is_none_or(|kind| way.facts().id == kind))
}

/// From how many in a row on people are warned: well before the provider gives up by itself (WR-08).
pub(crate) fn warn_at(app: &App, facts: &WebhookFacts) -> u64 {
    let own = facts.own_limit.map_or(u32::MAX, |limit| (limit.failures / 2).max(1));
    u64::from(app.config.webhooks.warn_after.min(own))
}

/// Whether the provider has met so many failures that it may have switched off by itself.
pub(crate) fn maybe_off(endpoint: &Endpoint, facts: &WebhookFacts) -> bool {
    facts.own_limit.is_some_and(|limit| endpoint.failures >= u64::from(limit.failures))
}

/// A delivery's body for people who may see it: masked, and no longer than a page shows.
pub(crate) fn shown_body(body: &[u8]) -> Value {
    match (serde_json::from_slice::<Value>(body), std::str::from_utf8(body)) {
        (Ok(value), _) => mask::record(&value),
        (Err(_), Ok(text)) => mask::record(&Value::from(mask::text(text))),
        // No text at all: its beginning, to be told from another.
        (Err(_), Err(_)) => json!({ "base64": BASE64_STANDARD.encode(&body[..body.len().min(512)]) }),
    }
}

/// The address as a provider has to know it.
pub(crate) fn address(app: &App, endpoint: &Endpoint) -> String {
    app.url(&format!("hooks/{}", endpoint.id))
}

/// Makes the address of a connector, gives it a secret, or lets it take deliveries again; whichever of these is to be done.
pub(crate) async fn wish(
    app: &App,
    org: &OrgId,
    connector: &ConnectorId,
    provider: &str,
    wish: &Wish,
    actor: &str,
) -> Result<Made, NotMade> {
    let way = way(app, provider, wish.kind.as_deref()).ok_or(NotMade::NoSuchWay)?;
    if wish.receive == Some(true) {
        if way.subscriptions().is_none() {
            return Err(NotMade::NotKept("A person has to set it up at the provider, as the steps say."));
        }
        if !subscriptions::is_kept(app, provider, way) {
            return Err(NotMade::NotKept("The provider does not reach this instance: its public_url is on loopback."));
        }
    }
    let owner = Owner::Connector(connector.clone());
    let mut made = grant(app, Some(org), &owner, provider, way.facts(), wish, actor).await?;
    let now = app.seams.clock.now();
    // Whatever was done may be what it waited for.
    let switched = match wish.receive {
        Some(receive) => app.store.set_receive(&made.endpoint, receive, actor, now).await? == Changed::Yes,
        None => false,
    };
    if !switched {
        app.store.look_soon(&made.endpoint, now).await?;
    }
    app.hooks.due.notify_one();
    if let Some(endpoint) = find(app, Some(org), &owner, way.facts().id, now).await? {
        made.endpoint = endpoint;
    }
    Ok(made)
}

/// The same of an OAuth app, whose address serves all of its connectors.
pub(crate) async fn wish_of_app(app: &App, name: &AppId, wish: &Wish, actor: &str) -> Result<Made, NotMade> {
    let facts = way(app, name.provider(), wish.kind.as_deref()).ok_or(NotMade::NoSuchWay)?.facts();
    grant(app, name.org(), &Owner::App(name.clone()), name.provider(), facts, wish, actor).await
}

async fn grant(
    app: &App,
    org: Option<&OrgId>,
    owner: &Owner,
    provider: &str,
    facts: &WebhookFacts,
    wish: &Wish,
    actor: &str,
) -> Result<Made, NotMade> {
    let now = app.seams.clock.now();
    let brought = wish.secret.as_ref().map(|secret| checked(facts, secret)).transpose()?;
    let makes = matches!(facts.secret, SecretFrom::Us | SecretFrom::Either);
    if wish.rotate && !makes {
        return Err(NotMade::BadSecret(
            "It is made at the provider: make a new one there, and bring it here as the secret.",
        ));
    }
    let made = (brought.is_none() && makes).then(|| new_secret(app));
    let first = brought.as_ref().or(made.as_ref());
    let new = NewEndpoint { org, owner, provider, kind: facts.id, secret: first, at: now, actor };
    let (endpoint, changed) = app.store.make_endpoint(&new).await?;
    let is_new = changed == Changed::Yes;
    let mut shown = made.filter(|_| is_new);
    if !is_new {
        app.store.enable_endpoint(&endpoint, actor, now).await?;
        // One that has none yet, or cannot open what it has, gets one whether it was asked for or not.
        let other = match brought {
            Some(secret) => Some(secret),
            None if makes && (wish.rotate || endpoint.secrets.is_empty()) => {
                let secret = new_secret(app);
                shown = Some(secret.clone());
                Some(secret)
            }
            None => None,
        };
        if let Some(secret) = other {
            let until = now + TimeDelta::from_std(app.config.webhooks.secret_overlap).unwrap_or_default();
            let until = (!endpoint.secrets.is_empty()).then_some(until);
            app.store.put_endpoint_secret(&endpoint, &secret, until, actor, now).await?;
        }
    }
    let found = find(app, org, owner, facts.id, now).await?;
    Ok(Made { endpoint: found.unwrap_or(endpoint), secret: shown, new: is_new })
}

async fn find(
    app: &App,
    org: Option<&OrgId>,
    owner: &Owner,
    kind: &str,
    now: DateTime<Utc>,
) -> Result<Option<Endpoint>, StoreError> {
    match (owner, org) {
        (Owner::Connector(connector), Some(org)) => {
            let all = app.store.endpoints_of(org, connector, now).await?;
            Ok(all.into_iter().find(|endpoint| endpoint.kind == kind))
        }
        (Owner::App(name), _) => app.store.endpoint_of_app(name, kind, now).await,
        (Owner::Connector(_), None) => Ok(None),
    }
}

fn checked(facts: &WebhookFacts, secret: &SecretString) -> Result<SecretString, NotMade> {
    let text = secret.expose_secret().trim();
    match facts.secret {
        SecretFrom::OAuthApp => {
            return Err(NotMade::BadSecret("None is brought here: it is the OAuth app's client secret."));
        }
        SecretFrom::Us => {
            return Err(NotMade::BadSecret("None is brought here: it is made here, and copied to the provider."));
        }
        SecretFrom::Sender if !text.contains('@') => {
            return Err(NotMade::BadSecret("The e-mail address of a service account is expected."));
        }
        SecretFrom::Sender | SecretFrom::Provider | SecretFrom::Either => {}
    }
    if !SECRET_CHARS.contains(&text.chars().count()) || text.chars().any(char::is_control) {
        return Err(NotMade::BadSecret("A secret has 8 to 512 characters, in one line."));
    }
    Ok(SecretString::from(text))
}

pub(super) fn new_secret(app: &App) -> SecretString {
    let mut random = [0; 32];
    app.seams.random.fill(&mut random);
    SecretString::from(hex(&random))
}
