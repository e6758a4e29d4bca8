//! A small client, and a sandbox to talk to.

#![expect(clippy::unwrap_used, reason = "helpers of tests: clippy only knows functions marked as tests")]

use holdfast_sandbox::{Builder, CLIENT_ID, CLIENT_SECRET, Helpdesk, Sandbox, pkce_challenge};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use url::Url;

pub(crate) const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters-0123456789";
pub(crate) const REDIRECT_URI: &str = "http://127.0.0.1:8080/oauth/callback";

pub(crate) struct Fixture {
    pub(crate) sandbox: Sandbox,
    pub(crate) acme: Helpdesk,
    pub(crate) http: Client,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::with(Sandbox::builder()).await
    }

    pub(crate) async fn with(builder: Builder) -> Self {
        // Plain HTTP never uses it, but the client will not be built without one.
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let sandbox = builder.start().await.unwrap();
        let acme = sandbox.helpdesk("acme").unwrap();
        Self { sandbox, acme, http }
    }

    pub(crate) fn authorize_url(&self, change: &[(&str, &str)]) -> String {
        let challenge = pkce_challenge(VERIFIER);
        let mut params = vec![
            ("response_type", "code"),
            ("client_id", CLIENT_ID),
            ("redirect_uri", REDIRECT_URI),
            ("scope", "read write"),
            ("state", "s&t=1"),
            ("code_challenge", challenge.as_str()),
            ("code_challenge_method", "S256"),
        ];
        for (name, value) in change {
            params.retain(|(known, _)| known != name);
            if !value.is_empty() {
                params.push((name, value));
            }
        }
        let base = format!("{}/oauth/authorizations/new", self.acme.url());
        Url::parse_with_params(&base, params).unwrap().into()
    }

    pub(crate) fn code(&self) -> String {
        let back = self.sandbox.consent(&self.authorize_url(&[]), "ada").unwrap();
        param(&back, "code").unwrap()
    }

    pub(crate) async fn token(&self, fields: Value) -> reqwest::Result<Response> {
        let mut body = json!({"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        self.http.post(format!("{}/oauth/tokens", self.acme.url())).json(&body).send().await
    }

    pub(crate) async fn exchange(&self, code: &str) -> Response {
        self.token(json!({
            "grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI,
            "code_verifier": VERIFIER, "scope": "read write", "expires_in": 1800,
            "refresh_token_expires_in": 7_776_000,
        }))
        .await
        .unwrap()
    }

    pub(crate) async fn refresh(&self, refresh_token: &str) -> reqwest::Result<Response> {
        self.token(json!({
            "grant_type": "refresh_token", "refresh_token": refresh_token, "expires_in": 1800,
            "refresh_token_expires_in": 7_776_000,
        }))
        .await
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> Response {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}/api/v2/{path}", self.acme.url()) };
        self.http.get(url).bearer_auth(token).send().await.unwrap()
    }

    pub(crate) async fn get_json(&self, path: &str, token: &str) -> Value {
        let response = self.get(path, token).await;
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    pub(crate) async fn put(&self, path: &str, token: &str, body: Value) -> Response {
        self.http.put(format!("{}/api/v2/{path}", self.acme.url())).bearer_auth(token).json(&body).send().await.unwrap()
    }

    pub(crate) async fn control(&self, path: &str, body: Value) -> Value {
        let url = format!("{}/control/{path}", self.sandbox.url());
        let response = self.http.post(url).json(&body).send().await.unwrap();
        assert!(response.status().is_success(), "{path}");
        let text = response.text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_default()
    }
}

pub(crate) fn param(url: &str, name: &str) -> Option<String> {
    Url::parse(url).unwrap().query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

pub(crate) async fn error_of(response: Response, status: u16) -> String {
    assert_eq!(response.status(), status);
    let body: Value = response.json().await.unwrap();
    body["error"].as_str().unwrap().to_owned()
}
