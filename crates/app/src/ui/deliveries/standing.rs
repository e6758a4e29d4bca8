//! How a ticket stands, by what was said on it and what agents did since. Nothing is looked up, so that a table can try it.

use std::collections::HashSet;

use holdfast_core::{
    AgentId,
    agent::{RunState, StepOutcome},
    webhook::Topic,
};
use holdfast_store::{Delivery, DeliveryState, Run, SaidBy, TicketLine, WhyNoRun};

use super::story::order;

/// What is known of a ticket.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    /// What people said on it, newest first; nothing that the connector itself wrote, as far as that is known.
    pub(super) said: &'a [Delivery],
    /// The newest that came in.
    pub(super) came: &'a [Delivery],
    /// The newest runs, each with its agent's name.
    pub(super) runs: &'a [(Run, String)],
    /// The newest run that answered the customer.
    pub(super) answer: Option<&'a (Run, String)>,
    /// What the runs did.
    pub(super) lines: &'a [TicketLine],
}

/// How it stands. A run comes with its agent's name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Standing<'a> {
    /// The customer has an answer. `doubt`: what came in since does not say who wrote it; it may be that answer.
    Answered { run: &'a Run, agent: &'a str, doubt: bool },
    /// The last word waits, or was given up.
    NotWorkedOff(&'a Delivery),
    /// The newest run of an agent since is under way, or came to nothing.
    NotSucceeded(&'a Run, &'a str),
    /// An agent went through it.
    NoAnswer(&'a Run, &'a str),
    /// The last word gave no agent a run.
    NobodySetOff(&'a Delivery),
    /// There are dry runs alone.
    TriedDry(&'a Run, &'a str),
}

impl<'a> Standing<'a> {
    /// `None`: nothing is known.
    pub(super) fn of(facts: Facts<'a>) -> Option<Self> {
        let is_told_before = |one: &&Delivery| one.same_as.is_some() && one.passed_over.is_none();
        let came = || facts.came.iter().find(|one| !is_told_before(one)).or(facts.came.first());
        let newest = facts.said.first().or_else(came);
        // A reply of which nobody knows who wrote it may be our own.
        let by_customer =
            |one: &&Delivery| one.by == SaidBy::Customer || Topic::parse(&one.topic) == Some(Topic::TicketCreated);
        let asked = facts.said.iter().find(by_customer);
        if let Some((run, agent)) = facts.answer
            && asked.is_none_or(|asked| is_since(run, asked))
        {
            let in_doubt =
                |one: &&Delivery| one.by == SaidBy::Unknown && order(one.id.as_str()) > order(run.id.as_str());
            let doubt = facts.said.iter().find(in_doubt);
            let trouble = doubt.and_then(|doubt| not_worked_off(doubt).or_else(|| facts.not_succeeded(Some(doubt))));
            return Some(trouble.unwrap_or(Self::Answered { run, agent, doubt: doubt.is_some() }));
        }
        if let Some(found) = newest.and_then(not_worked_off).or_else(|| facts.not_succeeded(newest)) {
            return Some(found);
        }
        let tried = || facts.tried(newest);
        if let Some((run, agent)) = tried().find(|(run, _)| did_write(run, facts.lines)).or_else(|| tried().next()) {
            return Some(Self::NoAnswer(run, agent));
        }
        let dry = || facts.runs.first().map(|(run, agent)| Self::TriedDry(run, agent));
        newest.map(Self::NobodySetOff).or_else(dry)
    }

    /// The agent that missed it in a pause.
    pub(super) fn paused(&self) -> Option<&'a AgentId> {
        match *self {
            Self::NotSucceeded(run, _) => Some(&run.agent).filter(|_| was_paused(run)),
            Self::NobodySetOff(newest) => {
                let mut passed = newest.passed_over.iter().flatten();
                passed.find(|one| one.why == WhyNoRun::Paused).map(|one| &one.agent)
            }
            _ => None,
        }
    }
}

impl<'a> Facts<'a> {
    /// The runs since, newest first.
    fn tried(self, since: Option<&'a Delivery>) -> impl Iterator<Item = (&'a Run, &'a str)> {
        let runs = self.runs.iter().filter(move |(run, _)| !run.dry && since.is_none_or(|since| is_since(run, since)));
        runs.map(|(run, agent)| (run, agent.as_str()))
    }

    /// Of the newest run of each agent since.
    fn not_succeeded(self, since: Option<&'a Delivery>) -> Option<Standing<'a>> {
        let mut seen = HashSet::new();
        let mut newest = self.tried(since).filter(|(run, _)| seen.insert(&run.agent));
        newest.find(|(run, _)| run.state != RunState::Succeeded).map(|(run, agent)| Standing::NotSucceeded(run, agent))
    }
}

/// Whether a run was stopped by a pause.
pub(super) fn was_paused(run: &Run) -> bool {
    run.state == RunState::Stopped && run.code.as_deref() == Some("agent_paused")
}

/// Whether a run wrote something on the ticket.
pub(super) fn did_write(run: &Run, lines: &[TicketLine]) -> bool {
    let done = |one: &TicketLine| one.tool.is_some() && one.outcome == Some(StepOutcome::Done);
    lines.iter().any(|one| one.run == run.id && done(one))
}

fn is_since(run: &Run, since: &Delivery) -> bool {
    let own = run.event.as_ref().is_some_and(|event| event.delivery.as_ref() == Some(&since.id));
    own || order(run.id.as_str()) > order(since.id.as_str())
}

fn not_worked_off(newest: &Delivery) -> Option<Standing<'_>> {
    let over = matches!(newest.state, DeliveryState::Processed | DeliveryState::Unreadable);
    (!over).then_some(Standing::NotWorkedOff(newest))
}
