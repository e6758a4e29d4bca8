//! Whose a token is: `openidconnect.googleapis.com/v1/userinfo` and `oauth2.googleapis.com/tokeninfo`.

use serde_json::{Value, json};

use super::Google;
use super::state::{Bearer, State};
use crate::desk::{World, locked};
use crate::http::{Answer, Request};
use crate::options::CLIENT_ID;

/// Answers by the scopes of the token.
pub(super) fn userinfo(state: &State, bearer: &Bearer) -> Answer {
    if !bearer.may(&["openid"]) {
        return Answer::json(401, json!({"error": "invalid_request", "error_description": "Invalid Credentials"}));
    }
    let Some(person) = state.people.get(&bearer.sub) else { return Answer::empty(401) };
    let mut body = json!({ "sub": person.sub });
    if bearer.may(&["userinfo.email"]) {
        body["email"] = json!(person.email);
        body["email_verified"] = json!(person.verified);
    }
    if bearer.may(&["userinfo.profile"]) {
        body["name"] = json!(person.name);
    }
    if let Some((_, domain)) = person.email.split_once('@').filter(|(_, domain)| *domain != "gmail.com") {
        body["hd"] = json!(domain);
    }
    Answer::json(200, body)
}

/// `GET /tokeninfo?access_token=`.
pub(super) fn tokeninfo(world: &World, google: &Google, request: &Request) -> Answer {
    let now_ms = world.clock.now_ms();
    let state = locked(&google.state);
    let Some(bearer) = request.param("access_token").and_then(|token| state.bearer(token, now_ms)) else {
        return Answer::json(400, json!({"error": "invalid_token", "error_description": "Invalid Value"}));
    };
    let left = (bearer.expires_at_ms - now_ms) / 1000;
    let mut body = json!({"azp": CLIENT_ID, "aud": CLIENT_ID, "scope": bearer.scopes.join(" "),
        "exp": (bearer.expires_at_ms / 1000).to_string(), "expires_in": left.to_string(), "access_type": "offline"});
    if bearer.may(&["openid"]) {
        body["sub"] = json!(bearer.sub);
    }
    if let Some(person) = state.people.get(&bearer.sub).filter(|_| bearer.may(&["userinfo.email"])) {
        body["email"] = json!(person.email);
        body["email_verified"] = Value::String(person.verified.to_string());
    }
    Answer::json(200, body)
}
