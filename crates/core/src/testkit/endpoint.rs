//! A provider in memory: a strict token endpoint that can be scripted, and the adapter for it.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderName};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use super::answers::Heard;
use crate::{
    api_client::ApiClient,
    error::{Error, ErrorKind, Result, Retry},
    exchange::{Refusal, Verdict},
    ports::{Body, Clock, Http, HttpFailure, HttpRequest, HttpResponse},
    provider::{
        About, Account, ApiAnswer, ApiHeader, ApiKeyAuth, Auth, AuthKind, Base, ClientAuth, Identity, Invalid, OAuth2,
        Provider, RefreshLife, Rotation, TokenBody,
    },
    tool::{ToolCall, ToolOutput},
};

/// What the next token request meets instead of the usual.
#[derive(Clone, Debug)]
pub enum Script {
    /// The usual rotation, answered after this long.
    Slow(Duration),
    /// The usual rotation, and the answer is lost.
    Lost,
    /// The connection breaks before anything is read.
    Unreached,
    /// Nothing is consumed, this is answered.
    Answer {
        /// Status.
        status: u16,
        /// Headers.
        headers: Vec<(&'static str, String)>,
        /// Body.
        body: String,
    },
    /// Nothing is consumed, this is answered, byte for byte.
    Heard(Heard),
    /// The usual rotation, but the answer's fields are changed by these; `null` takes one out.
    Changed(Value),
    /// The first, after this long.
    After(Duration, Box<Script>),
}

impl Script {
    /// Nothing is consumed; a JSON body with this status.
    pub fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self::Answer { status, headers, body: body.to_string() }
    }

    /// `400 invalid_grant`, nothing consumed.
    pub fn invalid_grant() -> Self {
        Self::json(400, &json!({"error": "invalid_grant", "error_description": "revoked"}))
    }
}

/// One token request as it arrived.
#[derive(Clone, Debug)]
pub struct Post {
    /// The refresh token, or `code:` and the code.
    pub presented: String,
    /// When, by the clock's uptime.
    pub at: Duration,
    /// The client secret that came with it.
    pub secret: Option<String>,
    /// The request's `Authorization`, if it had one.
    pub authorization: Option<String>,
    /// All fields of the body.
    pub fields: HashMap<String, String>,
    /// `Accept`.
    pub accept: Option<String>,
}

#[derive(Default)]
struct State {
    script: VecDeque<Script>,
    posts: Vec<Post>,
    issued: u32,
    /// The one refresh token that works.
    current: Option<String>,
    /// The one access token that works.
    access: Option<String>,
    spent: HashSet<String>,
    revoked: bool,
    calls: Vec<String>,
    targets: Vec<String>,
    origins: Vec<String>,
    headers: Vec<HeaderMap>,
    api_script: VecDeque<Script>,
    life_secs: u64,
    /// Whether a spent token buys another set: `Some(true)` one that works, in place of the first.
    grace: Option<bool>,
}

/// A token endpoint and an API, strict: a refresh token works once, both old tokens die with a rotation, and a spent
/// one kills the family. Implements [`Http`].
pub struct Endpoint {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl Endpoint {
    /// With access tokens that live for an hour.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::new(State { life_secs: 3600, ..State::default() }) })
    }

    /// A first pair, as from a consent: access and refresh token.
    pub fn grant(&self) -> (String, String) {
        let mut state = self.state();
        state.revoked = false;
        issue(&mut state)
    }

    /// What the next token requests meet.
    pub fn script(&self, scripts: impl IntoIterator<Item = Script>) {
        self.state().script.extend(scripts);
    }

    /// What the next API calls meet.
    pub fn script_api(&self, scripts: impl IntoIterator<Item = Script>) {
        self.state().api_script.extend(scripts);
    }

    /// Token requests meet the usual again.
    pub fn clear_script(&self) {
        self.state().script.clear();
    }

    /// API calls meet the usual again.
    pub fn clear_api_script(&self) {
        self.state().api_script.clear();
    }

    /// The person took the grant back.
    pub fn revoke(&self) {
        let mut state = self.state();
        state.revoked = true;
        state.access = None;
        state.current = None;
    }

    /// The access token is dead, the grant is not.
    pub fn expire_access(&self) {
        self.state().access = None;
    }

    /// Token requests so far.
    pub fn posts(&self) -> Vec<Post> {
        self.state().posts.clone()
    }

    /// API calls so far, by the bearer that they carried.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// API calls so far, by path and query as they were to be sent.
    pub fn targets(&self) -> Vec<String> {
        self.state().targets.clone()
    }

    /// Scheme, host and port of each API call.
    pub fn origins(&self) -> Vec<String> {
        self.state().origins.clone()
    }

    /// The headers of each API call.
    pub fn headers(&self) -> Vec<HeaderMap> {
        self.state().headers.clone()
    }

    /// Life of the access tokens from now on.
    pub fn set_life(&self, seconds: u64) {
        self.state().life_secs = seconds;
    }

