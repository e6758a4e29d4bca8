//! One request to an account's API: how it is put together, sent, and sent again.

use std::{sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::{Answered, ApiClient, LEAST_LIFE, RateWait, Source, TIMEOUT, path};
use crate::{
    credential::{Fingerprint, Secret},
    error::{Error, ErrorKind, Result, Retry},
    exchange::retry_after,
    ports::{Body, HttpRequest, HttpResponse, Sent},
    provider::Inspected,
    refresh::Need,
    wire,
};

/// An API answer that is read into memory may be this long.
const LONGEST_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// What a caller may have to tell apart beside an error's kind; it stands as the error's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The path leads out of where it may lead. Nothing was sent.
    #[error("the path is refused")]
    Path,
    /// The path is one of the provider's for OAuth. Nothing was sent.
    #[error("the path is one of the provider's for OAuth")]
    OAuthPath,
    /// The path may be called, but not with this. Nothing was sent.
    #[error("what is asked for there is closed")]
    Closed,
    /// The token was rejected and is renewed, but the body could be sent only once. The request had no effect.
    #[error("the body could be sent only once")]
    SendAgain,
    /// The credential is refused in an answer that calls itself a success: 200 with `"ok": false`.
    #[error("the credential is refused in an answer that calls itself a success")]
    InASuccess,
}

/// A request that is being put together.
pub struct ApiRequest<'a> {
    api: &'a ApiClient,
    operation: &'static str,
    method: Method,
    place: Option<&'static str>,
    /// Below the account's own base, whatever the credential names.
    at_home: bool,
    path: String,
    query: Query,
    headers: HeaderMap,
    body: Body,
    within: Option<String>,
    timeout: Duration,
    least_life: Duration,
    reads: bool,
}

enum Query {
    /// An adapter's own, to be encoded.
    Pairs(Vec<(String, String)>),
    /// Of a request that is passed through.
    AsWritten(Option<String>),
}

/// A checked path, below the base that it is for.
struct Target {
    /// Byte for byte, where that is not the request's whole path.
    written: Option<String>,
    /// Its encoding unchanged.
    given: String,
    /// Decoded until nothing changes any more.
    decoded: String,
}

impl<'a> ApiRequest<'a> {
    pub(super) fn new(api: &'a ApiClient, method: Method, path: String) -> Self {
        Self {
            api,
            operation: "",
            reads: method.is_safe(),
            method,
            place: None,
            at_home: false,
            path,
            query: Query::Pairs(Vec::new()),
            headers: HeaderMap::new(),
            body: Body::empty(),
            within: None,
            timeout: TIMEOUT,
            least_life: LEAST_LIFE,
        }
    }

    /// What this is, in errors: `get_ticket`.
    #[must_use]
    pub fn operation(mut self, operation: &'static str) -> Self {
        self.operation = operation;
        self
    }

    /// Sends it to that further place of the account's API, one of [`Provider::bases`](crate::Provider::bases).
    #[must_use]
    pub fn at(mut self, place: &'static str) -> Self {
        self.place = Some(place);
        self
    }

    /// Sends it to the account's own base, also where the credential names another one.
    #[must_use]
    pub fn at_home(mut self) -> Self {
        self.at_home = true;
        self
    }

    /// Adds to the query.
    #[must_use]
    pub fn query(self, name: &str, value: impl std::fmt::Display) -> Self {
        self.query_pairs(std::iter::once((name.to_owned(), value.to_string())))
    }

