//! One function per endpoint that we use: build, send, decode. `operation` is the tool on whose behalf it is called.

use holdfast_core::{ApiClient, api_client::segment, error::Result, wire};
use serde_json::{Value, json};

use crate::model::{Appended, Event, EventPage, Message, MessagePage, PartBody, Userinfo, ValueRange};

/// `https://gmail.googleapis.com/gmail`.
pub(crate) const GMAIL: &str = "gmail";
/// `https://sheets.googleapis.com`.
pub(crate) const SHEETS: &str = "sheets";
/// `https://openidconnect.googleapis.com`.
pub(crate) const OPENID: &str = "openid";

/// Who consented. <https://openidconnect.googleapis.com/v1/userinfo>
pub(crate) async fn userinfo(api: &ApiClient) -> Result<Userinfo> {
    api.get("v1/userinfo").at(OPENID).operation("identity").fetch().await
}

/// One page of ids, newest first; `query` in Gmail's search language. At most 500 a page.
/// <https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages/list>
pub(crate) async fn messages(
    api: &ApiClient,
    operation: &'static str,
    query: &str,
    size: u32,
    page: Option<&str>,
    spam_and_trash: bool,
) -> Result<MessagePage> {
    let mut call = api.get("v1/users/me/messages").at(GMAIL).operation(operation).query("maxResults", size);
    if !query.is_empty() {
        call = call.query("q", query);
    }
    if spam_and_trash {
        call = call.query("includeSpamTrash", true);
    }
    if let Some(page) = page {
        call = call.query("pageToken", page);
    }
    call.fetch().await
}

/// A message with these headers alone, and no body.
/// <https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages/get>
pub(crate) async fn message_head(
    api: &ApiClient,
    operation: &'static str,
    id: &str,
    headers: &[&str],
) -> Result<Message> {
    let path = format!("v1/users/me/messages/{}", segment(id));
    let call = api.get(path).at(GMAIL).operation(operation).query("format", "metadata");
    let call = headers.iter().fold(call, |call, name| call.query("metadataHeaders", name));
    the_one(api, operation, id, call.fetch().await?)
}

/// A whole message, its MIME tree parsed by Gmail.
pub(crate) async fn message(api: &ApiClient, operation: &'static str, id: &str) -> Result<Message> {
    let path = format!("v1/users/me/messages/{}", segment(id));
    let call = api.get(path).at(GMAIL).operation(operation).query("format", "full");
    the_one(api, operation, id, call.fetch().await?)
}

/// Never another one than was asked for.
fn the_one(api: &ApiClient, operation: &'static str, id: &str, message: Message) -> Result<Message> {
    if message.id == id { Ok(message) } else { Err(wire::mistaken(api, operation, "mail")) }
}

/// What a part holds that does not come with its message.
/// <https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages.attachments/get>
pub(crate) async fn part(api: &ApiClient, operation: &'static str, id: &str, attachment: &str) -> Result<PartBody> {
    let path = format!("v1/users/me/messages/{}/attachments/{}", segment(id), segment(attachment));
    api.get(path).at(GMAIL).operation(operation).fetch().await
}

/// Sends a message; `raw` is base64url of RFC 5322.
/// <https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages/send>
pub(crate) async fn send(api: &ApiClient, operation: &'static str, raw: &str, thread: Option<&str>) -> Result<Message> {
    let mut body = json!({ "raw": raw });
    if let Some(thread) = thread {
        body["threadId"] = json!(thread);
    }
    api.post("v1/users/me/messages/send").at(GMAIL).operation(operation).json(&body).fetch().await
}

fn events_path(calendar: &str) -> String {
    format!("calendar/v3/calendars/{}/events", segment(calendar))
}

/// One page of events in their order, recurring ones one by one. `query` are further parameters.
/// <https://developers.google.com/workspace/calendar/api/v3/reference/events/list>
pub(crate) async fn events(
    api: &ApiClient,
    operation: &'static str,
    calendar: &str,
    query: &[(&str, String)],
) -> Result<EventPage> {
    let call = api.get(events_path(calendar)).operation(operation);
    let call = call.query("singleEvents", true).query("orderBy", "startTime");
    query.iter().fold(call, |call, (name, value)| call.query(name, value)).fetch().await
}

/// One event.
/// <https://developers.google.com/workspace/calendar/api/v3/reference/events/get>
pub(crate) async fn event(api: &ApiClient, operation: &'static str, calendar: &str, id: &str) -> Result<Event> {
    api.get(format!("{}/{}", events_path(calendar), segment(id))).operation(operation).fetch().await
}

/// Makes an event; `notify` is `all`, `externalOnly` or `none`.
/// <https://developers.google.com/workspace/calendar/api/v3/reference/events/insert>
pub(crate) async fn insert_event(
    api: &ApiClient,
    operation: &'static str,
    calendar: &str,
    event: &Value,
    notify: &str,
) -> Result<Event> {
    api.post(events_path(calendar)).operation(operation).query("sendUpdates", notify).json(event).fetch().await
}

/// Cells of a range.
/// <https://developers.google.com/workspace/sheets/api/reference/rest/v4/spreadsheets.values/get>
pub(crate) async fn values(
    api: &ApiClient,
    operation: &'static str,
    spreadsheet: &str,
    range: &str,
    render: &str,
) -> Result<ValueRange> {
    let path = format!("v4/spreadsheets/{}/values/{}", segment(spreadsheet), segment(range));
    let call = api.get(path).at(SHEETS).operation(operation).query("valueRenderOption", render);
    call.query("majorDimension", "ROWS").fetch().await
}

/// Rows below the table that is found in a range; `input` is `RAW` or `USER_ENTERED`.
/// <https://developers.google.com/workspace/sheets/api/reference/rest/v4/spreadsheets.values/append>
pub(crate) async fn append(
    api: &ApiClient,
    operation: &'static str,
    spreadsheet: &str,
    range: &str,
    input: &str,
    rows: &[Vec<Value>],
) -> Result<Appended> {
    let path = format!("v4/spreadsheets/{}/values/{}:append", segment(spreadsheet), segment(range));
    let call = api.post(path).at(SHEETS).operation(operation).query("valueInputOption", input);
    let body = json!({"majorDimension": "ROWS", "values": rows});
    call.query("insertDataOption", "INSERT_ROWS").json(&body).fetch().await
}
