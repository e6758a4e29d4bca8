//! From a request to an answer. Everything that may fail for a reason of ours answers 503 and is counted nowhere; what is said
//! with 2xx is committed.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use holdfast_core::{
    AppId,
    ports::StoreError,
    webhook::{
        Challenge, Delivery, Event, Fate, NotProven, Proofs, Refusal, SecretFrom, Topic, Unreadable, Webhook, fate,
    },
};
use holdfast_store::{Arrived, Endpoint, Known, Owner, Receiver, TakenDelivery};
use metrics::counter;
use secrecy::SecretString;
use tracing::{error, info, warn};

use super::{
    body::{self, NoBody},
    manage::{adapter, warn_at},
    masked, subscriptions,
    tally::Turned,
};
use crate::{app::App, metrics::DELIVERIES, problem::Problem};

/// What becomes of a request, as metrics count it.
#[derive(Clone, Copy)]
enum Outcome {
    Taken,
    Parked,
    Again,
    Challenge,
    Nobodys,
    Unreadable,
    Unproven,
    Refused,
    Gone,
    Ours,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Parked => "parked",
            Self::Again => "again",
            Self::Challenge => "challenge",
            Self::Nobodys => "nobodys",
            Self::Unreadable => "unreadable",
            Self::Unproven => "unproven",
            Self::Refused => "refused",
            Self::Gone => "gone",
            Self::Ours => "ours",
        }
    }
}

pub(super) async fn receive(State(app): State<Arc<App>>, Path(id): Path<String>, request: Request) -> Response {
    let known = match app.store.find_endpoint(&id, app.seams.clock.now()).await {
        Ok(known) => known,
        Err(error) => return ours(&app, "unknown", &error),
    };
    let (endpoint, receiver) = match known {
        Some(Known::Live(endpoint, receiver)) => (endpoint, receiver),
        Some(Known::Deleted) => return gone(),
        None => return Problem::new(StatusCode::NOT_FOUND, "not_found", "There is no such address.").into_response(),
    };
    if endpoint.gone_at.is_some() {
        count(&endpoint, Outcome::Gone);
        return gone();
    }
    let Some(way) = adapter(&app, &endpoint) else {
        error!("the webhook {} is of a provider that this instance does not know any more", endpoint.provider);
        return again(&app, "This instance does not know the provider any more.");
    };
    let (parts, body) = request.into_parts();
    let whole = match body::read(&app, &parts.headers, body).await {
        Ok(whole) => whole,
        Err(why) => return no_body(&app, why),
    };
    let delivery = Delivery {
        method: &parts.method,
        query: parts.uri.query(),
        headers: &parts.headers,
        body: whole.bytes(),
        now: app.seams.clock.now(),
    };
    let here = Here { app: &app, endpoint: &endpoint, receiver: receiver.as_deref(), way, delivery: &delivery };
    match here.answer().await {
        Ok((outcome, response)) => {
            count(&endpoint, outcome);
            response
        }
        Err(error) => ours(&app, &endpoint.provider, &error),
    }
}

/// One delivery at one address.
struct Here<'a> {
    app: &'a App,
    endpoint: &'a Endpoint,
    receiver: Option<&'a Receiver>,
    way: &'a dyn Webhook,
    delivery: &'a Delivery<'a>,
}

