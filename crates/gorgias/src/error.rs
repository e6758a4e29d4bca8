//! Gorgias's own words to a verdict or an [`ErrorKind`].

use holdfast_core::{
    api_client::Answered,
    error::{Error, ErrorKind, Retry},
    exchange::{Refusal, Verdict},
    provider::ApiAnswer,
};
use serde_json::Value;

/// The provider's own words are quoted up to here.
const LONGEST_QUOTE_CHARS: usize = 160;
/// So many refused fields are named.
const MOST_FIELDS: usize = 5;

/// Whose answer it was: the test call is never about something that an agent asked for.
pub(crate) const IDENTITY: &str = "identity";

/// What a refusal of the token endpoint means; `None` leaves it to the standard codes, in which Gorgias is taken to speak:
/// its documentation shows none.
pub(crate) fn verdict(refusal: &Refusal) -> Option<Verdict> {
    match refusal.status {
        // Turned away at the door, with the time to come back: nothing was consumed.
        503 if refusal.retry_after.is_some() => Some(Verdict::Busy),
        // No account at this address, or a redirect from it: it was renamed or closed, and may come back.
        300..=399 | 404 => Some(Verdict::Transient),
        _ => None,
    }
}

/// Reads an answer that was no success. More is known here than [`api_error`] is told: an account that is gone answers 404
/// with a page, a ticket that is gone answers 404 in JSON.
pub(crate) fn refused(operation: &'static str, answered: &Answered) -> Error {
    if answered.status.as_u16() == 404 && answered.is_html() {
        return no_account(operation);
    }
    api_error(operation, &answered.to_api_answer())
}

/// A success that is a page: where browsers are shown a login.
pub(crate) fn page_for_data(operation: &'static str) -> Error {
    let message = "Gorgias answered with a page instead of data; is the account closed, or its address renamed?";
    error(operation, ErrorKind::Unreadable, Retry::Never, message)
}

/// Reads a refused or failed API answer. Its words are for people: the status alone decides.
/// <https://developers.gorgias.com/reference/errors>
pub(crate) fn api_error(operation: &'static str, answer: &ApiAnswer) -> Error {
    let said = said(answer.body.as_ref());
    let quoted = said.as_ref().map(|words| format!(" Gorgias says: {words}")).unwrap_or_default();
    let busy = || answer.retry_after.map_or(Retry::Backoff, Retry::After);
    let (kind, retry, message) = match answer.status {
        401 => (
            ErrorKind::AuthFailed,
            Retry::Never,
            format!(
                "Gorgias does not accept the credential: it is expired, revoked or wrong, or its user is gone; if this \
                 stays so, reconnect Gorgias.{quoted}"
            ),
        ),
        402 => (
            ErrorKind::Forbidden,
            Retry::Never,
            format!("the Gorgias account has no plan that allows this; its owner has to look.{quoted}"),
        ),
        403 => (
            ErrorKind::Forbidden,
            Retry::Never,
            format!(
                "Gorgias does not allow this: the access lacks a scope, the user who connected it has another role, or \
                 the plan's messages are used up.{quoted}"
            ),
        ),
        404 if operation == IDENTITY => return no_account(operation),
        404 => (
            ErrorKind::NotFound,
            Retry::Never,
            format!("Gorgias has nothing under this id; it may be deleted.{quoted}"),
        ),
        409 => (ErrorKind::Conflict, Retry::Never, format!("Gorgias has something like it already.{quoted}")),
        400 | 422 if answer.body.is_some() => {
            (ErrorKind::Invalid, Retry::Never, format!("Gorgias refused the input.{quoted}"))
        }
        413 => (ErrorKind::Invalid, Retry::Never, "the input is too long for Gorgias".to_owned()),
        423 => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            format!("Gorgias has locked this for the moment; if it stays so, the account's owner has to look.{quoted}"),
        ),
        429 => (ErrorKind::Busy, busy(), "the rate limit of the Gorgias account is used up".to_owned()),
        500.. => (ErrorKind::Unavailable, busy(), format!("Gorgias is in trouble (HTTP {})", answer.status)),
        300..=399 => (
            ErrorKind::Unreadable,
            Retry::Never,
            "Gorgias answered with a redirect instead of data; is the account closed, or its address renamed?"
                .to_owned(),
        ),
        status if answer.body.is_none() => {
            (ErrorKind::Unreadable, Retry::Never, format!("Gorgias answered {status} with something that is no JSON"))
        }
        status => {
            (ErrorKind::Unreadable, Retry::Never, format!("Gorgias refused our request (HTTP {status}).{quoted}"))
        }
    };
    error(operation, kind, retry, message)
}

fn no_account(operation: &'static str) -> Error {
    let message = "there is no Gorgias at this address; was it renamed or closed?";
    error(operation, ErrorKind::Unavailable, Retry::Backoff, message)
}

fn error(operation: &'static str, kind: ErrorKind, retry: Retry, message: impl Into<String>) -> Error {
    Error { kind, retry, provider: crate::ID, operation, message: message.into(), source: None }
}

/// What `{"error": {"msg": "…", "data": {"field": ["…"]}}}` says: of the fields, where it names some.
fn said(body: Option<&Value>) -> Option<String> {
    let error = body?.get("error")?;
    let fields = error.get("data").and_then(Value::as_object).into_iter().flatten();
    let fields: Vec<String> = fields
        .filter_map(|(field, why)| Some(format!("{}{}", plain(field, 60), words(why)?)))
        .take(MOST_FIELDS)
        .collect();
    if !fields.is_empty() {
        return Some(fields.join("; "));
    }
    let text = error.as_str().or_else(|| error.get("msg")?.as_str())?;
    Some(plain(text, LONGEST_QUOTE_CHARS)).filter(|text| !text.is_empty())
}

