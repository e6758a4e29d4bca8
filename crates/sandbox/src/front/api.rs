//! The API's way in: trouble, credentials, room, permissions, parameters; and its lists and errors.
//!
//! <https://dev.frontapp.com/docs/rate-limiting>, <https://github.com/frontapp/front-api-specs>

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Map, Value, json};

use super::data::{Company, seconds};
use super::state::State;
use super::{Front, conversations, messages, people};
use crate::clock::{http_date, pause};
use crate::desk::{World, locked};
use crate::faults::hang_up;
use crate::http::{Answer, Request};

const WINDOW_MS: i64 = 60_000;
/// Entries on a page where nothing is asked for, and the most that may be asked for.
const USUAL_PER_PAGE: usize = 50;
const MOST_PER_PAGE: usize = 100;

pub(super) async fn serve(world: &World, front: &Front, request: &Request) -> Response {
    front.counts.api_calls.up();
    let now_ms = world.clock.now_ms();
    let (dropped, (delay, canned)) = {
        let mut faults = locked(&front.faults);
        (faults.drops_api(), faults.plan_api(now_ms))
    };
    if dropped {
        return hang_up();
    }
    pause(delay).await;
    if let Some(canned) = canned.as_ref().filter(|canned| !canned.after_processing) {
        return canned.respond(&[]);
    }
    let answer = answer(front, request, now_ms);
    if answer.status == 401 {
        front.counts.unauthorized.up();
    }
    if answer.status == 429 {
        front.counts.rate_limited.up();
    }
    canned.map_or_else(|| answer.into_response(), |canned| canned.respond(&[]))
}

fn answer(front: &Front, request: &Request, now_ms: i64) -> Answer {
    let mut state = locked(&front.state);
    let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let Some(label) = token.and_then(|token| state.bearer(token, now_ms)) else {
        return error(401, "Unauthenticated", "JSON Web Token is either invalid or expired", &[]);
    };
    let searches = request.path.iter().map(String::as_str).take(2).eq(["conversations", "search"]);
    let Some(room) = room(&mut state, &label, searches, now_ms) else { return not_found() };
    let answered = if room.exceeded {
        Err(error(429, "Rate limit exceeded", "Rate limit exceeded. Please retry later", &[])
            .header("retry-after", room.resets_secs(now_ms).to_string()))
    } else {
        route(&mut Call { state: &mut state, label: &label, request, now_ms })
    };
    answered
        .unwrap_or_else(|refusal| refusal)
        .header("date", http_date(now_ms))
        .header("x-ratelimit-limit", room.limit.to_string())
        .header("x-ratelimit-remaining", room.remaining.to_string())
        .header("x-ratelimit-reset", seconds(room.ends_ms).to_string())
        .header("x-ratelimit-burst-limit", (room.limit / 2).to_string())
        .header("x-ratelimit-burst-remaining", "0")
}

/// One call, its caller known.
pub(super) struct Call<'a> {
    pub(super) state: &'a mut State,
    label: &'a str,
    pub(super) request: &'a Request,
    pub(super) now_ms: i64,
}

fn route(call: &mut Call<'_>) -> Result<Answer, Answer> {
    let path: Vec<&str> = call.request.path.iter().map(String::as_str).collect();
    match (call.request.method.as_str(), path.as_slice()) {
        ("GET", ["me"]) => Ok(people::me(call)),
        ("GET", ["conversations"]) => conversations::list(call),
        ("GET", ["conversations", "search", query]) => conversations::search(call, query),
        ("GET", ["conversations", id]) => conversations::show(call, id),
        ("PATCH", ["conversations", id]) => conversations::update(call, id),
        (method @ ("POST" | "DELETE"), ["conversations", id, "tags"]) => conversations::tag(call, id, method == "POST"),
        ("GET", ["conversations", id, "messages"]) => messages::list(call, id),
        ("POST", ["conversations", id, "messages"]) => messages::reply(call, id),
        ("GET", ["conversations", id, "comments"]) => messages::comments(call, id),
        ("POST", ["conversations", id, "comments"]) => messages::comment(call, id),
        ("GET", ["messages", id]) => messages::show(call, id),
        ("POST", ["inboxes", id, "imported_messages"]) => messages::import(call, id),
        ("GET", ["inboxes", id, "channels"]) => people::channels(call, id),
        ("GET", ["inboxes"]) => people::inboxes(call),
        ("GET", ["contacts", id]) => people::contact(call, id),
        ("GET", ["teammates"]) => people::teammates(call),
        ("GET", ["teammates", id]) => people::teammate(call, id),
        ("GET", ["tags"]) => people::tags(call),
        ("GET", ["company", "statuses"]) => people::statuses(call),
        _ => Err(not_found()),
    }
}

