//! `list_events`.

use holdfast_core::{ApiClient, error::Result};
use serde::{Deserialize, Serialize};

use super::{cursor, invalid, name::LIST_EVENTS as NAME, view::EventView, within};
use crate::api;

/// Google itself allows 2,500; nobody reads that many at once.
const MOST_PER_PAGE: u32 = 250;
const USUAL_PER_PAGE: u32 = 25;
const PRIMARY: &str = "primary";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    calendar_id: Option<String>,
    time_min: String,
    time_max: Option<String>,
    query: Option<String>,
    time_zone: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    events: Vec<EventView>,
    time_zone: Option<String>,
    next_cursor: Option<String>,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let calendar = calendar(arguments.calendar_id.as_deref()).map_err(|message| invalid(api, NAME, message))?;
    let query = query(&arguments).map_err(|message| invalid(api, NAME, message))?;

    let found = api::events(api, NAME, calendar, &query).await?;

    let next = found.next_page_token.filter(|next| !next.is_empty() && Some(next) != arguments.cursor.as_ref());
    Ok(Answer {
        events: found.items.into_iter().map(EventView::from).collect(),
        time_zone: found.time_zone,
        next_cursor: next,
    })
}

/// `primary`, or the address that a calendar has for an id.
pub(super) fn calendar(id: Option<&str>) -> Result<&str, String> {
    let id = id.unwrap_or(PRIMARY).trim();
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '\\' | '?');
    if id.is_empty() || id.len() > 1024 || id.contains(odd) || matches!(id, "." | "..") {
        return Err(
            "calendar_id: expected primary or the id of a calendar, like \"team@group.calendar.google.com\"".into()
        );
    }
    Ok(id)
}

/// A moment with its offset, as Calendar wants it (RFC 3339).
pub(super) fn moment(field: &str, text: &str) -> Result<String, String> {
    let read = chrono::DateTime::parse_from_rfc3339(text.trim());
    let read =
        read.map_err(|_| format!("{field}: expected a moment with its offset, like \"2026-11-30T09:00:00+01:00\""))?;
    Ok(read.to_rfc3339())
}

/// A name of the IANA database, as far as its letters go; Google knows which there are.
pub(super) fn zone(text: &str) -> Result<String, String> {
    let text = text.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
    if text.is_empty() || text.len() > 64 || !text.chars().all(plain) {
        return Err("time_zone: expected a name like \"Europe/Berlin\"".to_owned());
    }
    Ok(text.to_owned())
}

fn query(arguments: &Arguments) -> Result<Vec<(&'static str, String)>, String> {
    let size = within("limit", arguments.limit, USUAL_PER_PAGE, MOST_PER_PAGE)?;
    let from = moment("time_min", &arguments.time_min)?;
    let mut query = vec![("maxResults", size.to_string()), ("timeMin", from)];
    if let Some(until) = &arguments.time_max {
        query.push(("timeMax", moment("time_max", until)?));
        let parse = |text: &str| chrono::DateTime::parse_from_rfc3339(text.trim()).ok();
        if parse(until) <= parse(&arguments.time_min) {
            return Err("time_max: expected a moment after time_min".to_owned());
        }
    }
    if let Some(text) = arguments.query.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        query.push(("q", text.to_owned()));
    }
    if let Some(text) = &arguments.time_zone {
        query.push(("timeZone", zone(text)?));
    }
    if let Some(text) = &arguments.cursor {
        query.push(("pageToken", cursor(text)?.to_owned()));
    }
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(time_min: &str, time_max: Option<&str>) -> Arguments {
        Arguments {
            calendar_id: None,
            time_min: time_min.to_owned(),
            time_max: time_max.map(str::to_owned),
            query: None,
            time_zone: None,
            limit: None,
            cursor: None,
        }
    }

    #[test]
    fn moments_need_their_offset_and_have_their_order() {
        let good = query(&arguments("2026-11-30T09:00:00+01:00", Some("2026-12-01T00:00:00Z"))).unwrap();
        assert_eq!(good[1], ("timeMin", "2026-11-30T09:00:00+01:00".to_owned()));
        for (from, until, field) in [
            ("2026-11-30", None, "time_min: "),
            ("2026-11-30T09:00:00", None, "time_min: "),
            ("2026-11-30T09:00:00Z", Some("tomorrow"), "time_max: "),
            ("2026-11-30T09:00:00Z", Some("2026-11-30T10:00:00+01:00"), "time_max: "),
        ] {
            assert!(query(&arguments(from, until)).unwrap_err().starts_with(field), "{from} {until:?}");
        }
    }

    #[test]
    fn a_calendar_is_no_path_and_a_zone_is_a_name() {
        assert_eq!(calendar(None), Ok("primary"));
        assert_eq!(calendar(Some("team@group.calendar.google.com")), Ok("team@group.calendar.google.com"));
        for id in ["", "..", "a/b", "a b", "a?b", "a\nb"] {
            assert!(calendar(Some(id)).is_err(), "{id:?}");
        }
        assert!(zone("America/Argentina/Buenos_Aires").is_ok() && zone("Etc/GMT+3").is_ok());
        assert!(zone("Europe Berlin").is_err() && zone("").is_err());
    }
}
