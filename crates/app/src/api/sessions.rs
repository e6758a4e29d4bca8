//! Connect links: for a new connector, and for one that needs a person.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Body, OptionalBody, Path, caller::Caller, import};
use crate::{app::App, connect, problem::Problem};

/// Whom to connect.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConnectBody {
    /// The provider's id: `zendesk`.
    provider: String,
    /// The account, in any form that people type; without one, the person behind the link names it.
    account: Option<String>,
    /// What people call it; default: the account.
    name: Option<String>,
    /// Where the browser goes in the end; of an origin that the organisation has registered, or of `connect.return_origins`.
    return_url: Option<String>,
}

/// Where the browser goes in the end.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReconnectBody {
    return_url: Option<String>,
}

/// A link for a person's browser. It is a secret until it is used.
#[derive(Serialize, ToSchema)]
pub(super) struct LinkBody {
    url: String,
    expires_at: DateTime<Utc>,
    connector_id: String,
}

/// A connect link for a new connector, or for the org's own on that account.
#[utoipa::path(
    post, path = "/connect-sessions", tag = "connect", request_body = ConnectBody,
    responses((status = 201, body = LinkBody), (status = 422, body = Problem))
)]
pub(super) async fn connect(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(body): Body<ConnectBody>,
) -> Result<Response, Problem> {
    caller.needs("connectors:write")?;
    let return_url = connect::checked_return_url(&app, caller.org(), body.return_url.as_deref()).await?;
    let id = import::for_link(&app, caller.org(), body.provider, body.account, body.name).await?;
    let known = caller.snapshot(&app, id.as_str()).await?;
    let link = connect::make_link(&app, &known, return_url).await?;
    let body = LinkBody { url: link.url, expires_at: link.expires_at, connector_id: id.to_string() };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// A link to reconnect it in place: same id, tools and extras.
#[utoipa::path(
    post, path = "/connectors/{id}/reconnect", tag = "connect", params(("id" = String, Path)),
    request_body = Option<ReconnectBody>,
    responses((status = 200, body = LinkBody), (status = 404, body = Problem))
)]
pub(super) async fn reconnect(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    OptionalBody(body): OptionalBody<ReconnectBody>,
) -> Result<Json<LinkBody>, Problem> {
    caller.needs("connectors:write")?;
    let return_url = connect::checked_return_url(&app, caller.org(), body.return_url.as_deref()).await?;
    let known = caller.connector(&app, &id).await?.snapshot;
    let link = connect::make_link(&app, &known, return_url).await?;
    Ok(Json(LinkBody { url: link.url, expires_at: link.expires_at, connector_id: known.connector.to_string() }))
}
