//! Freshdesk's webhooks are the action of an automation rule, which a person makes. Nothing signs them and they have no id: a
//! secret header of ours proves them, and what they say tells them apart. The README has the sources.

use std::time::Duration;

use holdfast_core::webhook::{
    Author, Delivery, Event, Key, NotProven, Proofs, Scope, SecretFrom, Topic, Unreadable, Webhook, WebhookFacts,
    digest_of, text_of,
};

/// What carries the secret.
const HEADER: &str = "x-holdfast-secret";
/// A delivery that was not answered in time comes again after 5 minutes, and is the same event.
const WINDOW: Duration = Duration::from_mins(10);

static FACTS: WebhookFacts = WebhookFacts {
    id: "rule",
    name: "Automation rule",
    scope: Scope::Connector,
    secret: SecretFrom::Us,
    secret_label: "Value of X-Holdfast-Secret",
    steps: &[
        "In Freshdesk, open Admin, Workflows, Automations, and make one rule for ticket creation and one for ticket updates.",
        "As the action of each, choose Trigger webhook, with POST and {url} as its URL.",
        "Add the custom header X-Holdfast-Secret; its value is {secret}.",
        "Choose JSON and Advanced, and paste the body below as it is.",
        "Let the rule for updates leave out what the agent of this connector does, or its own replies come back as events.",
    ],
    body: Some(
        r#"{"ticket_id":"{{ticket.id}}","event":"{{triggered_event}}","status":"{{ticket.status}}","at":"{{ticket.updated_at}}"}"#,
    ),
    own_limit: None,
    parks: 1,
};

pub(crate) static RULE: Rule = Rule;

pub(crate) struct Rule;

impl Webhook for Rule {
    fn facts(&self) -> &WebhookFacts {
        &FACTS
    }

    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        proofs.is_secret(delivery.header(HEADER))
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable> {
        let body = delivery.json()?;
        // The simple way of writing a body wraps it.
        let fields = body.get("freshdesk_webhook").unwrap_or(&body);
        let subject = text_of(fields.get("ticket_id")).ok_or(Unreadable("it has no ticket_id"))?;
        let kind = text_of(fields.get("event").or_else(|| fields.get("triggered_event")));
        let kind = kind.unwrap_or_else(|| "rule".to_owned());
        let word = kind.to_lowercase();
        let topic = if word.contains("created") && !word.contains("note") {
            Topic::TicketCreated
        } else if word.contains("reply") || word.contains("note") {
            Topic::TicketReplied
        } else {
            Topic::TicketChanged
        };
        let key = Key::Digest(digest_of(&[], fields), Some(WINDOW));
        Ok(Event { key, kind, topic, subject: Some(subject), account: None, author: Author::Unknown, at: None })
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
        RULE.read(&Delivery { method: &Method::POST, query: None, headers: &headers, body, now: DateTime::UNIX_EPOCH })
    }

    /// WD-09: the same again, in whatever order of its fields, is the same; another change is not.
    #[test]
    fn what_it_says_tells_events_apart() {
        let one = read(r#"{"ticket_id":"7","event":"status","at":"10:00:00"}"#).unwrap();
        assert_eq!(one, read(r#"{"at":"10:00:00","event":"status","ticket_id":"7"}"#).unwrap());
        assert_eq!(
            one.key,
            read(r#"{"freshdesk_webhook":{"at":"10:00:00","event":"status","ticket_id":"7"}}"#).unwrap().key
        );
        assert_ne!(one.key, read(r#"{"ticket_id":"7","event":"priority","at":"10:00:00"}"#).unwrap().key);
        assert_eq!((one.topic, one.subject.as_deref()), (Topic::TicketChanged, Some("7")));
        for (event, topic) in [("ticket created", Topic::TicketCreated), ("reply sent", Topic::TicketReplied)] {
            assert_eq!(read(&format!(r#"{{"ticket_id":7,"event":"{event}"}}"#)).unwrap().topic, topic);
        }
        for body in ["", r#"{"ticket_id":"a"quote"}"#, r#"{"ticket_id":""}"#] {
            assert!(read(body).is_err());
        }
    }
}
