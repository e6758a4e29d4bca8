//! Table `agents`, with its bindings and what stops it: reading.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};
use holdfast_core::{
    AgentId, ConnectorId, Health, OrgId,
    agent::{Status, StopReason, TicketEvents, Trigger},
    calendar::{Calendar, Missed},
    ports::StoreError,
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::Value;

use crate::{
    listing::{Page, page_limit},
    row,
    runs::{self, Run},
    sql::{self, nonsense, values},
    store::Store,
};

/// An agent as stored, with everything that decides whether it works.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Whose.
    pub org: OrgId,
    /// What people call it.
    pub name: String,
    /// How it works, as it was given.
    pub runner: Value,
    /// When it runs by itself.
    pub trigger: Trigger,
    /// When it runs next; `None`: not by itself, or not now.
    pub due_at: Option<DateTime<Utc>>,
    /// That a person paused it.
    pub paused: Option<Paused>,
    /// What stops it, the oldest cause first.
    pub stops: Vec<Stop>,
    /// What it is bound to, by role.
    pub bindings: Vec<Binding>,
    /// Its newest run.
    pub last_run: Option<Run>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl Agent {
    /// Whether it works.
    pub fn status(&self) -> Status {
        Status::of(self.paused.is_some(), !self.stops.is_empty())
    }

    /// What it is bound to under this name.
    pub fn binding(&self, role: &str) -> Option<&Binding> {
        self.bindings.iter().find(|binding| binding.role == role)
    }
}

/// Who paused an agent, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    pub by: Option<String>,
}

/// One cause that an agent is stopped for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The connector that does not work. It may be gone.
    pub connector: ConnectorId,
    /// Of its last change for the worse.
    pub epoch: i64,
    /// Why.
    pub reason: StopReason,
    /// Its provider's id.
    pub provider: String,
    /// Its account.
    pub account: String,
    /// Since when it stops the agent.
    pub since: DateTime<Utc>,
}

/// A connector that an agent may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// What the agent calls it.
    pub role: String,
    /// Which.
    pub connector: ConnectorId,
    /// What it may do there.
    pub tools: Vec<String>,
    /// The provider's id.
    pub provider: String,
    /// The account.
    pub account: String,
    /// What people call the connector.
    pub name: String,
    /// Whether it works.
    pub health: Health,
}

/// An agent in a connector's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentBrief {
    /// Its id.
    pub id: AgentId,
    /// What people call it.
    pub name: String,
    /// Whether it works.
    pub status: Status,
    /// Whether a person paused it, too.
    pub paused: bool,
}

/// Whether an agent may use a connector at this moment.
#[derive(Clone, Debug)]
pub struct Gate {
    /// What people call the agent.
    pub name: String,
    /// Whether a person paused it.
    pub paused: bool,
    /// What stops it.
    pub stops: Vec<Stop>,
    /// What it may do on that connector; `None`: it is not bound to it.
    pub tools: Option<Vec<String>>,
}

