//! Requests as the imitations see them, and answers as they write them.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::Value;

/// A request, its path split and decoded, without the prefix of the imitation.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        find(&self.query, name)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn is_json(&self) -> bool {
        self.header("content-type").is_some_and(|kind| {
            let kind = kind.split(';').next().unwrap_or_default();
            kind.trim().eq_ignore_ascii_case("application/json")
        })
    }
}

pub(crate) fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

pub(crate) fn pairs(text: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text).into_owned().collect()
}

/// An answer before it becomes bytes; small, so that it can be the `Err` of a `Result`.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Payload,
    pub(crate) headers: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Payload {
    Json(Value),
    Text(String),
    Html(String),
    Empty,
}

impl Answer {
    pub(crate) fn json(status: u16, body: Value) -> Self {
        Self::new(status, Payload::Json(body))
    }

    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self::new(status, Payload::Text(body.to_owned()))
    }

    pub(crate) fn html(status: u16, body: String) -> Self {
        Self::new(status, Payload::Html(body))
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self::new(status, Payload::Empty)
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn new(status: u16, body: Payload) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            body,
            headers: Vec::new(),
        }
    }

    pub(crate) fn into_response(self) -> Response {
        let (kind, body) = match self.body {
            Payload::Json(value) => ("application/json; charset=utf-8", value.to_string()),
            Payload::Text(text) => ("text/plain; charset=utf-8", text),
            Payload::Html(text) => ("text/html; charset=utf-8", text),
            Payload::Empty => ("", String::new()),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if !kind.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

/// Text as HTML shows it, safe in elements and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The pieces of HTML for all of `items`, one after the other.
pub(crate) fn each<T>(items: impl IntoIterator<Item = T>, html: impl Fn(T) -> String) -> String {
    items.into_iter().fold(String::new(), |mut all, item| {
        all.push_str(&html(item));
        all
    })
}