impl Here<'_> {
    async fn answer(&self) -> Result<(Outcome, Response), StoreError> {
        let method = self.delivery.method;
        if method == Method::GET
            && let Some(challenge) = self.way.challenge(self.delivery)
        {
            return Ok((Outcome::Challenge, challenged(challenge)));
        }
        if method != Method::POST {
            let detail = "Deliveries come with POST.";
            let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
            let mut response = problem.into_response();
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            return Ok((Outcome::Unproven, response));
        }
        if let Err(why) = self.verify().await? {
            return Ok(self.unproven(why));
        }
        if let Some(challenge) = self.way.challenge(self.delivery) {
            self.app.store.note_heard(self.endpoint, self.delivery.now).await?;
            return Ok((Outcome::Challenge, challenged(challenge)));
        }
        match self.way.read(self.delivery) {
            Ok(event) => self.route(&event).await,
            Err(why) => self.unreadable(why).await,
        }
    }

    /// Against all that may prove it. What a key of somebody else's would have to prove is asked for once more.
    async fn verify(&self) -> Result<Result<(), NotProven>, StoreError> {
        let app = self.app;
        let secrets = match self.way.facts().secret {
            SecretFrom::OAuthApp => self.app_secrets().await?,
            _ => self.endpoint.secrets.clone(),
        };
        let keys_url = self.way.keys_url();
        let keys = keys_url.as_ref().map(|url| app.hooks.keys.of(app, url)).unwrap_or_default();
        let url = app.url(&format!("hooks/{}", self.endpoint.id));
        let proofs = Proofs { secrets: &secrets, keys: &keys, url: &url };
        let proven = self.way.verify(&proofs, self.delivery);
        Ok(match (proven, &keys_url) {
            (Err(NotProven::NoKey), Some(url)) if !app.hooks.keys.want(app, url) => Err(NotProven::Wrong),
            (proven, _) => proven,
        })
    }

    /// Both of the client's: while it is changed, either signs.
    async fn app_secrets(&self) -> Result<Vec<SecretString>, StoreError> {
        use holdfast_core::ports::OAuthApps as _;
        let name = match (&self.endpoint.owner, self.receiver) {
            (Owner::App(name), _) => name.clone(),
            (Owner::Connector(_), Some(receiver)) => receiver.app.clone(),
            (Owner::Connector(_), None) => AppId::instance(&self.endpoint.provider),
        };
        let found = self.app.apps.find(&name).await?;
        Ok(found.into_iter().flat_map(|app| app.client_secret.into_iter().chain(app.next_client_secret)).collect())
    }

    fn unproven(&self, why: NotProven) -> (Outcome, Response) {
        if why.is_ours() {
            let provider = &self.endpoint.provider;
            let unreadable = if self.endpoint.unreadable { "; what is stored cannot be opened" } else { "" };
            warn!(webhook.id = %short(self.endpoint), "a delivery of {provider} cannot be judged: {why}{unreadable}");
            return (Outcome::Ours, again(self.app, "It cannot be judged at the moment."));
        }
        self.tally(why.as_str(), true);
        let detail = format!("This delivery is not believed: {why}.");
        (Outcome::Unproven, Problem::new(StatusCode::UNAUTHORIZED, "not_proven", detail).into_response())
    }

    fn tally(&self, reason: &'static str, unproven: bool) {
        let delivery = self.delivery;
        self.app.hooks.tally.add(Turned {
            endpoint: &self.endpoint.id,
            reason,
            sample: serde_json::json!({
                "at": delivery.now,
                "size_bytes": delivery.body.len(),
                "headers": masked::headers(delivery.headers),
            }),
            unproven,
            warn_at: warn_at(self.app, self.way.facts()),
            at: delivery.now,
        });
    }

    /// It is the provider's, so that it is kept to be looked at.
    async fn unreadable(&self, why: Unreadable) -> Result<(Outcome, Response), StoreError> {
        if let Some(receiver) = self.receiver {
            self.take(receiver, Err(why.0), false).await?;
        }
        let detail = format!("This delivery is genuine and is not understood: {why}.");
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not_parsable", detail);
        Ok((Outcome::Unreadable, problem.into_response()))
    }

    /// To whom it is. An address of a connector serves that one, whatever else a delivery names (WV-06); an app's finds its
    /// connectors by the account that is attested.
    async fn route(&self, event: &Event) -> Result<(Outcome, Response), StoreError> {
        let is_about = |receiver: &Receiver| {
            event
                .account
                .as_deref()
                .is_none_or(|told| self.way.is_about(told, &receiver.account, receiver.identity.as_deref()))
        };
        if let Some(receiver) = self.receiver {
            return if is_about(receiver) { self.deliver(receiver, event).await } else { self.nobodys().await };
        }
        let (Owner::App(name), Some(told)) = (&self.endpoint.owner, &event.account) else {
            return self.nobodys().await;
        };
        let mut receivers = self.app.store.receivers(name, told).await?;
        receivers.retain(is_about);
        let mut outcome = None;
        for receiver in &receivers {
            // One address for many never says that it is gone, and one that cannot take it keeps it from no other.
            let (one, _) = self.deliver(receiver, event).await?;
            outcome = outcome.or(Some(one));
        }
        match outcome {
            Some(outcome) => Ok((outcome, StatusCode::OK.into_response())),
            None => self.nobodys().await,
        }
    }

    /// Genuine, and about nobody here: it is answered well, or the provider would switch off what others need.
    async fn nobodys(&self) -> Result<(Outcome, Response), StoreError> {
        info!(webhook.id = %short(self.endpoint), "a delivery of {} is about no account of this address", self.endpoint.provider);
        self.app.store.note_heard(self.endpoint, self.delivery.now).await?;
        Ok((Outcome::Nobodys, StatusCode::OK.into_response()))
    }

    async fn deliver(&self, receiver: &Receiver, event: &Event) -> Result<(Outcome, Response), StoreError> {
        let parking = self.app.config.webhooks.parking().stretched(self.way.facts().parks);
        let waiting = if receiver.health.is_waiting() {
            self.app.store.parked_deliveries(&receiver.connector, parking.most).await?
        } else {
            0
        };
        match fate(receiver.health, receiver.since, waiting, self.delivery.now, parking) {
            Fate::Take => self.take(receiver, Ok(event), false).await,
            Fate::Park => self.take(receiver, Ok(event), true).await,
            Fate::Refuse(why) => self.refuse(why).await,
        }
    }

    async fn take(
        &self,
        receiver: &Receiver,
        event: Result<&Event, &str>,
        parked: bool,
    ) -> Result<(Outcome, Response), StoreError> {
        let arrived = Arrived {
            endpoint: self.endpoint,
            receiver,
            event,
            parked,
            headers: masked::headers(self.delivery.headers),
            body: self.delivery.body,
            at: self.delivery.now,
        };
        let taken = self.app.store.take_delivery(&arrived).await?;
        if let Ok(event) = event
            && event.topic == Topic::AccountRemoved
        {
            subscriptions::removal_told(self.app, self.endpoint, receiver, event, self.delivery.now).await?;
        }
        self.app.hooks.tally.accepted(&self.endpoint.id);
        if let Owner::App(_) = self.endpoint.owner {
            self.app.store.note_heard_for(&receiver.connector, &self.endpoint.kind, self.delivery.now).await?;
        }
        let outcome = match taken {
            TakenDelivery::Again => Outcome::Again,
            TakenDelivery::New(..) if parked => Outcome::Parked,
            TakenDelivery::New(..) => Outcome::Taken,
        };
        Ok((outcome, StatusCode::OK.into_response()))
    }

    /// A proven one that cannot be kept. It is told to come again, until the address has been of no use for so long that it
    /// is told to stop.
    async fn refuse(&self, why: Refusal) -> Result<(Outcome, Response), StoreError> {
        let (app, reason) = (self.app, why.as_str());
        let (threshold, warn_at) = (app.config.webhooks.threshold(), warn_at(app, self.way.facts()));
        let turned = app.store.turn_away(self.endpoint, reason, threshold, warn_at, self.delivery.now).await?;
        self.tally(reason, false);
        if turned.tripped {
            warn!(webhook.id = %short(self.endpoint), "the webhook of {} says from now on that it is gone", self.endpoint.provider);
        }
        if turned.gone {
            return Ok((Outcome::Gone, gone()));
        }
        Ok((Outcome::Refused, again(app, "The connector behind this address cannot take events at the moment.")))
    }
}

