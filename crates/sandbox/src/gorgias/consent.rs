//! `/oauth/authorize`: the page on which somebody of the account says yes or no.

use url::Url;

use super::account::Place;
use super::tokens::CodeFacts;
use crate::desk::{World, locked};
use crate::http::{Answer, Request, each, escape, find, pairs};
use crate::options::CLIENT_ID;
use crate::zendesk::consent::ConsentRefused;
use crate::zendesk::pages;

/// Scopes without a part for reading and one for writing.
const WHOLE: &[&str] = &["openid", "email", "profile", "offline"];
/// Those that have both.
/// <https://developers.gorgias.com/docs/oauth2-scopes>
const PARTED: &[&str] = &[
    "account",
    "users",
    "customers",
    "tickets",
    "custom_fields",
    "events",
    "integrations",
    "jobs",
    "macros",
    "rules",
    "satisfaction_survey",
    "tags",
    "teams",
    "widgets",
    "views",
];
const PARAMS: &[&str] = &["response_type", "client_id", "redirect_uri", "scope", "state", "nonce"];

fn refused(error: &str, description: impl Into<String>) -> ConsentRefused {
    ConsentRefused { error: error.to_owned(), description: description.into() }
}

struct Asked {
    redirect_uri: Url,
    raw_redirect_uri: String,
    scope: String,
    state: String,
    nonce: Option<String>,
}

impl Asked {
    fn check(world: &World, params: &[(String, String)]) -> Result<Self, ConsentRefused> {
        for (index, (name, _)) in params.iter().enumerate() {
            if !PARAMS.contains(&name.as_str()) {
                return Err(refused("invalid_request", format!("{name} is not known")));
            }
            if params[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(refused("invalid_request", format!("{name} is given twice")));
            }
        }
        let param = |name: &str| find(params, name).filter(|value| !value.is_empty());
        if param("client_id") != Some(CLIENT_ID) {
            return Err(refused("invalid_client", "There is no such client"));
        }
        let raw = param("redirect_uri").unwrap_or_default();
        let redirect_uri = Url::parse(raw)
            .ok()
            .filter(|_| locked(&world.client).may_redirect_to(raw))
            .ok_or_else(|| refused("invalid_request", "The redirect URI is not registered"))?;
        if param("response_type") != Some("code") {
            return Err(refused("unsupported_response_type", "response_type has to be code"));
        }
        let scope = param("scope").ok_or_else(|| refused("invalid_scope", "No scope is given"))?;
        if let Some(unknown) = scope.split(' ').find(|scope| !is_known(scope)) {
            return Err(refused("invalid_scope", format!("The scope {unknown} is not allowed for this client")));
        }
        let state = param("state").ok_or_else(|| refused("invalid_request", "No state is given"))?;
        let nonce = param("nonce").map(str::to_owned);
        if nonce.is_none() && scope.split(' ').any(|scope| scope == "openid") {
            return Err(refused("invalid_request", "openid wants a nonce"));
        }
        Ok(Self {
            redirect_uri,
            raw_redirect_uri: raw.to_owned(),
            scope: scope.to_owned(),
            state: state.to_owned(),
            nonce,
        })
    }

    fn back(&self, answer: &[(&str, &str)]) -> String {
        let mut url = self.redirect_uri.clone();
        url.query_pairs_mut().extend_pairs(answer).append_pair("state", &self.state);
        url.into()
    }
}

fn is_known(scope: &str) -> bool {
    let parted = |(what, access): (&str, &str)| PARTED.contains(&what) && matches!(access, "read" | "write");
    WHOLE.contains(&scope) || scope.split_once(':').is_some_and(parted)
}

