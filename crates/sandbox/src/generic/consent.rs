//! The page on which a person allows what is asked for.

use url::Url;

use super::answers;
use super::state::Granted;
use super::table::{Lasting, Role, Service, find};
use crate::desk::{World, locked};
use crate::http::{Answer, Request, each, escape, find as param_of, pairs};
use crate::options::CLIENT_ID;
use crate::zendesk::consent::ConsentRefused;
use crate::zendesk::{Page, csp};

const PARAMETERS: &[&str] = &["response_type", "client_id", "redirect_uri", "state"];

fn refused(error: &str, description: impl Into<String>) -> ConsentRefused {
    ConsentRefused { error: error.to_owned(), description: description.into() }
}

struct Asked {
    redirect_uri: Url,
    raw_redirect_uri: String,
    state: Option<String>,
    scopes: Vec<String>,
    challenge: Option<String>,
    lasting: bool,
}

impl Asked {
    /// Strict: what a service does not know is refused.
    fn check(world: &World, service: &Service, params: &[(String, String)]) -> Result<Self, ConsentRefused> {
        let wrong = |what: String| refused("invalid_request", what);
        for (index, (name, value)) in params.iter().enumerate() {
            if params[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(wrong(format!("{name} is given twice")));
            }
            let of_pkce = service.pkce && matches!(name.as_str(), "code_challenge" | "code_challenge_method");
            let of_scope = service.scope_separator.is_some() && name == "scope";
            let own = service.params.iter().find(|(known, _)| known == name);
            if !PARAMETERS.contains(&name.as_str()) && !of_pkce && !of_scope && own.is_none() {
                return Err(wrong(format!("{} knows no parameter {name}", service.id)));
            }
            if own.is_some_and(|(_, values)| !values.is_empty() && !values.contains(&value.as_str())) {
                return Err(wrong(format!("{name} cannot be {value}")));
            }
        }
        let param = |name: &str| param_of(params, name).filter(|value| !value.is_empty());
        if param("client_id") != Some(CLIENT_ID) || param("response_type") != Some("code") {
            return Err(wrong("client_id or response_type is wrong".to_owned()));
        }
        let raw = param("redirect_uri").unwrap_or_default();
        let redirect_uri = Url::parse(raw).ok().filter(|_| locked(&world.client).may_redirect_to(raw));
        let challenge = match (param("code_challenge"), param("code_challenge_method")) {
            (None, None) => None,
            (Some(challenge), Some("S256")) if challenge.len() == 43 => Some(challenge.to_owned()),
            _ => return Err(wrong("code_challenge or its method is wrong".to_owned())),
        };
        let scopes: Vec<String> = match service.scope_separator {
            None => Vec::new(),
            Some(separator) => {
                let scope = param("scope").ok_or_else(|| refused("invalid_scope", "there is no scope"))?;
                scope.split(separator).map(str::to_owned).collect()
            }
        };
        if scopes.iter().any(|scope| scope.is_empty() || scope.contains([' ', ','])) {
            return Err(refused("invalid_scope", "scopes are separated otherwise"));
        }
        let lasting = match service.lasting {
            Lasting::Never => false,
            Lasting::Always => true,
            Lasting::Scope(scope) => scopes.iter().any(|asked| asked == scope),
            Lasting::Param(name, value) => param(name) == Some(value),
        };
        Ok(Self {
            redirect_uri: redirect_uri.ok_or_else(|| wrong("redirect_uri is not registered".to_owned()))?,
            raw_redirect_uri: raw.to_owned(),
            state: param("state").map(str::to_owned),
            scopes,
            challenge,
            lasting,
        })
    }

    fn back(&self, answer: &[(&str, &str)]) -> String {
        let mut url = self.redirect_uri.clone();
        url.query_pairs_mut().extend_pairs(answer);
        if let Some(state) = &self.state {
            url.query_pairs_mut().append_pair("state", state);
        }
        url.into()
    }
}

