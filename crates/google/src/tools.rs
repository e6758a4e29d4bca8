//! What agents see: name, schemas, and the way between the wire and the answers.

mod append_sheet;
mod create_event;
mod get_mail;
mod list_events;
mod read_sheet;
mod reply_mail;
mod schema;
mod search_mail;
mod send_mail;
mod view;

use std::time::Duration;

use holdfast_core::{
    ApiClient,
    error::{Error, ErrorKind, Result, Retry},
    ports::{HttpFailure, Sent},
    tool::{Access, Repeat, Tool, ToolCall, ToolOutput, invalid, unknown},
};

/// What the tools are called.
pub(crate) mod name {
    pub(crate) const SEARCH_MAIL: &str = "search_mail";
    pub(crate) const GET_MAIL: &str = "get_mail";
    pub(crate) const SEND_MAIL: &str = "send_mail";
    pub(crate) const REPLY_MAIL: &str = "reply_mail";
    pub(crate) const LIST_EVENTS: &str = "list_events";
    pub(crate) const CREATE_EVENT: &str = "create_event";
    pub(crate) const READ_SHEET: &str = "read_sheet";
    pub(crate) const APPEND_SHEET: &str = "append_sheet";
}

/// An event made with a key has an id made of it, which its calendar knows for good.
const EVENT_KEPT: Duration = Duration::from_hours(24 * 365);

pub(crate) const ALL: &[Tool] = &[
    Tool {
        name: name::SEARCH_MAIL,
        description: "Searches the mailbox, newest first, a page at a time. All filters have to hold together. Spam and \
                      trash are left out unless asked for.",
        access: Access::Read,
        repeat: Repeat::Safe,
        input_schema: schema::SEARCH_MAIL_INPUT,
        output_schema: schema::SEARCH_MAIL_OUTPUT,
    },
    Tool {
        name: name::GET_MAIL,
        description: "Reads one mail: its people, its text, and the names of its attachments. A long text comes in \
                      pieces, behind a cursor.",
        access: Access::Read,
        repeat: Repeat::Safe,
        input_schema: schema::GET_MAIL_INPUT,
        output_schema: schema::GET_MAIL_OUTPUT,
    },
    Tool {
        name: name::SEND_MAIL,
        description: "Sends a new mail as plain text, in the name of the connected account. Calling it twice sends two.",
        access: Access::Write,
        repeat: Repeat::Never,
        input_schema: schema::SEND_MAIL_INPUT,
        output_schema: schema::SENT_OUTPUT,
    },
    Tool {
        name: name::REPLY_MAIL,
        description: "Answers a mail as plain text, in its conversation: to its sender, or to everybody in it. Calling it \
                      twice sends two.",
        access: Access::Write,
        repeat: Repeat::Never,
        input_schema: schema::REPLY_MAIL_INPUT,
        output_schema: schema::SENT_OUTPUT,
    },
    Tool {
        name: name::LIST_EVENTS,
        description: "Lists the events of a calendar by their start, recurring ones one by one, a page at a time.",
        access: Access::Read,
        repeat: Repeat::Safe,
        input_schema: schema::LIST_EVENTS_INPUT,
        output_schema: schema::LIST_EVENTS_OUTPUT,
    },
    Tool {
        name: name::CREATE_EVENT,
        description: "Makes an event, for some days or from one moment to another, and may invite people. With an \
                      idempotency key, the same call again finds the event that it made.",
        access: Access::Write,
        repeat: Repeat::ProviderKey { kept: EVENT_KEPT },
        input_schema: schema::CREATE_EVENT_INPUT,
        output_schema: schema::CREATE_EVENT_OUTPUT,
    },
    Tool {
        name: name::READ_SHEET,
        description: "Reads the cells of a range of a spreadsheet, row by row, a page of rows at a time.",
        access: Access::Read,
        repeat: Repeat::Safe,
        input_schema: schema::READ_SHEET_INPUT,
        output_schema: schema::READ_SHEET_OUTPUT,
    },
    Tool {
        name: name::APPEND_SHEET,
        description: "Adds rows below a table of a spreadsheet. Calling it twice adds them twice.",
        access: Access::Write,
        repeat: Repeat::Never,
        input_schema: schema::APPEND_SHEET_INPUT,
        output_schema: schema::APPEND_SHEET_OUTPUT,
    },
];

