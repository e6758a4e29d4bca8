//! `oauth2.googleapis.com/token` and `/revoke`.
//!
//! <https://developers.google.com/identity/protocols/oauth2/web-server#exchange-authorization-code>

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::Google;
use super::consent::ISSUER;
use super::state::{ACCESS_SECS, Brought};
use crate::clock::pause;
use crate::desk::{World, locked};
use crate::faults::{break_off, hang_up};
use crate::http::{Answer, Request, find, pairs};
use crate::ledger::pkce_challenge;
use crate::options::CLIENT_ID;

type Fields = Vec<(String, String)>;

/// Answers on a task of its own: a provider finishes what it began, also when the caller has hung up.
pub(super) async fn serve(world: Arc<World>, google: Arc<Google>, request: Request) -> Response {
    let work = tokio::spawn(async move { answer(&world, &google, &request).await });
    work.await.unwrap_or_else(|_| hang_up())
}

async fn answer(world: &World, google: &Google, request: &Request) -> Response {
    let fields = form(request);
    let refreshes = fields.as_ref().is_ok_and(|fields| find(fields, "grant_type") == Some("refresh_token"));
    let plan = locked(&google.faults).plan(world.clock.now_ms());
    if plan.dropped {
        google.counts.dropped.up();
        return hang_up();
    }
    if refreshes {
        google.counts.exchanges.up();
    }
    let _inside = refreshes.then(|| world.at_once.enter());
    pause(plan.delay_ms).await;
    google.gate.may_process().await;
    if let Some(canned) = plan.canned.as_ref().filter(|canned| !canned.after_processing) {
        return canned.respond(&[]);
    }
    if refreshes && locked(&google.faults).refuses() {
        return invalid_grant("Token has been expired or revoked.").into_response();
    }

    let done = fields.and_then(|fields| process(world, google, request, &fields));
    // Before anybody can see what was issued or spent.
    world.keep().await;
    pause(plan.delay_after_ms).await;
    google.gate.may_answer().await;
    let brought = match done {
        Ok(brought) => brought,
        Err(refusal) => return refusal.into_response(),
    };
    let body = body(world, google, &brought);
    let lost = locked(&google.faults).loses();
    if let Some(part_way) = lost {
        google.counts.answers_lost.up();
        let answer = Answer::json(200, body.clone());
        return if part_way { break_off(answer.status, &Bytes::from(body.to_string())) } else { hang_up() };
    }
    match &plan.canned {
        Some(canned) => canned.respond(&[
            ("access_token", &brought.access_token),
            ("refresh_token", brought.refresh_token.as_deref().unwrap_or("")),
            ("expires_in", &ACCESS_SECS.to_string()),
        ]),
        None => Answer::json(200, body).into_response(),
    }
}

fn process(world: &World, google: &Google, request: &Request, fields: &Fields) -> Result<Brought, Answer> {
    let allowed: &[&str] = match find(fields, "grant_type") {
        Some("authorization_code") => {
            &["grant_type", "code", "redirect_uri", "client_id", "client_secret", "code_verifier"]
        }
        Some("refresh_token") => &["grant_type", "refresh_token", "client_id", "client_secret"],
        Some(other) => {
            return Err(oauth_error(400, "unsupported_grant_type", &format!("Invalid grant_type: {other}")));
        }
        None => return Err(oauth_error(400, "invalid_request", "Missing required parameter: grant_type")),
    };
    for (index, (name, _)) in fields.iter().enumerate() {
        if !allowed.contains(&name.as_str()) {
            let words = format!("Parameter not allowed for this message type: {name}");
            return Err(oauth_error(400, "invalid_request", &words));
        }
        if fields[..index].iter().any(|(earlier, _)| earlier == name) {
            let words = format!("OAuth 2 parameters can only have a single value: {name}");
            return Err(oauth_error(400, "invalid_request", &words));
        }
    }
    client(world, request, fields)?;
    let needs = |name: &str| {
        find(fields, name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| oauth_error(400, "invalid_request", &format!("Missing required parameter: {name}")))
    };
    let now_ms = world.clock.now_ms();
    if find(fields, "grant_type") == Some("refresh_token") {
        let brought = locked(&google.state).refresh(needs("refresh_token")?, now_ms);
        let brought = brought.ok_or_else(|| invalid_grant("Token has been expired or revoked."))?;
        google.counts.rotations.up();
        return Ok(brought);
    }
    let (code, redirect_uri) = (needs("code")?, needs("redirect_uri")?);
    let mut state = locked(&google.state);
    let facts = state.spend_code(code, now_ms).ok_or_else(|| invalid_grant("Bad Request"))?;
    if facts.redirect_uri != redirect_uri {
        return Err(oauth_error(400, "redirect_uri_mismatch", "Bad Request"));
    }
    match (&facts.challenge, find(fields, "code_verifier")) {
        (None, None) => {}
        (Some(challenge), Some(verifier)) if is_verifier(verifier) && *challenge == pkce_challenge(verifier) => {}
        (Some(_), None) => return Err(invalid_grant("Missing code verifier.")),
        _ => return Err(invalid_grant("Invalid code verifier.")),
    }
    let brought = state.grant(&facts, Some(code), now_ms);
    drop(state);
    google.counts.code_exchanges.up();
    Ok(brought)
}

