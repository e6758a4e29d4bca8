//! Back from the provider: check, exchange, ask whose account it is, and only then store.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Path, Query, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::CookieJar;
use holdfast_core::{
    ApiClient, Identity, Secret, Snapshot, TokenSet,
    error::ErrorKind,
    exchange::{self, Grant as CodeGrant, Outcome, Refusal, TokenAnswer},
    ports::StoreError,
    refresh::timing,
};
use holdfast_store::{Created, Grant, Granted, Session, Taken};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subtle::ConstantTimeEq;
use tracing::{error, info, warn};

use super::{
    page::{Mood, Page, escape},
    start::{Asked, asked, cookie_name, ours},
};
use crate::{app::App, care, keys};

/// How long a second look at a consent that is being worked on waits for its outcome.
const LONGEST_LOOK: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
pub(super) struct Answer {
    state: Option<String>,
    code: Option<SecretString>,
    error: Option<String>,
}

/// How a consent ended, as it is kept and shown; a page that is loaded twice shows the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ending {
    ok: bool,
    title: String,
    text: String,
}

impl Ending {
    fn trouble(title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { ok: false, title: title.into(), text: text.into() }
    }
}

/// Whether a kept result is a success.
pub(super) fn succeeded(result: &Value) -> bool {
    result["ok"] == Value::Bool(true)
}

/// What goes wrong before a consent is known to be this browser's. Each has a page of its own address.
#[derive(Clone, Copy)]
enum Trouble {
    Nothing,
    Unknown,
    OtherBrowser,
    TooLong,
    Ours,
}

impl Trouble {
    const ALL: [Self; 5] = [Self::Nothing, Self::Unknown, Self::OtherBrowser, Self::TooLong, Self::Ours];

    fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing-received",
            Self::Unknown => "unknown",
            Self::OtherBrowser => "other-browser",
            Self::TooLong => "too-long",
            Self::Ours => "not-now",
        }
    }

    fn page(self) -> Page {
        let (status, title, way_on) = match self {
            Self::Nothing => (
                StatusCode::BAD_REQUEST,
                "Nothing was received",
                "The provider sent you back without saying what for. Start again from your connect link.",
            ),
            Self::Unknown => (
                StatusCode::BAD_REQUEST,
                "This consent is not known",
                "It may have been started again since. Go on in the page where you started last, or open your connect \
                 link.",
            ),
            Self::OtherBrowser => (
                StatusCode::FORBIDDEN,
                "This was started in another browser",
                "Open the connect link in the browser that you want to use, and go on from there. Nothing was changed.",
            ),
            Self::TooLong => (
                StatusCode::GONE,
                "That took too long",
                "A consent has to be given within ten minutes. Start again from your connect link; nothing was changed.",
            ),
            Self::Ours => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Not at the moment",
                "Something on our side does not answer. Start again from your connect link in a few minutes.",
            ),
        };
        Page::trouble(status, title, way_on)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        error!(error = format!("{:#}", anyhow::Error::new(error)), "the database is in trouble");
        Self::Ours
    }
}

/// GET /oauth/callback. Answers with a redirect alone, so that code and state leave the address bar.
pub(super) async fn callback(
    State(app): State<Arc<App>>,
    jar: CookieJar,
    answer: Result<Query<Answer>, QueryRejection>,
) -> Redirect {
    let Ok(Query(answer)) = answer else { return Redirect::to(&trouble_path(Trouble::Nothing)) };
    match taken(&app, &jar, answer).await {
        Ok(session) => Redirect::to(&format!("/connect/ended/{session}")),
        Err(trouble) => Redirect::to(&trouble_path(trouble)),
    }
}

fn trouble_path(trouble: Trouble) -> String {
    format!("/connect/trouble/{}", trouble.word())
}

/// GET /connect/trouble/{word}.
pub(super) async fn trouble(Path(word): Path<String>) -> Page {
    Trouble::ALL.into_iter().find(|trouble| trouble.word() == word).unwrap_or(Trouble::Unknown).page()
}

