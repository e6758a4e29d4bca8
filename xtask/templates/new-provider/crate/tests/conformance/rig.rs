//! An engine and a sandbox, joined by real HTTP.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
@if oauth@
use holdfast_core::{
    ApiClient, Auth, ConnectorId, Engine, Error, OAuth2, Provider, Providers, Secret, TokenSet,
    exchange::{AuthorizeUrl, Grant, Outcome, authorize_url, merge},
    ports::{Body, Clock as _, Http, HttpFailure, HttpRequest, HttpResponse, OAuthApp},
    refresh::{Ports, Settings},
    schema,
    testkit::{ManualClock, MemoryLifeboat, MemoryStore, NoMeter, OneApp, SeededRandom},
    tool::ToolCall,
};
use holdfast_@mod@::@Type@;
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, @Type@Rig, Sandbox};
use secrecy::SecretString;
use serde_json::Value;

const REDIRECT_URI: &str = "http://127.0.0.1:8080/oauth/callback";
@end@
@if key@
use holdfast_core::{
    ApiClient, ConnectorId, Engine, Error, Provider, Providers, Secret,
    ports::{Body, Http, HttpFailure, HttpRequest, HttpResponse, OAuthApp},
    refresh::{Ports, Settings},
    schema,
    testkit::{ManualClock, MemoryLifeboat, MemoryStore, NoMeter, OneApp, SeededRandom},
    tool::ToolCall,
};
use holdfast_@mod@::@Type@;
use holdfast_sandbox::{@Type@Rig, Sandbox};
use secrecy::SecretString;
use serde_json::Value;
@end@

pub(crate) struct Rig {
@if oauth@
    pub(crate) sandbox: Sandbox,
@end@
    pub(crate) there: @Type@Rig,
@if oauth@
    pub(crate) clock: Arc<ManualClock>,
@end@
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) engine: Arc<Engine>,
    provider: Arc<@Type@>,
@if oauth@
    app: OAuthApp,
@end@
@if key@
    /// It stops when it is dropped.
    _sandbox: Sandbox,
@end@
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let sandbox = Sandbox::builder().start().await.unwrap();
        let there = sandbox.@mod@();
        let provider = Arc::new(@Type@::with_base(&sandbox.@mod@_override()).unwrap());
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::new(clock.clone());
        let replica = store.replica();
@if oauth@
        let app = OAuthApp {
            client_id: CLIENT_ID.to_owned(),
            client_secret: Some(SecretString::from(CLIENT_SECRET)),
            next_client_secret: None,
        };
@end@
@if key@
        let app = OAuthApp { client_id: String::new(), client_secret: None, next_client_secret: None };
@end@
        let ports = Ports {
            clock: clock.clone(),
            random: Arc::new(SeededRandom::new(7)),
            http: Arc::new(Wire::new()),
            store: replica.clone(),
            leases: replica.clone(),
            lifeboat: Arc::new(MemoryLifeboat::default()),
            signals: replica,
            apps: Arc::new(OneApp(app.clone())),
            meter: Arc::new(NoMeter),
        };
        let providers = Providers::new(vec![provider.clone()]);
        let engine = Engine::new(ports, Settings::default(), providers, "one".to_owned());
@if oauth@
        Self { sandbox, there, clock, store, engine, provider, app }
@end@
@if key@
        Self { there, store, engine, provider, _sandbox: sandbox }
@end@
    }

@if oauth@
    /// Both clocks.
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.sandbox.advance(by);
    }

    fn facts(&self) -> OAuth2 {
        let Auth::OAuth2(facts) = self.provider.auth(&self.provider.account("acme").unwrap()) else {
            panic!("it is OAuth")
        };
        *facts
    }

    /// Where the person is sent.
    pub(crate) fn authorize(&self) -> reqwest::Url {
        let verifier = verifier();
        let verifier = Some(&verifier);
        let parts = AuthorizeUrl { client_id: CLIENT_ID, redirect_uri: REDIRECT_URI, state: "state", verifier };
        authorize_url(&self.facts(), &parts)
    }

    /// The exchange of the code that came back.
    pub(crate) async fn exchange(&self, back: &str) -> Outcome {
        let back: reqwest::Url = back.parse().unwrap();
        let code = back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        let (code, verifier) = (SecretString::from(code), verifier());
        let grant = Grant::Code { code: &code, redirect_uri: REDIRECT_URI, verifier: Some(&verifier) };
        self.engine.redeem(self.provider.as_ref(), &self.facts(), &self.app, &grant).await
    }

    /// A connected connector, from a consent as Ada.
    pub(crate) async fn connect(&self) -> ConnectorId {
        let back = self.sandbox.consent(self.authorize().as_str(), "ada").unwrap();
        let tokens = match self.exchange(&back).await {
            Outcome::Rotated(answer) => merge(&self.facts(), None, &answer, self.clock.now()),
            other => panic!("the code was not exchanged: {other:?}"),
        };
        self.connector(Secret::Tokens(tokens))
    }

    pub(crate) fn tokens(&self, connector: &ConnectorId) -> TokenSet {
        self.store.row(connector).credential.secret.tokens().unwrap().clone()
    }
