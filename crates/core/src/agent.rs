//! Agents: workers that are bound to connectors with granted tools. What they are; how they run is the app's matter.
//!
//! An agent is *stopped* for a cause, and each cause is one connector that does not work. It runs again when no cause is
//! left and nobody has paused it: a recovery can take back only what the same connector's failure did.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{calendar::Calendar, health::Health, webhook::Topic};

/// Whether an agent works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It runs when its trigger says so, and its calls are answered.
    Active,
    /// A person paused it.
    Paused,
    /// A connector that it needs does not work. It says so also while it is paused: somebody has to reconnect.
    Deactivated,
}

impl Status {
    /// From what is stored: whether a person paused it, and whether any cause stands against it.
    pub fn of(paused: bool, stopped: bool) -> Self {
        match (stopped, paused) {
            (true, _) => Self::Deactivated,
            (false, true) => Self::Paused,
            (false, false) => Self::Active,
        }
    }

    /// The stable word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Deactivated => "deactivated",
        }
    }
}

/// Why a connector stops the agents that need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was never authorised.
    Pending,
    /// A person has to reconnect it.
    AuthFailed,
    /// An admin took it off.
    Disconnected,
    /// It is gone. Nothing brings it back: a person binds another one.
    Deleted,
}

impl StopReason {
    /// Why a connector in this state stops agents; `None`: it does not.
    pub fn of(health: Health) -> Option<Self> {
        match health {
            Health::Connected => None,
            Health::Pending => Some(Self::Pending),
            Health::AuthFailed => Some(Self::AuthFailed),
            Health::Disconnected => Some(Self::Disconnected),
        }
    }

    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::AuthFailed => "auth_failed",
            Self::Disconnected => "disconnected",
            Self::Deleted => "deleted",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::AuthFailed, Self::Disconnected, Self::Deleted]
            .into_iter()
            .find(|reason| reason.as_str() == word)
    }

    /// For people, after "Stopped: ". `connector` names it: "Zendesk acme".
    pub fn words(self, connector: &str) -> String {
        match self {
            Self::Pending => format!("{connector} is not connected yet"),
            Self::AuthFailed => format!("{connector} needs Reconnect"),
            Self::Disconnected => format!("{connector} was disconnected"),
            Self::Deleted => format!("{connector} was deleted; bind another connector"),
        }
    }

    /// Whether reconnecting the connector helps.
    pub fn is_reconnectable(self) -> bool {
        self != Self::Deleted
    }
}

/// When an agent runs by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Never: a person or a key says when.
    Manual,
    /// This long after it was due last, and up to a tenth more, so that agents made together do not run together.
    Every(Duration),
    /// At these times.
    Calendar(Calendar),
    /// Once for each of these events of the helpdesks that it is bound to, unless the connector itself caused it.
    Events(TicketEvents),
}

/// Events of tickets that an agent waits for; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketEvents([bool; Topic::TICKETS.len()]);

impl TicketEvents {
    /// From the words that somebody gave, in any order; an error says what there is.
    pub fn of<T: AsRef<str>>(words: &[T]) -> Result<Self, String> {
        let known = || Topic::TICKETS.map(Topic::as_str).join(", ");
        if words.is_empty() {
            return Err(format!("say at least one of {}", known()));
        }
        let mut events = Self([false; Topic::TICKETS.len()]);
        for word in words {
            let place = Topic::TICKETS.iter().position(|topic| topic.as_str() == word.as_ref());
            events.0[place.ok_or_else(|| format!("there are {}", known()))?] = true;
        }
        Ok(events)
    }

    /// Those that are waited for.
    pub fn topics(self) -> impl Iterator<Item = Topic> {
        Topic::TICKETS.into_iter().zip(self.0).filter_map(|(topic, waits)| waits.then_some(topic))
    }

    /// Whether this one is.
    pub fn waits_for(self, topic: Topic) -> bool {
        self.topics().any(|one| one == topic)
    }

    /// The stable words, with commas between them.
    pub fn words(self) -> String {
        self.topics().map(Topic::as_str).collect::<Vec<_>>().join(",")
    }
}

impl Trigger {
    /// The shortest time between two runs.
    pub const SHORTEST: Duration = Duration::from_secs(10);
    /// The longest.
    pub const LONGEST: Duration = Duration::from_hours(24 * 31);

