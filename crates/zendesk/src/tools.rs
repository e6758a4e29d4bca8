//! What agents see: the tools of all helpdesks, and the way between the wire and the ticket model.

mod articles;
mod create;
mod customer;
mod get;
mod reply;
mod search;
mod update;

use std::time::Duration;

use holdfast_core::{
    ApiClient,
    error::{Error, Result},
    helpdesk,
    tool::{self, Repeat, Tool, ToolCall, ToolOutput},
};

pub(crate) const ALL: &[Tool] = &[
    Tool {
        description: "Searches tickets, newest first, a page at a time. All filters have to hold together; several \
                      values of one filter are alternatives. The query looks in subject, messages and tags, and takes \
                      Zendesk's search terms too, like created>2026-01-01 or \"an exact phrase\"; type: it does not \
                      take. New and changed tickets take some minutes to be found.",
        ..helpdesk::SEARCH_TICKETS
    },
    helpdesk::GET_TICKET,
    helpdesk::REPLY_TO_TICKET,
    Tool {
        description: "Changes status, priority, assignee or tags of a ticket; what is not given stays. Tags have no \
                      spaces. Refused as a conflict when the ticket changed since if_updated_at.",
        // Each write is guarded by the state that was read.
        repeat: Repeat::Safe,
        ..helpdesk::UPDATE_TICKET
    },
    Tool {
        description: "Opens a new ticket in the name of a customer; somebody whom Zendesk does not know becomes one. The \
                      first message is public, and the account's rules may send it to the customer. Tags have no \
                      spaces. Calling it twice opens two tickets, unless both calls have the same idempotency key.",
        // https://developer.zendesk.com/api-reference/ticketing/introduction/#idempotency
        repeat: Repeat::ProviderKey { kept: Duration::from_hours(2) },
        ..helpdesk::CREATE_TICKET
    },
    Tool {
        description: "Finds customers by exactly one of e-mail address, name, or the id that another system gave them \
                      (external_id), a page at a time. Agents of the helpdesk are found as well.",
        ..helpdesk::FIND_CUSTOMER
    },
    Tool {
        description: "Searches the articles of the help center, the best first, a page at a time. Each comes whole, as \
                      text. Finds what the person who connected Zendesk may read.",
        ..helpdesk::SEARCH_ARTICLES
    },
];

pub(crate) async fn call(api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
    match call.tool.as_str() {
        search::NAME => Ok(ToolOutput::of(&search::run(api, call.read(api, search::NAME)?).await?)),
        get::NAME => Ok(ToolOutput::of(&get::run(api, call.read(api, get::NAME)?).await?)),
        reply::NAME => Ok(ToolOutput::of(&reply::run(api, call.read(api, reply::NAME)?).await?)),
        update::NAME => Ok(ToolOutput::of(&update::run(api, call.read(api, update::NAME)?).await?)),
        create::NAME => Ok(ToolOutput::of(&create::run(api, call).await?)),
        customer::NAME => Ok(ToolOutput::of(&customer::run(api, call.read(api, customer::NAME)?).await?)),
        articles::NAME => Ok(ToolOutput::of(&articles::run(api, call.read(api, articles::NAME)?).await?)),
        _ => Err(tool::unknown(api, ALL)),
    }
}

/// Turns words about an argument into an error of this tool.
fn invalid(api: &ApiClient, tool: &'static str) -> impl Fn(String) -> Error {
    move |message| tool::invalid(api, tool, message)
}

/// An id, as the model carries it: digits in a string, since many readers cannot hold it as a number.
fn id(field: &str, text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|id| digits && *id > 0);
    id.ok_or_else(|| format!("{field}: expected the digits of an id, like \"35436\""))
}

/// A tag as Zendesk keeps it: lower case, one word.
fn tag(field: &str, text: &str) -> Result<String, String> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | ',');
    if text.is_empty() || text.contains(bad) {
        return Err(format!("{field}: expected tags without spaces, commas or quotes, like \"needs_refund\""));
    }
    Ok(text.to_lowercase())
}

fn tags(field: &str, texts: &[String]) -> Result<Vec<String>, String> {
    texts.iter().map(|text| tag(field, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_digits_and_nothing_else() {
        assert_eq!(id("ticket_id", "9007199254740993"), Ok(9_007_199_254_740_993));
        for text in ["", "0", "-1", "+1", "1.0", "#1", " 1", "1/comments", "99999999999999999999", "abc"] {
            assert!(id("ticket_id", text).unwrap_err().starts_with("ticket_id: expected"), "{text}");
        }
    }
}
