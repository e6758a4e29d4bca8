//! What people and keys do to an agent. One place for API and pages: what is given is checked against the connectors and
//! their tools before anything is written.

use std::sync::Arc;

use holdfast_core::{
    AgentId, OrgId, RunId,
    agent::{TicketEvents, Trigger},
    calendar::{Calendar, Missed, NoCalendar},
    playbook::{Playbook, Role, SpecError},
    ports::Changed,
    tool::Tool,
};
use holdfast_store::{Agent, AgentChange, Altered, Binding, Made, NewAgent, NewBinding, Queued};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;
use utoipa::ToSchema;

use super::samples;
use crate::{app::App, care, problem::Problem, tools, words::capitalised};

/// Connectors of one agent.
const MOST_CONNECTORS: usize = 10;
/// What a connector is called where nobody says it.
const USUAL_ROLE: &str = "main";
/// Characters of a ticket's id.
const LONGEST_TICKET: usize = 100;

/// An agent to be made.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAgentBody {
    /// What people call it; default: the sample's name.
    pub name: Option<String>,
    /// The sample that it is made from, in place of `runner`.
    pub sample: Option<String>,
    /// How it works: `{"kind": "playbook", "steps": [...]}`.
    pub runner: Option<Value>,
    /// What it may use.
    pub connectors: Vec<BindingBody>,
    /// When it runs by itself; default: the sample's, or never.
    pub trigger: Option<TriggerBody>,
    /// It starts paused, to be tried with dry runs first.
    #[serde(default)]
    pub paused: bool,
}

/// What to change; what is absent stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentChangeBody {
    /// What people call it.
    pub name: Option<String>,
    /// How it works.
    pub runner: Option<Value>,
    /// All that it may use from now on.
    pub connectors: Option<Vec<BindingBody>>,
    /// When it runs by itself; a new one begins at once.
    pub trigger: Option<TriggerBody>,
}

/// A connector that an agent may use.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BindingBody {
    /// Its id or alias.
    pub connector: String,
    /// What the playbook calls it, in `on`; default: `main`, or the sample's word.
    pub role: Option<String>,
    /// What the agent may do there; default: what its playbook asks for, and no more.
    pub tools: Option<Vec<String>>,
}

/// When an agent runs by itself.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerBody {
    /// `manual`, `schedule`, `cron` or `events`.
    pub kind: String,
    /// Seconds between two runs of a schedule.
    pub every_secs: Option<u64>,
    /// The events that give it a run each: `ticket.created`, `ticket.replied`, `ticket.changed`.
    pub events: Option<Vec<String>>,
    /// Five fields: minute, hour, day of the month, month, weekday.
    pub cron: Option<String>,
    /// In which those are meant, by its IANA name; default: `UTC`.
    pub time_zone: Option<String>,
    /// What becomes of times at which it could not run: `run_once` (default) makes up for them once, `skip` leaves them out.
    pub missed: Option<String>,
}

