//! The authenticated client that adapters call their service with: it adds the credential, falls back on a 401, waits
//! for rate limits, and lets no request leave the account's own API.

mod answered;
mod found;
mod path;
mod rate_wait;
mod request;

pub use answered::Answered;
pub use path::checked as checked_path;
pub use rate_wait::RateWait;
pub use request::{ApiRequest, Refused};

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, Method, header::AUTHORIZATION};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use url::Url;

use self::path::Closed;
use crate::{
    credential::{Secret, Snapshot},
    error::{Error, ErrorKind, Result, Retry},
    exchange::secret_header,
    id::ConnectorId,
    ports::Trigger,
    provider::{Account, ApiHeader, ApiKeyAuth, Auth, Base, Identity, OAuth2, Provider, Revoke},
    refresh::{AuthError, Engine, Need},
};

/// How long one request may take to its answer's head, and between two pieces of a body, unless it says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What a token has to live for at the moment of a request, unless it says otherwise.
const LEAST_LIFE: Duration = Duration::from_secs(5);

/// Calls one account's API as one connector. Cheap to clone.
#[derive(Clone)]
pub struct ApiClient(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    provider: Arc<dyn Provider>,
    account: Account,
    /// Its further places.
    bases: Vec<Base>,
    source: Source,
    /// It asks what its account's requests need, and cannot have that yet.
    asking: bool,
    room: Mutex<Option<RateRoom>>,
    /// Requests that may have changed something.
    effects: AtomicU32,
    /// The provider's OAuth paths below the account's own base.
    closed: OnceLock<Closed>,
}

/// Where the credential comes from.
#[derive(Clone)]
enum Source {
    /// The engine: always fresh, with the 401 fallback.
    Engine(ConnectorId),
    /// This very credential and no other: test calls, and identity before a grant is stored.
    Fixed(Secret),
}

/// The credential of one attempt, as it was at that moment.
enum Held<'a> {
    Current(Arc<Snapshot>),
    Fixed(&'a Secret),
}

impl Held<'_> {
    fn secret(&self) -> &Secret {
        match self {
            Self::Current(snapshot) => &snapshot.credential.secret,
            Self::Fixed(secret) => secret,
        }
    }
}

/// What is left of a rate limit, as the last answer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RateRoom {
    /// Requests per window.
    pub limit: u64,
    /// Left in this window.
    pub remaining: u64,
}

impl ApiClient {
    /// For a connector, through the engine. `None`: this instance has no adapter for its provider, or the adapter does
    /// not know the account any more.
    pub fn new(engine: &Arc<Engine>, snapshot: &Snapshot) -> Option<Self> {
        Self::build(engine, &snapshot.provider, &snapshot.account, Source::Engine(snapshot.connector.clone()))
    }

    /// With the snapshot's credential as it is.
    pub fn fixed(engine: &Arc<Engine>, snapshot: &Snapshot) -> Option<Self> {
        Self::with(engine, &snapshot.provider, &snapshot.account, snapshot.credential.secret.clone())
    }

    /// With a credential that is not stored (yet).
    pub fn with(engine: &Arc<Engine>, provider: &str, account: &str, secret: Secret) -> Option<Self> {
        Self::build(engine, provider, account, Source::Fixed(secret))
    }

    fn build(engine: &Arc<Engine>, provider: &str, account: &str, source: Source) -> Option<Self> {
        Self::build_as(engine, provider, account, source, false)
    }

    fn build_as(engine: &Arc<Engine>, provider: &str, account: &str, source: Source, asking: bool) -> Option<Self> {
        let provider = Arc::clone(engine.providers().find(provider)?);
        let account = provider.account(account).ok()?;
        let bases = provider.bases(&account);
        let engine = Arc::clone(engine);
        let (room, effects, closed) = (Mutex::default(), AtomicU32::new(0), OnceLock::new());
        Some(Self(Arc::new(Inner { engine, provider, account, bases, source, asking, room, effects, closed })))
    }

    /// The account that is called.
    pub fn account(&self) -> &Account {
        &self.0.account
    }

    /// Whether it calls what this snapshot's connector is tied to, so that it can be kept for the next call.
    pub fn is_for(&self, snapshot: &Snapshot) -> bool {
        matches!(&self.0.source, Source::Engine(connector) if *connector == snapshot.connector)
            && self.0.provider.about().id == snapshot.provider
            && self.0.account.id == snapshot.account
    }

