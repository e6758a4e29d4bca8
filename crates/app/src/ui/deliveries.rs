//! What providers have sent, and what became of it. Bodies are for admins.
//!
//! - [`typed`]: a ticket as people name it.
//! - [`story`]: all that is known of one ticket; [`standing`]: how it stands; [`why`]: the one line on top that says so.

mod standing;
mod story;
mod typed;
mod why;

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use chrono::{DateTime, Utc};
use holdfast_core::{Role, webhook::Topic};
use holdfast_store::{Delivery, DeliveryFilter, DeliveryState, PassedOver, TicketOfRun, WhyNoRun};
use serde::{Deserialize, Serialize};

use super::{
    connectors::query,
    moment::Moment,
    parts::{Badge, Choice},
    person::Person,
    routes::{Needs, Routes},
    trouble::Trouble,
    view::{Here, View},
};
use crate::{
    app::App,
    called,
    hooks::manage,
    words::{BAD, GOOD, IDLE, WARN},
};

pub(crate) use typed::{LinkOf, NO_TICKET, TypedTicket};

/// Of a page.
const ROWS: u64 = 50;

pub(super) fn routes() -> Routes {
    Routes::new().get("/deliveries", Needs::SignedIn, list).get("/deliveries/{id}", Needs::SignedIn, show)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    connector: String,
    state: String,
    before: String,
    /// As somebody typed it.
    ticket: String,
}

#[derive(Serialize)]
struct DeliveriesPage {
    rows: Vec<Row>,
    /// Where each leads.
    states: Vec<Choice>,
    /// Of one connector alone: its id and name.
    connector: Option<Of>,
    /// The id of that one, or nothing.
    of: String,
    filtered: bool,
    first: bool,
    next: Option<String>,
}

#[derive(Serialize)]
struct Of {
    id: String,
    name: String,
}

/// A ticket, with the page of all that is known of it.
#[derive(Serialize)]
pub(super) struct TicketLink {
    words: String,
    /// `None`: its connector is gone.
    link: Option<String>,
}

impl TicketLink {
    pub(super) fn of(ticket: &TicketOfRun) -> Self {
        let link = || story_of(ticket.on.connector.as_str(), &ticket.on.ticket);
        Self { words: called::ticket(&ticket.on.ticket), link: (!ticket.gone).then(link) }
    }
}

/// Where all that is known of a ticket stands.
pub(super) fn story_of(connector: &str, ticket: &str) -> String {
    format!("/deliveries{}", query(&[("connector", connector), ("ticket", ticket)]))
}

#[derive(Serialize)]
struct Row {
    id: String,
    at: Moment,
    topic: String,
    kind: String,
    subject: Option<String>,
    /// The page of the ticket that it is about.
    story: Option<String>,
    connector: Of,
    provider: String,
    badge: Badge,
    detail: Option<String>,
    repeats: u64,
}

#[derive(Serialize)]
struct DeliveryPage {
    row: Row,
    settled: Option<Moment>,
    job: Option<String>,
    runs: Vec<Given>,
    /// Agents that it gave no run, and why.
    passed_over: Vec<Passed>,
    /// What told of the same change before.
    same_as: Option<String>,
    /// It is worked off, an agent could have waited for it, and none did.
    unheard: bool,
    size: u64,
    headers: String,
    /// For admins; `None`: it is forgotten.
    body: Option<String>,
    admin: bool,
}

/// A run that it gave to an agent.
#[derive(Serialize)]
struct Given {
    link: String,
    agent: String,
    badge: Badge,
    detail: Option<String>,
}

/// An agent that it did not set off.
#[derive(Serialize)]
struct Passed {
    id: String,
    name: String,
    why: &'static str,
}

impl From<&PassedOver> for Passed {
    fn from(passed: &PassedOver) -> Self {
        Self { id: passed.agent.to_string(), name: passed.name.clone(), why: why_not(passed.why) }
    }
}

/// Why an agent was not set off, after its name.
fn why_not(why: WhyNoRun) -> &'static str {
    match why {
        WhyNoRun::Paused => "was paused",
        WhyNoRun::OtherEvents => "waits for other events",
        WhyNoRun::BySchedule => "runs by its schedule, and looks for tickets itself",
        WhyNoRun::ByHand => "runs only by hand",
        WhyNoRun::OurOwn => "is not set off by what its own connector wrote",
        WhyNoRun::ToldBefore => "had a run for this change already",
    }
}

/// Whether it is about a ticket.
fn is_of_ticket(delivery: &Delivery) -> bool {
    Topic::parse(&delivery.topic).is_some_and(|topic| Topic::TICKETS.contains(&topic))
}

fn name_of(app: &App, delivery: &Delivery) -> String {
    called::named(app, &delivery.provider, &delivery.account, &delivery.connector_name)
}

