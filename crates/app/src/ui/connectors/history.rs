//! How the last fortnight went for all of an org's connectors.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_store::Failure;
use serde::Serialize;

use super::{
    Mark,
    chart::{self, Chart},
};
use crate::{
    app::App,
    called,
    ui::{
        moment::Moment,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
};

/// So many failures are told one by one.
const TOLD: u32 = 50;

#[derive(Serialize)]
struct HistoryPage {
    calls: Chart,
    refreshes: Chart,
    failures: Chart,
    rows: Vec<Row>,
    /// There are more than are shown.
    more: bool,
    /// From the first mail to the repair: half of them took no longer.
    median: Option<String>,
    /// So many of those that are shown were mailed about and repaired.
    measured: usize,
}

/// A failure.
#[derive(Serialize)]
struct Row {
    id: String,
    mark: Mark,
    name: String,
    failed: Moment,
    mailed: Option<Moment>,
    repaired: Option<Moment>,
    /// From mail to repair.
    took: Option<String>,
}

/// GET /history
pub(super) async fn show(State(app): State<Arc<App>>, person: Person) -> Result<Response, Trouble> {
    let (org, store, now) = (person.org(), &app.store, app.seams.clock.now());
    let since = chart::since(now);
    let failures = store.failures(org, since, TOLD + 1).await?;
    let more = failures.len() > TOLD as usize;
    let shown = failures.iter().take(TOLD as usize);
    let mut repairs: Vec<TimeDelta> = shown.clone().filter_map(took).collect();
    repairs.sort_unstable();
    let page = HistoryPage {
        calls: Chart::new(&store.call_days(org, None, since).await?, now),
        refreshes: Chart::new(&store.exchange_days(org, None, since).await?, now),
        failures: Chart::new(&store.failure_days(org, since).await?, now),
        rows: shown.map(|failure| Row::new(&app, failure, now)).collect(),
        more,
        median: repairs.get(repairs.len() / 2).copied().map(chart::length),
        measured: repairs.len(),
    };
    Ok(View::of(&person, Here::Connectors, "pages/connectors/history.html", "The last 14 days", &page).show(&app))
}

impl Row {
    fn new(app: &App, failure: &Failure, now: DateTime<Utc>) -> Self {
        Self {
            id: failure.connector.clone(),
            mark: Mark::of(app, &failure.provider),
            name: called::parts(app, &failure.provider, &failure.account, &failure.name),
            failed: Moment::new(failure.failed_at, now),
            mailed: Moment::maybe(failure.mailed_at, now),
            repaired: Moment::maybe(failure.repaired_at, now),
            took: took(failure).map(chart::length),
        }
    }
}

/// From mail to repair.
fn took(failure: &Failure) -> Option<TimeDelta> {
    failure.mailed_at.zip(failure.repaired_at).map(|(mailed, repaired)| repaired - mailed)
}
