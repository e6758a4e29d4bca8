//! Messages and comments of a conversation, and what makes them.

use serde_json::{Map, Value, json};

use super::api::{Call, bad, not_found};
use super::conversations::{find, find_mut};
use super::data::{Comment, Conversation, Message, Place};
use crate::http::Answer;

/// Newest first, or oldest first where that is asked for.
pub(super) fn list(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("messages:read", &["limit", "page_token", "sort_order"])?;
    let one = find(call, id)?;
    let mut all: Vec<&Message> = one.messages.iter().filter(|message| !message.is_waiting).collect();
    all.sort_by_key(|message| message.at_ms);
    match call.request.param("sort_order") {
        Some("asc") => {}
        None | Some("desc") => all.reverse(),
        Some(_) => return Err(bad(&["query.sort_order: should be asc or desc".to_owned()])),
    }
    call.page(all.into_iter().map(|message| call.company().show_message(&one.id, message)).collect())
}

/// All of them at once, newest first.
pub(super) fn comments(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("comments:read", &[])?;
    let one = find(call, id)?;
    let mut all: Vec<&Comment> = one.comments.iter().collect();
    all.sort_by_key(|comment| std::cmp::Reverse(comment.at_ms));
    let company = call.company();
    let results: Vec<Value> = all.into_iter().map(|comment| company.show_comment(comment)).collect();
    Ok(Answer::json(
        200,
        json!({"_links": {"self": format!("{}/conversations/{id}/comments", company.host())},
        "_results": results}),
    ))
}

/// By id, or by `alt:uid:…`; 404 until it is processed.
pub(super) fn show(call: &Call<'_>, asked: &str) -> Result<Answer, Answer> {
    call.needs("messages:read", &[])?;
    let company = call.company();
    let is = |message: &Message| match asked.strip_prefix("alt:uid:") {
        Some(uid) => message.uid == uid,
        None => message.id == asked,
    };
    let all = company.conversations.iter().flat_map(|one| one.messages.iter().map(move |message| (one, message)));
    let found = all.into_iter().find(|(_, message)| !message.is_waiting && is(message));
    found.map(|(one, message)| Answer::json(200, company.show_message(&one.id, message))).ok_or_else(not_found)
}

fn text<'a>(body: &'a Map<String, Value>, name: &str) -> Result<&'a str, Answer> {
    let text = body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| bad(&[format!("body.{name}: missing")]))
}

fn accepted(uid: &str) -> Answer {
    Answer::json(202, json!({"status": "accepted", "message_uid": uid}))
}

/// Sends a message, and archives the conversation unless that is declined.
pub(super) fn reply(call: &mut Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("messages:send", &[])?;
    find(call, id)?;
    let known = [
        "body",
        "text",
        "subject",
        "author_id",
        "channel_id",
        "to",
        "cc",
        "bcc",
        "sender_name",
        "quote_body",
        "signature_id",
        "should_add_default_signature",
        "options",
    ];
    let body = call.body(&known)?;
    let html = text(&body, "body")?.to_owned();
    let archives = body.get("options").and_then(|options| options.get("archive")).and_then(Value::as_bool);
    let (message_id, uid) = (call.state.id("msg"), call.state.id("uid"));
    let (now_ms, is_waiting) = (call.now_ms, call.state.options.processes_later);
    let inboxes = call.company().inboxes.clone();
    let one = find_mut(call, id)?;
    let inbox = inboxes.iter().find(|inbox| inbox.id == one.inbox);
    let Some(channel) = inbox.filter(|inbox| inbox.channel_type == "smtp" || body.contains_key("channel_id")) else {
        return Err(bad(&["body.channel_id: missing, the channel to send from is ambiguous".to_owned()]));
    };
    let to = one.recipient.clone().map(|(name, handle)| (name, handle, "to".to_owned()));
    one.messages.push(Message {
        id: message_id,
        uid: uid.clone(),
        kind: "email".to_owned(),
        at_ms: now_ms,
        text: plain(&html),
        body: html,
        recipients: to.into_iter().chain([(None, channel.address.clone(), "from".to_owned())]).collect(),
        is_waiting,
        ..Message::default()
    });
    if archives.unwrap_or(true) {
        one.place = Place::Archived;
    }
    one.updated_ms = now_ms;
    Ok(accepted(&uid))
}

