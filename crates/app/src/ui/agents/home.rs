//! The list of agents.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    response::Response,
};
use holdfast_core::{Role, agent::Status};
use serde::{Deserialize, Serialize};

use super::{Badge, Cause, RunLine, trigger_words};
use crate::{
    agents::samples,
    app::App,
    ui::{
        moment::Moment,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
};

/// Of a page.
const ROWS: u64 = 50;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    after: String,
    did: String,
}

#[derive(Serialize)]
struct AgentsPage {
    did: Option<&'static str>,
    rows: Vec<Row>,
    /// How many of this page are stopped.
    stopped: usize,
    /// For the first ones.
    samples: Vec<SampleTile>,
    /// Whether anything is connected that an agent could work on.
    connected: bool,
    /// What is told when the page changes.
    news: String,
    first: bool,
    next: Option<String>,
    admin: bool,
}

#[derive(Serialize)]
struct Row {
    id: String,
    name: String,
    badge: Badge,
    causes: Vec<Cause>,
    /// Paused beside being stopped.
    paused_too: bool,
    connectors: Vec<Bound>,
    trigger: String,
    next: Option<Moment>,
    last: Option<RunLine>,
}

#[derive(Serialize)]
struct Bound {
    id: String,
    name: String,
}

/// A playbook to begin with.
#[derive(Serialize)]
pub(super) struct SampleTile {
    id: &'static str,
    name: &'static str,
    description: &'static str,
}

/// All samples.
pub(super) fn tiles() -> Vec<SampleTile> {
    let tile = |sample: &'static samples::Sample| SampleTile {
        id: &sample.id,
        name: &sample.name,
        description: &sample.description,
    };
    samples::all().iter().map(tile).collect()
}

/// GET /agents
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let after = Some(asked.after.as_str()).filter(|after| !after.is_empty());
    let found = app.store.agents(person.org(), after, ROWS).await?;
    let mut rows: Vec<_> = found
        .data
        .iter()
        .map(|agent| Row {
            id: agent.id.to_string(),
            name: agent.name.clone(),
            badge: Badge::of_agent(agent.status()),
            causes: Cause::all(&app, &agent.stops, now),
            paused_too: agent.paused.is_some() && agent.status() == Status::Deactivated,
            connectors: agent
                .bindings
                .iter()
                .map(|binding| Bound { id: binding.connector.to_string(), name: binding.name.clone() })
                .collect(),
            trigger: trigger_words(&agent.trigger),
            next: Moment::maybe(agent.due_at, now),
            last: agent.last_run.as_ref().map(|run| RunLine::new(run, now)),
        })
        .collect();
    // What needs somebody comes first.
    rows.sort_by_key(|row| row.causes.is_empty());
    let stopped = rows.iter().filter(|row| !row.causes.is_empty()).count();
    let connected =
        !app.store.connectors(person.org(), &holdfast_store::Filter::default(), None, 1).await?.data.is_empty();
    let page = AgentsPage {
        did: (asked.did == "deleted").then_some("The agent is deleted, with its runs."),
        news: match stopped {
            0 => "All agents can work.".to_owned(),
            1 => "1 agent is stopped.".to_owned(),
            many => format!("{many} agents are stopped."),
        },
        stopped,
        samples: if rows.is_empty() && after.is_none() { tiles() } else { Vec::new() },
        rows,
        connected,
        first: after.is_none(),
        next: found.next_cursor.map(|cursor| format!("/agents?after={cursor}")),
        admin: person.may(Role::Admin),
    };
    Ok(View::of(&person, Here::Agents, "pages/agents/home.html", "Agents", &page).show(&app))
}
