//! Signing in at the operator's identity provider: the way there, and who comes back.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{ConnectInfo, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response},
};
use chrono::TimeDelta;
use holdfast_core::{OrgId, ports::Changed};
use holdfast_store::{Accept, Accepted, InvitationNow, NewIdentity, NewUser, User};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use subtle::ConstantTimeEq;
use tracing::{info, warn};

use super::{
    cookies::Kind,
    form::Posted,
    parts::Told,
    person::Visitor,
    routes::{Needs, Routes},
    second_step,
    sign_in::{Came, begin, local, retry_after, too_many},
    throttle::{self, Subject},
    trouble::Trouble,
};
use crate::{
    app::App,
    config::OidcConfig,
    keys, mailbox,
    oidc::{self, Bound, Fault, Somebody},
    serve::Peer,
};

/// As long as somebody takes to sign in there.
const LIFE: TimeDelta = TimeDelta::minutes(15);
/// A name from there is kept up to here.
const LONGEST_NAME: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::new()
        .post("/sign-in/provider", Needs::Nothing, go)
        .get("/sign-in/callback", Needs::Nothing, back)
        .referring_nobody()
}

/// What forms that lead there may lead to, as a content security policy spells it: a provider may send people on to hosts of
/// its own.
pub(super) fn sources(app: &App) -> Option<String> {
    let issuer = url::Url::parse(&app.config.oidc()?.issuer).ok()?;
    Some(if issuer.scheme() == "https" { "https:".to_owned() } else { issuer.origin().ascii_serialization() })
}

#[derive(Deserialize)]
struct Go {
    #[serde(default)]
    next: String,
}

/// POST /sign-in/provider
async fn go(
    State(app): State<Arc<App>>,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    visitor: Visitor,
    Posted(form): Posted<Go>,
) -> Result<Response, Trouble> {
    let config = configured(&app)?;
    let from = Subject::leaving(peer.map(|Extension(ConnectInfo(Peer(peer)))| peer));
    if let Err(wait) = throttle::attempt(&app, from.as_slice()).await? {
        let text = too_many(wait);
        let page = Told::new(&text, "Back to sign in", "/sign-in").show(
            &app,
            &visitor,
            StatusCode::TOO_MANY_REQUESTS,
            "You were not signed in",
        );
        return Ok((retry_after(wait), page).into_response());
    }
    let cookie = keys::secret_text("", app.seams.random.as_ref());
    let url = match oidc::authorize_url(&app, config, &Bound(cookie.expose_secret())).await {
        Ok(url) => url,
        Err(fault) => return Ok(failed(&app, &visitor, config, &fault)),
    };
    let now = app.seams.clock.now();
    let hash = keys::hash(cookie.expose_secret());
    app.store.begin_provider_sign_in(&hash, local(&form.next), now, now + LIFE).await?;
    let jar = visitor.jar.add(Kind::Provider.set(&app, cookie.expose_secret().to_owned()));
    Ok((jar, Redirect::to(url.as_str())).into_response())
}

fn configured(app: &App) -> Result<&OidcConfig, Trouble> {
    app.config.oidc().ok_or(Trouble::NotFound { person: None })
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    state: String,
    code: Option<SecretString>,
    error: Option<String>,
    /// RFC 9207.
    iss: Option<String>,
}

