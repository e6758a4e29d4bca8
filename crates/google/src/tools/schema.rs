//! The JSON Schemas of the tools, as text.

macro_rules! strings {
    () => {
        r#"{"type": "array", "items": {"type": "string"}}"#
    };
}

macro_rules! mail {
    () => {
        concat!(
            r#"{"type": "object", "additionalProperties": false,
                "required": ["message_id", "thread_id", "subject", "from", "to", "cc", "date", "snippet", "labels"],
                "properties": {
                  "message_id": {"type": "string", "description": "What get_mail and reply_mail take"},
                  "thread_id": {"type": "string", "description": "The same for all mails of a conversation"},
                  "subject": {"type": "string"},
                  "from": {"type": ["string", "null"]},
                  "to": "#,
            strings!(),
            r#", "cc": "#,
            strings!(),
            r#",
                  "date": {"type": ["string", "null"], "format": "date-time", "description": "When Gmail got it"},
                  "snippet": {"type": "string", "description": "The beginning of its text"},
                  "labels": {"type": "array", "items": {"type": "string"},
                    "description": "Like INBOX, UNREAD, SENT"}}}"#
        )
    };
}

macro_rules! when {
    () => {
        r#"{"type": "object", "additionalProperties": false, "required": ["date", "date_time", "time_zone"],
            "properties": {
              "date": {"type": ["string", "null"], "description": "A day, of an event without hours"},
              "date_time": {"type": ["string", "null"], "description": "A moment"},
              "time_zone": {"type": ["string", "null"]}}}"#
    };
}

macro_rules! event {
    () => {
        concat!(
            r#"{"type": "object", "additionalProperties": false,
                "required": ["id", "url", "summary", "description", "location", "status", "start", "end", "organizer",
                             "attendees", "attendees_complete", "series_id"],
                "properties": {
                  "id": {"type": "string"},
                  "url": {"type": ["string", "null"], "description": "Where people open it"},
                  "summary": {"type": "string"},
                  "description": {"type": ["string", "null"]},
                  "location": {"type": ["string", "null"]},
                  "status": {"type": "string", "description": "confirmed, tentative or cancelled"},
                  "start": "#,
            when!(),
            r#", "end": "#,
            when!(),
            r#",
                  "organizer": {"type": ["object", "null"], "additionalProperties": false,
                    "required": ["email", "name", "response", "optional"],
                    "properties": {"email": {"type": ["string", "null"]}, "name": {"type": ["string", "null"]},
                                   "response": {"type": ["string", "null"]}, "optional": {"type": "boolean"}}},
                  "attendees": {"type": "array", "items": {"type": "object", "additionalProperties": false,
                    "required": ["email", "name", "response", "optional"],
                    "properties": {"email": {"type": ["string", "null"]}, "name": {"type": ["string", "null"]},
                                   "response": {"type": ["string", "null"],
                                     "description": "needsAction, accepted, declined or tentative"},
                                   "optional": {"type": "boolean"}}}},
                  "attendees_complete": {"type": "boolean", "description": "false: there are more people than shown"},
                  "series_id": {"type": ["string", "null"], "description": "Of a recurring event"}}}"#
        )
    };
}

pub(super) const SEARCH_MAIL_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false,
  "properties": {
    "query": {"type": "string", "maxLength": 1000, "examples": ["invoice OR receipt newer_than:7d"],
      "description": "Words to look for, or terms of Gmail's search like newer_than:7d, has:attachment, in:sent"},
    "from": {"type": "string", "minLength": 1, "examples": ["ada@example.com"], "description": "Name or address of who wrote it"},
    "to": {"type": "string", "minLength": 1, "examples": ["team@example.com"], "description": "Name or address of who got it"},
    "subject": {"type": "string", "minLength": 1, "examples": ["Refund"], "description": "Words of the subject"},
    "unread": {"type": "boolean", "examples": [true], "description": "true: unread ones; false: read ones; absent: both"},
    "after": {"type": "string", "examples": ["2026-11-01"], "description": "From this day on"},
    "before": {"type": "string", "examples": ["2026-12-01"], "description": "Before this day"},
    "spam_and_trash": {"type": "boolean", "default": false, "examples": [false],
      "description": "true: spam and trash are searched too"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "examples": [10], "description": "Mails on a page"},
    "cursor": {"type": "string", "examples": ["09876543210987654321"],
      "description": "next_cursor of the page before, with otherwise the same arguments"}
  }
}"#;

