//! Our own page in the place of a provider's consent: where a provider gives people keys, the key is asked for here. It
//! hangs on the same `state` as a consent, bound to the same browser, and ends on the same pages.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::provider::{ApiKeyAuth, Auth};
use holdfast_store::{Purpose, Session, Way};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::{
    asked::{Asked, asked},
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
        view::{Brand, View},
    },
};

/// No provider's key is longer.
const LONGEST_KEY: usize = 4096;

#[derive(Serialize)]
struct KeyPage<'a> {
    provider: &'a str,
    account: &'a str,
    org: &'a str,
    again: bool,
    /// The connector's page, for who is signed in where it is.
    back: Option<String>,
    /// Where a person finds the key.
    help: Option<&'a str>,
    user: Option<UserField<'a>>,
    problem: &'a str,
}

/// A user name that belongs to the key.
#[derive(Serialize)]
struct UserField<'a> {
    label: &'a str,
    example: &'a str,
    typed: &'a str,
    problem: &'a str,
}

#[derive(Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    user: String,
    #[serde(default)]
    key: SecretString,
}

/// What is wrong with what was typed, by its field.
#[derive(Default)]
struct Problems {
    user: &'static str,
    key: &'static str,
}

/// GET /connect/key/{state}: asks, and changes nothing.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(state): Path<SecretString>,
    visitor: Visitor,
    person: Option<Person>,
) -> Result<Response, Trouble> {
    let (session, asked) = match open(&app, &visitor, &state).await.map_err(|early| early.trouble(person.as_ref()))? {
        Open::Yes(session, asked) => (session, asked),
        Open::Used(session) => return Ok(ended(&session).into_response()),
    };
    let page = page(&app, &visitor, person.as_ref(), &session, &asked, "", &Problems::default()).await?;
    Ok((visitor.jar.clone(), page).into_response())
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
    let key = match open(&app, &visitor, &state).await.map_err(early)? {
        Open::Yes(session, asked) => match read(&asked, &form) {
            Ok(key) => key,
            Err(problems) => {
                let page = page(&app, &visitor, person.as_ref(), &session, &asked, form.user.trim(), &problems).await?;
                return Ok((visitor.jar.clone(), page).into_response());
            }
        },
        // Pressed twice: the first one is worked off, and both see its end.
        Open::Used(_) => form.key,
    };
    let id = taken(&app, &visitor.jar, Some(state.expose_secret()), Brought::Key(key)).await.map_err(early)?;
    Ok(ended(&id).into_response())
}

/// The key as it is kept, with the user name that belongs to it.
fn read(asked: &Asked, form: &Form) -> Result<SecretString, Problems> {
    let (user, key) = (form.user.trim(), form.key.expose_secret().trim());
    let visible = |text: &str| text.len() <= LONGEST_KEY && text.bytes().all(|byte| byte.is_ascii_graphic());
    let mut problems = Problems::default();
    if key.is_empty() {
        problems.key = "Paste the key here.";
    } else if !visible(key) {
        problems.key = "This is no key: it holds spaces, line breaks or letters that no key has. Copy it once more, and nothing else.";
    }
    let pair = matches!(asked.auth, Auth::ApiKey(ApiKeyAuth::Pair { .. }));
    if pair && (user.is_empty() || !visible(user) || user.contains(':')) {
        problems.user = "This belongs to the key. It holds no spaces and no colon.";
    }
    match problems {
        Problems { user: "", key: "" } if pair => Ok(format!("{user}:{key}").into()),
        Problems { user: "", key: "" } => Ok(key.into()),
        problems => Err(problems),
    }
}

fn ended(session: &str) -> Redirect {
    Redirect::to(&format!("/connect/ended/{session}"))
}

enum Open {
    Yes(Box<Session>, Box<Asked>),
    /// A key was given already, in this session.
    Used(String),
}

async fn open(app: &App, visitor: &Visitor, state: &SecretString) -> Result<Open, Early> {
    let found = app.store.find_session_by_state(&keys::hash(state.expose_secret())).await?.ok_or(Early::Unknown)?;
    if !same_browser(app, &visitor.jar, &found) {
        return Err(Early::OtherBrowser);
    }
    // A consent at the provider has a state as well, and no key.
    let asked = match asked(app, &found).await {
        Ok(asked) if matches!(asked.auth, Auth::ApiKey(_)) => asked,
        _ => return Err(Early::Unknown),
    };
    if found.state_used_at.is_some() {
        return Ok(Open::Used(found.id));
    }
    if found.state_expires_at.is_none_or(|end| end <= app.seams.clock.now()) {
        return Err(Early::TooLong);
    }
    Ok(Open::Yes(Box::new(found), Box::new(asked)))
}

async fn page(
    app: &App,
    visitor: &Visitor,
    person: Option<&Person>,
    session: &Session,
    asked: &Asked,
    typed: &str,
    problems: &Problems,
) -> Result<Response, Trouble> {
    let about = asked.provider.about();
    let user = match &asked.auth {
        Auth::ApiKey(ApiKeyAuth::Pair { user: (label, example) }) => {
            Some(UserField { label, example, typed, problem: problems.user })
        }
        _ => None,
    };
    let brand = Brand::of(app, &asked.snapshot.org).await?;
    let page = KeyPage {
        provider: about.name,
        account: &asked.account.display,
        org: brand.name(),
        again: session.purpose == Purpose::Reconnect,
        back: person
            .filter(|person| *person.org() == session.org)
            .map(|_| format!("/connectors/{}", session.connector)),
        help: about.key_help,
        user,
        problem: problems.key,
    };
    let title = format!("{} key for {}", about.name, page.account);
    let fine = problems.key.is_empty() && problems.user.is_empty();
    let status = if fine { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let view = View::plain(&visitor.csrf, "pages/connect/key.html", &title, &page).status(status);
    // Who has an account here is not the org's customer.
    Ok(if session.way == Way::Link { view.branded(&brand) } else { view }.show(app))
}
