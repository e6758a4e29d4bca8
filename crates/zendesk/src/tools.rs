//! What agents see: name, schemas, and the way between the wire and the ticket model.

mod get;
mod reply;
mod schema;
mod search;
mod update;

use holdfast_core::{
    ApiClient,
    error::{Error, ErrorKind, Result},
    tool::{Access, Tool, ToolCall, ToolOutput},
};
use serde::{Serialize, de::DeserializeOwned};

pub(crate) const ALL: &[Tool] = &[
    Tool {
        name: search::NAME,
        description: "Searches tickets, newest first, a page at a time. All filters have to hold together; several \
                      values of one filter are alternatives. New and changed tickets take some minutes to be found.",
        access: Access::Read,
        input_schema: schema::SEARCH_INPUT,
        output_schema: schema::SEARCH_OUTPUT,
    },
    Tool {
        name: get::NAME,
        description: "Reads one ticket with its people and its whole conversation, oldest message first, internal \
                      notes included.",
        access: Access::Read,
        input_schema: schema::GET_INPUT,
        output_schema: schema::GET_OUTPUT,
    },
    Tool {
        name: reply::NAME,
        description: "Adds a message to a ticket: a public reply, which the customer receives, or an internal note, \
                      which only agents see. Calling it twice sends two messages.",
        access: Access::Write,
        input_schema: schema::REPLY_INPUT,
        output_schema: schema::REPLY_OUTPUT,
    },
    Tool {
        name: update::NAME,
        description: "Changes status, priority, assignee or tags of a ticket; what is not given stays. Refused as a \
                      conflict when the ticket changed since if_updated_at.",
        access: Access::Write,
        input_schema: schema::UPDATE_INPUT,
        output_schema: schema::UPDATE_OUTPUT,
    },
];

pub(crate) async fn call(api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
    match call.tool.as_str() {
        search::NAME => Ok(output(search::run(api, arguments(api, search::NAME, call)?).await?)),
        get::NAME => Ok(output(get::run(api, arguments(api, get::NAME, call)?).await?)),
        reply::NAME => Ok(output(reply::run(api, arguments(api, reply::NAME, call)?).await?)),
        update::NAME => Ok(output(update::run(api, arguments(api, update::NAME, call)?).await?)),
        _ => {
            let names: Vec<&str> = ALL.iter().map(|tool| tool.name).collect();
            let message = format!("there is no such tool; there are {}", names.join(", "));
            Err(api.error("call", ErrorKind::NotFound, message))
        }
    }
}

fn output(answer: impl Serialize) -> ToolOutput {
    ToolOutput(serde_json::to_value(answer).expect("these types have string keys and no failing parts"))
}

fn arguments<T: DeserializeOwned>(api: &ApiClient, tool: &'static str, call: &ToolCall) -> Result<T> {
    parse(&call.arguments).map_err(|message| api.error(tool, ErrorKind::Invalid, message))
}

/// The message names the argument, and what may stand there.
fn parse<T: DeserializeOwned>(arguments: &serde_json::Value) -> Result<T, String> {
    // Serde would take a list for the fields in their order.
    if !arguments.is_object() {
        return Err("expected an object of named arguments".to_owned());
    }
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let place = error.path().to_string();
        let said = error.into_inner();
        if place == "." { said.to_string() } else { format!("{place}: {said}") }
    })
}

/// An argument that is wrong in itself.
fn invalid(api: &ApiClient, tool: &'static str, message: impl Into<String>) -> Error {
    api.error(tool, ErrorKind::Invalid, message)
}

/// An id, as the model carries it: digits in a string, since many readers cannot hold it as a number.
fn id(field: &str, text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|id| digits && *id > 0);
    id.ok_or_else(|| format!("{field}: expected the digits of an id, like \"35436\""))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
        parse::<search::Arguments>(&all(search::NAME)).unwrap();
        parse::<get::Arguments>(&all(get::NAME)).unwrap();
        parse::<reply::Arguments>(&all(reply::NAME)).unwrap();
        parse::<update::Arguments>(&all(update::NAME)).unwrap();
    }

    #[test]
    fn bad_arguments_are_named_with_what_is_allowed() {
        let said = |result: Result<(), String>| result.unwrap_err();
        for (message, words) in [
            (said(parse::<get::Arguments>(&json!({})).map(drop)), "missing field `ticket_id`"),
            (said(parse::<get::Arguments>(&json!({"ticket_id": 5})).map(drop)), "ticket_id: invalid type: integer"),
            (said(parse::<get::Arguments>(&json!({"ticket_id": "5", "x": 1})).map(drop)), "unknown field `x`"),
            (said(parse::<get::Arguments>(&json!(["5"])).map(drop)), "expected an object of named arguments"),
            (said(parse::<reply::Arguments>(&json!({"ticket_id": "5", "body": "x"})).map(drop)), "`public`"),
            (
                said(parse::<search::Arguments>(&json!({"status": ["open", "opened"]})).map(drop)),
                "status[1]: unknown variant `opened`, expected one of `new`, `open`",
            ),
            (
                said(parse::<update::Arguments>(&json!({"ticket_id": "5", "if_updated_at": "today"})).map(drop)),
                "if_updated_at: ",
            ),
        ] {
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn an_id_is_digits_and_nothing_else() {
        assert_eq!(id("ticket_id", "9007199254740993"), Ok(9_007_199_254_740_993));
        for text in ["", "0", "-1", "+1", "1.0", "#1", " 1", "1/comments", "99999999999999999999", "abc"] {
            assert!(id("ticket_id", text).unwrap_err().starts_with("ticket_id: expected"), "{text}");
        }
    }
}
