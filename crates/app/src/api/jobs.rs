//! Jobs: list, show, try again, discard.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use chrono::{DateTime, Utc};
use holdfast_core::job::{Kind, State as JobState};
use holdfast_store::{ByHand, Did, Job, JobAttempt, JobFilter};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Body, List, Path, Query,
    caller::Caller,
    connectors::{bad_cursor, limit},
};
use crate::{app::App, jobs::refused_by_hand, problem::Problem};

/// Attempts that are shown of one job.
const MOST_ATTEMPTS: u64 = 200;

/// Which jobs.
#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// `event`, `sync`, `mail`, `deliver`, `agent_run` or `subscription`.
    kind: Option<String>,
    /// `ready`, `waiting`, `running`, `parked`, `done`, `dead` or `discarded`.
    state: Option<String>,
    /// Of this connector, by its id.
    connector: Option<String>,
    /// From the page before.
    cursor: Option<String>,
    /// At most 200; default 50.
    limit: Option<u64>,
}

/// Which jobs to change; what is left out means all.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FilterBody {
    kind: Option<String>,
    state: Option<String>,
    connector: Option<String>,
}

/// How many jobs were changed.
#[derive(Serialize, ToSchema)]
pub(super) struct ChangedBody {
    changed: usize,
}

/// A job.
#[derive(Serialize, ToSchema)]
pub(super) struct JobBody {
    id: String,
    /// What it does.
    kind: &'static str,
    /// What it is about: an id, as a rule.
    subject: String,
    /// Names the work: the same key is never two jobs.
    key: String,
    /// The connector that it works with, or tells of.
    connector_id: Option<String>,
    /// `parked`: it waits until its connector is reconnected, at no cost. `waiting`: its time has not come.
    state: &'static str,
    /// Not before.
    due_at: DateTime<Utc>,
    /// Attempts that count, the one under way among them.
    attempts: u32,
    created_at: DateTime<Utc>,
    /// When its last attempt began.
    started_at: Option<DateTime<Utc>>,
    /// Since when it waits for its connector.
    parked_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    /// Why it is where it is, where something went wrong.
    code: Option<String>,
    /// The same for people.
    detail: Option<String>,
    /// Who tried it again, or discarded it, last.
    by: Option<String>,
}

/// A job with its attempts.
#[derive(Serialize, ToSchema)]
pub(super) struct JobWithAttempts {
    #[serde(flatten)]
    job: JobBody,
    /// Those that are over, the newest first; at most 200.
    attempt_list: Vec<AttemptBody>,
}

/// One attempt that is over.
#[derive(Serialize, ToSchema)]
struct AttemptBody {
    number: i64,
    /// `done`, `failed`, `needs_reconnect`, `waits` for something else, `given_back` by a replica that stopped, or `lost` with its replica. The two
    /// before the last count for nothing.
    outcome: String,
    started_at: DateTime<Utc>,
    ended_at: DateTime<Utc>,
    code: Option<String>,
    detail: Option<String>,
}

impl From<Job> for JobBody {
    fn from(job: Job) -> Self {
        let (code, detail) = job.fault.map(|fault| (fault.code, fault.detail)).unzip();
        Self {
            id: job.id.to_string(),
            kind: job.kind.as_str(),
            subject: job.subject,
            key: job.key,
            connector_id: job.connector.map(|id| id.to_string()),
            state: job.state.as_str(),
            due_at: job.due_at,
            attempts: job.attempts,
            created_at: job.created_at,
            started_at: job.started_at,
            parked_at: job.parked_at,
            ended_at: job.ended_at,
            code,
            detail,
            by: job.actor,
        }
    }
}

impl From<JobAttempt> for AttemptBody {
    fn from(attempt: JobAttempt) -> Self {
        let (code, detail) = attempt.fault.map(|fault| (fault.code, fault.detail)).unzip();
        Self {
            number: attempt.number,
            outcome: attempt.outcome,
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            code,
            detail,
        }
    }
}

fn filter(kind: Option<&str>, state: Option<&str>, connector: Option<String>) -> Result<JobFilter, Problem> {
    let words = |all: Vec<&str>| format!("Allowed is {}.", all.join(", "));
    let kind = kind
        .map(|word| {
            Kind::parse(word).ok_or_else(|| Problem::invalid("kind", words(Kind::ALL.map(Kind::as_str).to_vec())))
        })
        .transpose()?;
    let state = state
        .map(|word| {
            let all = || words(JobState::ALL.map(JobState::as_str).to_vec());
            JobState::parse(word).ok_or_else(|| Problem::invalid("state", all()))
        })
        .transpose()?;
    Ok(JobFilter { kind, state, connector: connector.map(Into::into) })
}

