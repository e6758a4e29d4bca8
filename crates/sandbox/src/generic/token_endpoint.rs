//! Codes and refresh tokens for token sets, as each service has it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::answers;
use super::state::Brought;
use super::table::{Refusal, Secret, Service, Shape, Written};
use crate::clock::pause;
use crate::desk::{World, locked};
use crate::faults::{break_off, hang_up};
use crate::http::{Answer, Request, find, pairs};
use crate::ledger::pkce_challenge;

type Fields = Vec<(String, String)>;

/// Answers on a task of its own: a provider finishes what it began, also when the caller has hung up.
pub(super) async fn serve(world: Arc<World>, service: &'static Service, host: String, request: Request) -> Response {
    let work = tokio::spawn(async move { answer(&world, service, &host, &request).await });
    work.await.unwrap_or_else(|_| hang_up())
}

async fn answer(world: &World, service: &Service, host: &str, request: &Request) -> Response {
    let generic = &world.generic;
    let plan = locked(&generic.faults).plan(world.clock.now_ms());
    if plan.dropped {
        return hang_up();
    }
    pause(plan.delay_ms).await;
    generic.gate.may_process().await;
    if let Some(canned) = plan.canned.as_ref().filter(|canned| !canned.after_processing) {
        return canned.respond(&[]);
    }
    let done = process(world, service, host, request);
    pause(plan.delay_after_ms).await;
    generic.gate.may_answer().await;
    let brought = match done {
        Ok(brought) => brought,
        Err(refusal) => return Answer::json(refusal.status, refusal.body()).into_response(),
    };
    let body = body(service, &brought);
    let lost = locked(&generic.faults).loses();
    match lost {
        Some(true) => break_off(axum::http::StatusCode::OK, &Bytes::from(body.to_string())),
        Some(false) => hang_up(),
        None => Answer::json(200, body).into_response(),
    }
}

fn wrong(words: &'static str) -> Refusal {
    Refusal { status: 400, code: "invalid_request", words, shape: Shape::Standard }
}

fn process(world: &World, service: &Service, host: &str, request: &Request) -> Result<Brought, Refusal> {
    if request.header("accept") != Some("application/json") {
        return Err(wrong("say Accept: application/json"));
    }
    let mut fields = fields(service, request)?;
    client(world, service, request, &mut fields)?;
    let take = |fields: &mut Fields, name: &'static str| {
        let at = fields.iter().position(|(known, value)| known == name && !value.is_empty());
        at.map(|at| fields.remove(at).1)
    };
    let now_ms = world.clock.now_ms();
    let brought = match take(&mut fields, "grant_type").as_deref() {
        Some("authorization_code") => {
            let code = take(&mut fields, "code").ok_or_else(|| wrong("there is no code"))?;
            let redirect_uri = take(&mut fields, "redirect_uri").ok_or_else(|| wrong("there is no redirect_uri"))?;
            let verifier = if service.pkce { take(&mut fields, "code_verifier") } else { None };
            nothing_else(&fields)?;
            let mut state = locked(&world.generic.state);
            let code = state.spend_code(service, &code, now_ms).ok_or(service.wrong_code)?;
            let proven = match (&code.challenge, &verifier) {
                (None, None) => true,
                (Some(challenge), Some(verifier)) => verifier.len() >= 43 && *challenge == pkce_challenge(verifier),
                _ => false,
            };
            if code.redirect_uri != redirect_uri || !proven || !answers::is_home(service, &code.granted, host) {
                return Err(service.wrong_code);
            }
            state.issue(service, &code.granted, now_ms)
        }
        Some("refresh_token") => {
            let token = take(&mut fields, "refresh_token").ok_or_else(|| wrong("there is no refresh_token"))?;
            nothing_else(&fields)?;
            if locked(&world.generic.faults).refuses() {
                return Err(service.dead);
            }
            locked(&world.generic.state).refresh(service, &token, now_ms).ok_or(service.dead)?
        }
        _ => return Err(Refusal { code: "unsupported_grant_type", ..wrong("there is no such grant") }),
    };
    Ok(brought)
}

fn nothing_else(fields: &Fields) -> Result<(), Refusal> {
    if fields.is_empty() { Ok(()) } else { Err(wrong("there is a parameter that is not known")) }
}

fn fields(service: &Service, request: &Request) -> Result<Fields, Refusal> {
    if !request.query.is_empty() {
        return Err(wrong("no parameter belongs into the address"));
    }
    let kind = request.header("content-type").unwrap_or_default();
    let is_form = kind.starts_with("application/x-www-form-urlencoded");
    let fields: Fields = match (service.written, is_form, request.is_json()) {
        (Written::Form | Written::Either, true, _) => pairs(&request.body),
        (Written::Json | Written::Either, _, true) => {
            let body: Value = serde_json::from_slice(&request.body).map_err(|_| wrong("that is no JSON"))?;
            let object = body.as_object().ok_or_else(|| wrong("that is no object"))?;
            object.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
        }
        _ => return Err(wrong("the body is written otherwise")),
    };
    let twice =
        |(index, (name, _)): (usize, &(String, String))| fields[..index].iter().any(|(earlier, _)| earlier == name);
    if fields.iter().enumerate().any(twice) {
        return Err(wrong("a parameter is given twice"));
    }
    Ok(fields)
}

/// In the one place where the service looks; takes it out of the fields.
fn client(world: &World, service: &Service, request: &Request, fields: &mut Fields) -> Result<(), Refusal> {
    let header = request.header("authorization");
    let (id, secret) = match service.secret {
        Secret::Body => {
            if header.is_some() {
                return Err(service.wrong_client);
            }
            let take = |fields: &Fields, name: &str| find(fields, name).map(str::to_owned);
            let pair = (take(fields, "client_id"), take(fields, "client_secret"));
            fields.retain(|(name, _)| name != "client_id" && name != "client_secret");
            pair
        }
        Secret::Basic => {
            let pair = header.and_then(|value| value.strip_prefix("Basic "));
            let pair = pair.and_then(|pair| STANDARD.decode(pair).ok()).and_then(|pair| String::from_utf8(pair).ok());
            let pair = pair.unwrap_or_default();
            let (id, secret) = pair.split_once(':').unwrap_or_default();
            (Some(id.to_owned()), Some(secret.to_owned()))
        }
    };
    let known = locked(&world.client).accepts("generic", id.as_deref(), secret.as_deref());
    if known { Ok(()) } else { Err(service.wrong_client) }
}

fn body(service: &Service, brought: &Brought) -> Value {
    let mut body = json!({"access_token": brought.access_token, "token_type": "bearer"});
    if let Some(life) = service.life_secs.filter(|_| service.tells_life) {
        body["expires_in"] = life.into();
    }
    if let Some(refresh_token) = &brought.refresh_token {
        body["refresh_token"] = refresh_token.as_str().into();
        if let Some((name, life)) = service.tells_refresh_life {
            body[name] = life.into();
        }
    }
    if let (Some(with_offline), Some(separator)) = (service.tells_scope, service.scope_separator) {
        let named = brought.granted.scopes.iter().rev().filter(|scope| with_offline || *scope != "offline_access");
        body["scope"] = named.cloned().collect::<Vec<_>>().join(&separator.to_string()).into();
    }
    answers::add_extras(service, &brought.granted, &mut body);
    body
}
