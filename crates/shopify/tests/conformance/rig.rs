//! An engine over real HTTP to a sandbox, and a connector that has gone the whole way from consent to token set.

use std::{sync::Arc, sync::Mutex, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use holdfast_core::{
    ApiClient, AppId, Auth, ConnectorId, Engine, Error, OAuth2, Provider, Providers, Secret, TokenSet,
    exchange::{AuthorizeUrl, Grant, Outcome, authorize_url, merge},
    ports::{Body, Clock, Http, HttpFailure, HttpRequest, HttpResponse, OAuthApp, OAuthApps, StoreError},
    provider::CallbackRefused,
    refresh::{Ports, Settings},
    testkit::{ManualClock, MemoryLifeboat, MemoryStore, NoMeter, OneApp, Replica, SeededRandom},
    tool::ToolCall,
};
use holdfast_sandbox::{Builder, CLIENT_ID, CLIENT_SECRET, Sandbox, Shop};
use holdfast_shopify::Shopify;
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

const REDIRECT_URI: &str = "http://127.0.0.1:8080/oauth/callback";
/// What the adapter asks for.
pub(crate) const SCOPES: &str = "read_orders,write_orders,read_customers,read_products";

pub(crate) struct Rig {
    pub(crate) sandbox: Sandbox,
    pub(crate) acme: Shop,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<MemoryStore>,
    /// The engine's own way to the store.
    pub(crate) replica: Arc<Replica>,
    pub(crate) shopify: Arc<Shopify>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) http: Arc<Wire>,
    pub(crate) app: OAuthApp,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(Sandbox::builder()).await
    }

    pub(crate) async fn with(builder: Builder) -> Self {
        let sandbox = builder.start().await.unwrap();
        let acme = sandbox.shop("acme").unwrap();
        let shopify = Arc::new(Shopify::with_base(&sandbox.shopify_override()).unwrap());
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::new(clock.clone());
        let http = Arc::new(Wire::new());
        let app = OAuthApp {
            client_id: CLIENT_ID.to_owned(),
            client_secret: Some(SecretString::from(CLIENT_SECRET)),
            next_client_secret: None,
        };
        let replica = store.replica();
        let engine = engine("one", &clock, &replica, &http, Arc::new(OneApp(app.clone())), &shopify);
        Self { sandbox, acme, clock, store, replica, shopify, engine, http, app }
    }

    /// Another replica on the same store.
    pub(crate) fn second(&self) -> Arc<Engine> {
        let apps = Arc::new(OneApp(self.app.clone()));
        engine("two", &self.clock, &self.store.replica(), &self.http, apps, &self.shopify)
    }

    /// One of an installation where nobody has set up an OAuth app.
    pub(crate) fn without_app(&self) -> Arc<Engine> {
        engine("bare", &self.clock, &self.store.replica(), &self.http, Arc::new(NoApp), &self.shopify)
    }

    /// A connector with an imported token that never ends.
    pub(crate) fn import_endless(&self) -> ConnectorId {
        let token = SecretString::from(self.acme.grant_endless(SCOPES).access_token);
        let pair = (String::from("unused"), String::from("unused"));
        let connector = self.store.connect("con", &pair, Duration::ZERO);
        self.store.change(&connector, |row| {
            "shopify".clone_into(&mut row.provider);
            let Secret::Tokens(tokens) = &mut row.credential.secret else { panic!("it has tokens") };
            tokens.access_token = token;
            tokens.refresh_token = None;
            tokens.expires_at = None;
            tokens.refresh_expires_at = None;
            row.credential.due_at = None;
        });
        connector
    }

    pub(crate) fn facts(&self) -> OAuth2 {
        let Auth::OAuth2(facts) = self.shopify.auth(&self.shopify.account("acme").unwrap()) else {
            panic!("Shopify has OAuth")
        };
        *facts
    }

    /// What comes back when the merchant installs the app.
    pub(crate) fn callback(&self) -> Vec<(String, String)> {
        let parts = AuthorizeUrl { client_id: CLIENT_ID, redirect_uri: REDIRECT_URI, state: "state", verifier: None };
        let back = self.sandbox.consent(authorize_url(&self.facts(), &parts).as_str(), "merchant").unwrap();
        Url::parse(&back).unwrap().query_pairs().into_owned().collect()
    }

    pub(crate) fn check(&self, query: &[(String, String)], secrets: &[&str]) -> Result<(), CallbackRefused> {
        let secrets: Vec<_> = secrets.iter().map(|secret| SecretString::from(*secret)).collect();
        self.shopify.check_callback(&self.shopify.account("acme").unwrap(), query, &secrets)
    }

    /// Consent, and the exchange of the code that comes back.
    pub(crate) async fn redeem(&self) -> Outcome {
        let back = self.callback();
        let code = SecretString::from(back.iter().find(|(name, _)| name == "code").unwrap().1.clone());
        let grant = Grant::Code { code: &code, redirect_uri: REDIRECT_URI, verifier: None };
        self.engine.redeem(self.shopify.as_ref(), &self.facts(), &self.app, &grant).await
    }

    pub(crate) async fn token_set(&self) -> TokenSet {
        match self.redeem().await {
            Outcome::Rotated(answer) => merge(&self.facts(), None, &answer, self.clock.now()),
            other => panic!("the code was not exchanged: {other:?}"),
        }
    }

    /// A connected connector, from a consent.
    pub(crate) async fn connect(&self) -> ConnectorId {
        let tokens = self.token_set().await;
        let pair = (String::from("unused"), String::from("unused"));
        let connector = self.store.connect("con", &pair, Duration::ZERO);
        self.store.change(&connector, |row| {
            "shopify".clone_into(&mut row.provider);
            row.credential.secret = Secret::Tokens(tokens);
        });
        connector
    }

    pub(crate) async fn api(&self) -> ApiClient {
        let connector = self.connect().await;
        ApiClient::new(&self.engine, &self.store.row(&connector)).unwrap()
    }

    /// With a token of its own that nothing refreshes.
    pub(crate) fn api_as(&self, scope: &str) -> ApiClient {
        self.api_with(&self.acme.grant(scope).access_token)
    }

    pub(crate) fn api_with(&self, access_token: &str) -> ApiClient {
        let secret = Secret::ApiKey(SecretString::from(access_token.to_owned()));
        ApiClient::with(&self.engine, "shopify", "acme", secret).unwrap()
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
        let call = ToolCall { tool: tool.to_owned(), arguments, idempotency_key: key.map(str::to_owned) };
        let output = self.shopify.call(api, &call).await?.0;
        let known = self.shopify.about().tools.iter().find(|known| known.name == tool).unwrap();
        fits(tool, &serde_json::from_str(known.output_schema).unwrap(), &output);
        Ok(output)
    }

    /// The id of the order that people know by this number.
    pub(crate) fn order_id(&self, name: &str) -> String {
        self.acme.order(name).unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Moves the engine's clock on, a second at a time, while something waits for it.
    pub(crate) async fn pass(&self, seconds: u32) {
        self.clock.pass(seconds).await;
    }
}

