//! Answers as they may come, made up by proptest.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::Heard;

/// Fields that answers have, or that somebody may take for one.
const FIELDS: &[&str] = &[
    "access_token",
    "refresh_token",
    "id_token",
    "expires_in",
    "expires_at",
    "expires",
    "refresh_token_expires_in",
    "scope",
    "token_type",
    "error",
    "error_description",
    "message",
    "description",
    "ok",
    "instance_url",
    "data",
];

/// Codes of the standard and of its relatives, and things that are none.
const CODES: &[&str] = &[
    "invalid_grant",
    "invalid_client",
    "invalid_request",
    "unauthorized_client",
    "slow_down",
    "temporarily_unavailable",
    "refresh_token_reused",
    "INVALID_GRANT",
    " invalid_grant\n",
    "",
    "none",
    "\u{0}",
];

const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/json; charset=utf-8",
    "application/json; charset=utf-16",
    "text/json; charset=iso-8859-1",
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded; charset=utf-8",
    "text/plain",
    "text/html; charset=utf-8",
    "application/octet-stream",
    ";;",
    "",
];

const RETRY_AFTER: &[&str] = &[
    "0",
    "120",
    "-5",
    "1.5",
    " 7 ",
    "1e400",
    "NaN",
    "infinity",
    "99999999999999999999999",
    "soon",
    "",
    "Sun, 29 Nov 2026 09:57:00 GMT",
    "Mon, 29 Nov 2026 09:57:00 GMT",
    "Sunday, 29-Nov-26 09:57:00 GMT",
    "Sun Nov 29 09:57:00 2026",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Thu, 01 Jan 1970 00:00:00 GMT",
];

/// Lives that are numbers in odd clothes, or none at all.
pub fn odd_life() -> impl Strategy<Value = Value> {
    let fixed = vec![
        json!(3600),
        json!("3600"),
        json!(3600.0),
        json!("3600.0"),
        json!(" 3600 "),
        json!(3_600_000),
        json!(1_796_003_600),
        json!(1_796_003_600_000_i64),
        json!("2026-12-01T12:00:00Z"),
        json!(null),
        json!(""),
        json!(0),
        json!("0"),
        json!(0.4),
        json!(-1),
        json!("-3600"),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
        json!("1e400"),
        json!("NaN"),
        json!("inf"),
        json!("soon"),
        json!(true),
        json!([3600]),
        json!({"seconds": 3600}),
    ];
    prop_oneof![4 => select(fixed), 1 => any::<i64>().prop_map(|n| json!(n)), 1 => any::<f64>().prop_map(|n| json!(n))]
}

/// Any value for any field.
pub fn odd_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        20 => odd_life(),
        20 => select(CODES).prop_map(|code| json!(code)),
        20 => ".{0,40}".prop_map(|text| json!(text)),
        20 => "[!-~]{1,60}".prop_map(|text| json!(text)),
        20 => Just(json!("https://eu7.fake.test/?token=1#2")),
        1 => Just(json!("x".repeat(70_000))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let names = prop_oneof![select(FIELDS).prop_map(str::to_owned), ".{0,8}", Just("code".to_owned())];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((names, inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Some of the fields, with values of any kind.
pub fn odd_fields() -> impl Strategy<Value = Map<String, Value>> {
    vec((select(FIELDS), odd_value()), 0..8)
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// An access token as the standard has it.
pub fn access_token() -> impl Strategy<Value = String> {
    "AT[A-Za-z0-9._~+/-]{8,60}={0,2}"
}

/// How fields become bytes; each of these can be read without a loss.
pub fn readable(fields: &Map<String, Value>) -> Vec<(&'static str, Vec<u8>)> {
    let json = Value::Object(fields.clone()).to_string();
    let wide = |mark: u16, bytes: fn(u16) -> [u8; 2]| {
        std::iter::once(mark).chain(json.encode_utf16()).flat_map(bytes).collect::<Vec<u8>>()
    };
    let with_mark = [b"\xEF\xBB\xBF".as_slice(), json.as_bytes()].concat();
    let mut latin = json.clone().into_bytes();
    latin.splice(1..1, *b"\"user\":\"M\xFCller\",");
    vec![
        ("application/json", json.clone().into_bytes()),
        ("text/html", format!("\r\n {json} \n").into_bytes()),
        ("application/json; charset=utf-8", with_mark),
        ("application/json; charset=utf-16", wide(0xFEFF, u16::to_le_bytes)),
        ("application/json; charset=utf-16", wide(0xFEFF, u16::to_be_bytes)),
        ("application/json; charset=utf-16le", wide(0xFEFF, u16::to_le_bytes).split_off(2)),
        ("application/json; charset=iso-8859-1", if fields.is_empty() { json.into_bytes() } else { latin }),
    ]
}

/// A form with these fields, where they are texts.
pub fn form(fields: &Map<String, Value>) -> Vec<u8> {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        form.append_pair(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str());
    }
    form.finish().into_bytes()
}

/// A body of any kind.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let readable = (odd_fields(), any::<prop::sample::Index>()).prop_map(|(fields, which)| {
        let mut all = readable(&fields);
        all.swap_remove(which.index(all.len())).1
    });
    let json = || odd_fields().prop_map(|fields| Value::Object(fields).to_string());
    prop_oneof![
        4 => readable,
        2 => (json(), any::<prop::sample::Index>()).prop_map(|(json, at)| {
            // Cut anywhere, in the middle of a character too.
            json.as_bytes()[..at.index(json.len())].to_vec()
        }),
        1 => (json(), json()).prop_map(|(one, two)| format!("{},{}", &one[..one.len() - 1], &two[1..]).into_bytes()),
        1 => json().prop_map(|json| format!("[{json}]").into_bytes()),
        1 => json().prop_map(|json| format!("<html><body>{json}</body></html>").into_bytes()),
        1 => json().prop_map(|json| [b"\x1f\x8b\x08\0\0\0\0\0\0\x03".as_slice(), json.as_bytes()].concat()),
        1 => odd_fields().prop_map(|fields| form(&fields)),
        1 => vec(any::<u8>(), 0..200),
        1 => select(vec![b"".to_vec(), b"{}".to_vec(), b"null".to_vec(), b"{\"access_token\":".repeat(500), b"\0".to_vec()]),
    ]
}

/// An answer of any kind.
pub fn heard() -> impl Strategy<Value = Heard> {
    let status =
        prop_oneof![3 => Just(200_u16), 2 => select(vec![400_u16, 401, 403, 429, 500, 502, 503]), 2 => 100..1000_u16];
    let value = |known: &'static [&'static str]| prop_oneof![4 => select(known).prop_map(|text| text.as_bytes().to_vec()), 1 => vec(any::<u8>(), 0..20)];
    (status, value(CONTENT_TYPES), value(RETRY_AFTER), value(RETRY_AFTER), body()).prop_map(
        |(status, content_type, retry_after, date, body)| {
            let headers: [(&str, &[u8]); 3] =
                [("content-type", &content_type), ("retry-after", &retry_after), ("date", &date)];
            Heard::new(status, &headers, body)
        },
    )
}