/// Makes an agent; `actor` is who. Under an `id` that was chosen beforehand a wish that comes twice makes one.
pub async fn create(
    app: &Arc<App>,
    org: &OrgId,
    actor: &str,
    id: Option<AgentId>,
    body: NewAgentBody,
) -> Result<Agent, Problem> {
    let sample = match &body.sample {
        None => None,
        Some(id) => Some(samples::find(id).ok_or_else(|| {
            let known: Vec<_> = samples::all().iter().map(|sample| sample.id.as_str()).collect();
            Problem::invalid("sample", format!("There is no such sample; there are {}.", known.join(", ")))
        })?),
    };
    let name = checked_name(body.name.as_deref().or(sample.map(|sample| sample.name.as_str())))?;
    let runner = match (body.runner, sample) {
        (Some(runner), _) => runner,
        (None, Some(sample)) => sample.runner.clone(),
        (None, None) => return Err(Problem::invalid("runner", "Give a runner, or the sample to make it from.")),
    };
    let trigger = match (&body.trigger, sample) {
        (Some(trigger), _) => checked_trigger(trigger)?,
        (None, Some(sample)) => sample.trigger().unwrap_or(Trigger::Manual),
        (None, None) => Trigger::Manual,
    };
    let playbook = Playbook::parse(&runner).map_err(|error| spec_problem(&error))?;
    let mut given = body.connectors;
    if let Some(sample) = sample
        && let ([one], [needed]) = (given.as_mut_slice(), sample.connectors.as_slice())
    {
        one.role.get_or_insert_with(|| needed.role.clone());
    }
    fits(&playbook, &trigger)?;
    let bound = resolve(app, org, given, &playbook).await?;
    check(&playbook, &bound)?;
    let new = NewAgent {
        id: id.clone(),
        org: org.clone(),
        name,
        runner,
        trigger,
        bindings: bound.into_iter().map(|(binding, _)| binding).collect(),
        paused_by: body.paused.then(|| actor.to_owned()),
        at: app.seams.clock.now(),
    };
    match app.store.create_agent(&new).await? {
        Made::Yes(id) => {
            info!(agent.id = %id, "made agent {id}");
            app.agents.wake();
            find(app, org, id.as_str()).await
        }
        Made::Already => find(app, org, id.as_ref().map(AgentId::as_str).unwrap_or_default()).await,
        Made::NoConnector(_) => Err(no_connector(0)),
    }
}

/// Changes an agent.
pub async fn change(app: &Arc<App>, org: &OrgId, id: &str, body: AgentChangeBody) -> Result<Agent, Problem> {
    let agent = find(app, org, id).await?;
    let mut change = AgentChange::default();
    if let Some(name) = &body.name {
        change.name = Some(checked_name(Some(name))?);
    }
    if let Some(trigger) = &body.trigger {
        change.trigger = Some(checked_trigger(trigger)?);
    }
    // Runner, trigger and bindings have to fit each other, whichever of them is changed.
    if body.runner.is_some() || body.connectors.is_some() || change.trigger.is_some() {
        let runner = body.runner.as_ref().unwrap_or(&agent.runner);
        let playbook = Playbook::parse(runner).map_err(|error| spec_problem(&error))?;
        fits(&playbook, change.trigger.as_ref().unwrap_or(&agent.trigger))?;
        let bound = match body.connectors {
            Some(given) => resolve(app, org, given, &playbook).await?,
            None => as_bound(app, &agent.bindings),
        };
        check(&playbook, &bound)?;
        change.bindings = Some(bound.into_iter().map(|(binding, _)| binding).collect());
    }
    change.runner = body.runner;
    match app.store.change_agent(org, &agent.id, &change, app.seams.clock.now()).await? {
        Altered::Yes => {
            app.agents.wake();
            find(app, org, id).await
        }
        Altered::NoAgent => Err(Problem::not_found("agent")),
        Altered::NoConnector(_) => Err(no_connector(0)),
    }
}

/// Pauses it, or lets it go on; doing so twice changes nothing.
pub async fn pause(app: &Arc<App>, org: &OrgId, id: &str, actor: &str) -> Result<Agent, Problem> {
    let agent = find(app, org, id).await?;
    if app.store.pause_agent(org, &agent.id, actor, app.seams.clock.now()).await? == Changed::Yes {
        info!(agent.id = %agent.id, "paused agent {}", agent.id);
    }
    find(app, org, id).await
}

/// Lets it go on; what stops it still does.
pub async fn resume(app: &Arc<App>, org: &OrgId, id: &str) -> Result<Agent, Problem> {
    let agent = find(app, org, id).await?;
    if app.store.resume_agent(org, &agent.id, app.seams.clock.now()).await? == Changed::Yes {
        info!(agent.id = %agent.id, "resumed agent {}", agent.id);
        app.agents.wake();
    }
    find(app, org, id).await
}

