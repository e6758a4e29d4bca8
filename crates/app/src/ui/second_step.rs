//! The second step of a sign-in: a code of an authenticator app, or a recovery code. What the first step has shown is kept
//! under a cookie of its own, which opens nothing else.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{ConnectInfo, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::CookieJar;
use chrono::TimeDelta;
use holdfast_core::{ports::StoreError, totp};
use holdfast_store::{FactorOwner, HalfSignIn, Proof, Proven, User};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::{
    cookies::Kind,
    form::Posted,
    person::{Person, Visitor},
    recovery,
    routes::{Needs, Routes},
    sign_in::{Came, begin, local, retry_after, too_many},
    throttle::{self, Subject},
    trouble::{Trouble, sign_in_address},
    view::View,
};
use crate::{app::App, keys, serve::Peer};

const HERE: &str = "/sign-in/code";
/// Long enough to find the telephone.
const LIFE: TimeDelta = TimeDelta::minutes(10);

pub(super) fn routes() -> Routes {
    Routes::new().get(HERE, Needs::Nothing, show).post(HERE, Needs::Nothing, check)
}

/// Leads somebody who has shown the right password to it.
pub(super) async fn ask(
    app: &App,
    jar: CookieJar,
    user: &User,
    also: Vec<String>,
    next: &str,
) -> Result<Response, Trouble> {
    let cookie = keys::secret_text("", app.seams.random.as_ref());
    let at = app.seams.clock.now();
    let half = HalfSignIn { user: user.id.clone(), also, next: next.to_owned(), expires_at: at + LIFE };
    app.store.begin_half_sign_in(&keys::hash(cookie.expose_secret()), &half, at).await?;
    let jar = jar.add(Kind::Half.set(app, cookie.expose_secret().to_owned()));
    Ok((jar, Redirect::to(HERE)).into_response())
}

/// Whether what was typed proves them.
async fn prove(app: &App, user: &User, typed: &Typed<'_>) -> Result<Proven, StoreError> {
    let owner = FactorOwner { user: &user.id, email: &user.email };
    app.store.prove_second_factor(owner, typed.proof(&mut [0; 32]), &app.telling()).await
}

/// Which of the two somebody typed.
pub(super) enum Typed<'a> {
    /// What an app shows.
    Code(&'a str),
    /// One of those that were kept for the day the telephone is gone.
    Recovery(&'a str),
}

impl<'a> Typed<'a> {
    /// Where one field takes both: six digits are a code.
    pub(super) fn either(text: &'a str) -> Self {
        if totp::digits(text).is_some() { Self::Code(text) } else { Self::Recovery(text) }
    }

    /// As a proof; `hash` is room for it.
    pub(super) fn proof<'b>(&self, hash: &'b mut [u8; 32]) -> Proof<'b>
    where
        'a: 'b,
    {
        match *self {
            Self::Code(code) => Proof::Code(code),
            Self::Recovery(code) => {
                *hash = recovery::hash(code);
                Proof::Recovery(hash)
            }
        }
    }

    /// Why it was not taken, in words.
    pub(super) fn complaint(&self, proven: Proven) -> &'static str {
        match (proven, self) {
            (Proven::Used, _) => "That code was used already. Wait until your app shows the next one.",
            (_, Self::Code(_)) => {
                "That is not the code. Take the one that your app shows at this moment; its clock and ours have to agree."
            }
            (_, Self::Recovery(_)) => "That is no recovery code of yours, or it was used before: each works once.",
        }
    }
}

/// One more wrong code of somebody: those who guess have their password, so they are told when it looks like it.
pub(super) async fn wrong(app: &App, user: &User) -> Result<(), StoreError> {
    warn!(user.id = user.id, "a wrong second factor of {}", user.id);
    app.store.audit_wrong_second_factor(&user.email).await?;
    if throttle::just_spent(app, &Subject::second_factor(&user.email)).await? {
        app.store.tell_of_guesses(&user.id, &app.telling()).await?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    with: String,
}

#[derive(Serialize)]
struct StepPage<'a> {
    email: &'a str,
    /// Whether a recovery code is asked for.
    recovery: bool,
    problem: String,
}

