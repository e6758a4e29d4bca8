//! Deleting an agent: what happens first, and its name typed.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_store::Agent;
use serde::{Deserialize, Serialize};

use super::find;
use crate::{
    agents::manage,
    app::App,
    ui::{
        form::Posted,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
};

#[derive(Serialize)]
struct DeletePage<'a> {
    id: String,
    name: &'a str,
    connectors: Vec<&'a str>,
    running: bool,
    typed: &'a str,
    problem: Option<&'static str>,
}

#[derive(Deserialize)]
pub(super) struct Sure {
    #[serde(default)]
    name: String,
}

fn page(app: &App, person: &Person, agent: &Agent, typed: &str, problem: Option<&'static str>) -> Response {
    let page = DeletePage {
        id: agent.id.to_string(),
        name: &agent.name,
        connectors: agent.bindings.iter().map(|binding| binding.name.as_str()).collect(),
        running: agent.last_run.as_ref().is_some_and(|run| !run.state.is_over()),
        typed,
        problem,
    };
    let status = if problem.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    View::of(person, Here::Agents, "pages/agents/delete.html", "Delete an agent", &page).status(status).show(app)
}

/// GET /agents/{id}/delete
pub(super) async fn ask(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    let agent = find(&app, &person, &id).await?;
    Ok(page(&app, &person, &agent, "", None))
}

/// POST /agents/{id}/delete
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(sure): Posted<Sure>,
) -> Result<Response, Trouble> {
    let agent = find(&app, &person, &id).await?;
    if sure.name.trim() != agent.name {
        return Ok(page(&app, &person, &agent, &sure.name, Some("That is not its name. Nothing was deleted.")));
    }
    let deleted = manage::delete(&app, person.org(), agent.id.as_str()).await;
    deleted.map_err(|problem| Trouble::from_problem(&person, &problem))?;
    Ok(Redirect::to("/agents?did=deleted").into_response())
}
