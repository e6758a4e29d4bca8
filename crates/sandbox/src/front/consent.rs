//! `app.frontapp.com/oauth/authorize`: the page on which an admin lets an app into the company.
//!
//! <https://dev.frontapp.com/docs/oauth>

use url::Url;

use super::Front;
use crate::desk::{World, locked};
use crate::http::{Answer, Request, each, escape, find, pairs};
use crate::options::CLIENT_ID;
use crate::zendesk::consent::ConsentRefused;
use crate::zendesk::{Page, csp};

/// Some clients pass `scope` as well; it has no documented meaning.
const PARAMETERS: [&str; 4] = ["response_type", "client_id", "redirect_uri", "state"];
const NOT_AN_ADMIN: &str = "You need to be an administrator to authorize this app";

fn refused(error: &str, description: impl Into<String>) -> ConsentRefused {
    ConsentRefused { error: error.to_owned(), description: description.into() }
}

/// An authorisation request that may be shown to a person.
struct Asked {
    redirect_uri: Url,
    raw_redirect_uri: String,
    state: Option<String>,
}

impl Asked {
    fn check(world: &World, params: &[(String, String)]) -> Result<Self, ConsentRefused> {
        for (index, (name, _)) in params.iter().enumerate() {
            let twice = params[..index].iter().any(|(earlier, _)| earlier == name);
            if twice || !PARAMETERS.contains(&name.as_str()) {
                return Err(refused("invalid_request", format!("Unexpected parameter {name}")));
            }
        }
        let param = |name: &str| find(params, name).filter(|value| !value.is_empty());
        if param("client_id") != Some(CLIENT_ID) {
            return Err(refused("invalid_client", "Unknown client"));
        }
        let raw = param("redirect_uri").unwrap_or_default();
        let redirect_uri = Url::parse(raw).ok().filter(|_| locked(&world.client).may_redirect_to(raw));
        let redirect_uri = redirect_uri.ok_or_else(|| refused("invalid_request", "Invalid redirect URI"))?;
        if param("response_type") != Some("code") {
            return Err(refused("unsupported_response_type", "Only response_type=code is supported"));
        }
        Ok(Self { redirect_uri, raw_redirect_uri: raw.to_owned(), state: param("state").map(str::to_owned) })
    }

    fn back(&self, name: &str, value: &str) -> String {
        let mut url = self.redirect_uri.clone();
        url.query_pairs_mut().append_pair(name, value);
        if let Some(state) = &self.state {
            url.query_pairs_mut().append_pair("state", state);
        }
        url.into()
    }
}

/// The page.
pub(super) fn show(world: &World, front: &Front, request: &Request) -> Answer {
    let asked = match Asked::check(world, &request.query) {
        Ok(asked) => asked,
        Err(why) => return page_of(world, &why),
    };
    let people: Vec<(String, String)> = {
        let state = locked(&front.state);
        let all = state.companies.values().flat_map(|company| {
            company.teammates.iter().map(|one| {
                let role = if one.is_admin { "admin" } else { "no admin" };
                (one.id.clone(), format!("{} at {}, {role}", one.name(), company.name))
            })
        });
        all.collect()
    };
    let hidden = each(&request.query, |(name, value)| {
        format!(r#"<input type="hidden" name="{}" value="{}">"#, escape(name), escape(value))
    });
    let users = each(people.iter().enumerate(), |(index, (id, words))| {
        format!(
            r#"<label class="choice"><input type="radio" name="user" value="{}"{}> <span>{}</span></label>"#,
            escape(id),
            if index == 0 { " checked" } else { "" },
            escape(words)
        )
    });
    let main = format!(
        r#"<section class="card">
<h1>Holdfast wants to access your Front company</h1>
<form method="post" action="/front/app.frontapp.com/oauth/authorize">
{hidden}
<fieldset><legend>Signed in as</legend>{users}</fieldset>
<div class="buttons">
<button class="primary" name="decision" value="allow">Authorize</button>
<button name="decision" value="deny">Cancel</button>
</div>
</form>
</section>"#
    );
    let mark = "Front, imitated · app.frontapp.com";
    let page = Page { title: "Authorize an app", mark, home: world.home(), narrow: true, main: &main }.html();
    // A form's target rule covers the redirect that answers it, so the way back has to be on the list.
    let origin = asked.redirect_uri.origin().ascii_serialization();
    Answer::html(200, page).header("content-security-policy", csp(&format!("'self' {origin}")))
}

/// The form of the page.
pub(super) fn decide(world: &World, front: &Front, request: &Request) -> Answer {
    let fields = pairs(&request.body);
    let allow = find(&fields, "decision") == Some("allow");
    let user = find(&fields, "user").unwrap_or_default().to_owned();
    let params: Vec<_> =
        fields.into_iter().filter(|(name, _)| !["decision", "user"].contains(&name.as_str())).collect();
    match answer(world, front, &params, allow.then_some(user.as_str())) {
        Ok(location) => Answer::empty(302).header("location", location),
        Err(why) => page_of(world, &why),
    }
}

/// What the form does, without a browser. No `user` denies.
pub(crate) fn consent(world: &World, authorize_url: &str, user: Option<&str>) -> Result<String, ConsentRefused> {
    let url = Url::parse(authorize_url).map_err(|_| refused("invalid_request", "That is not an absolute URL"))?;
    if url.path() != "/front/app.frontapp.com/oauth/authorize" {
        return Err(refused("not_found", "Page not found"));
    }
    let params = pairs(url.query().unwrap_or_default().as_bytes());
    answer(world, &world.front(), &params, user)
}

/// Who is no admin is shown a page, and nothing goes back to the app.
fn answer(
    world: &World,
    front: &Front,
    params: &[(String, String)],
    user: Option<&str>,
) -> Result<String, ConsentRefused> {
    let asked = Asked::check(world, params)?;
    let Some(user) = user else { return Ok(asked.back("error", "access_denied")) };
    let mut state = locked(&front.state);
    let found = state.find_teammate(user).map(|(company, one)| (company.to_owned(), one.is_admin));
    let (company, is_admin) = found.ok_or_else(|| refused("invalid_request", "There is no such teammate"))?;
    if !is_admin {
        return Err(refused("access_denied", NOT_AN_ADMIN));
    }
    let code = state.new_code(&company, &asked.raw_redirect_uri, world.clock.now_ms());
    drop(state);
    Ok(asked.back("code", &code))
}

fn page_of(world: &World, why: &ConsentRefused) -> Answer {
    let main =
        format!(r#"<section class="card"><h1>Something is wrong</h1><p>{}</p></section>"#, escape(&why.description));
    let page =
        Page { title: "Authorize an app", mark: "Front, imitated", home: world.home(), narrow: true, main: &main };
    Answer::html(400, page.html()).header("content-security-policy", csp("'none'"))
}
