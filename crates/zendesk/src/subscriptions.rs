//! Zendesk's webhooks, kept by its API: one of ours subscribes to the ticket events.
//! <https://developer.zendesk.com/api-reference/webhooks/webhooks-api/webhooks/>

use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    api_client::segment,
    error::{ErrorKind, Result},
    webhook::{Subscription, Subscriptions, Wanted},
};
use http::Method;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

const OPERATION: &str = "webhook";
/// One subscribes to all events.
const PART: &str = "events";
/// What people see in the Admin Center.
const NAME: &str = "Holdfast";
/// All that agents may wait for, each of them documented.
const EVENTS: [&str; 8] = [
    "zen:event-type:ticket.created",
    "zen:event-type:ticket.comment_added",
    "zen:event-type:ticket.status_changed",
    "zen:event-type:ticket.priority_changed",
    "zen:event-type:ticket.agent_assignment_changed",
    "zen:event-type:ticket.group_assignment_changed",
    "zen:event-type:ticket.tags_changed",
    "zen:event-type:ticket.subject_changed",
];

pub(crate) static KEPT: Kept = Kept;

pub(crate) struct Kept;

#[derive(Deserialize)]
struct Page {
    webhooks: Vec<Webhook>,
    #[serde(default)]
    meta: Meta,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(default)]
    has_more: bool,
    #[serde(default)]
    after_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    webhook: Webhook,
}

#[derive(Deserialize)]
struct Webhook {
    id: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    endpoint: String,
    #[serde(default)]
    subscriptions: Vec<String>,
}

#[derive(Deserialize)]
struct SecretAnswer {
    signing_secret: SigningSecret,
}

#[derive(Deserialize)]
struct SigningSecret {
    secret: SecretString,
}

impl From<Webhook> for Subscription {
    fn from(webhook: Webhook) -> Self {
        // Events beyond ours are somebody's wish. One for triggers is of another kind, which cannot be changed.
        let current = EVENTS.iter().all(|event| webhook.subscriptions.iter().any(|there| there == event));
        let by_trigger = webhook.subscriptions.iter().any(|kind| kind == "conditional_ticket_events");
        Self {
            part: if by_trigger { "trigger" } else { PART }.to_owned(),
            url: webhook.endpoint,
            enabled: webhook.status == "active",
            current,
            lapses_at: None,
            behind: false,
            more: std::collections::BTreeMap::new(),
            id: webhook.id,
        }
    }
}

fn path(id: &str) -> String {
    format!("api/v2/webhooks/{}", segment(id))
}

fn body(wanted: &Wanted<'_>) -> Value {
    json!({ "webhook": {
        "name": NAME,
        "status": "active",
        "endpoint": wanted.url,
        "http_method": "POST",
        "request_format": "json",
        "subscriptions": EVENTS,
    }})
}

#[async_trait]
impl Subscriptions for Kept {
    fn parts(&self) -> &'static [&'static str] {
        &[PART]
    }

    fn remedy(&self) -> &'static str {
        "Zendesk lets only administrators make webhooks: reconnect it as one, or set the webhook up by hand."
    }

    /// One that a person has tied to a trigger is theirs, and is left alone.
    async fn look(&self, api: &ApiClient, wanted: &Wanted<'_>) -> Result<Vec<Subscription>> {
        let mut found = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let request = api.get("api/v2/webhooks").operation(OPERATION).query("page[size]", 100);
            let page: Page = match &after {
                Some(cursor) => request.query("page[after]", cursor).fetch().await?,
                None => request.fetch().await?,
            };
            let ours = page.webhooks.into_iter().filter(|one| wanted.is_ours(&one.endpoint)).map(Subscription::from);
            found.extend(ours.filter(|one| one.part == PART));
            match page.meta.after_cursor.filter(|_| page.meta.has_more) {
                Some(cursor) if after.as_ref() != Some(&cursor) => after = Some(cursor),
                _ => return Ok(found),
            }
        }
    }

    async fn make(&self, api: &ApiClient, wanted: &Wanted<'_>, _part: &str) -> Result<Subscription> {
        let request = api.post("api/v2/webhooks").operation(OPERATION).json(&body(wanted));
        let answer: Answer = request.fetch().await?;
        Ok(answer.webhook.into())
    }

    async fn mend(&self, api: &ApiClient, wanted: &Wanted<'_>, seen: &Subscription) -> Result<Subscription> {
        api.put(path(&seen.id)).operation(OPERATION).json(&body(wanted)).send().await?;
        let url = wanted.url.to_owned();
        Ok(Subscription { url, enabled: true, current: true, ..seen.clone() })
    }

    async fn remove(&self, api: &ApiClient, seen: &Subscription) -> Result<()> {
        match api.request(Method::DELETE, path(&seen.id)).operation(OPERATION).send().await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// No other answer tells it.
    async fn secret(&self, api: &ApiClient, seen: &Subscription) -> Result<Option<SecretString>> {
        let request = api.get(format!("{}/signing_secret", path(&seen.id))).operation(OPERATION);
        let answer: SecretAnswer = request.fetch().await?;
        Ok(Some(answer.signing_secret.secret))
    }
}
