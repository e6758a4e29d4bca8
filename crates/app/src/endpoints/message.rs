//! What is sent, and its signature.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use holdfast_core::{event::EventType, ports::Random};
use holdfast_store::StoredEvent;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret, SecretString, zeroize::Zeroizing};
use serde::Serialize;
use serde_json::Value;
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// The specification asks for 24 to 64.
const SECRET_BYTES: usize = 32;
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// In this order.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: DateTime<Utc>,
    data: &'a Value,
}

/// A new secret, as it is shown.
pub(super) fn new_secret(random: &dyn Random) -> SecretString {
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    random.fill(bytes.as_mut());
    SecretString::from(format!("{PREFIX}{}", BASE64_STANDARD.encode(bytes.as_ref())))
}

/// The body of an event; byte for byte the same in every attempt.
pub(super) fn body(kind: EventType, at: DateTime<Utc>, data: &Value) -> Vec<u8> {
    serde_json::to_vec(&Body { kind: kind.as_str(), timestamp: at, data }).expect("an event is plain data")
}

/// The headers of an attempt at this moment, with a signature by each of the secrets. `None`: one of them is no secret.
pub(super) fn headers(
    event: &StoredEvent,
    body: &[u8],
    secrets: &[SecretString],
    now: DateTime<Utc>,
) -> Option<HeaderMap> {
    let (id, timestamp) = (event.id.as_str(), now.timestamp().to_string());
    let signatures: Option<Vec<String>> = secrets.iter().map(|secret| sign(secret, id, &timestamp, body)).collect();
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ID, HeaderValue::from_str(id).ok()?);
    headers.insert(TIMESTAMP, HeaderValue::from_str(&timestamp).ok()?);
    headers.insert(SIGNATURE, HeaderValue::from_str(&signatures?.join(" ")).ok()?);
    Some(headers)
}

/// `v1,` and the HMAC-SHA256 of `id.timestamp.body`, in base64.
fn sign(secret: &SecretString, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
    let key = Zeroizing::new(BASE64_STANDARD.decode(secret.expose_secret().strip_prefix(PREFIX)?).ok()?);
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    Some(format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the test suite of the official libraries.
    #[test]
    fn a_signature_is_the_one_of_the_official_libraries() {
        let secret = SecretString::from("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;

        let signature = sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);

        assert_eq!(signature.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
        assert_eq!(sign(&SecretString::from("hush"), "msg_1", "1", body), None);
    }
}
