//! What agents see: names, schemas, and the way between them and the Admin API.

mod cancel_order;
mod find_customer;
mod find_order;
mod get_order;
mod refund_order;
mod schema;
mod search_products;
mod terms;

use std::time::Duration;

use holdfast_core::{
    error::{Error, ErrorKind, Result},
    tool::{self, Access, Repeat, Tool, ToolCall, ToolOutput},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::graph::Graph;

/// For how long Shopify knows a key of `@idempotent` is not certain: no longer than a retry needs is relied on.
const REFUND_KEY_KEPT: Duration = Duration::from_hours(1);

pub(crate) const ALL: &[Tool] = &[
    Tool {
        name: find_order::NAME,
        description: "Finds orders, newest first, a page at a time: by order number, e-mail address, customer or state. \
                      All filters have to hold together. Orders of the last 60 days only, unless the app was granted \
                      read_all_orders.",
        access: Access::Read,
        repeat: Repeat::Safe,
        input_schema: schema::FIND_ORDER_INPUT,
        output_schema: schema::FIND_ORDER_OUTPUT,
    },
    Tool {
        name: get_order::NAME,
        description: "Reads one order: what was bought, deliveries with tracking, payments and refunds.",
        access: Access::Read,
        repeat: Repeat::Safe,
        input_schema: schema::GET_ORDER_INPUT,
        output_schema: schema::GET_ORDER_OUTPUT,
    },
    Tool {
        name: find_customer::NAME,
        description: "Finds customers by exactly one of e-mail address, phone number, id or name.",
        access: Access::Read,
        repeat: Repeat::Safe,
        input_schema: schema::FIND_CUSTOMER_INPUT,
        output_schema: schema::FIND_CUSTOMER_OUTPUT,
    },
    Tool {
        name: search_products::NAME,
        description: "Searches products with their variants, prices and stock, by title, a page at a time.",
        access: Access::Read,
        repeat: Repeat::Safe,
        input_schema: schema::SEARCH_PRODUCTS_INPUT,
        output_schema: schema::SEARCH_PRODUCTS_OUTPUT,
    },
    Tool {
        name: cancel_order::NAME,
        description: "Cancels an order for good. Only if its total is as expected and it is not cancelled already. \
                      Shopify works on it after the answer: read the order to see it done.",
        access: Access::Write,
        // It is done once, and a mark of the key tells whose it was.
        repeat: Repeat::Safe,
        input_schema: schema::CANCEL_ORDER_INPUT,
        output_schema: schema::CANCEL_ORDER_OUTPUT,
    },
    Tool {
        name: refund_order::NAME,
        description: "Refunds items of an order, its shipping, or both, to where the money came from. Only if the \
                      amount is exactly what Shopify computes for them; a wrong amount moves no money and is answered \
                      with the right one.",
        access: Access::Write,
        repeat: Repeat::ProviderKey { kept: REFUND_KEY_KEPT },
        input_schema: schema::REFUND_ORDER_INPUT,
        output_schema: schema::REFUND_ORDER_OUTPUT,
    },
];

pub(crate) async fn call(graph: &Graph<'_>, call: &ToolCall) -> Result<ToolOutput> {
    let key = call.idempotency_key.as_deref();
    match call.tool.as_str() {
        find_order::NAME => {
            Ok(ToolOutput::of(&find_order::run(graph, arguments(graph, find_order::NAME, call)?).await?))
        }
        get_order::NAME => Ok(ToolOutput::of(&get_order::run(graph, arguments(graph, get_order::NAME, call)?).await?)),
        find_customer::NAME => {
            Ok(ToolOutput::of(&find_customer::run(graph, arguments(graph, find_customer::NAME, call)?).await?))
        }
        search_products::NAME => {
            Ok(ToolOutput::of(&search_products::run(graph, arguments(graph, search_products::NAME, call)?).await?))
        }
        cancel_order::NAME => {
            Ok(ToolOutput::of(&cancel_order::run(graph, arguments(graph, cancel_order::NAME, call)?, key).await?))
        }
        refund_order::NAME => {
            Ok(ToolOutput::of(&refund_order::run(graph, arguments(graph, refund_order::NAME, call)?, key).await?))
        }
        _ => {
            let names: Vec<&str> = ALL.iter().map(|tool| tool.name).collect();
            let message = format!("there is no such tool; there are {}", names.join(", "));
            Err(graph.error("call", ErrorKind::NotFound, message))
        }
    }
}

fn arguments<T: DeserializeOwned>(graph: &Graph<'_>, tool: &'static str, call: &ToolCall) -> Result<T> {
    tool::arguments(&call.arguments).map_err(|message| graph.error(tool, ErrorKind::Invalid, message))
}

/// An argument that is wrong in itself.
fn invalid(graph: &Graph<'_>, tool: &'static str) -> impl Fn(String) -> Error {
    move |message| graph.error(tool, ErrorKind::Invalid, message)
}

/// A mark for what is done under a caller's key, made of what tells one call from another.
fn mark(of: &Value) -> String {
    let digest = Sha256::digest(of.to_string().as_bytes());
    digest.iter().take(6).fold("[ref ".to_owned(), |mark, byte| format!("{mark}{byte:02x}")) + "]"
}

/// The note with the mark behind it: staff see both.
fn noted(note: Option<&str>, mark: Option<&str>) -> Option<String> {
    match (note, mark) {
        (note, None) => note.map(str::to_owned),
        (None | Some(""), Some(mark)) => Some(mark.to_owned()),
        (Some(note), Some(mark)) => Some(format!("{note} {mark}")),
    }
}

fn is_marked(note: Option<&str>, mark: &str) -> bool {
    note.is_some_and(|note| note.ends_with(mark))
}

/// A gid of this kind, from itself or from its number. Digits stay text: they may exceed 2^53.
fn gid(kind: &str, field: &str, text: &str) -> Result<String, String> {
    let digits = text.strip_prefix(&format!("gid://shopify/{kind}/")).unwrap_or(text);
    let good = (1..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if good && !digits.starts_with('0') {
        return Ok(format!("gid://shopify/{kind}/{digits}"));
    }
    Err(format!("{field}: expected an id, like \"gid://shopify/{kind}/5123456789\" or \"5123456789\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        tool::arguments::<find_order::Arguments>(&all(find_order::NAME)).unwrap();
        tool::arguments::<get_order::Arguments>(&all(get_order::NAME)).unwrap();
        tool::arguments::<find_customer::Arguments>(&all(find_customer::NAME)).unwrap();
        tool::arguments::<search_products::Arguments>(&all(search_products::NAME)).unwrap();
        tool::arguments::<cancel_order::Arguments>(&all(cancel_order::NAME)).unwrap();
        tool::arguments::<refund_order::Arguments>(&all(refund_order::NAME)).unwrap();
    }

    #[test]
    fn bad_arguments_are_named_with_what_is_allowed() {
        let said = |result: Result<(), String>| result.unwrap_err();
        for (message, words) in [
            (said(tool::arguments::<get_order::Arguments>(&json!({})).map(drop)), "missing field `order_id`"),
            (
                said(tool::arguments::<get_order::Arguments>(&json!({"order_id": 5})).map(drop)),
                "order_id: invalid type: integer",
            ),
            (
                said(tool::arguments::<get_order::Arguments>(&json!(["5"])).map(drop)),
                "expected an object of named arguments",
            ),
            (said(tool::arguments::<find_order::Arguments>(&json!({"query": "x"})).map(drop)), "unknown field `query`"),
            (
                said(tool::arguments::<find_order::Arguments>(&json!({"status": "all"})).map(drop)),
                "status: unknown variant `all`, expected one of `open`",
            ),
        ] {
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn an_id_is_a_gid_of_its_kind_or_its_number() {
        for text in ["gid://shopify/Order/9007199254740993", "9007199254740993"] {
            assert_eq!(gid("Order", "order_id", text).as_deref(), Ok("gid://shopify/Order/9007199254740993"));
        }
        for text in [
            "",
            "0",
            "-1",
            "#1001",
            " 1",
            "1/2",
            "gid://shopify/Customer/1",
            "gid://shopify/Order/",
            "gid://shopify/Order/1?x=1",
            "gid://shopify/Order/gid://shopify/Order/1",
            "gid://Shopify/Order/1",
            "123456789012345678901",
            "\u{661}",
        ] {
            assert!(gid("Order", "order_id", text).unwrap_err().starts_with("order_id: expected an id"), "{text}");
        }
    }
}
