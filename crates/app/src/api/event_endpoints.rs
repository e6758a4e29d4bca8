//! Where an org is told of events: made, changed, tried, and told once more.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use holdfast_core::{EventId, id, ports::Changed};
use holdfast_store::{EventAttempt, EventEndpoint, EventEndpointChange, MadeEventEndpoint, Replay, Tested};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Body, List, OptionalBody, Path, Query,
    caller::Caller,
    connectors::{bad_cursor, limit},
    tools::{REPLAYED, idempotency_key},
};
use crate::{
    app::App,
    endpoints::manage::{self, Standing},
    problem::Problem,
};

/// An endpoint, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EndpointBody {
    id: String,
    url: String,
    description: String,
    /// Which types; empty: all, also those that come later.
    types: Vec<&'static str>,
    /// Whether events are sent there.
    enabled: bool,
    /// `active`, `failing` (the last attempt failed), or why it is not enabled: `gone` (it answered 410), `given_up` (every
    /// attempt has failed for too long) or `disabled` (by hand).
    status: &'static str,
    /// When an event was taken last.
    delivered_at: Option<DateTime<Utc>>,
    /// Since when every attempt has failed.
    failing_since: Option<DateTime<Utc>>,
    /// Attempts that failed since then.
    failures: u64,
    /// Since when it is not enabled.
    disabled_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    /// When its secret was made.
    secret_at: DateTime<Utc>,
    /// Until when events are signed with the secret before too.
    previous_secret_until: Option<DateTime<Utc>>,
}

/// An endpoint with its secret, which is shown this once.
#[derive(Serialize, ToSchema)]
pub(super) struct MadeEndpointBody {
    #[serde(flatten)]
    endpoint: EndpointBody,
    /// What events are signed with: `whsec_` and base64.
    secret: String,
}

/// An endpoint to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewEndpointBody {
    /// https, at a public address.
    url: String,
    /// At most 200 characters.
    #[serde(default)]
    description: String,
    /// Which types; left out or empty: all.
    #[serde(default)]
    types: Vec<String>,
}

/// What to change; what is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EndpointChangeBody {
    url: Option<String>,
    description: Option<String>,
    /// Empty: all.
    types: Option<Vec<String>>,
    /// `true` also forgets that it has failed. What it missed can be sent again.
    enabled: Option<bool>,
}

/// How the secret is changed.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RotateBody {
    /// Whether the secret before is over at once; else events are signed with both for a while.
    #[serde(default)]
    at_once: bool,
}

/// A test that is on its way.
#[derive(Serialize, ToSchema)]
pub(super) struct TestSentBody {
    event_id: String,
}

/// Which events to send again: one of the two.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayBody {
    /// This one, whatever types the endpoint has chosen.
    event_id: Option<String>,
    /// Those of its types that happened since, the oldest first, at most 1000.
    since: Option<DateTime<Utc>>,
}

/// How many are on their way again.
#[derive(Serialize, ToSchema)]
pub(super) struct ReplayedBody {
    count: usize,
    /// There are more: ask again with this as `since`. Null: there are not.
    next_since: Option<DateTime<Utc>>,
}

/// Which attempts.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AttemptsQuery {
    /// From the page before.
    cursor: Option<String>,
    /// At most 200; default 50.
    limit: Option<u64>,
}

/// An attempt to bring an event to the endpoint.
#[derive(Serialize, ToSchema)]
pub(super) struct EventAttemptBody {
    id: String,
    /// The same in every attempt: header `webhook-id`.
    event_id: String,
    #[serde(rename = "type")]
    kind: String,
    /// Whether it was taken.
    delivered: bool,
    /// What was answered; null: nothing.
    status: Option<u16>,
    /// Why it was not taken.
    detail: Option<String>,
    /// Which attempt of its job, from 1.
    attempt: u64,
    /// What sent it; see `/jobs/{id}`.
    job_id: String,
    at: DateTime<Utc>,
    duration_ms: u64,
}

impl From<&EventEndpoint> for EndpointBody {
    fn from(endpoint: &EventEndpoint) -> Self {
        Self {
            id: endpoint.id.to_string(),
            url: endpoint.url.clone(),
            description: endpoint.description.clone(),
            types: endpoint.types.iter().map(|kind| kind.as_str()).collect(),
            enabled: endpoint.enabled,
            status: Standing::of(endpoint).as_str(),
            delivered_at: endpoint.delivered_at,
            failing_since: endpoint.failing_since,
            failures: endpoint.failures,
            disabled_at: endpoint.disabled_at,
            created_at: endpoint.created_at,
            secret_at: endpoint.secret_at,
            previous_secret_until: endpoint.previous_until,
        }
    }
}

impl MadeEndpointBody {
    fn of(endpoint: &EventEndpoint) -> Self {
        let secret = endpoint.secrets.first().map(|secret| secret.expose_secret().to_owned()).unwrap_or_default();
        Self { endpoint: endpoint.into(), secret }
    }
}

