//! Google's own words to a verdict or an [`ErrorKind`].

use std::time::Duration;

use holdfast_core::{
    error::{Error, ErrorKind, MissingScopes, Retry},
    exchange::{Refusal, Verdict},
    provider::ApiAnswer,
};
use serde_json::Value;

use crate::scopes;

/// Google's own words are quoted up to here.
const LONGEST_QUOTE_CHARS: usize = 160;
/// A limit of a day begins anew at midnight in California; nobody has to ask every minute until then.
const DAILY_WAIT: Duration = Duration::from_hours(1);
/// What an app in Testing gets: 7 days. A little around it, since a refresh comes when it is due.
const TESTING: std::ops::RangeInclusive<Duration> = Duration::from_hours(6 * 24 + 12)..=Duration::from_hours(8 * 24);

/// What a refusal of the token endpoint means; `None` leaves it to the standard codes.
///
/// A refresh token of Google is not used up by a refresh, so no trouble on the way can lose one.
/// <https://developers.google.com/identity/protocols/oauth2>
pub(crate) fn verdict(refusal: &Refusal) -> Option<Verdict> {
    match (refusal.status, refusal.code.as_deref()) {
        (429, _) => Some(Verdict::Busy),
        (503, _) if refusal.retry_after.is_some() => Some(Verdict::Busy),
        (300..=399 | 404 | 408 | 500.., _) => Some(Verdict::Transient),
        (400..=499, Some(code)) => match code {
            // An administrator of the customer, or the audience of the app, forbids it: only people can change that.
            "invalid_grant" | "admin_policy_enforced" | "org_internal" => Some(Verdict::Rejected),
            "invalid_client"
            | "deleted_client"
            | "unauthorized_client"
            | "disabled_client"
            | "redirect_uri_mismatch"
            | "invalid_scope"
            | "invalid_request"
            | "unsupported_grant_type" => Some(Verdict::AppBroken),
            "rate_limit_exceeded" => Some(Verdict::Busy),
            "internal_failure" | "server_error" | "temporarily_unavailable" => Some(Verdict::Transient),
            _ => None,
        },
        _ => None,
    }
}

/// Errors of a consent that are Google's own; it shows most of them on its own page and sends nobody back.
/// <https://developers.google.com/identity/protocols/oauth2/web-server#authorization-errors>
pub(crate) fn refused_consent(error: &str) -> Option<&'static str> {
    match error {
        "admin_policy_enforced" => Some(
            "the administrator of this Google Workspace does not allow the app these permissions; ask them to trust it \
             in the Admin console, under Security, API controls",
        ),
        "org_internal" => Some(
            "the OAuth app is only for people of the Google Workspace that owns it; connect an account of that \
             Workspace, or have whoever runs this installation make the app external",
        ),
        "disallowed_useragent" => Some("Google lets nobody sign in inside of another app; open the page in a browser"),
        _ => None,
    }
}

/// <https://developers.google.com/identity/protocols/oauth2#expiration>
pub(crate) fn likely_end(lived: Duration) -> Option<&'static str> {
    TESTING.contains(&lived).then_some(
        "It was given about 7 days before, and that is how long Google lets an access live while the OAuth app is in \
         Testing: most likely nobody took it away. Whoever runs this installation should publish the app (Google Cloud \
         console, Audience, Publish app), or it will end after 7 days again.",
    )
}

