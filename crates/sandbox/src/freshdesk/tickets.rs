//! Reading tickets and conversations.

use chrono::DateTime;
use serde_json::{Value, json};

use crate::clock::iso;
use crate::desk::locked;
use crate::freshdesk::api::{Call, access_denied, not_found};
use crate::freshdesk::data::{Conversation, Data, Ticket};
use crate::freshdesk::fields::{Wrong, includes, params, refuse};
use crate::freshdesk::lists::Page;
use crate::freshdesk::query::Query;
use crate::http::Answer;

/// A list shows only what was made in so many days, unless it is asked for more.
const USUAL_MS: i64 = 30 * 24 * 3_600_000;
const LAST_LIST_PAGE: usize = 300;
const LAST_SEARCH_PAGE: usize = 10;
/// So many conversations come along with a ticket.
const EMBEDDED: usize = 10;

/// <https://developers.freshdesk.com/api/#list_all_tickets>
pub(crate) fn list(call: &Call<'_>) -> Result<Answer, Answer> {
    let request = call.request;
    params(
        request,
        &[
            "filter",
            "requester_id",
            "email",
            "unique_external_id",
            "company_id",
            "updated_since",
            "order_by",
            "order_type",
            "include",
            "page",
            "per_page",
        ],
    )?;
    let page = Page::of(request, LAST_LIST_PAGE)?;
    let included = includes(request, &["requester", "stats", "company", "description"])?;
    let data = locked(&call.account.data);
    let since = match request.param("updated_since") {
        None => None,
        Some(text) => Some(DateTime::parse_from_rfc3339(text).map_err(|_| {
            refuse(Wrong::new(
                "updated_since",
                "invalid_date",
                "It should be in the 'combined date and time ISO8601' format",
            ))
        })?),
    };
    let requester = requester(call, &data)?;
    let place: fn(&Ticket) -> bool = match request.param("filter") {
        Some("spam") => |ticket| ticket.spam && !ticket.deleted,
        Some("deleted") => |ticket| ticket.deleted,
        _ => Ticket::is_usual,
    };
    let mut found: Vec<&Ticket> = data
        .tickets
        .values()
        .filter(|ticket| {
            place(ticket)
                && call.agent.sees(ticket)
                && requester.is_none_or(|id| ticket.requester_id == id)
                && match since {
                    Some(since) => ticket.updated_ms >= since.timestamp_millis(),
                    None => ticket.created_ms >= call.now_ms - USUAL_MS,
                }
        })
        .collect();
    match request.param("filter") {
        None | Some("spam" | "deleted") => {}
        Some("new_and_my_open") => found.retain(|ticket| {
            ticket.status == 2 && ticket.responder_id.is_none_or(|responder| responder == call.agent.id)
        }),
        Some("watching") => found.clear(),
        Some(_) => {
            let message = "It should be one of these values: 'new_and_my_open,watching,spam,deleted'";
            return Err(refuse(Wrong::value("filter", message)));
        }
    }
    let rank = |ticket: &Ticket| match request.param("order_by") {
        None | Some("created_at") => Ok(ticket.created_ms),
        Some("updated_at") => Ok(ticket.updated_ms),
        Some("status") => Ok(ticket.status),
        Some("due_by") => Ok(0),
        Some(_) => Err(refuse(Wrong::value(
            "order_by",
            "It should be one of these values: 'due_by,created_at,updated_at,status'",
        ))),
    };
    let mut ranked = found.into_iter().map(|ticket| Ok((rank(ticket)?, ticket))).collect::<Result<Vec<_>, Answer>>()?;
    ranked.sort_by_key(|(rank, ticket)| (*rank, ticket.id));
    match request.param("order_type") {
        None | Some("desc") => ranked.reverse(),
        Some("asc") => {}
        Some(_) => return Err(refuse(Wrong::value("order_type", "It should be one of these values: 'asc,desc'"))),
    }
    Ok(page.answer(request, &call.account.url, &ranked, |(_, ticket)| {
        let mut json = if included.contains(&"description") { ticket.to_whole_json() } else { ticket.to_json() };
        if included.contains(&"requester") {
            json["requester"] = whom(&data, ticket);
        }
        if included.contains(&"stats") {
            json["stats"] = stats(ticket);
        }
        json
    }))
}

