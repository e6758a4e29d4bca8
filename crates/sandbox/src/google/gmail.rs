//! `gmail.googleapis.com/gmail/v1/users/{user}`: profile, messages, attachments, sending, history.
//!
//! <https://developers.google.com/workspace/gmail/api/reference/rest>

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Value, json};

use super::api::{Call, no_such_method, page_start, page_token};
use super::error::{error, invalid, not_found};
use super::mime::{Sent, addresses, bare_subject, ids};
use super::push;
use super::query::Query;
use super::state::{Mail, State};
use crate::http::Answer;

const READ: [&str; 3] = ["gmail.readonly", "gmail.modify", "https://mail.google.com/"];
const HEADS: [&str; 4] = ["gmail.readonly", "gmail.modify", "https://mail.google.com/", "gmail.metadata"];
const SEND: [&str; 4] = ["gmail.send", "gmail.compose", "gmail.modify", "https://mail.google.com/"];

pub(super) fn serve(state: &mut State, call: &Call<'_>, user: &str, rest: &[&str]) -> Result<Answer, Answer> {
    let person = state.people.get(&call.bearer.sub).ok_or_else(not_found)?;
    if user != "me" && !user.eq_ignore_ascii_case(&person.email) {
        return Err(error(403, "PERMISSION_DENIED", "forbidden", &format!("Delegation denied for {}", person.email)));
    }
    match (call.request.method.as_str(), rest) {
        ("GET", ["profile"]) => profile(state, call),
        ("GET", ["messages"]) => list(state, call),
        ("POST", ["messages", "send"]) => send(state, call),
        ("GET", ["messages", id]) => get(state, call, id),
        ("GET", ["messages", id, "attachments", attachment]) => attached(state, call, id, attachment),
        ("GET", ["threads", id]) => thread(state, call, id),
        ("GET", ["history"]) => history(state, call),
        ("POST", ["watch"]) => push::watch(state, call),
        ("POST", ["stop"]) => push::stop(state, call),
        _ => Err(no_such_method()),
    }
}

fn mails<'a>(state: &'a State, call: &Call<'_>) -> &'a [Mail] {
    state.people.get(&call.bearer.sub).map_or(&[], |person| person.mails.as_slice())
}

fn profile(state: &State, call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs(&[HEADS.as_slice(), &["gmail.compose"]].concat(), &[], &[])?;
    let person = state.people.get(&call.bearer.sub).ok_or_else(not_found)?;
    let total = person.mails.len();
    Ok(Answer::json(
        200,
        json!({"emailAddress": person.email, "messagesTotal": total, "threadsTotal": total,
            "historyId": person.history_id.to_string()}),
    ))
}

fn list(state: &State, call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs(&HEADS, &["q", "maxResults", "pageToken", "includeSpamTrash"], &["labelIds"])?;
    let q = call.request.param("q").unwrap_or_default();
    if !q.is_empty() && !call.bearer.may(&READ) {
        return Err(error(403, "PERMISSION_DENIED", "forbidden", "Metadata scope does not support 'q' parameter"));
    }
    let size = call.number("maxResults", 100, 500)?.min(state.options.page_limit.max(1));
    let spam_and_trash = call.flag("includeSpamTrash")?;
    let labels: Vec<&str> =
        call.request.query.iter().filter(|(name, _)| name == "labelIds").map(|(_, value)| value.as_str()).collect();
    let of = format!("m:{q}");
    let start = page_start(call.request.param("pageToken"), &of)?;
    let query = Query::read(q);
    let shown = |mail: &&Mail| {
        let hidden = mail.labels.iter().any(|label| label == "SPAM" || label == "TRASH");
        (spam_and_trash || !hidden)
            && labels.iter().all(|label| mail.labels.iter().any(|own| own == label))
            && query.fits(mail, call.now_ms)
    };
    let mut found: Vec<&Mail> = mails(state, call).iter().filter(shown).collect();
    found.sort_by_key(|mail| std::cmp::Reverse(mail.internal_ms));
    let page: Vec<Value> =
        found.iter().skip(start).take(size).map(|mail| json!({"id": mail.id, "threadId": mail.thread_id})).collect();
    let mut body = json!({ "resultSizeEstimate": found.len() });
    // An empty list is no list.
    if !page.is_empty() {
        body["messages"] = page.into();
    }
    if start + size < found.len() {
        body["nextPageToken"] = page_token(&of, start + size).into();
    }
    Ok(Answer::json(200, body))
}