/// Removes it with its runs.
pub async fn delete(app: &Arc<App>, org: &OrgId, id: &str) -> Result<(), Problem> {
    let agent = find(app, org, id).await?;
    app.store.delete_agent(org, &agent.id).await?;
    info!(agent.id = %agent.id, "deleted agent {}", agent.id);
    Ok(())
}

/// A run that somebody wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// It is to change nothing.
    pub dry: bool,
    /// The ticket that it is to be about.
    pub ticket: Option<&'a str>,
    /// On which of the agent's connectors that ticket is, by its role; not needed where one of them alone has tickets.
    pub role: Option<&'a str>,
}

/// Asks for a run. One that is not to change anything is taken of a paused agent too.
pub async fn run(
    app: &Arc<App>,
    org: &OrgId,
    id: &str,
    actor: &str,
    wanted: Wanted<'_>,
    may_connect: bool,
) -> Result<Asked, Problem> {
    let agent = find(app, org, id).await?;
    let dry = wanted.dry;
    let about = match wanted.ticket.map(str::trim) {
        Some(_) if !takes_ticket(&agent) => {
            let detail = "This agent's playbook looks for tickets itself, so a run cannot be held to one. Ask for a run \
                          without a ticket, or have the playbook read the one of the event.";
            return Err(Problem::invalid("ticket_id", detail));
        }
        Some(ticket) if (1..=LONGEST_TICKET).contains(&ticket.chars().count()) => {
            let on = ticket_on(app, &agent, wanted.role)?;
            Some(json!({
                "topic": "by_hand", "kind": "by_hand", "ticket_id": ticket, "role": on.role, "by": null,
                "connector": { "id": on.connector, "provider": on.provider, "account": on.account },
            }))
        }
        Some(_) => {
            let detail = format!("Give the id of a ticket, with 1 to {LONGEST_TICKET} characters.");
            return Err(Problem::invalid("ticket_id", detail));
        }
        None if wanted.role.is_some() => {
            return Err(Problem::invalid("role", "A role says where a ticket is: give ticket_id as well."));
        }
        None if takes_ticket(&agent) => {
            let detail = "This agent works on one ticket. Say which one it is to take.";
            return Err(Problem::invalid("ticket_id", detail));
        }
        None => None,
    };
    if !agent.stops.is_empty() {
        return Err(tools::deactivated(app, &agent.name, &agent.stops, may_connect).await);
    }
    if agent.paused.is_some() && !dry {
        return Err(tools::paused(&agent.name));
    }
    match app.store.queue_run(org, &agent.id, actor, dry, about, app.seams.clock.now()).await? {
        Queued::Yes(run) => {
            app.agents.wake();
            Ok(Asked { agent, run, new: true })
        }
        Queued::Other(run) => Ok(Asked { agent, run, new: false }),
        Queued::NoAgent => Err(Problem::not_found("agent")),
    }
}

/// A run that was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Of which agent.
    pub agent: Agent,
    /// The run.
    pub run: RunId,
    /// Whether it was made for this; else the agent is running already, and runs once at a time.
    pub new: bool,
}

/// Whether a run of it is about one ticket: a playbook that looks for tickets itself cannot be held to one, whatever sets it off.
pub(crate) fn takes_ticket(agent: &Agent) -> bool {
    Playbook::parse(&agent.runner).is_ok_and(|playbook| playbook.reads_event().is_some())
}

/// Its connectors that have tickets.
pub(crate) fn with_tickets<'a>(app: &App, agent: &'a Agent) -> Vec<&'a Binding> {
    agent.bindings.iter().filter(|binding| has_tickets(app, &binding.provider)).collect()
}

/// Whether there are tickets at a provider.
pub(crate) fn has_tickets(app: &App, provider: &str) -> bool {
    tools_of(app, provider).iter().any(|tool| tool.name == "get_ticket")
}

