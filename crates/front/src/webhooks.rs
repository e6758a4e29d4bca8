//! Front's webhooks: an application's, one address for all companies that allowed it, and a rule's, which a company makes by
//! hand. <https://dev.frontapp.com/docs/application-webhooks>, <https://dev.frontapp.com/docs/rule-webhooks>

use std::{borrow::Cow, sync::LazyLock, time::Duration};

use holdfast_core::webhook::{
    Algorithm, Author, Challenge, Delivery, Encoding, Event, Key, NotProven, Proofs, Scope, SecretFrom, Signature,
    Stamp, StampUnit, Topic, Unreadable, Webhook, WebhookFacts, text_of,
};
use http::HeaderName;
use serde_json::{Value, json};

use crate::{account, model::read_moment};

/// <https://dev.frontapp.com/docs/security-1>
const TOLERANCE: Duration = Duration::from_mins(5);

static APP_FACTS: WebhookFacts = WebhookFacts {
    id: "app",
    name: "Application webhook",
    scope: Scope::App,
    secret: SecretFrom::Provider,
    secret_label: "App secret",
    steps: &[
        "In Front, open Settings, Developers, and the app that is used here.",
        "Copy the app secret from its basic information and bring it here. It is not the OAuth client secret.",
        "Add the feature Webhooks, paste {url} as its address and choose the events; Front asks this address at once.",
    ],
    body: None,
    own_limit: None,
    parks: 1,
};

static RULE_FACTS: WebhookFacts = WebhookFacts {
    id: "rule",
    name: "Rule webhook",
    scope: Scope::Connector,
    secret: SecretFrom::Provider,
    secret_label: "API secret",
    steps: &[
        "In Front, open Settings, Integrations, Rules & Webhooks, and bring the API secret from there here.",
        "Make a rule for what your agents wait for, with the action Send to a webhook.",
        "Paste {url} as its address, and choose to send the full event.",
    ],
    body: None,
    own_limit: None,
    parks: 1,
};

static APP_SIGNATURE: LazyLock<Signature> = LazyLock::new(|| Signature {
    header: HeaderName::from_static("x-front-signature"),
    algorithm: Algorithm::Sha256,
    encoding: Encoding::Base64,
    prefix: Cow::Borrowed(""),
    before: Cow::Borrowed("{timestamp}:"),
    stamp: Some(Stamp {
        header: HeaderName::from_static("x-front-request-timestamp"),
        unit: StampUnit::Millis,
        tolerance: TOLERANCE,
    }),
    id: None,
    // What JavaScript makes of no body; the page says so.
    no_body: Cow::Borrowed("undefined"),
});

static RULE_SIGNATURE: LazyLock<Signature> = LazyLock::new(|| Signature {
    algorithm: Algorithm::Sha1,
    ..Signature::of_body(HeaderName::from_static("x-front-signature"), Encoding::Base64)
});

pub(crate) static APP: App = App;
pub(crate) static RULE: Rule = Rule;

pub(crate) struct App;
pub(crate) struct Rule;

impl Webhook for App {
    fn facts(&self) -> &WebhookFacts {
        &APP_FACTS
    }

    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        APP_SIGNATURE.verify(proofs, delivery)
    }

    fn challenge(&self, delivery: &Delivery<'_>) -> Option<Challenge> {
        let asked = delivery.header("x-front-challenge").and_then(Challenge::echo)?;
        Some(Challenge::Json(json!({ "challenge": asked })))
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable> {
        let body = delivery.json()?;
        let account = text_of(body.pointer("/authorization/id")).ok_or(Unreadable("it names no company"))?;
        let payload = body.get("payload").ok_or(Unreadable("it has no payload"))?;
        Ok(Event { account: Some(account), ..event(payload)? })
    }

    fn is_about(&self, told: &str, account: &str, account_id: Option<&str>) -> bool {
        account_id == Some(told) || account::is(account, told, told)
    }
}

impl Webhook for Rule {
    fn facts(&self) -> &WebhookFacts {
        &RULE_FACTS
    }

    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        RULE_SIGNATURE.verify(proofs, delivery)
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable> {
        event(&delivery.json()?)
    }
}