    /// A spent refresh token buys another set from now on, which takes the place of the first one, or never works.
    pub fn set_grace(&self, works: bool) {
        self.state().grace = Some(works);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic happens while it is held")
    }

    fn token(&self, request: &HttpRequest) -> Answered {
        let fields = fields(request);
        let header = |name: &str| request.headers.get(name).map(|v| v.to_str().expect("ASCII").to_owned());
        let mut state = self.state();
        let code = fields.get("code").map(|code| format!("code:{code}"));
        let presented = fields.get("refresh_token").cloned().or(code).unwrap_or_default();
        state.posts.push(Post {
            presented: presented.clone(),
            at: self.clock.uptime(),
            secret: fields.get("client_secret").cloned(),
            authorization: header("authorization"),
            fields,
            accept: header("accept"),
        });
        let mut script = state.script.pop_front();
        let mut delay = Duration::ZERO;
        while let Some(Script::After(after, inner)) = script {
            delay += after;
            script = Some(*inner);
        }
        let (status, headers, body) = match script {
            Some(Script::Unreached) => return (delay, Err(HttpFailure::before_send("connection refused"))),
            Some(Script::Heard(heard)) => return (delay, Ok(heard)),
            Some(Script::Answer { status, headers, body }) => (status, headers, body),
            Some(Script::Lost) => {
                rotate(&mut state, &presented);
                return (delay, Err(HttpFailure::after_send("connection reset")));
            }
            Some(Script::Slow(slow)) => {
                delay += slow;
                let (status, body) = rotate(&mut state, &presented);
                (status, Vec::new(), body.to_string())
            }
            Some(Script::Changed(changes)) => {
                let (status, mut body) = rotate(&mut state, &presented);
                for (name, value) in changes.as_object().expect("changes are an object") {
                    body[name] = value.clone();
                }
                (status, Vec::new(), body.to_string())
            }
            Some(Script::After(..)) => unreachable!("unwrapped above"),
            None => {
                let (status, body) = rotate(&mut state, &presented);
                (status, Vec::new(), body.to_string())
            }
        };
        (delay, Ok(heard(status, &headers, body)))
    }

    fn api(&self, request: &HttpRequest) -> Answered {
        let authorization = request.headers.get("authorization").map(|v| v.to_str().expect("ASCII").to_owned());
        let bearer = authorization.unwrap_or_default().trim_start_matches("Bearer ").to_owned();
        let mut state = self.state();
        state.calls.push(bearer.clone());
        let exact = request.exact.as_ref().map(ToString::to_string);
        state.headers.push(request.headers.clone());
        state.origins.push(request.url.origin().ascii_serialization());
        state.targets.push(exact.unwrap_or_else(|| request.url[url::Position::BeforePath..].to_owned()));
        match state.api_script.pop_front() {
            Some(Script::Answer { status, headers, body }) => {
                return (Duration::ZERO, Ok(heard(status, &headers, body)));
            }
            Some(Script::Unreached) => return (Duration::ZERO, Err(HttpFailure::before_send("connection refused"))),
            _ => {}
        }
        let good = state.access.as_deref() == Some(&bearer);
        let (status, body) = if good {
            (200, json!({"user": {"id": 7, "name": "Ada"}}))
        } else {
            (401, json!({"error": "invalid_token"}))
        };
        (Duration::ZERO, Ok(heard(status, &[], body.to_string())))
    }
}

type Answered = (Duration, std::result::Result<Heard, HttpFailure>);