impl Call<'_> {
    pub(super) fn company(&self) -> &Company {
        &self.state.companies[self.label]
    }

    pub(super) fn company_mut(&mut self) -> &mut Company {
        self.state.companies.get_mut(self.label).expect("its bearer was found")
    }

    /// A permission that the app has, and parameters that the end point knows.
    pub(super) fn needs(&self, permission: &str, parameters: &[&str]) -> Result<(), Answer> {
        if self.state.options.lacks.contains(permission) {
            return Err(error(403, "Forbidden", &format!("Missing required scope: {permission}"), &[]));
        }
        match self.request.query.iter().find(|(name, _)| !parameters.contains(&name.as_str())) {
            Some((name, _)) => Err(bad(&[format!("query.{name}: unknown parameter")])),
            None => Ok(()),
        }
    }

    /// A JSON object with nothing but these fields.
    pub(super) fn body(&self, fields: &[&str]) -> Result<Map<String, Value>, Answer> {
        let body = if self.request.is_json() { serde_json::from_slice(&self.request.body).ok() } else { None };
        let Some(Value::Object(body)) = body else { return Err(bad(&["body: should be an object".to_owned()])) };
        let strange: Vec<String> = body
            .keys()
            .filter(|name| !fields.contains(&name.as_str()))
            .map(|name| format!("body.{name}: unknown"))
            .collect();
        if strange.is_empty() { Ok(body) } else { Err(bad(&strange)) }
    }

    /// One page of a list, and where the next one is: a whole URL on the company's own host.
    pub(super) fn page(&self, all: Vec<Value>) -> Result<Answer, Answer> {
        self.page_of(all, &[])
    }

    /// The same with the number of all of them.
    pub(super) fn counted_page(&self, all: Vec<Value>) -> Result<Answer, Answer> {
        let total = all.len().into();
        self.page_of(all, &[("_total", total)])
    }

    fn page_of(&self, all: Vec<Value>, more: &[(&str, Value)]) -> Result<Answer, Answer> {
        let path = self.request.path.iter().map(|part| encode(part)).collect::<Vec<_>>().join("/");
        let asked = match self.request.param("limit").map(str::parse::<usize>) {
            None => USUAL_PER_PAGE,
            Some(Ok(limit)) if (1..=MOST_PER_PAGE).contains(&limit) => limit,
            Some(_) => return Err(bad(&["query.limit: should be between 1 and 100".to_owned()])),
        };
        let size = asked.min(self.state.options.page_limit);
        let bad_token = || bad(&["query.page_token: is invalid".to_owned()]);
        let start = match self.request.param("page_token") {
            None => 0,
            Some(token) => {
                let text = BASE64.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                let at = text.as_deref().and_then(|text| text.strip_prefix(&path)?.strip_prefix(':')?.parse().ok());
                at.ok_or_else(bad_token)?
            }
        };
        let total = all.len();
        let results: Vec<Value> = all.into_iter().skip(start).take(size).collect();
        let host = self.company().host();
        let next = (start + size < total).then(|| {
            let token = BASE64.encode(format!("{path}:{}", start + size));
            format!("{host}/{path}?limit={asked}&page_token={token}")
        });
        let mut body =
            json!({"_pagination": {"next": next}, "_links": {"self": format!("{host}/{path}")}, "_results": results});
        for (name, value) in more {
            body[*name] = value.clone();
        }
        Ok(Answer::json(200, body))
    }
}

/// As a path holds it.
fn encode(part: &str) -> String {
    url::form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>().replace('+', "%20")
}

struct Room {
    limit: u32,
    remaining: u32,
    ends_ms: i64,
    exceeded: bool,
}

impl Room {
    fn resets_secs(&self, now_ms: i64) -> i64 {
        (self.ends_ms - now_ms + 999) / 1000
    }
}

/// Counts one call; searches have 40 % of the room.
fn room(state: &mut State, label: &str, searches: bool, now_ms: i64) -> Option<Room> {
    let company = state.companies.get_mut(label)?;
    let window = &mut company.window;
    if now_ms >= window.started_ms + WINDOW_MS {
        *window = super::data::Window { started_ms: now_ms, ..Default::default() };
    }
    let limit = company.per_minute;
    let exceeded = window.used >= limit || searches && window.searches >= limit * 2 / 5;
    if !exceeded {
        window.used += 1;
        window.searches += u32::from(searches);
    }
    Some(Room { limit, remaining: limit - window.used, ends_ms: window.started_ms + WINDOW_MS, exceeded })
}

pub(super) fn error(status: u16, title: &str, message: &str, details: &[String]) -> Answer {
    let mut body = json!({"_error": {"status": status, "title": title, "message": message}});
    if !details.is_empty() {
        body["_error"]["details"] = details.into();
    }
    Answer::json(status, body)
}

pub(super) fn bad(details: &[String]) -> Answer {
    error(400, "Bad request", "Request failed due to validation errors", details)
}

/// No such thing, or no right to see it.
pub(super) fn not_found() -> Answer {
    error(404, "Not found", "Resource not found", &[])
}