/// Behind a field's name: `: Must be …`, and `.email: Must be …` where the field has fields.
fn words(why: &Value) -> Option<String> {
    match why {
        Value::String(text) => Some(format!(": {}", plain(text, LONGEST_QUOTE_CHARS))),
        Value::Array(list) => list.iter().find_map(words),
        Value::Object(inner) => inner.iter().find_map(|(name, why)| {
            // One level is enough to see what is meant, and an end to what may be nested without one.
            let text = why.as_str().or_else(|| why.get(0)?.as_str())?;
            Some(format!(".{}: {}", plain(name, 60), plain(text, LONGEST_QUOTE_CHARS)))
        }),
        _ => None,
    }
}

/// Without control characters, cut to `most` characters.
fn plain(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn a_refusal_of_the_token_endpoint_is_read_by_its_status_and_the_standard() {
        let busy_for = Some(Duration::from_secs(30));
        for (status, code, retry_after, expected) in [
            (503, None, busy_for, Some(Verdict::Busy)),
            (503, Some("invalid_grant"), None, None),
            (404, None, None, Some(Verdict::Transient)),
            (302, None, None, Some(Verdict::Transient)),
            (400, Some("invalid_grant"), None, None),
            (401, Some("invalid_client"), None, None),
            (429, None, busy_for, None),
            (500, None, None, None),
            (200, None, None, None),
        ] {
            let refusal = Refusal { status, code: code.map(str::to_owned), description: None, retry_after };
            assert_eq!(verdict(&refusal), expected, "{status} {code:?}");
        }
    }

    #[test]
    fn an_api_error_is_read_by_its_status_in_gorgiass_words() {
        use ErrorKind::{AuthFailed, Busy, Conflict, Forbidden, Invalid, NotFound, Unavailable, Unreadable};
        let (never, backoff) = (Retry::Never, Retry::Backoff);
        let msg = |msg: &str| Some(json!({"error": {"msg": msg}}));
        let quota = "You do not have enough permissions to perform this action. Messaging quota exceeded.";
        let field = json!({"error": {"msg": "Failed to validate", "data": {"limit": ["Must be at most 100."]}}});
        let nested = json!({"error": {"msg": "x", "data": {"customer": {"email": ["Not a valid email address."]}}}});
        for (status, body, kind, retry, said) in [
            (401, msg("Authorization required."), AuthFailed, never, "Authorization required."),
            (401, None, AuthFailed, never, "reconnect"),
            (402, None, Forbidden, never, "plan"),
            (403, msg(quota), Forbidden, never, "Messaging quota exceeded."),
            (403, None, Forbidden, never, "lacks a scope"),
            (404, msg("Ticket not found."), NotFound, never, "Ticket not found."),
            (404, None, NotFound, never, "deleted"),
            (409, msg("A customer with this email exists."), Conflict, never, "with this email"),
            (400, Some(field), Invalid, never, "limit: Must be at most 100."),
            (422, Some(nested), Invalid, never, "customer.email: Not a valid email address."),
            (400, Some(json!({"error": "invalid cursor"})), Invalid, never, "invalid cursor"),
            (400, Some(json!({"error": {"data": {"a": [7]}, "msg": "seven"}})), Invalid, never, "seven"),
            (400, Some(json!([])), Invalid, never, "refused the input"),
            (400, None, Unreadable, never, "no JSON"),
            (405, msg("The method is not allowed."), Unreadable, never, "not allowed"),
            (413, None, Invalid, never, "too long"),
            (429, msg("Rate limit exceeded."), Busy, backoff, "rate limit"),
            (500, None, Unavailable, backoff, "HTTP 500"),
            (502, Some(json!(["x"])), Unavailable, backoff, "HTTP 502"),
            (302, None, Unreadable, never, "redirect"),
            (200, None, Unreadable, never, "no JSON"),
        ] {
            let error = api_error("get_ticket", &ApiAnswer { status, body, retry_after: None });
            assert_eq!((error.kind, error.retry), (kind, retry), "{status}: {}", error.message);
            assert!(error.message.contains(said), "{status}: {}", error.message);
        }
        let gone = api_error(IDENTITY, &ApiAnswer { status: 404, body: None, retry_after: None });
        assert_eq!((gone.kind, gone.retry), (Unavailable, backoff));
    }

    #[test]
    fn a_limit_is_waited_for_as_long_as_gorgias_says() {
        for (status, kind) in [(429, ErrorKind::Busy), (503, ErrorKind::Unavailable)] {
            let answer = ApiAnswer { status, body: None, retry_after: Some(Duration::from_secs(41)) };
            let error = api_error("search_tickets", &answer);
            assert_eq!((error.kind, error.retry), (kind, Retry::After(Duration::from_secs(41))));
        }
    }

    #[test]
    fn long_words_and_many_fields_are_cut() {
        let data: Map<String, Value> = (0..40).map(|n| (format!("field{n:02}\n"), json!(["x".repeat(5000)]))).collect();
        let body = Some(json!({"error": {"msg": "Failed", "data": data}}));

        let error = api_error("update_ticket", &ApiAnswer { status: 400, body, retry_after: None });

        assert!(error.message.len() < 1200, "{}", error.message.len());
        assert!(error.message.contains("field04") && !error.message.contains("field05"));
        assert!(!error.message.contains('\n'));
    }
}
