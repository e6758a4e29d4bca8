//! What a form posted. A form without the right CSRF token changes nothing.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
};
use axum_extra::extract::cookie::CookieJar;
use serde::{Deserialize, de::DeserializeOwned};
use subtle::ConstantTimeEq;

use super::{cookies::Kind, person::csrf, trouble::Trouble};
use crate::app::App;

/// A form of ours, as it was posted. Take it as the last argument, after [`super::person::Person`] where somebody has to
/// be signed in.
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
        let body = Bytes::from_request(request, app).await.map_err(|_| Trouble::Garbled)?;
        let token: Token = serde_html_form::from_bytes(&body).map_err(|_| Trouble::Garbled)?;
        if elsewhere || !is_ours(app, &jar, &token.csrf) {
            return Err(Trouble::Forged);
        }
        serde_html_form::from_bytes(&body).map(Self).map_err(|_| Trouble::Garbled)
    }
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
