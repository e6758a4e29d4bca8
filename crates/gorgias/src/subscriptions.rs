//! Gorgias' HTTP integrations, kept by its API. <https://developers.gorgias.com/reference/create-integration>

use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    webhook::{Subscription, Subscriptions, Wanted},
};
use http::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::{
    api::{self, Integration},
    webhooks::HEADER,
};

/// One tells of all.
const PART: &str = "http";
/// What people see in the settings.
const NAME: &str = "Holdfast";
const TRIGGERS: [&str; 3] = ["ticket-created", "ticket-updated", "ticket-message-created"];

pub(crate) static KEPT: Kept = Kept;

pub(crate) struct Kept;

/// The template is what a person would paste; see `webhooks.rs`.
fn body(wanted: &Wanted<'_>) -> Value {
    let secret = wanted.secret.map(ExposeSecret::expose_secret).unwrap_or_default();
    let triggers: serde_json::Map<String, Value> =
        TRIGGERS.iter().map(|trigger| ((*trigger).to_owned(), Value::from(true))).collect();
    json!({
        "name": NAME,
        "description": "Tells of tickets and messages",
        "type": "http",
        "deactivated_datetime": null,
        "http": {
            "url": wanted.url,
            "method": "POST",
            "request_content_type": "application/json",
            "response_content_type": "application/json",
            "headers": { (HEADER): secret },
            "form": {
                "event": "{{event.type}}",
                "event_id": "{{event.id}}",
                "ticket_id": "{{ticket.id}}",
                "message_id": "{{message.id}}",
                "from_agent": "{{message.from_agent}}",
            },
            "triggers": triggers,
        },
    })
}

/// Triggers come with hyphens or underscores. Whether headers are shown is not told: one that is not there says nothing.
fn seen(wanted: &Wanted<'_>, integration: &Integration) -> Subscription {
    let http = &integration.http;
    let on = |trigger: &str| {
        [trigger.to_owned(), trigger.replace('-', "_")].iter().any(|name| http["triggers"][name] == true)
    };
    let secret = http["headers"].as_object().and_then(|headers| {
        headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(HEADER)).and_then(|(_, value)| value.as_str())
    });
    let same = secret.is_none_or(|told| wanted.secret.is_some_and(|secret| secret.expose_secret() == told));
    Subscription {
        id: integration.id.to_string(),
        part: PART.to_owned(),
        url: http["url"].as_str().unwrap_or_default().to_owned(),
        enabled: integration.deactivated_datetime.is_none(),
        current: same && TRIGGERS.into_iter().all(on),
        lapses_at: None,
        behind: false,
        more: std::collections::BTreeMap::new(),
    }
}

#[async_trait]
impl Subscriptions for Kept {
    fn parts(&self) -> &'static [&'static str] {
        &[PART]
    }

    fn remedy(&self) -> &'static str {
        "Reconnect it as an administrator and allow the integrations, or set the webhook up by hand."
    }

    async fn look(&self, api: &ApiClient, wanted: &Wanted<'_>) -> Result<Vec<Subscription>> {
        let all = api::integrations(api).await?;
        let ours = |one: &&Integration| wanted.is_ours(one.http["url"].as_str().unwrap_or_default());
        Ok(all.iter().filter(ours).map(|one| seen(wanted, one)).collect())
    }

    async fn make(&self, api: &ApiClient, wanted: &Wanted<'_>, _part: &str) -> Result<Subscription> {
        let mut body = body(wanted);
        if let Some(fields) = body.as_object_mut() {
            fields.remove("deactivated_datetime");
        }
        let made = api::save_integration(api, Method::POST, None, &body).await?;
        Ok(Subscription { url: wanted.url.to_owned(), enabled: true, current: true, ..seen(wanted, &made) })
    }

    async fn mend(&self, api: &ApiClient, wanted: &Wanted<'_>, there: &Subscription) -> Result<Subscription> {
        let mended = api::save_integration(api, Method::PUT, Some(&there.id), &body(wanted)).await?;
        Ok(Subscription { url: wanted.url.to_owned(), enabled: true, current: true, ..seen(wanted, &mended) })
    }

    async fn remove(&self, api: &ApiClient, there: &Subscription) -> Result<()> {
        match api::delete_integration(api, &there.id).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}
