//! A file describes a provider to everybody: a secret in it is a mistake, and is refused without repeating it.

use toml_edit::{Item, TableLike, Value};

use crate::fault::{Fault, Written};

/// Keys that hold secrets wherever they are seen.
const KEYS: &[&str] = &[
    "access_token",
    "api_key",
    "apikey",
    "authorization",
    "client_id",
    "client_secret",
    "cookie",
    "password",
    "private_key",
    "refresh_token",
    "secret",
    "signing_secret",
    "token",
    "x-api-key",
];

/// How secrets of well-known services begin.
const BEGINNINGS: &[&str] = &[
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "whsec_",
    "sk-",
    "xoxb-",
    "xoxp-",
    "xoxe-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "shpat_",
    "shpss_",
    "akia",
    "eyj",
    "ya29.",
    "-----begin",
    "bearer ",
    "basic ",
];

/// What is longer without a break and holds digits enough was made by a machine.
const LONGEST_WORD_BYTES: usize = 32;

/// The first secret in the file.
pub(crate) fn find(written: &Written<'_>) -> Option<Fault> {
    in_table(written, written.document.as_table(), "")
}

fn in_table(written: &Written<'_>, table: &dyn TableLike, path: &str) -> Option<Fault> {
    table.iter().find_map(|(name, item)| {
        let key = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let is_scope = path == "scopes";
        if KEYS.contains(&name.to_ascii_lowercase().as_str()) && !is_scope {
            let remedy = "a file is no place for credentials; set them in oauth_apps.ID of the configuration, in the web UI \
                          or when the account is connected, and take the key out";
            return Some(written.fault(&key, "a secret, or what belongs to one, stands in the file", remedy));
        }
        in_item(written, item, &key)
    })
}

fn in_item(written: &Written<'_>, item: &Item, key: &str) -> Option<Fault> {
    if let Some(table) = item.as_table_like() {
        return in_table(written, table, key);
    }
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().find_map(|table| in_table(written, table, key));
    }
    item.as_value().and_then(|value| in_value(written, value, key))
}

fn in_value(written: &Written<'_>, value: &Value, key: &str) -> Option<Fault> {
    match value {
        Value::String(text) if looks_secret(text.value()) => {
            let remedy = "take it out, and make a new one at the provider: this one may have been read";
            Some(written.fault(key, "the value looks like a secret", remedy))
        }
        Value::Array(list) => list.iter().find_map(|value| in_value(written, value, key)),
        _ => None,
    }
}

/// Whether what a person typed where a name is expected is a key: a name is no single word with a digit that begins as a
/// secret and its mark do.
pub(crate) fn is_typed_key(text: &str) -> bool {
    let word = !text.contains(char::is_whitespace) && text.bytes().any(|byte| byte.is_ascii_digit());
    word && begins_as(text, |start| start.ends_with(['_', '-', '.']))
}

/// Whether it begins as the secrets of well-known services do, of those beginnings that count.
fn begins_as(text: &str, counts: impl Fn(&str) -> bool) -> bool {
    let small = text.trim().to_ascii_lowercase();
    BEGINNINGS.iter().any(|start| counts(start) && small.len() >= start.len() + 8 && small.starts_with(start))
}

fn looks_secret(text: &str) -> bool {
    let made = |word: &str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        word.len() >= LONGEST_WORD_BYTES && digits >= 4 && word.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    begins_as(text, |_| true) || text.split(|c: char| !c.is_ascii_alphanumeric() && !"_+=".contains(c)).any(made)
}

#[cfg(test)]
mod tests {
    use super::looks_secret;

    #[test]
    fn a_secret_is_told_from_what_files_hold() {
        for secret in [
            "sk_live_abcdefgh",
            "xoxb-1234-abcdefgh",
            "ghp_abcdefghijkl",
            "0123456789abcdef0123456789abcdef",
            "Bearer abcdefgh",
            "-----BEGIN PRIVATE KEY-----",
            "prefix dGhpc2lzYXNlY3JldDEyMzQ1Njc4OTA=",
        ] {
            assert!(looks_secret(secret), "{secret}");
        }
        for plain in [
            "https://api.hubapi.com/oauth/2026-03/token",
            "^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$",
            "crm.objects.contacts.read",
            "2026-03-11",
            "sk-",
            "Your settings hold an identifier such as 12345678",
            "https://graph.microsoft.com/Mail.Read",
        ] {
            assert!(!looks_secret(plain), "{plain}");
        }
    }
}
