//! OpenID Connect: who somebody is, as the operator's identity provider says it (OpenID Connect Core 1.0 and Discovery 1.0).
//! The authorization code flow with PKCE (RFC 7636), a state and a nonce.

mod token;

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use holdfast_core::{
    exchange::{client_basic, code_challenge, secret_header},
    jws::{NotSigned, PublicKey},
    ports::{Body, HttpRequest},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tracing::{info, warn};
use url::{Url, form_urlencoded::Serializer};

use crate::{app::App, config::OidcConfig};
use token::{About, Bad, Expected};

const TIMEOUT: Duration = Duration::from_secs(10);
/// No answer of theirs is larger.
const MOST_BYTES: usize = 256 * 1024;
/// What the provider says of itself is asked for again after this.
const GOOD_FOR: Duration = Duration::from_hours(1);
/// Whatever strangers sign with: its keys are asked for no more often.
const KEYS_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What is known of the provider.
#[derive(Default)]
pub(crate) struct Oidc {
    facts: RwLock<Option<(Duration, Arc<Facts>)>>,
    keys: RwLock<Option<(Duration, Arc<[PublicKey]>)>>,
}

/// OpenID Connect Discovery 1.0, section 3.
#[derive(Debug, Deserialize)]
struct Facts {
    issuer: String,
    authorization_endpoint: Url,
    token_endpoint: Url,
    userinfo_endpoint: Option<Url>,
    jwks_uri: Url,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Somebody, as the provider knows them.
#[derive(Clone, Debug)]
pub(crate) struct Somebody {
    /// Never given to anybody else there.
    pub(crate) subject: String,
    /// In lower case.
    pub(crate) email: Option<String>,
    /// Whether the provider has seen that it is theirs.
    pub(crate) verified: bool,
    pub(crate) name: Option<String>,
}

/// Why nobody came back.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The provider does not answer, or not as it has to.
    Away(anyhow::Error),
    /// Its clock and ours differ, or the answer lay somewhere.
    Time,
    /// What it says is not for us, or was not said by it.
    NotProven(&'static str),
}

impl From<anyhow::Error> for Fault {
    fn from(error: anyhow::Error) -> Self {
        Self::Away(error)
    }
}

/// What one sign-in is bound to: all of it follows from the cookie, and only its hashes are sent on.
pub(crate) struct Bound<'a>(pub(crate) &'a str);

impl Bound<'_> {
    fn of(&self, what: &str) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(format!("holdfast oidc {what}|{}", self.0)))
    }

    /// Comes back with the answer.
    pub(crate) fn state(&self) -> String {
        self.of("state")
    }

    fn nonce(&self) -> String {
        self.of("nonce")
    }

    fn verifier(&self) -> SecretString {
        self.of("verifier").into()
    }
}

/// Where the provider sends people back to.
fn redirect_uri(app: &App) -> String {
    app.url("sign-in/callback")
}

/// What people call the provider, also where there is none any more.
pub(crate) fn name(app: &App) -> &str {
    app.config.oidc().map_or("the identity provider", |oidc| oidc.name.as_str())
}

/// Where somebody signs in at the provider.
pub(crate) async fn authorize_url(app: &App, config: &OidcConfig, bound: &Bound<'_>) -> Result<Url, Fault> {
    let facts = facts(app, config).await?;
    let mut url = facts.authorization_endpoint.clone();
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &config.client_id)
        .append_pair("redirect_uri", &redirect_uri(app))
        .append_pair("scope", &config.scopes.join(" "))
        .append_pair("state", &bound.state())
        .append_pair("nonce", &bound.nonce())
        .append_pair("code_challenge", &code_challenge(&bound.verifier()))
        .append_pair("code_challenge_method", "S256");
    Ok(url)
}

