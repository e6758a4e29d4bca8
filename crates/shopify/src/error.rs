//! Shopify's own words to a verdict or an [`ErrorKind`].

use std::time::Duration;

use holdfast_core::{
    error::{Error, ErrorKind, MissingScopes, Retry},
    exchange::{Refusal, Verdict},
    provider::ApiAnswer,
};
use serde_json::Value;

/// The provider's own words are quoted up to here.
const LONGEST_QUOTE_CHARS: usize = 160;

/// What a refusal of the token endpoint means; `None` leaves it to the standard codes. Shopify does not list them; the
/// README says where these were seen.
pub(crate) fn verdict(refusal: &Refusal) -> Option<Verdict> {
    let says =
        |words: &str| refusal.description.as_deref().is_some_and(|said| said.to_ascii_lowercase().contains(words));
    match (refusal.status, refusal.code.as_deref()) {
        (429 | 430, _) => Some(Verdict::Busy),
        // 520 and its like come from something in front, maybe after the rotation.
        (300..=399 | 500.., _) => Some(Verdict::Ambiguous),
        // Frozen, locked, renamed or closed: it may come back, and says nothing of the grant.
        (402 | 404 | 423, _) => Some(Verdict::Transient),
        (400 | 401, Some("invalid_grant" | "invalid_subject_token")) => Some(Verdict::Rejected),
        // The one code has two meanings. This is a refresh token that was retired, ran out or went with the app, or a code
        // that was used.
        (400 | 401, Some("invalid_request")) if says("active refresh_token") || says("authorization code") => {
            Some(Verdict::Rejected)
        }
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

/// Reads an API answer that was no 200. <https://shopify.dev/docs/api/usage/response-codes>
pub(crate) fn api_error(operation: &'static str, answer: &ApiAnswer) -> Error {
    let said = answer.body.as_ref().and_then(words);
    let quoted = said.as_deref().map(|said| format!(" Shopify says: {said}")).unwrap_or_default();
    let html = answer.body.is_none();
    let wait = answer.retry_after.map_or(Retry::Backoff, Retry::After);
    let (kind, retry, message) = match answer.status {
        401 => (
            ErrorKind::AuthFailed,
            Retry::Never,
            "Shopify does not accept the access token: it is over, or the app was taken off the shop; if this stays so, \
             reconnect Shopify"
                .to_owned(),
        ),
        402 => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            "the shop is frozen at Shopify; its owner has to settle the shop's bill there".to_owned(),
        ),
        403 if said.as_deref().is_some_and(|said| said.contains("Non-expiring access tokens")) => (
            ErrorKind::AuthFailed,
            Retry::Never,
            "Shopify takes no access tokens without an end any more; reconnect Shopify to get one that is renewed"
                .to_owned(),
        ),
        403 if html => (ErrorKind::Unreadable, Retry::Never, not_json(403)),
        403 => (
            ErrorKind::Forbidden,
            Retry::Never,
            format!("the app may not do this in the shop; check its scopes, then reconnect Shopify.{quoted}"),
        ),
        404 => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            "there is no shop at this address at the moment, or not this version of the Admin API".to_owned(),
        ),
        423 => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            "the shop is locked by Shopify; its owner has to ask Shopify's support".to_owned(),
        ),
        429 => (ErrorKind::Busy, wait, "the shop's rate limit is used up".to_owned()),
        430 => (ErrorKind::Busy, wait, "Shopify turns our requests away for its security; wait before more".to_owned()),
        540 => (ErrorKind::Unavailable, Retry::Backoff, "Shopify has switched this endpoint off for now".to_owned()),
        500.. => (ErrorKind::Unavailable, wait, format!("Shopify is in trouble (HTTP {})", answer.status)),
        300..=399 => (
            ErrorKind::Unreadable,
            Retry::Never,
            "Shopify answered with a redirect instead of data; was the shop renamed?".to_owned(),
        ),
        status if html => (ErrorKind::Unreadable, Retry::Never, not_json(status)),
        status => {
            (ErrorKind::Unreadable, Retry::Never, format!("Shopify refused our request (HTTP {status}).{quoted}"))
        }
    };
    Error { kind, retry, provider: crate::ID, operation, message, source: None }
}

fn not_json(status: u16) -> String {
    format!("Shopify answered {status} with something that is no JSON")
}

