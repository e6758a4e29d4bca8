//! Paths that cannot leave the account's API.

use http::uri::PathAndQuery;
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

/// A path that stays where it is however often a server decodes it.
pub(super) struct Checked<'a> {
    /// Without slashes at its start, its encoding unchanged.
    pub(super) given: &'a str,
    /// Decoded until nothing changes any more.
    pub(super) decoded: String,
}

/// The path as given, its encoding unchanged, if it stays where it is however often a server decodes it; else the
/// reason. `within`: the prefix that it must stay in, by whole segments.
pub fn checked(path: &str, within: Option<&str>) -> Result<String, String> {
    check(path, within).map(|checked| checked.given.to_owned())
}

pub(super) fn check<'a>(path: &'a str, within: Option<&str>) -> Result<Checked<'a>, String> {
    let given = path.trim_start_matches('/');
    let mut decoded = given.to_owned();
    // Servers decode once, proxies in front of them sometimes once more.
    for _ in 0..4 {
        look(&decoded)?;
        if !decoded.contains('%') {
            break;
        }
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
    Ok(Checked { given, decoded })
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

/// Path and query below the base, byte for byte; else the reason.
pub(super) fn exact(base: &Url, path: &str, query: Option<&str>) -> Result<PathAndQuery, String> {
    let mut target = format!("{}/{path}", base.path().trim_end_matches('/'));
    if let Some(query) = query {
        target.push('?');
        target.push_str(query);
    }
    PathAndQuery::try_from(target).map_err(|_| "path or query hold a character that has to be encoded".to_owned())
}

/// Paths below an API's base that are not to be called, each by its segments.
#[derive(Debug)]
pub(super) struct Closed(Vec<Vec<String>>);

impl Closed {
    /// The paths of those URLs that lie below the base, and further ones relative to it. Each closes everything below it
    /// too.
    pub(super) fn new(base: &Url, urls: &[&Url], paths: &[&str]) -> Self {
        let place = |url: &Url| (url.host_str().map(str::to_owned), url.port_or_known_default());
        let here = base.path().trim_end_matches('/');
        let below = urls.iter().filter(|url| place(url) == place(base)).filter_map(|url| {
            let rest = url.path().strip_prefix(here)?;
            rest.starts_with('/').then_some(rest)
        });
        let split = |path: &str| segments(path).map(str::to_owned).collect::<Vec<_>>();
        Self(below.chain(paths.iter().copied()).map(split).filter(|path| !path.is_empty()).collect())
    }

    /// Whether a decoded path is one of them, in whatever way a lenient server may read it: in other letters, with empty
    /// segments, parameters or an extension.
    pub(super) fn covers(&self, decoded: &str) -> bool {
        self.0.iter().any(|closed| {
            let mut given = segments(decoded);
            let (last, parents) = closed.split_last().expect("none is empty");
            let bare = last.split('.').next().unwrap_or_default();
            parents.iter().all(|parent| given.next().is_some_and(|given| given.eq_ignore_ascii_case(parent)))
                && given.next().is_some_and(|given| {
                    let stem = given.split('.').next().unwrap_or_default();
                    given.eq_ignore_ascii_case(last) || stem.eq_ignore_ascii_case(bare)
                })
        })
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    let plain = path.split('/').map(|segment| segment.split(';').next().unwrap_or_default());
    plain.map(|segment| segment.trim_end_matches(['.', ' '])).filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Closed, checked, encode_segment, exact, url};

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

    #[test]
    fn a_path_that_is_passed_through_stays_as_it_is_written() {
        let base = "https://acme.example/x/".parse().unwrap();
        for (path, query) in
            [("api/a%20b/%c3%A4/(1)", Some("q='a'&b=%2f%2F+%20&c[]=1&d=|{f}")), ("/api//v2/", Some("")), ("", None)]
        {
            let target = exact(&base, path, query).unwrap();
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            assert_eq!(target.as_str(), format!("/x/{path}{query}"));
        }
        assert!(exact(&base, "a b", None).is_err() && exact(&base, "a", Some("b c")).is_err());
    }

    #[test]
    fn a_closed_path_is_closed_however_it_is_written() {
        let base = "https://acme.example/desk".parse().unwrap();
        let urls =
            ["https://acme.example/desk/login/token", "https://acme.example/token", "https://other.example/desk/x"]
                .map(|url| url.parse().unwrap());
        let closed = Closed::new(&base, &urls.each_ref(), &["oauth", "api/v2/oauth"]);
        for path in [
            "oauth",
            "oauth/tokens",
            "OAuth/tokens",
            "//oauth//tokens",
            "oauth;v=1/tokens",
            "oauth./tokens",
            "oauth.json",
            "api/v2/oauth/clients/1.json",
            "login/token",
            "login/token/",
            "login/Token.json",
        ] {
            assert!(closed.covers(path), "{path} is open");
        }
        for path in ["oauths/tokens", "api/oauth", "api/v2/tickets/oauth", "login", "login/tokens", "token", "x", ""] {
            assert!(!closed.covers(path), "{path} is closed");
        }
    }
}