impl From<EventAttempt> for EventAttemptBody {
    fn from(attempt: EventAttempt) -> Self {
        Self {
            id: attempt.id,
            event_id: attempt.event.to_string(),
            kind: attempt.kind,
            delivered: attempt.fault.is_none(),
            status: attempt.status,
            detail: attempt.fault,
            attempt: attempt.number,
            job_id: attempt.job.to_string(),
            at: attempt.at,
            duration_ms: u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// The org's endpoints, oldest first; there are at most 50.
#[utoipa::path(get, path = "/event-endpoints", tag = "events", responses((status = 200, body = List<EndpointBody>)))]
pub(super) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<List<EndpointBody>>, Problem> {
    caller.needs("admin")?;
    let all = app.store.event_endpoints(caller.org(), app.seams.clock.now()).await?;
    Ok(Json(List { data: all.iter().map(EndpointBody::from).collect(), next_cursor: None }))
}

/// Makes an endpoint. The answer has its secret, this once.
#[utoipa::path(
    post, path = "/event-endpoints", tag = "events", request_body = NewEndpointBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key makes one endpoint")),
    responses(
        (status = 201, body = MadeEndpointBody),
        (status = 409, body = Problem, description = "`too_many_endpoints`"),
        (status = 422, body = Problem)
    )
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Body(body): Body<NewEndpointBody>,
) -> Result<Response, Problem> {
    caller.needs("admin")?;
    let wish = idempotency_key(None, &headers)?;
    let url = manage::url(&app, &body.url).map_err(|why| Problem::invalid("url", why))?;
    let description = manage::description(&body.description).map_err(|why| Problem::invalid("description", why))?;
    let types = manage::types(&body.types).map_err(|why| Problem::invalid("types", why))?;
    match manage::make(&app, caller.org(), &url, description, &types, wish.as_deref()).await? {
        MadeEventEndpoint::New(made) => Ok(shown(StatusCode::CREATED, MadeEndpointBody::of(&made), false)),
        MadeEventEndpoint::Again(made) if made.url == url && made.description == description && made.types == types => {
            Ok(shown(StatusCode::CREATED, MadeEndpointBody::of(&made), true))
        }
        MadeEventEndpoint::Again(_) => {
            let detail = "This key was used for another endpoint, or that one was changed since. Take a new key.";
            Err(Problem::invalid("idempotency_key", detail))
        }
        MadeEventEndpoint::TooMany => {
            let detail = "An organisation has at most 50 endpoints. Delete one that is not needed.";
            Err(Problem::new(StatusCode::CONFLICT, "too_many_endpoints", detail))
        }
    }
}

/// One endpoint.
#[utoipa::path(
    get, path = "/event-endpoints/{id}", tag = "events", params(("id" = String, Path)),
    responses((status = 200, body = EndpointBody), (status = 404, body = Problem))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<EndpointBody>, Problem> {
    Ok(Json(EndpointBody::from(&find(&app, &caller, &id).await?)))
}

/// Changes an endpoint.
#[utoipa::path(
    patch, path = "/event-endpoints/{id}", tag = "events", params(("id" = String, Path)),
    request_body = EndpointChangeBody,
    responses((status = 200, body = EndpointBody), (status = 404, body = Problem), (status = 422, body = Problem))
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Body(body): Body<EndpointChangeBody>,
) -> Result<Json<EndpointBody>, Problem> {
    caller.needs("admin")?;
    let url = body.url.map(|url| manage::url(&app, &url)).transpose().map_err(|why| Problem::invalid("url", why))?;
    let description = body.description.as_deref().map(manage::description).transpose();
    let types = body.types.as_deref().map(manage::types).transpose().map_err(|why| Problem::invalid("types", why))?;
    let change = EventEndpointChange {
        url: url.as_deref(),
        description: description.map_err(|why| Problem::invalid("description", why))?,
        types: types.as_deref(),
        enabled: body.enabled,
    };
    let changed = app.store.change_event_endpoint(caller.org(), &id, &change, app.seams.clock.now()).await?;
    Ok(Json(EndpointBody::from(&changed.ok_or_else(unknown)?)))
}

/// Deletes an endpoint with its attempts. What was not delivered yet never is.
#[utoipa::path(
    delete, path = "/event-endpoints/{id}", tag = "events", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem))
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.needs("admin")?;
    match app.store.delete_event_endpoint(caller.org(), &id, app.seams.clock.now()).await? {
        Changed::Yes => Ok(StatusCode::NO_CONTENT),
        Changed::No => Err(unknown()),
    }
}

