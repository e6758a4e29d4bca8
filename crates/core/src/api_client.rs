//! The authenticated client that adapters call their service with: it adds the credential, falls back on a 401, waits
//! for rate limits, and lets no request leave the account's own API.

mod path;

pub use path::checked as checked_path;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use crate::{
    credential::{Fingerprint, Secret, Snapshot},
    error::{Error, ErrorKind, Result, Retry},
    exchange::{retry_after, secret_header},
    id::ConnectorId,
    ports::{Body, HttpRequest, HttpResponse, Sent, Trigger},
    provider::{Account, ApiAnswer, ApiKeyAuth, Auth, Identity, Provider},
    refresh::{AuthError, Engine, Need},
};

/// An API answer that is read into memory may be this long.
const LONGEST_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A provider that says "at once" is still given a moment: else its 429s would be answered with a storm.
const LEAST_RATE_WAIT: Duration = Duration::from_secs(1);
/// How long a call waits for rate limits, in all, before it answers "busy".
const LONGEST_RATE_WAIT: Duration = Duration::from_secs(20);

/// Calls one account's API as one connector. Cheap to clone.
#[derive(Clone)]
pub struct ApiClient(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    provider: Arc<dyn Provider>,
    account: Account,
    source: Source,
    room: Mutex<Option<RateRoom>>,
}