/// The connector whose ticket is meant.
fn ticket_on<'a>(app: &App, agent: &'a Agent, role: Option<&str>) -> Result<&'a Binding, Problem> {
    let all = with_tickets(app, agent);
    let roles = || all.iter().map(|binding| binding.role.as_str()).collect::<Vec<_>>().join(", ");
    match (role, all.as_slice()) {
        (_, []) => Err(Problem::invalid("ticket_id", "None of the agent's connectors has tickets.")),
        (None, [one]) => Ok(one),
        (None, _) => {
            let detail = format!("Say on which connector the ticket is: role is one of {}.", roles());
            Err(Problem::invalid("role", detail))
        }
        (Some(role), _) => all.iter().find(|binding| binding.role == role).copied().ok_or_else(|| {
            let detail =
                format!("No connector of the agent that has tickets is bound as that; there are: {}.", roles());
            Problem::invalid("role", detail)
        }),
    }
}

/// The org's agent.
pub async fn find(app: &App, org: &OrgId, id: &str) -> Result<Agent, Problem> {
    app.store.find_agent(org, id).await?.ok_or_else(|| Problem::not_found("agent"))
}

/// The tools of a provider.
pub(crate) fn tools_of(app: &App, provider: &str) -> &'static [Tool] {
    app.providers().find(provider).map_or(&[], |provider| provider.about().tools)
}

