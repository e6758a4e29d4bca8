//! What people do to an endpoint.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use chrono::{DateTime, NaiveDateTime, Utc};
use holdfast_core::{EventId, id, ports::Changed};
use holdfast_store::{EventEndpoint, EventEndpointChange, Replay};
use serde::Deserialize;
use tracing::info;

use super::{HERE, Typed, show};
use crate::{
    app::App,
    endpoints::manage,
    ui::{
        form::{Nothing, Posted},
        person::Person,
        trouble::Trouble,
    },
};

/// Which events to send again.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Again {
    /// This one.
    event: String,
    /// Or all since then, in UTC, as a field for moments has it.
    since: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Rotate {
    /// `now`: the secret before is over at once.
    before: String,
}

fn back(id: &str, did: &str) -> Response {
    Redirect::to(&format!("{HERE}/{id}?did={did}")).into_response()
}

fn note(person: &Person, endpoint: &str, what: &str) {
    info!(user.id = person.user.id, endpoint.id = endpoint, "{} {what} event endpoint {endpoint}", person.user.id);
}

/// POST /settings/event-endpoints/{id}
pub(super) async fn change(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(typed): Posted<Typed>,
) -> Result<Response, Trouble> {
    let endpoint = show::find(&app, &person, &id).await?;
    let good = match typed.check(&app) {
        Ok(good) => good,
        Err(problems) => return show::with_problems(&app, &person, &endpoint, &typed, problems).await,
    };
    let change = EventEndpointChange {
        url: Some(&good.url),
        description: Some(&good.description),
        types: Some(&good.types),
        enabled: None,
    };
    alter(&app, &person, &id, &change).await?;
    note(&person, &id, "changed");
    Ok(back(&id, "changed"))
}

/// POST /settings/event-endpoints/{id}/enable
pub(super) async fn enable(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let change = EventEndpointChange { enabled: Some(true), ..EventEndpointChange::default() };
    alter(&app, &person, &id, &change).await?;
    note(&person, &id, "enabled");
    Ok(back(&id, "enabled"))
}

/// POST /settings/event-endpoints/{id}/disable
pub(super) async fn disable(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let change = EventEndpointChange { enabled: Some(false), ..EventEndpointChange::default() };
    alter(&app, &person, &id, &change).await?;
    note(&person, &id, "disabled");
    Ok(back(&id, "disabled"))
}

async fn alter(app: &App, person: &Person, id: &str, change: &EventEndpointChange<'_>) -> Result<(), Trouble> {
    let changed = app.store.change_event_endpoint(person.org(), id, change, app.seams.clock.now()).await?;
    changed.map(|_| ()).ok_or_else(|| Trouble::not_found(person))
}

/// POST /settings/event-endpoints/{id}/test
pub(super) async fn test(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let endpoint = enabled(&app, &person, &id).await?;
    app.store.test_event_endpoint(person.org(), &endpoint.id, None, app.seams.clock.now()).await?;
    Ok(back(&id, "tested"))
}

/// POST /settings/event-endpoints/{id}/rotate. Answers with the secret: it cannot be shown after a redirect.
pub(super) async fn rotate(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(rotate): Posted<Rotate>,
) -> Result<Response, Trouble> {
    let rotated = manage::rotate(&app, person.org(), &id, rotate.before == "now", None).await?;
    let (endpoint, _) = rotated.ok_or_else(|| Trouble::not_found(&person))?;
    note(&person, &id, "changed the secret of");
    show::with_secret(&app, &person, &endpoint, "The new secret is made").await
}

/// POST /settings/event-endpoints/{id}/replay
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(again): Posted<Again>,
) -> Result<Response, Trouble> {
    let endpoint = enabled(&app, &person, &id).await?;
    let event = EventId::from(again.event.as_str());
    let which = if again.event.is_empty() {
        Replay::Since(moment(&again.since).ok_or_else(|| no_moment(&person))?)
    } else {
        Replay::One(&event)
    };
    let (clock, random) = (app.seams.clock.as_ref(), app.seams.random.as_ref());
    let mut count = 0;
    let (mut which, wish) = (which, id::new("again", clock, random));
    loop {
        let replayed = app.store.replay_events(&endpoint, which, &wish, clock.now()).await?;
        count += replayed.count;
        match replayed.next_since {
            // At one moment there may be more than fit in one go; the next go would be the same.
            Some(next) if !matches!(which, Replay::Since(since) if since == next) => which = Replay::Since(next),
            _ => break,
        }
    }
    note(&person, &id, "sent events again to");
    Ok(Redirect::to(&format!("{HERE}/{id}?did=replayed&count={count}")).into_response())
}

/// POST /settings/event-endpoints/{id}/delete
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    if app.store.delete_event_endpoint(person.org(), &id, app.seams.clock.now()).await? == Changed::No {
        return Err(Trouble::not_found(&person));
    }
    note(&person, &id, "deleted");
    Ok(Redirect::to(&format!("{HERE}?done=deleted")).into_response())
}

async fn enabled(app: &App, person: &Person, id: &str) -> Result<EventEndpoint, Trouble> {
    let endpoint = show::find(app, person, id).await?;
    if endpoint.enabled {
        return Ok(endpoint);
    }
    let way_on = "Enable the endpoint first: nothing is sent to one that is disabled.";
    Err(Trouble::told(person, StatusCode::CONFLICT, "This endpoint is disabled", way_on))
}

fn no_moment(person: &Person) -> Trouble {
    let way_on = "Go back and enter day and time in UTC, such as 2026-11-30T10:00.";
    Trouble::told(person, StatusCode::UNPROCESSABLE_ENTITY, "This is no moment", way_on)
}

/// As browsers send it, with or without seconds.
fn moment(typed: &str) -> Option<DateTime<Utc>> {
    let forms = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];
    let read = forms.into_iter().find_map(|form| NaiveDateTime::parse_from_str(typed.trim(), form).ok());
    read.map(|moment| moment.and_utc())
}
