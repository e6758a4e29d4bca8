//! Agents that a mail names, by connector and by name.

use std::collections::HashMap;

use holdfast_core::{ConnectorId, ports::StoreError};
use sea_orm::FromQueryResult;

use super::ClaimedMail;
use crate::{
    sql::{self, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Named {
    connector_id: String,
    name: String,
}

impl Store {
    /// The agents that the failures of this mail have stopped.
    pub async fn stopped_agents(&self, mail: &ClaimedMail) -> Result<HashMap<ConnectorId, Vec<String>>, StoreError> {
        let sql = "SELECT i.connector_id, a.name FROM mail_items i \
                   JOIN agent_stops s ON s.connector_id = i.connector_id AND s.epoch = i.epoch \
                   JOIN agents a ON a.id = s.agent_id AND a.org_id = i.org_id \
                   WHERE i.mail_id = $1 AND i.dropped IS NULL ORDER BY a.name, a.id";
        self.agents_named(mail, sql).await
    }

    /// The agents on the connectors of this mail that nothing keeps from running.
    pub async fn running_agents(&self, mail: &ClaimedMail) -> Result<HashMap<ConnectorId, Vec<String>>, StoreError> {
        // An agent may be bound to one connector in several roles.
        let sql = "SELECT i.connector_id, a.name FROM mail_items i \
                   JOIN agents a ON a.org_id = i.org_id AND a.paused_at IS NULL \
                   WHERE i.mail_id = $1 AND i.dropped IS NULL \
                   AND EXISTS (SELECT 1 FROM agent_connectors b \
                   WHERE b.agent_id = a.id AND b.connector_id = i.connector_id) \
                   AND NOT EXISTS (SELECT 1 FROM agent_stops s WHERE s.agent_id = a.id) ORDER BY a.name, a.id";
        self.agents_named(mail, sql).await
    }

    async fn agents_named(
        &self,
        mail: &ClaimedMail,
        sql: &str,
    ) -> Result<HashMap<ConnectorId, Vec<String>>, StoreError> {
        let rows: Vec<Named> = sql::all(self.db(), "look for agents", sql, values![mail.id.as_str()]).await?;
        let mut named: HashMap<ConnectorId, Vec<String>> = HashMap::new();
        for row in rows {
            named.entry(row.connector_id.into()).or_default().push(row.name);
        }
        Ok(named)
    }
}
