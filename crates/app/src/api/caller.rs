//! Who calls: an API key, its org and its scopes.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{StatusCode, header, request::Parts},
    middleware::Next,
    response::Response,
};
use holdfast_core::{OrgId, Snapshot};
use holdfast_store::{ApiKey, By, ByKind, ConnectorView, Surface, acting};

use crate::{app::App, problem::Problem, ui::throttle};

/// A request with a good API key.
pub(super) struct Caller(Arc<ApiKey>);

impl Caller {
    pub(super) fn org(&self) -> &OrgId {
        &self.0.org
    }

    /// For the timeline.
    pub(super) fn actor(&self) -> String {
        format!("key {}", self.0.name)
    }

    pub(super) fn has(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|own| own == scope || own == "admin")
    }

    pub(super) fn needs(&self, scope: &'static str) -> Result<(), Problem> {
        if self.has(scope) {
            return Ok(());
        }
        let detail = format!(
            "This API key lacks the scope {scope}. Make one that has it: holdfast key create --org ORG --name NAME --scope {scope}"
        );
        Err(Problem::new(StatusCode::FORBIDDEN, "missing_scope", detail))
    }

    /// The org's connector of this id or alias, as the API shows it.
    pub(super) async fn connector(&self, app: &App, id: &str) -> Result<ConnectorView, Problem> {
        app.store.find_connector(self.org(), id).await?.ok_or_else(|| Problem::not_found("connector"))
    }

    /// The org's connector of this id or alias, from memory where it is known there.
    pub(super) async fn snapshot(&self, app: &App, id: &str) -> Result<Arc<Snapshot>, Problem> {
        if id.starts_with("con_")
            && let Some(snapshot) = app.engine.snapshot(&id.into()).await?
            && snapshot.org == *self.org()
        {
            return Ok(snapshot);
        }
        app.aliases.find(app, self.org(), id).await?.ok_or_else(|| Problem::not_found("connector"))
    }
}

/// What a request changes is its key's. One without a good key is refused by whoever needs one.
pub(super) async fn attribute(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(Caller(key)) = Caller::from_request_parts(&mut parts, &app).await else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    let by = By {
        kind: ByKind::Key,
        id: Some(key.id.clone()),
        name: key.name.clone(),
        surface: Surface::Api,
        address: throttle::from(&parts.extensions),
    };
    parts.extensions.insert(key);
    acting(by, next.run(Request::from_parts(parts, body))).await
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        // Whoever asked first has looked already.
        if let Some(key) = parts.extensions.get::<Arc<ApiKey>>() {
            return Ok(Self(Arc::clone(key)));
        }
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let text =
            header.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let refused = |detail| Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
        let Some((_, text)) = text.filter(|(_, text)| text.trim().starts_with("hf_")) else {
            return Err(refused("Send an API key of Holdfast: Authorization: Bearer hf_..."));
        };
        match app.keys.find(&app.store, text.trim()).await? {
            Some(key) => Ok(Self(key)),
            None => Err(refused("This API key is unknown or revoked. This is about your key, not about a connector.")),
        }
    }
}