pub(crate) async fn call(api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
    match call.tool.as_str() {
        name::SEARCH_MAIL => Ok(ToolOutput::of(&search_mail::run(api, call.read(api, name::SEARCH_MAIL)?).await?)),
        name::GET_MAIL => Ok(ToolOutput::of(&get_mail::run(api, call.read(api, name::GET_MAIL)?).await?)),
        name::SEND_MAIL => Ok(ToolOutput::of(&send_mail::run(api, call.read(api, name::SEND_MAIL)?).await?)),
        name::REPLY_MAIL => Ok(ToolOutput::of(&reply_mail::run(api, call.read(api, name::REPLY_MAIL)?).await?)),
        name::LIST_EVENTS => Ok(ToolOutput::of(&list_events::run(api, call.read(api, name::LIST_EVENTS)?).await?)),
        name::CREATE_EVENT => {
            let key = call.idempotency_key.as_deref();
            Ok(ToolOutput::of(&create_event::run(api, call.read(api, name::CREATE_EVENT)?, key).await?))
        }
        name::READ_SHEET => Ok(ToolOutput::of(&read_sheet::run(api, call.read(api, name::READ_SHEET)?).await?)),
        name::APPEND_SHEET => Ok(ToolOutput::of(&append_sheet::run(api, call.read(api, name::APPEND_SHEET)?).await?)),
        _ => Err(unknown(api, ALL)),
    }
}

/// An id of Google's: opaque, without spaces, and not long.
fn id(field: &str, text: &str) -> Result<String, String> {
    let text = text.trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if text.is_empty() || text.len() > 256 || !text.bytes().all(plain) {
        return Err(format!("{field}: expected an id as an earlier answer gave it, like \"19ab3f2c41d0e5b7\""));
    }
    Ok(text.to_owned())
}

/// A page token of Google's: opaque as well.
fn cursor(text: &str) -> Result<&str, String> {
    let odd = |c: char| c.is_whitespace() || c.is_control();
    if text.is_empty() || text.len() > 2048 || text.contains(odd) {
        return Err("cursor: expected next_cursor of an earlier answer, unchanged".to_owned());
    }
    Ok(text)
}

fn within(field: &str, value: Option<u32>, usual: u32, most: u32) -> Result<u32, String> {
    let value = value.unwrap_or(usual);
    if (1..=most).contains(&value) { Ok(value) } else { Err(format!("{field}: expected 1 to {most}")) }
}

