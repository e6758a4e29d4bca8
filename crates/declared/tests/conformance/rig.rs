//! An engine over real HTTP to a sandbox, for one shipped file.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use holdfast_core::{
    ApiClient, Auth, ConnectorId, Engine, OAuth2, Provider, Providers, Secret, TokenSet,
    exchange::{AuthorizeUrl, Grant, Outcome, authorize_url, merge},
    ports::{Body, Clock, Http, HttpFailure, HttpRequest, HttpResponse, OAuthApp},
    provider::{Account, CallbackRefused},
    refresh::{Ports, Settings},
    testkit::{ManualClock, MemoryLifeboat, MemoryStore, NoMeter, OneApp, SeededRandom},
};
use holdfast_declared::{Declared, SHIPPED};
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GenericRig, Sandbox};
use secrecy::SecretString;
use url::Url;

const REDIRECT_URI: &str = "http://127.0.0.1:8080/oauth/callback";
const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters-0123456789";

pub(crate) struct Rig {
    pub(crate) sandbox: Sandbox,
    pub(crate) there: GenericRig,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) provider: Arc<Declared>,
    pub(crate) account: Account,
    pub(crate) engine: Arc<Engine>,
    pub(crate) app: OAuthApp,
}

impl Rig {
    /// The shipped file of this id, and the account of its example.
    pub(crate) async fn start(id: &str) -> Self {
        let sandbox = Sandbox::builder().start().await.unwrap();
        let (name, text) = SHIPPED.iter().find(|(name, _)| name.ends_with(&format!("/{id}.toml"))).unwrap();
        let provider = Declared::read(name, text).unwrap().with_base(&sandbox.generic_override()).unwrap();
        let provider = Arc::new(provider);
        let account = provider.account(provider.about().account_example).unwrap();
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
        let providers = Providers::new(vec![provider.clone()]);
        let engine = Engine::new(ports, Settings::default(), providers, "one".to_owned());
        Self { there: sandbox.generic(), sandbox, clock, store, provider, account, engine, app }
    }

    pub(crate) fn facts(&self) -> OAuth2 {
        let Auth::OAuth2(facts) = self.provider.auth(&self.account) else { panic!("it is OAuth") };
        *facts
    }

    /// Consent as `who`: the code that the browser brings back, once the callback is checked as the service checks it.
    pub(crate) fn consent(&self, who: &str) -> Result<SecretString, CallbackRefused> {
        let (facts, verifier) = (self.facts(), SecretString::from(VERIFIER));
        let parts = AuthorizeUrl {
            client_id: CLIENT_ID,
            redirect_uri: REDIRECT_URI,
            state: "state",
            verifier: facts.pkce.then_some(&verifier),
        };
        let back = self.sandbox.consent(authorize_url(&facts, &parts).as_str(), who).unwrap();
        let query: Vec<(String, String)> = Url::parse(&back).unwrap().query_pairs().into_owned().collect();
        self.provider.check_callback(&self.account, &query, &[])?;
        Ok(SecretString::from(query.iter().find(|(name, _)| name == "code").unwrap().1.clone()))
    }

    pub(crate) async fn redeem(&self, code: &SecretString) -> Outcome {
        let (facts, verifier) = (self.facts(), SecretString::from(VERIFIER));
        let verifier = facts.pkce.then_some(&verifier);
        let grant = Grant::Code { code, redirect_uri: REDIRECT_URI, verifier };
        self.engine.redeem(self.provider.as_ref(), &facts, &self.app, &grant).await
    }

    pub(crate) async fn refresh(&self, token: &SecretString) -> Outcome {
        self.engine.redeem(self.provider.as_ref(), &self.facts(), &self.app, &Grant::Refresh(token)).await
    }

    /// The token set of a consent as `who`.
    pub(crate) async fn token_set(&self, who: &str) -> TokenSet {
        let code = self.consent(who).unwrap();
        match self.redeem(&code).await {
            Outcome::Rotated(answer) => merge(&self.facts(), None, &answer, self.clock.now()),
            other => panic!("the code was not exchanged: {other:?}"),
        }
    }

    /// A connector as a consent leaves it: with what was found.
    pub(crate) async fn connect(&self) -> (ConnectorId, TokenSet) {
        let tokens = self.token_set("ada").await;
        let found = self.provider.find(&self.api_with(Secret::Tokens(tokens.clone()))).await.unwrap();
        let base_url = found.base_url.or_else(|| tokens.base_url.clone());
        let tokens = TokenSet { base_url, found: found.values, ..tokens };
        let pair = (String::from("unused"), String::from("unused"));
        let connector = self.store.connect("con", &pair, Duration::ZERO);
        let kept = tokens.clone();
        self.store.change(&connector, |row| {
            self.provider.about().id.clone_into(&mut row.provider);
            self.account.id.clone_into(&mut row.account);
            row.credential.secret = Secret::Tokens(kept);
        });
        (connector, tokens)
    }

    /// Through the engine.
    pub(crate) fn api(&self, connector: &ConnectorId) -> ApiClient {
        ApiClient::new(&self.engine, &self.store.row(connector)).unwrap()
    }

    /// With this very credential.
    pub(crate) fn api_with(&self, secret: Secret) -> ApiClient {
        ApiClient::with(&self.engine, self.provider.about().id, &self.account.id, secret).unwrap()
    }

    /// Both clocks.
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.sandbox.advance(by);
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
        let Body::Bytes(body) = request.body else { panic!("nothing streams a body") };
        let mut url = request.url;
        if let Some(exact) = &request.exact {
            url.set_path(exact.path());
            url.set_query(exact.query());
        }
        let sent = self.0.request(request.method, url).headers(request.headers).body(body).timeout(request.timeout);
        let answer = sent.send().await.map_err(|error| {
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
