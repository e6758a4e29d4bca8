//! `get_ticket`.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{GetTicket, TicketConversation},
    ticket::Message,
    tool::invalid,
};

use super::{app, ticket};
use crate::{api, model::WireMessage};

pub(super) const NAME: &str = "get_ticket";

/// Pages of messages in one answer, 100 on each. Every call counts for the whole company.
const MOST_PAGES: u32 = 5;

/// Where a part begins: behind this moment, on this page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    after: DateTime<Utc>,
    page: String,
}

/// Messages come in pages, internal notes all at once. Of these, each part has those that belong between its messages.
pub(super) async fn run(api: &ApiClient, asked: GetTicket) -> Result<TicketConversation> {
    let place = asked.cursor.as_deref().map(|cursor| {
        Place::read(cursor)
            .ok_or_else(|| invalid(api, NAME, "cursor: expected next_cursor of an earlier answer, unchanged"))
    });
    let place = place.transpose()?;
    let id = ticket(api, NAME, &asked.ticket_id).await?;
    let conversation = api::conversation(api, NAME, &id).await?;
    // After a merge it is another one.
    let id = &conversation.id;
    let notes = api::comments(api, NAME, id).await?;
    let (messages, next) = messages(api, id, place.as_ref().map(|place| place.page.clone())).await?;

    let first = messages.iter().find(|message| message.is_sent());
    let mut ticket = conversation.to_model(&app(api));
    if place.is_none() {
        ticket.description = first.map(WireMessage::words);
    }
    ticket.channel = first.and_then(WireMessage::channel);
    let last = messages.iter().map(|message| message.created_at).max();
    let next = next.zip(last).map(|(page, after)| Place { after, page });
    let mut all: Vec<Message> =
        messages.iter().filter(|message| message.is_sent()).map(WireMessage::to_model).collect();
    let here = |at: DateTime<Utc>| {
        place.as_ref().is_none_or(|place| at > place.after) && next.as_ref().is_none_or(|next| at <= next.after)
    };
    all.extend(notes.into_iter().filter(|note| here(note.posted_at)).map(crate::model::Comment::into_model));
    all.sort_by_key(|message| message.created_at);
    let note = next.as_ref().map(|_| {
        format!("the conversation is longer: these are {} of its messages, next_cursor gets the later ones", all.len())
    });
    Ok(TicketConversation { ticket, messages: all, next_cursor: next.map(|next| next.cursor()), note })
}

/// Those from this page on, and the page behind them if there is one.
async fn messages(
    api: &ApiClient,
    conversation: &str,
    mut page: Option<String>,
) -> Result<(Vec<WireMessage>, Option<String>)> {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    for _ in 0..MOST_PAGES {
        let listed = api::messages(api, NAME, conversation, page.as_deref()).await?;
        let before = all.len();
        all.extend(listed.items.into_iter().filter(|message| seen.insert(message.id.clone())));
        page = listed.next;
        if page.is_none() {
            return Ok((all, None));
        }
        if all.len() == before {
            let message = "the list of messages goes on and brings nothing new";
            return Err(api.error(NAME, ErrorKind::Unreadable, message));
        }
    }
    Ok((all, page))
}

impl Place {
    fn cursor(&self) -> String {
        format!("{}-{}", self.after.timestamp_millis(), self.page)
    }

    fn read(cursor: &str) -> Option<Self> {
        let (ms, page) = cursor.split_once('-')?;
        let after = DateTime::from_timestamp_millis(ms.parse().ok()?)?;
        let place = Self { after, page: page.to_owned() };
        let fits = !page.is_empty() && page.len() <= 2000 && page.bytes().all(|byte| byte.is_ascii_graphic());
        (fits && place.cursor() == cursor).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_taken_only_as_it_was_given() {
        let place =
            Place { after: DateTime::from_timestamp_millis(1_790_000_000_123).unwrap(), page: "a-b=".to_owned() };
        assert_eq!(Place::read(&place.cursor()), Some(place));
        for cursor in
            ["", "-", "1790000000123-", "-abc", "+5-abc", "05-abc", "x-abc", "5-a b", "99999999999999999999-a"]
        {
            assert_eq!(Place::read(cursor), None, "{cursor}");
        }
    }
}
