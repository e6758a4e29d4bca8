#![doc = include_str!("../README.md")]

mod account;
mod error;
mod identity;
mod tools;

use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    error::{Error, Result},
    exchange::{Refusal, Verdict},
    provider::{
        About, Account, ApiAnswer, Auth, AuthKind, ClientAuth, Grants, Hosts, Identity, Invalid, OAuth2, Provider,
        RefreshLife, Revoke, Rotation, TokenBody, below,
    },
    tool::{ToolCall, ToolOutput},
};

/// The provider's id.
const ID: &str = "pipedrive";

/// Where people sign in, and tokens are exchanged.
const APP: &str = "oauth.pipedrive.com";
/// The API of every company.
const API: &str = "api.pipedrive.com";

/// Life of an access token where an answer does not say it.
/// <https://pipedrive.readme.io/docs/marketplace-oauth-and-api-proxy-status-codes>
const ACCESS_LIFE: Duration = Duration::from_hours(1);
/// A refresh token that is unused for so long has ended.
const REFRESH_IDLE: Duration = Duration::from_hours(60 * 24);

static ABOUT: About = About {
    id: ID,
    name: "Pipedrive",
    line: "CRM: look up persons by their e-mail address",
    auth_kind: AuthKind::OAuth2,
    account_label: "Pipedrive company",
    account_example: account::EXAMPLE,
    account_rule: account::RULE,
    key_help: None,
    app_steps: &[
        "In Pipedrive's Developer Hub create an app: a private one is enough for your own company.",
        "Open OAuth and access scopes, and look for the callback URL.",
    ],
    // They are set on the app in Pipedrive: no consent names them.
    scopes: &[],
    tools: tools::ALL,
    test_call: "GET /api/v1/users/me",
};

/// Pipedrive, as the rest of Holdfast sees it.
#[derive(Clone, Debug)]
pub struct Pipedrive {
    hosts: Hosts,
}

impl Pipedrive {
    /// The real one.
    pub fn new() -> Self {
        Self { hosts: Hosts::production() }
    }

    /// One whose hosts are folders of another address: the operator's `base_url_override`, for a sandbox. With
    /// `http://127.0.0.1:9000/pipedrive`, the API is at `http://127.0.0.1:9000/pipedrive/api.pipedrive.com`.
    pub fn with_base(base: &str) -> Result<Self, Invalid> {
        Ok(Self { hosts: Hosts::substitute(ID, base)? })
    }
}

impl Default for Pipedrive {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Provider for Pipedrive {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn account(&self, typed: &str) -> Result<Account, Invalid> {
        account::read(&self.hosts, typed)
    }

    fn auth(&self, _account: &Account) -> Auth {
        Auth::OAuth2(Box::new(OAuth2 {
            authorize_url: below(&self.hosts.at(APP), "oauth/authorize"),
            token_url: below(&self.hosts.at(APP), "oauth/token"),
            revoke: Some(Revoke::Rfc7009 { url: below(&self.hosts.at(APP), "oauth/revoke") }),
            scopes: Vec::new(),
            scope_separator: ',',
            client_auth: ClientAuth::BasicRaw,
            token_body: TokenBody::Form,
            pkce: false,
            authorize_params: Vec::new(),
            token_params: Vec::new(),
            refresh_params: Vec::new(),
            rotation: Rotation::SingleUse,
            reuse_grace: Duration::ZERO,
            expires_in_default: Some(ACCESS_LIFE),
            refresh_expires_in_field: None,
            refresh_life: RefreshLife::Idle(REFRESH_IDLE),
            rejected_codes: Vec::new(),
            base_url_field: None,
        }))
    }

    fn verdict(&self, refusal: &Refusal) -> Option<Verdict> {
        error::verdict(refusal)
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

    fn grants(&self) -> Grants {
        Grants { need_refresh_token: true, ..Grants::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_url_is_on_a_host_of_the_providers_or_in_its_folder_of_the_substitute() {
        let there = Pipedrive::with_base("http://127.0.0.1:9000/pipedrive/").unwrap();
        for (provider, at) in [(Pipedrive::new(), "https://"), (there, "http://127.0.0.1:9000/pipedrive/")] {
            let account = provider.account(account::EXAMPLE).unwrap();
            assert_eq!(account.base_url.as_str().trim_end_matches('/'), format!("{at}{API}"));
            let Auth::OAuth2(facts) = provider.auth(&account) else { panic!("it is OAuth") };
            assert_eq!(facts.authorize_url.as_str(), format!("{at}{APP}/oauth/authorize"));
            assert_eq!(facts.token_url.as_str(), format!("{at}{APP}/oauth/token"));
        }
    }
}
