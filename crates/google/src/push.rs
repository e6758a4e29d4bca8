//! What Google sends by itself: Gmail's push, which Pub/Sub delivers with a token of Google's, and the channels of Calendar and
//! Drive, which repeat a secret of ours.

mod token;

use base64::{
    Engine as _,
    engine::DecodePaddingMode,
    engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig},
};
use holdfast_core::{
    provider::{Hosts, below},
    webhook::{
        Author, Delivery, Event, Key, NotProven, Proofs, Scope, SecretFrom, Subscriptions, Topic, Unreadable, Webhook,
        WebhookFacts, text_of,
    },
};
use serde_json::Value;
use url::Url;

use crate::subscriptions::{self, Watch};

static PUSH_FACTS: WebhookFacts = WebhookFacts {
    id: "gmail-push",
    name: "Gmail push",
    scope: Scope::App,
    secret: SecretFrom::Sender,
    secret_label: "Service account of the push subscription",
    steps: &[
        "In Google Cloud, make a Pub/Sub topic that gmail-api-push@system.gserviceaccount.com may publish to.",
        "Make a push subscription of it to {url}, with authentication enabled, and with {url} as its audience.",
        "Bring the e-mail address of the service account that you choose there here.",
        "For each mailbox, call users.watch of Gmail with that topic; it ends after 7 days.",
    ],
    body: None,
    own_limit: None,
    parks: 1,
};

static CHANNEL_FACTS: WebhookFacts = WebhookFacts {
    id: "channel",
    name: "Calendar or Drive channel",
    scope: Scope::Connector,
    secret: SecretFrom::Us,
    secret_label: "Channel token",
    steps: &[
        "Call events.watch of Calendar, or changes.watch of Drive, with type web_hook.",
        "Give {url} as the address; the token is {secret}.",
        "A channel ends by itself: make a new one before that.",
    ],
    body: None,
    own_limit: None,
    parks: 1,
};

/// Both alphabets, with or without padding: Pub/Sub's is not told.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, LENIENT);

/// Gmail's push. <https://developers.google.com/workspace/gmail/api/guides/push>
#[derive(Clone, Debug)]
pub(crate) struct Push {
    pub(crate) hosts: Hosts,
    /// `None`: the operator has named no topic.
    pub(crate) watch: Option<Watch>,
}

impl Webhook for Push {
    fn facts(&self) -> &WebhookFacts {
        &PUSH_FACTS
    }

    /// The audience is the address that was given to Google.
    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        token::verify(proofs, delivery)
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable> {
        let body = delivery.json()?;
        let message = body.get("message").ok_or(Unreadable("it has no message"))?;
        let id = text_of(message.get("messageId").or_else(|| message.get("message_id")));
        let id = id.ok_or(Unreadable("the message has no id"))?;
        let data = message.get("data").and_then(Value::as_str).ok_or(Unreadable("the message has no data"))?;
        let data = STANDARD.decode(data.replace('-', "+").replace('_', "/"));
        let data = data.ok().and_then(|data| serde_json::from_slice::<Value>(&data).ok());
        let data = data.ok_or(Unreadable("the message's data is no JSON in base64"))?;
        let account = text_of(data.get("emailAddress")).ok_or(Unreadable("it names no mailbox"))?;
        Ok(Event {
            key: Key::Id(id),
            kind: "mailbox_changed".to_owned(),
            topic: Topic::MailChanged,
            subject: text_of(data.get("historyId")),
            account: Some(account.to_lowercase()),
            author: Author::Unknown,
            at: None,
        })
    }

    fn subscriptions(&self) -> Option<&dyn Subscriptions> {
        self.watch.as_ref().map(|watch| watch as _)
    }

    fn keys_url(&self) -> Option<Url> {
        Some(below(&self.hosts.at("www.googleapis.com"), "oauth2/v3/certs"))
    }
}

/// Channels. <https://developers.google.com/workspace/calendar/api/guides/push>
pub(crate) static CHANNEL: Channel = Channel;

