//! Wire types, spelled as Google spells them. What may be missing is optional, and lists are empty without it.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(crate) struct Userinfo {
    #[serde(default, deserialize_with = "text_or_number")]
    pub(crate) sub: Option<String>,
    pub(crate) email: Option<String>,
    #[serde(default, deserialize_with = "flag")]
    pub(crate) email_verified: Option<bool>,
    pub(crate) name: Option<String>,
}

/// A page of messages: ids alone.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessagePage {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) messages: Vec<MessageRef>,
    pub(crate) next_page_token: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct MessageRef {
    pub(crate) id: String,
}

/// <https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages#Message>
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    pub(crate) id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) thread_id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) label_ids: Vec<String>,
    pub(crate) snippet: Option<String>,
    /// Milliseconds of the epoch, as text.
    #[serde(default, deserialize_with = "text_or_number")]
    pub(crate) internal_date: Option<String>,
    pub(crate) payload: Option<Part>,
}

/// One part of a mail's MIME tree.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Part {
    #[serde(deserialize_with = "or_default")]
    pub(crate) mime_type: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) filename: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) headers: Vec<Header>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) body: PartBody,
    #[serde(deserialize_with = "or_default")]
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Header {
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PartBody {
    /// Of a part that has to be fetched by itself.
    pub(crate) attachment_id: Option<String>,
    pub(crate) size: u64,
    /// base64url.
    pub(crate) data: Option<String>,
}

impl Part {
    /// The first header of this name, in whatever letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value.as_str())
    }
}

/// <https://developers.google.com/workspace/calendar/api/v3/reference/events/list>
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventPage {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) items: Vec<Event>,
    pub(crate) next_page_token: Option<String>,
    pub(crate) time_zone: Option<String>,
}

/// <https://developers.google.com/workspace/calendar/api/v3/reference/events#resource>
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) status: Option<String>,
    pub(crate) html_link: Option<String>,
    pub(crate) summary: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) start: Option<EventTime>,
    pub(crate) end: Option<EventTime>,
    pub(crate) organizer: Option<Guest>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) attendees: Vec<Guest>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) attendees_omitted: bool,
    pub(crate) recurring_event_id: Option<String>,
}

/// A day (`date`) or a moment (`dateTime`).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventTime {
    pub(crate) date: Option<String>,
    pub(crate) date_time: Option<String>,
    pub(crate) time_zone: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Guest {
    pub(crate) email: Option<String>,
    pub(crate) display_name: Option<String>,
    pub(crate) response_status: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) optional: bool,
}

/// <https://developers.google.com/workspace/sheets/api/reference/rest/v4/spreadsheets.values#ValueRange>
#[derive(Debug, Deserialize)]
pub(crate) struct ValueRange {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) range: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) values: Vec<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Appended {
    pub(crate) table_range: Option<String>,
    pub(crate) updates: Updates,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Updates {
    #[serde(rename = "updatedRange")]
    pub(crate) range: String,
    #[serde(rename = "updatedRows")]
    pub(crate) rows: u64,
    #[serde(rename = "updatedCells")]
    pub(crate) cells: u64,
}

/// Null is as good as absent.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Google writes 64-bit numbers as text, and some servers in between do not.
fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Option::<Value>::deserialize(from)? {
        Some(Value::String(text)) => Some(text),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    })
}

/// `email_verified` is text at one of Google's two userinfo endpoints.
fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    Ok(match Option::<Value>::deserialize(from)? {
        Some(Value::Bool(flag)) => Some(flag),
        Some(Value::String(text)) => text.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_null_or_absent_is_empty_and_numbers_may_be_text() {
        let null = json!({"id": "1", "threadId": null, "labelIds": null, "internalDate": 17, "payload": {
            "mimeType": null, "filename": null, "headers": [{"name": "A", "value": null}], "body": null, "parts": null}});
        let mail: Message = serde_json::from_value(null).unwrap();
        assert_eq!((mail.thread_id.as_str(), mail.internal_date.as_deref()), ("", Some("17")));
        let part = mail.payload.unwrap();
        assert!(part.parts.is_empty() && part.body.size == 0 && part.header("a") == Some(""));
        let page: EventPage = serde_json::from_value(json!({"items": null})).unwrap();
        assert!(page.items.is_empty());
        let sheet: ValueRange = serde_json::from_value(json!({})).unwrap();
        assert!(sheet.values.is_empty());
        assert!(serde_json::from_value::<Message>(json!({"id": "1", "labelIds": "INBOX"})).is_err());
    }
}
