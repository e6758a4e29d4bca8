//! Table `runs`. What a schedule or a person asks for: at most one of an agent is open; an index of the schema sees to it. It
//! waits in the table until a replica claims it, and belongs to that claim until it ends or its lease is over. What an event
//! asks for: a job does it, and may have to begin anew; the claim of the job is the claim of the run.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    AgentId, ConnectorId, DeliveryId, JobId, OrgId, RunId,
    agent::{RunState, Trigger},
    calendar::Missed,
    ports::{Changed, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use crate::{
    agent_changes, agents,
    audit::Change,
    listing::{Page, page_limit},
    run_tickets,
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// One go of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Whose.
    pub org: OrgId,
    /// Of which agent.
    pub agent: AgentId,
    /// Where it stands.
    pub state: RunState,
    /// Who asked for it; `None`: its schedule.
    pub actor: Option<String>,
    /// Writes are shown and not done.
    pub dry: bool,
    /// When it was asked for, or due.
    pub queued_at: DateTime<Utc>,
    /// When a replica took it.
    pub started_at: Option<DateTime<Utc>>,
    /// When it was over.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it did not succeed, as a stable word.
    pub code: Option<String>,
    /// The same for people.
    pub detail: Option<String>,
    /// The connector that was in the way.
    pub connector: Option<ConnectorId>,
    /// Calls of tools that were made.
    pub calls: i64,
    /// Those of them that changed something; in a dry run, that would have.
    pub writes: i64,
    /// Steps that failed.
    pub failures: i64,
    /// What it is about, where it is about something.
    pub event: Option<RunEvent>,
}

/// The event that a run is about, or the ticket that a person chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEvent {
    /// What the playbook knows of it.
    pub known: Value,
    /// How it came; `None`: a person chose it.
    pub delivery: Option<DeliveryId>,
    /// What does the run; `None`: a person asked for it, or it was not to be done.
    pub job: Option<JobId>,
}

/// A run that this replica has, until its lease is over.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The run.
    pub run: Run,
    /// Marks this replica's acts: another claim of the same run has another one.
    pub claim: i64,
}

/// What became of a wish for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It waits.
    Yes(RunId),
    /// Another one of the agent is open.
    Other(RunId),
    /// The org has no such agent.
    NoAgent,
}

/// How a run ends.
#[derive(Clone, Debug)]
pub struct End {
    /// `Succeeded`, `Failed` or `Stopped`; `Queued`: its job begins it anew.
    pub state: RunState,
    /// Why not, as a stable word.
    pub code: Option<String>,
    /// Why not, for people; without secrets.
    pub detail: Option<String>,
    /// The connector that was in the way.
    pub connector: Option<ConnectorId>,
    /// Calls that were made.
    pub calls: i64,
    /// Those that changed something.
    pub writes: i64,
    /// Steps that failed.
    pub failures: i64,
    /// The agent is due again at once: what was cut off is begun elsewhere.
    pub again: bool,
    /// When.
    pub at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
pub(crate) struct Row {
    id: String,
    org_id: String,
    pub(crate) agent_id: String,
    state: String,
    actor: Option<String>,
    dry: bool,
    queued_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    code: Option<String>,
    detail: Option<String>,
    connector_id: Option<String>,
    claim: i64,
    calls: i64,
    writes: i64,
    failures: i64,
    event: Option<Value>,
    delivery_id: Option<String>,
    job_id: Option<String>,
}

impl TryFrom<Row> for Run {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            state: RunState::parse(&row.state).ok_or_else(|| nonsense("runs", "state", &row.id))?,
            id: row.id.into(),
            org: row.org_id.into(),
            agent: row.agent_id.into(),
            actor: row.actor,
            dry: row.dry,
            queued_at: row.queued_at,
            started_at: row.started_at,
            ended_at: row.ended_at,
            code: row.code,
            detail: row.detail,
            connector: row.connector_id.map(ConnectorId::from),
            calls: row.calls,
            writes: row.writes,
            failures: row.failures,
            event: row.event.map(|known| RunEvent {
                known,
                delivery: row.delivery_id.map(DeliveryId::from),
                job: row.job_id.map(JobId::from),
            }),
        })
    }
}

