//! Table `run_tickets`: the tickets that each run is about, or has called a tool for; and the way back, from a ticket to all that
//! is known of it.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, DeliveryId, OrgId, RunId, agent::StepOutcome, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult, Value};

use crate::{
    listing::{Page, page_limit},
    runs::{COLUMNS, Row, Run},
    sql::{self, nonsense, values},
    store::Store,
};

/// A ticket that a run is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTicket {
    /// Where.
    pub connector: ConnectorId,
    /// Its id there.
    pub ticket: String,
}

/// One of the tickets of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketOfRun {
    /// Which.
    pub on: RunTicket,
    /// Its connector is deleted.
    pub gone: bool,
}

/// Where a ticket is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnlyOn {
    /// Everywhere.
    #[default]
    Any,
    /// On this one.
    Connector(ConnectorId),
    /// On those of this provider.
    Provider(String),
}

/// What a run did with a ticket: a call that writes, or words on why it made none.
#[derive(Clone, Debug, PartialEq)]
pub struct TicketLine {
    /// Of which run.
    pub run: RunId,
    /// Where in it.
    pub position: i64,
    /// What people call the step.
    pub title: String,
    /// It is about this item of a loop; else about the whole run.
    pub of_item: bool,
    /// The tool; `None`: these are words alone.
    pub tool: Option<String>,
    /// What was sent, masked and shortened.
    pub input: Option<serde_json::Value>,
    /// What came of it; `None`: it is under way.
    pub outcome: Option<StepOutcome>,
    /// In words.
    pub detail: Option<String>,
}

#[derive(FromQueryResult)]
struct Mirrored {
    connector_id: String,
    updated_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct TicketRow {
    run_id: String,
    connector_id: String,
    ticket_id: String,
    gone: bool,
}

#[derive(FromQueryResult)]
struct Named {
    id: String,
    name: String,
}

#[derive(FromQueryResult)]
struct LineRow {
    run_id: String,
    position: i64,
    step: String,
    title: Option<String>,
    item: Option<String>,
    tool: Option<String>,
    input: Option<serde_json::Value>,
    outcome: Option<String>,
    detail: Option<String>,
}

/// Says that a run is about a ticket; saying it again changes nothing.
pub(crate) async fn note(
    db: &impl ConnectionTrait,
    run: &str,
    connector: &str,
    ticket: &str,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO run_tickets (run_id, org_id, connector_id, ticket_id) \
               SELECT id, org_id, $2, $3 FROM runs WHERE id = $1 ON CONFLICT DO NOTHING";
    sql::run(db, "note the ticket of a run", sql, values![run, connector, ticket]).await.map(|_| ())
}

fn texts<'a>(all: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    all.into_iter().map(Value::from).collect()
}

impl Store {
    /// The tickets of each of these runs.
    pub async fn tickets_of_runs(&self, runs: &[&RunId]) -> Result<HashMap<RunId, Vec<TicketOfRun>>, StoreError> {
        let mut found: HashMap<RunId, Vec<TicketOfRun>> = HashMap::new();
        if runs.is_empty() {
            return Ok(found);
        }
        let sql = format!(
            "SELECT t.run_id, t.connector_id, t.ticket_id, c.id IS NULL AS gone FROM run_tickets t \
             LEFT JOIN connectors c ON c.id = t.connector_id AND c.org_id = t.org_id \
             WHERE t.run_id IN ({}) ORDER BY t.run_id, t.ticket_id",
            sql::list(runs.len())
        );
        let values = texts(runs.iter().map(|run| run.as_str()));
        for row in sql::all::<TicketRow>(self.db(), "read the tickets of runs", sql, values).await? {
            let on = RunTicket { connector: row.connector_id.into(), ticket: row.ticket_id };
            found.entry(row.run_id.into()).or_default().push(TicketOfRun { on, gone: row.gone });
        }
        Ok(found)
    }

