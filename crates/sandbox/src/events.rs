//! What providers send by themselves: signed as each of them signs, sent over a socket, and sent again as each of them does.
//! Written from their documentation.
//!
//! | provider | signs | sends again |
//! |---|---|---|
//! | Zendesk | HMAC-SHA256 over timestamp and body, base64 | after 409 three times, after 429 and 503 with a `Retry-After` below 60 s, after silence five times |
//! | Shopify | HMAC-SHA256 over the body with the app's secret, base64 | after anything but 2xx, eight times |
//! | Front, application | HMAC-SHA256 over timestamp, colon and body, base64 | never |
//! | Front, rule | HMAC-SHA1 over the body, base64 | never |
//! | Gorgias | nothing; a header of the receiver's | after silence |
//! | Freshdesk | nothing; a header of the receiver's | after anything but 2xx, three times |
//! | Google, push | a token of Google's, RS256 | after anything but 102, 200, 201, 202, 204 |
//! | Google, channel | nothing; repeats the channel's token | after 500, 502, 503, 504 |
//! | generic | HMAC-SHA256 over the body, `sha256=` and hex in `X-Hub-Signature-256` | never |

mod send;
mod signed;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::pause;
use crate::desk::World;

pub(crate) use signed::google_keys;

/// Between two attempts; a provider waits for minutes.
const PAUSE_MS: u64 = 20;

/// An event that a provider is to send.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventOrder {
    /// `zendesk`, `shopify`, `front`, `front-rule`, `gorgias`, `freshdesk`, `google-push`, `google-channel`, `generic`.
    pub provider: String,
    /// Where it goes.
    pub url: String,
    /// What it is signed with, or what a header repeats; for Google's push the service account. Empty: nothing proves it.
    pub secret: String,
    /// The shop, the company, the mailbox.
    pub account: String,
    /// The provider's word for what has happened; its usual one, unless said.
    pub kind: String,
    /// The ticket, order or conversation.
    pub subject: String,
    /// The event's id; a new one, unless said.
    pub id: String,
    /// A body of one's own, in place of the provider's.
    pub body: Option<String>,
    /// The moment that is signed, in milliseconds since 1970; now, unless said.
    pub at_ms: Option<i64>,
    /// Headers on top.
    pub headers: Vec<(String, String)>,
    /// Not again, whatever is answered.
    pub once: bool,
}

/// How it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventAttempt {
    /// The HTTP status; 0: no answer.
    pub status: u16,
    /// In seconds, where the answer says when to come again.
    pub retry_after: Option<u64>,
    /// The answer's content type.
    pub content_type: String,
    /// The answer's body.
    pub body: String,
}

/// A request that is ready to be sent.
struct Parcel {
    method: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Sends it until it is taken, or its provider would give up; answers every attempt.
pub(crate) async fn send(world: &World, order: &EventOrder) -> Result<Vec<EventAttempt>, String> {
    let parcel = signed::parcel(order, order.at_ms.unwrap_or_else(|| world.clock.now_ms()))?;
    let mut attempts = Vec::new();
    loop {
        let attempt = send::once(&order.url, &parcel).await?;
        let again = !order.once && again(&order.provider, &attempt, attempts.len());
        attempts.push(attempt);
        if !again {
            return Ok(attempts);
        }
        pause(PAUSE_MS).await;
    }
}

/// Whether its provider sends it once more after so many attempts before this one.
fn again(provider: &str, attempt: &EventAttempt, before: usize) -> bool {
    let taken = (200..300).contains(&attempt.status);
    match provider {
        "zendesk" => match attempt.status {
            409 => before < 3,
            429 | 503 => before < 3 && attempt.retry_after.is_some_and(|secs| secs < 60),
            0 => before < 5,
            _ => false,
        },
        "shopify" => !taken && before < 8,
        "freshdesk" => !taken && before < 3,
        "gorgias" => attempt.status == 0 && before < 3,
        "google-push" => !matches!(attempt.status, 102 | 200 | 201 | 202 | 204) && before < 10,
        "google-channel" => matches!(attempt.status, 500 | 502 | 503 | 504) && before < 10,
        _ => false,
    }
}

/// What has no secret of its own is asked for with these words.
pub(crate) fn refused(why: &str) -> Value {
    serde_json::json!({ "error": why })
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(12);
