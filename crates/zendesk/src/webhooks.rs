//! Zendesk's webhooks: signed over timestamp and body, with an id of the event in the body.
//! <https://developer.zendesk.com/documentation/webhooks/verifying/>

use std::{borrow::Cow, sync::LazyLock, time::Duration};

use holdfast_core::webhook::{
    Algorithm, Author, Delivery, Encoding, Event, Key, NotProven, Proofs, Scope, SecretFrom, Signature, Stamp,
    StampUnit, Subscriptions, Topic, Unreadable, Webhook, WebhookFacts, digest_of, text_of,
};
use http::HeaderName;
use serde_json::Value;

use crate::subscriptions;

/// Zendesk documents no tolerance. A retry after an outage may carry its first time.
const TOLERANCE: Duration = Duration::from_mins(10);
/// What a trigger's own template brings has no id. Time-outs are tried again within minutes.
const WINDOW: Duration = Duration::from_mins(10);

static FACTS: WebhookFacts = WebhookFacts {
    id: "events",
    name: "Ticket events",
    scope: Scope::Connector,
    secret: SecretFrom::Provider,
    secret_label: "Signing secret",
    steps: &[
        "In Zendesk's Admin Center, open Apps and integrations, then Webhooks, and choose Create webhook.",
        "Choose Zendesk events and select the ticket events that your agents wait for.",
        "Paste {url} as the endpoint URL, with POST and JSON, without authentication.",
        "Save it, choose Reveal secret, and bring the signing secret here.",
    ],
    body: None,
    own_limit: None,
    parks: 1,
};

static SIGNATURE: LazyLock<Signature> = LazyLock::new(|| Signature {
    header: HeaderName::from_static("x-zendesk-webhook-signature"),
    algorithm: Algorithm::Sha256,
    encoding: Encoding::Base64,
    prefix: Cow::Borrowed(""),
    before: Cow::Borrowed("{timestamp}"),
    stamp: Some(Stamp {
        header: HeaderName::from_static("x-zendesk-webhook-signature-timestamp"),
        unit: StampUnit::Text,
        tolerance: TOLERANCE,
    }),
    id: None,
    no_body: Cow::Borrowed(""),
});

/// The one way.
pub(crate) static EVENTS: Events = Events;

pub(crate) struct Events;

impl Webhook for Events {
    fn facts(&self) -> &WebhookFacts {
        &FACTS
    }

    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        SIGNATURE.verify(proofs, delivery)
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable> {
        let body = delivery.json()?;
        let Some(kind) = text_of(body.get("type")) else { return trigger(&body) };
        let id = text_of(body.get("id")).ok_or(Unreadable("the event has no id"))?;
        let word = kind.strip_prefix("zen:event-type:").unwrap_or(&kind);
        let topic = match word {
            "ticket.created" => Topic::TicketCreated,
            "ticket.comment_added" => Topic::TicketReplied,
            ticket if ticket.starts_with("ticket.") => Topic::TicketChanged,
            _ => Topic::Other,
        };
        let subject = text_of(body.pointer("/detail/id"));
        let (key, kind, author) = (Key::Id(id), word.to_owned(), author(&body));
        let at = text_of(body.get("time")).and_then(|time| time.parse().ok());
        Ok(Event { key, kind, topic, subject, account: None, author, at })
    }

    fn subscriptions(&self) -> Option<&dyn Subscriptions> {
        Some(&subscriptions::KEPT)
    }
}

/// Of a comment, who wrote it; of everything else, who acted.
fn author(body: &Value) -> Author {
    let wrote = body.pointer("/event/comment/author");
    let id = text_of(wrote.and_then(|author| author.get("id")));
    match wrote.and_then(|author| author.get("is_staff")).and_then(Value::as_bool) {
        Some(true) => Author::Staff(id),
        Some(false) => Author::Customer(id),
        None => id.or_else(|| text_of(body.pointer("/detail/actor_id"))).map_or(Author::Unknown, Author::Somebody),
    }
}

