//! One call to a token endpoint, as pure functions: facts and a grant to a request, an answer to an [`Outcome`].

mod answer;
mod refresh_end;
mod request;
mod words;

pub use answer::{TokenAnswer, api_host, merge, read, retry_after};
pub use refresh_end::first_refresh_end;
pub use request::{
    AuthorizeUrl, Grant, authorize_url, client_basic, code_challenge, revoke, secret_header, secrets_of, token_request,
};

use std::time::Duration;

use crate::{ports::HttpFailure, refresh::OutcomeKind};

/// What a token endpoint's answer came to.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A new token set.
    Rotated(Box<TokenAnswer>),
    /// The grant is over, the provider says.
    Rejected(Refusal),
    /// The OAuth app is at fault.
    AppBroken(Refusal),
    /// Wait.
    Busy(Refusal),
    /// Nothing was consumed.
    Transient(Refusal),
    /// The token may have been rotated without us.
    Ambiguous(Refusal),
}

impl Outcome {
    /// The word for it in metrics.
    pub fn kind(&self) -> OutcomeKind {
        match self {
            Self::Rotated(_) => OutcomeKind::Rotated,
            Self::Rejected(_) => OutcomeKind::Rejected,
            Self::AppBroken(_) => OutcomeKind::AppBroken,
            Self::Busy(_) => OutcomeKind::Busy,
            Self::Transient(_) => OutcomeKind::Transient,
            Self::Ambiguous(_) => OutcomeKind::Ambiguous,
        }
    }
}

/// What an adapter may say of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The grant is over.
    Rejected,
    /// The OAuth app is at fault.
    AppBroken,
    /// Wait.
    Busy,
    /// Nothing was consumed.
    Transient,
    /// It may have been consumed.
    Ambiguous,
}

/// An answer of a token endpoint that brought no token set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status; 0: there was no answer.
    pub status: u16,
    /// The error code, where one could be read.
    pub code: Option<String>,
    /// The provider's words, without markup, at most 300 characters.
    pub description: Option<String>,
    /// From Retry-After, measured against the answer's own Date.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// For logs, timeline and errors: status, code and words.
    pub fn words(&self) -> String {
        let mut words = if self.status == 0 { String::new() } else { format!("HTTP {}", self.status) };
        for part in [&self.code, &self.description].into_iter().flatten() {
            if !words.is_empty() {
                words.push_str(", ");
            }
            words.push_str(part);
        }
        words
    }
}

/// No answer: surely not sent is transient, anything else ambiguous.
pub fn failed(failure: &HttpFailure) -> Outcome {
    let refusal = Refusal { description: Some(failure.message.clone()), ..Refusal::default() };
    match failure.sent {
        crate::ports::Sent::No => Outcome::Transient(refusal),
        crate::ports::Sent::Maybe => Outcome::Ambiguous(refusal),
    }
}
