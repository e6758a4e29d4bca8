//! Customers: by filters, by id, and by words.

use serde_json::{Value, json};

use super::api::Call;
use super::changes::body;
use super::data::is_same;
use super::error::{not_found, refused};
use super::lists::{OF_ALL, Page, params};
use crate::desk::locked;
use crate::http::Answer;

/// <https://developers.gorgias.com/reference/list-customers>
pub(super) fn list(call: &Call<'_>) -> Result<Answer, Answer> {
    let own = ["email", "name", "external_id", "channel_type", "channel_address", "language", "timezone"];
    let known: Vec<&str> = OF_ALL.into_iter().chain(own).collect();
    params(call.request, &known)?;
    call.needs("customers:read")?;
    let page = Page::of(call.request, &["created_datetime", "updated_datetime"])?;
    let asked = |name: &str| call.request.param(name).filter(|_| !call.rules.ignores_filters);
    let named = |customer: &Value, name: &str| {
        let own = customer["name"].as_str().unwrap_or_default().to_lowercase();
        let name = name.to_lowercase();
        if call.rules.finds_parts_of_names { own.contains(&name) } else { own == name }
    };
    let has_channel = |customer: &Value, field: &str, text: &str| {
        customer["channels"].as_array().into_iter().flatten().any(|channel| is_same(&channel[field], text))
    };
    let data = locked(&call.place.data);
    let found = data.customers.iter().filter(|customer| {
        asked("email").is_none_or(|email| is_same(&customer["email"], email))
            && asked("name").is_none_or(|name| named(customer, name))
            && asked("external_id").is_none_or(|id| customer["external_id"] == id)
            && asked("channel_type").is_none_or(|kind| has_channel(customer, "type", kind))
            && asked("channel_address").is_none_or(|address| has_channel(customer, "address", address))
    });
    Ok(page.answer("/api/customers", found.cloned().collect()))
}

pub(super) fn one(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    call.needs("customers:read")?;
    let data = locked(&call.place.data);
    let customer = id.parse().ok().and_then(|id| data.customer(id)).ok_or_else(|| not_found("Customer"))?;
    Ok(Answer::json(200, customer.clone()))
}

/// Words in names and addresses. There is no type for tickets.
/// <https://developers.gorgias.com/reference/search>
pub(super) fn search(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    call.needs("customers:read")?;
    let body = body(call.request, &["type", "query", "size"])?;
    if body.get("type").and_then(Value::as_str) != Some("customer") {
        return Err(refused("type", "Must be one of: customer."));
    }
    let size = match body.get("size") {
        None => 10,
        Some(size) => size
            .as_u64()
            .and_then(|size| usize::try_from(size).ok())
            .filter(|size| (1..=50).contains(size))
            .ok_or_else(|| refused("size", "Must be greater than or equal to 1 and less than or equal to 50."))?,
    };
    let query = body.get("query").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let data = locked(&call.place.data);
    let fits = |customer: &&Value| {
        ["name", "email"].iter().any(|field| {
            let text = customer[*field].as_str().unwrap_or_default().to_lowercase();
            !query.is_empty() && text.contains(&query)
        })
    };
    let brief = |customer: &Value| json!({"id": customer["id"], "name": customer["name"], "email": customer["email"]});
    let found: Vec<Value> = data.customers.iter().filter(fits).take(size).map(brief).collect();
    Ok(Answer::json(200, if call.rules.wraps_search { json!({"data": found}) } else { Value::Array(found) }))
}
