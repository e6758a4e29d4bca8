//! The service in this process: a real port, a real database, a sandbox Zendesk, and a clock in the test's hand.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use holdfast_app::{
    App, Config, Seams,
    admin::{self, Ask},
    config::{OAuthAppConfig, PrivateHost, ProviderConfig},
    mail, registry,
    seams::{Guard, GuardedHttp, OsRandom},
    serve,
};
use holdfast_core::{OrgId, Provider, Providers, ports::Http, testkit::ManualClock};
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GrantRequest, Helpdesk, Sandbox};
use reqwest::{Client, Method, header::HeaderMap};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    browser::{Browser, Page, http},
    database::Database,
};

/// All scopes that a key can have here.
pub const EVERYTHING: [&str; 8] =
    ["connectors:read", "connectors:write", "tokens:read", "proxy", "tools", "agents", "jobs", "audit:read"];
/// The sandbox's access tokens live this long, and a little more is enough for them to be over.
pub const LIFE: Duration = Duration::from_mins(31);

/// A sandbox that lets tokens live as short as a test likes.
pub async fn sandbox() -> Arc<Sandbox> {
    let built = Sandbox::builder()
        .with(|options| options.min_expires_in = 1)
        .redirect_uri("https://hub.example.test/oauth/callback")
        .start()
        .await;
    Arc::new(built.expect("the sandbox starts"))
}

/// One replica. It stops when it is dropped.
pub struct TestApp {
    /// The service itself, for a look behind the API.
    pub app: Arc<App>,
    /// Where it is called, without a slash at the end.
    pub base: String,
    /// The provider.
    pub sandbox: Arc<Sandbox>,
    /// Its helpdesk `acme`.
    pub acme: Helpdesk,
    /// The service's time.
    pub clock: Arc<ManualClock>,
    /// The organisation `Acme`.
    pub org: OrgId,
    /// An API key with every scope.
    pub key: String,
    http: Client,
    seen: Mutex<Vec<u8>>,
    stop: CancellationToken,
}

/// How a replica starts.
pub struct Builder {
    host: &'static str,
    sandbox: Option<Arc<Sandbox>>,
    elsewhere: Option<String>,
    clock: Arc<ManualClock>,
    config: Config,
    adapt: Option<Adapt>,
    line: Option<Line>,
}

/// Puts another line around the one to the providers.
type Line = Box<dyn FnOnce(Arc<dyn Http>) -> Arc<dyn Http> + Send>;

/// Puts another adapter around one of ours.
type Adapt = Box<dyn FnOnce(Arc<dyn Provider>) -> Arc<dyn Provider> + Send>;

/// An answer of the API.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body as text.
    pub text: String,
    /// The body; null when it is no JSON.
    pub json: Value,
}

impl Answer {
    /// The stable word of a problem.
    pub fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    /// One header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body's field as text.
    ///
    /// # Panics
    /// When there is none.
    pub fn text_of(&self, field: &str) -> String {
        let found = self.json[field].as_str();
        found.unwrap_or_else(|| panic!("no {field} in {} {}", self.status, self.text)).to_owned()
    }

    /// Itself, if the status is this.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Itself, if it is a problem of this status and code, complete and readable.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    pub fn problem(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code()), (status, code), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
        assert_eq!(self.json["status"], status, "{}", self.text);
        assert_eq!(self.json["type"], format!("/problems/{code}"), "{}", self.text);
        assert!(self.json["title"].is_string() && self.json["detail"].is_string(), "{}", self.text);
        self
    }
}

impl Builder {
    /// With this provider, and its clock, instead of a new one.
    #[must_use]
    pub fn beside(mut self, other: &TestApp) -> Self {
        self.sandbox = Some(Arc::clone(&other.sandbox));
        self.clock = Arc::clone(&other.clock);
        self
    }

    /// With the provider's accounts at this address instead of the sandbox's.
    #[must_use]
    pub fn at(mut self, base_url_override: impl Into<String>) -> Self {
        self.elsewhere = Some(base_url_override.into());
        self
    }

    /// Changes settings.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Called by the name `localhost`. A browser takes the sandbox, at 127.0.0.1, for another site then, as providers are.
    #[must_use]
    pub fn at_localhost(mut self) -> Self {
        self.host = "localhost";
        self
    }

