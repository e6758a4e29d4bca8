//! The mirror of a connector's tickets, as the API shows it, and a sync on demand.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use chrono::{DateTime, Utc};
use holdfast_core::{Health, refresh::AuthError};
use holdfast_store::Mirror;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Path, caller::Caller};
use crate::{app::App, problem::Problem, sync};

/// How far the mirror of a connector's tickets has come.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SyncBody {
    /// The moment that it shows; null: the first sync has not read all yet.
    as_of: Option<DateTime<Utc>>,
    /// When a sync had read all last.
    caught_up_at: Option<DateTime<Utc>>,
    /// When the first one had.
    first_caught_up_at: Option<DateTime<Utc>>,
    /// When the next one begins; null: the connector does not work.
    next_at: Option<DateTime<Utc>>,
    /// Tickets in the mirror.
    tickets: u64,
    /// Tickets that were read since a sync had read all last: how far the one under way is.
    read: u64,
    /// Why the last one did not read all; null: it did.
    error: Option<SyncErrorBody>,
}

/// Why a sync did not read all.
#[derive(Debug, Serialize, ToSchema)]
struct SyncErrorBody {
    /// A stable word.
    code: String,
    /// For people.
    detail: String,
    since: Option<DateTime<Utc>>,
}

impl From<Mirror> for SyncBody {
    fn from(mirror: Mirror) -> Self {
        let since = mirror.failing_since;
        Self {
            as_of: mirror.as_of,
            caught_up_at: mirror.caught_up_at,
            first_caught_up_at: mirror.first_at,
            next_at: mirror.due_at,
            tickets: mirror.tickets,
            read: mirror.read,
            error: mirror.fault.map(|fault| SyncErrorBody { code: fault.code, detail: fault.detail, since }),
        }
    }
}

/// Syncs it at the next chance, and does not wait for that.
#[utoipa::path(
    post, path = "/connectors/{id}/sync", tag = "connectors", params(("id" = String, Path)),
    responses((status = 202, body = SyncBody), (status = 404, body = Problem), (status = 409, body = Problem))
)]
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<SyncBody>), Problem> {
    caller.needs("connectors:read")?;
    let known = caller.snapshot(&app, &id).await?;
    let provider = app.provider_name(&known.provider);
    if sync::feed(&app, &known.provider).is_none() {
        let detail = format!("There is no mirror of {provider}: it is no helpdesk, or sync.enabled is off here.");
        return Err(Problem::new(StatusCode::CONFLICT, "no_sync", detail));
    }
    let refused = match known.health {
        Health::Connected => None,
        Health::Pending => Some(AuthError::Pending),
        Health::Disconnected => Some(AuthError::Disconnected),
        Health::AuthFailed => known.health_reason.map(|reason| AuthError::AuthFailed {
            reason,
            detail: known.health_detail.clone(),
            since: known.health_since,
        }),
    };
    if let Some(error) = refused {
        return Err(Problem::of(error, provider));
    }
    let mirror = app.store.mirror(&known.connector).await?.ok_or_else(|| Problem::not_found("mirror"))?;
    sync::now(&app, &mirror, &caller.actor()).await?;
    let mirror = app.store.mirror(&known.connector).await?.unwrap_or(mirror);
    Ok((StatusCode::ACCEPTED, Json(mirror.into())))
}
