//! Tools: the operations that an adapter offers to agents.

use std::time::Duration;

use http::HeaderValue;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{
    api_client::ApiClient,
    credential::hex,
    error::{Error, ErrorKind, Result, Retry},
    ports::{HttpFailure, Sent},
};

/// Whether a tool changes something at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Changes nothing.
    Read,
    /// Changes something; takes an idempotency key.
    Write,
}

impl Access {
    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Read, Self::Write].into_iter().find(|access| access.as_str() == word)
    }
}

/// Whether a call whose outcome is unknown may be made once more: the answer was lost, or not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Yes, whenever: it reads, or it sets what it would have set before. A guarded change that did arrive may be answered
    /// as a conflict then, and has its effect once all the same.
    Safe,
    /// Yes, with the same [`ToolCall::idempotency_key`] and the same arguments: the provider knows the key again. Without a
    /// key, or later than this, it may be done twice.
    ProviderKey {
        /// How long after the first call the provider knows the key.
        kept: Duration,
    },
    /// No: it may be done twice, like a second message to a customer. A person or an agent looks first.
    Never,
}

impl Repeat {
    /// Whether a call that was made so long ago, with a key or without, may be made once more.
    pub fn allows(self, since: Duration, has_key: bool) -> bool {
        match self {
            Self::Safe => true,
            Self::ProviderKey { kept } => has_key && since < kept,
            Self::Never => false,
        }
    }
}

/// One operation, as agents see it.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// `search_tickets`.
    pub name: &'static str,
    /// What it does, for a model to read.
    pub description: &'static str,
    /// Read or write.
    pub access: Access,
    /// Whether it may be called again where nobody knows what became of the call.
    pub repeat: Repeat,
    /// JSON Schema of the arguments, as text.
    pub input_schema: &'static str,
    /// JSON Schema of the result, as text.
    pub output_schema: &'static str,
}

/// One call of a tool.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The tool's name.
    pub tool: String,
    /// The arguments, an object.
    pub arguments: Value,
    /// Same key, same effect; used where the provider has an equivalent.
    pub idempotency_key: Option<String>,
}

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput(pub Value);

impl ToolCall {
    /// The arguments as a tool's own type; an error names the argument, and what may stand there.
    pub fn read<T: DeserializeOwned>(&self, api: &ApiClient, tool: &'static str) -> Result<T> {
        arguments(&self.arguments).map_err(|message| invalid(api, tool, message))
    }

    /// The key for a provider's own header of idempotency, which takes up to `longest` characters: as it was given, or its
    /// SHA-256 in hex where the header could not hold it.
    pub fn provider_key(&self, longest: usize) -> Option<HeaderValue> {
        let key = self.idempotency_key.as_deref()?;
        let fits = (1..=longest).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        let text = if fits { key.to_owned() } else { hex(&Sha256::digest(key.as_bytes())) };
        Some(HeaderValue::try_from(text).expect("it is printable ASCII"))
    }
}

impl ToolOutput {
    /// The answer of a tool.
    ///
    /// # Panics
    /// On a map whose keys are no strings.
    pub fn of(answer: &impl Serialize) -> Self {
        Self(serde_json::to_value(answer).expect("answers have string keys and no failing parts"))
    }
}

/// Arguments as a tool's own type. The message names the argument, and what may stand there.
pub fn arguments<T: DeserializeOwned>(given: &Value) -> Result<T, String> {
    // Serde would take a list for the fields in their order.
    if !given.is_object() {
        return Err("expected an object of named arguments".to_owned());
    }
    serde_path_to_error::deserialize(given).map_err(|error| {
        let place = error.path().to_string();
        let said = error.into_inner();
        if place == "." { said.to_string() } else { format!("{place}: {said}") }
    })
}

/// An argument that is wrong in itself: the message begins with its name.
pub fn invalid(api: &ApiClient, tool: &'static str, message: impl Into<String>) -> Error {
    api.error(tool, ErrorKind::Invalid, message)
}