pub(crate) struct Channel;

impl Webhook for Channel {
    fn facts(&self) -> &WebhookFacts {
        &CHANNEL_FACTS
    }

    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        proofs.is_secret(delivery.header("x-goog-channel-token"))
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable> {
        let header = |name: &str| delivery.header(name).filter(|text| !text.is_empty() && text.len() <= 500);
        let channel = header("x-goog-channel-id").ok_or(Unreadable("it names no channel"))?;
        let number = header("x-goog-message-number").ok_or(Unreadable("it has no number"))?;
        let state = header("x-goog-resource-state").ok_or(Unreadable("it names no state"))?;
        let resource = header("x-goog-resource-uri").unwrap_or_default();
        let topic = match state {
            // It only says that the channel is open.
            "sync" => Topic::Other,
            _ if resource.contains("/calendar/") => Topic::CalendarChanged,
            _ if resource.contains("/drive/") => Topic::FilesChanged,
            _ => Topic::Other,
        };
        Ok(Event {
            key: Key::Id(format!("{channel}:{number}")),
            kind: state.to_owned(),
            topic,
            subject: header("x-goog-resource-id").map(str::to_owned),
            account: None,
            author: Author::Unknown,
            at: None,
        })
    }

    fn subscriptions(&self) -> Option<&dyn Subscriptions> {
        Some(&subscriptions::CHANNEL)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use http::{HeaderMap, HeaderName, Method};

    use super::*;

    fn delivery<'a>(headers: &'a HeaderMap, body: &'a str) -> Delivery<'a> {
        Delivery { method: &Method::POST, query: None, headers, body: body.as_bytes(), now: DateTime::UNIX_EPOCH }
    }

    #[test]
    fn a_push_names_a_mailbox_in_either_alphabet() {
        let push = Push { hosts: Hosts::production(), watch: None };
        let headers = HeaderMap::new();
        // {"emailAddress":"Ada@example.com","historyId":9876543210}, and one whose base64 has letters that differ.
        let data = "eyJlbWFpbEFkZHJlc3MiOiJBZGFAZXhhbXBsZS5jb20iLCJoaXN0b3J5SWQiOjk4NzY1NDMyMTB9";
        let read = |data: &str| {
            let body = format!(r#"{{"message":{{"data":"{data}","messageId":"42"}},"subscription":"projects/p/s"}}"#);
            push.read(&delivery(&headers, &body))
        };
        let event = read(data).unwrap();
        assert_eq!((event.key, event.topic), (Key::Id("42".to_owned()), Topic::MailChanged));
        assert_eq!(event.account.as_deref(), Some("ada@example.com"));
        assert_eq!(event.subject.as_deref(), Some("9876543210"));
        let odd = serde_json::json!({ "emailAddress": "ä?>~@example.com" }).to_string();
        for engine in [base64::engine::general_purpose::STANDARD, base64::engine::general_purpose::URL_SAFE] {
            let encoded = engine.encode(&odd);
            for data in [encoded.as_str(), encoded.trim_end_matches('=')] {
                assert_eq!(read(data).unwrap().account.as_deref(), Some("ä?>~@example.com"));
            }
        }
        for data in ["", "!", "e30="] {
            assert!(read(data).is_err());
        }
        assert!(push.read(&delivery(&headers, "{}")).is_err());
    }

    #[test]
    fn a_channel_is_told_by_its_headers() {
        let headers: HeaderMap = [
            ("x-goog-channel-id", "chan"),
            ("x-goog-message-number", "7"),
            ("x-goog-resource-state", "exists"),
            ("x-goog-resource-uri", "https://www.googleapis.com/calendar/v3/calendars/primary/events"),
        ]
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
        let event = CHANNEL.read(&delivery(&headers, "")).unwrap();
        assert_eq!((event.key, event.topic), (Key::Id("chan:7".to_owned()), Topic::CalendarChanged));
        assert!(CHANNEL.read(&delivery(&HeaderMap::new(), "")).is_err());
    }
}
