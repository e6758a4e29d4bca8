//! Shopify's subscriptions, one for each topic, kept by the Admin API.
//! <https://shopify.dev/docs/api/admin-graphql/latest/mutations/webhookSubscriptionCreate>

use std::collections::BTreeMap;

use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    webhook::{Subscription, Subscriptions, Wanted},
    wire,
};
use serde::Deserialize;
use serde_json::json;

use crate::{API_VERSION, graph::Graph};

const OPERATION: &str = "webhook";
const PARTS: &[&str] =
    &["APP_UNINSTALLED", "ORDERS_CREATE", "ORDERS_PAID", "ORDERS_FULFILLED", "ORDERS_CANCELLED", "REFUNDS_CREATE"];

const LIST: &str = "query Webhooks($after: String) { webhookSubscriptions(first: 100, after: $after) {
  nodes { id topic uri } pageInfo { hasNextPage endCursor } } }";
const CREATE: &str = "mutation Subscribe($topic: WebhookSubscriptionTopic!, $webhook: WebhookSubscriptionInput!) {
  webhookSubscriptionCreate(topic: $topic, webhookSubscription: $webhook) {
    webhookSubscription { id topic uri } userErrors { field message } } }";
const UPDATE: &str = "mutation Move($id: ID!, $webhook: WebhookSubscriptionInput!) {
  webhookSubscriptionUpdate(id: $id, webhookSubscription: $webhook) {
    webhookSubscription { id topic uri } userErrors { field message } } }";
const DELETE: &str = "mutation Unsubscribe($id: ID!) {
  webhookSubscriptionDelete(id: $id) { deletedWebhookSubscriptionId userErrors { field message } } }";

pub(crate) static KEPT: Kept = Kept;

pub(crate) struct Kept;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    nodes: Vec<Node>,
    page_info: PageInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
    end_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    topic: String,
    #[serde(default)]
    uri: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    webhook_subscription: Option<Node>,
}

/// It has no switch: one that Shopify gives up on is deleted.
impl From<Node> for Subscription {
    fn from(node: Node) -> Self {
        Self {
            id: node.id,
            part: node.topic,
            url: node.uri.unwrap_or_default(),
            enabled: true,
            current: true,
            lapses_at: None,
            behind: false,
            more: BTreeMap::new(),
        }
    }
}

async fn change(
    api: &ApiClient,
    mutation: &'static str,
    field: &'static str,
    variables: serde_json::Value,
) -> Result<Subscription> {
    let graph = Graph::new(api, API_VERSION);
    // Whoever repeats it looks first.
    let changed: Changed = graph.change(OPERATION, mutation, field, "userErrors", variables, true).await?;
    let node = changed.webhook_subscription.ok_or_else(|| wire::unreadable(api, OPERATION, "webhookSubscription"))?;
    Ok(node.into())
}

#[async_trait]
impl Subscriptions for Kept {
    fn parts(&self) -> &'static [&'static str] {
        PARTS
    }

    fn remedy(&self) -> &'static str {
        "Reconnect it and allow reading orders, or add the topics in the app's configuration at Shopify."
    }

    async fn look(&self, api: &ApiClient, wanted: &Wanted<'_>) -> Result<Vec<Subscription>> {
        let graph = Graph::new(api, API_VERSION);
        let mut found = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let variables = json!({ "after": after });
            let page: Page = graph.ask(OPERATION, LIST, "webhookSubscriptions", variables).await?.data;
            let all = page.nodes.into_iter().map(Subscription::from);
            found.extend(all.filter(|one| wanted.is_ours(&one.url)));
            match page.page_info.end_cursor.filter(|_| page.page_info.has_next_page) {
                Some(cursor) if after.as_ref() != Some(&cursor) => after = Some(cursor),
                _ => return Ok(found),
            }
        }
    }

    async fn make(&self, api: &ApiClient, wanted: &Wanted<'_>, part: &str) -> Result<Subscription> {
        let variables = json!({ "topic": part, "webhook": { "uri": wanted.url, "format": "JSON" } });
        change(api, CREATE, "webhookSubscriptionCreate", variables).await
    }

    async fn mend(&self, api: &ApiClient, wanted: &Wanted<'_>, seen: &Subscription) -> Result<Subscription> {
        let variables = json!({ "id": seen.id, "webhook": { "uri": wanted.url, "format": "JSON" } });
        change(api, UPDATE, "webhookSubscriptionUpdate", variables).await
    }

    /// The one error of its own is that there is none of this id.
    async fn remove(&self, api: &ApiClient, seen: &Subscription) -> Result<()> {
        let graph = Graph::new(api, API_VERSION);
        let variables = json!({ "id": seen.id });
        let removed = graph.change::<serde_json::Value>(
            OPERATION,
            DELETE,
            "webhookSubscriptionDelete",
            "userErrors",
            variables,
            true,
        );
        match removed.await {
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Invalid) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}