/// GET /sign-in/callback
async fn back(
    State(app): State<Arc<App>>,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    visitor: Visitor,
    headers: HeaderMap,
    Query(answer): Query<Answer>,
) -> Result<Response, Trouble> {
    let config = configured(&app)?;
    let now = app.seams.clock.now();
    let ours = Kind::Provider
        .read(&app, &visitor.jar)
        .filter(|cookie| Bound(cookie).state().as_bytes().ct_eq(answer.state.as_bytes()).into());
    let taken = match &ours {
        Some(cookie) => app.store.take_provider_sign_in(&keys::hash(cookie), now).await?,
        None => None,
    };
    let (Some(cookie), Some(next)) = (ours, taken) else { return Ok(over(&app, &visitor)) };
    if answer.iss.as_ref().is_some_and(|issuer| *issuer != config.issuer) {
        return Ok(failed(&app, &visitor, config, &Fault::NotProven("another provider has answered")));
    }
    let Some(code) = answer.code.filter(|_| answer.error.is_none()) else {
        return Ok(refused(&app, &visitor, config, answer.error.as_deref()));
    };
    let somebody = match oidc::redeem(&app, config, &Bound(&cookie), code.expose_secret()).await {
        Ok(somebody) => somebody,
        Err(fault) => return Ok(failed(&app, &visitor, config, &fault)),
    };
    let (rows, next) = match arrive(&app, config, &somebody, &next).await? {
        Ok(arrived) => arrived,
        Err(no) => return Ok(no.page(&app, &visitor, config, &somebody)),
    };
    let Some((user, also)) = rows.split_first() else {
        return Ok(No::Unknown.page(&app, &visitor, config, &somebody));
    };
    let also = also.iter().map(|user| user.id.clone()).collect();
    info!(user.id = user.id, "{} came back from the identity provider", user.id);
    let peer = peer.map(|Extension(ConnectInfo(Peer(peer)))| peer);
    throttle::succeeded(&app, Subject::leaving(peer).as_slice()).await?;
    let jar = visitor.jar.clone().add(Kind::Provider.end(&app));
    if user.second_factor && config.asks_for_second_factor() {
        return second_step::ask(&app, jar, user, also, &next).await;
    }
    let jar = begin(&app, jar, &headers, user, also, Came::Vouched(peer)).await?;
    Ok((jar, Redirect::to(local(&next))).into_response())
}

/// Why somebody whom the provider knows does not get in.
#[derive(Clone, Copy)]
enum No {
    Unaddressed,
    NotVerified,
    Domain,
    /// The address is linked to somebody else there.
    Other,
    /// Nobody here has the address, and nobody has invited it.
    Unknown,
}

/// The rows of whoever this is, and where they go on.
async fn arrive(
    app: &App,
    config: &OidcConfig,
    somebody: &Somebody,
    next: &str,
) -> Result<Result<(Vec<User>, String), No>, Trouble> {
    if let Some(email) = app.store.find_identity(&config.issuer, &somebody.subject).await? {
        if !config.takes(&email) {
            return Ok(Err(No::Domain));
        }
        let rows = app.store.find_users_by_email(&email).await?;
        if !rows.is_empty() {
            return Ok(Ok((rows, next.to_owned())));
        }
    }
    let Some(email) = somebody.email.as_deref().filter(|email| mailbox::is_address(email)) else {
        return Ok(Err(No::Unaddressed));
    };
    if !somebody.verified {
        return Ok(Err(No::NotVerified));
    }
    if !config.takes(email) {
        return Ok(Err(No::Domain));
    }
    let mut rows = app.store.find_users_by_email(email).await?;
    let known = !rows.is_empty();
    let mut next = next.to_owned();
    if !known {
        let Some(id) = join(app, config, somebody, email, &mut next).await? else { return Ok(Err(No::Unknown)) };
        rows.extend(app.store.find_user(&id).await?);
    }
    let Some(first) = rows.first() else { return Ok(Err(No::Unknown)) };
    let identity = NewIdentity { issuer: &config.issuer, subject: &somebody.subject, email, provider: &config.name };
    let telling = app.telling();
    let told = known.then_some(&telling);
    // A link of nobody's was in the way, if any.
    match app.store.link_identity(&identity, &first.id, told, app.seams.clock.now()).await? {
        Changed::Yes => Ok(Ok((rows, next))),
        Changed::No => Ok(Err(No::Other)),
    }
}

