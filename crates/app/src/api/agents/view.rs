//! Agents and runs as the API shows them; never a secret.

use chrono::{DateTime, Utc};
use holdfast_core::{agent::Trigger, tool::Access, webhook::Topic};
use holdfast_store::{Agent, AgentBrief, Binding, Run, RunStep, Stop};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{agents::manage::tools_of, app::App, tools};

/// An agent.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct AgentBody {
    id: String,
    name: String,
    /// `active`, `paused` by a person, or `deactivated`: a connector that it needs does not work.
    status: &'static str,
    /// The same in words, where it is not active.
    status_words: Option<String>,
    /// What stops it, the oldest cause first.
    stopped_by: Vec<StopBody>,
    /// Who paused it.
    paused: Option<PausedBody>,
    connectors: Vec<BoundBody>,
    trigger: TriggerView,
    /// How it works.
    runner: Value,
    /// When it runs by itself next.
    next_run_at: Option<DateTime<Utc>>,
    last_run: Option<RunBody>,
    created_at: DateTime<Utc>,
}

/// One cause that an agent is stopped for.
#[derive(Serialize, ToSchema)]
struct StopBody {
    connector_id: String,
    /// `pending`, `auth_failed`, `disconnected` or `deleted`.
    reason: &'static str,
    /// `Zendesk acme needs Reconnect`.
    words: String,
    since: DateTime<Utc>,
    /// Of the connector, when it failed last.
    epoch: i64,
    /// The connector's page; null: it is gone.
    reconnect_url: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct PausedBody {
    at: DateTime<Utc>,
    by: Option<String>,
}

/// A connector that the agent may use.
#[derive(Serialize, ToSchema)]
struct BoundBody {
    /// What the playbook calls it.
    role: String,
    connector_id: String,
    name: String,
    provider: String,
    account: String,
    health: &'static str,
    /// All tools there, with whether the agent may use them.
    tools: Vec<GrantBody>,
}

#[derive(Serialize, ToSchema)]
struct GrantBody {
    name: &'static str,
    /// `read` or `write`.
    access: &'static str,
    granted: bool,
}

/// When it runs by itself.
#[derive(Serialize, ToSchema)]
struct TriggerView {
    /// `manual`, `schedule`, `cron` or `events`.
    kind: &'static str,
    every_secs: Option<u64>,
    /// The events that give it a run each.
    events: Option<Vec<&'static str>>,
    /// The times of its calendar.
    cron: Option<String>,
    time_zone: Option<&'static str>,
    /// What becomes of times at which it could not run.
    missed: Option<&'static str>,
}

impl TriggerView {
    fn new(trigger: &Trigger) -> Self {
        let nothing =
            Self { kind: "manual", every_secs: None, events: None, cron: None, time_zone: None, missed: None };
        match trigger {
            Trigger::Manual => nothing,
            Trigger::Every(every) => Self { kind: "schedule", every_secs: Some(every.as_secs()), ..nothing },
            Trigger::Calendar(calendar) => Self {
                kind: "cron",
                cron: Some(calendar.pattern().to_owned()),
                time_zone: Some(calendar.zone()),
                missed: Some(calendar.missed().as_str()),
                ..nothing
            },
            Trigger::Events(events) => {
                Self { kind: "events", events: Some(events.topics().map(Topic::as_str).collect()), ..nothing }
            }
        }
    }
}

/// One go of an agent.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct RunBody {
    id: String,
    agent_id: String,
    /// `queued`, `running`, `succeeded`, `failed` or `stopped`.
    state: &'static str,
    /// `schedule`, `event` or `manual`.
    trigger: &'static str,
    /// What it is about, as the playbook knows it: `id` of the delivery, `topic`, `ticket_id`, and so on.
    event: Option<serde_json::Value>,
    /// What does the run of an event.
    job_id: Option<String>,
    /// Who asked for it.
    actor: Option<String>,
    dry_run: bool,
    queued_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    /// Calls of tools.
    calls: i64,
    /// Those that changed something; in a dry run, that would have.
    writes: i64,
    /// Steps that failed.
    failures: i64,
    /// Why it did not succeed.
    error: Option<RunError>,
}

/// Why a run did not succeed.
#[derive(Serialize, ToSchema)]
struct RunError {
    /// A stable word: `connector_auth_failed`, `agent_paused`, `playbook`, ...
    code: String,
    detail: String,
    connector_id: Option<String>,
    /// Where a person reconnects, if that helps.
    reconnect_url: Option<String>,
}

/// A run with its steps.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct RunWithSteps {
    #[serde(flatten)]
    run: RunBody,
    steps: Vec<StepBody>,
}