fn find<'a>(state: &'a State, call: &Call<'_>, id: &str) -> Result<&'a Mail, Answer> {
    if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(invalid("Invalid id value"));
    }
    mails(state, call).iter().find(|mail| mail.id == id).ok_or_else(not_found)
}

fn get(state: &State, call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs(&HEADS, &["format"], &["metadataHeaders"])?;
    let mail = find(state, call, id)?;
    let wanted: Vec<&str> = call
        .request
        .query
        .iter()
        .filter(|(name, _)| name == "metadataHeaders")
        .map(|(_, value)| value.as_str())
        .collect();
    Ok(Answer::json(200, shown(state, call, mail, call.request.param("format"), &wanted)?))
}

fn shown(state: &State, call: &Call<'_>, mail: &Mail, format: Option<&str>, wanted: &[&str]) -> Result<Value, Answer> {
    let mut body = json!({"id": mail.id, "threadId": mail.thread_id, "labelIds": mail.labels,
        "snippet": snippet(&mail.payload), "historyId": mail.history_id.to_string(),
        "internalDate": mail.internal_ms.to_string(), "sizeEstimate": mail.payload.to_string().len()});
    match format {
        Some("minimal") => {}
        Some("metadata") => {
            let all = mail.payload["headers"].as_array().cloned().unwrap_or_default();
            let fits = |header: &Value| {
                let name = header["name"].as_str().unwrap_or_default();
                wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
            };
            let headers: Vec<Value> = all.into_iter().filter(fits).collect();
            body["payload"] = json!({"mimeType": mail.payload["mimeType"], "headers": headers});
        }
        None | Some("full") if call.bearer.may(&READ) => {
            let mut payload = mail.payload.clone();
            take_out(&mut payload, state.options.inline_bytes);
            body["payload"] = payload;
        }
        None | Some("full") => {
            return Err(error(403, "PERMISSION_DENIED", "forbidden", "Metadata scope doesn't allow format FULL"));
        }
        Some(other) => return Err(invalid(&format!("Invalid value at 'format': {other}"))),
    }
    Ok(body)
}

/// Files and long texts come by themselves.
fn take_out(part: &mut Value, inline_bytes: usize) {
    let long = part["body"]["data"].as_str().is_some_and(|data| data.len() > inline_bytes);
    let file = part["filename"].as_str().is_some_and(|name| !name.is_empty());
    if (long || file) && part["body"]["data"].is_string() {
        let id = format!("ANGjdJ{}", part["partId"].as_str().unwrap_or_default().replace('.', "_"));
        part["body"] = json!({"attachmentId": id, "size": part["body"]["size"]});
    }
    for inner in part.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
        take_out(inner, inline_bytes);
    }
}

fn search<'a>(part: &'a Value, id: &str) -> Option<&'a Value> {
    if part["partId"] == id && part["body"]["data"].is_string() {
        return Some(&part["body"]);
    }
    part["parts"].as_array()?.iter().find_map(|part| search(part, id))
}

fn attached(state: &State, call: &Call<'_>, id: &str, attachment: &str) -> Result<Answer, Answer> {
    call.needs(&READ, &[], &[])?;
    let part = attachment.strip_prefix("ANGjdJ").ok_or_else(|| invalid("Invalid attachment token"))?.replace('_', ".");
    let body = search(&find(state, call, id)?.payload, &part).ok_or_else(not_found)?;
    Ok(Answer::json(200, body.clone()))
}

