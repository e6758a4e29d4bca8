//! `reply_to_ticket`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{ReplyToTicket, SentReply, words},
    tool::{done_once, invalid},
};

use super::ticket;
use crate::{api, text};

pub(super) const NAME: &str = "reply_to_ticket";

/// A reply is sent to the customer by the channel of the conversation; a comment is seen by teammates alone.
pub(super) async fn run(api: &ApiClient, asked: ReplyToTicket) -> Result<SentReply> {
    let body = words("body", &asked.body).map_err(|message| invalid(api, NAME, message))?;
    let id = ticket(api, NAME, &asked.ticket_id).await?;
    let look = |error| done_once(error, "the message may have been added, look at the ticket before you repeat it");
    let (message_id, updated_at) = if asked.public {
        // What it is called before it is a message is no message's id.
        api::reply(api, NAME, &id, &text::to_html(body)).await.map_err(look)?;
        (None, None)
    } else {
        let comment = api::comment(api, NAME, &id, body).await.map_err(look)?;
        (Some(comment.id), Some(comment.posted_at))
    };
    Ok(SentReply { ticket_id: id, message_id, public: asked.public, updated_at })
}
