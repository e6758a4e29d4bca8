#![doc = include_str!("../README.md")]

mod account;
mod api;
mod error;
mod feed;
mod identity;
mod model;
mod subscriptions;
mod tools;
mod webhooks;

use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    error::{Error, Result},
    exchange::{Refusal, Verdict},
    mirror::Feed,
    provider::{
        About, Account, ApiAnswer, Auth, AuthKind, ClientAuth, Identity, Invalid, OAuth2, Places, Provider,
        RefreshLife, Revoke, Rotation, Scope, TokenBody, below,
    },
    tool::{ToolCall, ToolOutput},
    webhook::Webhook,
};
use serde_json::{Value, json};

/// The provider's id.
const ID: &str = "zendesk";

/// Asked for at every exchange. Zendesk takes 5 minutes to 48 hours, and 30 minutes are its own default.
const ACCESS_LIFE: Duration = Duration::from_mins(30);

/// Asked for at every exchange, so that an idle connector lives long: one second below the 90 days that Zendesk's
/// documentation calls the bound, since it does not say whether the bound itself is allowed.
const REFRESH_LIFE_SECS: u64 = 7_776_000 - 1;

/// Narrower ones exist, but search and side-loads are reported to want the broad ones.
const SCOPES: &[Scope] = &[
    Scope { name: "read", words: "See the tickets and people that the person who connects may see" },
    Scope { name: "write", words: "Answer and change the tickets that the person who connects may change" },
];

static ABOUT: About = About {
    id: ID,
    name: "Zendesk",
    line: "Helpdesk: search, read, answer, update and create tickets; find customers and articles",
    auth_kind: AuthKind::OAuth2,
    account_label: "Zendesk subdomain",
    account_example: "acme.zendesk.com",
    account_rule: account::RULE,
    key_help: None,
    app_steps: &[
        "In Zendesk's Admin Center open Apps and integrations, APIs, OAuth clients, and add one.",
        "Its kind is Confidential. A client that is made there connects that account alone; to connect accounts of your customers, ask Zendesk for a global OAuth client in its Marketplace portal.",
    ],
    scopes: SCOPES,
    tools: tools::ALL,
    test_call: "GET /api/v2/users/me.json",
};

/// Zendesk Support, as the rest of Holdfast sees it.
#[derive(Clone, Debug)]
pub struct Zendesk {
    base: Places,
    access_life: Duration,
    reuse_grace: Duration,
}

impl Zendesk {
    /// The real one: accounts live at `https://{account}.zendesk.com`.
    pub fn new() -> Self {
        Self { base: account::production(), access_life: ACCESS_LIFE, reuse_grace: Duration::ZERO }
    }

    /// One whose accounts live elsewhere, OAuth and API alike: the operator's `base_url_override`, for a sandbox.
    ///
    /// `{account}` stands for the subdomain, in the path or as the first label of the host:
    /// `http://127.0.0.1:9000/zendesk/{account}`.
    pub fn with_base(template: &str) -> Result<Self, Invalid> {
        Ok(Self { base: Places::substitute(ID, template)?, ..Self::new() })
    }

    /// Asks for access tokens of this life, in whole seconds, instead of 30 minutes. Zendesk itself refuses less than
    /// 5 minutes and more than 48 hours.
    #[must_use]
    pub fn asking_for(self, access_life: Duration) -> Self {
        Self { access_life: Duration::from_secs(access_life.as_secs().max(1)), ..self }
    }

    /// Takes it that a used refresh token is accepted again for so long. Zendesk documents no such grace.
    #[must_use]
    pub fn with_reuse_grace(self, reuse_grace: Duration) -> Self {
        Self { reuse_grace, ..self }
    }
}

impl Default for Zendesk {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Provider for Zendesk {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn account(&self, typed: &str) -> Result<Account, Invalid> {
        account::read(&self.base, typed)
    }