type Bound = (NewBinding, &'static [Tool]);

/// The connectors that were given, each with its provider's tools.
async fn resolve(
    app: &Arc<App>,
    org: &OrgId,
    given: Vec<BindingBody>,
    playbook: &Playbook,
) -> Result<Vec<Bound>, Problem> {
    if !(1..=MOST_CONNECTORS).contains(&given.len()) {
        return Err(Problem::invalid("connectors", format!("Bind 1 to {MOST_CONNECTORS} connectors.")));
    }
    let alone = given.len() == 1;
    let mut bound: Vec<Bound> = Vec::with_capacity(given.len());
    for (index, binding) in given.into_iter().enumerate() {
        let field = |name: &str| format!("connectors[{index}].{name}");
        let role = binding.role.unwrap_or_else(|| USUAL_ROLE.to_owned());
        if !is_role(&role) {
            let detail = "A role is 1 to 40 lower-case letters, digits and underscores, and begins with a letter.";
            return Err(Problem::invalid(&field("role"), detail));
        }
        if bound.iter().any(|(other, _)| other.role == role) {
            let detail = format!("Two connectors are bound as {role}: give each a role of its own.");
            return Err(Problem::invalid(&field("role"), detail));
        }
        let found = app.store.find_connector(org, &binding.connector).await?;
        let found = found.ok_or_else(|| no_connector(index))?.snapshot;
        let offered = tools_of(app, &found.provider);
        let granted = binding.tools.unwrap_or_else(|| {
            let asked = playbook.uses().into_iter().filter(|(on, _)| on.map_or(alone, |on| on == role));
            let mut asked: Vec<String> = asked.map(|(_, tool)| tool.to_owned()).collect();
            asked.retain(|tool| offered.iter().any(|offered| offered.name == tool));
            asked.sort_unstable();
            asked.dedup();
            asked
        });
        if let Some(unknown) = granted.iter().position(|tool| !offered.iter().any(|offered| offered.name == tool)) {
            let known: Vec<_> = offered.iter().map(|tool| tool.name).collect();
            // Whatever else was typed here is not repeated.
            let is_tool =
                |name: &str| app.providers().iter().any(|one| one.about().tools.iter().any(|t| t.name == name));
            let what = Some(granted[unknown].as_str()).filter(|name| is_tool(name)).unwrap_or("such tool");
            let of = app.provider_name(&found.provider);
            let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let detail = format!("There is no {what} on this connector of {of}; there are: {there}.");
            return Err(Problem::invalid(&field(&format!("tools[{unknown}]")), detail));
        }
        bound.push((NewBinding { role, connector: found.connector, tools: granted }, offered));
    }
    Ok(bound)
}

fn as_bound(app: &App, bindings: &[Binding]) -> Vec<Bound> {
    let bound = |binding: &Binding| {
        let new = NewBinding {
            role: binding.role.clone(),
            connector: binding.connector.clone(),
            tools: binding.tools.clone(),
        };
        (new, tools_of(app, &binding.provider))
    };
    bindings.iter().map(bound).collect()
}

fn check(playbook: &Playbook, bound: &[Bound]) -> Result<(), Problem> {
    let roles: Vec<_> = bound
        .iter()
        .map(|(binding, tools)| Role { name: &binding.role, tools, granted: Some(&binding.tools) })
        .collect();
    playbook.check(&roles).map_err(|error| spec_problem(&error))
}

/// A playbook about a ticket needs runs that are about one.
fn fits(playbook: &Playbook, trigger: &Trigger) -> Result<(), Problem> {
    match (trigger, playbook.reads_event()) {
        (Trigger::Every(_) | Trigger::Calendar(_), Some(error)) => Err(spec_problem(error)),
        _ => Ok(()),
    }
}

fn spec_problem(error: &SpecError) -> Problem {
    let field = if error.at == "runner" { "runner".to_owned() } else { format!("runner.{}", error.at) };
    Problem::invalid(&field, error.to_string())
}

fn no_connector(index: usize) -> Problem {
    let detail = "There is no such connector in this organisation; take its id from GET /connectors.";
    Problem::invalid(&format!("connectors[{index}].connector"), detail)
}

fn checked_name(name: Option<&str>) -> Result<String, Problem> {
    let name = name.unwrap_or_default().trim();
    if !care::is_name(name) {
        return Err(Problem::invalid("name", format!("A name {}.", care::NAME_RULE)));
    }
    Ok(name.to_owned())
}

fn checked_trigger(trigger: &TriggerBody) -> Result<Trigger, Problem> {
    let kind = trigger.kind.as_str();
    for (field, given, of) in [
        ("every_secs", trigger.every_secs.is_some(), "schedule"),
        ("events", trigger.events.is_some(), "events"),
        ("cron", trigger.cron.is_some(), "cron"),
        ("time_zone", trigger.time_zone.is_some(), "cron"),
        ("missed", trigger.missed.is_some(), "cron"),
    ] {
        if given && kind != of {
            let detail = format!("Only a trigger of the kind {of} has {field}.");
            return Err(Problem::invalid(&format!("trigger.{field}"), detail));
        }
    }
    match kind {
        "manual" => Ok(Trigger::Manual),
        "schedule" => {
            let secs = trigger
                .every_secs
                .ok_or_else(|| Problem::invalid("trigger.every_secs", "Say how many seconds lie between two runs."))?;
            Trigger::every(secs).map_err(|error| Problem::invalid("trigger.every_secs", format!("Seconds: {error}.")))
        }
        "events" => TicketEvents::of(trigger.events.as_deref().unwrap_or_default())
            .map(Trigger::Events)
            .map_err(|error| Problem::invalid("trigger.events", format!("events: {error}."))),
        "cron" => {
            let missed = trigger.missed.as_deref().map_or(Some(Missed::RunOnce), Missed::parse);
            let missed = missed.ok_or_else(|| Problem::invalid("trigger.missed", "missed is run_once or skip."))?;
            let zone = trigger.time_zone.as_deref().unwrap_or("UTC");
            let sentence = |error: &NoCalendar| format!("{}.", capitalised(&error.to_string()));
            Calendar::of(trigger.cron.as_deref().unwrap_or_default(), zone, missed).map(Trigger::Calendar).map_err(
                |error| match error {
                    NoCalendar::Pattern(_) => Problem::invalid("trigger.cron", sentence(&error)),
                    NoCalendar::Zone => Problem::invalid("trigger.time_zone", sentence(&error)),
                },
            )
        }
        _ => Err(Problem::invalid("trigger.kind", "kind is manual, schedule, cron or events.")),
    }
}

fn is_role(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=40).contains(&text.len()) && text.as_bytes()[0].is_ascii_lowercase() && text.bytes().all(inner)
}