pub(super) const SEARCH_MAIL_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["messages", "next_cursor"],
  "properties": {
    "messages": {"type": "array", "description": "Newest first", "items": "#,
    mail!(),
    r#"},
    "next_cursor": {"type": ["string", "null"], "description": "Gets the next page; null: there is none"}
  }
}"#
);

pub(super) const GET_MAIL_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["message_id"],
  "properties": {
    "message_id": {"type": "string", "minLength": 1, "examples": ["19ab3f2c41d0e5b7"], "description": "The mail's id"},
    "cursor": {"type": "string", "examples": ["20000"], "description": "next_cursor of an earlier answer: gets the rest of a long text"}
  }
}"#;

pub(super) const GET_MAIL_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false,
  "required": ["message", "reply_to", "text", "attachments", "next_cursor", "note"],
  "properties": {
    "message": "#,
    mail!(),
    r#",
    "reply_to": {"type": "array", "items": {"type": "string"}, "description": "Where answers go, if not to from"},
    "text": {"type": "string", "description": "As plain text; of an HTML mail what a person would read"},
    "attachments": {"type": "array", "items": {"type": "object", "additionalProperties": false,
      "required": ["filename", "mime_type", "size"],
      "properties": {"filename": {"type": ["string", "null"]}, "mime_type": {"type": "string"},
                     "size": {"type": "integer", "description": "In bytes"}}}},
    "next_cursor": {"type": ["string", "null"], "description": "Gets the rest of the text; null: that was all"},
    "note": {"type": ["string", "null"], "description": "Says so when a part could not be read"}
  }
}"#
);

pub(super) const SEND_MAIL_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["to", "subject", "body"],
  "properties": {
    "to": {"type": "array", "items": {"type": "string", "minLength": 3}, "examples": [["Ada Lovelace <ada@example.com>"]],
      "description": "Addresses, each with a name or without"},
    "cc": {"type": "array", "items": {"type": "string", "minLength": 3}, "examples": [["bob@example.com"]],
      "description": "Who gets a copy that everybody sees"},
    "bcc": {"type": "array", "items": {"type": "string", "minLength": 3}, "examples": [["cleo@example.com"]],
      "description": "Who gets a copy that nobody sees"},
    "subject": {"type": "string", "maxLength": 500, "examples": ["Your order"], "description": "On one line"},
    "body": {"type": "string", "minLength": 1, "examples": ["Hello Ada,\nit is on its way."], "description": "The text, as plain text"}
  }
}"#;

pub(super) const REPLY_MAIL_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["message_id", "body", "to_all"],
  "properties": {
    "message_id": {"type": "string", "minLength": 1, "examples": ["19ab3f2c41d0e5b7"], "description": "The mail that is answered"},
    "body": {"type": "string", "minLength": 1, "examples": ["Thank you, that helps."], "description": "The text, as plain text"},
    "to_all": {"type": "boolean", "examples": [false],
      "description": "false: to its sender alone; true: to everybody who got it too"}
  }
}"#;

pub(super) const SENT_OUTPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["message_id", "thread_id"],
  "properties": {
    "message_id": {"type": "string", "description": "Of what was sent. That it arrives is not proven by it."},
    "thread_id": {"type": "string"}
  }
}"#;

pub(super) const LIST_EVENTS_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["time_min"],
  "properties": {
    "calendar_id": {"type": "string", "minLength": 1, "default": "primary", "examples": ["primary"],
      "description": "primary, or the id of another calendar"},
    "time_min": {"type": "string", "format": "date-time", "examples": ["2026-11-30T00:00:00+01:00"],
      "description": "Events that end after this"},
    "time_max": {"type": "string", "format": "date-time", "examples": ["2026-12-07T00:00:00+01:00"],
      "description": "Events that begin before this"},
    "query": {"type": "string", "maxLength": 500, "examples": ["standup"], "description": "Words of the event"},
    "time_zone": {"type": "string", "examples": ["Europe/Berlin"], "description": "For the moments of the answer; absent: the calendar's"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 250, "default": 25, "examples": [25], "description": "Events on a page"},
    "cursor": {"type": "string", "examples": ["EiQKGmFiYw"],
      "description": "next_cursor of the page before, with otherwise the same arguments"}
  }
}"#;

