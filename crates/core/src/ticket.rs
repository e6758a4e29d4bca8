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

/// The way by which a ticket came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Letters of the Internet.
    Email,
    /// A form, a portal, a widget on a page.
    Web,
    /// A live chat.
    Chat,
    /// A messenger: WhatsApp, LINE, direct messages.
    Messaging,
    /// A post that others can see: Twitter, Facebook, a forum.
    Social,
    /// A call.
    Phone,
    /// A text message.
    Sms,
    /// A program.
    Api,
    /// Something else: its original says what.
    Other,
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
    pub channel: Option<Mapped<Channel>>,
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
    /// Its files, as the provider tells of them; they are not fetched.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// When.
    pub created_at: DateTime<Utc>,
}

/// A file that came with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Where known.
    pub name: Option<String>,
    /// Where known.
    pub size_bytes: Option<u64>,
    /// `image/jpeg`, as the provider says.
    pub content_type: Option<String>,
    /// Where it lies: often on another host, which gets no credential of the connector.
    pub url: Option<String>,
}

/// Somebody whom the helpdesk knows as one who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Customer {
    /// At the provider.
    pub id: String,
    /// Where people open it.
    pub url: Option<String>,
    /// Where known.
    pub name: Option<String>,
    /// The first address, where known.
    pub email: Option<String>,
    /// Further addresses, where the provider tells them with the customer.
    pub other_emails: Vec<String>,
    /// As the provider writes it.
    pub phone: Option<String>,
    /// What another system calls this customer.
    pub external_id: Option<String>,
    /// As the provider writes it: `en-US`.
    pub language: Option<String>,
    /// As the provider writes it: `Europe/Vienna` at one, `Vienna` at another.
    pub time_zone: Option<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// Where the provider tells.
    pub created_at: Option<DateTime<Utc>>,
    /// Where the provider tells.
    pub updated_at: Option<DateTime<Utc>>,
}

/// One article of the knowledge base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Article {
    /// At the provider.
    pub id: String,
    /// Where people read it.
    pub url: Option<String>,
    /// Its heading.
    pub title: String,
    /// The whole of it, as text.
    pub body: Option<String>,
    /// The language that this is in, as the provider writes it: `en-us`.
    pub locale: Option<String>,
    /// False: a draft, which customers do not see. `None`: the provider does not tell.
    pub published: Option<bool>,
    /// Labels.
    pub labels: Vec<String>,
    /// Where the provider tells.
    pub created_at: Option<DateTime<Utc>>,
    /// Where the provider tells.
    pub updated_at: Option<DateTime<Utc>>,
}
