//! `www.googleapis.com/calendar/v3/calendars/{id}/events`: list, get, insert. One calendar a person, no recurring events.
//!
//! <https://developers.google.com/workspace/calendar/api/v3/reference/events>

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat};
use serde_json::{Map, Value, json};

use super::api::{Call, no_such_method, page_start, page_token};
use super::error::{error, not_found};
use super::push;
use super::state::{Event, Person, State};
use crate::http::Answer;

const READ: [&str; 4] = ["calendar.events", "calendar.events.readonly", "calendar", "calendar.readonly"];
const WRITE: [&str; 2] = ["calendar.events", "calendar"];
const LIST: [&str; 12] = [
    "timeMin",
    "timeMax",
    "singleEvents",
    "orderBy",
    "q",
    "maxResults",
    "pageToken",
    "syncToken",
    "timeZone",
    "showDeleted",
    "updatedMin",
    "maxAttendees",
];
/// Not together with a sync token.
const NOT_WITH_SYNC: [&str; 5] = ["timeMin", "timeMax", "orderBy", "q", "updatedMin"];
const FIELDS: [&str; 11] = [
    "id",
    "summary",
    "description",
    "location",
    "start",
    "end",
    "attendees",
    "reminders",
    "transparency",
    "visibility",
    "status",
];
/// Of events whose times name no zone.
const ZONE: &str = "Europe/Berlin";

pub(super) fn serve(state: &mut State, call: &Call<'_>, calendar: &str, rest: &[&str]) -> Result<Answer, Answer> {
    let limit = state.options.page_limit.max(1);
    let url = call.url.to_owned();
    let person = state.people.get_mut(&call.bearer.sub).ok_or_else(not_found)?;
    let known = calendar == "primary" || calendar.eq_ignore_ascii_case(&person.email);
    match (call.request.method.as_str(), rest) {
        ("GET", []) => {
            call.needs(&READ, &LIST, &[])?;
            if known { list(person, call, limit) } else { Err(no_calendar()) }
        }
        ("GET", [id]) => {
            call.needs(&READ, &["timeZone", "maxAttendees"], &[])?;
            let event = person.events.iter().find(|event| known && event.body["id"] == *id);
            event.map(|event| Answer::json(200, event.body.clone())).ok_or_else(no_calendar)
        }
        ("POST", []) => {
            call.needs(&WRITE, &["sendUpdates", "conferenceDataVersion", "maxAttendees", "supportsAttachments"], &[])?;
            if known { insert(person, call, &url) } else { Err(no_calendar()) }
        }
        ("POST", ["watch"]) => {
            if known {
                push::open(person, call)
            } else {
                Err(no_calendar())
            }
        }
        _ => Err(no_such_method()),
    }
}

fn no_calendar() -> Answer {
    error(404, "NOT_FOUND", "notFound", "Not Found")
}

fn bad(message: &str) -> Answer {
    error(400, "INVALID_ARGUMENT", "invalid", message)
}

fn list(person: &Person, call: &Call<'_>, limit: usize) -> Result<Answer, Answer> {
    let param = |name: &str| call.request.param(name);
    let moment = |name: &str| match param(name) {
        None => Ok(None),
        Some(text) => match DateTime::parse_from_rfc3339(text) {
            Ok(at) => Ok(Some(at.timestamp_millis())),
            Err(_) => Err(error(400, "INVALID_ARGUMENT", "badRequest", "Bad Request")),
        },
    };
    let (from, until) = (moment("timeMin")?, moment("timeMax")?);
    if from.zip(until).is_some_and(|(from, until)| until <= from) {
        return Err(error(400, "INVALID_ARGUMENT", "timeRangeEmpty", "The specified time range is empty."));
    }
    let single = call.flag("singleEvents")?;
    match param("orderBy") {
        Some("startTime") if !single => {
            return Err(bad("The requested ordering is not available for the particular query."));
        }
        None | Some("startTime" | "updated") => {}
        Some(_) => return Err(bad("Invalid value for: orderBy")),
    }
    let since = match param("syncToken") {
        None => None,
        Some(_) if NOT_WITH_SYNC.iter().any(|name| param(name).is_some()) => {
            return Err(bad("Sync token cannot be combined with these parameters"));
        }
        Some(token) => {
            let seq = token.strip_prefix("CS").and_then(|seq| seq.parse::<u64>().ok());
            let seq = seq.filter(|seq| *seq >= person.oldest_sync);
            let gone = || {
                error(
                    410,
                    "FAILED_PRECONDITION",
                    "fullSyncRequired",
                    "Sync token is no longer valid, a full sync is required.",
                )
            };
            Some(seq.ok_or_else(gone)?)
        }
    };
    let size = call.number("maxResults", 250, 2500)?.min(limit);
    let of = format!("e:{:?}{:?}{}", from, until, param("q").unwrap_or_default());
    let start = page_start(param("pageToken"), &of)?;
    let word = param("q").unwrap_or_default().to_lowercase();
    let fits = |event: &&Event| {
        from.is_none_or(|from| event.end_ms > from)
            && until.is_none_or(|until| event.start_ms < until)
            && since.is_none_or(|since| event.seq > since)
            && (word.is_empty() || event.body.to_string().to_lowercase().contains(&word))
    };
    let mut found: Vec<&Event> = person.events.iter().filter(fits).collect();
    if param("orderBy") == Some("startTime") {
        found.sort_by_key(|event| event.start_ms);
    }
    let items: Vec<Value> = found.iter().skip(start).take(size).map(|event| event.body.clone()).collect();
    let mut body = json!({"kind": "calendar#events", "summary": person.email, "timeZone": ZONE, "items": items,
        "accessRole": "owner", "defaultReminders": []});
    if start + size < found.len() {
        body["nextPageToken"] = page_token(&of, start + size).into();
    } else {
        body["nextSyncToken"] = format!("CS{}", person.calendar_seq).into();
    }
    Ok(Answer::json(200, body))
}

