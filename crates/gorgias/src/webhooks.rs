//! Gorgias' HTTP integrations. What they send is a template of ours, and nothing signs it: a secret header of ours is all that
//! proves a delivery. <https://developers.gorgias.com/reference/create-integration>

use std::time::Duration;

use holdfast_core::webhook::{
    Author, Delivery, Event, Key, NotProven, OwnLimit, Proofs, Scope, SecretFrom, Subscriptions, Topic, Unreadable,
    Webhook, WebhookFacts, digest_of, text_of,
};

use crate::subscriptions;

/// What carries the secret.
pub(crate) const HEADER: &str = "x-holdfast-secret";
/// Time-outs are tried again within minutes.
const WINDOW: Duration = Duration::from_mins(10);

static FACTS: WebhookFacts = WebhookFacts {
    id: "http",
    name: "HTTP integration",
    scope: Scope::Connector,
    secret: SecretFrom::Us,
    secret_label: "Value of X-Holdfast-Secret",
    steps: &[
        "In Gorgias, open Settings, HTTP integration, and add one.",
        "Choose the triggers Ticket created, Ticket updated and Ticket message created.",
        "Paste {url} as its URL, with POST and JSON as request and response type.",
        "Add the header X-Holdfast-Secret; its value is {secret}.",
        "Paste the body below as it is.",
    ],
    body: Some(
        r#"{"event":"{{event.type}}","event_id":"{{event.id}}","ticket_id":"{{ticket.id}}","message_id":"{{message.id}}","from_agent":"{{message.from_agent}}"}"#,
    ),
    own_limit: Some(OwnLimit { failures: 100, then: "Gorgias switches the integration off" }),
    parks: 1,
};

pub(crate) static HTTP: Http = Http;

pub(crate) struct Http;

impl Webhook for Http {
    fn facts(&self) -> &WebhookFacts {
        &FACTS
    }

    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        proofs.is_secret(delivery.header(HEADER))
    }

    /// Values are texts, and what is missing is an empty one or `None`. Words come with hyphens or underscores.
    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable> {
        let body = delivery.json()?;
        let subject = text_of(body.get("ticket_id")).ok_or(Unreadable("it has no ticket_id"))?;
        let kind = text_of(body.get("event")).map(|word| word.replace('_', "-"));
        let kind = kind.ok_or(Unreadable("it has no event"))?;
        let topic = match kind.as_str() {
            "ticket-created" => Topic::TicketCreated,
            "ticket-message-created" => Topic::TicketReplied,
            _ => Topic::TicketChanged,
        };
        let message = text_of(body.get("message_id")).filter(|_| topic == Topic::TicketReplied);
        let id = text_of(body.get("event_id"))
            .map(|id| format!("event:{id}"))
            .or_else(|| message.map(|id| format!("message:{id}")));
        let key = id.map_or_else(|| Key::Digest(digest_of(&[], &body), Some(WINDOW)), Key::Id);
        let author = match body.get("from_agent").map(ToString::to_string).filter(|_| topic == Topic::TicketReplied) {
            Some(word) if word.to_lowercase().contains("true") => Author::Staff(None),
            Some(word) if word.to_lowercase().contains("false") => Author::Customer(None),
            _ => Author::Unknown,
        };
        Ok(Event { key, kind, topic, subject: Some(subject), account: None, author, at: None })
    }

    fn subscriptions(&self) -> Option<&dyn Subscriptions> {
        Some(&subscriptions::KEPT)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use http::{HeaderMap, Method};

    use super::*;

    fn read(body: &str) -> Result<Event, Unreadable> {
        let headers = HeaderMap::new();
        let body = body.as_bytes();
        HTTP.read(&Delivery { method: &Method::POST, query: None, headers: &headers, body, now: DateTime::UNIX_EPOCH })
    }

    #[test]
    fn a_template_that_was_filled_in_leniently_is_read_leniently() {
        let event = read(r#"{"event":"ticket_message_created","event_id":"None","ticket_id":"7","message_id":"9"}"#);
        let event = event.unwrap();
        assert_eq!((event.key, event.topic), (Key::Id("message:9".to_owned()), Topic::TicketReplied));
        let event = read(r#"{"event":"ticket-updated","event_id":"","ticket_id":7,"message_id":"9"}"#).unwrap();
        assert!(matches!(event.key, Key::Digest(_, Some(WINDOW))), "the last message is not what has changed");
        assert_eq!((event.topic, event.subject.as_deref()), (Topic::TicketChanged, Some("7")));
        let event = read(r#"{"event":"ticket-created","event_id":"5","ticket_id":"7"}"#).unwrap();
        assert_eq!((event.key, event.topic), (Key::Id("event:5".to_owned()), Topic::TicketCreated));
        for (word, author) in [
            (r#""True""#, Author::Staff(None)),
            ("true", Author::Staff(None)),
            (r#""False""#, Author::Customer(None)),
            (r#""""#, Author::Unknown),
        ] {
            let body = format!(r#"{{"event":"ticket-message-created","ticket_id":"7","from_agent":{word}}}"#);
            assert_eq!(read(&body).unwrap().author, author, "{word}");
        }
        for body in ["", "{}", r#"{"event":"ticket-created","ticket_id":"None"}"#] {
            assert!(read(body).is_err());
        }
    }
}
