//! An engine over real HTTP to a sandbox, and a connector that has gone the whole way from consent to token set.

use std::{collections::VecDeque, sync::Arc, sync::Mutex, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use holdfast_core::{
    ApiClient, Auth, ConnectorId, Engine, Error, OAuth2, Provider, Providers, Secret, TokenSet,
    exchange::{AuthorizeUrl, Grant, Outcome, authorize_url, merge},
    ports::{Body, Clock, Http, HttpFailure, HttpRequest, HttpResponse, OAuthApp},
    refresh::{Ports, Settings},
    schema,
    testkit::{ManualClock, MemoryLifeboat, MemoryStore, NoMeter, OneApp, SeededRandom},
    tool::{Tool, ToolCall},
};
use holdfast_sandbox::{Builder, CLIENT_ID, CLIENT_SECRET, GrantRequest, Helpdesk, Sandbox};
use holdfast_zendesk::Zendesk;
use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;

const REDIRECT_URI: &str = "http://127.0.0.1:8080/oauth/callback";

pub(crate) struct Rig {
    pub(crate) sandbox: Sandbox,
    pub(crate) acme: Helpdesk,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) zendesk: Arc<Zendesk>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) http: Arc<Wire>,
    pub(crate) app: OAuthApp,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(Sandbox::builder(), |zendesk| zendesk).await
    }

    pub(crate) async fn with(builder: Builder, set: impl FnOnce(Zendesk) -> Zendesk) -> Self {
        let sandbox = builder.start().await.unwrap();
        let acme = sandbox.helpdesk("acme").unwrap();
        let zendesk = Arc::new(set(Zendesk::with_base(&sandbox.zendesk_override()).unwrap()));
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
        let providers = Providers::new(vec![zendesk.clone()]);
        let engine = Engine::new(ports, Settings::default(), providers, "one".to_owned());
        Self { sandbox, acme, clock, store, zendesk, engine, http, app }
    }

    pub(crate) fn facts(&self) -> OAuth2 {
        let Auth::OAuth2(facts) = self.zendesk.auth(&self.zendesk.account("acme").unwrap()) else {
            panic!("Zendesk has OAuth")
        };
        *facts
    }

    /// Consent as `user`, and the exchange of the code that comes back.
    pub(crate) async fn redeem(&self, user: &str) -> Outcome {
        let facts = self.facts();
        let verifier = SecretString::from("a-verifier-of-at-least-forty-three-characters-0123456789");
        let parts = AuthorizeUrl {
            client_id: CLIENT_ID,
            redirect_uri: REDIRECT_URI,
            state: "state",
            verifier: Some(&verifier),
        };
        let back = self.sandbox.consent(authorize_url(&facts, &parts).as_str(), user).unwrap();
        let back = Url::parse(&back).unwrap();
        let code = back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        let code = SecretString::from(code);
        let grant = Grant::Code { code: &code, redirect_uri: REDIRECT_URI, verifier: Some(&verifier) };
        self.engine.redeem(self.zendesk.as_ref(), &facts, &self.app, &grant).await
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
            "zendesk".clone_into(&mut row.provider);
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
        let request =
            GrantRequest { user: Some(user.to_owned()), scope: Some(scope.to_owned()), ..GrantRequest::default() };
        let granted = self.acme.grant(&request).unwrap();
        self.api_with(&granted.access_token)
    }

    pub(crate) fn api_with(&self, access_token: &str) -> ApiClient {
        let secret = Secret::ApiKey(SecretString::from(access_token.to_owned()));
        ApiClient::with(&self.engine, "zendesk", "acme", secret).unwrap()
    }

    /// Calls a tool, and holds its answer to its schema.
    pub(crate) async fn call(&self, api: &ApiClient, tool: &str, arguments: Value) -> Result<Value, Error> {
        self.call_with(api, tool, arguments, None).await
    }

    /// The same under an idempotency key.
    pub(crate) async fn call_with(
        &self,
        api: &ApiClient,
        tool: &str,
        arguments: Value,
        key: Option<&str>,
    ) -> Result<Value, Error> {
        let call = ToolCall { tool: tool.to_owned(), arguments, idempotency_key: key.map(str::to_owned) };
        let output = self.zendesk.call(api, &call).await?.0;
        let schema = serde_json::from_str(self.tool(tool).output_schema).unwrap();
        assert_eq!(schema::check(&schema, &output, &|_| false), Ok(()), "{tool}: {output}");
        Ok(output)
    }

    pub(crate) fn tool(&self, name: &str) -> &'static Tool {
        self.zendesk.about().tools.iter().find(|known| known.name == name).unwrap()
    }
}

/// HTTP to the sandbox: no redirects, no proxy. Somebody else may be faster than the next PUT.
pub(crate) struct Wire {
    client: reqwest::Client,
    faster: Mutex<VecDeque<Faster>>,
}

/// A change that reaches the sandbox just before the next PUT does.
struct Faster {
    url: String,
    token: String,
    ticket: Value,
}

impl Wire {
    fn new() -> Self {
        // Plain HTTP never uses it, but the client will not be built without one.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        Self { client: client.build().unwrap(), faster: Mutex::default() }
    }

    /// Each of the next `times` PUTs finds the ticket changed.
    pub(crate) fn somebody_is_faster(&self, desk: &Helpdesk, ticket: i64, times: usize) {
        let granted = desk.grant(&GrantRequest { user: Some("gus".to_owned()), ..GrantRequest::default() }).unwrap();
        for number in 0..times {
            self.faster.lock().unwrap().push_back(Faster {
                url: format!("{}/api/v2/tickets/{ticket}.json", desk.url()),
                token: granted.access_token.clone(),
                ticket: json!({"ticket": {"tags": ["theirs", format!("theirs_{number}")]}}),
            });
        }
    }
}

#[async_trait]
impl Http for Wire {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpFailure> {
        if request.method == http::Method::PUT {
            let faster = self.faster.lock().unwrap().pop_front();
            if let Some(Faster { url, token, ticket }) = faster {
                let answer = self.client.put(url).bearer_auth(token).json(&ticket).send().await.unwrap();
                assert!(answer.status().is_success());
            }
        }
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
