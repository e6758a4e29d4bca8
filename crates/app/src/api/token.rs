//! `GET token` and `POST token/rejected`: what integrators call all day.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient, AuthError, Fingerprint, Need, Secret, Snapshot, api_client::credential_header, ports::Trigger,
};
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Body, Path, Query, caller::Caller};
use crate::{
    app::App,
    connect,
    problem::{Code, Problem},
    words::capitalised,
};

/// A day: no provider's access token is asked to live longer.
const MOST_MIN_TTL_SECS: u64 = 86_400;

/// A token to call the provider with.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenBody {
    access_token: String,
    token_type: &'static str,
    /// The header that the provider wants it in.
    header: String,
    /// What to send in it, ready: `Bearer` and the token; for a key of Freshdesk `Basic` and what the key and `X` are encoded
    /// to; for a token of Shopify the token alone.
    header_value: String,
    /// Null: it is said not to expire.
    expires_at: Option<DateTime<Utc>>,
    version: i64,
    account: String,
    /// Where the account's API lives.
    base_url: String,
}

/// What the token has to be good for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenQuery {
    /// Seconds that the token has to live for; clamped to half of its life. Default 60.
    min_ttl: Option<u64>,
}

/// The token that an API answered 401 to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RejectedBody {
    #[schema(value_type = String)]
    access_token: SecretString,
}

/// Around both: whatever the database does, the caller gets an answer within the bound, and it is the one that the contract
/// names for trouble of ours.
pub(super) async fn in_time(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    tokio::select! {
        biased;
        response = next.run(request) => match response.extensions().get::<Code>() {
            Some(Code("storage_unavailable")) => no_database().into_response(),
            _ => response,
        },
        () = bound(&app) => silent_database().into_response(),
    }
}

/// The same around a part of a call that may take longer as a whole.
pub(super) async fn in_bound<T>(app: &App, part: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    tokio::select! {
        biased;
        result = part => result.map_err(|problem| {
            if problem.code() == "storage_unavailable" { no_database() } else { problem }
        }),
        () = bound(app) => Err(silent_database()),
    }
}

/// The engine's own bound, and a second for what surrounds it.
async fn bound(app: &App) {
    app.seams.clock.sleep(app.config.refresh.wait_bound + Duration::from_secs(1)).await;
}

fn no_database() -> Problem {
    ours("Holdfast cannot reach its database at the moment. Nobody has to reconnect.")
}

fn silent_database() -> Problem {
    ours("Holdfast's database does not answer. Nobody has to reconnect.")
}

fn ours(detail: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "refresh_unavailable", detail).retry_after(Duration::from_secs(2))
}

/// An always-fresh access token.
#[utoipa::path(
    get, path = "/connectors/{id}/token", tag = "tokens", params(("id" = String, Path), TokenQuery),
    responses(
        (status = 200, body = TokenBody),
        (status = 409, body = Problem, description = "`connector_auth_failed`, `connector_pending` or `connector_disconnected`"),
        (status = 502, body = Problem, description = "`oauth_app_rejected`"),
        (status = 503, body = Problem, description = "`refresh_unavailable`, with Retry-After"),
    )
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<TokenQuery>,
) -> Result<Json<TokenBody>, Problem> {
    caller.needs("tokens:read")?;
    let min_ttl = query.min_ttl.unwrap_or(60);
    if min_ttl > MOST_MIN_TTL_SECS {
        return Err(Problem::invalid("min_ttl", format!("min_ttl is in seconds, at most {MOST_MIN_TTL_SECS}.")));
    }
    answer(&app, &caller, &id, &Need::ValidFor(Duration::from_secs(min_ttl)), Trigger::Caller).await
}

