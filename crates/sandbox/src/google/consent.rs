//! `accounts.google.com/o/oauth2/v2/auth`: the page on which a person says what is allowed.
//!
//! <https://developers.google.com/identity/protocols/oauth2/web-server#creatingclient>

use url::Url;

use super::Google;
use super::state::{CodeFacts, SCOPES, has_no_box};
use crate::desk::{World, locked};
use crate::http::{Answer, Request, each, escape, find, pairs};
use crate::options::CLIENT_ID;
use crate::zendesk::consent::ConsentRefused;
use crate::zendesk::{Page, csp};

pub(super) const ISSUER: &str = "https://accounts.google.com";
const PARAMETERS: [&str; 14] = [
    "client_id",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
    "access_type",
    "prompt",
    "code_challenge",
    "code_challenge_method",
    "login_hint",
    "hd",
    "include_granted_scopes",
    "nonce",
    "hl",
];

fn refused(error: &str, description: impl Into<String>) -> ConsentRefused {
    ConsentRefused { error: error.to_owned(), description: description.into() }
}

/// An authorisation request that may be shown to a person.
struct Asked {
    redirect_uri: Url,
    raw_redirect_uri: String,
    scopes: Vec<String>,
    state: Option<String>,
    challenge: Option<String>,
    offline: bool,
    asks_again: bool,
    login_hint: Option<String>,
}

impl Asked {
    fn check(world: &World, params: &[(String, String)]) -> Result<Self, ConsentRefused> {
        for (index, (name, _)) in params.iter().enumerate() {
            if !PARAMETERS.contains(&name.as_str()) {
                return Err(refused("invalid_request", format!("Parameter not allowed for this message type: {name}")));
            }
            if params[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(refused(
                    "invalid_request",
                    format!("OAuth 2 parameters can only have a single value: {name}"),
                ));
            }
        }
        let param = |name: &str| find(params, name).filter(|value| !value.is_empty());
        if param("client_id") != Some(CLIENT_ID) {
            return Err(refused("invalid_client", "The OAuth client was not found."));
        }
        let raw = param("redirect_uri").unwrap_or_default();
        let redirect_uri = Url::parse(raw).ok().filter(|_| locked(&world.client).may_redirect_to(raw));
        let redirect_uri = redirect_uri.ok_or_else(|| {
            refused("redirect_uri_mismatch", "You can't sign in because this app sent an invalid request.")
        })?;
        if param("response_type") != Some("code") {
            return Err(refused("invalid_request", "Required parameter is missing or wrong: response_type"));
        }
        let scope = param("scope").ok_or_else(|| refused("invalid_request", "Missing required parameter: scope"))?;
        let mut scopes = Vec::new();
        for name in scope.split(' ').filter(|name| !name.is_empty()) {
            let long = match name {
                "email" => "https://www.googleapis.com/auth/userinfo.email",
                "profile" => "https://www.googleapis.com/auth/userinfo.profile",
                other => other,
            };
            if !SCOPES.iter().any(|(known, _)| *known == long) {
                let words = format!("Some requested scopes were invalid. {{invalid=[{name}]}}");
                return Err(refused("invalid_scope", words));
            }
            if !scopes.iter().any(|known| known == long) {
                scopes.push(long.to_owned());
            }
        }
        let one_of = |name: &str, allowed: &[&str]| match param(name) {
            None => Ok(None),
            Some(value) if allowed.contains(&value) => Ok(Some(value)),
            Some(value) => Err(refused("invalid_request", format!("Invalid parameter value for {name}: {value}"))),
        };
        let offline = one_of("access_type", &["online", "offline"])? == Some("offline");
        one_of("include_granted_scopes", &["true", "false"])?;
        let mut asks_again = false;
        for prompt in param("prompt").unwrap_or_default().split(' ').filter(|prompt| !prompt.is_empty()) {
            match prompt {
                "consent" => asks_again = true,
                "select_account" => {}
                other => {
                    return Err(refused("invalid_request", format!("Invalid parameter value for prompt: {other}")));
                }
            }
        }
        let challenge = param("code_challenge");
        match (challenge, param("code_challenge_method")) {
            (None, None) => {}
            (Some(challenge), Some("S256")) if is_challenge(challenge) => {}
            _ => return Err(refused("invalid_request", "code_challenge or code_challenge_method is wrong")),
        }
        Ok(Self {
            redirect_uri,
            raw_redirect_uri: raw.to_owned(),
            scopes,
            state: param("state").map(str::to_owned),
            challenge: challenge.map(str::to_owned),
            offline,
            asks_again,
            login_hint: param("login_hint").map(str::to_owned),
        })
    }

    fn back(&self, answer: &[(&str, &str)]) -> String {
        let mut url = self.redirect_uri.clone();
        if let Some(state) = &self.state {
            url.query_pairs_mut().append_pair("state", state);
        }
        url.query_pairs_mut().append_pair("iss", ISSUER).extend_pairs(answer);
        url.into()
    }
}

fn is_challenge(challenge: &str) -> bool {
    challenge.len() == 43 && challenge.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
}

