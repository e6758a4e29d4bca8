#![doc = include_str!("../README.md")]

mod account;
mod callback;
mod document;
mod error;
mod graph;
mod identity;
mod model;
mod money;
mod subscriptions;
mod tools;
mod webhooks;

use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    error::{Error, Result},
    exchange::{Refusal, Verdict},
    provider::{
        About, Account, ApiAnswer, Auth, AuthKind, CallbackRefused, ClientAuth, Grants, Identity, Inspector, Invalid,
        OAuth2, Places, Provider, RefreshLife, Rotation, Scope, TokenBody, below,
    },
    tool::{ToolCall, ToolOutput},
    webhook::Webhook,
};
use http::HeaderName;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::graph::Graph;

/// The provider's id.
const ID: &str = "shopify";

/// What all our queries are written for. Shopify serves a version for at least a year.
/// <https://shopify.dev/docs/api/usage/versioning>
const API_VERSION: &str = "2026-10";

/// Life of an access token where the answer does not say it. Such answers to refreshes have been seen, and none of these
/// tokens lives for ever.
const ACCESS_LIFE: Duration = Duration::from_hours(1);

/// A used refresh token works again until its replacement is used; before 2026-08-28 it did for an hour. An hour holds in
/// both.
const REUSE_GRACE: Duration = Duration::from_hours(1);

const SCOPES: &[Scope] = &[
    Scope { name: "read_orders", words: "See orders of the last 60 days, with their deliveries and refunds" },
    Scope { name: "write_orders", words: "Cancel and refund orders" },
    Scope { name: "read_customers", words: "See customers" },
    Scope { name: "read_products", words: "See products" },
];

static ABOUT: About = About {
    id: ID,
    name: "Shopify",
    line: "Shop: find orders, customers and products, cancel and refund orders",
    auth_kind: AuthKind::OAuth2,
    account_label: "Shopify shop",
    account_example: "acme.myshopify.com",
    account_rule: account::RULE,
    scopes: SCOPES,
    tools: tools::ALL,
    test_call: "POST /admin/api/{version}/graphql.json (shop)",
    key_help: None,
    app_steps: &[
        "In Shopify's Dev Dashboard make an app, or choose one.",
        "In its configuration allow the scopes below, and look for the redirect URLs.",
    ],
};

/// Shopify's Admin API, as the rest of Holdfast sees it.
#[derive(Clone, Debug)]
pub struct Shopify {
    base: Places,
    api_version: String,
    reuse_grace: Duration,
}

impl Shopify {
    /// The real one: shops live at `https://{account}.myshopify.com`.
    pub fn new() -> Self {
        Self { base: account::production(), api_version: API_VERSION.to_owned(), reuse_grace: REUSE_GRACE }
    }

    /// One whose shops live elsewhere, OAuth and API alike: the operator's `base_url_override`, for a sandbox.
    ///
    /// `{account}` stands for the shop, in the path or as the first label of the host:
    /// `http://127.0.0.1:9000/shopify/{account}`.
    pub fn with_base(template: &str) -> Result<Self, Invalid> {
        Ok(Self { base: Places::substitute(ID, template)?, ..Self::new() })
    }

    /// Asks another version of the Admin API, like `2026-07`, instead of 2026-10.
    pub fn at_version(self, version: &str) -> Result<Self, Invalid> {
        let digits = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        match version.split_once('-') {
            Some((year, month)) if digits(year, 4) && digits(month, 2) => {
                Ok(Self { api_version: version.to_owned(), ..self })
            }
            _ => Err(Invalid::new("expected a version of the Admin API, for example 2026-10")),
        }
    }

    /// Takes it that a used refresh token is accepted again for so long, instead of an hour.
    #[must_use]
    pub fn with_reuse_grace(self, reuse_grace: Duration) -> Self {
        Self { reuse_grace, ..self }
    }

    fn graph<'a>(&self, api: &'a ApiClient) -> Graph<'a> {
        Graph::new(api, &self.api_version)
    }
}

impl Default for Shopify {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Provider for Shopify {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn account(&self, typed: &str) -> Result<Account, Invalid> {
        account::read(&self.base, typed)
    }

    fn auth(&self, account: &Account) -> Auth {
        Auth::OAuth2(Box::new(OAuth2 {
            authorize_url: below(&account.base_url, "admin/oauth/authorize"),
            token_url: below(&account.base_url, "admin/oauth/access_token"),
            // There is a way, and it takes the app off the shop, for every connection: never by itself.
            revoke: None,
            scopes: SCOPES.iter().map(|scope| scope.name.to_owned()).collect(),
            scope_separator: ',',
            client_auth: ClientAuth::Body,
            token_body: TokenBody::Form,
            pkce: false,
            authorize_params: Vec::new(),
            // Without it the token never ends and has no refresh token.
            token_params: vec![("expiring".to_owned(), json!("1"))],
            refresh_params: Vec::new(),
            rotation: Rotation::SingleUse,
            reuse_grace: self.reuse_grace,
            expires_in_default: Some(ACCESS_LIFE),
            refresh_expires_in_field: Some("refresh_token_expires_in".to_owned()),
            refresh_life: RefreshLife::AsTold,
            rejected_codes: Vec::new(),
            base_url_field: None,
        }))
    }