/// GET /sign-in/code
async fn show(
    State(app): State<Arc<App>>,
    person: Option<Person>,
    visitor: Visitor,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    match half(&app, &visitor.jar).await? {
        Some((_, user)) => Ok(page(&app, &visitor, &user, asked.with == "recovery", StatusCode::OK, String::new())),
        None if person.is_some() => Ok(Redirect::to("/").into_response()),
        None => Ok(Redirect::to("/sign-in").into_response()),
    }
}

fn page(app: &App, visitor: &Visitor, user: &User, recovery: bool, status: StatusCode, problem: String) -> Response {
    let page = StepPage { email: &user.email, recovery, problem };
    let view = View::plain(&visitor.csrf, "pages/account/second_step.html", "Sign in: second step", &page);
    (visitor.jar.clone(), view.status(status).show(app)).into_response()
}

/// Who is half signed in here, and how.
async fn half(app: &App, jar: &CookieJar) -> Result<Option<(HalfSignIn, User)>, StoreError> {
    let Some(cookie) = Kind::Half.read(app, jar) else { return Ok(None) };
    let half = app.store.find_half_sign_in(&keys::hash(&cookie), app.seams.clock.now()).await?;
    let Some(half) = half else { return Ok(None) };
    Ok(app.store.find_user(&half.user).await?.map(|user| (half, user)))
}

#[derive(Deserialize)]
struct Step {
    #[serde(default)]
    code: SecretString,
    /// Instead of a code.
    recovery: Option<SecretString>,
}

/// POST /sign-in/code
async fn check(
    State(app): State<Arc<App>>,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    visitor: Visitor,
    headers: HeaderMap,
    Posted(form): Posted<Step>,
) -> Result<Response, Trouble> {
    let Some((half, user)) = half(&app, &visitor.jar).await? else { return Ok(over(&visitor.jar, "/")) };
    let peer = peer.map(|Extension(ConnectInfo(Peer(peer)))| peer);
    let recovery = form.recovery.is_some();
    let subjects: Vec<_> = std::iter::once(Subject::second_factor(&user.email)).chain(Subject::host(peer)).collect();
    if let Err(wait) = throttle::attempt(&app, &subjects).await? {
        let page = page(&app, &visitor, &user, recovery, StatusCode::TOO_MANY_REQUESTS, too_many(wait));
        return Ok((retry_after(wait), page).into_response());
    }
    let typed = match &form.recovery {
        Some(code) => Typed::Recovery(code.expose_secret()),
        None => Typed::Code(form.code.expose_secret()),
    };
    // Turned off meanwhile: then the password is enough.
    let proven = if user.second_factor { prove(&app, &user, &typed).await? } else { Proven::Yes };
    if matches!(proven, Proven::Wrong | Proven::Used) {
        wrong(&app, &user).await?;
        let problem = typed.complaint(proven).to_owned();
        return Ok(page(&app, &visitor, &user, recovery, StatusCode::UNPROCESSABLE_ENTITY, problem));
    }
    throttle::succeeded(&app, &subjects).await?;
    let cookie = Kind::Half.read(&app, &visitor.jar).unwrap_or_default();
    let taken = app.store.take_half_sign_in(&keys::hash(&cookie), app.seams.clock.now()).await?;
    let Some(half) = taken.filter(|taken| taken.user == half.user) else { return Ok(over(&visitor.jar, &half.next)) };
    info!(user.id = user.id, "{} has shown their second factor", user.id);
    let jar = begin(&app, visitor.jar.clone(), &headers, &user, half.also, Came::SignedIn(peer)).await?;
    Ok((jar.add(Kind::Half.end(&app)), Redirect::to(local(&half.next))).into_response())
}

/// The first half is too long ago, or its password was changed since.
fn over(jar: &CookieJar, next: &str) -> Response {
    let address = sign_in_address(next);
    let with = if address.contains('?') { '&' } else { '?' };
    (jar.clone(), Redirect::to(&format!("{address}{with}done=late"))).into_response()
}