/// Google takes no idempotency key here: where the call may have had its effect, nothing repeats it by itself.
fn once(error: Error, look: &str) -> Error {
    let cause = error.source.as_ref().and_then(|source| source.downcast_ref::<HttpFailure>());
    let not_sent = cause.is_some_and(|failure| failure.sent == Sent::No);
    let unknown = matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Unreadable) && !not_sent;
    if !unknown || matches!(error.retry, Retry::After(_)) {
        return error;
    }
    let message = format!("{}; it may have been done, {look} before you repeat it", error.message);
    Error { retry: Retry::Never, message, ..error }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use holdfast_core::tool::arguments;

    use super::*;

    #[test]
    fn schemas_are_closed_objects_whose_fields_are_all_described() {
        for tool in ALL {
            for text in [tool.input_schema, tool.output_schema] {
                let schema: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", tool.name));
                assert_eq!(schema["type"], "object", "{}", tool.name);
                assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
                let properties = schema["properties"].as_object().unwrap();
                for name in schema["required"].as_array().into_iter().flatten() {
                    assert!(properties.contains_key(name.as_str().unwrap()), "{}: {name}", tool.name);
                }
            }
            let input: Value = serde_json::from_str(tool.input_schema).unwrap();
            for (name, property) in input["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{}: {name}", tool.name);
                assert!(property["examples"].is_array(), "{}: {name}", tool.name);
            }
        }
    }

    #[test]
    fn arguments_and_input_schemas_know_the_same_fields() {
        let all = |tool: &str| -> Value {
            let tool = ALL.iter().find(|known| known.name == tool).unwrap();
            let schema: Value = serde_json::from_str(tool.input_schema).unwrap();
            let example = |property: &Value| property["examples"][0].clone();
            schema["properties"].as_object().unwrap().iter().map(|(k, v)| (k.clone(), example(v))).collect()
        };
        arguments::<search_mail::Arguments>(&all(name::SEARCH_MAIL)).unwrap();
        arguments::<get_mail::Arguments>(&all(name::GET_MAIL)).unwrap();
        arguments::<send_mail::Arguments>(&all(name::SEND_MAIL)).unwrap();
        arguments::<reply_mail::Arguments>(&all(name::REPLY_MAIL)).unwrap();
        arguments::<list_events::Arguments>(&all(name::LIST_EVENTS)).unwrap();
        arguments::<create_event::Arguments>(&all(name::CREATE_EVENT)).unwrap();
        arguments::<read_sheet::Arguments>(&all(name::READ_SHEET)).unwrap();
        arguments::<append_sheet::Arguments>(&all(name::APPEND_SHEET)).unwrap();
    }

    #[test]
    fn bad_arguments_are_named_with_what_is_allowed() {
        let said = |result: Result<(), String>| result.unwrap_err();
        for (message, words) in [
            (said(arguments::<get_mail::Arguments>(&json!({})).map(drop)), "missing field `message_id`"),
            (
                said(arguments::<get_mail::Arguments>(&json!({"message_id": 5})).map(drop)),
                "message_id: invalid type: integer",
            ),
            (
                said(arguments::<get_mail::Arguments>(&json!({"message_id": "5", "x": 1})).map(drop)),
                "unknown field `x`",
            ),
            (said(arguments::<get_mail::Arguments>(&json!(["5"])).map(drop)), "expected an object of named arguments"),
            (
                said(
                    arguments::<append_sheet::Arguments>(&json!({"spreadsheet_id": "a", "range": "A", "rows": [1]}))
                        .map(drop),
                ),
                "rows[0]: ",
            ),
        ] {
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn an_id_cannot_be_a_path_and_a_cursor_cannot_be_a_header() {
        assert_eq!(id("message_id", " 19ab_F-2 "), Ok("19ab_F-2".to_owned()));
        for text in ["", "..", "a/b", "a b", "a?b", "a%2fb", "\u{430}", &"a".repeat(257)] {
            assert!(id("message_id", text).unwrap_err().starts_with("message_id: expected"), "{text}");
        }
        for text in ["", "a b", "a\nb", &"a".repeat(2049)] {
            assert!(cursor(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_mail_that_may_have_been_sent_is_not_sent_again_by_itself() {
        use ErrorKind::{Busy, Unavailable, Unreadable};
        let failed = |kind, retry, cause: Option<HttpFailure>| {
            let source = cause.map(|cause| -> Box<dyn std::error::Error + Send + Sync> { Box::new(cause) });
            let message = "it failed".to_owned();
            Error { kind, retry, provider: crate::ID, operation: name::SEND_MAIL, message, source }
        };
        let (lost, refused) = (HttpFailure::after_send("cut off"), HttpFailure::before_send("refused"));
        let told = Retry::After(Duration::from_secs(5));
        for (kind, retry, cause, expected) in [
            (Unavailable, Retry::Backoff, Some(lost), Retry::Never),
            (Unavailable, Retry::Backoff, None, Retry::Never),
            (Unreadable, Retry::Never, None, Retry::Never),
            (Unavailable, Retry::Backoff, Some(refused), Retry::Backoff),
            (Unavailable, told, None, told),
            (Busy, Retry::Backoff, None, Retry::Backoff),
        ] {
            let error = once(failed(kind, retry, cause), "look into Sent");
            assert_eq!(error.retry, expected, "{kind:?} {retry:?}");
            assert_eq!(error.message.contains("look into Sent"), expected == Retry::Never);
        }
    }
}
