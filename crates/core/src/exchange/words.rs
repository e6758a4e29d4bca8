//! A provider's words, fit for logs, timeline, pages and mails: without the secrets that it repeats in them.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use url::form_urlencoded;

/// In place of a secret.
const HIDDEN: &str = "[hidden]";

/// What is shorter is found by guessing, and may be a word of the sentence.
const SHORTEST_SECRET_BYTES: usize = 8;

/// The secrets of one exchange: those of the request, and those that its answer carries.
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn new(sent: &[SecretString], answer: Option<&Map<String, Value>>) -> Self {
        let mut found: Vec<String> = sent.iter().map(|secret| secret.expose_secret().to_owned()).collect();
        answer.into_iter().flatten().for_each(|(name, value)| collect(name, value, &mut found));
        // As a form would repeat them.
        let encoded: Vec<String> =
            found.iter().map(|secret| form_urlencoded::byte_serialize(secret.as_bytes()).collect()).collect();
        found.extend(encoded);
        found.retain(|secret| secret.len() >= SHORTEST_SECRET_BYTES);
        // A secret that begins with another one is hidden as a whole.
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        found.dedup();
        Self(found)
    }

    pub(super) fn are_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(secret.as_str()))
    }

    /// Without secrets and control characters, cut to `most` characters.
    pub(super) fn plain(&self, text: &str, most: usize) -> String {
        let hidden = self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN));
        hidden.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
    }
}

/// Tokens and secrets have such names with every provider (`access_token`, `id_token`, `client_secret`), wherever they
/// stand.
fn collect(name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if name.ends_with("token") || name.ends_with("secret") => found.push(text.clone()),
        Value::Object(inner) => inner.iter().for_each(|(name, value)| collect(name, value, found)),
        Value::Array(list) => list.iter().for_each(|value| collect(name, value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_secret_of_request_or_answer_is_repeated() {
        let answer =
            json!({"data": {"id_token": "id-5678-token"}, "access_token": "12345678", "token_type": "bearer token"});
        let secrets =
            Secrets::new(&[SecretString::from("RT/1 + more"), SecretString::from("short")], answer.as_object());
        for (said, words) in [
            ("token RT/1 + more is over", "token [hidden] is over"),
            ("refresh_token=RT%2F1+%2B+more&a=b", "refresh_token=[hidden]&a=b"),
            ("id-5678-token, 123456789\n", "[hidden], [hidden]9"),
            ("a bearer token is too short", "a bearer token is too short"),
        ] {
            assert_eq!(secrets.plain(said, 300), words);
        }
        assert_eq!(secrets.plain(&format!("{}12345678", "x".repeat(296)), 300), format!("{}[hid", "x".repeat(296)));
    }
}