    /// The runs that a delivery gave to agents, each with its agent's name.
    pub async fn runs_of_delivery(&self, delivery: &DeliveryId) -> Result<Vec<(Run, String)>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM runs r WHERE r.delivery_id = $1 ORDER BY r.id LIMIT 100");
        self.runs_with_names("read the runs of a delivery", sql, values![delivery.as_str()]).await
    }

    /// The runs that are about a ticket, newest first, each with its agent's name. `before`: a run's id. Of an agent's runs by
    /// schedule that wrote nothing there, no more than the newest of its runs.
    pub async fn runs_of_ticket(
        &self,
        org: &OrgId,
        on: &RunTicket,
        before: Option<&str>,
        limit: u64,
    ) -> Result<Page<(Run, String)>, StoreError> {
        let mut values = values![org.as_str(), on.ticket.as_str(), on.connector.as_str(), page_limit(limit)];
        let mut older = "";
        if let Some(before) = before {
            values.push(before.into());
            older = " AND t.run_id < $5";
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM run_tickets t JOIN runs r ON r.id = t.run_id \
             WHERE t.org_id = $1 AND t.ticket_id = $2 AND t.connector_id = $3{older} \
             AND (r.actor IS NOT NULL OR r.event IS NOT NULL OR r.state <> 'succeeded' \
             OR EXISTS (SELECT 1 FROM run_steps s WHERE s.run_id = r.id AND s.access = 'write' AND s.connector_id = $3 \
             AND s.input ->> 'ticket_id' = $2) \
             OR NOT EXISTS (SELECT 1 FROM run_tickets o JOIN runs n ON n.id = o.run_id WHERE o.org_id = $1 \
             AND o.ticket_id = $2 AND o.connector_id = $3 AND o.run_id > t.run_id AND n.agent_id = r.agent_id)) \
             ORDER BY t.run_id DESC LIMIT $4"
        );
        let found = self.runs_with_names("list the runs of a ticket", sql, values).await?;
        Ok(Page::cut(found, limit, |(last, _)| last.id.to_string()))
    }

    /// The newest run that answered the customer of a ticket, with its agent's name.
    pub async fn answer_of_ticket(&self, org: &OrgId, on: &RunTicket) -> Result<Option<(Run, String)>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM run_tickets t JOIN runs r ON r.id = t.run_id \
             WHERE t.org_id = $1 AND t.ticket_id = $2 AND t.connector_id = $3 AND NOT r.dry \
             AND EXISTS (SELECT 1 FROM run_steps s WHERE s.run_id = r.id AND s.tool = 'reply_to_ticket' \
             AND s.outcome = 'done' AND s.connector_id = $3 AND s.input ->> 'ticket_id' = $2 \
             AND CAST(s.input ->> 'public' AS TEXT) IN ('true', '1')) ORDER BY t.run_id DESC LIMIT 1"
        );
        let values = values![org.as_str(), on.ticket.as_str(), on.connector.as_str()];
        Ok(self.runs_with_names("look who answered a ticket", sql, values).await?.pop())
    }

    async fn runs_with_names(
        &self,
        doing: &'static str,
        sql: String,
        values: Vec<Value>,
    ) -> Result<Vec<(Run, String)>, StoreError> {
        let rows: Vec<Row> = sql::all(self.db(), doing, sql, values).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let names = format!("SELECT id, name FROM agents WHERE id IN ({})", sql::list(rows.len()));
        let ids = texts(rows.iter().map(|row| row.agent_id.as_str()));
        let names: Vec<Named> = sql::all(self.db(), doing, names, ids).await?;
        let names: HashMap<String, String> = names.into_iter().map(|agent| (agent.id, agent.name)).collect();
        let with_name = |row: Row| {
            let name = names.get(&row.agent_id).cloned().unwrap_or_default();
            Ok((row.try_into()?, name))
        };
        rows.into_iter().map(with_name).collect()
    }

    /// The connectors of the org on which something is known of a ticket of this id, at most so many. `only`: no other one, nor
    /// one of another provider.
    pub async fn connectors_of_ticket(
        &self,
        org: &OrgId,
        ticket: &str,
        only: &OnlyOn,
        most: u32,
    ) -> Result<Vec<ConnectorId>, StoreError> {
        let mut values = values![org.as_str(), ticket, i64::from(most)];
        let only = match only {
            OnlyOn::Any => "",
            OnlyOn::Connector(id) => {
                values.push(id.as_str().into());
                " AND c.id = $4"
            }
            OnlyOn::Provider(id) => {
                values.push(id.as_str().into());
                " AND c.provider = $4"
            }
        };
        let sql = format!(
            "SELECT c.id FROM connectors c WHERE c.org_id = $1{only} AND c.id IN \
             (SELECT d.connector_id FROM deliveries d WHERE d.org_id = $1 AND d.subject = $2 AND d.topic LIKE 'ticket.%' \
             UNION SELECT t.connector_id FROM run_tickets t WHERE t.org_id = $1 AND t.ticket_id = $2) \
             ORDER BY c.id LIMIT $3"
        );
        let found: Vec<sql::Id> = sql::all(self.db(), "look where a ticket is known", sql, values).await?;
        Ok(found.into_iter().map(|found| found.id.into()).collect())
    }

    /// What these runs did with a ticket, or why they did not, in order. Words on an item of a loop do not say on which connector
    /// it is: they are left out of a run that had to do with tickets of this id on several.
    pub async fn lines_of_ticket(&self, runs: &[&RunId], on: &RunTicket) -> Result<Vec<TicketLine>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let mut values = texts(runs.iter().map(|run| run.as_str()));
        // Of a loop: `ticket 14 (1 of 3)`, whatever the playbook calls its items.
        values.extend(values![on.connector.as_str(), on.ticket.as_str(), sql::anywhere(&format!(" {} (", on.ticket))]);
        let (connector, ticket, item) = (runs.len() + 1, runs.len() + 2, runs.len() + 3);
        let sql = format!(
            "SELECT run_id, position, step, title, item, tool, input, outcome, detail FROM run_steps \
             WHERE run_id IN ({}) AND ((access = 'write' AND connector_id = ${connector} AND input ->> 'ticket_id' = ${ticket}) \
             OR (tool IS NULL AND (item IS NULL OR (item LIKE ${item} ESCAPE '\\' AND NOT EXISTS (SELECT 1 FROM run_tickets o \
             WHERE o.run_id = run_steps.run_id AND o.ticket_id = ${ticket} AND o.connector_id <> ${connector}))))) \
             ORDER BY run_id, position",
            sql::list(runs.len())
        );
        let rows: Vec<LineRow> = sql::all(self.db(), "read what was done with a ticket", sql, values).await?;
        rows.into_iter()
            .map(|row| {
                let outcome = row
                    .outcome
                    .as_deref()
                    .map(|word| StepOutcome::parse(word).ok_or_else(|| nonsense("run_steps", "outcome", &row.run_id)));
                Ok(TicketLine {
                    position: row.position,
                    title: row.title.unwrap_or(row.step),
                    of_item: row.item.is_some(),
                    tool: row.tool,
                    input: row.input,
                    outcome: outcome.transpose()?,
                    detail: row.detail,
                    run: row.run_id.into(),
                })
            })
            .collect()
    }

    /// Which of these connectors' mirrors hold a ticket of this id, and when it was last changed there.
    pub async fn mirrored_ticket(
        &self,
        connectors: &[&ConnectorId],
        ticket: &str,
    ) -> Result<HashMap<ConnectorId, DateTime<Utc>>, StoreError> {
        if connectors.is_empty() {
            return Ok(HashMap::new());
        }
        let sql = format!(
            "SELECT connector_id, updated_at FROM mirrored_tickets WHERE connector_id IN ({}) AND ticket_id = ${}",
            sql::list(connectors.len()),
            connectors.len() + 1
        );
        let mut values = texts(connectors.iter().map(|id| id.as_str()));
        values.push(ticket.into());
        let found: Vec<Mirrored> = sql::all(self.db(), "look for a mirrored ticket", sql, values).await?;
        Ok(found.into_iter().map(|row| (row.connector_id.into(), row.updated_at)).collect())
    }
}
