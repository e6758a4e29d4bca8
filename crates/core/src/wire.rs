//! Reading what providers answer: every spelling of one thing that real accounts are known to use, and words about the rest
//! that name the place and repeat nothing of the content.

use chrono::{DateTime, NaiveDateTime, Utc};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;
use url::Url;

use crate::{
    api_client::ApiClient,
    error::{Error, ErrorKind, Result},
    ticket::Attachment,
};

/// Reads a JSON answer. An error names the provider and the field.
pub fn read<T: DeserializeOwned>(api: &ApiClient, operation: &'static str, body: &[u8]) -> Result<T> {
    let mut from = serde_json::Deserializer::from_slice(body);
    let read: T = serde_path_to_error::deserialize(&mut from)
        .map_err(|error| unreadable(api, operation, &error.path().to_string()))?;
    from.end().map_err(|_| unreadable(api, operation, "."))?;
    Ok(read)
}

/// The same of a part of an answer that was read before.
pub fn read_value<T: DeserializeOwned>(api: &ApiClient, operation: &'static str, part: Value) -> Result<T> {
    serde_path_to_error::deserialize(part).map_err(|error| unreadable(api, operation, &error.path().to_string()))
}

/// An answer that is not what the provider's documentation says, at this place (`.`: all of it).
pub fn unreadable(api: &ApiClient, operation: &'static str, place: &str) -> Error {
    let name = api.provider_name();
    // Names of fields are the adapter's own, but for maps: their keys may be anybody's.
    let place: String = place.chars().filter(|c| !c.is_control()).take(100).collect();
    let message = match place.as_str() {
        "." | "" | "?" => format!("{name}'s answer is not what its documentation says"),
        place => format!("{name}'s answer is not what its documentation says, at {place}"),
    };
    api.error(operation, ErrorKind::Unreadable, message)
}

/// An answer about something else than was asked for.
pub fn mistaken(api: &ApiClient, operation: &'static str, what: &str) -> Error {
    let message = format!("{} answered with another {what} than was asked for", api.provider_name());
    api.error(operation, ErrorKind::Unreadable, message)
}

/// A whole number, or its digits in a string: ids come as both.
pub fn number<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<i64, D::Error> {
    maybe_number(from)?.ok_or_else(|| D::Error::custom("expected a whole number"))
}

/// The same, where it may be null; with `#[serde(default)]` also absent.
pub fn maybe_number<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<i64>, D::Error> {
    let none = || D::Error::custom("expected a whole number");
    match Option::<Value>::deserialize(from)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => number.as_i64().map(Some).ok_or_else(none),
        Some(Value::String(digits)) if digits.is_empty() => Ok(None),
        Some(Value::String(digits)) => digits.parse().map(Some).map_err(|_| none()),
        Some(_) => Err(none()),
    }
}

/// An opaque id: text, or a number in its place.
pub fn text<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<String, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(D::Error::custom("expected a text")),
    }
}

/// Null is as good as absent; to be used with `#[serde(default)]`.
pub fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A moment in ISO 8601. Without a zone it is UTC.
pub fn moment<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<DateTime<Utc>, D::Error> {
    let text = String::deserialize(from)?;
    parse_moment(&text).ok_or_else(|| D::Error::custom("expected a moment in ISO 8601"))
}

/// The same where nothing rests on it: one that cannot be read is none.
pub fn maybe_moment<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<DateTime<Utc>>, D::Error> {
    Ok(Option::<Value>::deserialize(from)?.as_ref().and_then(Value::as_str).and_then(parse_moment))
}

/// Reads a moment as [`moment`] does.
pub fn parse_moment(text: &str) -> Option<DateTime<Utc>> {
    let zoned = DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc));
    let plain = |shape: &str| NaiveDateTime::parse_from_str(text, shape).ok().map(|at| at.and_utc());
    zoned.or_else(|| plain("%Y-%m-%dT%H:%M:%S%.f")).or_else(|| plain("%Y-%m-%d %H:%M:%S%.f"))
}

/// Files of a message, whatever the provider calls their fields. What is no list, or no file, is left out: a message is
/// worth more than its attachments.
pub fn attachments<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Vec<Attachment>, D::Error> {
    let given = Option::<Value>::deserialize(from)?.unwrap_or_default();
    Ok(given.as_array().into_iter().flatten().filter_map(attachment).collect())
}

