//! Agents in the web UI: the list, making and changing one, its page, its runs.
//!
//! - [`home`]: all of them, those that somebody has to do something about first.
//! - [`form`]: making one from a sample, and changing one.
//! - [`show`], [`run`]: an agent, and one of its runs with its steps.
//! - [`acts`]: pause, resume, run; [`delete`] asks for the name first.

mod acts;
mod delete;
mod draft;
mod form;
mod home;
mod run;
mod show;

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdfast_core::{Role, agent::Trigger, webhook::Topic};
use holdfast_store::{Agent, Run, Stop, TicketOfRun};
use serde::Serialize;

use super::{
    deliveries::TicketLink,
    moment::{Moment, span},
    parts::Badge,
    person::Person,
    routes::{Needs, Routes},
    trouble::Trouble,
};
use crate::{app::App, mail::text::line, tools};

/// Of what a run came to, in a list; the run's page has all of it.
const LONGEST_DETAIL: usize = 300;

/// All pages of agents. Everybody looks, members run, admins make and change.
pub(super) fn routes() -> Routes {
    let (look, run, manage) = (Needs::SignedIn, Needs::Role(Role::Member), Needs::Role(Role::Admin));
    Routes::new()
        .get("/agents", look, home::show)
        .get("/agents/new", manage, form::new)
        .post("/agents/new", manage, form::make)
        .get("/agents/{id}", look, show::show)
        .get("/agents/{id}/edit", manage, form::edit)
        .post("/agents/{id}/edit", manage, form::change)
        .post("/agents/{id}/pause", manage, acts::pause)
        .post("/agents/{id}/resume", manage, acts::resume)
        .post("/agents/{id}/run", run, acts::run)
        .get("/agents/{id}/delete", manage, delete::ask)
        .post("/agents/{id}/delete", manage, delete::delete)
        .get("/agents/{id}/runs/{run}", look, run::show)
        .get("/agents/{id}/runs/{run}/steps/{position}", look, run::step)
}

/// What stops an agent, with the page where that can be mended.
#[derive(Serialize)]
struct Cause {
    /// `Zendesk acme needs Reconnect`
    words: String,
    /// The connector's page; `None`: it is gone.
    link: Option<String>,
    since: Moment,
}

impl Cause {
    fn all(app: &App, stops: &[Stop], now: DateTime<Utc>) -> Vec<Self> {
        let cause = |stop: &Stop| Self {
            words: stop.reason.words(&tools::connector_name(app, &stop.provider, &stop.account)),
            link: stop.reason.is_reconnectable().then(|| format!("/connectors/{}", stop.connector)),
            since: Moment::new(stop.since, now),
        };
        stops.iter().map(cause).collect()
    }
}

/// A run in a list.
#[derive(Serialize)]
struct RunLine {
    id: String,
    badge: Badge,
    dry: bool,
    /// `by its schedule`, or by whom.
    by: String,
    at: Moment,
    /// How long it took.
    took: Option<String>,
    calls: i64,
    writes: i64,
    failures: i64,
    /// Why it did not succeed.
    detail: Option<String>,
    /// The tickets that it is about, or some of them.
    tickets: Vec<TicketLink>,
    /// How many there are beside.
    more_tickets: usize,
}

impl RunLine {
    fn new(run: &Run, now: DateTime<Utc>) -> Self {
        let length =
            run.started_at.zip(run.ended_at).map(|(start, end)| length((end - start).to_std().unwrap_or_default()));
        Self {
            id: run.id.to_string(),
            badge: Badge::of_run(run.state),
            dry: run.dry,
            by: run.actor.clone().unwrap_or_else(|| asked_by(run)),
            at: Moment::new(run.started_at.unwrap_or(run.queued_at), now),
            took: length,
            calls: run.calls,
            writes: run.writes,
            failures: run.failures,
            detail: run.detail.as_deref().map(|detail| line(detail, LONGEST_DETAIL)),
            tickets: Vec::new(),
            more_tickets: 0,
        }
    }

    /// With the tickets that it is about, and no more of them than that.
    fn about(self, tickets: Option<&Vec<TicketOfRun>>, most: usize) -> Self {
        let all = tickets.map_or(&[][..], Vec::as_slice);
        let tickets = all.iter().take(most).map(TicketLink::of).collect();
        Self { tickets, more_tickets: all.len().saturating_sub(most), ..self }
    }
}

/// `120 ms`, `1.6 s`, `3 minutes`.
pub(super) fn length(took: Duration) -> String {
    match took.as_millis() {
        ms @ ..1000 => return format!("{ms} ms"),
        ms @ ..60_000 => return format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => {}
    }
    chrono::TimeDelta::from_std(took).ok().and_then(span).unwrap_or_default()
}

/// What asked for a run that nobody asked for.
fn asked_by(run: &Run) -> String {
    let ticket = run.event.as_ref().and_then(|event| event.known["ticket_id"].as_str());
    ticket.map_or("its schedule", |_| "an event").to_owned()
}

/// When an agent runs by itself, in words.
fn trigger_words(trigger: &Trigger) -> String {
    if let Trigger::Calendar(calendar) = trigger {
        return calendar.words();
    }
    if let Trigger::Events(events) = trigger {
        let words: Vec<_> = events.topics().map(event_words).collect();
        return format!("When {}", words.join(", or when "));
    }
    match trigger.period().map(|every| every.as_secs()) {
        None => "By hand only".to_owned(),
        Some(60) => "Every minute".to_owned(),
        Some(3600) => "Every hour".to_owned(),
        Some(86_400) => "Every day".to_owned(),
        Some(secs) if secs % 86_400 == 0 => format!("Every {} days", secs / 86_400),
        Some(secs) if secs % 3600 == 0 => format!("Every {} hours", secs / 3600),
        Some(secs) if secs % 60 == 0 => format!("Every {} minutes", secs / 60),
        Some(secs) => format!("Every {secs} seconds"),
    }
}

/// What happens to a ticket, as the rest of a sentence.
fn event_words(topic: Topic) -> &'static str {
    match topic {
        Topic::TicketCreated => "a ticket is created",
        Topic::TicketReplied => "a ticket gets a reply or a note",
        _ => "a ticket is changed otherwise",
    }
}

/// The org's agent of this id.
async fn find(app: &App, person: &Person, id: &str) -> Result<Agent, Trouble> {
    app.store.find_agent(person.org(), id).await?.ok_or_else(|| Trouble::not_found(person))
}

#[cfg(test)]
mod tests {
    use holdfast_core::agent::TicketEvents;

    use super::*;

    #[test]
    fn schedules_and_lengths_are_told_in_words() {
        let every = |secs| trigger_words(&Trigger::Every(Duration::from_secs(secs)));
        assert_eq!(trigger_words(&Trigger::Manual), "By hand only");
        let events = TicketEvents::of(&["ticket.created", "ticket.replied"]).unwrap();
        let words = "When a ticket is created, or when a ticket gets a reply or a note";
        assert_eq!(trigger_words(&Trigger::Events(events)), words);
        for (secs, words) in [
            (10, "Every 10 seconds"),
            (60, "Every minute"),
            (90, "Every 90 seconds"),
            (300, "Every 5 minutes"),
            (3600, "Every hour"),
            (7200, "Every 2 hours"),
            (86_400, "Every day"),
            (172_800, "Every 2 days"),
        ] {
            assert_eq!(every(secs), words);
        }
        assert_eq!(length(Duration::from_millis(999)), "999 ms");
        assert_eq!(length(Duration::from_millis(1294)), "1.2 s");
        assert_eq!(length(Duration::from_secs(75)), "1 minute");
    }
}