/// Adds an internal note; without `author_id` its author is the app.
pub(super) fn comment(call: &mut Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("comments:write", &[])?;
    find(call, id)?;
    let body = call.body(&["body", "author_id", "is_pinned"])?;
    let comment = Comment {
        id: call.state.id("com"),
        author: body.get("author_id").and_then(Value::as_str).map(str::to_owned),
        body: text(&body, "body")?.to_owned(),
        at_ms: call.now_ms,
    };
    let now_ms = call.now_ms;
    let one = find_mut(call, id)?;
    one.comments.push(comment.clone());
    one.updated_ms = now_ms;
    Ok(Answer::json(201, call.company().show_comment(&comment)))
}

/// A message from elsewhere; one external id is imported once.
pub(super) fn import(call: &mut Call<'_>, inbox: &str) -> Result<Answer, Answer> {
    call.needs("messages:write", &[])?;
    let Some(there) = call.company().inboxes.iter().find(|one| one.id == inbox).cloned() else {
        return Err(not_found());
    };
    let body = call.body(&[
        "sender",
        "to",
        "body",
        "external_id",
        "created_at",
        "metadata",
        "subject",
        "type",
        "body_format",
    ])?;
    let external_id = text(&body, "external_id")?.to_owned();
    let given = text(&body, "body")?.to_owned();
    let inbound = body.get("metadata").and_then(|metadata| metadata.get("is_inbound")).and_then(Value::as_bool);
    let inbound = inbound.ok_or_else(|| bad(&["body.metadata.is_inbound: missing".to_owned()]))?;
    let at = body.get("created_at").and_then(Value::as_i64).filter(|at| (1_000_000_000..4_000_000_000).contains(at));
    let at_ms = at.ok_or_else(|| bad(&["body.created_at: should be whole seconds".to_owned()]))? * 1000;
    let sender = body.get("sender").and_then(Value::as_object);
    let handle = sender.and_then(|sender| sender.get("handle")?.as_str()).filter(|handle| !handle.is_empty());
    let handle = handle.ok_or_else(|| bad(&["body.sender.handle: missing".to_owned()]))?.to_owned();
    let name = sender.and_then(|sender| sender.get("name")?.as_str()).map(str::to_owned);
    let to: Vec<String> = body
        .get("to")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|to| to.as_str().map(str::to_owned))
        .collect();
    if to.is_empty() {
        return Err(bad(&["body.to: missing".to_owned()]));
    }
    if let Some(uid) = call.company().imported.get(&external_id) {
        return Ok(accepted(uid));
    }
    let subject = body.get("subject").and_then(Value::as_str).unwrap_or_default().to_owned();
    let html = body.get("body_format").and_then(Value::as_str) == Some("html");
    let (id, message_id, uid) = (call.state.id("cnv"), call.state.id("msg"), call.state.id("uid"));
    let message = Message {
        id: message_id,
        uid: uid.clone(),
        kind: "email".to_owned(),
        is_inbound: inbound,
        at_ms,
        text: if html { plain(&given) } else { given.clone() },
        body: given,
        subject: Some(subject.clone()),
        recipients: std::iter::once((name.clone(), handle.clone(), "from".to_owned()))
            .chain(to.into_iter().map(|to| (None, to, "to".to_owned())))
            .collect(),
        is_waiting: call.state.options.processes_later,
        ..Message::default()
    };
    let (now_ms, company) = (call.now_ms, call.company_mut());
    company.imported.insert(external_id, uid.clone());
    company.conversations.push(Conversation {
        id,
        subject,
        status_id: company.statuses.first().map(|status| status.id.clone()),
        recipient: Some((name, handle)),
        inbox: there.id,
        created_ms: at_ms,
        updated_ms: now_ms,
        messages: vec![message],
        ..Conversation::default()
    });
    Ok(accepted(&uid))
}

/// Good enough for what is sent here.
fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html.replace("<br>", "\n").replace("</p>", "\n");
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').map_or(rest.len(), |end| start + end + 1);
        text.push_str(&rest[..start]);
        rest = rest[end..].to_owned();
    }
    text.push_str(&rest);
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    text.replace("&amp;", "&").trim_end().to_owned()
}
