//! Writing tickets, replies and notes. Nothing here is idempotent.

use serde_json::{Map, Value};

use crate::desk::locked;
use crate::freshdesk::api::{Call, access_denied};
use crate::freshdesk::data::{Contact, Conversation, Data, Ticket};
use crate::freshdesk::fields::{Kind, Wrong, body, params, refuse, refused};
use crate::freshdesk::tickets::find;
use crate::http::Answer;

const LONGEST_TAG: usize = 32;

/// What both creating and changing a ticket take.
const TICKET: &[(&str, Kind)] = &[
    ("name", Kind::Text),
    ("email", Kind::Text),
    ("phone", Kind::Text),
    ("requester_id", Kind::Integer),
    ("unique_external_id", Kind::Text),
    ("subject", Kind::Text),
    ("description", Kind::Text),
    ("status", Kind::Integer),
    ("priority", Kind::Integer),
    ("source", Kind::Integer),
    ("type", Kind::Text),
    ("responder_id", Kind::Id),
    ("group_id", Kind::Id),
    ("tags", Kind::Texts),
    ("custom_fields", Kind::Object),
];

/// <https://developers.freshdesk.com/api/#create_ticket>
pub(crate) fn create(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    let known: Vec<(&str, Kind)> = TICKET.iter().copied().chain([("cc_emails", Kind::Texts)]).collect();
    let body = body(call.request, &known)?;
    let mut data = locked(&call.account.data);
    let mut wrong = check(&data, &body);
    for field in ["subject", "description"] {
        if body.get(field).and_then(Value::as_str).is_none_or(|text| text.trim().is_empty()) {
            wrong.push(Wrong::missing(field));
        }
    }
    let by = ["requester_id", "email", "phone", "unique_external_id"];
    if !by.iter().any(|field| body.contains_key(*field)) {
        let message = "One of the following fields is mandatory: requester_id, phone, email, twitter_id, facebook_id";
        wrong.push(Wrong::new("requester_id", "missing_field", message));
    }
    if body.contains_key("phone") && !body.contains_key("email") && !body.contains_key("name") {
        wrong.push(Wrong::missing("name"));
    }
    if !wrong.is_empty() {
        return Err(refused(&wrong));
    }
    let requester_id = requester(&mut data, &body, call.now_ms)?;
    data.last_ticket += 1;
    let description = text(&body, "description").unwrap_or_default();
    let mut ticket = Ticket {
        id: data.last_ticket,
        subject: None,
        description_text: plain(&description),
        description,
        status: 2,
        priority: 1,
        source: 2,
        kind: None,
        requester_id,
        responder_id: None,
        group_id: None,
        tags: Vec::new(),
        cc_emails: texts(&body, "cc_emails"),
        custom_fields: data.custom_fields.iter().map(|name| (name.clone(), Value::Null)).collect(),
        spam: false,
        deleted: false,
        created_ms: call.now_ms,
        updated_ms: call.now_ms,
        conversations: Vec::new(),
    };
    apply(&mut ticket, &body);
    let json = ticket.to_whole_json();
    let location = format!("{}/api/v2/tickets/{}", call.account.url, ticket.id);
    data.tickets.insert(ticket.id, ticket);
    Ok(Answer::json(201, json).header("location", location))
}

/// <https://developers.freshdesk.com/api/#update_ticket>
pub(crate) fn update(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    let body = body(call.request, TICKET)?;
    let mut data = locked(&call.account.data);
    let mut ticket = find(call, &data, id)?.clone();
    if body.is_empty() {
        return Err(refuse(Wrong::new("request", "missing_field", "Should have at least one attribute")));
    }
    let mut wrong = check(&data, &body);
    if ticket.source == 10 && body.contains_key("subject") {
        wrong.push(Wrong::new("subject", "incompatible_field", "Subject cannot be updated for outbound email tickets"));
    }
    if let Some(field) = &data.required_to_close
        && matches!(body.get("status").and_then(Value::as_i64), Some(4 | 5))
    {
        let given = body.get("custom_fields").and_then(|fields| fields.get(field));
        if given.or(ticket.custom_fields.get(field)).is_none_or(Value::is_null) {
            wrong.push(Wrong::missing(field));
        }
    }
    if !wrong.is_empty() {
        return Err(refused(&wrong));
    }
    if ["requester_id", "email", "phone"].iter().any(|field| body.contains_key(*field)) {
        ticket.requester_id = requester(&mut data, &body, call.now_ms)?;
    }
    if let Some(description) = text(&body, "description") {
        ticket.description_text = plain(&description);
        ticket.description = description;
    }
    apply(&mut ticket, &body);
    ticket.touch(call.now_ms);
    let json = ticket.to_whole_json();
    data.tickets.insert(ticket.id, ticket);
    Ok(Answer::json(200, json))
}

