//! Agents: samples, make, list, show, change, remove, pause, resume, run, runs.

mod view;

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Body, List, OptionalBody, Path, Query,
    caller::Caller,
    connectors::{PageQuery, bad_cursor, limit},
};
use crate::{
    agents::{
        manage::{self, AgentChangeBody, NewAgentBody, Wanted},
        samples::{self, Sample},
    },
    app::App,
    problem::Problem,
};

pub(super) use view::AgentBriefBody;
use view::{AgentBody, RunBody, RunWithSteps};

/// How to run.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskBody {
    /// Reads are done; writes are shown and not done.
    #[serde(default)]
    dry_run: bool,
    /// The ticket that it is to be about: `event.ticket_id` for the playbook. An agent that waits for events, or whose
    /// playbook reads `event`, needs one.
    ticket_id: Option<String>,
    /// On which of the agent's connectors that ticket is; not needed where one of them alone has tickets.
    role: Option<String>,
}

/// Playbooks to begin with.
#[utoipa::path(get, path = "/agent-samples", tag = "agents", responses((status = 200, body = List<Sample>)))]
pub(super) async fn list_samples(caller: Caller) -> Result<Json<List<&'static Sample>>, Problem> {
    caller.needs("agents")?;
    Ok(Json(List { data: samples::all().iter().collect(), next_cursor: None }))
}

/// Makes an agent, from a runner or a sample. What it is bound to and does not work stops it at once.
#[utoipa::path(
    post, path = "/agents", tag = "agents", request_body = NewAgentBody,
    responses((status = 201, body = AgentBody), (status = 422, body = Problem))
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(body): Body<NewAgentBody>,
) -> Result<Response, Problem> {
    caller.needs("agents")?;
    let agent = manage::create(&app, caller.org(), &caller.actor(), None, body).await?;
    let location = HeaderValue::try_from(format!("/api/v1/agents/{}", agent.id)).expect("an id is a valid header");
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(AgentBody::new(&app, &agent))).into_response())
}

/// The org's agents, oldest first.
#[utoipa::path(
    get, path = "/agents", tag = "agents", params(PageQuery), responses((status = 200, body = List<AgentBody>))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<List<AgentBody>>, Problem> {
    caller.needs("agents")?;
    if query.cursor.as_deref().is_some_and(|cursor| !cursor.starts_with("agent_")) {
        return Err(bad_cursor());
    }
    let page = app.store.agents(caller.org(), query.cursor.as_deref(), limit(query.limit)?).await?;
    let data = page.data.iter().map(|agent| AgentBody::new(&app, agent)).collect();
    Ok(Json(List { data, next_cursor: page.next_cursor }))
}

/// One agent.
#[utoipa::path(
    get, path = "/agents/{id}", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = AgentBody), (status = 404, body = Problem))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<AgentBody>, Problem> {
    caller.needs("agents")?;
    Ok(Json(AgentBody::new(&app, &manage::find(&app, caller.org(), &id).await?)))
}

/// Changes name, runner, connectors or trigger. Runs that are under way see it at their next step.
#[utoipa::path(
    patch, path = "/agents/{id}", tag = "agents", params(("id" = String, Path)), request_body = AgentChangeBody,
    responses((status = 200, body = AgentBody), (status = 404, body = Problem), (status = 422, body = Problem))
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Body(body): Body<AgentChangeBody>,
) -> Result<Json<AgentBody>, Problem> {
    caller.needs("agents")?;
    Ok(Json(AgentBody::new(&app, &manage::change(&app, caller.org(), &id, body).await?)))
}

/// Removes it with its runs. One that is under way ends at its next step.
#[utoipa::path(
    delete, path = "/agents/{id}", tag = "agents", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem))
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.needs("agents")?;
    manage::delete(&app, caller.org(), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses it: it does not run and its calls are refused, until somebody resumes it. A run ends at its next step.
#[utoipa::path(
    post, path = "/agents/{id}/pause", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = AgentBody), (status = 404, body = Problem))
)]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<AgentBody>, Problem> {
    caller.needs("agents")?;
    Ok(Json(AgentBody::new(&app, &manage::pause(&app, caller.org(), &id, &caller.actor()).await?)))
}

/// Lets a paused one go on. What stops it still does.
#[utoipa::path(
    post, path = "/agents/{id}/resume", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = AgentBody), (status = 404, body = Problem))
)]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<AgentBody>, Problem> {
    caller.needs("agents")?;
    Ok(Json(AgentBody::new(&app, &manage::resume(&app, caller.org(), &id).await?)))
}

/// Asks for a run; it begins as soon as a replica has room.
#[utoipa::path(
    post, path = "/agents/{id}/run", tag = "agents", params(("id" = String, Path)), request_body = Option<AskBody>,
    responses(
        (status = 202, body = RunBody),
        (status = 404, body = Problem),
        (status = 409, body = Problem, description = "`agent_deactivated`, `agent_paused` or `run_under_way`"),
    )
)]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    OptionalBody(body): OptionalBody<AskBody>,
) -> Result<Response, Problem> {
    caller.needs("agents")?;
    let may_connect = caller.has("connectors:write");
    let wanted = Wanted { dry: body.dry_run, ticket: body.ticket_id.as_deref(), role: body.role.as_deref() };
    let asked = manage::run(&app, caller.org(), &id, &caller.actor(), wanted, may_connect).await?;
    let manage::Asked { agent, run, new } = asked;
    if !new {
        let detail = format!("{} is running already: {run}. An agent runs once at a time.", agent.name);
        return Err(Problem::new(StatusCode::CONFLICT, "run_under_way", detail));
    }
    let found = app.store.find_run(caller.org(), agent.id.as_str(), run.as_str()).await?;
    let found = found.ok_or_else(|| Problem::not_found("run"))?;
    let location = format!("/api/v1/agents/{}/runs/{run}", agent.id);
    let location = HeaderValue::try_from(location).expect("an id is a valid header");
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(RunBody::new(&app, &found))).into_response())
}

/// Its runs, newest first; the oldest ones are forgotten.
#[utoipa::path(
    get, path = "/agents/{id}/runs", tag = "agents", params(("id" = String, Path), PageQuery),
    responses((status = 200, body = List<RunBody>), (status = 404, body = Problem))
)]
pub(super) async fn runs(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<List<RunBody>>, Problem> {
    caller.needs("agents")?;
    let agent = manage::find(&app, caller.org(), &id).await?;
    if query.cursor.as_deref().is_some_and(|cursor| !cursor.starts_with("run_")) {
        return Err(bad_cursor());
    }
    let page = app.store.runs(caller.org(), &agent.id, query.cursor.as_deref(), limit(query.limit)?).await?;
    let data = page.data.iter().map(|run| RunBody::new(&app, run)).collect();
    Ok(Json(List { data, next_cursor: page.next_cursor }))
}

/// One run with its steps. What looks like a credential is masked, and what is long is cut.
#[utoipa::path(
    get, path = "/agents/{id}/runs/{run}", tag = "agents", params(("id" = String, Path), ("run" = String, Path)),
    responses((status = 200, body = RunWithSteps), (status = 404, body = Problem))
)]
pub(super) async fn show_run(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, run)): Path<(String, String)>,
) -> Result<Json<RunWithSteps>, Problem> {
    caller.needs("agents")?;
    let run = app.store.find_run(caller.org(), &id, &run).await?.ok_or_else(|| Problem::not_found("run"))?;
    let steps = app.store.run_steps(caller.org(), &run.id).await?;
    Ok(Json(RunWithSteps::new(&app, &run, steps)))
}
