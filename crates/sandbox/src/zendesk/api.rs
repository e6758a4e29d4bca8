//! `/api/v2`: who calls, whether there is room, what the scopes allow, and which resource it goes to.

use axum::response::Response;
use base64::Engine as _;
use serde_json::{Value, json};

use crate::clock::{iso, pause};
use crate::desk::{Desk, World, locked};
use crate::http::{Answer, Request};
use crate::options::{API_TOKEN, CLIENT_ID};
use crate::zendesk::data::Role;
use crate::zendesk::limits::Room;
use crate::zendesk::scopes::Scopes;
use crate::zendesk::token_endpoint::oauth_error;
use crate::zendesk::{export, help_center, people, ticket_changes, tickets, webhooks};

/// Whoever sent credentials that are good.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) user_id: i64,
    pub(crate) role: Role,
    scope: String,
    /// The token set, where it was a bearer token.
    token: Option<usize>,
}

impl Caller {
    pub(crate) fn scope(&self) -> &str {
        &self.scope
    }
}

/// One call on its way to a resource.
pub(crate) struct Call<'a> {
    pub(crate) world: &'a World,
    pub(crate) desk: &'a Desk,
    pub(crate) request: &'a Request,
    pub(crate) caller: &'a Caller,
    pub(crate) now_ms: i64,
}

impl Call<'_> {
    /// Refuses a token whose scopes do not cover it, and people who are not staff.
    pub(crate) fn needs(&self, resource: &str, access: &str) -> Result<(), Answer> {
        if !Scopes(&self.caller.scope).allow(resource, access) {
            return Err(missing_scope(access));
        }
        if !self.caller.role.is_staff() {
            return Err(forbidden_to_person());
        }
        Ok(())
    }

    /// As [`Self::needs`], for calls that a resource scope does not open.
    pub(crate) fn needs_broad(&self, access: &str) -> Result<(), Answer> {
        self.needs("", access)
    }

    pub(crate) fn json(&self) -> Result<Value, Answer> {
        if !self.request.is_json() {
            return Err(Answer::json(
                415,
                json!({"error": "UnsupportedMediaType", "description": "The content type has to be application/json"}),
            ));
        }
        serde_json::from_slice(&self.request.body).map_err(|_| {
            Answer::json(422, json!({"error": "Unprocessable Entity", "message": "Server could not parse JSON"}))
        })
    }
}

pub(crate) async fn serve(world: &World, desk: &Desk, mut request: Request) -> Response {
    desk.counts.api_calls.up();
    let (delay_ms, canned) = locked(&desk.faults).plan_api(world.clock.now_ms());
    pause(delay_ms).await;
    let after = match canned {
        Some(canned) if canned.after_processing => Some(canned),
        Some(canned) => {
            if canned.status == 401 {
                desk.counts.unauthorized.up();
            }
            return canned.respond(&[]);
        }
        None => None,
    };
    let now_ms = world.clock.now_ms();
    let room = locked(&desk.limiter).count(world.options().rate_limit, now_ms);
    let answer = match room {
        Some(room) if room.exceeded => {
            desk.counts.rate_limited.up();
            Answer::text(429, "Number of allowed API requests per minute exceeded")
                .header("retry-after", room.resets_secs.to_string())
        }
        _ => {
            if let Some(last) = request.path.last_mut()
                && let Some(bare) = last.strip_suffix(".json")
            {
                *last = bare.to_owned();
            }
            route(world, desk, &request, now_ms).unwrap_or_else(|refusal| refusal)
        }
    };
    if answer.status == 401 {
        desk.counts.unauthorized.up();
    }
    if let Some(canned) = after
        && answer.status.is_success()
    {
        return canned.respond(&[]);
    }
    with_room(answer, room).into_response()
}

fn with_room(answer: Answer, room: Option<Room>) -> Answer {
    let Some(room) = room else { return answer };
    answer
        .header("x-rate-limit", room.limit.to_string())
        .header("x-rate-limit-remaining", room.remaining.to_string())
        .header("ratelimit-limit", room.limit.to_string())
        .header("ratelimit-remaining", room.remaining.to_string())
        .header("ratelimit-reset", room.resets_secs.to_string())
}