/// Reads a refused or failed API answer.
/// <https://developers.google.com/workspace/gmail/api/guides/handle-errors>,
/// <https://developers.google.com/workspace/calendar/api/guides/errors>
pub(crate) fn api_error(operation: &'static str, answer: &ApiAnswer) -> Error {
    let said = Said::of(answer.body.as_ref());
    let quoted = said.quote();
    let busy = || answer.retry_after.map_or(Retry::Backoff, Retry::After);
    let never = |kind, message: String| (kind, Retry::Never, message);
    let mut lacks = None;
    let (kind, retry, message) = match answer.status {
        401 => never(
            ErrorKind::AuthFailed,
            "Google does not accept the access token; if this stays so, reconnect Google".to_owned(),
        ),
        402 => never(
            ErrorKind::Forbidden,
            format!("the Google account has no plan that allows this; its administrator has to look.{quoted}"),
        ),
        423 => (
            ErrorKind::Unavailable,
            Retry::Backoff,
            format!("Google has locked this for the moment; if it stays so, an administrator has to look.{quoted}"),
        ),
        403 | 429 if said.is(&["dailyLimitExceeded", "dailyLimitExceededUnreg"]) => (
            ErrorKind::Busy,
            Retry::After(answer.retry_after.unwrap_or(DAILY_WAIT)),
            "Google's limit for a whole day is used up; try again in some hours".to_owned(),
        ),
        429 => (ErrorKind::Busy, busy(), "Google's rate limit is used up; try again a little later".to_owned()),
        403 if said.is(&LIMITS) => {
            (ErrorKind::Busy, busy(), "Google's rate limit is used up; try again a little later".to_owned())
        }
        403 if said.is(&["insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT", "insufficientScopes"]) => {
            lacks = Some(scopes::of(operation)).filter(|scopes| !scopes.is_empty());
            never(ErrorKind::Forbidden, scope_missing(operation))
        }
        403 if said.is(&["accessNotConfigured", "SERVICE_DISABLED"]) => never(
            ErrorKind::Forbidden,
            "this API is switched off in the Cloud project of the OAuth app; whoever runs this installation has to \
             enable it in the Google Cloud console"
                .to_owned(),
        ),
        403 if said.is(&["domainPolicy", "admin_policy_enforced"]) => never(
            ErrorKind::Forbidden,
            "an administrator of the Google Workspace has switched this off for the account".to_owned(),
        ),
        403 if said.unread => {
            never(ErrorKind::Unreadable, "Google answered 403 with something that is no JSON".to_owned())
        }
        403 => never(ErrorKind::Forbidden, format!("the connected Google account may not do this.{quoted}")),
        404 if said.unread => {
            never(ErrorKind::Unreadable, "Google answered 404 with something that is no JSON".to_owned())
        }
        404 => never(
            ErrorKind::NotFound,
            "Google has nothing under this id that the connected account may see; it may be deleted".to_owned(),
        ),
        409 => never(ErrorKind::Conflict, format!("Google has this already, or works on it.{quoted}")),
        410 if said.is(&["deleted"]) => never(ErrorKind::NotFound, "it is deleted at Google".to_owned()),
        410 => never(ErrorKind::Conflict, "the cursor is too old for Google; begin again without it".to_owned()),
        412 => never(ErrorKind::Conflict, "it changed at Google meanwhile; read it again".to_owned()),
        413 => never(ErrorKind::Invalid, "that is too long for Google".to_owned()),
        400 if said.is(&["failedPrecondition", "FAILED_PRECONDITION"]) => never(
            ErrorKind::Forbidden,
            format!("the connected Google account is not ready for this; it may have no mailbox.{quoted}"),
        ),
        400 if !said.unread => never(ErrorKind::Invalid, format!("Google does not accept the input.{quoted}")),
        status @ 500.. => (
            ErrorKind::Unavailable,
            busy(),
            format!("Google has trouble of its own (HTTP {status}); try again a little later"),
        ),
        status @ 300..=399 => never(
            ErrorKind::Unreadable,
            format!("Google answered with a redirect (HTTP {status}), which is not followed"),
        ),
        status if said.unread => {
            never(ErrorKind::Unreadable, format!("Google answered HTTP {status} with something that is no JSON"))
        }
        status => {
            never(ErrorKind::Unreadable, format!("Google answered HTTP {status}, which is not expected.{quoted}"))
        }
    };
    let missing = lacks.map(|scopes| MissingScopes(scopes.iter().map(|&scope| scope.to_owned()).collect()));
    Error {
        kind,
        retry,
        provider: crate::ID,
        operation,
        message,
        source: missing.map(|missing| Box::new(missing).into()),
    }
}

/// Limits that pass within minutes, however they are spelled.
const LIMITS: [&str; 6] = [
    "rateLimitExceeded",
    "userRateLimitExceeded",
    "quotaExceeded",
    "concurrentLimitExceeded",
    "RATE_LIMIT_EXCEEDED",
    "RESOURCE_EXHAUSTED",
];

