//! What an adapter states about its service. OAuth is data first; code says only what data cannot.

mod hosts;
mod places;
mod typed;

pub use hosts::Hosts;
pub use places::{Places, below};
pub use typed::{Labels, Typed};

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{HeaderName, HeaderValue};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::{
    api_client::ApiClient,
    error::{Error, Result},
    exchange::{Refusal, Verdict},
    mirror::Feed,
    tool::{Tool, ToolCall, ToolOutput},
    webhook::Webhook,
};

/// One provider, as the rest of Holdfast sees it.
///
/// Stateless: no cache, no lock, no clock, no HTTP client of its own; never sees a refresh token.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Name, mark, scopes, tools, limits. Static, so pages and docs can list it.
    fn about(&self) -> &'static About;
    /// What an admin typed ("https://acme.zendesk.com/agent") as an account, or what was expected. Reads an account's
    /// own id back as that account.
    fn account(&self, typed: &str) -> std::result::Result<Account, Invalid>;
    /// API key or OAuth 2.0, with every fact of this account's token endpoint.
    fn auth(&self, account: &Account) -> Auth;
    /// How a key that a person copies authenticates, also at a provider whose first way is OAuth. `Some` exactly where
    /// [`About::key_help`] says where the key is found.
    fn key_auth(&self, account: &Account) -> Option<ApiKeyAuth> {
        match self.auth(account) {
            Auth::ApiKey(key) => Some(key),
            Auth::OAuth2(_) => None,
        }
    }
    /// Paths below an account's base that serve OAuth, beside the URLs of [`Self::auth`]: `oauth`. Nobody is let through to
    /// them or anything below them.
    fn oauth_paths(&self) -> &'static [&'static str] {
        &[]
    }
    /// What looks at a caller's own requests to this path (decoded, below the account's base) before they are sent: where one
    /// path serves everything, closing paths closes nothing. Their bodies are held in memory for it.
    fn inspects(&self, _path: &str) -> Option<Inspector> {
        None
    }
    /// Further places of one account's API, each on a host of its own and with the same credential. A request chooses one
    /// by its name; so does a caller of the proxy, with the name as the first segment of the path.
    fn bases(&self, _account: &Account) -> Vec<Base> {
        Vec::new()
    }
    /// What a refusal means, where the standard codes do not say it.
    fn verdict(&self, refusal: &Refusal) -> Option<Verdict>;
    /// Reads a refused or failed API answer in the provider's own words.
    fn api_error(&self, operation: &'static str, answer: &ApiAnswer) -> Error;
    /// The cheapest call that proves the credential, and whose account it is.
    async fn identity(&self, api: &ApiClient) -> Result<Identity>;
    /// What the account's requests need beside its name and a token. Asked once, after a consent, and kept with the grant.
    async fn find(&self, _api: &ApiClient) -> Result<Found> {
        Ok(Found::default())
    }
    /// Whether requests need more than that. Then it is asked for anew: an imported grant comes without it.
    fn lacks(&self, _found: &BTreeMap<String, String>) -> bool {
        false
    }
    /// Headers of each request to the API, beside the credential's; `found`: what [`Self::find`] brought.
    fn headers(&self, _account: &Account, _found: &BTreeMap<String, String>) -> Vec<ApiHeader> {
        Vec::new()
    }
    /// Runs one tool for an agent.
    async fn call(&self, api: &ApiClient, call: &ToolCall) -> Result<ToolOutput>;
    /// In which ways it tells of events by itself; none: it does not, or this adapter does not hear it. The first one is what
    /// a connector gets unless another one is asked for.
    fn webhooks(&self) -> Vec<&dyn Webhook> {
        Vec::new()
    }
    /// What changes in its tickets; `None`: it is no helpdesk.
    fn feed(&self) -> Option<&dyn Feed> {
        None
    }
    /// Scopes of [`About::scopes`] without which a tool cannot work, in the provider's words.
    fn scopes_of(&self, _tool: &str) -> &'static [&'static str] {
        &[]
    }
    /// Of the scopes that were asked for and not granted, those without which a connector is of no use. A grant that lacks
    /// others is taken, and what does not work is said.
    fn indispensable(&self, missing: &[String]) -> Vec<String> {
        missing.to_vec()
    }
    /// Scopes that are asked for and that no answer names: `offline_access`.
    fn silent_scopes(&self) -> &'static [&'static str] {
        &[]
    }
    /// Whether a consent was given by the account that a connector is tied to. `known`: the [`Identity::user_id`] of its
    /// last consent, where there was one.
    fn is_account(&self, account: &Account, identity: &Identity, _known: Option<&str>) -> bool {
        identity.account_id == account.id
    }
    /// What its grants have in common.
    fn grants(&self) -> Grants {
        Grants::default()
    }
    /// Whether an authorize URL carries a `nonce` (OpenID Connect Core 3.1.2.1), a new one for each consent. It is not kept:
    /// no id token is read, and the state ties the consent to its browser.
    fn sends_nonce(&self) -> bool {
        false
    }
    /// Why it refused a consent, where its error code is none of RFC 6749 section 4.1.2.1. One line, without a full stop.
    fn refused_consent(&self, _error: &str) -> Option<&'static str> {
        None
    }
    /// What a grant has most likely died of that lived for so long, and what to do about it: whole sentences.
    fn likely_end(&self, _lived: Duration) -> Option<&'static str> {
        None
    }
    /// The header that carries a token as it is; `None`: `Authorization: Bearer` (RFC 6750 section 2.1).
    fn token_header(&self) -> Option<HeaderName> {
        None
    }
    /// What is sent, beside `grant_type` and `subject_token` (RFC 8693), to exchange a token that never ends for one that is
    /// renewed. The old one is dead then, so it is done once; asked for again for some time, it brings the same new one.
    /// `None`: such a token stays as it is.
    fn upgrade_params(&self) -> Option<Vec<(String, Value)>> {
        None
    }
    /// Whether a callback that brings a code comes from the provider and is about this account, as far as it can be told
    /// before the code is exchanged. `query` is all that came, decoded, in its order; `secrets` are those that the OAuth
    /// app has. Pure, and in constant time where a secret is compared. Whose browser it is, and that it comes once and
    /// in time, was checked before, by the state.
    fn check_callback(
        &self,
        _account: &Account,
        _query: &[(String, String)],
        _secrets: &[SecretString],
    ) -> std::result::Result<(), CallbackRefused> {
        Ok(())
    }
}

