//! What Google promises to send: the watch of a mailbox, and channels of a calendar. Each ends by itself, and none is listed.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::api::Call;
use super::error::{error, invalid, not_found};
use super::state::{Person, State};
use crate::http::Answer;

const DAY_MS: i64 = 86_400_000;
const WATCH_MS: i64 = 7 * DAY_MS;
const CHANNEL_MS: i64 = 7 * DAY_MS;
const READ_MAIL: [&str; 4] = ["https://mail.google.com/", "gmail.modify", "gmail.readonly", "gmail.metadata"];
const READ_EVENTS: [&str; 4] = ["calendar.events", "calendar.events.readonly", "calendar", "calendar.readonly"];

/// Of a mailbox: one in this project.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GmailWatch {
    /// Where its notices go.
    pub topic: String,
    /// In milliseconds since 1970.
    pub expires_at_ms: i64,
    /// How often it was asked for.
    pub asked: u64,
}

/// Of a calendar.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CalendarChannel {
    /// As the caller named it.
    pub id: String,
    /// What it is about.
    pub resource_id: String,
    /// Where it sends to.
    pub address: String,
    /// What it repeats.
    pub token: String,
    /// In milliseconds since 1970.
    pub expires_at_ms: i64,
}

/// `users.watch`: <https://developers.google.com/workspace/gmail/api/reference/rest/v1/users/watch>
pub(super) fn watch(state: &mut State, call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs(&READ_MAIL, &[], &[])?;
    let body = call.body(&["topicName", "labelIds", "labelFilterBehavior", "labelFilterAction"])?;
    let topic = body.get("topicName").and_then(Value::as_str).unwrap_or_default();
    if !topic.starts_with("projects/sandbox/topics/") {
        return Err(invalid("Invalid topicName does not match projects/sandbox/topics/*"));
    }
    let person = state.people.get_mut(&call.bearer.sub).ok_or_else(not_found)?;
    let asked = person.watch.as_ref().map_or(0, |watch| watch.asked) + 1;
    let expires_at_ms = call.now_ms + WATCH_MS;
    person.watch = Some(GmailWatch { topic: topic.to_owned(), expires_at_ms, asked });
    let history = person.history_id.to_string();
    Ok(Answer::json(200, json!({ "historyId": history, "expiration": expires_at_ms.to_string() })))
}

/// `users.stop`
pub(super) fn stop(state: &mut State, call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs(&READ_MAIL, &[], &[])?;
    state.people.get_mut(&call.bearer.sub).ok_or_else(not_found)?.watch = None;
    Ok(Answer::empty(204))
}

/// `events.watch`: <https://developers.google.com/workspace/calendar/api/v3/reference/events/watch>
pub(super) fn open(person: &mut Person, call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs(&READ_EVENTS, &[], &[])?;
    let body = call.body(&["id", "type", "address", "token", "params", "expiration", "payload"])?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (id, address, token) = (text("id"), text("address"), text("token"));
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_+/=".contains(c);
    if id.is_empty() || id.len() > 64 || !id.chars().all(letters) {
        return Err(error(400, "INVALID_ARGUMENT", "channelIdInvalid", "Channel id is missing or not valid"));
    }
    if text("type") != "web_hook" {
        return Err(error(400, "INVALID_ARGUMENT", "invalid", "Unknown channel type"));
    }
    let url = url::Url::parse(&address).ok();
    let loopback = |url: &url::Url| matches!(url.host_str(), Some("127.0.0.1" | "localhost"));
    if !url.is_some_and(|url| url.scheme() == "https" || loopback(&url)) {
        return Err(error(400, "INVALID_ARGUMENT", "push.webhookUrlNotHttps", "WebHook callback must be HTTPS"));
    }
    if token.len() > 256 {
        return Err(error(400, "INVALID_ARGUMENT", "channelTokenTooLong", "Channel token is too long"));
    }
    person.channels.retain(|channel| channel.expires_at_ms > call.now_ms);
    if person.channels.iter().any(|channel| channel.id == id) {
        return Err(error(400, "INVALID_ARGUMENT", "channelIdNotUnique", "Channel id is not unique"));
    }
    let resource_id = format!("res-{}", person.sub);
    let expires_at_ms = call.now_ms + CHANNEL_MS;
    let answer = json!({
        "kind": "api#channel", "id": id, "resourceId": resource_id,
        "resourceUri": "https://www.googleapis.com/calendar/v3/calendars/primary/events?alt=json",
        "token": token, "expiration": expires_at_ms.to_string(),
    });
    person.channels.push(CalendarChannel { id, resource_id, address, token, expires_at_ms });
    Ok(Answer::json(200, answer))
}

/// `channels.stop`
pub(super) fn close(state: &mut State, call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs(&READ_EVENTS, &[], &[])?;
    let body = call.body(&["id", "resourceId", "token"])?;
    let person = state.people.get_mut(&call.bearer.sub).ok_or_else(not_found)?;
    let before = person.channels.len();
    let named = |channel: &CalendarChannel| {
        body.get("id").is_some_and(|id| *id == channel.id)
            && body.get("resourceId").is_some_and(|id| *id == channel.resource_id)
    };
    person.channels.retain(|channel| channel.expires_at_ms > call.now_ms && !named(channel));
    if person.channels.len() == before {
        return Err(error(404, "NOT_FOUND", "notFound", "Channel not found for project"));
    }
    Ok(Answer::empty(204))
}
