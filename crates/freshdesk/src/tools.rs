//! What agents see: the tools that all helpdesks share, on Freshdesk's API.

mod articles;
mod create;
mod customers;
mod filter;
mod get;
mod reply;
mod search;
mod update;

use holdfast_core::{
    ApiClient,
    error::{Error, ErrorKind, Result},
    helpdesk,
    tool::{Tool, ToolCall, ToolOutput, invalid, unknown},
};

use crate::{api, model::WireTicket};

pub(crate) const ALL: &[Tool] = &[
    Tool {
        description: "Searches tickets, a page at a time. All filters have to hold together; several values of one filter \
                      are alternatives. Words in query are looked for in subject, first message and tags, newest tickets \
                      first, a few hundred tickets at a time: go on with next_cursor. Terms of Freshdesk's own filter \
                      language work in query too, like created_at:<'2026-01-31' or group_id:7. Filters without words and \
                      without requester come in Freshdesk's own order, up to 300 tickets; what changed in the last \
                      minutes may be missing there.",
        ..helpdesk::SEARCH_TICKETS
    },
    Tool {
        description: "Reads one ticket with its conversation, oldest message first, internal notes included. A very long \
                      conversation comes in parts. Agents are told by their ids alone.",
        ..helpdesk::GET_TICKET
    },
    helpdesk::REPLY_TO_TICKET,
    Tool {
        description: "Changes status, priority, assignee or tags of a ticket; what is not given stays. Refused as a \
                      conflict when the ticket changed since if_updated_at. Freshdesk cannot guard a change: what somebody \
                      else changes in the same moment may be overwritten. There is no status on_hold.",
        ..helpdesk::UPDATE_TICKET
    },
    helpdesk::CREATE_TICKET,
    Tool {
        description: "Finds customers by exactly one of e-mail address, beginning of a name, or the id that another system \
                      gave them, a page at a time.",
        ..helpdesk::FIND_CUSTOMER
    },
    Tool {
        description: "Searches the published articles of the help center that customers may read, a page at a time. Each \
                      comes whole, as text.",
        ..helpdesk::SEARCH_ARTICLES
    },
];

pub(crate) async fn call(api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
    match call.tool.as_str() {
        search::NAME => Ok(ToolOutput::of(&search::run(api, call.read(api, search::NAME)?).await?)),
        get::NAME => Ok(ToolOutput::of(&get::run(api, call.read(api, get::NAME)?).await?)),
        reply::NAME => Ok(ToolOutput::of(&reply::run(api, call.read(api, reply::NAME)?).await?)),
        update::NAME => Ok(ToolOutput::of(&update::run(api, call.read(api, update::NAME)?).await?)),
        create::NAME => Ok(ToolOutput::of(&create::run(api, call.read(api, create::NAME)?).await?)),
        customers::NAME => Ok(ToolOutput::of(&customers::run(api, call.read(api, customers::NAME)?).await?)),
        articles::NAME => Ok(ToolOutput::of(&articles::run(api, call.read(api, articles::NAME)?).await?)),
        _ => Err(unknown(api, ALL)),
    }
}

/// An id, as the model carries it: digits in a string, since many readers cannot hold it as a number.
fn id(field: &str, text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|id| digits && *id > 0);
    id.ok_or_else(|| format!("{field}: expected the digits of an id, like \"35436\""))
}

/// Tags that Freshdesk takes: at most 32 characters, without commas.
fn tags(field: &str, given: &[String]) -> Result<Vec<String>, String> {
    let tag = |text: &String| {
        let text = text.trim();
        let bad = text.is_empty() || text.chars().count() > 32 || text.contains(|c: char| c == ',' || c.is_control());
        if bad {
            return Err(format!("{field}: expected tags of 1 to 32 characters without commas, like \"needs refund\""));
        }
        Ok(text.to_owned())
    };
    given.iter().map(tag).collect()
}

/// With who asks: the answer to a change names nobody. As it was read before, or looked up; where that fails nobody is
/// named, since the change is made.
async fn with_requester(
    api: &ApiClient,
    tool: &'static str,
    changed: WireTicket,
    before: Option<WireTicket>,
) -> WireTicket {
    if changed.requester.is_some() {
        return changed;
    }
    let requester = match before.and_then(|before| before.requester) {
        Some(requester) => Some(requester),
        None => api::ticket(api, tool, changed.id).await.ok().and_then(|whole| whole.requester),
    };
    WireTicket { requester, ..changed }
}

/// An agent by id or e-mail address. Who may not read agents can still name one by id.
async fn agent(api: &ApiClient, tool: &'static str, who: &str) -> Result<i64> {
    let who = who.trim();
    if !who.contains('@') {
        return id("assignee", who)
            .map_err(|said| invalid(api, tool, format!("{said}, an e-mail address, or null for nobody")));
    }
    let found = api::agents(api, tool, who).await.map_err(|error| match error.kind {
        ErrorKind::Forbidden => Error {
            message:
                "the agent whose API key this is may not look up other agents by e-mail address; give the agent's id"
                    .to_owned(),
            ..error
        },
        _ => error,
    })?;
    let is = |email: Option<&str>| email.is_some_and(|email| email.eq_ignore_ascii_case(who));
    let known = found.iter().find(|agent| is(agent.contact.as_ref().and_then(|contact| contact.email.as_deref())));
    known
        .map(|agent| agent.id)
        .ok_or_else(|| invalid(api, tool, "assignee: Freshdesk has no agent with this e-mail address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_are_those_that_all_helpdesks_share() {
        let names = |tools: &[Tool]| tools.iter().map(|tool| tool.name).collect::<Vec<_>>();
        assert_eq!(names(ALL), names(&helpdesk::ALL));
    }

    #[test]
    fn an_id_is_digits_and_nothing_else() {
        assert_eq!(id("ticket_id", "9007199254740993"), Ok(9_007_199_254_740_993));
        for text in ["", "0", "-1", "+1", "1.0", "#1", " 1", "1/reply", "99999999999999999999", "abc"] {
            assert!(id("ticket_id", text).unwrap_err().starts_with("ticket_id: expected"), "{text}");
        }
    }

    #[test]
    fn tags_are_trimmed_and_bounded() {
        let list = |tag: &str| tags("add_tags", &[tag.to_owned()]);
        assert_eq!(list(" Needs refund "), Ok(vec!["Needs refund".to_owned()]));
        assert_eq!(list(&"ä".repeat(32)).unwrap().len(), 1);
        for tag in ["", " ", "a,b", "a\nb", &"x".repeat(33)] {
            assert!(list(tag).unwrap_err().starts_with("add_tags: expected tags"), "{tag}");
        }
    }
}
