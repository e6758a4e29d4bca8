//! `ANY connectors/{id}/proxy/{path}`: a caller's request with the connector's credential, and the provider's answer.
//!
//! Path, query and bodies pass as they are, both ways as they come; headers pass by the rules of [`headers`]. The core adds
//! the credential, renews it on a 401, waits for rate limits and guards the path. Whose answer it is stands in
//! `x-holdfast-source`, so that a provider's 401 or 409 is never taken for ours.

mod answer;
mod body;
mod clients;
mod headers;

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;

pub(super) use answer::SOURCE;
pub use clients::Clients;

use self::body::{Rest, Upload};
use super::{caller::Caller, token};
use crate::{app::App, problem::Problem};

/// All routes of it, as they are matched.
pub(super) const ROUTES: [&str; 3] =
    ["/connectors/{id}/proxy", "/connectors/{id}/proxy/", "/connectors/{id}/proxy/{*path}"];

/// The provider's API, called as the connector.
///
/// Any method but TRACE. Path and query reach the provider byte for byte, below the account's base address; headers of the
/// caller's pass, except credentials, cookies and what belongs to the connection. Bodies pass as they come; one of at most
/// `proxy.buffer_kib` that says its length is sent again after a 401 or 429, any other once. Redirects are answers. The
/// provider's own paths for OAuth are closed, and so is what makes or ends access over another path: at Shopify two
/// mutations, so that a GraphQL request has to say its length and to be of at most `proxy.buffer_kib`.
#[utoipa::path(
    method(get, head, post, put, patch, delete, options),
    path = "/connectors/{id}/proxy/{path}", tag = "proxy",
    params(
        ("id" = String, Path, description = "Id or alias"),
        ("path" = String, Path, description = "The provider's path, slashes and all: `api/v2/tickets.json`"),
    ),
    responses(
        (
            status = "default",
            description = "The provider's answer, whatever its status, if the header says so; any answer without it is \
                           not the provider's",
            headers(("x-holdfast-source" = String, description = "`provider`")),
        ),
        (status = 401, body = Problem, description = "`unauthorized`: about the API key"),
        (status = 403, body = Problem, description = "`missing_scope`, or `path_closed`: the provider's paths for OAuth, and what does the same over another path"),
        (status = 404, body = Problem, description = "No such connector in this organisation"),
        (status = 405, body = Problem, description = "TRACE"),
        (status = 408, body = Problem, description = "`body_timeout`: the request's body stood still"),
        (status = 409, body = Problem, description = "As for the token: `connector_auth_failed`, `connector_pending` or `connector_disconnected`"),
        (status = 422, body = Problem, description = "`invalid`: a path that leads out of the account's API"),
        (status = 501, body = Problem, description = "`upgrade_not_supported`: no WebSockets"),
        (status = 502, body = Problem, description = "`provider_no_answer`: whether the call had an effect is unknown; or `oauth_app_rejected`"),
        (status = 503, body = Problem, description = "`provider_unavailable`: nothing was sent; `send_again`: the token was renewed, but a streamed body can be sent only once; or `refresh_unavailable`"),
    )
)]
#[expect(dead_code, reason = "it describes the routes, whose one path OpenAPI cannot express as the router does")]
fn described() {}

/// Answers all of [`ROUTES`].
pub(super) async fn pass(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    passed(&app, parts, body).await.unwrap_or_else(|problem| {
        let mut response = problem.into_response();
        response.headers_mut().insert(SOURCE, HeaderValue::from_static("holdfast"));
        response
    })
}

async fn passed(app: &Arc<App>, mut parts: Parts, body: axum::body::Body) -> Result<Response, Problem> {
    let uri = parts.uri.clone();
    let lookup = async {
        let caller = Caller::from_request_parts(&mut parts, app).await?;
        caller.needs("proxy")?;
        let target = Target::of(&uri).ok_or_else(|| Problem::not_found("connector"))?;
        let known = caller.snapshot(app, &target.id).await?;
        Ok((caller, known, target))
    };
    let (caller, known, target) = token::in_bound(app, lookup).await?;
    // Who asks first and waits for a word to go on (RFC 9110 section 10.1.1) has not begun to send.
    let body = Rest::new(body, !parts.headers.contains_key(header::EXPECT));
    refuse(&parts)?;
    let Some(api) = app.clients.of(&app.engine, &known) else {
        return Err(answer::without_client(app, &caller, &known).await);
    };
    let taken = body.take(&app.config.proxy).await?;
    let headers = headers::to_provider(parts.headers, taken.length);
    let timeout = app.config.proxy.timeout;
    let call = api.request(parts.method, target.path).operation("proxy").pass_through(target.query, headers);
    // The token has to outlive the wait for the answer (AP-07).
    match call.timeout(timeout).least_life(timeout).body(taken.body).raw().await {
        Ok(response) => Ok(answer::to_caller(response)),
        Err(error) => Err(match taken.upload.and_then(Upload::end) {
            Some(trouble) => trouble,
            None => answer::explain(app, &caller, &known, error).await,
        }),
    }
}

/// What is passed on for nobody. TRACE would answer with what was sent, the credential included.
fn refuse(parts: &Parts) -> Result<(), Problem> {
    if parts.method == Method::TRACE || parts.method == Method::CONNECT || parts.method.as_str() == "TRACK" {
        let detail = format!("{} is not passed on.", parts.method);
        return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail));
    }
    let upgrades = parts.headers.get_all(header::UPGRADE).iter().filter_map(|value| value.to_str().ok());
    if upgrades.flat_map(|value| value.split(',')).any(|name| name.trim().eq_ignore_ascii_case("websocket")) {
        let detail = "WebSockets are not passed through; call the provider's plain HTTP.";
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "upgrade_not_supported", detail));
    }
    Ok(())
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    /// Id or alias, decoded.
    id: String,
    /// As it is written.
    path: &'a str,
    /// As it is written.
    query: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// `None`: the part that names the connector is no text, and names nothing.
    fn of(uri: &'a Uri) -> Option<Self> {
        let (id, rest) = uri.path().strip_prefix("/connectors/")?.split_once('/')?;
        let path = rest.strip_prefix("proxy")?;
        let id = percent_decode_str(id).decode_utf8().ok().filter(|id| !id.contains('\0'))?.into_owned();
        Some(Self { id, path: path.strip_prefix('/').unwrap_or(path), query: uri.query() })
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn a_target_is_read_as_it_is_written() {
        for (uri, id, path, query) in [
            ("/connectors/con_1/proxy/api/v2/x", "con_1", "api/v2/x", None),
            ("/connectors/a%3Ab/proxy/%c3%A4//b/?q=%2f'&r", "a:b", "%c3%A4//b/", Some("q=%2f'&r")),
            ("/connectors/con_1/proxy//proxy/y", "con_1", "/proxy/y", None),
            ("/connectors/con_1/proxy/?", "con_1", "", Some("")),
            ("/connectors/con_1/proxy", "con_1", "", None),
        ] {
            let uri = uri.parse().unwrap();
            assert_eq!(Target::of(&uri), Some(Target { id: id.to_owned(), path, query }), "{uri}");
        }
        for uri in ["/connectors/%ff/proxy/x", "/connectors/a%00/proxy/x"] {
            assert_eq!(Target::of(&uri.parse().unwrap()), None, "{uri}");
        }
    }
}
