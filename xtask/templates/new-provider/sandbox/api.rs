//! The API: who calls, contacts, and errors. REPLACE

use serde_json::{Value, json};

use super::state::User;
use crate::desk::{World, locked};
use crate::http::{Answer, Request};

/// So many on a page, so that tests meet a second one.
const PER_PAGE: usize = 2;

pub(super) fn answer(world: &World, method: &str, path: &[&str], request: &Request) -> Answer {
    let state = locked(&world.@mod@);
    let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
@if oauth@
    let user = token.and_then(|token| state.bearer(token, world.clock.now_ms()));
@end@
@if key@
    let user = token.and_then(|token| state.bearer(token));
@end@
    let Some(user) = user else {
        return error(401, "unauthorized", "The credential is unknown or has ended");
    };
    let done = match (method, path) {
        ("GET", ["v1", "me"]) => only(request, &[]).map(|()| me(user)),
        ("GET", ["v1", "contacts"]) => contacts(user.contacts(), request),
        _ => Err(error(404, "not_found", "There is nothing here")),
    };
    done.unwrap_or_else(|refusal| refusal)
}

fn me(user: &User) -> Answer {
    let workspace = json!({"slug": user.workspace, "name": user.workspace_name()});
    let body = json!({"id": user.id, "name": user.name, "email": user.email, "role": "admin", "workspace": workspace});
    Answer::json(200, body)
}

fn contacts(all: &[(u64, &str, &str)], request: &Request) -> Result<Answer, Answer> {
    only(request, &["email", "cursor"])?;
    let wanted = request.param("email").filter(|email| email.contains('@'));
    let wanted = wanted.ok_or_else(|| error(400, "invalid_email", "email is no address"))?;
    let start = match request.param("cursor") {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| error(400, "invalid_cursor", "cursor is not one of ours"))?,
    };
    let found: Vec<Value> = all
        .iter()
        .filter(|(_, _, email)| email.eq_ignore_ascii_case(wanted))
        .map(|(id, name, email)| json!({"id": id, "name": name, "email": email}))
        .collect();
    let end = found.len().min(start + PER_PAGE);
    let next = (end < found.len()).then(|| end.to_string());
    let page = found.get(start..end).unwrap_or_default();
    Ok(Answer::json(200, json!({"contacts": page, "next_cursor": next})))
}

/// No parameter that is not documented, and none twice.
fn only(request: &Request, parameters: &[&str]) -> Result<(), Answer> {
    for (index, (name, _)) in request.query.iter().enumerate() {
        let twice = request.query[..index].iter().any(|(earlier, _)| earlier == name);
        if twice || !parameters.contains(&name.as_str()) {
            return Err(error(400, "invalid_parameter", &format!("unexpected parameter {name}")));
        }
    }
    Ok(())
}

fn error(status: u16, code: &str, message: &str) -> Answer {
    Answer::json(status, json!({"error": {"code": code, "message": message}}))
}
