//! What a provider sends by itself: how a request is proven to be its own, and what it means. All of that is pure, so that
//! nothing is asked of anybody while a delivery waits for its answer.
//!
//! - [`signature`]: HMACs over the raw body, as data.
//! - [`digest`]: the key of an event that has no id of its own.
//! - [`fate`]: what becomes of a proven one while its connector waits for a reconnect.
//! - [`subscription`]: what makes a provider send, and what follows from how it is found there.

mod digest;
mod parking;
mod signature;
pub mod subscription;

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, Method};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use subtle::ConstantTimeEq;
use url::Url;

use crate::jws::PublicKey;

pub use digest::{digest, digest_of};
pub use parking::{Fate, Parking, Refusal, fate};
pub use signature::{Algorithm, Encoding, Signature, Stamp, StampUnit};
pub use subscription::{Subscription, Subscriptions, Wanted};

/// One way in which a provider tells of events. Several where it has several: Gmail's push and the channels of calendars.
pub trait Webhook: Send + Sync {
    /// For pages, checks and counters.
    fn facts(&self) -> &WebhookFacts;
    /// Whether the request is the provider's, in constant time. Two that say the same are told apart by [`Self::read`].
    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven>;
    /// What is answered to a request that only asks whether somebody is there. A GET is asked unproven, everything else
    /// once it is proven.
    fn challenge(&self, _delivery: &Delivery<'_>) -> Option<Challenge> {
        None
    }
    /// What a proven request says.
    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable>;
    /// Whether the account that an event names is this one, by the account's id in its canonical form and by the immutable
    /// id that the provider has told of it.
    fn is_about(&self, told: &str, account: &str, _account_id: Option<&str>) -> bool {
        told.eq_ignore_ascii_case(account)
    }
    /// How what makes the provider send is kept there; `None`: a person makes it, as [`WebhookFacts::steps`] say.
    fn subscriptions(&self) -> Option<&dyn Subscriptions> {
        None
    }
    /// Where the public keys of those who sign lie (RFC 7517); `None`: nobody signs with one.
    fn keys_url(&self) -> Option<Url> {
        None
    }
}

/// What is known of a way before anything arrives.
#[derive(Debug)]
pub struct WebhookFacts {
    /// Among those of one provider: `events`.
    pub id: &'static str,
    /// For people: `Ticket events`.
    pub name: &'static str,
    /// Whom one address serves.
    pub scope: Scope,
    /// What proves a delivery, and who has it first.
    pub secret: SecretFrom,
    /// What people call it: `Signing secret`.
    pub secret_label: &'static str,
    /// What a person does at the provider, in order. `{url}` and `{secret}` stand for what they copy.
    pub steps: &'static [&'static str],
    /// What they paste there as the body, where the provider lets them write it.
    pub body: Option<&'static str>,
    /// When the provider gives up by itself.
    pub own_limit: Option<OwnLimit>,
    /// For how many times as long, and as many, events are kept for a failed connector: where the provider itself gives up
    /// so soon that refusing costs more than keeping.
    pub parks: u32,
}

/// Whom one address serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One connector.
    Connector,
    /// Every account of an OAuth app: an event says whose it is.
    App,
}

/// Where the secret comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretFrom {
    /// We make it, and a person takes it there.
    Us,
    /// The provider makes it, and a person brings it here.
    Provider,
    /// Either: one that is brought counts, else we make one.
    Either,
    /// It is the OAuth app's client secret.
    OAuthApp,
    /// There is none: the name of who signs is brought here. It is kept as a secret is.
    Sender,
}

/// When the provider gives up by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLimit {
    /// Failures in a row.
    pub failures: u32,
    /// What it does then, as the end of a sentence: `Gorgias switches the integration off`.
    pub then: &'static str,
}

/// What deliveries are held against.
#[derive(Clone, Copy, Debug)]
pub struct Proofs<'a> {
    /// The current one first, then the one before while it still counts. An empty one counts for nothing.
    pub secrets: &'a [SecretString],
    /// Those of [`Webhook::keys_url`].
    pub keys: &'a [PublicKey],
    /// The address that was given to the provider.
    pub url: &'a str,
}

