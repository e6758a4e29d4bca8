//! The page of one agent.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use holdfast_core::{
    Role,
    agent::{Status, Trigger},
    playbook::{Playbook, pretty},
    tool::Access,
};
use holdfast_store::{Agent, Binding, Run};
use serde::{Deserialize, Serialize};

use super::{Badge, Cause, RunLine, find, trigger_words};
use crate::{
    agents::manage::{takes_ticket, tools_of, with_tickets},
    app::App,
    hooks, tools,
    ui::{
        moment::Moment,
        parts::Choice,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
};

/// Runs on a page.
const RUNS: u64 = 15;
/// Tickets of each of them.
const TICKETS: usize = 3;
/// A playbook that is longer is left to the page where it is changed, and to the API: a page stays below 60 kB.
const LONGEST_SPEC_BYTES: usize = 12_000;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    /// To be run for.
    ticket: String,
    /// On which of its connectors that is.
    role: String,
    before: String,
    did: String,
}

#[derive(Serialize)]
struct AgentPage {
    id: String,
    name: String,
    badge: Badge,
    causes: Vec<Cause>,
    paused: Option<PausedBy>,
    did: Option<&'static str>,
    /// What is told when the page changes.
    news: String,
    bound: Vec<Bound>,
    /// It was bound to more, which is gone.
    unbound: bool,
    trigger: String,
    /// It works on one ticket, so that a run by hand needs one.
    takes_ticket: bool,
    /// Events set it off, and its playbook looks for tickets itself.
    searches: bool,
    /// What stands in the field for it.
    ticket: String,
    /// The connectors that the ticket may be on, by role, where there are several.
    roles: Vec<Choice>,
    /// It waits for events of connectors that send none.
    deaf: Vec<Deaf>,
    next: Option<Moment>,
    steps: Vec<Step>,
    /// The playbook; `None`: it is too long for a page.
    spec: Option<String>,
    /// What is wrong with the playbook as it is stored.
    broken: Option<String>,
    runs: Vec<RunLine>,
    older: Option<String>,
    newest: Option<String>,
    /// A run is under way.
    running: Option<String>,
    can: Can,
    created: Moment,
}

/// What this person can do with the agent at this moment.
#[derive(Serialize)]
struct Can {
    run: bool,
    dry_run: bool,
    manage: bool,
}

#[derive(Serialize)]
struct PausedBy {
    by: Option<String>,
    at: Moment,
}

/// A connector that does not tell of what happens there.
#[derive(Serialize)]
struct Deaf {
    id: String,
    name: String,
}

/// A connector that it may use.
#[derive(Serialize)]
struct Bound {
    id: String,
    role: String,
    name: String,
    /// `Zendesk acme`
    what: String,
    badge: Badge,
    tools: Vec<Grant>,
}

#[derive(Serialize)]
struct Grant {
    name: &'static str,
    words: &'static str,
    write: bool,
    granted: bool,
}

/// A step of the playbook in words.
#[derive(Serialize)]
struct Step {
    depth: usize,
    title: String,
    tool: Option<String>,
    write: bool,
    more: String,
}

