//! Pages that follow what happens: a stream of events that says no more than that something changed, so that the page is
//! fetched again. It works on every replica, since the store's signals reach each of them.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    extract::{Query, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use axum_extra::extract::cookie::CookieJar;
use chrono::{DateTime, TimeDelta, Utc};
use futures::{Stream, stream};
use holdfast_core::{
    AgentId, ConnectorId, OrgId,
    ports::{Signal, Signals, StoreError},
};
use holdfast_store::Kind;
use serde::Deserialize;
use tokio::sync::{Notify, broadcast::error::RecvError};
use tracing::warn;

use super::{
    person::Person,
    routes::{Needs, Routes},
    trouble::Trouble,
};
use crate::app::App;

/// A stream ends after this and is asked for again: a session that ended meanwhile is noticed then at the latest.
const LONGEST: Duration = Duration::from_mins(10);
/// Changes come in groups: one event tells of all that happen within this.
const GATHER: Duration = Duration::from_millis(80);
/// Between two events; each makes a browser fetch its page again.
const REST: Duration = Duration::from_millis(400);
/// What happened lately is kept, so that a stream can tell what its page has missed since it was made.
const MOST_RECENT: usize = 4096;
/// Replicas' clocks differ by less, or a page is fetched once more than it had to be.
const SKEW: TimeDelta = TimeDelta::seconds(2);
/// Between two looks at whether the session still holds, when nothing happens.
const QUIET: Duration = Duration::from_secs(20);
/// A browser shows no more tabs at a time.
const STREAMS_OF_A_SESSION: usize = 12;
/// So many things are known by their org; more are asked for again.
const MOST_KNOWN: usize = 100_000;
/// So many of an org are learnt when its list is opened: only what is deleted has to be known beforehand.
const LEARNT_AT_ONCE: u64 = 10_000;

/// Who listens, and whose what is.
#[derive(Default)]
pub struct Live(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    orgs: HashMap<Thing, OrgId>,
    listeners: HashMap<u64, Listener>,
    next: u64,
    /// When this replica heard of what, oldest first; `None`: of anything.
    recent: VecDeque<(DateTime<Utc>, Option<Thing>)>,
    /// When it last heard of an org's jobs. Apart from the others, since jobs may be many.
    jobs: HashMap<OrgId, DateTime<Utc>>,
}

struct Listener {
    session: String,
    org: OrgId,
    only: Option<Thing>,
    changed: Arc<Notify>,
}

/// What can change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Thing {
    Connector(ConnectorId),
    Agent(AgentId),
    /// All jobs of an org.
    Jobs(OrgId),
}

impl Thing {
    async fn org(&self, app: &App) -> Result<Option<OrgId>, StoreError> {
        match self {
            Self::Connector(id) => app.store.org_of_connector(id).await,
            Self::Agent(id) => app.store.org_of_agent(id).await,
            Self::Jobs(org) => Ok(Some(org.clone())),
        }
    }
}

/// One listener; it is forgotten when this is dropped.
struct Seat {
    app: Arc<App>,
    number: u64,
    changed: Arc<Notify>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.app.live.with(|inner| inner.listeners.remove(&self.number));
    }
}

