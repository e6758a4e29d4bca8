//! Agents, groups and contacts.

use serde_json::{Value, json};

use crate::desk::locked;
use crate::freshdesk::api::{Call, not_found};
use crate::freshdesk::data::{Agent, Contact};
use crate::freshdesk::fields::{Wrong, params, refuse};
use crate::freshdesk::lists::Page;
use crate::http::Answer;

/// For administrators.
pub(crate) fn agents(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &["email", "mobile", "phone", "state", "page", "per_page"])?;
    call.needs_admin()?;
    let page = Page::of(call.request, usize::MAX)?;
    let data = locked(&call.account.data);
    let email = call.request.param("email").map(str::to_lowercase);
    let found: Vec<&Agent> = data
        .agents
        .iter()
        .filter(|agent| agent.active && email.as_ref().is_none_or(|email| agent.email == *email))
        .collect();
    Ok(page.answer(call.request, &call.account.url, &found, |agent| agent.to_json()))
}

/// For administrators.
pub(crate) fn groups(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &["page", "per_page"])?;
    call.needs_admin()?;
    let page = Page::of(call.request, usize::MAX)?;
    let data = locked(&call.account.data);
    let named = |id: &i64| json!({"id": id, "name": format!("Team {}", id % 10), "description": null, "agent_ids": []});
    Ok(page.answer(call.request, &call.account.url, &data.group_ids, named))
}

/// Those whose address is not verified are left out, unless they are asked for.
/// <https://developers.freshdesk.com/api/#list_all_contacts>
pub(crate) fn contacts(call: &Call<'_>) -> Result<Answer, Answer> {
    let request = call.request;
    let known =
        ["email", "mobile", "phone", "company_id", "unique_external_id", "state", "updated_since", "page", "per_page"];
    params(request, &known)?;
    let page = Page::of(request, usize::MAX)?;
    let unverified = match request.param("state") {
        None | Some("verified") => false,
        Some("unverified") => true,
        Some("blocked" | "deleted") => return Ok(Answer::json(200, json!([]))),
        Some(_) => {
            let message = "It should be one of these values: 'verified,unverified,blocked,deleted'";
            return Err(refuse(Wrong::value("state", message)));
        }
    };
    let data = locked(&call.account.data);
    let email = request.param("email").map(str::to_lowercase);
    let found: Vec<&Contact> = data
        .contacts
        .iter()
        .filter(|contact| {
            contact.active != unverified
                && email.as_ref().is_none_or(|email| contact.email.as_ref() == Some(email))
                && request.param("phone").is_none_or(|phone| contact.phone.as_deref() == Some(phone))
                && request.param("unique_external_id").is_none_or(|id| contact.external_id.as_deref() == Some(id))
                && ["mobile", "company_id"].iter().all(|name| request.param(name).is_none())
        })
        .collect();
    Ok(page.answer(request, &call.account.url, &found, |contact| contact.to_json()))
}

pub(crate) fn contact(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    let data = locked(&call.account.data);
    let contact = id.parse().ok().and_then(|id| data.contact(id)).ok_or_else(not_found)?;
    Ok(Answer::json(200, contact.to_json()))
}

/// The beginnings of names, as id and name alone.
/// <https://developers.freshdesk.com/api/#search_contacts>
pub(crate) fn autocomplete(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &["term"])?;
    let term = call.request.param("term").filter(|term| !term.trim().is_empty());
    let term = term.ok_or_else(|| refuse(Wrong::missing("term")))?.trim().to_lowercase();
    let data = locked(&call.account.data);
    let begins = |contact: &&Contact| {
        let name = contact.name.to_lowercase();
        name.starts_with(&term) || name.split(' ').any(|word| word.starts_with(&term))
    };
    let found: Vec<Value> =
        data.contacts.iter().filter(begins).map(|contact| json!({"id": contact.id, "name": contact.name})).collect();
    Ok(Answer::json(200, Value::Array(found)))
}