    /// From the seconds that somebody gave; an error says what is allowed.
    pub fn every(secs: u64) -> Result<Self, String> {
        let every = Duration::from_secs(secs);
        if (Self::SHORTEST..=Self::LONGEST).contains(&every) {
            return Ok(Self::Every(every));
        }
        Err(format!("{secs} is not usable; allowed is {} to {}", Self::SHORTEST.as_secs(), Self::LONGEST.as_secs()))
    }

    /// Between two runs.
    pub fn period(&self) -> Option<Duration> {
        match self {
            Self::Manual | Self::Calendar(_) | Self::Events(_) => None,
            Self::Every(every) => Some(*every),
        }
    }

    /// From one run to the next; `share` is random, `0.0..1.0`.
    pub fn wait(&self, share: f64) -> Option<Duration> {
        Some(self.period()?.mul_f64(1.0 + share.clamp(0.0, 1.0) / 10.0))
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It waits for a replica.
    Queued,
    /// A replica has it.
    Running,
    /// It came to its end.
    Succeeded,
    /// A step failed, or the replica that had it is gone.
    Failed,
    /// It was ended between two steps: the agent was paused or stopped, or the replica shut down.
    Stopped,
}

impl RunState {
    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Stopped]
            .into_iter()
            .find(|state| state.as_str() == word)
    }

    /// Whether it is over.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// What came of one step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// It was done.
    Done,
    /// It was refused or broke.
    Failed,
    /// A dry run: a write that is shown and was not done.
    Shown,
    /// Its condition did not hold.
    Skipped,
}

impl StepOutcome {
    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Shown => "shown",
            Self::Skipped => "skipped",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Done, Self::Failed, Self::Shown, Self::Skipped].into_iter().find(|outcome| outcome.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_waits_for_the_events_that_it_was_given() {
        let events = TicketEvents::of(&["ticket.changed", "ticket.created"]).unwrap();
        assert_eq!(events.words(), "ticket.created,ticket.changed");
        assert!(events.waits_for(Topic::TicketChanged) && !events.waits_for(Topic::TicketReplied));
        assert!(!events.waits_for(Topic::OrderPaid));
        let nothing: [&str; 0] = [];
        for error in [TicketEvents::of(&nothing), TicketEvents::of(&["order.paid"])] {
            assert!(error.unwrap_err().contains("ticket.created, ticket.replied, ticket.changed"));
        }
    }

    #[test]
    fn a_cause_says_more_than_a_pause() {
        for (paused, stopped, status) in [
            (false, false, Status::Active),
            (true, false, Status::Paused),
            (false, true, Status::Deactivated),
            (true, true, Status::Deactivated),
        ] {
            assert_eq!(Status::of(paused, stopped), status);
        }
    }

    #[test]
    fn every_health_but_connected_is_a_cause() {
        assert_eq!(StopReason::of(Health::Connected), None);
        for health in [Health::Pending, Health::AuthFailed, Health::Disconnected] {
            let reason = StopReason::of(health).unwrap();
            assert_eq!(reason.as_str(), health.as_str());
            assert!(reason.is_reconnectable());
        }
        assert_eq!(StopReason::AuthFailed.words("Zendesk acme"), "Zendesk acme needs Reconnect");
    }

    #[test]
    fn a_schedule_has_bounds_and_jitter() {
        for secs in [0, 9, 60 * 60 * 24 * 31 + 1, u64::MAX] {
            assert!(Trigger::every(secs).unwrap_err().contains("allowed is 10 to 2678400"), "{secs}");
        }
        let minute = Trigger::every(60).unwrap();
        assert_eq!(minute.wait(0.0), Some(Duration::from_mins(1)));
        assert_eq!(minute.wait(1.0), Some(Duration::from_secs(66)));
        assert_eq!(Trigger::Manual.wait(0.5), None);
    }

    #[test]
    fn words_read_back() {
        for reason in [StopReason::Pending, StopReason::AuthFailed, StopReason::Disconnected, StopReason::Deleted] {
            assert_eq!(StopReason::parse(reason.as_str()), Some(reason));
        }
        for state in [RunState::Queued, RunState::Running, RunState::Succeeded, RunState::Failed, RunState::Stopped] {
            assert_eq!(RunState::parse(state.as_str()), Some(state));
        }
        for outcome in [StepOutcome::Done, StepOutcome::Failed, StepOutcome::Shown, StepOutcome::Skipped] {
            assert_eq!(StepOutcome::parse(outcome.as_str()), Some(outcome));
        }
        assert_eq!((StopReason::parse("x"), RunState::parse("x"), StepOutcome::parse("x")), (None, None, None));
    }
}
