//! Errors as the REST API answers them: `application/problem+json` (RFC 9457) with a stable `code`.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use holdfast_core::{
    AuthError, ConnectorId,
    credential::Trouble,
    error::{Error, ErrorKind, Retry},
    ports::StoreError,
};
use serde::Serialize;
use tracing::error;
use utoipa::ToSchema;

/// The code of the problem that a response holds, for layers around it.
#[derive(Clone, Copy)]
pub struct Code(pub &'static str);

/// A scope of the provider's that was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LackedScope {
    /// As the provider calls it.
    pub name: String,
    /// What it allows, for people, where the adapter knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
}

/// What went wrong, and what to do about it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// A URI reference that names the kind of problem: `/problems/` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// The status in words.
    title: &'static str,
    /// HTTP status.
    status: u16,
    /// What happened here, and the next step.
    detail: String,
    /// Stable, for programs.
    code: &'static str,
    /// Seconds until it makes sense to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    /// Where a person reconnects.
    #[serde(skip_serializing_if = "Option::is_none")]
    reconnect_url: Option<String>,
    /// The input's field that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The connector that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    connector_id: Option<String>,
    /// Why it is, as a stable word.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Scopes that the connector's grant lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_scopes: Vec<LackedScope>,
    /// True: it may have been done all the same, and nobody knows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    maybe_done: bool,
}

impl Problem {
    /// With this status, code and explanation.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/problems/{code}"),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            code,
            retry_after: None,
            reconnect_url: None,
            field: None,
            connector_id: None,
            reason: None,
            missing_scopes: Vec::new(),
            maybe_done: false,
        }
    }

    /// No such thing in this org.
    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("There is no such {what} in this organisation."))
    }

    /// Input that is not understood.
    pub fn invalid(field: &str, detail: impl Into<String>) -> Self {
        Self { field: Some(field.to_owned()), ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail) }
    }

    /// Something else is in the way.
    pub fn conflict(code: &'static str, detail: impl Into<String>, connector: &ConnectorId) -> Self {
        Self { connector_id: Some(connector.to_string()), ..Self::new(StatusCode::CONFLICT, code, detail) }
    }

    /// This field of the input is at fault, where one is known.
    #[must_use]
    pub fn at(mut self, field: Option<String>) -> Self {
        self.field = field.or(self.field);
        self
    }

    /// The provider forbids it for want of these scopes; its words are kept.
    pub fn lacks_scopes(error: Error, scopes: Vec<LackedScope>) -> Self {
        let problem = Self::new(StatusCode::FORBIDDEN, "connector_missing_scope", error.message);
        Self { missing_scopes: scopes, ..problem }
    }

    /// Come back later.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        // Rounded up: who comes back on the second must not come too early.
        self.retry_after = Some(after.as_secs() + u64::from(after.subsec_nanos() > 0));
        self
    }

    /// It may have been done all the same.
    #[must_use]
    pub fn maybe_done(mut self) -> Self {
        self.maybe_done = true;
        self
    }

    /// Where a person reconnects.
    #[must_use]
    pub fn reconnect_at(mut self, url: Option<String>) -> Self {
        self.reconnect_url = url;
        self
    }

    /// This connector is in the way, for this reason.
    #[must_use]
    pub fn because(mut self, connector: &ConnectorId, reason: Option<&'static str>) -> Self {
        self.connector_id = Some(connector.to_string());
        self.reason = reason;
        self
    }

    /// HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).expect("it came from one")
    }

    /// The code, for callers that decide by it.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The connector that is in the way.
    pub fn connector_id(&self) -> Option<&str> {
        self.connector_id.as_deref()
    }

    /// The input's field that is at fault.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Where a person reconnects.
    pub fn reconnect_url(&self) -> Option<&str> {
        self.reconnect_url.as_deref()
    }

    /// The sentence, for surfaces without JSON.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether the same may be tried again, and when.
    pub(crate) fn retry(&self) -> Retry {
        match self.retry_after {
            Some(secs) => Retry::After(Duration::from_secs(secs)),
            None if self.status >= 500 => Retry::Backoff,
            None => Retry::Never,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        error!(error = format!("{:#}", anyhow::Error::new(error)), "the database is in trouble");
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "storage_unavailable",
            "Holdfast cannot reach its database at the moment. Try again.",
        )
        .retry_after(Duration::from_secs(2))
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        Self::of(error, "The provider")
    }
}

