//! Back from the provider: check, exchange, ask whose account it is, and only then store.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::CookieJar;
use holdfast_core::{
    ApiClient, Identity, Secret, Snapshot, TokenSet,
    error::ErrorKind,
    exchange::{self, Grant as CodeGrant, Outcome, Refusal, TokenAnswer},
    refresh::timing,
};
use holdfast_store::{Grant, Granted, Session, Taken};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tracing::{info, warn};

use super::{
    page::{Mood, Page, escape},
    start::{Asked, asked, cookie_name, ours},
};
use crate::{app::App, keys};

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

/// GET /oauth/callback.
pub(super) async fn callback(
    State(app): State<Arc<App>>,
    jar: CookieJar,
    Query(answer): Query<Answer>,
) -> Result<Response, Page> {
    let Some(state) = answer.state.as_deref().filter(|state| !state.is_empty()) else {
        return Err(Page::trouble(
            StatusCode::BAD_REQUEST,
            "Nothing was received",
            "The provider sent you back without saying what for. Start again from your connect link.",
        ));
    };
    let hash = keys::hash(state);
    // Before the state is spent: another browser than the one that started must not burn it.
    let browser = jar.get(cookie_name(&app)).map(|cookie| keys::hash(cookie.value()));
    let Some(session) = app.store.find_session_by_state(&hash).await.map_err(ours)? else {
        return Err(unknown_state());
    };
    let same_browser = match (&browser, &session.browser_hash) {
        (Some(here), Some(started)) => bool::from(here.as_slice().ct_eq(started)),
        _ => false,
    };
    if !same_browser {
        return Err(Page::trouble(
            StatusCode::FORBIDDEN,
            "This was started in another browser",
            "Open the connect link in the browser that you want to use, and go on from there. Nothing was changed.",
        ));
    }
    match app.store.take_state(&hash, app.seams.clock.now()).await.map_err(ours)? {
        Taken::Unknown => Err(unknown_state()),
        Taken::Expired => Err(Page::trouble(
            StatusCode::GONE,
            "That took too long",
            "A consent has to be given within ten minutes. Start again from your connect link; nothing was changed.",
        )),
        Taken::Used(result) => Ok(shown(&session, wait_for(&app, &session, result).await?)),
        Taken::Yes(session) => {
            // On a task of its own: a browser that goes away must not lose what the provider has issued.
            let (app2, code, error) = (Arc::clone(&app), answer.code, answer.error);
            let work = app.engine.spawn(async move {
                let ending = consent(&app2, &session, code, error.as_deref()).await;
                let kept = serde_json::to_value(&ending).expect("an ending is plain data");
                if let Err(error) = app2.store.finish_session(&session.id, &kept).await {
                    warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not keep how a consent ended");
                }
                (session, ending)
            });
            match work.await {
                Ok((session, ending)) => Ok(shown(&session, ending)),
                Err(_) => Err(Page::trouble(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "Something went wrong on our side",
                    "Start again from your connect link.",
                )),
            }
        }
    }
}

fn unknown_state() -> Page {
    Page::trouble(
        StatusCode::BAD_REQUEST,
        "This consent is not known",
        "It may have been started again since. Go on in the page where you started last, or open your connect link.",
    )
}

/// The same callback twice (a reload, a prefetch): the second one shows what the first one came to.
async fn wait_for(app: &App, session: &Session, result: Option<Value>) -> Result<Ending, Page> {
    let deadline = app.seams.clock.uptime() + LONGEST_LOOK;
    let mut result = result;
    while result.is_none() && app.seams.clock.uptime() < deadline {
        app.seams.clock.sleep(Duration::from_millis(100)).await;
        result = app.store.session_result(&session.id).await.map_err(ours)?;
    }
    result.and_then(|result| serde_json::from_value(result).ok()).ok_or_else(|| {
        Page::trouble(
            StatusCode::CONFLICT,
            "This consent is being worked on",
            "Load this page again in a moment to see how it ended.",
        )
    })
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
    let Some(client) = app.config.oauth_apps.get(&asked.snapshot.provider).map(crate::config::OAuthAppConfig::app)
    else {
        let text = "The operator of this instance has to set up an OAuth app first.";
        return Err(Ending::trouble("There is no OAuth app", text));
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
                "{name} refuses the id or secret of the app. The operator of this instance has to correct it; then open \
                 the connect link again. Nothing was changed."
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
    let api = ApiClient::with(&app.engine, &snapshot.provider, &snapshot.account, secret);
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
    if identity.account_id != snapshot.account {
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
    let grant = Grant {
        connector: session.connector.clone(),
        sequence: session.sequence,
        due_at: timing::due_at(&tokens, &snapshot.credential.id, &app.config.refresh.settings()),
        tokens,
        identity: Some(json!({
            "id": identity.user_id, "name": identity.name, "email": identity.email, "role": identity.role,
            "account": identity.account_name,
        })),
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
        Granted::Older => Ending::trouble(
            "A newer consent was faster",
            "This connector was reconnected from another window that was started after this one. Nothing is left to do.",
        ),
        Granted::Gone => {
            if let Some(client) = app.config.oauth_apps.get(&snapshot.provider) {
                app.engine.revoke(&asked.facts, &client.app(), &access_token).await;
            }
            Ending::trouble("This connector was removed", "There is nothing to connect any more.")
        }
    }
}
