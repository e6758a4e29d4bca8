//! `get_ticket`.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    ticket::{Message, Ticket},
};
use serde::{Deserialize, Serialize};

use super::{id, invalid};
use crate::{
    api,
    model::{Comment, People},
};

pub(super) const NAME: &str = "get_ticket";

/// Pages of comments that are read, 100 on each: more than people write, and an end where machines write without one.
const MOST_PAGES: usize = 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    ticket_id: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    ticket: Ticket,
    messages: Vec<Message>,
    messages_complete: bool,
    note: Option<String>,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let id = id("ticket_id", &arguments.ticket_id).map_err(|message| invalid(api, NAME, message))?;

    let read = api::ticket(api, NAME, id).await?;
    let mut people = People::default();
    people.add(read.users);
    let (comments, complete) = conversation(api, id, &mut people).await?;

    let note = (!complete).then(|| {
        format!(
            "the conversation is longer: these are its first {} messages, the later ones are not shown",
            comments.len()
        )
    });
    Ok(Answer {
        ticket: read.ticket.to_model(&api.account().base_url, &people),
        messages: comments.into_iter().map(|comment| comment.into_model(&people)).collect(),
        messages_complete: complete,
        note,
    })
}

/// All comments, and whether they are all. By the cursor and not by the link: no answer decides where we call.
async fn conversation(api: &ApiClient, ticket: i64, people: &mut People) -> Result<(Vec<Comment>, bool)> {
    let mut comments = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let page = api::comments(api, NAME, ticket, after.as_deref()).await?;
        comments.extend(page.comments);
        people.add(page.users);
        if !page.meta.has_more {
            return Ok((comments, true));
        }
        if page.meta.after_cursor.is_none() || page.meta.after_cursor == after {
            let message = "the list of comments goes on without saying where";
            return Err(api.error(NAME, ErrorKind::Unreadable, message));
        }
        after = page.meta.after_cursor;
    }
    Ok((comments, false))
}
