//! A provider that sends, and a webhook that it sends to.

use holdfast_sandbox::{EventAttempt, EventOrder};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{service::TestApp, wait::until};

/// The webhook of a connector.
pub struct Hook {
    /// Of which connector.
    pub connector: String,
    /// What the sandbox calls the provider that sends there.
    pub provider: &'static str,
    /// Where to.
    pub url: String,
    /// What proves it.
    pub secret: String,
    /// The account that it names.
    pub account: String,
}

impl Hook {
    /// An order for an event to it.
    pub fn event(&self, id: &str) -> EventOrder {
        EventOrder {
            provider: self.provider.to_owned(),
            url: self.url.clone(),
            secret: self.secret.clone(),
            account: self.account.clone(),
            subject: "42".to_owned(),
            id: id.to_owned(),
            once: true,
            ..EventOrder::default()
        }
    }

    /// The same without a proof.
    pub fn unsigned(&self) -> EventOrder {
        EventOrder { secret: String::new(), ..self.event("") }
    }
}

impl TestApp {
    /// A connector of this provider that is connected, by import; its id.
    ///
    /// # Panics
    /// When that fails.
    pub async fn import_of(&self, provider: &str, account: &str) -> String {
        let credential = match provider {
            "freshdesk" => json!({ "api_key": "sandbox-key" }),
            _ => json!({ "access_token": "a", "refresh_token": "r", "expires_in": 86_400 }),
        };
        let body = json!({ "provider": provider, "account": account, "credential": credential });
        self.post("/connectors", body).await.expect(201).text_of("id")
    }

    /// A webhook for a connector, with this body; its secret is the one in it, or the one that is made.
    ///
    /// # Panics
    /// When it is not made.
    pub async fn hook(&self, connector: &str, provider: &'static str, account: &str, body: Value) -> Hook {
        let made = self.post(&format!("/connectors/{connector}/webhook"), body.clone()).await;
        assert!(matches!(made.status, 200 | 201), "{}", made.text);
        let secret = made.json["secret"].as_str().or(body["secret"].as_str()).unwrap_or_default().to_owned();
        let (connector, account) = (connector.to_owned(), account.to_owned());
        Hook { connector, provider, url: made.text_of("url"), secret, account }
    }

    /// A Zendesk connector with its webhook.
    pub async fn zendesk_hook(&self, account: &str) -> Hook {
        let connector = self.import(account).await;
        self.hook(&connector, "zendesk", account, json!({ "secret": "zendesk-signing-secret" })).await
    }

    /// Lets the provider send; every attempt.
    ///
    /// # Panics
    /// When the order makes no sense.
    pub async fn send(&self, order: &EventOrder) -> Vec<EventAttempt> {
        self.sandbox.send_event(order).await.expect("the order makes sense")
    }

    /// The same, and what was answered at last.
    ///
    /// # Panics
    /// When nothing was.
    pub async fn sent(&self, order: &EventOrder) -> u16 {
        self.send(order).await.last().expect("it was sent").status
    }

    /// The deliveries of a connector, newest first.
    ///
    /// # Panics
    /// When the answer is no list.
    pub async fn deliveries(&self, connector: &str) -> Vec<Value> {
        let look = async || {
            let answer = self.get(&format!("/deliveries?connector={connector}")).await.expect(200);
            answer.json["data"].as_array().expect("a list").clone()
        };
        until("the queue has done its part", look, |all| all.iter().all(|one| one["state"] != "received")).await
    }

    /// One delivery with all that a key for jobs sees.
    pub async fn delivery(&self, id: &str) -> Value {
        let key = self.key_with(&["jobs"]).await;
        self.call(Method::GET, &format!("/deliveries/{id}"), Some(&key), None).await.expect(200).json
    }

    /// What was turned away is written down now; the webhook as the API shows it.
    ///
    /// # Panics
    /// When there is none.
    pub async fn webhook(&self, connector: &str) -> Value {
        holdfast_app::hooks::round(&self.app).await;
        let answer = self.get(&format!("/connectors/{connector}/webhook")).await.expect(200);
        answer.json["data"].as_array().and_then(|all| all.first()).expect("there is one").clone()
    }
}
