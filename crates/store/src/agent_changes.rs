//! What people do to an agent: make, change, pause, resume, delete. Connectors are looked at under their credential's lock,
//! so that no change of health slips in between.

use chrono::{DateTime, Utc};
use holdfast_core::{
    AgentId, ConnectorId, Health, OrgId,
    agent::{StopReason, Trigger},
    credential::Fingerprint,
    ports::{Changed, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use crate::{
    agent_stops, agents,
    audit::Change,
    row,
    sql::{self, failed, micros, values},
    store::Store,
};

/// An agent to be made.
#[derive(Clone, Debug)]
pub struct NewAgent {
    /// Chosen beforehand by [`Store::new_agent_id`], so that a wish that comes twice makes one agent; `None`: any.
    pub id: Option<AgentId>,
    /// Whose.
    pub org: OrgId,
    /// What people call it.
    pub name: String,
    /// How it works, checked.
    pub runner: Value,
    /// When it runs by itself.
    pub trigger: Trigger,
    /// What it may use.
    pub bindings: Vec<NewBinding>,
    /// It starts paused, by whom.
    pub paused_by: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

/// A connector that an agent is to be bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBinding {
    /// What the agent calls it; once in the agent.
    pub role: String,
    /// Which, of the same org.
    pub connector: ConnectorId,
    /// What it may do there.
    pub tools: Vec<String>,
}

/// What to change; what is absent stays.
#[derive(Clone, Debug, Default)]
pub struct AgentChange {
    /// What people call it.
    pub name: Option<String>,
    /// How it works, checked.
    pub runner: Option<Value>,
    /// When it runs by itself; a new one begins at once.
    pub trigger: Option<Trigger>,
    /// All that it may use from now on. A cause whose connector is not among them is gone with it.
    pub bindings: Option<Vec<NewBinding>>,
}

/// What became of a [`NewAgent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was made. What it is bound to and does not work stops it already.
    Yes(AgentId),
    /// The id is in use: it was made before, and nothing was changed.
    Already,
    /// The org has no such connector; nothing was made.
    NoConnector(ConnectorId),
}

/// What became of an [`AgentChange`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Altered {
    /// It was changed.
    Yes,
    /// The org has no such agent.
    NoAgent,
    /// The org has no such connector; nothing was changed.
    NoConnector(ConnectorId),
}

#[derive(FromQueryResult)]
struct Looked {
    health: String,
    epoch: i64,
    provider: String,
    account: String,
}

impl Store {
    /// An id for a [`NewAgent`].
    pub fn new_agent_id(&self) -> AgentId {
        AgentId::from(self.id("agent"))
    }

