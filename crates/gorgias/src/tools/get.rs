//! `get_ticket`.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{GetTicket, TicketConversation},
    tool::invalid,
};

use super::{id, place::Place};
use crate::{
    api::{self, First, PER_PAGE},
    model::WireMessage,
};

pub(super) const NAME: &str = "get_ticket";

/// Pages of messages in one answer, 100 on each: more than people write, and an end where machines write without one.
const MOST_PAGES: usize = 10;
/// So many undelivered messages are named.
const MOST_NAMED: usize = 10;

pub(super) async fn run(api: &ApiClient, asked: GetTicket) -> Result<TicketConversation> {
    let refused = |message| invalid(api, NAME, message);
    let id = id("ticket_id", &asked.ticket_id).map_err(refused)?;
    let place = match &asked.cursor {
        Some(cursor) => Place::read(cursor, false, PER_PAGE).map_err(refused)?,
        None => Place::first(false, PER_PAGE),
    };
    let first = place.cursor.is_none();

    let mut ticket = api::ticket(api, NAME, id).await?;
    let (messages, next) = conversation(api, id, place).await?;

    // Those that come with a ticket may be a part of them; the list is whole.
    if first && !messages.is_empty() {
        ticket.messages = Some(messages.clone());
    }
    let mut notes = Vec::new();
    if next.is_some() {
        notes.push(format!(
            "The conversation is longer: these are {} of its messages, next_cursor gets the later ones.",
            messages.len()
        ));
    }
    let failed: Vec<String> = messages
        .iter()
        .filter(|message| message.failed_datetime.is_some())
        .map(|message| message.id.0.to_string())
        .take(MOST_NAMED)
        .collect();
    if !failed.is_empty() {
        notes.push(format!("Gorgias could not deliver these messages: {}.", failed.join(", ")));
    }
    Ok(TicketConversation {
        ticket: ticket.to_model(&api.account().base_url),
        messages: messages.iter().map(WireMessage::to_model).collect(),
        next_cursor: next.map(|place| place.written()),
        note: (!notes.is_empty()).then(|| notes.join(" ")),
    })
}

/// The messages from here on, and the place behind them if there are more.
async fn conversation(api: &ApiClient, ticket: i64, mut place: Place) -> Result<(Vec<WireMessage>, Option<Place>)> {
    let mut all = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = api::messages(api, NAME, ticket, First::Oldest, PER_PAGE, place.cursor.as_deref()).await?;
        let next = page.next();
        all.extend(page.data);
        if next.is_none() {
            return Ok((all, None));
        }
        if next == place.cursor {
            return Err(api.error(NAME, ErrorKind::Unreadable, "the list of messages goes on where it began"));
        }
        place.cursor = next;
    }
    Ok((all, Some(place)))
}