/// Works the consent off, once, and answers the id of its session.
async fn taken(app: &Arc<App>, jar: &CookieJar, answer: Answer) -> Result<String, Trouble> {
    let state = answer.state.as_deref().filter(|state| !state.is_empty()).ok_or(Trouble::Nothing)?;
    let hash = keys::hash(state);
    // Before the state is spent: another browser than the one that started must not burn it.
    let session = app.store.find_session_by_state(&hash).await?.ok_or(Trouble::Unknown)?;
    if !same_browser(app, jar, &session) {
        return Err(Trouble::OtherBrowser);
    }
    // On a task of its own: a browser that goes away, or that is clicked twice, must lose neither the state that is taken
    // here nor what the provider has issued.
    let app2 = Arc::clone(app);
    let work = app.engine.spawn(async move {
        let session = match app2.store.take_state(&hash, app2.seams.clock.now()).await? {
            Taken::Unknown => return Err(Trouble::Unknown),
            Taken::Expired => return Err(Trouble::TooLong),
            // A reload, a prefetch: the page waits for what the first one comes to.
            Taken::Used(_) => return Ok(session.id),
            Taken::Yes(session) => session,
        };
        let ending = consent(&app2, &session, answer.code, answer.error.as_deref()).await;
        let kept = serde_json::to_value(&ending).expect("an ending is plain data");
        app2.store.finish_session(&session.id, session.sequence, &kept).await?;
        Ok(session.id)
    });
    work.await.unwrap_or(Err(Trouble::Ours))
}

fn same_browser(app: &App, jar: &CookieJar, session: &Session) -> bool {
    let here = jar.get(cookie_name(app)).map(|cookie| keys::hash(cookie.value()));
    match (&here, &session.browser_hash) {
        (Some(here), Some(started)) => bool::from(here.as_slice().ct_eq(started)),
        _ => false,
    }
}

/// GET /connect/ended/{session}: how a consent ended, for the browser that started it.
pub(super) async fn ended(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    jar: CookieJar,
) -> Result<Response, Page> {
    let deadline = app.seams.clock.uptime() + LONGEST_LOOK;
    loop {
        let session = app.store.find_session_by_id(&id).await.map_err(ours)?;
        let session = session.filter(|session| same_browser(&app, &jar, session));
        let session = session.ok_or_else(|| Trouble::OtherBrowser.page())?;
        if let Some(ending) = session.result.clone().and_then(|result| serde_json::from_value(result).ok()) {
            return Ok(shown(&session, ending));
        }
        if app.seams.clock.uptime() >= deadline {
            return Err(Page::trouble(
                StatusCode::CONFLICT,
                "This consent is being worked on",
                "Load this page again in a moment to see how it ended.",
            ));
        }
        app.seams.clock.sleep(Duration::from_millis(100)).await;
    }
}

fn shown(session: &Session, ending: Ending) -> Response {
    if let Some(target) = &session.return_url {
        let mut target = url::Url::parse(target).expect("it was checked when the link was made");
        let status = if ending.ok { "connected" } else { "failed" };
        target.query_pairs_mut().append_pair("connector_id", session.connector.as_str()).append_pair("status", status);
        return Redirect::to(target.as_str()).into_response();
    }
    let (status, mood) = if ending.ok { (StatusCode::OK, Mood::Done) } else { (StatusCode::CONFLICT, Mood::Trouble) };
    let body = format!("<p>{}</p>", escape(&ending.text));
    Page { status, mood, title: ending.title, body, leads_to: None }.into_response()
}

/// What came back, worked off. Nothing is stored unless all of it is right.
async fn consent(app: &Arc<App>, session: &Session, code: Option<SecretString>, error: Option<&str>) -> Ending {
    let asked = match asked(app, session).await {
        Ok(asked) => asked,
        Err(page) => return Ending::trouble(page.title, "Ask whoever sent you the link."),
    };
    let name = asked.provider.about().name;
    let Some(code) = code.filter(|_| error.is_none()) else { return refused(name, error) };
    let (outcome, client) = match redeem(app, &asked, session, &code).await {
        Ok(found) => found,
        Err(ending) => return ending,
    };
    let answer = match outcome {
        Outcome::Rotated(answer) => answer,
        other => return not_exchanged(name, &other),
    };
    let tokens = exchange::merge(&asked.facts, None, &answer, app.seams.clock.now());
    match checked(app, &asked, &tokens, &answer).await {
        Ok(identity) => store(app, session, &asked, tokens, &identity).await,
        Err(ending) => {
            // The mistaken grant is given back; nothing of it was stored.
            app.engine.revoke(&asked.facts, &client, &tokens.access_token).await;
            ending
        }
    }
}

