//! Signing in and out.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Extension,
    extract::{ConnectInfo, Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::CookieJar;
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_store::{NewBrowserSession, User};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::{
    cookies::Kind,
    form::{Nothing, Posted},
    moment::span,
    passwords,
    person::{Person, Visitor},
    trouble::Trouble,
    view::View,
};
use crate::{
    app::App,
    demo::{self, Welcome},
    keys,
};

/// However much it is used.
const SESSION_LIFE: TimeDelta = TimeDelta::days(30);
/// So many wrong passwords for one address cost nothing.
const FREE_FAILURES: i64 = 5;
/// Many people may sit behind one.
const FREE_FAILURES_OF_A_HOST: i64 = 50;
/// The longest that one has to wait.
const LONGEST_WAIT: TimeDelta = TimeDelta::minutes(15);
/// After this, failures are forgotten.
const FORGET_AFTER: TimeDelta = TimeDelta::hours(1);

#[derive(Deserialize)]
pub(super) struct Asked {
    next: Option<String>,
}

#[derive(Serialize)]
struct SignInPage<'a> {
    email: &'a str,
    next: &'a str,
    problem: Option<String>,
    demo: Option<&'a Welcome>,
}

#[derive(Deserialize)]
pub(super) struct SignIn {
    #[serde(default)]
    email: String,
    #[serde(default)]
    password: SecretString,
    #[serde(default)]
    next: String,
}

/// GET /sign-in
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Option<Person>,
    visitor: Visitor,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let next = asked.next.unwrap_or_default();
    if person.is_some() {
        return Ok(Redirect::to(local(&next)).into_response());
    }
    let demo = demo::welcome(&app, &visitor.jar).await;
    let page = SignInPage { email: "", next: &next, problem: None, demo: demo.as_ref() };
    let view = View::plain(&visitor.csrf, "pages/sign_in.html", "Sign in", &page);
    Ok((visitor.jar.clone(), view.show(&app)).into_response())
}

/// POST /sign-in
pub(super) async fn sign_in(
    State(app): State<Arc<App>>,
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
    visitor: Visitor,
    headers: HeaderMap,
    Posted(form): Posted<SignIn>,
) -> Result<Response, Trouble> {
    let demo = demo::welcome(&app, &visitor.jar).await;
    let refuse = |status, problem: String| {
        let page = SignInPage { email: &form.email, next: &form.next, problem: Some(problem), demo: demo.as_ref() };
        let view = View::plain(&visitor.csrf, "pages/sign_in.html", "Sign in", &page);
        (visitor.jar.clone(), view.status(status).show(&app)).into_response()
    };
    let now = app.seams.clock.now();
    let subjects = subjects(&form.email, peer.map(|Extension(ConnectInfo(peer))| peer));
    for (subject, free) in &subjects {
        if let Some(wait) = wait(&app, subject, *free, now).await? {
            let wait = span(wait).unwrap_or_else(|| "a few seconds".to_owned());
            let problem = format!("Too many attempts. Wait {wait}, then try again.");
            return Ok(refuse(StatusCode::TOO_MANY_REQUESTS, problem));
        }
    }
    let proven = proven(&app, &form).await?;
    let Some((user, also)) = proven.split_first() else {
        for (subject, _) in &subjects {
            app.store.count_failure(subject, now, now - FORGET_AFTER).await?;
        }
        warn!("somebody tried to sign in with a wrong address or password");
        let problem =
            "Address or password is not right. Mind capital letters, and which address you were invited with.";
        return Ok(refuse(StatusCode::UNPROCESSABLE_ENTITY, problem.to_owned()));
    };
    app.store.forget_failures(&subjects[0].0).await?;
    let also = also.iter().map(|user| user.id.clone()).collect();
    let jar = begin(&app, visitor.jar.clone(), &headers, user, also).await?;
    Ok((jar, Redirect::to(local(&form.next))).into_response())
}

