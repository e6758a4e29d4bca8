//! The tools that all helpdesks share: names, schemas, arguments and answers, so that an agent that was written once works
//! on every helpdesk. An adapter takes the ones that its provider can do, says in the description what is its provider's
//! own, and what becomes of a call whose outcome is unknown:
//!
//! ```
//! use holdfast_core::{helpdesk, tool::{Repeat, Tool}};
//!
//! const ALL: &[Tool] = &[
//!     helpdesk::GET_TICKET,
//!     Tool { description: "Changes a ticket; closed is final here.", repeat: Repeat::Safe, ..helpdesk::UPDATE_TICKET },
//! ];
//! # assert_eq!(ALL[1].name, "update_ticket");
//! ```
//!
//! What a provider cannot do with an argument it refuses with [`tool::invalid`](crate::tool::invalid), naming the argument;
//! a tool that it cannot do it leaves out.

mod answers;
mod arguments;
mod html;
mod page;
mod schema;

pub use answers::{
    CreatedTicket, FoundArticles, FoundCustomers, FoundTickets, SentReply, TicketConversation, UpdatedTicket,
};
pub use arguments::{
    Assignee, CreateTicket, FindCustomer, GetTicket, Lookup, ReplyToTicket, Requester, SearchArticles, SearchTickets,
    UpdateTicket, edit_tags, words,
};
pub use html::{html_of_text, text_of_html};
pub use page::{Bounds, Page, Words, page_size};

use crate::tool::{Access, Repeat, Tool};

/// Most tickets, or customers, that one may ask for on a page.
pub const MOST_PER_PAGE: u32 = 100;
/// Tickets, or customers, on a page where nothing is asked for.
pub const USUAL_PER_PAGE: u32 = 25;
/// Most articles that one may ask for on a page: each comes whole.
pub const MOST_ARTICLES: u32 = 25;
/// Articles on a page where nothing is asked for.
pub const USUAL_ARTICLES: u32 = 5;

/// [`SearchTickets`] to [`FoundTickets`].
pub const SEARCH_TICKETS: Tool = Tool {
    name: "search_tickets",
    description: "Searches tickets, newest first, a page at a time. All filters have to hold together; several values of \
                  one filter are alternatives.",
    access: Access::Read,
    repeat: Repeat::Safe,
    input_schema: schema::SEARCH_TICKETS_INPUT,
    output_schema: schema::SEARCH_TICKETS_OUTPUT,
};

/// [`GetTicket`] to [`TicketConversation`].
pub const GET_TICKET: Tool = Tool {
    name: "get_ticket",
    description: "Reads one ticket with its people and its conversation, oldest message first, internal notes included. A \
                  very long conversation comes in parts.",
    access: Access::Read,
    repeat: Repeat::Safe,
    input_schema: schema::GET_TICKET_INPUT,
    output_schema: schema::GET_TICKET_OUTPUT,
};

/// [`ReplyToTicket`] to [`SentReply`].
pub const REPLY_TO_TICKET: Tool = Tool {
    name: "reply_to_ticket",
    description: "Adds a message to a ticket: a public reply, which the customer receives, or an internal note, which only \
                  agents see. Calling it twice sends two messages.",
    access: Access::Write,
    repeat: Repeat::Never,
    input_schema: schema::REPLY_TO_TICKET_INPUT,
    output_schema: schema::REPLY_TO_TICKET_OUTPUT,
};

/// [`UpdateTicket`] to [`UpdatedTicket`]. An adapter that guards its writes, so that nothing of somebody else is
/// overwritten, sets [`Repeat::Safe`].
pub const UPDATE_TICKET: Tool = Tool {
    name: "update_ticket",
    description: "Changes status, priority, assignee or tags of a ticket; what is not given stays. Refused as a conflict \
                  when the ticket changed since if_updated_at.",
    access: Access::Write,
    repeat: Repeat::Never,
    input_schema: schema::UPDATE_TICKET_INPUT,
    output_schema: schema::UPDATE_TICKET_OUTPUT,
};

/// [`CreateTicket`] to [`CreatedTicket`]. An adapter that hands an idempotency key on sets [`Repeat::ProviderKey`].
pub const CREATE_TICKET: Tool = Tool {
    name: "create_ticket",
    description: "Opens a new ticket in the name of a customer. Calling it twice opens two tickets.",
    access: Access::Write,
    repeat: Repeat::Never,
    input_schema: schema::CREATE_TICKET_INPUT,
    output_schema: schema::CREATE_TICKET_OUTPUT,
};

/// [`FindCustomer`] to [`FoundCustomers`].
pub const FIND_CUSTOMER: Tool = Tool {
    name: "find_customer",
    description: "Finds customers by exactly one of e-mail address, name, or the id that another system gave them, a page \
                  at a time.",
    access: Access::Read,
    repeat: Repeat::Safe,
    input_schema: schema::FIND_CUSTOMER_INPUT,
    output_schema: schema::FIND_CUSTOMER_OUTPUT,
};

/// [`SearchArticles`] to [`FoundArticles`].
pub const SEARCH_ARTICLES: Tool = Tool {
    name: "search_articles",
    description: "Searches the articles of the help center, the best first, a page at a time. Each comes whole, as text.",
    access: Access::Read,
    repeat: Repeat::Safe,
    input_schema: schema::SEARCH_ARTICLES_INPUT,
    output_schema: schema::SEARCH_ARTICLES_OUTPUT,
};

