//! A described provider, checked: what the adapter answers from.

use std::time::Duration;

use holdfast_core::provider::{About, ClientAuth, RefreshLife, Rotation, TokenBody};
use http::HeaderName;
use serde_json::Value;

use crate::{
    account::Accounts,
    answer::Test,
    template::{Template, UrlTemplate},
    webhook::Hook,
};

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) about: &'static About,
    pub(crate) accounts: Accounts,
    pub(crate) base_url: UrlTemplate,
    /// It is known only after the test call.
    pub(crate) base_is_found: bool,
    /// A field of token answers that names the API's host.
    pub(crate) base_url_field: Option<String>,
    pub(crate) host_suffixes: Vec<String>,
    pub(crate) closed_paths: &'static [&'static str],
    pub(crate) headers: Vec<(HeaderName, Template)>,
    pub(crate) sign: Sign,
    pub(crate) test: Test,
    pub(crate) webhook: Option<Hook>,
}

/// How requests are authenticated.
#[derive(Debug)]
pub(crate) enum Sign {
    OAuth(Box<OAuth>),
    /// A key, in this header as it is, or as a bearer.
    Key(Option<HeaderName>),
    /// User and password; what the user is called, and an example.
    Basic(String, String),
}

#[derive(Debug)]
pub(crate) struct OAuth {
    pub(crate) authorize_url: UrlTemplate,
    pub(crate) token_url: UrlTemplate,
    pub(crate) revoke: Option<(RevokeBy, UrlTemplate)>,
    pub(crate) scopes: Vec<String>,
    pub(crate) silent_scopes: &'static [&'static str],
    pub(crate) scope_separator: char,
    pub(crate) client_auth: ClientAuth,
    pub(crate) token_body: TokenBody,
    pub(crate) pkce: bool,
    pub(crate) authorize_params: Vec<(String, Template)>,
    pub(crate) token_params: Vec<(String, Value)>,
    pub(crate) refresh_params: Vec<(String, Value)>,
    /// What a callback has to bring, with its value.
    pub(crate) callback: Vec<(String, Template)>,
    pub(crate) rotation: Rotation,
    pub(crate) reuse_grace: Duration,
    pub(crate) expires_in_default: Option<Duration>,
    pub(crate) refresh_expires_in_field: Option<String>,
    pub(crate) refresh_life: RefreshLife,
    pub(crate) rejected_codes: Vec<String>,
    pub(crate) app_codes: Vec<String>,
}

/// How a grant is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RevokeBy {
    /// The token in the body, the client authenticated.
    Rfc7009,
    /// The token in a form, and nothing else.
    Form,
    /// POST with the token as the bearer.
    Bearer,
}
