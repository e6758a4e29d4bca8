//! Wire types, spelled as Gorgias spells them. What is not used is not read, and what is not promised may be absent.

use chrono::{DateTime, Utc};
use holdfast_core::{
    helpdesk::text_of_html,
    provider::below,
    ticket::{Attachment, Channel, Customer, Mapped, Message, Person, Priority, Status, Ticket},
    wire,
};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use url::Url;

/// A number. Text of digits is read as well: ids of other systems come so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(pub(crate) i64);

/// A page of a list. Its end is where no next cursor is told.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed<T> {
    pub(crate) data: Vec<T>,
    #[serde(default)]
    meta: Option<Meta>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    next_cursor: Option<String>,
}

/// The account that a credential is good for.
#[derive(Debug, Deserialize)]
pub(crate) struct WireAccount {
    /// Its subdomain.
    pub(crate) domain: Option<String>,
}

/// Somebody who works there.
#[derive(Debug, Deserialize)]
pub(crate) struct User {
    pub(crate) id: Id,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) role: Option<Role>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Role {
    pub(crate) name: Option<String>,
}

/// A person as tickets and messages name them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WirePerson {
    pub(crate) id: Option<Id>,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WireTicket {
    pub(crate) id: Id,
    /// Null counts as an unknown word.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) status: String,
    pub(crate) priority: Option<String>,
    pub(crate) channel: Option<String>,
    pub(crate) customer: Option<WirePerson>,
    pub(crate) assignee_user: Option<WirePerson>,
    pub(crate) subject: Option<String>,
    /// The beginning of a message, in lists.
    pub(crate) excerpt: Option<String>,
    pub(crate) tags: Option<Vec<Tag>>,
    /// Of one ticket by itself.
    pub(crate) messages: Option<Vec<WireMessage>>,
    #[serde(deserialize_with = "wire::moment")]
    pub(crate) created_datetime: DateTime<Utc>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) updated_datetime: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) last_message_datetime: Option<DateTime<Utc>>,
    pub(crate) trashed_datetime: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tag {
    pub(crate) name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WireMessage {
    pub(crate) id: Id,
    pub(crate) ticket_id: Option<Id>,
    pub(crate) public: Option<bool>,
    pub(crate) channel: Option<String>,
    /// `{type, from: {address}, to: [{address}]}`; its shape differs by channel.
    #[serde(default)]
    pub(crate) source: Value,
    pub(crate) sender: Option<WirePerson>,
    pub(crate) from_agent: Option<bool>,
    pub(crate) body_text: Option<String>,
    pub(crate) body_html: Option<String>,
    pub(crate) stripped_text: Option<String>,
    #[serde(default, deserialize_with = "wire::attachments")]
    pub(crate) attachments: Vec<Attachment>,
    #[serde(deserialize_with = "wire::moment")]
    pub(crate) created_datetime: DateTime<Utc>,
    pub(crate) failed_datetime: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WireCustomer {
    pub(crate) id: Id,
    #[serde(default, deserialize_with = "maybe_text")]
    pub(crate) external_id: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) timezone: Option<String>,
    pub(crate) channels: Option<Vec<WireChannel>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) created_datetime: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) updated_datetime: Option<DateTime<Utc>>,
}

/// A way to a customer.
#[derive(Debug, Deserialize)]
pub(crate) struct WireChannel {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) address: Option<String>,
}

impl<T> Listed<T> {
    /// Of the page behind this one.
    pub(crate) fn next(&self) -> Option<String> {
        self.meta.as_ref()?.next_cursor.clone().filter(|cursor| !cursor.is_empty())
    }
}

impl WirePerson {
    fn to_model(&self) -> Option<Person> {
        Some(Person { id: self.id?.0.to_string(), name: said(self.name.as_ref()), email: said(self.email.as_ref()) })
    }
}

impl WireTicket {
    /// As the shared model has it. `base` is where the account lives.
    pub(crate) fn to_model(&self, base: &Url) -> Ticket {
        let word = |word: &Option<String>| word.clone().filter(|word| !word.is_empty());
        Ticket {
            id: self.id.0.to_string(),
            url: Some(below(base, &format!("app/ticket/{}", self.id.0)).into()),
            subject: self.subject.clone(),
            description: self.messages.as_ref().and_then(|all| all.first()).map(WireMessage::text),
            status: Mapped { value: status(&self.status), original: self.status.clone() },
            priority: word(&self.priority).map(|word| Mapped { value: priority(&word), original: word }),
            channel: word(&self.channel).map(|word| Mapped { value: channel(&word), original: word }),
            requester: self.customer.as_ref().and_then(WirePerson::to_model),
            assignee: self.assignee_user.as_ref().and_then(WirePerson::to_model),
            tags: self.tag_names().map(str::to_owned).collect(),
            created_at: self.created_datetime,
            updated_at: self.updated_datetime.unwrap_or(self.created_datetime),
        }
    }