#[derive(FromQueryResult)]
struct DueAgent {
    id: String,
    org_id: String,
    every_secs: Option<i64>,
    cron: Option<String>,
    cron_zone: Option<String>,
    cron_missed: Option<String>,
    due_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct Lost {
    id: String,
    agent_id: String,
}

/// Runs that events of one ticket give an agent are counted over this time.
pub(crate) const BRAKE: TimeDelta = TimeDelta::hours(1);

pub(crate) const COLUMNS: &str = "r.id, r.org_id, r.agent_id, r.state, r.actor, r.dry, r.queued_at, r.started_at, r.ended_at, \
                       r.code, r.detail, r.connector_id, r.claim, r.calls, r.writes, r.failures, r.event, \
                       r.delivery_id, r.job_id";

impl Store {
    /// Asks for a run of the org's agent. `event`: what it is to be about, for its playbook.
    pub async fn queue_run(
        &self,
        org: &OrgId,
        agent: &AgentId,
        actor: &str,
        dry: bool,
        event: Option<Value>,
        at: DateTime<Utc>,
    ) -> Result<Queued, StoreError> {
        let doing = "ask for a run";
        let id = RunId::from(self.id("run"));
        // Twice: the open run that is in the way may end before it is looked at.
        for _ in 0..2 {
            let sql = "INSERT INTO runs (id, org_id, agent_id, state, actor, dry, queued_at, event) \
                       SELECT $1, a.org_id, a.id, 'queued', $4, $5, $6, $7 FROM agents a \
                       WHERE a.org_id = $2 AND a.id = $3 ON CONFLICT DO NOTHING";
            let values = values![id.as_str(), org.as_str(), agent.as_str(), actor, dry, micros(at), event.clone()];
            let tx = self.transaction(doing).await?;
            if sql::run(&tx, doing, sql, values).await? == 1 {
                let name = agent_changes::name_of(&tx, agent).await?;
                let ticket = event.as_ref().map(|event| &event["ticket_id"]);
                if let Some(event) = &event
                    && let (Some(on), Some(ticket)) = (event["connector"]["id"].as_str(), event["ticket_id"].as_str())
                {
                    run_tickets::note(&tx, id.as_str(), on, ticket).await?;
                }
                let line = Change::new(org, "agent.run_by_hand", ("agent", agent.as_str(), &name));
                self.audit(&tx, line.now(json!({ "run": id.as_str(), "dry": dry, "ticket": ticket }))).await?;
                tx.commit().await.map_err(failed(doing))?;
                self.agent_changed(agent);
                return Ok(Queued::Yes(id));
            }
            tx.rollback().await.map_err(failed(doing))?;
            let open = "SELECT r.id FROM runs r WHERE r.org_id = $1 AND r.agent_id = $2 AND r.ended_at IS NULL \
                        AND r.job_id IS NULL";
            let open: Option<sql::Id> = sql::one(self.db(), doing, open, values![org.as_str(), agent.as_str()]).await?;
            if let Some(open) = open {
                return Ok(Queued::Other(open.id.into()));
            }
            let there = "SELECT id FROM agents WHERE org_id = $1 AND id = $2";
            let there: Option<sql::Id> =
                sql::one(self.db(), doing, there, values![org.as_str(), agent.as_str()]).await?;
            if there.is_none() {
                return Ok(Queued::NoAgent);
            }
        }
        Err(StoreError::new(doing))
    }