fn event(payload: &Value) -> Result<Event, Unreadable> {
    let id = text_of(payload.get("id")).ok_or(Unreadable("the event has no id"))?;
    let kind = text_of(payload.get("type")).ok_or(Unreadable("the event has no type"))?;
    let topic = match kind.as_str() {
        // A conversation begins with a message like any other: whether it is the first, its reading tells.
        "inbound" | "outbound" | "out_reply" | "comment" | "mention" => Topic::TicketReplied,
        _ => Topic::TicketChanged,
    };
    let by = text_of(payload.pointer("/source/data/id"));
    let author = match (kind.as_str(), payload.pointer("/source/_meta/type").and_then(Value::as_str)) {
        (_, Some("api" | "oauth_client")) => Author::Program,
        ("inbound", _) => Author::Customer(None),
        (_, Some("teammate")) | ("outbound" | "out_reply" | "comment" | "mention", _) => Author::Staff(by),
        _ => Author::Unknown,
    };
    let subject = text_of(payload.pointer("/conversation/id"));
    let at = payload.get("emitted_at").and_then(read_moment);
    Ok(Event { key: Key::Id(id), kind, topic, subject, account: None, author, at })
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use http::{HeaderMap, Method};
    use secrecy::SecretString;

    use super::*;

    const BODY: &str = r#"{"type":"inbound_received","authorization":{"id":"cmp_1"},"payload":{"id":"evt_9","type":"inbound","conversation":{"id":"cnv_7"}}}"#;
    const STAMP: &str = "1790000000123";

    fn verify(
        way: &dyn Webhook,
        secret: &str,
        signature: &str,
        stamp: &str,
        method: &Method,
        body: &str,
        at: i64,
    ) -> Result<(), NotProven> {
        let headers: HeaderMap = [("x-front-signature", signature), ("x-front-request-timestamp", stamp)]
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let secrets = [SecretString::from(secret)];
        let now = DateTime::<Utc>::from_timestamp_millis(at).unwrap();
        let delivery = Delivery { method, query: None, headers: &headers, body: body.as_bytes(), now };
        way.verify(&Proofs { secrets: &secrets, keys: &[], url: "" }, &delivery)
    }

    /// WV-09. The signatures were made with Python's `hmac`, as the pages above say how.
    #[test]
    fn timestamp_colon_and_exact_body_are_what_an_application_signs() {
        let signature = "Wao3QNvbxgxYO2QFFJ8mi9Duqfo06g3gGnDjQ29pGcs=";
        let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(BODY).unwrap()).unwrap();
        let at = 1_790_000_000_123;
        for (stamp, body, now, expected) in [
            (STAMP, BODY, at, Ok(())),
            (STAMP, BODY, at + 300_000, Ok(())),
            (STAMP, &pretty, at, Err(NotProven::Wrong)),
            (STAMP, BODY, at + 360_000, Err(NotProven::Stale)),
            ("1790000000124", BODY, at, Err(NotProven::Wrong)),
        ] {
            assert_eq!(verify(&APP, "front-app-secret", signature, stamp, &Method::POST, body, now), expected);
        }
        for method in [&Method::GET, &Method::DELETE] {
            let signature = "B/sSoK0FvMJKt3cE/0FjK3+qgo6PJDheebf+iUXfeiA=";
            assert_eq!(verify(&APP, "front-app-secret", signature, STAMP, method, "", at), Ok(()));
        }
    }

    #[test]
    fn the_body_alone_is_what_a_rule_signs_with_sha1() {
        let signature = "Cs0bDgTokVnfFKwBU57LIQ4/Ffw=";
        assert_eq!(verify(&RULE, "front-api-secret", signature, "", &Method::POST, BODY, 0), Ok(()));
        assert_eq!(verify(&RULE, "front-app-secret", signature, "", &Method::POST, BODY, 0), Err(NotProven::Wrong));
        assert_eq!(
            verify(&APP, "front-api-secret", signature, STAMP, &Method::POST, BODY, 1_790_000_000_123),
            Err(NotProven::Wrong)
        );
    }

    #[test]
    fn an_event_says_which_company_and_conversation_it_is_about() {
        let headers = HeaderMap::new();
        let body = BODY.as_bytes();
        let delivery =
            Delivery { method: &Method::POST, query: None, headers: &headers, body, now: DateTime::UNIX_EPOCH };
        let event = APP.read(&delivery).unwrap();
        assert_eq!((event.key, event.topic), (Key::Id("evt_9".to_owned()), Topic::TicketReplied));
        assert_eq!((event.account.as_deref(), event.subject.as_deref()), (Some("cmp_1"), Some("cnv_7")));
        assert!(APP.is_about("cmp_1", "acme", Some("cmp_1")) && APP.is_about("cmp_1", "cmp_1", None));
        assert!(!APP.is_about("cmp_1", "acme", Some("cmp_2")) && !APP.is_about("cmp_1", "acme", None));
    }
}
