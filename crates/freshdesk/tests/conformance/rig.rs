//! An engine over real HTTP to a sandbox, and connectors that hold an agent's key.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use holdfast_core::{
    ApiClient, ConnectorId, Engine, Error, Health, Provider, Providers, Secret,
    ports::{Body, Http, HttpFailure, HttpRequest, HttpResponse, OAuthApp},
    refresh::{Ports, Settings},
    schema,
    testkit::{ManualClock, MemoryLifeboat, MemoryStore, NoMeter, OneApp, SeededRandom},
    tool::ToolCall,
};
use holdfast_freshdesk::Freshdesk;
use holdfast_sandbox::{Freshdesk as Helpdesk, Sandbox};
use secrecy::SecretString;
use serde_json::Value;

pub(crate) struct Rig {
    pub(crate) sandbox: Sandbox,
    pub(crate) acme: Helpdesk,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) freshdesk: Arc<Freshdesk>,
    pub(crate) engine: Arc<Engine>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let sandbox = Sandbox::builder().start().await.unwrap();
        let acme = sandbox.freshdesk("acme").unwrap();
        let freshdesk = Arc::new(Freshdesk::with_base(&sandbox.freshdesk_override()).unwrap());
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::new(clock.clone());
        let replica = store.replica();
        let app = OAuthApp { client_id: String::new(), client_secret: None, next_client_secret: None };
        let ports = Ports {
            clock: clock.clone(),
            random: Arc::new(SeededRandom::new(7)),
            http: Arc::new(Wire::new()),
            store: replica.clone(),
            leases: replica.clone(),
            lifeboat: Arc::new(MemoryLifeboat::default()),
            signals: replica,
            apps: Arc::new(OneApp(app)),
            meter: Arc::new(NoMeter),
        };
        let providers = Providers::new(vec![freshdesk.clone()]);
        let engine = Engine::new(ports, Settings::default(), providers, "one".to_owned());
        Self { sandbox, acme, clock, store, freshdesk, engine }
    }

    /// A connected connector with this agent's key.
    pub(crate) fn connect(&self, agent: &str) -> ConnectorId {
        let pair = (String::from("unused"), String::from("unused"));
        let connector = self.store.connect("con", &pair, Duration::ZERO);
        let key = SecretString::from(self.acme.api_key(agent).unwrap());
        self.store.change(&connector, |row| {
            "freshdesk".clone_into(&mut row.provider);
            row.credential.secret = Secret::ApiKey(key);
        });
        connector
    }

    /// Through the engine, as agents call.
    pub(crate) fn api(&self, connector: &ConnectorId) -> ApiClient {
        ApiClient::new(&self.engine, &self.store.row(connector)).unwrap()
    }

    /// With this agent's key, of which the engine knows nothing.
    pub(crate) fn api_as(&self, agent: &str) -> ApiClient {
        self.api_with("acme", &self.acme.api_key(agent).unwrap())
    }

    pub(crate) fn api_with(&self, account: &str, key: &str) -> ApiClient {
        let secret = Secret::ApiKey(SecretString::from(key.to_owned()));
        ApiClient::with(&self.engine, "freshdesk", account, secret).unwrap()
    }

    pub(crate) fn health(&self, connector: &ConnectorId) -> Health {
        self.store.row(connector).health
    }

    pub(crate) fn calls(&self) -> u64 {
        self.acme.counters().api_calls
    }

    /// Calls a tool, and holds its answer to its schema.
    pub(crate) async fn call(&self, api: &ApiClient, tool: &str, arguments: Value) -> Result<Value, Error> {
        let call = ToolCall { tool: tool.to_owned(), arguments, idempotency_key: None };
        let output = self.freshdesk.call(api, &call).await?.0;
        let known = self.freshdesk.about().tools.iter().find(|known| known.name == tool).unwrap();
        let output_schema = serde_json::from_str(known.output_schema).unwrap();
        assert_eq!(schema::check(&output_schema, &output, &|_| false), Ok(()), "{tool}: {output}");
        Ok(output)
    }

    /// Moves the engine's clock on, a second at a time, while something waits for it.
    pub(crate) async fn pass(&self, seconds: u32) {
        self.clock.pass(seconds).await;
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