    pub(crate) fn tag_names(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().flatten().filter_map(|tag| tag.name.as_deref())
    }
}

impl WireMessage {
    /// Whole, as text.
    pub(crate) fn text(&self) -> String {
        let own = said(self.body_text.as_ref());
        let html = || said(self.body_html.as_ref()).map(|html| text_of_html(&html));
        own.or_else(html).or_else(|| self.stripped_text.clone()).unwrap_or_default()
    }

    /// What customers see. Of agents, what is not said to be public is a note.
    pub(crate) fn is_public(&self) -> bool {
        self.channel.as_deref() != Some(NOTE) && self.public.unwrap_or_else(|| !self.is_from_agent())
    }

    pub(crate) fn is_from_agent(&self) -> bool {
        self.from_agent == Some(true)
    }

    pub(crate) fn to_model(&self) -> Message {
        Message {
            id: self.id.0.to_string(),
            body: self.text(),
            public: self.is_public(),
            author: self.sender.as_ref().and_then(WirePerson::to_model),
            attachments: self.attachments.clone(),
            created_at: self.created_datetime,
        }
    }
}

impl WireCustomer {
    /// Their addresses, the first one first.
    pub(crate) fn emails(&self) -> Vec<String> {
        let channels = self.channels.iter().flatten().filter(|channel| channel.kind.as_deref() == Some("email"));
        let more = channels.filter_map(|channel| channel.address.clone());
        let mut all: Vec<String> = Vec::new();
        for email in self.email.clone().into_iter().chain(more).filter(|email| !email.is_empty()) {
            if !all.iter().any(|known| known.eq_ignore_ascii_case(&email)) {
                all.push(email);
            }
        }
        all
    }

    pub(crate) fn into_model(self, base: &Url) -> Customer {
        let mut emails = self.emails();
        let first = (!emails.is_empty()).then(|| emails.remove(0));
        let is_phone = |channel: &&WireChannel| matches!(channel.kind.as_deref(), Some("phone" | "sms"));
        let phone = self.channels.iter().flatten().find(is_phone).and_then(|channel| channel.address.clone());
        Customer {
            id: self.id.0.to_string(),
            url: Some(below(base, &format!("app/customer/{}", self.id.0)).into()),
            name: said(self.name.as_ref()),
            email: first,
            other_emails: emails,
            phone,
            external_id: self.external_id,
            language: self.language,
            time_zone: self.timezone,
            tags: Vec::new(),
            created_at: self.created_datetime,
            updated_at: self.updated_datetime,
        }
    }
}

/// The channel of internal notes.
pub(crate) const NOTE: &str = "internal-note";

/// Gorgias has two, and what it calls closed opens again when the customer writes: that is solved. A word that is not known
/// counts as open: somebody should look. The word stands beside it.
pub(crate) fn status(word: &str) -> Status {
    if word == "closed" { Status::Solved } else { Status::Open }
}

/// Gorgias's word; `None` for what it does not have. Its own word for solved is taken as that.
pub(crate) fn status_word(status: Status) -> Option<&'static str> {
    match status {
        Status::Open => Some("open"),
        Status::Solved | Status::Closed => Some("closed"),
        Status::New | Status::Pending | Status::OnHold => None,
    }
}

/// A word that is not known counts as normal. It stands beside it.
pub(crate) fn priority(word: &str) -> Priority {
    match word {
        "low" => Priority::Low,
        "high" => Priority::High,
        "critical" => Priority::Urgent,
        _ => Priority::Normal,
    }
}

/// Gorgias's word.
pub(crate) fn priority_word(priority: Priority) -> &'static str {
    match priority {
        Priority::Low => "low",
        Priority::Normal => "normal",
        Priority::High => "high",
        Priority::Urgent => "critical",
    }
}

/// Integrations bring channels of their own, so there is no whole list. What is not known counts as other; the word stands
/// beside it.
fn channel(word: &str) -> Channel {
    match word {
        "email" => Channel::Email,
        "contact_form" | "contact-form" | "help-center" | "help-center-contact-form" => Channel::Web,
        "chat" | "chat-contact-form" => Channel::Chat,
        "whatsapp" | "facebook-messenger" | "instagram-direct-message" | "twitter-direct-message" => Channel::Messaging,
        "phone" | "aircall" => Channel::Phone,
        "sms" => Channel::Sms,
        "api" => Channel::Api,
        word if ["facebook", "instagram", "twitter"].iter().any(|one| word.starts_with(one)) => Channel::Social,
        _ => Channel::Other,
    }
}

