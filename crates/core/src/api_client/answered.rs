//! An answer that was read to its end, for adapters that need more of it than a body.

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, StatusCode,
    header::{CONTENT_TYPE, LINK},
};

use crate::provider::ApiAnswer;

/// An answer of any status, its body in memory.
#[derive(Debug)]
pub struct Answered {
    /// HTTP status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// From Retry-After.
    pub retry_after: Option<Duration>,
}

impl Answered {
    /// Whether it calls itself a web page, as login pages and closed accounts do.
    pub fn is_html(&self) -> bool {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        kind.trim_start().get(..9).is_some_and(|start| start.eq_ignore_ascii_case("text/html"))
    }

    /// The link to the next page (RFC 8288), as written: only [`super::ApiClient::follow`] says whether it may be followed.
    pub fn next_link(&self) -> Option<&str> {
        let values = self.headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(links).find(|(_, params)| is_next(params)).map(|(target, _)| target)
    }

    /// As [`crate::Provider::api_error`] takes it.
    pub fn to_api_answer(&self) -> ApiAnswer {
        ApiAnswer {
            status: self.status.as_u16(),
            body: serde_json::from_slice(&self.body).ok(),
            retry_after: self.retry_after,
        }
    }
}

/// Target and parameters of each link. A target may hold commas and semicolons, so it ends at its bracket.
fn links(value: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let (_, behind) = rest.split_once('<')?;
        let (target, behind) = behind.split_once('>')?;
        let end = behind.find('<').unwrap_or(behind.len());
        rest = &behind[end..];
        Some((target, &behind[..end]))
    })
}

/// `rel` may name several relations, in any case.
fn is_next(params: &str) -> bool {
    params.split([';', ',']).any(|param| {
        let Some((name, value)) = param.split_once('=') else { return false };
        name.trim().eq_ignore_ascii_case("rel")
            && value.trim().trim_matches('"').split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("next"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(name: &'static str, values: &[&'static str]) -> Answered {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, value.parse().unwrap());
        }
        Answered { status: StatusCode::OK, headers, body: Bytes::new(), retry_after: None }
    }

    #[test]
    fn the_next_link_is_found_among_others() {
        for (values, expected) in [
            (&[r#"<https://a.test/t?page=2>; rel="next""#][..], Some("https://a.test/t?page=2")),
            (&["<https://a.test/t?page=2>;rel=next"], Some("https://a.test/t?page=2")),
            (
                &[r#"<https://a.test/1>; rel="prev", <https://a.test/3>; title="x"; rel="next""#],
                Some("https://a.test/3"),
            ),
            (
                &[r#"<https://a.test/1>; rel="prev""#, r#"<https://a.test/3>; rel="NEXT last""#],
                Some("https://a.test/3"),
            ),
            (&[r#"<https://a.test/a,b;c>; rel="next""#], Some("https://a.test/a,b;c")),
            (&[r#"<https://a.test/1>; rel="prev""#], None),
            (&[r#"<https://a.test/1>; title="next""#], None),
            (&[r#"https://a.test/1; rel="next""#], None),
            (&["<https://a.test/1"], None),
            (&[""], None),
            (&[], None),
        ] {
            assert_eq!(answered("link", values).next_link(), expected, "{values:?}");
        }
    }

    #[test]
    fn a_page_is_told_by_its_type() {
        for (kind, expected) in [
            ("text/html", true),
            ("Text/HTML; charset=utf-8", true),
            ("application/json", false),
            ("text/plain", false),
            ("text", false),
        ] {
            assert_eq!(answered("content-type", &[kind]).is_html(), expected, "{kind}");
        }
        assert!(!answered("content-type", &[]).is_html());
    }
}
