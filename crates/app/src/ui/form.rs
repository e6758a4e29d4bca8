//! What a form posted. A form without the right CSRF token changes nothing.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
};
use axum_extra::extract::cookie::CookieJar;
use futures::StreamExt as _;
use serde::{Deserialize, de::DeserializeOwned};
use subtle::ConstantTimeEq;

use super::{LONGEST_FORM_BYTES, cookies::Kind, person::csrf, trouble::Trouble};
use crate::app::App;

/// Longer than anything that somebody pastes into a field by mistake.
const MOST_THROWN_AWAY_BYTES: usize = 32 * 1024 * 1024;

/// A form of ours, as it was posted. Take it as the last argument. Many values of one name become a `Vec`.
pub(crate) struct Posted<T>(pub(crate) T);

/// A form that carries nothing but its token.
#[derive(Deserialize)]
pub(crate) struct Nothing {}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    csrf: String,
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Posted<T> {
    type Rejection = Trouble;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Trouble> {
        let jar = CookieJar::from_headers(request.headers());
        let elsewhere = from_elsewhere(request.headers());
        let form = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_form = form.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
        if !is_form {
            return Err(Trouble::Garbled);
        }
        let body = read(request.into_body()).await?;
        // PostgreSQL keeps no text with a NUL in it, and nobody types one.
        if body.contains(&0) || body.windows(3).any(|three| three == b"%00") {
            return Err(Trouble::Garbled);
        }
        let token: Token = serde_html_form::from_bytes(&body).map_err(|_| Trouble::Garbled)?;
        if elsewhere || !is_ours(app, &jar, &token.csrf) {
            return Err(Trouble::Forged);
        }
        serde_html_form::from_bytes(&body).map(Self).map_err(|_| Trouble::Garbled)
    }
}

/// The whole body. Of one that is too long the rest is thrown away, up to a bound: a browser that is still sending when the
/// connection ends shows no page, and nobody would learn what was wrong.
async fn read(body: Body) -> Result<Vec<u8>, Trouble> {
    let (mut stream, mut all, mut length) = (body.into_data_stream(), Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| Trouble::Garbled)?;
        length += chunk.len();
        if length > MOST_THROWN_AWAY_BYTES {
            break;
        }
        if length <= LONGEST_FORM_BYTES {
            all.extend_from_slice(&chunk);
        }
    }
    if length > LONGEST_FORM_BYTES { Err(Trouble::TooLong) } else { Ok(all) }
}

/// Whether the token belongs to one of this browser's cookies.
fn is_ours(app: &App, jar: &CookieJar, token: &str) -> bool {
    [Kind::Session, Kind::Browser]
        .into_iter()
        .filter_map(|kind| kind.read(app, jar))
        .any(|cookie| csrf(&cookie).as_bytes().ct_eq(token.as_bytes()).into())
}

/// Whether the browser says that another site sent this.
pub(crate) fn from_elsewhere(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}
