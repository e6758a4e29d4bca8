//! `reply_to_ticket`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{ReplyToTicket, SentReply, html_of_text, words},
    tool::{done_once, invalid},
};
use serde_json::json;

use super::id;
use crate::api;

pub(super) const NAME: &str = "reply_to_ticket";

/// A reply is mailed to the requester; an internal note is mailed to nobody.
pub(super) async fn run(api: &ApiClient, asked: ReplyToTicket) -> Result<SentReply> {
    let refused = |message| invalid(api, NAME, message);
    let id = id("ticket_id", &asked.ticket_id).map_err(refused)?;
    let html = html_of_text(words("body", &asked.body).map_err(refused)?);

    let sent = if asked.public {
        api::reply(api, NAME, id, &json!({"body": html})).await
    } else {
        api::note(api, NAME, id, &json!({"body": html, "private": true})).await
    };
    let said = sent.map_err(|error| {
        done_once(error, "the message may have been added, look at the ticket before you repeat it")
    })?;

    Ok(SentReply {
        ticket_id: id.to_string(),
        message_id: Some(said.id.to_string()),
        public: said.private.map_or(asked.public, |private| !private),
        // The answer is the message; the ticket's own moment is not in it.
        updated_at: None,
    })
}