/// Looks at a request that a caller wants passed on; an error says why it is not, in the middle of a sentence, and holds
/// nothing that the caller wrote. Pure.
pub type Inspector = fn(&Inspected<'_>) -> std::result::Result<(), &'static str>;

/// A request that a caller wants passed on.
#[derive(Clone, Copy, Debug)]
pub struct Inspected<'a> {
    /// As it is written.
    pub query: Option<&'a str>,
    /// `Content-Type`, where it is one text.
    pub content_type: Option<&'a str>,
    /// Whether it says that the body is encoded: compressed, say.
    pub encoded: bool,
    /// All of it.
    pub body: &'a [u8],
}

/// A further place of an account's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// What requests call it: `sheets`. One segment of a path, of lower-case letters, digits and hyphens.
    pub name: &'static str,
    /// Where it lives; built from constants and validated labels only, as [`Account::base_url`] is.
    pub url: Url,
}

/// What was found out about an account after a consent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Where the account's API lives, where only this tells it; its host is the adapter's, not an answer's.
    pub base_url: Option<Url>,
    /// By the adapter's names: ids, never a secret.
    pub values: BTreeMap<String, String>,
}

/// A header of each request to an API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiHeader {
    /// In small letters.
    pub name: HeaderName,
    /// What is sent.
    pub value: HeaderValue,
    /// It chooses the account, so that nobody else may set it. Another one only says what is meant where nothing is said.
    pub ours: bool,
}

/// What a provider's grants have in common, where it is not the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// A first grant without a refresh token is a mistake, and is not stored.
    pub need_refresh_token: bool,
    /// Giving back one grant of a user ends all of theirs to the same OAuth app. So none is given back while another
    /// connector works with one.
    pub end_together: bool,
    /// An OAuth app has one refreshable grant per account, so that a second connector's would end the first one's. Such a
    /// connector is refused before its code is exchanged, whichever organisation has the first.
    pub one_per_account: bool,
}

