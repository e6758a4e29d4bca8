//! The seam to whatever takes mail: a server, or a demo's mailbox.

use async_trait::async_trait;

use super::{Outgoing, text::line};

/// Of a server's own words.
const WORDS: usize = 300;

/// Takes messages.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Whether mail would be taken now: reached, secured, authenticated. What it opens may be used by the next send.
    async fn ready(&self) -> Result<(), Failure>;

    /// Hands one message over; `Ok`: it is accepted, in the server's own words. Takes no longer than twice the configured
    /// time-out.
    async fn send(&self, mail: &Outgoing) -> Result<String, Failure>;

    /// Nothing follows for now: connections are closed.
    async fn rest(&self) {}
}

/// A message was not accepted, or nobody knows whether it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct Failure {
    /// What follows from it.
    pub kind: FailureKind,
    /// In short, on one line, without secrets; the server's own words among them.
    pub words: String,
}

/// What follows from a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The server takes nothing at all: no other message would fare better. This one was surely not accepted.
    Server,
    /// This message is put off.
    Later,
    /// This message is refused for good.
    Refused,
    /// Its recipient is refused for good. `plainly`: there is nobody of this address, as the server says.
    Recipient {
        /// Another try would not fare better.
        plainly: bool,
    },
    /// It was handed over, and no answer came: it may have been accepted.
    Unsure,
}

impl Failure {
    pub(super) fn new(kind: FailureKind, words: impl Into<String>) -> Self {
        Self { kind, words: line(&words.into(), WORDS) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, FailureKind};

    #[test]
    fn a_servers_words_are_one_plain_line() {
        let failure = Failure::new(FailureKind::Refused, "550 \u{1B}[31mno\r\nsuch\u{202E} user\u{7}");

        assert_eq!(failure.words, "550 [31mno such user");
    }
}
