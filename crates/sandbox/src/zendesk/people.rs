//! `/users`.

use serde_json::{Value, json};

use crate::desk::locked;
use crate::http::Answer;
use crate::zendesk::api::{Call, not_found};
use crate::zendesk::data::anonymous_user;
use crate::zendesk::paging::Offset;
use crate::zendesk::scopes::Scopes;
use crate::zendesk::search::Search;

pub(crate) fn me_anonymous() -> Answer {
    Answer::json(200, json!({"user": anonymous_user()}))
}

/// Open to every user, also to one who is not staff; the scope counts all the same.
pub(crate) fn me(call: &Call<'_>) -> Result<Answer, Answer> {
    match call.needs("users", "read") {
        Err(refusal) if call.caller.role.is_staff() || !has_scope(call) => return Err(refusal),
        _ => {}
    }
    let data = locked(&call.desk.data);
    let user = data.user(call.caller.user_id).ok_or_else(not_found)?;
    Ok(Answer::json(200, json!({"user": user.to_json(&call.desk.url)})))
}

fn has_scope(call: &Call<'_>) -> bool {
    Scopes(call.caller.scope()).allow("users", "read")
}

pub(crate) fn show(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("users", "read")?;
    let data = locked(&call.desk.data);
    let user = id.parse().ok().and_then(|id| data.user(id));
    let user = user.ok_or_else(not_found)?;
    Ok(Answer::json(200, json!({"user": user.to_json(&call.desk.url)})))
}

/// `query` in the search language, or an exact `external_id`.
pub(crate) fn search(call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs("users", "read")?;
    let offset = Offset::of(call.request)?.bounded()?;
    let (query, external_id) = (call.request.param("query"), call.request.param("external_id"));
    let search = Search::parse(query.unwrap_or_default()).map_err(|word| invalid_query(&word))?;
    if query.is_none() && external_id.is_none() {
        return Err(Answer::json(
            400,
            json!({"error": "InvalidParameter", "description": "query or external_id has to be given"}),
        ));
    }
    let data = locked(&call.desk.data);
    let found: Vec<_> = data
        .users
        .iter()
        .filter(|user| {
            search.matches_user(call.caller.user_id, user)
                && external_id.is_none_or(|id| user.external_id.as_deref() == Some(id))
        })
        .collect();
    let body = offset.answer(call.request, &call.desk.url, "users", &found, |user| user.to_json(&call.desk.url));
    Ok(Answer::json(200, Value::Object(body)))
}

pub(crate) fn invalid_query(word: &str) -> Answer {
    Answer::json(422, json!({"error": "invalid", "description": format!("Invalid search: {word}")}))
}
