//! HTTP to providers, and the one question that matters when it fails: may the provider have seen the request?

mod passing;
mod timely;

use std::{error::Error, pin::pin, sync::Arc, time::Duration};

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use holdfast_core::ports::{Body, ByteStream, Http, HttpFailure, HttpRequest, HttpResponse};
use http::Method;
use reqwest::{Client, redirect, retry};
use tokio::{sync::Notify, time::timeout};
use url::Url;

use self::{
    passing::Passing,
    timely::{Timely, TooLate},
};
use super::guard::{Guard, GuardedResolver, Way};

/// What we call ourselves where no caller does.
const USER_AGENT: &str = concat!("holdfast/", env!("CARGO_PKG_VERSION"));
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
    passing: Passing,
}

impl Clients {
    /// `guard`: what names may resolve to; `None`: anything.
    fn new(connect_timeout: Duration, guard: Option<&Guard>) -> anyhow::Result<Self> {
        // There is no time-out for the whole: each request brings its own, and bodies may stream for long.
        let builder = || {
            let builder = Client::builder();
            let builder = match guard {
                Some(guard) => builder.dns_resolver(GuardedResolver(guard.clone())),
                None => builder,
            };
            builder
                .user_agent(USER_AGENT)
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
        Ok(Self {
            pooled: builder().build()?,
            single: builder().pool_max_idle_per_host(0).build()?,
            passing: Passing::new(connect_timeout, guard)?,
        })
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
        let guarded = Clients::new(connect_timeout, Some(&guard)).context("cannot make the HTTP client")?;
        let open = if guard.has_open_ways() { Some(Clients::new(connect_timeout, None)?) } else { None };
        Ok(Self { guard, guarded, open })
    }
}

#[async_trait]
impl Http for GuardedHttp {
    async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpFailure> {
        let way = self.guard.admit(&request.url).map_err(HttpFailure::before_send)?;
        let clients = match (way, &self.open) {
            (Way::Open, Some(open)) => open,
            _ => &self.guarded,
        };
        if let Some(exact) = request.exact.take() {
            return clients.passing.send(request, exact).await;
        }
        let host = name(&request.url);
        let client = clients.of(&request.method);
        let limit = request.timeout;
        let mut outgoing = reqwest::Request::new(request.method, request.url);
        *outgoing.headers_mut() = request.headers;
        let progress = Progress::default();
        *outgoing.body_mut() = match request.body {
            Body::Bytes(bytes) if bytes.is_empty() => None,
            Body::Bytes(bytes) => Some(reqwest::Body::wrap(Timely::new(bytes, limit))),
            Body::Once(stream) => Some(reqwest::Body::wrap_stream(progress.of(stream))),
        };
        match progress.head_within(limit, client.execute(outgoing)).await {
            Some(Ok(response)) => {
                let (head, rest) = http::Response::<reqwest::Body>::from(response).into_parts();
                let body = axum::body::Body::new(rest);
                Ok(HttpResponse { status: head.status, headers: head.headers, body: read(body, limit, host) })
            }
            Some(Err(error)) => {
                Err(failure(&error, error.is_connect() || error.is_builder() || TooLate::caused(&error), &host))
            }
            None => Err(silent(limit, &host)),
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
fn failure(error: &(dyn Error + 'static), surely_not_sent: bool, host: &str) -> HttpFailure {
    let cause = root_cause(error);
    if surely_not_sent {
        HttpFailure::before_send(format!("cannot connect to {host}: {cause}"))
    } else {
        HttpFailure::after_send(format!("no answer from {host}: {cause}"))
    }
}

fn silent(limit: Duration, host: &str) -> HttpFailure {
    HttpFailure::after_send(format!("no answer from {host} within {} s", limit.as_secs_f64()))
}

/// The innermost cause. The outer ones only say "error sending request", and the outermost would show the URL.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let Some(mut cause) = error.source() else { return "the request is not valid".to_owned() };
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Tells that a streamed body moves: a large one may take as long as it likes, as long as it goes on.
#[derive(Clone, Default)]
struct Progress(Arc<Notify>);

impl Progress {
    /// The same stream, each piece of which is told.
    fn of(&self, stream: ByteStream) -> impl Stream<Item = Result<Bytes, HttpFailure>> + Send + use<> {
        let moved = Arc::clone(&self.0);
        stream.inspect(move |_| moved.notify_one())
    }

    /// What comes of `answer`; `None`: nothing within this time from its start, or from the last piece of the body.
    async fn head_within<T>(&self, limit: Duration, answer: impl Future<Output = T>) -> Option<T> {
        let mut answer = pin!(answer);
        loop {
            let next = async {
                tokio::select! {
                    biased;
                    answer = &mut answer => Some(answer),
                    () = self.0.notified() => None,
                }
            };
            match timeout(limit, next).await {
                Ok(Some(answer)) => return Some(answer),
                Ok(None) => {}
                Err(_) => return None,
            }
        }
    }
}

/// The body, with the same patience for each chunk as for the head.
fn read(body: axum::body::Body, limit: Duration, host: String) -> ByteStream {
    Box::pin(stream::try_unfold((body.into_data_stream(), host), move |(mut body, host)| async move {
        let what = match timeout(limit, body.next()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(chunk))) => return Ok(Some((chunk, (body, host)))),
            Ok(Some(Err(error))) => format!("broke off: {}", root_cause(&error)),
            Err(_) => format!("stood still for {} s", limit.as_secs_f64()),
        };
        Err(HttpFailure::after_send(format!("the answer of {host} {what}")))
    }))
}

#[cfg(test)]
mod tests;
