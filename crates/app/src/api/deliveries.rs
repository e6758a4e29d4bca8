//! What providers have sent, and what became of it.

use std::sync::Arc;

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use holdfast_store::{Delivery, DeliveryFilter, DeliveryState, PassedOver};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{
    List, Path, Query,
    caller::Caller,
    connectors::{bad_cursor, limit},
};
use crate::{app::App, hooks::manage, problem::Problem};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only of this connector, by id or alias.
    connector: Option<String>,
    /// Only in this state: `received`, `parked`, `processed`, `failed` or `unreadable`.
    state: Option<String>,
    /// Only about this: a ticket's id at the provider.
    subject: Option<String>,
    /// From the page before.
    cursor: Option<String>,
    /// At most 200; default 50.
    limit: Option<u64>,
}

/// A delivery that was kept.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeliveryBody {
    id: String,
    connector: String,
    provider: String,
    /// The shared word for what happened: `ticket.created`, ...
    topic: String,
    /// The provider's own word.
    provider_type: String,
    /// What it is about there: a ticket's id.
    subject: Option<String>,
    /// `received`, `parked`, `processed`, `failed` or `unreadable`.
    state: &'static str,
    /// Why.
    detail: Option<String>,
    /// What works it off.
    job: Option<String>,
    /// How often the same event came again.
    repeats: u64,
    size_bytes: u64,
    received_at: DateTime<Utc>,
    settled_at: Option<DateTime<Utc>>,
}

/// One with what it said.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeliveryDetailBody {
    #[serde(flatten)]
    delivery: DeliveryBody,
    /// Masked.
    headers: Value,
    /// The runs that it gave to agents.
    runs: Vec<String>,
    /// The connector's agents that it gave none, and why. Null where nobody looked: it is not worked off, is not about a ticket,
    /// or tells of a change that was told before.
    passed_over: Option<Vec<PassedOverBody>>,
    /// What it said, masked and shortened; with the scope `jobs` alone. Null also once it is forgotten.
    body: Option<Value>,
}

/// An agent that a delivery gave no run.
#[derive(Debug, Serialize, ToSchema)]
struct PassedOverBody {
    agent: String,
    /// Its name then.
    name: String,
    /// `paused`, `other_events`, `by_schedule`, `by_hand`, `our_own` or `told_before`.
    why: &'static str,
}

impl From<PassedOver> for PassedOverBody {
    fn from(passed: PassedOver) -> Self {
        Self { agent: passed.agent.to_string(), name: passed.name, why: passed.why.as_str() }
    }
}

impl From<&Delivery> for DeliveryBody {
    fn from(delivery: &Delivery) -> Self {
        Self {
            id: delivery.id.to_string(),
            connector: delivery.connector.to_string(),
            provider: delivery.provider.clone(),
            topic: delivery.topic.clone(),
            provider_type: delivery.kind.clone(),
            subject: delivery.subject.clone(),
            state: delivery.state.as_str(),
            detail: delivery.detail.clone(),
            job: delivery.job.as_ref().map(ToString::to_string),
            repeats: delivery.repeats,
            size_bytes: delivery.size_bytes,
            received_at: delivery.received_at,
            settled_at: delivery.settled_at,
        }
    }
}

/// What providers have sent, newest first.
#[utoipa::path(
    get, path = "/deliveries", tag = "webhooks", params(ListQuery),
    responses((status = 200, body = List<DeliveryBody>), (status = 404, body = Problem), (status = 422, body = Problem))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<List<DeliveryBody>>, Problem> {
    reads(&caller)?;
    let state = match query.state.as_deref() {
        None => None,
        Some(word) => Some(DeliveryState::parse(word).ok_or_else(|| {
            let states = DeliveryState::ALL.map(DeliveryState::as_str).join(", ");
            Problem::invalid("state", format!("state is one of {states}."))
        })?),
    };
    if query.cursor.as_deref().is_some_and(|cursor| !cursor.starts_with("dlv_")) {
        return Err(bad_cursor());
    }
    let connector = match query.connector.as_deref() {
        None => None,
        Some(id) => Some(caller.connector(&app, id).await?.snapshot.connector),
    };
    let filter = DeliveryFilter { connector, state, subject: query.subject };
    let page = app.store.deliveries(caller.org(), &filter, query.cursor.as_deref(), limit(query.limit)?).await?;
    Ok(Json(List { data: page.data.iter().map(DeliveryBody::from).collect(), next_cursor: page.next_cursor }))
}

/// One of them, with what it said.
#[utoipa::path(
    get, path = "/deliveries/{id}", tag = "webhooks", params(("id" = String, Path)),
    responses((status = 200, body = DeliveryDetailBody), (status = 404, body = Problem))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<DeliveryDetailBody>, Problem> {
    reads(&caller)?;
    let delivery = app.store.find_delivery(caller.org(), &id).await?;
    let delivery = delivery.ok_or_else(|| Problem::not_found("delivery"))?;
    let body = if caller.has("jobs") {
        app.store.delivery_body(caller.org(), &delivery.id).await?.map(|body| manage::shown_body(&body))
    } else {
        None
    };
    let runs = app.store.runs_of_delivery(&delivery.id).await?.into_iter().map(|(run, _)| run.id.to_string()).collect();
    let shown = DeliveryBody::from(&delivery);
    let passed_over = delivery.passed_over.map(|all| all.into_iter().map(PassedOverBody::from).collect());
    Ok(Json(DeliveryDetailBody { delivery: shown, headers: delivery.headers, runs, passed_over, body }))
}

fn reads(caller: &Caller) -> Result<(), Problem> {
    if caller.has("jobs") { Ok(()) } else { caller.needs("connectors:read") }
}
