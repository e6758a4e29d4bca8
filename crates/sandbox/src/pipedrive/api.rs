//! The API: who calls, persons, and errors.

use serde_json::{Value, json};

use super::state::User;
use crate::desk::{World, locked};
use crate::http::{Answer, Request};

/// So many on a page, so that tests meet a second one.
const PER_PAGE: usize = 2;

pub(super) fn answer(world: &World, method: &str, path: &[&str], request: &Request) -> Answer {
    let state = locked(&world.pipedrive);
    let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let user = token.and_then(|token| state.bearer(token, world.clock.now_ms()));
    let Some(user) = user else {
        return error(401, "unauthorized access");
    };
    let done = match (method, path) {
        ("GET", ["v1", "users", "me"]) => only(request, &[]).map(|()| me(user)),
        ("GET", ["api", "v2", "persons", "search"]) => search(user.persons(), request),
        _ => Err(error(404, "Not found")),
    };
    done.unwrap_or_else(|refusal| refusal)
}

/// <https://pipedrive.readme.io/docs/marketplace-getting-user-data>
fn me(user: &User) -> Answer {
    let data = json!({
        "id": user.id, "name": user.name, "email": user.email, "is_admin": 1, "active_flag": true,
        "company_id": 7_000 + user.id, "company_name": user.company_name(), "company_domain": user.company,
    });
    Answer::json(200, json!({"success": true, "data": data}))
}

/// By a whole address alone, which is what we imitate of it.
/// <https://github.com/pipedrive/client-php/blob/master/docs/versions/v2/Api/PersonsApi.md>
fn search(all: &[(u64, &str, &str)], request: &Request) -> Result<Answer, Answer> {
    only(request, &["term", "fields", "exact_match", "limit", "cursor"])?;
    if request.param("fields") != Some("email") || request.param("exact_match") != Some("true") {
        return Err(error(400, "this sandbox searches by fields=email and exact_match=true"));
    }
    let wanted = request.param("term").filter(|term| !term.is_empty());
    let wanted = wanted.ok_or_else(|| error(400, "term is required"))?;
    let start = match request.param("cursor") {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| error(400, "cursor is invalid"))?,
    };
    let found: Vec<Value> = all
        .iter()
        .filter(|(_, _, email)| email.eq_ignore_ascii_case(wanted))
        .map(|(id, name, email)| {
            let organization = json!({"id": 5, "name": "Castellan Ltd", "address": null});
            let item = json!({
                "id": id, "type": "person", "name": name, "phones": [], "emails": [email], "organization": organization,
            });
            json!({"result_score": 0.9, "item": item})
        })
        .collect();
    let end = found.len().min(start + PER_PAGE);
    let next = (end < found.len()).then(|| end.to_string());
    let page = found.get(start..end).unwrap_or_default();
    let more = json!({"next_cursor": next});
    Ok(Answer::json(200, json!({"success": true, "data": {"items": page}, "additional_data": more})))
}

/// No parameter that is not documented, and none twice.
fn only(request: &Request, parameters: &[&str]) -> Result<(), Answer> {
    for (index, (name, _)) in request.query.iter().enumerate() {
        let twice = request.query[..index].iter().any(|(earlier, _)| earlier == name);
        if twice || !parameters.contains(&name.as_str()) {
            return Err(error(400, &format!("unexpected parameter {name}")));
        }
    }
    Ok(())
}

fn error(status: u16, error: &str) -> Answer {
    Answer::json(status, json!({"success": false, "error": error, "errorCode": status}))
}
