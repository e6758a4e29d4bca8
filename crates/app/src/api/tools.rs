//! `POST /connectors/{id}/tools/{tool}`.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Body, Path, caller::Caller};
use crate::{
    app::App,
    problem::Problem,
    tools::{self, Answered, By, Call},
};

/// On an answer that was given before.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What to call a tool with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallBody {
    /// As the tool's `input_schema` says.
    #[schema(value_type = Object)]
    #[serde(default = "nothing")]
    arguments: Value,
    /// The same key within a day: the same answer, and no second effect. For tools that write. The header `Idempotency-Key`
    /// says the same.
    idempotency_key: Option<String>,
    /// In the name of this agent: what it is bound to and was granted, while it is active.
    agent: Option<String>,
}

fn nothing() -> Value {
    Value::Object(serde_json::Map::new())
}

/// What a tool answered.
#[derive(Serialize, ToSchema)]
pub(super) struct ResultBody {
    /// As the tool's `output_schema` says.
    #[schema(value_type = Object)]
    result: Value,
}

/// Calls a tool on a connector.
#[utoipa::path(
    post, path = "/connectors/{id}/tools/{tool}", tag = "tools",
    params(("id" = String, Path), ("tool" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 200 visible ASCII characters, the organisation's \
            own for a day: the same call under the same key is done once")),
    request_body = CallBody,
    responses(
        (status = 200, body = ResultBody, headers(("Idempotent-Replayed" = bool,
            description = "`true`: the stored answer of the same call before; nothing was done now"))),
        (status = 400, body = Problem, description = "`invalid`: no JSON"),
        (status = 403, body = Problem, description = "`agent_not_bound`, `tool_not_granted`, `provider_forbidden`, or \
            `connector_missing_scope` with `missing_scopes`, `connector_id` and `reconnect_url`"),
        (status = 404, body = Problem, description = "`not_found`, `unknown_tool` or `provider_not_found`"),
        (status = 409, body = Problem, description = "`connector_auth_failed`, `agent_deactivated`, `agent_paused`, \
            `call_under_way`, `call_outcome_unknown`, ..."),
        (status = 413, body = Problem, description = "The body is too long"),
        (status = 422, body = Problem, description = "`invalid`, with its `field`: an argument, or a key that was used for \
            another call"),
        (status = 502, body = Problem, description = "`provider_unreadable` or `oauth_app_rejected`; `maybe_done` where the \
            call may have had its effect"),
        (status = 503, body = Problem, description = "`refresh_unavailable`, `provider_busy` or `provider_unavailable`"),
    )
)]
pub(super) async fn call(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, tool)): Path<(String, String)>,
    headers: HeaderMap,
    Body(body): Body<CallBody>,
) -> Result<Response, Problem> {
    caller.needs("tools")?;
    let idempotency_key = idempotency_key(body.idempotency_key, &headers)?;
    let by = match body.agent {
        None => By::Key,
        Some(agent) => By::Agent(agent.into()),
    };
    // An agent whose connector was deleted hears of that, not that it is not there.
    let connector = match caller.snapshot(&app, &id).await {
        Ok(known) => known.connector.clone(),
        Err(_) if matches!(by, By::Agent(_)) => id.into(),
        Err(problem) => return Err(problem),
    };
    let call = Call {
        org: caller.org().clone(),
        by,
        connector,
        tool,
        arguments: body.arguments,
        idempotency_key,
        may_connect: caller.has("connectors:write"),
    };
    let Answered { result, replayed } = tools::call_tool(&app, call).await?;
    let mut response = Json(ResultBody { result }).into_response();
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// From body or header; where both say one, they have to say the same.
pub(super) fn idempotency_key(named: Option<String>, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let invalid = |detail: &str| Err(Problem::invalid("idempotency_key", detail));
    let header = headers.get("idempotency-key").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let key = match (named, header) {
        (Some(named), Some(header)) if named != header => {
            return invalid("The body says another idempotency key than the header.");
        }
        (named, header) => named.or(header),
    };
    let fits = |key: &String| (1..=200).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.as_ref().is_some_and(|key| !fits(key)) {
        return invalid("An idempotency key has 1 to 200 visible ASCII characters.");
    }
    Ok(key)
}