/// The page.
pub(crate) fn show(world: &World, place: &Place, request: &Request) -> Answer {
    let asked = match Asked::check(world, &request.query) {
        Ok(asked) => asked,
        Err(why) => return page_of(world, &why),
    };
    let hidden = each(&request.query, |(name, value)| {
        format!(r#"<input type="hidden" name="{}" value="{}">"#, escape(name), escape(value))
    });
    let scopes = each(asked.scope.split(' '), |scope| format!("<li>{}</li>", escape(scope)));
    let users = {
        let data = locked(&place.data);
        each(data.users.iter().filter(|user| user.active).enumerate(), |(index, user)| {
            format!(
                r#"<label class="choice"><input type="radio" name="user" value="{}"{}> <span>{} <small>{}</small></span></label>"#,
                user.id,
                if index == 0 { " checked" } else { "" },
                escape(&user.name),
                user.role,
            )
        })
    };
    let main = format!(
        r#"<section class="card">
<h1>Authorize Holdfast for {name}?</h1>
<p>Holdfast asks for:</p>
<ul class="scopes">{scopes}</ul>
<form method="post" action="/gorgias/{name}/oauth/authorize">
{hidden}
<fieldset><legend>Signed in as</legend>{users}</fieldset>
<div class="buttons">
<button class="primary" name="decision" value="allow">Authorize</button>
<button name="decision" value="deny">Cancel</button>
</div>
</form>
</section>"#,
        name = escape(&place.name),
    );
    let mark = format!("Gorgias, imitated · {}", place.domain());
    let page = pages::Page { title: "Authorize", mark: &mark, home: world.home(), narrow: true, main: &main }.html();
    let origin = asked.redirect_uri.origin().ascii_serialization();
    Answer::html(200, page)
        .header("content-security-policy", pages::csp(&format!("'self' {origin}")))
        .header("cross-origin-opener-policy", "same-origin")
}

/// The form of the page.
pub(crate) fn decide(world: &World, place: &Place, request: &Request) -> Answer {
    let fields = pairs(&request.body);
    let allow = find(&fields, "decision") == Some("allow");
    let user = find(&fields, "user").unwrap_or_default().to_owned();
    let params: Vec<_> = fields.into_iter().filter(|(name, _)| name != "decision" && name != "user").collect();
    match answer(world, place, &params, allow.then_some(user.as_str())) {
        Ok(location) => Answer::empty(302).header("location", location),
        Err(why) => page_of(world, &why),
    }
}

/// What the form does, without a browser. `user` is an id, an address or the start of a name; `None` denies.
pub(crate) fn consent(world: &World, authorize_url: &Url, user: Option<&str>) -> Result<String, ConsentRefused> {
    let mut path = authorize_url.path().trim_start_matches('/').splitn(3, '/');
    let (Some("gorgias"), Some(name), Some("oauth/authorize")) = (path.next(), path.next(), path.next()) else {
        return Err(refused("not_found", "There is no such page"));
    };
    let place = world.gorgias.find(name, world.clock.now_ms());
    let place = place.ok_or_else(|| refused("not_found", "There is no account at this address"))?;
    answer(world, &place, &pairs(authorize_url.query().unwrap_or_default().as_bytes()), user)
}

fn answer(
    world: &World,
    place: &Place,
    params: &[(String, String)],
    user: Option<&str>,
) -> Result<String, ConsentRefused> {
    let asked = Asked::check(world, params)?;
    let Some(user) = user else {
        return Ok(asked.back(&[("error", "access_denied"), ("error_description", "The request was denied.")]));
    };
    let user_id = locked(&place.data).user_named(user).filter(|user| user.active).map(|user| user.id);
    let user_id = user_id.ok_or_else(|| refused("invalid_request", "There is no such user"))?;
    let facts = CodeFacts {
        user_id,
        scope: asked.scope.clone(),
        redirect_uri: asked.raw_redirect_uri.clone(),
        nonce: asked.nonce.clone(),
    };
    let code = locked(&place.tokens).new_code(facts, world.clock.now_ms());
    Ok(asked.back(&[("code", &code)]))
}

fn page_of(world: &World, why: &ConsentRefused) -> Answer {
    let text = format!("{} ({})", why.description, why.error);
    let main = format!(r#"<section class="card"><h1>Something is wrong</h1><p>{}</p></section>"#, escape(&text));
    let page =
        pages::Page { title: "Authorize", mark: "Gorgias, imitated", home: world.home(), narrow: true, main: &main };
    Answer::html(400, page.html()).header("content-security-policy", pages::csp("'none'"))
}
