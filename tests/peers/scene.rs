//! Two replicas on one PostgreSQL, and a peer behind a relay.

use std::collections::BTreeSet;

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET};
use holdfast_tests::{
    chromium::Chromium,
    cluster::{Cluster, ORG, storm},
    process::{Answer, Replica, answer},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    peer::{Kind, PERSON, Peer},
    relay::Relay,
};

/// A lost owner's time is over soon, and a refusal is confirmed soon.
const SHORT: [(&str, &str); 6] = [
    ("refresh.lease_secs", "6"),
    ("refresh.exchange_timeout_secs", "5"),
    ("refresh.lease_slack_secs", "0.5"),
    ("refresh.orphan_wait_secs", "1"),
    ("refresh.confirm_pause_secs", "0.5"),
    ("refresh.wait_bound_secs", "5"),
];

pub(crate) struct Scene {
    /// The provider.
    pub peer: Peer,
    /// On the way to it.
    pub relay: Relay,
    /// Where browsers go.
    pub one: Replica,
    /// Where API calls go, unless a test says otherwise.
    pub two: Replica,
    /// With every scope that these tests need.
    key: String,
    /// Where browsers reach the service.
    public: String,
    http: reqwest::Client,
    _cluster: Cluster,
}

impl Scene {
    pub(crate) async fn set(kind: &'static Kind) -> Self {
        let cluster = Cluster::start().await;
        // The peer has to know the way back before anything listens there.
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = port.expect("a port is free").port();
        // A browser takes the peer, at 127.0.0.1, for another site.
        let public = format!("http://localhost:{port}");
        let peer = Peer::start(kind, &format!("{public}/oauth/callback")).await;
        let relay = Relay::to(peer.address, kind.token_path).await;
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
        let of = |section: &str, key: &str| format!("{section}.{}.{key}", kind.id);
        let grace = kind.grace.as_secs().to_string();
        let set = |name| {
            let mut setup = cluster.replica(name).with_all(&SHORT).with("public_url", &public);
            setup = setup.with("providers.dir", folder);
            setup = setup.with(&of("oauth_apps", "client_id"), CLIENT_ID);
            setup = setup.with(&of("oauth_apps", "client_secret"), CLIENT_SECRET);
            setup = setup.with(&of("providers", "base_url_override"), &relay.url());
            if kind.grace.is_zero() { setup } else { setup.with(&of("providers", "reuse_grace_secs"), &grace) }
        };
        let one = set("one").with("listen", &format!("127.0.0.1:{port}"));
        let (one, two) = tokio::join!(one.start(), set("two").start());
        let scopes = "connectors:read,connectors:write,tokens:read,proxy,agents";
        let made = cluster.run(&["key", "create", "--org", ORG, "--name", "peers", "--scope", scopes]).await;
        let key = made["key"].as_str().expect("it is shown once").to_owned();
        Self { peer, relay, one, two, key, public, http: holdfast_tests::process::client(), _cluster: cluster }
    }

    /// A call of the API with the key of these tests.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let request = self.http.request(method, format!("{}/api/v1{path}", self.two.url())).bearer_auth(&self.key);
        answer(if let Some(body) = body { request.json(&body) } else { request }).await
    }

    /// A POST, which has to end so; what it brings.
    pub(crate) async fn done(&self, status: u16, path: &str, body: Value) -> Value {
        let answer = self.call(Method::POST, path, Some(body)).await;
        assert_eq!(answer.status, status, "{answer:?}");
        answer.body
    }

    /// A connector that somebody has connected in a browser; its id.
    pub(crate) async fn connect(&self) -> String {
        let body = json!({ "provider": self.peer.kind.id, "account": PERSON });
        let made = self.done(201, "/connect-sessions", body).await;
        let text = |field: &str| made[field].as_str().expect("it is there").to_owned();
        self.consent(&text("url")).await;
        text("connector_id")
    }

    /// Goes through the consent behind a connect link, in a browser of its own.
    pub(crate) async fn consent(&self, link: &str) {
        let visitor = Chromium::visitor(&[&self.public, &self.relay.url()]);
        visitor
            .run(async |chromium| {
                chromium.open(link).await;
                chromium.press(&format!("Continue to {}", self.peer.kind.name)).await;
                self.peer.sign_in_and_allow(chromium).await;
                chromium.heading("Connected").await;
                chromium.shows(&format!("{PERSON} is connected")).await;
            })
            .await;
    }

    /// What the provider's test call says.
    pub(crate) async fn test(&self, id: &str) -> Value {
        self.done(200, &format!("/connectors/{id}/test"), json!({})).await
    }

    /// Health and its reason, which both replicas say.
    pub(crate) async fn health(&self, id: &str) -> (String, String) {
        let (one, two) = tokio::join!(self.one.show(id), self.two.show(id));
        let of = |shown: &Value| {
            let text = |field: &str| shown[field].as_str().unwrap_or_default().to_owned();
            (text("health"), text("health_reason"))
        };
        assert_eq!(of(&one), of(&two));
        of(&one)
    }

    /// Waits until the connector's access token is over at the peer; answers that token. The relay's record begins here.
    pub(crate) async fn expire(&self, id: &str) -> String {
        let token = self.one.token(id).await.access_token().to_owned();
        self.peer.is_over(&token).await;
        self.relay.forget();
        token
    }

    /// A hundred callers on both replicas get one token, which the peer takes.
    pub(crate) async fn storm(&self, id: &str) -> String {
        let answers = storm(&[&self.one, &self.two], id, 100).await;
        let tokens: BTreeSet<_> = answers.iter().map(Answer::access_token).collect();
        assert_eq!(tokens.len(), 1, "{answers:?}");
        let token = answers[0].access_token().to_owned();
        assert!(self.peer.accepts(&token).await);
        token
    }
}