/// Enough to find it by, and not enough to send to it.
fn short(endpoint: &Endpoint) -> &str {
    endpoint.id.get(..13).unwrap_or(&endpoint.id)
}

fn count(endpoint: &Endpoint, outcome: Outcome) {
    counter!(DELIVERIES, "provider" => endpoint.provider.clone(), "outcome" => outcome.as_str()).increment(1);
}

fn challenged(challenge: Challenge) -> Response {
    match challenge {
        // With `nosniff`, as everything that is served.
        Challenge::Text(text) => ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response(),
        Challenge::Json(value) => Json(value).into_response(),
    }
}

/// Final, for senders: only said of what is.
fn gone() -> Response {
    Problem::new(StatusCode::GONE, "gone", "Nothing takes deliveries at this address any more.").into_response()
}

fn again(app: &App, detail: &str) -> Response {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "try_again", detail)
        .retry_after(app.config.webhooks.retry_after())
        .into_response()
}

fn ours(app: &App, provider: &str, error: &StoreError) -> Response {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    error!(error = %error, cause, "a delivery could not be stored; its sender is told to come again");
    counter!(DELIVERIES, "provider" => provider.to_owned(), "outcome" => Outcome::Ours.as_str()).increment(1);
    again(app, "It could not be stored.")
}

/// The rest of what is on its way is not read: the connection ends.
fn no_body(app: &App, why: NoBody) -> Response {
    let mut response = match why {
        NoBody::TooLarge => {
            let detail = format!("A delivery has at most {} bytes.", app.config.webhooks.body_bytes());
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail).into_response()
        }
        NoBody::TooSlow => {
            Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "The delivery took too long.").into_response()
        }
        NoBody::TooMuch => again(app, "Too much arrives at the moment."),
        NoBody::CutOff => Problem::new(StatusCode::BAD_REQUEST, "cut_off", "The delivery broke off.").into_response(),
    };
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
