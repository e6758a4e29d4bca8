//! Connectors: make, list, show, change, remove, disconnect, test, timeline.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use holdfast_core::Health;
use holdfast_store::{ConnectorView, Filter};
use secrecy::SecretString;
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

use super::{
    Body, List, NewConnectorBody, Path, Query,
    caller::Caller,
    import,
    view::{ConnectorBody, TestBody, TimelineBody},
};
use crate::{app::App, care, connect, problem::Problem};

/// Default and most of a page.
const PAGE: (u64, u64) = (50, 200);

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only of this provider.
    provider: Option<String>,
    /// Only in this state.
    health: Option<String>,
    /// Only those that have to be reconnected for a provider's migration; false: only the others.
    must_reconnect: Option<bool>,
    /// From the page before.
    cursor: Option<String>,
    /// At most 200; default 50.
    limit: Option<u64>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// From the page before.
    pub(super) cursor: Option<String>,
    /// At most 200; default 50.
    pub(super) limit: Option<u64>,
}

/// What to change.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeBody {
    /// What people call it.
    name: Option<String>,
    /// Merged by name; others stay.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    extras: Option<BTreeMap<String, SecretString>>,
}

pub(super) fn bad_cursor() -> Problem {
    Problem::invalid("cursor", "Take the cursor from next_cursor of the page before, as it is.")
}

pub(super) fn limit(given: Option<u64>) -> Result<u64, Problem> {
    match given {
        None => Ok(PAGE.0),
        Some(limit) if (1..=PAGE.1).contains(&limit) => Ok(limit),
        Some(_) => Err(Problem::invalid("limit", format!("limit is 1 to {}.", PAGE.1))),
    }
}

/// Makes a connector: pending, or with a credential from another system.
#[utoipa::path(
    post, path = "/connectors", tag = "connectors", request_body = NewConnectorBody,
    responses((status = 201, body = ConnectorBody), (status = 409, body = Problem), (status = 422, body = Problem))
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(body): Body<NewConnectorBody>,
) -> Result<Response, Problem> {
    caller.needs("connectors:write")?;
    let id = import::create(&app, caller.org(), body).await?;
    let view = caller.connector(&app, id.as_str()).await?;
    let location = HeaderValue::try_from(format!("/api/v1/connectors/{id}")).expect("an id is a valid header");
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(ConnectorBody::of(&app, &view).await?))
        .into_response())
}

/// The org's connectors, oldest first.
#[utoipa::path(
    get, path = "/connectors", tag = "connectors", params(ListQuery),
    responses((status = 200, body = List<ConnectorBody>))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<List<ConnectorBody>>, Problem> {
    caller.needs("connectors:read")?;
    let health = match query.health.as_deref() {
        None => None,
        Some(word) => Some(Health::parse(word).ok_or_else(|| {
            Problem::invalid("health", "health is one of pending, connected, auth_failed, disconnected.")
        })?),
    };
    if query.cursor.as_deref().is_some_and(|cursor| !cursor.starts_with("con_")) {
        return Err(bad_cursor());
    }
    let filter = Filter { provider: query.provider, health, must_reconnect: query.must_reconnect };
    let page = app.store.connectors(caller.org(), &filter, query.cursor.as_deref(), limit(query.limit)?).await?;
    Ok(Json(List { data: ConnectorBody::all(&app, &page.data).await?, next_cursor: page.next_cursor }))
}

/// One connector, by id or alias.
#[utoipa::path(
    get, path = "/connectors/{id}", tag = "connectors", params(("id" = String, Path)),
    responses((status = 200, body = ConnectorBody), (status = 404, body = Problem))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ConnectorBody>, Problem> {
    caller.needs("connectors:read")?;
    Ok(Json(ConnectorBody::of(&app, &caller.connector(&app, &id).await?).await?))
}

/// Renames it, or changes extras. Neither moves the credential's version.
#[utoipa::path(
    patch, path = "/connectors/{id}", tag = "connectors", params(("id" = String, Path)), request_body = ChangeBody,
    responses((status = 200, body = ConnectorBody), (status = 404, body = Problem), (status = 422, body = Problem))
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Body(body): Body<ChangeBody>,
) -> Result<Json<ConnectorBody>, Problem> {
    caller.needs("connectors:write")?;
    let id = caller.connector(&app, &id).await?.snapshot.connector;
    // All of it is checked before any of it is written.
    let name = body.name.as_deref().map(|name| import::name(Some(name), "")).transpose()?;
    let extras = import::checked_extras(body.extras.unwrap_or_default())?;
    if let Some(name) = &name {
        app.store.rename_connector(caller.org(), &id, name).await?;
    }
    for (name, value) in extras {
        app.store.put_extra(&id, &name, &value).await?;
    }
    app.changed(&id);
    Ok(Json(ConnectorBody::of(&app, &caller.connector(&app, id.as_str()).await?).await?))
}

/// Removes it, and revokes its grant at the provider.
#[utoipa::path(
    delete, path = "/connectors/{id}", tag = "connectors", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem))
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.needs("connectors:write")?;
    let known = caller.connector(&app, &id).await?.snapshot;
    care::delete(&app, &known).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes it off and keeps it: its grant is revoked, its id, name and extras stay.
#[utoipa::path(
    post, path = "/connectors/{id}/disconnect", tag = "connectors", params(("id" = String, Path)),
    responses((status = 200, body = ConnectorBody), (status = 404, body = Problem))
)]
pub(super) async fn disconnect(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ConnectorBody>, Problem> {
    caller.needs("connectors:write")?;
    let known = caller.connector(&app, &id).await?.snapshot;
    care::disconnect(&app, &known, &caller.actor()).await?;
    Ok(Json(ConnectorBody::of(&app, &caller.connector(&app, known.connector.as_str()).await?).await?))
}

/// Asks the provider who the credential speaks for; refreshes first when the token is stale.
#[utoipa::path(
    post, path = "/connectors/{id}/test", tag = "connectors", params(("id" = String, Path)),
    responses((status = 200, body = TestBody), (status = 409, body = Problem), (status = 404, body = Problem))
)]
pub(super) async fn test(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<TestBody>, Problem> {
    caller.needs("connectors:read")?;
    let known = caller.snapshot(&app, &id).await?;
    match care::test(&app, &known, &caller.actor()).await {
        Ok(report) => Ok(Json(report)),
        Err(problem) if problem.code().starts_with("connector_") => {
            let url = connect::reconnect_url(&app, &known, caller.has("connectors:write")).await?;
            Err(problem.reconnect_at(Some(url)))
        }
        Err(problem) => Err(problem),
    }
}

/// What happened to it, newest first.
#[utoipa::path(
    get, path = "/connectors/{id}/timeline", tag = "connectors", params(("id" = String, Path), PageQuery),
    responses((status = 200, body = List<TimelineBody>), (status = 404, body = Problem))
)]
pub(super) async fn timeline(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<List<TimelineBody>>, Problem> {
    caller.needs("connectors:read")?;
    let ConnectorView { snapshot, .. } = caller.connector(&app, &id).await?;
    let limit = limit(query.limit)?;
    if query.cursor.as_deref().is_some_and(|cursor| !holdfast_store::is_timeline_cursor(cursor)) {
        return Err(bad_cursor());
    }
    let page = app.store.timeline(caller.org(), &snapshot.connector, query.cursor.as_deref(), limit).await?;
    Ok(Json(List { data: page.data.into_iter().map(TimelineBody::from).collect(), next_cursor: page.next_cursor }))
}
