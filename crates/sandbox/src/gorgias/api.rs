//! `/api`: whether there is room, who calls, what they may do, and which resource it goes to.

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::account::{Place, Rules};
use super::data::{User, moment};
use super::error::{error, forbidden, not_found, unauthorized};
use super::lists::{OF_ALL, Page, params};
use super::{changes, customers, integrations, tickets};
use crate::clock::pause;
use crate::desk::{World, locked};
use crate::faults::{Canned, hang_up};
use crate::http::{Answer, Request};

/// One call on its way to a resource.
pub(super) struct Call<'a> {
    pub(super) place: &'a Place,
    pub(super) request: &'a Request,
    pub(super) user: User,
    pub(super) rules: Rules,
    /// `None`: by a key, which may do what its user may.
    scope: Option<String>,
    pub(super) now_ms: i64,
}

impl Call<'_> {
    pub(super) fn needs(&self, scope: &str) -> Result<(), Answer> {
        match &self.scope {
            Some(granted) if !granted.split(' ').any(|one| one == scope) => Err(forbidden()),
            _ => Ok(()),
        }
    }
}

pub(super) async fn serve(world: &World, place: &Place, request: Request) -> Response {
    place.counts.api_calls.up();
    let now_ms = world.clock.now_ms();
    let (dropped, (delay_ms, canned)) = {
        let mut faults = locked(&place.faults);
        let dropped = faults.drops_api();
        (dropped, if dropped { (0, None) } else { faults.plan_api(now_ms) })
    };
    if dropped {
        place.counts.dropped.up();
        return hang_up();
    }
    pause(delay_ms).await;
    let canned = canned.or_else(|| odd_answer(place, &request.path.join("/"), now_ms));
    if let Some(canned) = canned.as_ref().filter(|canned| !canned.after_processing) {
        return canned.respond(&[]);
    }
    let answer = counted(place, &request, now_ms);
    match canned {
        Some(canned) if answer.status.is_success() => canned.respond(&[]),
        _ => answer.into_response(),
    }
}

/// What a part of the API answers instead.
fn odd_answer(place: &Place, path: &str, now_ms: i64) -> Option<Canned> {
    let mut all = locked(&place.odd_answers);
    all.retain(|(_, canned)| !canned.is_over(now_ms));
    let (_, found) = all.iter_mut().find(|(part, _)| path.contains(part.as_str()))?;
    let mut slot = Some(found.clone());
    let taken = Canned::take(&mut slot, now_ms);
    if let Some(left) = slot {
        *found = left;
    }
    taken
}

fn counted(place: &Place, request: &Request, now_ms: i64) -> Answer {
    let by_key = request.header("authorization").is_some_and(|header| header.starts_with("Basic "));
    let rules = place.rules();
    let room = locked(&place.buckets).count(by_key, &rules, now_ms);
    let answer = if room.wait_secs > 0 {
        place.counts.rate_limited.up();
        error(429, "Rate limit exceeded.").header("retry-after", room.wait_secs.to_string())
    } else {
        route(place, request, rules, now_ms).unwrap_or_else(|refusal| refusal)
    };
    if answer.status == 401 {
        place.counts.unauthorized.up();
    }
    answer.header("x-gorgias-account-api-call-limit", format!("{}/{}", room.used, room.holds))
}

fn route(place: &Place, request: &Request, rules: Rules, now_ms: i64) -> Result<Answer, Answer> {
    let (user, scope) = caller(place, request, now_ms).ok_or_else(unauthorized)?;
    let call = Call { place, request, user, rules, scope, now_ms };
    let mut path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    // With a slash at the end or without.
    path.retain(|segment| !segment.is_empty());
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["account"]) => account(&call),
        ("GET", ["users"]) => users(&call),
        ("GET", ["users", id]) => one_user(&call, id),
        ("GET", ["teams"]) => teams(&call),
        ("GET", ["customers"]) => customers::list(&call),
        ("GET", ["customers", id]) => customers::one(&call, id),
        ("POST", ["search"]) => customers::search(&call),
        ("GET", ["tickets"]) => tickets::list(&call),
        ("POST", ["tickets"]) => changes::create(&call),
        ("GET", ["tickets", id]) => tickets::one(&call, id),
        ("PUT", ["tickets", id]) => changes::update(&call, id),
        ("GET", ["messages"]) => tickets::messages(&call),
        ("POST", ["tickets", id, "messages"]) => changes::send(&call, id),
        ("POST" | "PUT" | "DELETE", ["tickets", id, "tags"]) => changes::tags(&call, id),
        ("GET", ["integrations"]) => integrations::list(&call),
        ("POST", ["integrations"]) => integrations::create(&call),
        ("GET", ["integrations", id]) => integrations::one(&call, id),
        ("PUT", ["integrations", id]) => integrations::update(&call, id),
        ("DELETE", ["integrations", id]) => integrations::delete(&call, id),
        (_, ["account" | "users" | "teams" | "customers" | "search" | "tickets" | "messages" | "integrations", ..]) => {
            Err(error(405, "The method is not allowed for the requested URL."))
        }
        _ => Err(not_found("The requested URL")),
    }
}

/// By a bearer with its scopes, or by `email:key`.
fn caller(place: &Place, request: &Request, now_ms: i64) -> Option<(User, Option<String>)> {
    let (scheme, credential) = request.header("authorization")?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        let bearer = locked(&place.tokens).bearer(credential, now_ms)?;
        let user = locked(&place.data).user(bearer.user_id).filter(|user| user.active).cloned()?;
        return Some((user, Some(bearer.scope)));
    }
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(credential.trim()).ok())??;
    let pair = String::from_utf8(pair).ok()?;
    let (email, key) = pair.split_once(':')?;
    let data = locked(&place.data);
    let user =
        data.users.iter().find(|user| user.active && user.email.eq_ignore_ascii_case(email) && user.api_key == key)?;
    Some((user.clone(), None))
}

fn account(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    call.needs("account:read")?;
    let (id, created_ms) = {
        let data = locked(&call.place.data);
        (data.account_id, data.created_ms)
    };
    let body = json!({
        "id": id,
        "domain": call.place.name,
        "status": {"status": "active"},
        "created_datetime": moment(created_ms),
        "deactivated_datetime": null,
        "settings": [],
    });
    Ok(Answer::json(200, body))
}

fn users(call: &Call<'_>) -> Result<Answer, Answer> {
    let known: Vec<&str> = OF_ALL.into_iter().chain(["email", "external_id", "search"]).collect();
    params(call.request, &known)?;
    call.needs("users:read")?;
    let page = Page::of(call.request, &["created_datetime", "name"])?;
    let data = locked(&call.place.data);
    let email = call.request.param("email");
    let found = data.users.iter().filter(|user| email.is_none_or(|email| user.email.eq_ignore_ascii_case(email)));
    Ok(page.answer("/api/users", found.map(User::to_json).collect()))
}

/// 0 stands for who calls.
fn one_user(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    call.needs("users:read")?;
    if id == "0" {
        return if call.rules.hides_current_user {
            Err(forbidden())
        } else {
            Ok(Answer::json(200, call.user.to_json()))
        };
    }
    let data = locked(&call.place.data);
    let user = id.parse().ok().and_then(|id| data.user(id)).ok_or_else(|| not_found("User"))?;
    Ok(Answer::json(200, user.to_json()))
}

fn teams(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &OF_ALL)?;
    call.needs("teams:read")?;
    let page = Page::of(call.request, &["name"])?;
    Ok(page.answer("/api/teams", locked(&call.place.data).teams.clone()))
}