    /// Makes an agent. If it runs by itself and nothing is in the way, it is due at once.
    pub async fn create_agent(&self, new: &NewAgent) -> Result<Made, StoreError> {
        let doing = "make an agent";
        let id = new.id.clone().unwrap_or_else(|| self.new_agent_id());
        let tx = self.transaction(doing).await?;
        lock_credentials(&tx, &new.org, &new.bindings).await?;
        let sql = "INSERT INTO agents (id, org_id, name, runner, every_secs, paused_at, paused_by, created_at, \
                   on_events, cron, cron_zone, cron_missed) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO NOTHING";
        let [cron, zone, missed] = calendar(&new.trigger);
        let at = micros(new.at);
        let values = values![
            id.as_str(),
            new.org.as_str(),
            new.name.as_str(),
            new.runner.clone(),
            secs(&new.trigger),
            new.paused_by.as_ref().map(|_| at),
            new.paused_by.clone(),
            at,
            events(&new.trigger),
            cron,
            zone,
            missed,
        ];
        if sql::run(&tx, doing, sql, values).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Made::Already);
        }
        if let Some(missing) = bind(&tx, &new.org, &id, &new.bindings, new.at).await? {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Made::NoConnector(missing));
        }
        set_due(&tx, &id, new.at).await?;
        agent_stops::tell(self, &tx, &id, false, new.at).await?;
        let line = Change::new(&new.org, "agent.created", ("agent", id.as_str(), &new.name));
        self.audit(&tx, line.now(as_it_is(&tx, &id).await?)).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.agent_changed(&id);
        self.events_told(std::slice::from_ref(&new.org));
        self.bound_changed(&new.bindings);
        Ok(Made::Yes(id))
    }

    /// Changes an agent. Runs that are under way see it at their next step.
    pub async fn change_agent(
        &self,
        org: &OrgId,
        id: &AgentId,
        change: &AgentChange,
        at: DateTime<Utc>,
    ) -> Result<Altered, StoreError> {
        let doing = "change an agent";
        let tx = self.transaction(doing).await?;
        if let Some(bindings) = &change.bindings {
            lock_credentials(&tx, org, bindings).await?;
        }
        if !lock(&tx, org, id).await? {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Altered::NoAgent);
        }
        let as_it_was = as_it_is(&tx, id).await?;
        if let Some(name) = &change.name {
            sql::run(&tx, doing, "UPDATE agents SET name = $2 WHERE id = $1", values![id.as_str(), name.as_str()])
                .await?;
        }
        if let Some(runner) = &change.runner {
            let sql = "UPDATE agents SET runner = $2 WHERE id = $1";
            sql::run(&tx, doing, sql, values![id.as_str(), runner.clone()]).await?;
        }
        if let Some(trigger) = &change.trigger {
            let sql = "UPDATE agents SET every_secs = $2, on_events = $3, cron = $4, cron_zone = $5, cron_missed = $6, \
                       due_at = NULL, missed_at = NULL WHERE id = $1";
            let [cron, zone, missed] = calendar(trigger);
            let values = values![id.as_str(), secs(trigger), events(trigger), cron, zone, missed];
            sql::run(&tx, doing, sql, values).await?;
        }
        let mut before = Vec::new();
        if let Some(bindings) = &change.bindings {
            let bound = "SELECT DISTINCT connector_id AS id FROM agent_connectors WHERE agent_id = $1";
            before = sql::all::<sql::Id>(&tx, doing, bound, values![id.as_str()]).await?;
            let was_stopped = agent_stops::is_stopped(&tx, id).await?;
            for table in ["agent_connectors", "agent_stops"] {
                let sql = format!("DELETE FROM {table} WHERE agent_id = $1");
                sql::run(&tx, doing, sql, values![id.as_str()]).await?;
            }
            if let Some(missing) = bind(&tx, org, id, bindings, at).await? {
                tx.rollback().await.map_err(failed(doing))?;
                return Ok(Altered::NoConnector(missing));
            }
            agent_stops::tell(self, &tx, id, was_stopped, at).await?;
        }
        set_due(&tx, id, at).await?;
        let as_it_is = as_it_is(&tx, id).await?;
        let name = as_it_is["name"].as_str().unwrap_or_default().to_owned();
        let line = Change::new(org, "agent.changed", ("agent", id.as_str(), &name));
        self.audit(&tx, line.was(as_it_was).now(as_it_is)).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.agent_changed(id);
        self.events_told(std::slice::from_ref(org));
        for row in before {
            self.connector_changed(&row.id.into());
        }
        self.bound_changed(change.bindings.as_deref().unwrap_or_default());
        Ok(Altered::Yes)
    }

    /// A person pauses it. `No`: there is no such agent, or it is paused already.
    pub async fn pause_agent(
        &self,
        org: &OrgId,
        id: &AgentId,
        by: &str,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let sql = "UPDATE agents SET paused_at = $3, paused_by = $4, missed_at = COALESCE(missed_at, due_at), \
                   due_at = NULL \
                   WHERE org_id = $1 AND id = $2 AND paused_at IS NULL RETURNING name AS id";
        let values = values![org.as_str(), id.as_str(), micros(at), by];
        let doing = "pause an agent";
        let tx = self.transaction(doing).await?;
        let Some(sql::Id { id: name }) = sql::one(&tx, doing, sql, values).await? else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        };
        self.audit(&tx, Change::new(org, "agent.paused", ("agent", id.as_str(), &name))).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.agent_changed(id);
        Ok(Changed::Yes)
    }

    /// A person lets it go on; what stops it still does. `No`: there is no such agent, or it is not paused.
    pub async fn resume_agent(&self, org: &OrgId, id: &AgentId, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let doing = "resume an agent";
        let tx = self.transaction(doing).await?;
        // First the lock: a cause that comes at this moment is then seen by what follows.
        let there = lock(&tx, org, id).await?;
        let sql = "UPDATE agents SET paused_at = NULL, paused_by = NULL WHERE id = $1 AND paused_at IS NOT NULL";
        if !there || sql::run(&tx, doing, sql, values![id.as_str()]).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        }
        set_due(&tx, id, at).await?;
        self.audit(&tx, Change::new(org, "agent.resumed", ("agent", id.as_str(), &name_of(&tx, id).await?))).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.agent_changed(id);
        Ok(Changed::Yes)
    }

    /// Deletes it with its runs. A run that is under way ends at its next step.
    pub async fn delete_agent(&self, org: &OrgId, id: &AgentId) -> Result<Changed, StoreError> {
        let doing = "delete an agent";
        let bound = "SELECT DISTINCT connector_id AS id FROM agent_connectors WHERE agent_id = $1";
        let tx = self.transaction(doing).await?;
        let before: Vec<sql::Id> = sql::all(&tx, doing, bound, values![id.as_str()]).await?;
        let as_it_was = as_it_is(&tx, id).await?;
        let sql = "DELETE FROM agents WHERE org_id = $1 AND id = $2";
        if sql::run(&tx, doing, sql, values![org.as_str(), id.as_str()]).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        }
        let name = as_it_was["name"].as_str().unwrap_or_default().to_owned();
        let line = Change::new(org, "agent.deleted", ("agent", id.as_str(), &name)).was(as_it_was);
        self.audit(&tx, line).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.agent_changed(id);
        for row in before {
            self.connector_changed(&row.id.into());
        }
        Ok(Changed::Yes)
    }

    /// A connector's page lists its agents.
    fn bound_changed(&self, bindings: &[NewBinding]) {
        for binding in bindings {
            self.connector_changed(&binding.connector);
        }
    }
}

