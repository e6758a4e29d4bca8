//! The mirror of a connector's tickets on its page: how far it is, what is wrong, and a button.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Redirect,
};
use chrono::{DateTime, Utc};
use holdfast_core::Health;
use holdfast_store::Mirror;
use serde::Serialize;

use super::find;
use crate::{
    app::App,
    sync,
    ui::{
        form::{Nothing, Posted},
        moment::Moment,
        parts::Badge,
        person::Person,
        trouble::Trouble,
    },
    words::{BAD, GOOD, IDLE, WARN, counted},
};

/// On the connector's page, at a helpdesk.
#[derive(Serialize)]
pub(super) struct Card {
    badge: Badge,
    /// The moment that it shows.
    as_of: Option<Moment>,
    /// `1120 tickets`.
    tickets: String,
    /// What is read so far, while the first one is under way.
    progress: Option<String>,
    /// What is wrong, and what to do.
    trouble: Option<String>,
    next: Option<Moment>,
}

impl Card {
    /// Of a connector that is so.
    pub(super) fn new(mirror: &Mirror, health: Health, now: DateTime<Utc>) -> Self {
        let reads = mirror.began_at.is_some();
        let badge = match (&mirror.fault, mirror.first_at) {
            _ if health != Health::Connected => (IDLE, "Waits for Reconnect"),
            (Some(fault), _) if fault.code == "busy" => (WARN, "Rate limit"),
            (Some(_), _) => (BAD, "Failing"),
            (None, Some(_)) => (GOOD, "Up to date"),
            (None, None) if reads => (IDLE, "First sync"),
            (None, None) => (IDLE, "Begins soon"),
        };
        let progress = format!("{} read so far.", counted(mirror.read, "ticket"));
        Self {
            badge: badge.into(),
            as_of: Moment::maybe(mirror.as_of, now),
            tickets: counted(mirror.tickets, "ticket"),
            progress: (mirror.first_at.is_none() && reads).then_some(progress),
            trouble: mirror.fault.as_ref().map(|fault| format!("{} {}", fault.detail, todo(&fault.code))),
            next: Moment::maybe(mirror.due_at.filter(|at| *at > now), now),
        }
    }
}

/// What helps.
pub(super) fn todo(code: &str) -> &'static str {
    match code {
        "forbidden" => {
            "Reconnect it as somebody who may see all tickets there, an administrator; it is tried again by itself."
        }
        "busy" => "It goes on by itself once there is room again.",
        "unreadable" => "This has to be mended here; the log has more.",
        _ => "It is tried again by itself.",
    }
}

/// POST /connectors/{id}/sync. Where nothing is mirrored any more, the page says so by having no card.
pub(super) async fn act(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Redirect, Trouble> {
    let known = find(&app, &person, &id).await?;
    let mirror = sync::mirror(&app, &known.provider, &known.connector).await?;
    if let Some(mirror) = mirror {
        sync::now(&app, &mirror, &person.actor()).await?;
    }
    Ok(Redirect::to(&format!("/connectors/{id}?did=sync#sync")))
}
