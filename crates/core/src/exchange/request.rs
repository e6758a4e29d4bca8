//! From the facts of a token endpoint and a grant to a request.

use std::time::Duration;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use url::{Url, form_urlencoded};

use crate::{
    ports::{Body, HttpRequest, OAuthApp},
    provider::{ClientAuth, OAuth2, Revoke, TokenBody},
};

/// What is given for a token set.
#[derive(Debug)]
pub enum Grant<'a> {
    /// RFC 6749 section 6.
    Refresh(&'a SecretString),
    /// RFC 6749 section 4.1.3.
    Code {
        /// From the callback.
        code: &'a SecretString,
        /// Exactly as in the authorize URL.
        redirect_uri: &'a str,
        /// RFC 7636, where the provider takes it.
        verifier: Option<&'a SecretString>,
    },
    /// RFC 8693 section 2.1: a token that never ends, for one that is renewed.
    Upgrade {
        /// The access token.
        token: &'a SecretString,
        /// From [`Provider::upgrade_params`](crate::Provider::upgrade_params).
        params: &'a [(String, Value)],
    },
}

/// The token request; `secret` is the client secret to use, of the two that an app may have.
pub fn token_request(
    facts: &OAuth2,
    app: &OAuthApp,
    secret: Option<&SecretString>,
    grant: &Grant<'_>,
    timeout: Duration,
) -> HttpRequest {
    let mut fields = Map::new();
    let mut put = |name: &str, value: &str| fields.insert(name.to_owned(), Value::String(value.to_owned()));
    match grant {
        Grant::Refresh(token) => {
            put("grant_type", "refresh_token");
            put("refresh_token", token.expose_secret());
        }
        Grant::Code { code, redirect_uri, verifier } => {
            put("grant_type", "authorization_code");
            put("code", code.expose_secret());
            put("redirect_uri", redirect_uri);
            if let Some(verifier) = verifier {
                put("code_verifier", verifier.expose_secret());
            }
        }
        Grant::Upgrade { token, .. } => {
            put("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
            put("subject_token", token.expose_secret());
        }
    }
    let params = match grant {
        Grant::Refresh(_) => &facts.refresh_params[..],
        Grant::Code { .. } => &facts.token_params,
        Grant::Upgrade { params, .. } => params,
    };
    fields.extend(params.iter().cloned());
    post(facts, app, secret, &facts.token_url, fields, timeout)
}

/// Everything in a token request that must not be repeated in words: the grant, the client secret, and both as they go
/// into a header.
pub fn secrets_of(request: &HttpRequest, secret: Option<&SecretString>, grant: &Grant<'_>) -> Vec<SecretString> {
    let of_grant = match grant {
        Grant::Refresh(token) | Grant::Upgrade { token, .. } => vec![*token],
        Grant::Code { code, verifier, .. } => std::iter::once(*code).chain(*verifier).collect(),
    };
    let header = request.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let header = header.map(|value| SecretString::from(value.trim_start_matches("Basic ")));
    of_grant.into_iter().chain(secret).cloned().chain(header).collect()
}

/// The request that gives a grant back, where the provider has a way.
pub fn revoke(facts: &OAuth2, app: &OAuthApp, token: &SecretString, timeout: Duration) -> Option<HttpRequest> {
    match facts.revoke.as_ref()? {
        Revoke::Bearer { method, url } => {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, secret_header(&format!("Bearer {}", token.expose_secret()))?);
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            Some(HttpRequest {
                method: method.clone(),
                url: url.clone(),
                exact: None,
                headers,
                body: Body::empty(),
                timeout,
            })
        }
        Revoke::Rfc7009 { url } => {
            let fields = Map::from_iter([("token".to_owned(), Value::String(token.expose_secret().to_owned()))]);
            Some(post(facts, app, app.client_secret.as_ref(), url, fields, timeout))
        }
        Revoke::Form { url } => {
            let form =
                form_urlencoded::Serializer::new(String::new()).append_pair("token", token.expose_secret()).finish();
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
            let body = Body::Bytes(Bytes::from(form));
            Some(HttpRequest { method: Method::POST, url: url.clone(), exact: None, headers, body, timeout })
        }
    }
}

fn post(
    facts: &OAuth2,
    app: &OAuthApp,
    secret: Option<&SecretString>,
    url: &Url,
    mut fields: Map<String, Value>,
    timeout: Duration,
) -> HttpRequest {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let secret = secret.map(ExposeSecret::expose_secret);
    match (facts.client_auth, secret) {
        (ClientAuth::Basic, Some(secret)) => {
            headers.insert(AUTHORIZATION, client_basic(&app.client_id, secret));
        }
        (ClientAuth::BasicRaw, Some(secret)) => {
            headers.insert(AUTHORIZATION, basic(&app.client_id, secret));
        }
        (ClientAuth::Body, _) | (_, None) => {
            fields.insert("client_id".to_owned(), Value::String(app.client_id.clone()));
            if let Some(secret) = secret {
                fields.insert("client_secret".to_owned(), Value::String(secret.to_owned()));
            }
        }
    }
    let (content_type, body) = match facts.token_body {
        TokenBody::Json => ("application/json", Value::Object(fields).to_string()),
        TokenBody::Form => {
            let mut form = form_urlencoded::Serializer::new(String::new());
            for (name, value) in &fields {
                match value {
                    Value::String(text) => form.append_pair(name, text),
                    other => form.append_pair(name, &other.to_string()),
                };
            }
            ("application/x-www-form-urlencoded", form.finish())
        }
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    HttpRequest {
        method: Method::POST,
        url: url.clone(),
        exact: None,
        headers,
        body: Body::Bytes(Bytes::from(body)),
        timeout,
    }
}

/// What a client shows itself with at a token endpoint (RFC 6749 section 2.3.1): both parts are form-encoded first.
pub fn client_basic(client_id: &str, secret: &str) -> HeaderValue {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    basic(&encode(client_id), &encode(secret))
}

fn basic(user: &str, password: &str) -> HeaderValue {
    let value = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
    secret_header(&value).expect("base64 is a valid header")
}

/// A header value that is never printed. `None`: the token holds bytes that no header may hold.
pub fn secret_header(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// What an authorize URL is made of, beside the provider's facts.
#[derive(Debug)]
pub struct AuthorizeUrl<'a> {
    /// The OAuth app's.
    pub client_id: &'a str,
    /// Ours, exactly as registered.
    pub redirect_uri: &'a str,
    /// Single-use.
    pub state: &'a str,
    /// The PKCE verifier, where the provider takes it.
    pub verifier: Option<&'a SecretString>,
}

/// Where the admin is sent to consent (RFC 6749 section 4.1.1, RFC 7636 section 4.3).
pub fn authorize_url(facts: &OAuth2, parts: &AuthorizeUrl<'_>) -> Url {
    let mut url = facts.authorize_url.clone();
    {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", parts.client_id)
            .append_pair("redirect_uri", parts.redirect_uri)
            .append_pair("state", parts.state);
        if !facts.scopes.is_empty() {
            query.append_pair("scope", &facts.scopes.join(&facts.scope_separator.to_string()));
        }
        if let Some(verifier) = parts.verifier.filter(|_| facts.pkce) {
            query.append_pair("code_challenge", &code_challenge(verifier)).append_pair("code_challenge_method", "S256");
        }
        for (name, value) in &facts.authorize_params {
            query.append_pair(name, value);
        }
    }
    url
}

/// RFC 7636 section 4.2, S256.
pub fn code_challenge(verifier: &SecretString) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose_secret().as_bytes()))
}
