//! Conversations: lists, search, one of them, and changes.

use serde_json::Value;

use super::api::{Call, bad, error, not_found};
use super::data::{Company, Conversation, Place};
use crate::http::Answer;

const STATUSES: [&str; 4] = ["assigned", "unassigned", "archived", "trashed"];

/// Latest activity first.
fn newest_first(company: &Company) -> Vec<&Conversation> {
    let mut all: Vec<_> = company.conversations.iter().filter(|one| one.merged_into.is_none()).collect();
    all.sort_by_key(|one| std::cmp::Reverse((one.updated_ms, &one.id)));
    all
}

fn is_in(one: &Conversation, status: &str) -> bool {
    match status {
        "assigned" => one.place == Place::Open && one.assignee.is_some(),
        "unassigned" => one.place == Place::Open && one.assignee.is_none(),
        "open" => one.place == Place::Open,
        "archived" => one.place == Place::Archived,
        "trashed" => one.place == Place::Deleted,
        _ => false,
    }
}

pub(super) fn list(call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs("conversations:read", &["limit", "page_token", "q[statuses][]", "sort_by"])?;
    let asked: Vec<&str> = call
        .request
        .query
        .iter()
        .filter(|(name, _)| name == "q[statuses][]")
        .map(|(_, value)| value.as_str())
        .collect();
    if let Some(strange) = asked.iter().find(|status| !STATUSES.contains(status)) {
        return Err(bad(&[format!("query.q.statuses: unknown status {strange}")]));
    }
    let company = call.company();
    let found = newest_first(company).into_iter();
    let found = found.filter(|one| asked.is_empty() || asked.iter().any(|status| is_in(one, status)));
    call.page(found.map(|one| company.show(one, call.state.options.tells_updated_at)).collect())
}

/// Words in subject and messages, and operators; all have to hold.
pub(super) fn search(call: &Call<'_>, query: &str) -> Result<Answer, Answer> {
    call.needs("conversations:read", &["limit", "page_token"])?;
    if query.trim().is_empty() {
        return Err(bad(&["path.query: should not be empty".to_owned()]));
    }
    let company = call.company();
    let fits = |one: &Conversation| query.split_whitespace().all(|term| has(one, term));
    let found = newest_first(company).into_iter().filter(|one| fits(one));
    call.counted_page(found.map(|one| company.show(one, call.state.options.tells_updated_at)).collect())
}

fn has(one: &Conversation, term: &str) -> bool {
    let same = |handle: &str, asked: &str| handle.eq_ignore_ascii_case(asked);
    match term.split_once(':') {
        Some(("is", status)) => is_in(one, status),
        Some(("tag", id)) => one.tags.iter().any(|tag| tag == id),
        Some(("inbox", id)) => one.inbox == id,
        Some(("assignee", id)) => one.assignee.as_deref() == Some(id),
        Some((role @ ("from" | "to" | "recipient"), asked)) => one.messages.iter().any(|message| {
            message.recipients.iter().any(|(_, handle, is)| (role == "recipient" || is == role) && same(handle, asked))
        }),
        _ => {
            let word = term.to_lowercase();
            let said = |text: &str| text.to_lowercase().contains(&word);
            said(&one.subject) || one.messages.iter().any(|message| !message.is_waiting && said(&message.text))
        }
    }
}

/// The conversation, or that it was merged into another one.
pub(super) fn find<'a>(call: &'a Call<'_>, id: &str) -> Result<&'a Conversation, Answer> {
    let found = call.company().conversation(id).ok_or_else(not_found)?;
    match &found.merged_into {
        Some(other) => {
            let rest = call.request.path.iter().skip(2).fold(String::new(), |rest, part| rest + "/" + part);
            let location = format!("{}/conversations/{other}{rest}", call.company().host());
            Err(Answer::empty(301).header("location", location))
        }
        None => Ok(found),
    }
}

