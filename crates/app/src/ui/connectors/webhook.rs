//! The webhook of a connector: what stands on the connector's page for everybody, and a page of its own for those who set it
//! up, with address, steps, and what was turned away.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    OrgId, Snapshot,
    ports::StoreError,
    webhook::{SecretFrom, Webhook, WebhookFacts, subscription::Standing as Subscription},
};
use holdfast_store::{Endpoint, Rejection, Subscribed};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::{Mark, find};
use crate::{
    app::App,
    called,
    hooks::{
        self,
        manage::{self, Made, NotMade, Standing, Wish},
        subscriptions,
    },
    ui::{
        form::Posted,
        live,
        moment::{Moment, span},
        parts::Badge,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
    words::{self, BAD, GOOD, IDLE, WARN, counted},
};

/// Of an address that is never of use any more, and of one that works, these are of no interest after so long.
const NEWS: TimeDelta = TimeDelta::days(1);

/// On the connector's page, at a provider that tells of something.
#[derive(Serialize)]
pub(super) struct Card {
    ways: Vec<Short>,
}

/// How one stands.
#[derive(Serialize)]
struct Short {
    name: &'static str,
    badge: Badge,
    last: Option<Moment>,
    /// How far from being told to stop, where something was turned away.
    far: Option<String>,
    /// Whoever sends does not prove who they are, so that nothing is taken.
    unproven: bool,
}

impl Card {
    /// Those of a connector; `None`: its provider tells of nothing.
    pub(super) async fn of(
        app: &App,
        org: &OrgId,
        snapshot: &Snapshot,
        now: DateTime<Utc>,
    ) -> Result<Option<Self>, StoreError> {
        if manage::way(app, &snapshot.provider, None).is_none() {
            return Ok(None);
        }
        let endpoints = app.store.endpoints_of(org, &snapshot.connector, now).await?;
        let mut ways = Vec::new();
        for endpoint in &endpoints {
            let Some(facts) = manage::adapter(app, endpoint).map(Webhook::facts) else { continue };
            let rejections = app.store.rejections(endpoint).await?;
            ways.push(Short {
                name: facts.name,
                badge: badge(Standing::of(app, endpoint, facts)),
                last: Moment::maybe(endpoint.accepted_at, now),
                far: far(app, endpoint, now),
                unproven: unproven(&rejections, now)
                    .is_some_and(|refused| endpoint.accepted_at.is_none_or(|accepted| accepted < refused.last_at)),
            });
        }
        Ok(Some(Self { ways }))
    }
}

#[derive(Serialize)]
struct WebhookPage {
    id: String,
    /// Where it follows what happens.
    events: String,
    name: String,
    mark: Mark,
    ways: Vec<Way>,
    /// What was done just now.
    did: Option<&'static str>,
}

/// One of the provider's ways.
#[derive(Serialize)]
struct Way {
    id: &'static str,
    name: &'static str,
    made: Option<Full>,
    secret_label: &'static str,
    /// Whether a person brings it.
    brings: bool,
    /// Whether it is made here.
    makes: bool,
    /// A person is about to do the provider's side.
    by_hand: bool,
    /// One that was made just now.
    secret: Option<String>,
    typed_problem: String,
    body: Option<&'static str>,
    steps: Vec<Step>,
    /// The provider's side, where it can be kept here.
    kept: Option<KeptSide>,
}

/// The provider's side, where it can be kept here.
#[derive(Serialize)]
struct KeptSide {
    /// Somebody wants it so.
    on: bool,
    what: String,
    /// Why it is not as it should be, and what to do.
    why: Option<String>,
    looked: Option<Moment>,
    next: Option<Moment>,
    lapses: Option<Moment>,
}

impl KeptSide {
    fn of(endpoint: Option<&Endpoint>, provider: &str, now: DateTime<Utc>) -> Self {
        let nothing = Subscribed::default();
        let subscribed = endpoint.map_or(&nothing, |endpoint| &endpoint.subscribed);
        let what = match (subscribed.receive, subscribed.standing) {
            (false, _) => {
                format!("Holdfast can make the webhook at {provider} by itself, look after it, and take it away again.")
            }
            (true, None | Some(Subscription::Removed)) => format!("Holdfast is making the webhook at {provider}."),
            (true, Some(Subscription::Made)) => {
                format!("{provider} sends its events here. Holdfast has made the webhook there, and looks after it.")
            }
            (true, Some(Subscription::Forbidden)) => format!("{provider} does not allow the webhook."),
            (true, Some(Subscription::Failing)) => {
                format!("{provider} could not be asked about the webhook; Holdfast tries again.")
            }
        };
        Self {
            on: subscribed.receive,
            what,
            why: subscribed.words.clone().filter(|_| subscribed.receive),
            looked: Moment::maybe(subscribed.looked_at, now),
            next: Moment::maybe(subscribed.look_at, now),
            lapses: Moment::maybe(subscribed.lapses_at, now),
        }
    }
}

/// A step, with the address where it stands in it.
#[derive(Serialize)]
struct Step {
    words: String,
}

#[derive(Serialize)]
struct Full {
    /// Where its provider sends to, unless that is the address of a whole OAuth app.
    url: Option<String>,
    badge: Badge,
    what: String,
    gone: bool,
    needs_secret: bool,
    first: Option<Moment>,
    last: Option<Moment>,
    previous: Option<Moment>,
    far: Option<String>,
    notes: Vec<String>,
    rejections: Vec<Line>,
}

/// What was turned away for one reason.
#[derive(Serialize)]
struct Line {
    code: String,
    what: &'static str,
    todo: &'static str,
    count: String,
    first: Moment,
    last: Moment,
    samples: Vec<Sample>,
}

#[derive(Serialize)]
struct Sample {
    at: String,
    size: u64,
    headers: String,
}

/// GET /connectors/{id}/webhook
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    let snapshot = find(&app, &person, &id).await?;
    page(&app, &person, &snapshot, &Shown::default()).await
}

