//! `reply_to_ticket`.

use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient,
    error::{Error, ErrorKind, Result, Retry},
    ports::{HttpFailure, Sent},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{id, invalid};
use crate::api;

pub(super) const NAME: &str = "reply_to_ticket";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    ticket_id: String,
    body: String,
    /// Without a default: nobody writes to a customer by leaving something out.
    public: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    ticket_id: String,
    comment_id: Option<String>,
    public: bool,
    updated_at: DateTime<Utc>,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let id = id("ticket_id", &arguments.ticket_id).map_err(|message| invalid(api, NAME, message))?;
    if arguments.body.trim().is_empty() {
        return Err(invalid(api, NAME, "body: expected a text, not only spaces"));
    }
    let change = json!({"comment": {"body": arguments.body, "public": arguments.public}});

    let done = api::update(api, NAME, id, &change).await.map_err(said_once)?;

    let events = done.audit.map(|audit| audit.events).unwrap_or_default();
    let comment = events.iter().find(|event| event.kind == "Comment");
    Ok(Answer {
        ticket_id: id.to_string(),
        comment_id: comment.map(|event| event.id.to_string()),
        public: comment.and_then(|event| event.public).unwrap_or(arguments.public),
        updated_at: done.ticket.updated_at,
    })
}

/// Zendesk takes no idempotency key here: where the message may have arrived, nothing repeats it by itself.
fn said_once(error: Error) -> Error {
    let cause = error.source.as_ref().and_then(|source| source.downcast_ref::<HttpFailure>());
    let not_sent = cause.is_some_and(|failure| failure.sent == Sent::No);
    if error.kind != ErrorKind::Unavailable || error.retry != Retry::Backoff || not_sent {
        return error;
    }
    let message =
        format!("{}; the message may have been added, look at the ticket before you repeat it", error.message);
    Error { retry: Retry::Never, message, ..error }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failed(kind: ErrorKind, retry: Retry, cause: Option<HttpFailure>) -> Error {
        let source = cause.map(|cause| -> Box<dyn std::error::Error + Send + Sync> { Box::new(cause) });
        Error { kind, retry, provider: crate::ID, operation: NAME, message: "it failed".to_owned(), source }
    }

    #[test]
    fn a_message_that_may_have_arrived_is_not_repeated_by_itself() {
        use ErrorKind::{Busy, Unavailable};
        let (lost, refused) = (HttpFailure::after_send("cut off"), HttpFailure::before_send("refused"));
        let told = Retry::After(Duration::from_secs(5));
        for (kind, retry, cause, expected) in [
            (Unavailable, Retry::Backoff, Some(lost), Retry::Never),
            (Unavailable, Retry::Backoff, None, Retry::Never),
            (Unavailable, Retry::Backoff, Some(refused), Retry::Backoff),
            (Unavailable, told, None, told),
            (Busy, Retry::Backoff, None, Retry::Backoff),
        ] {
            let error = said_once(failed(kind, retry, cause));
            assert_eq!(error.retry, expected, "{kind:?} {retry:?}");
            assert_eq!(error.message.contains("look at the ticket"), expected == Retry::Never);
        }
    }
}
