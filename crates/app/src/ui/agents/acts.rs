//! Pause, resume, run.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use holdfast_store::Agent;
use serde::Deserialize;
use url::Url;

use super::find;
use crate::{
    agents::manage::{self, Wanted, with_tickets},
    app::App,
    called,
    problem::Problem,
    ui::{
        deliveries::{LinkOf, NO_TICKET, TypedTicket},
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
    let back = |problem: Problem| {
        Trouble::from_problem(&person, &problem).leading_to("Back to the agent", format!("/agents/{}", agent.id))
    };
    // As people name tickets: `#14`, or a link.
    let read = typed.and_then(TypedTicket::read);
    if read.is_none() && typed.is_some_and(|typed| typed.contains('/')) {
        return Err(back(Problem::invalid("ticket", NO_TICKET)));
    }
    let role = match read.as_ref().and_then(|read| read.link.as_ref()) {
        Some(link) => role_of(&app, &agent, link, how.role.as_deref()).map_err(back)?,
        None => how.role.as_deref(),
    };
    let ticket = read.as_ref().map(|read| read.ticket.as_str()).or(typed);
    let wanted = Wanted { dry: how.dry == "yes", ticket, role };
    let asked =
        manage::run(&app, person.org(), agent.id.as_str(), &person.actor(), wanted, false).await.map_err(back)?;
    Ok(Redirect::to(&format!("/agents/{}/runs/{}", agent.id, asked.run)).into_response())
}

/// Under which role the agent is bound to the helpdesk of a link; the one that was chosen, where that is one of them.
/// `None`: the link does not say which of several.
fn role_of<'a>(app: &App, agent: &'a Agent, link: &Url, chosen: Option<&str>) -> Result<Option<&'a str>, Problem> {
    let of = LinkOf::read(app, link);
    let all = with_tickets(app, agent);
    let meant: Vec<_> = all.iter().filter(|binding| of.is(&binding.provider, &binding.account)).collect();
    if let Some(chosen) = meant.iter().find(|binding| Some(binding.role.as_str()) == chosen) {
        return Ok(Some(chosen.role.as_str()));
    }
    if let [first, others @ ..] = meant.as_slice() {
        let one = others.iter().all(|other| other.connector == first.connector);
        return Ok(one.then_some(first.role.as_str()));
    }
    let of: Vec<_> = all.iter().map(|one| called::account(app, &one.provider, &one.account)).collect();
    let host = link.host_str().unwrap_or_default();
    let detail = format!(
        "That link is of {host}, and {} works on {}. Paste a link from there, or type the ticket's number.",
        agent.name,
        if of.is_empty() { "no helpdesk".to_owned() } else { of.join(", ") },
    );
    Err(Problem::invalid("ticket", detail))
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
