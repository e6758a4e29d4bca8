//! Back from the provider: is it this browser's consent, and good? Then it is worked off, and its end is shown.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Path, Query, RawQuery, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::CookieJar;
use holdfast_core::{agent::Status, ports::StoreError};
use holdfast_store::{Session, Taken, Way, acting, by};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;
use tracing::error;
use url::form_urlencoded;

use super::{
    consent::{self, Brought},
    ending::{Ended, Told},
    progress, reconnect,
};
use crate::{
    app::App,
    called, keys,
    ui::{
        cookies::Kind,
        person::Person,
        trouble::Trouble,
        view::{Brand, View},
    },
};

/// How long a second look at a consent that is being worked on waits for its outcome.
const LONGEST_LOOK: Duration = Duration::from_secs(20);
/// How long the way back from the provider takes at most; then the page of its end waits.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// So many agents are named.
const AGENTS: usize = 12;

#[derive(Deserialize)]
pub(super) struct Answer {
    state: Option<String>,
    code: Option<SecretString>,
    error: Option<String>,
}

/// All that came back, for whoever signed it and for who works it off.
pub(super) struct Received {
    pub(super) code: Option<SecretString>,
    pub(super) error: Option<String>,
    /// Every parameter, decoded, in its order. Never shown: the code is among them.
    pub(super) query: Vec<(String, String)>,
}

/// What goes wrong before a consent is known to be this browser's. Each has a page of its own address.
#[derive(Clone, Copy)]
pub(super) enum Early {
    Nothing,
    Unknown,
    OtherBrowser,
    TooLong,
    Ours,
}

impl Early {
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

    pub(super) fn trouble(self, person: Option<&Person>) -> Trouble {
        let (status, title, way_on) = match self {
            Self::Nothing => (
                StatusCode::BAD_REQUEST,
                "Nothing was received",
                "The provider sent you back without saying what for. Start again where you started, in Holdfast or from \
                 your link. Nothing was changed.",
            ),
            Self::Unknown => (
                StatusCode::BAD_REQUEST,
                "This consent is not known",
                "It may have been started again since. Go on in the page where you started last, or start again in \
                 Holdfast or from your link. Nothing was changed.",
            ),
            Self::OtherBrowser => (
                StatusCode::FORBIDDEN,
                "This was started in another browser",
                "Start from Holdfast itself, or open your link, in the browser that you want to use, and go on \
                 from there. Nothing was changed.",
            ),
            Self::TooLong => (
                StatusCode::GONE,
                "That took too long",
                "A consent has to be given within ten minutes. Start again from your link; nothing was changed.",
            ),
            Self::Ours => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Not at the moment",
                "Something on our side does not answer. Load this page again in a minute, or start again where you \
                 started.",
            ),
        };
        match person {
            Some(person) => Trouble::told(person, status, title, way_on),
            None => Trouble::outside(status, title, way_on),
        }
    }
}

impl From<StoreError> for Early {
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
    RawQuery(query): RawQuery,
) -> Redirect {
    let Ok(Query(answer)) = answer else { return Redirect::to(&trouble_path(Early::Nothing)) };
    let query = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let received = Received { code: answer.code, error: answer.error, query };
    match taken(&app, &jar, answer.state.as_deref(), Brought::Answer(received)).await {
        Ok(session) => Redirect::to(&format!("/connect/ended/{session}")),
        Err(early) => Redirect::to(&trouble_path(early)),
    }
}

fn trouble_path(early: Early) -> String {
    format!("/connect/trouble/{}", early.word())
}

/// GET /connect/trouble/{word}.
pub(super) async fn trouble(person: Result<Option<Person>, Trouble>, Path(word): Path<String>) -> Trouble {
    let early = Early::ALL.into_iter().find(|early| early.word() == word).unwrap_or(Early::Unknown);
    early.trouble(person.ok().flatten().as_ref())
}

/// Has the consent worked off, once, and answers the id of its session.
pub(super) async fn taken(
    app: &Arc<App>,
    jar: &CookieJar,
    state: Option<&str>,
    brought: Brought,
) -> Result<String, Early> {
    let state = state.filter(|state| !state.is_empty()).ok_or(Early::Nothing)?;
    let hash = keys::hash(state);
    // Before the state is spent: another browser than the one that started must not burn it.
    let found = app.store.find_session_by_state(&hash).await?.ok_or(Early::Unknown)?;
    if !same_browser(app, jar, &found) {
        return Err(Early::OtherBrowser);
    }
    // On a task of its own: a browser that goes away, or that is clicked twice, must lose neither the state that is taken
    // here nor what the provider has issued.
    let (app2, id, live) = (Arc::clone(app), found.id, found.way == Way::SignedIn);
    let (tell, told) = oneshot::channel();
    let work = app.engine.spawn(acting(by(), async move {
        let taken = app2.store.take_state(&hash, app2.seams.clock.now()).await;
        let (early, session) = match taken {
            Ok(Taken::Yes(session)) => (None, Some(session)),
            // A reload, a prefetch: the page waits for what the first one comes to.
            Ok(Taken::Used(_)) => (None, None),
            // The connector's page has the button to start again.
            Ok(Taken::Expired) if live => (None, None),
            Ok(Taken::Expired) => (Some(Early::TooLong), None),
            Ok(Taken::Unknown) => (Some(Early::Unknown), None),
            Err(error) => (Some(error.into()), None),
        };
        // Whoever waited for it may be gone.
        tell.send(early).ok();
        if let Some(session) = session {
            consent::work(&app2, &session, brought).await;
        }
    }));
    if let Some(early) = told.await.map_err(|_| Early::Ours)? {
        return Err(early);
    }
    // Somebody who is signed in watches it step by step. Others wait for its end, which a slow first test must not put off.
    if !live {
        tokio::select! {
            done = work => done.map_err(|_| Early::Ours)?,
            () = app.seams.clock.sleep(LONGEST_WAIT) => {}
        }
    }
    Ok(id)
}

