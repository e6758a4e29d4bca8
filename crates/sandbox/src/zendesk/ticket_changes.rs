//! Writing tickets: replies, notes, fields, tags, new ones.

use serde_json::{Map, Value, json};

use crate::clock::iso;
use crate::desk::locked;
use crate::http::{Answer, escape};
use crate::zendesk::api::{Call, forbidden_to_person, not_found, record_invalid};
use crate::zendesk::data::{Comment, Data, Kept, Role, Ticket, User};
use crate::zendesk::tickets::find;

/// An idempotency key is remembered for two hours.
const KEY_LIFE_MS: i64 = 2 * 3_600_000;
const KEY_MAX_BYTES: usize = 255;

/// `PUT /tickets/{id}`. It knows no idempotency key: the same reply twice is two replies.
pub(crate) fn update(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("tickets", "write")?;
    let body = call.json()?;
    let fields = ticket_fields(&body)?;
    let mut data = locked(&call.desk.data);
    let mut ticket = find(&data, id)?.clone();
    if ticket.status == "closed" {
        return Err(record_invalid("status", "Status: closed prevents ticket update", "InvalidValue"));
    }
    check_stamp(fields, &ticket)?;
    let mut events = change_fields(call, &data, &mut ticket, fields)?;
    let comment = new_comment(call, &mut data, fields)?;
    ticket.touch(call.now_ms);
    let audit = audit(call, &mut data, &mut ticket, comment, &mut events);
    let answer = json!({"ticket": ticket.to_json(&call.desk.url), "audit": audit});
    data.tickets.insert(ticket.id, ticket);
    Ok(Answer::json(200, answer))
}

/// `DELETE /tickets/{id}`: soft, for 30 days.
pub(crate) fn delete(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("tickets", "write")?;
    let mut data = locked(&call.desk.data);
    let mut ticket = find(&data, id)?.clone();
    ticket.touch(call.now_ms);
    data.tickets.remove(&ticket.id);
    data.deleted.insert(ticket.id, ticket);
    Ok(Answer::empty(204))
}

/// `POST /tickets`, with an idempotency key or without.
pub(crate) fn create(call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs("tickets", "write")?;
    let body = call.json()?;
    let fields = ticket_fields(&body)?;
    let key = call.request.header("idempotency-key");
    if key.is_some_and(|key| key.is_empty() || key.len() > KEY_MAX_BYTES) {
        return Err(idempotent_error("The idempotency key has to have 1 to 255 characters"));
    }
    let mut data = locked(&call.desk.data);
    if let Some(key) = key {
        let kept = data.kept.get(key);
        if let Some(kept) = kept.filter(|kept| call.now_ms < kept.at_ms + KEY_LIFE_MS) {
            if kept.body.as_bytes() != call.request.body {
                return Err(idempotent_error(
                    "Request parameters are different from the previous request with this idempotency key",
                ));
            }
            return Ok(created(kept.answer.clone(), kept.location.clone()).header("x-idempotency-lookup", "hit"));
        }
    }
    let (answer, location) = create_in(call, &mut data, fields)?;
    let Some(key) = key else { return Ok(created(answer, location)) };
    let kept = Kept {
        // It was read as JSON, so it is text.
        body: String::from_utf8_lossy(&call.request.body).into_owned(),
        at_ms: call.now_ms,
        answer: answer.clone(),
        location: location.clone(),
    };
    data.kept.insert(key.to_owned(), kept);
    Ok(created(answer, location).header("x-idempotency-lookup", "miss"))
}

fn created(answer: Value, location: String) -> Answer {
    Answer::json(201, answer).header("location", location)
}

/// The new ticket, and where it is.
fn create_in(call: &Call<'_>, data: &mut Data, fields: &Map<String, Value>) -> Result<(Value, String), Answer> {
    let requester_id = requester(call, data, fields)?;
    let mut ticket = Ticket {
        id: data.last_ticket + 1,
        external_id: fields.get("external_id").and_then(Value::as_str).map(str::to_owned),
        subject: None,
        status: "new".to_owned(),
        priority: None,
        kind: None,
        requester_id,
        submitter_id: call.caller.user_id,
        assignee_id: None,
        group_id: Some(data.group_id),
        tags: Vec::new(),
        custom_fields: Vec::new(),
        channel: "api".into(),
        created_ms: call.now_ms,
        updated_ms: call.now_ms,
        comments: Vec::new(),
    };
    let mut events = change_fields(call, data, &mut ticket, fields)?;
    let Some(mut comment) = new_comment(call, data, fields)? else {
        return Err(record_invalid("base", "Description: cannot be blank", "BlankValue"));
    };
    // The first comment is the description: the requester's own words unless an author is named.
    if fields["comment"].get("author_id").is_none() {
        comment.author_id = requester_id;
    }
    data.last_ticket += 1;
    let audit = audit(call, data, &mut ticket, Some(comment), &mut events);
    let url = format!("{}/api/v2/tickets/{}.json", call.desk.url, ticket.id);
    let body = json!({"ticket": ticket.to_json(&call.desk.url), "audit": audit});
    data.tickets.insert(ticket.id, ticket);
    Ok((body, url))
}