/// GET /agents/{id}
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let agent = find(&app, &person, &id).await?;
    let now = app.seams.clock.now();
    let before = Some(asked.before.as_str()).filter(|before| !before.is_empty());
    let runs = app.store.runs(person.org(), &agent.id, before, RUNS).await?;
    let ids: Vec<_> = runs.data.iter().map(|run| &run.id).collect();
    let tickets = app.store.tickets_of_runs(&ids).await?;
    let address = format!("/agents/{}", agent.id);
    let (steps, broken) = match Playbook::parse(&agent.runner) {
        Ok(playbook) => (steps(&app, &agent, &playbook), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let status = agent.status();
    // Those of events wait for each other; they keep nobody from asking for one.
    let by_hand = |run: &&Run| run.event.as_ref().is_none_or(|event| event.job.is_none());
    let running =
        agent.last_run.as_ref().filter(by_hand).filter(|run| !run.state.is_over()).map(|run| run.id.to_string());
    let with_tickets = with_tickets(&app, &agent);
    let mut deaf = Vec::new();
    if matches!(agent.trigger, Trigger::Events(_)) {
        for binding in &with_tickets {
            if !hooks::manage::is_told(&app, person.org(), &binding.provider, &binding.connector, now).await? {
                deaf.push(Deaf { id: binding.connector.to_string(), name: binding.name.clone() });
            }
        }
    }
    let member = person.may(Role::Member);
    let page = AgentPage {
        badge: Badge::of_agent(status),
        causes: Cause::all(&app, &agent.stops, now),
        paused: agent.paused.as_ref().map(|paused| PausedBy { by: paused.by.clone(), at: Moment::new(paused.at, now) }),
        did: match asked.did.as_str() {
            "made" => Some("The agent is made."),
            "changed" => Some("The agent is changed. Runs that are under way see it at their next step."),
            "paused" => Some("The agent is paused. A run that is under way ends at its next step."),
            "resumed" if status == Status::Deactivated => {
                Some("The pause is over. The agent goes on by itself once what stopped it is mended.")
            }
            "resumed" => Some("The agent goes on."),
            _ => None,
        },
        news: news(&app, &agent),
        bound: agent.bindings.iter().map(|binding| bound(&app, binding)).collect(),
        unbound: agent.stops.iter().any(|stop| !stop.reason.is_reconnectable()),
        trigger: trigger_words(&agent.trigger),
        takes_ticket: takes_ticket(&agent),
        searches: matches!(agent.trigger, Trigger::Events(_)) && !takes_ticket(&agent),
        ticket: asked.ticket,
        roles: with_tickets.iter().filter(|_| with_tickets.len() > 1).map(|one| role(&asked.role, one)).collect(),
        deaf,
        next: Moment::maybe(agent.due_at, now),
        steps,
        spec: Some(pretty(&agent.runner)).filter(|spec| spec.len() <= LONGEST_SPEC_BYTES),
        broken,
        runs: runs.data.iter().map(|run| RunLine::new(run, now).about(tickets.get(&run.id), TICKETS)).collect(),
        older: runs.next_cursor.map(|cursor| format!("{address}?before={cursor}#runs")),
        newest: before.map(|_| format!("{address}#runs")),
        can: Can {
            run: member && status == Status::Active && running.is_none(),
            dry_run: member && status != Status::Deactivated && running.is_none(),
            manage: person.may(Role::Admin),
        },
        running,
        created: Moment::new(agent.created_at, now),
        id: agent.id.to_string(),
        name: agent.name,
    };
    Ok(View::of(&person, Here::Agents, "pages/agents/show.html", &page.name, &page).show(&app))
}

/// In a sentence, for who cannot see that the page changed.
fn news(app: &App, agent: &Agent) -> String {
    let state = match agent.status() {
        Status::Active => "active".to_owned(),
        Status::Paused => "paused".to_owned(),
        Status::Deactivated => format!("stopped: {}", tools::causes(app, &agent.stops)),
    };
    let run = match &agent.last_run {
        Some(run) if run.state.is_over() => format!(" Its last run {}.", run.state.as_str()),
        Some(_) => " A run is under way.".to_owned(),
        None => String::new(),
    };
    format!("{} is {state}.{run}", agent.name)
}

fn role(chosen: &str, binding: &Binding) -> Choice {
    let role = &binding.role;
    Choice { value: role.clone(), word: role.clone(), chosen: role == chosen }
}

fn bound(app: &App, binding: &Binding) -> Bound {
    let grant = |tool: &holdfast_core::tool::Tool| Grant {
        name: tool.name,
        words: first_sentence(tool.description),
        write: tool.access == Access::Write,
        granted: binding.tools.iter().any(|granted| granted == tool.name),
    };
    Bound {
        id: binding.connector.to_string(),
        role: binding.role.clone(),
        name: binding.name.clone(),
        what: tools::connector_name(app, &binding.provider, &binding.account),
        badge: Badge::of_health(binding.health, false),
        tools: tools_of(app, &binding.provider).iter().map(grant).collect(),
    }
}

/// Descriptions are written for models; people need their beginning.
pub(super) fn first_sentence(text: &'static str) -> &'static str {
    text.split_inclusive(". ").next().unwrap_or(text).trim_end()
}

fn steps(app: &App, agent: &Agent, playbook: &Playbook) -> Vec<Step> {
    let is_write = |tool: &str| {
        let all = agent.bindings.iter().flat_map(|binding| tools_of(app, &binding.provider));
        all.into_iter().any(|known| known.name == tool && known.access == Access::Write)
    };
    let step = |line: holdfast_core::playbook::Line| Step {
        depth: line.depth.min(3),
        write: line.tool.as_deref().is_some_and(is_write),
        title: line.title,
        tool: line.tool,
        more: line.more,
    };
    playbook.outline().into_iter().map(step).collect()
}
