//! `/admin/oauth/authorize`: the page on which a merchant installs the app, and the signed way back.
//!
//! <https://shopify.dev/docs/apps/build/authentication-authorization/access-tokens/authorization-code-grant>

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use url::{Url, form_urlencoded};

use super::shop::Place;
use crate::desk::{World, locked};
use crate::http::{Answer, Request, each, escape, find, pairs};
use crate::options::CLIENT_ID;
use crate::zendesk::consent::ConsentRefused;
use crate::zendesk::pages;

/// Scopes that an app of this kind may ask for.
const SCOPES: &[&str] = &[
    "read_all_orders",
    "read_assigned_fulfillment_orders",
    "read_customers",
    "read_fulfillments",
    "read_merchant_managed_fulfillment_orders",
    "read_orders",
    "read_products",
    "read_returns",
    "read_third_party_fulfillment_orders",
    "write_customers",
    "write_orders",
    "write_products",
];

fn refused(error: &str, description: impl Into<String>) -> ConsentRefused {
    ConsentRefused { error: error.to_owned(), description: description.into() }
}

struct Asked {
    redirect_uri: Url,
    scope: String,
    state: String,
}

impl Asked {
    fn check(world: &World, params: &[(String, String)]) -> Result<Self, ConsentRefused> {
        for (index, (name, _)) in params.iter().enumerate() {
            if params[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(refused("invalid_request", format!("{name} is given twice")));
            }
        }
        let param = |name: &str| find(params, name).filter(|value| !value.is_empty());
        if param("client_id") != Some(CLIENT_ID) {
            return Err(refused("invalid_request", "Could not find Shopify API application with api_key"));
        }
        let raw = param("redirect_uri").unwrap_or_default();
        let redirect_uri = Url::parse(raw)
            .ok()
            .filter(|_| locked(&world.client).may_redirect_to(raw))
            .ok_or_else(|| refused("invalid_request", "The redirect_uri is not whitelisted"))?;
        let scope = param("scope").unwrap_or_default();
        if let Some(unknown) = scope.split(',').find(|scope| !scope.is_empty() && !SCOPES.contains(&scope.trim())) {
            return Err(refused("invalid_scope", format!("These scopes are undefined: {unknown}")));
        }
        if param("grant_options[]").is_some() {
            return Err(refused("invalid_request", "This sandbox gives offline tokens only"));
        }
        let state = param("state").ok_or_else(|| refused("invalid_request", "No state is given"))?;
        Ok(Self { redirect_uri, scope: scope.to_owned(), state: state.to_owned() })
    }
}

