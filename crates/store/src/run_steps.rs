//! Table `run_steps`: what a run did, written as it happens. A step is begun only while the run is its claim's and the
//! agent may act.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, RunId, agent::StepOutcome, ports::StoreError, tool::Access};
use sea_orm::FromQueryResult;
use serde_json::Value;

use crate::{
    agents::{Paused, Stop, stops},
    exchanges::whole_ms,
    run_tickets,
    runs::Claimed,
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// One step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStep {
    /// Its place in the run, from 1.
    pub position: i64,
    /// Its id in the playbook.
    pub step: String,
    /// What people call it.
    pub title: Option<String>,
    /// The item of the loop that it is about.
    pub item: Option<String>,
    /// The tool; `None`: it needed none.
    pub tool: Option<String>,
    /// Whether the tool changes something.
    pub access: Option<Access>,
    /// Where.
    pub connector: Option<ConnectorId>,
    /// The arguments, masked and shortened.
    pub input: Option<Value>,
    /// The answer, masked and shortened.
    pub output: Option<Value>,
    /// What came of it; `None`: it is under way.
    pub outcome: Option<StepOutcome>,
    /// Why not, as a stable word.
    pub code: Option<String>,
    /// In words.
    pub detail: Option<String>,
    /// When it was begun.
    pub started_at: DateTime<Utc>,
    /// How long it took.
    pub duration: Option<Duration>,
}

/// Whether a step was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Began {
    /// It was, and the lease is extended.
    Yes,
    /// A person paused the agent.
    Paused(Paused),
    /// A connector that the agent needs does not work.
    Stopped(Vec<Stop>),
    /// The run is not this claim's any more, or was deleted.
    Lost,
}

/// How a step that was begun ends.
#[derive(Clone, Debug)]
pub struct StepEnd {
    /// What came of it.
    pub outcome: StepOutcome,
    /// The answer, masked and shortened.
    pub output: Option<Value>,
    /// Why not, as a stable word.
    pub code: Option<String>,
    /// In words.
    pub detail: Option<String>,
    /// How long it took.
    pub duration: Duration,
}

#[derive(FromQueryResult)]
struct Row {
    position: i64,
    step: String,
    title: Option<String>,
    item: Option<String>,
    tool: Option<String>,
    access: Option<String>,
    connector_id: Option<String>,
    input: Option<Value>,
    output: Option<Value>,
    outcome: Option<String>,
    code: Option<String>,
    detail: Option<String>,
    started_at: DateTime<Utc>,
    duration_ms: Option<i64>,
}

#[derive(FromQueryResult)]
struct PauseRow {
    paused_at: Option<DateTime<Utc>>,
    paused_by: Option<String>,
}