/// `POST` sets, `PUT` adds, `DELETE` removes.
pub(crate) fn change_tags(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("tickets", "write")?;
    let body = call.json()?;
    let given = tag_list(&body["tags"]).ok_or_else(|| {
        Answer::json(400, json!({"error": "ParameterMissing", "description": "tags has to be a list of strings"}))
    })?;
    let mut data = locked(&call.desk.data);
    let mut ticket = find(&data, id)?.clone();
    if ticket.status == "closed" {
        return Err(record_invalid("status", "Status: closed prevents ticket update", "InvalidValue"));
    }
    check_stamp(body.as_object().unwrap_or(&Map::new()), &ticket)?;
    let status = match call.request.method.as_str() {
        "POST" => {
            ticket.tags = given;
            201
        }
        "PUT" => {
            for tag in given {
                if !ticket.tags.contains(&tag) {
                    ticket.tags.push(tag);
                }
            }
            200
        }
        _ => {
            ticket.tags.retain(|tag| !given.contains(tag));
            200
        }
    };
    ticket.touch(call.now_ms);
    let answer = json!({"tags": ticket.tags});
    data.tickets.insert(ticket.id, ticket);
    Ok(Answer::json(status, answer))
}

fn ticket_fields(body: &Value) -> Result<&Map<String, Value>, Answer> {
    body["ticket"].as_object().ok_or_else(|| {
        Answer::json(
            400,
            json!({"error": {"title": "Invalid attribute", "message": "You passed an invalid value for the ticket attribute. Must be an object"}}),
        )
    })
}

fn check_stamp(fields: &Map<String, Value>, ticket: &Ticket) -> Result<(), Answer> {
    if fields.get("safe_update").and_then(Value::as_bool) != Some(true) {
        return Ok(());
    }
    match fields.get("updated_stamp").and_then(Value::as_str) {
        None => Err(record_invalid("updated_stamp", "Updated stamp: is needed for a safe update", "BlankValue")),
        Some(stamp) if stamp == iso(ticket.updated_ms) => Ok(()),
        Some(_) => Err(Answer::json(
            409,
            json!({
                "error": "UpdateConflict",
                "description": "Safe Update prevented the update due to outdated ticket data. Please fetch the latest \
                                ticket data and try again.",
            }),
        )),
    }
}

/// Applies the fields that are there, and answers the events of the audit.
fn change_fields(
    call: &Call<'_>,
    data: &Data,
    ticket: &mut Ticket,
    fields: &Map<String, Value>,
) -> Result<Vec<Value>, Answer> {
    let before = ticket.to_json(&call.desk.url);
    let choice = |name: &str, allowed: &[&str]| match fields.get(name) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(value) => match value.as_str().filter(|text| allowed.contains(text)) {
            Some(text) => Ok(Some(Some(text.to_owned()))),
            None => Err(record_invalid(name, &format!("{name}: {value} is not a valid value"), "InvalidValue")),
        },
    };
    let statuses = ["new", "open", "pending", "hold", "solved", "closed"];
    if let Some(Some(status)) = choice("status", &statuses)? {
        ticket.status = status;
    }
    if let Some(priority) = choice("priority", &["urgent", "high", "normal", "low"])? {
        ticket.priority = priority;
    }
    if let Some(kind) = choice("type", &["problem", "incident", "question", "task"])? {
        ticket.kind = kind;
    }
    if let Some(subject) = fields.get("subject").and_then(Value::as_str) {
        ticket.subject = Some(subject.to_owned());
    }
    let agent = |found: Option<&User>| {
        found
            .filter(|user| user.role.is_staff() && user.role != Role::LightAgent)
            .map(|user| user.id)
            .ok_or_else(|| record_invalid("assignee", "Assignee: is not an agent", "InvalidValue"))
    };
    match fields.get("assignee_id") {
        None => {}
        Some(Value::Null) => ticket.assignee_id = None,
        Some(id) => {
            ticket.assignee_id = Some(agent(id.as_i64().and_then(|id| data.user(id)))?);
        }
    }
    if let Some(email) = fields.get("assignee_email").and_then(Value::as_str) {
        ticket.assignee_id = Some(agent(data.users.iter().find(|user| user.email == email))?);
    }
    match fields.get("group_id") {
        None => {}
        Some(Value::Null) => ticket.group_id = None,
        Some(id) if id.as_i64() == Some(data.group_id) => ticket.group_id = Some(data.group_id),
        Some(_) => return Err(record_invalid("group", "Group: is invalid", "InvalidValue")),
    }
    if let Some(tags) = fields.get("tags") {
        ticket.tags = tag_list(tags).ok_or_else(|| record_invalid("tags", "Tags: are not a list", "InvalidValue"))?;
    }
    if let Some(custom) = fields.get("custom_fields").and_then(Value::as_array) {
        for field in custom {
            ticket.custom_fields.retain(|known| known["id"] != field["id"]);
            ticket.custom_fields.push(field.clone());
        }
    }
    let after = ticket.to_json(&call.desk.url);
    let mut events = Vec::new();
    for name in ["status", "priority", "type", "subject", "assignee_id", "group_id", "tags"] {
        if before[name] != after[name] {
            events.push(json!({
                "type": "Change", "field_name": name, "value": after[name], "previous_value": before[name],
            }));
        }
    }
    Ok(events)
}

