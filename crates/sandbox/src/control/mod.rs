//! `/control`: what no provider has. JSON for tests, a page for people.
//!
//! | route | body | answer |
//! |---|---|---|
//! | `GET /control` or `/control/state` | | the overview; a page where HTML is wanted |
//! | `POST /control/reset` | | the overview |
//! | `POST /control/clock` | `{advance_secs}` | `{now, offset_secs}` |
//! | `GET`, `PATCH /control/options` | some of [`Options`](crate::Options) | all of them |
//! | `POST /control/client` | `{client_secret, next_client_secret?}` | 204 |
//! | `POST /control/consent` | `{authorize_url, user?, deny?}` | `{location}` |
//! | `GET /control/counters` | | [`Counters`] of all helpdesks |
//! | `POST /control/zendesk` | `{name}` | 201, its summary |
//! | `GET`, `DELETE /control/zendesk/{name}` | | its summary; 204 and it is closed |
//! | `POST …/grant` | [`GrantRequest`] | [`TokenAnswer`](crate::TokenAnswer) |
//! | `GET …/counters`, `GET …/ledger[?values=1]` | | [`Counters`], [`Ledger`](crate::Ledger) |
//! | `POST …/revoke` | `{grant?}` | `{revoked}` |
//! | `POST …/expire` | | `{expired}` |
//! | `GET`, `PATCH`, `DELETE …/faults` | some of [`Faults`] | all of them; 204 |
//! | `POST …/tickets` | `{count}` | 204 |
//! | `GET …/tickets/{id}` | | a page |
//! | `POST /control/events` | [`EventOrder`](crate::EventOrder) | `{attempts}`: each [`EventAttempt`](crate::EventAttempt) |
//! | `POST …/do` | a form: `action`, `grant?` | 303 to the page |
//! | `POST /control/others/{service}/do` | a form: `action` | 303 to the page |
//! | `POST /control/clients/{provider}/do` | a form: `action`, `make` or `retire` | 303 to the page |
//!
//! `POST` does what `PATCH` does. Errors are `{"error": "…"}` with 400 or 404. `*` for a name means all helpdesks
//! where something is changed, and the first one where something is read or granted.

mod actions;
pub(crate) mod clients;
mod others;
mod page;
mod tickets;

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::iso;
use crate::counters::Counters;
use crate::desk::{Desk, World, locked};
use crate::faults::Faults;
use crate::handle::{GrantRequest, Helpdesk};
use crate::http::{Answer, Request};
use crate::options::CLIENT_ID;
use crate::server::decide;
use crate::zendesk::data::ADMIN;