/// What a trigger sends is its author's own template: a ticket is all that is looked for.
fn trigger(body: &Value) -> Result<Event, Unreadable> {
    let subject = text_of(body.get("ticket_id").or_else(|| body.pointer("/ticket/id")));
    let subject = subject.ok_or(Unreadable("it is neither an event nor has it a ticket_id"))?;
    let kind = text_of(body.get("event")).unwrap_or_else(|| "trigger".to_owned());
    let key = Key::Digest(digest_of(&[], body), Some(WINDOW));
    let (topic, author) = (Topic::TicketChanged, Author::Unknown);
    Ok(Event { key, kind, topic, subject: Some(subject), account: None, author, at: None })
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use http::{HeaderMap, Method};
    use secrecy::SecretString;

    use super::*;

    /// With which Zendesk signs the tests of a webhook that is not saved yet; from the page above.
    const TEST_SECRET: &str = "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==";
    const BODY: &str = r#"{"account_id":123,"id":"evt-1","type":"zen:event-type:ticket.created","subject":"zen:ticket:42","time":"2026-11-29T10:00:00Z","zendesk_event_version":"2022-11-06","event":{},"detail":{"id":"42"}}"#;

    fn verify(stamp: &str, signature: &str, body: &str, now: &str) -> Result<(), NotProven> {
        let headers: HeaderMap =
            [("x-zendesk-webhook-signature", signature), ("x-zendesk-webhook-signature-timestamp", stamp)]
                .into_iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect();
        let secrets = [SecretString::from(TEST_SECRET)];
        let proofs = Proofs { secrets: &secrets, keys: &[], url: "" };
        let now: DateTime<Utc> = now.parse().unwrap();
        let delivery = Delivery { method: &Method::POST, query: None, headers: &headers, body: body.as_bytes(), now };
        EVENTS.verify(&proofs, &delivery)
    }

    /// The signatures were made with Python's `hmac`, as the page says how.
    #[test]
    fn timestamp_and_body_are_what_is_signed() {
        let stamp = "2026-11-29T10:00:01Z";
        let signature = "S6SrjGu/pQbTsvVH5V5CFIdqpVqcrUXk0tTZerlIyx8=";
        assert_eq!(verify(stamp, signature, BODY, "2026-11-29T10:05:00Z"), Ok(()));
        assert_eq!(verify(stamp, "tyK08pHYRO2E7/Rc2skTve2Y8embyX2YoL2CkwsoBmg=", "", "2026-11-29T10:05:00Z"), Ok(()));
        for (stamp, body, now, expected) in [
            (stamp, BODY, "2026-11-29T10:11:00Z", NotProven::Stale),
            ("2026-11-29T10:00:02Z", BODY, "2026-11-29T10:00:02Z", NotProven::Wrong),
            (stamp, &BODY.replace("42", "43"), "2026-11-29T10:00:01Z", NotProven::Wrong),
            ("1795946401", BODY, "2026-11-29T10:00:01Z", NotProven::Missing),
        ] {
            assert_eq!(verify(stamp, signature, body, now), Err(expected));
        }
    }

    #[test]
    fn an_event_says_what_it_is_about_in_the_shared_words() {
        let read = |body: &str| {
            let headers = HeaderMap::new();
            let body = body.as_bytes();
            EVENTS.read(&Delivery {
                method: &Method::POST,
                query: None,
                headers: &headers,
                body,
                now: DateTime::UNIX_EPOCH,
            })
        };
        let event = read(BODY).unwrap();
        assert_eq!((event.key, event.topic), (Key::Id("evt-1".to_owned()), Topic::TicketCreated));
        assert_eq!((event.kind.as_str(), event.subject.as_deref()), ("ticket.created", Some("42")));
        assert_eq!(event.at, "2026-11-29T10:00:00Z".parse().ok());
        for (word, topic) in [
            ("ticket.comment_added", Topic::TicketReplied),
            ("ticket.status_changed", Topic::TicketChanged),
            ("article.published", Topic::Other),
        ] {
            assert_eq!(read(&BODY.replace("ticket.created", word)).unwrap().topic, topic);
        }
        let commented = BODY.replace(r#""event":{}"#, r#""event":{"comment":{"author":{"id":"7","is_staff":false}}}"#);
        assert_eq!(read(&commented).unwrap().author, Author::Customer(Some("7".to_owned())));
        let staff = commented.replace("false", "true");
        assert_eq!(read(&staff).unwrap().author, Author::Staff(Some("7".to_owned())));
        let acted = BODY.replace(r#""detail":{"#, r#""detail":{"actor_id":"9","#);
        assert_eq!(read(&acted).unwrap().author, Author::Somebody("9".to_owned()));
        let trigger = read(r#"{"ticket_id":"7","event":"solved"}"#).unwrap();
        assert_eq!((trigger.kind.as_str(), trigger.subject.as_deref()), ("solved", Some("7")));
        assert!(matches!(trigger.key, Key::Digest(_, Some(WINDOW))));
        for body in ["", "{}", "[]", r#"{"type":"zen:event-type:ticket.created"}"#, "{"] {
            assert!(read(body).is_err(), "{body}");
        }
    }
}
