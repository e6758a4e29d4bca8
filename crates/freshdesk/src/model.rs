//! Wire types, spelled as Freshdesk spells them. Ids may exceed 2^53; what is not used is not read, and what real accounts
//! leave out may be absent.

use chrono::{DateTime, Utc};
use holdfast_core::{
    helpdesk::text_of_html,
    ticket::{Article, Attachment, Channel, Customer, Mapped, Message, Person, Priority, Status, Ticket},
    wire,
};
use serde::Deserialize;
use url::Url;

/// Who calls.
#[derive(Debug, Deserialize)]
pub(crate) struct Me {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) ticket_scope: Option<i64>,
    pub(crate) occasional: Option<bool>,
    pub(crate) contact: Option<AgentContact>,
}

/// What is personal about an agent.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AgentContact {
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) active: Option<bool>,
}

/// An agent in a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Agent {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    pub(crate) contact: Option<AgentContact>,
}

/// A page of a search, 30 results on each.
#[derive(Debug, Deserialize)]
pub(crate) struct SearchPage {
    pub(crate) total: u64,
    pub(crate) results: Vec<WireTicket>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WireTicket {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    pub(crate) subject: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) description_text: Option<String>,
    /// Null counts as one that nobody knows.
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) status: Option<i64>,
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) priority: Option<i64>,
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) source: Option<i64>,
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) requester_id: Option<i64>,
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) responder_id: Option<i64>,
    pub(crate) tags: Option<Vec<String>>,
    /// Those of the first message.
    #[serde(default, deserialize_with = "wire::attachments")]
    pub(crate) attachments: Vec<Attachment>,
    /// Where it was asked for.
    pub(crate) requester: Option<Requester>,
    /// Where they were asked for.
    pub(crate) stats: Option<Stats>,
    #[serde(deserialize_with = "wire::moment")]
    pub(crate) created_at: DateTime<Utc>,
    #[serde(deserialize_with = "wire::moment")]
    pub(crate) updated_at: DateTime<Utc>,
}

/// When somebody has answered last.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Stats {
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) agent_responded_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) requester_responded_at: Option<DateTime<Utc>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Requester {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
}

/// A reply, a note, or what a customer wrote later. The first message of a ticket is not among them.
#[derive(Debug, Deserialize)]
pub(crate) struct Conversation {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    pub(crate) body: Option<String>,
    pub(crate) body_text: Option<String>,
    pub(crate) private: Option<bool>,
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) incoming: bool,
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) user_id: Option<i64>,
    pub(crate) from_email: Option<String>,
    #[serde(default, deserialize_with = "wire::attachments")]
    pub(crate) attachments: Vec<Attachment>,
    #[serde(deserialize_with = "wire::moment")]
    pub(crate) created_at: DateTime<Utc>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Contact {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) other_emails: Option<Vec<String>>,
    pub(crate) phone: Option<String>,
    pub(crate) mobile: Option<String>,
    pub(crate) unique_external_id: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) time_zone: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) created_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) updated_at: Option<DateTime<Utc>>,
}

/// A contact whose name begins so.
#[derive(Debug, Deserialize)]
pub(crate) struct Suggestion {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
}

/// An article. Its text fields differ by version.
#[derive(Debug, Deserialize)]
pub(crate) struct WireArticle {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) description_text: Option<String>,
    pub(crate) desc_un_html: Option<String>,
    /// 1 draft, 2 published.
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) status: Option<i64>,
    /// 1 everybody, 2 who is signed in, 3 agents, 4 some companies.
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) folder_visibility: Option<i64>,
    pub(crate) tags: Option<Vec<String>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) created_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) updated_at: Option<DateTime<Utc>>,
}

impl WireTicket {
    /// As the shared model has it. `base` is where the account lives.
    /// When the last message came, the first one aside.
    pub(crate) fn replied_at(&self) -> Option<DateTime<Utc>> {
        let stats = self.stats.as_ref()?;
        stats.agent_responded_at.max(stats.requester_responded_at)
    }

