//! `/integrations`: made, read, changed and removed by administrators. HTTP ones alone are imitated.
//! <https://developers.gorgias.com/reference/create-integration>

use serde_json::{Map, Value, json};

use super::api::Call;
use super::changes::body;
use super::data::moment;
use super::error::{forbidden, not_found, refused};
use super::lists::{OF_ALL, Page, params};
use crate::desk::locked;
use crate::http::Answer;

const KNOWN: &[&str] = &["name", "description", "type", "http", "deactivated_datetime"];
const HTTP: [&str; 8] =
    ["url", "method", "request_content_type", "response_content_type", "headers", "form", "triggers", "hmac_secret"];
const TRIGGERS: [&str; 8] = [
    "ticket-created",
    "ticket-updated",
    "ticket-message-created",
    "ticket-message-failed",
    "ticket-self-unsnoozed",
    "ticket-assignment-updated",
    "ticket-status-updated",
    "ticket-handed-over",
];

fn needs(call: &Call<'_>, scope: &str) -> Result<(), Answer> {
    call.needs(scope)?;
    if call.user.role == "admin" { Ok(()) } else { Err(forbidden()) }
}

fn is(integration: &Value, id: &str) -> bool {
    integration["id"].as_i64().is_some_and(|own| id.parse() == Ok(own))
}

pub(super) fn list(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &OF_ALL)?;
    needs(call, "integrations:read")?;
    let page = Page::of(call.request, &["created_datetime"])?;
    Ok(page.answer("/api/integrations", locked(&call.place.data).integrations.clone()))
}

pub(super) fn create(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    needs(call, "integrations:write")?;
    let said = body(call.request, KNOWN)?;
    for field in ["name", "type", "http"] {
        if said.get(field).is_none_or(Value::is_null) {
            return Err(refused(field, "Missing data for required field."));
        }
    }
    check(&said)?;
    let mut data = locked(&call.place.data);
    let id = data.next_id();
    let mut made = json!({
        "id": id, "uri": format!("/api/integrations/{id}/"), "created_datetime": moment(call.now_ms),
        "deactivated_datetime": null, "managed": false,
    });
    write(&mut made, said);
    data.integrations.push(made.clone());
    Ok(Answer::json(201, made))
}

pub(super) fn one(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    needs(call, "integrations:read")?;
    let data = locked(&call.place.data);
    let found = data.integrations.iter().find(|one| is(one, id));
    Ok(Answer::json(200, found.ok_or_else(|| not_found("Integration"))?.clone()))
}

pub(super) fn update(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    needs(call, "integrations:write")?;
    let said = body(call.request, KNOWN)?;
    check(&said)?;
    let mut data = locked(&call.place.data);
    let found = data.integrations.iter_mut().find(|one| is(one, id));
    let found = found.ok_or_else(|| not_found("Integration"))?;
    write(found, said);
    Ok(Answer::json(202, found.clone()))
}

pub(super) fn delete(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    needs(call, "integrations:write")?;
    let mut data = locked(&call.place.data);
    let before = data.integrations.len();
    data.integrations.retain(|one| !is(one, id));
    if data.integrations.len() == before { Err(not_found("Integration")) } else { Ok(Answer::empty(204)) }
}

/// Its own secret is written and never shown.
fn write(integration: &mut Value, said: Map<String, Value>) {
    for (name, value) in said {
        integration[&name] = value;
    }
    if let Some(http) = integration["http"].as_object_mut() {
        http.remove("hmac_secret");
    }
}

fn check(said: &Map<String, Value>) -> Result<(), Answer> {
    if said.get("type").is_some_and(|kind| kind != "http") {
        return Err(refused("type", "This type cannot be made by the API."));
    }
    let Some(http) = said.get("http") else { return Ok(()) };
    let fields = http.as_object().ok_or_else(|| refused("http", "Invalid input type."))?;
    if let Some(unknown) = fields.keys().find(|name| !HTTP.contains(&name.as_str())) {
        return Err(refused(&format!("http.{unknown}"), "Unknown field."));
    }
    let url = http["url"].as_str().and_then(|url| url::Url::parse(url).ok());
    if url.is_none_or(|url| !matches!(url.scheme(), "http" | "https")) {
        return Err(refused("http.url", "Not a valid URL."));
    }
    let one_of = |name: &str, allowed: &[&str]| {
        let said = http[name].as_str().is_some_and(|said| allowed.contains(&said));
        if said { Ok(()) } else { Err(refused(&format!("http.{name}"), "Not a valid choice.")) }
    };
    one_of("method", &["GET", "POST", "PUT", "DELETE"])?;
    one_of("request_content_type", &["application/json", "application/x-www-form-urlencoded"])?;
    one_of("response_content_type", &["application/json"])?;
    let triggers = http["triggers"].as_object().ok_or_else(|| refused("http.triggers", "Missing data."))?;
    match triggers.iter().find(|(name, on)| !TRIGGERS.contains(&name.as_str()) || !on.is_boolean()) {
        Some((name, _)) => Err(refused(&format!("http.triggers.{name}"), "Unknown field.")),
        None => Ok(()),
    }
}
