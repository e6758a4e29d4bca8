//! Stylesheet, script and icon, from the binary itself; and what crawlers and browsers ask for without being told to.

use std::fmt::Write as _;

use axum::{
    extract::{Path, RawQuery},
    handler::Handler as _,
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use rust_embed::{Embed, EmbeddedFile};
use tower_http::compression::CompressionLayer;

use super::routes::{Needs, Routes};

#[derive(Embed)]
#[folder = "../../assets"]
struct Static;

pub(super) fn routes() -> Routes {
    Routes::new()
        // Only what is the same for everybody is compressed: pages carry tokens of forms, whose length must tell nothing
        // about them (BREACH).
        .get("/static/{file}", Needs::Nothing, file.layer(CompressionLayer::new()))
        .get("/favicon.ico", Needs::Nothing, async || Redirect::permanent(&address("mark.svg")))
        .get("/robots.txt", Needs::Nothing, async || "User-agent: *\nDisallow: /\n")
}

/// A file. Asked for with the mark of its content, browsers may keep it for good.
async fn file(Path(name): Path<String>, RawQuery(asked): RawQuery) -> Response {
    let Some(file) = Static::get(&name) else { return StatusCode::NOT_FOUND.into_response() };
    let keep = if asked.is_some_and(|asked| asked == mark(&file)) {
        "public, max-age=31536000, immutable"
    } else {
        "public, max-age=600"
    };
    ([(header::CONTENT_TYPE, content_type(&name)), (header::CACHE_CONTROL, keep)], file.data).into_response()
}

/// Where this file is served, with a mark of its content.
pub(super) fn address(name: &str) -> String {
    let mark = Static::get(name).map(|file| mark(&file)).unwrap_or_default();
    format!("/static/{name}?{mark}")
}

fn mark(file: &EmbeddedFile) -> String {
    file.metadata.sha256_hash().iter().take(6).fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
