//! One's own account: name, password, and the browsers that are signed in.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::CookieJar;
use holdfast_core::ports::Changed;
use holdfast_store::{BrowserSession, Unlink, User};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::browsers;
use crate::{
    app::App,
    care, keys, oidc,
    ui::{
        cookies::Kind,
        form::{Nothing, Posted},
        moment::Moment,
        passwords,
        person::{LONGEST_PAUSE, Person},
        routes::{Needs, Routes},
        sign_in::{takes_password, too_many},
        throttle::{self, Subject},
        trouble::Trouble,
        view::{Here, View},
    },
    words,
};

const HERE: &str = "/settings/account";

pub(super) fn routes() -> Routes {
    Routes::new()
        .get(HERE, Needs::Account, show)
        .post("/settings/account/name", Needs::Account, rename)
        .post("/settings/account/password", Needs::Account, change_password)
        .post("/settings/account/unlink", Needs::Account, unlink)
        .post("/settings/account/sessions/{id}/end", Needs::Account, end_session)
        .post("/settings/account/sessions/end-others", Needs::Account, end_others)
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    done: String,
}

/// What was just done, in words; an address may be made up, so only these are said.
fn done(word: &str) -> Option<&'static str> {
    match word {
        "name" => Some("Your name is changed."),
        "password" => Some("Your password is changed. Every other browser is signed out."),
        "unlinked" => Some("The sign-in is unlinked. Browsers that came in by it are signed out, but for this one."),
        "ended" => Some("That browser is signed out."),
        "others" => Some("Every other browser is signed out."),
        _ => None,
    }
}