fn thread(state: &State, call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs(&HEADS, &["format"], &["metadataHeaders"])?;
    let of: Vec<&Mail> = mails(state, call).iter().filter(|mail| mail.thread_id == id).collect();
    let Some(last) = of.last() else { return Err(not_found()) };
    let history = last.history_id.to_string();
    let format = call.request.param("format");
    let messages: Result<Vec<Value>, Answer> = of.iter().map(|mail| shown(state, call, mail, format, &[])).collect();
    Ok(Answer::json(200, json!({"id": id, "historyId": history, "messages": messages?})))
}

fn history(state: &State, call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs(&HEADS, &["startHistoryId", "maxResults", "pageToken", "labelId"], &["historyTypes"])?;
    let person = state.people.get(&call.bearer.sub).ok_or_else(not_found)?;
    let start = call.request.param("startHistoryId").and_then(|id| id.parse::<u64>().ok());
    let start = start.ok_or_else(|| invalid("Missing or wrong startHistoryId"))?;
    if start < person.oldest_history {
        return Err(not_found());
    }
    let label = call.request.param("labelId");
    let added = person.mails.iter().filter(|mail| mail.history_id > start);
    let added = added.filter(|mail| label.is_none_or(|label| mail.labels.iter().any(|own| own == label)));
    let history: Vec<Value> = added
        .map(|mail| {
            let message = json!({"id": mail.id, "threadId": mail.thread_id, "labelIds": mail.labels});
            json!({"id": mail.history_id.to_string(), "messages": [{"id": mail.id, "threadId": mail.thread_id}],
                "messagesAdded": [{"message": message}]})
        })
        .collect();
    let mut body = json!({ "historyId": person.history_id.to_string() });
    if !history.is_empty() {
        body["history"] = history.into();
    }
    Ok(Answer::json(200, body))
}

fn send(state: &mut State, call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs(&SEND, &[], &[])?;
    let body = call.body(&["raw", "threadId"])?;
    let raw = body.get("raw").and_then(Value::as_str);
    let raw = raw.ok_or_else(|| {
        invalid("'raw' RFC822 payload message string or uploading message via /upload/* URL required")
    })?;
    let mut sent = Sent::read(raw).map_err(|why| error(400, "INVALID_ARGUMENT", "invalidArgument", &why))?;
    let thread = match body.get("threadId") {
        None => None,
        Some(Value::String(thread)) => Some(thread.clone()),
        Some(_) => return Err(invalid("Invalid value at 'message.thread_id' (TYPE_STRING)")),
    };
    let own = state.people.get(&call.bearer.sub).ok_or_else(not_found)?.clone();
    if let Some(thread) = &thread
        && !own.mails.iter().any(|mail| mail.thread_id == *thread)
    {
        return Err(not_found());
    }
    // Nobody writes in the name of somebody else.
    let from = sent.header("from").map(addresses).unwrap_or_default();
    if from != [own.email.clone()] {
        sent.set("From", own.email.clone());
    }
    let number = state.next_id();
    if sent.header("message-id").is_none() {
        sent.set("Message-ID", format!("<CA{number:x}@mail.gmail.com>"));
    }
    let at = chrono::DateTime::from_timestamp_millis(call.now_ms).unwrap_or_default();
    if sent.header("date").is_none() {
        sent.set("Date", at.to_rfc2822());
    }
    let hidden = sent.header("bcc").map(addresses).unwrap_or_default();
    let all: Vec<String> =
        ["to", "cc"].iter().filter_map(|name| sent.header(name)).flat_map(addresses).chain(hidden).collect();
    let own_thread = thread.filter(|thread| belongs(&own.mails, thread, &sent));
    let (id, thread_id) = store(state, &own.sub, own_thread, &sent, call.now_ms, &["SENT"]);
    // It arrives where it is for, if that is here.
    let mut seen = sent.clone();
    seen.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("bcc"));
    let there: Vec<String> =
        state.people.values().filter(|person| all.contains(&person.email)).map(|person| person.sub.clone()).collect();
    for sub in there {
        let known = state.people.get(&sub).and_then(|person| {
            let mine = person.mails.iter().find(|mail| belongs(&person.mails, &mail.thread_id, &seen))?;
            Some(mine.thread_id.clone())
        });
        store(state, &sub, known, &seen, call.now_ms, &["INBOX", "UNREAD"]);
    }
    Ok(Answer::json(200, json!({"id": id, "threadId": thread_id, "labelIds": ["SENT"]})))
}