/// Whose tickets are asked for; an address that nobody has is refused.
fn requester(call: &Call<'_>, data: &Data) -> Result<Option<i64>, Answer> {
    let nobody = |field: &str| refuse(Wrong::value(field, format!("There is no contact matching the given {field}")));
    if let Some(email) = call.request.param("email") {
        let known = data.contacts.iter().find(|contact| contact.email.as_deref() == Some(&email.to_lowercase()));
        return known.map(|contact| Some(contact.id)).ok_or_else(|| nobody("email"));
    }
    match call.request.param("requester_id") {
        None => Ok(None),
        Some(text) => {
            let id: i64 = text.parse().map_err(|_| {
                refuse(Wrong::new("requester_id", "datatype_mismatch", "It should be a/an Positive Integer"))
            })?;
            data.contact(id).map(|contact| Some(contact.id)).ok_or_else(|| nobody("requester_id"))
        }
    }
}

/// Newest first; the documentation names no order.
pub(crate) fn search(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &["query", "page"])?;
    let page = Page::fixed(call.request, LAST_SEARCH_PAGE)?;
    let data = locked(&call.account.data);
    let query = Query::parse(call.request.param("query"), &data.custom_fields)?;
    let found: Vec<&Ticket> = data
        .tickets
        .values()
        .rev()
        .filter(|ticket| ticket.is_usual() && call.agent.sees(ticket) && query.matches(ticket))
        .collect();
    let results: Vec<Value> = page.slice(&found).iter().map(|ticket| ticket.to_json()).collect();
    Ok(Answer::json(200, json!({"total": found.len(), "results": results})))
}

/// <https://developers.freshdesk.com/api/#view_a_ticket>
pub(crate) fn view(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &["include"])?;
    let included = includes(call.request, &["conversations", "requester", "company", "stats"])?;
    let data = locked(&call.account.data);
    let ticket = find(call, &data, id)?;
    let mut json = ticket.to_whole_json();
    if included.contains(&"requester") {
        json["requester"] = whom(&data, ticket);
    }
    if included.contains(&"conversations") {
        json["conversations"] = ticket.conversations.iter().take(EMBEDDED).map(|one| one.to_json(ticket.id)).collect();
    }
    Ok(Answer::json(200, json))
}

/// Oldest first, without the first message.
pub(crate) fn conversations(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &["page", "per_page"])?;
    let page = Page::of(call.request, usize::MAX)?;
    let data = locked(&call.account.data);
    let ticket = find(call, &data, id)?;
    let all: Vec<&Conversation> = ticket.conversations.iter().collect();
    Ok(page.answer(call.request, &call.account.url, &all, |one| one.to_json(ticket.id)))
}

pub(crate) fn find<'a>(call: &Call<'_>, data: &'a Data, id: &str) -> Result<&'a Ticket, Answer> {
    let id: i64 = id.parse().map_err(|_| not_found())?;
    let ticket = data.tickets.get(&id).ok_or_else(not_found)?;
    if call.agent.sees(ticket) { Ok(ticket) } else { Err(access_denied()) }
}

/// <https://developers.freshdesk.com/api/#list_all_tickets>, `include=stats`
fn stats(ticket: &Ticket) -> Value {
    let last = |incoming: bool| {
        let said = ticket.conversations.iter().rev().find(|one| one.incoming == incoming && !one.private);
        said.map(|one| iso(one.created_ms))
    };
    json!({
        "agent_responded_at": last(false), "requester_responded_at": last(true), "first_responded_at": null,
        "status_updated_at": iso(ticket.updated_ms), "reopened_at": null, "resolved_at": null, "closed_at": null,
        "pending_since": null,
    })
}

fn whom(data: &Data, ticket: &Ticket) -> Value {
    data.contact(ticket.requester_id).map_or(Value::Null, crate::freshdesk::data::Contact::to_requester)
}
