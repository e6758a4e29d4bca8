//! Providers that are described in a file: any standard OAuth 2.0, API-key or Basic service, without code.
//!
//! [`Declared::read`] checks a file wholly, so that nothing is left to go wrong later but the provider itself. The format is
//! explained in `docs/providers.md`. What such a file cannot do is tools: an agent reaches its provider through the proxy.
//!
//! A host never comes from outside: each stands in the file, or ends in one of its `host_suffixes`.

mod account;
mod answer;
mod check;
mod error;
mod fault;
mod file;
mod secrets;
mod service;
mod shipped;
mod template;
mod webhook;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use holdfast_core::{
    ApiClient,
    api_client::{ApiRequest, Refused},
    error::{Error, ErrorKind, Result},
    exchange::{Refusal, Verdict},
    provider::{
        About, Account, ApiAnswer, ApiHeader, ApiKeyAuth, Auth, CallbackRefused, Found, Grants, HostField, Hosts,
        Identity, Invalid, OAuth2, Provider, Revoke,
    },
    tool::{self, ToolCall, ToolOutput},
    webhook::Webhook,
};
use http::{HeaderValue, Method};
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

pub use fault::Fault;
pub use shipped::{SHIPPED, shipped};

use crate::{
    account::ID,
    answer::{Nobody, Target},
    service::{OAuth, RevokeBy, Service, Sign},
    template::{UrlTemplate, Values},
};

/// The operation that errors of the test call name.
const TEST: &str = "test";

/// A described provider, as the rest of Holdfast sees it.
#[derive(Clone, Debug)]
pub struct Declared {
    service: Arc<Service>,
    /// Where its hosts are.
    hosts: Hosts,
    /// What the operator knows better than the file.
    reuse_grace: Option<Duration>,
}

impl Declared {
    /// Reads a file; `name` is what faults call it. What it holds lives as long as the process.
    pub fn read(name: &str, text: &str) -> std::result::Result<Self, Fault> {
        check::read(name, text).map(|service| Self {
            service: Arc::new(service),
            hosts: Hosts::production(),
            reuse_grace: None,
        })
    }

    /// What is wrong with this key of a file that [`Self::read`] takes.
    pub fn fault(name: &str, text: &str, key: &str, reason: &str, remedy: &str) -> Fault {
        fault::of_key(name, text, key, reason, remedy)
    }

    /// The same with all hosts as folders of another address: the operator's `base_url_override`, for a sandbox. With
    /// `http://127.0.0.1:9000/generic`, `https://api.example.com/v1` is at
    /// `http://127.0.0.1:9000/generic/api.example.com/v1`.
    pub fn with_base(mut self, base: &str) -> std::result::Result<Self, Invalid> {
        self.hosts = Hosts::substitute("generic", base)?;
        Ok(self)
    }

    /// The same where a used refresh token works for so long: the operator's `reuse_grace_secs`.
    #[must_use]
    pub fn with_reuse_grace(mut self, grace: Duration) -> Self {
        self.reuse_grace = Some(grace);
        self
    }

    fn oauth(&self) -> Option<&OAuth> {
        match &self.service.sign {
            Sign::OAuth(oauth) => Some(oauth),
            Sign::Key(_) | Sign::Basic(..) => None,
        }
    }

    /// What an account's placeholders stand for.
    fn values(&self, account: &Account) -> Values {
        self.service.accounts.read(&account.id).expect("an account's id reads back as that account")
    }

    fn fill(&self, template: &UrlTemplate, values: &Values) -> Option<Url> {
        template.fill(values, &self.service.host_suffixes).map(|url| self.hosts.place(url))
    }

    /// Each URL that an account makes; `None`: it makes one that is not allowed.
    fn base_of(&self, values: &Values) -> Option<Url> {
        let service = &self.service;
        if let Some(oauth) = self.oauth() {
            let urls = [&oauth.authorize_url, &oauth.token_url];
            for url in urls.into_iter().chain(oauth.revoke.as_ref().map(|(_, url)| url)) {
                self.fill(url, values)?;
            }
        }
        match &service.test.target {
            // Until the test call has told where the API is, the account is where that call goes.
            Target::Url(url) => {
                let mut base = url.fill(values, &service.host_suffixes)?;
                base.set_path("/");
                Some(self.hosts.place(base))
            }
            Target::Path(_) => self.fill(&service.base_url, values),
        }
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        let retry = holdfast_core::Retry::Never;
        Error { kind, retry, provider: self.about().id, operation: TEST, message: message.into(), source: None }
    }

