//! Freshdesk's own words to an [`ErrorKind`].

use holdfast_core::{
    api_client::Answered,
    error::{Error, ErrorKind, Retry},
    provider::ApiAnswer,
};
use serde_json::{Map, Value};

/// The provider's own words are quoted up to here.
const LONGEST_QUOTE_CHARS: usize = 160;
/// So many refused fields are named.
const MOST_FIELDS: usize = 5;

/// Whose answer it was: the test call is never about something that an agent asked for.
pub(crate) const IDENTITY: &str = "identity";

/// Reads an answer that was no success. More is known here than [`api_error`] is told: an account that is gone answers 404
/// with a page, a ticket that is gone answers 404 with nothing.
pub(crate) fn refused(operation: &'static str, answered: &Answered) -> Error {
    if answered.status.as_u16() == 404 && answered.is_html() {
        return no_account(operation);
    }
    api_error(operation, &answered.to_api_answer())
}

/// A success that is a page: where browsers are shown a login, or that the account is suspended.
pub(crate) fn page_for_data(operation: &'static str) -> Error {
    let message = "Freshdesk answered with a page instead of data; is the account suspended, or its address renamed?";
    error(operation, ErrorKind::Unreadable, Retry::Never, message)
}

/// Reads a refused or failed API answer.
/// <https://developers.freshdesk.com/api/#error>
pub(crate) fn api_error(operation: &'static str, answer: &ApiAnswer) -> Error {
    let words = Words::of(answer.body.as_ref());
    let quoted = words.quoted();
    let busy = || answer.retry_after.map_or(Retry::Backoff, Retry::After);
    let (kind, retry, message) = match answer.status {
        // A key that is wrong, that was reset, and one whose agent is gone or deactivated are told the same.
        401 => (
            ErrorKind::AuthFailed,
            Retry::Never,
            format!(
                "Freshdesk refuses the API key: it is wrong, was reset, or its agent was deactivated. Copy the key anew \
                 (Profile settings, View API key) and reconnect.{quoted}"
            ),
        ),
        402 => (
            ErrorKind::Forbidden,
            Retry::Never,
            format!("the Freshdesk account has no plan that allows this; its owner has to look.{quoted}"),
        ),
        403 => (ErrorKind::Forbidden, Retry::Never, forbidden(operation, &words, &quoted)),
        404 if operation == IDENTITY => return no_account(operation),
        404 => (
            ErrorKind::NotFound,
            Retry::Never,
            "Freshdesk has nothing under this id; it may be deleted, or hidden from the agent whose key this is"
                .to_owned(),
        ),
        409 if words.is_duplicate() => {
            (ErrorKind::Invalid, Retry::Never, format!("something with this value is there already.{quoted}"))
        }
        409 => (ErrorKind::Conflict, Retry::Backoff, format!("somebody else is changing it; try again.{quoted}")),
        400 | 422 => match words.details {
            Some(details) => (ErrorKind::Invalid, Retry::Never, format!("Freshdesk refused the input: {details}")),
            None if answer.body.is_none() => unreadable(answer.status),
            None => (ErrorKind::Invalid, Retry::Never, format!("Freshdesk refused the input.{quoted}")),
        },
        413 => (ErrorKind::Invalid, Retry::Never, "the input is too long for Freshdesk".to_owned()),
        423 => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            format!(
                "Freshdesk has locked this for the moment; if it stays so, the account's owner has to look.{quoted}"
            ),
        ),
        429 => (
            ErrorKind::Busy,
            busy(),
            "the rate limit of the Freshdesk account is used up; all its apps share it".to_owned(),
        ),
        500.. => (ErrorKind::Unavailable, busy(), format!("Freshdesk is in trouble (HTTP {})", answer.status)),
        300..=399 => (
            ErrorKind::Unreadable,
            Retry::Never,
            "Freshdesk answered with a redirect instead of data; is the account suspended, or its address renamed?"
                .to_owned(),
        ),
        status if answer.body.is_none() => unreadable(status),
        status => {
            (ErrorKind::Unreadable, Retry::Never, format!("Freshdesk refused our request (HTTP {status}).{quoted}"))
        }
    };
    error(operation, kind, retry, message)
}

