//! The one line on top of a ticket's story: how it stands, why nothing was done where nothing was, and the next step.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdfast_core::{
    AgentId, ConnectorId, Health, Role, Snapshot,
    agent::{RunState, StopReason},
    ports::StoreError,
};
use holdfast_store::{Delivery, DeliveryState, PassedOver, Run, RunTicket, TicketLine, WhyNoRun};
use serde::Serialize;

use super::{
    standing::{Facts, Standing, did_write, was_paused},
    story::{reason_words, reasons},
    why_not,
};
use crate::{
    agents::manage::with_tickets,
    app::App,
    called,
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

/// An agent that missed a ticket in a pause, as it is now.
struct Now {
    id: AgentId,
    paused: bool,
    /// Under which role it is bound to the ticket's connector; `None`: it is not, any more.
    role: Option<String>,
}

/// A connector that does not work.
struct Broken {
    id: ConnectorId,
    name: String,
    health: Health,
}

/// What a ticket's line is made from, beside how it stands.
struct Case<'a> {
    /// What its connector is called.
    name: String,
    health: Health,
    on: &'a RunTicket,
    lines: &'a [TicketLine],
    /// Who reads it.
    reader: Role,
    paused: Option<Now>,
    broken: Option<Broken>,
    now: DateTime<Utc>,
}

/// By what was said last, and the runs since. `None`: nothing is known.
pub(super) async fn of(
    app: &Arc<App>,
    person: &Person,
    known: &Snapshot,
    on: &RunTicket,
    facts: Facts<'_>,
) -> Result<Option<Why>, StoreError> {
    let Some(standing) = Standing::of(facts) else { return Ok(None) };
    let paused = match standing.paused() {
        Some(agent) => app.store.find_agent(person.org(), agent.as_str()).await?,
        None => None,
    };
    let paused = paused.map(|agent| {
        let role = with_tickets(app, &agent).iter().find(|one| one.connector == on.connector).map(|one| &one.role);
        Now { role: role.cloned(), paused: agent.paused.is_some(), id: agent.id }
    });
    let in_the_way = match standing {
        Standing::NotSucceeded(run, _) => run.connector.as_ref(),
        _ => None,
    };
    let broken = match in_the_way {
        Some(id) => app.engine.snapshot(id).await.ok().flatten(),
        None => None,
    };
    let broken = broken.filter(|found| found.org == *person.org() && found.health != Health::Connected);
    let case = Case {
        name: called::named(app, &known.provider, &known.account, &known.name),
        health: known.health,
        on,
        lines: facts.lines,
        reader: person.user.role,
        paused,
        broken: broken.map(|found| Broken {
            id: found.connector.clone(),
            name: called::named(app, &found.provider, &found.account, &found.name),
            health: found.health,
        }),
        now: app.seams.clock.now(),
    };
    Ok(Some(case.why(standing)))
}

/// What a person does with a connector that does not work.
fn reconnect(name: &str, health: Health) -> String {
    let word = if health == Health::Pending { "Connect" } else { "Reconnect" };
    format!("{word} {name}")
}