    fn test_request<'a>(&self, api: &'a ApiClient) -> ApiRequest<'a> {
        let values = self.values(api.account());
        let (path, at_home) = match &self.service.test.target {
            Target::Path(template) => {
                let written =
                    values.iter().map(|(name, value)| (name.clone(), holdfast_core::api_client::segment(value)));
                (template.fill(&written.collect()), false)
            }
            Target::Url(url) => {
                let url = url.fill(&values, &self.service.host_suffixes);
                (url.map(|url| url.path().trim_start_matches('/').to_owned()), true)
            }
        };
        let path = path.expect("an account fills every placeholder");
        let request = api.request(self.service.test.method.clone(), path).operation(TEST);
        if at_home { request.at_home() } else { request }
    }

    /// The test call's answer, if it is a success in the provider's own eyes.
    async fn test(&self, api: &ApiClient) -> Result<Value> {
        let answer: Value = self.test_request(api).fetch().await?;
        if !answer.is_object() && !answer.is_array() {
            return Err(self.nobody(Nobody::Unreadable));
        }
        match self.service.test.ok.as_ref().map(|ok| ok.of(&answer)) {
            None | Some(Some(Value::Bool(true))) => return Ok(answer),
            Some(Some(Value::Bool(false))) => {}
            Some(_) => return Err(self.nobody(Nobody::Unreadable)),
        }
        let name = self.about().name;
        let code = answer["error"].as_str().unwrap_or_default();
        let is_over = self.oauth().is_some_and(|oauth| oauth.rejected_codes.iter().any(|known| known == code));
        let said = error::words(&answer).map(|words| format!(" {name} says: {words}")).unwrap_or_default();
        Err(if is_over {
            let words = format!("{name} does not accept the credential; reconnect {name}.{said}");
            Error { source: Some(Box::new(Refused::InASuccess)), ..self.error(ErrorKind::AuthFailed, words) }
        } else {
            self.error(ErrorKind::Forbidden, format!("{name} refuses the test call.{said}"))
        })
    }

    fn nobody(&self, why: Nobody) -> Error {
        let name = self.about().name;
        match why {
            Nobody::Nowhere => {
                let message = format!("the access reaches no {} at {name}", self.about().account_label);
                self.error(ErrorKind::Forbidden, message)
            }
            Nobody::Unreadable => {
                let message = format!("{name}'s answer to the test call lacks what names the account or the user");
                self.error(ErrorKind::Unreadable, message)
            }
        }
    }
}

