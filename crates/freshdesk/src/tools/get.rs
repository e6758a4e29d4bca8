//! `get_ticket`.

use std::collections::HashSet;

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{GetTicket, TicketConversation},
    ticket::{Message, Person},
    tool::invalid,
};

use super::id;
use crate::{
    api,
    model::{Conversation, OUTBOUND, WireTicket},
};

pub(super) const NAME: &str = "get_ticket";

/// Pages of conversations in one answer, 100 on each: more than people write, and an end where machines write without one.
const MOST_PAGES: u32 = 10;
/// No conversation is so long; a cursor beyond it was not ours.
const LAST_PAGE: u32 = 10_000;

pub(super) async fn run(api: &ApiClient, asked: GetTicket) -> Result<TicketConversation> {
    let id = id("ticket_id", &asked.ticket_id).map_err(|message| invalid(api, NAME, message))?;
    let first = first_page(asked.cursor.as_deref()).map_err(|message| invalid(api, NAME, message))?;

    let ticket = api::ticket(api, NAME, id).await?;
    let (conversations, next) = conversations(api, id, first).await?;

    let requester = ticket.requester();
    let beginning = if first == 1 { opening(&ticket, requester.as_ref()) } else { None };
    let later = conversations.into_iter().map(|said| said.into_model(requester.as_ref()));
    let messages: Vec<Message> = beginning.into_iter().chain(later).collect();
    let note = next.map(|_| {
        format!(
            "the conversation is longer: these are {} of its messages, next_cursor gets the later ones",
            messages.len()
        )
    });
    Ok(TicketConversation {
        ticket: ticket.to_model(&api.account().base_url),
        messages,
        next_cursor: next.map(|page| format!("c{page}")),
        note,
    })
}

/// The first message, which is not among the conversations and has no id of its own.
fn opening(ticket: &WireTicket, requester: Option<&Person>) -> Option<Message> {
    Some(Message {
        id: format!("ticket-{}", ticket.id),
        body: ticket.first_message()?,
        public: true,
        // A mail that the helpdesk began with is an agent's, and nothing says whose.
        author: requester.filter(|_| ticket.source != Some(OUTBOUND)).cloned(),
        attachments: ticket.attachments.clone(),
        created_at: ticket.created_at,
    })
}

/// Those from this page on, and the page behind them if there is one.
async fn conversations(api: &ApiClient, ticket: i64, first: u32) -> Result<(Vec<Conversation>, Option<u32>)> {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    for page in first..first + MOST_PAGES {
        let listed = api::conversations(api, NAME, ticket, page).await?;
        let before = all.len();
        all.extend(listed.items.into_iter().filter(|said| seen.insert(said.id)));
        if !listed.more {
            return Ok((all, None));
        }
        if all.len() == before {
            return Err(api.error(
                NAME,
                ErrorKind::Unreadable,
                "the list of conversations goes on and brings nothing new",
            ));
        }
    }
    Ok((all, Some(first + MOST_PAGES)))
}

fn first_page(cursor: Option<&str>) -> Result<u32, String> {
    let Some(cursor) = cursor else { return Ok(1) };
    let page = cursor.strip_prefix('c').and_then(|page| page.parse().ok());
    let page = page.filter(|page| (2..=LAST_PAGE).contains(page) && cursor == format!("c{page}"));
    page.ok_or_else(|| "cursor: expected next_cursor of an earlier answer, unchanged".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_taken_only_as_it_was_given() {
        assert_eq!(first_page(None), Ok(1));
        assert_eq!(first_page(Some("c11")), Ok(11));
        for cursor in ["", "c", "c1", "c0", "c011", "c+11", "11", "c-1", "c10001", "c11 "] {
            assert!(first_page(Some(cursor)).unwrap_err().starts_with("cursor: expected"), "{cursor}");
        }
    }
}