impl Case<'_> {
    fn why(&self, standing: Standing<'_>) -> Why {
        match standing {
            Standing::Answered { run, agent, doubt } => {
                let doubt = if doubt {
                    " What came in since does not say who wrote it, and is perhaps that answer itself."
                } else {
                    ""
                };
                Why::new(GOOD, format!("{agent} answered it {}.{doubt}", self.when(run))).with_run(run)
            }
            Standing::NotWorkedOff(newest) => self.not_worked_off(newest),
            Standing::NotSucceeded(run, agent) => self.not_succeeded(run, agent),
            Standing::NoAnswer(run, agent) => self.no_answer(run, agent),
            Standing::NobodySetOff(newest) => self.nobody_set_off(newest),
            Standing::TriedDry(run, agent) => {
                let words = format!("{agent} was tried on it in a dry run alone, which changes nothing.");
                Why::new(IDLE, words).with_run(run)
            }
        }
    }

    fn when(&self, run: &Run) -> String {
        Moment::new(run.ended_at.or(run.started_at).unwrap_or(run.queued_at), self.now).relative
    }

    /// The connector in the way, and where it is mended.
    fn needs(&self, what: &str) -> Option<Why> {
        let reason = StopReason::of(self.health)?;
        let words = format!("{what}, since {}. It goes on by itself once that is mended.", reason.words(&self.name));
        let label = reconnect(&self.name, self.health);
        Some(Why::new(WARN, words).link(label, format!("/connectors/{}", self.on.connector)))
    }

    fn not_worked_off(&self, newest: &Delivery) -> Why {
        let to_job = |why: Why| match &newest.job {
            Some(job) => why.link("To its job", format!("/jobs/{job}")),
            None => why,
        };
        if newest.state == DeliveryState::Failed {
            let detail = newest.detail.as_deref().unwrap_or("its job was given up");
            return to_job(Why::new(BAD, format!("What came in last was not worked off: {detail}")));
        }
        self.needs("What came in last waits")
            .unwrap_or_else(|| to_job(Why::new(IDLE, "What came in last has not been worked off yet; its turn comes.")))
    }

    fn not_succeeded(&self, run: &Run, agent: &str) -> Why {
        let detail = run.detail.as_deref().map(|detail| format!(" {detail}")).unwrap_or_default();
        let job = run.event.as_ref().and_then(|event| event.job.as_ref());
        let mut why = match run.state {
            RunState::Running => return Why::new(IDLE, format!("{agent} is working on it.")).with_run(run),
            RunState::Queued => match self.needs(&format!("{agent}'s run waits")) {
                Some(why) => return why.with_run(run),
                None if detail.is_empty() => Why::new(IDLE, format!("{agent} is to run next.")),
                None => Why::new(WARN, format!("{agent} was set off, and waits.{detail}")),
            },
            _ if was_paused(run) => {
                let why = Why::new(WARN, format!("{agent} was set off, and did nothing: it was paused before."));
                return self.after_a_pause(why, agent).with_run(run);
            }
            RunState::Stopped => Why::new(WARN, format!("{agent} was set off, and stopped.{detail}")),
            _ => Why::new(BAD, format!("{agent} was set off, and its run failed.{detail}")),
        };
        if let Some(broken) = &self.broken {
            why = why.link(reconnect(&broken.name, broken.health), format!("/connectors/{}", broken.id));
        }
        if let (Some(job), true) = (job, run.state.is_over() && self.reader >= Role::Member) {
            why = why.post("Try again", format!("/jobs/{job}/retry"));
        }
        why.with_run(run).with_agent(run, agent)
    }

    fn no_answer(&self, run: &Run, agent: &str) -> Why {
        let reason = reasons(run, self.lines).last().map(|one| format!(" {}.", reason_words(one))).unwrap_or_default();
        let wrote = if did_write(run, self.lines) { "wrote no answer to the customer" } else { "wrote nothing" };
        let words = format!("{agent} went through it {}, and {wrote}.{reason}", self.when(run));
        Why::new(IDLE, words).with_run(run).with_agent(run, agent)
    }

    fn nobody_set_off(&self, newest: &Delivery) -> Why {
        let Some(passed) = &newest.passed_over else {
            return Why::new(IDLE, newest.detail.as_deref().unwrap_or("What came in last set no agent off."));
        };
        let by = |why: WhyNoRun| passed.iter().filter(move |one| one.why == why);
        if let Some(paused) = by(WhyNoRun::Paused).next() {
            let names: Vec<_> = by(WhyNoRun::Paused).map(|one| one.name.as_str()).collect();
            let was = if names.len() == 1 { "was" } else { "were" };
            let words = format!("No agent was set off: {} {was} paused when it came in.", names.join(", "));
            return self.after_a_pause(Why::new(WARN, words), &paused.name);
        }
        if by(WhyNoRun::OurOwn).next().is_some() {
            let words = "What came in last was written by this connector itself, and that sets no agent off.";
            return Why::new(IDLE, words);
        }
        let Some(first) = passed.first() else {
            let why = Why::new(WARN, format!("No agent was set off: none works with {}.", self.name));
            return if self.reader >= Role::Admin { why.link("Make an agent", "/agents/new") } else { why };
        };
        let each = |one: &PassedOver| format!("{} {}", one.name, why_not(one.why));
        let all: Vec<_> = passed.iter().map(each).collect();
        let words = format!("No agent was set off: {}.", all.join("; "));
        let Some(other) = passed.iter().find(|one| one.why != WhyNoRun::ToldBefore) else {
            return Why::new(IDLE, words).link(format!("To {}", first.name), format!("/agents/{}", first.agent));
        };
        let why = Why::new(WARN, words);
        if self.reader >= Role::Admin {
            why.link(format!("Change when {} runs", other.name), format!("/agents/{}/edit", other.agent))
        } else {
            why.link(format!("To {}", other.name), format!("/agents/{}", other.agent))
        }
    }

    /// What is left to do for a ticket that an agent has missed in a pause.
    fn after_a_pause(&self, mut why: Why, agent: &str) -> Why {
        let Some(now) = &self.paused else { return why };
        let ticket = ("ticket", self.on.ticket.as_str());
        let role = ("role", now.role.as_deref().unwrap_or_default());
        let page = format!("/agents/{}{}", now.id, super::query(&[ticket, role]));
        let runs = !now.paused && now.role.is_some() && self.reader >= Role::Member;
        if now.role.is_none() {
            why.words = format!("{} It does not work with {} any more.", why.words, self.name);
        } else if runs {
            why.words.push_str(" It runs again; what it has missed it does when you run it for this ticket.");
        } else if !now.paused {
            why.words.push_str(" It runs again; what it has missed it does when a member runs it for this ticket.");
        } else if self.reader >= Role::Admin {
            why.words.push_str(" Resume it; what it has missed it does when you run it for this ticket.");
            why = why.post(format!("Resume {agent}"), format!("/agents/{}/resume", now.id));
        } else {
            why.words.push_str(" An admin can resume it.");
        }
        why.link(if runs { format!("Run {agent} for it") } else { format!("To {agent}") }, page)
    }
}

#[cfg(test)]
mod tests;
