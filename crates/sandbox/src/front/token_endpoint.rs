//! `app.frontapp.com/oauth/token`. What its errors look like is documented nowhere; these are the standard's.
//!
//! <https://dev.frontapp.com/docs/oauth>

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Front;
use super::state::{ACCESS_SECS, Brought, EndForm};
use crate::clock::{http_date, pause};
use crate::desk::{World, locked};
use crate::faults::{break_off, hang_up};
use crate::http::{Answer, Request, find, pairs};

type Fields = Vec<(String, String)>;

/// Answers on a task of its own: a provider finishes what it began, also when the caller has hung up.
pub(super) async fn serve(world: Arc<World>, front: Arc<Front>, request: Request) -> Response {
    let work = tokio::spawn(async move { answer(&world, &front, &request).await });
    work.await.unwrap_or_else(|_| hang_up())
}

async fn answer(world: &World, front: &Front, request: &Request) -> Response {
    let fields = fields(request);
    let refreshes = fields.as_ref().is_ok_and(|fields| find(fields, "grant_type") == Some("refresh_token"));
    let plan = locked(&front.faults).plan(world.clock.now_ms());
    if plan.dropped {
        front.counts.dropped.up();
        return hang_up();
    }
    if refreshes {
        front.counts.exchanges.up();
    }
    let _inside = refreshes.then(|| world.at_once.enter());
    pause(plan.delay_ms).await;
    front.gate.may_process().await;
    if let Some(canned) = plan.canned.as_ref().filter(|canned| !canned.after_processing) {
        return canned.respond(&[]);
    }
    if refreshes && locked(&front.faults).refuses() {
        return oauth_error(400, "invalid_grant", "The refresh token is invalid").into_response();
    }

    let done = fields.and_then(|fields| process(world, front, request, &fields));
    // Before anybody can see what was issued or spent.
    world.keep().await;
    pause(plan.delay_after_ms).await;
    front.gate.may_answer().await;
    let brought = match done {
        Ok(brought) => brought,
        Err(refusal) => return refusal.into_response(),
    };
    let body = body(locked(&front.state).options.end, &brought);
    let lost = locked(&front.faults).loses();
    if let Some(part_way) = lost {
        front.counts.answers_lost.up();
        let answer = Answer::json(200, body.clone());
        return if part_way { break_off(answer.status, &Bytes::from(body.to_string())) } else { hang_up() };
    }
    match &plan.canned {
        Some(canned) => canned.respond(&[
            ("access_token", &brought.access_token),
            ("refresh_token", &brought.refresh_token),
            ("expires_at", &(brought.expires_at_ms / 1000).to_string()),
        ]),
        // The end is a moment of this clock.
        None => Answer::json(200, body).header("date", http_date(world.clock.now_ms())).into_response(),
    }
}

fn process(world: &World, front: &Front, request: &Request, fields: &Fields) -> Result<Brought, Answer> {
    client(world, request)?;
    let allowed: &[&str] = match find(fields, "grant_type") {
        Some("authorization_code") => &["grant_type", "code", "redirect_uri"],
        Some("refresh_token") => &["grant_type", "refresh_token"],
        _ => return Err(oauth_error(400, "unsupported_grant_type", "Unsupported grant type")),
    };
    for (index, (name, _)) in fields.iter().enumerate() {
        if !allowed.contains(&name.as_str()) || fields[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(oauth_error(400, "invalid_request", &format!("Unexpected parameter {name}")));
        }
    }
    let needs = |name: &str| {
        find(fields, name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| oauth_error(400, "invalid_request", &format!("Missing parameter {name}")))
    };
    let now_ms = world.clock.now_ms();
    let mut state = locked(&front.state);
    if find(fields, "grant_type") == Some("refresh_token") {
        let brought = state.refresh(needs("refresh_token")?, now_ms);
        let brought = brought.ok_or_else(|| oauth_error(400, "invalid_grant", "The refresh token is invalid"))?;
        if brought.replaced {
            front.counts.rotations.up();
        }
        return Ok(brought);
    }
    let company = state.spend_code(needs("code")?, needs("redirect_uri")?, now_ms);
    let company = company.ok_or_else(|| oauth_error(400, "invalid_grant", "The authorization code is invalid"))?;
    front.counts.code_exchanges.up();
    Ok(state.grant(&company, now_ms))
}

fn body(end: EndForm, brought: &Brought) -> Value {
    let mut body = json!({
        "access_token": brought.access_token,
        "refresh_token": brought.refresh_token,
        "token_type": "Bearer",
    });
    let (name, value) = match end {
        EndForm::At => ("expires_at", brought.expires_at_ms / 1000),
        EndForm::AtMs => ("expires_at", brought.expires_at_ms),
        EndForm::AtLife => ("expires_at", ACCESS_SECS),
        EndForm::Expires => ("expires", ACCESS_SECS),
        EndForm::In => ("expires_in", ACCESS_SECS),
        EndForm::Nowhere => return body,
    };
    body[name] = value.into();
    body
}

/// A form or JSON.
fn fields(request: &Request) -> Result<Fields, Answer> {
    let bad = || oauth_error(400, "invalid_request", "The body is neither a form nor JSON");
    if !request.query.is_empty() {
        return Err(oauth_error(400, "invalid_request", "Parameters belong into the body"));
    }
    if request.is_json() {
        let fields: Map<String, Value> = serde_json::from_slice(&request.body).map_err(|_| bad())?;
        return fields
            .into_iter()
            .map(|(name, value)| value.as_str().map(|value| (name, value.to_owned())).ok_or_else(bad))
            .collect();
    }
    let kind = request.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    let form = kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded");
    if form { Ok(pairs(&request.body)) } else { Err(bad()) }
}

/// Basic alone: id and secret as they are.
fn client(world: &World, request: &Request) -> Result<(), Answer> {
    let pair = request.header("authorization").and_then(|value| value.strip_prefix("Basic "));
    let pair = pair.and_then(|pair| STANDARD.decode(pair).ok()).and_then(|pair| String::from_utf8(pair).ok());
    let known = pair
        .as_deref()
        .and_then(|pair| pair.split_once(':'))
        .is_some_and(|(id, secret)| locked(&world.client).accepts("front", Some(id), Some(secret)));
    if known { Ok(()) } else { Err(oauth_error(401, "invalid_client", "Client authentication failed")) }
}

fn oauth_error(status: u16, error: &str, description: &str) -> Answer {
    Answer::json(status, json!({"error": error, "error_description": description}))
}
