//! Webhook subscriptions of the app in a shop, one for each topic and address.
//! <https://shopify.dev/docs/api/admin-graphql/latest/objects/WebhookSubscription>

use serde_json::{Map, Value, json};

use super::shop::Data;

fn answer(subscription: &Value) -> Value {
    json!({ "webhookSubscription": subscription, "userErrors": [] })
}

fn refused(field: &[&str], message: &str) -> Value {
    json!({
        "webhookSubscription": null, "deletedWebhookSubscriptionId": null,
        "userErrors": [{ "field": field, "message": message }],
    })
}

/// The sandbox sends to loopback alone, where nobody has a certificate.
fn address(input: &Value) -> Result<String, Value> {
    let uri = input["uri"].as_str().unwrap_or_default();
    let url = url::Url::parse(uri).ok();
    let good =
        url.is_some_and(|url| url.scheme() == "https" || matches!(url.host_str(), Some("127.0.0.1" | "localhost")));
    if good { Ok(uri.to_owned()) } else { Err(refused(&["webhookSubscription", "uri"], "Address is invalid")) }
}

fn taken(data: &Data, topic: &Value, uri: &str) -> bool {
    data.webhooks.iter().any(|one| one["topic"] == *topic && one["uri"] == uri)
}

pub(super) fn create(data: &mut Data, arguments: &Map<String, Value>) -> Value {
    let topic = arguments.get("topic").cloned().unwrap_or_default();
    let uri = match address(&arguments["webhookSubscription"]) {
        Ok(uri) => uri,
        Err(refused) => return refused,
    };
    if taken(data, &topic, &uri) {
        return refused(&["webhookSubscription", "uri"], "Address for this topic has already been taken");
    }
    let id = format!("gid://shopify/WebhookSubscription/{}", data.next_id());
    let made = json!({ "id": id, "topic": topic, "uri": uri });
    data.webhooks.push(made.clone());
    answer(&made)
}

pub(super) fn update(data: &mut Data, arguments: &Map<String, Value>) -> Value {
    let uri = match address(&arguments["webhookSubscription"]) {
        Ok(uri) => uri,
        Err(refused) => return refused,
    };
    let found = data.webhooks.iter_mut().find(|one| Some(&one["id"]) == arguments.get("id"));
    let Some(found) = found else { return refused(&["id"], "Webhook subscription does not exist") };
    found["uri"] = uri.into();
    let changed = found.clone();
    answer(&changed)
}

pub(super) fn delete(data: &mut Data, arguments: &Map<String, Value>) -> Value {
    let before = data.webhooks.len();
    data.webhooks.retain(|one| Some(&one["id"]) != arguments.get("id"));
    if data.webhooks.len() == before {
        return refused(&["id"], "Webhook subscription does not exist");
    }
    json!({ "deletedWebhookSubscriptionId": arguments.get("id"), "userErrors": [] })
}