fn scope_missing(operation: &'static str) -> String {
    let what = scopes::words(operation).map_or_else(
        || "a permission that was not allowed when Google was connected".to_owned(),
        |scopes| format!("the permission {scopes}, which was not allowed when Google was connected"),
    );
    format!("this needs {what}; reconnect Google and leave it ticked on Google's page")
}

/// What an error answer says: `error: {code, message, status, errors: [{reason}], details: [{reason}]}`.
struct Said {
    reasons: Vec<String>,
    message: Option<String>,
    /// It is no JSON.
    unread: bool,
}

impl Said {
    fn of(body: Option<&Value>) -> Self {
        let Some(body) = body else { return Self { reasons: Vec::new(), message: None, unread: true } };
        let error = &body["error"];
        let listed = ["errors", "details"].iter().filter_map(|list| error[*list].as_array()).flatten();
        let reasons = listed.filter_map(|one| one["reason"].as_str()).chain(error["status"].as_str());
        // Userinfo answers as RFC 6750 does.
        let flat = error.as_str();
        let reasons = reasons.chain(flat).map(str::to_owned).collect();
        let message = error["message"].as_str().or_else(|| body["error_description"].as_str()).or(flat);
        Self { reasons, message: message.map(str::to_owned), unread: false }
    }

    fn is(&self, reasons: &[&str]) -> bool {
        self.reasons.iter().any(|said| reasons.iter().any(|reason| said.eq_ignore_ascii_case(reason)))
    }