fn said(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty()).cloned()
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = match Value::deserialize(deserializer)? {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        read.map(Self).ok_or_else(|| de::Error::custom("expected an id"))
    }
}

fn maybe_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ticket(more: &Value) -> WireTicket {
        let mut json = json!({"id": 9_007_199_254_740_993_i64, "status": "open",
            "created_datetime": "2026-11-01T10:00:00.123456+00:00"});
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn words_survive_the_way_there_and_back() {
        for word in ["open", "closed"] {
            assert_eq!(status_word(status(word)), Some(word));
        }
        for word in ["low", "normal", "high", "critical"] {
            assert_eq!(priority_word(priority(word)), word);
        }
    }

    #[test]
    fn a_ticket_keeps_large_ids_and_words_that_nobody_knows() {
        let wire = ticket(&json!({"status": "snoozed", "priority": "blocker", "channel": "fax", "tags": null,
            "customer": {"id": "9007199254740995", "name": "", "email": "mira@example.com"}, "assignee_user": null,
            "meta": {"x": [1]}, "custom_fields": {}}));

        let ticket = wire.to_model(&"http://127.0.0.1:9000/gorgias/acme".parse().unwrap());

        assert_eq!(ticket.id, "9007199254740993");
        assert_eq!(ticket.url.as_deref(), Some("http://127.0.0.1:9000/gorgias/acme/app/ticket/9007199254740993"));
        assert_eq!(ticket.status, Mapped { value: Status::Open, original: "snoozed".to_owned() });
        assert_eq!(ticket.priority, Some(Mapped { value: Priority::Normal, original: "blocker".to_owned() }));
        assert_eq!(ticket.channel, Some(Mapped { value: Channel::Other, original: "fax".to_owned() }));
        let requester = ticket.requester.unwrap();
        assert_eq!((requester.id.as_str(), requester.name), ("9007199254740995", None));
        assert_eq!((ticket.assignee, ticket.description, ticket.tags), (None, None, Vec::new()));
        assert_eq!(ticket.updated_at, ticket.created_at);
    }

    #[test]
    fn an_id_is_a_whole_number_or_its_digits() {
        let read = |id: Value| serde_json::from_value::<Id>(id).ok().map(|id| id.0);
        assert_eq!(read(json!(9_007_199_254_740_993_i64)), Some(9_007_199_254_740_993));
        assert_eq!(read(json!("35")), Some(35));
        for id in [json!(null), json!(1.5), json!("x"), json!([1]), json!({"id": 1}), json!(true)] {
            assert_eq!(read(id.clone()), None, "{id}");
        }
    }

    #[test]
    fn a_message_is_read_whole_and_a_note_is_never_public() {
        let message = |more: Value| -> WireMessage {
            let mut json = json!({"id": 1, "created_datetime": "2026-11-01T10:00:00"});
            json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(json).unwrap()
        };
        for (given, text) in [
            (json!({"body_text": "a\n> b", "stripped_text": "a", "body_html": "<p>c</p>"}), "a\n> b"),
            (json!({"body_text": " ", "stripped_text": "a", "body_html": "<p>c &amp; d</p>"}), "c & d"),
            (json!({"body_text": null, "stripped_text": "a"}), "a"),
            (json!({}), ""),
        ] {
            assert_eq!(message(given.clone()).text(), text, "{given}");
        }
        for (given, public) in [
            (json!({"public": true, "channel": "email", "from_agent": true}), true),
            (json!({"public": false, "channel": "email"}), false),
            (json!({"public": true, "channel": "internal-note"}), false),
            (json!({"from_agent": true}), false),
            (json!({"from_agent": false}), true),
        ] {
            assert_eq!(message(given.clone()).is_public(), public, "{given}");
        }
    }

    #[test]
    fn a_customer_has_each_address_once() {
        let customer: WireCustomer = serde_json::from_value(json!({"id": 7, "external_id": 99, "email": "a@b.c",
            "name": "Mira", "data": [1], "channels": [
                {"type": "email", "address": "A@b.c"}, {"type": "phone", "address": "+43 1"},
                {"type": "email", "address": "work@b.c"}, {"type": "email", "address": null}, {"type": null}]}))
        .unwrap();

        let customer = customer.into_model(&"https://acme.gorgias.com".parse().unwrap());

        assert_eq!((customer.email.as_deref(), customer.phone.as_deref()), (Some("a@b.c"), Some("+43 1")));
        assert_eq!((customer.other_emails, customer.external_id.as_deref()), (vec!["work@b.c".to_owned()], Some("99")));
        assert_eq!(customer.url.as_deref(), Some("https://acme.gorgias.com/app/customer/7"));
    }
}
