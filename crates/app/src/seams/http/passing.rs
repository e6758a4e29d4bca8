//! The client for requests that are passed through: they go out as they were written, and their answers come back as they
//! were sent.
//!
//! Everything else goes by reqwest, which writes a URL anew by the rules of browsers (`'` in a query becomes `%27`) and may
//! read compressed bodies. This is the client that reqwest itself is built on, behind the same guard and with the same
//! rule for pooled connections.

mod heard;

use std::{
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
    vec,
};

use anyhow::Context as _;
use holdfast_core::ports::{Body, HttpFailure, HttpRequest, HttpResponse};
use http::{
    HeaderValue, Request, StatusCode, Uri,
    header::USER_AGENT,
    uri::{PathAndQuery, Scheme},
};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::time::timeout;
use tower::{BoxError, Service};

use self::heard::Heard;
use super::{IDLE, Progress, failure, name, read, silent};
use crate::seams::guard::{Guard, resolve};

/// As reqwest does it.
const KEEPALIVE: Duration = Duration::from_secs(15);

type Connector = InTime<HttpsConnector<HttpConnector<Names>>>;

/// Two clients, as for everything else: what may not be repeated gets a connection of its own.
pub(super) struct Passing {
    pooled: Client<Connector, axum::body::Body>,
    single: Client<Connector, axum::body::Body>,
}

impl Passing {
    /// `connect_timeout` covers DNS, TCP and TLS; `guard` is what names may resolve to, `None`: anything.
    pub(super) fn new(connect_timeout: Duration, guard: Option<&Guard>) -> anyhow::Result<Self> {
        let mut tcp = HttpConnector::new_with_resolver(Names(guard.cloned()));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        let tls = rustls::ClientConfig::builder().try_with_platform_verifier().context("no certificates to trust")?;
        let https = HttpsConnectorBuilder::new().with_tls_config(tls.with_no_client_auth());
        let https = https.https_or_http().enable_all_versions().wrap_connector(tcp);
        let connector = InTime { inner: https, limit: connect_timeout };
        let client = |idle_connections| {
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(idle_connections)
                .build(connector.clone())
        };
        Ok(Self { pooled: client(usize::MAX), single: client(0) })
    }

    /// Sends the request, whose URL was admitted, with this path and query.
    pub(super) async fn send(&self, request: HttpRequest, exact: PathAndQuery) -> Result<HttpResponse, HttpFailure> {
        let (host, limit) = (name(&request.url), request.timeout);
        let scheme = if request.url.scheme() == "https" { Scheme::HTTPS } else { Scheme::HTTP };
        let uri = Uri::builder().scheme(scheme).authority(request.url.authority()).path_and_query(exact).build();
        let uri = uri.map_err(|_| HttpFailure::before_send(format!("{host} cannot be addressed like this")))?;
        let progress = Progress::default();
        let mut outgoing = Request::new(match request.body {
            Body::Bytes(bytes) => axum::body::Body::from(bytes),
            Body::Once(stream) => axum::body::Body::from_stream(progress.of(stream)),
        });
        let client = if request.method.is_idempotent() { &self.pooled } else { &self.single };
        *outgoing.method_mut() = request.method;
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = request.headers;
        outgoing.headers_mut().entry(USER_AGENT).or_insert(HeaderValue::from_static(super::USER_AGENT));
        match progress.head_within(limit, client.request(outgoing)).await {
            Some(Ok(response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                Err(HttpFailure::after_send(format!("{host} wants to speak another protocol")))
            }
            Some(Ok(response)) => {
                let (head, body) = response.into_parts();
                let body = read(axum::body::Body::new(body), limit, host);
                Ok(HttpResponse { status: head.status, headers: head.headers, body })
            }
            Some(Err(error)) => Err(failure(&error, error.is_connect(), &host)),
            None => Err(silent(limit, &host)),
        }
    }
}

/// Resolves names, to what the guard lets be reached.
#[derive(Clone)]
struct Names(Option<Guard>);

impl Service<Name> for Names {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let guard = self.0.clone();
        Box::pin(async move { Ok(resolve(name.as_str(), guard.as_ref()).await?.into_iter()) })
    }
}

/// Connects within a time, or not at all.
#[derive(Clone)]
struct InTime<C> {
    inner: C,
    limit: Duration,
}

impl<C> Service<Uri> for InTime<C>
where
    C: Service<Uri, Error = BoxError>,
    C::Future: Send + 'static,
{
    type Response = TokioIo<Heard<TokioIo<C::Response>>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, limit) = (self.inner.call(uri), self.limit);
        Box::pin(async move {
            let late = || BoxError::from(format!("no connection within {} s", limit.as_secs_f64()));
            let stream = timeout(limit, connecting).await.unwrap_or_else(|_| Err(late()))?;
            Ok(TokioIo::new(Heard { stream: TokioIo::new(stream), over: false }))
        })
    }
}
