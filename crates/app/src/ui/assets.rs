//! Stylesheet, script and icon, from the binary itself.

use std::fmt::Write as _;

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use rust_embed::{Embed, EmbeddedFile};

#[derive(Embed)]
#[folder = "../../assets"]
struct Static;

/// A file; its address changes with its content, so that browsers may keep it for good.
pub(super) async fn file(Path(name): Path<String>) -> Response {
    let Some(file) = Static::get(&name) else { return StatusCode::NOT_FOUND.into_response() };
    let headers =
        [(header::CONTENT_TYPE, content_type(&name)), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (headers, file.data).into_response()
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
