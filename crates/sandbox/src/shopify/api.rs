//! `/admin/api/{version}/graphql.json`: who calls, whether there are points, and the document.

use axum::response::Response;
use serde_json::{Value, json};

use super::graphql::run::{error, prepare, run};
use super::shop::Place;
use super::source::Root;
use crate::clock::pause;
use crate::desk::{World, locked};
use crate::faults::hang_up;
use crate::http::{Answer, Request};

const VERSIONS: [&str; 4] = ["2026-01", "2026-04", "2026-07", "2026-10"];
/// One document asks for no more.
const MOST_POINTS: i64 = 1000;

pub(crate) async fn serve(world: &World, shop: &Place, request: &Request) -> Response {
    shop.counts.api_calls.up();
    if locked(&shop.faults).drops_api() {
        return hang_up();
    }
    let (delay_ms, canned) = locked(&shop.faults).plan_api(world.clock.now_ms());
    pause(delay_ms).await;
    if let Some(canned) = canned {
        if canned.status == 401 {
            shop.counts.unauthorized.up();
        }
        return canned.respond(&[]);
    }
    let answer = answer(world, shop, request).unwrap_or_else(|refusal| refusal);
    if answer.status == 401 {
        shop.counts.unauthorized.up();
    }
    answer.into_response()
}

fn refused(status: u16, errors: impl Into<Value>) -> Answer {
    Answer::json(status, json!({"errors": errors.into()}))
}

/// The scopes of a good token. `Authorization` is not looked at.
fn authenticate(world: &World, shop: &Place, request: &Request) -> Result<String, Answer> {
    let token = request.header("x-shopify-access-token").unwrap_or_default();
    let bearer = locked(&shop.tokens).bearer(token, world.clock.now_ms());
    let bearer = bearer
        .ok_or_else(|| refused(401, "[API] Invalid API key or access token (unrecognized login or wrong password)"))?;
    if bearer.endless && shop.rules().refuses_endless {
        return Err(refused(403, "Non-expiring access tokens are no longer accepted for the Admin API"));
    }
    Ok(bearer.scope)
}

fn answer(world: &World, shop: &Place, request: &Request) -> Result<Answer, Answer> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let ["admin", "api", version, "graphql.json"] = path.as_slice() else { return Err(refused(404, "Not Found")) };
    if request.method != "POST" || !VERSIONS.contains(version) {
        return Err(refused(404, "Not Found"));
    }
    let scope = authenticate(world, shop, request)?;
    let body: Value = if request.is_json() { serde_json::from_slice(&request.body).ok() } else { None }
        .ok_or_else(|| refused(400, json!({"query": "Required parameter missing or invalid"})))?;
    let query = body["query"].as_str().filter(|query| !query.is_empty());
    let query = query.ok_or_else(|| refused(400, json!({"query": "Required parameter missing or invalid"})))?;
    let unknown = body.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    if let Some(unknown) = unknown.into_iter().find(|name| !matches!(*name, "query" | "variables" | "operationName")) {
        return Err(refused(400, json!({unknown: "is no part of a request"})));
    }
    let reply = |body: Value| Answer::json(200, body).header("x-shopify-api-version", (*version).to_owned());
    let ready = match prepare(query, &body["variables"]) {
        Ok(ready) => ready,
        Err(errors) => return Ok(reply(json!({"errors": errors}))),
    };
    if ready.cost > MOST_POINTS {
        let message =
            format!("Query cost is {}, which exceeds the single query max cost limit ({MOST_POINTS}).", ready.cost);
        return Ok(reply(json!({"errors": [error(&message, "MAX_COST_EXCEEDED", &[])]})));
    }

    let (rules, now_ms) = (shop.rules(), world.clock.now_ms());
    let mut points = locked(&shop.points);
    points.restore(&rules, now_ms);
    let asked = f64::from(u32::try_from(ready.cost).unwrap_or(u32::MAX));
    let cost = |actual: Value, left: f64| {
        json!({"cost": {
            "requestedQueryCost": ready.cost,
            "actualQueryCost": actual,
            "throttleStatus": {"maximumAvailable": rules.bucket, "currentlyAvailable": left.floor(),
                "restoreRate": rules.restore_rate},
        }})
    };
    if asked > points.left {
        shop.counts.rate_limited.up();
        let mut throttled = error("Throttled", "THROTTLED", &[]);
        throttled["extensions"]["documentation"] = "https://shopify.dev/api/usage/rate-limits".into();
        return Ok(reply(json!({"errors": [throttled], "extensions": cost(Value::Null, points.left)})));
    }
    let mut data = locked(&shop.data);
    let mut root = Root { shop, data: &mut data, rules: &rules, scope: &scope, now_ms, taken_off: false };
    let ran = run(&ready, &mut root);
    let taken_off = root.taken_off;
    drop(data);
    // What was asked for and not needed comes back at once.
    let actual = (ran.objects + if ready.operation.mutation { 10 } else { 0 }).min(ready.cost);
    points.left -= f64::from(u32::try_from(actual).unwrap_or(u32::MAX));
    let mut body = json!({"data": ran.data, "extensions": cost(actual.into(), points.left)});
    if !ran.errors.is_empty() {
        body["errors"] = ran.errors.into();
    }
    drop(points);
    if taken_off {
        uninstall(world, shop);
    }
    Ok(reply(body))
}

/// Everything dies.
pub(crate) fn uninstall(world: &World, shop: &Place) -> u64 {
    let died = locked(&shop.tokens).uninstall(world.clock.now_ms());
    locked(&shop.data).webhooks.clear();
    shop.counts.revocations.by(died);
    died
}

/// `DELETE /admin/api_permissions/current.json`: the old way to take the app off.
pub(crate) fn take_off(world: &World, shop: &Place, request: &Request) -> Answer {
    if let Err(refusal) = authenticate(world, shop, request) {
        return refusal;
    }
    uninstall(world, shop);
    Answer::empty(200)
}
