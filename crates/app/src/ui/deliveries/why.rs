//! The one line on top of a ticket's story: how it stands, why nothing was done where nothing was, and the next step.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, Health, Role, Snapshot,
    agent::{RunState, StepOutcome, StopReason},
    ports::StoreError,
};
use holdfast_store::{Agent, Delivery, DeliveryState, PassedOver, Run, RunTicket, TicketLine, WhyNoRun};
use serde::Serialize;

use super::{
    story::{name, order, reason_words, reasons},
    why_not,
};
use crate::{
    app::App,
    ui::{moment::Moment, person::Person},
    words::{BAD, GOOD, IDLE, Tone, WARN},
};

/// What is said, with what to do about it.
#[derive(Serialize)]
pub(super) struct Why {
    tone: Tone,
    words: String,
    acts: Vec<Act>,
}

/// A button.
#[derive(Serialize)]
struct Act {
    label: String,
    href: String,
    /// It is a form.
    post: bool,
}

impl Why {
    fn new(tone: Tone, words: impl Into<String>) -> Self {
        Self { tone, words: words.into(), acts: Vec::new() }
    }

    fn link(mut self, label: impl Into<String>, href: impl Into<String>) -> Self {
        self.acts.push(Act { label: label.into(), href: href.into(), post: false });
        self
    }

    fn post(mut self, label: impl Into<String>, href: impl Into<String>) -> Self {
        self.acts.push(Act { label: label.into(), href: href.into(), post: true });
        self
    }

    fn with_run(self, run: &Run) -> Self {
        self.link("To the run", format!("/agents/{}/runs/{}", run.agent, run.id))
    }

    fn with_agent(self, run: &Run, agent: &str) -> Self {
        self.link(format!("To {agent}"), format!("/agents/{}", run.agent))
    }
}

/// A reply that the customer sees.
fn is_answer(one: &TicketLine) -> bool {
    let is_public = one.input.as_ref().is_some_and(|input| input["public"] == true);
    one.tool.as_deref() == Some("reply_to_ticket") && is_public
}

/// What a ticket's line is made from.
struct Case<'a> {
    app: &'a Arc<App>,
    person: &'a Person,
    known: &'a Snapshot,
    on: &'a RunTicket,
    lines: &'a [TicketLine],
    now: DateTime<Utc>,
}

/// By the newest that came in, and the runs since. `None`: nothing is known.
pub(super) async fn of(
    app: &Arc<App>,
    person: &Person,
    known: &Snapshot,
    on: &RunTicket,
    deliveries: &[Delivery],
    runs: &[(Run, String)],
    lines: &[TicketLine],
) -> Result<Option<Why>, StoreError> {
    let case = Case { app, person, known, on, lines, now: app.seams.clock.now() };
    let first = deliveries.iter().find(|one| one.same_as.is_none() || one.passed_over.is_some());
    let newest = first.or(deliveries.first());
    let since = newest.map(|newest| order(newest.id.as_str()));
    let own = |run: &Run| {
        run.event
            .as_ref()
            .and_then(|event| event.delivery.as_ref())
            .is_some_and(|id| newest.is_some_and(|one| one.id == *id))
    };
    let tried: Vec<_> = runs
        .iter()
        .filter(|(run, _)| !run.dry && (own(run) || since.is_none_or(|since| order(run.id.as_str()) > since)))
        .collect();
    if let Some((run, agent)) = tried.iter().find(|(run, _)| case.did(run, is_answer)) {
        return Ok(Some(Why::new(GOOD, format!("{agent} answered it {}.", case.when(run))).with_run(run)));
    }
    if let Some(why) = newest.and_then(|newest| case.not_worked_off(newest)) {
        return Ok(Some(why));
    }
    if let Some((run, agent)) = tried.iter().find(|(run, _)| run.state != RunState::Succeeded) {
        return case.not_succeeded(run, agent).await.map(Some);
    }
    let worked = tried.iter().find(|(run, _)| case.did(run, |_| true));
    if let Some((run, agent)) = worked.or(tried.first()) {
        return Ok(Some(case.no_answer(run, agent)));
    }
    if let Some(newest) = newest {
        return case.set_nobody_off(newest).await.map(Some);
    }
    let dry = runs.first().map(|(run, agent)| {
        Why::new(IDLE, format!("{agent} was tried on it in a dry run alone, which changes nothing.")).with_run(run)
    });
    Ok(dry)
}