#[derive(Serialize, Default)]
struct AccountPage<'a> {
    done: Option<&'static str>,
    email: &'a str,
    org: &'a str,
    role: String,
    operator: bool,
    name: &'a str,
    /// What their other organisations are called.
    others: Vec<String>,
    /// Whether they have a second factor.
    two_factor: bool,
    /// What the identity provider is called, and since when an account there is theirs.
    provider: Option<(&'a str, Option<Moment>)>,
    /// Why they have no password, where they have none that is taken.
    no_password: Option<NoPassword>,
    sessions: Vec<SessionRow>,
    problems: Problems,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum NoPassword {
    /// They sign in at the identity provider alone.
    Elsewhere,
    /// They never set one, and can have a link mailed to do so.
    NotSet,
    /// The same, and no mail is sent.
    NoMail,
}

impl NoPassword {
    fn of(app: &App, user: &User) -> Option<Self> {
        if !takes_password(app, user) {
            return Some(Self::Elsewhere);
        }
        let not_set = if app.seams.mail.is_some() { Self::NotSet } else { Self::NoMail };
        user.password_hash.is_none().then_some(not_set)
    }
}

/// By the fields that they stand by.
#[derive(Serialize, Default)]
struct Problems {
    name: String,
    current: String,
    new: String,
}

#[derive(Serialize)]
struct SessionRow {
    id: String,
    browser: String,
    /// Whether it is the one that asks.
    here: bool,
    seen: Moment,
    since: Moment,
}

/// GET /settings/account
async fn show(State(app): State<Arc<App>>, person: Person, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    page(&app, &person, AccountPage { done: done(&asked.done), name: own_name(&person), ..AccountPage::default() })
        .await
}

async fn page(app: &App, person: &Person, page: AccountPage<'_>) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let sessions = app.store.browser_sessions(&person.user.id, now - LONGEST_PAUSE).await?;
    let row = |session: &BrowserSession| SessionRow {
        id: session.id.clone(),
        browser: browsers::in_words(session.browser.as_deref()),
        here: session.id == person.session.id,
        // Uses are noted every few minutes; this one is happening.
        seen: Moment::new(if session.id == person.session.id { now } else { session.seen_at }, now),
        since: Moment::new(session.created_at, now),
    };
    let provider = match app.config.oidc() {
        Some(oidc) => {
            let since = app.store.linked_since(&oidc.issuer, &person.user.email).await?;
            Some((oidc.name.as_str(), Moment::maybe(since, now)))
        }
        None => None,
    };
    let wrong = [&page.problems.name, &page.problems.current, &page.problems.new].iter().any(|text| !text.is_empty());
    let page = AccountPage {
        email: &person.user.email,
        org: &person.user.org_name,
        role: format!("{}: {}", words::role(person.user.role), words::role_means(person.user.role)),
        operator: person.user.operator,
        others: others(app, person).await?.into_iter().map(|other| other.org_name).collect(),
        two_factor: person.user.second_factor,
        provider,
        no_password: NoPassword::of(app, &person.user),
        sessions: sessions.iter().map(row).collect(),
        ..page
    };
    let status = if wrong { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let view = View::of(person, Here::Settings, "pages/settings/account.html", "Your account", &page);
    Ok(view.status(status).show(app))
}

fn own_name(person: &Person) -> &str {
    person.user.name.as_deref().unwrap_or_default()
}

/// The rows of the same person in other organisations whose password was proven at sign-in, and that still are.
pub(super) async fn others(app: &App, person: &Person) -> Result<Vec<User>, Trouble> {
    let mut others = Vec::new();
    for id in &person.session.also {
        others.extend(app.store.find_user(id).await?);
    }
    Ok(others)
}

#[derive(Deserialize)]
struct Rename {
    #[serde(default)]
    name: String,
}

/// POST /settings/account/name
async fn rename(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(form): Posted<Rename>,
) -> Result<Response, Trouble> {
    let name = form.name.trim();
    if !care::is_name(name) {
        let problems =
            Problems { name: format!("Your name {}; your colleagues see it.", care::NAME_RULE), ..Problems::default() };
        return page(&app, &person, AccountPage { name: &form.name, problems, ..AccountPage::default() }).await;
    }
    app.store.rename_user(&person.user.id, name).await?;
    Ok(back("name"))
}

#[derive(Deserialize)]
struct ChangePassword {
    #[serde(default)]
    current: SecretString,
    #[serde(default)]
    new: SecretString,
    /// Present: also in the person's other organisations, where they sign in with the same one.
    everywhere: Option<String>,
}

/// POST /settings/account/password
async fn change_password(
    State(app): State<Arc<App>>,
    person: Person,
    jar: CookieJar,
    Posted(form): Posted<ChangePassword>,
) -> Result<Response, Trouble> {
    let refuse = async |problems| {
        page(&app, &person, AccountPage { name: own_name(&person), problems, ..AccountPage::default() }).await
    };
    // Whoever found an open browser may guess here, no faster than at the door.
    let subjects = [Subject::person(&person.user.id)];
    if let Err(wait) = throttle::attempt(&app, &subjects).await? {
        return refuse(Problems { current: too_many(wait), ..Problems::default() }).await;
    }
    let mut rows = vec![person.user.clone()];
    if form.everywhere.is_some() {
        rows.extend(others(&app, &person).await?);
    }
    let hashes = rows.iter().map(|user| user.password_hash.clone()).collect();
    let right = passwords::verify(form.current.clone(), hashes).await;
    if right.first() != Some(&true) {
        let current = "That is not your password.".to_owned();
        return refuse(Problems { current, ..Problems::default() }).await;
    }
    throttle::succeeded(&app, &subjects).await?;
    let known = [person.user.email.as_str(), own_name(&person), &person.user.org_name];
    let new = passwords::complaint(form.new.expose_secret(), &known).or_else(|| {
        let same = form.new.expose_secret() == form.current.expose_secret();
        same.then(|| "That is the one that you have already.".to_owned())
    });
    if let Some(new) = new {
        return refuse(Problems { new, ..Problems::default() }).await;
    }
    let hash = passwords::hash(form.new).await.map_err(|_| Trouble::Garbled)?;
    let ids: Vec<_> = rows.iter().zip(right).filter(|(_, right)| *right).map(|(user, _)| user.id.as_str()).collect();
    app.store.set_password(&ids, &hash, Some(&person.session.id), Some((&app.telling(), "account"))).await?;
    info!(user.id = person.user.id, "{} changed their password", person.user.id);
    // A copy of the cookie ends with the password that it was made with.
    let token = keys::secret_text("", app.seams.random.as_ref());
    app.store.renew_browser_session(&person.session.id, &keys::hash(token.expose_secret())).await?;
    Ok((jar.add(Kind::Session.set(&app, token.expose_secret().to_owned())), back("password")).into_response())
}

/// POST /settings/account/unlink
async fn unlink(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let provider = oidc::name(&app);
    let (user, session) = (&person.user, Some(person.session.id.as_str()));
    let unlink = Unlink { user: &user.id, email: &user.email, provider, session };
    // Unlinked meanwhile is as well.
    app.store.unlink_identities(unlink, &app.telling()).await?;
    info!(user.id, "{} unlinked their sign-in by the identity provider", user.id);
    Ok(back("unlinked"))
}

/// POST /settings/account/sessions/{id}/end
async fn end_session(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    match app.store.end_browser_session(&person.user.id, &id).await? {
        Changed::Yes => Ok(back("ended")),
        Changed::No => Err(Trouble::not_found(&person)),
    }
}

/// POST /settings/account/sessions/end-others
async fn end_others(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    app.store.end_other_browser_sessions(&person.user.id, &person.session.id).await?;
    Ok(back("others"))
}

fn back(done: &str) -> Response {
    Redirect::to(&format!("{HERE}?done={done}")).into_response()
}
