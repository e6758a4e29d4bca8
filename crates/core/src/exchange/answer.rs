//! From a token endpoint's answer to an [`Outcome`]. Never panics, whatever the bytes are, and never loses the old
//! token: an answer that brings no usable access token changes nothing.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderMap, StatusCode, header};
use secrecy::SecretString;
use serde_json::{Map, Value};
use url::{Host, Url, form_urlencoded};

use super::{Outcome, Refusal, Verdict};
use crate::{
    credential::TokenSet,
    provider::{HostField, OAuth2, Provider},
};

/// Lives longer than this are taken for a provider's mistake in the unit (EX-07: milliseconds) or for "for ever": a
/// year is longer than any documented life of an access token.
const LONGEST_LIFE_SECS: i64 = 366 * 24 * 3600;

/// Codes that mean "the grant is over" wherever they are seen: RFC 6749 section 5.2 and its common relatives.
const REJECTED: &[&str] = &[
    "invalid_grant",
    "bad_refresh_token",
    "invalid_refresh_token",
    "refresh_token_reused",
    "refresh_token_expired",
    "refresh_token_revoked",
    "refresh_token_invalidated",
];

/// Codes that put the OAuth app (or our request) at fault: RFC 6749 sections 4.1.2.1 and 5.2.
const APP_BROKEN: &[&str] =
    &["invalid_client", "unauthorized_client", "invalid_scope", "unsupported_grant_type", "invalid_request"];

/// What an answer carried; absent fields keep what is stored.
#[derive(Clone, Debug)]
pub struct TokenAnswer {
    /// Never empty.
    pub access_token: SecretString,
    /// A new one, where the provider rotates.
    pub refresh_token: Option<SecretString>,
    /// `None`: absent or unusable.
    pub expires_in: Option<Duration>,
    /// `None`: absent or unusable.
    pub refresh_expires_in: Option<Duration>,
    /// `None`: absent, so as asked for.
    pub scopes: Option<Vec<String>>,
    /// A new API base, its host checked.
    pub base_url: Option<Url>,
}

/// Reads an answer. `provider` may know the refusal better than the standard does.
pub fn read(
    facts: &OAuth2,
    provider: Option<&dyn Provider>,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: DateTime<Utc>,
) -> Outcome {
    let fields = fields(headers, body);
    if status.is_success()
        && let Some(fields) = &fields
        && let Some(answer) = token_answer(facts, fields)
    {
        return Outcome::Rotated(Box::new(answer));
    }
    let refusal = Refusal {
        status: status.as_u16(),
        code: fields.as_ref().and_then(error_code),
        description: fields.as_ref().and_then(error_words),
        retry_after: retry_after(headers, now),
    };
    let verdict = provider.and_then(|provider| provider.verdict(&refusal)).unwrap_or_else(|| standard(facts, &refusal));
    match verdict {
        Verdict::Rejected => Outcome::Rejected(refusal),
        Verdict::AppBroken => Outcome::AppBroken(refusal),
        Verdict::Busy => Outcome::Busy(refusal),
        Verdict::Transient => Outcome::Transient(refusal),
        Verdict::Ambiguous => Outcome::Ambiguous(refusal),
    }
}

/// What a refusal means by the standards. A 5xx is never a verdict, whatever error code its body repeats.
fn standard(facts: &OAuth2, refusal: &Refusal) -> Verdict {
    let code = refusal.code.as_deref().unwrap_or_default().to_ascii_lowercase();
    let own = || facts.rejected_codes.iter().any(|own| own.eq_ignore_ascii_case(&code));
    match refusal.status {
        429 => Verdict::Busy,
        500.. => Verdict::Ambiguous,
        _ if code == "slow_down" => Verdict::Busy,
        _ if code == "temporarily_unavailable" => Verdict::Transient,
        _ if REJECTED.contains(&code.as_str()) || own() => Verdict::Rejected,
        _ if APP_BROKEN.contains(&code.as_str()) => Verdict::AppBroken,
        400..=499 => Verdict::Transient,
        _ => Verdict::Ambiguous,
    }
}

/// JSON, or the form that some send in spite of `Accept: application/json`.
fn fields(headers: &HeaderMap, body: &[u8]) -> Option<Map<String, Value>> {
    if let Ok(Value::Object(fields)) = serde_json::from_slice(body) {
        return Some(fields);
    }
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?.to_ascii_lowercase();
    if !content_type.contains("x-www-form-urlencoded") && !content_type.starts_with("text/plain") {
        return None;
    }
    let fields: Map<_, _> = form_urlencoded::parse(body)
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect();
    (fields.contains_key("access_token") || fields.contains_key("error")).then_some(fields)
}

