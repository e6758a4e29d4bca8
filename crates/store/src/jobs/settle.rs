//! What became of an attempt. Whoever settles one has to have the job still: after its lease was over somebody else may,
//! and what the first one says is not heard.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    Health,
    job::{self, Fault, Kind, Next, Outcome, Policy},
    ports::StoreError,
};
use sea_orm::{ConnectionTrait, FromQueryResult, Value};

use super::{ClaimedJob, Moved, claim::pairs, kind};
use crate::{
    sql::{self, failed, micros, values},
    store::Store,
};

/// An attempt that is over.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The job, as it was claimed.
    pub claimed: ClaimedJob,
    /// How it ended.
    pub outcome: Outcome,
    /// How hard it is tried.
    pub policy: Policy,
    /// Random, `0.0..1.0`.
    pub unit: f64,
    /// When.
    pub at: DateTime<Utc>,
}

/// What there is to know of a job whose attempt is over.
#[derive(FromQueryResult)]
struct Current {
    id: String,
    org_id: String,
    kind: String,
    lane: String,
    claim: i64,
    attempts: i64,
    holder: Option<String>,
    started_at: DateTime<Utc>,
}

/// Of a fault, in letters.
const LONGEST_WORDS: usize = 500;

const CURRENT: &str = "id, org_id, kind, lane, claim, attempts, holder, started_at";

impl Store {
    /// Writes down how attempts ended, and what follows: [`job::after`]. In their order, what became of each job; `None`:
    /// it was not this claim's any more, and nothing was changed.
    pub async fn settle_jobs(&self, attempts: &[Attempt]) -> Result<Vec<Option<Next>>, StoreError> {
        let doing = "settle jobs";
        let tx = self.transaction(doing).await?;
        let current = lock(&tx, attempts).await?;
        let with = || attempts.iter().zip(&current).filter_map(|(attempt, current)| Some((attempt, current.as_ref()?)));
        settle_done(&tx, &with().filter(|(attempt, _)| attempt.outcome == Outcome::Done).collect::<Vec<_>>()).await?;
        let mut settled = Vec::with_capacity(attempts.len());
        for (attempt, current) in attempts.iter().zip(&current) {
            settled.push(match (current, &attempt.outcome) {
                (None, _) => None,
                (Some(_), Outcome::Done) => Some(Next::Done),
                (Some(current), outcome) => {
                    Some(settle(&tx, current, outcome, &attempt.policy, attempt.unit, attempt.at).await?)
                }
            });
        }
        tx.commit().await.map_err(failed(doing))?;
        let moved: Vec<Moved> = attempts
            .iter()
            .map(|attempt| &attempt.claimed.job)
            .map(|job| Moved { org_id: job.org.to_string(), kind: job.kind.as_str().to_owned() })
            .collect();
        self.jobs_moved(&moved);
        Ok(settled)
    }