/// The page.
pub(crate) fn show(world: &World, shop: &Place, request: &Request) -> Answer {
    let asked = match Asked::check(world, &request.query) {
        Ok(asked) => asked,
        Err(why) => return page_of(world, &why),
    };
    let hidden = each(&request.query, |(name, value)| {
        format!(r#"<input type="hidden" name="{}" value="{}">"#, escape(name), escape(value))
    });
    let scopes =
        each(asked.scope.split(',').filter(|scope| !scope.is_empty()), |scope| format!("<li>{}</li>", escape(scope)));
    let main = format!(
        r#"<section class="card">
<h1>Install Holdfast in {shop}?</h1>
<p>This app needs access to your store:</p>
<ul class="scopes">{scopes}</ul>
<form method="post" action="/shopify/{shop}/admin/oauth/authorize">
{hidden}
<div class="buttons">
<button class="primary" name="decision" value="allow">Install</button>
<button name="decision" value="deny">Cancel</button>
</div>
</form>
</section>"#,
        shop = escape(&shop.name),
    );
    let mark = format!("Shopify, imitated · {}", shop.domain());
    let page = pages::Page { title: "Install app", mark: &mark, home: world.home(), narrow: true, main: &main }.html();
    let origin = asked.redirect_uri.origin().ascii_serialization();
    Answer::html(200, page)
        .header("content-security-policy", pages::csp(&format!("'self' {origin}")))
        .header("cross-origin-opener-policy", "same-origin")
}

/// The form of the page.
pub(crate) fn decide(world: &World, shop: &Place, request: &Request) -> Answer {
    let fields = pairs(&request.body);
    let allow = find(&fields, "decision") == Some("allow");
    let params: Vec<_> = fields.into_iter().filter(|(name, _)| name != "decision").collect();
    match answer(world, shop, &params, allow) {
        Ok(location) => Answer::empty(302).header("location", location),
        Err(why) => page_of(world, &why),
    }
}

/// What the form does, without a browser.
pub(crate) fn consent(world: &World, authorize_url: &Url, allow: bool) -> Result<String, ConsentRefused> {
    let mut path = authorize_url.path().trim_start_matches('/').splitn(3, '/');
    let (Some("shopify"), Some(name), Some("admin/oauth/authorize")) = (path.next(), path.next(), path.next()) else {
        return Err(refused("not_found", "There is no such page"));
    };
    let shop = world.shops.find(name).ok_or_else(|| refused("not_found", "There is no such shop"))?;
    answer(world, &shop, &pairs(authorize_url.query().unwrap_or_default().as_bytes()), allow)
}

fn answer(world: &World, shop: &Place, params: &[(String, String)], allow: bool) -> Result<String, ConsentRefused> {
    let asked = Asked::check(world, params)?;
    let now_ms = world.clock.now_ms();
    let mut back = vec![("state".to_owned(), asked.state)];
    if allow {
        // A merchant may change the address of the page, and grant less.
        let granted = shop.rules().grants.unwrap_or(asked.scope);
        back.push(("code".to_owned(), locked(&shop.tokens).new_code(granted, now_ms)));
    } else {
        // Not documented: a cancelled installation may end in the admin instead.
        back.push(("error".to_owned(), "access_denied".to_owned()));
    }
    back.push(("shop".to_owned(), shop.domain()));
    back.push(("host".to_owned(), STANDARD_NO_PAD.encode(format!("admin.shopify.com/store/{}", shop.name))));
    back.push(("timestamp".to_owned(), (now_ms / 1000).to_string()));
    let secret = locked(&world.client).secrets("shopify").secret.clone();
    back.push(("hmac".to_owned(), callback_hmac(&secret, &back)));
    back.sort();
    let mut url = asked.redirect_uri;
    url.query_pairs_mut().extend_pairs(back);
    Ok(url.into())
}

/// The signature of a callback's query: HMAC-SHA256 in hexadecimal over everything but itself, sorted by name, with `%20`
/// for a space.
pub fn callback_hmac(secret: &str, query: &[(String, String)]) -> String {
    let mut signed: Vec<_> = query.iter().filter(|(name, _)| name != "hmac" && name != "signature").collect();
    signed.sort();
    let mut message = String::new();
    for (name, value) in signed {
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let separator = if message.is_empty() { "" } else { "&" };
        // Writing to a String cannot fail.
        write!(message, "{separator}{}={}", encoded(name), encoded(value)).ok();
    }
    let message = message.replace('+', "%20");
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map(|mac| mac.chain_update(message.as_bytes()));
    let digest = mac.map(|mac| mac.finalize().into_bytes().to_vec()).unwrap_or_default();
    digest.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").ok();
        hex
    })
}

fn page_of(world: &World, why: &ConsentRefused) -> Answer {
    let text = format!("{} ({})", why.description, why.error);
    let main = format!(r#"<section class="card"><h1>Oauth error</h1><p>{}</p></section>"#, escape(&text));
    let page =
        pages::Page { title: "Oauth error", mark: "Shopify, imitated", home: world.home(), narrow: true, main: &main };
    Answer::html(400, page.html()).header("content-security-policy", pages::csp("'none'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documentation_is_signed_alike() {
        let query = [
            ("code", "0907a61c0c8d55e99db179b68161bc00"),
            ("shop", "some-shop.myshopify.com"),
            ("state", "0.6784241404160823"),
            ("timestamp", "1337178173"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(callback_hmac("hush", &query), "700e2dadb827fcc8609e9d5ce208b2e9cdaab9df07390d2cbca10d7c328fc4bf");
    }
}
