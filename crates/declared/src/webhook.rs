//! What a described provider sends by itself: HMAC-SHA256 over a text that holds the body, which is JSON or a form.

use std::time::Duration;

use holdfast_core::webhook::{
    Author, Challenge, Delivery, Event, Key, NotProven, Proofs, Scope, SecretFrom, Signature, Topic, Unreadable,
    Webhook, WebhookFacts, digest, text_of,
};
use http::{HeaderName, Method, header};
use serde_json::Value;

use crate::{answer::Place, check::leak};

/// As the file describes it, checked.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) facts: &'static WebhookFacts,
    pub(crate) signature: Signature,
    pub(crate) event_id: Option<Place>,
    pub(crate) event_type: Option<Place>,
    pub(crate) event_type_header: Option<HeaderName>,
    pub(crate) subject: Option<Place>,
    /// The same content again after this is another event; `None`: never.
    pub(crate) repeats_after: Option<Duration>,
    /// A parameter of a GET that is repeated.
    pub(crate) challenge_query: Option<String>,
    /// A field of a proven body that is repeated.
    pub(crate) challenge_field: Option<Place>,
}

impl Hook {
    pub(crate) fn facts(name: &str, steps: &[String]) -> &'static WebhookFacts {
        let usual = [
            format!("At {name}, find where webhooks are made, and paste {{url}} as the address."),
            format!("Copy the secret below to {name}; where {name} shows a secret of its own, bring that here."),
        ];
        let steps = if steps.is_empty() { usual.as_slice() } else { steps };
        let steps: Vec<&'static str> = steps.iter().map(|step| leak(step)).collect();
        Box::leak(Box::new(WebhookFacts {
            id: "events",
            name: "Events",
            scope: Scope::Connector,
            secret: SecretFrom::Either,
            secret_label: "Signing secret",
            steps: steps.leak(),
            body: None,
            own_limit: None,
            parks: 1,
        }))
    }
}

impl Webhook for Hook {
    fn facts(&self) -> &WebhookFacts {
        self.facts
    }

    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        self.signature.verify(proofs, delivery)
    }

    fn challenge(&self, delivery: &Delivery<'_>) -> Option<Challenge> {
        if delivery.method == Method::GET {
            let asked = delivery.parameter(self.challenge_query.as_deref()?)?;
            return Challenge::echo(&asked).map(Challenge::Text);
        }
        let body = content(delivery).ok()?;
        let asked = self.challenge_field.as_ref()?.of(&body)?.as_str()?;
        Challenge::echo(asked).map(Challenge::Text)
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable> {
        let body = content(delivery)?;
        let find = |place: &Option<Place>| place.as_ref().and_then(|place| text_of(place.of(&body)));
        let kind = self.event_type_header.as_ref().and_then(|name| delivery.header(name)).map(str::to_owned);
        let kind = kind.or_else(|| find(&self.event_type)).unwrap_or_else(|| "event".to_owned());
        let signed = self.signature.id.as_ref().and_then(|name| delivery.header(name)).map(str::to_owned);
        // A header that nothing proves tells no events apart.
        let key = match find(&self.event_id).or(signed) {
            Some(id) => Key::Id(id),
            None => Key::Digest(digest(&[], delivery.body), self.repeats_after),
        };
        Ok(Event {
            key,
            kind,
            topic: Topic::Other,
            subject: find(&self.subject),
            account: None,
            author: Author::Unknown,
            at: None,
        })
    }
}

/// The body, decoded. Of a form, a value that is JSON itself is read as such.
fn content(delivery: &Delivery<'_>) -> Result<Value, Unreadable> {
    let kind = delivery.header(header::CONTENT_TYPE).unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded") {
        return delivery.json();
    }
    let text = std::str::from_utf8(delivery.body).map_err(|_| Unreadable("the form is no text"))?;
    let value = |text: &str| match serde_json::from_str(text) {
        Ok(nested @ (Value::Object(_) | Value::Array(_))) => nested,
        _ => Value::from(text),
    };
    let fields = url::form_urlencoded::parse(text.as_bytes());
    Ok(Value::Object(fields.map(|(name, text)| (name.into_owned(), value(&text))).collect()))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use http::HeaderMap;

    use super::*;
    use crate::{shipped, tests::GOOD};
    use holdfast_core::Provider as _;

    fn read(
        file: &str,
        content_type: &str,
        headers: &[(&'static str, &str)],
        body: &[u8],
    ) -> Result<Event, Unreadable> {
        let declared = crate::Declared::read("acme.toml", file).unwrap();
        let mut all: HeaderMap =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
        all.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        let delivery = Delivery { method: &Method::POST, query: None, headers: &all, body, now: DateTime::UNIX_EPOCH };
        declared.webhooks()[0].read(&delivery)
    }

    /// WV-01: verified over its bytes, then decoded.
    #[test]
    fn a_form_is_decoded_once_it_is_verified() {
        let file = format!(
            "{GOOD}[webhook]\nsignature_header = \"x-s\"\nencoding = \"hex\"\nevent_id = \"payload.id\"\nevent_type = \"x\"\n"
        );
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        let event = read(&file, form, &[], b"payload=%7B%22id%22%3A1%7D&x=a+b").unwrap();
        assert_eq!((event.key, event.kind.as_str()), (Key::Id("1".to_owned()), "a b"));
        assert!(read(&file, form, &[], b"\xff\xfe\x00\x80").is_err());
        // WV-02
        assert!(read(&file, "application/json", &[], b"\xff\xfe\x00\x80").is_err());
    }

    /// WV-04, WD-02: an id in a header tells events apart only where it is signed.
    #[test]
    fn an_id_that_nothing_proves_makes_no_other_event() {
        let bare = format!(
            "{GOOD}[webhook]\nsignature_header = \"x-s\"\nencoding = \"hex\"\ndelivery_id_header = \"x-delivery\"\n"
        );
        let key = |file: &str, id| read(file, "application/json", &[("x-delivery", id)], b"{\"a\":1}").unwrap().key;
        assert_eq!(key(&bare, "1"), key(&bare, "2"));
        assert!(matches!(key(&bare, "1"), Key::Digest(_, None)));
        let signed = format!("{bare}signed = \"{{delivery_id}}.{{body}}\"\n");
        assert_eq!(key(&signed, "1"), Key::Id("1".to_owned()));
    }

    #[test]
    fn challenges_are_answered_as_their_providers_ask() {
        let of = |id: &str, method: Method, query: Option<&str>, body: &[u8]| {
            let all = shipped();
            let declared = all.iter().find(|declared| declared.about().id == id).unwrap();
            let headers = HeaderMap::new();
            let delivery = Delivery { method: &method, query, headers: &headers, body, now: DateTime::UNIX_EPOCH };
            declared.webhooks()[0].challenge(&delivery)
        };
        let text = |text: &str| Some(Challenge::Text(text.to_owned()));
        let slack = br#"{"token":"t","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}"#;
        assert_eq!(
            of("slack", Method::POST, None, slack),
            text("3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P")
        );
        assert_eq!(of("slack", Method::POST, None, br#"{"type":"event_callback"}"#), None);
        assert_eq!(of("dropbox", Method::GET, Some("challenge=a-b"), b""), text("a-b"));
        assert_eq!(of("dropbox", Method::GET, Some("challenge=%3Cscript%3E%20"), b""), None);
        assert_eq!(of("dropbox", Method::GET, None, b""), None);
        assert_eq!(of("github", Method::GET, Some("challenge=a"), b""), None);
    }
}