/// The provider's own error: only `access_denied` means that the person declined (RFC 6749 section 4.1.2.1).
fn refused(name: &str, error: Option<&str>) -> Ending {
    let (title, text) = match error {
        Some("access_denied") => (
            "Access was not allowed".to_owned(),
            format!(
                "{name} says that the request was declined. Open the connect link again when you want to allow it. Nothing was changed."
            ),
        ),
        Some("server_error" | "temporarily_unavailable") => (
            format!("{name} has a problem"),
            "It could not ask you for consent. Try again in a few minutes; nothing was changed.".to_owned(),
        ),
        Some("invalid_scope" | "unauthorized_client" | "unsupported_response_type" | "invalid_request") => (
            "The OAuth app is not set up right".to_owned(),
            format!(
                "{name} does not accept what this app asks for. The operator of this instance has to look at it; nothing was changed."
            ),
        ),
        Some(_) => (
            format!("{name} sent an error"),
            "It is none that we know. Start again from your connect link; nothing was changed.".to_owned(),
        ),
        None => (
            "Nothing was received".to_owned(),
            format!("{name} sent you back with neither a code nor an error. Start again from your connect link."),
        ),
    };
    Ending::trouble(title, text)
}

async fn redeem(
    app: &Arc<App>,
    asked: &Asked,
    session: &Session,
    code: &SecretString,
) -> Result<(Outcome, holdfast_core::ports::OAuthApp), Ending> {
    let client = match app.apps.of(&asked.snapshot.provider).await {
        Ok(Some(client)) => client,
        Ok(None) => {
            let text = "The operator of this instance has to set up an OAuth app first.";
            return Err(Ending::trouble("There is no OAuth app", text));
        }
        Err(error) => {
            error!(error = format!("{:#}", anyhow::Error::new(error)), "the OAuth app cannot be read");
            let text = "Something on our side does not answer. Start again from your connect link in a few minutes.";
            return Err(Ending::trouble("Not at the moment", text));
        }
    };
    if asked.facts.pkce && session.verifier.is_none() {
        let text = "What was kept of its start cannot be read. Start again from your connect link.";
        return Err(Ending::trouble("This consent cannot be finished", text));
    }
    let redirect_uri = app.redirect_uri();
    let grant = CodeGrant::Code { code, redirect_uri: &redirect_uri, verifier: session.verifier.as_ref() };
    let outcome = app.engine.redeem(asked.provider.as_ref(), &asked.facts, &client, &grant).await;
    Ok((outcome, client))
}

fn not_exchanged(name: &str, outcome: &Outcome) -> Ending {
    let words = |refusal: &Refusal| warn!(refusal = refusal.words(), "a code could not be exchanged");
    match outcome {
        Outcome::Rotated(_) => unreachable!("a success is handled before"),
        Outcome::Rejected(refusal) => {
            words(refusal);
            let text = "It is used up or too old. Start again from your connect link; nothing was changed.";
            Ending::trouble(format!("{name} did not accept the consent"), text)
        }
        Outcome::AppBroken(refusal) => {
            words(refusal);
            let text = format!(
                "{name} refuses the app or what it asks for ({}). The operator of this instance has to correct it; then open \
                 the connect link again. Nothing was changed.",
                refusal.code.as_deref().unwrap_or("without an error code")
            );
            Ending::trouble("The OAuth app is refused", text)
        }
        Outcome::Busy(refusal) | Outcome::Transient(refusal) | Outcome::Ambiguous(refusal) => {
            words(refusal);
            let text = "Try again in a few minutes from your connect link; nothing was changed.";
            Ending::trouble(format!("{name} did not answer as it should"), text)
        }
    }
}

