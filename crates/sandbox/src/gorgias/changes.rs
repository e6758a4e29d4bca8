//! Tickets and messages: what is written. Nothing here is idempotent, and nothing is guarded.

use serde_json::{Map, Value, json};

use super::api::Call;
use super::data::{Data, is_same, moment, person};
use super::error::{Wrong, error, not_found, refused};
use super::lists::params;
use super::seed;
use crate::desk::locked;
use crate::http::{Answer, Request, escape};

type Fields = Map<String, Value>;

const LONGEST_SUBJECT: usize = 998;
const MOST_MESSAGES: usize = 500;
const STATUSES: [&str; 2] = ["open", "closed"];
const PRIORITIES: [&str; 4] = ["critical", "high", "normal", "low"];
/// What both making and changing a ticket take.
const TICKET: &[&str] = &[
    "assignee_team",
    "assignee_user",
    "channel",
    "customer",
    "external_id",
    "from_agent",
    "language",
    "meta",
    "priority",
    "spam",
    "status",
    "subject",
    "tags",
    "via",
];
const MESSAGE: &[&str] = &[
    "attachments",
    "body_html",
    "body_text",
    "channel",
    "created_datetime",
    "external_id",
    "from_agent",
    "headers",
    "mention_ids",
    "meta",
    "public",
    "receiver",
    "sender",
    "sent_datetime",
    "source",
    "subject",
    "via",
];

/// The body as an object of known fields.
pub(super) fn body(request: &Request, known: &[&str]) -> Result<Fields, Answer> {
    if !request.is_json() {
        return Err(error(400, "The request has to be JSON."));
    }
    let Ok(Value::Object(body)) = serde_json::from_slice(&request.body) else {
        return Err(error(400, "Failed to decode JSON object."));
    };
    check_fields("", &body, known)?;
    Ok(body)
}

/// Unknown ones are refused.
fn check_fields(place: &str, fields: &Fields, known: &[&str]) -> Result<(), Answer> {
    let mut wrong = Wrong::default();
    for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
        wrong.add(&format!("{place}{name}"), "Unknown field.");
    }
    wrong.refuse()
}

/// <https://developers.gorgias.com/reference/create-ticket>
pub(super) fn create(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    call.needs("tickets:write")?;
    let known: Vec<&str> = TICKET.iter().copied().chain(["messages", "created_datetime"]).collect();
    let body = body(call.request, &known)?;
    let messages =
        body.get("messages").and_then(Value::as_array).filter(|all| (1..=MOST_MESSAGES).contains(&all.len()));
    let messages = messages.ok_or_else(|| refused("messages", "Shorter than minimum length 1."))?;
    let said: Vec<&Fields> = messages.iter().filter_map(Value::as_object).collect();
    if said.len() != messages.len() {
        return Err(refused("messages", "Invalid type."));
    }
    for message in &said {
        check_message("messages.", message)?;
    }
    let mut data = locked(&call.place.data);
    let values = values(&mut data, &body)?;
    let customer = match body.get("customer") {
        Some(customer) => customer_of(call, &mut data, customer)?,
        None => return Err(refused("customer", "Missing data for required field.")),
    };
    data.last_ticket += 1;
    let id = data.last_ticket;
    let mut ticket = seed::blank(id, call.now_ms);
    ticket["customer"] = person(&customer);
    for (name, value) in values {
        ticket[name] = value;
    }
    data.tickets.insert(id, ticket);
    for message in said {
        add(call, &mut data, id, message)?;
    }
    if let (Some(status), Some(ticket)) = (body.get("status"), data.tickets.get_mut(&id)) {
        ticket["status"] = status.clone();
    }
    Ok(Answer::json(201, data.whole_ticket(id).unwrap_or_default()))
}

/// <https://developers.gorgias.com/reference/update-ticket>
pub(super) fn update(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    call.needs("tickets:write")?;
    let known: Vec<&str> =
        TICKET.iter().copied().chain(["is_unread", "snooze_datetime", "trashed_datetime", "custom_fields"]).collect();
    let body = body(call.request, &known)?;
    let mut data = locked(&call.place.data);
    let id = ticket_id(&data, id)?;
    let mut values = values(&mut data, &body)?;
    for name in ["is_unread", "snooze_datetime", "trashed_datetime", "custom_fields"] {
        if let Some(value) = body.get(name) {
            values.push((name, value.clone()));
        }
    }
    if let Some(customer) = body.get("customer") {
        values.push(("customer", person(&customer_of(call, &mut data, customer)?)));
    }
    if let Some(status) = body.get("status") {
        let closed = if status == "closed" { json!(moment(call.now_ms)) } else { Value::Null };
        values.push(("closed_datetime", closed));
    }
    if let Some(ticket) = data.tickets.get_mut(&id) {
        for (name, value) in values {
            ticket[name] = value;
        }
    }
    data.touch(id, call.now_ms);
    Ok(if call.rules.answers_changes {
        Answer::json(200, data.tickets.get(&id).cloned().unwrap_or_default())
    } else {
        Answer::empty(202)
    })
}

