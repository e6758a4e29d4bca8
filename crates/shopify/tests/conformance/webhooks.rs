//! The subscriptions that are kept in a shop.

use holdfast_core::{
    ErrorKind, Provider,
    webhook::{Subscriptions, Wanted},
};
use serde_json::json;

use crate::rig::Rig;

const URL: &str = "https://hub.example/hooks/hook_0123456789abcdef";

fn wanted() -> Wanted<'static> {
    let now = chrono::DateTime::UNIX_EPOCH;
    Wanted { endpoint: "hook_0123456789abcdef", url: URL, secret: None, remembered: &[], now }
}

fn kept(rig: &Rig) -> &dyn Subscriptions {
    rig.shopify.webhooks().remove(0).subscriptions().unwrap()
}

#[tokio::test]
async fn a_subscription_is_made_found_behind_others_moved_and_taken_away() {
    let rig = Rig::start().await;
    let (api, kept) = (rig.api().await, kept(&rig));
    let others = |all: &mut Vec<serde_json::Value>| {
        for number in 0..150 {
            let id = format!("gid://shopify/WebhookSubscription/9{number}");
            all.push(json!({ "id": id, "topic": "ORDERS_UPDATED", "uri": "https://elsewhere.example/" }));
        }
    };
    rig.acme.change_webhooks(others);

    let made = kept.make(&api, &wanted(), "ORDERS_CREATE").await.unwrap();

    assert_eq!((made.part.as_str(), made.url.as_str()), ("ORDERS_CREATE", URL));
    assert_eq!(kept.look(&api, &wanted()).await.unwrap(), std::slice::from_ref(&made));
    let twice = kept.make(&api, &wanted(), "ORDERS_CREATE").await.unwrap_err();
    assert!(twice.to_string().contains("already been taken"), "{twice}");

    let old = "https://old.example/hooks/hook_0123456789abcdef";
    rig.acme.change_webhooks(|all| all[150]["uri"] = json!(old));
    let seen = kept.look(&api, &wanted()).await.unwrap().remove(0);
    assert_eq!(seen.url, old);
    assert_eq!(kept.mend(&api, &wanted(), &seen).await.unwrap(), made);
    kept.remove(&api, &made).await.unwrap();
    kept.remove(&api, &made).await.expect("what is gone is gone");
    assert_eq!(rig.acme.webhooks().len(), 150);
}

#[tokio::test]
async fn topics_that_were_not_allowed_are_a_persons_matter() {
    let rig = Rig::start().await;
    let api = rig.api_as("read_products");

    let refused = kept(&rig).make(&api, &wanted(), "ORDERS_CREATE").await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::Forbidden, "{refused}");
    kept(&rig).make(&api, &wanted(), "APP_UNINSTALLED").await.expect("it needs no scope");
}