fn attachment(file: &Value) -> Option<Attachment> {
    let text = |names: &[&str]| {
        let found = names.iter().find_map(|name| file[*name].as_str());
        found.map(str::to_owned).filter(|text| !text.trim().is_empty())
    };
    file.as_object()?;
    let url = text(&["content_url", "attachment_url", "url"]);
    Some(Attachment {
        name: text(&["file_name", "filename", "name"]),
        size_bytes: file["size"].as_u64().or_else(|| file["size"].as_str()?.parse().ok()),
        content_type: text(&["content_type"]),
        // It is shown to people: nothing but a web address.
        url: url
            .filter(|url| Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "https" | "http") && url.has_host())),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Odd {
        #[serde(deserialize_with = "number")]
        id: i64,
        #[serde(default, deserialize_with = "maybe_number")]
        owner: Option<i64>,
        #[serde(default, deserialize_with = "or_default")]
        tags: Vec<String>,
        #[serde(deserialize_with = "moment")]
        at: DateTime<Utc>,
        #[serde(default, deserialize_with = "attachments")]
        files: Vec<Attachment>,
    }

    fn odd(change: &[(&str, Value)]) -> std::result::Result<Odd, String> {
        let mut json = json!({"id": 1, "at": "2026-11-01T10:00:00Z"});
        for (field, value) in change {
            json[field] = value.clone();
        }
        serde_path_to_error::deserialize(json).map_err(|error| error.path().to_string())
    }

    #[test]
    fn numbers_may_be_text_lists_may_be_null_and_moments_may_lack_their_zone() {
        let large = 9_007_199_254_740_993_i64;
        for id in [json!(large), json!("9007199254740993")] {
            assert_eq!(
                odd(&[("id", id.clone()), ("owner", id)]).map(|odd| (odd.id, odd.owner)),
                Ok((large, Some(large)))
            );
        }
        for owner in [json!(null), json!("")] {
            assert_eq!(odd(&[("owner", owner)]).unwrap().owner, None);
        }
        assert_eq!(odd(&[("tags", json!(null))]).unwrap().tags, [""; 0]);
        for at in ["2026-11-01T10:00:00", "2026-11-01 10:00:00", "2026-11-01T11:00:00.000+01:00"] {
            assert_eq!(odd(&[("at", json!(at))]).unwrap().at.to_rfc3339(), "2026-11-01T10:00:00+00:00");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_by_its_field() {
        for (field, value) in [
            ("id", json!(null)),
            ("id", json!(1.5)),
            ("id", json!("#7")),
            ("id", json!([1])),
            ("owner", json!({"id": 1})),
            ("owner", json!("Mira")),
            ("tags", json!("vip")),
            ("at", json!("yesterday")),
            ("at", json!("2026-13-01T10:00:00Z")),
            ("at", json!(null)),
        ] {
            assert_eq!(odd(&[(field, value.clone())]).map(|_| ()), Err(field.to_owned()), "{value}");
        }
    }

    #[test]
    fn a_file_has_a_web_address_or_none_and_odd_ones_hide_no_message() {
        let files = |files: Value| odd(&[("files", files)]).unwrap().files;
        let one = Attachment {
            name: Some("cup.jpg".to_owned()),
            size_bytes: Some(1200),
            content_type: Some("image/jpeg".to_owned()),
            url: Some("https://cdn.example.com/1?sig=x".to_owned()),
        };
        for (name, url) in [("file_name", "content_url"), ("name", "attachment_url"), ("filename", "url")] {
            let file = json!({"id": 1, name: "cup.jpg", url: "https://cdn.example.com/1?sig=x", "size": 1200,
                "content_type": "image/jpeg"});
            assert_eq!(files(json!([file])), std::slice::from_ref(&one));
        }
        for odd in [json!(null), json!("x"), json!([]), json!([null, 7, "x"])] {
            assert_eq!(files(odd), []);
        }
        for url in ["javascript:alert(1)", "/attachments/1", "https://", ""] {
            assert_eq!(files(json!([{"url": url, "name": "a"}]))[0].url, None, "{url}");
        }
        assert_eq!(files(json!([{"size": "77"}]))[0].size_bytes, Some(77));
    }
}
