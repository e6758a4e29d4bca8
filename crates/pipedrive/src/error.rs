//! Pipedrive's own words to a verdict or an [`ErrorKind`].

use holdfast_core::{
    error::{Error, ErrorKind, Retry},
    exchange::{Refusal, Verdict},
    provider::ApiAnswer,
};
use serde_json::Value;

/// The provider's own words are quoted up to here.
const LONGEST_QUOTE_CHARS: usize = 160;

/// Whose answer it was: the test call is never about something that an agent asked for.
pub(crate) const IDENTITY: &str = "identity";

/// What a refusal of the token endpoint means where it is told by its message alone.
/// <https://pipedrive.readme.io/docs/marketplace-oauth-and-api-proxy-status-codes>
pub(crate) fn verdict(refusal: &Refusal) -> Option<Verdict> {
    if refusal.code.is_some() {
        return None;
    }
    let said = refusal.description.as_deref()?.to_ascii_lowercase();
    if said.starts_with("invalid grant:") {
        Some(Verdict::Rejected)
    } else if said.starts_with("invalid client:") {
        Some(Verdict::AppBroken)
    } else {
        None
    }
}

/// Reads a refused or failed API answer: `{"success": false, "error": "…"}`.
pub(crate) fn api_error(operation: &'static str, answer: &ApiAnswer) -> Error {
    let words = words(answer.body.as_ref());
    let quoted = words.as_ref().map(|words| format!(" Pipedrive says: {words}")).unwrap_or_default();
    let later = || answer.retry_after.map_or(Retry::Backoff, Retry::After);
    let (kind, retry, message) = match answer.status {
        401 => (
            ErrorKind::AuthFailed,
            Retry::Never,
            format!("Pipedrive refuses the access: it ended or was taken back.{quoted}"),
        ),
        402 => (
            ErrorKind::Forbidden,
            Retry::Never,
            format!("the Pipedrive account has no plan that allows this; its owner has to look.{quoted}"),
        ),
        403 => (ErrorKind::Forbidden, Retry::Never, format!("whoever connected Pipedrive may not do this.{quoted}")),
        404 if operation == IDENTITY => {
            (ErrorKind::Unavailable, Retry::Backoff, "the API of Pipedrive is not where it should be".to_owned())
        }
        404 => (ErrorKind::NotFound, Retry::Never, "Pipedrive has nothing under this id".to_owned()),
        409 => (ErrorKind::Conflict, Retry::Backoff, format!("somebody else is changing it; try again.{quoted}")),
        400 | 422 if words.is_some() => {
            (ErrorKind::Invalid, Retry::Never, format!("Pipedrive refused the input.{quoted}"))
        }
        423 => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            format!(
                "Pipedrive has locked this for the moment; if it stays so, the account's owner has to look.{quoted}"
            ),
        ),
        429 => (
            ErrorKind::Busy,
            later(),
            "the burst limit or the daily budget of the Pipedrive company is used up; all its apps share it".to_owned(),
        ),
        500.. => (ErrorKind::Unavailable, later(), format!("Pipedrive is in trouble (HTTP {})", answer.status)),
        300..=399 => {
            (ErrorKind::Unreadable, Retry::Never, "Pipedrive answered with a redirect instead of data".to_owned())
        }
        status => (
            ErrorKind::Unreadable,
            Retry::Never,
            format!("Pipedrive refused our request (HTTP {status}) in words that are not understood.{quoted}"),
        ),
    };
    Error { kind, retry, provider: crate::ID, operation, message, source: None }
}

/// Without control characters, cut.
fn words(body: Option<&Value>) -> Option<String> {
    let text = body?.get("error")?.as_str()?;
    Some(text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_QUOTE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_api_error_is_read_in_pipedrives_words() {
        use ErrorKind::{AuthFailed, Busy, Conflict, Forbidden, Invalid, NotFound, Unavailable, Unreadable};
        let (never, backoff) = (Retry::Never, Retry::Backoff);
        let said = |message: &str| Some(json!({"success": false, "error": message}));
        for (status, body, kind, retry, words) in [
            (401, said("expired"), AuthFailed, never, "expired"),
            (403, None, Forbidden, never, "may not do this"),
            (404, said("none"), NotFound, never, "nothing under this id"),
            (409, None, Conflict, backoff, "try again"),
            (400, said("email is no address"), Invalid, never, "email is no address"),
            (422, said("a\nb"), Invalid, never, "a b"),
            (400, None, Unreadable, never, "not understood"),
            (400, Some(json!({"error": 5})), Unreadable, never, "not understood"),
            (429, None, Busy, backoff, "daily budget"),
            (503, Some(json!([1])), Unavailable, backoff, "HTTP 503"),
            (302, None, Unreadable, never, "redirect"),
            (418, said("teapot"), Unreadable, never, "teapot"),
        ] {
            let error = api_error("find_person", &ApiAnswer { status, body, retry_after: None });
            assert_eq!((error.kind, error.retry), (kind, retry), "{status}: {}", error.message);
            assert!(error.message.contains(words), "{status}: {}", error.message);
        }
        let test_call = api_error(IDENTITY, &ApiAnswer { status: 404, body: None, retry_after: None });
        assert_eq!(test_call.kind, Unavailable, "no verdict on the connector");
        let long =
            api_error("find_person", &ApiAnswer { status: 400, body: said(&"x".repeat(9999)), retry_after: None });
        assert!(long.message.len() < 300, "long words are cut");
    }

    #[test]
    fn a_refusal_is_read_by_its_message_where_it_has_no_code() {
        let refusal = |code: Option<&str>, said: &str| Refusal {
            status: 400,
            code: code.map(str::to_owned),
            description: Some(said.to_owned()),
            ..Refusal::default()
        };
        for (said, expected) in [
            ("Invalid grant: refresh_token is invalid", Some(Verdict::Rejected)),
            ("Invalid grant: authorization_code has expired", Some(Verdict::Rejected)),
            ("Invalid client: client is invalid", Some(Verdict::AppBroken)),
            ("Missing parameter: grant_type", None),
            ("not an Invalid grant: at all", None),
        ] {
            assert_eq!(verdict(&refusal(None, said)), expected, "{said}");
            assert_eq!(verdict(&refusal(Some("temporarily_unavailable"), said)), None, "a code says it better");
        }
        assert_eq!(verdict(&Refusal::default()), None);
    }

    #[test]
    fn a_limit_is_waited_for_as_long_as_the_provider_says() {
        for status in [429, 503] {
            let answer = ApiAnswer { status, body: None, retry_after: Some(Duration::from_secs(41)) };
            assert_eq!(api_error("find_person", &answer).retry, Retry::After(Duration::from_secs(41)));
        }
    }
}