/// The page.
pub(super) fn show(world: &World, google: &Google, request: &Request) -> Answer {
    let asked = match Asked::check(world, &request.query) {
        Ok(asked) => asked,
        Err(why) => return page_of(world, &why),
    };
    let people: Vec<(String, String, String)> = {
        let state = locked(&google.state);
        state.people.values().map(|one| (one.sub.clone(), one.name.clone(), one.email.clone())).collect()
    };
    let hinted = people.iter().position(|(_, _, email)| Some(email) == asked.login_hint.as_ref()).unwrap_or(0);
    let hidden = each(&request.query, |(name, value)| {
        format!(r#"<input type="hidden" name="{}" value="{}">"#, escape(name), escape(value))
    });
    let words =
        |scope: &str| SCOPES.iter().find(|(name, _)| *name == scope).map_or(scope, |(_, words)| *words).to_owned();
    let always = each(asked.scopes.iter().filter(|scope| has_no_box(scope)), |scope| {
        format!("<li>{}</li>", escape(&words(scope)))
    });
    let boxes = each(asked.scopes.iter().filter(|scope| !has_no_box(scope)), |scope| {
        format!(
            r#"<label class="choice"><input type="checkbox" name="granted" value="{}" checked> <span>{}</span></label>"#,
            escape(scope),
            escape(&words(scope))
        )
    });
    let users = each(people.iter().enumerate(), |(index, (sub, name, email))| {
        format!(
            r#"<label class="choice"><input type="radio" name="user" value="{}"{}> <span>{} <small>{}</small></span></label>"#,
            escape(sub),
            if index == hinted { " checked" } else { "" },
            escape(name),
            escape(email)
        )
    });
    let main = format!(
        r#"<section class="card">
<h1>Holdfast wants access to your Google Account</h1>
<ul class="scopes">{always}</ul>
<form method="post" action="/google/accounts.google.com/o/oauth2/v2/auth">
{hidden}
<fieldset><legend>Choose an account</legend>{users}</fieldset>
<fieldset><legend>Select what Holdfast can access</legend>{boxes}</fieldset>
<div class="buttons">
<button class="primary" name="decision" value="allow">Continue</button>
<button name="decision" value="deny">Cancel</button>
</div>
</form>
</section>"#
    );
    let mark = "Google, imitated · accounts.google.com";
    let page = Page { title: "Sign in with Google", mark, home: world.home(), narrow: true, main: &main }.html();
    // A form's target rule covers the redirect that answers it, so the way back has to be on the list.
    let origin = asked.redirect_uri.origin().ascii_serialization();
    Answer::html(200, page)
        .header("content-security-policy", csp(&format!("'self' {origin}")))
        .header("cross-origin-opener-policy", "same-origin")
}

/// The form of the page.
pub(super) fn decide(world: &World, google: &Google, request: &Request) -> Answer {
    let fields = pairs(&request.body);
    let allow = find(&fields, "decision") == Some("allow");
    let user = find(&fields, "user").unwrap_or_default().to_owned();
    let granted: Vec<String> =
        fields.iter().filter(|(name, _)| name == "granted").map(|(_, value)| value.clone()).collect();
    let own = ["decision", "user", "granted"];
    let params: Vec<_> = fields.into_iter().filter(|(name, _)| !own.contains(&name.as_str())).collect();
    match answer(world, google, &params, allow.then_some(user.as_str()), |scope| granted.iter().any(|one| one == scope))
    {
        Ok(location) => Answer::empty(302).header("location", location),
        Err(why) => page_of(world, &why),
    }
}

/// What the form does, without a browser; `ticked` says which boxes stay ticked. No `user` denies.
pub(crate) fn consent(
    world: &World,
    authorize_url: &str,
    user: Option<&str>,
    ticked: impl Fn(&str) -> bool,
) -> Result<String, ConsentRefused> {
    let url = Url::parse(authorize_url).map_err(|_| refused("invalid_request", "That is not an absolute URL"))?;
    if url.path() != "/google/accounts.google.com/o/oauth2/v2/auth" {
        return Err(refused("not_found", "The requested URL was not found on this server."));
    }
    let params = pairs(url.query().unwrap_or_default().as_bytes());
    answer(world, &world.google(), &params, user, ticked)
}

fn answer(
    world: &World,
    google: &Google,
    params: &[(String, String)],
    user: Option<&str>,
    ticked: impl Fn(&str) -> bool,
) -> Result<String, ConsentRefused> {
    let asked = Asked::check(world, params)?;
    let Some(user) = user else { return Ok(asked.back(&[("error", "access_denied")])) };
    let mut state = locked(&google.state);
    let sub = state.find(user).map(|person| person.sub.clone());
    let sub = sub.ok_or_else(|| refused("invalid_request", "Couldn't find your Google Account"))?;
    // In another order than they were asked for.
    let mut scopes: Vec<String> =
        asked.scopes.iter().filter(|scope| has_no_box(scope) || ticked(scope)).cloned().collect();
    scopes.sort_unstable();
    scopes.reverse();
    let offline = asked.offline && (asked.asks_again || state.is_first(&sub));
    let facts = CodeFacts {
        sub,
        scopes: scopes.clone(),
        redirect_uri: asked.raw_redirect_uri.clone(),
        challenge: asked.challenge.clone(),
        offline,
    };
    let code = state.new_code(facts, world.clock.now_ms());
    drop(state);
    let prompt = if asked.asks_again { "consent" } else { "none" };
    Ok(asked.back(&[("code", &code), ("scope", &scopes.join(" ")), ("authuser", "0"), ("prompt", prompt)]))
}

fn page_of(world: &World, why: &ConsentRefused) -> Answer {
    let text = format!("Error 400: {}. {}", why.error, why.description);
    let main = format!(r#"<section class="card"><h1>Access blocked</h1><p>{}</p></section>"#, escape(&text));
    let page =
        Page { title: "Access blocked", mark: "Google, imitated", home: world.home(), narrow: true, main: &main }
            .html();
    Answer::html(400, page).header("content-security-policy", csp("'none'"))
}
