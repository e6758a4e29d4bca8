//! One connector of every provider that has an adapter of its own, for what has to hold at each.

use std::sync::Arc;

use holdfast_core::ports::Http;
use serde_json::json;

use crate::{
    browser::Browser,
    database::Database,
    service::{Builder, TestApp, oauth_app},
    wire::Wire,
};

/// Those whose access a person consents to: the provider's id, an account, and somebody there who may.
pub const BY_CONSENT: [(&str, &str, &str); 6] = [
    ("zendesk", "acme", "ada"),
    ("front", "Acme", "ada"),
    ("google", "ada@example.com", "ada"),
    ("gorgias", "acme", "ada"),
    ("pipedrive", "acme", "ada"),
    ("shopify", "acme", "merchant"),
];

/// With the sandbox's OAuth app at each of them.
pub fn builder(db: &Arc<Database>) -> Builder {
    TestApp::builder(db).with(|config| {
        for (provider, ..) in BY_CONSENT {
            config.oauth_apps.insert(provider.to_owned(), oauth_app());
        }
    })
}

/// The same on a line that faults can be put on.
///
/// # Panics
/// When it does not start.
pub async fn start(db: &Arc<Database>) -> (TestApp, Wire) {
    let (given, taken) = std::sync::mpsc::channel();
    let around = move |inner| -> Arc<dyn Http> {
        let wire = Wire::around(inner);
        given.send(wire.clone()).expect("somebody waits for it");
        Arc::new(wire)
    };
    let app = builder(db).line(around).start().await;
    (app, taken.recv().expect("it was put there"))
}

/// A connect link of a provider and account: its URL and the connector's id.
pub async fn link(app: &TestApp, provider: &str, account: &str) -> (String, String) {
    let made = app.post("/connect-sessions", json!({ "provider": provider, "account": account })).await.expect(201);
    (made.text_of("url"), made.text_of("connector_id"))
}

/// A new connector of this provider; its id.
///
/// # Panics
/// When there is no such provider, or it does not connect.
pub async fn connect(app: &TestApp, provider: &str) -> String {
    if provider == "freshdesk" {
        let key = app.sandbox.freshdesk("acme").and_then(|desk| desk.api_key("ada")).expect("Ada works there");
        let body = json!({ "provider": "freshdesk", "account": "acme", "credential": { "api_key": key } });
        return app.post("/connectors", body).await.expect(201).text_of("id");
    }
    let known = BY_CONSENT.into_iter().find(|(id, ..)| *id == provider);
    let (_, account, who) = known.expect("it is one of ours");
    let (link, id) = link(app, provider, account).await;
    let page = app.consent_as(&Browser::new(), &link, who).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{provider}: {}", page.text);
    id
}
