//! Plain pages: one column, one message, one next step; no script, nothing from elsewhere.

use axum::{
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};

/// The one stylesheet.
pub(super) async fn style() -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, "text/css; charset=utf-8"), (header::CACHE_CONTROL, "max-age=3600")];
    (headers, include_str!("plain.css"))
}

/// Text as it may stand in HTML, in an element or a quoted attribute.
pub(super) fn escape(text: &str) -> String {
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

/// How a page feels.
#[derive(Clone, Copy)]
pub(super) enum Mood {
    /// Asks for something.
    Ask,
    /// It worked.
    Done,
    /// It did not.
    Trouble,
}

/// A page. `body` is HTML, its texts escaped by the caller; `title` is text.
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) mood: Mood,
    pub(super) title: String,
    pub(super) body: String,
    /// Where its form may lead in the end, besides ourselves: an origin.
    pub(super) leads_to: Option<String>,
}

impl Page {
    /// Something did not work: what, and the way on.
    pub(super) fn trouble(status: StatusCode, title: &str, way_on: &str) -> Self {
        let body = format!("<p>{}</p>", escape(way_on));
        Self { status, mood: Mood::Trouble, title: title.to_owned(), body, leads_to: None }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let (word, mark) = match self.mood {
            Mood::Ask => ("ask", "&#8594;"),
            Mood::Done => ("done", "&#10003;"),
            Mood::Trouble => ("trouble", "!"),
        };
        let title = escape(&self.title);
        let html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{title} - Holdfast</title><link rel=\"stylesheet\" href=\"/static/plain.css\"></head>\
             <body><main class=\"{word}\"><p class=\"brand\">Holdfast</p>\
             <h1><span class=\"mark\" aria-hidden=\"true\">{mark}</span>{title}</h1>\n{}\n</main></body></html>\n",
            self.body
        );
        let leads_to = self.leads_to.map(|origin| format!(" {origin}")).unwrap_or_default();
        let policy = format!(
            "default-src 'none'; style-src 'self'; form-action 'self'{leads_to}; base-uri 'none'; frame-ancestors 'none'"
        );
        let policy = HeaderValue::try_from(policy).expect("an origin is a valid header");
        (self.status, [(header::CONTENT_SECURITY_POLICY, policy)], Html(html)).into_response()
    }
}

/// The page that an error names for callers that may not make a connect link. It says the same for every id: nobody
/// learns here which ones exist.
pub(super) async fn connector(Path(_id): Path<String>) -> Page {
    Page {
        status: StatusCode::OK,
        mood: Mood::Ask,
        title: "This connector needs an admin".to_owned(),
        body:
            "<p>Whoever runs the integration can make a reconnect link, and you can send it to the helpdesk's admin. \
               With an API key that has <code>connectors:write</code>:</p>\
               <pre><code>POST /api/v1/connectors/ID/reconnect</code></pre>\
               <p>Nothing is lost meanwhile: id, settings and extras stay as they are.</p>"
                .to_owned(),
        leads_to: None,
    }
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escape("<b a=\"x\" b='y'>&"), "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;");
    }
}
