//! Tickets and messages: what is read.

use serde_json::Value;

use super::api::Call;
use super::error::{not_found, refused};
use super::lists::{OF_ALL, Page, params};
use crate::desk::locked;
use crate::http::Answer;

/// There is no filter for words, status, priority or tags; what was thrown away is shown unless that is taken back.
/// <https://developers.gorgias.com/reference/list-tickets>
pub(super) fn list(call: &Call<'_>) -> Result<Answer, Answer> {
    let own = ["customer_id", "external_id", "view_id", "rule_id", "ticket_ids", "trashed"];
    let known: Vec<&str> = OF_ALL.into_iter().chain(own).collect();
    params(call.request, &known)?;
    call.needs("tickets:read")?;
    let page = Page::of(call.request, &["created_datetime", "updated_datetime"])?;
    let number = |name: &str| match call.request.param(name) {
        None => Ok(None),
        Some(text) => text.parse::<i64>().map(Some).map_err(|_| refused(name, "Not a valid integer.")),
    };
    let (customer, view, rule) = (number("customer_id")?, number("view_id")?, number("rule_id")?);
    let trashed = match call.request.param("trashed") {
        None | Some("true") => true,
        Some("false") => false,
        Some(_) => return Err(refused("trashed", "Not a valid boolean.")),
    };
    let data = locked(&call.place.data);
    let status = match view {
        None => None,
        Some(view) => Some(data.views.get(&view).ok_or_else(|| not_found("View"))?),
    };
    let customer = customer.filter(|_| !call.rules.ignores_filters);
    let found = data.tickets.values().filter(|ticket| {
        (trashed || ticket["trashed_datetime"].is_null())
            && customer.is_none_or(|id| ticket["customer"]["id"] == id)
            && call.request.param("external_id").is_none_or(|id| ticket["external_id"] == id)
            && status.is_none_or(|status| ticket["status"] == status.as_str())
            && rule.is_none()
    });
    Ok(page.answer("/api/tickets", found.cloned().collect()))
}

/// With its messages.
pub(super) fn one(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    call.needs("tickets:read")?;
    let data = locked(&call.place.data);
    let whole = id.parse().ok().and_then(|id| data.whole_ticket(id)).ok_or_else(|| not_found("Ticket"))?;
    Ok(Answer::json(200, whole))
}

/// <https://developers.gorgias.com/reference/list-messages>
pub(super) fn messages(call: &Call<'_>) -> Result<Answer, Answer> {
    let known: Vec<&str> = OF_ALL.into_iter().chain(["ticket_id"]).collect();
    params(call.request, &known)?;
    call.needs("tickets:read")?;
    let page = Page::of(call.request, &["created_datetime"])?;
    let ticket = call.request.param("ticket_id").map(str::parse::<i64>).transpose();
    let ticket = ticket.map_err(|_| refused("ticket_id", "Not a valid integer."))?;
    let ticket = ticket.filter(|_| !call.rules.ignores_filters);
    let data = locked(&call.place.data);
    let found: Vec<Value> = data
        .messages
        .iter()
        .filter(|message| ticket.is_none_or(|ticket| message["ticket_id"] == ticket))
        .cloned()
        .collect();
    Ok(page.answer("/api/messages", found))
}
