//! The audit log: who changed what, from where.

use std::sync::Arc;

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use holdfast_store::{AuditFilter, AuditLine};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{
    List, Query,
    caller::Caller,
    connectors::{bad_cursor, limit},
};
use crate::{app::App, problem::Problem};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// By whom: an id, a kind (`person`, `key`, `cli`, ...), or a part of the name.
    actor: Option<String>,
    /// An action, or how it begins: `connector.`.
    action: Option<String>,
    /// To what: an id, a kind (`connector`, `key`, ...), or a part of the name.
    target: Option<String>,
    /// Not before this moment.
    since: Option<DateTime<Utc>>,
    /// Before this moment.
    until: Option<DateTime<Utc>>,
    cursor: Option<String>,
    limit: Option<u64>,
}

/// A change.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditBody {
    id: String,
    at: DateTime<Utc>,
    /// A stable dotted word: `connector.renamed`.
    action: String,
    actor: ActorBody,
    /// The way that they came: `web`, `api`, `cli`, `link`; `none`: Holdfast itself.
    surface: String,
    /// The client's address, where it is known.
    address: Option<String>,
    target: TargetBody,
    /// The fields that changed, as they were; a secret is never among them.
    before: Option<Value>,
    /// As they are since. Of a secret, that it is `changed`.
    after: Option<Value>,
}

/// Who made a change.
#[derive(Serialize, ToSchema)]
struct ActorBody {
    /// `person`, `operator`, `key`, `cli`, `link`, `visitor` or `holdfast`.
    kind: String,
    id: Option<String>,
    /// As it was at that time.
    name: String,
}

/// What was changed.
#[derive(Serialize, ToSchema)]
struct TargetBody {
    /// `connector`, `agent`, `person`, `key`, ...
    kind: String,
    id: String,
    /// As it was at that time.
    name: String,
}

impl From<AuditLine> for AuditBody {
    fn from(line: AuditLine) -> Self {
        let ((kind, id, name), (surface, address)) = (line.actor, line.from);
        let actor = ActorBody { kind, id, name };
        let (kind, id, name) = line.target;
        let target = TargetBody { kind, id, name };
        let AuditLine { id, at, action, before, after, .. } = line;
        Self { id, at, action, actor, surface, address, target, before, after }
    }
}

/// What was changed, newest first: by people, API keys, the command line and links. Lines are never changed or deleted.
#[utoipa::path(
    get, path = "/audit", tag = "audit", params(ListQuery),
    responses((status = 200, body = List<AuditBody>), (status = 422, body = Problem))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<List<AuditBody>>, Problem> {
    caller.needs("audit:read")?;
    if query.cursor.as_deref().is_some_and(|cursor| !cursor.starts_with("aud_")) {
        return Err(bad_cursor());
    }
    let filter = AuditFilter {
        instance: false,
        actor: query.actor,
        action: query.action,
        target: query.target,
        since: query.since,
        until: query.until,
    };
    let page = app.store.audit_lines(caller.org(), &filter, query.cursor.as_deref(), limit(query.limit)?).await?;
    Ok(Json(List { data: page.data.into_iter().map(AuditBody::from).collect(), next_cursor: page.next_cursor }))
}
