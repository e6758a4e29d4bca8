//! Jobs: units of background work that are stored before they are done. What they are, and every decision about them as a
//! pure function; how they are kept is the store's matter, and how they are done the app's.

mod decide;

pub use decide::{Admission, Fault, Next, Outcome, Policy, admission, after, backoff};

use serde::{Deserialize, Serialize};

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Works off an event that came from a provider.
    Event,
    /// Brings the mirror of a connector's tickets up to date.
    Sync,
    /// Sends mail.
    Mail,
    /// Sends an event of ours to an endpoint of the org.
    Deliver,
    /// Runs an agent.
    AgentRun,
    /// Makes, checks, renews or removes a webhook at a provider.
    Subscription,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Event, Self::Sync, Self::Mail, Self::Deliver, Self::AgentRun, Self::Subscription];

    /// The stable word in API, metrics, settings and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Sync => "sync",
            Self::Mail => "mail",
            Self::Deliver => "deliver",
            Self::AgentRun => "agent_run",
            Self::Subscription => "subscription",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Whether it works with its connector, and so waits while that cannot be used. The others only tell of one.
    pub fn needs_connector(self) -> bool {
        matches!(self, Self::Event | Self::Sync | Self::AgentRun | Self::Subscription)
    }

    /// Whether its jobs wait in line by what they are about. Of one lane only so many run at once, and hold up no others:
    /// a lane is a connector, for kinds that work with one, or an endpoint of the org.
    pub fn has_lane_of_subject(self) -> bool {
        self == Self::Deliver
    }
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its time has come: it is next, after those before it.
    Ready,
    /// Its time has not come: it was made for later, or rests after a failure.
    Waiting,
    /// A replica has it.
    Running,
    /// Its connector has to be reconnected first.
    Parked,
    /// It is done.
    Done,
    /// It is not tried any more, and says why.
    Dead,
    /// A person did not want it done.
    Discarded,
}

impl State {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 7] =
        [Self::Ready, Self::Waiting, Self::Running, Self::Parked, Self::Done, Self::Dead, Self::Discarded];

    /// The stable word in API, metrics and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Parked => "parked",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether it comes no further by itself.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Discarded)
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, State};

    #[test]
    fn words_read_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
        }
        for state in State::ALL {
            assert_eq!(State::parse(state.as_str()), Some(state));
        }
        assert_eq!((Kind::parse("x"), State::parse("")), (None, None));
    }
}