/// What the `errors` of a GraphQL answer come to; nearly all of these come with HTTP 200.
/// <https://shopify.dev/docs/api/admin-graphql#status_and_error_codes>
pub(crate) fn graph_error(operation: &'static str, errors: &Value, cost: &Value) -> Error {
    let list = errors.as_array().map(Vec::as_slice).unwrap_or_default();
    let code = list.iter().find_map(|error| error["extensions"]["code"].as_str());
    let said = list.iter().find_map(|error| error["message"].as_str()).or_else(|| errors.as_str());
    let quoted = said.map(|said| format!(" Shopify says: {}", plain(said))).unwrap_or_default();
    let (kind, retry, message) = match code {
        Some("THROTTLED") => (
            ErrorKind::Busy,
            wait_for_points(cost).map_or(Retry::Backoff, Retry::After),
            "the shop's rate limit is used up".to_owned(),
        ),
        Some("ACCESS_DENIED") => (
            ErrorKind::Forbidden,
            Retry::Never,
            format!("the app lacks a scope or an approval for this; grant it, then reconnect Shopify.{quoted}"),
        ),
        Some("SHOP_INACTIVE") => {
            (ErrorKind::Unavailable, Retry::Backoff, "the shop is not active at Shopify".to_owned())
        }
        Some("INTERNAL_SERVER_ERROR" | "TIMEOUT") => {
            (ErrorKind::Unavailable, Retry::Backoff, format!("Shopify is in trouble.{quoted}"))
        }
        Some("IDEMPOTENCY_CONCURRENT_REQUEST") => {
            (ErrorKind::Busy, Retry::Backoff, "Shopify is still working on the same request".to_owned())
        }
        Some("IDEMPOTENCY_KEY_PARAMETER_MISMATCH") => (
            ErrorKind::Conflict,
            Retry::Never,
            "the idempotency key was used for another refund; use a new one".to_owned(),
        ),
        // A cursor of another search is the one part of a query that is not ours.
        _ if said.is_some_and(|said| said.to_ascii_lowercase().contains("cursor")) => {
            (ErrorKind::Invalid, Retry::Never, format!("cursor: expected next_cursor of the page before.{quoted}"))
        }
        _ => (ErrorKind::Unreadable, Retry::Never, format!("Shopify does not understand our query.{quoted}")),
    };
    let missing = said.filter(|_| code == Some("ACCESS_DENIED")).map(scopes_named).filter(|scopes| !scopes.is_empty());
    let source = missing.map(|scopes| Box::new(MissingScopes(scopes)).into());
    Error { kind, retry, provider: crate::ID, operation, message, source }
}

/// Of "Access denied for orderCancel field. Required access: `write_orders` access scope.": `write_orders`.
fn scopes_named(said: &str) -> Vec<String> {
    let quoted = said.split('`').skip(1).step_by(2);
    let scopes = quoted.filter(|word| word.starts_with("read_") || word.starts_with("write_"));
    scopes.map(plain).collect()
}

/// Until enough points are restored for the same request; at least a second.
/// <https://shopify.dev/docs/api/usage/limits>
fn wait_for_points(cost: &Value) -> Option<Duration> {
    let status = &cost["throttleStatus"];
    let asked = cost["requestedQueryCost"].as_f64()?;
    let (available, rate) = (status["currentlyAvailable"].as_f64()?, status["restoreRate"].as_f64()?);
    let seconds = ((asked - available) / rate).ceil();
    // A rate of zero, or numbers that mean nothing.
    (seconds.is_finite() && rate > 0.0).then(|| Duration::from_secs_f64(seconds.clamp(1.0, 3600.0)))
}

/// `errors` as a sentence, a list of sentences or of objects, or by field; or `error` with its description.
fn words(body: &Value) -> Option<String> {
    fn first(value: &Value) -> Option<&str> {
        match value {
            Value::String(text) => Some(text),
            Value::Array(list) => list.iter().find_map(first),
            Value::Object(fields) => {
                fields.get("message").and_then(Value::as_str).or_else(|| fields.values().find_map(first))
            }
            _ => None,
        }
    }
    ["errors", "error_description", "error", "message"].iter().find_map(|name| first(body.get(*name)?)).map(plain)
}

