//! The ticket model that all helpdesks share. Where a provider knows more than the shared value says, its own value
//! stands beside it, so that nothing is lost in the mapping. Ids are strings: they may exceed 2^53.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// A shared value with the provider's own word for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped<T> {
    /// The shared value.
    pub value: T,
    /// As the provider says it.
    pub original: String,
}

/// Where a ticket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody has looked yet.
    New,
    /// The helpdesk's turn.
    Open,
    /// The customer's turn.
    Pending,
    /// A third party's turn.
    OnHold,
    /// Answered; may open again.
    Solved,
    /// Final.
    Closed,
}

/// How urgent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Can wait.
    Low,
    /// The usual.
    Normal,
    /// Soon.
    High,
    /// Now.
    Urgent,
}

/// A person as far as a ticket names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// At the provider.
    pub id: String,
    /// Where known.
    pub name: Option<String>,
    /// Where known.
    pub email: Option<String>,
}

/// One ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// At the provider.
    pub id: String,
    /// Where people open it.
    pub url: Option<String>,
    /// May be empty at the provider.
    pub subject: Option<String>,
    /// The first message, as text.
    pub description: Option<String>,
    /// Where it stands.
    pub status: Mapped<Status>,
    /// `None`: not set.
    pub priority: Option<Mapped<Priority>>,
    /// How it came in.
    pub channel: Option<String>,
    /// Who asks.
    pub requester: Option<Person>,
    /// Who answers.
    pub assignee: Option<Person>,
    /// Labels.
    pub tags: Vec<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it last changed; guards writes.
    pub updated_at: DateTime<Utc>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// At the provider.
    pub id: String,
    /// As text.
    pub body: String,
    /// False: an internal note.
    pub public: bool,
    /// Who wrote it.
    pub author: Option<Person>,
    /// When.
    pub created_at: DateTime<Utc>,
}
