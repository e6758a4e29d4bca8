//! A forgotten password: asked for by address, set by a link in a mail. Nobody learns here whether an address is known.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{ConnectInfo, Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::ports::StoreError;
use holdfast_store::{Reset, ResetDone};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::{
    form::Posted,
    parts::Told,
    passwords,
    person::Visitor,
    routes::{Needs, Routes},
    sign_in::{provider, retry_after, takes_password, too_many},
    throttle::{self, Subject},
    trouble::Trouble,
    view::View,
};
use crate::{app::App, keys, mailbox, serve::Peer};

/// Long enough to find the mail, and to be called to the telephone before.
const LINK_LIFE: TimeDelta = TimeDelta::hours(1);
const TITLE: &str = "Forgotten password";

pub(super) fn routes() -> Routes {
    let asked = Routes::new().get("/forgotten", Needs::Nothing, show).post("/forgotten", Needs::Nothing, ask);
    let by_link = Routes::new().get("/reset/{token}", Needs::Link, show_reset).post("/reset/{token}", Needs::Link, set);
    asked.merge(by_link.referring_nobody())
}

/// A link that is handed over by hand, and until when it works.
pub(crate) async fn make_link(app: &App, email: &str) -> Result<(String, DateTime<Utc>), StoreError> {
    let text = keys::secret_text("", app.seams.random.as_ref());
    let now = app.seams.clock.now();
    let until = now + LINK_LIFE;
    app.store.make_reset(email, &keys::hash(text.expose_secret()), now, until).await?;
    Ok((app.url(&format!("reset/{}", text.expose_secret())), until))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    done: String,
}

#[derive(Serialize)]
struct ForgottenPage<'a> {
    done: bool,
    /// Whether a mail can be sent at all.
    mails: bool,
    /// What the identity provider is called, where only operators have passwords.
    instead: Option<&'a str>,
    email: &'a str,
    problem: String,
}

/// GET /forgotten
async fn show(State(app): State<Arc<App>>, visitor: Visitor, Query(asked): Query<Asked>) -> Response {
    let done = !asked.done.is_empty();
    let page = ForgottenPage { done, mails: mails(&app), instead: instead(&app), email: "", problem: String::new() };
    let view = View::plain(&visitor.csrf, "pages/account/forgotten.html", TITLE, &page);
    (visitor.jar.clone(), view.show(&app)).into_response()
}

fn instead(app: &App) -> Option<&str> {
    let (name, only) = provider(app);
    name.filter(|_| only)
}

fn mails(app: &App) -> bool {
    app.seams.mail.is_some()
}

#[derive(Deserialize)]
struct Ask {
    #[serde(default)]
    email: String,
}

/// POST /forgotten
async fn ask(
    State(app): State<Arc<App>>,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    visitor: Visitor,
    Posted(form): Posted<Ask>,
) -> Result<Response, Trouble> {
    let email = form.email.trim();
    let refuse = |status, problem: String| {
        let page = ForgottenPage { done: false, mails: mails(&app), instead: instead(&app), email, problem };
        let view = View::plain(&visitor.csrf, "pages/account/forgotten.html", TITLE, &page);
        (visitor.jar.clone(), view.status(status).show(&app)).into_response()
    };
    if !mails(&app) {
        return Ok(refuse(StatusCode::CONFLICT, String::new()));
    }
    if !mailbox::is_address(email) {
        let problem = "This is not an e-mail address, such as ada@example.com.".to_owned();
        return Ok(refuse(StatusCode::UNPROCESSABLE_ENTITY, problem));
    }
    let host = Subject::host(peer.map(|Extension(ConnectInfo(Peer(peer)))| peer));
    let subjects: Vec<_> = std::iter::once(Subject::reset(email)).chain(host).collect();
    if let Err(wait) = throttle::attempt(&app, &subjects).await? {
        return Ok((retry_after(wait), refuse(StatusCode::TOO_MANY_REQUESTS, too_many(wait))).into_response());
    }
    let now = app.seams.clock.now();
    app.store.ask_reset(email, now, now + LINK_LIFE).await?;
    Ok(Redirect::to("/forgotten?done=1").into_response())
}

#[derive(Serialize)]
struct ResetPage<'a> {
    token: &'a str,
    email: &'a str,
    /// Where it is set, where there are several.
    orgs: Vec<String>,
    /// See [`ForgottenPage::instead`]; `None` also for operators.
    instead: Option<&'a str>,
    problem: String,
}

/// GET /reset/{token}. Programs that look at mails open it too: it changes nothing.
async fn show_reset(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Path(token): Path<SecretString>,
) -> Result<Response, Trouble> {
    match standing(&app, &token).await? {
        Some(reset) => reset_page(&app, &visitor, &token, &reset, String::new()).await,
        None => Ok(dead(&app, &visitor)),
    }
}

async fn reset_page(
    app: &App,
    visitor: &Visitor,
    token: &SecretString,
    reset: &Reset,
    problem: String,
) -> Result<Response, Trouble> {
    let people = app.store.find_users_by_email(&reset.email).await?;
    let instead = instead(app).filter(|_| !people.iter().any(|user| takes_password(app, user)));
    let several = people.len() > 1;
    let orgs = people.into_iter().filter(|_| several).map(|user| user.org_name).collect();
    let status = if problem.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let page = ResetPage { token: token.expose_secret(), email: &reset.email, orgs, instead, problem };
    let view = View::plain(&visitor.csrf, "pages/account/reset.html", "Set a new password", &page);
    Ok((visitor.jar.clone(), view.status(status).show(app)).into_response())
}

async fn standing(app: &App, token: &SecretString) -> Result<Option<Reset>, StoreError> {
    let found = app.store.find_reset_of(&keys::hash(token.expose_secret())).await?;
    Ok(found.filter(|reset| reset.stands(app.seams.clock.now())))
}

/// Used, over, overtaken, cut off: the way on is the same.
fn dead(app: &App, visitor: &Visitor) -> Response {
    let page = Told::new(
        "A link to set a password works once, and for an hour; after the password was changed another way, not at all. \
         It may also be cut off at its end.",
        "Ask for a new link",
        "/forgotten",
    );
    page.show(app, visitor, StatusCode::GONE, "This link is over")
}

#[derive(Deserialize)]
struct Set {
    #[serde(default)]
    password: SecretString,
}

/// POST /reset/{token}
async fn set(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Path(token): Path<SecretString>,
    Posted(form): Posted<Set>,
) -> Result<Response, Trouble> {
    let Some(reset) = standing(&app, &token).await? else { return Ok(dead(&app, &visitor)) };
    let people = app.store.find_users_by_email(&reset.email).await?;
    let known: Vec<&str> = std::iter::once(reset.email.as_str())
        .chain(people.iter().flat_map(|user| [user.shown(), user.org_name.as_str()]))
        .collect();
    if let Some(problem) = passwords::complaint(form.password.expose_secret(), &known) {
        return reset_page(&app, &visitor, &token, &reset, problem).await;
    }
    let hash = passwords::hash(form.password).await.map_err(|_| Trouble::Garbled)?;
    match app.store.reset_password(&keys::hash(token.expose_secret()), &hash, &app.telling()).await? {
        ResetDone::No => Ok(dead(&app, &visitor)),
        ResetDone::Yes(rows) => {
            info!(rows, "a forgotten password was set anew");
            // Whoever guessed meanwhile guessed at another one.
            throttle::forget(&app, Subject::address(&reset.email)).await?;
            Ok(Redirect::to("/sign-in?done=reset").into_response())
        }
    }
}
