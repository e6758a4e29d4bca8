//! An engine and a sandbox, joined by real HTTP.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt;
use holdfast_core::{
    ApiClient, Auth, ConnectorId, Engine, Error, OAuth2, Provider, Providers, Secret, TokenSet,
    exchange::{AuthorizeUrl, Grant, Outcome, authorize_url, merge},
    ports::{Body, Clock as _, Http, HttpFailure, HttpRequest, HttpResponse, OAuthApp},
    refresh::{Ports, Settings},
    schema,
    testkit::{ManualClock, MemoryLifeboat, MemoryStore, NoMeter, OneApp, SeededRandom},
    tool::ToolCall,
};
use holdfast_front::Front;
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, FrontRig, Sandbox};
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

const REDIRECT_URI: &str = "http://127.0.0.1:8080/oauth/callback";

pub(crate) struct Rig {
    pub(crate) sandbox: Sandbox,
    pub(crate) there: FrontRig,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) front: Arc<Front>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) http: Arc<Wire>,
    app: OAuthApp,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let sandbox = Sandbox::builder().start().await.unwrap();
        let there = sandbox.front();
        let front = Arc::new(Front::with_base(&sandbox.front_override()).unwrap());
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::new(clock.clone());
        let replica = store.replica();
        let http = Arc::new(Wire::new());
        let app = OAuthApp {
            client_id: CLIENT_ID.to_owned(),
            client_secret: Some(SecretString::from(CLIENT_SECRET)),
            next_client_secret: None,
        };
        let ports = Ports {
            clock: clock.clone(),
            random: Arc::new(SeededRandom::new(7)),
            http: http.clone(),
            store: replica.clone(),
            leases: replica.clone(),
            lifeboat: Arc::new(MemoryLifeboat::default()),
            signals: replica,
            apps: Arc::new(OneApp(app.clone())),
            meter: Arc::new(NoMeter),
        };
        let providers = Providers::new(vec![front.clone()]);
        let engine = Engine::new(ports, Settings::default(), providers, "one".to_owned());
        Self { sandbox, there, clock, store, front, engine, http, app }
    }

    /// Both clocks.
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.sandbox.advance(by);
    }

    pub(crate) fn facts(&self) -> OAuth2 {
        let Auth::OAuth2(facts) = self.front.auth(&self.front.account("Acme").unwrap()) else {
            panic!("Front has OAuth")
        };
        *facts
    }

    /// Where the person is sent.
    pub(crate) fn authorize(&self) -> Url {
        let parts = AuthorizeUrl { client_id: CLIENT_ID, redirect_uri: REDIRECT_URI, state: "state", verifier: None };
        authorize_url(&self.facts(), &parts)
    }

    /// The exchange of the code that a consent as this teammate brought.
    pub(crate) async fn redeem(&self, who: &str) -> Outcome {
        let back = self.sandbox.consent(self.authorize().as_str(), who).unwrap();
        self.exchange(&back).await
    }

    pub(crate) async fn exchange(&self, back: &str) -> Outcome {
        let back = Url::parse(back).unwrap();
        let code = back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        let code = SecretString::from(code);
        let grant = Grant::Code { code: &code, redirect_uri: REDIRECT_URI, verifier: None };
        self.engine.redeem(self.front.as_ref(), &self.facts(), &self.app, &grant).await
    }

    pub(crate) async fn token_set(&self, who: &str) -> TokenSet {
        match self.redeem(who).await {
            Outcome::Rotated(answer) => merge(&self.facts(), None, &answer, self.clock.now()),
            other => panic!("the code was not exchanged: {other:?}"),
        }
    }

    /// A connected connector, from a consent as Ada.
    pub(crate) async fn connect(&self) -> ConnectorId {
        let tokens = self.token_set("ada").await;
        let pair = (String::from("unused"), String::from("unused"));
        let connector = self.store.connect("con", &pair, Duration::ZERO);
        self.store.change(&connector, |row| {
            "front".clone_into(&mut row.provider);
            "acme".clone_into(&mut row.account);
            row.credential.secret = Secret::Tokens(tokens);
        });
        connector
    }

    pub(crate) fn tokens(&self, connector: &ConnectorId) -> TokenSet {
        self.store.row(connector).credential.secret.tokens().unwrap().clone()
    }

    pub(crate) async fn api(&self) -> ApiClient {
        let connector = self.connect().await;
        ApiClient::new(&self.engine, &self.store.row(&connector)).unwrap()
    }

    /// With a token of its own that nothing refreshes.
    pub(crate) fn api_as(&self, company: &str) -> ApiClient {
        let granted = self.there.grant(company).unwrap();
        let secret = Secret::ApiKey(SecretString::from(granted.access_token));
        ApiClient::with(&self.engine, "front", company, secret).unwrap()
    }

    /// Of Acme's conversation with this number.
    pub(crate) fn id(&self, number: usize) -> String {
        self.there.conversation_id("acme", number).unwrap()
    }

    /// Calls a tool, and holds its answer to its schema.
    pub(crate) async fn call(&self, api: &ApiClient, tool: &str, arguments: Value) -> Result<Value, Error> {
        self.call_with(api, tool, arguments, None).await
    }

    pub(crate) async fn call_with(
        &self,
        api: &ApiClient,
        tool: &str,
        arguments: Value,
        key: Option<&str>,
    ) -> Result<Value, Error> {
        let known = self.front.about().tools.iter().find(|known| known.name == tool).unwrap();
        let call = ToolCall { tool: tool.to_owned(), arguments, idempotency_key: key.map(str::to_owned) };
        let output = self.front.call(api, &call).await?.0;
        let output_schema = serde_json::from_str(known.output_schema).unwrap();
        assert_eq!(schema::check(&output_schema, &output, &|_| false), Ok(()), "{tool}: {output}");
        Ok(output)
    }

    /// Moves the engine's clock on, a second at a time, while something waits for it.
    pub(crate) async fn pass(&self, seconds: u32) {
        self.clock.pass(seconds).await;
    }
}

/// HTTP to the sandbox: no redirects, no proxy. It notes where each request goes, and with what credential.
pub(crate) struct Wire {
    client: reqwest::Client,
    seen: Mutex<Vec<(String, bool)>>,
}

impl Wire {
    fn new() -> Self {
        // Plain HTTP never uses it, but the client will not be built without one.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        Self { client: client.build().unwrap(), seen: Mutex::default() }
    }

    /// Method and path of each request, and whether it had a credential; then forgets them.
    pub(crate) fn seen(&self) -> Vec<(String, bool)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

#[async_trait]
impl Http for Wire {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpFailure> {
        let bearer = request.headers.contains_key("authorization");
        self.seen.lock().unwrap().push((format!("{} {}", request.method, request.url.path()), bearer));
        let Body::Bytes(body) = request.body else { panic!("no tool streams a body") };
        let sent = self
            .client
            .request(request.method, request.url)
            .headers(request.headers)
            .body(body)
            .timeout(request.timeout)
            .send();
        let answer = sent.await.map_err(|error| {
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
