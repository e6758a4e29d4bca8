//! The headers that every answer carries, unless it says otherwise itself.
//!
//! No answer is compressed. Nearly every page holds a secret (the form token, a key that is shown once, a link) beside what
//! others can choose (a search, a name, a provider's words), and the length of such a page, compressed, gives the secret
//! away bit by bit to whoever can watch the line (BREACH). Pages are kept small instead; what holds no secret is
//! asked for once and then kept by browsers.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};

use super::view::Framed;
use crate::app::App;

/// What a browser may do with an answer that says nothing about it: not guess its type, not frame it, not keep it, not show
/// it to another site's page, and run nothing that is in it.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
];

/// Adds what is missing.
pub(crate) async fn wear(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let framed = response.extensions().get::<Framed>().is_some();
    let headers = response.headers_mut();
    for (name, value) in HEADERS.iter().filter(|(name, _)| !(framed && name == header::X_FRAME_OPTIONS)) {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    // For a year, and for this host alone; browsers heed it over https only.
    if app.config.public_url().scheme() == "https" {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(year);
    }
    response
}
