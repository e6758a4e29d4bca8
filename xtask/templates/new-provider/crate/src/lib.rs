#![doc = include_str!("../README.md")]

mod account;
mod error;
mod identity;
mod tools;

@if oauth@
use std::time::Duration;

@end@
use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    error::{Error, Result},
    exchange::{Refusal, Verdict},
@if oauth@
    provider::{
        About, Account, ApiAnswer, Auth, AuthKind, ClientAuth, Grants, Hosts, Identity, Invalid, OAuth2, Provider,
        RefreshLife, Rotation, Scope, TokenBody, below,
    },
@end@
@if key@
    provider::{About, Account, ApiAnswer, ApiKeyAuth, Auth, AuthKind, Hosts, Identity, Invalid, Provider},
@end@
    tool::{ToolCall, ToolOutput},
};

/// The provider's id.
const ID: &str = "@id@";

@if oauth@
/// Where people sign in, and tokens are exchanged. REPLACE
const APP: &str = "app.@id@.example";
@end@
/// The API of every workspace. REPLACE; where each account has a host of its own, see `Places`, and the adapter for
/// Freshdesk.
const API: &str = "api.@id@.example";

@if oauth@
/// Life of an access token where an answer does not say it. REPLACE
const ACCESS_LIFE: Duration = Duration::from_hours(1);

/// What is asked for: no more than the tools need. REPLACE
const SCOPES: &[Scope] = &[Scope { name: "contacts:read", words: "read contacts" }];
@end@

static ABOUT: About = About {
    id: ID,
    name: "@Name@",
    line: "Contacts: look them up by their e-mail address",
@if oauth@
    auth_kind: AuthKind::OAuth2,
@end@
@if key@
    auth_kind: AuthKind::ApiKey,
@end@
    account_label: "@Name@ workspace",
    account_example: account::EXAMPLE,
    account_rule: account::RULE,
@if oauth@
    key_help: None,
    app_steps: &["In @Name@ open the developer settings, and create an app."],
    scopes: SCOPES,
@end@
@if key@
    // REPLACE: where a person finds the key, in the words of the provider's pages.
    key_help: Some("In @Name@ open your profile, then API, and copy the key."),
    app_steps: &[],
    scopes: &[],
@end@
    tools: tools::ALL,
    test_call: "GET /v1/me",
};

/// @Name@, as the rest of Holdfast sees it.
#[derive(Clone, Debug)]
pub struct @Type@ {
    hosts: Hosts,
}

impl @Type@ {
    /// The real one.
    pub fn new() -> Self {
        Self { hosts: Hosts::production() }
    }

    /// One whose hosts are folders of another address: the operator's `base_url_override`, for a sandbox. With
    /// `http://127.0.0.1:9000/@id@`, the API is at `http://127.0.0.1:9000/@id@/api.@id@.example`.
    pub fn with_base(base: &str) -> Result<Self, Invalid> {
        Ok(Self { hosts: Hosts::substitute(ID, base)? })
    }
}

impl Default for @Type@ {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Provider for @Type@ {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn account(&self, typed: &str) -> Result<Account, Invalid> {
        account::read(&self.hosts, typed)
    }

@if oauth@
    /// REPLACE: each field by what the documentation says; the doc comments of `OAuth2` say what each does.
    fn auth(&self, _account: &Account) -> Auth {
        Auth::OAuth2(Box::new(OAuth2 {
            authorize_url: below(&self.hosts.at(APP), "oauth/authorize"),
            token_url: below(&self.hosts.at(APP), "oauth/token"),
            revoke: None,
            scopes: SCOPES.iter().map(|scope| scope.name.to_owned()).collect(),
            scope_separator: ' ',
            client_auth: ClientAuth::Body,
            token_body: TokenBody::Form,
            pkce: true,
            authorize_params: Vec::new(),
            token_params: Vec::new(),
            refresh_params: Vec::new(),
            rotation: Rotation::SingleUse,
            reuse_grace: Duration::ZERO,
            expires_in_default: Some(ACCESS_LIFE),
            refresh_expires_in_field: None,
            refresh_life: RefreshLife::AsTold,
            rejected_codes: Vec::new(),
            base_url_field: None,
        }))
    }

    /// The standard's codes. REPLACE where the provider has words of its own for a grant that is over.
@end@
@if key@
    /// REPLACE where the key goes elsewhere: the kinds are those of `ApiKeyAuth`.
    fn auth(&self, _account: &Account) -> Auth {
        Auth::ApiKey(ApiKeyAuth::Bearer)
    }

    /// There is no token endpoint that could refuse anything.
@end@
    fn verdict(&self, _refusal: &Refusal) -> Option<Verdict> {
        None
    }

    fn api_error(&self, operation: &'static str, answer: &ApiAnswer) -> Error {
        error::api_error(operation, answer)
    }

    async fn identity(&self, api: &ApiClient) -> Result<Identity> {
        identity::identity(api).await
    }

    async fn call(&self, api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
        tools::call(api, call).await
    }
@if oauth@

    fn grants(&self) -> Grants {
        Grants { need_refresh_token: true, ..Grants::default() }
    }
@end@
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_url_is_on_a_host_of_the_providers_or_in_its_folder_of_the_substitute() {
        let there = @Type@::with_base("http://127.0.0.1:9000/@id@/").unwrap();
        for (provider, at) in [(@Type@::new(), "https://"), (there, "http://127.0.0.1:9000/@id@/")] {
            let account = provider.account(account::EXAMPLE).unwrap();
            assert_eq!(account.base_url.as_str().trim_end_matches('/'), format!("{at}{API}"));
@if oauth@
            let Auth::OAuth2(facts) = provider.auth(&account) else { panic!("it is OAuth") };
            assert_eq!(facts.authorize_url.as_str(), format!("{at}{APP}/oauth/authorize"));
            assert_eq!(facts.token_url.as_str(), format!("{at}{APP}/oauth/token"));
@end@
        }
    }
}
