//! Events that an org is told of at its own endpoints: their types, and what each says.
//!
//! What is said is built here alone, of ids, names and stable words: no secret, and none of a customer's words.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::{
    AgentId, ConnectorId, Health,
    agent::{Status, StopReason},
    credential::{Reason, Trouble},
};

/// What an event tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// A connector works for the first time, or again after it was disconnected.
    ConnectorConnected,
    /// It has to be reconnected by a person.
    ConnectorAuthFailed,
    /// It works again.
    ConnectorRecovered,
    /// Something is wrong with it that needs no person of the org, and what still works may end.
    ConnectorDegraded,
    /// Its access ends for good, and nothing extends it.
    ConnectorExpiring,
    /// An admin took it off.
    ConnectorDisconnected,
    /// It is gone.
    ConnectorDeleted,
    /// An agent is stopped by a connector of its own that does not work.
    AgentDeactivated,
    /// Nothing stops it any more.
    AgentReactivated,
    /// There is a new ticket in a helpdesk.
    TicketCreated,
    /// Somebody has answered in one.
    TicketReplied,
    /// Something else about one is different.
    TicketChanged,
    /// A person asked for it, to see that the endpoint works.
    EndpointTest,
}

impl EventType {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::ConnectorConnected,
        Self::ConnectorAuthFailed,
        Self::ConnectorRecovered,
        Self::ConnectorDegraded,
        Self::ConnectorExpiring,
        Self::ConnectorDisconnected,
        Self::ConnectorDeleted,
        Self::AgentDeactivated,
        Self::AgentReactivated,
        Self::TicketCreated,
        Self::TicketReplied,
        Self::TicketChanged,
        Self::EndpointTest,
    ];

    /// The stable word in events, API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConnectorConnected => "connector.connected",
            Self::ConnectorAuthFailed => "connector.auth_failed",
            Self::ConnectorRecovered => "connector.recovered",
            Self::ConnectorDegraded => "connector.degraded",
            Self::ConnectorExpiring => "connector.expiring",
            Self::ConnectorDisconnected => "connector.disconnected",
            Self::ConnectorDeleted => "connector.deleted",
            Self::AgentDeactivated => "agent.deactivated",
            Self::AgentReactivated => "agent.reactivated",
            Self::TicketCreated => "ticket.created",
            Self::TicketReplied => "ticket.replied",
            Self::TicketChanged => "ticket.changed",
            Self::EndpointTest => "endpoint.test",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::ConnectorConnected => "A connector works for the first time, or after it was disconnected",
            Self::ConnectorAuthFailed => "A connector has to be reconnected by a person",
            Self::ConnectorRecovered => "It works again",
            Self::ConnectorDegraded => "It is in trouble that passes by itself, or is the operator's",
            Self::ConnectorExpiring => "Its access ends within a week, then within a day",
            Self::ConnectorDisconnected => "An admin disconnected it",
            Self::ConnectorDeleted => "It was deleted",
            Self::AgentDeactivated => "An agent is stopped by a connector that does not work",
            Self::AgentReactivated => "Nothing stops that agent any more",
            Self::TicketCreated => "A helpdesk has a new ticket",
            Self::TicketReplied => "Somebody has answered in a ticket",
            Self::TicketChanged => "Something else about a ticket is different",
            Self::EndpointTest => "A person asked for a test",
        }
    }

    /// Whether endpoints choose it. A test goes to the one that it is for, whatever that chose.
    pub fn is_chosen(self) -> bool {
        self != Self::EndpointTest
    }

    /// What a change of health is told as; `None`: it is told as nothing.
    pub fn of_health(from: Health, to: Health) -> Option<Self> {
        match (from, to) {
            (Health::AuthFailed, Health::Connected) => Some(Self::ConnectorRecovered),
            (Health::Pending | Health::Disconnected, Health::Connected) => Some(Self::ConnectorConnected),
            (Health::Pending | Health::Connected | Health::Disconnected, Health::AuthFailed) => {
                Some(Self::ConnectorAuthFailed)
            }
            (Health::Pending | Health::Connected | Health::AuthFailed, Health::Disconnected) => {
                Some(Self::ConnectorDisconnected)
            }
            (_, Health::Pending)
            | (Health::Connected, Health::Connected)
            | (Health::AuthFailed, Health::AuthFailed)
            | (Health::Disconnected, Health::Disconnected) => None,
        }
    }
}