/// Somebody new: by the invitation that they have come from, or by what the operator has said.
async fn join(
    app: &App,
    config: &OidcConfig,
    somebody: &Somebody,
    email: &str,
    next: &mut String,
) -> Result<Option<String>, Trouble> {
    let now = app.seams.clock.now();
    let name = somebody.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let name = name.map(|name| name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect::<String>());
    if let Some(token) = next.strip_prefix("/invitation/") {
        let link = keys::hash(token);
        let found = app.store.find_invitation_of(&link).await?;
        if found.is_some_and(|found| found.now(now) == InvitationNow::Open && found.email == email) {
            let accept = Accept::Vouched { name };
            if let Accepted::Joined(id) = app.store.accept_invitation(&link, &accept, now).await? {
                "/".clone_into(next);
                return Ok(Some(id));
            }
        }
        return Ok(None);
    }
    let (Some(org), Some(role)) = (&config.first_time_org, config.first_time_role) else { return Ok(None) };
    let Some(org): Option<OrgId> = app.store.find_org(org).await? else {
        warn!("sign_in.oidc.first_time_org names no organisation that is there");
        return Ok(None);
    };
    // Whom people have taken out, people bring back: by an invitation.
    if app.store.has_left(&org, email).await? {
        return Ok(None);
    }
    let new = NewUser { org, email: email.to_owned(), name, role, operator: false, password_hash: None, at: now };
    Ok(app.store.create_user(&new).await?.ok())
}

impl No {
    fn page(self, app: &App, visitor: &Visitor, config: &OidcConfig, somebody: &Somebody) -> Response {
        let (name, email) = (config.name.as_str(), somebody.email.as_deref().unwrap_or_default());
        let (title, text) = match self {
            Self::Unaddressed => (
                "Your address is not known",
                format!(
                    "{name} does not say which e-mail address you have. Whoever runs it has to share it with Holdfast."
                ),
            ),
            Self::NotVerified => (
                "Your address is not verified",
                format!("{name} has not seen that {email} is yours. Verify it there, then sign in again."),
            ),
            Self::Domain => (
                "Your address is not taken here",
                format!(
                    "You are {email} at {name}, and this installation takes other domains alone. Use another account there."
                ),
            ),
            Self::Other => (
                "Your address belongs to another account",
                format!("{email} is linked to another account at {name}. Whoever runs this installation can say why."),
            ),
            Self::Unknown => (
                "You have no account here",
                format!(
                    "You are {email} at {name}, and nobody has that address here. Ask a colleague for an invitation, and open its link."
                ),
            ),
        };
        warn!("somebody came back from the identity provider and was not let in: {title}");
        Told::new(&text, "Back to sign in", "/sign-in").show(app, visitor, StatusCode::FORBIDDEN, title)
    }
}

fn over(app: &App, visitor: &Visitor) -> Response {
    let text = "It was begun too long ago, in another browser, or it was finished before. Nothing was changed.";
    Told::new(text, "Sign in again", "/sign-in").show(app, visitor, StatusCode::GONE, "This sign-in is over")
}

fn refused(app: &App, visitor: &Visitor, config: &OidcConfig, error: Option<&str>) -> Response {
    let name = &config.name;
    let text = if error == Some("access_denied") {
        format!("{name} says that you, or whoever runs it, did not allow it.")
    } else {
        warn!("the identity provider sent somebody back with an error");
        format!(
            "{name} sent you back without saying who you are. Try again; if it stays so, tell whoever runs this installation."
        )
    };
    Told::new(&text, "Sign in again", "/sign-in").show(app, visitor, StatusCode::FORBIDDEN, "You were not signed in")
}

fn failed(app: &App, visitor: &Visitor, config: &OidcConfig, fault: &Fault) -> Response {
    let name = &config.name;
    let (status, title, text) = match fault {
        Fault::Away(error) => {
            warn!(error = format!("{error:#}"), "the identity provider does not answer as it has to");
            let text = format!(
                "{name} does not answer. Try again in a minute; the log says more to whoever runs this installation."
            );
            (StatusCode::BAD_GATEWAY, format!("{name} cannot be reached"), text)
        }
        Fault::Time => {
            warn!("the identity provider's answer is of another time: look at the clocks");
            let text = format!(
                "What {name} says is over, or not yet true. Either it lay too long, then try again; or its clock and ours differ, then tell whoever runs this installation."
            );
            (StatusCode::BAD_GATEWAY, "The clocks do not agree".to_owned(), text)
        }
        Fault::NotProven(why) => {
            warn!("the identity provider's answer proves nothing: {why}");
            let text = format!(
                "The answer of {name} does not prove who you are: {why}. Try again; if it stays so, tell whoever runs this installation."
            );
            (StatusCode::BAD_GATEWAY, "You were not signed in".to_owned(), text)
        }
    };
    Told::new(&text, "Sign in again", "/sign-in").show(app, visitor, status, &title)
}
