//! One endpoint: how it stands, what was attempted, and what can be done about it.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    http::StatusCode,
    response::Response,
};
use chrono::{DateTime, Utc};
use holdfast_store::{EventAttempt, EventEndpoint};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use super::{Form, HERE, Problems, Row, Typed, tried_for};
use crate::{
    app::App,
    endpoints::manage::Standing,
    mail::text::line,
    ui::{
        agents::length,
        connectors::query,
        live,
        moment::{Moment, span},
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
    words::counted,
};

/// Attempts on a page.
const ROWS: u64 = 25;
/// Of why one failed.
const LONGEST_DETAIL: usize = 300;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    did: String,
    count: Option<u64>,
    before: String,
}

#[derive(Serialize)]
struct EndpointPage<'a> {
    row: Row,
    did: Option<String>,
    /// The secret that was just made, this once, under this heading.
    secret: Option<&'a str>,
    heading: &'a str,
    events: String,
    enabled: bool,
    what: String,
    made: Moment,
    secret_made: Moment,
    previous_until: Option<Moment>,
    overlap: String,
    /// Where it would begin, if what it missed were sent again; empty: it missed nothing.
    missed_since: String,
    kept_days: u32,
    attempts: Vec<AttemptLine>,
    first: bool,
    next: Option<String>,
    form: Form,
}

#[derive(Serialize)]
struct AttemptLine {
    tone: &'static str,
    word: String,
    kind: String,
    event: String,
    number: u64,
    at: Moment,
    took: String,
    detail: Option<String>,
    job: String,
}

impl AttemptLine {
    fn of(attempt: EventAttempt, now: DateTime<Utc>) -> Self {
        let (tone, word) = match (&attempt.fault, attempt.status) {
            (None, status) => ("good", format!("Taken, {}", status.unwrap_or(200))),
            (Some(_), Some(status)) => ("bad", format!("Not taken, {status}")),
            (Some(_), None) => ("bad", "No answer".to_owned()),
        };
        Self {
            tone,
            word,
            kind: attempt.kind,
            event: attempt.event.to_string(),
            number: attempt.number,
            at: Moment::new(attempt.at, now),
            took: length(attempt.took),
            detail: attempt.fault.map(|fault| line(&fault, LONGEST_DETAIL)),
            job: attempt.job.to_string(),
        }
    }
}

/// GET /settings/event-endpoints/{id}
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let endpoint = find(&app, &person, &id).await?;
    let form = Form::new(&app, &Typed::of(&endpoint), Problems::default());
    page(&app, &person, &endpoint, &asked, None, form).await
}

pub(super) async fn find(app: &App, person: &Person, id: &str) -> Result<EventEndpoint, Trouble> {
    let found = app.store.find_event_endpoint(person.org(), id, app.seams.clock.now()).await?;
    found.ok_or_else(|| Trouble::not_found(person))
}

/// With the secret that was just made.
pub(super) async fn with_secret(
    app: &App,
    person: &Person,
    endpoint: &EventEndpoint,
    heading: &str,
) -> Result<Response, Trouble> {
    let form = Form::new(app, &Typed::of(endpoint), Problems::default());
    page(app, person, endpoint, &Asked::default(), Some(heading), form).await
}

/// With what was typed and is wrong.
pub(super) async fn with_problems(
    app: &App,
    person: &Person,
    endpoint: &EventEndpoint,
    typed: &Typed,
    problems: Problems,
) -> Result<Response, Trouble> {
    let form = Form::new(app, typed, problems);
    page(app, person, endpoint, &Asked::default(), None, form).await
}

async fn page(
    app: &App,
    person: &Person,
    endpoint: &EventEndpoint,
    asked: &Asked,
    heading: Option<&str>,
    form: Form,
) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let before = Some(asked.before.as_str()).filter(|before| before.starts_with("att_"));
    let found = app.store.event_attempts(person.org(), &endpoint.id, before, ROWS).await?;
    let secret = heading.and_then(|_| endpoint.secrets.first()).map(ExposeSecret::expose_secret);
    let wrong = form.problems != Problems::default();
    let missed_since = endpoint.failing_since.or(endpoint.disabled_at);
    let settings = &app.config.events;
    let page = EndpointPage {
        row: Row::of(endpoint, now),
        did: did(asked),
        secret,
        heading: heading.unwrap_or_default(),
        events: live::address_of_jobs(now),
        enabled: endpoint.enabled,
        what: what(app, endpoint),
        made: Moment::new(endpoint.created_at, now),
        secret_made: Moment::new(endpoint.secret_at, now),
        previous_until: Moment::maybe(endpoint.previous_until, now),
        overlap: chrono::TimeDelta::from_std(settings.secret_overlap).ok().and_then(span).unwrap_or_default(),
        missed_since: missed_since.map(|since| since.format("%Y-%m-%dT%H:%M").to_string()).unwrap_or_default(),
        kept_days: settings.keep_days,
        attempts: found.data.into_iter().map(|attempt| AttemptLine::of(attempt, now)).collect(),
        first: before.is_none(),
        next: found.next_cursor.map(|cursor| format!("{HERE}/{}{}", endpoint.id, query(&[("before", &cursor)]))),
        form,
    };
    let status = if wrong { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let view = View::of(person, Here::Settings, "pages/settings/event_endpoint.html", &page.row.name, &page);
    Ok(view.status(status).show(app))
}

fn did(asked: &Asked) -> Option<String> {
    Some(match asked.did.as_str() {
        "changed" => "It is changed.".to_owned(),
        "tested" => "A test is on its way. Its attempt shows below.".to_owned(),
        "enabled" => "It is enabled. What it missed is not sent by itself: see Send again.".to_owned(),
        "disabled" => "It is disabled; nothing is sent there.".to_owned(),
        "replayed" => match asked.count.unwrap_or_default() {
            0 => "There was nothing to send again.".to_owned(),
            1 => "One event is on its way again.".to_owned(),
            count => format!("{} are on their way again.", counted(count, "event")),
        },
        _ => return None,
    })
}

fn what(app: &App, endpoint: &EventEndpoint) -> String {
    match Standing::of(endpoint) {
        Standing::Active if endpoint.delivered_at.is_none() => {
            "Nothing was sent there yet. Send a test to see whether it answers.".to_owned()
        }
        Standing::Active => "It takes what it is sent.".to_owned(),
        Standing::Failing => {
            let failed = match endpoint.failures {
                1 => "The last attempt failed.".to_owned(),
                many => format!("The last {many} attempts failed."),
            };
            format!("{failed} Each event is tried again for {}.", tried_for(app))
        }
        Standing::Gone => {
            "It answered that it is gone (410), and gets nothing any more. If that was wrong, enable it.".to_owned()
        }
        Standing::GivenUp => {
            "Every attempt failed for days, so it gets nothing any more. Mend it, then enable it.".to_owned()
        }
        Standing::Disabled => "Somebody disabled it. Nothing is sent there.".to_owned(),
    }
}
