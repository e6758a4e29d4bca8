//! Zendesk's own words to a verdict or an [`ErrorKind`].

use holdfast_core::{
    error::{Error, ErrorKind, MissingScopes, Retry},
    exchange::{Refusal, Verdict},
    helpdesk::SEARCH_ARTICLES,
    provider::ApiAnswer,
};
use serde_json::{Map, Value};

/// The provider's own words are quoted up to here.
const LONGEST_QUOTE_CHARS: usize = 160;
/// So many refused fields are named.
const MOST_FIELDS: usize = 5;

/// What a refusal of the token endpoint means; `None` leaves it to the standard codes.
/// <https://developer.zendesk.com/documentation/api-basics/authentication/refresh-token/>
pub(crate) fn verdict(refusal: &Refusal) -> Option<Verdict> {
    match (refusal.status, refusal.code.as_deref()) {
        // Zendesk turned it away at the door and says when to come back: nothing was consumed.
        (429, _) => Some(Verdict::Busy),
        (503, _) if refusal.retry_after.is_some() => Some(Verdict::Busy),
        // Any other trouble of theirs may have come after the rotation; the code in such a body proves nothing.
        (500.., _) => Some(Verdict::Ambiguous),
        // A redirect or "No help desk at this address": the account was renamed, suspended or closed, and may come back.
        (300..=399 | 404, _) => Some(Verdict::Transient),
        (400 | 401, Some("invalid_grant")) => Some(Verdict::Rejected),
        // Not in the list of scopes that this OAuth client may ask for, or the client itself is refused: the customer
        // did nothing wrong.
        (
            400 | 401 | 403,
            Some(
                "invalid_client"
                | "invalid_scope"
                | "invalid_request"
                | "unauthorized_client"
                | "unsupported_grant_type",
            ),
        ) => Some(Verdict::AppBroken),
        _ => None,
    }
}

/// Reads a refused or failed API answer.
/// <https://developer.zendesk.com/api-reference/introduction/requests/#response-format>
pub(crate) fn api_error(operation: &'static str, answer: &ApiAnswer) -> Error {
    let Words { code, said, details } = words(answer.body.as_ref());
    let html = answer.body.is_none();
    let quoted = said.as_deref().or(code.as_deref()).map(|words| format!(" Zendesk says: {words}")).unwrap_or_default();
    let busy = || answer.retry_after.map_or(Retry::Backoff, Retry::After);
    let (kind, retry, message) = match answer.status {
        401 if code.as_deref() == Some("invalid_token") => (
            ErrorKind::AuthFailed,
            Retry::Never,
            "the access token is expired or revoked; if this stays so, reconnect Zendesk".to_owned(),
        ),
        401 => (
            ErrorKind::AuthFailed,
            Retry::Never,
            format!("Zendesk does not accept the credential; reconnect Zendesk.{quoted}"),
        ),
        402 => (
            ErrorKind::Forbidden,
            Retry::Never,
            "the Zendesk account has no plan that allows this; its owner has to look".to_owned(),
        ),
        403 if html => {
            (ErrorKind::Unreadable, Retry::Never, "Zendesk answered 403 with something that is no JSON".into())
        }
        403 => match said.as_deref().and_then(missing_scopes) {
            Some(scopes) => (
                ErrorKind::Forbidden,
                Retry::Never,
                format!("the access lacks the scope {scopes}; allow it for the OAuth client, then reconnect Zendesk"),
            ),
            None => {
                (ErrorKind::Forbidden, Retry::Never, format!("the user who connected Zendesk may not do this.{quoted}"))
            }
        },
        // As JSON or as a page: both are seen.
        404 if operation == SEARCH_ARTICLES.name => (
            ErrorKind::NotFound,
            Retry::Never,
            "this Zendesk account has no help center, or none in this language".to_owned(),
        ),
        404 if html => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            "there is no help desk at this address at the moment; was the subdomain renamed?".to_owned(),
        ),
        404 => (ErrorKind::NotFound, Retry::Never, "Zendesk has nothing under this id; it may be deleted".to_owned()),
        409 if code.as_deref() == Some("UpdateConflict") => {
            (ErrorKind::Conflict, Retry::Never, "the ticket changed meanwhile; read it again".to_owned())
        }
        409 => (
            ErrorKind::Conflict,
            Retry::Backoff,
            format!("Zendesk is working on another change of the same record; try again.{quoted}"),
        ),
        400 if code.as_deref() == Some("IdempotentRequestError") => (
            ErrorKind::Invalid,
            Retry::Never,
            format!("the idempotency key was used for another ticket; take a new one for each.{quoted}"),
        ),
        400 | 422 if !html => (
            ErrorKind::Invalid,
            Retry::Never,
            match details {
                Some(details) => format!("Zendesk does not accept the input: {details}"),
                None => format!("Zendesk does not accept the input.{quoted}"),
            },
        ),
        413 => (ErrorKind::Invalid, Retry::Never, "the input is too long for Zendesk".to_owned()),
        423 => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            format!("Zendesk has locked this for the moment; if it stays so, the account's owner has to look.{quoted}"),
        ),
        429 => (ErrorKind::Busy, busy(), "the rate limit of the Zendesk account is used up".to_owned()),
        500.. => (ErrorKind::Unavailable, busy(), format!("Zendesk is in trouble (HTTP {})", answer.status)),
        300..=399 => (
            ErrorKind::Unreadable,
            Retry::Never,
            "Zendesk answered with a redirect instead of data; is the account suspended or renamed?".to_owned(),
        ),
        status if html => {
            (ErrorKind::Unreadable, Retry::Never, format!("Zendesk answered {status} with something that is no JSON"))
        }
        status => {
            (ErrorKind::Unreadable, Retry::Never, format!("Zendesk refused our request (HTTP {status}).{quoted}"))
        }
    };
    let missing = said.as_deref().filter(|_| answer.status == 403).and_then(missing_scopes);
    let source = missing.map(|scopes| {
        let names = scopes.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Box::new(MissingScopes(names)).into()
    });
    Error { kind, retry, provider: crate::ID, operation, message, source }
}

