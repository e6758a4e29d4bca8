//! Health of a connector: one pure function from state and event to state and effects.

use serde::{Deserialize, Serialize};

/// Whether a connector works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Made, not authorised yet.
    Pending,
    /// Works, as far as is known.
    Connected,
    /// A person has to reconnect: the provider said so about the current credential.
    AuthFailed,
    /// An admin took it off.
    Disconnected,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A person gave a grant, of the same account where there was one.
    Authorized,
    /// The provider refused the current credential, confirmed.
    Refused,
    /// The provider's test call passed with the current credential.
    TestPassed,
    /// A late success of the same grant was stored, and its test call passed.
    LateSuccess,
    /// The verdict is taken back, before anybody was told: the provider refuses so many that it is doubted.
    Withdrawn,
    /// An admin disconnected it.
    Disconnected,
}

/// What has to follow. Done in the transaction of the change, or written to the outbox in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Make the webhooks at the provider.
    MakeWebhooks,
    /// Check them, after a recovery.
    VerifyWebhooks,
    /// Take them away.
    RemoveWebhooks,
    /// The first sync.
    FirstSync,
    /// Catch up on what was missed.
    CatchUpSync,
    /// Deactivate the agents that need this connector.
    StopAgents,
    /// Take away exactly the cause that this connector gave; who has no other one left, and is not paused, runs again.
    ReactivateAgents,
    /// Hold its jobs.
    ParkJobs,
    /// Let them go.
    ReleaseJobs,
    /// Tell the org's admins that it needs them.
    MailAdmins,
    /// Tell them that it is over.
    MailRecovery,
    /// Revoke the grant at the provider, when nothing else rests on it.
    Revoke,
    /// Tell the org's event endpoints: the event and a job for each of them are written.
    Announce,
}

impl Effect {
    /// Whether it is a matter of our own rows alone, and so done in the transaction of the change: nothing is left to
    /// be carried out, and no moment lies between.
    pub fn is_immediate(self) -> bool {
        matches!(self, Self::StopAgents | Self::ReactivateAgents | Self::ParkJobs | Self::ReleaseJobs | Self::Announce)
    }

    /// The stable word in the outbox.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MakeWebhooks => "make_webhooks",
            Self::VerifyWebhooks => "verify_webhooks",
            Self::RemoveWebhooks => "remove_webhooks",
            Self::FirstSync => "first_sync",
            Self::CatchUpSync => "catch_up_sync",
            Self::StopAgents => "stop_agents",
            Self::ReactivateAgents => "reactivate_agents",
            Self::ParkJobs => "park_jobs",
            Self::ReleaseJobs => "release_jobs",
            Self::MailAdmins => "mail_admins",
            Self::MailRecovery => "mail_recovery",
            Self::Revoke => "revoke",
            Self::Announce => "announce",
        }
    }
}

const START: &[Effect] = &[Effect::ReactivateAgents, Effect::MakeWebhooks, Effect::FirstSync, Effect::Announce];
const FAILURE: &[Effect] = &[Effect::StopAgents, Effect::ParkJobs, Effect::MailAdmins, Effect::Announce];
const RECOVERY: &[Effect] = &[
    Effect::ReactivateAgents,
    Effect::VerifyWebhooks,
    Effect::ReleaseJobs,
    Effect::CatchUpSync,
    Effect::MailRecovery,
    Effect::Announce,
];
const END: &[Effect] = &[Effect::Revoke, Effect::RemoveWebhooks, Effect::StopAgents, Effect::Announce];

impl Health {
    /// Whether it works once a person has done something: what comes meanwhile is kept for it.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Pending | Self::AuthFailed)
    }

    /// The state after `event`, and what has to follow. An event without meaning in this state changes nothing.
    pub fn next(self, event: Event) -> (Self, &'static [Effect]) {
        use Health::{AuthFailed, Connected, Disconnected, Pending};
        match (self, event) {
            (Pending | Disconnected, Event::Authorized) => (Connected, START),
            (Connected, Event::Refused) => (AuthFailed, FAILURE),
            (AuthFailed, Event::Authorized | Event::TestPassed | Event::LateSuccess | Event::Withdrawn) => {
                (Connected, RECOVERY)
            }
            (Pending | Connected | AuthFailed, Event::Disconnected) => (Disconnected, END),
            (unchanged, _) => (unchanged, &[]),
        }
    }

    /// The stable word in API, metrics and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::AuthFailed => "auth_failed",
            Self::Disconnected => "disconnected",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::Connected, Self::AuthFailed, Self::Disconnected]
            .into_iter()
            .find(|health| health.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::{Effect, Event, Health};

    #[test]
    fn every_pair_of_state_and_event_leads_where_the_design_says() {
        use Event::{Authorized, Disconnected as Off, LateSuccess, Refused, TestPassed, Withdrawn};
        use Health::{AuthFailed, Connected, Disconnected, Pending};
        let start: &[Effect] = &[Effect::ReactivateAgents, Effect::MakeWebhooks, Effect::FirstSync, Effect::Announce];
        let failure: &[Effect] = &[Effect::StopAgents, Effect::ParkJobs, Effect::MailAdmins, Effect::Announce];
        let recovery: &[Effect] = &[
            Effect::ReactivateAgents,
            Effect::VerifyWebhooks,
            Effect::ReleaseJobs,
            Effect::CatchUpSync,
            Effect::MailRecovery,
            Effect::Announce,
        ];
        let end: &[Effect] = &[Effect::Revoke, Effect::RemoveWebhooks, Effect::StopAgents, Effect::Announce];
        let none: &[Effect] = &[];
        let table = [
            (Pending, Authorized, Connected, start),
            (Pending, Refused, Pending, none),
            (Pending, TestPassed, Pending, none),
            (Pending, LateSuccess, Pending, none),
            (Pending, Withdrawn, Pending, none),
            (Pending, Off, Disconnected, end),
            (Connected, Authorized, Connected, none),
            (Connected, Refused, AuthFailed, failure),
            (Connected, TestPassed, Connected, none),
            (Connected, LateSuccess, Connected, none),
            (Connected, Withdrawn, Connected, none),
            (Connected, Off, Disconnected, end),
            (AuthFailed, Authorized, Connected, recovery),
            (AuthFailed, Refused, AuthFailed, none),
            (AuthFailed, TestPassed, Connected, recovery),
            (AuthFailed, LateSuccess, Connected, recovery),
            (AuthFailed, Withdrawn, Connected, recovery),
            (AuthFailed, Off, Disconnected, end),
            (Disconnected, Authorized, Connected, start),
            (Disconnected, Refused, Disconnected, none),
            (Disconnected, TestPassed, Disconnected, none),
            (Disconnected, LateSuccess, Disconnected, none),
            (Disconnected, Withdrawn, Disconnected, none),
            (Disconnected, Off, Disconnected, none),
        ];
        assert_eq!(table.len(), 4 * 6, "every pair stands in the table");
        for (from, event, to, effects) in table {
            assert_eq!(from.next(event), (to, effects), "{from:?} on {event:?}");
        }
    }

    #[test]
    fn words_read_back() {
        for health in [Health::Pending, Health::Connected, Health::AuthFailed, Health::Disconnected] {
            assert_eq!(Health::parse(health.as_str()), Some(health));
        }
        assert_eq!(Health::parse("fine"), None);
    }
}