    pub(crate) fn to_model(&self, base: &Url) -> Ticket {
        Ticket {
            id: self.id.to_string(),
            url: Some(holdfast_core::provider::below(base, &format!("a/tickets/{}", self.id)).into()),
            subject: self.subject.clone(),
            description: self.first_message(),
            status: Mapped {
                value: self.status.map_or(Status::Open, status),
                original: self.status.map(|number| number.to_string()).unwrap_or_default(),
            },
            priority: self.priority.map(|number| Mapped { value: priority(number), original: number.to_string() }),
            channel: self.source.map(|number| Mapped { value: channel(number), original: number.to_string() }),
            requester: self.requester(),
            assignee: self.responder_id.map(|id| Person { id: id.to_string(), name: None, email: None }),
            tags: self.tags.clone().unwrap_or_default(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }

    /// The description as text, where the answer holds it.
    pub(crate) fn first_message(&self) -> Option<String> {
        self.description_text.clone().or_else(|| self.description.as_deref().map(text_of_html))
    }

    pub(crate) fn requester(&self) -> Option<Person> {
        let id = self.requester_id.or(self.requester.as_ref().map(|requester| requester.id))?;
        let known = self.requester.as_ref().filter(|requester| requester.id == id);
        Some(Person {
            id: id.to_string(),
            name: known.and_then(|requester| requester.name.clone()),
            email: known.and_then(|requester| requester.email.clone()),
        })
    }
}

impl Conversation {
    /// `requester` is the ticket's: others are known by their ids alone.
    pub(crate) fn into_model(self, requester: Option<&Person>) -> Message {
        let author = self.user_id.map(|id| {
            let id = id.to_string();
            match requester.filter(|requester| requester.id == id) {
                Some(requester) => requester.clone(),
                // Of what agents send, it is the helpdesk's address and nobody's own.
                None => Person { id, name: None, email: self.from_email.clone().filter(|_| self.incoming) },
            }
        });
        Message {
            id: self.id.to_string(),
            body: self.body_text.or_else(|| self.body.as_deref().map(text_of_html)).unwrap_or_default(),
            // Customers write no notes; of agents, what is not said to be public is one.
            public: self.private.map_or(self.incoming, |private| !private),
            author,
            attachments: self.attachments,
            created_at: self.created_at,
        }
    }
}

impl Contact {
    pub(crate) fn into_model(self, base: &Url) -> Customer {
        Customer {
            id: self.id.to_string(),
            url: Some(holdfast_core::provider::below(base, &format!("a/contacts/{}", self.id)).into()),
            name: self.name,
            email: self.email,
            other_emails: self.other_emails.unwrap_or_default(),
            phone: self.phone.filter(|phone| !phone.is_empty()).or(self.mobile),
            external_id: self.unique_external_id,
            language: self.language,
            time_zone: self.time_zone,
            tags: self.tags.unwrap_or_default(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

impl WireArticle {
    /// Whether customers may read it, all or those who sign in; what is not said is taken for yes.
    pub(crate) fn is_for_customers(&self) -> bool {
        self.status.is_none_or(|status| status == 2) && matches!(self.folder_visibility, None | Some(1 | 2))
    }

    pub(crate) fn into_model(self, base: &Url) -> Article {
        Article {
            id: self.id.to_string(),
            url: Some(holdfast_core::provider::below(base, &format!("support/solutions/articles/{}", self.id)).into()),
            title: self.title.unwrap_or_default(),
            body: self.description_text.or(self.desc_un_html).or_else(|| self.description.as_deref().map(text_of_html)),
            locale: None,
            published: self.status.map(|status| status == 2),
            labels: self.tags.unwrap_or_default(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

/// Numbers from 6 on are an account's own statuses, whose meaning only its administrator knows: they count as open, since
/// somebody should look. The number stands beside it.
pub(crate) fn status(number: i64) -> Status {
    match number {
        3 => Status::Pending,
        4 => Status::Solved,
        5 => Status::Closed,
        _ => Status::Open,
    }
}

/// Freshdesk's number; `None` for what it does not have.
pub(crate) fn status_number(status: Status) -> Option<i64> {
    match status {
        Status::Open => Some(2),
        Status::Pending => Some(3),
        Status::Solved => Some(4),
        Status::Closed => Some(5),
        Status::New | Status::OnHold => None,
    }
}

/// A number that is not known counts as normal. It stands beside it.
pub(crate) fn priority(number: i64) -> Priority {
    match number {
        1 => Priority::Low,
        3 => Priority::High,
        4 => Priority::Urgent,
        _ => Priority::Normal,
    }
}

/// Freshdesk's number.
pub(crate) fn priority_number(priority: Priority) -> i64 {
    match priority {
        Priority::Low => 1,
        Priority::Normal => 2,
        Priority::High => 3,
        Priority::Urgent => 4,
    }
}

/// How it came in. There are more numbers than the documentation has.
fn channel(source: i64) -> Channel {
    match source {
        1 | OUTBOUND => Channel::Email,
        2 | 9 => Channel::Web,
        3 => Channel::Phone,
        7 => Channel::Chat,
        _ => Channel::Other,
    }
}

/// The source of a ticket that began with a mail from the helpdesk.
pub(crate) const OUTBOUND: i64 = 10;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ticket(more: &Value) -> WireTicket {
        let mut json = json!({"id": 9_007_199_254_740_993_i64, "status": 2, "created_at": "2026-11-01T10:00:00Z",
            "updated_at": "2026-11-01T12:00:00+02:00"});
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn numbers_survive_the_way_there_and_back() {
        for number in 2..=5 {
            assert_eq!(status_number(status(number)), Some(number));
        }
        for number in 1..=4 {
            assert_eq!(priority_number(priority(number)), number);
        }
    }

    #[test]
    fn a_ticket_keeps_large_ids_and_numbers_that_nobody_knows() {
        let wire =
            ticket(&json!({"status": 11, "priority": 9, "source": 15, "requester_id": 9_007_199_254_740_995_i64,
            "responder_id": null, "tags": null, "description": "<p>Hi</p>", "automation_id": {}}));

        let ticket = wire.to_model(&"http://127.0.0.1:9000/freshdesk/acme".parse().unwrap());

        assert_eq!(ticket.id, "9007199254740993");
        assert_eq!(ticket.url.as_deref(), Some("http://127.0.0.1:9000/freshdesk/acme/a/tickets/9007199254740993"));
        assert_eq!(ticket.status, Mapped { value: Status::Open, original: "11".to_owned() });
        assert_eq!(ticket.priority, Some(Mapped { value: Priority::Normal, original: "9".to_owned() }));
        assert_eq!(ticket.channel, Some(Mapped { value: Channel::Other, original: "15".to_owned() }));
        assert_eq!(ticket.requester.unwrap().id, "9007199254740995");
        assert_eq!((ticket.assignee, ticket.tags), (None, Vec::new()));
        assert_eq!(ticket.description.as_deref(), Some("Hi"));
        assert_eq!(ticket.created_at, ticket.updated_at);
    }

    #[test]
    fn an_article_is_for_customers_unless_it_says_otherwise() {
        for (article, expected) in [
            (json!({"id": 1, "status": 2, "folder_visibility": 1}), true),
            (json!({"id": 1, "status": 2, "folder_visibility": 2}), true),
            (json!({"id": 1}), true),
            (json!({"id": 1, "status": 1, "folder_visibility": 1}), false),
            (json!({"id": 1, "status": 2, "folder_visibility": 3}), false),
            (json!({"id": 1, "status": 2, "folder_visibility": 4}), false),
        ] {
            let read: WireArticle = serde_json::from_value(article.clone()).unwrap();
            assert_eq!(read.is_for_customers(), expected, "{article}");
        }
    }

    #[test]
    fn a_requester_is_named_only_by_their_own_record() {
        let other = ticket(&json!({"requester_id": 1, "requester": {"id": 2, "name": "B", "email": "b@example.com"}}));
        assert_eq!(other.requester().unwrap().name, None);

        let own = ticket(&json!({"requester_id": 2, "requester": {"id": 2, "name": "B", "email": null}}));
        assert_eq!(own.requester().unwrap().name.as_deref(), Some("B"));
    }

    #[test]
    fn an_agents_message_is_not_signed_with_the_helpdesks_address() {
        let said = |incoming: bool| -> Conversation {
            serde_json::from_value(json!({"id": 5, "body_text": "x", "incoming": incoming, "user_id": 7,
                "from_email": "support@acme.example", "created_at": "2026-11-01T10:00:00Z",
                "updated_at": "2026-11-01T10:00:00Z"}))
            .unwrap()
        };
        let email = |incoming| said(incoming).into_model(None).author.unwrap().email;
        assert_eq!(email(true).as_deref(), Some("support@acme.example"));
        assert_eq!(email(false), None);
    }
}