    /// Gives each agent that is due a run, at most `limit` of them, and says when it is due next: `share` is random for
    /// each, `0.0..1.0`. Of many replicas at once each takes other ones. An agent whose run before is still open misses
    /// this one. Answers how many agents were due.
    pub async fn queue_due(
        &self,
        now: DateTime<Utc>,
        limit: u64,
        mut share: impl FnMut() -> f64 + Send,
    ) -> Result<usize, StoreError> {
        let doing = "look for agents that are due";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let now = micros(now);
        let due = "SELECT id, org_id, every_secs, cron, cron_zone, cron_missed, due_at FROM agents \
                   WHERE due_at <= $1 ORDER BY due_at, id LIMIT $2";
        // A look alone costs no lock; mostly nothing is due.
        if sql::all::<DueAgent>(self.db(), doing, due, values![now, limit]).await?.is_empty() {
            return Ok(0);
        }
        let tx = self.transaction(doing).await?;
        let due = format!("{due}{}", sql::for_update_of_the_free(self.backend()));
        let due: Vec<DueAgent> = sql::all(&tx, doing, due, values![now, limit]).await?;
        for agent in &due {
            let (cron, zone) = (agent.cron.as_deref(), agent.cron_zone.as_deref());
            let calendar = agents::calendar(cron, zone, agent.cron_missed.as_deref(), &agent.id)?;
            let mut waits = false;
            if calendar.as_ref().is_none_or(|calendar| calendar.makes_up(agent.due_at, now)) {
                let run = "INSERT INTO runs (id, org_id, agent_id, state, queued_at) VALUES ($1, $2, $3, 'queued', $4) \
                           ON CONFLICT DO NOTHING";
                let values = values![self.id("run"), agent.org_id.as_str(), agent.id.as_str(), now];
                let given = sql::run(&tx, doing, run, values).await? == 1;
                // What a calendar makes up for waits until the run before is over.
                waits = !given && calendar.as_ref().is_some_and(|calendar| calendar.missed() == Missed::RunOnce);
            }
            if waits {
                continue;
            }
            let next = match (calendar, agent.every_secs) {
                (Some(calendar), _) => calendar.next(now),
                (None, Some(secs)) => {
                    let wait =
                        Trigger::Every(Duration::from_secs(secs.unsigned_abs())).wait(share()).unwrap_or_default();
                    Some(now + chrono::TimeDelta::from_std(wait).unwrap_or(chrono::TimeDelta::days(1)))
                }
                (None, None) => None,
            };
            let move_on = "UPDATE agents SET due_at = $2 WHERE id = $1";
            sql::run(&tx, doing, move_on, values![agent.id.as_str(), next.map(micros)]).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        for agent in &due {
            self.agent_changed(&agent.id.as_str().into());
        }
        Ok(due.len())
    }

    /// Takes runs that wait, the oldest first. Of many replicas at once each takes other ones.
    pub async fn claim_runs(
        &self,
        now: DateTime<Utc>,
        lease: Duration,
        limit: u64,
    ) -> Result<Vec<Claimed>, StoreError> {
        let doing = "claim runs";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let waiting = "SELECT id FROM runs WHERE state = 'queued' AND job_id IS NULL ORDER BY queued_at, id LIMIT $1";
        if sql::all::<sql::Id>(self.db(), doing, waiting, values![limit]).await?.is_empty() {
            return Ok(Vec::new());
        }
        let tx = self.transaction(doing).await?;
        let waiting = format!("{waiting}{}", sql::for_update_of_the_free(self.backend()));
        let waiting: Vec<sql::Id> = sql::all(&tx, doing, waiting, values![limit]).await?;
        let mut claimed = Vec::with_capacity(waiting.len());
        let claim = format!(
            "UPDATE runs SET state = 'running', holder = $2, claim = claim + 1, started_at = $3, \
             lease_expires_at_ms = {} + $4 WHERE id = $1 AND state = 'queued'",
            sql::now_ms(self.backend())
        );
        for run in waiting {
            let holder = self.inner.options.replica.as_str();
            let values = values![run.id.as_str(), holder, micros(now), ms(lease)];
            if sql::run(&tx, doing, claim.clone(), values).await? == 0 {
                continue;
            }
            let read = format!("SELECT {COLUMNS} FROM runs r WHERE r.id = $1");
            if let Some(row) = sql::one::<Row>(&tx, doing, read, values![run.id]).await? {
                let claim = row.claim;
                claimed.push(Claimed { run: row.try_into()?, claim });
            }
        }
        tx.commit().await.map_err(failed(doing))?;
        for claimed in &claimed {
            self.agent_changed(&claimed.run.agent);
        }
        Ok(claimed)
    }

    /// Extends the lease. `No`: the run is not this claim's any more.
    pub async fn renew_run(&self, claimed: &Claimed, lease: Duration) -> Result<Changed, StoreError> {
        let sql = format!(
            "UPDATE runs SET lease_expires_at_ms = {} + $3 WHERE id = $1 AND claim = $2 AND state = 'running'",
            sql::now_ms(self.backend())
        );
        let values = values![claimed.run.id.as_str(), claimed.claim, ms(lease)];
        let renewed = sql::run(self.db(), "renew the lease of a run", sql, values).await?;
        Ok(if renewed == 1 { Changed::Yes } else { Changed::No })
    }

    /// Ends a run, and keeps the agent's newest `keep` ones that are over. `No`: it is not this claim's any more.
    pub async fn end_run(&self, claimed: &Claimed, end: &End, keep: u32) -> Result<Changed, StoreError> {
        let doing = "end a run";
        let agent = claimed.run.agent.as_str();
        let tx = self.transaction(doing).await?;
        let close = "UPDATE runs SET state = $3, ended_at = $4, code = $5, detail = $6, connector_id = $7, calls = $8, \
                     writes = $9, failures = $10 WHERE id = $1 AND claim = $2 AND state = 'running'";
        let values = values![
            claimed.run.id.as_str(),
            claimed.claim,
            end.state.as_str(),
            (end.state != RunState::Queued).then(|| micros(end.at)),
            end.code.clone(),
            end.detail.clone(),
            end.connector.as_ref().map(ToString::to_string),
            end.calls,
            end.writes,
            end.failures,
        ];
        if sql::run(&tx, doing, close, values).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        }
        if end.again {
            let again = "UPDATE agents SET due_at = $2 WHERE id = $1 AND due_at > $2";
            sql::run(&tx, doing, again, values![agent, micros(end.at)]).await?;
        }
        // What a job may begin anew is kept as long as that, and what counts against an agent that sets itself off.
        let old = "DELETE FROM runs WHERE agent_id = $1 AND ended_at IS NOT NULL AND id NOT IN \
                   (SELECT id FROM runs WHERE agent_id = $1 AND ended_at IS NOT NULL ORDER BY id DESC LIMIT $2) \
                   AND (subject IS NULL OR queued_at < $3) AND NOT EXISTS \
                   (SELECT 1 FROM jobs j WHERE j.id = runs.job_id AND j.state NOT IN ('done', 'discarded'))";
        sql::run(&tx, doing, old, values![agent, i64::from(keep), micros(end.at - BRAKE)]).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.agent_changed(&claimed.run.agent);
        Ok(Changed::Yes)
    }