/// `POST` adds, `PUT` replaces, `DELETE` removes; labels that nobody has yet are made.
pub(super) fn tags(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    call.needs("tickets:write")?;
    let body = body(call.request, &["ids", "names"])?;
    let mut wanted: Vec<String> = match body.get("names").map(|names| serde_json::from_value(names.clone())) {
        Some(Ok(names)) => names,
        None => Vec::new(),
        Some(Err(_)) => return Err(refused("names", "Invalid type.")),
    };
    if wanted.is_empty() && !body.contains_key("ids") {
        return Err(refused("names", "Missing data for required field."));
    }
    let mut data = locked(&call.place.data);
    let id = ticket_id(&data, id)?;
    let known = |data: &Data, id: &Value| data.tags.iter().find(|(_, own)| id == **own).map(|(name, _)| name.clone());
    for tag in body.get("ids").and_then(Value::as_array).into_iter().flatten() {
        wanted.push(known(&data, tag).ok_or_else(|| refused("ids", "Unknown tag."))?);
    }
    let there = |data: &Data| data.tickets[&id]["tags"].as_array().cloned().unwrap_or_default();
    let is_named = |tag: &Value| tag["name"].as_str().is_some_and(|name| wanted.iter().any(|own| own == name));
    let after = match call.request.method.as_str() {
        "DELETE" => there(&data).into_iter().filter(|tag| !is_named(tag)).collect(),
        method => {
            let mut all = if method == "PUT" { Vec::new() } else { there(&data) };
            for name in &wanted {
                let tag = data.tag(name);
                if !all.iter().any(|own| own["name"] == tag["name"]) {
                    all.push(tag);
                }
            }
            all
        }
    };
    if let Some(ticket) = data.tickets.get_mut(&id) {
        ticket["tags"] = Value::Array(after.clone());
    }
    data.touch(id, call.now_ms);
    Ok(match call.request.method.as_str() {
        "DELETE" => Answer::empty(204),
        "PUT" => Answer::empty(202),
        _ => Answer::json(201, Value::Array(after)),
    })
}

/// The answer comes before anything is sent.
/// <https://developers.gorgias.com/reference/create-ticket-message>
pub(super) fn send(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &["action"])?;
    call.needs("tickets:write")?;
    let body = body(call.request, MESSAGE)?;
    check_message("", &body)?;
    let mut data = locked(&call.place.data);
    let id = ticket_id(&data, id)?;
    if call.rules.quota_used_up && body.get("public") != Some(&Value::Bool(false)) {
        let msg = "You do not have enough permissions to perform this action. Messaging quota exceeded.";
        return Err(error(403, msg));
    }
    let message = add(call, &mut data, id, &body)?;
    Ok(Answer::json(201, message))
}

/// Answers the message as it is before it is sent.
fn add(call: &Call<'_>, data: &mut Data, ticket_id: i64, body: &Fields) -> Result<Value, Answer> {
    let from_agent = body.get("from_agent") == Some(&Value::Bool(true));
    let channel = body.get("channel").and_then(Value::as_str).unwrap_or_default();
    let customer = data.tickets[&ticket_id]["customer"].clone();
    let text = match body.get("body_text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => body.get("body_html").and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    let user = call.user.clone();
    let note = channel == "internal-note";
    let said = seed::Said { channel, by_agent: from_agent, note, text: &text };
    let mut message = seed::message(data, ticket_id, &said, &customer, &user, call.now_ms);
    for name in ["source", "subject", "via", "external_id", "meta", "public"] {
        if let Some(value) = body.get(name) {
            message[name] = value.clone();
        }
    }
    if !body.contains_key("source") && !note {
        message["source"] = json!({"type": channel, "from": {}, "to": []});
    }
    message["body_html"] = body.get("body_html").cloned().unwrap_or_else(|| json!(escape(&text)));
    if let Some(sender) = body.get("sender") {
        message["sender"] = sender_of(data, sender, from_agent)?;
    }
    if let Some(receiver) = body.get("receiver").filter(|receiver| !receiver.is_null()) {
        let known = receiver["id"].as_i64().and_then(|id| data.customer(id)).map(person);
        message["receiver"] = known.ok_or_else(|| refused("receiver", "Customer does not exist."))?;
    }
    let mut answer = message.clone();
    let is_import = body.contains_key("sent_datetime");
    if from_agent && !note && !is_import {
        answer["sent_datetime"] = Value::Null;
        let from = &message["source"]["from"]["address"];
        let ours = data.addresses.iter().any(|own| is_same(from, own));
        let has_to = message["source"]["to"].as_array().is_some_and(|to| !to.is_empty());
        if channel == "email" && !(ours && has_to) {
            message["sent_datetime"] = Value::Null;
            message["failed_datetime"] = json!(moment(call.now_ms));
            message["last_sending_error"] = json!({"error": "There is no integration for this address."});
        }
    }
    data.add_message(ticket_id, message, call.now_ms);
    Ok(answer)
}

fn check_message(place: &str, body: &Fields) -> Result<(), Answer> {
    check_fields(place, body, MESSAGE)?;
    let mut wrong = Wrong::default();
    for name in ["channel", "from_agent", "via"] {
        if body.get(name).is_none_or(Value::is_null) {
            wrong.add(&format!("{place}{name}"), "Missing data for required field.");
        }
    }
    let text = |name: &str| body.get(name).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty());
    if !text("body_text") && !text("body_html") {
        wrong.add(&format!("{place}body_text"), "A message has to say something.");
    }
    let note = body.get("channel").is_some_and(|channel| channel == "internal-note");
    if note && body.get("public") != Some(&Value::Bool(false)) {
        wrong.add(&format!("{place}public"), "An internal note is not public.");
    }
    if body.get("from_agent").is_some_and(|from_agent| !from_agent.is_boolean()) {
        wrong.add(&format!("{place}from_agent"), "Not a valid boolean.");
    }
    wrong.refuse()
}