impl Case<'_> {
    /// Whether a run wrote something of this kind.
    fn did(&self, run: &Run, what: impl Fn(&TicketLine) -> bool) -> bool {
        let done = |one: &TicketLine| one.tool.is_some() && one.outcome == Some(StepOutcome::Done);
        self.lines.iter().any(|one| one.run == run.id && done(one) && what(one))
    }

    fn when(&self, run: &Run) -> String {
        Moment::new(run.ended_at.or(run.started_at).unwrap_or(run.queued_at), self.now).relative
    }

    /// The connector in the way, and where it is mended.
    fn needs(&self, what: &str) -> Option<Why> {
        let reason = StopReason::of(self.known.health)?;
        let name = name(self.app, self.known);
        let words = format!("{what}, since {}. It goes on by itself once that is mended.", reason.words(&name));
        Some(Why::new(WARN, words).link(self.reconnect(&name), format!("/connectors/{}", self.on.connector)))
    }

    fn reconnect(&self, name: &str) -> String {
        match self.known.health {
            Health::Pending => format!("Connect {name}"),
            _ => format!("Reconnect {name}"),
        }
    }

    fn not_worked_off(&self, newest: &Delivery) -> Option<Why> {
        let to_job = |why: Why| match &newest.job {
            Some(job) => why.link("To its job", format!("/jobs/{job}")),
            None => why,
        };
        match newest.state {
            DeliveryState::Processed | DeliveryState::Unreadable => None,
            DeliveryState::Parked | DeliveryState::Received => {
                let waits = self.needs("What came in last waits");
                Some(waits.unwrap_or_else(|| {
                    to_job(Why::new(IDLE, "What came in last has not been worked off yet; its turn comes."))
                }))
            }
            DeliveryState::Failed => {
                let detail = newest.detail.as_deref().unwrap_or("its job was given up");
                Some(to_job(Why::new(BAD, format!("What came in last was not worked off: {detail}"))))
            }
        }
    }

    async fn not_succeeded(&self, run: &Run, agent: &str) -> Result<Why, StoreError> {
        let detail = run.detail.as_deref().map(|detail| format!(" {detail}")).unwrap_or_default();
        let job = run.event.as_ref().and_then(|event| event.job.as_ref());
        let why = match run.state {
            RunState::Running => return Ok(Why::new(IDLE, format!("{agent} is working on it.")).with_run(run)),
            RunState::Queued => match self.needs(&format!("{agent}'s run waits")) {
                Some(why) => return Ok(why.with_run(run)),
                None if detail.is_empty() => Why::new(IDLE, format!("{agent} is to run next.")),
                None => Why::new(WARN, format!("{agent} was set off, and waits.{detail}")),
            },
            RunState::Stopped if run.code.as_deref() == Some("agent_paused") => {
                let why = Why::new(WARN, format!("{agent} was set off, and did nothing: it was paused before."));
                let now = self.app.store.find_agent(self.person.org(), run.agent.as_str()).await?;
                return Ok(self.after_a_pause(why, now.as_ref(), agent).with_run(run));
            }
            RunState::Stopped => Why::new(WARN, format!("{agent} was set off, and stopped.{detail}")),
            _ => Why::new(BAD, format!("{agent} was set off, and its run failed.{detail}")),
        };
        let mut why = match &run.connector {
            Some(connector) => self.mend(why, connector).await?,
            None => why,
        };
        if let (Some(job), true) = (job, run.state.is_over() && self.person.may(Role::Member)) {
            why = why.post("Try again", format!("/jobs/{job}/retry"));
        }
        Ok(why.with_run(run).with_agent(run, agent))
    }

    /// With the way to a connector, where it does not work.
    async fn mend(&self, why: Why, connector: &ConnectorId) -> Result<Why, StoreError> {
        let broken = self.app.engine.snapshot(connector).await.ok().flatten();
        let broken = broken.filter(|found| found.org == *self.person.org() && found.health != Health::Connected);
        Ok(match broken {
            Some(found) => {
                why.link(format!("Reconnect {}", name(self.app, &found)), format!("/connectors/{connector}"))
            }
            None => why,
        })
    }

    fn no_answer(&self, run: &Run, agent: &str) -> Why {
        let reason = reasons(run, self.lines).last().map(|one| format!(" {}.", reason_words(one))).unwrap_or_default();
        let wrote = if self.did(run, |_| true) { "wrote no answer to the customer" } else { "wrote nothing" };
        let words = format!("{agent} went through it {}, and {wrote}.{reason}", self.when(run));
        Why::new(IDLE, words).with_run(run).with_agent(run, agent)
    }

    async fn set_nobody_off(&self, newest: &Delivery) -> Result<Why, StoreError> {
        let Some(passed) = &newest.passed_over else {
            let detail = newest.detail.as_deref().unwrap_or("What came in last set no agent off.");
            return Ok(Why::new(IDLE, detail));
        };
        let by = |why: WhyNoRun| passed.iter().filter(move |one| one.why == why);
        if let Some(paused) = by(WhyNoRun::Paused).next() {
            let names: Vec<_> = by(WhyNoRun::Paused).map(|one| one.name.as_str()).collect();
            let was = if names.len() == 1 { "was" } else { "were" };
            let why =
                Why::new(WARN, format!("No agent was set off: {} {was} paused when it came in.", names.join(", ")));
            let now = self.app.store.find_agent(self.person.org(), paused.agent.as_str()).await?;
            return Ok(self.after_a_pause(why, now.as_ref(), &paused.name));
        }
        if by(WhyNoRun::OurOwn).next().is_some() {
            let words = "What came in last was written by this connector itself, and that sets no agent off.";
            return Ok(Why::new(IDLE, words));
        }
        let Some(first) = passed.first() else {
            let name = name(self.app, self.known);
            let why = Why::new(WARN, format!("No agent was set off: none works with {name}."));
            return Ok(if self.person.may(Role::Admin) { why.link("Make an agent", "/agents/new") } else { why });
        };
        let each = |one: &PassedOver| format!("{} {}", one.name, why_not(one.why));
        let all: Vec<_> = passed.iter().map(each).collect();
        let why = Why::new(WARN, format!("No agent was set off: {}.", all.join("; ")));
        Ok(if self.person.may(Role::Admin) {
            why.link(format!("Change when {} runs", first.name), format!("/agents/{}/edit", first.agent))
        } else {
            why.link(format!("To {}", first.name), format!("/agents/{}", first.agent))
        })
    }

    /// What is left to do for a ticket that an agent has missed in a pause.
    fn after_a_pause(&self, mut why: Why, now: Option<&Agent>, agent: &str) -> Why {
        let Some(now) = now else { return why };
        let page = format!("/agents/{}{}", now.id, super::query(&[("ticket", &self.on.ticket)]));
        if now.paused.is_some() && self.person.may(Role::Admin) {
            why.words.push_str(" Resume it; what it has missed it does when you run it for this ticket.");
            why = why.post(format!("Resume {agent}"), format!("/agents/{}/resume", now.id));
        } else if now.paused.is_some() {
            why.words.push_str(" An admin can resume it.");
        } else {
            why.words.push_str(" It runs again; what it has missed it does when you run it for this ticket.");
        }
        why.link(if now.paused.is_some() { format!("To {agent}") } else { format!("Run {agent} for it") }, page)
    }
}