    /// Ends the runs whose replica let the lease go by: it is gone, and what its last step did is unknown. They are not
    /// begun again by themselves. Answers how many.
    pub async fn end_lost_runs(&self, at: DateTime<Utc>) -> Result<usize, StoreError> {
        let doing = "end runs that were lost";
        let now = sql::now_ms(self.backend());
        let over = format!("state = 'running' AND job_id IS NULL AND lease_expires_at_ms <= {now}");
        let look = format!("SELECT id FROM runs WHERE {over} LIMIT 1");
        if sql::one::<sql::Id>(self.db(), doing, look, values![]).await?.is_none() {
            return Ok(0);
        }
        let tx = self.transaction(doing).await?;
        let detail = "The replica that had it is gone; what its last step did is unknown.";
        let end = format!(
            "UPDATE runs SET state = 'failed', ended_at = $1, code = 'lost', detail = $2, failures = failures + 1 \
             WHERE {over} RETURNING id, agent_id"
        );
        let lost: Vec<Lost> = sql::all(&tx, doing, end, values![micros(at), detail]).await?;
        for run in &lost {
            let step = "UPDATE run_steps SET outcome = 'failed', code = 'lost', detail = $2 \
                        WHERE run_id = $1 AND outcome IS NULL";
            sql::run(&tx, doing, step, values![run.id.as_str(), detail]).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        for run in &lost {
            self.agent_changed(&run.agent_id.as_str().into());
        }
        Ok(lost.len())
    }

    /// Takes the run of an event for its job, from the beginning: what an attempt before has written of it is forgotten.
    /// `None`: it is done, or gone with its agent.
    pub async fn open_run(
        &self,
        id: &str,
        job: &JobId,
        now: DateTime<Utc>,
        lease: Duration,
    ) -> Result<Option<Claimed>, StoreError> {
        let doing = "take the run of an event";
        let tx = self.transaction(doing).await?;
        let open = format!(
            "UPDATE runs SET state = 'running', holder = $3, claim = claim + 1, started_at = COALESCE(started_at, $4), ended_at = NULL, code = NULL, \
             detail = NULL, connector_id = NULL, lease_expires_at_ms = {} + $5 \
             WHERE id = $1 AND job_id = $2 AND state <> 'succeeded'",
            sql::now_ms(self.backend())
        );
        let holder = self.inner.options.replica.as_str();
        if sql::run(&tx, doing, open, values![id, job.as_str(), holder, micros(now), ms(lease)]).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(None);
        }
        sql::run(&tx, doing, "DELETE FROM run_steps WHERE run_id = $1", values![id]).await?;
        let read = format!("SELECT {COLUMNS} FROM runs r WHERE r.id = $1");
        let row: Option<Row> = sql::one(&tx, doing, read, values![id]).await?;
        tx.commit().await.map_err(failed(doing))?;
        let Some(row) = row else { return Ok(None) };
        let claimed = Claimed { claim: row.claim, run: row.try_into()? };
        self.agent_changed(&claimed.run.agent);
        Ok(Some(claimed))
    }

