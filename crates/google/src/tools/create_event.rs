//! `create_event`.

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use holdfast_core::{
    ApiClient,
    error::{Error, ErrorKind, Result},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    invalid,
    list_events::{calendar, zone},
    name::CREATE_EVENT as NAME,
    once,
    view::EventView,
};
use crate::api;

/// More people are a mailing list. <https://developers.google.com/workspace/calendar/api/v3/reference/events>
const MOST_ATTENDEES: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    calendar_id: Option<String>,
    summary: String,
    start: String,
    end: String,
    time_zone: Option<String>,
    description: Option<String>,
    location: Option<String>,
    #[serde(default)]
    attendees: Vec<String>,
    notify: Option<Notify>,
}

/// Who gets a mail about it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Notify {
    All,
    External,
    None,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    event: EventView,
    created: bool,
}

/// With a key, the event has an id that follows from it, so that the same call again cannot make a second one.
pub(super) async fn run(api: &ApiClient, arguments: Arguments, key: Option<&str>) -> Result<Answer> {
    let calendar = calendar(arguments.calendar_id.as_deref()).map_err(|message| invalid(api, NAME, message))?;
    let mut event = event(&arguments).map_err(|message| invalid(api, NAME, message))?;
    let notify = match (arguments.notify, arguments.attendees.is_empty()) {
        (Some(Notify::All), _) => "all",
        (Some(Notify::External), _) => "externalOnly",
        (Some(Notify::None), _) | (None, true) => "none",
        (None, false) => {
            return Err(invalid(api, NAME, "notify: expected all, external or none where people are invited"));
        }
    };
    let id = key.map(event_id);
    if let Some(id) = &id {
        event["id"] = json!(id);
    }

    match api::insert_event(api, NAME, calendar, &event, notify).await {
        Ok(made) => Ok(Answer { event: made.into(), created: true }),
        Err(error) if error.kind == ErrorKind::Conflict && id.is_some() => {
            let made = api::event(api, NAME, calendar, id.as_deref().unwrap_or_default()).await?;
            Ok(Answer { event: made.into(), created: false })
        }
        // The same call with the same key is safe, whatever became of this one.
        Err(error) if id.is_some() => Err(error),
        Err(error) => Err(look_first(error)),
    }
}

fn look_first(error: Error) -> Error {
    once(error, "list the events of that time")
}

/// Google wants the letters of base32hex, 5 to 1024 of them: `a` to `v` and digits.
fn event_id(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    digest.iter().take(20).fold("hf".to_owned(), |mut id, byte| {
        for nibble in [byte >> 4, byte & 15] {
            id.push(char::from_digit(u32::from(nibble), 16).expect("a nibble is a digit"));
        }
        id
    })
}

fn event(arguments: &Arguments) -> Result<Value, String> {
    let line = |field: &str, text: &str| {
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return Err(format!("{field}: expected words on one line"));
        }
        Ok(text.to_owned())
    };
    let zone = arguments.time_zone.as_deref().map(zone).transpose()?;
    let (start, end) = times(&arguments.start, &arguments.end, zone.as_deref())?;
    let mut event = json!({"summary": line("summary", &arguments.summary)?, "start": start, "end": end});
    if let Some(text) = arguments.description.as_deref().filter(|text| !text.trim().is_empty()) {
        event["description"] = json!(text);
    }
    if let Some(text) = &arguments.location {
        event["location"] = json!(line("location", text)?);
    }
    if arguments.attendees.len() > MOST_ATTENDEES {
        return Err(format!("attendees: expected at most {MOST_ATTENDEES}"));
    }
    let guests = arguments.attendees.iter().map(|address| {
        let address = address.trim();
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ',' | '<' | '>' | '"');
        let parts = address.split_once('@').filter(|(local, domain)| !local.is_empty() && domain.contains('.'));
        match parts {
            Some(_) if !address.contains(odd) => Ok(json!({ "email": address })),
            _ => Err("attendees: expected bare addresses like \"ada@example.com\", one each".to_owned()),
        }
    });
    let guests = guests.collect::<Result<Vec<_>, _>>()?;
    if !guests.is_empty() {
        event["attendees"] = json!(guests);
    }
    Ok(event)
}

/// Both days, or both moments: a moment has its offset, or there is a time zone.
fn times(start: &str, end: &str, zone: Option<&str>) -> Result<(Value, Value), String> {
    let (start, end) = (start.trim(), end.trim());
    let day = |text: &str| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    if let Some(first) = day(start) {
        let last = day(end).ok_or("end: expected a day like start, the one after the last")?;
        if last <= first {
            return Err("end: expected the day after the last one".to_owned());
        }
        return Ok((json!({"date": start}), json!({"date": end})));
    }
    if let (Ok(from), Ok(until)) = (DateTime::parse_from_rfc3339(start), DateTime::parse_from_rfc3339(end)) {
        if until < from {
            return Err("end: expected a moment that is not before start".to_owned());
        }
        let time = |at: DateTime<_>| {
            let mut time = json!({"dateTime": at.to_rfc3339()});
            if let Some(zone) = zone {
                time["timeZone"] = json!(zone);
            }
            time
        };
        return Ok((time(from), time(until)));
    }
    let local = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok();
    match (local(start), local(end), zone) {
        (Some(from), Some(until), Some(zone)) if until >= from => {
            Ok((json!({"dateTime": start, "timeZone": zone}), json!({"dateTime": end, "timeZone": zone})))
        }
        (Some(_), Some(_), Some(_)) => Err("end: expected a moment that is not before start".to_owned()),
        (Some(_), Some(_), None) => Err("time_zone: is needed where start and end have no offset".to_owned()),
        _ => Err("start: expected start and end alike: both days like \"2026-12-24\", or both moments like \
                  \"2026-12-24T18:00:00+01:00\""
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_moments_are_written_as_calendar_wants_them() {
        for (start, end, zone, expected) in [
            ("2026-12-24", "2026-12-27", None, json!({"date": "2026-12-24"})),
            (
                "2026-12-24T18:00:00+01:00",
                "2026-12-24T19:00:00+01:00",
                None,
                json!({"dateTime": "2026-12-24T18:00:00+01:00"}),
            ),
            (
                "2026-12-24T18:00:00",
                "2026-12-24T19:00:00",
                Some("Europe/Berlin"),
                json!({"dateTime": "2026-12-24T18:00:00", "timeZone": "Europe/Berlin"}),
            ),
        ] {
            assert_eq!(times(start, end, zone).unwrap().0, expected);
        }
        for (start, end, zone, field) in [
            ("2026-12-24", "2026-12-24", None, "end: "),
            ("2026-12-24", "2026-12-24T10:00:00Z", None, "end: "),
            ("2026-12-24T10:00:00Z", "2026-12-24T09:00:00Z", None, "end: "),
            ("2026-12-24T10:00:00", "2026-12-24T11:00:00", None, "time_zone: "),
            ("2026-12-24T10:00:00", "2026-12-24T09:00:00", Some("UTC"), "end: "),
            ("tomorrow", "later", None, "start: "),
            ("2026-02-30", "2026-03-01", None, "start: "),
        ] {
            assert!(times(start, end, zone).unwrap_err().starts_with(field), "{start} {end}");
        }
    }

    #[test]
    fn one_key_is_one_event_in_the_letters_that_google_takes() {
        let id = event_id("run_1:step_2");
        assert_eq!((id.clone(), id.len()), (event_id("run_1:step_2"), 42));
        assert_ne!(id, event_id("run_1:step_3"));
        assert!(id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'v').contains(&byte)));
    }
}