/// The conditions of a conversation: the headers name a message of it, and the subject is the same.
fn belongs(mails: &[Mail], thread: &str, sent: &Sent) -> bool {
    let Some(parent) = sent.header("in-reply-to") else { return false };
    let Some(references) = sent.header("references") else { return false };
    let named: Vec<&str> = ids(references);
    let subject = bare_subject(sent.header("subject").unwrap_or_default());
    mails.iter().filter(|mail| mail.thread_id == thread).any(|mail| {
        let id = header_of(&mail.payload, "message-id").unwrap_or_default();
        let same = bare_subject(&header_of(&mail.payload, "subject").unwrap_or_default()) == subject;
        same && named.contains(&id.as_str()) && ids(parent).contains(&id.as_str())
    })
}

fn store(
    state: &mut State,
    sub: &str,
    thread: Option<String>,
    sent: &Sent,
    now_ms: i64,
    labels: &[&str],
) -> (String, String) {
    add(state, sub, thread, sent.payload(), now_ms, labels)
}

/// One more mail in somebody's mailbox; in a conversation of its own without one.
pub(super) fn add(
    state: &mut State,
    sub: &str,
    thread: Option<String>,
    payload: Value,
    at_ms: i64,
    labels: &[&str],
) -> (String, String) {
    let id = format!("19{:014x}", state.next_id());
    let thread_id = thread.unwrap_or_else(|| id.clone());
    if let Some(person) = state.people.get_mut(sub) {
        person.history_id += 7;
        let mut payload = payload;
        number_parts(&mut payload, "");
        person.mails.push(Mail {
            id: id.clone(),
            thread_id: thread_id.clone(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            internal_ms: at_ms,
            history_id: person.history_id,
            payload,
        });
    }
    (id, thread_id)
}

fn number_parts(part: &mut Value, own: &str) {
    part["partId"] = own.into();
    for (index, inner) in part.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
        let id = if own.is_empty() { index.to_string() } else { format!("{own}.{index}") };
        number_parts(inner, &id);
    }
}

pub(super) fn header_of(payload: &Value, name: &str) -> Option<String> {
    let fits = |header: &&Value| header["name"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(name));
    payload["headers"].as_array()?.iter().find(fits)?["value"].as_str().map(str::to_owned)
}

/// All text of it, in small letters.
pub(super) fn text_of(part: &Value) -> String {
    let own = part["body"]["data"].as_str().and_then(|data| URL_SAFE.decode(data).ok());
    let own = own.filter(|_| part["mimeType"].as_str().is_some_and(|kind| kind.starts_with("text/")));
    let mut text = own.map(|bytes| String::from_utf8_lossy(&bytes).to_lowercase()).unwrap_or_default();
    for inner in part["parts"].as_array().into_iter().flatten() {
        text.push('\n');
        text.push_str(&text_of(inner));
    }
    text
}

fn snippet(payload: &Value) -> String {
    fn first(part: &Value) -> Option<String> {
        if part["mimeType"] == "text/plain" {
            let data = URL_SAFE.decode(part["body"]["data"].as_str()?).ok()?;
            return Some(String::from_utf8_lossy(&data).into_owned());
        }
        part["parts"].as_array()?.iter().find_map(first)
    }
    let text = first(payload).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let short: String = words.join(" ").chars().take(100).collect();
    crate::http::escape(&short)
}
