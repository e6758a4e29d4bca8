#![doc = include_str!("../README.md")]

mod account;
mod api;
mod error;
mod feed;
mod identity;
mod model;
mod tools;
mod webhooks;

use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    error::{Error, Result},
    exchange::{Refusal, Verdict},
    mirror::Feed,
    provider::{About, Account, ApiAnswer, ApiKeyAuth, Auth, AuthKind, Identity, Invalid, Places, Provider},
    tool::{ToolCall, ToolOutput},
    webhook::Webhook,
};

/// The provider's id.
const ID: &str = "freshdesk";

static ABOUT: About = About {
    id: ID,
    name: "Freshdesk",
    line: "Helpdesk: search and read tickets, answer and update them, look up customers and articles",
    auth_kind: AuthKind::ApiKey,
    account_label: "Freshdesk domain",
    account_example: "acme.freshdesk.com",
    account_rule: account::RULE,
    key_help: Some(
        "In Freshdesk press your picture at the top right, then Profile settings, View API key. Freshdesk may ask for a \
         captcha first. Without such a button, an administrator has to let agents see their keys.",
    ),
    app_steps: &[],
    scopes: &[],
    tools: tools::ALL,
    test_call: "GET /api/v2/agents/me",
};

/// Freshdesk, as the rest of Holdfast sees it.
#[derive(Clone, Debug)]
pub struct Freshdesk {
    base: Places,
}

impl Freshdesk {
    /// The real one: accounts live at `https://{account}.freshdesk.com`.
    pub fn new() -> Self {
        Self { base: account::production() }
    }

    /// One whose accounts live elsewhere: the operator's `base_url_override`, for a sandbox.
    ///
    /// `{account}` stands for the domain, in the path or as the first label of the host:
    /// `http://127.0.0.1:9000/freshdesk/{account}`.
    pub fn with_base(template: &str) -> Result<Self, Invalid> {
        Ok(Self { base: Places::substitute(ID, template)? })
    }
}

impl Default for Freshdesk {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Provider for Freshdesk {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn account(&self, typed: &str) -> Result<Account, Invalid> {
        account::read(&self.base, typed)
    }

    /// The key as the user name of Basic; the password is not looked at, and is customarily `X`.
    fn auth(&self, _account: &Account) -> Auth {
        Auth::ApiKey(ApiKeyAuth::Basic { password: "X".to_owned() })
    }

    /// There is no token endpoint that could refuse anything.
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

    fn webhooks(&self) -> Vec<&dyn Webhook> {
        vec![&webhooks::RULE]
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(&feed::Lists)
    }
}
