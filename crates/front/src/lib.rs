#![doc = include_str!("../README.md")]

mod account;
mod api;
mod error;
mod feed;
mod identity;
mod model;
mod text;
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
        About, Account, ApiAnswer, Auth, AuthKind, ClientAuth, Grants, Hosts, Identity, Invalid, OAuth2, Provider,
        RefreshLife, Rotation, TokenBody, below,
    },
    tool::{ToolCall, ToolOutput},
    webhook::Webhook,
};

/// The provider's id.
const ID: &str = "front";

/// Where people sign in, and tokens are exchanged.
const APP: &str = "app.frontapp.com";
/// The API of every company.
const API: &str = "api2.frontapp.com";

const DAY: Duration = Duration::from_hours(24);
/// Life of an access token where an answer does not say it.
/// <https://dev.frontapp.com/docs/oauth>
const ACCESS_LIFE: Duration = Duration::from_hours(1);
/// Six months are 181 to 184 days: the end is taken to be the latest, and the window begins before the last day of the
/// earliest.
const REFRESH_LIFE: Duration = DAY.saturating_mul(184);
const REFRESH_WINDOW: Duration = DAY.saturating_mul(5);

static ABOUT: About = About {
    id: ID,
    name: "Front",
    line: "Helpdesk: search and read conversations, answer and update them, look up customers",
    auth_kind: AuthKind::OAuth2,
    account_label: "Front company",
    account_example: "Acme",
    account_rule: account::RULE,
    key_help: None,
    app_steps: &[
        "In Front open Settings, Developers, and create an app.",
        "Under its features add OAuth. Until it is published, the app connects your own company alone.",
    ],
    // They are set on the app in Front: no consent names them.
    scopes: &[],
    tools: tools::ALL,
    test_call: "GET /me",
};

/// Front, as the rest of Holdfast sees it.
#[derive(Clone, Debug)]
pub struct Front {
    hosts: Hosts,
}

impl Front {
    /// The real one.
    pub fn new() -> Self {
        Self { hosts: Hosts::production() }
    }

    /// One whose hosts are folders of another address: the operator's `base_url_override`, for a sandbox. With
    /// `http://127.0.0.1:9000/front`, the API is at `http://127.0.0.1:9000/front/api2.frontapp.com`.
    pub fn with_base(base: &str) -> Result<Self, Invalid> {
        Ok(Self { hosts: Hosts::substitute(ID, base)? })
    }
}

impl Default for Front {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Provider for Front {
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
            revoke: None,
            scopes: Vec::new(),
            scope_separator: ' ',
            client_auth: ClientAuth::BasicRaw,
            token_body: TokenBody::Form,
            pkce: false,
            authorize_params: Vec::new(),
            token_params: Vec::new(),
            refresh_params: Vec::new(),
            rotation: Rotation::Reusable,
            reuse_grace: Duration::ZERO,
            expires_in_default: Some(ACCESS_LIFE),
            refresh_expires_in_field: None,
            refresh_life: RefreshLife::Replaced { life: REFRESH_LIFE, window: REFRESH_WINDOW },
            rejected_codes: Vec::new(),
            base_url_field: None,
        }))
    }

    /// The standard's codes: Front documents none of its own.
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
        vec![&webhooks::APP, &webhooks::RULE]
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(&feed::Conversations)
    }

    /// By the immutable id, once it is known: a company may change its name.
    fn is_account(&self, account: &Account, identity: &Identity, known: Option<&str>) -> bool {
        match known {
            Some(known) => identity.user_id == known,
            None => account::is(&account.id, &identity.account_id, &identity.account_name),
        }
    }

    fn grants(&self) -> Grants {
        Grants { need_refresh_token: true, ..Grants::default() }
    }

    fn likely_end(&self, lived: Duration) -> Option<&'static str> {
        (lived >= REFRESH_LIFE.saturating_sub(REFRESH_WINDOW)).then_some(
            "A grant of Front ends after six months unless it is refreshed on its last day. Holdfast does that by itself, so \
             it was most likely not running then.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(front: &Front) -> OAuth2 {
        let Auth::OAuth2(facts) = front.auth(&front.account("Acme").unwrap()) else { panic!("it is OAuth") };
        *facts
    }

    #[test]
    fn every_url_is_on_a_host_of_fronts_or_in_its_folder_of_the_substitute() {
        let there = Front::with_base("http://127.0.0.1:9000/front/").unwrap();
        for (front, at) in [(Front::new(), "https://"), (there, "http://127.0.0.1:9000/front/")] {
            let facts = facts(&front);
            assert_eq!(facts.authorize_url.as_str(), format!("{at}app.frontapp.com/oauth/authorize"));
            assert_eq!(facts.token_url.as_str(), format!("{at}app.frontapp.com/oauth/token"));
            let account = front.account("Acme").unwrap();
            assert_eq!(account.base_url.as_str().trim_end_matches('/'), format!("{at}api2.frontapp.com"));
        }
    }

    #[test]
    fn nothing_is_asked_for_that_front_does_not_document() {
        let facts = facts(&Front::new());
        assert!(facts.scopes.is_empty() && !facts.pkce && facts.authorize_params.is_empty());
    }

    /// RC-02
    #[test]
    fn a_company_is_its_immutable_id_once_that_is_known_and_its_name_before() {
        let front = Front::new();
        let identity = |id: &str, name: &str| Identity {
            account_id: id.to_owned(),
            account_name: name.to_owned(),
            user_id: id.to_owned(),
            name: None,
            email: None,
            role: None,
            scopes: None,
        };
        for (typed, id, name, known, expected) in [
            ("Acme", "cmp_1", "ACME", None, true),
            (" acme  Inc. ", "cmp_1", "Acme Inc.", None, true),
            ("CMP_1", "cmp_1", "Acme", None, true),
            ("Acme", "cmp_1", "Acme Europe", None, false),
            ("cmp_2", "cmp_1", "Acme", None, false),
            ("Acme", "cmp_2", "Acme", Some("cmp_1"), false),
            ("Acme", "cmp_1", "Zeta", Some("cmp_1"), true),
        ] {
            let account = front.account(typed).unwrap();
            assert_eq!(
                front.is_account(&account, &identity(id, name), known),
                expected,
                "{typed} {id} {name} {known:?}"
            );
        }
    }

    #[test]
    fn a_grant_that_died_of_age_is_told_as_that() {
        assert_eq!(Front::new().likely_end(DAY * 100), None);
        assert!(Front::new().likely_end(DAY * 182).unwrap().contains("six months"));
    }
}