/// What a body says of a ticket itself.
fn values(data: &mut Data, body: &Fields) -> Result<Vec<(&'static str, Value)>, Answer> {
    let mut wrong = Wrong::default();
    let one_of = |name: &str, allowed: &[&str], wrong: &mut Wrong| {
        if body.get(name).is_some_and(|value| !value.as_str().is_some_and(|word| allowed.contains(&word))) {
            wrong.add(name, &format!("Must be one of: {}.", allowed.join(", ")));
        }
    };
    one_of("status", &STATUSES, &mut wrong);
    one_of("priority", &PRIORITIES, &mut wrong);
    let subject = body.get("subject").and_then(Value::as_str);
    if subject.is_some_and(|subject| subject.chars().count() > LONGEST_SUBJECT) {
        wrong.add("subject", "Longer than maximum length 998.");
    }
    wrong.refuse()?;
    let mut values = Vec::new();
    for name in ["status", "priority", "subject", "channel", "via", "external_id", "language", "meta", "spam"] {
        if let Some(value) = body.get(name) {
            values.push((name, value.clone()));
        }
    }
    if let Some(user) = body.get("assignee_user") {
        let known = user["id"].as_i64().and_then(|id| data.user(id)).map(super::data::User::to_person);
        let unknown = || refused("assignee_user", "User does not exist.");
        values.push(("assignee_user", if user.is_null() { Value::Null } else { known.ok_or_else(unknown)? }));
    }
    if let Some(team) = body.get("assignee_team") {
        let known = data.teams.iter().find(|own| own["id"] == team["id"]).cloned();
        let unknown = || refused("assignee_team", "Team does not exist.");
        values.push(("assignee_team", if team.is_null() { Value::Null } else { known.ok_or_else(unknown)? }));
    }
    if let Some(tags) = body.get("tags") {
        let names = tags.as_array().map(|tags| tags.iter().map(|tag| tag["name"].as_str()).collect::<Option<Vec<_>>>());
        let names = names.flatten().ok_or_else(|| refused("tags", "Invalid type."))?;
        let tags = names.into_iter().map(|name| data.tag(name)).collect();
        values.push(("tags", Value::Array(tags)));
    }
    Ok(values)
}

/// By id, or by an address; one that nobody has makes a customer.
fn customer_of(call: &Call<'_>, data: &mut Data, asked: &Value) -> Result<Value, Answer> {
    let fields = asked.as_object().ok_or_else(|| refused("customer", "Invalid type."))?;
    let known: &[&str] = if call.rules.takes_names { &["id", "email", "name"] } else { &["id", "email"] };
    check_fields("customer.", fields, known)?;
    if let Some(id) = fields.get("id") {
        let found = id.as_i64().and_then(|id| data.customer(id)).cloned();
        return found.ok_or_else(|| refused("customer", "Customer does not exist."));
    }
    let email = fields.get("email").and_then(Value::as_str).filter(|email| is_address(email));
    let email = email.ok_or_else(|| refused("customer.email", "Not a valid email address."))?;
    if let Some(known) = data.customer_at(email) {
        return Ok(known.clone());
    }
    let name = fields.get("name").and_then(Value::as_str).unwrap_or(email).to_owned();
    Ok(data.add_customer(&name, Some(email), call.now_ms))
}

fn sender_of(data: &Data, sender: &Value, from_agent: bool) -> Result<Value, Answer> {
    let unknown = || refused("sender", "Sender does not exist.");
    let by = |person: &Value| {
        sender["id"].is_i64() && person["id"] == sender["id"]
            || sender["email"].as_str().is_some_and(|email| is_same(&person["email"], email))
    };
    if from_agent {
        let people = data.users.iter().map(super::data::User::to_person);
        people.into_iter().find(by).ok_or_else(unknown)
    } else {
        data.customers.iter().find(|customer| by(customer)).map(person).ok_or_else(unknown)
    }
}

fn ticket_id(data: &Data, id: &str) -> Result<i64, Answer> {
    id.parse().ok().filter(|id| data.tickets.contains_key(id)).ok_or_else(|| not_found("Ticket"))
}

fn is_address(text: &str) -> bool {
    text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.') && !text.contains(' '))
}
