//! Table `agent_stops`: a connector that fails stops the agents that need it, in the transaction of its change of health;
//! one that recovers takes back exactly that. Whenever an agent comes to be stopped, or is not any more, the org's endpoints
//! are told in the same transaction.

use chrono::{DateTime, Utc};
use holdfast_core::{
    AgentId, ConnectorId, OrgId,
    agent::{Status, StopReason},
    event::{self, About, EventType},
    ports::{Signal, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use tracing::warn;

use crate::{
    agent_changes::set_due,
    agents,
    events::{self, NewEvent},
    sql::{self, micros, values},
    store::{Kind, Store},
};

/// Adds the cause to every agent that is bound to the connector, whose credential is locked and whose epoch has grown. A
/// cause that stands already keeps its beginning.
pub(crate) async fn stop(
    store: &Store,
    tx: &impl ConnectionTrait,
    connector: &ConnectorId,
    reason: StopReason,
    at: DateTime<Utc>,
) -> Result<Vec<AgentId>, StoreError> {
    let doing = "stop agents";
    let agents = lock(tx, "SELECT agent_id FROM agent_connectors WHERE connector_id = $1", connector).await?;
    if agents.is_empty() {
        return Ok(agents);
    }
    let before = stopped(tx, &agents).await?;
    let stop = "INSERT INTO agent_stops (agent_id, connector_id, epoch, reason, provider, account, stopped_at) \
                SELECT DISTINCT b.agent_id, c.id, c.epoch, $2, c.provider, c.account, $3 \
                FROM agent_connectors b JOIN connectors c ON c.id = b.connector_id WHERE c.id = $1 \
                ON CONFLICT (agent_id, connector_id) DO UPDATE SET epoch = excluded.epoch, reason = excluded.reason";
    sql::run(tx, doing, stop, values![connector.as_str(), reason.as_str(), micros(at)]).await?;
    for agent in &agents {
        set_due(tx, agent, at).await?;
        tell(store, tx, agent, before.contains(agent), at).await?;
    }
    Ok(agents)
}

/// Takes the connector's cause away. Agents that have no other one, and that nobody paused, run again.
pub(crate) async fn reactivate(
    store: &Store,
    tx: &impl ConnectionTrait,
    connector: &ConnectorId,
    at: DateTime<Utc>,
) -> Result<Vec<AgentId>, StoreError> {
    let agents = lock(tx, "SELECT agent_id FROM agent_stops WHERE connector_id = $1", connector).await?;
    if agents.is_empty() {
        return Ok(agents);
    }
    let sql = "DELETE FROM agent_stops WHERE connector_id = $1";
    sql::run(tx, "reactivate agents", sql, values![connector.as_str()]).await?;
    for agent in &agents {
        set_due(tx, agent, at).await?;
        tell(store, tx, agent, true, at).await?;
    }
    Ok(agents)
}

/// Those of these agents that something stops.
async fn stopped(tx: &impl ConnectionTrait, agents: &[AgentId]) -> Result<Vec<AgentId>, StoreError> {
    let sql =
        format!("SELECT DISTINCT agent_id AS id FROM agent_stops WHERE agent_id IN ({})", sql::list(agents.len()));
    let values = agents.iter().map(|agent| agent.as_str().into()).collect();
    let rows: Vec<sql::Id> = sql::all(tx, "look what is stopped", sql, values).await?;
    Ok(rows.into_iter().map(|row| row.id.into()).collect())
}

/// Whether something stops the agent, whose row is locked.
pub(crate) async fn is_stopped(tx: &impl ConnectionTrait, agent: &AgentId) -> Result<bool, StoreError> {
    Ok(!stopped(tx, std::slice::from_ref(agent)).await?.is_empty())
}

/// Tells the org's endpoints if the agent is stopped now and was not, or the other way round.
pub(crate) async fn tell(
    store: &Store,
    tx: &impl ConnectionTrait,
    agent: &AgentId,
    was_stopped: bool,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    #[derive(FromQueryResult)]
    struct Named {
        org_id: String,
        name: String,
        paused: bool,
    }
    let stops = agents::stops(tx, &[agent.as_str()]).await?.remove(agent.as_str()).unwrap_or_default();
    if was_stopped != stops.is_empty() {
        return Ok(());
    }
    let sql = "SELECT org_id, name, paused_at IS NOT NULL AS paused FROM agents WHERE id = $1";
    let named: Option<Named> = sql::one(tx, "tell of an agent", sql, values![agent.as_str()]).await?;
    let Some(named) = named else { return Ok(()) };
    let org = OrgId::from(named.org_id);
    let (kind, data) = if let Some(stop) = stops.first() {
        // A connector has a name for as long as it is there.
        let gone = || About {
            id: stop.connector.clone(),
            provider: stop.provider.clone(),
            account: stop.account.clone(),
            name: String::new(),
        };
        let because = events::about(tx, &stop.connector).await?.unwrap_or_else(gone);
        let data = event::agent_deactivated(agent, &named.name, &because, stop.reason);
        (EventType::AgentDeactivated, data)
    } else {
        let status = Status::of(named.paused, false);
        (EventType::AgentReactivated, event::agent_reactivated(agent, &named.name, status))
    };
    let connector = stops.first().map(|stop| &stop.connector);
    let event = NewEvent { org: &org, kind, key: None, connector, data, at };
    events::publish(store, tx, &event).await.map(|_| ())
}

/// The agents' rows do not move until the transaction ends; in an order that all keep. What is asked after this sees what
/// others had written when they let go.
async fn lock(tx: &impl ConnectionTrait, which: &str, connector: &ConnectorId) -> Result<Vec<AgentId>, StoreError> {
    let sql = format!(
        "SELECT id FROM agents WHERE id IN ({which}) ORDER BY id{}",
        sql::for_update(tx.get_database_backend())
    );
    let rows: Vec<sql::Id> = sql::all(tx, "lock agents", sql, values![connector.as_str()]).await?;
    Ok(rows.into_iter().map(|row| row.id.into()).collect())
}

impl Store {
    /// After a commit that changed a connector's health: tells of every agent on it, where no trigger has, and of its jobs.
    pub(crate) async fn health_changed(&self, connector: &ConnectorId) {
        self.jobs_of_changed(connector).await;
        self.agents_on_changed(connector).await;
    }

    async fn agents_on_changed(&self, connector: &ConnectorId) {
        if self.kind() == Kind::Postgres {
            return;
        }
        let sql = "SELECT DISTINCT agent_id AS id FROM agent_connectors WHERE connector_id = $1";
        match sql::all::<sql::Id>(self.db(), "tell of a change", sql, values![connector.as_str()]).await {
            Ok(agents) => agents.into_iter().for_each(|row| self.agent_changed(&row.id.into())),
            Err(error) => {
                warn!(error = %error, "cannot tell what changed; telling that anything may have");
                self.tell(Signal::All);
            }
        }
    }
}