    /// Puts another adapter around the one for Zendesk.
    #[must_use]
    pub fn adapted(mut self, adapt: impl FnOnce(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + 'static) -> Self {
        self.adapt = Some(Box::new(adapt));
        self
    }

    /// Puts another line around the one to the providers.
    #[must_use]
    pub fn line(mut self, around: impl FnOnce(Arc<dyn Http>) -> Arc<dyn Http> + Send + 'static) -> Self {
        self.line = Some(Box::new(around));
        self
    }

    /// Binds, builds and serves.
    ///
    /// # Panics
    /// When something of it fails.
    pub async fn start(self) -> TestApp {
        // All settings are in it: boxed, it weighs nothing in the tests' own futures.
        Box::pin(self.begin()).await
    }

    async fn begin(mut self) -> TestApp {
        let sandbox = match self.sandbox {
            Some(sandbox) => sandbox,
            None => sandbox().await,
        };
        let listener = serve::listen(([127, 0, 0, 1], 0).into(), "another port").await.expect("a free port is found");
        self.config.listen = listener.local_addr().expect("it is bound");
        let zendesk = self.config.providers.by_id.entry("zendesk".to_owned()).or_default();
        zendesk.base_url_override = Some(self.elsewhere.unwrap_or_else(|| sandbox.zendesk_override()));
        for (provider, place) in [
            ("freshdesk", sandbox.freshdesk_override()),
            ("front", sandbox.front_override()),
            ("google", sandbox.google_override()),
            ("gorgias", sandbox.gorgias_override()),
            ("pipedrive", sandbox.pipedrive_override()),
            ("shopify", sandbox.shopify_override()),
        ] {
            let settings = self.config.providers.by_id.entry(provider.to_owned()).or_default();
            settings.base_url_override.get_or_insert(place);
        }
        for described in holdfast_declared::shipped() {
            let settings = self.config.providers.by_id.entry(described.about().id.to_owned()).or_default();
            settings.base_url_override.get_or_insert_with(|| sandbox.generic_override());
        }
        let guard = Guard::new(&self.config.network.allow_private_hosts);
        let client = GuardedHttp::new(guard, Duration::from_secs(2)).expect("the client can be built");
        let client: Arc<dyn Http> = Arc::new(client);
        let client = match self.line {
            Some(around) => around(client),
            None => client,
        };
        let mail = mail::transport(&self.config).expect("the mail server's settings are right");
        let guard = Guard::new(&self.config.events.allow_private_hosts);
        let endpoints = GuardedHttp::new(guard, Duration::from_secs(2)).expect("the client can be built");
        let seams = Seams {
            clock: self.clock.clone() as _,
            random: Arc::new(OsRandom),
            http: client,
            endpoints: Arc::new(endpoints),
            mail,
        };
        let base = format!("http://{}:{}", self.host, self.config.listen.port());
        self.config.public_url_setting.get_or_insert_with(|| base.parse().expect("it is a URL"));
        let mut providers = registry::providers(&self.config).expect("the settings are right");
        if let Some(adapt) = self.adapt {
            let zendesk = providers.find("zendesk").expect("it is one of ours");
            providers = Providers::new(vec![adapt(Arc::clone(zendesk))]);
        }
        let built = App::build_with(self.config, seams, providers).await;
        let (app, lock) = built.expect("the service can be built");
        let org = app.store.ensure_org("Acme").await.expect("an organisation can be made");
        let key = make_key(&app, "Acme", &EVERYTHING).await;
        let stop = CancellationToken::new();
        tokio::spawn(serve::serve(Arc::clone(&app), lock, listener, stop.clone().cancelled_owned()));
        let acme = sandbox.helpdesk("acme").expect("it exists from the start");
        let started = TestApp {
            app,
            base,
            sandbox,
            acme,
            clock: self.clock,
            org,
            key,
            http: http(),
            seen: Mutex::default(),
            stop,
        };
        // On PostgreSQL memory counts only once signals are known to arrive.
        crate::wait::until("it is ready", async || started.plain("/readyz").await.0, |status| *status == 200).await;
        started
    }
}

impl TestApp {
    /// With the settings of these tests: nothing runs by itself, and a refusal is confirmed soon.
    pub fn builder(db: &Arc<Database>) -> Builder {
        let mut config = Config::default();
        config.database.url = db.url.clone().into();
        config.database.max_connections = 5;
        config.master_key = Some(db.master_key.clone());
        config.lifeboat.dir = Some(db.path("lifeboat"));
        config.network.allow_private_hosts = vec![PrivateHost::Loopback];
        config.events.allow_private_hosts = vec![PrivateHost::Loopback];
        config.refresh.confirm_pause = Duration::from_millis(20);
        // The scheduler is for the tests that want it: the clock is moved by less.
        config.refresh.loop_interval = Duration::from_hours(24 * 365);
        config.refresh.catch_up = Duration::ZERO;
        // Agents run when a test says so.
        config.agents.at_once = 0;
        // Webhooks are made where a test wants them.
        config.webhooks.make_on_connect = false;
        // So are mirrors.
        config.sync.enabled = false;
        config.mail.loop_interval = Duration::from_hours(24 * 365);
        config.oauth_apps.insert("zendesk".to_owned(), oauth_app());
        config.providers.by_id.insert("zendesk".to_owned(), ProviderConfig::default());
        Builder {
            host: "127.0.0.1",
            sandbox: None,
            elsewhere: None,
            clock: Arc::new(ManualClock::new()),
            config,
            adapt: None,
            line: None,
        }
    }