/// Another token than the one that was rejected; it is refreshed only if nobody has yet.
#[utoipa::path(
    post, path = "/connectors/{id}/token/rejected", tag = "tokens", params(("id" = String, Path)),
    request_body = RejectedBody,
    responses((status = 200, body = TokenBody), (status = 409, body = Problem), (status = 503, body = Problem))
)]
pub(super) async fn rejected(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Body(body): Body<RejectedBody>,
) -> Result<Json<TokenBody>, Problem> {
    caller.needs("tokens:read")?;
    if body.access_token.expose_secret().is_empty() {
        return Err(Problem::invalid("access_token", "Send the token that the provider's API answered 401 to."));
    }
    let need = Need::Not(Fingerprint::of(&body.access_token));
    answer(&app, &caller, &id, &need, Trigger::Rejected).await
}

async fn answer(
    app: &App,
    caller: &Caller,
    id: &str,
    need: &Need,
    trigger: Trigger,
) -> Result<Json<TokenBody>, Problem> {
    let known = caller.snapshot(app, id).await?;
    match app.engine.fresh(&known.connector, need, trigger).await {
        Ok(snapshot) => {
            app.metrics.usage.handed_out(&known.connector);
            let snapshot = completed(app, snapshot).await;
            body(app, &snapshot).map(Json)
        }
        Err(error) => Err(refused(app, caller, &known, error).await),
    }
}

/// With where its API is, for an imported grant that does not know that yet. The token is as good without.
async fn completed(app: &App, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
    let lacks = app.providers().find(&snapshot.provider).zip(snapshot.credential.secret.tokens());
    if !lacks.is_some_and(|(provider, tokens)| provider.lacks(&tokens.found)) {
        return snapshot;
    }
    match ApiClient::new(&app.engine, &snapshot) {
        Some(api) => api.complete(Arc::clone(&snapshot)).await.unwrap_or(snapshot),
        None => snapshot,
    }
}

/// Why there is no token: with the way to a person where one can mend it.
pub(super) async fn refused(app: &App, caller: &Caller, known: &Snapshot, error: AuthError) -> Problem {
    let name = name(app, known);
    match error {
        AuthError::AuthFailed { .. } | AuthError::Disconnected | AuthError::Pending | AuthError::Unreadable => {
            match in_bound(app, connect::reconnect_url(app, known, caller.has("connectors:write"))).await {
                Ok(url) => Problem::of(error, name).reconnect_at(Some(url)),
                Err(problem) => problem,
            }
        }
        error => Problem::of(error, name),
    }
}

/// The provider's, for people.
pub(super) fn name(app: &App, known: &Snapshot) -> &'static str {
    app.providers().find(&known.provider).map_or("The provider", |provider| provider.about().name)
}

fn body(app: &App, snapshot: &Snapshot) -> Result<TokenBody, Problem> {
    let known = &snapshot.credential.secret;
    let (secret, token_type) = match known {
        Secret::Tokens(tokens) => (&tokens.access_token, "Bearer"),
        Secret::ApiKey(key) => (key, "ApiKey"),
        Secret::Absent | Secret::Unreadable => return Err(AuthError::Pending.into()),
    };
    let tokens = snapshot.credential.secret.tokens();
    let own = tokens.and_then(|tokens| tokens.base_url.clone());
    let provider = app.providers().find(&snapshot.provider);
    let account = provider.and_then(|provider| provider.account(&snapshot.account).ok());
    let sent = provider
        .zip(account.as_ref())
        .and_then(|(provider, account)| credential_header(provider.as_ref(), account, known))
        .unwrap_or_else(|| (AUTHORIZATION, format!("Bearer {}", secret.expose_secret()).into()));
    let base_url = own.or_else(|| account.map(|account| account.base_url)).map(String::from).unwrap_or_default();
    Ok(TokenBody {
        access_token: secret.expose_secret().to_owned(),
        token_type,
        header: sent.0.as_str().split('-').map(capitalised).collect::<Vec<_>>().join("-"),
        header_value: sent.1.expose_secret().to_owned(),
        expires_at: tokens.and_then(|tokens| tokens.expires_at),
        version: snapshot.credential.version.0,
        account: snapshot.account.clone(),
        base_url,
    })
}
