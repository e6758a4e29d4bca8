//! A refused or failed API answer, read as most services write it.

use holdfast_core::{
    error::{Error, ErrorKind, Retry},
    provider::ApiAnswer,
};
use serde_json::Value;

/// The provider's own words are quoted up to here.
const LONGEST_QUOTE_CHARS: usize = 160;

/// By its status, with the provider's words behind.
pub(crate) fn api_error(id: &'static str, name: &str, operation: &'static str, answer: &ApiAnswer) -> Error {
    let quoted = answer.body.as_ref().and_then(words).map(|words| format!(" {name} says: {words}")).unwrap_or_default();
    let (kind, words) = match answer.status {
        401 => (ErrorKind::AuthFailed, format!("{name} does not accept the credential; reconnect {name}.")),
        402 => (ErrorKind::Forbidden, format!("the account's plan at {name} does not allow this.")),
        403 => (ErrorKind::Forbidden, format!("who connected {name} may not do this, or did not allow it.")),
        404 | 410 => (ErrorKind::NotFound, "it is not there.".to_owned()),
        409 | 412 => (ErrorKind::Conflict, "it changed meanwhile; look again.".to_owned()),
        423 => (ErrorKind::Unavailable, format!("{name} has locked it for the moment.")),
        429 => (ErrorKind::Busy, format!("{name} asks to wait.")),
        400..=499 => (ErrorKind::Invalid, format!("{name} does not accept the request.")),
        500.. => (ErrorKind::Unavailable, format!("{name} has a problem (HTTP {}).", answer.status)),
        _ => (ErrorKind::Unreadable, format!("{name} answers with HTTP {}, which is no answer.", answer.status)),
    };
    let retry = match kind {
        ErrorKind::Busy | ErrorKind::Unavailable => answer.retry_after.map_or(Retry::Backoff, Retry::After),
        _ => Retry::Never,
    };
    Error { kind, retry, provider: id, operation, message: format!("{words}{quoted}"), source: None }
}

/// The words of an error, wherever one of the usual shapes has them.
pub(crate) fn words(body: &Value) -> Option<String> {
    const PLACES: &[&str] = &[
        "/error/message",
        "/error_description",
        "/error_summary",
        "/errorSummary",
        "/message",
        "/errors/0/message",
        "/errors/0/detail",
        "/Detail",
        "/0/message",
        "/error",
        "/error/code",
    ];
    let said = PLACES.iter().find_map(|place| body.pointer(place)?.as_str())?;
    let plain: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let plain = plain.trim();
    (!plain.is_empty()).then(|| plain.chars().take(LONGEST_QUOTE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_says_what_to_do_and_the_providers_words_stand_behind() {
        for (status, body, kind, said) in [
            (401, json!({"error": {"message": "Bad token"}}), ErrorKind::AuthFailed, "says: Bad token"),
            (402, json!({}), ErrorKind::Forbidden, "plan"),
            (403, json!({"message": "No scope"}), ErrorKind::Forbidden, "says: No scope"),
            (404, json!([{"message": "Gone"}]), ErrorKind::NotFound, "says: Gone"),
            (409, json!({"errors": [{"detail": "Stale"}]}), ErrorKind::Conflict, "says: Stale"),
            (422, json!({"error": "invalid"}), ErrorKind::Invalid, "says: invalid"),
            (429, json!("x"), ErrorKind::Busy, "wait"),
            (503, json!({"error": 7}), ErrorKind::Unavailable, "HTTP 503"),
            (302, json!(null), ErrorKind::Unreadable, "HTTP 302"),
        ] {
            let answer = ApiAnswer { status, body: Some(body), retry_after: Some(Duration::from_secs(7)) };
            let error = api_error("acme", "Acme", "test", &answer);
            assert_eq!(error.kind, kind, "{status}");
            assert!(error.message.contains(said), "{status}: {error}");
            let waits = matches!(kind, ErrorKind::Busy | ErrorKind::Unavailable);
            assert_eq!(error.retry == Retry::After(Duration::from_secs(7)), waits, "{status}");
        }
    }
}