pub(super) const LIST_EVENTS_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["events", "time_zone", "next_cursor"],
  "properties": {
    "events": {"type": "array", "items": "#,
    event!(),
    r#"},
    "time_zone": {"type": ["string", "null"], "description": "The calendar's"},
    "next_cursor": {"type": ["string", "null"], "description": "Gets the next page; null: there is none"}
  }
}"#
);

pub(super) const CREATE_EVENT_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["summary", "start", "end"],
  "properties": {
    "calendar_id": {"type": "string", "minLength": 1, "default": "primary", "examples": ["primary"],
      "description": "primary, or the id of another calendar"},
    "summary": {"type": "string", "minLength": 1, "maxLength": 1000, "examples": ["Call with Ada"], "description": "On one line"},
    "start": {"type": "string", "examples": ["2026-12-24T18:00:00+01:00"],
      "description": "A moment, or a day like 2026-12-24; without an offset, time_zone says whose"},
    "end": {"type": "string", "examples": ["2026-12-24T19:00:00+01:00"],
      "description": "Like start; of days, the one after the last"},
    "time_zone": {"type": "string", "examples": ["Europe/Berlin"], "description": "Whose moments they are"},
    "description": {"type": "string", "maxLength": 8000, "examples": ["About the order"], "description": "More about it"},
    "location": {"type": "string", "minLength": 1, "maxLength": 1000, "examples": ["Room 4"], "description": "Where, on one line"},
    "attendees": {"type": "array", "items": {"type": "string", "minLength": 3}, "examples": [["ada@example.com"]],
      "description": "Bare addresses of who is invited"},
    "notify": {"enum": ["all", "external", "none"], "examples": ["all"],
      "description": "Who gets a mail about it: everybody, those without a Google calendar, nobody. Needed where people are invited."}
  }
}"#;

pub(super) const CREATE_EVENT_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["event", "created"],
  "properties": {
    "event": "#,
    event!(),
    r#",
    "created": {"type": "boolean", "description": "false: an earlier call with the same idempotency key had made it"}
  }
}"#
);

pub(super) const READ_SHEET_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["spreadsheet_id", "range"],
  "properties": {
    "spreadsheet_id": {"type": "string", "minLength": 1, "examples": ["1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms"],
      "description": "The id, or the address of the page that shows it"},
    "range": {"type": "string", "minLength": 1, "maxLength": 300, "examples": ["Orders!A1:F"],
      "description": "In A1 notation; the name of a sheet alone is the whole sheet"},
    "render": {"enum": ["formatted", "unformatted", "formula"], "default": "formatted", "examples": ["formatted"],
      "description": "Cells as people see them, as bare values, or as formulas"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 200, "examples": [200], "description": "Rows on a page"},
    "cursor": {"type": "string", "examples": ["200"],
      "description": "next_cursor of the page before, with otherwise the same arguments"}
  }
}"#;

pub(super) const READ_SHEET_OUTPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["range", "rows", "row_count", "next_cursor"],
  "properties": {
    "range": {"type": "string", "description": "What was read"},
    "rows": {"type": "array", "items": {"type": "array"},
      "description": "Cells are text, numbers or booleans; empty ones at the end of a row or of the range are left out"},
    "row_count": {"type": "integer", "description": "Rows of the range that hold something, on all pages"},
    "next_cursor": {"type": ["string", "null"], "description": "Gets the next rows; null: there are none"}
  }
}"#;

pub(super) const APPEND_SHEET_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["spreadsheet_id", "range", "rows"],
  "properties": {
    "spreadsheet_id": {"type": "string", "minLength": 1, "examples": ["1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms"],
      "description": "The id, or the address of the page that shows it"},
    "range": {"type": "string", "minLength": 1, "maxLength": 300, "examples": ["Orders!A1:F"],
      "description": "Where the table is, in A1 notation; the rows come below its last one"},
    "rows": {"type": "array", "items": {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}},
      "examples": [[["2026-11-30", "Ada", 12.5]]], "description": "Rows of cells, at most 1000; null leaves a cell out"},
    "parse": {"type": "boolean", "default": false, "examples": [false],
      "description": "true: as if a person typed it, so that =A1+1 becomes a formula and 1/2 a date; false: as it is"}
  }
}"#;

pub(super) const APPEND_SHEET_OUTPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["range", "rows", "cells", "table"],
  "properties": {
    "range": {"type": "string", "description": "What was written"},
    "rows": {"type": "integer"},
    "cells": {"type": "integer"},
    "table": {"type": ["string", "null"], "description": "The table that it was added to"}
  }
}"#;