impl Store {
    /// Begins a step, or writes one down that is over already (`outcome` is set). A dry run goes on while the agent is
    /// paused: it changes nothing.
    pub async fn begin_step(&self, claimed: &Claimed, step: &RunStep, lease: Duration) -> Result<Began, StoreError> {
        let doing = "begin a step of a run";
        let run = &claimed.run;
        let tx = self.transaction(doing).await?;
        let renew = format!(
            "UPDATE runs SET lease_expires_at_ms = {} + $3 WHERE id = $1 AND claim = $2 AND state = 'running'",
            sql::now_ms(self.backend())
        );
        let lease = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 4);
        if sql::run(&tx, doing, renew, values![run.id.as_str(), claimed.claim, lease]).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Began::Lost);
        }
        if step.outcome.is_none() {
            let look = "SELECT paused_at, paused_by FROM agents WHERE id = $1";
            let paused: Option<PauseRow> = sql::one(&tx, doing, look, values![run.agent.as_str()]).await?;
            let Some(PauseRow { paused_at, paused_by }) = paused else {
                tx.rollback().await.map_err(failed(doing))?;
                return Ok(Began::Lost);
            };
            let causes = stops(&tx, &[run.agent.as_str()]).await?.remove(run.agent.as_str()).unwrap_or_default();
            let refused = match paused_at {
                _ if !causes.is_empty() => Some(Began::Stopped(causes)),
                Some(at) if !run.dry => Some(Began::Paused(Paused { at, by: paused_by })),
                _ => None,
            };
            if let Some(refused) = refused {
                tx.rollback().await.map_err(failed(doing))?;
                return Ok(refused);
            }
        }
        let insert = "INSERT INTO run_steps (run_id, position, agent_id, step, title, item, tool, access, connector_id, \
                      input, output, outcome, code, detail, started_at, duration_ms) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
        let values = values![
            run.id.as_str(),
            step.position,
            run.agent.as_str(),
            step.step.as_str(),
            step.title.clone(),
            step.item.clone(),
            step.tool.clone(),
            step.access.map(Access::as_str),
            step.connector.as_ref().map(ToString::to_string),
            step.input.clone(),
            step.output.clone(),
            step.outcome.map(StepOutcome::as_str),
            step.code.clone(),
            step.detail.clone(),
            micros(step.started_at),
            step.duration.map(whole_ms),
        ];
        sql::run(&tx, doing, insert, values).await?;
        if let Some(connector) = &step.connector
            && let Some(ticket) = step.input.as_ref().and_then(|input| input["ticket_id"].as_str())
        {
            run_tickets::note(&tx, run.id.as_str(), connector.as_str(), ticket).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        self.agent_changed(&run.agent);
        Ok(Began::Yes)
    }

    /// Writes down how a step ended. Nothing happens where the run has gone, or was taken for lost meanwhile.
    pub async fn end_step(&self, claimed: &Claimed, position: i64, end: &StepEnd) -> Result<(), StoreError> {
        let sql = "UPDATE run_steps SET outcome = $3, output = $4, code = $5, detail = $6, duration_ms = $7 \
                   WHERE run_id = $1 AND position = $2 AND outcome IS NULL";
        let values = values![
            claimed.run.id.as_str(),
            position,
            end.outcome.as_str(),
            end.output.clone(),
            end.code.clone(),
            end.detail.clone(),
            whole_ms(end.duration),
        ];
        if sql::run(self.db(), "end a step of a run", sql, values).await? > 0 {
            self.agent_changed(&claimed.run.agent);
        }
        Ok(())
    }

    /// The steps of a run of the org, in order.
    pub async fn run_steps(&self, org: &OrgId, run: &RunId) -> Result<Vec<RunStep>, StoreError> {
        let sql = "SELECT s.position, s.step, s.title, s.item, s.tool, s.access, s.connector_id, s.input, s.output, \
                   s.outcome, s.code, s.detail, s.started_at, s.duration_ms \
                   FROM run_steps s JOIN runs r ON r.id = s.run_id WHERE r.org_id = $1 AND r.id = $2 \
                   ORDER BY s.position";
        let rows: Vec<Row> =
            sql::all(self.db(), "read the steps of a run", sql, values![org.as_str(), run.as_str()]).await?;
        rows.into_iter()
            .map(|row| {
                let word = |column: &str| nonsense("run_steps", column, run.as_str());
                let outcome = row.outcome.as_deref();
                let outcome =
                    outcome.map(|text| StepOutcome::parse(text).ok_or_else(|| word("outcome"))).transpose()?;
                let access = row.access.as_deref();
                let access = access.map(|text| Access::parse(text).ok_or_else(|| word("access"))).transpose()?;
                Ok(RunStep {
                    position: row.position,
                    step: row.step,
                    title: row.title,
                    item: row.item,
                    tool: row.tool,
                    access,
                    connector: row.connector_id.map(ConnectorId::from),
                    input: row.input,
                    output: row.output,
                    outcome,
                    code: row.code,
                    detail: row.detail,
                    started_at: row.started_at,
                    duration: row.duration_ms.map(|ms| Duration::from_millis(ms.unsigned_abs())),
                })
            })
            .collect()
    }
}