impl Proofs<'_> {
    /// Those that can prove something. None: it is ours to mend (WV-05).
    pub fn secrets(&self) -> Result<Vec<&[u8]>, NotProven> {
        let usable: Vec<&[u8]> =
            self.secrets.iter().map(|secret| secret.expose_secret().as_bytes()).filter(|one| !one.is_empty()).collect();
        if usable.is_empty() { Err(NotProven::NoSecret) } else { Ok(usable) }
    }

    /// Whether the text is one of the secrets, in constant time. Each of them is tried, so that time tells nothing.
    pub fn is_secret(&self, told: Option<&str>) -> Result<(), NotProven> {
        let secrets = self.secrets()?;
        let told = told.ok_or(NotProven::Missing)?;
        let same = secrets.iter().fold(false, |same, secret| same | bool::from(secret.ct_eq(told.as_bytes())));
        if same { Ok(()) } else { Err(NotProven::Wrong) }
    }
}

/// A request, as it came.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Usually POST.
    pub method: &'a Method,
    /// As it is written.
    pub query: Option<&'a str>,
    /// All of them.
    pub headers: &'a HeaderMap,
    /// Its bytes.
    pub body: &'a [u8],
    /// When it came, by our clock.
    pub now: DateTime<Utc>,
}

impl Delivery<'_> {
    /// A header that is there once, without the spaces around it. Two of them are no statement.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let only = values.next().filter(|_| values.next().is_none());
        only.and_then(|value| value.to_str().ok()).map(str::trim)
    }

    /// The body as JSON.
    pub fn json(&self) -> Result<Value, Unreadable> {
        serde_json::from_slice(self.body).map_err(|_| Unreadable("the body is no JSON"))
    }

    /// A parameter of the query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let query = self.query.unwrap_or_default();
        url::form_urlencoded::parse(query.as_bytes()).find(|(given, _)| given == name).map(|(_, value)| value.into())
    }
}

/// Why a delivery is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// There is no signature, or none that can be read.
    #[error("it carries no signature that can be read")]
    Missing,
    /// It was signed too long ago, or in the future: a copy of an old one, perhaps.
    #[error("it was signed too long ago, or by a clock that is ahead")]
    Stale,
    /// Signed with none of the secrets, or changed since.
    #[error("the signature is wrong")]
    Wrong,
    /// Signed well, but by somebody else, or for somebody else.
    #[error("it was signed by another sender, or for another receiver")]
    Stranger,
    /// Nothing is known that could prove it. Ours to mend.
    #[error("there is no secret to hold it against")]
    NoSecret,
    /// The key that signed it is not at hand. Ours to fetch.
    #[error("the key that signed it is not known yet")]
    NoKey,
}

impl NotProven {
    /// All of them that are the sender's.
    pub const THEIRS: [Self; 4] = [Self::Missing, Self::Stale, Self::Wrong, Self::Stranger];

    /// Whether trouble of ours keeps it from being judged.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::NoSecret | Self::NoKey)
    }

    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "no_signature",
            Self::Stale => "stale",
            Self::Wrong => "wrong_signature",
            Self::Stranger => "wrong_sender",
            Self::NoSecret => "no_secret",
            Self::NoKey => "no_key",
        }
    }
}

/// A proven delivery that says nothing which can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub &'static str);

/// What is answered to a request that only asks whether somebody is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// This text, as plain text.
    Text(String),
    /// This JSON.
    Json(Value),
}

impl Challenge {
    /// An answer repeats no more than this of what was asked.
    pub const LONGEST: usize = 512;

    /// A text that may be repeated to anybody: short, and nothing that is more than text.
    pub fn echo(text: &str) -> Option<String> {
        let plain = !text.is_empty() && text.len() <= Self::LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic());
        plain.then(|| text.to_owned())
    }
}

/// What a delivery means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What tells it from every other of its connector.
    pub key: Key,
    /// The provider's own word for what happened.
    pub kind: String,
    /// The shared word.
    pub topic: Topic,
    /// What it is about there: a ticket's id.
    pub subject: Option<String>,
    /// The account that it says it is about; `None`: it does not say.
    pub account: Option<String>,
    /// Who did it, as far as it says.
    pub author: Author,
    /// When it happened, where it says so.
    pub at: Option<DateTime<Utc>>,
}

/// Who did what an event tells of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Author {
    /// It does not say.
    #[default]
    Unknown,
    /// Somebody from outside, by the provider's id where it is known.
    Customer(Option<String>),
    /// Somebody who works there, by the provider's id where it is known.
    Staff(Option<String>),
    /// Somebody, by the provider's id, of whom it does not say which of the two.
    Somebody(String),
    /// A program that uses the provider's API: ours, or another one.
    Program,
}