impl Live {
    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock().expect("no panic happens while it is held"))
    }

    /// `None`: this session has enough streams.
    fn sit(app: &Arc<App>, person: &Person, only: Option<Thing>) -> Option<Seat> {
        let changed = Arc::new(Notify::new());
        let number = app.live.with(|inner| {
            let session = &person.session.id;
            let own = inner.listeners.values().filter(|listener| listener.session == *session).count();
            if own >= STREAMS_OF_A_SESSION {
                return None;
            }
            inner.next += 1;
            let listener =
                Listener { session: session.clone(), org: person.org().clone(), only, changed: Arc::clone(&changed) };
            inner.listeners.insert(inner.next, listener);
            Some(inner.next)
        })?;
        Some(Seat { app: Arc::clone(app), number, changed })
    }

    fn learn(&self, things: impl IntoIterator<Item = Thing>, org: &OrgId) {
        self.with(|inner| {
            for thing in things {
                if inner.orgs.len() >= MOST_KNOWN {
                    inner.orgs.clear();
                }
                inner.orgs.insert(thing, org.clone());
            }
        });
    }

    /// Keeps in mind that it changed.
    fn note(&self, at: DateTime<Utc>, thing: Option<Thing>) {
        self.with(|inner| {
            if inner.recent.len() >= MOST_RECENT {
                inner.recent.pop_front();
            }
            inner.recent.push_back((at, thing));
        });
    }

    /// Whether this page may have missed something since it was made.
    async fn missed(&self, app: &App, org: &OrgId, only: Option<&Thing>, since: DateTime<Utc>) -> bool {
        let (since, now) = match app.store.kind() {
            Kind::Sqlite => (since, app.seams.clock.now()),
            Kind::Postgres => (since - SKEW, app.seams.clock.now()),
        };
        let (whole, things) = self.with(|inner| {
            let whole = inner.recent.len() < MOST_RECENT || inner.recent.front().is_none_or(|(at, _)| *at < since);
            let things: Vec<_> =
                inner.recent.iter().rev().take_while(|(at, _)| *at >= since).map(|(_, thing)| thing.clone()).collect();
            (whole, things)
        });
        // From another time, or longer ago than is remembered; this replica may be younger than the page.
        if !whole || since > now || app.started_at > since {
            return true;
        }
        if let Some(Thing::Jobs(org)) = only {
            let moved = self.with(|inner| inner.jobs.get(org).is_some_and(|at| *at >= since));
            return moved || things.contains(&None);
        }
        for thing in things {
            let Some(thing) = thing else { return true };
            let concerns = match only {
                Some(only) => thing == *only,
                None => match self.with(|inner| inner.orgs.get(&thing).cloned()) {
                    Some(of) => of == *org,
                    None => thing.org(app).await.is_ok_and(|of| of.as_ref() == Some(org)),
                },
            };
            if concerns {
                return true;
            }
        }
        false
    }

    /// Jobs of this org moved: of what shows all that an org has, they are no part.
    fn jobs_changed(&self, org: &OrgId, at: DateTime<Utc>) {
        self.with(|inner| {
            if inner.jobs.len() >= MOST_KNOWN {
                inner.jobs.clear();
            }
            inner.jobs.insert(org.clone(), at);
        });
        self.wake(|listener| matches!(&listener.only, Some(Thing::Jobs(of)) if of == org));
    }

    /// Wakes whom it concerns.
    fn wake(&self, concerns: impl Fn(&Listener) -> bool) {
        self.with(|inner| {
            for listener in inner.listeners.values().filter(|listener| concerns(listener)) {
                listener.changed.notify_one();
            }
        });
    }

    async fn changed(&self, app: &App, thing: Thing) {
        let known = self.with(|inner| {
            if inner.listeners.is_empty() {
                return None;
            }
            Some(inner.orgs.get(&thing).cloned())
        });
        let Some(known) = known else { return };
        let org = match known {
            Some(org) => Some(org),
            None => match thing.org(app).await {
                Ok(org) => org,
                Err(error) => {
                    warn!(%error, "cannot look whose thing changed; telling every page");
                    return self.wake(|_| true);
                }
            },
        };
        // Deleted before anybody knew of it: nobody has it on a page.
        let Some(org) = org else { return };
        let concerns =
            |listener: &Listener| listener.org == org && listener.only.as_ref().is_none_or(|only| *only == thing);
        self.wake(concerns);
        self.learn([thing], &org);
    }
}

/// Passes the store's signals on, until the service ends.
pub(crate) async fn follow(app: Arc<App>) {
    let mut signals = app.store.subscribe();
    let mut jobs = app.store.subscribe_jobs();
    loop {
        let signal = tokio::select! {
            signal = signals.recv() => signal,
            told = jobs.recv() => {
                match told {
                    Ok(told) => app.live.jobs_changed(&told.org, app.seams.clock.now()),
                    Err(RecvError::Lagged(_)) => app.live.wake(|listener| matches!(listener.only, Some(Thing::Jobs(_)))),
                    Err(RecvError::Closed) => return,
                }
                continue;
            }
            () = app.stop.cancelled() => return,
        };
        let thing = match signal {
            Ok(Signal::Connector(connector)) => Some(Thing::Connector(connector)),
            Ok(Signal::Agent(agent)) => Some(Thing::Agent(agent)),
            Ok(Signal::ApiKey(_) | Signal::OAuthApp(_)) => continue,
            Ok(Signal::All) | Err(RecvError::Lagged(_)) => None,
            Err(RecvError::Closed) => return,
        };
        app.live.note(app.seams.clock.now(), thing.clone());
        match thing {
            Some(thing) => app.live.changed(&app, thing).await,
            None => app.live.wake(|_| true),
        }
    }
}

pub(super) fn routes() -> Routes {
    Routes::new().get("/events", Needs::SignedIn, events)
}

#[derive(Deserialize)]
struct Asked {
    connector: Option<String>,
    agent: Option<String>,
    /// Anything: of the org's jobs.
    jobs: Option<String>,
    /// When the page was made, in microseconds since 1970.
    since: Option<i64>,
}