    fn auth(&self, account: &Account) -> Auth {
        let scopes: Vec<String> = SCOPES.iter().map(|scope| scope.name.to_owned()).collect();
        // At the exchange and at each refresh: without them old clients get a token that never ends and no refresh
        // token, and a refresh falls back to Zendesk's own lives.
        let lives: Vec<(String, Value)> = vec![
            ("expires_in".to_owned(), json!(self.access_life.as_secs())),
            ("refresh_token_expires_in".to_owned(), json!(REFRESH_LIFE_SECS)),
        ];
        let scope = ("scope".to_owned(), json!(scopes.join(" ")));
        Auth::OAuth2(Box::new(OAuth2 {
            authorize_url: below(&account.base_url, "oauth/authorizations/new"),
            token_url: below(&account.base_url, "oauth/tokens"),
            revoke: Some(Revoke::Bearer {
                method: http::Method::DELETE,
                url: below(&account.base_url, "api/v2/oauth/tokens/current.json"),
            }),
            scopes,
            scope_separator: ' ',
            client_auth: ClientAuth::Body,
            token_body: TokenBody::Json,
            pkce: true,
            authorize_params: Vec::new(),
            token_params: std::iter::once(scope).chain(lives.clone()).collect(),
            // No scope: absent, it is what was granted (RFC 6749 section 6). A grant that was imported may be smaller
            // than what is asked for here, and naming more than it would be refused for good.
            refresh_params: lives,
            rotation: Rotation::SingleUse,
            reuse_grace: self.reuse_grace,
            expires_in_default: Some(self.access_life),
            refresh_expires_in_field: Some("refresh_token_expires_in".to_owned()),
            refresh_life: RefreshLife::AsTold,
            rejected_codes: Vec::new(),
            base_url_field: None,
        }))
    }

    /// The consent page and the token endpoint; and the API of OAuth clients and tokens, which makes, shows and ends them.
    fn oauth_paths(&self) -> &'static [&'static str] {
        &["oauth", "api/v2/oauth"]
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

    fn webhooks(&self) -> Vec<&dyn Webhook> {
        vec![&webhooks::EVENTS]
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(&feed::Exports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(zendesk: &Zendesk) -> OAuth2 {
        let Auth::OAuth2(facts) = zendesk.auth(&zendesk.account("acme").unwrap()) else { panic!("it is OAuth") };
        *facts
    }

    #[test]
    fn all_urls_live_under_the_accounts_base() {
        let there = Zendesk::with_base("http://127.0.0.1:9000/zendesk/{account}").unwrap();
        for (zendesk, base) in
            [(Zendesk::new(), "https://acme.zendesk.com"), (there, "http://127.0.0.1:9000/zendesk/acme")]
        {
            let facts = facts(&zendesk);
            assert_eq!(facts.authorize_url.as_str(), format!("{base}/oauth/authorizations/new"));
            assert_eq!(facts.token_url.as_str(), format!("{base}/oauth/tokens"));
            let Some(Revoke::Bearer { method, url }) = facts.revoke else { panic!("the bearer revokes itself") };
            assert_eq!(method, http::Method::DELETE);
            assert_eq!(url.as_str(), format!("{base}/api/v2/oauth/tokens/current.json"));
        }
    }

    #[test]
    fn lives_are_asked_for_at_exchange_and_refresh_alike_and_a_scope_at_the_exchange_alone() {
        let asked = facts(&Zendesk::new());
        let expected = [
            ("scope".to_owned(), json!("read write")),
            ("expires_in".to_owned(), json!(1800)),
            ("refresh_token_expires_in".to_owned(), json!(7_775_999)),
        ];
        assert_eq!(asked.token_params, expected);
        assert_eq!(asked.refresh_params, expected[1..]);

        let short = facts(&Zendesk::new().asking_for(Duration::from_secs(45)));
        assert_eq!(short.refresh_params[0].1, json!(45));
        assert_eq!(short.expires_in_default, Some(Duration::from_secs(45)));
    }
}