/// Without control characters, cut.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_QUOTE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_of_the_token_endpoint_is_read_in_shopifys_words() {
        let retired = Some("This request requires an active refresh_token");
        let used = Some("The authorization code was not found or was already used");
        for (status, code, description, expected) in [
            (401, Some("invalid_request"), retired, Some(Verdict::Rejected)),
            (400, Some("invalid_request"), retired, Some(Verdict::Rejected)),
            (400, Some("invalid_request"), used, Some(Verdict::Rejected)),
            (400, Some("invalid_grant"), None, Some(Verdict::Rejected)),
            (401, Some("invalid_grant"), None, Some(Verdict::Rejected)),
            (400, Some("invalid_subject_token"), None, Some(Verdict::Rejected)),
            (401, Some("invalid_request"), Some("client_id is missing"), Some(Verdict::AppBroken)),
            (401, Some("invalid_request"), None, Some(Verdict::AppBroken)),
            (401, Some("invalid_client"), None, Some(Verdict::AppBroken)),
            (400, Some("application_cannot_be_found"), None, None),
            (402, None, None, Some(Verdict::Transient)),
            (404, None, None, Some(Verdict::Transient)),
            (423, None, None, Some(Verdict::Transient)),
            (429, None, None, Some(Verdict::Busy)),
            (430, None, None, Some(Verdict::Busy)),
            (302, None, None, Some(Verdict::Ambiguous)),
            (500, Some("invalid_grant"), None, Some(Verdict::Ambiguous)),
            (503, None, retired, Some(Verdict::Ambiguous)),
            (520, None, None, Some(Verdict::Ambiguous)),
            (530, None, None, Some(Verdict::Ambiguous)),
            (400, None, None, None),
            (403, None, None, None),
            (200, None, None, None),
            (0, None, None, None),
        ] {
            let (code, description) = (code.map(str::to_owned), description.map(str::to_owned));
            let refusal = Refusal { status, code, description, retry_after: None };
            assert_eq!(verdict(&refusal), expected, "{}", refusal.words());
        }
    }

    /// HL-04
    #[test]
    fn an_answer_that_is_no_200_is_read_in_shopifys_words() {
        use ErrorKind::{AuthFailed, Busy, Forbidden, Unavailable, Unreadable};
        let invalid = json!({"errors":
            "[API] Invalid API key or access token (unrecognized login or wrong password)"});
        let endless = json!({"errors": "Non-expiring access tokens are no longer accepted for the Admin API"});
        let scope = json!({"errors": {"base": ["This action requires merchant approval for read_orders scope."]}});
        for (status, body, kind, retry, said) in [
            (401, Some(invalid), AuthFailed, Retry::Never, "reconnect"),
            (401, None, AuthFailed, Retry::Never, "reconnect"),
            (402, Some(json!({"errors": "Unavailable Shop"})), Unavailable, Retry::Backoff, "frozen"),
            (403, Some(endless), AuthFailed, Retry::Never, "without an end"),
            (403, Some(scope), Forbidden, Retry::Never, "read_orders scope"),
            (403, None, Unreadable, Retry::Never, "no JSON"),
            (404, Some(json!({"errors": "Not Found"})), Unavailable, Retry::Backoff, "no shop"),
            (404, None, Unavailable, Retry::Backoff, "no shop"),
            (423, None, Unavailable, Retry::Backoff, "locked"),
            (429, None, Busy, Retry::Backoff, "rate limit"),
            (430, None, Busy, Retry::Backoff, "security"),
            (500, None, Unavailable, Retry::Backoff, "HTTP 500"),
            (540, None, Unavailable, Retry::Backoff, "switched"),
            (302, None, Unreadable, Retry::Never, "redirect"),
            (200, None, Unreadable, Retry::Never, "no JSON"),
            (400, Some(json!({"errors": {"query": "is missing"}})), Unreadable, Retry::Never, "is missing"),
            (422, Some(json!({"error": "x", "error_description": "y"})), Unreadable, Retry::Never, "says: y"),
        ] {
            let error = api_error("get_order", &ApiAnswer { status, body, retry_after: None });
            assert_eq!((error.kind, error.retry), (kind, retry), "{status}: {}", error.message);
            assert!(error.message.contains(said), "{status}: {}", error.message);
        }
        let told = ApiAnswer { status: 429, body: None, retry_after: Some(Duration::from_secs(2)) };
        assert_eq!(api_error("get_order", &told).retry, Retry::After(Duration::from_secs(2)));
    }

    #[test]
    fn errors_that_come_with_a_200_are_read_by_their_code() {
        use ErrorKind::{Busy, Conflict, Forbidden, Unavailable, Unreadable};
        for (code, kind, retry) in [
            ("THROTTLED", Busy, Retry::Backoff),
            ("ACCESS_DENIED", Forbidden, Retry::Never),
            ("SHOP_INACTIVE", Unavailable, Retry::Backoff),
            ("INTERNAL_SERVER_ERROR", Unavailable, Retry::Backoff),
            ("MAX_COST_EXCEEDED", Unreadable, Retry::Never),
            ("undefinedField", Unreadable, Retry::Never),
            ("IDEMPOTENCY_CONCURRENT_REQUEST", Busy, Retry::Backoff),
            ("IDEMPOTENCY_KEY_PARAMETER_MISMATCH", Conflict, Retry::Never),
            ("NEVER_SEEN", Unreadable, Retry::Never),
        ] {
            let errors = json!([{"message": "m", "extensions": {"code": code}}]);
            let error = graph_error("get_order", &errors, &Value::Null);
            assert_eq!((error.kind, error.retry), (kind, retry), "{code}");
        }
        for errors in [json!("a sentence"), json!([{"message": "a sentence"}]), json!([]), json!(7)] {
            assert_eq!(graph_error("get_order", &errors, &Value::Null).kind, Unreadable);
        }
    }

    #[test]
    fn a_throttled_query_waits_until_its_points_are_restored() {
        for (asked, available, rate, expected) in [
            (json!(500), json!(100), json!(100), Some(4)),
            (json!(101), json!(0.5), json!(100.0), Some(2)),
            (json!(10), json!(50), json!(100), Some(1)),
            (json!(9e9), json!(0), json!(1), Some(3600)),
            (json!(500), json!(100), json!(0), None),
            (json!(500), json!(100), json!(-1), None),
            (json!("500"), json!(100), json!(100), None),
            (json!(500), json!(null), json!(100), None),
        ] {
            let cost = json!({"requestedQueryCost": asked,
                "throttleStatus": {"currentlyAvailable": available, "restoreRate": rate}});
            assert_eq!(wait_for_points(&cost), expected.map(Duration::from_secs), "{cost}");
        }
    }
}