fn route(world: &World, desk: &Desk, request: &Request, now_ms: i64) -> Result<Answer, Answer> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let method = request.method.as_str();
    let caller = authenticate(desk, request.header("authorization"), now_ms)?;
    let Some(caller) = caller else {
        // Open to anonymous visitors: a 200 proves nothing.
        if (method, path.as_slice()) == ("GET", &["users", "me"]) {
            return Ok(people::me_anonymous());
        }
        return Err(not_authenticated());
    };
    let call = Call { world, desk, request, caller: &caller, now_ms };
    match (method, path.as_slice()) {
        ("GET", ["users", "me"]) => people::me(&call),
        ("GET", ["users", "search"]) => people::search(&call),
        ("GET", ["users", id]) => people::show(&call, id),
        ("GET", ["oauth", "tokens", "current"]) => current_token(&call),
        ("DELETE", ["oauth", "tokens", "current"]) => revoke_current_token(&call),
        ("GET", ["help_center", "articles", "search"]) => help_center::search(&call),
        ("GET", ["search"]) => tickets::search(&call),
        ("GET", ["incremental", "tickets", "cursor"]) => export::tickets(&call),
        ("GET", ["tickets"]) => tickets::list(&call),
        ("POST", ["tickets"]) => ticket_changes::create(&call),
        ("GET", ["tickets", id]) => tickets::show(&call, id),
        ("PUT", ["tickets", id]) => ticket_changes::update(&call, id),
        ("DELETE", ["tickets", id]) => ticket_changes::delete(&call, id),
        ("GET", ["tickets", id, "comments"]) => tickets::comments(&call, id),
        ("GET", ["tickets", id, "tags"]) => tickets::tags(&call, id),
        ("POST" | "PUT" | "DELETE", ["tickets", id, "tags"]) => ticket_changes::change_tags(&call, id),
        ("GET", ["webhooks"]) => webhooks::list(&call),
        ("POST", ["webhooks"]) => webhooks::create(&call),
        ("GET", ["webhooks", id]) => webhooks::show(&call, id),
        ("PUT", ["webhooks", id]) => webhooks::update(&call, id),
        ("DELETE", ["webhooks", id]) => webhooks::delete(&call, id),
        ("GET", ["webhooks", id, "signing_secret"]) => webhooks::signing_secret(&call, id, false),
        ("POST", ["webhooks", id, "signing_secret"]) => webhooks::signing_secret(&call, id, true),
        _ => Err(Answer::json(404, json!({"error": "InvalidEndpoint", "description": "Not found"}))),
    }
}

/// `None` is a visitor without credentials; wrong ones are an error.
pub(crate) fn authenticate(desk: &Desk, header: Option<&str>, now_ms: i64) -> Result<Option<Caller>, Answer> {
    let Some(header) = header else {
        return Ok(None);
    };
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    if scheme.eq_ignore_ascii_case("bearer") {
        let bearer = locked(&desk.tokens).bearer(rest.trim(), now_ms).ok_or_else(invalid_token)?;
        return caller(desk, bearer.user_id, bearer.scope, Some(bearer.index)).map(Some);
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(not_authenticated());
    }
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(rest.trim())
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(not_authenticated)?;
    let email =
        decoded.strip_suffix(API_TOKEN).and_then(|user| user.strip_suffix("/token:")).ok_or_else(not_authenticated)?;
    let user = locked(&desk.data)
        .users
        .iter()
        .find(|user| user.email == email)
        .map(|user| user.id)
        .ok_or_else(not_authenticated)?;
    caller(desk, user, "read write".to_owned(), None).map(Some)
}

fn caller(desk: &Desk, user_id: i64, scope: String, token: Option<usize>) -> Result<Caller, Answer> {
    let role = locked(&desk.data).user(user_id).map(|user| user.role);
    Ok(Caller { user_id, role: role.ok_or_else(invalid_token)?, scope, token })
}

fn current_token(call: &Call<'_>) -> Result<Answer, Answer> {
    let index = call.caller.token.ok_or_else(not_authenticated)?;
    let tokens = locked(&call.desk.tokens);
    let set = tokens.set(index);
    let head: String = set.access_token.iter().flat_map(|token| token.chars()).take(10).collect();
    let scopes: Vec<&str> = Scopes(&set.scope).iter().collect();
    let id = call.desk.account_id * 1_000_000 + i64::try_from(index).unwrap_or(0);
    Ok(Answer::json(
        200,
        json!({"token": {
            "id": id,
            "url": format!("{}/api/v2/oauth/tokens/{id}.json", call.desk.url),
            "token": head,
            "refresh_token": null,
            "scopes": scopes,
            "client_id": call.desk.account_id * 100 + 1,
            "client_identifier": CLIENT_ID,
            "user_id": set.user_id,
            "created_at": iso(set.issued_at_ms),
            "expires_at": set.access_expires_at_ms.map(iso),
            "refresh_token_expires_at": set.refresh_expires_at_ms.map(iso),
            "used_at": iso(call.now_ms),
        }}),
    ))
}

fn revoke_current_token(call: &Call<'_>) -> Result<Answer, Answer> {
    let index = call.caller.token.ok_or_else(not_authenticated)?;
    locked(&call.desk.tokens).revoke_set(index, call.now_ms);
    call.desk.counts.revocations.up();
    Ok(Answer::empty(204))
}

fn invalid_token() -> Answer {
    oauth_error(
        401,
        "invalid_token",
        "The access token provided is expired, revoked, malformed or invalid for other reasons.",
    )
    .header("www-authenticate", "Bearer realm=\"Zendesk\"")
}

pub(crate) fn not_authenticated() -> Answer {
    Answer::json(401, json!({"error": "Couldn't authenticate you"}))
}

fn missing_scope(access: &str) -> Answer {
    Answer::json(
        403,
        json!({
            "error": "Forbidden",
            "description": format!("You are missing the following required scopes: {access}"),
        }),
    )
}

/// The other shape of a 403: here `error` is an object.
pub(crate) fn forbidden_to_person() -> Answer {
    Answer::json(
        403,
        json!({"error": {
            "title": "Forbidden",
            "message": "You do not have access to this page. Please contact the account owner of this help desk \
                        for further help.",
        }}),
    )
}

pub(crate) fn not_found() -> Answer {
    Answer::json(404, json!({"error": "RecordNotFound", "description": "Not found"}))
}

pub(crate) fn record_invalid(field: &str, description: &str, error: &str) -> Answer {
    Answer::json(
        422,
        json!({
            "error": "RecordInvalid",
            "description": "Record validation errors",
            "details": {field: [{"description": description, "error": error}]},
        }),
    )
}
