//! `oauth.pipedrive.com/oauth/token` and `…/revoke`. The messages are those of the documentation.
//!
//! <https://pipedrive.readme.io/docs/marketplace-oauth-and-api-proxy-status-codes>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::state::ACCESS_SECS;
use crate::desk::{World, locked};
use crate::http::{Answer, Request, find, pairs};

pub(super) fn answer(world: &World, request: &Request) -> Answer {
    process(world, request).unwrap_or_else(|refusal| refusal)
}

fn process(world: &World, request: &Request) -> Result<Answer, Answer> {
    let fields = fields(world, request)?;
    let own: &[&str] = match find(&fields, "grant_type") {
        Some("authorization_code") => &["code", "redirect_uri"],
        Some("refresh_token") => &["refresh_token"],
        _ => return Err(error(400, "unsupported_grant_type", "Unsupported grant type: grant_type is invalid")),
    };
    for (index, (name, _)) in fields.iter().enumerate() {
        let known = name == "grant_type" || own.contains(&name.as_str());
        if !known || fields[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(error(400, "invalid_request", &format!("Unexpected parameter {name}")));
        }
    }
    let needs = |name: &str| {
        let value = find(&fields, name).filter(|value| !value.is_empty());
        value.ok_or_else(|| error(400, "invalid_request", &format!("Missing parameter: {name}")))
    };
    let now_ms = world.clock.now_ms();
    let mut state = locked(&world.pipedrive);
    let brought = if own.contains(&"code") {
        state.redeem(needs("code")?, needs("redirect_uri")?, now_ms)
    } else {
        state.refresh(needs("refresh_token")?, now_ms)
    };
    let brought =
        brought.ok_or_else(|| error(400, "invalid_grant", &format!("Invalid grant: {} is invalid", own[0])))?;
    Ok(Answer::json(
        200,
        json!({
            "access_token": brought.access_token,
            "refresh_token": brought.refresh_token,
            "token_type": "Bearer",
            "expires_in": ACCESS_SECS,
            "scope": "base,contacts:read",
            "api_domain": format!("https://{}.pipedrive.com", brought.company),
        }),
    ))
}

/// Ends the grant that a token of either kind belongs to. What is not known is revoked already.
pub(super) fn revoke(world: &World, request: &Request) -> Answer {
    let done = fields(world, request).and_then(|fields| {
        let token = find(&fields, "token").filter(|token| !token.is_empty());
        token.map(str::to_owned).ok_or_else(|| error(400, "invalid_request", "Missing parameter: token"))
    });
    match done {
        Ok(token) => {
            locked(&world.pipedrive).revoke_token(&token);
            Answer::json(200, json!({"success": true}))
        }
        Err(refusal) => refusal,
    }
}

/// A form, from a client that is known: by Basic alone.
fn fields(world: &World, request: &Request) -> Result<Vec<(String, String)>, Answer> {
    let kind = request.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded") || !request.query.is_empty() {
        return Err(error(400, "invalid_request", "Expected a form, and no query"));
    }
    let pair = request.header("authorization").and_then(|value| value.strip_prefix("Basic "));
    let pair = pair.and_then(|pair| STANDARD.decode(pair).ok()).and_then(|pair| String::from_utf8(pair).ok());
    let Some((id, secret)) = pair.as_deref().and_then(|pair| pair.split_once(':')) else {
        return Err(error(400, "invalid_client", "Invalid client: cannot retrieve client credentials"));
    };
    if !locked(&world.client).accepts("pipedrive", Some(id), Some(secret)) {
        return Err(error(400, "invalid_client", "Invalid client: client is invalid"));
    }
    Ok(pairs(&request.body))
}

fn error(status: u16, error: &str, description: &str) -> Answer {
    Answer::json(status, json!({"success": false, "error": error, "message": description}))
}