@end@
@if key@
    /// A connected connector with Ada's key.
    pub(crate) fn connect(&self) -> ConnectorId {
        self.connector(Secret::ApiKey(SecretString::from(self.there.key("ada").unwrap())))
    }
@end@

    fn connector(&self, secret: Secret) -> ConnectorId {
        let pair = (String::from("unused"), String::from("unused"));
        let connector = self.store.connect("con", &pair, Duration::ZERO);
        self.store.change(&connector, |row| {
            "@id@".clone_into(&mut row.provider);
            "acme".clone_into(&mut row.account);
            row.credential.secret = secret;
        });
        connector
    }

    /// Through the engine, as agents call.
@if oauth@
    pub(crate) async fn api(&self) -> ApiClient {
        let connector = self.connect().await;
@end@
@if key@
    pub(crate) fn api(&self) -> ApiClient {
        let connector = self.connect();
@end@
        self.api_of(&connector)
    }

    pub(crate) fn api_of(&self, connector: &ConnectorId) -> ApiClient {
        ApiClient::new(&self.engine, &self.store.row(connector)).unwrap()
    }

    /// With a token of which the engine knows nothing.
    pub(crate) fn api_with(&self, token: &str) -> ApiClient {
        let secret = Secret::ApiKey(SecretString::from(token.to_owned()));
        ApiClient::with(&self.engine, "@id@", "acme", secret).unwrap()
    }

    /// Calls a tool, and holds its answer to its schema.
    pub(crate) async fn call(&self, api: &ApiClient, tool: &str, arguments: Value) -> Result<Value, Error> {
        let known = self.provider.about().tools.iter().find(|known| known.name == tool).unwrap();
        let output = self.send(api, tool, arguments).await?;
        let output_schema = serde_json::from_str(known.output_schema).unwrap();
        assert_eq!(schema::check(&output_schema, &output, &|_| false), Ok(()), "{tool}: {output}");
        Ok(output)
    }

    pub(crate) async fn send(&self, api: &ApiClient, tool: &str, arguments: Value) -> Result<Value, Error> {
        let call = ToolCall { tool: tool.to_owned(), arguments, idempotency_key: None };
        Ok(self.provider.call(api, &call).await?.0)
    }
}

@if oauth@
/// As long as RFC 7636 asks for.
fn verifier() -> SecretString {
    SecretString::from("a-verifier-of-at-least-forty-three-characters-0123456789")
}

@end@
/// HTTP to the sandbox: no redirects, no proxy.
struct Wire(reqwest::Client);

impl Wire {
    fn new() -> Self {
        // Plain HTTP never uses it, but the client will not be built without one.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        Self(client.build().unwrap())
    }
}

#[async_trait]
impl Http for Wire {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpFailure> {
        let Body::Bytes(body) = request.body else { panic!("no tool streams a body") };
        let sent = self.0.request(request.method, request.url).headers(request.headers).body(body);
        let answer = sent.timeout(request.timeout).send().await.map_err(|error| {
            let failure = if error.is_connect() { HttpFailure::before_send } else { HttpFailure::after_send };
            failure(error.without_url().to_string())
        })?;
        Ok(HttpResponse {
            status: answer.status(),
            headers: answer.headers().clone(),
            body: answer
                .bytes_stream()
                .map(|chunk| chunk.map_err(|error| HttpFailure::after_send(error.without_url().to_string())))
                .boxed(),
        })
    }
}