    fn quote(&self) -> String {
        let Some(message) = &self.message else { return String::new() };
        let plain: String =
            message.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_QUOTE_CHARS).collect();
        if plain.is_empty() { String::new() } else { format!(" Google says: {plain}") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_refusal_of_the_token_endpoint_has_its_verdict() {
        use Verdict::{AppBroken, Busy, Rejected, Transient};
        for (status, code, expected) in [
            (400, Some("invalid_grant"), Some(Rejected)),
            (401, Some("invalid_grant"), Some(Rejected)),
            (400, Some("admin_policy_enforced"), Some(Rejected)),
            (403, Some("org_internal"), Some(Rejected)),
            (401, Some("invalid_client"), Some(AppBroken)),
            (401, Some("deleted_client"), Some(AppBroken)),
            (400, Some("redirect_uri_mismatch"), Some(AppBroken)),
            (401, Some("unauthorized_client"), Some(AppBroken)),
            (400, Some("internal_failure"), Some(Transient)),
            (403, Some("rate_limit_exceeded"), Some(Busy)),
            (429, None, Some(Busy)),
            (408, None, Some(Transient)),
            (500, Some("invalid_grant"), Some(Transient)),
            (503, None, Some(Transient)),
            (302, None, Some(Transient)),
            (404, None, Some(Transient)),
            (400, Some("something_new"), None),
            (400, None, None),
            (200, None, None),
        ] {
            let refusal = Refusal { status, code: code.map(str::to_owned), description: None, retry_after: None };
            assert_eq!(verdict(&refusal), expected, "{status} {code:?}");
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as an answer carries it")]
    fn body(code: u16, status: &str, reason: &str, message: &str) -> Option<Value> {
        Some(json!({"error": {"code": code, "message": message, "status": status,
            "errors": [{"domain": "global", "reason": reason, "message": message}]}}))
    }

    /// CO-08 among them.
    #[test]
    fn every_answer_becomes_what_the_caller_should_do_now() {
        use ErrorKind::{AuthFailed, Busy, Conflict, Forbidden, Invalid, NotFound, Unavailable, Unreadable};
        let detail = |reason: &str| {
            Some(json!({"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]}}))
        };
        for (status, body, kind, retry, said) in [
            (
                401,
                body(401, "UNAUTHENTICATED", "authError", "Invalid Credentials"),
                AuthFailed,
                Retry::Never,
                "reconnect",
            ),
            (401, None, AuthFailed, Retry::Never, "reconnect"),
            (
                403,
                body(403, "PERMISSION_DENIED", "insufficientPermissions", "x"),
                Forbidden,
                Retry::Never,
                "gmail.send",
            ),
            (403, detail("ACCESS_TOKEN_SCOPE_INSUFFICIENT"), Forbidden, Retry::Never, "leave it ticked"),
            (403, body(403, "", "rateLimitExceeded", "x"), Busy, Retry::Backoff, "rate limit"),
            (403, body(403, "", "userRateLimitExceeded", "x"), Busy, Retry::Backoff, "rate limit"),
            (403, body(403, "", "quotaExceeded", "x"), Busy, Retry::Backoff, "rate limit"),
            (403, detail("RATE_LIMIT_EXCEEDED"), Busy, Retry::Backoff, "rate limit"),
            (403, body(403, "", "dailyLimitExceeded", "x"), Busy, Retry::After(DAILY_WAIT), "whole day"),
            (429, body(429, "RESOURCE_EXHAUSTED", "rateLimitExceeded", "x"), Busy, Retry::Backoff, "rate limit"),
            (429, None, Busy, Retry::Backoff, "rate limit"),
            (403, body(403, "", "accessNotConfigured", "x"), Forbidden, Retry::Never, "enable it"),
            (403, detail("SERVICE_DISABLED"), Forbidden, Retry::Never, "enable it"),
            (403, body(403, "", "domainPolicy", "x"), Forbidden, Retry::Never, "administrator"),
            (403, body(403, "", "forbidden", "Not yours"), Forbidden, Retry::Never, "Google says: Not yours"),
            (403, None, Unreadable, Retry::Never, "no JSON"),
            (404, body(404, "NOT_FOUND", "notFound", "x"), NotFound, Retry::Never, "deleted"),
            (404, None, Unreadable, Retry::Never, "no JSON"),
            (409, body(409, "ALREADY_EXISTS", "duplicate", "x"), Conflict, Retry::Never, "already"),
            (410, body(410, "", "deleted", "x"), NotFound, Retry::Never, "deleted"),
            (410, body(410, "", "fullSyncRequired", "x"), Conflict, Retry::Never, "too old"),
            (412, None, Conflict, Retry::Never, "meanwhile"),
            (413, None, Invalid, Retry::Never, "too long"),
            (400, body(400, "FAILED_PRECONDITION", "failedPrecondition", "x"), Forbidden, Retry::Never, "mailbox"),
            (400, body(400, "INVALID_ARGUMENT", "badRequest", "Bad q"), Invalid, Retry::Never, "Google says: Bad q"),
            (400, None, Unreadable, Retry::Never, "no JSON"),
            (400, Some(json!(["odd"])), Invalid, Retry::Never, "input"),
            (500, body(500, "INTERNAL", "backendError", "x"), Unavailable, Retry::Backoff, "HTTP 500"),
            (302, None, Unreadable, Retry::Never, "redirect"),
            (418, Some(json!({"error": "teapot"})), Unreadable, Retry::Never, "teapot"),
        ] {
            let error = api_error("send_mail", &ApiAnswer { status, body, retry_after: None });
            assert_eq!((error.kind, error.retry), (kind, retry), "{status}: {}", error.message);
            assert!(error.message.contains(said), "{status}: {}", error.message);
        }
    }

    #[test]
    fn a_wait_that_google_tells_is_kept_and_long_words_are_cut() {
        let wait = Some(Duration::from_secs(41));
        let limited = ApiAnswer { status: 403, body: body(403, "", "userRateLimitExceeded", "x"), retry_after: wait };
        assert_eq!(api_error("get_mail", &limited).retry, Retry::After(Duration::from_secs(41)));
        let words = format!("a\nb{}", "x".repeat(9000));
        let long = ApiAnswer { status: 400, body: body(400, "", "invalid", &words), retry_after: None };
        let message = api_error("get_mail", &long).message;
        assert!(message.len() < 300 && message.contains("a b"), "{message}");
    }

    /// RC-09
    #[test]
    fn seven_days_are_taken_for_an_app_in_testing_and_no_other_time_is() {
        let day = 24;
        for (hours, likely) in [(1, false), (6 * day, false), (7 * day, true), (7 * day + 2, true), (9 * day, false)] {
            let words = likely_end(Duration::from_hours(hours));
            assert_eq!(words.is_some_and(|words| words.contains("Testing")), likely, "{hours} h");
        }
    }
}