/// Where a page follows what happens, to one connector or to all that the org has. `since`: before it was read.
pub(crate) fn address(connector: Option<&ConnectorId>, since: DateTime<Utc>) -> String {
    let since = since.timestamp_micros();
    match connector {
        Some(connector) => format!("/events?connector={connector}&since={since}"),
        None => format!("/events?since={since}"),
    }
}

/// Where a page follows what happens to the org's jobs.
pub(crate) fn address_of_jobs(since: DateTime<Utc>) -> String {
    format!("/events?jobs=all&since={}", since.timestamp_micros())
}

/// GET /events: of one connector or agent, of all of the org's, or of its jobs.
async fn events(
    State(app): State<Arc<App>>,
    person: Person,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response, Trouble> {
    // Scripts ask so; an address bar does not, and would wait for ever.
    if headers.get(header::ACCEPT).is_none_or(|accept| accept != "text/event-stream") {
        return Ok(StatusCode::NOT_ACCEPTABLE.into_response());
    }
    let connector = asked.connector.map(|id| Thing::Connector(id.into()));
    let jobs = asked.jobs.map(|_| Thing::Jobs(person.org().clone()));
    let only = connector.or(asked.agent.map(|id| Thing::Agent(id.into()))).or(jobs);
    if let Some(only) = &only {
        if only.org(&app).await?.as_ref() != Some(person.org()) {
            return Ok(StatusCode::NOT_FOUND.into_response());
        }
        app.live.learn([only.clone()], person.org());
    } else {
        let ids = app.store.connector_ids(person.org(), LEARNT_AT_ONCE).await?;
        app.live.learn(ids.into_iter().map(Thing::Connector), person.org());
        let ids = app.store.agent_ids(person.org(), LEARNT_AT_ONCE).await?;
        app.live.learn(ids.into_iter().map(Thing::Agent), person.org());
    }
    let Some(seat) = Live::sit(&app, &person, only.clone()) else {
        return Ok(StatusCode::TOO_MANY_REQUESTS.into_response());
    };
    // A stream that broke off says what it heard last.
    let heard = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let since = heard.or(asked.since).and_then(DateTime::from_timestamp_micros);
    let missed = match since {
        Some(since) => app.live.missed(&app, person.org(), only.as_ref(), since).await,
        None => true,
    };
    if missed {
        seat.changed.notify_one();
    }
    let (jar, org) = (CookieJar::from_headers(&headers), person.org().clone());
    // Proxies that gather answers would keep events back.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    let stream = Sse::new(stream_of(seat, jar, org)).keep_alive(KeepAlive::new().interval(QUIET));
    Ok((unbuffered, stream).into_response())
}

/// `changed` whenever something did, until the session, the service or the stream's time is over.
fn stream_of(seat: Seat, jar: CookieJar, org: OrgId) -> impl Stream<Item = Result<Event, Infallible>> {
    let end = seat.app.seams.clock.uptime() + LONGEST;
    // The first event is no news: it opens the stream at once, and says how soon to come back.
    let now = seat.app.seams.clock.now().timestamp_micros();
    let hello = Event::default().id(now.to_string()).retry(Duration::from_secs(1)).comment("here");
    stream::unfold((seat, jar, Some(hello), GATHER), move |(seat, jar, hello, rest)| {
        let org = org.clone();
        async move {
            if let Some(hello) = hello {
                return Some((Ok(hello), (seat, jar, None, rest)));
            }
            let news = next(&seat, &jar, &org, end, rest).await?;
            Some((Ok(news), (seat, jar, None, REST)))
        }
    })
}

/// The next event. What comes within `rest` comes with it: a moment at first, longer while much happens.
async fn next(seat: &Seat, jar: &CookieJar, org: &OrgId, end: Duration, rest: Duration) -> Option<Event> {
    let app = &seat.app;
    let busy_until = app.seams.clock.uptime() + rest;
    loop {
        let left = end.checked_sub(app.seams.clock.uptime())?;
        let changed = tokio::select! {
            () = app.draining.cancelled() => return None,
            () = seat.changed.notified() => true,
            () = app.seams.clock.sleep(left.min(QUIET)) => false,
        };
        if changed {
            tokio::select! {
                () = app.draining.cancelled() => return None,
                () = app.seams.clock.sleep(busy_until.saturating_sub(app.seams.clock.uptime()).max(GATHER)) => {}
            }
        }
        // Who signed out meanwhile, or acts for another org, hears nothing more.
        let still = Person::find(app, jar)
            .await
            .ok()
            .flatten()
            .is_some_and(|person| person.org() == org && !person.lacks_second_factor());
        if !still {
            return None;
        }
        if changed {
            // Browsers drop events without data.
            let now = app.seams.clock.now().timestamp_micros();
            return Some(Event::default().id(now.to_string()).event("changed").data("now"));
        }
    }
}
