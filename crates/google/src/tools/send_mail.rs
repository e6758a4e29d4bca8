//! `send_mail`.

use holdfast_core::{ApiClient, error::Result};
use serde::{Deserialize, Serialize};

use super::{invalid, name::SEND_MAIL as NAME, once};
use crate::{api, mail::compose::Draft, model::Message};

/// Where a person or an agent sees whether it was sent.
pub(super) const LOOK: &str = "search the mailbox for it with in:sent";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    to: Vec<String>,
    #[serde(default)]
    cc: Vec<String>,
    #[serde(default)]
    bcc: Vec<String>,
    subject: String,
    body: String,
}

/// What was sent.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    message_id: String,
    thread_id: String,
}

impl From<Message> for Answer {
    fn from(sent: Message) -> Self {
        Self { message_id: sent.id, thread_id: sent.thread_id }
    }
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    if arguments.body.trim().is_empty() {
        return Err(invalid(api, NAME, "body: expected a text, not only spaces"));
    }
    let draft = Draft {
        from: Some(api.account().id.clone()),
        to: arguments.to,
        cc: arguments.cc,
        bcc: arguments.bcc,
        subject: arguments.subject,
        text: arguments.body,
        ..Draft::default()
    };
    let raw = draft.raw().map_err(|message| invalid(api, NAME, message))?;

    let sent = api::send(api, NAME, &raw, None).await.map_err(|error| once(error, LOOK))?;

    Ok(sent.into())
}