/// Codes of a 403 are documented in part only, so their sentences are looked at as well.
fn forbidden(operation: &'static str, words: &Words, quoted: &str) -> String {
    let code = words.code.as_deref().unwrap_or_default();
    let said = words.said.as_deref().unwrap_or_default().to_lowercase();
    if code == "account_suspended" || said.contains("suspended") {
        return format!("the Freshdesk account is suspended; its owner has to look.{quoted}");
    }
    if code == "require_feature" || said.contains("not supported in your plan") {
        return format!("the plan of the Freshdesk account does not include this; its owner has to look.{quoted}");
    }
    if operation == IDENTITY {
        return format!(
            "Freshdesk knows the API key, but its agent may not use the API: an occasional agent needs a day pass, the \
             account's plan may have no API, or the sign-in is locked for a while. An administrator has to look.{quoted}"
        );
    }
    format!("the agent whose API key this is may not do this; an administrator of Freshdesk can allow it.{quoted}")
}

fn no_account(operation: &'static str) -> Error {
    let message = "there is no Freshdesk at this address; was it renamed or closed, or is it another product?";
    error(operation, ErrorKind::Unavailable, Retry::Backoff, message)
}

fn unreadable(status: u16) -> (ErrorKind, Retry, String) {
    (ErrorKind::Unreadable, Retry::Never, format!("Freshdesk answered {status} with something that is no JSON"))
}

fn error(operation: &'static str, kind: ErrorKind, retry: Retry, message: impl Into<String>) -> Error {
    Error { kind, retry, provider: crate::ID, operation, message: message.into(), source: None }
}

/// What an error body says.
#[derive(Default)]
struct Words {
    code: Option<String>,
    /// The sentence.
    said: Option<String>,
    /// The refused fields, each with Freshdesk's words.
    details: Option<String>,
    /// The codes of the refused fields.
    codes: Vec<String>,
}

impl Words {
    fn of(body: Option<&Value>) -> Self {
        let Some(body) = body.and_then(Value::as_object) else { return Self::default() };
        let text = |names: &[&str]| {
            names.iter().find_map(|name| body.get(*name)?.as_str()).map(|text| plain(text, LONGEST_QUOTE_CHARS))
        };
        let fields: Vec<&Map<String, Value>> =
            body.get("errors").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object).collect();
        let codes = fields.iter().filter_map(|field| field.get("code")?.as_str()).map(|code| plain(code, 60)).collect();
        Self { code: text(&["code"]), said: text(&["message", "description"]), details: field_words(&fields), codes }
    }

    fn quoted(&self) -> String {
        let words = self.details.as_deref().or(self.said.as_deref()).or(self.code.as_deref());
        words.map(|words| format!(" Freshdesk says: {words}")).unwrap_or_default()
    }

    fn is_duplicate(&self) -> bool {
        self.codes.iter().chain(&self.code).any(|code| code == "duplicate_value")
    }
}

