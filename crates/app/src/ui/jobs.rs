//! Jobs in the web UI: what waits, runs and failed, with its attempts, and what people do about it.

mod acts;
mod home;
mod show;
mod title;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, Role,
    job::{Kind, State},
};
use holdfast_store::{Job, JobNames};
use serde::Serialize;

use super::{
    moment::Moment,
    parts::Badge,
    person::Person,
    routes::{Needs, Routes},
};
use crate::{app::App, called, mail::text::line};

/// Of a reason or a title, in a list.
const LONGEST_WORDS: usize = 200;

/// All pages of jobs. Everybody looks, members act.
pub(super) fn routes() -> Routes {
    let (look, act) = (Needs::SignedIn, Needs::Role(Role::Member));
    Routes::new()
        .get("/jobs", look, home::show)
        .post("/jobs/retry", act, acts::retry_all)
        .post("/jobs/discard", act, acts::discard_all)
        .get("/jobs/{id}", look, show::show)
        .post("/jobs/{id}/retry", act, acts::retry)
        .post("/jobs/{id}/discard", act, acts::discard)
}

/// What a kind is called.
pub(super) fn kind_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Event => "Event",
        Kind::Sync => "Sync",
        Kind::Mail => "Mail",
        Kind::Deliver => "Delivery to you",
        Kind::AgentRun => "Agent run",
        Kind::Subscription => "Webhook upkeep",
    }
}

/// A connector that a job is of.
#[derive(Serialize)]
struct Of {
    id: String,
    name: String,
}

impl Of {
    /// `None`: it is gone.
    async fn find(app: &Arc<App>, person: &Person, id: &ConnectorId) -> Option<Self> {
        let snapshot = app.engine.snapshot(id).await.ok().flatten();
        let found = snapshot.filter(|snapshot| snapshot.org == *person.org())?;
        Some(Self { id: id.to_string(), name: called::connector(app, &found) })
    }

    /// The connector of a job.
    fn of_job(app: &App, names: &JobNames, job: &Job) -> Option<Self> {
        let id = job.connector.as_ref()?;
        names
            .connectors
            .get(id)
            .map(|one| Self { id: id.to_string(), name: called::named(app, &one.provider, &one.account, &one.name) })
    }
}

/// A job in a list, and at the head of its page.
#[derive(Serialize)]
struct JobLine {
    id: String,
    /// What it does, in plain words.
    title: String,
    badge: Badge,
    /// When it came where it is, or when it goes on.
    at: Moment,
    attempts: u32,
    /// Why it is where it is.
    reason: Option<String>,
}

impl JobLine {
    fn new(app: &App, names: &JobNames, job: &Job, now: DateTime<Utc>) -> Self {
        let at = match job.state {
            State::Running => job.started_at,
            State::Parked => job.parked_at,
            _ => job.ended_at,
        };
        Self {
            id: job.id.to_string(),
            title: line(&title::of(app, names, job), LONGEST_WORDS),
            badge: Badge::of_job(job.state),
            at: Moment::new(at.unwrap_or(job.due_at), now),
            attempts: job.attempts,
            reason: job.fault.as_ref().map(|fault| line(&fault.detail, LONGEST_WORDS)),
        }
    }
}