    /// One replica with its own sandbox.
    pub async fn start(db: &Arc<Database>) -> Self {
        Self::builder(db).start().await
    }

    /// Moves everybody's time.
    pub fn advance(&self, by: Duration) {
        self.sandbox.advance(by);
        self.clock.advance(by);
    }

    /// A key of the organisation `Acme` with these scopes.
    pub async fn key_with(&self, scopes: &[&str]) -> String {
        make_key(&self.app, "Acme", scopes).await
    }

    /// A key with every scope but `admin` of another organisation, made when it is new.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn key_of(&self, org: &str) -> String {
        self.key_of_with(org, &EVERYTHING).await
    }

    /// The same with these scopes.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn key_of_with(&self, org: &str, scopes: &[&str]) -> String {
        self.app.store.ensure_org(org).await.expect("an organisation can be made");
        make_key(&self.app, org, scopes).await
    }

    /// GET with the usual key.
    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, Some(&self.key), None).await
    }

    /// POST with the usual key.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, Some(&self.key), Some(body)).await
    }

    /// Any call below `/api/v1`.
    pub async fn call(&self, method: Method, path: &str, key: Option<&str>, body: Option<Value>) -> Answer {
        let headers = if body.is_some() { &[("content-type", "application/json")][..] } else { &[] };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.raw(method, &format!("/api/v1{path}"), key, headers, body).await
    }

    /// Any call, spelled out.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn raw(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).body(body);
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.expect("the service answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("the body arrives");
        let json = serde_json::from_str(&text).unwrap_or_default();
        self.seen.lock().expect("no panic happens while it is held").extend_from_slice(text.as_bytes());
        Answer { status, headers, text, json }
    }

    /// Status and body of what is no API: `/metrics`, `/healthz`.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn plain(&self, path: &str) -> (u16, String) {
        let response = self.http.get(format!("{}{path}", self.base)).send().await.expect("the service answers");
        (response.status().as_u16(), response.text().await.expect("the body arrives"))
    }

    /// A connector that was imported with a grant of the sandbox; its id.
    ///
    /// # Panics
    /// When that fails.
    pub async fn import(&self, account: &str) -> String {
        self.import_with(account, json!({})).await
    }

    /// The same with more in the body: `name`, `alias`.
    ///
    /// # Panics
    /// When that fails.
    pub async fn import_with(&self, account: &str, more: Value) -> String {
        let mut body = self.import_body(account);
        if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
            body.extend(more);
        }
        self.post("/connectors", body).await.expect(201).text_of("id")
    }

    /// The body of such an import, with a new grant.
    ///
    /// # Panics
    /// When there is no such helpdesk.
    pub fn import_body(&self, account: &str) -> Value {
        let desk = self.sandbox.create_helpdesk(account).expect("the account is a DNS label");
        import_body(&desk)
    }

    /// A connect link: its URL and the connector's id.
    pub async fn link(&self, account: &str) -> (String, String) {
        let made =
            self.post("/connect-sessions", json!({ "provider": "zendesk", "account": account })).await.expect(201);
        (made.text_of("url"), made.text_of("connector_id"))
    }

    /// A link to reconnect.
    pub async fn reconnect_link(&self, id: &str) -> String {
        self.post(&format!("/connectors/{id}/reconnect"), json!({})).await.expect(200).text_of("url")
    }

    /// Goes through the consent of a link as Ada, up to the page at its end.
    pub async fn consent(&self, link: &str) -> Page {
        self.consent_as(&Browser::new(), link, "ada").await
    }

    /// The same with this browser and user.
    ///
    /// # Panics
    /// When the provider does not ask.
    pub async fn consent_as(&self, browser: &Browser, link: &str, user: &str) -> Page {
        let authorize = browser.post(link).await.location();
        let back = self.sandbox.consent(&authorize, user).expect("the provider asks for consent");
        browser.get(&back).await
    }

    /// A connector that was connected in a browser; its id.
    ///
    /// # Panics
    /// When that does not end well.
    pub async fn connect(&self, account: &str) -> String {
        let (link, id) = self.link(account).await;
        let page = self.consent(&link).await;
        assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
        id
    }

    /// A call through the proxy with the usual key.
    pub async fn proxy(&self, method: Method, id: &str, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        self.raw(method, &proxied(id, path), Some(&self.key), &[], body.into()).await
    }

    /// Its token call.
    pub async fn token(&self, id: &str) -> Answer {
        self.get(&format!("/connectors/{id}/token")).await
    }

    /// A provider as the API shows it.
    ///
    /// # Panics
    /// When it is not in the list.
    pub async fn provider(&self, id: &str) -> Value {
        let all = self.get("/providers").await.expect(200).json;
        let found = all["data"].as_array().into_iter().flatten().find(|provider| provider["id"] == id);
        found.expect("it is one of ours").clone()
    }

    /// The connector as the API shows it.
    pub async fn show(&self, id: &str) -> Value {
        self.get(&format!("/connectors/{id}")).await.expect(200).json
    }

    /// Its timeline, newest first.
    ///
    /// # Panics
    /// When the answer is no list.
    pub async fn timeline(&self, id: &str) -> Vec<Value> {
        let answer = self.get(&format!("/connectors/{id}/timeline?limit=200")).await.expect(200);
        answer.json["data"].as_array().expect("a list").clone()
    }

    /// Takes the provider's consent back, and asks until the service has noticed.
    pub async fn fail(&self, id: &str) {
        self.acme.revoke(None);
        self.advance(LIFE);
        let _told = self.token(id).await.problem(409, "connector_auth_failed");
    }

    /// All bodies that the API has answered so far.
    ///
    /// # Panics
    /// Never.
    pub fn seen(&self) -> Vec<u8> {
        self.seen.lock().expect("no panic happens while it is held").clone()
    }

    /// Begins to stop, as SIGTERM does.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The address of a provider's path in the proxy.