/// One step of a run.
#[derive(Serialize, ToSchema)]
struct StepBody {
    position: i64,
    /// Its id in the playbook.
    step: String,
    title: Option<String>,
    /// The item of the loop that it is about.
    item: Option<String>,
    /// Null: it needed none.
    tool: Option<String>,
    /// `read` or `write`.
    access: Option<&'static str>,
    connector_id: Option<String>,
    input: Option<Value>,
    output: Option<Value>,
    /// `done`, `failed`, `shown` or `skipped`; null: it is under way.
    outcome: Option<&'static str>,
    code: Option<String>,
    detail: Option<String>,
    started_at: DateTime<Utc>,
    duration_ms: Option<u64>,
}

/// An agent in a connector's list.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct AgentBriefBody {
    id: String,
    name: String,
    /// `active`, `paused` or `deactivated`.
    status: &'static str,
}

impl From<&AgentBrief> for AgentBriefBody {
    fn from(agent: &AgentBrief) -> Self {
        Self { id: agent.id.to_string(), name: agent.name.clone(), status: agent.status.as_str() }
    }
}

impl AgentBody {
    pub(super) fn new(app: &App, agent: &Agent) -> Self {
        let stopped = (!agent.stops.is_empty()).then(|| format!("Stopped: {}", tools::causes(app, &agent.stops)));
        let paused = agent.paused.as_ref().map(|paused| match &paused.by {
            Some(by) => format!("Paused by {by}"),
            None => "Paused".to_owned(),
        });
        Self {
            id: agent.id.to_string(),
            name: agent.name.clone(),
            status: agent.status().as_str(),
            status_words: stopped.or(paused),
            stopped_by: agent.stops.iter().map(|stop| StopBody::new(app, stop)).collect(),
            paused: agent.paused.as_ref().map(|paused| PausedBody { at: paused.at, by: paused.by.clone() }),
            connectors: agent.bindings.iter().map(|binding| BoundBody::new(app, binding)).collect(),
            trigger: TriggerView::new(&agent.trigger),
            runner: agent.runner.clone(),
            next_run_at: agent.due_at,
            last_run: agent.last_run.as_ref().map(|run| RunBody::new(app, run)),
            created_at: agent.created_at,
        }
    }
}

impl StopBody {
    fn new(app: &App, stop: &Stop) -> Self {
        let page = || app.url(&format!("connectors/{}", stop.connector));
        Self {
            connector_id: stop.connector.to_string(),
            reason: stop.reason.as_str(),
            words: stop.reason.words(&tools::connector_name(app, &stop.provider, &stop.account)),
            since: stop.since,
            epoch: stop.epoch,
            reconnect_url: stop.reason.is_reconnectable().then(page),
        }
    }
}

impl BoundBody {
    fn new(app: &App, binding: &Binding) -> Self {
        let grant = |tool: &holdfast_core::tool::Tool| GrantBody {
            name: tool.name,
            access: tool.access.as_str(),
            granted: binding.tools.iter().any(|granted| granted == tool.name),
        };
        Self {
            role: binding.role.clone(),
            connector_id: binding.connector.to_string(),
            name: binding.name.clone(),
            provider: binding.provider.clone(),
            account: binding.account.clone(),
            health: binding.health.as_str(),
            tools: tools_of(app, &binding.provider).iter().map(grant).collect(),
        }
    }
}

impl RunBody {
    pub(super) fn new(app: &App, run: &Run) -> Self {
        let error = run.code.as_ref().map(|code| RunError {
            code: code.clone(),
            detail: run.detail.clone().unwrap_or_default(),
            connector_id: run.connector.as_ref().map(ToString::to_string),
            reconnect_url: run.connector.as_ref().map(|id| app.url(&format!("connectors/{id}"))),
        });
        Self {
            id: run.id.to_string(),
            agent_id: run.agent.to_string(),
            state: run.state.as_str(),
            trigger: match (&run.actor, &run.event) {
                (Some(_), _) => "manual",
                (None, Some(_)) => "event",
                (None, None) => "schedule",
            },
            event: run.event.as_ref().map(|event| event.known.clone()),
            job_id: run.event.as_ref().and_then(|event| event.job.as_ref()).map(ToString::to_string),
            actor: run.actor.clone(),
            dry_run: run.dry,
            queued_at: run.queued_at,
            started_at: run.started_at,
            ended_at: run.ended_at,
            calls: run.calls,
            writes: run.writes,
            failures: run.failures,
            error,
        }
    }
}

impl RunWithSteps {
    pub(super) fn new(app: &App, run: &Run, steps: Vec<RunStep>) -> Self {
        Self { run: RunBody::new(app, run), steps: steps.into_iter().map(StepBody::from).collect() }
    }
}

impl From<RunStep> for StepBody {
    fn from(step: RunStep) -> Self {
        Self {
            position: step.position,
            step: step.step,
            title: step.title,
            item: step.item,
            tool: step.tool,
            access: step.access.map(Access::as_str),
            connector_id: step.connector.map(|id| id.to_string()),
            input: step.input,
            output: step.output,
            outcome: step.outcome.map(holdfast_core::agent::StepOutcome::as_str),
            code: step.code,
            detail: step.detail,
            started_at: step.started_at,
            duration_ms: step.duration.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}