fn insert(person: &mut Person, call: &Call<'_>, url: &str) -> Result<Answer, Answer> {
    match call.request.param("sendUpdates") {
        None | Some("all" | "externalOnly" | "none") => {}
        Some(_) => return Err(bad("Invalid value for: sendUpdates")),
    }
    let mut body = call.body(&FIELDS)?;
    let time = |name: &str| read_time(body.get(name));
    let (start, end) = (time("start")?, time("end")?);
    if start.day != end.day {
        return Err(bad("Start and end times must either both be date or both be dateTime."));
    }
    if end.at_ms < start.at_ms || (start.day && end.at_ms == start.at_ms) {
        return Err(error(400, "INVALID_ARGUMENT", "timeRangeEmpty", "The specified time range is empty."));
    }
    let id = match body.get("id") {
        None => format!("s{:012}", person.calendar_seq + 1),
        Some(Value::String(id)) if is_id(id) => id.clone(),
        Some(_) => return Err(bad("Invalid resource id value.")),
    };
    if person.events.iter().any(|event| event.body["id"] == *id) {
        return Err(error(409, "ALREADY_EXISTS", "duplicate", "The requested identifier already exists."));
    }
    for field in ["summary", "description", "location"] {
        if body.get(field).is_some_and(|value| !value.is_string()) {
            return Err(bad(&format!("Invalid value for: {field}")));
        }
    }
    for guest in guests(&mut body)? {
        guest.insert("responseStatus".to_owned(), json!("needsAction"));
    }
    person.calendar_seq += 1;
    let at =
        DateTime::from_timestamp_millis(call.now_ms).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true);
    let own = json!({"email": person.email, "self": true});
    for (name, value) in [
        ("kind", json!("calendar#event")),
        ("etag", json!(format!("\"{}\"", person.calendar_seq))),
        ("id", json!(id)),
        ("status", json!("confirmed")),
        ("htmlLink", json!(format!("{url}/google/www.googleapis.com/calendar/event?eid={id}"))),
        ("created", json!(at)),
        ("updated", json!(at)),
        ("creator", own.clone()),
        ("organizer", own),
        ("iCalUID", json!(format!("{id}@google.com"))),
        ("sequence", json!(0)),
        ("eventType", json!("default")),
    ] {
        body.insert(name.to_owned(), value);
    }
    let body = Value::Object(body);
    person.events.push(Event {
        seq: person.calendar_seq,
        start_ms: start.at_ms,
        end_ms: end.at_ms,
        body: body.clone(),
    });
    Ok(Answer::json(200, body))
}

fn guests(body: &mut Map<String, Value>) -> Result<Vec<&mut Map<String, Value>>, Answer> {
    let list = match body.get_mut("attendees") {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(bad("Invalid value for: attendees")),
    };
    let read = list.iter_mut().map(|guest| match guest {
        Value::Object(guest) if guest.get("email").and_then(Value::as_str).is_some_and(|email| email.contains('@')) => {
            Ok(guest)
        }
        _ => Err(bad("Invalid attendee email.")),
    });
    read.collect()
}

/// base32hex, small letters, 5 to 1024 of them.
fn is_id(id: &str) -> bool {
    (5..=1024).contains(&id.len()) && id.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'v').contains(&c))
}

struct Time {
    day: bool,
    at_ms: i64,
}

/// A day, or a moment with an offset or a zone. Zones are taken for UTC: only the order counts here.
fn read_time(value: Option<&Value>) -> Result<Time, Answer> {
    let missing = || error(400, "INVALID_ARGUMENT", "required", "Missing end time.");
    let Some(Value::Object(time)) = value else { return Err(missing()) };
    if let Some(name) = time.keys().find(|name| !["date", "dateTime", "timeZone"].contains(&name.as_str())) {
        return Err(bad(&format!("Unknown name \"{name}\" at 'event.start'")));
    }
    let text = |name: &str| time.get(name).and_then(Value::as_str);
    match (text("date"), text("dateTime")) {
        (Some(day), None) => {
            let day = NaiveDate::parse_from_str(day, "%Y-%m-%d").map_err(|_| bad("Invalid value for: date"))?;
            let at = day.and_hms_opt(0, 0, 0).map(|at| at.and_utc().timestamp_millis());
            Ok(Time { day: true, at_ms: at.unwrap_or_default() })
        }
        (None, Some(moment)) => {
            let with_offset = DateTime::parse_from_rfc3339(moment).map(|at| at.timestamp_millis()).ok();
            let local = NaiveDateTime::parse_from_str(moment, "%Y-%m-%dT%H:%M:%S").ok();
            let local = local.filter(|_| text("timeZone").is_some()).map(|at| at.and_utc().timestamp_millis());
            let at_ms = with_offset.or(local);
            Ok(Time { day: false, at_ms: at_ms.ok_or_else(|| bad("Missing time zone definition for start time."))? })
        }
        _ => Err(missing()),
    }
}
