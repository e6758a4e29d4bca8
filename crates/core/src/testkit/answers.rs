//! What holds for every answer of a token endpoint, whatever its bytes are: for property tests, a fuzzer, and every
//! adapter.

pub mod made;

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::{
    credential::TokenSet,
    exchange::{self, Outcome, Refusal, TokenAnswer},
    id::CredentialId,
    provider::{OAuth2, Provider},
    refresh::{
        Settings,
        decide::{self, Case, Next, SoFar},
        timing,
    },
};

/// The refresh token that was sent.
pub const SENT_TOKEN: &str = "RT-sent-0123456789/+=";
/// The client secret that was sent.
pub const SENT_SECRET: &str = "CS-sent-9876543210 &%";
/// The access token before the exchange.
pub const OLD_ACCESS: &str = "AT-old-0123456789";

/// Between the parts of a fuzzer's input.
const PART: u8 = 0;

/// An answer as the HTTP port hands it over.
#[derive(Clone, Debug)]
pub struct Heard {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

impl Heard {
    /// From raw parts; headers that are none are left out.
    pub fn new(status: u16, headers: &[(&str, &[u8])], body: impl Into<Vec<u8>>) -> Self {
        let headers = headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
        });
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        Self { status, headers: headers.collect(), body: body.into() }
    }

    /// From a fuzzer's bytes: two for the status, then content type, Retry-After and Date, each up to a NUL, then the body.
    pub fn from_bytes(data: &[u8]) -> Self {
        let (status, rest) = data.split_at(data.len().min(2));
        let status = status.iter().fold(0, |number, byte| number * 256 + u16::from(*byte));
        let mut parts = rest.splitn(4, |byte| *byte == PART);
        let mut part = || parts.next().unwrap_or_default();
        let headers = [("content-type", part()), ("retry-after", part()), ("date", part())];
        Self::new(100 + status % 900, &headers, part())
    }
}

/// When the answer is received.
pub fn received_at() -> DateTime<Utc> {
    DateTime::from_timestamp(1_796_000_000, 0).expect("it is a moment")
}

/// The token set before the exchange.
pub fn old_set() -> TokenSet {
    let obtained_at = received_at() - TimeDelta::hours(1);
    TokenSet {
        access_token: SecretString::from(OLD_ACCESS),
        refresh_token: Some(SecretString::from(SENT_TOKEN)),
        obtained_at,
        expires_at: Some(obtained_at + TimeDelta::hours(1)),
        expires_assumed: false,
        refresh_expires_at: Some(obtained_at + TimeDelta::days(90)),
        refresh_end_fixed: false,
        scopes: vec!["read".to_owned()],
        base_url: None,
        found: BTreeMap::new(),
    }
}

/// Reads the answer as an exchange does.
pub fn read(facts: &OAuth2, provider: Option<&dyn Provider>, heard: &Heard) -> Outcome {
    let sent = [SENT_TOKEN, SENT_SECRET].map(SecretString::from);
    exchange::read(facts, provider, &sent, heard.status, &heard.headers, &heard.body, received_at())
}

/// Reads the answer, sees what the engine would do about it, and holds both to their promises.
///
/// # Panics
/// Where one is broken.
pub fn check(facts: &OAuth2, provider: Option<&dyn Provider>, heard: &Heard) -> Outcome {
    let outcome = read(facts, provider, heard);
    match &outcome {
        Outcome::Rotated(answer) => success(facts, heard, answer),
        Outcome::Rejected(refusal) | Outcome::AppBroken(refusal) => {
            let code = heard.status.as_u16();
            assert!(!(300..400).contains(&code) && code < 500, "HTTP {code} is no verdict: {refusal:?}");
            words(heard, refusal);
        }
        Outcome::Busy(refusal) | Outcome::Transient(refusal) | Outcome::Ambiguous(refusal) => words(heard, refusal),
    }
    let debug = format!("{outcome:?}");
    assert!(!debug.contains(SENT_TOKEN) && !debug.contains(SENT_SECRET), "a secret of the request: {debug}");
    follows(&outcome);
    outcome
}