fn heard(status: u16, headers: &[(&'static str, String)], body: String) -> Heard {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    Heard::new(status, &headers, body)
}

fn issue(state: &mut State) -> (String, String) {
    state.issued += 1;
    let pair = (format!("AT{}", state.issued), format!("RT{}", state.issued));
    state.access = Some(pair.0.clone());
    state.current = Some(pair.1.clone());
    pair
}

fn rotate(state: &mut State, presented: &str) -> (u16, Value) {
    if let Some(works) = state.grace.filter(|_| state.spent.contains(presented) && !state.revoked) {
        let first = (state.access.clone(), state.current.clone());
        let (access, refresh) = issue(state);
        if !works {
            (state.access, state.current) = first;
        }
        return (200, issued(state, &access, &refresh));
    }
    if state.spent.contains(presented) {
        // Family revocation: a spent token shows that somebody has a copy.
        state.current = None;
        state.access = None;
    }
    if state.revoked || state.current.as_deref() != Some(presented) {
        return (400, json!({"error": "invalid_grant", "error_description": "The refresh token is over."}));
    }
    state.spent.insert(presented.to_owned());
    let (access, refresh) = issue(state);
    (200, issued(state, &access, &refresh))
}

fn issued(state: &State, access: &str, refresh: &str) -> Value {
    json!({"access_token": access, "refresh_token": refresh, "expires_in": state.life_secs, "token_type": "bearer"})
}

fn fields(request: &HttpRequest) -> HashMap<String, String> {
    let Body::Bytes(bytes) = &request.body else { return HashMap::new() };
    if let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) {
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return fields.into_iter().map(|(name, value)| (name, text(value))).collect();
    }
    form_urlencoded::parse(bytes).into_owned().collect()
}

#[async_trait]
impl Http for Endpoint {
    async fn send(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpFailure> {
        let token = request.url.path().ends_with("/token");
        let (delay, answer) = if token { self.token(&request) } else { self.api(&request) };
        self.clock.sleep(delay).await;
        let Heard { status, headers, body } = answer?;
        let body = Box::pin(stream::iter([Ok(Bytes::from(body))]));
        Ok(HttpResponse { status, headers, body })
    }
}

/// The adapter for [`Endpoint`].
pub struct FakeProvider {
    /// What `auth` answers; tests change facts in it.
    pub facts: OAuth2,
    /// What `key_auth` answers.
    pub key: Option<ApiKeyAuth>,
}

impl FakeProvider {
    /// Single use, no grace, form body.
    pub fn new() -> Self {
        let url = |path: &str| -> Url { format!("https://acme.fake.test/{path}").parse().expect("it is a URL") };
        Self {
            facts: OAuth2 {
                authorize_url: url("authorize"),
                token_url: url("token"),
                revoke: None,
                scopes: vec!["read".to_owned()],
                scope_separator: ' ',
                client_auth: ClientAuth::Body,
                token_body: TokenBody::Form,
                pkce: true,
                authorize_params: Vec::new(),
                token_params: Vec::new(),
                refresh_params: Vec::new(),
                rotation: Rotation::SingleUse,
                reuse_grace: Duration::ZERO,
                expires_in_default: Some(Duration::from_hours(1)),
                refresh_expires_in_field: None,
                refresh_life: RefreshLife::AsTold,
                rejected_codes: Vec::new(),
                base_url_field: None,
            },
            key: None,
        }
    }
}

impl Default for FakeProvider {
    fn default() -> Self {
        Self::new()
    }
}

static ABOUT: About = About {
    id: "fake",
    name: "Fake",
    line: "For tests",
    auth_kind: AuthKind::OAuth2,
    account_label: "Account",
    account_example: "acme",
    account_rule: "any label",
    key_help: None,
    app_steps: &[],
    scopes: &[],
    tools: &[],
    test_call: "GET /me",
};

#[async_trait]
impl Provider for FakeProvider {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn account(&self, typed: &str) -> std::result::Result<Account, Invalid> {
        let base_url = format!("https://{typed}.fake.test/").parse().map_err(|_| Invalid::new("type a label: acme"))?;
        Ok(Account { id: typed.to_owned(), display: format!("{typed}.fake.test"), base_url })
    }

    fn auth(&self, _account: &Account) -> Auth {
        Auth::OAuth2(Box::new(self.facts.clone()))
    }

    fn key_auth(&self, _account: &Account) -> Option<ApiKeyAuth> {
        self.key.clone()
    }

    fn oauth_paths(&self) -> &'static [&'static str] {
        &["oauth"]
    }

    fn bases(&self, account: &Account) -> Vec<Base> {
        let url = format!("https://{}.files.test/api", account.id).parse().expect("it is a URL");
        vec![Base { name: "files", url }]
    }

    fn verdict(&self, _refusal: &Refusal) -> Option<Verdict> {
        None
    }

    fn api_error(&self, operation: &'static str, answer: &ApiAnswer) -> Error {
        let kind = match answer.status {
            401 => ErrorKind::AuthFailed,
            403 => ErrorKind::Forbidden,
            404 => ErrorKind::NotFound,
            429 => ErrorKind::Busy,
            400..=499 => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        };
        let message = format!("HTTP {}", answer.status);
        Error { kind, retry: Retry::Never, provider: "fake", operation, message, source: None }
    }

    /// A tenant where one was found, and a version.
    fn headers(&self, _account: &Account, found: &BTreeMap<String, String>) -> Vec<ApiHeader> {
        let header = |name, value: &str, ours| ApiHeader {
            name: HeaderName::from_static(name),
            value: value.parse().expect("tests name headers"),
            ours,
        };
        let tenant = found.get("tenant").map(|tenant| header("x-fake-tenant", tenant, true));
        tenant.into_iter().chain([header("x-fake-version", "1", false)]).collect()
    }

    async fn identity(&self, api: &ApiClient) -> Result<Identity> {
        let me: Value = api.get("me").operation("identity").fetch().await?;
        Ok(Identity {
            account_id: api.account().id.clone(),
            account_name: api.account().display.clone(),
            user_id: me["user"]["id"].to_string(),
            name: me["user"]["name"].as_str().map(str::to_owned),
            email: None,
            role: None,
            scopes: None,
        })
    }

    async fn call(&self, api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
        api.get(call.tool.clone()).operation("call").fetch().await.map(ToolOutput)
    }
}