/// Why a callback's code is not exchanged. Neither holds a secret or what an attacker wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackRefused {
    /// It is not proven to come from the provider: what is wrong with it, for the log.
    NotProven(&'static str),
    /// It is the provider's, and about this other account of it.
    OtherAccount(Account),
}

/// Static facts for pages and docs.
#[derive(Debug)]
pub struct About {
    /// `zendesk`.
    pub id: &'static str,
    /// `Zendesk`.
    pub name: &'static str,
    /// What agents do with it, in one line.
    pub line: &'static str,
    /// The first way in.
    pub auth_kind: AuthKind,
    /// What the account field is called.
    pub account_label: &'static str,
    /// An example of it.
    pub account_example: &'static str,
    /// What is accepted, in words.
    pub account_rule: &'static str,
    /// Where a person finds the key, in words, at a provider that gives keys.
    pub key_help: Option<&'static str>,
    /// How an OAuth client is made there, a sentence or two each, up to where its redirect URI is entered. Empty: not known.
    pub app_steps: &'static [&'static str],
    /// Scopes that are asked for, in words.
    pub scopes: &'static [Scope],
    /// What agents can do with it.
    pub tools: &'static [Tool],
    /// The call of [`Provider::identity`] that proves a credential: `GET /api/v2/users/me.json`.
    pub test_call: &'static str,
}

impl About {
    /// What a scope allows, in the words of who consents; `None`: it is none that is asked for.
    pub fn scope_words(&self, name: &str) -> Option<&'static str> {
        self.scopes.iter().find(|scope| scope.name == name).map(|scope| scope.words)
    }

    /// Whether a key that a person copies is a way in: the only one, or beside OAuth.
    pub fn takes_keys(&self) -> bool {
        self.key_help.is_some()
    }

    /// Whether people choose between OAuth and a key.
    pub fn has_choice(&self) -> bool {
        self.takes_keys() && self.auth_kind == AuthKind::OAuth2
    }
}

/// How a provider authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    /// OAuth 2.0 with refresh tokens.
    #[serde(rename = "oauth2")]
    OAuth2,
    /// A key that a person copies.
    ApiKey,
}

/// A scope with its meaning for people.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// The provider's word.
    pub name: &'static str,
    /// What it allows, in plain words.
    pub words: &'static str,
}

/// One account of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The canonical id (`acme`).
    pub id: String,
    /// As shown (`acme.zendesk.com`).
    pub display: String,
    /// Where its API lives; built from validated labels only.
    pub base_url: Url,
}

/// Input that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// What was expected, with an example.
    pub message: String,
}

impl Invalid {
    /// With a message that says what to type.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// How to authenticate with one account.
#[derive(Clone, Debug)]
pub enum Auth {
    /// OAuth 2.0.
    OAuth2(Box<OAuth2>),
    /// An API key.
    ApiKey(ApiKeyAuth),
}

/// How an API key goes into a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiKeyAuth {
    /// As the user name of Basic (RFC 7617), with this password.
    Basic {
        /// Usually `X`, or nothing.
        password: String,
    },
    /// As the password of Basic. The user name belongs to the key: what is stored is `user:key`.
    Pair {
        /// What the user name is called, and an example: `Email address`, `ada@example.com`.
        user: (String, String),
    },
    /// In a header of this name, as it is.
    Header(String),
    /// As `Authorization: Bearer`.
    Bearer,
}

/// Every fact of one account's token endpoint: the same struct that a declared file fills.
#[derive(Clone, Debug)]
pub struct OAuth2 {
    /// Where the admin consents.
    pub authorize_url: Url,
    /// Where codes and refresh tokens are exchanged.
    pub token_url: Url,
    /// How a grant is given back; `None` where the provider has no way.
    pub revoke: Option<Revoke>,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// Between them, in requests and answers.
    pub scope_separator: char,
    /// Where client id and secret go.
    pub client_auth: ClientAuth,
    /// How the body is written.
    pub token_body: TokenBody,
    /// PKCE with S256 (RFC 7636).
    pub pkce: bool,
    /// Fixed additions to the authorize URL.
    pub authorize_params: Vec<(String, String)>,
    /// Fixed additions to the code exchange.
    pub token_params: Vec<(String, Value)>,
    /// Fixed additions to the refresh.
    pub refresh_params: Vec<(String, Value)>,
    /// Whether a refresh token works once.
    pub rotation: Rotation,
    /// How long a used refresh token may be sent again for the same answer; zero when unknown.
    pub reuse_grace: Duration,
    /// Life of an access token when the answer does not say it; `None`: such a token does not expire.
    pub expires_in_default: Option<Duration>,
    /// Name of the field with the refresh token's life in seconds.
    pub refresh_expires_in_field: Option<String>,
    /// What refresh tokens die of, where answers do not say it.
    pub refresh_life: RefreshLife,
    /// Error codes that mean "the grant is over", beside the standard's `invalid_grant`.
    pub rejected_codes: Vec<String>,
    /// A field of the answer that names the API host.
    pub base_url_field: Option<HostField>,
}