    pub(super) fn query_pairs(mut self, more: impl Iterator<Item = (String, String)>) -> Self {
        match &mut self.query {
            Query::Pairs(pairs) => pairs.extend(more),
            Query::AsWritten(_) => self.query = Query::Pairs(more.collect()),
        }
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

    /// Passes somebody else's request through: path and query go out byte for byte as given, with these headers and the
    /// credential's and no other, and the answer's body comes back as it was sent, compressed or not. The provider's
    /// paths for OAuth are refused, decided on the decoded path. A path whose first segment names a further place of the
    /// account's API goes there, without that segment.
    #[must_use]
    pub fn pass_through(mut self, query: Option<&str>, headers: HeaderMap) -> Self {
        self.query = Query::AsWritten(query.map(str::to_owned));
        self.headers = headers;
        self
    }

    /// Says that it changes nothing, where its method does not: a query that goes out as a POST.
    #[must_use]
    pub fn reading(mut self) -> Self {
        self.reads = true;
        self
    }

    /// How long it may take to the answer's head, and between two pieces of a body. 30 s unless told.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What the token has to live for when the request is sent; as always, clamped to half of its life. 5 s unless told.
    #[must_use]
    pub fn least_life(mut self, least_life: Duration) -> Self {
        self.least_life = least_life;
        self
    }

    /// Sends it and reads a JSON answer. Anything but a success becomes an [`Error`] in the provider's own words.
    pub async fn fetch<T: DeserializeOwned>(self) -> Result<T> {
        let (api, operation) = (self.api.clone(), self.operation);
        let bytes = self.send().await?;
        wire::read(&api, operation, &bytes)
    }

    /// Sends it and reads the answer's bytes.
    pub async fn send(self) -> Result<Bytes> {
        let (api, operation) = (self.api.clone(), self.operation);
        let answered = self.read().await?;
        if answered.status.is_success() {
            return Ok(answered.body);
        }
        Err(api.0.provider.api_error(operation, &answered.to_api_answer()))
    }

    /// Sends it and reads whatever is answered to its end, a refusal too: for what stands in headers, and for providers
    /// whose refusals differ by more than status and JSON.
    pub async fn read(self) -> Result<Answered> {
        let (api, operation) = (self.api.clone(), self.operation);
        let response = self.raw().await?;
        let (status, headers) = (response.status, response.headers.clone());
        let body = response.bytes(LONGEST_ANSWER_BYTES).await.map_err(|failure| Error {
            source: Some(Box::new(failure)),
            ..api.error(operation, ErrorKind::Unavailable, "the answer broke off")
        })?;
        let retry_after = retry_after(&headers, api.0.engine.now());
        Ok(Answered { status, headers, body, retry_after })
    }

    /// Sends it and hands over whatever the provider answers, redirects included; they are never followed.
    ///
    /// A 401 leads to one retry with another token. A body that can be sent only once is not sent again: the token is
    /// renewed and the caller is told to send again. A 429 is waited for as told, up to 20 s in all, if the body can be
    /// sent again.
    pub async fn raw(mut self) -> Result<HttpResponse> {
        let (api, operation) = (self.api, self.operation);
        let body = std::mem::replace(&mut self.body, Body::empty());
        let path = path::check(&self.path, self.within.as_deref())
            .map_err(|message| self.refused(ErrorKind::Invalid, Refused::Path, message))?;
        let (place, path) = self.placed(path)?;
        self.guard(place.unwrap_or(&api.0.account.base_url), &path.decoded)?;
        self.inspect(&path.decoded, &body)?;
        let (again, mut once) = match body {
            Body::Bytes(bytes) => (Some(bytes), None),
            stream @ Body::Once(_) => (None, Some(stream)),
        };
        let mut need = Need::ValidFor(self.least_life);
        let mut wait = RateWait::default();
        loop {
            let held = api.credential(operation, &need).await?;
            let secret = held.secret();
            let body = again.clone().map(Body::Bytes).or_else(|| once.take());
            let home = self.at_home.then_some(&api.0.account.base_url);
            let base = place.or(home).unwrap_or_else(|| api.base(secret));
            if place.is_none() && base != &api.0.account.base_url {
                self.guard(base, &path.decoded)?;
            }
            let request = self.addressed(base, &path, secret, body.expect("a stream is never sent twice"))?;
            let sent = api.0.engine.http().send(request).await;
            if let Source::Engine(connector) = &api.0.source {
                let fine = sent.as_ref().is_ok_and(|response| response.status.as_u16() < 400);
                api.0.engine.meter().called(connector, fine);
            }
            let may_change = match &sent {
                Ok(response) => !response.status.is_client_error(),
                Err(failure) => failure.sent == Sent::Maybe,
            };
            if may_change && !self.reads {
                api.0.effects.fetch_add(1, Ordering::Relaxed);
            }
            let response = sent.map_err(|failure| {
                let words = match failure.sent {
                    Sent::No => "could not be reached",
                    Sent::Maybe if self.reads => "did not answer",
                    Sent::Maybe => "did not answer; whether the call had an effect is unknown",
                };
                Error { source: Some(Box::new(failure)), ..api.error(operation, ErrorKind::Unavailable, words) }
            })?;
            api.note_room(&response.headers);
            match response.status {
                StatusCode::UNAUTHORIZED if matches!(api.0.source, Source::Engine(_)) => {
                    let Some(rejected) = secret.bearer().map(Fingerprint::of) else { return Ok(response) };
                    let retried = matches!(need, Need::Not(_));
                    need = Need::Not(rejected);
                    match api.credential(operation, &need).await {
                        // The provider's own test call accepts the token: this 401 means "not allowed".
                        Err(error) if error.kind == ErrorKind::Forbidden => return Ok(response),
                        Err(error) => return Err(error),
                        // The retry was refused as well, and its token may have died meanwhile: no third attempt.
                        Ok(_) if retried => return Ok(response),
                        Ok(_) if again.is_none() => return Err(self.send_again()),
                        Ok(_) => {}
                    }
                }
                StatusCode::TOO_MANY_REQUESTS if again.is_some() => {
                    let told = retry_after(&response.headers, api.0.engine.now()).unwrap_or_default();
                    let Some(now) = wait.next(told) else { return Ok(response) };
                    drop(response);
                    api.pause(now).await;
                }
                _ => return Ok(response),
            }
        }
    }

    /// Where a checked path leads: to one of the account's further places, or (`None`) to its base.
    fn placed(&self, checked: path::Checked<'_>) -> Result<(Option<&'a Url>, Target)> {
        let api: &'a ApiClient = self.api;
        let refused = |message| Err(self.refused(ErrorKind::Invalid, Refused::Path, message));
        let whole = Target { written: None, given: checked.given.to_owned(), decoded: checked.decoded };
        if let Some(name) = self.place {
            return match api.place(name) {
                Some(base) => Ok((Some(&base.url), whole)),
                None => refused(format!("the account has no API that is called {name}")),
            };
        }
        if !matches!(self.query, Query::AsWritten(_)) {
            return Ok((None, whole));
        }
        let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
        let Some(base) = api.place(&first(&whole.decoded)) else { return Ok((None, whole)) };
        // Decided on what a lenient server would read, and sent only where that is what is written.
        if first(&self.path) != base.name {
            return refused(format!("write {} as the plain beginning of the path", base.name));
        }
        let rest = |path: &str| path[base.name.len()..].strip_prefix('/').unwrap_or_default().to_owned();
        let target =
            Target { written: Some(rest(&self.path)), given: rest(&whole.given), decoded: rest(&whole.decoded) };
        Ok((Some(&base.url), target))
    }

    /// The request with this credential, at its account.
    fn addressed(&self, base: &Url, path: &Target, secret: &Secret, body: Body) -> Result<HttpRequest> {
        let mut headers = self.headers.clone();
        let (url, exact) = match &self.query {
            Query::AsWritten(query) => {
                let written = path.written.as_deref().unwrap_or(&self.path);
                let exact = path::exact(base, written, query.as_deref())
                    .map_err(|message| self.refused(ErrorKind::Invalid, Refused::Path, message))?;
                (base.clone(), Some(exact))
            }
            Query::Pairs(pairs) => {
                headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
                (path::url(base, &path.given, pairs), None)
            }
        };
        self.api.add_headers(&mut headers, secret);
        self.api.authenticate(self.operation, &mut headers, secret)?;
        Ok(HttpRequest { method: self.method.clone(), url, exact, headers, body, timeout: self.timeout })
    }

    /// Refuses the provider's paths for OAuth to a request that is passed through.
    fn guard(&self, base: &Url, decoded: &str) -> Result<()> {
        if matches!(self.query, Query::AsWritten(_)) && self.api.is_closed(base, decoded) {
            let message = "the provider's paths for OAuth are closed: its tokens are Holdfast's to keep";
            return Err(self.refused(ErrorKind::Forbidden, Refused::OAuthPath, message));
        }
        Ok(())
    }

    /// Has the adapter look at a request that is passed through, where it wants to.
    fn inspect(&self, decoded: &str, body: &Body) -> Result<()> {
        let Query::AsWritten(query) = &self.query else { return Ok(()) };
        let Some(inspect) = self.api.0.provider.inspects(decoded) else { return Ok(()) };
        let inspected = match body {
            Body::Bytes(body) => {
                let mut types = self.headers.get_all(CONTENT_TYPE).iter();
                let content_type = types.next().filter(|_| types.next().is_none()).and_then(|one| one.to_str().ok());
                let encoded = self.headers.contains_key(CONTENT_ENCODING);
                inspect(&Inspected { query: query.as_deref(), content_type, encoded, body })
            }
            Body::Once(_) => {
                Err("a body for this path has to say its length, and to be no longer than a request may be \
                                  that can be sent again")
            }
        };
        inspected.map_err(|message| self.refused(ErrorKind::Forbidden, Refused::Closed, message))
    }

    fn send_again(&self) -> Error {
        let message = "the token was renewed, but this body can be sent only once: send the request again";
        let error = self.refused(ErrorKind::Unavailable, Refused::SendAgain, message);
        Error { retry: Retry::After(Duration::ZERO), ..error }
    }

    fn refused(&self, kind: ErrorKind, why: Refused, message: impl Into<String>) -> Error {
        Error { source: Some(Box::new(why)), ..self.api.error(self.operation, kind, message) }
    }
}