fn new_comment(call: &Call<'_>, data: &mut Data, fields: &Map<String, Value>) -> Result<Option<Comment>, Answer> {
    let Some(comment) = fields.get("comment").filter(|comment| !comment.is_null()) else {
        return Ok(None);
    };
    let text = |name: &str| comment[name].as_str().filter(|text| !text.trim().is_empty());
    let (body, html_body) = match (text("body"), text("html_body")) {
        (_, Some(html)) => (strip(html), html.to_owned()),
        (Some(body), None) => (body.to_owned(), format!("<p>{}</p>", escape(body))),
        (None, None) => {
            return Err(record_invalid("comment", "Comment: cannot be blank", "BlankValue"));
        }
    };
    let public = comment["public"].as_bool().unwrap_or(true);
    if public && call.caller.role == Role::LightAgent {
        return Err(forbidden_to_person());
    }
    let author_id = match comment.get("author_id") {
        None | Some(Value::Null) => call.caller.user_id,
        Some(id) => id
            .as_i64()
            .and_then(|id| data.user(id))
            .map(|user| user.id)
            .ok_or_else(|| record_invalid("author", "Author: is invalid", "InvalidValue"))?,
    };
    Ok(Some(Comment {
        id: data.next_event(),
        audit_id: 0,
        author_id,
        body,
        html_body,
        public,
        channel: "api".into(),
        created_ms: call.now_ms,
    }))
}

/// Adds the comment; the id of the comment is the id of its event.
fn audit(
    call: &Call<'_>,
    data: &mut Data,
    ticket: &mut Ticket,
    comment: Option<Comment>,
    events: &mut Vec<Value>,
) -> Value {
    let audit_id = data.next_event();
    for event in events.iter_mut() {
        event["id"] = data.next_event().into();
    }
    if let Some(mut comment) = comment {
        comment.audit_id = audit_id;
        events.insert(
            0,
            json!({
                "id": comment.id, "type": "Comment", "author_id": comment.author_id, "body": comment.body,
                "html_body": comment.html_body, "plain_body": comment.body, "public": comment.public,
                "attachments": [], "audit_id": audit_id,
            }),
        );
        ticket.comments.push(comment);
    }
    json!({
        "id": audit_id, "ticket_id": ticket.id, "author_id": call.caller.user_id, "created_at": iso(call.now_ms),
        "metadata": {"system": {}, "custom": {}}, "via": {"channel": "api", "source": {"from": {}, "to": {}, "rel": null}},
        "events": events,
    })
}

/// The one that is named, found by address or made; else the caller.
fn requester(call: &Call<'_>, data: &mut Data, fields: &Map<String, Value>) -> Result<i64, Answer> {
    if let Some(id) = fields.get("requester_id").filter(|id| !id.is_null()) {
        return id
            .as_i64()
            .and_then(|id| data.user(id))
            .map(|user| user.id)
            .ok_or_else(|| record_invalid("requester", "Requester: is invalid", "InvalidValue"));
    }
    let Some(person) = fields.get("requester").and_then(Value::as_object) else {
        return Ok(call.caller.user_id);
    };
    let email = person.get("email").and_then(Value::as_str).unwrap_or_default();
    if !email.contains('@') {
        return Err(record_invalid("requester", "Requester: Email is invalid", "InvalidValue"));
    }
    let email = email.to_lowercase();
    if let Some(user) = data.users.iter().find(|user| user.email == email) {
        return Ok(user.id);
    }
    let id = data.users.last().map(|user| user.id + 1).ok_or_else(not_found)?;
    let name = person.get("name").and_then(Value::as_str).unwrap_or(&email);
    data.users.push(User {
        id,
        name: name.to_owned(),
        email,
        role: Role::EndUser,
        external_id: None,
        phone: None,
        created_ms: call.now_ms,
    });
    Ok(id)
}

fn tag_list(value: &Value) -> Option<Vec<String>> {
    let mut tags: Vec<String> = Vec::new();
    for tag in value.as_array()? {
        let tag = tag.as_str()?.trim().to_lowercase().replace(' ', "_");
        if !tag.is_empty() && !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    Some(tags)
}

/// The text between the tags.
fn strip(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut in_tag = false;
    for c in html.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            c if !in_tag => text.push(c),
            _ => {}
        }
    }
    text
}

fn idempotent_error(description: &str) -> Answer {
    Answer::json(400, json!({"error": "IdempotentRequestError", "description": description}))
}