#[async_trait]
impl Provider for Declared {
    fn about(&self) -> &'static About {
        self.service.about
    }

    fn account(&self, typed: &str) -> std::result::Result<Account, Invalid> {
        let values = self.service.accounts.read(typed)?;
        let about = self.about();
        let base_url = self.base_of(&values).ok_or_else(|| {
            Invalid::new(format!("Expected {}, for example {}.", about.account_rule, about.account_example))
        })?;
        Ok(Account { id: values[ID].clone(), display: values[ID].clone(), base_url })
    }

    fn auth(&self, account: &Account) -> Auth {
        let service = &self.service;
        let oauth = match &service.sign {
            Sign::OAuth(oauth) => oauth,
            sign => return Auth::ApiKey(key_auth(sign)),
        };
        let values = self.values(account);
        let url = |template| self.fill(template, &values).expect("an account makes every URL");
        let params = |params: &[(String, template::Template)]| {
            let fill =
                |template: &template::Template| template.fill(&values).expect("an account fills all placeholders");
            params.iter().map(|(name, template)| (name.clone(), fill(template))).collect()
        };
        Auth::OAuth2(Box::new(OAuth2 {
            authorize_url: url(&oauth.authorize_url),
            token_url: url(&oauth.token_url),
            revoke: oauth.revoke.as_ref().map(|(by, template)| match by {
                RevokeBy::Rfc7009 => Revoke::Rfc7009 { url: url(template) },
                RevokeBy::Form => Revoke::Form { url: url(template) },
                RevokeBy::Bearer => Revoke::Bearer { method: Method::POST, url: url(template) },
            }),
            scopes: oauth.scopes.clone(),
            scope_separator: oauth.scope_separator,
            client_auth: oauth.client_auth,
            token_body: oauth.token_body,
            pkce: oauth.pkce,
            authorize_params: params(&oauth.authorize_params),
            token_params: oauth.token_params.clone(),
            refresh_params: oauth.refresh_params.clone(),
            rotation: oauth.rotation,
            reuse_grace: self.reuse_grace.unwrap_or(oauth.reuse_grace),
            expires_in_default: oauth.expires_in_default,
            refresh_expires_in_field: oauth.refresh_expires_in_field.clone(),
            refresh_life: oauth.refresh_life,
            rejected_codes: oauth.rejected_codes.clone(),
            base_url_field: service.base_url_field.as_ref().map(|field| HostField {
                field: field.clone(),
                suffixes: service.host_suffixes.clone(),
                hosts: self.hosts.clone(),
            }),
        }))
    }

    fn oauth_paths(&self) -> &'static [&'static str] {
        self.service.closed_paths
    }

    fn verdict(&self, refusal: &Refusal) -> Option<Verdict> {
        let code = refusal.code.as_deref()?;
        let of_app = self.oauth()?.app_codes.iter().any(|known| known.eq_ignore_ascii_case(code));
        (of_app && matches!(refusal.status, 200..300 | 400..500)).then_some(Verdict::AppBroken)
    }

    fn api_error(&self, operation: &'static str, answer: &ApiAnswer) -> Error {
        error::api_error(self.about().id, self.about().name, operation, answer)
    }

    async fn identity(&self, api: &ApiClient) -> Result<Identity> {
        let answer = self.test(api).await?;
        let (service, account) = (&self.service, api.account());
        let item = service.test.item(&service.accounts, account, &answer);
        item.and_then(|item| service.test.identity(&service.accounts, account, item)).map_err(|why| self.nobody(why))
    }

    async fn find(&self, api: &ApiClient) -> Result<Found> {
        let (service, account) = (&self.service, api.account());
        if service.test.find.is_empty() {
            return Ok(Found::default());
        }
        let answer = self.test(api).await?;
        let item = service.test.own_item(&service.accounts, account, &answer).map_err(|why| self.nobody(why))?;
        let values = service.test.found(item).ok_or_else(|| self.nobody(Nobody::Unreadable))?;
        let mut all = self.values(account);
        all.extend(values.clone());
        let base_url = if service.base_is_found {
            Some(self.fill(&service.base_url, &all).ok_or_else(|| self.nobody(Nobody::Unreadable))?)
        } else {
            None
        };
        Ok(Found { base_url, values })
    }

    fn lacks(&self, found: &BTreeMap<String, String>) -> bool {
        self.service.test.find.keys().any(|name| !found.contains_key(name))
    }

    /// A header with a placeholder chooses the account; without what was found for it, it is left out, and the provider
    /// says what is missing.
    fn headers(&self, account: &Account, found: &BTreeMap<String, String>) -> Vec<ApiHeader> {
        if self.service.headers.is_empty() {
            return Vec::new();
        }
        let mut values = self.values(account);
        values.extend(found.clone());
        let one = |(name, template): &(http::HeaderName, template::Template)| {
            let value = HeaderValue::try_from(template.fill(&values)?).ok()?;
            Some(ApiHeader { name: name.clone(), value, ours: template.names().next().is_some() })
        };
        self.service.headers.iter().filter_map(one).collect()
    }

    async fn call(&self, api: &ApiClient, _call: &ToolCall) -> Result<ToolOutput> {
        Err(tool::unknown(api, self.about().tools))
    }

    /// Which of them a connector cannot do without, a file does not know: a lesser grant is taken, and what it lacks is said.
    fn indispensable(&self, _missing: &[String]) -> Vec<String> {
        Vec::new()
    }

    fn silent_scopes(&self) -> &'static [&'static str] {
        self.oauth().map_or(&[], |oauth| oauth.silent_scopes)
    }

    /// Tokens that are known to end, and nothing to renew them with: a mistake.
    fn grants(&self) -> Grants {
        let end = self.oauth().is_some_and(|oauth| oauth.expires_in_default.is_some());
        Grants { need_refresh_token: end, ..Grants::default() }
    }

    fn webhooks(&self) -> Vec<&dyn Webhook> {
        self.service.webhook.iter().map(|hook| hook as &dyn Webhook).collect()
    }

    fn check_callback(
        &self,
        account: &Account,
        query: &[(String, String)],
        _secrets: &[SecretString],
    ) -> std::result::Result<(), CallbackRefused> {
        let values = self.values(account);
        for (name, template) in self.oauth().map(|oauth| oauth.callback.as_slice()).unwrap_or_default() {
            let mut given = query.iter().filter(|(given, _)| given == name).map(|(_, value)| value.trim());
            let (Some(value), None) = (given.next(), given.next()) else {
                return Err(CallbackRefused::NotProven("it lacks a parameter that names the account, or has it twice"));
            };
            let expected = template.fill(&values).expect("an account fills all placeholders");
            if !value.trim_end_matches('/').eq_ignore_ascii_case(&expected) {
                // What was given may be anybody's words: it is shown where it is an account as the pattern has them.
                let other = || Account {
                    id: "another account".to_owned(),
                    display: "another account".to_owned(),
                    ..account.clone()
                };
                return Err(CallbackRefused::OtherAccount(self.account(value).unwrap_or_else(|_| other())));
            }
        }
        Ok(())
    }
}

fn key_auth(sign: &Sign) -> ApiKeyAuth {
    match sign {
        Sign::Key(Some(header)) => ApiKeyAuth::Header(header.as_str().to_owned()),
        Sign::Key(None) => ApiKeyAuth::Bearer,
        Sign::Basic(label, example) => ApiKeyAuth::Pair { user: (label.clone(), example.clone()) },
        Sign::OAuth(_) => unreachable!("it has no key"),
    }
}

#[cfg(test)]
mod tests;