/// What an error body says.
#[derive(Default)]
struct Words {
    /// `error` as a string, or its title where it is an object.
    code: Option<String>,
    /// The sentence beside it.
    said: Option<String>,
    /// The refused fields, each with Zendesk's words.
    details: Option<String>,
}

fn words(body: Option<&Value>) -> Words {
    let Some(body) = body.and_then(Value::as_object) else { return Words::default() };
    let text = |map: &Map<String, Value>, names: &[&str]| {
        names.iter().find_map(|name| map.get(*name)?.as_str()).map(|text| plain(text, LONGEST_QUOTE_CHARS))
    };
    let nested = body.get("error").and_then(Value::as_object);
    Words {
        code: text(body, &["error"]).or_else(|| text(nested?, &["code", "title"])),
        said: text(body, &["description", "error_description", "message"])
            .or_else(|| text(nested?, &["message", "description"])),
        details: body.get("details").and_then(Value::as_object).and_then(field_words),
    }
}

/// `{"status":[{"description":"Status: closed prevents ticket update"}]}` as `status: Status: closed prevents …`.
fn field_words(details: &Map<String, Value>) -> Option<String> {
    let fields: Vec<String> = details
        .iter()
        .filter_map(|(field, refusals)| {
            let first = refusals.get(0).unwrap_or(refusals);
            let said = ["description", "error"].iter().find_map(|name| first.get(*name)?.as_str())?;
            Some(format!("{}: {}", plain(field, 60), plain(said, LONGEST_QUOTE_CHARS)))
        })
        .take(MOST_FIELDS)
        .collect();
    (!fields.is_empty()).then(|| fields.join("; "))
}