    /// Runs of events whose job was given up, or discarded by a person, are over, for the job's reason. One whose job is tried
    /// again is begun anew. Answers how many.
    pub async fn end_given_up_runs(&self, at: DateTime<Utc>) -> Result<u64, StoreError> {
        let of_job = "FROM jobs j WHERE j.id = runs.job_id AND j.state IN ('dead', 'discarded')";
        let sql = format!(
            "UPDATE runs SET state = 'stopped', ended_at = $1, code = COALESCE((SELECT j.code {of_job}), 'discarded'), \
             detail = COALESCE((SELECT j.detail {of_job}), 'A person discarded it.') \
             WHERE ended_at IS NULL AND job_id IS NOT NULL AND EXISTS (SELECT 1 {of_job})"
        );
        sql::run(self.db(), "look for runs that were given up", sql, values![micros(at)]).await
    }

    /// The runs of the org's agent, newest first.
    pub async fn runs(
        &self,
        org: &OrgId,
        agent: &AgentId,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<Run>, StoreError> {
        let mut values = values![org.as_str(), agent.as_str(), page_limit(limit)];
        let mut after = "";
        if let Some(cursor) = cursor {
            values.push(cursor.into());
            after = " AND r.id < $4";
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM runs r WHERE r.org_id = $1 AND r.agent_id = $2{after} ORDER BY r.id DESC LIMIT $3"
        );
        let rows: Vec<Row> = sql::all(self.db(), "list runs", sql, values).await?;
        let runs = rows.into_iter().map(Run::try_from).collect::<Result<_, _>>()?;
        Ok(Page::cut(runs, limit, |last: &Run| last.id.to_string()))
    }

    /// One run of the org's agent.
    pub async fn find_run(&self, org: &OrgId, agent: &str, run: &str) -> Result<Option<Run>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM runs r WHERE r.org_id = $1 AND r.agent_id = $2 AND r.id = $3");
        let row: Option<Row> = sql::one(self.db(), "read a run", sql, values![org.as_str(), agent, run]).await?;
        row.map(Run::try_from).transpose()
    }
}

/// The newest run of each of these agents.
pub(crate) async fn newest(db: &impl ConnectionTrait, agents: &[&str]) -> Result<HashMap<String, Run>, StoreError> {
    if agents.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM agents a JOIN runs r ON r.id = (SELECT MAX(x.id) FROM runs x WHERE x.agent_id = a.id) \
         WHERE a.id IN ({})",
        sql::list(agents.len())
    );
    let values = agents.iter().map(|&id| id.into()).collect();
    let rows: Vec<Row> = sql::all(db, "read the newest runs", sql, values).await?;
    rows.into_iter().map(|row| Ok((row.agent_id.clone(), row.try_into()?))).collect()
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}
