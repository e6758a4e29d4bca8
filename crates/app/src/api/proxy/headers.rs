//! Which headers pass, and which end here.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// What the provider's own `x-request-id` is called: the plain one is ours, and finds the request in our log.
const PROVIDERS_REQUEST_ID: HeaderName = HeaderName::from_static("x-provider-request-id");
const REQUEST_ID: &str = "x-request-id";

/// A caller's headers for the provider: everything but credentials, what belongs to a connection (RFC 9110 section 7.6.1),
/// what proxies in front of us say of the caller, and what would have the provider answer for another path. `length`: of a
/// body that is passed on as it comes.
pub(super) fn to_provider(headers: HeaderMap, length: Option<u64>) -> HeaderMap {
    let mut kept = kept(headers, ends_before_the_provider);
    if let Some(length) = length {
        kept.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    kept
}

/// A provider's headers for the caller: everything but cookies, what belongs to a connection, what speaks for an origin or
/// to a browser about it (ours, not theirs), what caches and web servers between us and the caller would obey, and what
/// only we say.
pub(super) fn to_caller(mut headers: HeaderMap) -> HeaderMap {
    let request_id = headers.remove(REQUEST_ID);
    let mut kept = kept(headers, ends_before_the_caller);
    if let Some(id) = request_id {
        kept.insert(PROVIDERS_REQUEST_ID, id);
    }
    kept
}

fn kept(headers: HeaderMap, ends: impl Fn(&str) -> bool) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let mut kept = HeaderMap::with_capacity(headers.len() + 4);
    let mut current = None;
    // Further values of a name come without it.
    for (name, value) in headers {
        if let Some(name) = name {
            let passes = !of_a_connection(name.as_str())
                && !ends(name.as_str())
                && !named.iter().any(|own| name == own.as_str());
            current = passes.then_some(name);
        }
        if let Some(name) = &current {
            kept.append(name, value);
        }
    }
    kept
}

