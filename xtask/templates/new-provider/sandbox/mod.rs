//! @Name@, imitated. REPLACE: from its documentation, not from the adapter, so that the two can disagree.
@if oauth@
//! `/@id@/{host}/…` is `https://{host}/…`, for `app.@id@.example` (OAuth) and `api.@id@.example` (the API).
@end@
@if key@
//! `/@id@/{host}/…` is `https://{host}/…`, for `api.@id@.example` (the API).
@end@
//! What it lacks beside bigger ones: trouble on demand (`Faults`), counters, and rate limits; the sandbox of Front has them.

mod api;
@if oauth@
pub(crate) mod consent;
@end@
mod rig;
mod state;
@if oauth@
mod token_endpoint;
@end@

use std::sync::Arc;

use axum::response::Response;

use crate::desk::World;
use crate::http::{Answer, Request};

pub use rig::@Type@Rig;
pub(crate) use state::State;

/// `request.path` starts with the host. What a request changed is kept before it is answered.
pub(crate) async fn serve(world: Arc<World>, mut request: Request) -> Response {
    let host = if request.path.is_empty() { String::new() } else { request.path.remove(0) };
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let answer = match (host.as_str(), request.method.as_str(), path.as_slice()) {
@if oauth@
        ("app.@id@.example", "GET", ["oauth", "authorize"]) => consent::show(&world, &request),
        ("app.@id@.example", "POST", ["oauth", "authorize"]) => consent::decide(&world, &request),
        ("app.@id@.example", "POST", ["oauth", "token"]) => token_endpoint::answer(&world, &request),
@end@
        ("api.@id@.example", method, path) => api::answer(&world, method, path, &request),
        _ => Answer::html(404, "<!DOCTYPE html><title>@Name@</title><p>Page not found</p>".to_owned()),
    };
    if request.method != "GET" {
        world.keep().await;
    }
    answer.into_response()
}