/// POST /sign-out
pub(super) async fn sign_out(
    State(app): State<Arc<App>>,
    person: Person,
    jar: CookieJar,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    app.store.end_browser_session(&person.user.id, &person.session.id).await?;
    Ok((jar.add(Kind::Session.end(&app)), Redirect::to("/sign-in")).into_response())
}

/// Signs this browser in, with a cookie that nobody has seen before.
pub(super) async fn begin(
    app: &App,
    jar: CookieJar,
    headers: &HeaderMap,
    user: &User,
    also: Vec<String>,
) -> Result<CookieJar, Trouble> {
    let token = keys::secret_text("", app.seams.random.as_ref());
    let at = app.seams.clock.now();
    let session = NewBrowserSession {
        user: user.id.clone(),
        also,
        token_hash: keys::hash(token.expose_secret()),
        browser: headers
            .get(header::USER_AGENT)
            .and_then(|name| name.to_str().ok())
            .map(|name| name.chars().take(200).collect()),
        at,
        expires_at: at + SESSION_LIFE,
    };
    app.store.create_browser_session(&session).await?;
    info!(user.id = user.id, "{} signed in", user.id);
    Ok(jar.add(Kind::Session.set(app, token.expose_secret().to_owned())))
}

/// The rows of this address whose password this is, the oldest first.
async fn proven(app: &App, form: &SignIn) -> Result<Vec<User>, Trouble> {
    if form.password.expose_secret().chars().count() > passwords::LONGEST {
        return Ok(Vec::new());
    }
    let users = app.store.find_users_by_email(&form.email).await?;
    let hashes = users.iter().map(|user| user.password_hash.clone()).collect();
    let right = passwords::verify(form.password.clone(), hashes).await;
    Ok(users.into_iter().zip(right).filter_map(|(user, right)| right.then_some(user)).collect())
}

/// What failures are counted for: the address, and the caller's host where it is not a proxy of the operator's.
fn subjects(email: &str, peer: Option<SocketAddr>) -> Vec<([u8; 32], i64)> {
    let mut subjects = vec![(keys::hash(&format!("address|{}", email.trim().to_lowercase())), FREE_FAILURES)];
    let public = peer.map(|peer| peer.ip()).filter(|ip| match ip {
        std::net::IpAddr::V4(ip) => !(ip.is_private() || ip.is_loopback() || ip.is_link_local()),
        std::net::IpAddr::V6(ip) => !(ip.is_unique_local() || ip.is_loopback() || ip.is_unicast_link_local()),
    });
    if let Some(ip) = public {
        subjects.push((keys::hash(&format!("host|{ip}")), FREE_FAILURES_OF_A_HOST));
    }
    subjects
}

/// How long this subject still has to wait: twice as long after each failure.
async fn wait(app: &App, subject: &[u8; 32], free: i64, now: DateTime<Utc>) -> Result<Option<TimeDelta>, Trouble> {
    let Some(throttle) = app.store.find_throttle(subject).await? else { return Ok(None) };
    let over = throttle.failures - free;
    if over < 0 {
        return Ok(None);
    }
    let wait = TimeDelta::seconds(5 << over.min(10)).min(LONGEST_WAIT);
    let left = throttle.last_at + wait - now;
    Ok((left > TimeDelta::zero()).then_some(left))
}

/// Where to go on: a path of ours and nothing else.
fn local(next: &str) -> &str {
    let ours = next.starts_with('/') && !next.starts_with("//") && !next.contains(['\\', '\r', '\n', '\t', '\0']);
    if ours { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn only_paths_of_ours_are_gone_on_to() {
        assert_eq!(local("/connectors/con_1?filter=x"), "/connectors/con_1?filter=x");
        for bad in
            ["", "https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "javascript:x", "x"]
        {
            assert_eq!(local(bad), "/", "{bad:?}");
        }
    }
}
