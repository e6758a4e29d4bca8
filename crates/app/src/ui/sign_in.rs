//! Signing in and out.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Extension,
    extract::{ConnectInfo, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::CookieJar;
use chrono::TimeDelta;
use holdfast_store::{NewBrowserSession, User};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::{info, warn};

use super::{
    cookies::{self, Kind},
    form::Posted,
    moment::span,
    passwords,
    person::{Person, Visitor},
    provider_sign_in,
    routes::{Needs, Routes},
    second_step,
    settings::browsers::in_words,
    throttle::{self, Subject},
    trouble::Trouble,
    view::View,
};
use crate::{
    app::App,
    demo::{self, Welcome},
    keys,
    serve::Peer,
};

/// However much it is used.
const SESSION_LIFE: TimeDelta = TimeDelta::days(30);
/// A browser's name for itself is kept up to here.
const LONGEST_BROWSER: usize = 300;
/// No address of ours is longer.
const LONGEST_NEXT: usize = 2000;

pub(super) fn routes() -> Routes {
    Routes::new()
        .get("/sign-in", Needs::Nothing, show)
        .post("/sign-in", Needs::Nothing, sign_in)
        // Also for somebody whose session is over meanwhile: they get where they wanted to.
        .post("/sign-out", Needs::Nothing, sign_out)
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    next: String,
    #[serde(default)]
    done: String,
}

#[derive(Serialize)]
struct SignInPage<'a> {
    done: Option<&'static str>,
    email: &'a str,
    next: &'a str,
    problem: Option<String>,
    demo: Option<&'a Welcome>,
    /// Nobody can sign in yet.
    unset: bool,
    /// What the identity provider is called, and whether passwords are for operators alone.
    provider: Option<&'a str>,
    only: bool,
}

#[derive(Deserialize)]
struct SignIn {
    #[serde(default)]
    email: String,
    #[serde(default)]
    password: SecretString,
    #[serde(default)]
    next: String,
}

/// GET /sign-in
async fn show(
    State(app): State<Arc<App>>,
    person: Option<Person>,
    visitor: Visitor,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let next = local(&asked.next);
    if person.is_some() {
        return Ok(Redirect::to(next).into_response());
    }
    let demo = demo::welcome(&app, &visitor.jar).await;
    let done = match asked.done.as_str() {
        "reset" => Some("Your password is changed, and every browser is signed out. Sign in with the new one."),
        "left" => Some("You have left the organisation."),
        "late" => Some("The second step was waited for too long, or your password was changed. Begin again."),
        _ => None,
    };
    let unset = !app.store.has_users().await?;
    let (provider, only) = provider(&app);
    let page = SignInPage { done, email: "", next, problem: None, demo: demo.as_ref(), unset, provider, only };
    let sources = provider_sign_in::sources(&app);
    let view = View::plain(&visitor.csrf, "pages/sign_in.html", "Sign in", &page).leads_to(sources.as_deref());
    Ok((visitor.jar.clone(), view.show(&app)).into_response())
}

/// POST /sign-in
async fn sign_in(
    State(app): State<Arc<App>>,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    visitor: Visitor,
    headers: HeaderMap,
    Posted(form): Posted<SignIn>,
) -> Result<Response, Trouble> {
    let next = local(&form.next);
    let demo = demo::welcome(&app, &visitor.jar).await;
    let ((provider, only), sources) = (provider(&app), provider_sign_in::sources(&app));
    let refuse = |status, problem: String| {
        let demo = demo.as_ref();
        let (email, problem) = (form.email.as_str(), Some(problem));
        let page = SignInPage { done: None, email, next, problem, demo, unset: false, provider, only };
        let view = View::plain(&visitor.csrf, "pages/sign_in.html", "Sign in", &page).leads_to(sources.as_deref());
        (visitor.jar.clone(), view.status(status).show(&app)).into_response()
    };
    let peer = peer.map(|Extension(ConnectInfo(Peer(peer)))| peer);
    let host = Subject::host(peer);
    let subjects: Vec<_> = std::iter::once(Subject::address(&form.email)).chain(host).collect();
    if let Err(wait) = throttle::attempt(&app, &subjects).await? {
        let page = refuse(StatusCode::TOO_MANY_REQUESTS, too_many(wait));
        return Ok((retry_after(wait), page).into_response());
    }
    let mut proven = proven(&app, &form.email, &form.password).await?;
    proven.retain(|user| takes_password(&app, user));
    let Some((user, also)) = proven.split_first() else {
        warn!("somebody tried to sign in with a wrong address or password");
        app.store.audit_failed_sign_in(&form.email).await?;
        let problem = match provider {
            Some(name) if only => {
                format!("That is not right, or not yours to use: only operators have passwords. Use {name}.")
            }
            _ => "Address or password is not right. Mind capital letters, and which address you were added with."
                .to_owned(),
        };
        return Ok(refuse(StatusCode::UNPROCESSABLE_ENTITY, problem));
    };
    throttle::succeeded(&app, &subjects).await?;
    let also = also.iter().map(|user| user.id.clone()).collect();
    if user.second_factor {
        return second_step::ask(&app, visitor.jar.clone(), user, also, next).await;
    }
    let jar = begin(&app, visitor.jar.clone(), &headers, user, also, Came::SignedIn(peer)).await?;
    Ok((jar, Redirect::to(next)).into_response())
}

/// Whether a password signs them in, where they have one.
pub(super) fn takes_password(app: &App, user: &User) -> bool {
    user.operator || !provider(app).1
}

/// What the identity provider is called, and whether passwords are for operators alone.
pub(super) fn provider(app: &App) -> (Option<&str>, bool) {
    let oidc = app.config.oidc();
    (oidc.map(|oidc| oidc.name.as_str()), oidc.is_some_and(|oidc| oidc.only))
}

