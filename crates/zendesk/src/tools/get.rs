//! `get_ticket`.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{GET_TICKET, GetTicket, TicketConversation},
};

use super::{id, invalid};
use crate::{
    api,
    model::{Comment, People},
};

pub(super) const NAME: &str = GET_TICKET.name;

/// Pages of comments that are read at once, 100 on each: more than people write. The cursor gets the rest where machines
/// write.
const MOST_PAGES: usize = 10;

pub(super) async fn run(api: &ApiClient, arguments: GetTicket) -> Result<TicketConversation> {
    let id = id("ticket_id", &arguments.ticket_id).map_err(invalid(api, NAME))?;
    if arguments.cursor.as_deref().is_some_and(|cursor| cursor.trim().is_empty()) {
        return Err(invalid(api, NAME)("cursor: expected next_cursor of an earlier answer, unchanged".to_owned()));
    }

    let read = api::ticket(api, NAME, id).await?;
    let mut people = People::default();
    people.add(read.users);
    let (comments, next) = conversation(api, id, arguments.cursor, &mut people).await?;

    let note = next.is_some().then(|| {
        format!(
            "the conversation is longer: these are {} of its messages, next_cursor gets the later ones",
            comments.len()
        )
    });
    Ok(TicketConversation {
        ticket: read.ticket.to_model(&api.account().base_url, &people),
        messages: comments.into_iter().map(|comment| comment.into_model(&people)).collect(),
        next_cursor: next,
        note,
    })
}

/// The comments after a cursor, and the cursor of those behind them. By the cursor and not by the link: no answer decides
/// where we call.
async fn conversation(
    api: &ApiClient,
    ticket: i64,
    mut after: Option<String>,
    people: &mut People,
) -> Result<(Vec<Comment>, Option<String>)> {
    let mut comments = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = api::comments(api, NAME, ticket, after.as_deref()).await?;
        comments.extend(page.comments);
        people.add(page.users);
        if !page.meta.has_more {
            return Ok((comments, None));
        }
        let next = page.meta.after_cursor.filter(|next| !next.is_empty());
        if next.is_none() || next == after {
            let message = "the list of comments goes on without saying where";
            return Err(api.error(NAME, ErrorKind::Unreadable, message));
        }
        after = next;
    }
    Ok((comments, after))
}
