//! Pipedrive, imitated from its documentation.
//! `/pipedrive/{host}/…` is `https://{host}/…`, for `oauth.pipedrive.com` (OAuth) and `api.pipedrive.com` (the API).
//! What it lacks beside bigger ones: trouble on demand (`Faults`), counters, and rate limits; the sandbox of Front has them.

mod api;
pub(crate) mod consent;
mod rig;
mod state;
mod token_endpoint;

use std::sync::Arc;

use axum::response::Response;

use crate::desk::World;
use crate::http::{Answer, Request};

pub use rig::PipedriveRig;
pub(crate) use state::State;

/// `request.path` starts with the host. What a request changed is kept before it is answered.
pub(crate) async fn serve(world: Arc<World>, mut request: Request) -> Response {
    let host = if request.path.is_empty() { String::new() } else { request.path.remove(0) };
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let answer = match (host.as_str(), request.method.as_str(), path.as_slice()) {
        ("oauth.pipedrive.com", "GET", ["oauth", "authorize"]) => consent::show(&world, &request),
        ("oauth.pipedrive.com", "POST", ["oauth", "authorize"]) => consent::decide(&world, &request),
        ("oauth.pipedrive.com", "POST", ["oauth", "token"]) => token_endpoint::answer(&world, &request),
        ("oauth.pipedrive.com", "POST", ["oauth", "revoke"]) => token_endpoint::revoke(&world, &request),
        ("api.pipedrive.com", method, path) => api::answer(&world, method, path, &request),
        _ => Answer::html(404, "<!DOCTYPE html><title>Pipedrive</title><p>Page not found</p>".to_owned()),
    };
    if request.method != "GET" {
        world.keep().await;
    }
    answer.into_response()
}