/// What to do, and with which way.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Form {
    kind: String,
    act: String,
    secret: SecretString,
}

/// What the page shows beside what is stored.
#[derive(Default)]
struct Shown<'a> {
    kind: &'a str,
    secret: Option<SecretString>,
    problem: Option<&'static str>,
    did: Option<&'static str>,
}

/// POST /connectors/{id}/webhook. Answers with a secret that was made itself: it is shown this once.
pub(super) async fn act(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<Form>,
) -> Result<Response, Trouble> {
    let snapshot = find(&app, &person, &id).await?;
    let brought = (form.act == "secret").then_some(form.secret);
    let receive = match form.act.as_str() {
        "receive" => Some(true),
        "stop" => Some(false),
        _ => None,
    };
    let wish = Wish { kind: Some(form.kind.clone()), secret: brought, rotate: form.act == "rotate", receive };
    let (org, connector, provider) = (person.org(), &snapshot.connector, &snapshot.provider);
    let did = match form.act.as_str() {
        "secret" => "The secret is kept. The next delivery shows whether it is the right one.",
        "rotate" => "There is another secret. The one before counts for a while longer.",
        "enable" => "It takes deliveries again.",
        _ => "The webhook is made.",
    };
    match manage::wish(&app, org, connector, provider, &wish, &person.actor()).await {
        // The provider is told of it by us.
        Ok(Made { secret: Some(secret), .. }) if receive.is_none() => {
            let shown = Shown { kind: &form.kind, secret: Some(secret), did: Some(did), ..Shown::default() };
            page(&app, &person, &snapshot, &shown).await
        }
        Ok(_) => Ok(Redirect::to(&format!("/connectors/{id}/webhook")).into_response()),
        Err(NotMade::BadSecret(why)) => {
            let shown = Shown { kind: &form.kind, problem: Some(why), ..Shown::default() };
            page(&app, &person, &snapshot, &shown).await
        }
        Err(NotMade::NoSuchWay | NotMade::NotKept(_)) => Err(Trouble::Garbled),
        Err(NotMade::Store(error)) => Err(error.into()),
    }
}

async fn page(app: &App, person: &Person, snapshot: &Snapshot, shown: &Shown<'_>) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    // What this replica has turned away a moment ago is on the page.
    hooks::round(app).await;
    let provider = app.providers().find(&snapshot.provider).cloned();
    let provider = provider.filter(|provider| !provider.webhooks().is_empty());
    let provider = provider.ok_or_else(|| Trouble::not_found(person))?;
    let endpoints = app.store.endpoints_of(person.org(), &snapshot.connector, now).await?;
    let mut ways = Vec::new();
    for way in provider.webhooks() {
        let facts = way.facts();
        let endpoint = endpoints.iter().find(|endpoint| endpoint.kind == facts.id);
        let made = match endpoint {
            Some(endpoint) => Some(full(app, endpoint, facts, now).await?),
            None => None,
        };
        let chosen = shown.kind == facts.id;
        let url = made.as_ref().and_then(|made| made.url.as_deref()).unwrap_or("the address");
        let secret = shown.secret.as_ref().filter(|_| chosen).map(ExposeSecret::expose_secret);
        let said = secret.unwrap_or("the one that was shown here when it was made");
        let step = |step: &&str| Step { words: step.replace("{url}", url).replace("{secret}", said) };
        ways.push(Way {
            id: facts.id,
            name: facts.name,
            steps: facts.steps.iter().map(step).collect(),
            secret_label: facts.secret_label,
            brings: matches!(facts.secret, SecretFrom::Provider | SecretFrom::Either | SecretFrom::Sender),
            makes: matches!(facts.secret, SecretFrom::Us | SecretFrom::Either),
            by_hand: secret.is_some()
                || (chosen && shown.problem.is_some())
                || made.as_ref().is_some_and(|made| made.needs_secret),
            secret: secret.map(str::to_owned),
            typed_problem: shown.problem.filter(|_| chosen).unwrap_or_default().to_owned(),
            body: facts.body,
            kept: subscriptions::is_kept(app, &snapshot.provider, way)
                .then(|| KeptSide::of(endpoint, provider.about().name, now)),
            made,
        });
    }
    let page = WebhookPage {
        id: snapshot.connector.to_string(),
        events: live::address(Some(&snapshot.connector), now),
        name: called::connector(app, snapshot),
        mark: Mark::of(app, &snapshot.provider),
        ways,
        did: shown.did,
    };
    let status = if shown.problem.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let title = format!("Webhook of {}", page.name);
    Ok(View::of(person, Here::Connectors, "pages/connectors/webhook.html", &title, &page).status(status).show(app))
}

