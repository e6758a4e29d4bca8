//! Pause, resume, run.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;

use super::find;
use crate::{
    agents::manage::{self, Wanted},
    app::App,
    ui::{
        deliveries::TypedTicket,
        form::{Nothing, Posted},
        person::Person,
        trouble::Trouble,
    },
};

#[derive(Deserialize)]
pub(super) struct How {
    /// `yes`: nothing is changed at the helpdesk.
    #[serde(default)]
    dry: String,
    /// The ticket that it is to be about.
    ticket: Option<String>,
    /// On which of its connectors.
    role: Option<String>,
}

/// POST /agents/{id}/run. A double click leads twice to the same run.
pub(super) async fn run(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(how): Posted<How>,
) -> Result<Response, Trouble> {
    let agent = find(&app, &person, &id).await?;
    let typed = how.ticket.as_deref();
    // As people name tickets: `#14`, or a link.
    let read = typed.and_then(TypedTicket::read).map(|read| read.ticket);
    let wanted = Wanted { dry: how.dry == "yes", ticket: read.as_deref().or(typed), role: how.role.as_deref() };
    let asked = manage::run(&app, person.org(), agent.id.as_str(), &person.actor(), wanted, false).await;
    let asked = asked.map_err(|problem| {
        Trouble::from_problem(&person, &problem).leading_to("Back to the agent", format!("/agents/{}", agent.id))
    })?;
    Ok(Redirect::to(&format!("/agents/{}/runs/{}", agent.id, asked.run)).into_response())
}

/// POST /agents/{id}/pause
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let agent = find(&app, &person, &id).await?;
    let paused = manage::pause(&app, person.org(), agent.id.as_str(), &person.actor()).await;
    paused.map_err(|problem| Trouble::from_problem(&person, &problem))?;
    Ok(Redirect::to(&format!("/agents/{}?did=paused", agent.id)).into_response())
}

/// POST /agents/{id}/resume
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let agent = find(&app, &person, &id).await?;
    let resumed = manage::resume(&app, person.org(), agent.id.as_str()).await;
    resumed.map_err(|problem| Trouble::from_problem(&person, &problem))?;
    Ok(Redirect::to(&format!("/agents/{}?did=resumed", agent.id)).into_response())
}