/// The connector that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its id.
    pub id: ConnectorId,
    /// Its provider's id.
    pub provider: String,
    /// The account's canonical id.
    pub account: String,
    /// What people call it.
    pub name: String,
}

impl About {
    fn json(&self) -> Value {
        json!({ "id": self.id, "provider": self.provider, "account": self.account, "name": self.name })
    }

    /// Of [`EventType::of_health`].
    pub fn health(&self, from: Health, to: Health, reason: Option<Reason>, epoch: i64) -> Value {
        json!({
            "connector": self.json(),
            "health": to,
            "previous_health": from,
            "reason": reason.map(Reason::as_str),
            "epoch": epoch,
        })
    }

    /// Of [`EventType::ConnectorDegraded`].
    pub fn degraded(&self, class: Trouble, since: DateTime<Utc>) -> Value {
        json!({ "connector": self.json(), "class": class.as_str(), "since": since })
    }

    /// Of [`EventType::ConnectorExpiring`].
    pub fn expiring(&self, ends_at: DateTime<Utc>) -> Value {
        json!({ "connector": self.json(), "ends_at": ends_at })
    }

    /// Of [`EventType::ConnectorDeleted`].
    pub fn deleted(&self) -> Value {
        json!({ "connector": self.json() })
    }

    /// Of the events of tickets: `ticket` is its id at the provider, `provider_type` the provider's own word for what
    /// happened.
    pub fn ticket(&self, ticket: &str, provider_type: &str) -> Value {
        json!({ "connector": self.json(), "ticket": { "id": ticket }, "provider_type": provider_type })
    }
}

/// Of [`EventType::AgentDeactivated`]; `because`: the connector that stopped it first, and why.
pub fn agent_deactivated(id: &AgentId, name: &str, because: &About, reason: StopReason) -> Value {
    let because = json!({ "connector": because.json(), "reason": reason.as_str() });
    json!({ "agent": agent(id, name, Status::Deactivated), "because": because })
}

/// Of [`EventType::AgentReactivated`]. It may be paused by a person.
pub fn agent_reactivated(id: &AgentId, name: &str, status: Status) -> Value {
    json!({ "agent": agent(id, name, status) })
}

fn agent(id: &AgentId, name: &str, status: Status) -> Value {
    json!({ "id": id, "name": name, "status": status.as_str() })
}

/// Of [`EventType::EndpointTest`].
pub fn endpoint_test(endpoint: &str) -> Value {
    json!({ "endpoint": { "id": endpoint } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Effect, Event};

    #[test]
    fn words_read_back() {
        for kind in EventType::ALL {
            assert_eq!(EventType::parse(kind.as_str()), Some(kind));
            assert!(!kind.words().is_empty());
        }
        assert_eq!(EventType::parse("connector"), None);
    }

    #[test]
    fn every_change_that_is_announced_has_its_type_and_no_other_has() {
        let all = [Health::Pending, Health::Connected, Health::AuthFailed, Health::Disconnected];
        let events = [
            Event::Authorized,
            Event::Refused,
            Event::TestPassed,
            Event::LateSuccess,
            Event::Withdrawn,
            Event::Disconnected,
        ];
        for from in all {
            for event in events {
                let (to, effects) = from.next(event);
                let told = EventType::of_health(from, to);
                assert_eq!(told.is_some(), effects.contains(&Effect::Announce), "{from:?} on {event:?}");
            }
        }
    }
}