/// All of them, in the order in which they are listed.
pub const ALL: [Tool; 7] =
    [SEARCH_TICKETS, GET_TICKET, REPLY_TO_TICKET, UPDATE_TICKET, CREATE_TICKET, FIND_CUSTOMER, SEARCH_ARTICLES];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::{schema::check, tool::arguments};

    fn inputs() -> Vec<(&'static str, Value)> {
        ALL.iter().map(|tool| (tool.name, serde_json::from_str(tool.input_schema).unwrap())).collect()
    }

    /// Every object of a schema.
    fn objects<'a>(schema: &'a Value, found: &mut Vec<&'a Value>) {
        if schema["properties"].is_object() {
            found.push(schema);
        }
        for inner in schema.as_object().into_iter().flatten().map(|(_, inner)| inner) {
            objects(inner, found);
        }
    }

    /// Reads the arguments of a tool as its type.
    fn read(tool: &str, given: &Value) -> Result<(), String> {
        fn as_type<T: DeserializeOwned>(given: &Value) -> Result<(), String> {
            arguments::<T>(given).map(drop)
        }
        match tool {
            "search_tickets" => as_type::<SearchTickets>(given),
            "get_ticket" => as_type::<GetTicket>(given),
            "reply_to_ticket" => as_type::<ReplyToTicket>(given),
            "update_ticket" => as_type::<UpdateTicket>(given),
            "create_ticket" => as_type::<CreateTicket>(given),
            "find_customer" => as_type::<FindCustomer>(given),
            "search_articles" => as_type::<SearchArticles>(given),
            other => panic!("{other} has no type"),
        }
    }

    #[test]
    fn schemas_are_closed_objects_whose_arguments_are_described_with_an_example() {
        for tool in ALL {
            for text in [tool.input_schema, tool.output_schema] {
                let schema: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", tool.name));
                let mut found = Vec::new();
                objects(&schema, &mut found);
                assert!(!found.is_empty());
                for object in found {
                    assert_eq!(object["additionalProperties"], false, "{}: {object}", tool.name);
                    let properties = object["properties"].as_object().unwrap();
                    for name in object["required"].as_array().into_iter().flatten() {
                        assert!(properties.contains_key(name.as_str().unwrap()), "{}: {name}", tool.name);
                    }
                }
            }
        }
        for (tool, schema) in inputs() {
            for (name, property) in schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{tool}: {name}");
                assert!(property["examples"][0] != Value::Null, "{tool}: {name}");
            }
        }
    }

    #[test]
    fn every_field_of_an_answer_is_always_there() {
        for tool in ALL {
            let schema: Value = serde_json::from_str(tool.output_schema).unwrap();
            let mut found = Vec::new();
            objects(&schema, &mut found);
            for object in found {
                let required: BTreeSet<_> =
                    object["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
                let known: BTreeSet<_> = crate::schema::properties(object).into_iter().collect();
                assert_eq!(required, known, "{}: {object}", tool.name);
            }
        }
    }

    #[test]
    fn arguments_and_input_schemas_know_the_same_fields() {
        for (tool, schema) in inputs() {
            let all: Value = schema["properties"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, property)| (name.clone(), property["examples"][0].clone()))
                .collect();
            assert_eq!(check(&schema, &all, &|_| false), Ok(()), "{tool}");
            assert_eq!(read(tool, &all), Ok(()), "{tool}");

            // The type itself says which fields it has: "unknown field `?`, expected one of `a`, `b`".
            let mut more = all.clone();
            more["?"] = json!(1);
            let said = read(tool, &more).unwrap_err();
            let (_, expected) = said.split_once("expected").unwrap();
            let own: BTreeSet<&str> = expected.split('`').skip(1).step_by(2).collect();
            assert_eq!(own, crate::schema::properties(&schema).into_iter().collect(), "{tool}: {said}");

            // What the schema requires the type requires, and no more.
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            for name in crate::schema::properties(&schema) {
                let mut without = all.clone();
                without.as_object_mut().unwrap().remove(name);
                assert_eq!(read(tool, &without).is_err(), required.contains(&json!(name)), "{tool}: {name}");
            }
        }
    }

    #[test]
    fn bad_arguments_are_named_with_what_is_allowed() {
        for (tool, given, words) in [
            ("get_ticket", json!({}), "missing field `ticket_id`"),
            ("get_ticket", json!({"ticket_id": 5}), "ticket_id: invalid type: integer"),
            ("get_ticket", json!({"ticket_id": "5", "x": 1}), "unknown field `x`"),
            ("get_ticket", json!(["5"]), "expected an object of named arguments"),
            ("reply_to_ticket", json!({"ticket_id": "5", "body": "x"}), "`public`"),
            ("create_ticket", json!({"subject": "a", "body": "b"}), "`requester`"),
            (
                "search_tickets",
                json!({"status": ["open", "opened"]}),
                "status[1]: unknown variant `opened`, expected one of `new`, `open`",
            ),
            ("update_ticket", json!({"ticket_id": "5", "if_updated_at": "today"}), "if_updated_at: "),
        ] {
            let message = read(tool, &given).unwrap_err();
            assert!(message.contains(words), "{tool}: {message}");
        }
    }

    #[test]
    fn only_what_changes_nothing_may_be_repeated_unless_an_adapter_says_more() {
        for tool in ALL {
            assert_eq!(tool.repeat == Repeat::Safe, tool.access == Access::Read, "{}", tool.name);
        }
    }
}
