//! The first-run set-up: whoever can read the log makes the first owner, once.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use holdfast_core::ports::StoreError;
use holdfast_store::FirstUser;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tracing::{info, warn};

use super::{
    form::Posted,
    passwords,
    person::Visitor,
    routes::{Needs, Routes},
    sign_in::{Came, begin},
    trouble::Trouble,
    view::View,
};
use crate::{app::App, care, mailbox};

/// Its secret, the same on all replicas.
const SECRET: &str = "setup";

pub(super) fn routes() -> Routes {
    // The pages themselves ask for the token of the log.
    Routes::new().get("/setup", Needs::Nothing, show).post("/setup", Needs::Nothing, set_up)
}

/// Where the first owner is made, as long as nobody is there.
async fn address(app: &App) -> Result<Option<String>, StoreError> {
    if app.store.has_users().await? {
        return Ok(None);
    }
    let token = URL_SAFE_NO_PAD.encode(app.store.instance_secret(SECRET).await?);
    Ok(Some(app.url(&format!("setup?token={token}"))))
}

/// Tells the log of it.
pub async fn announce(app: &App) {
    match address(app).await {
        // On purpose, and the one secret that is: whoever reads the log runs the service. It works once.
        Ok(Some(address)) => info!("nobody can sign in yet; make the first owner at {address}"),
        Ok(None) => {}
        Err(error) => warn!(%error, "could not look whether anybody can sign in"),
    }
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    token: String,
}

#[derive(Serialize, Default)]
struct SetupPage<'a> {
    token: &'a str,
    org: &'a str,
    name: &'a str,
    email: &'a str,
    problems: Problems,
}

/// By the fields that they stand by.
#[derive(Serialize, Default, PartialEq)]
struct Problems {
    org: String,
    name: String,
    email: String,
    password: String,
}

#[derive(Deserialize)]
struct SetUp {
    #[serde(default)]
    token: String,
    #[serde(default)]
    org: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    email: String,
    #[serde(default)]
    password: SecretString,
}

/// GET /setup
async fn show(State(app): State<Arc<App>>, visitor: Visitor, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    checked(&app, &asked.token).await?;
    let page = SetupPage { token: &asked.token, ..SetupPage::default() };
    let view = View::plain(&visitor.csrf, "pages/setup.html", "Set up Holdfast", &page);
    Ok((visitor.jar.clone(), view.show(&app)).into_response())
}

/// POST /setup
async fn set_up(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    headers: HeaderMap,
    Posted(form): Posted<SetUp>,
) -> Result<Response, Trouble> {
    checked(&app, &form.token).await?;
    let problems = complaints(&form);
    if problems != Problems::default() {
        let page = SetupPage { token: &form.token, org: &form.org, name: &form.name, email: &form.email, problems };
        let view = View::plain(&visitor.csrf, "pages/setup.html", "Set up Holdfast", &page);
        return Ok((visitor.jar.clone(), view.status(StatusCode::UNPROCESSABLE_ENTITY).show(&app)).into_response());
    }
    let first = FirstUser {
        secret: SECRET.to_owned(),
        org: form.org.trim().to_owned(),
        email: form.email.clone(),
        name: form.name.trim().to_owned(),
        password_hash: passwords::hash(form.password.clone()).await.map_err(|_| Trouble::Garbled)?,
        at: app.seams.clock.now(),
    };
    let Some(id) = app.store.create_first_user(&first).await? else { return Err(done()) };
    info!(user.id = id, "the first owner was made");
    let user = app.store.find_user(&id).await?.ok_or_else(done)?;
    let jar = begin(&app, visitor.jar.clone(), &headers, &user, Vec::new(), Came::Otherwise { vouched: false }).await?;
    Ok((jar, Redirect::to("/")).into_response())
}

async fn checked(app: &App, token: &str) -> Result<(), Trouble> {
    if app.store.has_users().await? {
        return Err(done());
    }
    let secret = app.store.find_instance_secret(SECRET).await?;
    let right = secret.is_some_and(|secret| URL_SAFE_NO_PAD.encode(secret).as_bytes().ct_eq(token.as_bytes()).into());
    if right {
        return Ok(());
    }
    Err(Trouble::Told {
        status: StatusCode::FORBIDDEN,
        title: "This is not the set-up link".to_owned(),
        way_on:
            "Take the whole link from the service's log; it is printed at each start, as long as nobody can sign in."
                .to_owned(),
        way: None,
        person: None,
    })
}

fn done() -> Trouble {
    Trouble::Told {
        status: StatusCode::GONE,
        title: "Holdfast is set up already".to_owned(),
        way_on: "Sign in, or ask whoever runs this installation to add you.".to_owned(),
        way: None,
        person: None,
    }
}

fn complaints(form: &SetUp) -> Problems {
    let unless = |good: bool, text: &str| if good { String::new() } else { text.to_owned() };
    Problems {
        org: unless(care::is_name(form.org.trim()), &format!("The organisation's name {}.", care::NAME_RULE)),
        name: unless(
            care::is_name(form.name.trim()),
            &format!("Your name {}; your colleagues see it.", care::NAME_RULE),
        ),
        email: unless(
            mailbox::is_address(form.email.trim()),
            "This is not an e-mail address, such as ada@example.com.",
        ),
        password: passwords::complaint(
            form.password.expose_secret(),
            &[form.email.trim(), form.name.trim(), form.org.trim()],
        )
        .unwrap_or_default(),
    }
}
