//! Who and what there is to look up.

use serde_json::{Value, json};

use super::api::{Call, not_found};
use super::data::Company;
use crate::http::Answer;

const PAGE: [&str; 2] = ["limit", "page_token"];

/// The company, never a person; it needs no permission.
pub(super) fn me(call: &Call<'_>) -> Answer {
    let company = call.company();
    let own = format!("{}/me", company.host());
    Answer::json(200, json!({"_links": {"self": own}, "id": company.id, "name": company.name}))
}

/// By id, or by an address: `alt:email:…`.
fn is_named(asked: &str, id: &str, emails: &[&str]) -> bool {
    match asked.strip_prefix("alt:email:") {
        Some(email) => emails.iter().any(|one| one.eq_ignore_ascii_case(email)),
        None => asked == id,
    }
}

pub(super) fn contact(call: &Call<'_>, asked: &str) -> Result<Answer, Answer> {
    call.needs("contacts:read", &[])?;
    let company = call.company();
    let found = company.contacts.iter().find(|one| {
        let emails = one.handles.iter().filter(|(source, _)| source == "email").map(|(_, handle)| handle.as_str());
        is_named(asked, &one.id, &emails.collect::<Vec<_>>())
    });
    found.map(|one| Answer::json(200, one.to_json(company))).ok_or_else(not_found)
}

pub(super) fn teammate(call: &Call<'_>, asked: &str) -> Result<Answer, Answer> {
    call.needs("teammates:read", &[])?;
    let company = call.company();
    let found = company.teammates.iter().find(|one| is_named(asked, &one.id, &[&one.email]));
    found.map(|one| Answer::json(200, one.to_json(company))).ok_or_else(not_found)
}

pub(super) fn teammates(call: &Call<'_>) -> Result<Answer, Answer> {
    all(call, "teammates:read", |company| company.teammates.iter().map(|one| one.to_json(company)).collect())
}

pub(super) fn tags(call: &Call<'_>) -> Result<Answer, Answer> {
    all(call, "tags:read", |company| company.tags.iter().map(|one| one.to_json(company)).collect())
}

pub(super) fn inboxes(call: &Call<'_>) -> Result<Answer, Answer> {
    all(call, "inboxes:read", |company| company.inboxes.iter().map(|one| one.to_json(company)).collect())
}

pub(super) fn channels(call: &Call<'_>, inbox: &str) -> Result<Answer, Answer> {
    if !call.company().inboxes.iter().any(|one| one.id == inbox) {
        return Err(not_found());
    }
    all(call, "channels:read", |company| {
        let own = company.inboxes.iter().filter(|one| one.id == inbox);
        own.map(|one| one.channel_json(company)).collect()
    })
}

fn all(call: &Call<'_>, permission: &str, of: impl Fn(&Company) -> Vec<Value>) -> Result<Answer, Answer> {
    call.needs(permission, &PAGE)?;
    call.page(of(call.company()))
}

/// 404 where ticketing is off.
pub(super) fn statuses(call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs("statuses:read", &[])?;
    let company = call.company();
    if !company.ticketing {
        return Err(not_found());
    }
    let all = company.statuses.iter().map(|one| json!({"id": one.id, "name": one.name, "category": one.category}));
    Ok(Answer::json(
        200,
        json!({"_links": {"self": format!("{}/company/statuses", company.host())},
        "_results": all.collect::<Vec<_>>()}),
    ))
}