/// What a refresh token dies of, beside its use and a person's will.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefreshLife {
    /// What its answer says, if it says something. A life that does not begin anew with a refresh is noticed.
    #[default]
    AsTold,
    /// Idleness: unused for so long. Each refresh begins it anew.
    Idle(Duration),
    /// Age: so long after the grant, however often it is refreshed.
    Age(Duration),
    /// Age, where the first answer tells it. No refresh moves that end, and answers to refreshes may leave it out.
    ToldOnce,
    /// Age, so long after it was first seen; but a refresh in the last part of that, the window, brings another one that
    /// lives as long. It is refreshed there until one comes, whether anybody asks or not. People are told that it ends when
    /// half of the window has brought none: a window of less than two days leaves no time to tell them.
    Replaced {
        /// From when it is first seen.
        life: Duration,
        /// The last part of that life.
        window: Duration,
    },
}

/// A field of a token answer that names a host, and what such a host must look like.
#[derive(Clone, Debug)]
pub struct HostField {
    /// The field's name.
    pub field: String,
    /// Allowed endings, each with its leading dot (`.my.salesforce.com`).
    pub suffixes: Vec<String>,
    /// Where the provider's hosts are: such a host as well becomes a folder of the operator's substitute.
    pub hosts: Hosts,
}

/// How a grant is given back.
#[derive(Clone, Debug)]
pub enum Revoke {
    /// The bearer revokes itself at this URL.
    Bearer {
        /// Usually DELETE.
        method: http::Method,
        /// Where.
        url: Url,
    },
    /// RFC 7009: the token in the body, the client authenticated.
    Rfc7009 {
        /// Where.
        url: Url,
    },
    /// The token in a form, and nothing else.
    Form {
        /// Where.
        url: Url,
    },
}

/// Where client id and secret go (RFC 6749 section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// `client_secret_post`.
    Body,
    /// `client_secret_basic`: both form-encoded before base64.
    Basic,
    /// Basic without the form-encoding, for servers that do not decode.
    BasicRaw,
}

/// How a token request's body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenBody {
    /// `application/x-www-form-urlencoded`, the standard.
    Form,
    /// `application/json`.
    Json,
}

/// Whether a refresh token works once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Each refresh retires it.
    SingleUse,
    /// It stays.
    Reusable,
}

/// Who the credential speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The account's immutable id at the provider.
    pub account_id: String,
    /// The account as people know it.
    pub account_name: String,
    /// The person or bot who authorised.
    pub user_id: String,
    /// Their name.
    pub name: Option<String>,
    /// Their address.
    pub email: Option<String>,
    /// Their role there, in the provider's word.
    pub role: Option<String>,
    /// What the token may do, where the provider tells.
    pub scopes: Option<Vec<String>>,
}

/// An API answer that was not a success, as an adapter reads it.
#[derive(Debug)]
pub struct ApiAnswer {
    /// HTTP status.
    pub status: u16,
    /// The body when it was JSON.
    pub body: Option<Value>,
    /// From Retry-After.
    pub retry_after: Option<Duration>,
}

/// The adapters that this instance has, by id.
#[derive(Clone, Default)]
pub struct Providers(BTreeMap<&'static str, Arc<dyn Provider>>);

impl Providers {
    /// From the list that the registry writes by hand.
    pub fn new(list: Vec<Arc<dyn Provider>>) -> Self {
        Self(list.into_iter().map(|provider| (provider.about().id, provider)).collect())
    }

    /// By id.
    pub fn find(&self, id: &str) -> Option<&Arc<dyn Provider>> {
        self.0.get(id)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.0.values()
    }
}