/// What an agent is, for the audit log: of its playbook, which may hold anything, only a mark that tells it from others.
async fn as_it_is(tx: &impl ConnectionTrait, id: &AgentId) -> Result<Value, StoreError> {
    #[derive(FromQueryResult)]
    struct Row {
        name: String,
        runner: Value,
        every_secs: Option<i64>,
        on_events: Option<String>,
        cron: Option<String>,
        cron_zone: Option<String>,
        paused: bool,
    }
    #[derive(FromQueryResult)]
    struct Bound {
        role: String,
        connector_id: String,
        tools: Value,
    }
    let doing = "look what an agent is";
    let sql = "SELECT name, runner, every_secs, on_events, cron, cron_zone, paused_at IS NOT NULL AS paused FROM agents \
               WHERE id = $1";
    let Some(row) = sql::one::<Row>(tx, doing, sql, values![id.as_str()]).await? else { return Ok(Value::Null) };
    let sql = "SELECT role, connector_id, tools FROM agent_connectors WHERE agent_id = $1 ORDER BY role, connector_id";
    let bound: Vec<Bound> = sql::all(tx, doing, sql, values![id.as_str()]).await?;
    let one = |bound: Bound| json!({ "role": bound.role, "connector": bound.connector_id, "tools": bound.tools });
    Ok(json!({
        "name": row.name, "playbook": Fingerprint::of(&row.runner.to_string().into()).as_str(),
        "every_secs": row.every_secs, "on_events": row.on_events, "cron": row.cron, "cron_zone": row.cron_zone,
        "paused": row.paused, "connectors": bound.into_iter().map(one).collect::<Vec<_>>(),
    }))
}

pub(crate) async fn name_of(tx: &impl ConnectionTrait, id: &AgentId) -> Result<String, StoreError> {
    let sql = "SELECT name AS id FROM agents WHERE id = $1";
    let row: Option<sql::Id> = sql::one(tx, "look what an agent is called", sql, values![id.as_str()]).await?;
    Ok(row.map(|row| row.id).unwrap_or_default())
}

/// The agent's row does not move until the transaction ends. `false`: the org has no such agent.
async fn lock(tx: &impl ConnectionTrait, org: &OrgId, id: &AgentId) -> Result<bool, StoreError> {
    let sql =
        format!("SELECT id FROM agents WHERE org_id = $1 AND id = $2{}", sql::for_update(tx.get_database_backend()));
    let row: Option<sql::Id> = sql::one(tx, "lock an agent", sql, values![org.as_str(), id.as_str()]).await?;
    Ok(row.is_some())
}

/// Holds the health of these connectors still, in an order that all keep.
async fn lock_credentials(tx: &impl ConnectionTrait, org: &OrgId, bindings: &[NewBinding]) -> Result<(), StoreError> {
    if bindings.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "SELECT id FROM credentials WHERE org_id = ${} AND id IN \
         (SELECT credential_id FROM connectors WHERE id IN ({})) ORDER BY id{}",
        bindings.len() + 1,
        sql::list(bindings.len()),
        sql::for_share(tx.get_database_backend())
    );
    let mut values: Vec<sea_orm::Value> = bindings.iter().map(|binding| binding.connector.as_str().into()).collect();
    values.push(org.as_str().into());
    sql::all::<sql::Id>(tx, "lock credentials", sql, values).await.map(|_| ())
}