/// Sends mail, so the requester needs an address.
/// <https://developers.freshdesk.com/api/#reply_ticket>
pub(crate) fn reply(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    let known = [
        ("body", Kind::Text),
        ("from_email", Kind::Text),
        ("user_id", Kind::Integer),
        ("cc_emails", Kind::Texts),
        ("bcc_emails", Kind::Texts),
    ];
    let body = body(call.request, &known)?;
    if !call.agent.may_reply {
        return Err(access_denied());
    }
    let mut data = locked(&call.account.data);
    let ticket_id = find(call, &data, id)?.id;
    let requester = data.tickets.get(&ticket_id).and_then(|ticket| data.contact(ticket.requester_id));
    let Some(to) = requester.and_then(|contact| contact.email.clone()) else {
        return Err(refuse(Wrong::value("email", "The requester has no email address to reply to")));
    };
    let mut said = said(call, &mut data, &body)?;
    said.to_emails = vec![to];
    said.cc_emails = texts(&body, "cc_emails");
    said.bcc_emails = texts(&body, "bcc_emails");
    add(&mut data, ticket_id, said, call.now_ms)
}

/// <https://developers.freshdesk.com/api/#add_note_to_a_ticket>
pub(crate) fn note(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    let known = [
        ("body", Kind::Text),
        ("private", Kind::Bool),
        ("incoming", Kind::Bool),
        ("notify_emails", Kind::Texts),
        ("user_id", Kind::Integer),
    ];
    let body = body(call.request, &known)?;
    let mut data = locked(&call.account.data);
    let ticket_id = find(call, &data, id)?.id;
    let mut said = said(call, &mut data, &body)?;
    said.source = 2;
    said.private = body.get("private").and_then(Value::as_bool).unwrap_or(true);
    said.incoming = body.get("incoming").and_then(Value::as_bool).unwrap_or(false);
    said.to_emails = texts(&body, "notify_emails");
    add(&mut data, ticket_id, said, call.now_ms)
}

fn said(call: &Call<'_>, data: &mut Data, body: &Map<String, Value>) -> Result<Conversation, Answer> {
    let html = text(body, "body").filter(|html| !plain(html).trim().is_empty());
    let html = html.ok_or_else(|| refuse(Wrong::missing("body")))?;
    let user_id = match body.get("user_id").and_then(Value::as_i64) {
        Some(id) if data.agent(id).is_none() => {
            return Err(refuse(Wrong::value("user_id", "There is no agent matching the given user_id")));
        }
        Some(id) => id,
        None => call.agent.id,
    };
    Ok(Conversation {
        id: data.next_id(),
        user_id,
        body_text: plain(&html),
        body: html,
        incoming: false,
        private: false,
        source: 0,
        from_email: None,
        to_emails: Vec::new(),
        cc_emails: Vec::new(),
        bcc_emails: Vec::new(),
        created_ms: call.now_ms,
    })
}

fn add(data: &mut Data, ticket_id: i64, said: Conversation, now_ms: i64) -> Result<Answer, Answer> {
    let json = said.to_json(ticket_id);
    let ticket = data.tickets.get_mut(&ticket_id).ok_or_else(crate::freshdesk::api::not_found)?;
    ticket.conversations.push(said);
    ticket.touch(now_ms);
    Ok(Answer::json(201, json))
}