/// RFC 9110 section 7.6.1, and what is obsolete and still seen.
fn of_a_connection(name: &str) -> bool {
    matches!(name, "connection" | "http2-settings" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade")
        || name.starts_with("proxy-")
}

fn ends_before_the_provider(name: &str) -> bool {
    const PREFIXES: [&str; 5] = ["cf-", "sec-", "x-forwarded-", "x-holdfast-", "x-original-"];
    matches!(
        name,
        // Credentials, ours above all.
        "authorization" | "cookie" | "cookie2"
        // Of this very connection and request.
        | "content-length" | "expect" | "host" | REQUEST_ID
        // What proxies say of the caller.
        | "cdn-loop" | "forwarded" | "true-client-ip" | "via" | "x-client-ip" | "x-cluster-client-ip" | "x-real-ip"
        // Another path than the one that was looked at.
        | "x-rewrite-url"
        // From which page of ours it comes.
        | "origin" | "referer"
    ) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn ends_before_the_caller(name: &str) -> bool {
    const PREFIXES: [&str; 6] =
        ["access-control-", "content-security-policy", "cross-origin-", "public-key-pins", "x-accel-", "x-holdfast-"];
    matches!(
        name,
        "set-cookie" | "set-cookie2"
        // Of their origin, and ours is another.
        | "alt-svc" | "clear-site-data" | "document-policy" | "expect-ct" | "feature-policy" | "nel"
        | "origin-agent-cluster" | "permissions-policy" | "referrer-policy" | "refresh" | "report-to"
        | "reporting-endpoints" | "service-worker-allowed" | "sourcemap" | "speculation-rules"
        | "strict-transport-security" | "timing-allow-origin" | "x-content-type-options" | "x-frame-options"
        | "x-permitted-cross-domain-policies" | "x-sourcemap" | "x-xss-protection"
        // For caches: nothing of this is to be kept.
        | "age" | "cache-control" | "cdn-cache-control" | "cloudflare-cdn-cache-control" | "expires" | "pragma"
        | "surrogate-control"
        // For a web server in front of us, which would send a file of its own.
        | "x-lighttpd-send-file" | "x-reproxy-url" | "x-sendfile"
    ) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = list.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(name, value);
        }
        map
    }

    fn names(map: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = map.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_a_caller_may_set_reaches_the_provider() {
        let given = map(&[
            ("accept", "application/json"),
            ("accept-encoding", "br"),
            ("accept-language", "de"),
            ("content-encoding", "gzip"),
            ("content-type", "text/plain"),
            ("idempotency-key", "k"),
            ("if-none-match", "\"x\""),
            ("prefer", "return=minimal"),
            ("range", "bytes=0-1"),
            ("user-agent", "agent/1"),
            ("x-zendesk-thing", "one"),
            ("x-zendesk-thing", "two"),
        ]);

        assert_eq!(to_provider(given.clone(), None), given);
        assert_eq!(to_provider(given, Some(12))["content-length"], "12");
    }

    #[test]
    fn credentials_connections_and_proxies_end_before_the_provider() {
        let given = map(&[
            ("authorization", "Bearer hf_x"),
            ("cf-connecting-ip", "192.0.2.1"),
            ("connection", "close, X-Secret"),
            ("connection", "x-other"),
            ("content-length", "1"),
            ("cookie", "session=1"),
            ("expect", "100-continue"),
            ("forwarded", "for=192.0.2.1"),
            ("host", "hub.example"),
            ("keep-alive", "timeout=5"),
            ("origin", "https://hub.example"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "close"),
            ("referer", "https://hub.example/"),
            ("sec-websocket-key", "x"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("via", "1.1 x"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-host", "hub.example"),
            ("x-holdfast-source", "provider"),
            ("x-original-url", "/oauth/tokens"),
            ("x-other", "1"),
            ("x-plain", "1"),
            ("x-real-ip", "192.0.2.1"),
            ("x-request-id", "ours"),
            ("x-rewrite-url", "/oauth/tokens"),
            ("x-secret", "1"),
        ]);

        assert_eq!(names(&to_provider(given, None)), ["x-plain"]);
    }

    #[test]
    fn what_the_provider_says_to_its_caller_passes() {
        let given = map(&[
            ("content-disposition", "attachment"),
            ("content-encoding", "gzip"),
            ("content-length", "5"),
            ("content-type", "text/html"),
            ("date", "Sun, 29 Nov 2026 10:00:00 GMT"),
            ("etag", "\"x\""),
            ("link", "</x>; rel=next"),
            ("location", "https://elsewhere.example/"),
            ("ratelimit-remaining", "3"),
            ("retry-after", "3"),
            ("vary", "accept"),
            ("warning", "one"),
            ("warning", "two"),
            ("www-authenticate", "Bearer error=\"insufficient_scope\""),
            ("x-rate-limit", "700"),
        ]);

        assert_eq!(to_caller(given.clone()), given);
        let renamed = to_caller(map(&[("x-request-id", "theirs")]));
        assert_eq!(
            (names(&renamed), &renamed["x-provider-request-id"]),
            (vec!["x-provider-request-id"], &"theirs".parse().unwrap())
        );
    }

    #[test]
    fn what_speaks_for_an_origin_a_cache_or_a_web_server_ends_before_the_caller() {
        let given = map(&[
            ("access-control-allow-origin", "*"),
            ("alt-svc", "h3=\":443\""),
            ("cache-control", "public, max-age=60"),
            ("cdn-cache-control", "max-age=60"),
            ("clear-site-data", "\"*\""),
            ("connection", "x-hop"),
            ("content-security-policy", "default-src *"),
            ("content-security-policy-report-only", "x"),
            ("cross-origin-opener-policy", "unsafe-none"),
            ("expires", "x"),
            ("nel", "{}"),
            ("proxy-authenticate", "Basic"),
            ("refresh", "0; url=https://evil.example/"),
            ("report-to", "{}"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("strict-transport-security", "max-age=1"),
            ("trailer", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2"),
            ("x-accel-redirect", "/internal"),
            ("x-content-type-options", "sniff"),
            ("x-frame-options", "ALLOWALL"),
            ("x-holdfast-source", "holdfast"),
            ("x-hop", "1"),
            ("x-plain", "1"),
            ("x-sendfile", "/etc/passwd"),
        ]);

        assert_eq!(names(&to_caller(given)), ["x-plain"]);
    }
}