    /// Jobs whose replica let the lease go by: the attempt counts, however often its process dies, and the job is tried
    /// again or dead. `policy` is a kind's, `unit` random. Answers how many.
    pub async fn recover_jobs(
        &self,
        now: DateTime<Utc>,
        policy: impl Fn(Kind) -> Policy + Send,
        mut unit: impl FnMut() -> f64 + Send,
    ) -> Result<usize, StoreError> {
        let doing = "recover jobs whose replica is gone";
        let over = format!("state = 'running' AND lease_expires_at_ms <= {}", sql::now_ms(self.backend()));
        let look = format!("SELECT id FROM jobs WHERE {over} LIMIT 1");
        if sql::one::<sql::Id>(self.db(), doing, look, values![]).await?.is_none() {
            return Ok(0);
        }
        let tx = self.transaction(doing).await?;
        let free = sql::for_update_of_the_free(self.backend());
        let lost = format!("SELECT {CURRENT} FROM jobs WHERE {over} ORDER BY id LIMIT 500{free}");
        let lost: Vec<Current> = sql::all(&tx, doing, lost, values![]).await?;
        for current in &lost {
            settle(&tx, current, &Outcome::Lost, &policy(kind(&current.kind, &current.id)?), unit(), now).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        let moved: Vec<Moved> =
            lost.iter().map(|row| Moved { org_id: row.org_id.clone(), kind: row.kind.clone() }).collect();
        self.jobs_moved(&moved);
        Ok(lost.len())
    }
}

/// For each, its row if it is this claim's still. Locked in the order of their ids, as signs of life are given: two that
/// touch the same jobs do not wait for each other crosswise.
async fn lock(tx: &impl ConnectionTrait, attempts: &[Attempt]) -> Result<Vec<Option<Current>>, StoreError> {
    if attempts.is_empty() {
        return Ok(Vec::new());
    }
    let (pairs, values) = pairs(attempts.iter().map(|attempt| (&attempt.claimed.job.id, attempt.claimed.claim)));
    let sql = format!(
        "SELECT {CURRENT} FROM jobs WHERE state = 'running' AND (id, claim) IN ({pairs}) ORDER BY id{}",
        sql::for_update(tx.get_database_backend())
    );
    let rows: Vec<Current> = sql::all(tx, "settle jobs", sql, values).await?;
    let mut rows: HashMap<(String, i64), Current> =
        rows.into_iter().map(|row| ((row.id.clone(), row.claim), row)).collect();
    let of = |attempt: &Attempt| rows.remove(&(attempt.claimed.job.id.to_string(), attempt.claimed.claim));
    Ok(attempts.iter().map(of).collect())
}

/// Most attempts end well, and many at once: one statement for all of them, whose rows are locked.
async fn settle_done(tx: &impl ConnectionTrait, done: &[(&Attempt, &Current)]) -> Result<(), StoreError> {
    let Some((first, _)) = done.first() else { return Ok(()) };
    let at = first.at;
    let mut values: Vec<Value> = done.iter().map(|(_, current)| current.id.as_str().into()).collect();
    values.push(micros(at).into());
    let sql = format!(
        "UPDATE jobs SET state = 'done', ended_at = ${}, code = NULL, detail = NULL WHERE id IN ({})",
        values.len(),
        sql::list(done.len())
    );
    sql::run(tx, "settle jobs", sql, values).await?;
    let current: Vec<&Current> = done.iter().map(|(_, current)| *current).collect();
    write_down(tx, &current, &Outcome::Done, at).await
}

/// Moves a job whose row is locked, and keeps the attempt.
async fn settle(
    tx: &impl ConnectionTrait,
    current: &Current,
    outcome: &Outcome,
    policy: &Policy,
    unit: f64,
    at: DateTime<Utc>,
) -> Result<Next, StoreError> {
    let doing = "settle a job";
    let health = "SELECT health AS id FROM connectors WHERE id = $1";
    let health: Option<sql::Id> = sql::one(tx, doing, health, values![current.lane.as_str()]).await?;
    let health = health.and_then(|health| Health::parse(&health.id));
    let alone = current.lane == super::NO_LANE || !kind(&current.kind, &current.id)?.needs_connector();
    let admission = if alone { job::Admission::Run } else { job::admission(health) };
    let attempts = u32::try_from(current.attempts).unwrap_or(u32::MAX);
    let next = job::after(outcome, attempts, admission, policy, unit);
    let fault = match &next {
        Next::Dead(fault) => Some(fault.clone()),
        _ => outcome.fault(),
    };
    let (code, detail) = words(fault);
    let at_or_later = |pause: std::time::Duration| at + TimeDelta::from_std(pause).unwrap_or(TimeDelta::days(1));
    let (set, value): (&str, Value) = match &next {
        Next::Done => ("state = 'done', ended_at = $4", micros(at).into()),
        Next::Again(pause) => ("state = 'waiting', due_at = $4", micros(at_or_later(*pause)).into()),
        Next::Later(pause) => {
            ("state = 'waiting', attempts = attempts - 1, due_at = $4", micros(at_or_later(*pause)).into())
        }
        Next::Back => ("state = 'ready', attempts = attempts - 1, started_at = $4", None::<DateTime<Utc>>.into()),
        Next::Parked => ("state = 'parked', attempts = attempts - 1, parked_at = $4", micros(at).into()),
        Next::Dead(_) => ("state = 'dead', ended_at = $4", micros(at).into()),
    };
    let sql = format!("UPDATE jobs SET {set}, code = $2, detail = $3 WHERE id = $1");
    sql::run(tx, doing, sql, values![current.id.as_str(), code, detail, value]).await?;
    write_down(tx, &[current], outcome, at).await?;
    Ok(next)
}

/// Keeps attempts that ended alike.
async fn write_down(
    tx: &impl ConnectionTrait,
    jobs: &[&Current],
    outcome: &Outcome,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let (code, detail) = words(outcome.fault());
    let mut values = values![micros(at), outcome.as_str(), code, detail];
    let mut rows = Vec::with_capacity(jobs.len());
    for job in jobs {
        let next = values.len();
        rows.push(format!("(${}, ${}, ${}, ${}, $1, $2, $3, $4)", next + 1, next + 2, next + 3, next + 4));
        values.extend(values![job.id.as_str(), job.claim, job.holder.clone(), micros(job.started_at)]);
    }
    let sql = format!(
        "INSERT INTO job_attempts (job_id, number, holder, started_at, ended_at, outcome, code, detail) VALUES {}",
        rows.join(", ")
    );
    sql::run(tx, "keep attempts", sql, values).await.map(|_| ())
}

/// What a database takes, whatever a provider said: one that it refuses would hold up all that is settled with it.
fn words(fault: Option<Fault>) -> (Option<String>, Option<String>) {
    let plain = |text: String| text.chars().filter(|c| !c.is_control()).take(LONGEST_WORDS).collect();
    fault.map_or((None, None), |fault| (Some(plain(fault.code)), Some(plain(fault.detail))))
}