    /// Consent and tokens; the endpoints that mint delegate tokens, and the one that takes the app off the shop.
    fn oauth_paths(&self) -> &'static [&'static str] {
        &["admin/oauth", "admin/access_tokens", "admin/api_permissions"]
    }

    fn inspects(&self, path: &str) -> Option<Inspector> {
        document::is_graphql(path).then_some(document::inspect as Inspector)
    }

    fn verdict(&self, refusal: &Refusal) -> Option<Verdict> {
        error::verdict(refusal)
    }

    fn api_error(&self, operation: &'static str, answer: &ApiAnswer) -> Error {
        error::api_error(operation, answer)
    }

    async fn identity(&self, api: &ApiClient) -> Result<Identity> {
        identity::identity(&self.graph(api)).await
    }

    async fn call(&self, api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
        tools::call(&self.graph(api), call).await
    }

    fn webhooks(&self) -> Vec<&dyn Webhook> {
        vec![&webhooks::TOPICS]
    }

    fn token_header(&self) -> Option<HeaderName> {
        Some(HeaderName::from_static("x-shopify-access-token"))
    }

    fn grants(&self) -> Grants {
        Grants { one_per_account: true, ..Grants::default() }
    }

    /// <https://shopify.dev/docs/apps/build/authentication-authorization/migrate-to-expiring-offline-access-tokens>
    fn upgrade_params(&self) -> Option<Vec<(String, Value)>> {
        const OFFLINE: &str = "urn:shopify:params:oauth:token-type:offline-access-token";
        let params = [("subject_token_type", OFFLINE), ("requested_token_type", OFFLINE), ("expiring", "1")];
        Some(params.map(|(name, value)| (name.to_owned(), json!(value))).into())
    }

    fn check_callback(
        &self,
        account: &Account,
        query: &[(String, String)],
        secrets: &[SecretString],
    ) -> Result<(), CallbackRefused> {
        let shop = callback::signed_shop(query, secrets).map_err(CallbackRefused::NotProven)?;
        let label = account::of_domain(shop).ok_or(CallbackRefused::NotProven("its shop is no shop's domain"))?;
        if label == account.id {
            return Ok(());
        }
        let other = account::read(&self.base, label);
        Err(other.map_or(CallbackRefused::NotProven("its shop is no shop"), CallbackRefused::OtherAccount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(shopify: &Shopify) -> OAuth2 {
        let Auth::OAuth2(facts) = shopify.auth(&shopify.account("acme").unwrap()) else { panic!("it is OAuth") };
        *facts
    }

    #[test]
    fn all_urls_live_under_the_shops_base() {
        let there = Shopify::with_base("http://127.0.0.1:9000/shopify/{account}").unwrap();
        for (shopify, base) in
            [(Shopify::new(), "https://acme.myshopify.com"), (there, "http://127.0.0.1:9000/shopify/acme")]
        {
            let facts = facts(&shopify);
            assert_eq!(facts.authorize_url.as_str(), format!("{base}/admin/oauth/authorize"));
            assert_eq!(facts.token_url.as_str(), format!("{base}/admin/oauth/access_token"));
        }
    }

    #[test]
    fn a_version_is_a_year_and_a_month() {
        assert!(Shopify::new().at_version("2026-07").is_ok());
        for version in ["", "latest", "2026", "2026-7", "26-07", "2026-07/x", "2026-07-01"] {
            assert!(Shopify::new().at_version(version).unwrap_err().message.contains("2026-10"), "{version}");
        }
    }

    /// The callback of the documentation, secret `hush`.
    #[test]
    fn a_callback_of_another_shop_is_another_account() {
        let query: Vec<(String, String)> = [
            ("code", "0907a61c0c8d55e99db179b68161bc00"),
            ("hmac", "700e2dadb827fcc8609e9d5ce208b2e9cdaab9df07390d2cbca10d7c328fc4bf"),
            ("shop", "some-shop.myshopify.com"),
            ("state", "0.6784241404160823"),
            ("timestamp", "1337178173"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let shopify = Shopify::new();
        let account = |typed: &str| shopify.account(typed).unwrap();
        let check = |typed: &str, secret: &str| {
            shopify.check_callback(&account(typed), &query, &[SecretString::from(secret.to_owned())])
        };

        assert_eq!(check("Some-Shop.myshopify.com", "hush"), Ok(()));
        assert_eq!(check("acme", "hush"), Err(CallbackRefused::OtherAccount(account("some-shop"))));
        assert!(matches!(check("some-shop", "other"), Err(CallbackRefused::NotProven(_))));
    }
}
