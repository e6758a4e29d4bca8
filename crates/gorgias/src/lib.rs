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
        About, Account, ApiAnswer, ApiKeyAuth, Auth, AuthKind, ClientAuth, Grants, Identity, Invalid, OAuth2, Places,
        Provider, RefreshLife, Rotation, Scope, TokenBody, below,
    },
    tool::{ToolCall, ToolOutput},
    webhook::Webhook,
};

/// The provider's id.
const ID: &str = "gorgias";

/// Life of an access token where an answer does not say it.
/// <https://developers.gorgias.com/docs/oauth2-authentication-for-creating-apps-with-gorgias>
const ACCESS_LIFE: Duration = Duration::from_hours(24);

/// <https://developers.gorgias.com/docs/oauth2-scopes>
const SCOPES: &[Scope] = &[
    Scope { name: "openid", words: "Know who connects" },
    Scope { name: "email", words: "See the address of the person who connects" },
    Scope { name: "profile", words: "See the name of the person who connects" },
    Scope { name: OFFLINE, words: "Stay connected" },
    Scope { name: ACCOUNT, words: "See which account it is" },
    Scope { name: "users:read", words: "See the people of your team" },
    Scope { name: "customers:read", words: "See customers" },
    Scope { name: TICKETS, words: "See tickets and their messages" },
    Scope { name: "tickets:write", words: "Answer, change and open tickets" },
    Scope { name: "integrations:read", words: "See whether Gorgias tells of its events" },
    Scope { name: "integrations:write", words: "Have Gorgias tell of its events" },
];
/// Without it there is no refresh token.
const OFFLINE: &str = "offline";
/// Without it nobody knows whose account it is.
const ACCOUNT: &str = "account:read";
const TICKETS: &str = "tickets:read";

static ABOUT: About = About {
    id: ID,
    name: "Gorgias",
    line: "Helpdesk for shops: look through, read, answer, update and create tickets; find customers",
    auth_kind: AuthKind::OAuth2,
    account_label: "Gorgias subdomain",
    account_example: "acme.gorgias.com",
    account_rule: account::RULE,
    key_help: Some("In Gorgias under Settings, REST API: user name and key are shown there together"),
    app_steps: &[
        "In Gorgias's partner portal make an app; a draft is enough, and one works for all accounts.",
        "Open its OAuth2 settings.",
    ],
    scopes: SCOPES,
    tools: tools::ALL,
    test_call: "GET /api/account",
};

/// Gorgias, as the rest of Holdfast sees it.
#[derive(Clone, Debug)]
pub struct Gorgias {
    base: Places,
}

impl Gorgias {
    /// The real one: accounts live at `https://{account}.gorgias.com`.
    pub fn new() -> Self {
        Self { base: account::production() }
    }

    /// One whose accounts live elsewhere, OAuth and API alike: the operator's `base_url_override`, for a sandbox.
    ///
    /// `{account}` stands for the subdomain, in the path or as the first label of the host:
    /// `http://127.0.0.1:9000/gorgias/{account}`.
    pub fn with_base(template: &str) -> Result<Self, Invalid> {
        Ok(Self { base: Places::substitute(ID, template)? })
    }
}

impl Default for Gorgias {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Provider for Gorgias {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn account(&self, typed: &str) -> Result<Account, Invalid> {
        account::read(&self.base, typed)
    }

    fn auth(&self, account: &Account) -> Auth {
        Auth::OAuth2(Box::new(OAuth2 {
            authorize_url: below(&account.base_url, "oauth/authorize"),
            token_url: below(&account.base_url, "oauth/token"),
            revoke: None,
            scopes: SCOPES.iter().map(|scope| scope.name.to_owned()).collect(),
            scope_separator: ' ',
            client_auth: ClientAuth::Basic,
            token_body: TokenBody::Form,
            pkce: false,
            authorize_params: Vec::new(),
            token_params: Vec::new(),
            refresh_params: Vec::new(),
            // Whether it does is written nowhere; where it does not, nothing is lost by the care.
            rotation: Rotation::SingleUse,
            reuse_grace: Duration::ZERO,
            expires_in_default: Some(ACCESS_LIFE),
            refresh_expires_in_field: None,
            // It does not expire, says the documentation.
            refresh_life: RefreshLife::AsTold,
            rejected_codes: Vec::new(),
            base_url_field: None,
        }))
    }

    /// <https://developers.gorgias.com/docs/authentication>
    fn key_auth(&self, _account: &Account) -> Option<ApiKeyAuth> {
        Some(ApiKeyAuth::Pair { user: ("User name".to_owned(), "ada@acme.com".to_owned()) })
    }

    fn oauth_paths(&self) -> &'static [&'static str] {
        &["oauth"]
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
        vec![&webhooks::HTTP]
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(&feed::Tickets)
    }

    fn scopes_of(&self, tool: &str) -> &'static [&'static str] {
        tools::scopes_of(tool)
    }

    fn indispensable(&self, missing: &[String]) -> Vec<String> {
        missing.iter().filter(|scope| [OFFLINE, ACCOUNT, TICKETS].contains(&scope.as_str())).cloned().collect()
    }

    fn grants(&self) -> Grants {
        Grants { need_refresh_token: true, ..Grants::default() }
    }

    /// The documentation sends one, since `openid` is asked for.
    fn sends_nonce(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_urls_live_under_the_accounts_base() {
        let there = Gorgias::with_base("http://127.0.0.1:9000/gorgias/{account}").unwrap();
        for (gorgias, base) in
            [(Gorgias::new(), "https://acme.gorgias.com"), (there, "http://127.0.0.1:9000/gorgias/acme")]
        {
            let Auth::OAuth2(facts) = gorgias.auth(&gorgias.account("acme").unwrap()) else { panic!("it is OAuth") };
            assert_eq!(facts.authorize_url.as_str(), format!("{base}/oauth/authorize"));
            assert_eq!(facts.token_url.as_str(), format!("{base}/oauth/token"));
        }
        assert!(Gorgias::with_base("http://127.0.0.1:9000/gorgias").is_err());
    }

    #[test]
    fn a_grant_without_people_or_customers_is_of_use_and_one_without_tickets_is_not() {
        let missing = |scopes: &[&str]| {
            let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            Gorgias::new().indispensable(&scopes)
        };
        assert!(missing(&["openid", "email", "profile", "users:read", "customers:read", "tickets:write"]).is_empty());
        assert_eq!(missing(&["users:read", "offline", "tickets:read"]), ["offline", "tickets:read"]);
    }
}