/// A tool that is not among these.
pub fn unknown(api: &ApiClient, known: &[Tool]) -> Error {
    let names: Vec<&str> = known.iter().map(|tool| tool.name).collect();
    api.error("call", ErrorKind::NotFound, format!("there is no such tool; there are {}", names.join(", ")))
}

/// For an effect that must not come twice and that no key protects: where it may have come, nothing repeats the call by
/// itself, and `look` says what to do ("the message may have been added, look at the ticket before you repeat it").
///
/// An error that says when to come back is left as it is: the provider turned the call away.
#[must_use]
pub fn done_once(error: Error, look: &str) -> Error {
    let cause = error.source.as_ref();
    let sent = cause.and_then(|source| source.downcast_ref::<HttpFailure>()).map(|failure| failure.sent);
    // Without a credential nothing is sent.
    let before = sent == Some(Sent::No) || cause.is_some_and(|source| source.is::<crate::refresh::AuthError>());
    let maybe = match error.kind {
        ErrorKind::Unavailable => error.retry == Retry::Backoff && !before,
        // A success that could not be read, for one.
        ErrorKind::Unreadable => true,
        _ => false,
    };
    if !maybe {
        return error;
    }
    let message = format!("{}; {look}", error.message);
    Error { retry: Retry::Never, message, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: ErrorKind, retry: Retry, cause: Option<HttpFailure>) -> Error {
        let source = cause.map(|cause| -> Box<dyn std::error::Error + Send + Sync> { Box::new(cause) });
        Error { kind, retry, provider: "desk", operation: "reply", message: "it failed".to_owned(), source }
    }

    #[test]
    fn what_may_have_had_its_effect_is_not_repeated_by_itself() {
        use ErrorKind::{Busy, Conflict, Unavailable, Unreadable};
        let (lost, refused) = (HttpFailure::after_send("cut off"), HttpFailure::before_send("refused"));
        let told = Retry::After(Duration::from_secs(5));
        for (kind, retry, cause, expected, warned) in [
            (Unavailable, Retry::Backoff, Some(lost), Retry::Never, true),
            (Unavailable, Retry::Backoff, None, Retry::Never, true),
            (Unreadable, Retry::Never, None, Retry::Never, true),
            (Unavailable, Retry::Backoff, Some(refused), Retry::Backoff, false),
            (Unavailable, told, None, told, false),
            (Busy, Retry::Backoff, None, Retry::Backoff, false),
            (Conflict, Retry::Never, None, Retry::Never, false),
        ] {
            let error = done_once(failed(kind, retry, cause), "look at the ticket");
            assert_eq!(error.retry, expected, "{kind:?} {retry:?}");
            assert_eq!(error.message.ends_with("; look at the ticket"), warned, "{kind:?} {retry:?}");
        }
    }

    #[test]
    fn a_key_is_handed_on_in_a_form_that_a_header_can_hold() {
        let key = |key: &str| {
            let idempotency_key = Some(key.to_owned());
            let call = ToolCall { tool: "t".to_owned(), arguments: Value::Null, idempotency_key };
            call.provider_key(64).unwrap().to_str().unwrap().to_owned()
        };

        assert_eq!(key("run_7/step-1"), "run_7/step-1");
        for odd in ["", "two words", "a\r\nX: y", "schlüssel", &"x".repeat(65)] {
            let made = key(odd);
            assert_eq!(made.len(), 64);
            assert!(made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
        }
        assert_ne!(key("schlüssel"), key("Schlüssel"));
        assert_eq!(key("schlüssel"), key("schlüssel"));
    }

    #[test]
    fn a_call_without_known_outcome_is_repeated_only_where_it_has_one_effect() {
        let kept = Duration::from_hours(2);
        for (repeat, since, has_key, expected) in [
            (Repeat::Safe, kept, false, true),
            (Repeat::ProviderKey { kept }, Duration::ZERO, true, true),
            (Repeat::ProviderKey { kept }, Duration::ZERO, false, false),
            (Repeat::ProviderKey { kept }, kept, true, false),
            (Repeat::Never, Duration::ZERO, true, false),
        ] {
            assert_eq!(repeat.allows(since, has_key), expected, "{repeat:?} {since:?} {has_key}");
        }
    }
}
