//! The proxy, from a caller's socket to the provider's and back.

mod bodies;
mod guards;
mod passing;
mod trouble;

use holdfast_tests::service::{Answer, TestApp};
use serde_json::Value;

const ME: &str = "api/v2/users/me.json";

/// The provider's answer, and whose it is.
fn theirs(answer: Answer) -> Answer {
    assert_eq!(answer.header("x-holdfast-source"), "provider", "{} {}", answer.status, answer.text);
    answer
}

/// A problem of ours, and whose it is.
fn ours(answer: Answer, status: u16, code: &str) -> Answer {
    assert_eq!(answer.header("x-holdfast-source"), "holdfast", "{} {}", answer.status, answer.text);
    answer.problem(status, code)
}

/// One header of an echoed request.
fn sent<'a>(echo: &'a Value, name: &str) -> Option<&'a str> {
    let headers = echo["headers"].as_array().expect("an echo lists its headers");
    headers.iter().find(|header| header[0] == name).and_then(|header| header[1].as_str())
}

/// What nothing but a refusal or a revocation may change.
async fn unharmed(app: &TestApp, id: &str) {
    let shown = app.show(id).await;
    assert_eq!((&shown["health"], &shown["degraded"]), (&"connected".into(), &Value::Null), "{shown}");
    assert_eq!(app.acme.counters().exchanges, 0);
    assert!(
        app.app
            .store
            .outbox_rows(&id.into())
            .await
            .expect("the outbox can be read")
            .iter()
            .all(|row| { row.effect != "mail_admins" })
    );
}
