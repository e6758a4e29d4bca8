//! Our own page in the place of a provider's consent: where a provider gives people keys, the key is asked for here. It
//! hangs on the same `state` as a consent, bound to the same browser, and ends on the same pages.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::provider::{About, AuthKind};
use holdfast_store::{Purpose, Session};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::{
    asked::connector,
    callback::{Early, same_browser, taken},
    consent::Brought,
};
use crate::{
    app::App,
    keys,
    ui::{
        form::Posted,
        person::{Person, Visitor},
        trouble::Trouble,
        view::View,
    },
};

/// No provider's key is longer.
const LONGEST_KEY: usize = 4096;

#[derive(Serialize)]
struct KeyPage<'a> {
    provider: &'a str,
    account: String,
    org: String,
    again: bool,
    /// Where a person finds the key.
    help: Option<&'a str>,
    problem: &'a str,
}

#[derive(Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    key: SecretString,
}

/// GET /connect/key/{state}: asks, and changes nothing.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(state): Path<SecretString>,
    visitor: Visitor,
    person: Option<Person>,
) -> Result<Response, Trouble> {
    let session = match open(&app, &visitor, &state).await.map_err(|early| early.trouble(person.as_ref()))? {
        Open::Yes(session) => session,
        Open::Used(session) => return Ok(ended(&session.id).into_response()),
    };
    Ok((visitor.jar.clone(), page(&app, &visitor, &session, "").await?).into_response())
}

/// POST: the key is taken, once.
pub(super) async fn take(
    State(app): State<Arc<App>>,
    Path(state): Path<SecretString>,
    visitor: Visitor,
    person: Option<Person>,
    Posted(form): Posted<Form>,
) -> Result<Response, Trouble> {
    let early = |early: Early| early.trouble(person.as_ref());
    if let Open::Yes(session) = open(&app, &visitor, &state).await.map_err(early)? {
        let key = form.key.expose_secret().trim();
        let problem = if key.is_empty() {
            "Paste the key here."
        } else if key.len() > LONGEST_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            "This is no key: it holds spaces, line breaks or letters that no key has. Copy it once more, and nothing else."
        } else {
            let brought = Brought::Key(key.into());
            let id = taken(&app, &visitor.jar, Some(state.expose_secret()), brought).await.map_err(early)?;
            return Ok(ended(&id).into_response());
        };
        return Ok((visitor.jar.clone(), page(&app, &visitor, &session, problem).await?).into_response());
    }
    // Pressed twice: the first one is worked off, and both see its end.
    let id = taken(&app, &visitor.jar, Some(state.expose_secret()), Brought::Key(form.key)).await.map_err(early)?;
    Ok(ended(&id).into_response())
}

fn ended(session: &str) -> Redirect {
    Redirect::to(&format!("/connect/ended/{session}"))
}

enum Open {
    Yes(Box<Session>),
    /// A key was given already.
    Used(Box<Session>),
}

async fn open(app: &App, visitor: &Visitor, state: &SecretString) -> Result<Open, Early> {
    let found = app.store.find_session_by_state(&keys::hash(state.expose_secret())).await?.ok_or(Early::Unknown)?;
    if !same_browser(app, &visitor.jar, &found) {
        return Err(Early::OtherBrowser);
    }
    // A consent at the provider has a state as well, and no key.
    match connector(app, &found).await {
        Ok((_, provider)) if provider.about().auth_kind == AuthKind::ApiKey => {}
        _ => return Err(Early::Unknown),
    }
    if found.state_used_at.is_some() {
        return Ok(Open::Used(Box::new(found)));
    }
    if found.state_expires_at.is_none_or(|end| end <= app.seams.clock.now()) {
        return Err(Early::TooLong);
    }
    Ok(Open::Yes(Box::new(found)))
}

async fn page(app: &App, visitor: &Visitor, session: &Session, problem: &str) -> Result<Response, Trouble> {
    let (snapshot, provider) = match connector(app, session).await {
        Ok((snapshot, provider)) if provider.about().auth_kind == AuthKind::ApiKey => (snapshot, provider),
        _ => return Err(Early::Unknown.trouble(None)),
    };
    let about: &About = provider.about();
    let account = if snapshot.account.is_empty() {
        session.account.clone().unwrap_or_default()
    } else {
        snapshot.account.clone()
    };
    let page = KeyPage {
        provider: about.name,
        account: provider.account(&account).map_or(account, |account| account.display),
        org: app.store.org_name(&snapshot.org).await?.unwrap_or_default(),
        again: session.purpose == Purpose::Reconnect,
        help: about.key_help,
        problem,
    };
    let title = format!("{} key for {}", about.name, page.account);
    let status = if problem.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok(View::plain(&visitor.csrf, "pages/connect/key.html", &title, &page).status(status).show(app))
}