impl Author {
    /// The provider's id.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Unknown | Self::Program => None,
            Self::Customer(id) | Self::Staff(id) => id.as_deref(),
            Self::Somebody(id) => Some(id),
        }
    }

    /// The stable word in API and database; `None`: it is not known what they are.
    pub fn as_str(&self) -> Option<&'static str> {
        match self {
            Self::Unknown | Self::Somebody(_) => None,
            Self::Customer(_) => Some("customer"),
            Self::Staff(_) => Some("staff"),
            Self::Program => Some("program"),
        }
    }
}

/// What tells an event from every other. It comes from what the proof covers, never from what a sender could change on the
/// way (WD-02, WV-04).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The provider's id.
    Id(String),
    /// A digest of what it says, since it has no id. The same again within the window is the same event, later it is
    /// another one; `None`: it stays the same for ever.
    Digest(String, Option<Duration>),
}

/// What happened, in the word that all providers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words say it")]
pub enum Topic {
    TicketCreated,
    TicketReplied,
    TicketChanged,
    OrderCreated,
    OrderPaid,
    OrderFulfilled,
    OrderRefunded,
    OrderCancelled,
    OrderChanged,
    MailChanged,
    CalendarChanged,
    FilesChanged,
    AccountRemoved,
    /// Something that no other provider has a word for.
    Other,
}

impl Topic {
    /// Those of tickets, which agents can wait for.
    pub const TICKETS: [Self; 3] = [Self::TicketCreated, Self::TicketReplied, Self::TicketChanged];

    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::TicketCreated,
        Self::TicketReplied,
        Self::TicketChanged,
        Self::OrderCreated,
        Self::OrderPaid,
        Self::OrderFulfilled,
        Self::OrderRefunded,
        Self::OrderCancelled,
        Self::OrderChanged,
        Self::MailChanged,
        Self::CalendarChanged,
        Self::FilesChanged,
        Self::AccountRemoved,
        Self::Other,
    ];

    /// The stable word: `ticket.created`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TicketCreated => "ticket.created",
            Self::TicketReplied => "ticket.replied",
            Self::TicketChanged => "ticket.changed",
            Self::OrderCreated => "order.created",
            Self::OrderPaid => "order.paid",
            Self::OrderFulfilled => "order.fulfilled",
            Self::OrderRefunded => "order.refunded",
            Self::OrderCancelled => "order.cancelled",
            Self::OrderChanged => "order.changed",
            Self::MailChanged => "mail.changed",
            Self::CalendarChanged => "calendar.changed",
            Self::FilesChanged => "files.changed",
            Self::AccountRemoved => "account.removed",
            Self::Other => "other",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.as_str() == word)
    }
}

/// A text or a number of an answer, as a text; `None` for an empty one, and for `None`, which is how templates write what
/// is not there.
pub fn text_of(value: Option<&Value>) -> Option<String> {
    let text = match value? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty() && text != "None" && text.len() <= 200).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_read_back() {
        for topic in Topic::ALL {
            assert_eq!(Topic::parse(topic.as_str()), Some(topic));
        }
        assert_eq!(Topic::parse("ticket"), None);
    }

    /// WV-05: no secret is no open door, and an empty one is no secret.
    #[test]
    fn an_empty_secret_proves_nothing() {
        let proofs = |secrets| Proofs { secrets, keys: &[], url: "" };
        let empty = [SecretString::from("")];
        for told in [None, Some(""), Some("x")] {
            assert_eq!(proofs(&[]).is_secret(told), Err(NotProven::NoSecret));
            assert_eq!(proofs(&empty).is_secret(told), Err(NotProven::NoSecret));
        }
        let two = [SecretString::from("now"), SecretString::from("before")];
        assert_eq!(proofs(&two).is_secret(Some("now")), Ok(()));
        assert_eq!(proofs(&two).is_secret(Some("before")), Ok(()));
        assert_eq!(proofs(&two).is_secret(Some("")), Err(NotProven::Wrong));
        assert_eq!(proofs(&two).is_secret(None), Err(NotProven::Missing));
    }

    #[test]
    fn only_plain_text_is_repeated_to_a_stranger() {
        assert_eq!(Challenge::echo("a-b_c.1"), Some("a-b_c.1".to_owned()));
        for text in ["", "a b", "é", "\n", &"a".repeat(Challenge::LONGEST + 1)] {
            assert_eq!(Challenge::echo(text), None);
        }
    }
}