/// `You are missing the following required scopes: read`.
fn missing_scopes(said: &str) -> Option<&str> {
    let (_, scopes) = said.split_once("required scopes:")?;
    Some(scopes.trim()).filter(|scopes| !scopes.is_empty())
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
    fn a_refusal_of_the_token_endpoint_is_read_in_zendesks_words() {
        let busy_for = Some(Duration::from_secs(30));
        for (status, code, retry_after, expected) in [
            (400, Some("invalid_grant"), None, Some(Verdict::Rejected)),
            (401, Some("invalid_client"), None, Some(Verdict::AppBroken)),
            (400, Some("invalid_scope"), None, Some(Verdict::AppBroken)),
            (400, Some("invalid_request"), None, Some(Verdict::AppBroken)),
            (400, Some("unsupported_grant_type"), None, Some(Verdict::AppBroken)),
            (429, None, None, Some(Verdict::Busy)),
            (429, Some("invalid_grant"), busy_for, Some(Verdict::Busy)),
            (503, None, busy_for, Some(Verdict::Busy)),
            (503, None, None, Some(Verdict::Ambiguous)),
            (500, Some("invalid_grant"), None, Some(Verdict::Ambiguous)),
            (502, None, busy_for, Some(Verdict::Ambiguous)),
            (404, None, None, Some(Verdict::Transient)),
            (302, None, None, Some(Verdict::Transient)),
            (400, None, None, None),
            (403, None, None, None),
            (200, None, None, None),
            (0, None, None, None),
        ] {
            let refusal = Refusal { status, code: code.map(str::to_owned), description: None, retry_after };
            assert_eq!(verdict(&refusal), expected, "{status} {code:?}");
        }
    }

    #[test]
    fn an_api_error_is_read_in_zendesks_words() {
        use ErrorKind::{AuthFailed, Busy, Conflict, Forbidden, Invalid, NotFound, Unavailable, Unreadable};
        let invalid_token = json!({"error": "invalid_token", "error_description": "The access token provided is …"});
        let no_scope = json!({"error": "Forbidden",
            "description": "You are missing the following required scopes: read"});
        let no_right = json!({"error": {"title": "Forbidden", "message": "You do not have access to this page."}});
        let stale = json!({"error": "UpdateConflict", "description": "Safe Update prevented the update"});
        let closed = json!({"error": "RecordInvalid", "description": "Record validation errors",
            "details": {"status": [{"description": "Status: closed prevents ticket update", "error": "InvalidValue"}]}});
        let used = json!({"error": "IdempotentRequestError", "description": "Request parameters are different"});
        let search = json!({"error": "invalid", "description": "Invalid search: status:opened"});
        for (status, body, kind, retry, said) in [
            (401, Some(invalid_token), AuthFailed, Retry::Never, "expired or revoked"),
            (
                401,
                Some(json!({"error": "Couldn't authenticate you"})),
                AuthFailed,
                Retry::Never,
                "Couldn't authenticate",
            ),
            (401, None, AuthFailed, Retry::Never, "reconnect"),
            (402, None, Forbidden, Retry::Never, "plan"),
            (403, Some(no_scope), Forbidden, Retry::Never, "lacks the scope read;"),
            (403, Some(no_right), Forbidden, Retry::Never, "You do not have access to this page."),
            (403, None, Unreadable, Retry::Never, "no JSON"),
            (404, Some(json!({"error": "RecordNotFound"})), NotFound, Retry::Never, "deleted"),
            (404, None, Unavailable, Retry::Backoff, "no help desk"),
            (409, Some(stale), Conflict, Retry::Never, "changed meanwhile"),
            (409, None, Conflict, Retry::Backoff, "try again"),
            (422, Some(closed), Invalid, Retry::Never, "status: Status: closed prevents ticket update"),
            (422, Some(search), Invalid, Retry::Never, "Invalid search: status:opened"),
            (400, Some(json!({"error": "InvalidParameter"})), Invalid, Retry::Never, "InvalidParameter"),
            (400, Some(used), Invalid, Retry::Never, "the idempotency key was used for another ticket"),
            (422, None, Unreadable, Retry::Never, "no JSON"),
            (413, None, Invalid, Retry::Never, "too long"),
            (429, None, Busy, Retry::Backoff, "rate limit"),
            (500, None, Unavailable, Retry::Backoff, "HTTP 500"),
            (302, None, Unreadable, Retry::Never, "redirect"),
            (200, None, Unreadable, Retry::Never, "no JSON"),
            (415, Some(json!({"error": "UnsupportedMediaType"})), Unreadable, Retry::Never, "UnsupportedMediaType"),
        ] {
            let error = api_error("get_ticket", &ApiAnswer { status, body, retry_after: None });
            assert_eq!((error.kind, error.retry), (kind, retry), "{status}: {}", error.message);
            assert!(error.message.contains(said), "{status}: {}", error.message);
        }
    }

    #[test]
    fn an_account_without_a_help_center_is_told_however_zendesk_says_it() {
        for body in [Some(json!({"error": "RecordNotFound", "description": "Not found"})), None] {
            let error = api_error("search_articles", &ApiAnswer { status: 404, body, retry_after: None });
            assert_eq!((error.kind, error.retry), (ErrorKind::NotFound, Retry::Never));
            assert!(error.message.contains("no help center"), "{}", error.message);
        }
    }

    #[test]
    fn a_limit_is_waited_for_as_long_as_zendesk_says() {
        for (status, kind) in [(429, ErrorKind::Busy), (503, ErrorKind::Unavailable)] {
            let answer = ApiAnswer { status, body: None, retry_after: Some(Duration::from_secs(41)) };
            let error = api_error("search_tickets", &answer);
            assert_eq!((error.kind, error.retry), (kind, Retry::After(Duration::from_secs(41))));
        }
    }

    #[test]
    fn long_words_and_many_fields_are_cut() {
        let details: Map<String, Value> =
            (0..40).map(|n| (format!("field{n:02}"), json!([{"description": "x".repeat(5000)}]))).collect();
        let body = Some(json!({"error": "RecordInvalid", "details": details}));

        let error = api_error("update_ticket", &ApiAnswer { status: 422, body, retry_after: None });

        assert!(error.message.len() < 1200, "{}", error.message.len());
        assert!(error.message.contains("field04") && !error.message.contains("field05"));
    }
}
