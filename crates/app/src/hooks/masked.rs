//! What is kept of a delivery's headers: nothing that proves something to somebody else.

use http::HeaderMap;
use serde_json::{Map, Value};

/// What stands in a name whose value is a secret, or next to one.
const SECRET: [&str; 9] = ["auth", "cookie", "hmac", "key", "password", "secret", "signature", "token", "jwt"];
/// More of them are no provider's.
const MOST: usize = 40;
/// Of one value.
const LONGEST: usize = 200;

/// By name; of several of one name, the first.
pub(super) fn headers(headers: &HeaderMap) -> Value {
    let shown = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let name = name.as_str();
        let secret = SECRET.iter().any(|word| name.contains(word));
        let value = if secret {
            holdfast_core::mask::MASKED.to_owned()
        } else {
            value.to_str().unwrap_or("(no text)").chars().take(LONGEST).collect()
        };
        (name.chars().take(LONGEST).collect::<String>(), Value::String(value))
    };
    let mut all = Map::new();
    for (name, value) in headers.iter().take(MOST).map(shown) {
        all.entry(name).or_insert(value);
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_proves_something_is_kept() {
        let given = [
            ("content-type", "application/json"),
            ("authorization", "Bearer eyJ"),
            ("x-goog-channel-token", "s3cret"),
            ("x-holdfast-secret", "s3cret"),
            ("x-shopify-hmac-sha256", "abc="),
            ("x-zendesk-webhook-signature", "abc="),
            ("x-zendesk-webhook-id", "01ABC"),
        ];
        let given: HeaderMap = given
            .into_iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();

        let kept = headers(&given);

        let text = kept.to_string();
        assert!(!text.contains("s3cret") && !text.contains("abc=") && !text.contains("eyJ"), "{text}");
        assert_eq!(kept["x-zendesk-webhook-id"], "01ABC");
        assert_eq!(kept["content-type"], "application/json");
        assert_eq!(kept["authorization"], holdfast_core::mask::MASKED);
    }
}