#[derive(Deserialize)]
struct SignOut {
    /// Where to go on, for whoever signs out in order to come as somebody else.
    #[serde(default)]
    next: String,
}

/// POST /sign-out
async fn sign_out(
    State(app): State<Arc<App>>,
    person: Option<Person>,
    jar: CookieJar,
    posted: Result<Posted<SignOut>, Trouble>,
) -> Result<Response, Trouble> {
    let next = posted.as_ref().map(|Posted(form)| local(&form.next).to_owned()).unwrap_or_default();
    if let Some(person) = person {
        posted?;
        app.store.end_browser_session(&person.user.id, &person.session.id).await?;
        info!(user.id = person.user.id, "{} signed out", person.user.id);
    }
    let next = if next.len() > 1 { next.as_str() } else { "/sign-in" };
    Ok((jar.add(Kind::Session.end(&app)), Redirect::to(next)).into_response())
}

/// For whoever has to wait.
pub(super) fn retry_after(wait: TimeDelta) -> [(header::HeaderName, HeaderValue); 1] {
    let after = u64::try_from(wait.num_milliseconds()).unwrap_or_default().div_ceil(1000);
    [(header::RETRY_AFTER, HeaderValue::from(after))]
}

/// What somebody is told who has to wait.
pub(super) fn too_many(wait: TimeDelta) -> String {
    // In whole seconds, and never a moment too early.
    let wait = span(wait + TimeDelta::milliseconds(999)).unwrap_or_else(|| "a few seconds".to_owned());
    format!("Too many attempts. Wait {wait}, then try again.")
}

/// How somebody came to be signed in.
#[derive(Clone, Copy)]
pub(super) enum Came {
    /// With their password, from there. They are told of a browser that they had not used before.
    SignedIn(Option<SocketAddr>),
    /// As the identity provider says, from there. As above.
    Vouched(Option<SocketAddr>),
    /// By a link that made their account: there is nothing that it could be told from. `vouched`: the provider had vouched
    /// for them in another org.
    Otherwise { vouched: bool },
}

/// Signs this browser in, with a cookie that nobody has seen before. Whoever was signed in here before is signed out.
pub(super) async fn begin(
    app: &App,
    jar: CookieJar,
    headers: &HeaderMap,
    user: &User,
    also: Vec<String>,
    came: Came,
) -> Result<CookieJar, Trouble> {
    let token = keys::secret_text("", app.seams.random.as_ref());
    let at = app.seams.clock.now();
    let browser = headers
        .get(header::USER_AGENT)
        .and_then(|name| name.to_str().ok())
        .map(|name| name.chars().take(LONGEST_BROWSER).collect::<String>());
    let own = cookies::browser(app, &jar);
    let rows: Vec<_> = std::iter::once(user.id.as_str()).chain(also.iter().map(String::as_str)).collect();
    let about = match came {
        Came::SignedIn(peer) | Came::Vouched(peer) => {
            let from = throttle::outside(peer).map(|ip| ip.to_string());
            Some(json!({ "browser": in_words(browser.as_deref()), "from": from }))
        }
        Came::Otherwise { .. } => None,
    };
    let telling = app.telling();
    let news = about.as_ref().map(|about| (&telling, about));
    app.store.note_browser(&rows, &keys::hash(&format!("known|{own}")), news, at).await?;
    let jar = jar.add(Kind::Browser.set(app, own));
    let session = NewBrowserSession {
        user: user.id.clone(),
        also,
        by_provider: matches!(came, Came::Vouched(_) | Came::Otherwise { vouched: true }),
        token_hash: keys::hash(token.expose_secret()),
        browser,
        at,
        expires_at: at + SESSION_LIFE,
    };
    app.store.create_browser_session(&session).await?;
    if let Some(before) = Kind::Session.read(app, &jar) {
        app.store.end_session_of_cookie(&keys::hash(&before)).await?;
    }
    info!(user.id = user.id, "{} signed in", user.id);
    Ok(jar.add(Kind::Session.set(app, token.expose_secret().to_owned())))
}

/// The rows of this address whose password this is, the oldest first.
async fn proven(app: &App, email: &str, password: &SecretString) -> Result<Vec<User>, Trouble> {
    if password.expose_secret().chars().count() > passwords::LONGEST {
        return Ok(Vec::new());
    }
    let users = app.store.find_users_by_email(email).await?;
    let hashes = users.iter().map(|user| user.password_hash.clone()).collect();
    let right = passwords::verify(password.clone(), hashes).await;
    Ok(users.into_iter().zip(right).filter_map(|(user, right)| right.then_some(user)).collect())
}

/// Where to go on: a path of ours and nothing else. Browsers read `\` as `/`, and leave control characters out.
pub(super) fn local(next: &str) -> &str {
    let ours = next.starts_with('/')
        && !next.starts_with("//")
        && !next.contains(|c: char| c == '\\' || c.is_control())
        && next.len() <= LONGEST_NEXT;
    if ours { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn only_paths_of_ours_are_gone_on_to() {
        for good in ["/", "/connectors/con_1?filter=x", "/connectors?q=a//b", "/connectors?q=é"] {
            assert_eq!(local(good), good);
        }
        for bad in [
            "",
            "https://evil.example",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\/evil.example",
            "/x\\..\\\\evil.example",
            "/\t/evil.example",
            "/\u{1}/evil.example",
            "/x\r\nSet-Cookie: a=b",
            " /x",
            "javascript:x",
            "x",
            &format!("/{}", "x".repeat(3000)),
        ] {
            assert_eq!(local(bad), "/", "{bad:?}");
        }
    }
}
