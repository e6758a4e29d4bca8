//! `/api/v2`: whether there is room, who calls, and which resource it goes to.

use axum::response::Response;
use serde_json::json;

use crate::clock::pause;
use crate::desk::{World, locked};
use crate::faults::hang_up;
use crate::freshdesk::account::Account;
use crate::freshdesk::data::{Agent, FreshdeskPlan};
use crate::freshdesk::limits::{Class, Room};
use crate::freshdesk::{articles, changes, people, tickets};
use crate::http::{Answer, Request};

/// Credits that each `include` costs beside the call's own.
const INCLUDE_CREDITS: u32 = 2;

/// One call on its way to a resource.
pub(crate) struct Call<'a> {
    pub(crate) account: &'a Account,
    pub(crate) request: &'a Request,
    pub(crate) agent: &'a Agent,
    pub(crate) now_ms: i64,
}

impl Call<'_> {
    pub(crate) fn needs_admin(&self) -> Result<(), Answer> {
        if self.agent.admin { Ok(()) } else { Err(access_denied()) }
    }
}

pub(crate) async fn serve(world: &World, account: &Account, request: Request) -> Response {
    account.counts.api_calls.up();
    let path = request.path.join("/");
    let plan = locked(&account.trouble).plan(&path, world.clock.now_ms());
    pause(plan.delay_ms).await;
    if plan.dropped {
        account.counts.dropped.up();
        return hang_up();
    }
    if let Some(canned) = &plan.canned
        && !canned.after_processing
    {
        if canned.status == 401 {
            account.counts.unauthorized.up();
        }
        return canned.respond(&[]);
    }
    let answer = counted(account, &request, world.clock.now_ms());
    if let Some(canned) = &plan.canned {
        return canned.respond(&[]);
    }
    if plan.loses {
        account.counts.answers_lost.up();
        return hang_up();
    }
    answer.into_response()
}

fn counted(account: &Account, request: &Request, now_ms: i64) -> Answer {
    let includes = request.param("include").map_or(0, |list| list.split(',').count());
    let credits = 1 + INCLUDE_CREDITS * u32::try_from(includes).unwrap_or(0);
    let (pays, suspended) = {
        let data = locked(&account.data);
        (data.plan, data.suspended)
    };
    let room = locked(&account.limiter).count(pays, class(request), credits, now_ms);
    if room.exceeded {
        account.counts.rate_limited.up();
        let words = json!({"message": "You have exceeded the limit of requests per minute"});
        return with_room(Answer::json(429, words).header("retry-after", room.resets_secs.to_string()), room);
    }
    let answer = if suspended {
        Answer::json(403, json!({"code": "account_suspended", "message": "Your account has been suspended."}))
    } else {
        route(account, request, pays, now_ms).unwrap_or_else(|refusal| refusal)
    };
    if answer.status == 401 {
        account.counts.unauthorized.up();
    }
    with_room(answer, room)
}

fn with_room(answer: Answer, room: Room) -> Answer {
    answer
        .header("x-ratelimit-total", room.total.to_string())
        .header("x-ratelimit-remaining", room.remaining.to_string())
        .header("x-ratelimit-used-currentrequest", room.used.to_string())
}

fn class(request: &Request) -> Class {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["tickets"]) => Class::TicketList,
        ("POST", ["tickets"]) => Class::TicketCreate,
        ("PUT", ["tickets", _]) => Class::TicketUpdate,
        ("GET", ["contacts"]) => Class::ContactList,
        _ => Class::Other,
    }
}

fn route(account: &Account, request: &Request, pays: FreshdeskPlan, now_ms: i64) -> Result<Answer, Answer> {
    let agent = account.authenticate(request.header("authorization"))?;
    if pays == FreshdeskPlan::Free {
        return Err(feature("API"));
    }
    if agent.without_pass {
        return Err(access_denied());
    }
    let call = Call { account, request, agent: &agent, now_ms };
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["agents", "me"]) => Ok(Answer::json(200, agent.to_json())),
        ("GET", ["agents"]) => people::agents(&call),
        ("GET", ["groups"]) => people::groups(&call),
        ("GET", ["contacts"]) => people::contacts(&call),
        ("GET", ["contacts", "autocomplete"]) => people::autocomplete(&call),
        ("GET", ["contacts", id]) => people::contact(&call, id),
        ("GET", ["tickets"]) => tickets::list(&call),
        ("POST", ["tickets"]) => changes::create(&call),
        ("GET", ["tickets", id]) => tickets::view(&call, id),
        ("PUT", ["tickets", id]) => changes::update(&call, id),
        ("GET", ["tickets", id, "conversations"]) => tickets::conversations(&call, id),
        ("POST", ["tickets", id, "reply"]) => changes::reply(&call, id),
        ("POST", ["tickets", id, "notes"]) => changes::note(&call, id),
        ("GET", ["search", "tickets"]) => tickets::search(&call),
        ("GET", ["search", "solutions"]) => articles::search(&call),
        ("GET", ["solutions", "articles", id]) => articles::view(&call, id),
        (method, ["tickets" | "contacts" | "agents" | "groups"] | ["search", "tickets" | "solutions"]) => {
            Err(Answer::json(405, json!({"message": format!("{method} method is not allowed.")})))
        }
        _ => Err(not_found()),
    }
}

/// Without a body.
pub(crate) fn not_found() -> Answer {
    Answer::empty(404)
}

pub(crate) fn access_denied() -> Answer {
    Answer::json(403, json!({"code": "access_denied", "message": "You are not authorized to perform this action."}))
}

/// What the plan does not hold.
pub(crate) fn feature(name: &str) -> Answer {
    let message =
        format!("The {name} feature(s) is/are not supported in your plan. Please upgrade your account to use it.");
    Answer::json(403, json!({"code": "require_feature", "message": message}))
}