/// Whoever has come back with this code.
pub(crate) async fn redeem(app: &App, config: &OidcConfig, bound: &Bound<'_>, code: &str) -> Result<Somebody, Fault> {
    let facts = facts(app, config).await?;
    let tokens = tokens(app, config, &facts, bound, code).await?;
    let nonce = bound.nonce();
    let expected = Expected {
        issuer: &config.issuer,
        client_id: &config.client_id,
        nonce: &nonce,
        now: app.seams.clock.now().timestamp(),
    };
    let id_token = tokens.id_token.expose_secret();
    let mut verified = token::verify(id_token, &keys(app, &facts, false).await?, &expected);
    if matches!(verified, Err(Bad::NotSigned(NotSigned::NoKey))) {
        // It may have changed its keys.
        verified = token::verify(id_token, &keys(app, &facts, true).await?, &expected);
    }
    let claims = verified.map_err(|bad| match bad {
        Bad::Time => Fault::Time,
        Bad::Garbled | Bad::NotSigned(NotSigned::Garbled) => Fault::NotProven("it is no ID token"),
        Bad::NotSigned(NotSigned::Algorithm) => {
            Fault::NotProven("it is not signed with RS256, ES256 or another asymmetric algorithm")
        }
        Bad::NotSigned(NotSigned::NoKey) => {
            Fault::NotProven("it is signed with a key that the provider does not publish")
        }
        Bad::NotSigned(NotSigned::Wrong) => Fault::NotProven("its signature is not right"),
        Bad::Issuer => Fault::NotProven("it names another issuer"),
        Bad::Audience => Fault::NotProven("it is meant for another client"),
        Bad::Nonce => Fault::NotProven("it belongs to another sign-in"),
    })?;
    let about = match (&claims.about.email, &facts.userinfo_endpoint, &tokens.access_token) {
        (email, Some(url), Some(token)) if email.is_none() || !claims.about.says_whether_verified() => {
            userinfo(app, url, token, &claims.sub).await?
        }
        _ => claims.about.clone(),
    };
    Ok(Somebody {
        subject: claims.sub,
        verified: about.is_verified(),
        email: about.email.as_deref().and_then(plain),
        name: about.name.or(claims.about.name),
    })
}

/// As accounts have addresses. One with a letter that only looks like another one when it is small (the sign of Kelvin, for
/// one, becomes a `k`) is nobody's.
fn plain(email: &str) -> Option<String> {
    let small = email.trim().to_lowercase();
    (small == email.trim().to_ascii_lowercase()).then_some(small)
}

#[derive(Deserialize)]
struct Tokens {
    id_token: SecretString,
    access_token: Option<SecretString>,
}

async fn tokens(app: &App, config: &OidcConfig, facts: &Facts, bound: &Bound<'_>, code: &str) -> Result<Tokens, Fault> {
    let secret = config.client_secret.as_ref().map(ExposeSecret::expose_secret);
    let methods = facts.token_endpoint_auth_methods_supported.as_deref();
    // Where nothing is said, it is the first one (Discovery 1.0, section 3).
    let basic = methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"));
    let (back, verifier) = (redirect_uri(app), bound.verifier());
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", &back),
        ("code_verifier", verifier.expose_secret()),
    ];
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    match secret {
        Some(secret) if basic => {
            headers.insert(header::AUTHORIZATION, client_basic(&config.client_id, secret));
        }
        secret => {
            form.push(("client_id", &config.client_id));
            form.extend(secret.map(|secret| ("client_secret", secret)));
        }
    }
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    let body = Body::Bytes(body.into_bytes().into());
    let (status, document) = ask(app, Method::POST, &facts.token_endpoint, headers, body).await?;
    if status.is_success() {
        return serde_json::from_value(document).map_err(|_| Fault::NotProven("there is no ID token in the answer"));
    }
    // A code of the standard's (RFC 6749 section 5.2) says nothing secret; whatever else stands there might.
    let error = document["error"].as_str().unwrap_or_default();
    match error {
        "invalid_grant" => Err(Fault::NotProven("the provider takes its own code no more")),
        "invalid_client" | "unauthorized_client" => {
            Err(anyhow::anyhow!("it refuses the client: look at sign_in.oidc.client_id and client_secret").into())
        }
        _ => Err(anyhow::anyhow!("its token endpoint answers {status}").into()),
    }
}

