//! The APIs' common way in: trouble, credentials, scopes, and the parameters that an endpoint knows.

use axum::response::Response;

use super::state::Bearer;
use super::{Google, calendar, error, gmail, push, sheets, userinfo};
use crate::clock::pause;
use crate::desk::{World, locked};
use crate::faults::hang_up;
use crate::http::{Answer, Request};

/// Parameters that every API of Google takes.
const COMMON: [&str; 3] = ["alt", "fields", "prettyPrint"];

pub(super) async fn serve(world: &World, google: &Google, host: &str, request: &Request) -> Response {
    google.counts.api_calls.up();
    let now_ms = world.clock.now_ms();
    let (dropped, (delay, canned)) = {
        let mut faults = locked(&google.faults);
        (faults.drops_api(), faults.plan_api(now_ms))
    };
    if dropped {
        return hang_up();
    }
    pause(delay).await;
    if let Some(canned) = canned.as_ref().filter(|canned| !canned.after_processing) {
        return canned.respond(&[]);
    }
    let answer = answer(world, google, host, request, now_ms);
    if let Some(canned) = canned.filter(|_| answer.status.is_success()) {
        return canned.respond(&[]);
    }
    if answer.status == 401 {
        google.counts.unauthorized.up();
    }
    answer.into_response()
}

fn answer(world: &World, google: &Google, host: &str, request: &Request, now_ms: i64) -> Answer {
    let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let bearer = token.and_then(|token| locked(&google.state).bearer(token, now_ms));
    let Some(bearer) = bearer else { return error::unauthenticated() };
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let mut state = locked(&google.state);
    let call = Call { request, bearer: &bearer, now_ms, url: &world.start.url };
    let answered = match (host, path.as_slice()) {
        ("openidconnect.googleapis.com", ["v1", "userinfo"]) if request.method == "GET" => {
            Ok(userinfo::userinfo(&state, &bearer))
        }
        ("gmail.googleapis.com", ["gmail", "v1", "users", user, rest @ ..]) => {
            gmail::serve(&mut state, &call, user, rest)
        }
        ("www.googleapis.com", ["calendar", "v3", "calendars", calendar, "events", rest @ ..]) => {
            calendar::serve(&mut state, &call, calendar, rest)
        }
        ("www.googleapis.com", ["calendar", "v3", "channels", "stop"]) if request.method == "POST" => {
            push::close(&mut state, &call)
        }
        ("sheets.googleapis.com", ["v4", "spreadsheets", id, "values", range]) => {
            sheets::serve(&mut state, &call, id, range)
        }
        _ => Err(no_such_method()),
    };
    answered.unwrap_or_else(|refusal| refusal)
}

/// One call, its caller known.
pub(super) struct Call<'a> {
    pub(super) request: &'a Request,
    pub(super) bearer: &'a Bearer,
    pub(super) now_ms: i64,
    /// Where the sandbox is.
    pub(super) url: &'a str,
}

impl Call<'_> {
    /// Scopes first, then parameters, as Google looks.
    pub(super) fn needs(&self, any_scope: &[&str], parameters: &[&str], repeated: &[&str]) -> Result<(), Answer> {
        if !self.bearer.may(any_scope) {
            return Err(error::scope_missing());
        }
        for (index, (name, _)) in self.request.query.iter().enumerate() {
            let known = [parameters, repeated, &COMMON].iter().any(|names| names.contains(&name.as_str()));
            if !known {
                return Err(error::unknown_parameter(name));
            }
            let twice = self.request.query[..index].iter().any(|(earlier, _)| earlier == name);
            if twice && !repeated.contains(&name.as_str()) {
                return Err(error::invalid(&format!("Proto field is not repeating, cannot start list: {name}")));
            }
        }
        Ok(())
    }

    /// A number within bounds; more than the most is the most, as Google takes it.
    pub(super) fn number(&self, name: &str, usual: usize, most: usize) -> Result<usize, Answer> {
        match self.request.param(name).map(str::parse::<usize>) {
            None => Ok(usual.min(most)),
            Some(Ok(number)) if number > 0 => Ok(number.min(most)),
            Some(_) => Err(error::invalid(&format!("Invalid value at '{name}'"))),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Answer> {
        match self.request.param(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(error::invalid(&format!("Invalid value at '{name}' (TYPE_BOOL)"))),
        }
    }

    /// A JSON object, and nothing but these fields.
    pub(super) fn body(&self, fields: &[&str]) -> Result<serde_json::Map<String, serde_json::Value>, Answer> {
        if !self.request.is_json() {
            return Err(error::invalid("Invalid content type; expected application/json"));
        }
        let Ok(serde_json::Value::Object(body)) = serde_json::from_slice(&self.request.body) else {
            return Err(error::error(400, "INVALID_ARGUMENT", "parseError", "Parse Error"));
        };
        match body.keys().find(|name| !fields.contains(&name.as_str())) {
            Some(name) => Err(error::invalid(&format!(
                "Invalid JSON payload received. Unknown name \"{}\": Cannot find field.",
                name.replace('"', "")
            ))),
            None => Ok(body),
        }
    }
}

pub(super) fn no_such_method() -> Answer {
    Answer::html(404, "<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>".to_owned())
}

/// Page tokens are opaque, and good for the list that gave them.
pub(super) fn page_token(of: &str, at: usize) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("{of}:{at}"))
}

pub(super) fn page_start(token: Option<&str>, of: &str) -> Result<usize, Answer> {
    use base64::Engine as _;
    let Some(token) = token else { return Ok(0) };
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).ok();
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    let at = text.as_deref().and_then(|text| text.strip_prefix(of)?.strip_prefix(':')?.parse().ok());
    at.ok_or_else(|| error::invalid("Invalid page token."))
}
