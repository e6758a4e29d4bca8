#![doc = include_str!("../README.md")]

mod account;
mod api;
mod error;
mod identity;
mod mail;
mod model;
mod push;
mod scopes;
mod subscriptions;
mod tools;

use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    error::{Error, Result},
    exchange::{Refusal, Verdict},
    provider::{
        About, Account, ApiAnswer, Auth, AuthKind, Base, ClientAuth, Grants, Hosts, Identity, Invalid, OAuth2,
        Provider, RefreshLife, Revoke, Rotation, TokenBody, below,
    },
    tool::{ToolCall, ToolOutput},
    webhook::Webhook,
};

use crate::{push::Push, subscriptions::Watch};

/// The provider's id.
const ID: &str = "google";

/// Life of an access token where an answer does not say it.
/// <https://developers.google.com/identity/protocols/oauth2>
const ACCESS_LIFE: Duration = Duration::from_hours(1);

static ABOUT: About = About {
    id: ID,
    name: "Google",
    line: "Gmail, Calendar and Sheets: search, read and send mail, see and plan events, read and extend tables",
    auth_kind: AuthKind::OAuth2,
    account_label: "Google account",
    account_example: "ada@example.com",
    account_rule: account::RULE,
    scopes: scopes::ALL,
    tools: tools::ALL,
    test_call: "GET /v1/userinfo",
    key_help: None,
    app_steps: &[
        "In the Google Cloud console make a project, or choose one, and switch on the Gmail, Calendar and Sheets APIs under APIs and services, Library.",
        "Under Google Auth Platform fill in Branding. As Audience choose Internal for your own Workspace; else External, and publish it: while it is in Testing, every access ends after 7 days.",
        "Under Data Access add the scopes below.",
        "Under Clients create one of the type Web application.",
    ],
};

/// Google, as the rest of Holdfast sees it.
#[derive(Clone, Debug)]
pub struct Google {
    hosts: Hosts,
    push: Push,
}

impl Google {
    /// The real one.
    pub fn new() -> Self {
        Self::at(Hosts::production())
    }

    /// One whose hosts are folders of another address, OAuth and APIs alike: the operator's `base_url_override`, for a
    /// sandbox. With `http://127.0.0.1:9000/google`, Gmail is at `http://127.0.0.1:9000/google/gmail.googleapis.com`.
    pub fn with_base(base: &str) -> Result<Self, Invalid> {
        Hosts::substitute(ID, base).map(Self::at)
    }

    /// Has Gmail tell of changes through this Pub/Sub topic, `projects/PROJECT/topics/NAME` of the OAuth app's own project.
    #[must_use]
    pub fn with_push_topic(mut self, topic: impl Into<String>) -> Self {
        self.push.watch = Some(Watch { topic: topic.into() });
        self
    }

    fn at(hosts: Hosts) -> Self {
        Self { push: Push { hosts: hosts.clone(), watch: None }, hosts }
    }
}

impl Default for Google {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Provider for Google {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn account(&self, typed: &str) -> Result<Account, Invalid> {
        account::read(&self.hosts, typed)
    }

    fn auth(&self, account: &Account) -> Auth {
        let param = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Auth::OAuth2(Box::new(OAuth2 {
            authorize_url: below(&self.hosts.at("accounts.google.com"), "o/oauth2/v2/auth"),
            token_url: below(&self.hosts.at("oauth2.googleapis.com"), "token"),
            revoke: Some(Revoke::Form { url: below(&self.hosts.at("oauth2.googleapis.com"), "revoke") }),
            scopes: scopes::ALL.iter().map(|scope| scope.name.to_owned()).collect(),
            scope_separator: ' ',
            client_auth: ClientAuth::Body,
            token_body: TokenBody::Form,
            pkce: true,
            // Without both of the first two there is no refresh token, or only at the very first consent.
            authorize_params: vec![
                param("access_type", "offline"),
                param("prompt", "consent"),
                param("login_hint", &account.id),
            ],
            token_params: Vec::new(),
            refresh_params: Vec::new(),
            rotation: Rotation::Reusable,
            reuse_grace: Duration::ZERO,
            expires_in_default: Some(ACCESS_LIFE),
            refresh_expires_in_field: Some("refresh_token_expires_in".to_owned()),
            // Told at the consent alone, and of grants that end for good: time-limited ones, and those of an app in Testing.
            refresh_life: RefreshLife::ToldOnce,
            rejected_codes: Vec::new(),
            base_url_field: None,
        }))
    }

