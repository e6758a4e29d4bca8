//! The line to the providers, with faults on it: for what has to hold whoever is at its other end.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures::StreamExt as _;
use holdfast_core::ports::{Body, Http, HttpFailure, HttpRequest, HttpResponse};
use http::StatusCode;
use serde_json::Value;
use tokio::sync::watch;

/// What a request is for, by what it says and not by what our client takes it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One to a token endpoint.
    Exchange,
    /// It changes something.
    Write,
    /// It changes nothing.
    Read,
}

/// What becomes of a request.
#[derive(Clone, Copy)]
pub enum Fault {
    /// The provider answers this, and does nothing.
    Status(u16),
    /// The provider answers this with status 200, and does nothing.
    Says(&'static str),
    /// It arrives, and its answer does not.
    Lost,
    /// It arrives, and its answer waits until the line is calm again.
    Held,
    /// It does not arrive, and no answer comes as long as the line is not calm.
    Silence,
    /// Its answer arrives as JSON that was changed on the way.
    Changed(fn(&mut Value)),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "Status({status})"),
            Self::Says(words) => write!(f, "Says({words})"),
            Self::Lost => f.write_str("Lost"),
            Self::Held => f.write_str("Held"),
            Self::Silence => f.write_str("Silence"),
            Self::Changed(_) => f.write_str("Changed"),
        }
    }
}

/// What the armed line has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The fault has come.
    pub struck: bool,
    /// A request that writes was sent, the one with the fault included.
    pub wrote: bool,
}

/// Passes everything on, but for what it was told.
#[derive(Clone)]
pub struct Wire {
    inner: Arc<dyn Http>,
    plan: Arc<Mutex<Plan>>,
    exchanges: Arc<AtomicUsize>,
    calm: watch::Sender<bool>,
}

#[derive(Default)]
struct Plan {
    /// A fault for one request, and how many others come before it.
    once: Option<(Fault, usize)>,
    /// For each request of these kinds.
    always: Option<(&'static [Kind], Fault)>,
    seen: Seen,
}

impl Wire {
    /// Around another line.
    pub fn around(inner: Arc<dyn Http>) -> Self {
        Self { inner, plan: Arc::default(), exchanges: Arc::default(), calm: watch::Sender::new(true) }
    }

    /// The request after so many others meets this.
    ///
    /// # Panics
    /// Never.
    pub fn arm(&self, fault: Fault, after: usize) {
        self.set(Plan { once: Some((fault, after)), ..Plan::default() });
    }

    /// Each request of these kinds meets this.
    ///
    /// # Panics
    /// Never.
    pub fn always(&self, kinds: &'static [Kind], fault: Fault) {
        self.set(Plan { always: Some((kinds, fault)), ..Plan::default() });
    }

    /// Nothing meets anything any more, and what was held is let go.
    ///
    /// # Panics
    /// Never.
    pub fn calm(&self) {
        self.set(Plan::default());
        self.calm.send_replace(true);
    }

    /// What it has seen since it was armed.
    ///
    /// # Panics
    /// Never.
    pub fn seen(&self) -> Seen {
        self.plan.lock().expect("no panic happens while it is held").seen
    }

    /// Requests to token endpoints so far.
    pub fn exchanges(&self) -> usize {
        self.exchanges.load(Ordering::SeqCst)
    }

    fn set(&self, plan: Plan) {
        let held = matches!(plan.always, Some((_, Fault::Held | Fault::Silence)));
        *self.plan.lock().expect("no panic happens while it is held") = plan;
        if held {
            self.calm.send_replace(false);
        }
    }

    async fn until_calm(&self) {
        let mut calm = self.calm.subscribe();
        calm.wait_for(|calm| *calm).await.expect("the line outlives its requests");
    }

    fn fault(&self, kind: Kind) -> Option<Fault> {
        let mut plan = self.plan.lock().expect("no panic happens while it is held");
        plan.seen.wrote |= kind == Kind::Write;
        if let Some((kinds, fault)) = plan.always {
            return kinds.contains(&kind).then_some(fault);
        }
        match plan.once.take() {
            Some((fault, 0)) => {
                plan.seen.struck = true;
                Some(fault)
            }
            Some((fault, after)) => {
                plan.once = Some((fault, after - 1));
                None
            }
            None => None,
        }
    }
}

fn kind(request: &HttpRequest) -> Kind {
    let Body::Bytes(body) = &request.body else { return Kind::Write };
    let text = String::from_utf8_lossy(body);
    let query = request.url.path().ends_with("/graphql.json") && !text.contains("mutation ");
    if text.contains("grant_type") {
        Kind::Exchange
    } else if request.method.is_safe() || query {
        Kind::Read
    } else {
        Kind::Write
    }
}

fn answer(status: u16, body: impl Into<bytes::Bytes>) -> HttpResponse {
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    let body = body.into();
    HttpResponse {
        status: StatusCode::from_u16(status).expect("it is a status"),
        headers,
        body: futures::stream::once(async move { Ok(body) }).boxed(),
    }
}

#[async_trait]
impl Http for Wire {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpFailure> {
        let kind = kind(&request);
        if kind == Kind::Exchange {
            self.exchanges.fetch_add(1, Ordering::SeqCst);
        }
        match self.fault(kind) {
            None => self.inner.send(request).await,
            Some(Fault::Status(status)) => Ok(answer(status, "{}")),
            Some(Fault::Says(words)) => Ok(answer(200, words)),
            Some(Fault::Lost) => {
                drop(self.inner.send(request).await?);
                Err(HttpFailure::after_send("the answer was lost"))
            }
            Some(Fault::Held) => {
                let response = self.inner.send(request).await;
                self.until_calm().await;
                response
            }
            Some(Fault::Silence) => {
                self.until_calm().await;
                Err(HttpFailure::after_send("no answer came"))
            }
            Some(Fault::Changed(change)) => {
                let response = self.inner.send(request).await?;
                let (status, headers) = (response.status, response.headers.clone());
                let body = response.bytes(16 * 1024 * 1024).await?;
                let Ok(mut json) = serde_json::from_slice(&body) else {
                    return Ok(HttpResponse { headers, ..answer(status.as_u16(), body) });
                };
                change(&mut json);
                Ok(HttpResponse { headers, ..answer(status.as_u16(), json.to_string()) })
            }
        }
    }
}
