//! An engine over real HTTP to a sandbox, and a connector that has gone the whole way from consent to token set.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use holdfast_core::{
    ApiClient, Auth, ConnectorId, Engine, Error, OAuth2, Provider, Providers, Secret, TokenSet,
    exchange::{AuthorizeUrl, Grant, Outcome, authorize_url, merge},
    ports::{Body, Clock, Http, HttpFailure, HttpRequest, HttpResponse, OAuthApp},
    refresh::{Ports, Settings},
    schema,
    testkit::{ManualClock, MemoryLifeboat, MemoryStore, NoMeter, OneApp, SeededRandom},
    tool::ToolCall,
};
use holdfast_gorgias::Gorgias;
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, Gorgias as Helpdesk, Sandbox};
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

const REDIRECT_URI: &str = "http://127.0.0.1:8080/oauth/callback";

pub(crate) struct Rig {
    pub(crate) sandbox: Sandbox,
    pub(crate) acme: Helpdesk,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) gorgias: Arc<Gorgias>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) app: OAuthApp,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let sandbox = Sandbox::builder().start().await.unwrap();
        let acme = sandbox.gorgias("acme").unwrap();
        let gorgias = Arc::new(Gorgias::with_base(&sandbox.gorgias_override()).unwrap());
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::new(clock.clone());
        let replica = store.replica();
        let app = OAuthApp {
            client_id: CLIENT_ID.to_owned(),
            client_secret: Some(SecretString::from(CLIENT_SECRET)),
            next_client_secret: None,
        };
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
        let providers = Providers::new(vec![gorgias.clone()]);
        let engine = Engine::new(ports, Settings::default(), providers, "one".to_owned());
        Self { sandbox, acme, clock, store, gorgias, engine, app }
    }

    pub(crate) fn facts(&self) -> OAuth2 {
        let Auth::OAuth2(facts) = self.gorgias.auth(&self.gorgias.account("acme").unwrap()) else {
            panic!("Gorgias has OAuth")
        };
        *facts
    }

    /// Consent as `user`, and the exchange of the code that comes back.
    pub(crate) async fn redeem(&self, user: &str) -> Outcome {
        let facts = self.facts();
        let parts = AuthorizeUrl { client_id: CLIENT_ID, redirect_uri: REDIRECT_URI, state: "state", verifier: None };
        let mut authorize = authorize_url(&facts, &parts);
        assert!(self.gorgias.sends_nonce());
        authorize.query_pairs_mut().append_pair("nonce", "new-each-time");
        let back = self.sandbox.consent(authorize.as_str(), user).unwrap();
        let back = Url::parse(&back).unwrap();
        let code = back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        let code = SecretString::from(code);
        let grant = Grant::Code { code: &code, redirect_uri: REDIRECT_URI, verifier: None };
        self.engine.redeem(self.gorgias.as_ref(), &facts, &self.app, &grant).await
    }

    pub(crate) async fn token_set(&self, user: &str) -> TokenSet {
        match self.redeem(user).await {
            Outcome::Rotated(answer) => merge(&self.facts(), None, &answer, self.clock.now()),
            other => panic!("the code was not exchanged: {other:?}"),
        }
    }

    /// A connected connector, from a consent as Ada the administrator.
    pub(crate) async fn connect(&self) -> ConnectorId {
        let tokens = self.token_set("ada").await;
        let pair = (String::from("unused"), String::from("unused"));
        let connector = self.store.connect("con", &pair, Duration::ZERO);
        self.store.change(&connector, |row| {
            "gorgias".clone_into(&mut row.provider);
            row.credential.secret = Secret::Tokens(tokens);
        });
        connector
    }

    pub(crate) async fn api(&self) -> ApiClient {
        let connector = self.connect().await;
        ApiClient::new(&self.engine, &self.store.row(&connector)).unwrap()
    }

    /// With a token of its own that nothing refreshes.
    pub(crate) fn api_as(&self, user: &str, scope: &str) -> ApiClient {
        self.api_with("acme", &self.acme.grant(user, scope).unwrap().access_token)
    }

    pub(crate) fn api_with(&self, account: &str, token: &str) -> ApiClient {
        let tokens = TokenSet {
            access_token: SecretString::from(token.to_owned()),
            refresh_token: None,
            obtained_at: self.clock.now(),
            expires_at: None,
            expires_assumed: false,
            refresh_expires_at: None,
            refresh_end_fixed: false,
            scopes: Vec::new(),
            base_url: None,
            found: std::collections::BTreeMap::new(),
        };
        ApiClient::with(&self.engine, "gorgias", account, Secret::Tokens(tokens)).unwrap()
    }

    /// A connected connector with this person's key, and the user name that belongs to it.
    pub(crate) fn connect_by_key(&self, user: &str) -> ConnectorId {
        let (email, key) = self.acme.api_key(user).unwrap();
        let pair = (String::from("unused"), String::from("unused"));
        let connector = self.store.connect("key", &pair, Duration::ZERO);
        self.store.change(&connector, |row| {
            "gorgias".clone_into(&mut row.provider);
            row.credential.secret = Secret::ApiKey(SecretString::from(format!("{email}:{key}")));
        });
        connector
    }

    /// With all scopes that the adapter asks for.
    pub(crate) fn agent(&self) -> ApiClient {
        self.api_as("gus", &self.facts().scopes.join(" "))
    }

    pub(crate) fn calls(&self) -> u64 {
        self.acme.counters().api_calls
    }

    /// Moves the engine's clock on, a second at a time, while something waits for it.
    pub(crate) async fn pass(&self, seconds: u32) {
        self.clock.pass(seconds).await;
    }

    /// Calls a tool, and holds its answer to its schema.
    pub(crate) async fn call(&self, api: &ApiClient, tool: &str, arguments: Value) -> Result<Value, Error> {
        let call = ToolCall { tool: tool.to_owned(), arguments, idempotency_key: None };
        let output = self.gorgias.call(api, &call).await?.0;
        let known = self.gorgias.about().tools.iter().find(|known| known.name == tool).unwrap();
        let output_schema = serde_json::from_str(known.output_schema).unwrap();
        assert_eq!(schema::check(&output_schema, &output, &|_| false), Ok(()), "{tool}: {output}");
        Ok(output)
    }
}

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
        let sent = self
            .0
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