    /// `www.googleapis.com` still answers at the older addresses of OAuth.
    fn oauth_paths(&self) -> &'static [&'static str] {
        &["oauth2", "o/oauth2"]
    }

    fn bases(&self, _account: &Account) -> Vec<Base> {
        vec![
            Base { name: api::GMAIL, url: below(&self.hosts.at("gmail.googleapis.com"), "gmail") },
            Base { name: api::SHEETS, url: self.hosts.at("sheets.googleapis.com") },
            Base { name: api::OPENID, url: self.hosts.at("openidconnect.googleapis.com") },
        ]
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
        vec![&self.push, &push::CHANNEL]
    }

    fn scopes_of(&self, tool: &str) -> &'static [&'static str] {
        scopes::of(tool)
    }

    fn indispensable(&self, missing: &[String]) -> Vec<String> {
        scopes::indispensable(missing)
    }

    /// By the immutable id, once it is known: an address may change hands.
    fn is_account(&self, account: &Account, identity: &Identity, known: Option<&str>) -> bool {
        match known {
            Some(known) => identity.user_id == known,
            None => account::mailbox(&account.id) == account::mailbox(&identity.account_id),
        }
    }

    /// <https://developers.google.com/identity/protocols/oauth2/web-server#tokenrevoke>
    fn grants(&self) -> Grants {
        Grants { need_refresh_token: true, end_together: true, ..Grants::default() }
    }

    fn refused_consent(&self, error: &str) -> Option<&'static str> {
        error::refused_consent(error)
    }

    fn likely_end(&self, lived: Duration) -> Option<&'static str> {
        error::likely_end(lived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(google: &Google) -> OAuth2 {
        let Auth::OAuth2(facts) = google.auth(&google.account("Ada@Example.com").unwrap()) else {
            panic!("it is OAuth")
        };
        *facts
    }

    #[test]
    fn every_url_is_on_the_host_that_google_names_or_in_its_folder_of_the_substitute() {
        let there = Google::with_base("http://127.0.0.1:9000/google/").unwrap();
        for (google, at) in [(Google::new(), "https://"), (there, "http://127.0.0.1:9000/google/")] {
            let facts = facts(&google);
            assert_eq!(facts.authorize_url.as_str(), format!("{at}accounts.google.com/o/oauth2/v2/auth"));
            assert_eq!(facts.token_url.as_str(), format!("{at}oauth2.googleapis.com/token"));
            let Some(Revoke::Form { url }) = facts.revoke else { panic!("a form revokes") };
            assert_eq!(url.as_str(), format!("{at}oauth2.googleapis.com/revoke"));
            let account = google.account("ada@example.com").unwrap();
            let url = |url: &url::Url| url.as_str().trim_end_matches('/').to_owned();
            assert_eq!(url(&account.base_url), format!("{at}www.googleapis.com"));
            let bases: Vec<_> = google.bases(&account).iter().map(|base| (base.name, url(&base.url))).collect();
            assert_eq!(
                bases,
                [
                    ("gmail", format!("{at}gmail.googleapis.com/gmail")),
                    ("sheets", format!("{at}sheets.googleapis.com")),
                    ("openid", format!("{at}openidconnect.googleapis.com")),
                ]
            );
        }
    }

    /// CO-11
    #[test]
    fn a_consent_always_asks_for_a_refresh_token_and_names_the_account() {
        let params = facts(&Google::new()).authorize_params;
        let has = |name: &str, value: &str| params.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("access_type", "offline") && has("prompt", "consent") && has("login_hint", "ada@example.com"));
        assert!(params.iter().all(|(name, _)| name != "include_granted_scopes"), "one connector gets what it asks for");
    }

    /// RC-02
    #[test]
    fn an_account_is_its_immutable_id_once_that_is_known_and_its_address_before() {
        let google = Google::new();
        let account = google.account("ada.lovelace@gmail.com").unwrap();
        let identity = |user: &str, email: &str| Identity {
            account_id: email.to_owned(),
            account_name: email.to_owned(),
            user_id: user.to_owned(),
            name: None,
            email: Some(email.to_owned()),
            role: None,
            scopes: None,
        };
        for (user, email, known, expected) in [
            ("1", "ada.lovelace@gmail.com", None, true),
            ("1", "adalovelace@gmail.com", None, true),
            ("1", "ada.lovelace@example.com", None, false),
            ("2", "ada.lovelace@gmail.com", Some("1"), false),
            ("1", "ada@married.example", Some("1"), true),
        ] {
            assert_eq!(
                google.is_account(&account, &identity(user, email), known),
                expected,
                "{user} {email} {known:?}"
            );
        }
    }
}