pub(crate) fn serve(world: &Arc<World>, request: &Request) -> Answer {
    route(world, request).unwrap_or_else(|refusal| refusal)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockChange {
    advance_secs: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretChange {
    client_secret: String,
    next_client_secret: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConsentOrder {
    authorize_url: String,
    user: Option<String>,
    #[serde(default)]
    deny: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Revocation {
    grant: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoreTickets {
    count: u32,
}

fn route(world: &Arc<World>, request: &Request) -> Result<Answer, Answer> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", []) if page::is_wanted(request) => Ok(page::overview(world, request)),
        ("GET", [] | ["state"]) => Ok(ok(state(world))),
        ("GET", ["style.css"]) => Ok(page::style()),
        ("POST", ["reset"]) => {
            world.reset();
            Ok(ok(state(world)))
        }
        ("POST", ["clock"]) => {
            let change: ClockChange = body(request)?;
            world.clock.advance(Duration::from_secs(change.advance_secs));
            Ok(ok(json!({"now": iso(world.clock.now_ms()), "offset_secs": world.clock.offset_secs()})))
        }
        ("GET", ["options"]) => Ok(ok(world.options())),
        ("POST" | "PATCH", ["options"]) => {
            let options = patched(world.options(), request)?;
            world.set_options(options);
            Ok(ok(options))
        }
        ("POST", ["client"]) => {
            let change: SecretChange = body(request)?;
            locked(&world.client).set(change.client_secret, change.next_client_secret);
            Ok(Answer::empty(204))
        }
        ("POST", ["consent"]) => {
            let order: ConsentOrder = body(request)?;
            let user = (!order.deny).then(|| order.user.as_deref().unwrap_or(ADMIN));
            match decide(world, &order.authorize_url, user) {
                Ok(location) => Ok(ok(json!({"location": location}))),
                Err(why) => Err(Answer::json(400, json!({"error": why.error, "error_description": why.description}))),
            }
        }
        ("GET", ["counters"]) => {
            let mut sum = Counters::default();
            for desk in world.all() {
                sum += desk.counts.read();
            }
            Ok(ok(sum))
        }
        ("POST", ["zendesk"]) => {
            let Named { name } = body(request)?;
            let desk = world.create(&name).ok_or_else(|| problem(400, "the name has to be a DNS label"))?;
            Ok(Answer::json(201, summary(world, &desk)))
        }
        ("POST", ["clients", provider, "do"]) => {
            clients::act(world, provider, request).ok_or_else(|| problem(404, "there is no such provider"))
        }
        ("POST", ["others", service, "do"]) => {
            others::act(world, service, request).ok_or_else(|| problem(404, "there is no such service"))
        }
        (method, ["zendesk", name, rest @ ..]) => helpdesk(world, request, method, name, rest),
        _ => Err(problem(404, "there is no such control")),
    }
}

fn helpdesk(world: &Arc<World>, request: &Request, method: &str, name: &str, rest: &[&str]) -> Result<Answer, Answer> {
    let desks: Vec<Helpdesk> = match name {
        "*" => world.all(),
        name => world.find(name).into_iter().collect(),
    }
    .into_iter()
    .map(|desk| Helpdesk::new(Arc::clone(world), desk))
    .collect();
    let first = desks.first().ok_or_else(|| problem(404, "there is no such help desk"))?;
    match (method, rest) {
        ("GET", []) => {
            let desk = world.find(first.name());
            Ok(ok(desk.map(|desk| summary(world, &desk))))
        }
        ("DELETE", []) => {
            for desk in &desks {
                world.close(desk.name());
            }
            Ok(Answer::empty(204))
        }
        ("POST", ["grant"]) => {
            let wanted: GrantRequest = body_or_default(request)?;
            let answer = first.grant(&wanted).ok_or_else(|| problem(400, "there is no such user"))?;
            Ok(ok(answer))
        }
        ("GET", ["counters"]) => Ok(ok(first.counters())),
        ("GET", ["ledger"]) => {
            let mut ledger = first.ledger();
            if request.param("values") != Some("1") {
                for set in &mut ledger.sets {
                    set.access_token = None;
                    set.refresh_token = None;
                }
            }
            Ok(ok(ledger))
        }
        ("POST", ["revoke"]) => {
            let Revocation { grant } = body_or_default(request)?;
            let revoked: u64 = desks.iter().map(|desk| desk.revoke(grant)).sum();
            Ok(ok(json!({"revoked": revoked})))
        }
        ("POST", ["expire"]) => {
            let expired: u64 = desks.iter().map(Helpdesk::expire_access_tokens).sum();
            Ok(ok(json!({"expired": expired})))
        }
        ("GET", ["faults"]) => Ok(ok(first.faults())),
        ("DELETE", ["faults"]) => {
            desks.iter().for_each(Helpdesk::calm);
            Ok(Answer::empty(204))
        }
        ("POST" | "PATCH", ["faults"]) => {
            for desk in &desks {
                let old = desk.faults();
                let new: Faults = patched(old.clone(), request)?;
                let given: Value = body(request)?;
                desk.trouble(|faults| {
                    *faults = new;
                    // One that was not named goes on as it is, its end included.
                    if given.get("token_answer").is_none() {
                        faults.token_answer = old.token_answer;
                    }
                    if given.get("api_answer").is_none() {
                        faults.api_answer = old.api_answer;
                    }
                });
            }
            Ok(ok(first.faults()))
        }
        ("GET", ["tickets", id]) => {
            let desk = world.find(first.name()).and_then(|desk| tickets::show(world, &desk, id));
            desk.ok_or_else(|| problem(404, "there is no such ticket"))
        }
        ("POST", ["tickets"]) => {
            let MoreTickets { count } = body(request)?;
            for desk in &desks {
                desk.add_tickets(count);
            }
            Ok(Answer::empty(204))
        }
        ("POST", ["do"]) => Ok(actions::act(&desks, request)),
        _ => Err(problem(404, "there is no such control")),
    }
}

fn state(world: &World) -> Value {
    let desks: Vec<Value> = world.all().iter().map(|desk| summary(world, desk)).collect();
    let mut total = Counters::default();
    for desk in world.all() {
        total += desk.counts.read();
    }
    json!({
        "now": iso(world.clock.now_ms()),
        "offset_secs": world.clock.offset_secs(),
        "client_id": CLIENT_ID,
        "options": world.options(),
        "counters": total,
        "helpdesks": desks,
    })
}

fn summary(world: &World, desk: &Desk) -> Value {
    json!({
        "name": desk.name,
        "url": format!("{}/zendesk/{}", world.start.url, desk.name),
        "account_id": desk.account_id,
        "live_grants": locked(&desk.tokens).live_grants(),
        "counters": desk.counts.read(),
        "faults": &*locked(&desk.faults),
    })
}

/// `current` with the members of the request's object in place of its own.
fn patched<T: Serialize + DeserializeOwned>(current: T, request: &Request) -> Result<T, Answer> {
    let changes: serde_json::Map<String, Value> = body(request)?;
    let mut merged = serde_json::to_value(current).unwrap_or_default();
    for (name, value) in changes {
        merged[name] = value;
    }
    serde_json::from_value(merged).map_err(|error| problem(400, &error.to_string()))
}

fn body<T: DeserializeOwned>(request: &Request) -> Result<T, Answer> {
    serde_json::from_slice(&request.body).map_err(|error| problem(400, &error.to_string()))
}

fn body_or_default<T: DeserializeOwned + Default>(request: &Request) -> Result<T, Answer> {
    if request.body.is_empty() { Ok(T::default()) } else { body(request) }
}

fn ok(value: impl Serialize) -> Answer {
    Answer::json(200, serde_json::to_value(value).unwrap_or_default())
}

fn problem(status: u16, text: &str) -> Answer {
    Answer::json(status, json!({"error": text}))
}
