//! `/webhooks`: made, read, changed and removed by administrators.
//! <https://developer.zendesk.com/api-reference/webhooks/webhooks-api/webhooks/>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::{iso, random_bytes};
use crate::desk::locked;
use crate::http::Answer;
use crate::zendesk::api::{Call, forbidden_to_person, not_found};
use crate::zendesk::data::Role;
use crate::zendesk::paging::Cursor;

/// Instead of events: called by triggers and automations.
const BY_TRIGGER: &str = "conditional_ticket_events";
const EVENTS: [&str; 15] = [
    "ticket.created",
    "ticket.comment_added",
    "ticket.status_changed",
    "ticket.agent_assignment_changed",
    "ticket.group_assignment_changed",
    "ticket.priority_changed",
    "ticket.subject_changed",
    "ticket.tags_changed",
    "ticket.custom_field_changed",
    "ticket.custom_status_changed",
    "ticket.merged",
    "ticket.soft_deleted",
    "ticket.undeleted",
    "ticket.permanently_deleted",
    "article.published",
];

/// A webhook of a helpdesk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ZendeskWebhook {
    /// As Zendesk spells it.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// `active` or `inactive`.
    pub status: String,
    /// Where it sends to.
    pub endpoint: String,
    /// Event types, or the one word for triggers.
    pub subscriptions: Vec<String>,
    /// What it signs with.
    pub secret: String,
    /// Counts up.
    pub number: i64,
    /// In milliseconds since 1970.
    pub created_ms: i64,
}

impl ZendeskWebhook {
    fn to_json(&self) -> Value {
        json!({
            "id": self.id, "name": self.name, "status": self.status, "endpoint": self.endpoint,
            "http_method": "POST", "request_format": "json", "subscriptions": self.subscriptions,
            "created_at": iso(self.created_ms), "updated_at": iso(self.created_ms),
        })
    }
}

/// What a body says, checked.
struct Said {
    name: String,
    status: String,
    endpoint: String,
    subscriptions: Vec<String>,
}

fn needs(call: &Call<'_>, access: &str) -> Result<(), Answer> {
    call.needs("webhooks", access)?;
    if call.caller.role == Role::Admin { Ok(()) } else { Err(forbidden_to_person()) }
}

fn secret() -> String {
    STANDARD.encode(random_bytes::<32>())
}

pub(crate) fn list(call: &Call<'_>) -> Result<Answer, Answer> {
    needs(call, "read")?;
    let data = locked(&call.desk.data);
    let all: Vec<&ZendeskWebhook> = data.webhooks.iter().collect();
    let cursor = Cursor::of(call.request)?.unwrap_or_default();
    let place = |webhook: &&ZendeskWebhook| (0, webhook.number);
    let to_json = |webhook: &&ZendeskWebhook| webhook.to_json();
    let (body, _) = cursor.answer(call.request, &call.desk.url, "webhooks", &all, false, place, to_json);
    Ok(Answer::json(200, Value::Object(body)))
}

pub(crate) fn create(call: &Call<'_>) -> Result<Answer, Answer> {
    needs(call, "write")?;
    let said = said(&call.json()?)?;
    let mut data = locked(&call.desk.data);
    let number = data.webhooks.last().map_or(1, |last| last.number + 1);
    let webhook = ZendeskWebhook {
        id: format!("01SANDBOX{number:017}"),
        name: said.name,
        status: said.status,
        endpoint: said.endpoint,
        subscriptions: said.subscriptions,
        secret: secret(),
        number,
        created_ms: call.now_ms,
    };
    let answer = Answer::json(201, json!({ "webhook": webhook.to_json() }));
    data.webhooks.push(webhook);
    Ok(answer)
}

pub(crate) fn show(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    needs(call, "read")?;
    let data = locked(&call.desk.data);
    let webhook = data.webhooks.iter().find(|webhook| webhook.id == id).ok_or_else(not_found)?;
    Ok(Answer::json(200, json!({ "webhook": webhook.to_json() })))
}

/// PUT: all of it.
pub(crate) fn update(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    needs(call, "write")?;
    let said = said(&call.json()?)?;
    let mut data = locked(&call.desk.data);
    let webhook = data.webhooks.iter_mut().find(|webhook| webhook.id == id).ok_or_else(not_found)?;
    let by_trigger = |subscriptions: &[String]| subscriptions.iter().any(|one| one == BY_TRIGGER);
    if by_trigger(&said.subscriptions) != by_trigger(&webhook.subscriptions) {
        return Err(invalid("subscriptions", "a webhook cannot change between events and triggers"));
    }
    webhook.name = said.name;
    webhook.status = said.status;
    webhook.endpoint = said.endpoint;
    webhook.subscriptions = said.subscriptions;
    Ok(Answer::empty(204))
}

pub(crate) fn delete(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    needs(call, "write")?;
    let mut data = locked(&call.desk.data);
    let before = data.webhooks.len();
    data.webhooks.retain(|webhook| webhook.id != id);
    if data.webhooks.len() == before { Err(not_found()) } else { Ok(Answer::empty(204)) }
}

/// GET reads it, POST makes another one.
pub(crate) fn signing_secret(call: &Call<'_>, id: &str, another: bool) -> Result<Answer, Answer> {
    needs(call, if another { "write" } else { "read" })?;
    let mut data = locked(&call.desk.data);
    let webhook = data.webhooks.iter_mut().find(|webhook| webhook.id == id).ok_or_else(not_found)?;
    if another {
        webhook.secret = secret();
    }
    let body = json!({ "signing_secret": { "algorithm": "SHA256", "secret": webhook.secret } });
    Ok(Answer::json(if another { 201 } else { 200 }, body))
}

fn said(body: &Value) -> Result<Said, Answer> {
    let webhook = body.get("webhook").ok_or_else(|| invalid("webhook", "is missing"))?;
    let text = |name: &'static str| {
        let text = webhook.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| invalid(name, "cannot be blank"))
    };
    let one_of = |name: &'static str, allowed: &[&str]| {
        let said = text(name)?;
        if allowed.contains(&said.as_str()) { Ok(said) } else { Err(invalid(name, "is not a valid value")) }
    };
    one_of("http_method", &["GET", "POST", "PUT", "PATCH", "DELETE"])?;
    one_of("request_format", &["json", "xml", "form_encoded"])?;
    let endpoint = text("endpoint")?;
    let url = url::Url::parse(&endpoint).map_err(|_| invalid("endpoint", "is not a valid URL"))?;
    // The sandbox sends to loopback alone, where nobody has a certificate.
    let loopback = matches!(url.host_str(), Some("127.0.0.1" | "localhost"));
    if url.scheme() != "https" && !(url.scheme() == "http" && loopback) {
        return Err(invalid("endpoint", "has to be https"));
    }
    let subscriptions = webhook.get("subscriptions").and_then(Value::as_array);
    let subscriptions: Vec<String> =
        subscriptions.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let known = |one: &String| one.strip_prefix("zen:event-type:").is_some_and(|event| EVENTS.contains(&event));
    if subscriptions.is_empty() || !(subscriptions == [BY_TRIGGER] || subscriptions.iter().all(known)) {
        return Err(invalid("subscriptions", "are event types, or conditional_ticket_events alone"));
    }
    Ok(Said { name: text("name")?, status: one_of("status", &["active", "inactive"])?, endpoint, subscriptions })
}

fn invalid(field: &str, why: &str) -> Answer {
    Answer::json(
        400,
        json!({ "errors": [{ "code": "InvalidWebhook", "title": format!("{field} {why}"), "status": "400" }] }),
    )
}
