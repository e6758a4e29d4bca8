//! A program of a customer that is told of events, and answers as a test wants it. Signatures are checked with the official
//! library of Standard Webhooks.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use standardwebhooks::Webhook;

use crate::wait::until;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, byte for byte.
    pub body: Bytes,
}

impl Told {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// `webhook-id`
    pub fn id(&self) -> String {
        self.header("webhook-id").to_owned()
    }

    /// `webhook-timestamp`, in seconds since 1970; 0: it is none.
    pub fn timestamp(&self) -> i64 {
        self.header("webhook-timestamp").parse().unwrap_or_default()
    }

    /// The signatures, in their order.
    pub fn signatures(&self) -> Vec<&str> {
        self.header("webhook-signature").split(' ').collect()
    }

    /// The body; null: it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The event's type.
    pub fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap_or_default().to_owned()
    }

    /// What the official library signs with this secret, whatever the time is.
    ///
    /// # Panics
    /// When it is no secret.
    pub fn signature_by(&self, secret: &str) -> String {
        let webhook = Webhook::new(secret).expect("it is a secret");
        webhook.sign(&self.id(), self.timestamp(), &self.body).expect("the body is text")
    }

    /// Whether the official library takes it with this secret, now.
    ///
    /// # Panics
    /// When it is no secret.
    pub fn is_verified_by(&self, secret: &str) -> bool {
        Webhook::new(secret).expect("it is a secret").verify(&self.body, &self.headers).is_ok()
    }
}

/// What it answers next.
#[derive(Clone, Debug)]
enum Reply {
    With(u16, Option<(&'static str, String)>),
    /// Nothing, for ever.
    Silence,
}

#[derive(Default)]
struct Inner {
    told: Mutex<Vec<Told>>,
    /// Said once each; then 204.
    replies: Mutex<VecDeque<Reply>>,
    always: Mutex<Option<Reply>>,
}

/// The program.
#[derive(Clone)]
pub struct Receiver {
    /// Where it listens.
    pub url: String,
    inner: Arc<Inner>,
}

impl Receiver {
    /// One that answers 204.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start() -> Self {
        let inner = Arc::<Inner>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let router = Router::new().fallback(receive).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url: format!("http://{address}/events"), inner }
    }

    /// The next answer is this one.
    pub fn answer(&self, status: u16) {
        self.reply(Reply::With(status, None));
    }

    /// The same with a header.
    pub fn answer_with(&self, status: u16, header: &'static str, value: &str) {
        self.reply(Reply::With(status, Some((header, value.to_owned()))));
    }

    /// The next request gets no answer.
    pub fn keep_silent_once(&self) {
        self.reply(Reply::Silence);
    }

    /// No request gets an answer from now on.
    pub fn keep_silent(&self) {
        *self.inner.always.lock().unwrap_or_else(PoisonError::into_inner) = Some(Reply::Silence);
    }

    fn reply(&self, reply: Reply) {
        self.inner.replies.lock().unwrap_or_else(PoisonError::into_inner).push_back(reply);
    }

    /// All that came so far, in its order.
    pub fn told(&self) -> Vec<Told> {
        self.inner.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Their types.
    pub fn kinds(&self) -> Vec<String> {
        self.told().iter().map(Told::kind).collect()
    }

    /// Waits until so many have come, and answers them.
    pub async fn hears(&self, count: usize) -> Vec<Told> {
        until(&format!("{count} events have come"), async || self.told(), |told| told.len() >= count).await
    }
}

async fn receive(State(inner): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> Response {
    inner.told.lock().unwrap_or_else(PoisonError::into_inner).push(Told { headers, body });
    let always = inner.always.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let next = inner.replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    match always.or(next).unwrap_or(Reply::With(204, None)) {
        Reply::Silence => std::future::pending().await,
        Reply::With(status, header) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = status.into_response();
            if let Some((name, value)) = header
                && let Ok(value) = HeaderValue::from_str(&value)
            {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
            response
        }
    }
}
