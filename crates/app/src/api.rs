//! The REST API, `/api/v1`. Browser cookies never authenticate here.

mod agents;
mod aliases;
mod audit;
mod caller;
mod connectors;
mod deliveries;
mod event_endpoints;
mod garbled;
mod import;
mod jobs;
mod providers;
mod proxy;
mod sessions;
mod sync;
mod token;
mod tools;
mod view;
mod webhooks;

pub use aliases::Aliases;
pub(crate) use audit::AuditBody;
pub(crate) use import::for_link;
pub use import::{NewConnectorBody, create, lines::import_all};
pub use proxy::Clients;
pub use view::{ConnectorBody, TestBody};

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request, rejection::JsonRejection},
    http::{HeaderValue, StatusCode, header, request::Parts},
    middleware,
    response::Response,
    routing::{any, get},
};
use serde::{Serialize, de::DeserializeOwned};
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa::{
    Modify, OpenApi, ToSchema,
    openapi::security::{Http, HttpAuthScheme, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{app::App, problem::Problem};

/// A body longer than this is not one of ours.
const LONGEST_BODY_BYTES: usize = 1024 * 1024;

#[derive(OpenApi)]
#[openapi(
    info(title = "Holdfast", description = "Keeps AI agents attached to the helpdesks that they work in."),
    servers((url = "/api/v1")),
    security(("api_key" = [])),
    paths(proxy::described),
    modifiers(&ApiKeySecurity)
)]
struct Documentation;

struct ApiKeySecurity;

impl Modify for ApiKeySecurity {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("api_key", scheme);
    }
}

/// The routes with the document that they are described by.
pub fn router(app: Arc<App>) -> Router {
    let (routes, mut document) = OpenApiRouter::with_openapi(Documentation::openapi())
        .routes(routes!(providers::list))
        .routes(routes!(connectors::create, connectors::list))
        .routes(routes!(connectors::show, connectors::change, connectors::delete))
        .routes(routes!(connectors::disconnect))
        .routes(routes!(connectors::test))
        .routes(routes!(connectors::timeline))
        .routes(routes!(sync::begin))
        .routes(routes!(webhooks::show, webhooks::make))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::show))
        .routes(routes!(event_endpoints::create, event_endpoints::list))
        .routes(routes!(event_endpoints::show, event_endpoints::change, event_endpoints::delete))
        .routes(routes!(event_endpoints::rotate))
        .routes(routes!(event_endpoints::test))
        .routes(routes!(event_endpoints::replay))
        .routes(routes!(event_endpoints::attempts))
        .routes(routes!(sessions::reconnect))
        .routes(routes!(sessions::connect))
        .routes(routes!(tools::call))
        .routes(routes!(agents::list_samples))
        .routes(routes!(agents::create, agents::list))
        .routes(routes!(agents::show, agents::change, agents::delete))
        .routes(routes!(agents::pause))
        .routes(routes!(agents::resume))
        .routes(routes!(agents::run))
        .routes(routes!(agents::runs))
        .routes(routes!(agents::show_run))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::retry_all))
        .routes(routes!(jobs::discard_all))
        .routes(routes!(jobs::show))
        .routes(routes!(jobs::retry))
        .routes(routes!(jobs::discard))
        .routes(routes!(audit::list))
        .merge(
            OpenApiRouter::new()
                .routes(routes!(token::get))
                .routes(routes!(token::rejected))
                .layer(middleware::from_fn_with_state(Arc::clone(&app), token::in_time)),
        )
        .merge(proxy::ROUTES.iter().fold(OpenApiRouter::new(), |router, path| router.route(path, any(proxy::pass))))
        .split_for_parts();
    name_operations(&mut document);
    // Written once: the routes are cloned for each connection, and the document with them.
    let document = Bytes::from(serde_json::to_vec(&document).expect("a document is plain data"));
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    routes
        .route("/openapi.json", get(move || async move { (json, document) }))
        .fallback(|| async {
            Problem::new(StatusCode::NOT_FOUND, "not_found", "There is no such route; see /api/v1/openapi.json.")
        })
        .method_not_allowed_fallback(|| async {
            let detail = "This route does not take that method; see /api/v1/openapi.json.";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&app), caller::attribute))
        .layer(DefaultBodyLimit::max(LONGEST_BODY_BYTES))
        .layer(SetResponseHeaderLayer::overriding(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .with_state(app)
}

/// Gives each operation a name that no other has: `get_connectors_id_token`.
fn name_operations(document: &mut utoipa::openapi::OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let words: Vec<&str> = path.split(['/', '-', '{', '}']).filter(|word| !word.is_empty()).collect();
        for (method, operation) in [
            ("get", &mut item.get),
            ("head", &mut item.head),
            ("post", &mut item.post),
            ("put", &mut item.put),
            ("patch", &mut item.patch),
            ("delete", &mut item.delete),
            ("options", &mut item.options),
        ] {
            if let Some(operation) = operation {
                operation.operation_id = Some(format!("{method}_{}", words.join("_")));
            }
        }
    }
}

