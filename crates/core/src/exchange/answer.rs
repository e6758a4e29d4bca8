//! From a token endpoint's answer to an [`Outcome`]. Never panics, whatever the bytes are, and never loses the old
//! token: an answer that brings no usable access token changes nothing.

use std::{borrow::Cow, time::Duration};

use chrono::{DateTime, NaiveDateTime, TimeDelta, TimeZone, Utc};
use http::{HeaderMap, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use url::{Host, Url, form_urlencoded};

use super::{Outcome, Refusal, Verdict, refresh_end::refresh_end, words::Secrets};
use crate::{
    credential::TokenSet,
    provider::{HostField, OAuth2, Provider},
};

/// Lives longer than this are taken for a provider's mistake in the unit (EX-07: milliseconds) or for "for ever": a
/// year is longer than any documented life of an access token.
const LONGEST_LIFE: Duration = Duration::from_hours(366 * 24);

/// Refresh tokens of some providers live for years; ten of them are as good as for ever.
const LONGEST_REFRESH_LIFE: Duration = Duration::from_hours(10 * 366 * 24);

/// Where answers say an end in place of a life (Front, Strava and others). Such a field may hold a moment or, all the
/// same, a life: its size tells.
const ENDS: &[&str] = &["expires_at", "expires"];
/// A number below this is no moment of our time but a life in seconds: three years.
const FIRST_MOMENT_SECS: f64 = 1e8;
/// A number from here on is a moment in milliseconds: in seconds it would be the year 5138.
const FIRST_MOMENT_MS: f64 = 1e11;

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

/// Reads an answer. `provider` may know the refusal better than the standard does. What can be shown of the outcome
/// repeats none of the answer's tokens, and none of `sent`, the request's secrets.
pub fn read(
    facts: &OAuth2,
    provider: Option<&dyn Provider>,
    sent: &[SecretString],
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: DateTime<Utc>,
) -> Outcome {
    let fields = fields(headers, body);
    let secrets = Secrets::new(sent, fields.as_ref());
    if status.is_success()
        && let Some(fields) = &fields
        && let Some(answer) = token_answer(facts, fields, &secrets, sent_at(headers).unwrap_or(now))
    {
        return Outcome::Rotated(Box::new(answer));
    }
    let refusal = Refusal {
        status: status.as_u16(),
        code: fields.as_ref().and_then(error_code).map(|code| secrets.plain(code, 80)),
        description: fields.as_ref().and_then(error_words).map(|words| secrets.plain(&words, 300)),
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

/// What a refusal means by the standards. A 5xx is never a verdict, whatever error code its body repeats, and neither is
/// a redirect: both may come from something in front of the token endpoint.
fn standard(facts: &OAuth2, refusal: &Refusal) -> Verdict {
    let code = refusal.code.as_deref().unwrap_or_default().to_ascii_lowercase();
    let own = || facts.rejected_codes.iter().any(|own| own.eq_ignore_ascii_case(&code));
    match refusal.status {
        429 => Verdict::Busy,
        300..=399 | 500.. => Verdict::Ambiguous,
        _ if code == "slow_down" => Verdict::Busy,
        _ if code == "temporarily_unavailable" => Verdict::Transient,
        _ if REJECTED.contains(&code.as_str()) || own() => Verdict::Rejected,
        _ if APP_BROKEN.contains(&code.as_str()) => Verdict::AppBroken,
        400..=499 => Verdict::Transient,
        _ => Verdict::Ambiguous,
    }
}

/// JSON, or the form that some send in spite of `Accept: application/json`; a token set in a form is read whatever its
/// content type says.
fn fields(headers: &HeaderMap, body: &[u8]) -> Option<Map<String, Value>> {
    let text = text_of(body);
    let text = text.trim();
    if let Ok(Value::Object(fields)) = serde_json::from_str(text) {
        return Some(fields);
    }
    if text.starts_with(['{', '[', '<']) {
        return None;
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.to_ascii_lowercase();
    let declared = content_type.contains("x-www-form-urlencoded") || content_type.starts_with("text/plain");
    let fields: Map<_, _> = form_urlencoded::parse(text.as_bytes())
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect();
    (fields.contains_key("access_token") || declared && fields.contains_key("error")).then_some(fields)
}

/// JSON is UTF-8 without a mark (RFC 8259 section 8.1). What comes otherwise is read all the same: a token set that is
/// not read is lost, and tokens are ASCII in each of these.
fn text_of(body: &[u8]) -> Cow<'_, str> {
    let wide = |body: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = body.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        Cow::Owned(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
    };
    let narrow = |body| match str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(body.iter().copied().map(char::from).collect()),
    };
    match body {
        [0xEF, 0xBB, 0xBF, rest @ ..] => narrow(rest),
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        [b'{', 0, ..] => wide(body, u16::from_le_bytes),
        [0, b'{', ..] => wide(body, u16::from_be_bytes),
        _ => narrow(body),
    }
}

/// `sent_at`: when, by the provider's clock where it says so.
fn token_answer(
    facts: &OAuth2,
    fields: &Map<String, Value>,
    secrets: &Secrets,
    sent_at: DateTime<Utc>,
) -> Option<TokenAnswer> {
    if fields.get("ok") == Some(&Value::Bool(false)) || error_code(fields).is_some() {
        return None;
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::trim);
    let access_token = SecretString::from(text("access_token").filter(|token| fits_a_header(token))?);
    let refresh_expires_in = facts.refresh_expires_in_field.as_deref().unwrap_or("refresh_token_expires_in");
    let told = fields.get("expires_in").and_then(|value| seconds(value, LONGEST_LIFE));
    let expires_in = told.or_else(|| ENDS.iter().find_map(|name| life_until(fields.get(*name)?, sent_at)));
    Some(TokenAnswer {
        access_token,
        // It goes into a body, so whatever it is made of can be sent: not to keep it would be to lose the grant.
        refresh_token: text("refresh_token").filter(|token| !token.is_empty()).map(SecretString::from),
        expires_in,
        refresh_expires_in: fields.get(refresh_expires_in).and_then(|value| seconds(value, LONGEST_REFRESH_LIFE)),
        scopes: fields.get("scope").and_then(|scope| scopes(facts, scope, secrets)),
        base_url: facts.base_url_field.as_ref().and_then(|rule| {
            let named = fields.get(&rule.field)?.as_str()?;
            api_host(rule, named).filter(|url| !secrets.are_in(url.as_str())).map(|url| rule.hosts.place(url))
        }),
    })
}

/// An access token has to fit into a header: visible ASCII.
fn fits_a_header(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Numbers, numbers in strings, floats; nothing, zero and negative mean unknown.
fn seconds(value: &Value, longest: Duration) -> Option<Duration> {
    whole_seconds(number(value)?, longest)
}

fn whole_seconds(number: f64, longest: Duration) -> Option<Duration> {
    let usable = number.is_finite() && number >= 1.0;
    usable.then(|| Duration::from_secs_f64(number.trunc().min(longest.as_secs_f64())))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The life that is left until an end: Unix time in seconds or milliseconds, or ISO 8601. It is measured from when the
/// answer was sent, so that our clock does not matter; one that is past means unknown.
fn life_until(end: &Value, sent_at: DateTime<Utc>) -> Option<Duration> {
    let until = |end_secs: f64| end_secs - unix_secs(&sent_at);
    let left = match number(end) {
        Some(secs) if secs < FIRST_MOMENT_SECS => secs,
        Some(secs) if secs < FIRST_MOMENT_MS => until(secs),
        Some(ms) => until(ms / 1000.0),
        None => until(unix_secs(&DateTime::parse_from_rfc3339(end.as_str()?.trim()).ok()?)),
    };
    whole_seconds(left, LONGEST_LIFE)
}

#[expect(clippy::cast_precision_loss, reason = "seconds of our time have ten digits")]
fn unix_secs<Z: TimeZone>(at: &DateTime<Z>) -> f64 {
    at.timestamp() as f64
}

/// `None` where nothing is named: that is no way to take permissions away.
fn scopes(facts: &OAuth2, scope: &Value, secrets: &Secrets) -> Option<Vec<String>> {
    let parted = |c: char| c == facts.scope_separator || c.is_whitespace() || c.is_control();
    let texts: Vec<&str> = match scope {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let named = texts.into_iter().flat_map(|text| text.split(parted)).filter(|scope| !scope.is_empty());
    let scopes: Vec<String> = named.map(|scope| secrets.plain(scope, 200)).collect();
    (!scopes.is_empty()).then_some(scopes)
}

/// An API base that an answer or an import named: https, a name (no address, no port) with an allowed ending.
pub fn api_host(rule: &HostField, text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok()?;
    url.set_query(None);
    url.set_fragment(None);
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
fn error_code(fields: &Map<String, Value>) -> Option<&str> {
    let code = match fields.get("error")? {
        Value::String(code) => code,
        Value::Object(inner) => ["code", "type", "title"].iter().find_map(|name| inner.get(*name)?.as_str())?,
        _ => return None,
    };
    Some(code.trim()).filter(|code| !code.is_empty())
}

/// The words, and behind them in brackets the `error_subtype` by which Google tells causes of one code apart.
fn error_words(fields: &Map<String, Value>) -> Option<Cow<'_, str>> {
    let own = ["error_description", "description", "message"].iter().find_map(|name| fields.get(*name)?.as_str());
    let words = own.or_else(|| fields.get("error")?.as_object()?.get("message")?.as_str());
    match (words, fields.get("error_subtype").and_then(Value::as_str).filter(|subtype| !subtype.is_empty())) {
        (words, None) => words.map(Cow::Borrowed),
        (None, Some(subtype)) => Some(Cow::Owned(format!("({subtype})"))),
        (Some(words), Some(subtype)) => Some(Cow::Owned(format!("{words} ({subtype})"))),
    }
}

/// Seconds, or a date measured against the answer's own `Date` where it has one (RFC 9110 section 10.2.3), so that
/// our clock does not matter.
pub fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(86_400.0)));
    }
    let at = http_date(value)?;
    let base = sent_at(headers).unwrap_or(now);
    Some((at - base).to_std().unwrap_or_default().min(Duration::from_hours(24)))
}

/// What the answer's own `Date` says.
fn sent_at(headers: &HeaderMap) -> Option<DateTime<Utc>> {
    http_date(headers.get(header::DATE)?.to_str().ok()?)
}

/// The three forms that a recipient has to accept (RFC 9110 section 5.6.7).
fn http_date(text: &str) -> Option<DateTime<Utc>> {
    let obsolete = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let standard = DateTime::parse_from_rfc2822(text).ok().map(|date| date.with_timezone(&Utc));
    let read = |form| NaiveDateTime::parse_from_str(text, form).ok().map(|date| date.and_utc());
    standard.or_else(|| obsolete.into_iter().find_map(read))
}

/// The new token set: the answer's fields, and the old ones where it carried none. Expiry is our receive time plus the
/// answer's relative life; an answer without one gets the last known life, else the provider's default, if there is a
/// refresh token: an assumed life is a reason to refresh early, never one to take a token for dead.
pub fn merge(facts: &OAuth2, old: Option<&TokenSet>, answer: &TokenAnswer, received_at: DateTime<Utc>) -> TokenSet {
    let after = |life: TimeDelta| received_at.checked_add_signed(life);
    let known = answer.expires_in.and_then(|life| TimeDelta::from_std(life).ok());
    let assumed = || {
        let default = facts.expires_in_default.and_then(|life| TimeDelta::from_std(life).ok());
        old.and_then(TokenSet::life).filter(|life| *life > TimeDelta::zero()).or(default)
    };
    let refresh_token = answer.refresh_token.clone().or_else(|| old?.refresh_token.clone());
    let life = known.or_else(|| refresh_token.as_ref().and_then(|_| assumed()));
    let same = |old: &TokenSet| exposed(old.refresh_token.as_ref()) == exposed(refresh_token.as_ref());
    let (refresh_expires_at, refresh_end_fixed) =
        refresh_end(facts, old, answer.refresh_expires_in, old.is_some_and(same), received_at);
    TokenSet {
        access_token: answer.access_token.clone(),
        refresh_token,
        obtained_at: received_at,
        expires_at: life.and_then(after),
        expires_assumed: known.is_none() && life.is_some(),
        refresh_expires_at,
        refresh_end_fixed,
        scopes: answer
            .scopes
            .clone()
            .or_else(|| old.map(|old| old.scopes.clone()))
            .unwrap_or_else(|| facts.scopes.clone()),
        base_url: answer.base_url.clone().or_else(|| old?.base_url.clone()),
        found: old.map(|old| old.found.clone()).unwrap_or_default(),
    }
}

fn exposed(token: Option<&SecretString>) -> Option<&str> {
    token.map(ExposeSecret::expose_secret)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_to_wait_is_read_in_each_form_that_the_standard_has() {
        let now = "2026-11-29T10:00:00Z".parse().expect("it is a moment");
        for (value, date, seconds) in [
            ("120", None, Some(120)),
            (" 1.9 ", None, Some(1)),
            ("99999999999999999999", None, Some(86_400)),
            ("-5", None, None),
            ("NaN", None, None),
            ("inf", None, None),
            ("soon", None, None),
            ("Sun, 29 Nov 2026 10:02:00 GMT", None, Some(120)),
            ("Sunday, 29-Nov-26 10:02:00 GMT", None, Some(120)),
            ("Sun Nov 29 10:02:00 2026", None, Some(120)),
            ("Sun Nov  1 10:02:00 2026", None, Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", None, Some(86_400)),
            // Our clock is five minutes off, and it does not matter.
            ("Sun, 29 Nov 2026 09:57:00 GMT", Some("Sun, 29 Nov 2026 09:55:00 GMT"), Some(120)),
            ("Sun, 29 Nov 2026 10:02:00 GMT", Some("yesterday"), Some(120)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, value.parse().expect("it is a header"));
            if let Some(date) = date {
                headers.insert(header::DATE, date.parse().expect("it is a header"));
            }
            assert_eq!(retry_after(&headers, now).map(|after| after.as_secs()), seconds, "{value} {date:?}");
        }
    }

    #[test]
    fn an_end_is_read_as_a_moment_or_a_life_and_measured_by_the_providers_clock() {
        let sent: DateTime<Utc> = "2026-11-29T10:00:00Z".parse().expect("it is a moment");
        let hour = sent.timestamp() + 3600;
        for (end, life) in [
            (json!(hour), Some(3600)),
            (json!(hour.to_string()), Some(3600)),
            (json!(format!("{hour}.25")), Some(3600)),
            (json!(hour * 1000), Some(3600)),
            (json!(3600), Some(3600)),
            (json!("2026-11-29T12:00:00+01:00"), Some(3600)),
            (json!(sent.timestamp()), None),
            (json!(hour - 86_400), None),
            (json!("2020-01-01T00:00:00Z"), None),
            (json!(0), None),
            (json!(-5), None),
            (json!("tomorrow"), None),
            (json!(null), None),
            (json!(u64::MAX), Some(LONGEST_LIFE.as_secs())),
        ] {
            assert_eq!(life_until(&end, sent).map(|life| life.as_secs()), life, "{end}");
        }
    }

    #[test]
    fn a_subtype_stands_behind_the_words() {
        for (body, words) in [
            (
                r#"{"error":"invalid_grant","error_description":"Bad","error_subtype":"invalid_rapt"}"#,
                Some("Bad (invalid_rapt)"),
            ),
            (r#"{"error":"invalid_grant","error_subtype":"rapt_required"}"#, Some("(rapt_required)")),
            (r#"{"error":"invalid_grant","error_subtype":7}"#, None),
            (r#"{"error":{"message":"Bad"}}"#, Some("Bad")),
        ] {
            let Ok(Value::Object(fields)) = serde_json::from_str(body) else { panic!("it is an object") };
            assert_eq!(error_words(&fields).as_deref(), words, "{body}");
        }
    }
}
