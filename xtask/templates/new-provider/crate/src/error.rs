//! The provider's own words to an [`ErrorKind`].

use holdfast_core::{
    error::{Error, ErrorKind, Retry},
    provider::ApiAnswer,
};
use serde_json::Value;

/// The provider's own words are quoted up to here.
const LONGEST_QUOTE_CHARS: usize = 160;

/// Whose answer it was: the test call is never about something that an agent asked for.
pub(crate) const IDENTITY: &str = "identity";

/// Reads a refused or failed API answer. REPLACE the shape and the words:
/// `{"error": {"code": "invalid_email", "message": "email is no address"}}`.
pub(crate) fn api_error(operation: &'static str, answer: &ApiAnswer) -> Error {
    let words = words(answer.body.as_ref());
    let quoted = words.as_ref().map(|words| format!(" @Name@ says: {words}")).unwrap_or_default();
    let later = || answer.retry_after.map_or(Retry::Backoff, Retry::After);
    let (kind, retry, message) = match answer.status {
        401 => (ErrorKind::AuthFailed, Retry::Never, format!("@Name@ refuses the access: it ended or was taken back.{quoted}")),
        403 => (ErrorKind::Forbidden, Retry::Never, format!("whoever connected @Name@ may not do this.{quoted}")),
        404 if operation == IDENTITY => {
            (ErrorKind::Unavailable, Retry::Backoff, "the API of @Name@ is not where it should be".to_owned())
        }
        404 => (ErrorKind::NotFound, Retry::Never, "@Name@ has nothing under this id".to_owned()),
        409 => (ErrorKind::Conflict, Retry::Backoff, format!("somebody else is changing it; try again.{quoted}")),
        400 | 422 if words.is_some() => (ErrorKind::Invalid, Retry::Never, format!("@Name@ refused the input.{quoted}")),
        429 => (ErrorKind::Busy, later(), "the rate limit of @Name@ is used up".to_owned()),
        500.. => (ErrorKind::Unavailable, later(), format!("@Name@ is in trouble (HTTP {})", answer.status)),
        300..=399 => (ErrorKind::Unreadable, Retry::Never, "@Name@ answered with a redirect instead of data".to_owned()),
        status => (
            ErrorKind::Unreadable,
            Retry::Never,
            format!("@Name@ refused our request (HTTP {status}) in words that are not understood.{quoted}"),
        ),
    };
    Error { kind, retry, provider: crate::ID, operation, message, source: None }
}

/// Without control characters, cut.
fn words(body: Option<&Value>) -> Option<String> {
    let text = body?.get("error")?.get("message")?.as_str()?;
    Some(text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_QUOTE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_api_error_is_read_in_the_providers_words() {
        use ErrorKind::{AuthFailed, Busy, Conflict, Forbidden, Invalid, NotFound, Unavailable, Unreadable};
        let (never, backoff) = (Retry::Never, Retry::Backoff);
        let said = |message: &str| Some(json!({"error": {"code": "code", "message": message}}));
        for (status, body, kind, retry, words) in [
            (401, said("expired"), AuthFailed, never, "expired"),
            (403, None, Forbidden, never, "may not do this"),
            (404, said("none"), NotFound, never, "nothing under this id"),
            (409, None, Conflict, backoff, "try again"),
            (400, said("email is no address"), Invalid, never, "email is no address"),
            (422, said("a\nb"), Invalid, never, "a b"),
            (400, None, Unreadable, never, "not understood"),
            (400, Some(json!({"error": 5})), Unreadable, never, "not understood"),
            (429, None, Busy, backoff, "rate limit"),
            (503, Some(json!([1])), Unavailable, backoff, "HTTP 503"),
            (302, None, Unreadable, never, "redirect"),
            (418, said("teapot"), Unreadable, never, "teapot"),
        ] {
            let error = api_error("find_contact", &ApiAnswer { status, body, retry_after: None });
            assert_eq!((error.kind, error.retry), (kind, retry), "{status}: {}", error.message);
            assert!(error.message.contains(words), "{status}: {}", error.message);
        }
        let test_call = api_error(IDENTITY, &ApiAnswer { status: 404, body: None, retry_after: None });
        assert_eq!(test_call.kind, Unavailable, "no verdict on the connector");
        let long = api_error("find_contact", &ApiAnswer { status: 400, body: said(&"x".repeat(9999)), retry_after: None });
        assert!(long.message.len() < 300, "long words are cut");
    }

    #[test]
    fn a_limit_is_waited_for_as_long_as_the_provider_says() {
        for status in [429, 503] {
            let answer = ApiAnswer { status, body: None, retry_after: Some(Duration::from_secs(41)) };
            assert_eq!(api_error("find_contact", &answer).retry, Retry::After(Duration::from_secs(41)));
        }
    }
}