    /// What people call the provider.
    pub fn provider_name(&self) -> &'static str {
        self.0.provider.about().name
    }

    /// The provider's cheapest proof of the credential.
    pub async fn identity(&self) -> Result<Identity> {
        self.0.provider.identity(self).await
    }

    /// What is left of the rate limit, as far as an answer has told.
    pub fn rate_room(&self) -> Option<RateRoom> {
        *self.0.room.lock().expect("no panic happens while it is held")
    }

    /// Waits for so long, as [`RateWait`] says: where a provider tells of its rate limit in an answer that calls itself a
    /// success, and the adapter repeats the request.
    pub async fn pause(&self, time: Duration) {
        self.0.engine.clock().sleep(time).await;
    }

    /// Whether anything that went out through this client may have changed something: a writing request was answered with
    /// anything but a refusal (4xx), or its answer did not come. What was only read, was refused, or was not sent changed
    /// nothing.
    pub fn may_have_changed(&self) -> bool {
        self.0.effects.load(Ordering::Relaxed) > 0
    }

    /// The last writing request was refused after all, in an answer that calls itself a success: GraphQL does so.
    pub fn was_refused(&self) {
        let fewer = |effects: u32| effects.checked_sub(1);
        let _none_before = self.0.effects.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    /// GET. `path` is relative to the account's API base and is a literal or built by [`segment`].
    pub fn get(&self, path: impl Into<String>) -> ApiRequest<'_> {
        self.request(Method::GET, path)
    }

    /// POST.
    pub fn post(&self, path: impl Into<String>) -> ApiRequest<'_> {
        self.request(Method::POST, path)
    }

    /// PUT.
    pub fn put(&self, path: impl Into<String>) -> ApiRequest<'_> {
        self.request(Method::PUT, path)
    }

    /// Any method.
    pub fn request(&self, method: Method, path: impl Into<String>) -> ApiRequest<'_> {
        ApiRequest::new(self, method, path.into())
    }

    /// A link that an answer gave, as a GET: only one of the account's own scheme, host and port is followed.
    pub fn follow(&self, operation: &'static str, link: &str) -> Result<ApiRequest<'_>> {
        let base = &self.0.account.base_url;
        let foreign = || self.error(operation, ErrorKind::Unreadable, "the answer links to another host");
        let url = Url::parse(link).map_err(|_| foreign())?;
        let inside =
            url.path().strip_prefix(base.path().trim_end_matches('/')).filter(|_| url.origin() == base.origin());
        let path = inside.ok_or_else(foreign)?.trim_start_matches('/');
        Ok(self.get(path).operation(operation).query_pairs(url.query_pairs().into_owned()))
    }

    /// An error in this provider's name.
    pub fn error(&self, operation: &'static str, kind: ErrorKind, message: impl Into<String>) -> Error {
        let retry = match kind {
            ErrorKind::Busy | ErrorKind::Unavailable => Retry::Backoff,
            _ => Retry::Never,
        };
        let provider = self.0.provider.about().id;
        Error { kind, retry, provider, operation, message: message.into(), source: None }
    }

    async fn credential(&self, operation: &'static str, need: &Need) -> Result<Held<'_>> {
        match &self.0.source {
            Source::Fixed(secret) => Ok(Held::Fixed(secret)),
            Source::Engine(connector) => {
                let trigger = if matches!(need, Need::Not(_)) { Trigger::Rejected } else { Trigger::Caller };
                let snapshot = self.0.engine.fresh(connector, need, trigger).await;
                let snapshot = snapshot.map_err(|error| self.auth_error(operation, error))?;
                self.complete(snapshot).await.map(Held::Current)
            }
        }
    }

    /// The further place of this name.
    fn place(&self, name: &str) -> Option<&Base> {
        self.0.bases.iter().find(|base| base.name == name)
    }

    /// Where the API of this credential lives.
    fn base<'a>(&'a self, secret: &'a Secret) -> &'a Url {
        let own = secret.tokens().and_then(|tokens| tokens.base_url.as_ref());
        own.unwrap_or(&self.0.account.base_url)
    }

    /// Whether a path (decoded) below this base is one of the provider's for OAuth.
    fn is_closed(&self, base: &Url, decoded: &str) -> bool {
        let of = |base: &Url| {
            let facts = self.0.provider.auth(&self.0.account);
            let urls = match &facts {
                Auth::OAuth2(facts) => oauth_urls(facts),
                Auth::ApiKey(_) => Vec::new(),
            };
            Closed::new(base, &urls, self.0.provider.oauth_paths())
        };
        if *base == self.0.account.base_url {
            self.0.closed.get_or_init(|| of(base)).covers(decoded)
        } else {
            of(base).covers(decoded)
        }
    }

    fn auth_error(&self, operation: &'static str, error: AuthError) -> Error {
        let kind = match &error {
            AuthError::NotFound => ErrorKind::NotFound,
            AuthError::Pending | AuthError::Disconnected | AuthError::AuthFailed { .. } => ErrorKind::AuthFailed,
            AuthError::StillGood => ErrorKind::Forbidden,
            AuthError::AppRejected { .. } | AuthError::Unreadable | AuthError::Unavailable { .. } => {
                ErrorKind::Unavailable
            }
        };
        let mut out = self.error(operation, kind, error.to_string());
        if let AuthError::AppRejected { retry_after, .. } | AuthError::Unavailable { retry_after, .. } = &error {
            out.retry = Retry::After(*retry_after);
        }
        out.source = Some(Box::new(error));
        out
    }

    fn authenticate(&self, operation: &'static str, headers: &mut HeaderMap, secret: &Secret) -> Result<()> {
        let failed = |words| self.error(operation, ErrorKind::AuthFailed, words);
        let (name, value) = credential_header(self.0.provider.as_ref(), &self.0.account, secret)
            .ok_or_else(|| failed("there is no usable credential"))?;
        let value = secret_header(value.expose_secret());
        headers.insert(name, value.ok_or_else(|| failed("the key holds characters that no header may hold"))?);
        Ok(())
    }

    /// The provider's own headers.
    fn add_headers(&self, headers: &mut HeaderMap, secret: &Secret) {
        let nothing = BTreeMap::new();
        let found = secret.tokens().map_or(&nothing, |tokens| &tokens.found);
        for ApiHeader { name, value, ours } in self.0.provider.headers(&self.0.account, found) {
            if ours || !headers.contains_key(&name) {
                headers.insert(name, value);
            }
        }
    }

    fn note_room(&self, headers: &HeaderMap) {
        let number = |names: &[&str]| {
            names.iter().find_map(|name| headers.get(*name)?.to_str().ok()?.trim().parse::<u64>().ok())
        };
        let limit = number(&["ratelimit-limit", "x-rate-limit", "x-ratelimit-limit", "x-ratelimit-total"]);
        let remaining = number(&["ratelimit-remaining", "x-rate-limit-remaining", "x-ratelimit-remaining"]);
        let room = limit.zip(remaining).map(|(limit, remaining)| RateRoom { limit, remaining });
        if let Some(room) = room.or_else(|| used_of_all(headers)) {
            *self.0.room.lock().expect("no panic happens while it is held") = Some(room);
        }
    }
}

/// The header that carries a credential to this account, and its value. `None`: there is no credential.
///
/// # Panics
/// Where an adapter names a header that is none.
pub fn credential_header(
    provider: &dyn Provider,
    account: &Account,
    secret: &Secret,
) -> Option<(HeaderName, SecretString)> {
    let bearer = |token: &SecretString| (AUTHORIZATION, format!("Bearer {}", token.expose_secret()).into());
    let basic = |pair: &str| (AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)).into());
    let token = |token: &SecretString| match provider.token_header() {
        Some(name) => (name, token.clone()),
        None => bearer(token),
    };
    Some(match secret {
        Secret::Tokens(tokens) => token(&tokens.access_token),
        Secret::ApiKey(key) => match provider.key_auth(account) {
            Some(ApiKeyAuth::Basic { password }) => basic(&format!("{}:{password}", key.expose_secret())),
            Some(ApiKeyAuth::Pair { .. }) => basic(key.expose_secret()),
            Some(ApiKeyAuth::Header(name)) => {
                (HeaderName::try_from(name).expect("the adapter names a valid header"), key.clone())
            }
            Some(ApiKeyAuth::Bearer) => bearer(key),
            None => token(key),
        },
        Secret::Absent | Secret::Unreadable => return None,
    })
}

/// What is left where one header tells what is used of all, `10/80`: Gorgias's leaky bucket.
/// <https://developers.gorgias.com/reference/limitations>
fn used_of_all(headers: &HeaderMap) -> Option<RateRoom> {
    let (used, limit) = headers.get("x-gorgias-account-api-call-limit")?.to_str().ok()?.split_once('/')?;
    let (used, limit) = (used.trim().parse::<u64>().ok()?, limit.trim().parse::<u64>().ok()?);
    Some(RateRoom { limit, remaining: limit.saturating_sub(used) })
}

/// One segment of a path, percent-encoded, so that an id can never become two segments.
pub fn segment(text: &str) -> String {
    path::encode_segment(text)
}

fn oauth_urls(facts: &OAuth2) -> Vec<&Url> {
    let revoke = facts.revoke.as_ref().map(|revoke| match revoke {
        Revoke::Bearer { url, .. } | Revoke::Rfc7009 { url } | Revoke::Form { url } => url,
    });
    [&facts.authorize_url, &facts.token_url].into_iter().chain(revoke).collect()
}