fn token_answer(facts: &OAuth2, fields: &Map<String, Value>) -> Option<TokenAnswer> {
    if fields.get("ok") == Some(&Value::Bool(false)) || error_code(fields).is_some() {
        return None;
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| usable_token(text));
    let access_token = SecretString::from(text("access_token")?.to_owned());
    let refresh_expires_in = facts.refresh_expires_in_field.as_deref().unwrap_or("refresh_token_expires_in");
    Some(TokenAnswer {
        access_token,
        refresh_token: text("refresh_token").map(|token| SecretString::from(token.to_owned())),
        expires_in: fields.get("expires_in").and_then(seconds),
        refresh_expires_in: fields.get(refresh_expires_in).and_then(seconds),
        scopes: fields.get("scope").and_then(|scope| scopes(facts, scope)),
        base_url: facts.base_url_field.as_ref().and_then(|rule| api_host(rule, fields.get(&rule.field)?.as_str()?)),
    })
}

/// A token has to fit into a header: visible ASCII.
fn usable_token(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Numbers, numbers in strings, floats; nothing, zero and negative mean unknown.
fn seconds(value: &Value) -> Option<Duration> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse::<f64>().ok()?,
        _ => return None,
    };
    if !number.is_finite() || number < 1.0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "the bound is far below 2^53")]
    let longest = LONGEST_LIFE_SECS as f64;
    Some(Duration::from_secs_f64(number.trunc().min(longest)))
}

fn scopes(facts: &OAuth2, scope: &Value) -> Option<Vec<String>> {
    match scope {
        Value::String(text) => Some(
            text.split(|c: char| c == facts.scope_separator || c.is_whitespace() || c.is_control())
                .filter(|scope| !scope.is_empty())
                .map(str::to_owned)
                .collect(),
        ),
        Value::Array(list) => Some(list.iter().filter_map(Value::as_str).map(|scope| plain(scope, 200)).collect()),
        _ => None,
    }
}

/// An API base that an answer or an import named: https, a name (no address, no port) with an allowed ending.
pub fn api_host(rule: &HostField, text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let Some(Host::Domain(host)) = url.host() else { return None };
    let allowed = rule.suffixes.iter().any(|suffix| host.len() > suffix.len() && host.ends_with(suffix.as_str()));
    (url.scheme() == "https"
        && url.port().is_none()
        && url.username().is_empty()
        && url.password().is_none()
        && allowed)
        .then_some(url)
}

/// `error` as a string, or an object with `code`, `type` or `title` (seen with Zendesk, OpenAI and others).
fn error_code(fields: &Map<String, Value>) -> Option<String> {
    let code = match fields.get("error")? {
        Value::String(code) => code.as_str(),
        Value::Object(inner) => ["code", "type", "title"].iter().find_map(|name| inner.get(*name)?.as_str())?,
        _ => return None,
    };
    (!code.is_empty()).then(|| plain(code, 80))
}

fn error_words(fields: &Map<String, Value>) -> Option<String> {
    let own = ["error_description", "description", "message"].iter().find_map(|name| fields.get(*name)?.as_str());
    let nested = || fields.get("error")?.as_object()?.get("message")?.as_str();
    own.or_else(nested).map(|words| plain(words, 300))
}

/// Without control characters, cut to `most` characters.
fn plain(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}

/// Seconds, or a date measured against the answer's own `Date` where it has one (RFC 9110 section 10.2.3), so that
/// our clock does not matter.
pub fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(86_400.0)));
    }
    let at = http_date(value)?;
    let base = headers.get(header::DATE).and_then(|date| http_date(date.to_str().ok()?)).unwrap_or(now);
    Some((at - base).to_std().unwrap_or_default().min(Duration::from_hours(24)))
}

fn http_date(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc2822(text).ok().map(|date| date.with_timezone(&Utc))
}

/// The new token set: the answer's fields, and the old ones where it carried none. Expiry is our receive time plus the
/// answer's relative life; an answer without one gets the last known life, else the provider's default, if there is a
/// refresh token: an assumed life is a reason to refresh early, never one to take a token for dead.
pub fn merge(facts: &OAuth2, old: Option<&TokenSet>, answer: &TokenAnswer, received_at: DateTime<Utc>) -> TokenSet {
    let known = answer.expires_in.and_then(|life| TimeDelta::from_std(life).ok());
    let assumed = || {
        let default = facts.expires_in_default.and_then(|life| TimeDelta::from_std(life).ok());
        old.and_then(TokenSet::life).filter(|life| *life > TimeDelta::zero()).or(default)
    };
    let refresh_token = answer.refresh_token.clone().or_else(|| old?.refresh_token.clone());
    let life = known.or_else(|| refresh_token.as_ref().and_then(|_| assumed()));
    TokenSet {
        access_token: answer.access_token.clone(),
        refresh_token,
        obtained_at: received_at,
        expires_at: life.map(|life| received_at + life),
        expires_assumed: known.is_none() && life.is_some(),
        refresh_expires_at: match answer.refresh_expires_in.and_then(|life| TimeDelta::from_std(life).ok()) {
            Some(life) => Some(received_at + life),
            None if answer.refresh_token.is_some() => None,
            None => old.and_then(|old| old.refresh_expires_at),
        },
        scopes: answer
            .scopes
            .clone()
            .or_else(|| old.map(|old| old.scopes.clone()))
            .unwrap_or_else(|| facts.scopes.clone()),
        base_url: answer.base_url.clone().or_else(|| old?.base_url.clone()),
    }
}