/// A success brings a token that can be used, and costs nothing that it did not replace.
fn success(facts: &OAuth2, heard: &Heard, answer: &TokenAnswer) {
    assert!(heard.status.is_success(), "HTTP {} is no success", heard.status);
    let access = answer.access_token.expose_secret();
    assert!(!access.is_empty() && HeaderValue::from_str(&format!("Bearer {access}")).is_ok(), "{access:?}");
    let now = received_at();
    let old = old_set();
    let merged = exchange::merge(facts, Some(&old), answer, now);
    assert_eq!(merged.access_token.expose_secret(), access);
    let refresh = merged.refresh_token.as_ref().map(ExposeSecret::expose_secret);
    let expected = answer.refresh_token.as_ref().map_or(SENT_TOKEN, ExposeSecret::expose_secret);
    assert_eq!(refresh, Some(expected), "the answer's refresh token, else the old one");
    assert!(!expected.trim().is_empty());
    assert_eq!(merged.obtained_at, now);
    let life = merged.expires_at.expect("what can be renewed has an end") - now;
    assert!(life > TimeDelta::zero() && life <= TimeDelta::days(366), "{life}");
    assert_eq!(merged.expires_assumed, answer.expires_in.is_none());
    assert!(merged.refresh_expires_at.is_none_or(|end| end > now));
    assert!(!merged.scopes.is_empty(), "permissions are not taken away by an answer that names none");
    let due = timing::due_at(&merged, facts.refresh_life, &CredentialId::from("cred"), &Settings::default());
    assert!(due.is_some_and(|due| due > now), "no refresh at once after a refresh");
    if let Some(url) = &answer.base_url {
        let rule = facts.base_url_field.as_ref().expect("only a declared field names a host");
        let host = url.host_str().unwrap_or_default();
        assert!(url.scheme() == "https" && rule.suffixes.iter().any(|end| host.ends_with(end.as_str())), "{url}");
        assert!(url.query().is_none() && url.fragment().is_none() && url.password().is_none(), "{url}");
    }
    // A first grant has no predecessor.
    let first = exchange::merge(facts, None, answer, now);
    assert_eq!(first.refresh_token.is_some(), answer.refresh_token.is_some());
}

/// A refusal is short, and repeats no secret.
fn words(heard: &Heard, refusal: &Refusal) {
    assert_eq!(refusal.status, heard.status.as_u16());
    assert!(refusal.retry_after.is_none_or(|after| after <= Duration::from_hours(24)), "{refusal:?}");
    assert!(refusal.code.as_ref().is_none_or(|code| code.chars().count() <= 80), "{refusal:?}");
    assert!(refusal.description.as_ref().is_none_or(|words| words.chars().count() <= 300), "{refusal:?}");
    let said = refusal.words();
    assert!(!said.chars().any(char::is_control), "{said:?}");
    let secret = |secret: &str| secret.len() >= 8 && said.contains(secret);
    assert!(!secret(SENT_TOKEN) && !secret(SENT_SECRET), "{said}");
    let Ok(Value::Object(fields)) = serde_json::from_slice(&heard.body) else { return };
    for name in ["access_token", "refresh_token", "id_token"] {
        let token = fields.get(name).and_then(Value::as_str).unwrap_or_default();
        // Of others a fuzzer could make the very words that stand for a secret.
        let plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert!(!plain || !secret(token), "{said}");
    }
}

/// The engine does one thing about it, at a moment that is to come, and gives up a grant only for a confirmed refusal.
fn follows(outcome: &Outcome) {
    let (now, settings) = (received_at(), Settings::default());
    let case = Case {
        grace: Duration::ZERO,
        has_next_secret: false,
        has_spare: false,
        left: None,
        failures: u32::MAX,
        unit: 0.999,
    };
    for confirming in [false, true] {
        let so_far = SoFar { confirming, ..SoFar::default() };
        match (decide::after(outcome, &so_far, &case, now, &settings), outcome) {
            (Next::Store, Outcome::Rotated(_)) | (Next::Confirm, Outcome::Rejected(_)) => {}
            (Next::Fail(_), Outcome::Rejected(_)) => assert!(confirming),
            (Next::Close(_, marks), _) => {
                assert!(marks.retry_at > now && marks.retry_at <= now + TimeDelta::days(1), "{marks:?}");
            }
            (next, outcome) => panic!("{next:?} does not follow from {outcome:?}"),
        }
    }
}