struct NoApp;

#[async_trait]
impl OAuthApps for NoApp {
    async fn find(&self, _app: &AppId) -> Result<Option<OAuthApp>, StoreError> {
        Ok(None)
    }
}

fn engine(
    name: &str,
    clock: &Arc<ManualClock>,
    replica: &Arc<Replica>,
    http: &Arc<Wire>,
    apps: Arc<dyn OAuthApps>,
    shopify: &Arc<Shopify>,
) -> Arc<Engine> {
    let ports = Ports {
        clock: clock.clone(),
        random: Arc::new(SeededRandom::new(7)),
        http: http.clone(),
        store: replica.clone(),
        leases: replica.clone(),
        lifeboat: Arc::new(MemoryLifeboat::default()),
        signals: replica.clone(),
        apps,
        meter: Arc::new(NoMeter),
    };
    let providers = Providers::new(vec![shopify.clone()]);
    Engine::new(ports, Settings::default(), providers, name.to_owned())
}

/// The part of JSON Schema that the tools use.
fn fits(place: &str, schema: &Value, value: &Value) {
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{place}: {value} is none of {allowed:?}");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().map(|one| one.as_str().unwrap()).collect(),
        _ => return,
    };
    let own = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(types.contains(&own), "{place}: {own} is none of {types:?}");
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        fits(&format!("{place}[{index}]"), &schema["items"], item);
    }
    if let Some(fields) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            assert!(fields.contains_key(name.as_str().unwrap()), "{place}: {name} is missing");
        }
        for (name, field) in fields {
            let property = &schema["properties"][name];
            assert!(property.is_object(), "{place}: {name} is not in the schema");
            fits(&format!("{place}.{name}"), property, field);
        }
    }
}

/// HTTP to the sandbox: no redirects, no proxy. What happens before the next mutation is a test's to say.
pub(crate) struct Wire {
    client: reqwest::Client,
    before_mutation: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    lose_next_mutation: Mutex<bool>,
}

impl Wire {
    fn new() -> Self {
        // Plain HTTP never uses it, but the client will not be built without one.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        Self {
            client: client.build().unwrap(),
            before_mutation: Mutex::default(),
            lose_next_mutation: Mutex::default(),
        }
    }

    /// Just before the next mutation reaches the shop.
    pub(crate) fn before_mutation(&self, act: impl FnOnce() + Send + 'static) {
        *self.before_mutation.lock().unwrap() = Some(Box::new(act));
    }

    /// The answer of the next mutation is lost on its way.
    pub(crate) fn lose_next_mutation(&self) {
        *self.lose_next_mutation.lock().unwrap() = true;
    }
}

#[async_trait]
impl Http for Wire {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpFailure> {
        let Body::Bytes(body) = request.body else { panic!("no tool streams a body") };
        let mutation = body.windows(9).any(|part| part == b"mutation ");
        if mutation && let Some(act) = self.before_mutation.lock().unwrap().take() {
            act();
        }
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
        if mutation && std::mem::take(&mut *self.lose_next_mutation.lock().unwrap()) {
            return Err(HttpFailure::after_send("the connection was cut".to_owned()));
        }
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