/// The org's jobs, newest first. What was done is forgotten after some days.
#[utoipa::path(
    get, path = "/jobs", tag = "jobs", params(ListQuery),
    responses((status = 200, body = List<JobBody>), (status = 422, body = Problem))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<List<JobBody>>, Problem> {
    caller.needs("jobs")?;
    if query.cursor.as_deref().is_some_and(|cursor| !cursor.starts_with("job_")) {
        return Err(bad_cursor());
    }
    let filter = filter(query.kind.as_deref(), query.state.as_deref(), query.connector)?;
    let page = app.store.jobs(caller.org(), &filter, query.cursor.as_deref(), limit(query.limit)?).await?;
    Ok(Json(List { data: page.data.into_iter().map(JobBody::from).collect(), next_cursor: page.next_cursor }))
}

/// One job with its attempts.
#[utoipa::path(
    get, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = JobWithAttempts), (status = 404, body = Problem))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<JobWithAttempts>, Problem> {
    caller.needs("jobs")?;
    let job = app.store.find_job(caller.org(), &id).await?.ok_or_else(|| Problem::not_found("job"))?;
    let attempts = app.store.job_attempts(&job.id, MOST_ATTEMPTS).await?;
    Ok(Json(JobWithAttempts { job: job.into(), attempt_list: attempts.into_iter().map(AttemptBody::from).collect() }))
}

/// Tries it again now, with all attempts: what is dead or discarded, or rests after a failure.
#[utoipa::path(
    post, path = "/jobs/{id}/retry", tag = "jobs", params(("id" = String, Path)),
    responses(
        (status = 200, body = JobBody), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "`job_state`: it runs, is done or waits; nothing was changed"),
    )
)]
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<JobBody>, Problem> {
    one(&app, &caller, &id, ByHand::Retry).await
}

/// Never does it: what has not begun, or is dead. It can be tried again later.
#[utoipa::path(
    post, path = "/jobs/{id}/discard", tag = "jobs", params(("id" = String, Path)),
    responses(
        (status = 200, body = JobBody), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "`job_state`: it runs or is over; nothing was changed"),
    )
)]
pub(super) async fn discard(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<JobBody>, Problem> {
    one(&app, &caller, &id, ByHand::Discard).await
}

/// Tries all again that the filter means and that can be: a filter of nothing means every job of the org.
#[utoipa::path(
    post, path = "/jobs/retry", tag = "jobs", request_body = FilterBody,
    responses((status = 200, body = ChangedBody), (status = 422, body = Problem))
)]
pub(super) async fn retry_all(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(body): Body<FilterBody>,
) -> Result<Json<ChangedBody>, Problem> {
    all(&app, &caller, body, ByHand::Retry).await
}

/// Discards all that the filter means and that can be: a filter of nothing means every job of the org.
#[utoipa::path(
    post, path = "/jobs/discard", tag = "jobs", request_body = FilterBody,
    responses((status = 200, body = ChangedBody), (status = 422, body = Problem))
)]
pub(super) async fn discard_all(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(body): Body<FilterBody>,
) -> Result<Json<ChangedBody>, Problem> {
    all(&app, &caller, body, ByHand::Discard).await
}

async fn one(app: &App, caller: &Caller, id: &str, wish: ByHand) -> Result<Json<JobBody>, Problem> {
    caller.needs("jobs")?;
    match app.store.handle_job(caller.org(), id, wish, &caller.actor(), app.seams.clock.now()).await? {
        Did::Yes => {}
        Did::No(state) => return Err(Problem::new(StatusCode::CONFLICT, "job_state", refused_by_hand(wish, state))),
        Did::NoJob => return Err(Problem::not_found("job")),
    }
    let job = app.store.find_job(caller.org(), id).await?.ok_or_else(|| Problem::not_found("job"))?;
    Ok(Json(job.into()))
}

async fn all(app: &App, caller: &Caller, body: FilterBody, wish: ByHand) -> Result<Json<ChangedBody>, Problem> {
    caller.needs("jobs")?;
    let filter = filter(body.kind.as_deref(), body.state.as_deref(), body.connector)?;
    let now = app.seams.clock.now();
    let changed = app.store.handle_jobs(caller.org(), &filter, wish, &caller.actor(), now).await?;
    Ok(Json(ChangedBody { changed }))
}
