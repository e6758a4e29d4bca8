//! The web UI: pages from Tera templates, forms that post, redirect and get, and a little script that only makes them
//! nicer. Everything works without it.
//!
//! - [`view`]: templates, and the frame that every page stands in.
//! - [`person`]: who is signed in, and what they may do.
//! - [`form`]: what a form posted, with its CSRF token checked.
//! - [`trouble`]: what went wrong, as a page with a way on.

mod assets;
pub(crate) mod cookies;
pub(crate) mod form;
pub(crate) mod moment;
pub(crate) mod passwords;
pub(crate) mod person;
mod setup;
mod sign_in;
pub(crate) mod trouble;
pub mod view;

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderName, HeaderValue, header},
    response::Redirect,
    routing::{get, post},
};
use tower_http::set_header::SetResponseHeaderLayer;

pub use setup::announce as announce_setup;

use crate::{app::App, demo};

/// All pages.
pub fn router(app: Arc<App>) -> Router {
    let unless_set = |name: HeaderName, value: &'static str| {
        SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
    };
    Router::new()
        .route("/", get(async || Redirect::to("/connectors")))
        .route("/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/setup", get(setup::show).post(setup::set_up))
        .merge(demo::routes())
        .layer(unless_set(header::CACHE_CONTROL, "no-store"))
        .route("/static/{file}", get(assets::file))
        .layer(unless_set(header::REFERRER_POLICY, "same-origin"))
        .layer(unless_set(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(unless_set(header::X_FRAME_OPTIONS, "DENY"))
        .layer(unless_set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
        .with_state(app)
}
