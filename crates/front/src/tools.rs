//! What agents see: the tools that all helpdesks share, on Front's API. There is no `search_articles`: Front has no search
//! for articles, and lists them without their names.

mod create;
mod customers;
mod get;
mod reply;
mod search;
mod update;

use std::time::Duration;

use holdfast_core::{
    ApiClient,
    error::{Error, ErrorKind, Result},
    helpdesk,
    tool::{Repeat, Tool, ToolCall, ToolOutput, invalid, unknown},
};

use crate::api;

/// Begins the id of a ticket that Front has accepted and not shown yet; behind it is what Front called its message.
const ACCEPTED: &str = "message:";
/// An id is not longer.
const LONGEST_ID_CHARS: usize = 200;
/// Front keeps an external id with its message. Longer than this nobody repeats a call.
const EXTERNAL_ID_KEPT: Duration = Duration::from_hours(30 * 24);

pub(crate) const ALL: &[Tool] = &[
    Tool {
        description: "Searches tickets (Front's conversations), latest activity first, a page at a time. All filters have \
                      to hold together; several values of one filter are alternatives. Terms of Front's search language \
                      work in query too, like inbox:inb_123 or before:1790000000. requester is an e-mail address or the id \
                      of a contact. A page may hold fewer tickets than asked for: go on with next_cursor. There are no \
                      priorities.",
        ..helpdesk::SEARCH_TICKETS
    },
    helpdesk::GET_TICKET,
    Tool {
        description: "Adds a message to a ticket: a public reply, which the customer receives, or an internal note, which \
                      only teammates see. The ticket stays open. Front accepts a reply before it is sent, so no message id \
                      is told. Calling it twice sends two messages.",
        ..helpdesk::REPLY_TO_TICKET
    },
    Tool {
        description: "Changes status, assignee or tags of a ticket; what is not given stays. solved archives it, open brings \
                      it back, pending needs Front's ticketing; there are no on_hold, no closed and no priorities. Tags have \
                      to exist in Front. Refused as a conflict when the ticket changed since if_updated_at; Front cannot \
                      guard a change, so what somebody else changes in the same moment may be overwritten.",
        ..helpdesk::UPDATE_TICKET
    },
    Tool {
        description: "Opens a new ticket in the name of a customer: as a message that came in, in the first shared inbox \
                      that has a mail address. Nobody is mailed, and Front's rules do not run. It takes no priority, \
                      assignee or tags: set them with update_ticket. Where Front needs a moment, the ticket's id begins with \
                      message: and works as any other from then on. Under the same idempotency key one ticket is opened.",
        repeat: Repeat::ProviderKey { kept: EXTERNAL_ID_KEPT },
        ..helpdesk::CREATE_TICKET
    },
    Tool {
        description: "Finds a customer by e-mail address. Front cannot look for names or ids of other systems.",
        ..helpdesk::FIND_CUSTOMER
    },
];

pub(crate) async fn call(api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
    match call.tool.as_str() {
        search::NAME => Ok(ToolOutput::of(&search::run(api, call.read(api, search::NAME)?).await?)),
        get::NAME => Ok(ToolOutput::of(&get::run(api, call.read(api, get::NAME)?).await?)),
        reply::NAME => Ok(ToolOutput::of(&reply::run(api, call.read(api, reply::NAME)?).await?)),
        update::NAME => Ok(ToolOutput::of(&update::run(api, call.read(api, update::NAME)?).await?)),
        create::NAME => {
            let key = call.idempotency_key.as_deref();
            Ok(ToolOutput::of(&create::run(api, call.read(api, create::NAME)?, key).await?))
        }
        customers::NAME => Ok(ToolOutput::of(&customers::run(api, call.read(api, customers::NAME)?).await?)),
        _ => Err(unknown(api, ALL)),
    }
}

/// The app, where people open a ticket: beside the API, so in a substitute's folder too.
pub(crate) fn app(api: &ApiClient) -> url::Url {
    let base = &api.account().base_url;
    let text = base.as_str().replacen(crate::API, crate::APP, 1);
    text.parse().expect("one host of Front's is put in the place of another")
}

