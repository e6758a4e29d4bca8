//! The list of jobs.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    response::Response,
};
use holdfast_core::{
    ConnectorId, Role,
    job::{Kind, State as JobState},
};
use holdfast_store::{ByHand, JobFilter};
use serde::{Deserialize, Serialize};

use super::{JobLine, Of, kind_words};
use crate::{
    app::App,
    ui::{
        connectors::query,
        live,
        parts::Choice,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
    words,
};

/// Of a page.
const ROWS: u64 = 50;

/// What a form or an address asks for. What is no word of ours means all.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) connector: String,
    after: String,
    did: String,
    number: usize,
}

impl Asked {
    pub(super) fn filter(&self) -> JobFilter {
        JobFilter {
            kind: Kind::parse(&self.kind),
            state: JobState::parse(&self.state),
            connector: Some(self.connector.as_str()).filter(|id| id.starts_with("con_")).map(ConnectorId::from),
        }
    }
}

/// Where the list stands with this filter, to be gone on from.
pub(super) fn address(filter: &JobFilter, more: &[(&str, &str)]) -> String {
    let words = [
        ("kind", filter.kind.map_or("", Kind::as_str)),
        ("state", filter.state.map_or("", JobState::as_str)),
        ("connector", filter.connector.as_ref().map_or("", ConnectorId::as_str)),
    ];
    format!("/jobs{}", query(&[&words, more].concat()))
}

#[derive(Serialize)]
struct JobsPage {
    did: Option<String>,
    events: String,
    kinds: Vec<Choice>,
    states: Vec<Choice>,
    /// Only of this one.
    of: Option<Of>,
    /// The filter, for the forms.
    kind: &'static str,
    state: &'static str,
    connector: String,
    filtered: bool,
    rows: Vec<Row>,
    first: Option<String>,
    next: Option<String>,
    /// Whether all of these can be tried again, and discarded.
    retry: bool,
    discard: bool,
}

#[derive(Serialize)]
struct Row {
    job: JobLine,
    of: Option<Of>,
}

/// GET /jobs
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let filter = asked.filter();
    let after = Some(asked.after.as_str()).filter(|after| after.starts_with("job_"));
    let found = app.store.jobs(person.org(), &filter, after, ROWS).await?;
    let names = app.store.job_names(person.org(), &found.data).await?;
    let row = |job| Row { job: JobLine::new(&app, &names, job, now), of: Of::of_job(&app, &names, job) };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let of = match &filter.connector {
        Some(id) => Of::find(&app, &person, id).await,
        None => None,
    };
    let acts = person.may(Role::Member);
    let can =
        |wish: ByHand| acts && filter.state.map_or(!rows.is_empty(), |state| wish.takes(state) && !rows.is_empty());
    let page = JobsPage {
        did: did(&asked.did, asked.number),
        events: live::address_of_jobs(now),
        kinds: choices("Every kind", filter.kind, Kind::ALL, Kind::as_str, kind_words),
        states: choices("Every state", filter.state, JobState::ALL, JobState::as_str, |state| words::job(state).1),
        of,
        kind: filter.kind.map_or("", Kind::as_str),
        state: filter.state.map_or("", JobState::as_str),
        connector: filter.connector.as_ref().map(ToString::to_string).unwrap_or_default(),
        filtered: filter != JobFilter::default(),
        first: after.map(|_| address(&filter, &[])),
        next: found.next_cursor.map(|cursor| address(&filter, &[("after", &cursor)])),
        retry: can(ByHand::Retry),
        discard: can(ByHand::Discard),
        rows,
    };
    Ok(View::of(&person, Here::Jobs, "pages/jobs/home.html", "Jobs", &page).show(&app))
}

fn did(word: &str, number: usize) -> Option<String> {
    let jobs = words::counted(number as u64, "job");
    match (word, number) {
        ("retried" | "discarded", 0) => Some("None of these could be changed: nothing was done.".to_owned()),
        ("retried", _) => Some(format!("Trying {jobs} again.")),
        ("discarded", _) => Some(format!("Discarded {jobs}.")),
        _ => None,
    }
}

fn choices<T: Copy + PartialEq, const N: usize>(
    all: &'static str,
    chosen: Option<T>,
    each: [T; N],
    value: impl Fn(T) -> &'static str,
    word: impl Fn(T) -> &'static str,
) -> Vec<Choice> {
    let none = Choice { value: String::new(), word: all.to_owned(), chosen: chosen.is_none() };
    let one = |of: T| Choice { value: value(of).to_owned(), word: word(of).to_owned(), chosen: chosen == Some(of) };
    std::iter::once(none).chain(each.into_iter().map(one)).collect()
}
