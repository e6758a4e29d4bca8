//! Front's own words to an [`ErrorKind`].

use holdfast_core::{
    error::{Error, ErrorKind, Retry},
    provider::ApiAnswer,
};
use serde_json::Value;

/// The provider's own words are quoted up to here.
const LONGEST_QUOTE_CHARS: usize = 160;
/// So many details are quoted.
const MOST_DETAILS: usize = 5;

/// Whose answer it was: the test call is never about something that an agent asked for.
pub(crate) const IDENTITY: &str = "identity";

/// Reads a refused or failed API answer: `{"_error": {"status", "title", "message", "details"?}}`.
/// <https://dev.frontapp.com/reference/introduction>
pub(crate) fn api_error(operation: &'static str, answer: &ApiAnswer) -> Error {
    let words = words(answer.body.as_ref());
    let quoted = words.as_ref().map(|words| format!(" Front says: {words}")).unwrap_or_default();
    let busy = || answer.retry_after.map_or(Retry::Backoff, Retry::After);
    let (kind, retry, message) = match answer.status {
        401 => (
            ErrorKind::AuthFailed,
            Retry::Never,
            format!(
                "Front refuses the access: it ended, or the company removed the app. Reconnect as an admin.{quoted}"
            ),
        ),
        402 => (
            ErrorKind::Forbidden,
            Retry::Never,
            format!("the Front account has no plan that allows this; its owner has to look.{quoted}"),
        ),
        403 => (
            ErrorKind::Forbidden,
            Retry::Never,
            format!(
                "the Front app may not do this: an admin has to give it this permission, or the inbox, in Front's developer \
                 settings.{quoted}"
            ),
        ),
        404 if operation == IDENTITY => {
            (ErrorKind::Unavailable, Retry::Backoff, "Front's API is not where it should be".to_owned())
        }
        404 => (
            ErrorKind::NotFound,
            Retry::Never,
            "Front has nothing under this id, or the app may not see it (a private inbox, for one)".to_owned(),
        ),
        409 => (ErrorKind::Conflict, Retry::Backoff, format!("somebody else is changing it; try again.{quoted}")),
        400 | 422 if words.is_some() => (ErrorKind::Invalid, Retry::Never, format!("Front refused the input.{quoted}")),
        413 => (ErrorKind::Invalid, Retry::Never, "the input is too long for Front".to_owned()),
        423 => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            format!("Front has locked this for the moment; if it stays so, the account's owner has to look.{quoted}"),
        ),
        429 => (
            ErrorKind::Busy,
            busy(),
            "the rate limit of the Front company is used up; all its apps share it, and searches have less".to_owned(),
        ),
        500.. => (ErrorKind::Unavailable, busy(), format!("Front is in trouble (HTTP {})", answer.status)),
        300..=399 => (ErrorKind::Unreadable, Retry::Never, "Front answered with a redirect instead of data".to_owned()),
        status => (
            ErrorKind::Unreadable,
            Retry::Never,
            format!("Front refused our request (HTTP {status}) in words that are not understood.{quoted}"),
        ),
    };
    error(operation, kind, retry, message)
}

pub(crate) fn error(operation: &'static str, kind: ErrorKind, retry: Retry, message: impl Into<String>) -> Error {
    Error { kind, retry, provider: crate::ID, operation, message: message.into(), source: None }
}

/// The details, else the message, else the title.
fn words(body: Option<&Value>) -> Option<String> {
    let error = body?.get("_error")?;
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let details: Vec<String> = details.take(MOST_DETAILS).map(plain).collect();
    if !details.is_empty() {
        return Some(details.join("; "));
    }
    ["message", "title"].iter().find_map(|name| error.get(*name)?.as_str()).map(plain)
}

/// Without control characters, cut.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_QUOTE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_api_error_is_read_in_fronts_words() {
        use ErrorKind::{AuthFailed, Busy, Conflict, Forbidden, Invalid, NotFound, Unavailable, Unreadable};
        let (never, backoff) = (Retry::Never, Retry::Backoff);
        let said = |message: &str| Some(json!({"_error": {"status": 1, "title": "T", "message": message}}));
        let details =
            Some(json!({"_error": {"title": "Bad request", "message": "m", "details": ["body.to: missing", 7]}}));
        for (status, body, kind, retry, words) in [
            (401, said("invalid or expired"), AuthFailed, never, "invalid or expired"),
            (401, None, AuthFailed, never, "Reconnect as an admin"),
            (403, said("Missing required scope: tags:read"), Forbidden, never, "tags:read"),
            (403, None, Forbidden, never, "permission"),
            (404, said("Resource not found"), NotFound, never, "may not see it"),
            (409, None, Conflict, backoff, "try again"),
            (400, details, Invalid, never, "body.to: missing"),
            (400, Some(json!({"_error": {"title": "Bad request", "details": "x"}})), Invalid, never, "Bad request"),
            (400, None, Unreadable, never, "not understood"),
            (400, Some(json!({"_error": 5})), Unreadable, never, "not understood"),
            (413, None, Invalid, never, "too long"),
            (429, said("Rate limit exceeded"), Busy, backoff, "rate limit"),
            (500, None, Unavailable, backoff, "HTTP 500"),
            (503, Some(json!([1])), Unavailable, backoff, "HTTP 503"),
            (302, None, Unreadable, never, "redirect"),
            (418, said("teapot"), Unreadable, never, "teapot"),
        ] {
            let error = api_error("get_ticket", &ApiAnswer { status, body, retry_after: None });
            assert_eq!((error.kind, error.retry), (kind, retry), "{status}: {}", error.message);
            assert!(error.message.contains(words), "{status}: {}", error.message);
        }
        let test_call = api_error(IDENTITY, &ApiAnswer { status: 404, body: None, retry_after: None });
        assert_eq!(test_call.kind, Unavailable, "no verdict on the grant");
    }

    #[test]
    fn a_limit_is_waited_for_as_long_as_front_says() {
        for (status, kind) in [(429, ErrorKind::Busy), (503, ErrorKind::Unavailable)] {
            let answer = ApiAnswer { status, body: None, retry_after: Some(Duration::from_secs(41)) };
            let error = api_error("search_tickets", &answer);
            assert_eq!((error.kind, error.retry), (kind, Retry::After(Duration::from_secs(41))));
        }
    }

    #[test]
    fn long_words_are_cut() {
        let details: Vec<String> = (0..40).map(|n| format!("field{n:02}\n{}", "x".repeat(5000))).collect();
        let body = Some(json!({"_error": {"details": details}}));

        let error = api_error("update_ticket", &ApiAnswer { status: 400, body, retry_after: None });

        assert!(error.message.len() < 1000 && !error.message.contains('\n'), "{}", error.message.len());
        assert!(error.message.contains("field04") && !error.message.contains("field05"));
    }
}
