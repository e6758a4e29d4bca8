//! Answers that several tools share.

use chrono::{DateTime, SecondsFormat};
use serde::Serialize;

use crate::{
    mail::{addresses, decode_words},
    model::{Event, EventTime, Guest, Message, Part},
};

/// A mail without its text.
#[derive(Debug, Serialize)]
pub(super) struct MailHead {
    message_id: String,
    thread_id: String,
    subject: String,
    from: Option<String>,
    to: Vec<String>,
    cc: Vec<String>,
    date: Option<String>,
    snippet: String,
    labels: Vec<String>,
}

impl MailHead {
    pub(super) fn of(message: &Message) -> Self {
        let empty = Part::default();
        let part = message.payload.as_ref().unwrap_or(&empty);
        let list = |name: &str| part.header(name).map(addresses).unwrap_or_default();
        Self {
            message_id: message.id.clone(),
            thread_id: message.thread_id.clone(),
            subject: part.header("subject").map(decode_words).unwrap_or_default(),
            from: list("from").into_iter().next(),
            to: list("to"),
            cc: list("cc"),
            date: message.internal_date.as_deref().and_then(moment),
            snippet: unescaped(message.snippet.as_deref().unwrap_or_default()),
            labels: message.label_ids.clone(),
        }
    }
}

/// Milliseconds of the epoch as RFC 3339.
fn moment(millis: &str) -> Option<String> {
    let at = DateTime::from_timestamp_millis(millis.trim().parse().ok()?)?;
    Some(at.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// Gmail escapes snippets for HTML.
fn unescaped(snippet: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    pairs.into_iter().fold(snippet.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A day or a moment.
#[derive(Debug, Serialize)]
pub(super) struct When {
    date: Option<String>,
    date_time: Option<String>,
    time_zone: Option<String>,
}

impl From<EventTime> for When {
    fn from(time: EventTime) -> Self {
        Self { date: time.date, date_time: time.date_time, time_zone: time.time_zone }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Person {
    email: Option<String>,
    name: Option<String>,
    response: Option<String>,
    optional: bool,
}

impl From<Guest> for Person {
    fn from(guest: Guest) -> Self {
        Self { email: guest.email, name: guest.display_name, response: guest.response_status, optional: guest.optional }
    }
}

/// An event of a calendar.
#[derive(Debug, Serialize)]
pub(super) struct EventView {
    id: String,
    url: Option<String>,
    summary: String,
    description: Option<String>,
    location: Option<String>,
    status: String,
    start: When,
    end: When,
    organizer: Option<Person>,
    attendees: Vec<Person>,
    attendees_complete: bool,
    series_id: Option<String>,
}

impl From<Event> for EventView {
    fn from(event: Event) -> Self {
        Self {
            id: event.id,
            url: event.html_link,
            summary: event.summary.unwrap_or_default(),
            description: event.description,
            location: event.location,
            status: event.status.unwrap_or_else(|| "confirmed".to_owned()),
            start: event.start.unwrap_or_default().into(),
            end: event.end.unwrap_or_default().into(),
            organizer: event.organizer.map(Person::from),
            attendees: event.attendees.into_iter().map(Person::from).collect(),
            attendees_complete: !event.attendees_omitted,
            series_id: event.recurring_event_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_snippets_are_read() {
        assert_eq!(moment("1767225600000").as_deref(), Some("2026-01-01T00:00:00Z"));
        for text in ["", "soon", "99999999999999999999", "9223372036854775807"] {
            assert_eq!(moment(text), None, "{text}");
        }
        assert_eq!(unescaped("Tom &amp; Ada &lt;3 &amp;lt; it&#39;s"), "Tom & Ada <3 &lt; it's");
    }
}
