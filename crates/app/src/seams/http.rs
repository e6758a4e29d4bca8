//! HTTP to providers, and the one question that matters when it fails: may the provider have seen the request?

use std::{error::Error, time::Duration};

use anyhow::Context;
use async_trait::async_trait;
use futures::stream;
use holdfast_core::ports::{Body, ByteStream, Http, HttpFailure, HttpRequest, HttpResponse};
use http::Method;
use reqwest::{Client, ClientBuilder, Response, redirect, retry};
use tokio::time::timeout;
use url::Url;

use super::guard::{Guard, GuardedResolver, Way};

/// How long an unused connection is kept; below what servers and balancers usually grant (60 seconds and more).
const IDLE: Duration = Duration::from_secs(20);

/// The real client: guarded against private addresses, no redirects, no proxy, no retries.
///
/// A request that must not be repeated gets a connection of its own. On one from the pool, the server may be hanging up
/// at the very moment of the send, and then nobody can tell whether it saw the request: for a token exchange that is
/// the difference between "try again" and "the rotated token may be lost". It costs a handshake (an abbreviated one, by
/// TLS resumption) per such request. Repeatable requests share pooled connections.
pub struct GuardedHttp {
    guard: Guard,
    guarded: Clients,
    /// For hosts that the operator excepted by name.
    open: Option<Clients>,
}

struct Clients {
    pooled: Client,
    single: Client,
}

impl Clients {
    fn new(connect_timeout: Duration, rule: impl Fn(ClientBuilder) -> ClientBuilder) -> anyhow::Result<Self> {
        // There is no time-out for the whole: each request brings its own, and bodies may stream for long.
        let builder = || {
            rule(Client::builder())
                .user_agent(concat!("holdfast/", env!("CARGO_PKG_VERSION")))
                .redirect(redirect::Policy::none())
                .referer(false)
                // A proxy would resolve names by itself, behind the guard's back.
                .no_proxy()
                // The default repeats requests that the server refused on the protocol's level. The core alone decides
                // what is repeated. What stays (hyper's own) is taking another pooled connection when one turned out
                // dead before a byte of the request was written.
                .retry(retry::never())
                .connect_timeout(connect_timeout)
                .pool_idle_timeout(IDLE)
        };
        Ok(Self { pooled: builder().build()?, single: builder().pool_max_idle_per_host(0).build()? })
    }

    fn of(&self, method: &Method) -> &Client {
        if method.is_idempotent() { &self.pooled } else { &self.single }
    }
}

impl GuardedHttp {
    /// A client; `connect_timeout` covers DNS, TCP and TLS, and should be well below the time-outs of requests: once a
    /// request's own time-out has struck, it is not known any more how far it came.
    pub fn new(guard: Guard, connect_timeout: Duration) -> anyhow::Result<Self> {
        super::install_tls();
        let guarded = |builder: ClientBuilder| builder.dns_resolver(GuardedResolver(guard.clone()));
        let guarded = Clients::new(connect_timeout, guarded).context("cannot make the HTTP client")?;
        let open = if guard.has_open_ways() { Some(Clients::new(connect_timeout, |builder| builder)?) } else { None };
        Ok(Self { guard, guarded, open })
    }
}

#[async_trait]
impl Http for GuardedHttp {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpFailure> {
        let way = self.guard.admit(&request.url).map_err(HttpFailure::before_send)?;
        let clients = match (way, &self.open) {
            (Way::Open, Some(open)) => open,
            _ => &self.guarded,
        };
        let host = name(&request.url);
        let client = clients.of(&request.method);
        let limit = request.timeout;
        let mut outgoing = reqwest::Request::new(request.method, request.url);
        *outgoing.headers_mut() = request.headers;
        *outgoing.body_mut() = match request.body {
            Body::Bytes(bytes) if bytes.is_empty() => None,
            Body::Bytes(bytes) => Some(bytes.into()),
            Body::Once(stream) => Some(reqwest::Body::wrap_stream(stream)),
        };
        match timeout(limit, client.execute(outgoing)).await {
            Ok(Ok(response)) => Ok(HttpResponse {
                status: response.status(),
                headers: response.headers().clone(),
                body: body(response, limit, host),
            }),
            Ok(Err(error)) => Err(failure(&error, &host)),
            Err(_) => Err(HttpFailure::after_send(format!("no answer from {host} within {} s", limit.as_secs_f64()))),
        }
    }
}

/// Host and port: all of a URL that an error may show.
fn name(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// A connection that never came about, or a request that could not even be built, was surely not seen. Everything else
/// may have been: a reset, a connection closed before the answer, an answer that is no HTTP.
fn failure(error: &reqwest::Error, host: &str) -> HttpFailure {
    let cause = root_cause(error);
    if error.is_connect() || error.is_builder() {
        HttpFailure::before_send(format!("cannot connect to {host}: {cause}"))
    } else {
        HttpFailure::after_send(format!("no answer from {host}: {cause}"))
    }
}

/// The innermost cause. The outer ones only say "error sending request", and the outermost would show the URL.
fn root_cause(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request is not valid".to_owned() };
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The body, with the same patience for each chunk as for the head.
fn body(response: Response, limit: Duration, host: String) -> ByteStream {
    Box::pin(stream::try_unfold((response, host), move |(mut response, host)| async move {
        let chunk = match timeout(limit, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| format!("broke off: {}", root_cause(&error))),
            Err(_) => Err(format!("stood still for {} s", limit.as_secs_f64())),
        };
        match chunk {
            Ok(chunk) => Ok(chunk.map(|chunk| (chunk, (response, host)))),
            Err(what) => Err(HttpFailure::after_send(format!("the answer of {host} {what}"))),
        }
    }))
}

#[cfg(test)]
mod tests;
