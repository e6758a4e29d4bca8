//! One attempt to bring an event to an endpoint, and what follows from it: the work of a job of kind `deliver`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use holdfast_core::{
    error::Retry,
    exchange::retry_after,
    job::{Fault, Outcome, Policy},
    ports::{Body, HttpFailure, HttpRequest, HttpResponse, StoreError},
};
use holdfast_store::{AttemptMade, ClaimedJob, EventEndpoint, Stopped, StoredEvent};
use http::{Method, StatusCode};
use metrics::counter;
use tracing::{info, warn};
use url::Url;

use super::{message, slack};
use crate::{app::App, config::EventsConfig, jobs::Handler, metrics::EVENT_ATTEMPTS};

/// Brings events to endpoints. A job whose replica dies in the middle is done again: the event's id is the same, so that
/// whoever has had it knows.
pub(crate) struct Deliver {
    retries: Vec<Duration>,
}

/// An attempt that came to nothing.
pub(super) struct Failed {
    pub(super) code: &'static str,
    pub(super) detail: String,
    pub(super) status: Option<StatusCode>,
    /// The endpoint asks not to be tried before.
    pub(super) not_before: Option<Duration>,
}

impl Failed {
    fn is_gone(&self) -> bool {
        self.code == "gone"
    }
}

impl Deliver {
    pub(crate) fn new(config: &EventsConfig) -> Self {
        Self { retries: config.retries.clone() }
    }

    async fn attempt(&self, app: &App, claimed: &ClaimedJob) -> Result<Outcome, StoreError> {
        let job = &claimed.job;
        let now = app.seams.clock.now();
        if let Some(mail) = job.payload["mail"].as_str() {
            let sent = slack::tell(app, job, mail, |attempts| self.is_last(attempts)).await?;
            return Ok(sent.unwrap_or_else(|failed| self.next(job.attempts, failed)));
        }
        let Some(endpoint) = app.store.find_event_endpoint(&job.org, &job.subject, now).await? else {
            return Ok(never("endpoint_deleted", "Its endpoint was deleted."));
        };
        if !endpoint.enabled {
            let detail = "Its endpoint is disabled. Once it is enabled, what was missed can be sent again.";
            return Ok(never("endpoint_disabled", detail));
        }
        let id = job.payload["event"].as_str().unwrap_or_default();
        let Some(event) = app.store.find_event(&job.org, id).await? else {
            return Ok(never("event_forgotten", "The event is so old that it is forgotten."));
        };
        let begun = app.seams.clock.uptime();
        let sent = send(app, &endpoint, &event).await;
        let took = app.seams.clock.uptime().saturating_sub(begun);
        let failed = sent.as_ref().err();
        let word = if failed.is_none() { "delivered" } else { "failed" };
        counter!(EVENT_ATTEMPTS, "outcome" => word).increment(1);
        let made = AttemptMade {
            endpoint: &endpoint.id,
            event: &event.id,
            kind: event.kind.as_str(),
            job: &job.id,
            number: job.attempts,
            at: now,
            took,
            status: sent
                .as_ref()
                .map_or_else(|failed| failed.status, |status| Some(*status))
                .map(|status| status.as_u16()),
            fault: failed.map(|failed| failed.detail.as_str()),
            gone: failed.is_some_and(Failed::is_gone),
            stop_after: app.config.events.disable_after,
        };
        match app.store.note_event_attempt(&made).await {
            Ok(stopped) => tell(&endpoint, stopped),
            // What was taken is not sent again for the want of a note.
            Err(error) => {
                warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not note an attempt at an event");
            }
        }
        Ok(match sent {
            Ok(_) => Outcome::Done,
            Err(failed) => self.next(job.attempts, failed),
        })
    }

    /// Whether no attempt follows this one.
    fn is_last(&self, attempts: u32) -> bool {
        self.retries.len() < attempts as usize
    }

    /// Again after the pause of the plan, or when the endpoint wants it if that is later.
    fn next(&self, attempts: u32, failed: Failed) -> Outcome {
        let gone = failed.is_gone();
        let fault = Fault::new(failed.code, failed.detail);
        let place = attempts.saturating_sub(1) as usize;
        match self.retries.get(place) {
            Some(pause) if !gone => {
                Outcome::Failed(fault, Retry::After(failed.not_before.unwrap_or_default().max(*pause)))
            }
            _ => Outcome::Failed(fault, Retry::Never),
        }
    }
}

#[async_trait]
impl Handler for Deliver {
    async fn run(&self, app: &Arc<App>, claimed: &ClaimedJob) -> Outcome {
        let attempt = self.attempt(app, claimed).await;
        attempt.unwrap_or_else(|error| Outcome::Failed(Fault::new("ours", error.to_string()), Retry::Backoff))
    }

    /// One attempt, and one after each pause.
    fn policy(&self, configured: Policy) -> Policy {
        Policy { attempts: u32::try_from(self.retries.len()).unwrap_or(u32::MAX).saturating_add(1), ..configured }
    }
}

pub(super) fn never(code: &str, detail: &str) -> Outcome {
    Outcome::Failed(Fault::new(code, detail), Retry::Never)
}

fn tell(endpoint: &EventEndpoint, stopped: Option<Stopped>) {
    let Some(stopped) = stopped else { return };
    let (id, why) = (&endpoint.id, stopped.as_str());
    info!(endpoint.id = %id, org.id = %endpoint.org, endpoint.stopped = why, "event endpoint {id} is disabled: {why}");
}

/// Sends it once. Of the answer only its head is looked at.
async fn send(app: &App, endpoint: &EventEndpoint, event: &StoredEvent) -> Result<StatusCode, Failed> {
    let now = app.seams.clock.now();
    let body = message::body(event.kind, event.at, &event.data);
    let broken = |detail: &str| Failed { code: "ours", detail: detail.to_owned(), status: None, not_before: None };
    let url = Url::parse(&endpoint.url).map_err(|_| broken("Its URL cannot be read; enter it anew."))?;
    let headers = message::headers(event, &body, &endpoint.secrets, now);
    let headers = headers.ok_or_else(|| broken("Its secret cannot be used; make another one."))?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let request = HttpRequest {
        method: Method::POST,
        url,
        exact: None,
        headers,
        body: Body::Bytes(body.into()),
        timeout: app.config.events.timeout,
    };
    match app.seams.endpoints.send(request).await {
        Ok(answer) if answer.status.is_success() => Ok(answer.status),
        Ok(answer) => Err(refused(app, &answer)),
        Err(failure) => Err(unreachable(&failure, &host)),
    }
}

fn refused(app: &App, answer: &HttpResponse) -> Failed {
    let status = answer.status;
    let more = match status {
        StatusCode::GONE => "it is gone, and gets nothing any more",
        status if status.is_redirection() => "redirects are not followed, enter where it leads to",
        _ => "only 2xx counts as taken",
    };
    Failed {
        code: if status == StatusCode::GONE { "gone" } else { "refused" },
        detail: format!("It answered {}: {more}.", status.as_u16()),
        status: Some(status),
        not_before: retry_after(&answer.headers, app.seams.clock.now()),
    }
}

/// What a private name resolves to is for nobody to read.
pub(super) fn unreachable(failure: &HttpFailure, host: &str) -> Failed {
    let private = failure.message.contains("not a public address");
    let (code, detail) = if private {
        ("private_address", format!("{host} does not lead to a public address."))
    } else {
        ("unreachable", format!("There was {}.", failure.message.replacen("cannot connect", "no way to connect", 1)))
    };
    Failed { code, detail, status: None, not_before: None }
}