pub(super) fn find_mut<'a>(call: &'a mut Call<'_>, id: &str) -> Result<&'a mut Conversation, Answer> {
    find(call, id)?;
    call.company_mut().conversations.iter_mut().find(|one| one.id == id).ok_or_else(not_found)
}

pub(super) fn show(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("conversations:read", &[])?;
    let shown = call.company().show(find(call, id)?, call.state.options.tells_updated_at);
    Ok(Answer::json(200, shown))
}

/// What is given replaces what is there; 204.
pub(super) fn update(call: &mut Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("conversations:write", &[])?;
    find(call, id)?;
    let body = call.body(&["assignee_id", "inbox_id", "status", "status_id", "tag_ids", "custom_fields"])?;
    let company = call.company();
    if body.contains_key("status") && body.contains_key("status_id") {
        return Err(bad(&["body: status and status_id exclude each other".to_owned()]));
    }
    let mut assignee = None;
    if let Some(given) = body.get("assignee_id") {
        let known = |id: &str| company.teammates.iter().any(|one| one.id == id);
        assignee = Some(match given {
            Value::Null => None,
            Value::String(id) if known(id) => Some(id.clone()),
            _ => return Err(bad(&["body.assignee_id: unknown teammate".to_owned()])),
        });
    }
    let place = match body.get("status").map(|status| status.as_str().unwrap_or_default()) {
        None => None,
        Some("open") => Some(Place::Open),
        Some("archived") => Some(Place::Archived),
        Some("deleted" | "spam") => Some(Place::Deleted),
        Some(_) => return Err(bad(&["body.status: should be archived, open, deleted or spam".to_owned()])),
    };
    let ticket = match body.get("status_id") {
        None => None,
        Some(_) if !company.ticketing => return Err(bad(&["body.status_id: ticketing is not enabled".to_owned()])),
        Some(id) => {
            let found = company.statuses.iter().find(|one| Some(one.id.as_str()) == id.as_str());
            Some(found.cloned().ok_or_else(|| bad(&["body.status_id: unknown status".to_owned()]))?)
        }
    };
    let tags = body.get("tag_ids").map(|ids| known_tags(company, ids)).transpose()?;
    let now_ms = call.now_ms;
    let one = find_mut(call, id)?;
    if let Some(assignee) = assignee {
        one.assignee = assignee;
    }
    if let Some(place) = place {
        one.place = place;
    }
    if let Some(ticket) = ticket {
        one.place = if ticket.category == "resolved" { Place::Archived } else { Place::Open };
        one.status_id = Some(ticket.id);
    }
    if let Some(tags) = tags {
        one.tags = tags;
    }
    one.updated_ms = now_ms;
    Ok(Answer::empty(204))
}

fn known_tags(company: &Company, ids: &Value) -> Result<Vec<String>, Answer> {
    let ids: Option<Vec<String>> =
        ids.as_array().and_then(|ids| ids.iter().map(|id| id.as_str().map(str::to_owned)).collect());
    let ids = ids.ok_or_else(|| bad(&["body.tag_ids: should be a list of ids".to_owned()]))?;
    match ids.iter().find(|id| !company.tags.iter().any(|tag| tag.id == **id)) {
        Some(strange) => Err(error(404, "Not found", &format!("Unknown tag {strange}"), &[])),
        None => Ok(ids),
    }
}

/// Adds or removes some; 204.
pub(super) fn tag(call: &mut Call<'_>, id: &str, adds: bool) -> Result<Answer, Answer> {
    call.needs("conversations:write", &[])?;
    find(call, id)?;
    let body = call.body(&["tag_ids"])?;
    let ids = known_tags(call.company(), body.get("tag_ids").unwrap_or(&Value::Null))?;
    let now_ms = call.now_ms;
    let one = find_mut(call, id)?;
    one.tags.retain(|tag| !ids.contains(tag));
    if adds {
        one.tags.extend(ids);
    }
    one.updated_ms = now_ms;
    Ok(Answer::empty(204))
}
