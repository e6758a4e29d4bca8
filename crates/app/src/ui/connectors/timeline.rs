//! What happened to a connector: one line for each, newest first.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{OrgId, Snapshot, credential::Reason, ports::StoreError};
use holdfast_store::{Page, TimelineItem, is_timeline_cursor};
use serde::Serialize;

use super::query;
use crate::{
    app::App,
    ui::moment::Moment,
    words::{self, Tone},
};

/// Lines of a page.
const PAGE: u64 = 20;
/// Younger lines say how long ago; older ones when.
const RECENT: TimeDelta = TimeDelta::hours(20);

/// What people filter by: value, word, and the kinds that it means.
const KINDS: [(&str, &str, &[&str]); 6] = [
    ("", "All", &[]),
    ("refreshes", "Refreshes", &["exchange"]),
    ("tests", "Tests", &["test"]),
    ("health", "Health", &["health", "connected", "reconnected", "disconnected"]),
    ("connects", "Connects", &["connected", "reconnected", "disconnected", "consent", "renamed", "account", "alias"]),
    ("webhook", "Webhook", &["webhook"]),
];

/// As the page shows it.
#[derive(Serialize)]
pub(super) struct Timeline {
    lines: Vec<Line>,
    kinds: Vec<Kind>,
    older: Option<String>,
    newest: Option<String>,
}

#[derive(Serialize)]
struct Kind {
    word: &'static str,
    address: String,
    chosen: bool,
}

#[derive(Serialize)]
struct Line {
    id: String,
    tone: Tone,
    what: String,
    /// Who or what, how long, which version.
    beside: String,
    detail: Option<String>,
    /// Whether the detail is in the provider's own words.
    theirs: bool,
    at: Moment,
    recent: bool,
}

impl Timeline {
    /// A page of it.
    pub(super) async fn read(
        app: &App,
        org: &OrgId,
        connector: &Snapshot,
        kind: &str,
        before: &str,
        now: DateTime<Utc>,
    ) -> Result<Self, StoreError> {
        let (kind, _, kinds) = KINDS.iter().find(|(value, ..)| *value == kind).unwrap_or(&KINDS[0]);
        let cursor = Some(before).filter(|cursor| is_timeline_cursor(cursor));
        let Page { data, next_cursor } = app.store.timeline_of(org, &connector.connector, kinds, cursor, PAGE).await?;
        let provider = app.provider_name(&connector.provider);
        let id = &connector.connector;
        let address = |kind: &str, before: &str| {
            format!("/connectors/{id}{}#timeline", query(&[("kind", kind), ("before", before)]))
        };
        Ok(Self {
            lines: data.into_iter().map(|item| line(item, provider, now)).collect(),
            kinds: KINDS
                .iter()
                .map(|(value, word, _)| Kind { word, address: address(value, ""), chosen: value == kind })
                .collect(),
            older: next_cursor.map(|cursor| address(kind, &cursor)),
            newest: cursor.map(|_| address(kind, "")),
        })
    }
}

fn line(item: TimelineItem, provider: &str, now: DateTime<Utc>) -> Line {
    let (tone, what) = words::line(&item.kind, item.outcome.as_deref(), provider);
    let exchange = item.kind == "exchange";
    let mut beside = Vec::new();
    if let Some(actor) = &item.actor {
        beside.push(if exchange { words::trigger(actor).to_owned() } else { format!("by {actor}") });
    }
    let renewed = exchange && item.outcome.as_deref() == Some("rotated");
    if let Some(version) = item.version.filter(|_| renewed) {
        beside.push(format!("version {}", version.next()));
    }
    if let Some(took) = item.duration.filter(|took| !took.is_zero()) {
        let ms = took.as_millis();
        beside.push(if ms < 10_000 { format!("{ms}\u{a0}ms") } else { format!("{}\u{a0}s", ms / 1000) });
    }
    let mut beside = beside.join(" · ");
    // "Token renewed ahead of its expiry" is one sentence; why an exchange was made is none with what it came to otherwise.
    if exchange && !renewed && !beside.is_empty() {
        beside.insert_str(0, "· ");
    }
    let reason = item.detail.as_deref().and_then(Reason::parse);
    Line {
        id: item.id,
        tone,
        what,
        beside,
        theirs: reason.is_none() && (exchange || item.kind == "health"),
        detail: reason.map(|reason| reason.sentence(provider)).or(item.detail),
        at: Moment::new(item.at, now),
        recent: now - item.at < RECENT,
    }
}