fn body(world: &World, google: &Google, brought: &Brought) -> Value {
    let mut body = json!({
        "access_token": brought.access_token,
        "expires_in": ACCESS_SECS,
        "scope": brought.scopes.join(" "),
        "token_type": "Bearer",
    });
    if let Some(refresh_token) = &brought.refresh_token {
        body["refresh_token"] = refresh_token.as_str().into();
    }
    let state = locked(&google.state);
    if let Some(secs) = brought.refresh_secs.filter(|_| state.options.tells_end) {
        body["refresh_token_expires_in"] = secs.into();
    }
    if let Some(person) =
        state.people.get(&brought.sub).filter(|_| brought.scopes.iter().any(|scope| scope == "openid"))
    {
        let now = world.clock.now_ms() / 1000;
        let claims = json!({"iss": ISSUER, "azp": CLIENT_ID, "aud": CLIENT_ID, "sub": person.sub, "email": person.email,
            "email_verified": person.verified, "iat": now, "exp": now + 3600});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({"alg": "RS256", "kid": "sandbox", "typ": "JWT"});
        // Nobody has to believe it: it came over TLS, from the token endpoint itself.
        body["id_token"] = format!("{}.{}.c2FuZGJveA", part(&header), part(&claims)).into();
    }
    body
}

/// `POST /revoke`: the token in a form, nothing else.
pub(super) fn revoke(world: &World, google: &Google, request: &Request) -> Answer {
    let fields = match form(request) {
        Ok(fields) => fields,
        Err(refusal) => return refusal,
    };
    let [(name, token)] = fields.as_slice() else {
        return oauth_error(400, "invalid_request", "Bad Request");
    };
    if name != "token" {
        return oauth_error(400, "invalid_request", &format!("Parameter not allowed for this message type: {name}"));
    }
    match locked(&google.state).revoke(token, world.clock.now_ms()) {
        Some(died) => {
            google.counts.revocations.by(died.max(1) as u64);
            Answer::json(200, json!({}))
        }
        None => oauth_error(400, "invalid_token", "Token expired or revoked"),
    }
}

/// A form alone: JSON is no request here.
fn form(request: &Request) -> Result<Fields, Answer> {
    let kind = request.header("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") && request.query.is_empty() {
        Ok(pairs(&request.body))
    } else {
        Err(oauth_error(400, "invalid_request", "Bad Request"))
    }
}

/// In the body, or as Basic; not both.
fn client(world: &World, request: &Request, fields: &Fields) -> Result<(), Answer> {
    let basic = request.header("authorization").and_then(|value| value.strip_prefix("Basic "));
    let (id, secret) = match basic {
        Some(pair) => {
            let pair = STANDARD.decode(pair).ok().and_then(|pair| String::from_utf8(pair).ok()).unwrap_or_default();
            let (id, secret) = pair.split_once(':').unwrap_or_default();
            (Some(id.to_owned()), Some(secret.to_owned()))
        }
        None => (find(fields, "client_id").map(str::to_owned), find(fields, "client_secret").map(str::to_owned)),
    };
    if locked(&world.client).accepts("google", id.as_deref(), secret.as_deref()) {
        Ok(())
    } else if id.as_deref() == Some(CLIENT_ID) {
        Err(oauth_error(401, "invalid_client", "Unauthorized"))
    } else {
        Err(oauth_error(401, "invalid_client", "The OAuth client was not found."))
    }
}

/// RFC 7636, 4.1.
fn is_verifier(verifier: &str) -> bool {
    (43..=128).contains(&verifier.len()) && verifier.bytes().all(|c| c.is_ascii_alphanumeric() || b"-._~".contains(&c))
}

fn invalid_grant(description: &str) -> Answer {
    oauth_error(400, "invalid_grant", description)
}

fn oauth_error(status: u16, error: &str, description: &str) -> Answer {
    Answer::json(status, json!({"error": error, "error_description": description}))
}