/// Gives an endpoint another secret. The answer has it, this once; until `previous_secret_until` events are signed with both.
#[utoipa::path(
    post, path = "/event-endpoints/{id}/rotate-secret", tag = "events", request_body = RotateBody,
    params(
        ("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key makes one secret")
    ),
    responses((status = 200, body = MadeEndpointBody), (status = 404, body = Problem))
)]
pub(super) async fn rotate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    OptionalBody(body): OptionalBody<RotateBody>,
) -> Result<Response, Problem> {
    caller.needs("admin")?;
    let wish = idempotency_key(None, &headers)?;
    let rotated = manage::rotate(&app, caller.org(), &id, body.at_once, wish.as_deref()).await?;
    let (endpoint, changed) = rotated.ok_or_else(unknown)?;
    Ok(shown(StatusCode::OK, MadeEndpointBody::of(&endpoint), changed == Changed::No))
}

/// Sends an event of type `endpoint.test` there, whatever types it has chosen. How that went, the attempts say.
#[utoipa::path(
    post, path = "/event-endpoints/{id}/test", tag = "events",
    params(
        ("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key sends one test")
    ),
    responses(
        (status = 202, body = TestSentBody), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "`endpoint_disabled`")
    )
)]
pub(super) async fn test(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let endpoint = enabled(&app, &caller, &id).await?;
    let wish = idempotency_key(None, &headers)?;
    let at = app.seams.clock.now();
    let (event, again) = match app.store.test_event_endpoint(caller.org(), &endpoint.id, wish.as_deref(), at).await? {
        Tested::Sent(event) => (event, false),
        Tested::Already(event) => (event, true),
    };
    Ok(shown(StatusCode::ACCEPTED, TestSentBody { event_id: event.to_string() }, again))
}

/// Sends events again, with the ids that they have: one, or all since a moment that are not under way.
#[utoipa::path(
    post, path = "/event-endpoints/{id}/replay", tag = "events", request_body = ReplayBody,
    params(
        ("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key sends each event once more")
    ),
    responses(
        (status = 202, body = ReplayedBody), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "`endpoint_disabled`"), (status = 422, body = Problem)
    )
)]
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(body): Body<ReplayBody>,
) -> Result<Response, Problem> {
    let endpoint = enabled(&app, &caller, &id).await?;
    let (clock, random) = (app.seams.clock.as_ref(), app.seams.random.as_ref());
    let wish = idempotency_key(None, &headers)?.unwrap_or_else(|| id::new("again", clock, random));
    let event = body.event_id.map(EventId::from);
    let which = match (&event, body.since) {
        (Some(event), None) => Replay::One(event),
        (None, Some(since)) => Replay::Since(since),
        _ => return Err(Problem::invalid("event_id", "Name an event_id, or a moment since which: one of the two.")),
    };
    let replayed = app.store.replay_events(&endpoint, which, &wish, clock.now()).await?;
    if event.is_some() && replayed.count == 0 {
        return Err(Problem::invalid("event_id", "There is no such event, or it is so old that it is forgotten."));
    }
    let body = ReplayedBody { count: replayed.count, next_since: replayed.next_since };
    Ok(shown(StatusCode::ACCEPTED, body, false))
}

/// The attempts to bring events there, newest first.
#[utoipa::path(
    get, path = "/event-endpoints/{id}/attempts", tag = "events", params(("id" = String, Path), AttemptsQuery),
    responses((status = 200, body = List<EventAttemptBody>), (status = 404, body = Problem), (status = 422, body = Problem))
)]
pub(super) async fn attempts(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<AttemptsQuery>,
) -> Result<Json<List<EventAttemptBody>>, Problem> {
    let endpoint = find(&app, &caller, &id).await?;
    if query.cursor.as_deref().is_some_and(|cursor| !cursor.starts_with("att_")) {
        return Err(bad_cursor());
    }
    let (cursor, limit) = (query.cursor.as_deref(), limit(query.limit)?);
    let page = app.store.event_attempts(caller.org(), &endpoint.id, cursor, limit).await?;
    Ok(Json(List { data: page.data.into_iter().map(EventAttemptBody::from).collect(), next_cursor: page.next_cursor }))
}

async fn find(app: &App, caller: &Caller, id: &str) -> Result<EventEndpoint, Problem> {
    caller.needs("admin")?;
    app.store.find_event_endpoint(caller.org(), id, app.seams.clock.now()).await?.ok_or_else(unknown)
}

async fn enabled(app: &App, caller: &Caller, id: &str) -> Result<EventEndpoint, Problem> {
    let endpoint = find(app, caller, id).await?;
    if endpoint.enabled {
        return Ok(endpoint);
    }
    let detail = "This endpoint is disabled. Enable it first.";
    Err(Problem::new(StatusCode::CONFLICT, "endpoint_disabled", detail))
}

fn unknown() -> Problem {
    Problem::not_found("event endpoint")
}

fn shown(status: StatusCode, body: impl Serialize, again: bool) -> Response {
    let mut response = (status, Json(body)).into_response();
    if again {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}
