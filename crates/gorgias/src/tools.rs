//! What agents see: the tools that all helpdesks share, on Gorgias's API. It has no search for articles.

mod create;
mod customers;
mod filter;
mod get;
mod place;
mod reply;
mod search;
mod update;

use holdfast_core::{
    ApiClient,
    error::{Error, ErrorKind, Result},
    helpdesk,
    tool::{Tool, ToolCall, ToolOutput, invalid, unknown},
};

use crate::{TICKETS, api, model::User};

pub(crate) const ALL: &[Tool] = &[
    Tool {
        description: "Looks through tickets, the last changed first, a few hundred in one call: go on with next_cursor. All \
                      filters have to hold together; several values of one filter are alternatives. Gorgias itself \
                      narrows only by requester and by a saved view, named in query as view_id:123; words in query are \
                      looked for in subject, tags and the beginning of a message. A ticket that changes meanwhile may be \
                      missed. Statuses are open and solved, which Gorgias calls closed.",
        ..helpdesk::SEARCH_TICKETS
    },
    Tool {
        description: "Reads one ticket with its conversation, oldest message first, internal notes included. A very long \
                      conversation comes in parts. The note names messages that could not be delivered.",
        ..helpdesk::GET_TICKET
    },
    Tool {
        description: "Adds a message to a ticket: a public reply, which is mailed to the customer, or an internal note, which \
                      only agents see. Only conversations by e-mail can be answered publicly. Gorgias sends a reply after \
                      it has answered: get_ticket says when it could not be delivered. Calling it twice sends two messages.",
        ..helpdesk::REPLY_TO_TICKET
    },
    Tool {
        description: "Changes status, priority, assignee or tags of a ticket; what is not given stays. Refused as a \
                      conflict when the ticket changed since if_updated_at. Gorgias cannot guard a change: what somebody \
                      else changes in the same moment may be overwritten. Statuses are open and solved; closed is taken \
                      for solved. Tags differ by capitals.",
        ..helpdesk::UPDATE_TICKET
    },
    Tool {
        description: "Opens a new ticket in the name of a customer, as if they had written; nothing is mailed by that. Calling \
                      it twice opens two tickets.",
        ..helpdesk::CREATE_TICKET
    },
    helpdesk::FIND_CUSTOMER,
];

pub(crate) async fn call(api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
    match call.tool.as_str() {
        search::NAME => Ok(ToolOutput::of(&search::run(api, call.read(api, search::NAME)?).await?)),
        get::NAME => Ok(ToolOutput::of(&get::run(api, call.read(api, get::NAME)?).await?)),
        reply::NAME => Ok(ToolOutput::of(&reply::run(api, call.read(api, reply::NAME)?).await?)),
        update::NAME => Ok(ToolOutput::of(&update::run(api, call.read(api, update::NAME)?).await?)),
        create::NAME => Ok(ToolOutput::of(&create::run(api, call.read(api, create::NAME)?).await?)),
        customers::NAME => Ok(ToolOutput::of(&customers::run(api, call.read(api, customers::NAME)?).await?)),
        _ => Err(unknown(api, ALL)),
    }
}

/// Without which scopes it cannot work at all.
pub(crate) fn scopes_of(tool: &str) -> &'static [&'static str] {
    match tool {
        search::NAME | get::NAME => &[TICKETS],
        reply::NAME | update::NAME => &[TICKETS, "tickets:write"],
        create::NAME => &["tickets:write"],
        customers::NAME => &["customers:read"],
        _ => &[],
    }
}

/// An id, as the model carries it: digits in a string, since many readers cannot hold it as a number.
fn id(field: &str, text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|id| digits && *id > 0);
    id.ok_or_else(|| format!("{field}: expected the digits of an id, like \"35436\""))
}

/// Tags as they were given, trimmed: `VIP` and `vip` are two.
fn tags(field: &str, given: &[String]) -> Result<Vec<String>, String> {
    let tag = |text: &String| {
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return Err(format!("{field}: expected tags on one line, like \"needs refund\""));
        }
        Ok(text.to_owned())
    };
    given.iter().map(tag).collect()
}

/// A user by id or e-mail address. An access that may not read users can still name one by id.
async fn agent(api: &ApiClient, tool: &'static str, who: &str) -> Result<i64> {
    let who = who.trim();
    if !who.contains('@') {
        return id("assignee", who)
            .map_err(|said| invalid(api, tool, format!("{said}, an e-mail address, or null for nobody")));
    }
    let found = api::users(api, tool, who).await.map_err(|error| match error.kind {
        ErrorKind::Forbidden => Error {
            message: "this access may not look up users by e-mail address; give the user's id".to_owned(),
            ..error
        },
        _ => error,
    })?;
    let is = |user: &&User| user.email.as_deref().is_some_and(|email| email.eq_ignore_ascii_case(who));
    let known = found.iter().find(is).map(|user| user.id.0);
    known.ok_or_else(|| invalid(api, tool, "assignee: Gorgias has no user with this e-mail address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_are_those_that_all_helpdesks_share_but_for_articles() {
        let names = |tools: &[Tool]| tools.iter().map(|tool| tool.name).collect::<Vec<_>>();
        let shared = names(&helpdesk::ALL);
        assert_eq!(names(ALL), shared.into_iter().filter(|name| *name != "search_articles").collect::<Vec<_>>());
    }

    #[test]
    fn a_tool_names_scopes_that_are_asked_for() {
        for tool in ALL {
            let needed = scopes_of(tool.name);
            assert!(!needed.is_empty(), "{}", tool.name);
            assert!(needed.iter().all(|one| crate::SCOPES.iter().any(|scope| scope.name == *one)), "{}", tool.name);
        }
    }

    #[test]
    fn an_id_is_digits_and_nothing_else() {
        assert_eq!(id("ticket_id", "9007199254740993"), Ok(9_007_199_254_740_993));
        for text in ["", "0", "-1", "+1", "1.0", "#1", " 1", "1/messages", "99999999999999999999", "abc"] {
            assert!(id("ticket_id", text).unwrap_err().starts_with("ticket_id: expected"), "{text}");
        }
    }

    #[test]
    fn tags_are_trimmed_and_keep_their_capitals() {
        let list = |tag: &str| tags("add_tags", &[tag.to_owned()]);
        assert_eq!(list(" Needs refund, now "), Ok(vec!["Needs refund, now".to_owned()]));
        for tag in ["", " ", "a\nb"] {
            assert!(list(tag).unwrap_err().starts_with("add_tags: expected tags"), "{tag}");
        }
    }
}
