//! Wire types, spelled as Front spells them. Ids are opaque strings, times are Unix seconds with a fraction; what is not
//! used is not read, and what older answers leave out may be absent.

use chrono::{DateTime, Utc};
use holdfast_core::{
    helpdesk::text_of_html,
    ticket::{Attachment, Channel, Customer, Mapped, Message, Person, Status, Ticket},
    wire,
};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use url::Url;

/// The company.
#[derive(Debug, Deserialize)]
pub(crate) struct Me {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WireConversation {
    #[serde(deserialize_with = "wire::text")]
    pub(crate) id: String,
    pub(crate) subject: Option<String>,
    /// `assigned`, `unassigned`, `archived`, `deleted`. Null counts as an unknown word.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) status: String,
    /// `open`, `waiting`, `resolved`, where ticketing is on.
    pub(crate) status_category: Option<String>,
    pub(crate) assignee: Option<Teammate>,
    pub(crate) recipient: Option<Recipient>,
    pub(crate) tags: Option<Vec<Tag>>,
    #[serde(deserialize_with = "moment")]
    pub(crate) created_at: DateTime<Utc>,
    /// Not in answers of before 2026.
    #[serde(default, deserialize_with = "maybe_moment")]
    pub(crate) updated_at: Option<DateTime<Utc>>,
    /// Since when the oldest message waits that nobody has answered.
    #[serde(default, deserialize_with = "maybe_moment")]
    pub(crate) waiting_since: Option<DateTime<Utc>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Teammate {
    #[serde(deserialize_with = "wire::text")]
    pub(crate) id: String,
    pub(crate) email: Option<String>,
    pub(crate) first_name: Option<String>,
    pub(crate) last_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Recipient {
    pub(crate) name: Option<String>,
    pub(crate) handle: Option<String>,
    pub(crate) role: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tag {
    #[serde(deserialize_with = "wire::text")]
    pub(crate) id: String,
    pub(crate) name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WireMessage {
    #[serde(deserialize_with = "wire::text")]
    pub(crate) id: String,
    #[serde(rename = "_links")]
    pub(crate) links: Option<Links>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) is_inbound: bool,
    #[serde(deserialize_with = "moment")]
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) body: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) author: Option<Teammate>,
    pub(crate) recipients: Option<Vec<Recipient>>,
    #[serde(default, deserialize_with = "wire::attachments")]
    pub(crate) attachments: Vec<Attachment>,
    /// It is a draft, not sent.
    pub(crate) draft_mode: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Links {
    pub(crate) related: Option<Related>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Related {
    pub(crate) conversation: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Comment {
    #[serde(deserialize_with = "wire::text")]
    pub(crate) id: String,
    pub(crate) author: Option<Teammate>,
    /// Markdown.
    pub(crate) body: Option<String>,
    #[serde(default, deserialize_with = "wire::attachments")]
    pub(crate) attachments: Vec<Attachment>,
    #[serde(deserialize_with = "moment")]
    pub(crate) posted_at: DateTime<Utc>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Contact {
    #[serde(deserialize_with = "wire::text")]
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) handles: Option<Vec<Handle>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Handle {
    pub(crate) handle: String,
    pub(crate) source: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Inbox {
    #[serde(deserialize_with = "wire::text")]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) is_private: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WireChannel {
    pub(crate) address: Option<String>,
    pub(crate) send_as: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TicketStatus {
    #[serde(deserialize_with = "wire::text")]
    pub(crate) id: String,
    pub(crate) category: Option<String>,
}

/// What was sent is on its way.
#[derive(Debug, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) message_uid: String,
}

impl WireConversation {
    /// As the shared model has it; `app` is where people use Front.
    pub(crate) fn to_model(&self, app: &Url) -> Ticket {
        Ticket {
            id: self.id.clone(),
            url: Some(holdfast_core::provider::below(app, &format!("open/{}", self.id)).into()),
            subject: self.subject.clone(),
            description: None,
            status: self.status(),
            priority: None,
            channel: None,
            requester: self.recipient.as_ref().and_then(Recipient::person),
            assignee: self.assignee.as_ref().map(Teammate::person),
            tags: self.tags.iter().flatten().filter_map(|tag| tag.name.clone()).collect(),
            created_at: self.created_at,
            updated_at: self.updated_at.unwrap_or(self.created_at),
        }
    }

    /// The category of the ticket's status, where there is one. A word that nobody knows counts as open, since somebody
    /// should look; it stands beside it.
    pub(crate) fn status(&self) -> Mapped<Status> {
        let category =
            self.status_category.as_deref().filter(|_| !matches!(self.status.as_str(), "deleted" | "trashed"));
        let word = category.unwrap_or(&self.status);
        let value = match word {
            "waiting" => Status::Pending,
            "resolved" | "archived" => Status::Solved,
            "deleted" | "trashed" | "spam" => Status::Closed,
            _ => Status::Open,
        };
        Mapped { value, original: word.to_owned() }
    }

    /// The id of its tag of this name.
    pub(crate) fn tag(&self, name: &str) -> Option<&str> {
        let named = |tag: &&Tag| tag.name.as_deref().is_some_and(|own| own.to_lowercase() == name.to_lowercase());
        self.tags.iter().flatten().find(named).map(|tag| tag.id.as_str())
    }
}

impl Teammate {
    pub(crate) fn person(&self) -> Person {
        let names: Vec<&str> =
            [&self.first_name, &self.last_name].into_iter().flatten().map(|name| name.trim()).collect();
        let name = names.join(" ").trim().to_owned();
        Person { id: self.id.clone(), name: (!name.is_empty()).then_some(name), email: self.email.clone() }
    }
}

impl Recipient {
    /// By the handle, which is an address or a number: no id of a contact comes along.
    pub(crate) fn person(&self) -> Option<Person> {
        let handle = self.handle.clone().filter(|handle| !handle.is_empty())?;
        let email = handle.contains('@').then(|| handle.clone());
        Some(Person { id: handle, name: self.name.clone().filter(|name| !name.trim().is_empty()), email })
    }
}

impl WireMessage {
    pub(crate) fn is_sent(&self) -> bool {
        self.draft_mode.is_none()
    }

    pub(crate) fn channel(&self) -> Option<Mapped<Channel>> {
        let original = self.kind.clone()?;
        let value = match original.as_str() {
            "email" => Channel::Email,
            "sms" => Channel::Sms,
            "front_chat" | "intercom" => Channel::Chat,
            "whatsapp" | "facebook" | "line" => Channel::Messaging,
            "tweet" | "twitter" | "twitter_dm" => Channel::Social,
            "call" | "phone-call" | "phone_call" => Channel::Phone,
            "custom" => Channel::Api,
            _ => Channel::Other,
        };
        Some(Mapped { value, original })
    }

    /// What it says, as text.
    pub(crate) fn words(&self) -> String {
        let text = self.text.clone().filter(|text| !text.trim().is_empty());
        text.or_else(|| self.body.as_deref().map(text_of_html)).unwrap_or_default()
    }

    pub(crate) fn to_model(&self) -> Message {
        let from = self.recipients.iter().flatten().find(|one| one.role.as_deref() == Some("from"));
        let author = match &self.author {
            Some(teammate) => Some(teammate.person()),
            // Of what goes out it is the channel's address, and nobody's own.
            None => from.filter(|_| self.is_inbound).and_then(Recipient::person),
        };
        Message {
            id: self.id.clone(),
            body: self.words(),
            public: true,
            author,
            attachments: self.attachments.clone(),
            created_at: self.created_at,
        }
    }
}

impl Comment {
    pub(crate) fn into_model(self) -> Message {
        Message {
            id: self.id,
            body: self.body.unwrap_or_default(),
            public: false,
            author: self.author.as_ref().map(Teammate::person),
            attachments: self.attachments,
            created_at: self.posted_at,
        }
    }
}

impl Contact {
    pub(crate) fn emails(&self) -> impl Iterator<Item = &str> {
        let all = self.handles.iter().flatten();
        all.filter(|handle| handle.source.as_deref() == Some("email")).map(|handle| handle.handle.as_str())
    }

    pub(crate) fn into_model(self) -> Customer {
        let mut emails: Vec<String> = self.emails().map(str::to_owned).collect();
        let email = (!emails.is_empty()).then(|| emails.remove(0));
        let phone = self.handles.into_iter().flatten().find(|handle| handle.source.as_deref() == Some("phone"));
        Customer {
            id: self.id,
            url: None,
            name: self.name,
            email,
            other_emails: emails,
            phone: phone.map(|phone| phone.handle),
            external_id: None,
            language: None,
            time_zone: None,
            tags: Vec::new(),
            created_at: None,
            updated_at: None,
        }
    }
}

fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    read_moment(&Value::deserialize(deserializer)?).ok_or_else(|| de::Error::custom("expected Unix seconds"))
}

fn maybe_moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        given => read_moment(&given).map(Some).ok_or_else(|| de::Error::custom("expected Unix seconds")),
    }
}

/// Unix seconds as a number or as text, or a moment in ISO 8601.
pub(crate) fn read_moment(given: &Value) -> Option<DateTime<Utc>> {
    match given {
        Value::Number(secs) => at(secs.as_f64()?),
        Value::String(text) => text.parse().ok().and_then(at).or_else(|| wire::parse_moment(text)),
        _ => None,
    }
}

/// Unix seconds, to the millisecond.
#[expect(clippy::cast_possible_truncation, reason = "it is within its bounds")]
fn at(secs: f64) -> Option<DateTime<Utc>> {
    let ms = (secs * 1000.0).round();
    (0.0..1e14).contains(&ms).then(|| DateTime::from_timestamp_millis(ms as i64)).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conversation(more: &Value) -> WireConversation {
        let mut json = json!({"id": "cnv_1", "status": "assigned", "created_at": 1_790_000_000.123});
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_status_keeps_fronts_word_and_an_unknown_one_is_open() {
        for (status, category, expected, original) in [
            ("assigned", Value::Null, Status::Open, "assigned"),
            ("unassigned", Value::Null, Status::Open, "unassigned"),
            ("archived", Value::Null, Status::Solved, "archived"),
            ("deleted", Value::Null, Status::Closed, "deleted"),
            ("snoozed", Value::Null, Status::Open, "snoozed"),
            ("assigned", json!("waiting"), Status::Pending, "waiting"),
            ("archived", json!("resolved"), Status::Solved, "resolved"),
            ("assigned", json!("open"), Status::Open, "open"),
            ("deleted", json!("open"), Status::Closed, "deleted"),
            ("assigned", json!("escalated"), Status::Open, "escalated"),
        ] {
            let read = conversation(&json!({"status": status, "status_category": category})).status();
            assert_eq!((read.value, read.original.as_str()), (expected, original));
        }
    }

    #[test]
    fn a_conversation_of_before_updated_at_and_types_is_read() {
        let wire =
            conversation(&json!({"recipient": {"handle": "+4312345", "role": "from"}, "tags": [{"id": "tag_1"}]}));

        let ticket = wire.to_model(&"https://app.frontapp.com/".parse().unwrap());

        assert_eq!(ticket.url.as_deref(), Some("https://app.frontapp.com/open/cnv_1"));
        assert_eq!(ticket.created_at.to_rfc3339(), "2026-09-21T14:13:20.123+00:00");
        assert_eq!((ticket.updated_at, ticket.tags.len()), (ticket.created_at, 0));
        let requester = ticket.requester.unwrap();
        assert_eq!((requester.id.as_str(), requester.name, requester.email), ("+4312345", None, None));
    }

    #[test]
    fn a_moment_is_seconds_with_a_fraction_and_nothing_else() {
        assert_eq!(at(1_790_000_000.1).unwrap().timestamp_millis(), 1_790_000_000_100);
        for odd in [f64::NAN, f64::INFINITY, -1.0, 1e12] {
            assert_eq!(at(odd), None, "{odd}");
        }
        for odd in [json!("soon"), json!(null), json!({}), json!(-1)] {
            let wire = serde_json::from_value::<WireConversation>(json!({"id": "c", "status": "s", "created_at": odd}));
            assert!(wire.is_err(), "{odd}");
        }
    }

    #[test]
    fn an_author_is_a_teammate_or_who_wrote_from_outside() {
        let message = |more: Value| {
            let mut json = json!({"id": "msg_1", "is_inbound": true, "created_at": 1, "body": "<p>Hi</p>",
                "recipients": [{"handle": "to@x.test", "role": "to"}, {"name": "Mira", "handle": "m@x.test", "role": "from"}]});
            json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value::<WireMessage>(json).unwrap()
        };
        let inbound = message(json!({})).to_model();
        assert_eq!((inbound.body.as_str(), inbound.author.unwrap().email.as_deref()), ("Hi", Some("m@x.test")));
        assert_eq!(message(json!({"is_inbound": false})).to_model().author, None);
        let teammate =
            message(json!({"is_inbound": false, "author": {"id": "tea_1", "first_name": "Ada", "last_name": null}}));
        assert_eq!(teammate.to_model().author.unwrap().name.as_deref(), Some("Ada"));
        assert_eq!(message(json!({"type": "carrier_pigeon"})).channel().unwrap().value, Channel::Other);
    }
}