fn check(data: &Data, body: &Map<String, Value>) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let number = |field: &str| body.get(field).and_then(Value::as_i64);
    if number("status").is_some_and(|status| !data.statuses.contains_key(&status)) {
        let known: Vec<String> = data.statuses.keys().map(ToString::to_string).collect();
        wrong.push(Wrong::value("status", format!("It should be one of these values: '{}'", known.join(","))));
    }
    if number("priority").is_some_and(|priority| !(1..=4).contains(&priority)) {
        wrong.push(Wrong::value("priority", "It should be one of these values: '1,2,3,4'"));
    }
    if number("source").is_some_and(|source| ![1, 2, 3, 5, 6, 7, 9, 11, 100].contains(&source)) {
        wrong.push(Wrong::value("source", "It should be one of these values: '1,2,3,5,6,7,9,11,100'"));
    }
    if number("responder_id").is_some_and(|id| data.agent(id).is_none_or(|agent| !agent.active)) {
        wrong.push(Wrong::value("responder_id", "There is no agent matching the given responder_id"));
    }
    if number("group_id").is_some_and(|id| !data.group_ids.contains(&id)) {
        wrong.push(Wrong::value("group_id", "There is no group matching the given group_id"));
    }
    if let Some(kind) = body.get("type").and_then(Value::as_str)
        && !data.types.iter().any(|known| known == kind)
    {
        let message = format!("It should be one of these values: '{}'", data.types.join(","));
        wrong.push(Wrong::value("type", message));
    }
    let tags = texts(body, "tags");
    if tags.iter().any(|tag| tag.chars().count() > LONGEST_TAG) {
        wrong.push(Wrong::new("tags", "too_long", "It should contain elements that have maximum of 32 characters"));
    }
    if tags.iter().any(|tag| tag.contains(',')) {
        wrong.push(Wrong::new("tags", "special_chars_present", "It should not contain the special character ','"));
    }
    for field in ["email", "cc_emails"] {
        let given = body.get(field).and_then(Value::as_str).map(str::to_owned);
        if given.into_iter().chain(texts(body, field)).any(|address| !is_address(&address)) {
            wrong.push(Wrong::value(field, "It should be in the 'valid email address' format"));
        }
    }
    for name in body.get("custom_fields").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        if !data.custom_fields.contains(name) {
            wrong.push(Wrong::new(name, "invalid_field", "Unexpected/invalid field in request"));
        }
    }
    wrong
}

/// Who asks; an address that nobody has makes a contact.
fn requester(data: &mut Data, body: &Map<String, Value>, now_ms: i64) -> Result<i64, Answer> {
    if let Some(id) = body.get("requester_id").and_then(Value::as_i64) {
        let known = data.contact(id).map(|contact| contact.id).or(data.agent(id).map(|agent| agent.id));
        return known.ok_or_else(|| {
            refuse(Wrong::value("requester_id", "There is no contact matching the given requester_id"))
        });
    }
    let (email, phone) = (text(body, "email").map(|email| email.to_lowercase()), text(body, "phone"));
    let known = data.contacts.iter().find(|contact| {
        (email.is_some() && contact.email == email) || (email.is_none() && phone.is_some() && contact.phone == phone)
    });
    if let Some(known) = known {
        return Ok(known.id);
    }
    let id = data.next_id();
    let name = text(body, "name").or_else(|| email.clone()).unwrap_or_default();
    data.contacts.push(Contact { id, name, email, phone, external_id: None, active: false, created_ms: now_ms });
    Ok(id)
}

fn apply(ticket: &mut Ticket, body: &Map<String, Value>) {
    let number = |field: &str| body.get(field).and_then(Value::as_i64);
    ticket.subject = text(body, "subject").or(ticket.subject.take());
    ticket.kind = text(body, "type").or(ticket.kind.take());
    ticket.status = number("status").unwrap_or(ticket.status);
    ticket.priority = number("priority").unwrap_or(ticket.priority);
    ticket.source = number("source").unwrap_or(ticket.source);
    if body.contains_key("responder_id") {
        ticket.responder_id = number("responder_id");
    }
    if body.contains_key("group_id") {
        ticket.group_id = number("group_id");
    }
    // Replaces them all.
    if body.contains_key("tags") {
        ticket.tags = texts(body, "tags");
    }
    for (name, value) in body.get("custom_fields").and_then(Value::as_object).into_iter().flatten() {
        ticket.custom_fields.insert(name.clone(), value.clone());
    }
}

fn text(body: &Map<String, Value>, field: &str) -> Option<String> {
    body.get(field)?.as_str().map(str::to_owned)
}

fn texts(body: &Map<String, Value>, field: &str) -> Vec<String> {
    let list = body.get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn is_address(text: &str) -> bool {
    text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.') && !text.contains(' '))
}

/// What a mail program without HTML shows.
fn plain(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        out.push_str(before);
        let (name, behind) = tag.split_once('>').unwrap_or((tag, ""));
        if matches!(name.trim_end_matches([' ', '/']), "br" | "/p") {
            out.push('\n');
        }
        rest = behind;
    }
    out.push_str(rest);
    let known = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    known.iter().fold(out, |text, (from, to)| text.replace(from, to)).trim().to_owned()
}
