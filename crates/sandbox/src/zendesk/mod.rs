//! Zendesk, imitated from its documentation: `/zendesk/{subdomain}/…` is `https://{subdomain}.zendesk.com/…`.

mod api;
pub(crate) mod consent;
pub(crate) mod data;
mod early;
mod export;
mod help_center;
pub(crate) mod limits;
pub(crate) mod pages;
mod paging;
mod people;
pub(crate) mod scene;
mod scopes;
mod search;
pub(crate) mod seed;
mod ticket_changes;
mod tickets;
pub(crate) mod token_endpoint;
pub(crate) mod tokens;
pub(crate) mod webhooks;

use std::sync::Arc;

use axum::response::Response;

use crate::desk::World;
use crate::http::{Answer, Request};

pub(crate) use early::serve as early;
pub(crate) use pages::{Page, csp};

/// `request.path` starts with the subdomain.
pub(crate) async fn serve(world: Arc<World>, mut request: Request) -> Response {
    let name = if request.path.is_empty() { String::new() } else { request.path.remove(0) };
    let Some(desk) = world.find(&name) else {
        let page = pages::message(world.home(), "No help desk at this address", &format!("{name}.zendesk.com"));
        return Answer::html(404, page).into_response();
    };
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["oauth", "authorizations", "new"]) => consent::show(&world, &desk, &request).into_response(),
        ("POST", ["oauth", "authorizations"]) => {
            let answer = consent::decide(&world, &desk, &request);
            world.keep().await;
            answer.into_response()
        }
        // Keeps what it did by itself.
        ("POST", ["oauth", "tokens"]) => token_endpoint::serve(world, desk, request).await,
        (method, ["api", "v2", ..]) => {
            let reads = method == "GET";
            request.path.drain(..2);
            let answer = api::serve(&world, &desk, request).await;
            if !reads {
                world.keep().await;
            }
            answer
        }
        _ => Answer::html(404, pages::message(world.home(), "The page you were looking for does not exist", ""))
            .into_response(),
    }
}
