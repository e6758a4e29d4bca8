//! One job with its attempts.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use chrono::{DateTime, Utc};
use holdfast_core::{Role, job::State as JobState};
use holdfast_store::{ByHand, Job, JobAttempt};
use serde::{Deserialize, Serialize};

use super::{
    JobLine, Of,
    title::{self, About},
};
use crate::{
    app::App,
    mail::text::line,
    ui::{
        live,
        moment::Moment,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
};

/// On the page.
const ATTEMPTS: u64 = 50;
/// Of what went wrong.
const LONGEST_DETAIL: usize = 500;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    did: String,
}

#[derive(Serialize)]
struct JobPage {
    did: Option<&'static str>,
    events: String,
    job: JobLine,
    of: Option<Of>,
    /// What it is about, on pages of their own.
    about: Vec<About>,
    key: String,
    /// What the state means for it, in a sentence.
    what: String,
    code: Option<String>,
    /// How many attempts it has.
    most: u32,
    asked_for: Moment,
    due: Option<Moment>,
    by: Option<String>,
    attempts: Vec<AttemptLine>,
    retry: bool,
    discard: bool,
    over: bool,
    news: String,
}

#[derive(Serialize)]
struct AttemptLine {
    number: i64,
    tone: &'static str,
    word: &'static str,
    at: Moment,
    took: String,
    detail: Option<String>,
    replica: Option<String>,
}

impl AttemptLine {
    fn new(attempt: JobAttempt, now: DateTime<Utc>) -> Self {
        let (tone, word) = match attempt.outcome.as_str() {
            "done" => ("good", "Done"),
            "failed" => ("bad", "Failed"),
            "needs_reconnect" => ("warn", "Needs Reconnect; does not count"),
            "waits" => ("idle", "Waits for something else; does not count"),
            "given_back" => ("idle", "Given back by a replica that stopped; does not count"),
            _ => ("bad", "Lost with its replica"),
        };
        let took = (attempt.ended_at - attempt.started_at).to_std().unwrap_or_default();
        Self {
            number: attempt.number,
            tone,
            word,
            at: Moment::new(attempt.started_at, now),
            took: super::super::agents::length(took),
            detail: attempt.fault.map(|fault| line(&fault.detail, LONGEST_DETAIL)),
            replica: attempt.holder,
        }
    }
}

/// GET /jobs/{id}
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let job = app.store.find_job(person.org(), &id).await?.ok_or_else(|| Trouble::not_found(&person))?;
    let attempts = app.store.job_attempts(&job.id, ATTEMPTS).await?;
    let names = app.store.job_names(person.org(), std::slice::from_ref(&job)).await?;
    let acts = person.may(Role::Member);
    let shown = JobLine::new(&app, &names, &job, now);
    let title = shown.title.clone();
    let about = title::about(&names, &job);
    let page = JobPage {
        did: match asked.did.as_str() {
            "retried" => Some("It is tried again."),
            "discarded" => Some("It is discarded. It can still be tried again."),
            _ => None,
        },
        events: live::address_of_jobs(now),
        what: what(&job),
        code: job.fault.as_ref().map(|fault| fault.code.clone()),
        most: app.job_policy(job.kind).attempts,
        asked_for: Moment::new(job.created_at, now),
        due: Moment::maybe(Some(job.due_at).filter(|_| job.state == JobState::Waiting), now),
        by: job.actor.clone(),
        attempts: attempts.into_iter().map(|attempt| AttemptLine::new(attempt, now)).collect(),
        retry: acts && ByHand::Retry.takes(job.state),
        discard: acts && ByHand::Discard.takes(job.state),
        over: job.state.is_over(),
        news: shown.badge.word.to_owned(),
        key: job.key.clone(),
        of: Of::of_job(&app, &names, &job),
        about,
        job: shown,
    };
    Ok(View::of(&person, Here::Jobs, "pages/jobs/show.html", &title, &page).show(&app))
}

fn what(job: &Job) -> String {
    let reason = job.fault.as_ref().map(|fault| line(&fault.detail, LONGEST_DETAIL));
    match (job.state, reason) {
        (JobState::Ready, _) => "Its turn comes next, after those before it.".to_owned(),
        (JobState::Waiting, Some(reason)) => format!("The last attempt failed: {reason} It is tried again."),
        (JobState::Waiting, None) => "Its time has not come yet.".to_owned(),
        (JobState::Running, _) => "A replica is at it.".to_owned(),
        (JobState::Parked, _) => {
            "It waits until its connector is reconnected, and goes on by itself then. No attempt is used up.".to_owned()
        }
        (JobState::Done, _) => "It is done.".to_owned(),
        (JobState::Dead, Some(reason)) => format!("{reason} It is not tried again by itself."),
        (JobState::Dead, None) => "It is not tried again by itself.".to_owned(),
        (JobState::Discarded, _) => "Somebody did not want it done.".to_owned(),
    }
}