/// `{"field":"status","message":"It should be ...","code":"invalid_value"}` as `status: It should be ...`.
fn field_words(fields: &[&Map<String, Value>]) -> Option<String> {
    let text = |field: &Map<String, Value>, name: &str, most| field.get(name)?.as_str().map(|text| plain(text, most));
    let said: Vec<String> = fields
        .iter()
        .filter_map(|field| {
            let words = text(field, "message", LONGEST_QUOTE_CHARS).or_else(|| text(field, "code", 60))?;
            Some(match text(field, "field", 60) {
                Some(name) => format!("{name}: {words}"),
                None => words,
            })
        })
        .take(MOST_FIELDS)
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Without control characters, cut to `most` characters.
fn plain(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_api_error_is_read_in_freshdesks_words() {
        use ErrorKind::{AuthFailed, Busy, Conflict, Forbidden, Invalid, NotFound, Unavailable, Unreadable};
        let (never, backoff) = (Retry::Never, Retry::Backoff);
        let bad_key =
            json!({"code": "invalid_credentials", "message": "You have to be logged in to perform this action."});
        let denied = json!({"code": "access_denied", "message": "You are not authorized to perform this action."});
        let plan = json!({"code": "require_feature",
            "message": "The Surveys feature(s) is/are not supported in your plan. Please upgrade your account."});
        let plan_by_words = json!({"message": "The API feature(s) is/are not supported in your plan."});
        let suspended = json!({"code": "account_suspended", "message": "Your account has been suspended."});
        let field = |code: &str| {
            json!({"description": "Validation failed",
                "errors": [{"field": "status", "message": "It should be one of these values: '2,3'", "code": code}]})
        };
        for (status, body, kind, retry, said) in [
            (401, Some(bad_key), AuthFailed, never, "View API key"),
            (401, None, AuthFailed, never, "reconnect"),
            (402, None, Forbidden, never, "plan"),
            (403, Some(denied), Forbidden, never, "You are not authorized"),
            (403, Some(plan), Forbidden, never, "The Surveys feature"),
            (403, Some(plan_by_words), Forbidden, never, "the plan of the Freshdesk account"),
            (403, Some(suspended), Forbidden, never, "suspended"),
            (403, None, Forbidden, never, "may not do this"),
            (404, None, NotFound, never, "deleted"),
            (409, Some(field("duplicate_value")), Invalid, never, "there already"),
            (409, None, Conflict, backoff, "try again"),
            (400, Some(field("invalid_value")), Invalid, never, "status: It should be one of these values: '2,3'"),
            (
                400,
                Some(json!({"code": "invalid_json", "message": "Request body has invalid json format"})),
                Invalid,
                never,
                "invalid json format",
            ),
            (400, Some(json!({"errors": [{"code": "missing_field"}]})), Invalid, never, "missing_field"),
            (400, Some(json!({"errors": "no list"})), Invalid, never, "refused the input"),
            (400, None, Unreadable, never, "no JSON"),
            (413, None, Invalid, never, "too long"),
            (429, Some(json!({"message": "You have exceeded the limit"})), Busy, backoff, "rate limit"),
            (429, None, Busy, backoff, "rate limit"),
            (500, None, Unavailable, backoff, "HTTP 500"),
            (503, Some(json!([1])), Unavailable, backoff, "HTTP 503"),
            (302, None, Unreadable, never, "redirect"),
            (200, None, Unreadable, never, "no JSON"),
            (405, Some(json!({"message": "PUT method is not allowed."})), Unreadable, never, "not allowed"),
            (415, None, Unreadable, never, "no JSON"),
        ] {
            let error = api_error("get_ticket", &ApiAnswer { status, body, retry_after: None });
            assert_eq!((error.kind, error.retry), (kind, retry), "{status}: {}", error.message);
            assert!(error.message.contains(said), "{status}: {}", error.message);
        }
    }

    #[test]
    fn a_refused_key_a_missing_right_and_a_wrong_address_are_told_apart() {
        let say = |status| api_error(IDENTITY, &ApiAnswer { status, body: None, retry_after: None });

        assert_eq!(say(401).kind, ErrorKind::AuthFailed);
        assert!(say(401).message.contains("refuses the API key"));
        assert_eq!(say(403).kind, ErrorKind::Forbidden);
        assert!(say(403).message.contains("day pass"));
        assert_eq!(say(404).kind, ErrorKind::Unavailable);
        assert!(say(404).message.contains("no Freshdesk at this address"));
    }

    #[test]
    fn a_limit_is_waited_for_as_long_as_freshdesk_says() {
        for (status, kind) in [(429, ErrorKind::Busy), (503, ErrorKind::Unavailable)] {
            let answer = ApiAnswer { status, body: None, retry_after: Some(Duration::from_secs(41)) };
            let error = api_error("search_tickets", &answer);
            assert_eq!((error.kind, error.retry), (kind, Retry::After(Duration::from_secs(41))));
        }
    }

    #[test]
    fn long_words_and_many_fields_are_cut() {
        let errors: Vec<Value> = (0..40)
            .map(|n| json!({"field": format!("field{n:02}\n"), "message": "x".repeat(5000), "code": "invalid_value"}))
            .collect();
        let body = Some(json!({"description": "Validation failed", "errors": errors}));

        let error = api_error("update_ticket", &ApiAnswer { status: 400, body, retry_after: None });

        assert!(error.message.len() < 1200, "{}", error.message.len());
        assert!(error.message.contains("field04") && !error.message.contains("field05"));
        assert!(!error.message.contains('\n'));
    }
}
