//! `/oauth/authorizations`: the page on which somebody of the helpdesk says yes or no.

use std::fmt;

use url::Url;

use crate::desk::{Desk, World, locked};
use crate::http::{Answer, Request, each, escape, find, pairs};
use crate::zendesk::pages;
use crate::zendesk::scopes::Scopes;
use crate::zendesk::tokens::CodeFacts;

/// Why an authorisation request got no consent page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentRefused {
    /// The error's code, `invalid_scope` for instance.
    pub error: String,
    /// What the page says.
    pub description: String,
}

impl fmt::Display for ConsentRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error, self.description)
    }
}

impl std::error::Error for ConsentRefused {}

fn refused(error: &str, description: impl Into<String>) -> ConsentRefused {
    ConsentRefused { error: error.to_owned(), description: description.into() }
}

/// An authorisation request that may be shown to a person.
struct Asked {
    redirect_uri: Url,
    raw_redirect_uri: String,
    client_id: String,
    scope: String,
    state: String,
    challenge: Option<String>,
}

impl Asked {
    fn check(world: &World, params: &[(String, String)]) -> Result<Self, ConsentRefused> {
        for (index, (name, _)) in params.iter().enumerate() {
            if params[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(refused("invalid_request", format!("{name} is given twice")));
            }
        }
        let param = |name: &str| find(params, name).filter(|value| !value.is_empty());
        let client_id = param("client_id").filter(|id| locked(&world.client).is_registered(id));
        let client_id = client_id.ok_or_else(|| refused("invalid_client", "No such client"))?;
        let raw = param("redirect_uri").unwrap_or_default();
        let redirect_uri = Url::parse(raw)
            .ok()
            .filter(|_| locked(&world.client).may_redirect_to(raw))
            .ok_or_else(|| refused("invalid_request", "Invalid redirect URL"))?;
        if param("response_type") != Some("code") {
            return Err(refused("unsupported_response_type", "response_type has to be code"));
        }
        let options = world.options();
        let scope = param("scope").ok_or_else(|| refused("invalid_scope", "No scope is given"))?;
        if let (true, Some(unknown)) = (options.strict_scopes, Scopes(scope).first_unknown()) {
            return Err(refused("invalid_scope", format!("The scope {unknown} is not allowed for this client")));
        }
        let state = param("state").ok_or_else(|| refused("invalid_request", "No state is given"))?;
        let challenge = param("code_challenge");
        match (challenge, param("code_challenge_method")) {
            (Some(challenge), Some("S256")) if is_challenge(challenge) => {}
            (None, None) if !options.pkce_required => {}
            (None, _) => {
                return Err(refused("invalid_request", "No code_challenge is given"));
            }
            _ => {
                return Err(refused(
                    "invalid_request",
                    "code_challenge has to be a SHA-256 digest in base64url, its method S256",
                ));
            }
        }
        Ok(Self {
            redirect_uri,
            raw_redirect_uri: raw.to_owned(),
            client_id: client_id.to_owned(),
            scope: scope.to_owned(),
            state: state.to_owned(),
            challenge: challenge.map(str::to_owned),
        })
    }

    fn back(&self, answer: &[(&str, &str)]) -> String {
        let mut url = self.redirect_uri.clone();
        url.query_pairs_mut().extend_pairs(answer).append_pair("state", &self.state);
        url.into()
    }
}

/// The page.
pub(crate) fn show(world: &World, desk: &Desk, request: &Request) -> Answer {
    let asked = match Asked::check(world, &request.query) {
        Ok(asked) => asked,
        Err(why) => return page_of(world, &why),
    };
    let users = locked(&desk.data).staff();
    let hidden = each(&request.query, |(name, value)| {
        format!(r#"<input type="hidden" name="{}" value="{}">"#, escape(name), escape(value))
    });
    let page = pages::consent(
        world.home(),
        &desk.title(),
        &format!("{}.zendesk.com", desk.name),
        &Scopes(&asked.scope).in_words(),
        &users,
        &hidden,
        &format!("/zendesk/{}/oauth/authorizations", desk.name),
    );
    // A form's target rule covers the redirect that answers it, so the way back has to be on the list.
    let origin = asked.redirect_uri.origin().ascii_serialization();
    Answer::html(200, page)
        .header("content-security-policy", pages::csp(&format!("'self' {origin}")))
        // As careful providers have it: a window that opened this one as a pop-up sees it as closed.
        .header("cross-origin-opener-policy", "same-origin")
}

/// The form of the page.
pub(crate) fn decide(world: &World, desk: &Desk, request: &Request) -> Answer {
    let fields = pairs(&request.body);
    let allow = find(&fields, "decision") == Some("allow");
    let user = find(&fields, "user").unwrap_or_default().to_owned();
    let params: Vec<_> = fields.into_iter().filter(|(name, _)| name != "decision" && name != "user").collect();
    match answer(world, desk, &params, allow.then_some(user.as_str())) {
        Ok(location) => Answer::empty(302).header("location", location),
        Err(why) => page_of(world, &why),
    }
}

/// What the form does, without a browser. `user` is an id or the start of a name; `None` denies.
pub(crate) fn consent(world: &World, authorize_url: &str, user: Option<&str>) -> Result<String, ConsentRefused> {
    let no_desk = || refused("not_found", "No help desk at this address");
    let url = Url::parse(authorize_url).map_err(|_| refused("invalid_request", "That is not an absolute URL"))?;
    let mut path = url.path().trim_start_matches('/').splitn(3, '/');
    let (Some("zendesk"), Some(name), Some("oauth/authorizations/new")) = (path.next(), path.next(), path.next())
    else {
        return Err(no_desk());
    };
    let desk = world.find(name).ok_or_else(no_desk)?;
    let params = pairs(url.query().unwrap_or_default().as_bytes());
    answer(world, &desk, &params, user)
}

fn answer(
    world: &World,
    desk: &Desk,
    params: &[(String, String)],
    user: Option<&str>,
) -> Result<String, ConsentRefused> {
    let asked = Asked::check(world, params)?;
    let Some(user) = user else {
        return Ok(asked.back(&[
            ("error", "access_denied"),
            ("error_description", "The end-user or authorization server denied the request."),
        ]));
    };
    let user_id = locked(&desk.data).find_user(user).ok_or_else(|| refused("invalid_request", "No such user"))?;
    let code = locked(&desk.tokens).new_code(
        CodeFacts {
            user_id,
            scope: asked.scope.clone(),
            redirect_uri: asked.raw_redirect_uri.clone(),
            challenge: asked.challenge.clone(),
            client_id: Some(asked.client_id.clone()),
        },
        world.clock.now_ms(),
    );
    Ok(asked.back(&[("code", &code)]))
}

fn page_of(world: &World, why: &ConsentRefused) -> Answer {
    let text = format!("{} ({})", why.description, why.error);
    Answer::html(400, pages::message(world.home(), "Invalid authorization request", &text))
        .header("content-security-policy", pages::csp("'none'"))
}

fn is_challenge(challenge: &str) -> bool {
    challenge.len() == 43 && challenge.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
}
