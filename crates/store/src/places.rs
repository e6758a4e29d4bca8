//! Table `agent_places`: how far an agent's loops have come, from one run to the next.

use holdfast_core::{AgentId, ports::StoreError};
use sea_orm::FromQueryResult;
use serde_json::{Value, json};

use crate::{
    sql::{self, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Row {
    seen: Value,
}

impl Store {
    /// The items that the loop of this step went through since it last came to its end.
    pub async fn gone_through(&self, agent: &AgentId, step: &str) -> Result<Vec<String>, StoreError> {
        let look = "SELECT seen FROM agent_places WHERE agent_id = $1 AND step = $2";
        let row: Option<Row> =
            sql::one(self.db(), "look how far a loop has come", look, values![agent.as_str(), step]).await?;
        let items = row.map(|row| row.seen).and_then(|seen| serde_json::from_value(seen).ok());
        Ok(items.unwrap_or_default())
    }

    /// Remembers them, in place of those before.
    pub async fn keep_gone_through(&self, agent: &AgentId, step: &str, seen: &[String]) -> Result<(), StoreError> {
        let keep = "INSERT INTO agent_places (agent_id, step, seen) VALUES ($1, $2, $3) \
                    ON CONFLICT (agent_id, step) DO UPDATE SET seen = excluded.seen";
        let values = values![agent.as_str(), step, json!(seen)];
        sql::run(self.db(), "keep how far a loop has come", keep, values).await.map(|_| ())
    }
}