/// Binds the agent, with a cause for each connector that does not work. Answers the first that the org does not have.
async fn bind(
    tx: &impl ConnectionTrait,
    org: &OrgId,
    agent: &AgentId,
    bindings: &[NewBinding],
    at: DateTime<Utc>,
) -> Result<Option<ConnectorId>, StoreError> {
    let doing = "bind an agent";
    for binding in bindings {
        let connector = binding.connector.as_str();
        let look = "SELECT health, epoch, provider, account FROM connectors WHERE org_id = $1 AND id = $2";
        let Some(found) = sql::one::<Looked>(tx, doing, look, values![org.as_str(), connector]).await? else {
            return Ok(Some(binding.connector.clone()));
        };
        let sql = "INSERT INTO agent_connectors (agent_id, role, connector_id, tools) VALUES ($1, $2, $3, $4)";
        let tools = Value::from(binding.tools.clone());
        sql::run(tx, doing, sql, values![agent.as_str(), binding.role.as_str(), connector, tools]).await?;
        let health: Health = row::health(&found.health, connector)?;
        if let Some(reason) = StopReason::of(health) {
            let sql = "INSERT INTO agent_stops (agent_id, connector_id, epoch, reason, provider, account, stopped_at) \
                       VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
            let values = values![
                agent.as_str(),
                connector,
                found.epoch,
                reason.as_str(),
                found.provider,
                found.account,
                micros(at),
            ];
            sql::run(tx, doing, sql, values).await?;
        }
    }
    Ok(None)
}

#[derive(FromQueryResult)]
struct Times {
    every_secs: Option<i64>,
    cron: Option<String>,
    cron_zone: Option<String>,
    cron_missed: Option<String>,
    due_at: Option<DateTime<Utc>>,
    missed_at: Option<DateTime<Utc>>,
    held: bool,
}

/// What runs by itself, and neither is paused nor stopped, is due: when it was, or else now, or at the next time of its calendar.
pub(crate) async fn set_due(tx: &impl ConnectionTrait, id: &AgentId, at: DateTime<Utc>) -> Result<(), StoreError> {
    let doing = "set when an agent is due";
    let read = "SELECT every_secs, cron, cron_zone, cron_missed, due_at, missed_at, paused_at IS NOT NULL \
                OR EXISTS (SELECT 1 FROM agent_stops s WHERE s.agent_id = agents.id) AS held FROM agents WHERE id = $1";
    let Some(times) = sql::one::<Times>(tx, doing, read, values![id.as_str()]).await? else { return Ok(()) };
    let (cron, zone) = (times.cron.as_deref(), times.cron_zone.as_deref());
    let calendar = agents::calendar(cron, zone, times.cron_missed.as_deref(), id.as_str())?;
    let missed = times.missed_at.or(times.due_at);
    let (due, missed) = match calendar {
        _ if times.held => (None, missed),
        Some(calendar) => {
            let missed = missed.filter(|due| *due > at || calendar.makes_up(*due, at));
            (missed.or_else(|| calendar.next(at)), None)
        }
        None => (times.every_secs.map(|_| times.due_at.unwrap_or(at)), None),
    };
    let sql = "UPDATE agents SET due_at = $2, missed_at = $3 WHERE id = $1";
    sql::run(tx, doing, sql, values![id.as_str(), due.map(micros), missed.map(micros)]).await.map(|_| ())
}

fn secs(trigger: &Trigger) -> Option<i64> {
    trigger.period().map(|every| i64::try_from(every.as_secs()).unwrap_or(i64::MAX))
}

fn events(trigger: &Trigger) -> Option<String> {
    match trigger {
        Trigger::Events(events) => Some(events.words()),
        Trigger::Manual | Trigger::Every(_) | Trigger::Calendar(_) => None,
    }
}

/// Pattern, time zone, and what becomes of what was missed.
fn calendar(trigger: &Trigger) -> [Option<String>; 3] {
    match trigger {
        Trigger::Calendar(calendar) => {
            [calendar.pattern(), calendar.zone(), calendar.missed().as_str()].map(|word| Some(word.to_owned()))
        }
        Trigger::Manual | Trigger::Every(_) | Trigger::Events(_) => [None, None, None],
    }
}
