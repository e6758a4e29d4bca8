//! `reply_to_ticket`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{REPLY_TO_TICKET, ReplyToTicket, SentReply, words},
    tool::done_once,
};
use serde_json::json;

use super::{id, invalid};
use crate::api;

pub(super) const NAME: &str = REPLY_TO_TICKET.name;

pub(super) async fn run(api: &ApiClient, arguments: ReplyToTicket) -> Result<SentReply> {
    let id = id("ticket_id", &arguments.ticket_id).map_err(invalid(api, NAME))?;
    let body = words("body", &arguments.body).map_err(invalid(api, NAME))?;
    let change = json!({"comment": {"body": body, "public": arguments.public}});

    // Zendesk takes no idempotency key here.
    let look = "the message may have been added, look at the ticket before you repeat it";
    let done = api::update(api, NAME, id, &change).await.map_err(|error| done_once(error, look))?;

    let events = done.audit.map(|audit| audit.events).unwrap_or_default();
    let comment = events.iter().find(|event| event.kind == "Comment");
    Ok(SentReply {
        ticket_id: id.to_string(),
        message_id: comment.map(|event| event.id.to_string()),
        public: comment.and_then(|event| event.public).unwrap_or(arguments.public),
        updated_at: Some(done.ticket.updated_at),
    })
}