fn badge(state: DeliveryState) -> Badge {
    match state {
        DeliveryState::Received => (IDLE, "Received"),
        DeliveryState::Parked => (WARN, "Waits for reconnect"),
        DeliveryState::Processed => (GOOD, "Processed"),
        DeliveryState::Failed => (BAD, "Failed"),
        DeliveryState::Unreadable => (BAD, "Not understood"),
    }
    .into()
}

fn row(app: &App, delivery: &Delivery, now: DateTime<Utc>) -> Row {
    let provider = app.provider_name(&delivery.provider).to_owned();
    Row {
        id: delivery.id.to_string(),
        at: Moment::new(delivery.received_at, now),
        topic: delivery.topic.clone(),
        kind: delivery.kind.clone(),
        subject: delivery.subject.as_deref().map(called::ticket),
        story: delivery
            .subject
            .as_deref()
            .filter(|_| is_of_ticket(delivery))
            .map(|ticket| story_of(delivery.connector.as_str(), ticket)),
        connector: Of { id: delivery.connector.to_string(), name: name_of(app, delivery) },
        provider,
        badge: badge(delivery.state),
        detail: delivery.detail.clone(),
        repeats: delivery.repeats,
    }
}

/// GET /deliveries
async fn list(State(app): State<Arc<App>>, person: Person, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let state = DeliveryState::parse(&asked.state);
    let connector = match asked.connector.as_str() {
        "" => None,
        id => {
            let found = app.store.find_connector(person.org(), id).await?;
            Some(found.ok_or_else(|| Trouble::not_found(&person))?.snapshot)
        }
    };
    if !asked.ticket.trim().is_empty() {
        return story::show(&app, &person, &asked, connector.as_ref()).await;
    }
    let of = connector.as_ref().map(|found| found.connector.clone());
    let filter = DeliveryFilter { connector: of, state, subject: None };
    let before = Some(asked.before.as_str()).filter(|before| before.starts_with("dlv_"));
    let found = app.store.deliveries(person.org(), &filter, before, ROWS).await?;
    let address = |state: &str, before: &str| {
        let parts = [("connector", asked.connector.as_str()), ("state", state), ("before", before)];
        format!("/deliveries{}", query(&parts))
    };
    let next = found.next_cursor.map(|cursor| address(&asked.state, &cursor));
    let choice = |of: Option<DeliveryState>| Choice {
        value: address(of.map_or("", DeliveryState::as_str), ""),
        word: of.map_or("All", |state| badge(state).word).to_owned(),
        chosen: of == state,
    };
    let page = DeliveriesPage {
        rows: found.data.iter().map(|delivery| row(&app, delivery, now)).collect(),
        states: std::iter::once(None).chain(DeliveryState::ALL.map(Some)).map(choice).collect(),
        filtered: connector.is_some() || state.is_some(),
        of: connector.as_ref().map(|found| found.connector.to_string()).unwrap_or_default(),
        connector: connector.map(|found| Of { id: found.connector.to_string(), name: called::connector(&app, &found) }),
        first: before.is_none(),
        next,
    };
    Ok(View::of(&person, Here::Deliveries, "pages/deliveries/list.html", "Deliveries", &page).show(&app))
}

/// GET /deliveries/{id}
async fn show(State(app): State<Arc<App>>, person: Person, Path(id): Path<String>) -> Result<Response, Trouble> {
    let found = app.store.find_delivery(person.org(), &id).await?;
    let delivery = found.ok_or_else(|| Trouble::not_found(&person))?;
    let now = app.seams.clock.now();
    let admin = person.may(Role::Admin);
    let body = if admin { app.store.delivery_body(person.org(), &delivery.id).await? } else { None };
    let given = app.store.runs_of_delivery(&delivery.id).await?;
    let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let page = DeliveryPage {
        settled: Moment::maybe(delivery.settled_at, now),
        job: delivery.job.as_ref().map(ToString::to_string),
        runs: given
            .into_iter()
            .map(|(run, agent)| Given {
                link: format!("/agents/{}/runs/{}", run.agent, run.id),
                badge: Badge::of_run(run.state),
                agent,
                detail: run.detail,
            })
            .collect(),
        passed_over: delivery.passed_over.iter().flatten().map(Passed::from).collect(),
        same_as: delivery.same_as.as_ref().map(ToString::to_string),
        unheard: delivery.state == DeliveryState::Processed && delivery.detail.is_none() && is_of_ticket(&delivery),
        size: delivery.size_bytes,
        headers: if admin { pretty(&delivery.headers) } else { String::new() },
        body: body.map(|body| pretty(&manage::shown_body(&body))),
        row: row(&app, &delivery, now),
        admin,
    };
    Ok(View::of(&person, Here::Deliveries, "pages/deliveries/show.html", "Delivery", &page).show(&app))
}