/// OpenID Connect Core 1.0, section 5.3: of the same person, or it says nothing.
async fn userinfo(app: &App, url: &Url, token: &SecretString, subject: &str) -> Result<About, Fault> {
    let mut headers = HeaderMap::new();
    let bearer = secret_header(&format!("Bearer {}", token.expose_secret())).context("an access token is a header")?;
    headers.insert(header::AUTHORIZATION, bearer);
    let (status, document) = ask(app, Method::GET, url, headers, Body::Bytes(bytes::Bytes::new())).await?;
    if !status.is_success() {
        return Err(anyhow::anyhow!("its userinfo endpoint answers {status}").into());
    }
    if document["sub"] != subject {
        return Err(Fault::NotProven("its userinfo endpoint speaks of somebody else"));
    }
    serde_json::from_value(document).map_err(|_| Fault::NotProven("its userinfo endpoint answers something else"))
}

async fn facts(app: &App, config: &OidcConfig) -> anyhow::Result<Arc<Facts>> {
    let now = app.seams.clock.uptime();
    let known = app.oidc.facts.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some((at, facts)) = &known
        && now.saturating_sub(*at) < GOOD_FOR
    {
        return Ok(Arc::clone(facts));
    }
    match discover(app, config).await {
        Ok(facts) => {
            let facts = Arc::new(facts);
            *app.oidc.facts.write().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&facts)));
            Ok(facts)
        }
        Err(error) => match known {
            // What is old is used while nothing newer can be had.
            Some((_, facts)) => {
                warn!(error = format!("{error:#}"), "cannot ask the identity provider about itself");
                Ok(facts)
            }
            None => Err(error),
        },
    }
}

async fn discover(app: &App, config: &OidcConfig) -> anyhow::Result<Facts> {
    let url = format!("{}/.well-known/openid-configuration", config.issuer.trim_end_matches('/'));
    let url = Url::parse(&url).context("sign_in.oidc.issuer")?;
    let (status, document) = get(app, &url).await?;
    anyhow::ensure!(status.is_success(), "{url} answers {status}");
    let facts: Facts = serde_json::from_value(document).with_context(|| format!("what {url} says of itself"))?;
    anyhow::ensure!(
        facts.issuer == config.issuer,
        "it calls itself {:?}: set sign_in.oidc.issuer to the letter",
        facts.issuer
    );
    let https = url.scheme() == "https";
    let ends = [&facts.authorization_endpoint, &facts.token_endpoint, &facts.jwks_uri];
    let plain = ends.into_iter().chain(&facts.userinfo_endpoint).find(|end| https && end.scheme() != "https");
    anyhow::ensure!(plain.is_none(), "an endpoint of it is not https");
    info!("the identity provider {} is known", config.issuer);
    Ok(facts)
}

/// Its keys; `anew`: also where they are here, unless they were asked for just now.
async fn keys(app: &App, facts: &Facts, anew: bool) -> anyhow::Result<Arc<[PublicKey]>> {
    let now = app.seams.clock.uptime();
    let known = app.oidc.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some((at, keys)) = known {
        let good_for = if anew { KEYS_AGAIN_AFTER } else { GOOD_FOR };
        if now.saturating_sub(at) < good_for {
            return Ok(keys);
        }
    }
    let (status, document) = get(app, &facts.jwks_uri).await?;
    anyhow::ensure!(status.is_success(), "its keys: {status}");
    let keys: Arc<[PublicKey]> = PublicKey::set(&document).context("its set of keys is none")?.into();
    *app.oidc.keys.write().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&keys)));
    Ok(keys)
}

async fn get(app: &App, url: &Url) -> anyhow::Result<(StatusCode, Value)> {
    ask(app, Method::GET, url, HeaderMap::new(), Body::Bytes(bytes::Bytes::new())).await
}

async fn ask(
    app: &App,
    method: Method,
    url: &Url,
    mut headers: HeaderMap,
    body: Body,
) -> anyhow::Result<(StatusCode, Value)> {
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let request = HttpRequest { method, url: url.clone(), exact: None, headers, body, timeout: TIMEOUT };
    let response = app.seams.http.send(request).await?;
    let (status, all) = (response.status, response.bytes(MOST_BYTES).await?);
    // An error may be a page.
    let document = serde_json::from_slice(&all);
    Ok((
        status,
        if status.is_success() { document.context("its answer is no JSON")? } else { document.unwrap_or_default() },
    ))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn an_address_that_only_looks_like_another_one_is_nobodys() {
        assert_eq!(plain(" Kim@Acme.example ").as_deref(), Some("kim@acme.example"));
        assert_eq!(plain("\u{212a}im@acme.example"), None);
    }
}
