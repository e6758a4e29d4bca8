//! Into the demo: whoever opens the printed address finds the sign-in form filled in. Others on this machine, who reach
//! its loopback as well, do not.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::{Cookie, CookieJar, SameSite};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tracing::warn;

use super::Demo;
use crate::{
    app::App,
    ui::{
        routes::{Needs, Routes},
        trouble::Trouble,
    },
};

/// Set for whoever came through the door.
const COOKIE: &str = "holdfast_demo";
/// 120 bits: short enough for a line in a terminal.
const KEY_BYTES: usize = 15;

/// What the sign-in page of a demo says beside its form.
#[derive(Serialize)]
pub(crate) struct Welcome {
    /// For the form; `None`: this browser did not come through the door, or another password was set.
    pub(crate) filled: Option<Filled>,
    /// Where the address and the password can be read.
    pub(crate) folder: String,
}

/// A filled in form.
#[derive(Serialize)]
pub(crate) struct Filled {
    email: String,
    password: String,
}

pub(super) fn routes() -> Routes {
    // The key is what it takes.
    Routes::new().get("/demo/open/{key}", Needs::Nothing, open)
}

/// The address that fills in the form.
pub(crate) fn address(app: &App, password: &SecretString) -> String {
    app.url(&format!("demo/open/{}", key(password)))
}

/// What to say on the sign-in page; `None`: this is no demo.
pub(crate) async fn welcome(app: &App, jar: &CookieJar) -> Option<Welcome> {
    let demo = app.demo.get()?;
    let came_through = jar.get(COOKIE).is_some_and(|cookie| is_key(demo, cookie.value()));
    let filled = (came_through && still_holds(app, demo).await)
        .then(|| Filled { email: demo.email.clone(), password: demo.password.expose_secret().to_owned() });
    Some(Welcome { filled, folder: demo.folder.display().to_string() })
}

/// GET /demo/open/{key}
async fn open(State(app): State<Arc<App>>, jar: CookieJar, Path(given): Path<String>) -> Result<Response, Trouble> {
    let nothing = || Trouble::NotFound { person: None };
    let demo = app.demo.get().ok_or_else(nothing)?;
    if !is_key(demo, &given) {
        return Err(nothing());
    }
    let cookie = Cookie::build((COOKIE, given)).path("/").http_only(true).same_site(SameSite::Lax);
    Ok((jar.add(cookie), Redirect::to("/sign-in")).into_response())
}

/// Nobody learns the password from it, and it is the same at each start.
fn key(password: &SecretString) -> String {
    let mut hash = Sha256::new();
    hash.update(b"holdfast demo door|");
    hash.update(password.expose_secret().as_bytes());
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..KEY_BYTES])
}

fn is_key(demo: &Demo, given: &str) -> bool {
    key(&demo.password).as_bytes().ct_eq(given.as_bytes()).into()
}

/// Whether nobody has set another password meanwhile.
async fn still_holds(app: &App, demo: &Demo) -> bool {
    let Some(hash) = &demo.password_hash else { return false };
    match app.store.find_users_by_email(&demo.email).await {
        Ok(users) => users.iter().any(|user| {
            user.password_hash.as_ref().is_some_and(|stored| stored.expose_secret() == hash.expose_secret())
        }),
        Err(error) => {
            warn!(%error, "could not look whether the demo's password still holds");
            false
        }
    }
}