pub(super) fn show(world: &World, service: &Service, host: &str, request: &Request) -> Answer {
    let asked = match Asked::check(world, service, &request.query) {
        Ok(asked) => asked,
        Err(why) => return page_of(world, service, &why),
    };
    let hidden = each(&request.query, |(name, value)| {
        format!(r#"<input type="hidden" name="{}" value="{}">"#, escape(name), escape(value))
    });
    let scopes = each(&asked.scopes, |scope| format!("<li>{}</li>", escape(scope)));
    let people = each(
        [("ada", "Ada, of the account of the example"), ("bob", "Bob, of another account")],
        |(who, name)| {
            let checked = if who == "ada" { " checked" } else { "" };
            format!(
                r#"<label class="choice"><input type="radio" name="user" value="{who}"{checked}> <span>{name}</span></label>"#
            )
        },
    );
    let main = format!(
        r#"<section class="card">
<h1>Holdfast wants access to your {id} account</h1>
<ul class="scopes">{scopes}</ul>
<form method="post" action="/generic/{host}/{path}">
{hidden}
<fieldset><legend>Who are you?</legend>{people}</fieldset>
<div class="buttons">
<button class="primary" name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button>
</div>
</form>
</section>"#,
        id = service.id,
        host = escape(host),
        path = service.authorize.path,
    );
    let mark = format!("{}, imitated", service.id);
    let page = Page { title: "Allow access", mark: &mark, home: world.home(), narrow: true, main: &main }.html();
    let origin = asked.redirect_uri.origin().ascii_serialization();
    Answer::html(200, page).header("content-security-policy", csp(&format!("'self' {origin}")))
}

pub(super) fn decide(world: &World, service: &Service, host: &str, request: &Request) -> Answer {
    let fields = pairs(&request.body);
    let allow = param_of(&fields, "decision") == Some("allow");
    let user = param_of(&fields, "user").unwrap_or("ada").to_owned();
    let params: Vec<_> =
        fields.into_iter().filter(|(name, _)| !["decision", "user"].contains(&name.as_str())).collect();
    match answer(world, service, host, &params, allow.then_some(user.as_str())) {
        Ok(location) => Answer::empty(302).header("location", location),
        Err(why) => page_of(world, service, &why),
    }
}

/// What the form does, without a browser. No `user` denies.
pub(crate) fn consent(world: &World, url: &Url, user: Option<&str>) -> Result<String, ConsentRefused> {
    let place = url.path().strip_prefix("/generic/").unwrap_or_default();
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    match find(host, path) {
        Some((service, Role::Authorize)) => {
            answer(world, service, host, &pairs(url.query().unwrap_or_default().as_bytes()), user)
        }
        _ => Err(refused("not_found", "nobody asks for consent there")),
    }
}

fn answer(
    world: &World,
    service: &Service,
    host: &str,
    params: &[(String, String)],
    user: Option<&str>,
) -> Result<String, ConsentRefused> {
    let asked = Asked::check(world, service, params)?;
    let Some(user) = user else { return Ok(asked.back(&[("error", "access_denied")])) };
    let granted = Granted::new(service, host, user, asked.scopes.clone(), asked.lasting);
    let extra = answers::of_callback(&granted);
    let now_ms = world.clock.now_ms();
    let mut state = locked(&world.generic.state);
    let code = state.new_code(granted, &asked.raw_redirect_uri, asked.challenge.as_deref(), now_ms);
    let extra = extra.as_ref().map(|(name, value)| (*name, value.as_str()));
    Ok(asked.back(&std::iter::once(("code", code.as_str())).chain(extra).collect::<Vec<_>>()))
}

fn page_of(world: &World, service: &Service, why: &ConsentRefused) -> Answer {
    let text = format!("{}: {}", why.error, why.description);
    let main = format!(r#"<section class="card"><h1>That cannot be asked</h1><p>{}</p></section>"#, escape(&text));
    let mark = format!("{}, imitated", service.id);
    let page = Page { title: "Refused", mark: &mark, home: world.home(), narrow: true, main: &main }.html();
    Answer::html(400, page).header("content-security-policy", csp("'none'"))
}