pub(super) fn same_browser(app: &App, jar: &CookieJar, session: &Session) -> bool {
    let here = Kind::Browser.read(app, jar).map(|cookie| keys::hash(&cookie));
    match (&here, &session.browser_hash) {
        (Some(here), Some(started)) => bool::from(here.as_slice().ct_eq(started)),
        _ => false,
    }
}

#[derive(Serialize)]
struct EndedPage {
    ok: bool,
    title: String,
    text: String,
    /// What is said of the connector, and the ways on, to an admin who came by a mail.
    more: Option<More>,
}

#[derive(Serialize)]
struct More {
    /// What the connector is called.
    name: String,
    /// Its page; whoever is not signed in signs in first.
    page: String,
    /// The agents that run again.
    agents: Vec<String>,
    unnamed: usize,
    /// Why the first test failed.
    untested: Option<String>,
    /// The link of the mail, where it can be used again.
    again: Option<String>,
}

/// GET /connect/ended/{session}: how a consent ended, for the browser that started it. Who started it signed in goes on
/// to the connector, over signing in again where that is over.
pub(super) async fn ended(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    jar: CookieJar,
    person: Option<Person>,
) -> Result<Response, Trouble> {
    let deadline = app.seams.clock.uptime() + LONGEST_LOOK;
    loop {
        let session = app.store.find_session_by_id(&id).await?;
        let session = session.filter(|session| same_browser(&app, &jar, session));
        let session = session.ok_or_else(|| Early::OtherBrowser.trouble(person.as_ref()))?;
        let watches = match (session.way, &person) {
            // In another organisation meanwhile, they would look for the connector in vain.
            (Way::SignedIn | Way::Mail, Some(person)) => *person.org() == session.org,
            (way, None) => way == Way::SignedIn,
            (Way::Link, Some(_)) => false,
        };
        if watches {
            let page = format!("/connectors/{}?consent={}", session.connector, session.id);
            return Ok(Redirect::to(&page).into_response());
        }
        if let Some(ended) = session.result.as_ref().and_then(Ended::read) {
            return shown(&app, &session, &ended).await;
        }
        if app.seams.clock.uptime() >= deadline {
            return Err(Trouble::outside(
                StatusCode::CONFLICT,
                "This consent is being worked on",
                "Load this page again in a moment to see how it ended.",
            ));
        }
        app.seams.clock.sleep(Duration::from_millis(100)).await;
    }
}

async fn shown(app: &App, session: &Session, ended: &Ended) -> Result<Response, Trouble> {
    if let Some(target) = &session.return_url {
        let mut target = url::Url::parse(target).expect("it was checked when the link was made");
        let status = if ended.ok() { "connected" } else { "failed" };
        target.query_pairs_mut().append_pair("connector_id", session.connector.as_str()).append_pair("status", status);
        return Ok(Redirect::to(target.as_str()).into_response());
    }
    let more = if session.way == Way::Mail { more(app, session, ended).await? } else { None };
    let (title, text) = match &more {
        Some(more) if ended.ok() => (format!("{} is reconnected", more.name), ended.words(Told::Here).1),
        Some(_) => ended.words(Told::Here),
        None => ended.words(Told::ByLink),
    };
    let status = if ended.ok() { StatusCode::OK } else { StatusCode::CONFLICT };
    let page = EndedPage { ok: ended.ok(), title: title.clone(), text, more };
    let view = View::plain("", "pages/connect/ended.html", &title, &page).status(status);
    if session.way == Way::Link {
        return Ok(view.branded(&Brand::of(app, &session.org).await?).show(app));
    }
    Ok(view.show(app))
}

/// For an admin who came by the link of a mail. `None`: the connector was removed.
async fn more(app: &App, session: &Session, ended: &Ended) -> Result<Option<More>, StoreError> {
    let Some(snapshot) = app.engine.snapshot(&session.connector).await? else { return Ok(None) };
    let agents = app.store.agents_of(std::slice::from_ref(&snapshot.connector)).await?;
    let agents = agents.get(&snapshot.connector).map(Vec::as_slice).unwrap_or_default();
    let active = agents.iter().filter(|agent| ended.ok() && agent.status == Status::Active);
    let mut agents: Vec<_> = active.map(|agent| agent.name.clone()).collect();
    let unnamed = agents.len().saturating_sub(AGENTS);
    agents.truncate(AGENTS);
    Ok(Some(More {
        name: called::connector(app, &snapshot),
        page: format!("/connectors/{}", snapshot.connector),
        agents,
        unnamed,
        untested: progress::of(session).test.and_then(Result::err),
        again: reconnect::again(app, session, &snapshot).await?,
    }))
}