/// An id as it was given, where it can be one: Front's are opaque.
fn id<'a>(field: &str, text: &'a str) -> Result<&'a str, String> {
    let text = text.trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b':' | b'.' | b'@' | b'+');
    let fits = (1..=LONGEST_ID_CHARS).contains(&text.len()) && text.bytes().all(plain);
    // Alone they would lead elsewhere.
    let steps = text.bytes().all(|byte| byte == b'.');
    if fits && !steps {
        Ok(text)
    } else {
        Err(format!("{field}: expected an id as Front writes it, like \"cnv_55c8c149\""))
    }
}

/// The conversation of a ticket's id.
async fn ticket(api: &ApiClient, tool: &'static str, text: &str) -> Result<String> {
    let id = id("ticket_id", text).map_err(|message| invalid(api, tool, message))?;
    let Some(uid) = id.strip_prefix(ACCEPTED) else { return Ok(id.to_owned()) };
    let message = api::message_by_uid(api, tool, uid).await.map_err(|error| match error.kind {
        ErrorKind::NotFound => Error {
            message:
                "Front has not processed this ticket yet; try again later. If it was opened by a repeated call, search \
                      for it."
                    .to_owned(),
            ..error
        },
        _ => error,
    })?;
    conversation(&message).ok_or_else(|| {
        api.error(tool, ErrorKind::Unreadable, "Front does not say which conversation the message is in; search for it")
    })
}

/// Which conversation a message is in.
fn conversation(message: &crate::model::WireMessage) -> Option<String> {
    let related = message.links.as_ref()?.related.as_ref()?;
    api::conversation_of(related.conversation.as_deref()?)
}

/// Of tags, names that could be some.
fn names(field: &str, given: &[String]) -> Result<Vec<String>, String> {
    let name = |text: &String| {
        let text = text.trim();
        if text.is_empty() || text.chars().count() > 255 || text.contains(char::is_control) {
            return Err(format!("{field}: expected names of tags, like \"needs refund\""));
        }
        Ok(text.to_owned())
    };
    given.iter().map(name).collect()
}

/// Pages of tags that are looked through: more than anybody keeps.
const MOST_TAG_PAGES: u32 = 10;

/// The ids of tags of these names. One that there is not is refused by `field`: it could not be made by accident then.
async fn tag_ids(api: &ApiClient, tool: &'static str, field: &str, wanted: &[String]) -> Result<Vec<String>> {
    let mut ids: Vec<Option<String>> = vec![None; wanted.len()];
    let mut page = None;
    for _ in 0..MOST_TAG_PAGES {
        if ids.iter().all(Option::is_some) {
            break;
        }
        let listed = api::tags(api, tool, page.as_deref()).await?;
        for tag in &listed.items {
            for (name, id) in wanted.iter().zip(&mut ids) {
                if id.is_none() && tag.name.as_deref().is_some_and(|own| same(own, name)) {
                    *id = Some(tag.id.clone());
                }
            }
        }
        page = listed.next;
        if page.is_none() {
            break;
        }
    }
    let missing = wanted.iter().zip(&ids).find(|(_, id)| id.is_none());
    match missing {
        Some((name, _)) => {
            let message = format!("{field}: Front has no tag \"{name}\" that the app may see; make it there first");
            Err(invalid(api, tool, message))
        }
        None => Ok(ids.into_iter().flatten().collect()),
    }
}

fn same(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_tools_that_front_can_do_are_there_in_their_order() {
        let shared: Vec<_> =
            helpdesk::ALL.iter().map(|tool| tool.name).filter(|name| *name != "search_articles").collect();
        assert_eq!(ALL.iter().map(|tool| tool.name).collect::<Vec<_>>(), shared);
        for tool in ALL {
            let known = helpdesk::ALL.iter().find(|known| known.name == tool.name).unwrap();
            assert_eq!((tool.input_schema, tool.output_schema), (known.input_schema, known.output_schema));
        }
    }

    #[test]
    fn an_id_never_leaves_its_place_in_a_path() {
        for text in ["cnv_55c8c149", " cnv_1 ", "message:9a-b", "12345", "alt:ref:ORDER-1"] {
            assert_eq!(id("ticket_id", text), Ok(text.trim()));
        }
        let long = "a".repeat(201);
        for text in ["", " ", "..", ".", "cnv_1/messages", "cnv_1?x", "cnv 1", "cnv_1#", "%2e%2e", "ä", "a\nb", &long]
        {
            assert!(id("ticket_id", text).unwrap_err().starts_with("ticket_id: expected"), "{text}");
        }
    }
}
