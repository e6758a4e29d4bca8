//! `app.@id@.example/oauth/token`. REPLACE: where the client's secret goes, which parameters there are, how errors look.

use serde_json::json;

use super::consent::SCOPE;
use super::state::ACCESS_SECS;
use crate::desk::{World, locked};
use crate::http::{Answer, Request, find, pairs};

pub(super) fn answer(world: &World, request: &Request) -> Answer {
    process(world, request).unwrap_or_else(|refusal| refusal)
}

fn process(world: &World, request: &Request) -> Result<Answer, Answer> {
    let kind = request.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded") || !request.query.is_empty() {
        return Err(error(400, "invalid_request", "Expected a form, and no query"));
    }
    let fields = pairs(&request.body);
    if !locked(&world.client).accepts("@id@", find(&fields, "client_id"), find(&fields, "client_secret")) {
        return Err(error(401, "invalid_client", "Client authentication failed"));
    }
    let own: &[&str] = match find(&fields, "grant_type") {
        Some("authorization_code") => &["code", "redirect_uri", "code_verifier"],
        Some("refresh_token") => &["refresh_token"],
        _ => return Err(error(400, "unsupported_grant_type", "Unsupported grant type")),
    };
    for (index, (name, _)) in fields.iter().enumerate() {
        let known = ["grant_type", "client_id", "client_secret"].contains(&name.as_str()) || own.contains(&name.as_str());
        if !known || fields[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(error(400, "invalid_request", &format!("Unexpected parameter {name}")));
        }
    }
    let needs = |name: &str| {
        let value = find(&fields, name).filter(|value| !value.is_empty());
        value.ok_or_else(|| error(400, "invalid_request", &format!("Missing parameter {name}")))
    };
    let now_ms = world.clock.now_ms();
    let mut state = locked(&world.@mod@);
    let brought = if own.contains(&"code") {
        state.redeem(needs("code")?, needs("redirect_uri")?, needs("code_verifier")?, now_ms)
    } else {
        state.refresh(needs("refresh_token")?, now_ms)
    };
    let brought = brought.ok_or_else(|| error(400, "invalid_grant", "It is unknown, spent or has ended"))?;
    Ok(Answer::json(
        200,
        json!({
            "access_token": brought.access_token,
            "refresh_token": brought.refresh_token,
            "token_type": "Bearer",
            "expires_in": ACCESS_SECS,
            "scope": SCOPE,
        }),
    ))
}

fn error(status: u16, error: &str, description: &str) -> Answer {
    Answer::json(status, json!({"error": error, "error_description": description}))
}
