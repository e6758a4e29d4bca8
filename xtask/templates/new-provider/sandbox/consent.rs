//! `app.@id@.example/oauth/authorize`: the page on which somebody lets an app in. REPLACE

use url::Url;

use crate::desk::{World, locked};
use crate::http::{Answer, Request, each, escape, find, pairs};
use crate::options::CLIENT_ID;
use crate::zendesk::consent::ConsentRefused;
use crate::zendesk::{Page, csp};

const PATH: &str = "/@id@/app.@id@.example/oauth/authorize";
const PARAMETERS: [&str; 7] =
    ["response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method"];
pub(super) const SCOPE: &str = "contacts:read";
const MARK: &str = "@Name@, imitated";

fn refused(error: &str, description: impl Into<String>) -> ConsentRefused {
    ConsentRefused { error: error.to_owned(), description: description.into() }
}

/// An authorisation request that may be shown to a person.
struct Asked {
    redirect_uri: Url,
    raw_redirect_uri: String,
    state: Option<String>,
    challenge: String,
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
        if param("scope") != Some(SCOPE) {
            return Err(refused("invalid_scope", "Unknown scope"));
        }
        let challenge = param("code_challenge").filter(|_| param("code_challenge_method") == Some("S256"));
        let challenge = challenge.ok_or_else(|| refused("invalid_request", "A code_challenge by S256 is missing"))?;
        let (raw_redirect_uri, challenge) = (raw.to_owned(), challenge.to_owned());
        Ok(Self { redirect_uri, raw_redirect_uri, state: param("state").map(str::to_owned), challenge })
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
pub(super) fn show(world: &World, request: &Request) -> Answer {
    let asked = match Asked::check(world, &request.query) {
        Ok(asked) => asked,
        Err(why) => return page_of(world, &why),
    };
    let hidden = each(&request.query, |(name, value)| {
        format!(r#"<input type="hidden" name="{}" value="{}">"#, escape(name), escape(value))
    });
    let users = each(locked(&world.@mod@).users().iter().enumerate(), |(index, user)| {
        format!(
            r#"<label class="choice"><input type="radio" name="user" value="{}"{}> <span>{} at {}</span></label>"#,
            user.id,
            if index == 0 { " checked" } else { "" },
            escape(&user.name),
            escape(&user.workspace_name())
        )
    });
    let main = format!(
        r#"<section class="card">
<h1>Holdfast wants to access your @Name@ workspace</h1>
<p>It asks for {SCOPE}.</p>
<form method="post" action="{PATH}">
{hidden}
<fieldset><legend>Signed in as</legend>{users}</fieldset>
<div class="buttons">
<button class="primary" name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button>
</div>
</form>
</section>"#
    );
    let page = Page { title: "Authorize an app", mark: MARK, home: world.home(), narrow: true, main: &main }.html();
    // A form's target rule covers the redirect that answers it, so the way back has to be on the list.
    let origin = asked.redirect_uri.origin().ascii_serialization();
    Answer::html(200, page).header("content-security-policy", csp(&format!("'self' {origin}")))
}

/// The form of the page.
pub(super) fn decide(world: &World, request: &Request) -> Answer {
    let fields = pairs(&request.body);
    let allow = find(&fields, "decision") == Some("allow");
    let user = find(&fields, "user").unwrap_or_default().to_owned();
    let params: Vec<_> =
        fields.into_iter().filter(|(name, _)| !["decision", "user"].contains(&name.as_str())).collect();
    match answer(world, &params, allow.then_some(user.as_str())) {
        Ok(location) => Answer::empty(302).header("location", location),
        Err(why) => page_of(world, &why),
    }
}

/// What the form does, without a browser. No `user` denies.
pub(crate) fn consent(world: &World, url: &Url, user: Option<&str>) -> Result<String, ConsentRefused> {
    if url.path() != PATH {
        return Err(refused("not_found", "Page not found"));
    }
    answer(world, &pairs(url.query().unwrap_or_default().as_bytes()), user)
}

fn answer(world: &World, params: &[(String, String)], user: Option<&str>) -> Result<String, ConsentRefused> {
    let asked = Asked::check(world, params)?;
    let Some(user) = user else { return Ok(asked.back("error", "access_denied")) };
    let mut state = locked(&world.@mod@);
    let found = state.find(user).map(|user| user.id);
    let user = found.ok_or_else(|| refused("invalid_request", "There is no such person"))?;
    let code = state.new_code(user, &asked.raw_redirect_uri, &asked.challenge, world.clock.now_ms());
    Ok(asked.back("code", &code))
}

fn page_of(world: &World, why: &ConsentRefused) -> Answer {
    let main =
        format!(r#"<section class="card"><h1>Something is wrong</h1><p>{}</p></section>"#, escape(&why.description));
    let page = Page { title: "Authorize an app", mark: MARK, home: world.home(), narrow: true, main: &main };
    Answer::html(400, page.html()).header("content-security-policy", csp("'none'"))
}
