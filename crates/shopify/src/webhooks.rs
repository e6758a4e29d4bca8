//! Shopify's webhooks: the body is signed with the app's client secret. Nothing else is, so that what a delivery is about is
//! believed because the whole of it comes from Shopify, and told apart by what it says.
//! <https://shopify.dev/docs/apps/build/webhooks/verify-deliveries>

use std::sync::LazyLock;

use holdfast_core::webhook::{
    Author, Delivery, Encoding, Event, Key, NotProven, OwnLimit, Proofs, Scope, SecretFrom, Signature, Subscriptions,
    Topic, Unreadable, Webhook, WebhookFacts, digest_of, text_of,
};
use http::HeaderName;

use crate::subscriptions;

static FACTS: WebhookFacts = WebhookFacts {
    id: "topics",
    name: "Shop topics",
    scope: Scope::App,
    secret: SecretFrom::OAuthApp,
    secret_label: "The OAuth app's client secret",
    steps: &[
        "In the app's configuration at Shopify, add a webhook subscription for each topic, such as orders/create.",
        "Give {url} as its address, in JSON.",
        "Nothing else is to copy: Shopify signs with the app's client secret, which is known here.",
    ],
    body: None,
    own_limit: Some(OwnLimit { failures: 8, then: "Shopify deletes the subscription" }),
    // It would be deleted within 4 hours.
    parks: 10,
};

static SIGNATURES: LazyLock<[Signature; 2]> = LazyLock::new(|| {
    ["x-shopify-hmac-sha256", "shopify-hmac-sha256"]
        .map(|name| Signature::of_body(HeaderName::from_static(name), Encoding::Base64))
});

pub(crate) static TOPICS: Topics = Topics;

pub(crate) struct Topics;

impl Webhook for Topics {
    fn facts(&self) -> &WebhookFacts {
        &FACTS
    }

    fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        let [old, new] = &*SIGNATURES;
        let newer = delivery.headers.contains_key(&new.header) && !delivery.headers.contains_key(&old.header);
        if newer { new.verify(proofs, delivery) } else { old.verify(proofs, delivery) }
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Unreadable> {
        let header =
            |name: &str| delivery.header(format!("x-{name}")).or_else(|| delivery.header(name)).map(str::to_lowercase);
        let kind = header("shopify-topic").filter(|kind| kind.len() <= 100);
        let kind = kind.ok_or(Unreadable("it names no topic"))?;
        let shop = header("shopify-shop-domain").ok_or(Unreadable("it names no shop"))?;
        let body = delivery.json()?;
        let topic = match kind.as_str() {
            "orders/create" => Topic::OrderCreated,
            "orders/paid" => Topic::OrderPaid,
            "orders/fulfilled" => Topic::OrderFulfilled,
            "orders/cancelled" => Topic::OrderCancelled,
            "refunds/create" => Topic::OrderRefunded,
            "app/uninstalled" => Topic::AccountRemoved,
            order
                if ["orders/", "fulfillments/", "fulfillment_events/", "returns/"]
                    .iter()
                    .any(|p| order.starts_with(p)) =>
            {
                Topic::OrderChanged
            }
            _ => Topic::Other,
        };
        let order =
            if topic == Topic::OrderCreated || kind.starts_with("orders/") { None } else { body.get("order_id") };
        let subject = text_of(order.or_else(|| body.get("admin_graphql_api_id")).or_else(|| body.get("id")));
        // The ids are in headers, which nothing proves. A body says when it was made, so the same again is the same event.
        let key = Key::Digest(digest_of(&[&kind], &body), None);
        let account = shop.strip_suffix(".myshopify.com").unwrap_or(&shop).to_owned();
        Ok(Event { key, kind, topic, subject, account: Some(account), author: Author::Unknown, at: None })
    }

    fn subscriptions(&self) -> Option<&dyn Subscriptions> {
        Some(&subscriptions::KEPT)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use http::{HeaderMap, Method};
    use secrecy::SecretString;

    use super::*;

    const BODY: &str = r#"{"id":1234567890,"email":"customer@example.com","total_price":"123.45"}"#;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn delivery<'a>(headers: &'a HeaderMap, body: &'a str) -> Delivery<'a> {
        Delivery { method: &Method::POST, query: None, headers, body: body.as_bytes(), now: DateTime::UNIX_EPOCH }
    }

    /// Body, secret and signature are an example of SQLPage, another receiver of these webhooks.
    #[test]
    fn the_body_is_what_is_signed_under_either_name_of_the_header() {
        let signature = "QNyObTlKbMx2qDlPF/ZOZcBqg5OgPg+2oky3zldc0Gw=";
        let secrets = [SecretString::from("next"), SecretString::from("test-webhook-secret")];
        let proofs = Proofs { secrets: &secrets, keys: &[], url: "" };
        for name in ["x-shopify-hmac-sha256", "shopify-hmac-sha256"] {
            let told = headers(&[(name, signature)]);
            assert_eq!(TOPICS.verify(&proofs, &delivery(&told, BODY)), Ok(()));
            assert_eq!(TOPICS.verify(&proofs, &delivery(&told, "{}")), Err(NotProven::Wrong));
        }
        assert_eq!(TOPICS.verify(&proofs, &delivery(&HeaderMap::new(), BODY)), Err(NotProven::Missing));
    }

    /// WV-04, WD-02: new ids in headers make no new event of an old body.
    #[test]
    fn headers_that_nothing_proves_make_no_other_event() {
        let told = |id, event| {
            headers(&[
                ("x-shopify-topic", "orders/create"),
                ("x-shopify-shop-domain", "acme.myshopify.com"),
                ("x-shopify-webhook-id", id),
                ("x-shopify-event-id", event),
                ("x-shopify-triggered-at", "2026-11-30T10:00:00Z"),
            ])
        };
        let (one, two) = (told("1", "1"), told("2", "2"));
        let event = TOPICS.read(&delivery(&one, BODY)).unwrap();

        assert_eq!(event, TOPICS.read(&delivery(&two, BODY)).unwrap());
        assert!(matches!(event.key, Key::Digest(_, None)));
        assert_eq!((event.topic, event.account.as_deref()), (Topic::OrderCreated, Some("acme")));
        assert_eq!(event.subject.as_deref(), Some("1234567890"));
        let other = headers(&[("x-shopify-topic", "orders/paid"), ("x-shopify-shop-domain", "acme.myshopify.com")]);
        assert_ne!(event.key, TOPICS.read(&delivery(&other, BODY)).unwrap().key);
        assert!(TOPICS.read(&delivery(&one, "no json")).is_err());
        assert!(TOPICS.read(&delivery(&HeaderMap::new(), BODY)).is_err());
    }
}