/// Where the credential comes from.
enum Source {
    /// The engine: always fresh, with the 401 fallback.
    Engine(ConnectorId),
    /// This very credential and no other: test calls, and identity before a grant is stored.
    Fixed(Secret),
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
        let provider = Arc::clone(engine.providers().find(provider)?);
        let account = provider.account(account).ok()?;
        let engine = Arc::clone(engine);
        Some(Self(Arc::new(Inner { engine, provider, account, source, room: Mutex::new(None) })))
    }

    /// The account that is called.
    pub fn account(&self) -> &Account {
        &self.0.account
    }

    /// The provider's cheapest proof of the credential.
    pub async fn identity(&self) -> Result<Identity> {
        self.0.provider.identity(self).await
    }

    /// What is left of the rate limit, as far as an answer has told.
    pub fn rate_room(&self) -> Option<RateRoom> {
        *self.0.room.lock().expect("no panic happens while it is held")
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
        ApiRequest {
            api: self,
            operation: "",
            method,
            path: path.into(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Body::empty(),
            within: None,
        }
    }

    /// A link that an answer gave, as a GET: only one of the account's own scheme, host and port is followed.
    pub fn follow(&self, operation: &'static str, link: &str) -> Result<ApiRequest<'_>> {
        let base = &self.0.account.base_url;
        let foreign = || self.error(operation, ErrorKind::Unreadable, "the answer links to another host");
        let url = Url::parse(link).map_err(|_| foreign())?;
        let inside =
            url.path().strip_prefix(base.path().trim_end_matches('/')).filter(|_| url.origin() == base.origin());
        let mut request = self.get(inside.ok_or_else(foreign)?.trim_start_matches('/'));
        request.query = url.query_pairs().into_owned().collect();
        request.operation = operation;
        Ok(request)
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

    async fn credential(&self, operation: &'static str, need: &Need) -> Result<(Secret, Url)> {
        let base = |secret: &Secret| {
            let own = secret.tokens().and_then(|tokens| tokens.base_url.clone());
            own.unwrap_or_else(|| self.0.account.base_url.clone())
        };
        match &self.0.source {
            Source::Fixed(secret) => Ok((secret.clone(), base(secret))),
            Source::Engine(connector) => {
                let trigger = if matches!(need, Need::Not(_)) { Trigger::Rejected } else { Trigger::Caller };
                let snapshot = self.0.engine.fresh(connector, need, trigger).await;
                let secret = snapshot.map_err(|error| self.auth_error(operation, error))?.credential.secret.clone();
                let base = base(&secret);
                Ok((secret, base))
            }
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
        let value = |text: String| {
            secret_header(&text).ok_or_else(|| {
                self.error(operation, ErrorKind::AuthFailed, "the key holds characters that no header may hold")
            })
        };
        let bearer = |token: &SecretString| value(format!("Bearer {}", token.expose_secret()));
        match (secret, self.0.provider.auth(&self.0.account)) {
            (Secret::Tokens(tokens), _) => headers.insert(AUTHORIZATION, bearer(&tokens.access_token)?),
            (Secret::ApiKey(key), Auth::ApiKey(ApiKeyAuth::Basic { password })) => {
                let pair = STANDARD.encode(format!("{}:{password}", key.expose_secret()));
                headers.insert(AUTHORIZATION, value(format!("Basic {pair}"))?)
            }
            (Secret::ApiKey(key), Auth::ApiKey(ApiKeyAuth::Header(name))) => {
                let name = HeaderName::try_from(name).expect("the adapter names a valid header");
                headers.insert(name, value(key.expose_secret().to_owned())?)
            }
            (Secret::ApiKey(key), Auth::OAuth2(_)) => headers.insert(AUTHORIZATION, bearer(key)?),
            (Secret::Absent | Secret::Unreadable, _) => {
                return Err(self.error(operation, ErrorKind::AuthFailed, "there is no usable credential"));
            }
        };
        Ok(())
    }

    fn note_room(&self, headers: &HeaderMap) {
        let number = |names: [&str; 3]| {
            names.iter().find_map(|name| headers.get(*name)?.to_str().ok()?.trim().parse::<u64>().ok())
        };
        let limit = number(["ratelimit-limit", "x-rate-limit", "x-ratelimit-limit"]);
        let remaining = number(["ratelimit-remaining", "x-rate-limit-remaining", "x-ratelimit-remaining"]);
        if let (Some(limit), Some(remaining)) = (limit, remaining) {
            *self.0.room.lock().expect("no panic happens while it is held") = Some(RateRoom { limit, remaining });
        }
    }
}

/// One segment of a path, percent-encoded, so that an id can never become two segments.
pub fn segment(text: &str) -> String {
    path::encode_segment(text)
}

/// A request that is being put together.
pub struct ApiRequest<'a> {
    api: &'a ApiClient,
    operation: &'static str,
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Body,
    within: Option<String>,
}

impl ApiRequest<'_> {
    /// What this is, in errors: `get_ticket`.
    #[must_use]
    pub fn operation(mut self, operation: &'static str) -> Self {
        self.operation = operation;
        self
    }

    /// Adds to the query.
    #[must_use]
    pub fn query(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.query.push((name.to_owned(), value.to_string()));
        self
    }

    /// Sets a header. Names of credentials (`Authorization`, `Cookie`, `Host`) are not to be set.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// A JSON body.
    #[must_use]
    pub fn json(mut self, body: &Value) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.body = Body::Bytes(Bytes::from(body.to_string()));
        self
    }

    /// Any body.
    #[must_use]
    pub fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    /// Refuses a path outside of this prefix, decided on the decoded path.
    #[must_use]
    pub fn within(mut self, prefix: impl Into<String>) -> Self {
        self.within = Some(prefix.into());
        self
    }

    /// Sends it and reads a JSON answer. Anything but a success becomes an [`Error`] in the provider's own words.
    pub async fn fetch<T: DeserializeOwned>(self) -> Result<T> {
        let (api, operation) = (self.api.clone(), self.operation);
        let bytes = self.send().await?;
        serde_json::from_slice(&bytes).map_err(|error| Error {
            source: Some(Box::new(error)),
            ..api.error(operation, ErrorKind::Unreadable, "the answer is not what its documentation says")
        })
    }

    /// Sends it and reads the answer's bytes.
    pub async fn send(self) -> Result<Bytes> {
        let (api, operation) = (self.api.clone(), self.operation);
        let response = self.raw().await?;
        let (status, headers) = (response.status, response.headers.clone());
        let body = response.bytes(LONGEST_ANSWER_BYTES).await.map_err(|failure| Error {
            source: Some(Box::new(failure)),
            ..api.error(operation, ErrorKind::Unavailable, "the answer broke off")
        })?;
        if status.is_success() {
            return Ok(body);
        }
        let answer = ApiAnswer {
            status: status.as_u16(),
            body: serde_json::from_slice(&body).ok(),
            retry_after: retry_after(&headers, api.0.engine.now()),
        };
        Err(api.0.provider.api_error(operation, &answer))
    }

    /// Sends it and hands over whatever the provider answers, redirects included; they are never followed.
    ///
    /// A 401 leads to one retry with another token. A body that can be sent only once is not sent again: the token is
    /// renewed and the caller is told to send again. A 429 is waited for as told, up to 20 s in all.
    pub async fn raw(mut self) -> Result<HttpResponse> {
        let api = self.api.clone();
        let operation = self.operation;
        let path = path::checked(&self.path, self.within.as_deref())
            .map_err(|message| api.error(operation, ErrorKind::Invalid, message))?;
        let mut need = Need::ValidFor(Duration::from_secs(5));
        let mut waited = Duration::ZERO;
        loop {
            let (secret, base) = api.credential(operation, &need).await?;
            let url = path::url(&base, &path, &self.query);
            let mut headers = self.headers.clone();
            headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
            api.authenticate(operation, &mut headers, &secret)?;
            let again = match &self.body {
                Body::Bytes(bytes) => Some(bytes.clone()),
                Body::Once(_) => None,
            };
            let body = match std::mem::replace(&mut self.body, Body::empty()) {
                Body::Once(stream) => Body::Once(stream),
                Body::Bytes(bytes) => {
                    self.body = Body::Bytes(bytes.clone());
                    Body::Bytes(bytes)
                }
            };
            let request = HttpRequest { method: self.method.clone(), url, headers, body, timeout: TIMEOUT };
            let response = api.0.engine.http().send(request).await.map_err(|failure| {
                let words = match failure.sent {
                    Sent::No => "could not be reached",
                    Sent::Maybe => "did not answer; whether the call had an effect is unknown",
                };
                Error { source: Some(Box::new(failure)), ..api.error(operation, ErrorKind::Unavailable, words) }
            })?;
            api.note_room(&response.headers);
            match response.status {
                StatusCode::UNAUTHORIZED if matches!(api.0.source, Source::Engine(_)) => {
                    let Some(rejected) = secret.bearer().map(Fingerprint::of) else { return Ok(response) };
                    if matches!(need, Need::Not(_)) {
                        // The retry was refused as well: whether the token is dead is for the test call to say.
                        return match api.credential(operation, &Need::Not(rejected)).await {
                            Err(error) if error.kind != ErrorKind::Forbidden => Err(error),
                            _ => Ok(response),
                        };
                    }
                    need = Need::Not(rejected);
                    if again.is_none() {
                        let renewed = api.credential(operation, &need).await;
                        return Err(match renewed {
                            Ok(_) => api.error(
                                operation,
                                ErrorKind::Unavailable,
                                "the token was renewed, but this body can be sent only once: send the request again",
                            ),
                            Err(error) => error,
                        });
                    }
                    match api.credential(operation, &need).await {
                        Err(error) if error.kind == ErrorKind::Forbidden => return Ok(response),
                        Err(error) => return Err(error),
                        Ok(_) => {}
                    }
                }
                StatusCode::TOO_MANY_REQUESTS if again.is_some() => {
                    let told =
                        retry_after(&response.headers, api.0.engine.now()).unwrap_or_default().max(LEAST_RATE_WAIT);
                    if waited + told > LONGEST_RATE_WAIT {
                        return Ok(response);
                    }
                    waited += told;
                    api.0.engine.clock().sleep(told).await;
                }
                _ => return Ok(response),
            }
        }
    }
}