pub fn proxied(id: &str, path: &str) -> String {
    format!("/api/v1/connectors/{id}/proxy/{path}")
}

/// The body of an import with a new grant of this helpdesk.
///
/// # Panics
/// Never: Ada works in each of them.
pub fn import_body(desk: &Helpdesk) -> Value {
    let grant = desk.grant(&GrantRequest::default()).expect("Ada works there");
    json!({
        "provider": "zendesk",
        "account": desk.name(),
        "credential": {
            "access_token": grant.access_token,
            "refresh_token": grant.refresh_token,
            "expires_in": grant.expires_in,
            "scope": grant.scope,
        },
    })
}

/// The sandbox's OAuth app.
pub fn oauth_app() -> OAuthAppConfig {
    OAuthAppConfig {
        client_id: CLIENT_ID.to_owned(),
        client_secret: Some(CLIENT_SECRET.to_owned().into()),
        client_secret_file: None,
        next_client_secret: None,
        next_client_secret_file: None,
        client_secret_expires_at: None,
    }
}

async fn make_key(app: &Arc<App>, org: &str, scopes: &[&str]) -> String {
    let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
    let made = admin::run(app, Ask::KeyCreate { org: org.to_owned(), name: "test".to_owned(), scopes }).await;
    made.expect("a key can be made")["key"].as_str().expect("it is shown once").to_owned()
}