/// Whose account it is, and whether it may do what is needed.
async fn checked(app: &Arc<App>, asked: &Asked, tokens: &TokenSet, answer: &TokenAnswer) -> Result<Identity, Ending> {
    let (name, snapshot) = (asked.provider.about().name, &asked.snapshot);
    let secret = Secret::Tokens(tokens.clone());
    let api = ApiClient::with(&app.engine, &snapshot.provider, &asked.account.id, secret);
    let api = api.ok_or_else(|| Ending::trouble("This instance has no adapter for it", "Ask the operator."))?;
    let identity = api.identity().await.map_err(|error| match error.kind {
        ErrorKind::Forbidden | ErrorKind::AuthFailed => {
            Ending::trouble(format!("{name} did not let us in"), format!("{}. Nothing was changed.", error.message))
        }
        _ => Ending::trouble(
            format!("{name} did not say whose account this is"),
            "Try again in a few minutes from your connect link; nothing was changed.",
        ),
    })?;
    if identity.account_id != asked.account.id {
        let text = format!(
            "This connector belongs to {}, and you signed in to {}. Sign in to the right one, or connect the other one \
             as a new connector. Nothing was changed.",
            asked.account.display, identity.account_name
        );
        return Err(Ending::trouble("That was another account", text));
    }
    let granted = identity.scopes.as_ref().or(answer.scopes.as_ref());
    let missing: Vec<_> =
        asked.facts.scopes.iter().filter(|scope| granted.is_some_and(|granted| !granted.contains(scope))).collect();
    if !missing.is_empty() {
        let list = missing.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
        let text = format!("{name} did not grant: {list}. Open the connect link again and allow all of it.");
        return Err(Ending::trouble("A permission is missing", text));
    }
    Ok(identity)
}

/// Stores the grant, whatever it takes: it exists at the provider, and nobody else has it.
async fn store(app: &Arc<App>, session: &Session, asked: &Asked, tokens: TokenSet, identity: &Identity) -> Ending {
    let snapshot: &Snapshot = &asked.snapshot;
    let access_token = tokens.access_token.clone();
    let give_back = async || {
        if let Ok(Some(client)) = app.apps.of(&snapshot.provider).await {
            app.engine.revoke(&asked.facts, &client, &access_token).await;
        }
    };
    if snapshot.account.is_empty() {
        let named = app.store.name_account(&session.connector, &asked.account.id, &asked.account.display).await;
        if !matches!(named, Ok(Created::New(_))) {
            give_back().await;
            let text = "This organisation has it on another connector. Ask whoever sent you the link for one that \
                        reconnects that one. Nothing was changed.";
            return Ending::trouble(format!("{} is connected already", asked.account.display), text);
        }
    }
    let grant = Grant {
        connector: session.connector.clone(),
        sequence: session.sequence,
        due_at: timing::due_at(&tokens, &snapshot.credential.id, &app.config.refresh.settings()),
        tokens,
        identity: Some(care::identity_json(identity)),
        extras: Vec::new(),
        at: app.seams.clock.now(),
        actor: identity.name.clone(),
    };
    let granted = app.engine.insist("store a new grant", || app.store.store_grant(&grant)).await;
    app.changed(&session.connector);
    match granted {
        Granted::Yes(snapshot) => {
            info!(
                connector.id = %snapshot.connector,
                credential.version = %snapshot.credential.version,
                "connected connector {}",
                snapshot.connector
            );
            let who = identity.name.as_deref().map(|name| format!(" as {name}")).unwrap_or_default();
            let text = format!(
                "{} is connected{who}. You can close this page; everything that uses it goes on by itself.",
                asked.account.display
            );
            Ending { ok: true, title: "Connected".to_owned(), text }
        }
        Granted::Older => {
            give_back().await;
            let text = "It was reconnected from another window that was started after this one. Nothing is left to do.";
            Ending { ok: true, title: "Connected".to_owned(), text: text.to_owned() }
        }
        Granted::Gone => {
            give_back().await;
            Ending::trouble("This connector was removed", "There is nothing to connect any more.")
        }
    }
}