#[derive(FromQueryResult)]
struct AgentRow {
    id: String,
    org_id: String,
    name: String,
    runner: Value,
    every_secs: Option<i64>,
    on_events: Option<String>,
    cron: Option<String>,
    cron_zone: Option<String>,
    cron_missed: Option<String>,
    due_at: Option<DateTime<Utc>>,
    paused_at: Option<DateTime<Utc>>,
    paused_by: Option<String>,
    created_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct StopRow {
    agent_id: String,
    connector_id: String,
    epoch: i64,
    reason: String,
    provider: String,
    account: String,
    stopped_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct BindingRow {
    agent_id: String,
    role: String,
    connector_id: String,
    tools: Value,
    provider: String,
    account: String,
    name: String,
    health: String,
}

#[derive(FromQueryResult)]
struct BriefRow {
    connector_id: String,
    id: String,
    name: String,
    paused: bool,
    stopped: bool,
}

#[derive(FromQueryResult)]
struct GateRow {
    name: String,
    paused: bool,
    tools: Option<Value>,
}

const SELECT: &str = "SELECT id, org_id, name, runner, every_secs, on_events, cron, cron_zone, cron_missed, due_at, paused_at, paused_by, created_at \
                      FROM agents WHERE ";

impl Store {
    /// The org's agent of this id.
    pub async fn find_agent(&self, org: &OrgId, id: &str) -> Result<Option<Agent>, StoreError> {
        let sql = format!("{SELECT} org_id = $1 AND id = $2");
        let row: Option<AgentRow> = sql::one(self.db(), "read an agent", sql, values![org.as_str(), id]).await?;
        let mut agents = self.complete(row.into_iter().collect()).await?;
        Ok(agents.pop())
    }

    /// The org's agents, oldest first.
    pub async fn agents(&self, org: &OrgId, cursor: Option<&str>, limit: u64) -> Result<Page<Agent>, StoreError> {
        let sql = format!("{SELECT} org_id = $1 AND id > $2 ORDER BY id LIMIT $3");
        let values = values![org.as_str(), cursor.unwrap_or_default(), page_limit(limit)];
        let rows: Vec<AgentRow> = sql::all(self.db(), "list agents", sql, values).await?;
        let agents = self.complete(rows).await?;
        Ok(Page::cut(agents, limit, |last: &Agent| last.id.to_string()))
    }

    /// The agents that are bound to each of these connectors, by name.
    pub async fn agents_of(
        &self,
        connectors: &[ConnectorId],
    ) -> Result<HashMap<ConnectorId, Vec<AgentBrief>>, StoreError> {
        let mut found: HashMap<ConnectorId, Vec<AgentBrief>> = HashMap::new();
        if connectors.is_empty() {
            return Ok(found);
        }
        let sql = format!(
            "SELECT DISTINCT b.connector_id, a.id, a.name, a.paused_at IS NOT NULL AS paused, \
             EXISTS (SELECT 1 FROM agent_stops s WHERE s.agent_id = a.id) AS stopped \
             FROM agent_connectors b JOIN agents a ON a.id = b.agent_id \
             WHERE b.connector_id IN ({}) ORDER BY a.name, a.id",
            sql::list(connectors.len())
        );
        let values = connectors.iter().map(|id| id.as_str().into()).collect();
        let rows: Vec<BriefRow> = sql::all(self.db(), "list the agents of connectors", sql, values).await?;
        for row in rows {
            let status = Status::of(row.paused, row.stopped);
            let brief = AgentBrief { id: row.id.into(), name: row.name, status, paused: row.paused };
            found.entry(row.connector_id.into()).or_default().push(brief);
        }
        Ok(found)
    }

    /// Whether the org's agent may use this connector, as committed. `None`: there is no such agent.
    pub async fn gate(
        &self,
        org: &OrgId,
        agent: &AgentId,
        connector: &ConnectorId,
    ) -> Result<Option<Gate>, StoreError> {
        let doing = "look whether an agent may use a connector";
        let sql = "SELECT a.name, a.paused_at IS NOT NULL AS paused, b.tools FROM agents a \
                   LEFT JOIN agent_connectors b ON b.agent_id = a.id AND b.connector_id = $3 \
                   WHERE a.org_id = $1 AND a.id = $2 ORDER BY b.role";
        let values = values![org.as_str(), agent.as_str(), connector.as_str()];
        let rows: Vec<GateRow> = sql::all(self.db(), doing, sql, values).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let (name, paused) = (first.name.clone(), first.paused);
        let mut tools: Option<Vec<String>> = None;
        for granted in rows.into_iter().filter_map(|row| row.tools) {
            // Bound under several names, it may do what any of them allows.
            tools.get_or_insert_default().extend(names(granted, agent.as_str())?);
        }
        let stops = stops(self.db(), &[agent.as_str()]).await?.remove(agent.as_str()).unwrap_or_default();
        Ok(Some(Gate { name, paused, stops, tools }))
    }

    async fn complete(&self, rows: Vec<AgentRow>) -> Result<Vec<Agent>, StoreError> {
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let mut stops = stops(self.db(), &ids).await?;
        let mut bindings = bindings(self.db(), &ids).await?;
        let mut runs = runs::newest(self.db(), &ids).await?;
        rows.into_iter()
            .map(|row| {
                Ok(Agent {
                    stops: stops.remove(&row.id).unwrap_or_default(),
                    bindings: bindings.remove(&row.id).unwrap_or_default(),
                    last_run: runs.remove(&row.id),
                    trigger: trigger(&row)?,
                    id: row.id.into(),
                    org: row.org_id.into(),
                    name: row.name,
                    runner: row.runner,
                    due_at: row.due_at,
                    paused: row.paused_at.map(|at| Paused { at, by: row.paused_by }),
                    created_at: row.created_at,
                })
            })
            .collect()
    }
}

/// What stops each of these agents.
pub(crate) async fn stops(
    db: &impl ConnectionTrait,
    agents: &[&str],
) -> Result<HashMap<String, Vec<Stop>>, StoreError> {
    let mut found: HashMap<String, Vec<Stop>> = HashMap::new();
    if agents.is_empty() {
        return Ok(found);
    }
    let sql = format!(
        "SELECT agent_id, connector_id, epoch, reason, provider, account, stopped_at FROM agent_stops \
         WHERE agent_id IN ({}) ORDER BY stopped_at, connector_id",
        sql::list(agents.len())
    );
    let values = agents.iter().map(|&id| id.into()).collect();
    for row in sql::all::<StopRow>(db, "read what stops agents", sql, values).await? {
        let reason = StopReason::parse(&row.reason).ok_or_else(|| nonsense("agent_stops", "reason", &row.agent_id))?;
        found.entry(row.agent_id).or_default().push(Stop {
            connector: row.connector_id.into(),
            epoch: row.epoch,
            reason,
            provider: row.provider,
            account: row.account,
            since: row.stopped_at,
        });
    }
    Ok(found)
}

async fn bindings(db: &impl ConnectionTrait, agents: &[&str]) -> Result<HashMap<String, Vec<Binding>>, StoreError> {
    let mut found: HashMap<String, Vec<Binding>> = HashMap::new();
    if agents.is_empty() {
        return Ok(found);
    }
    let sql = format!(
        "SELECT b.agent_id, b.role, b.connector_id, b.tools, c.provider, c.account, c.name, c.health \
         FROM agent_connectors b JOIN connectors c ON c.id = b.connector_id WHERE b.agent_id IN ({}) ORDER BY b.role",
        sql::list(agents.len())
    );
    let values = agents.iter().map(|&id| id.into()).collect();
    for row in sql::all::<BindingRow>(db, "read what agents are bound to", sql, values).await? {
        let binding = Binding {
            role: row.role,
            tools: names(row.tools, &row.agent_id)?,
            health: row::health(&row.health, &row.connector_id)?,
            connector: row.connector_id.into(),
            provider: row.provider,
            account: row.account,
            name: row.name,
        };
        found.entry(row.agent_id).or_default().push(binding);
    }
    Ok(found)
}

fn names(tools: Value, agent: &str) -> Result<Vec<String>, StoreError> {
    serde_json::from_value(tools).map_err(|_| nonsense("agent_connectors", "tools", agent))
}

fn trigger(row: &AgentRow) -> Result<Trigger, StoreError> {
    if let Some(words) = &row.on_events {
        return events(words, &row.id).map(Trigger::Events);
    }
    if let Some(calendar) =
        calendar(row.cron.as_deref(), row.cron_zone.as_deref(), row.cron_missed.as_deref(), &row.id)?
    {
        return Ok(Trigger::Calendar(calendar));
    }
    let Some(secs) = row.every_secs else { return Ok(Trigger::Manual) };
    let secs = u64::try_from(secs).map_err(|_| nonsense("agents", "every_secs", &row.id))?;
    Ok(Trigger::Every(Duration::from_secs(secs)))
}

/// The times at which an agent runs; `None`: it has none.
pub(crate) fn calendar(
    pattern: Option<&str>,
    zone: Option<&str>,
    missed: Option<&str>,
    agent: &str,
) -> Result<Option<Calendar>, StoreError> {
    let Some(pattern) = pattern else { return Ok(None) };
    let missed = missed.and_then(Missed::parse).ok_or_else(|| nonsense("agents", "cron_missed", agent))?;
    let calendar = Calendar::of(pattern, zone.unwrap_or_default(), missed);
    calendar.map(Some).map_err(|_| nonsense("agents", "cron", agent))
}

/// What an agent waits for.
pub(crate) fn events(words: &str, agent: &str) -> Result<TicketEvents, StoreError> {
    let words: Vec<&str> = words.split(',').collect();
    TicketEvents::of(&words).map_err(|_| nonsense("agents", "on_events", agent))
}
