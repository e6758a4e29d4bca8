//! The link's page, and the start of the consent.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use axum_extra::extract::cookie::{Cookie, CookieJar, SameSite};
use holdfast_core::{
    Snapshot,
    exchange::{AuthorizeUrl, authorize_url},
    ports::StoreError,
    provider::{Account, Auth, OAuth2, Provider},
};
use holdfast_store::{Purpose, Session, StartSession};
use secrecy::ExposeSecret;
use tracing::warn;

use super::{
    STATE_LIFE,
    page::{Mood, Page, escape},
};
use crate::{app::App, keys, problem::Problem};

/// Everything that a consent is about.
pub(super) struct Asked {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) account: Account,
    pub(super) facts: Box<OAuth2>,
}

/// GET: shows what will happen, and starts nothing.
pub(super) async fn show(State(app): State<Arc<App>>, Path(link): Path<String>) -> Result<Page, Page> {
    let session = open_session(&app, &link).await?;
    let asked = asked(&app, &session).await?;
    let (name, account) = (asked.provider.about().name, escape(&asked.account.display));
    let again = session.purpose == Purpose::Reconnect;
    let scopes = asked.provider.about().scopes.iter().map(|scope| format!("<li>{}</li>", escape(scope.words)));
    let intro = if again {
        "Sign in there with an admin or agent of the same account and allow the access again. Everything that uses \
         this connector stays as it is."
    } else {
        "Sign in there with an admin or agent of this account and allow the access."
    };
    let body = format!(
        "<p>You are about to go to {name}. {intro}</p>\
         <dl><dt>Account</dt><dd>{account}</dd><dt>Connector</dt><dd>{}</dd></dl>\
         <p>{name} will ask you to allow:</p><ul>{}</ul>\
         <form method=\"post\"><button>Continue to {name}</button></form>\
         <p class=\"hint\">Nothing happens before you press the button, and you can close this page.</p>",
        escape(&asked.snapshot.name),
        scopes.collect::<String>(),
    );
    let title = format!("{} {}", if again { "Reconnect" } else { "Connect" }, asked.account.display);
    let leads_to = Some(asked.facts.authorize_url.origin().ascii_serialization());
    Ok(Page { status: StatusCode::OK, mood: Mood::Ask, title, body, leads_to })
}

/// POST: binds the consent to this browser and sends it to the provider.
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Path(link): Path<String>,
    jar: CookieJar,
) -> Result<Response, Page> {
    let session = open_session(&app, &link).await?;
    let asked = asked(&app, &session).await?;
    let Some(client) = app.config.oauth_apps.get(&asked.snapshot.provider) else {
        return Err(no_app(asked.provider.about().name));
    };
    let random = app.seams.random.as_ref();
    let (state, verifier) = (keys::secret_text("", random), keys::secret_text("", random));
    let browser = match jar.get(cookie_name(&app)) {
        Some(cookie) if cookie.value().len() >= 40 => cookie.value().to_owned(),
        _ => keys::secret_text("", random).expose_secret().to_owned(),
    };
    let at = app.seams.clock.now();
    let start = StartSession {
        link_hash: keys::hash(&link),
        state_hash: keys::hash(state.expose_secret()),
        browser_hash: keys::hash(&browser),
        verifier: asked.facts.pkce.then(|| verifier.clone()),
        at,
        state_expires_at: at + STATE_LIFE,
    };
    if app.store.start_session(&start).await.map_err(|error| ours(error))?.is_none() {
        return Err(spent());
    }
    let redirect_uri = app.redirect_uri();
    let parts = AuthorizeUrl {
        client_id: &client.client_id,
        redirect_uri: &redirect_uri,
        state: state.expose_secret(),
        verifier: asked.facts.pkce.then_some(&verifier),
    };
    let target = authorize_url(&asked.facts, &parts);
    let target = HeaderValue::try_from(target.as_str()).expect("a URL is a valid header");
    let jar = jar.add(cookie(&app, browser));
    Ok((StatusCode::SEE_OTHER, jar, [(header::LOCATION, target)]).into_response())
}

/// `__Host-` wherever browsers accept it: over https.
pub(super) fn cookie_name(app: &App) -> &'static str {
    if app.config.public_url().scheme() == "https" { "__Host-holdfast_connect" } else { "holdfast_connect" }
}

fn cookie(app: &App, value: String) -> Cookie<'static> {
    Cookie::build((cookie_name(app), value))
        .path("/")
        .http_only(true)
        .secure(app.config.public_url().scheme() == "https")
        // Lax: the provider's redirect back is a navigation from another site, and has to carry it.
        .same_site(SameSite::Lax)
        .build()
}

async fn open_session(app: &App, link: &str) -> Result<Session, Page> {
    let session = app.store.find_session_by_link(&keys::hash(link)).await.map_err(|error| ours(error))?;
    let now = app.seams.clock.now();
    match session {
        None => Err(Page::trouble(
            StatusCode::NOT_FOUND,
            "This link is not known",
            "It may be cut off at its end. Copy the whole link, or ask for a new one.",
        )),
        Some(session) if session.result.as_ref().is_some_and(super::callback::succeeded) => Err(spent()),
        Some(session) if session.expires_at <= now => Err(Page::trouble(
            StatusCode::GONE,
            "This link is over",
            "Links to connect work for an hour. Ask for a new one; nothing has changed meanwhile.",
        )),
        Some(session) => Ok(session),
    }
}

pub(super) async fn asked(app: &App, session: &Session) -> Result<Asked, Page> {
    let found = app.engine.snapshot(&session.connector).await.map_err(|error| ours(error))?;
    let Some(snapshot) = found else {
        return Err(Page::trouble(
            StatusCode::GONE,
            "This connector was removed",
            "There is nothing to connect any more. Ask whoever sent you the link.",
        ));
    };
    let provider = app.providers().find(&snapshot.provider).cloned();
    let known = provider.and_then(|provider| Some((provider.account(&snapshot.account).ok()?, provider)));
    let Some((account, provider)) = known else { return Err(no_app(&snapshot.provider)) };
    match provider.auth(&account) {
        Auth::OAuth2(facts) => Ok(Asked { snapshot, provider, account, facts }),
        Auth::ApiKey(_) => Err(no_app(provider.about().name)),
    }
}

fn spent() -> Page {
    Page::trouble(
        StatusCode::GONE,
        "This link has been used",
        "The connection that it was for was made. Ask for a new link if something still does not work.",
    )
}

fn no_app(provider: &str) -> Page {
    let title = format!("{provider} cannot be connected yet");
    Page::trouble(
        StatusCode::SERVICE_UNAVAILABLE,
        &title,
        "The operator of this instance has to set up an OAuth app for it first.",
    )
}

pub(super) fn ours(error: StoreError) -> Page {
    let problem = Problem::from(error);
    warn!(code = problem.code(), "a page could not be answered");
    Page::trouble(StatusCode::SERVICE_UNAVAILABLE, "Not at the moment", problem.detail())
}
