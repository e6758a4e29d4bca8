//! The link's page, and the start of the consent.

use std::sync::Arc;

use axum::{
    extract::{Path, State, rejection::FormRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use axum_extra::extract::cookie::{Cookie, CookieJar, SameSite};
use holdfast_core::{
    Snapshot,
    exchange::{AuthorizeUrl, authorize_url},
    ports::StoreError,
    provider::{About, Account, Auth, OAuth2, Provider},
};
use holdfast_store::{Purpose, Session, StartSession};
use secrecy::ExposeSecret;
use serde::Deserialize;
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

/// What the form may carry: the account, where the link leaves it to the person.
#[derive(Deserialize)]
pub(super) struct Form {
    account: Option<String>,
}

/// GET: shows what will happen, and starts nothing.
pub(super) async fn show(State(app): State<Arc<App>>, Path(link): Path<String>) -> Result<Page, Page> {
    let session = open_session(&app, &link).await?;
    let (snapshot, provider) = connector(&app, &session).await?;
    page(&app, &session, &snapshot, provider.as_ref(), None).await
}

/// The link's page; `refused`: the account that was typed, and why it is not one.
async fn page(
    app: &App,
    session: &Session,
    snapshot: &Snapshot,
    provider: &dyn Provider,
    refused: Option<(&str, &str)>,
) -> Result<Page, Page> {
    let about = provider.about();
    let name = about.name;
    let account = provider.account(&snapshot.account).ok();
    let again = session.purpose == Purpose::Reconnect;
    let whose = app.store.org_name(&snapshot.org).await.map_err(ours)?.unwrap_or_default();
    let intro = if again {
        "Sign in there with an admin or agent of the same account and allow the access again. Everything that uses \
         this connector stays as it is."
    } else {
        "Sign in there with an admin or agent of your account and allow the access."
    };
    let known = account.as_ref().map(|account| format!("<dt>Account</dt><dd>{}</dd>", escape(&account.display)));
    let field = if account.is_some() {
        String::new()
    } else {
        account_field(about, refused.unwrap_or((session.account.as_deref().unwrap_or_default(), "")))
    };
    let scopes = about.scopes.iter().map(|scope| format!("<li>{}</li>", escape(scope.words)));
    let body = format!(
        "<p>You are about to go to {name}. {intro}</p>\
         <dl>{}<dt>For</dt><dd>{}</dd></dl>\
         <p>{name} will ask you to allow:</p><ul>{}</ul>\
         <form method=\"post\">{field}<button>Continue to {name}</button></form>\
         <p class=\"hint\">Nothing happens before you press the button, and you can close this page.</p>",
        known.unwrap_or_default(),
        escape(&whose),
        scopes.collect::<String>(),
    );
    let display = account.as_ref().map_or(name, |account| account.display.as_str());
    let title = format!("{} {display}", if again { "Reconnect" } else { "Connect" });
    if matches!(account.as_ref().map(|account| provider.auth(account)), Some(Auth::ApiKey(_))) {
        return Err(no_app(name));
    }
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let leads_to = Some(leads_to(provider));
    Ok(Page { status, mood: Mood::Ask, title, body, leads_to })
}

fn account_field(about: &About, (typed, message): (&str, &str)) -> String {
    let problem = if message.is_empty() {
        String::new()
    } else {
        format!("<p class=\"problem\" id=\"problem\" role=\"alert\">{}</p>", escape(message))
    };
    format!(
        "<p><label for=\"account\">{}</label><br><input id=\"account\" name=\"account\" value=\"{}\" \
         placeholder=\"{}\" aria-describedby=\"rule problem\" autocomplete=\"off\" required>\
         <br><span class=\"hint\" id=\"rule\">{}</span></p>{problem}",
        escape(about.account_label),
        escape(typed),
        escape(about.account_example),
        escape(&capitalised(about.account_rule)),
    )
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Where the form may lead. Browsers hold every redirect after a form to it, and a provider's sign-in may go over hosts
/// that nobody knows beforehand (single sign-on, a helpdesk's own domain): any https one, and a sandbox's own origin.
pub(super) fn leads_to(provider: &dyn Provider) -> String {
    let example = provider.account(provider.about().account_example).ok();
    let plain = example.map(|account| account.base_url).filter(|base| base.scheme() == "http");
    plain.map_or_else(|| "https:".to_owned(), |base| format!("https: {}", base.origin().ascii_serialization()))
}

/// POST: binds the consent to this browser and sends it to the provider.
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Path(link): Path<String>,
    jar: CookieJar,
    headers: HeaderMap,
    form: Result<axum::Form<Form>, FormRejection>,
) -> Result<Response, Page> {
    let from_elsewhere = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if from_elsewhere {
        let way_on = "Open the connect link itself, and press the button there.";
        return Err(Page::trouble(StatusCode::FORBIDDEN, "This was sent from another site", way_on));
    }
    let mut session = open_session(&app, &link).await?;
    let form = form.map_err(|_| {
        let way_on = "Open the connect link again, and press the button there.";
        Page::trouble(StatusCode::BAD_REQUEST, "The form did not arrive as it was sent", way_on)
    })?;
    if let Some(typed) = form.0.account.filter(|_| session.purpose == Purpose::Connect) {
        session.account = Some(named_account(&app, &session, &typed).await?);
    }
    begin(&app, &link, &session, jar).await
}

/// Starts the consent of this link's session for the browser of this jar: answers the way to the provider.
pub(super) async fn begin(app: &App, link: &str, session: &Session, jar: CookieJar) -> Result<Response, Page> {
    let asked = asked(app, session).await?;
    let Some(client) = app.apps.of(&asked.snapshot.provider).await.map_err(ours)? else {
        return Err(no_app(asked.provider.about().name));
    };
    let random = app.seams.random.as_ref();
    let (state, verifier) = (keys::secret_text("", random), keys::secret_text("", random));
    let browser = browser(app, &jar);
    let at = app.seams.clock.now();
    let start = StartSession {
        link_hash: keys::hash(link),
        state_hash: keys::hash(state.expose_secret()),
        browser_hash: keys::hash(&browser),
        verifier: asked.facts.pkce.then(|| verifier.clone()),
        account: session.account.clone(),
        at,
        state_expires_at: at + STATE_LIFE,
    };
    if app.store.start_session(&start).await.map_err(ours)?.is_none() {
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
    let jar = jar.add(cookie(app, browser));
    Ok((StatusCode::SEE_OTHER, jar, [(header::LOCATION, target)]).into_response())
}

/// The account that a person typed. It stays with this consent until the grant is stored, so that a slip can be mended.
async fn named_account(app: &App, session: &Session, typed: &str) -> Result<String, Page> {
    let (snapshot, provider) = connector(app, session).await?;
    match provider.account(typed) {
        Ok(account) => Ok(account.id),
        Err(invalid) => {
            let refused = Some((typed, invalid.message.as_str()));
            Err(page(app, session, &snapshot, provider.as_ref(), refused).await?)
        }
    }
}

/// `__Host-` wherever browsers accept it: over https.
pub(super) fn cookie_name(app: &App) -> &'static str {
    if app.config.public_url().scheme() == "https" { "__Host-holdfast_connect" } else { "holdfast_connect" }
}

/// What this browser is known by: its cookie, or a new one.
pub(super) fn browser(app: &App, jar: &CookieJar) -> String {
    match jar.get(cookie_name(app)) {
        Some(cookie) if cookie.value().len() >= 40 => cookie.value().to_owned(),
        _ => keys::secret_text("", app.seams.random.as_ref()).expose_secret().to_owned(),
    }
}

pub(super) fn cookie(app: &App, value: String) -> Cookie<'static> {
    Cookie::build((cookie_name(app), value))
        .path("/")
        .http_only(true)
        .secure(app.config.public_url().scheme() == "https")
        // Lax: the provider's redirect back is a navigation from another site, and has to carry it.
        .same_site(SameSite::Lax)
        .build()
}

pub(super) async fn open_session(app: &App, link: &str) -> Result<Session, Page> {
    let session = app.store.find_session_by_link(&keys::hash(link)).await.map_err(ours)?;
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

async fn connector(app: &App, session: &Session) -> Result<(Arc<Snapshot>, Arc<dyn Provider>), Page> {
    let found = app.engine.snapshot(&session.connector).await.map_err(ours)?;
    let Some(snapshot) = found else {
        return Err(Page::trouble(
            StatusCode::GONE,
            "This connector was removed",
            "There is nothing to connect any more. Ask whoever sent you the link.",
        ));
    };
    match app.providers().find(&snapshot.provider).cloned() {
        Some(provider) => Ok((snapshot, provider)),
        None => Err(no_app(&snapshot.provider)),
    }
}

/// The connector's account, or the one that was named for this consent.
fn account_of<'a>(snapshot: &'a Snapshot, session: &'a Session) -> &'a str {
    if snapshot.account.is_empty() { session.account.as_deref().unwrap_or_default() } else { &snapshot.account }
}

pub(super) async fn asked(app: &App, session: &Session) -> Result<Asked, Page> {
    let (snapshot, provider) = connector(app, session).await?;
    let account = provider.account(account_of(&snapshot, session)).map_err(|_| {
        let way_on = "Open the connect link again and say which account it is.";
        Page::trouble(StatusCode::UNPROCESSABLE_ENTITY, "The account is missing", way_on)
    })?;
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