async fn full(app: &App, endpoint: &Endpoint, facts: &WebhookFacts, now: DateTime<Utc>) -> Result<Full, StoreError> {
    let standing = Standing::of(app, endpoint, facts);
    let rejections = app.store.rejections(endpoint).await?;
    let mut notes = Vec::new();
    if let Some(limit) = facts.own_limit.filter(|_| manage::maybe_off(endpoint, facts)) {
        notes.push(format!(
            "After {} failures in a row, {}. It has met so many: look there whether it still is on.",
            limit.failures, limit.then
        ));
    }
    if unproven(&rejections, now).is_some() && endpoint.accepted_at.is_some_and(|at| now - at < NEWS) {
        // WR-06
        notes.push("Retries come without a signature, while new events are signed: nothing to do about it.".to_owned());
    }
    let line = |one: Rejection| {
        let said = words::turned_away(&one.reason);
        Line {
            code: one.reason,
            what: said.what,
            todo: said.todo,
            count: counted(one.count, "time"),
            first: Moment::new(one.first_at, now),
            last: Moment::new(one.last_at, now),
            samples: one
                .samples
                .iter()
                .map(|sample| Sample {
                    at: sample["at"].as_str().unwrap_or_default().to_owned(),
                    size: sample["size_bytes"].as_u64().unwrap_or_default(),
                    headers: serde_json::to_string_pretty(&sample["headers"]).unwrap_or_default(),
                })
                .collect(),
        }
    };
    Ok(Full {
        url: (!manage::by_app(endpoint, facts)).then(|| manage::address(app, endpoint)),
        badge: badge(standing),
        what: what(standing, facts),
        gone: standing == Standing::Gone,
        needs_secret: standing == Standing::NeedsSecret,
        first: Moment::maybe(endpoint.first_at, now),
        last: Moment::maybe(endpoint.accepted_at, now),
        previous: Moment::maybe(endpoint.previous_until, now),
        far: far(app, endpoint, now),
        notes,
        rejections: rejections.into_iter().map(line).collect(),
    })
}

/// What came lately without any proof of who sent it (WV-08).
fn unproven(rejections: &[Rejection], now: DateTime<Utc>) -> Option<&Rejection> {
    rejections.iter().find(|one| one.reason == "no_signature" && now - one.last_at < NEWS)
}

fn badge(standing: Standing) -> Badge {
    match standing {
        Standing::Active => (GOOD, "Takes deliveries"),
        Standing::Subscribing => (IDLE, "Being made"),
        Standing::NotSubscribed => (BAD, "Not made"),
        Standing::Waiting => (IDLE, "Nothing came yet"),
        Standing::Off => (IDLE, "Not received"),
        Standing::NeedsSecret => (WARN, "Needs its secret"),
        Standing::Failing => (WARN, "Turns deliveries away"),
        Standing::Gone => (BAD, "Stopped"),
    }
    .into()
}

fn what(standing: Standing, facts: &WebhookFacts) -> String {
    match standing {
        Standing::Active => "Events arrive.".to_owned(),
        // The provider's side says more.
        Standing::Subscribing | Standing::NotSubscribed => "Nothing arrives yet.".to_owned(),
        Standing::Waiting => "It is ready. The first delivery will show here.".to_owned(),
        Standing::Off => "Events are not received: the webhook was taken away there.".to_owned(),
        Standing::NeedsSecret => {
            format!("Bring the {} below; until then deliveries are told to come again.", facts.secret_label.to_lowercase())
        }
        Standing::Failing => "What arrives is turned away; the reasons stand below.".to_owned(),
        Standing::Gone => {
            "So much was turned away, for so long, that senders are told to stop (410). A reconnect lets it take deliveries \
             again, and so does the button below."
                .to_owned()
        }
    }
}

/// `41 of 500 genuine deliveries were turned away, over 2 hours of 1 day`.
fn far(app: &App, endpoint: &Endpoint, now: DateTime<Utc>) -> Option<String> {
    let since = endpoint.refused_since.filter(|_| endpoint.refused > 0)?;
    let threshold = app.config.webhooks.threshold();
    let over = span(now - since).unwrap_or_else(|| "some seconds".to_owned());
    let most = TimeDelta::from_std(threshold.span).ok().and_then(span).unwrap_or_default();
    Some(format!(
        "{} of {} genuine deliveries were turned away, over {over} of {most}: at both it says that it is gone",
        endpoint.refused, threshold.number
    ))
}