/// Whether requests to this route, as it was matched, are passed on: their path and query are not for us to read.
pub fn passes_on(route: &str) -> bool {
    route.strip_prefix("/api/v1").is_some_and(|route| proxy::ROUTES.contains(&route))
}

/// Whether an answer is a provider's, passed on.
pub fn is_providers(response: &Response) -> bool {
    response.headers().get(proxy::SOURCE).is_some_and(|source| source == "provider")
}

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub struct List<T> {
    /// In order.
    data: Vec<T>,
    /// For the next page; null: this was the last.
    next_cursor: Option<String>,
}

/// A JSON body, refused as a problem that says what is wrong with it.
struct Body<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = Bytes::from_request(Request::from_parts(parts.clone(), body), state)
            .await
            .map_err(|error| not_read(error.status()))?;
        object(&bytes)?;
        // PostgreSQL keeps no text with a NUL in it, and nothing here is named with one.
        if bytes.windows(6).any(|six| six == br"\u0000") {
            let detail = "The body holds a NUL character; leave it out.";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail));
        }
        match Json::<T>::from_request(Request::from_parts(parts, bytes.into()), state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(JsonRejection::MissingJsonContentType(_)) => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not_json",
                "Send JSON, with Content-Type: application/json.",
            )),
            Err(JsonRejection::JsonDataError(error)) => Err(garbled::problem(&error.body_text())),
            Err(other) => Err(Problem::new(
                other.status(),
                "invalid_json",
                "The body is no JSON: it breaks off, or holds a slip.",
            )),
        }
    }
}

/// A JSON body that may also be absent.
struct OptionalBody<T>(T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = Bytes::from_request(request, state).await.map_err(|error| not_read(error.status()))?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        object(&body)?;
        serde_json::from_slice(&body).map(Self).map_err(|error| garbled::problem(&error.to_string()))
    }
}

/// A part of the path. What is not even text names nothing.
struct Path<T>(T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(path)| Self(path)).map_err(|_| Problem::not_found("connector"))
    }
}

/// Query parameters, refused as a problem.
struct Query<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Query::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(error) => Err(garbled::problem(&error.body_text())),
        }
    }
}

/// Everything that is sent here is an object. A list would be read as its values in order, which nobody means.
fn object(body: &[u8]) -> Result<(), Problem> {
    if body.trim_ascii_start().starts_with(b"[") {
        let detail = "The body is a list, and has to be an object.";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail));
    }
    Ok(())
}

/// A body that was too long, or broke off.
fn not_read(status: StatusCode) -> Problem {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = format!("The body is longer than {LONGEST_BODY_BYTES} bytes.");
        return Problem::new(status, "too_large", detail);
    }
    Problem::new(status, "invalid_json", "The body could not be read.")
}
