//! What each provider sends, and how it proves that it is its own.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::Sha256;

use super::{EventOrder, Parcel};
use crate::clock::{iso, random_bytes};

/// Google's key in this sandbox, made for it with `openssl genpkey`. Nothing else knows it.
static KEY: LazyLock<RsaKeyPair> =
    LazyLock::new(|| RsaKeyPair::from_pkcs8(include_bytes!("google_key.der")).expect("it is a key"));
const KID: &str = "sandbox-1";

/// The public half, as Google serves its own.
pub(crate) fn google_keys() -> Value {
    let public: RsaPublicKeyComponents<Vec<u8>> = KEY.public().into();
    let [n, e] = [&public.n, &public.e].map(|number| URL_SAFE_NO_PAD.encode(number));
    json!({ "keys": [{ "kty": "RSA", "alg": "RS256", "use": "sig", "kid": KID, "n": n, "e": e }] })
}

pub(super) fn parcel(order: &EventOrder, now_ms: i64) -> Result<Parcel, String> {
    let id = if order.id.is_empty() { unique() } else { order.id.clone() };
    let kind = |usual: &str| if order.kind.is_empty() { usual.to_owned() } else { order.kind.clone() };
    let subject = if order.subject.is_empty() { "1" } else { &order.subject };
    let account = order.account.as_str();
    let mut headers = vec![("User-Agent".to_owned(), "sandbox".to_owned())];
    let mut header = |name: &str, value: String| headers.push((name.to_owned(), value));
    let mut content_type = "application/json";
    let own = |usual: Value| order.body.clone().unwrap_or_else(|| usual.to_string()).into_bytes();
    let body = match order.provider.as_str() {
        "zendesk" => {
            let kind = kind("ticket.comment_added");
            let body = own(json!({
                "account_id": 21_234_567, "id": id, "type": format!("zen:event-type:{kind}"),
                "subject": format!("zen:ticket:{subject}"), "time": iso(now_ms),
                "zendesk_event_version": "2022-11-06", "event": {},
                "detail": { "id": subject, "status": "OPEN", "updated_at": iso(now_ms) },
            }));
            let stamp = iso(now_ms);
            if !order.secret.is_empty() {
                header("X-Zendesk-Webhook-Signature", sha256(&order.secret, &[stamp.as_bytes(), &body]));
                header("X-Zendesk-Webhook-Signature-Timestamp", stamp);
            }
            header("X-Zendesk-Webhook-Invocation-Id", unique());
            body
        }
        "shopify" => {
            let body = own(json!({
                "id": subject.parse::<u64>().unwrap_or(1), "updated_at": iso(now_ms),
                "admin_graphql_api_id": format!("gid://shopify/Order/{subject}"), "note": id,
            }));
            if !order.secret.is_empty() {
                header("X-Shopify-Hmac-Sha256", sha256(&order.secret, &[&body]));
            }
            header("X-Shopify-Topic", kind("orders/create"));
            header("X-Shopify-Shop-Domain", format!("{account}.myshopify.com"));
            header("X-Shopify-Webhook-Id", unique());
            header("X-Shopify-Event-Id", unique());
            header("X-Shopify-Triggered-At", iso(now_ms));
            body
        }
        "front" | "front-rule" => {
            let payload = json!({
                "id": id, "type": kind("inbound"), "emitted_at": now_ms / 1000,
                "conversation": { "id": subject },
            });
            if order.provider == "front" {
                let whole =
                    json!({ "type": "inbound_received", "authorization": { "id": account }, "payload": payload });
                let body = own(whole);
                let stamp = now_ms.to_string();
                if !order.secret.is_empty() {
                    let signature = sha256(&order.secret, &[stamp.as_bytes(), b":", &body]);
                    header("X-Front-Signature", signature);
                }
                header("X-Front-Request-Timestamp", stamp);
                body
            } else {
                let body = own(payload);
                if !order.secret.is_empty() {
                    header("X-Front-Signature", sha1(&order.secret, &[&body]));
                }
                body
            }
        }
        "gorgias" | "freshdesk" => {
            if !order.secret.is_empty() {
                header("X-Holdfast-Secret", order.secret.clone());
            }
            if order.provider == "gorgias" {
                let kind = kind("ticket-message-created");
                own(json!({ "event": kind, "event_id": id, "ticket_id": subject, "message_id": id }))
            } else {
                let kind = kind("ticket updated");
                own(json!({ "ticket_id": subject, "event": kind, "status": id, "at": iso(now_ms) }))
            }
        }
        "google-push" => {
            if !order.secret.is_empty() {
                header("Authorization", format!("Bearer {}", token(&order.secret, &order.url, now_ms / 1000)));
            }
            let data = json!({ "emailAddress": account, "historyId": 9_876_543_210_u64 }).to_string();
            let message = json!({ "data": STANDARD.encode(data), "messageId": id, "publishTime": iso(now_ms) });
            own(json!({ "message": message, "subscription": "projects/sandbox/subscriptions/gmail" }))
        }
        "google-channel" => {
            header("X-Goog-Channel-ID", "channel-1".to_owned());
            header("X-Goog-Channel-Token", order.secret.clone());
            header("X-Goog-Message-Number", id.clone());
            header("X-Goog-Resource-State", kind("exists"));
            header("X-Goog-Resource-ID", "resource-1".to_owned());
            let resource = "https://www.googleapis.com/calendar/v3/calendars/primary/events?alt=json";
            header("X-Goog-Resource-URI", resource.to_owned());
            Vec::new()
        }
        "generic" => {
            if order.body.as_deref().is_some_and(|body| body.contains('=') && !body.starts_with('{')) {
                content_type = "application/x-www-form-urlencoded";
            }
            let body = own(json!({ "id": id, "subject": subject }));
            let mac = Hmac::<Sha256>::new_from_slice(order.secret.as_bytes()).expect("HMAC takes a key of any length");
            let digits = mac.chain_update(&body).finalize().into_bytes();
            let digits = hex(&digits);
            if !order.secret.is_empty() {
                header("X-Hub-Signature-256", format!("sha256={digits}"));
            }
            header("X-GitHub-Event", kind("push"));
            header("X-GitHub-Delivery", unique());
            body
        }
        other => return Err(format!("provider: {other} sends nothing here")),
    };
    headers.push(("Content-Type".to_owned(), content_type.to_owned()));
    for (name, value) in &order.headers {
        headers.retain(|(there, _)| !there.eq_ignore_ascii_case(name));
        headers.push((name.clone(), value.clone()));
    }
    Ok(Parcel { method: "POST", headers, body })
}

/// As Pub/Sub's: for this address, in the name of this service account.
fn token(service_account: &str, audience: &str, now_secs: i64) -> String {
    let head = json!({ "alg": "RS256", "kid": KID, "typ": "JWT" });
    let claims = json!({
        "iss": "https://accounts.google.com", "aud": audience, "azp": "113774264463038321964",
        "email": service_account, "email_verified": true, "sub": "113774264463038321964",
        "iat": now_secs, "exp": now_secs + 3600,
    });
    let message = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let mut signature = vec![0; KEY.public().modulus_len()];
    KEY.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature)
        .expect("the key is long enough");
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn unique() -> String {
    hex(&random_bytes::<12>())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn sha256(secret: &str, parts: &[&[u8]]) -> String {
    mac::<Hmac<Sha256>>(secret, parts)
}

fn sha1(secret: &str, parts: &[&[u8]]) -> String {
    mac::<Hmac<Sha1>>(secret, parts)
}

fn mac<M: Mac + KeyInit>(secret: &str, parts: &[&[u8]]) -> String {
    let mut mac = <M as KeyInit>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    STANDARD.encode(mac.finalize().into_bytes())
}