impl Problem {
    /// Why there is no token, in words that name the provider.
    pub fn of(error: AuthError, provider: &str) -> Self {
        use StatusCode as S;
        match error {
            AuthError::NotFound => Self::not_found("connector"),
            AuthError::Pending => Self::new(
                S::CONFLICT,
                "connector_pending",
                "The connector is not authorised yet. Send an admin to a connect link.",
            ),
            AuthError::Disconnected => Self::new(
                S::CONFLICT,
                "connector_disconnected",
                "The connector was disconnected by an admin. Reconnect it to use it again.",
            ),
            AuthError::AuthFailed { reason, detail, .. } => {
                let words = detail.map(|words| format!(" It said: {}.", bare(&words))).unwrap_or_default();
                let detail = format!("{}{words} A person has to reconnect it.", reason.sentence(provider));
                Self::new(S::CONFLICT, "connector_auth_failed", detail)
            }
            AuthError::AppRejected { detail, retry_after } => Self::new(
                S::BAD_GATEWAY,
                "oauth_app_rejected",
                format!(
                    "The OAuth app itself is at fault, not the connector; whoever set it up has to look: {}.",
                    bare(&detail)
                ),
            )
            .retry_after(retry_after),
            AuthError::Unreadable => Self::new(
                S::SERVICE_UNAVAILABLE,
                "refresh_unavailable",
                "The stored credential cannot be decrypted: bring the right master key back, or reconnect.",
            )
            .retry_after(Duration::from_mins(1)),
            AuthError::StillGood => Self::new(
                S::SERVICE_UNAVAILABLE,
                "refresh_unavailable",
                "The provider's own test call accepts this token: the API that rejected it probably means that the call is \
                 not allowed.",
            )
            .retry_after(Duration::from_mins(1)),
            AuthError::Unavailable { class, detail, retry_after } => Self::new(
                S::SERVICE_UNAVAILABLE,
                "refresh_unavailable",
                format!(
                    "There is no token at the moment ({}): {}. Nobody has to reconnect{}.",
                    class.as_str(),
                    bare(&detail),
                    // A lost answer or a refusal that is held may end in that.
                    if matches!(class, Trouble::Ambiguous | Trouble::Held) { " yet" } else { "" }
                ),
            )
            .retry_after(retry_after),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        use StatusCode as S;
        let (status, code) = match error.kind {
            ErrorKind::AuthFailed => (S::CONFLICT, "connector_auth_failed"),
            ErrorKind::Forbidden => (S::FORBIDDEN, "provider_forbidden"),
            ErrorKind::NotFound => (S::NOT_FOUND, "provider_not_found"),
            ErrorKind::Conflict => (S::CONFLICT, "provider_conflict"),
            ErrorKind::Invalid => (S::UNPROCESSABLE_ENTITY, "invalid"),
            ErrorKind::Busy => (S::SERVICE_UNAVAILABLE, "provider_busy"),
            ErrorKind::Unavailable => (S::SERVICE_UNAVAILABLE, "provider_unavailable"),
            ErrorKind::Unreadable => (S::BAD_GATEWAY, "provider_unreadable"),
        };
        let problem = Self::new(status, code, error.message);
        match error.retry {
            Retry::Never => problem,
            Retry::Backoff => problem.retry_after(Duration::from_secs(5)),
            Retry::After(after) => problem.retry_after(after),
        }
    }
}

/// Somebody else's words without the mark at their end, to stand within a sentence of ours.
pub(crate) fn bare(words: &str) -> &str {
    words.trim_end_matches(['.', '!', '?', ' '])
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).expect("it was made from a status");
        let retry_after = self.retry_after;
        let code = Code(self.code);
        let mut response = (status, Json(self)).into_response();
        response.extensions_mut().insert(code);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(after) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
