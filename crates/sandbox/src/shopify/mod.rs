//! Shopify: consent, tokens and the GraphQL Admin API, as its documentation has them.
//!
//! `/shopify/{shop}/…` stands for `https://{shop}.myshopify.com/…`. The OAuth client is the sandbox's one.

mod api;
pub(crate) mod consent;
mod graphql;
mod handle;
mod money;
mod orders;
mod search;
mod seed;
pub(crate) mod shop;
mod source;
mod token_endpoint;
mod tokens;
mod webhooks;

pub use consent::callback_hmac;
pub use handle::{OfflineToken, Shop};
pub use shop::Rules;

use std::sync::Arc;

use axum::response::Response;

use crate::desk::World;
use crate::http::{Answer, Request};

/// `request.path` starts with the shop.
pub(crate) async fn serve(world: Arc<World>, mut request: Request) -> Response {
    let name = if request.path.is_empty() { String::new() } else { request.path.remove(0) };
    let Some(shop) = world.shops.find(&name) else {
        return Answer::html(404, "<h1>Sorry, this shop is currently unavailable.</h1>".to_owned()).into_response();
    };
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["admin", "oauth", "authorize"]) => consent::show(&world, &shop, &request).into_response(),
        ("POST", ["admin", "oauth", "authorize"]) => {
            let answer = consent::decide(&world, &shop, &request);
            world.keep().await;
            answer.into_response()
        }
        // Keeps what it did by itself.
        ("POST", ["admin", "oauth", "access_token"]) => token_endpoint::serve(world, shop, request).await,
        (_, ["admin", "api", ..]) => {
            let answer = api::serve(&world, &shop, &request).await;
            world.keep().await;
            answer
        }
        ("DELETE", ["admin", "api_permissions", "current.json"]) => {
            let answer = api::take_off(&world, &shop, &request);
            world.keep().await;
            answer.into_response()
        }
        _ => Answer::html(404, "<h1>404: Page not found</h1>".to_owned()).into_response(),
    }
}
