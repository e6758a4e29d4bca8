//! Errors as Google's APIs write them: `error: {code, message, status, errors, details}`.

use serde_json::json;

use crate::http::Answer;

/// `status` is the name of the RPC code, `reason` the older word beside it.
pub(super) fn error(code: u16, status: &str, reason: &str, message: &str) -> Answer {
    let body = json!({"error": {"code": code, "message": message, "status": status,
        "errors": [{"message": message, "domain": "global", "reason": reason}]}});
    Answer::json(code, body)
}

pub(super) fn invalid(message: &str) -> Answer {
    error(400, "INVALID_ARGUMENT", "badRequest", message)
}

pub(super) fn not_found() -> Answer {
    error(404, "NOT_FOUND", "notFound", "Requested entity was not found.")
}

pub(super) fn unauthenticated() -> Answer {
    let message = "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other \
                   valid authentication credential.";
    error(401, "UNAUTHENTICATED", "authError", message)
        .header("www-authenticate", "Bearer realm=\"https://accounts.google.com/\", error=\"invalid_token\"")
}

pub(super) fn scope_missing() -> Answer {
    let message = "Request had insufficient authentication scopes.";
    let body = json!({"error": {"code": 403, "message": message, "status": "PERMISSION_DENIED",
        "errors": [{"message": "Insufficient Permission", "domain": "global", "reason": "insufficientPermissions"}],
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": "googleapis.com",
                     "reason": "ACCESS_TOKEN_SCOPE_INSUFFICIENT"}]}});
    Answer::json(403, body)
        .header("www-authenticate", "Bearer realm=\"https://accounts.google.com/\", error=\"insufficient_scope\"")
}

pub(super) fn unknown_parameter(name: &str) -> Answer {
    let name = name.replace('"', "");
    invalid(&format!("Invalid JSON payload received. Unknown name \"{name}\": Cannot bind query parameter."))
}
