//! Paths that cannot leave the account's API.

use url::Url;

/// What a segment may hold without being encoded: RFC 3986 `unreserved`, save the dot alone.
fn plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~')
}

pub(super) fn encode_segment(text: &str) -> String {
    if text == "." || text == ".." {
        return text.replace('.', "%2E");
    }
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The path as given, its encoding unchanged, if it stays where it is however often a server decodes it; else the
/// reason. `within`: the prefix that it must stay in, by whole segments.
pub fn checked(path: &str, within: Option<&str>) -> Result<String, String> {
    let given = path.trim_start_matches('/');
    let mut decoded = given.to_owned();
    // Servers decode once, proxies in front of them sometimes once more.
    for _ in 0..4 {
        look(&decoded)?;
        let next = percent_decode(&decoded).ok_or("the path is not UTF-8 once it is decoded")?;
        if next == decoded {
            break;
        }
        decoded = next;
    }
    look(&decoded)?;
    if decoded.contains('%') && percent_decode(&decoded).as_deref() != Some(&decoded) {
        return Err("the path is encoded too many times".to_owned());
    }
    if let Some(prefix) = within.map(|prefix| prefix.trim_matches('/')) {
        let inside = decoded == prefix || decoded.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        if !inside {
            return Err(format!("the path is outside of /{prefix}"));
        }
    }
    Ok(given.to_owned())
}

fn look(path: &str) -> Result<(), String> {
    if path.contains(|c: char| c == '\\' || c == '?' || c == '#' || c.is_control()) {
        return Err("the path holds a character that a path may not hold".to_owned());
    }
    // Some servers cut parameters off a segment (`..;x`) before they resolve it.
    let steps = |segment: &str| matches!(segment.split(';').next().unwrap_or_default(), "." | "..");
    if path.split('/').any(steps) {
        return Err("the path steps out with . or ..; give the plain path".to_owned());
    }
    Ok(())
}

fn percent_decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(code) = code {
            out.push(code);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).ok()
}

/// The base with the path below it and the query behind it.
pub(super) fn url(base: &Url, path: &str, query: &[(String, String)]) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::{checked, encode_segment, url};

    /// AP-03
    #[test]
    fn a_path_cannot_leave_its_prefix_in_any_encoding() {
        let within = Some("/api/v2/tickets");
        for bad in [
            "../users",
            "api/v2/tickets/../users",
            "api/v2/tickets/%2e%2e/users",
            "api/v2/tickets/..%2fusers",
            "/api/v2/tickets/..;/users",
            "api/v2/tickets/%252e%252e/users",
            "api/v2/tickets/%25252e%25252e/users",
            "api/v2/tickets/..\\users",
            "api/v2/users",
            "api/v2/tickets_export",
            "api/v2/tickets/1?x=1",
            "api/v2/tickets/%3f",
            "api/v2/tickets/%00",
            "api/v2/tickets/%ff",
        ] {
            assert!(checked(bad, within).is_err(), "{bad} was let through");
        }
        for good in ["api/v2/tickets", "api/v2/tickets/1.json", "/api/v2/tickets/a%20b/comments", "api/v2/tickets/a..b"]
        {
            assert_eq!(checked(good, within).as_deref(), Ok(good.trim_start_matches('/')));
        }
    }

    #[test]
    fn a_segment_stays_one_segment() {
        for (text, encoded) in
            [("12", "12"), ("a/b", "a%2Fb"), ("..", "%2E%2E"), ("a b?#", "a%20b%3F%23"), ("ä", "%C3%A4")]
        {
            assert_eq!(encode_segment(text), encoded);
        }
    }

    #[test]
    fn a_url_keeps_the_base_and_the_encoding() {
        let base = "https://acme.example/x/".parse().unwrap();
        let query = vec![("q".to_owned(), "a b&c".to_owned())];
        assert_eq!(url(&base, "api/a%20b", &query).as_str(), "https://acme.example/x/api/a%20b?q=a+b%26c");
    }
}
