//! Whose turn it is, and the right to a job.
//!
//! Orgs take turns, and inside an org its lanes: however many jobs one of them has, another's one is among the next. On
//! PostgreSQL claims pass each other by, rows by `SKIP LOCKED` and lanes by a lock that is only tried: nobody waits for
//! anybody, and a process that stands still in the middle keeps from others what it was about to take and no more.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use chrono::{DateTime, Utc};
use holdfast_core::{
    Health, JobId,
    job::{self, Admission, Kind},
    ports::StoreError,
};
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult};

use super::{COLUMNS, Job, Moved, NO_LANE, Row, lanes};
use crate::{
    sql::{self, failed, micros, values},
    store::Store,
};

/// What a worker can take.
#[derive(Clone, Copy, Debug)]
pub struct JobsWanted {
    /// Of this kind.
    pub kind: Kind,
    /// So many; a hundred are a good batch.
    pub count: usize,
    /// Of one lane, so many are under way at once, on all replicas together.
    pub per_connector: u32,
    /// For how long they are the worker's without a sign of life, by the database's clock.
    pub lease: Duration,
}

/// Whose turn it was, as a worker remembers it for one kind.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    org: String,
    /// Where an org had more lanes than were looked at.
    lanes: HashMap<String, String>,
}

/// A job that this replica has, until its lease is over.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedJob {
    /// The job.
    pub job: Job,
    /// Marks this replica's acts: another claim of the same job has another one.
    pub claim: i64,
}

/// What a look brought.
#[derive(Clone, Debug, Default)]
pub struct JobClaims {
    /// To be worked off.
    pub jobs: Vec<ClaimedJob>,
    /// Others were parked, released or ended: the next look may find more.
    pub moved: bool,
}

#[derive(FromQueryResult)]
struct Lane {
    id: String,
    health: Option<String>,
    /// Jobs of it are parked.
    parked: bool,
    /// Nobody else is looking at it.
    free: bool,
}

impl Store {
    /// Takes jobs whose time has come, each for one replica. Jobs of a connector that cannot be used are parked or ended
    /// on the way, those of one that can be again are released first: oldest first is kept inside a lane.
    pub async fn claim_jobs(
        &self,
        wanted: &JobsWanted,
        turn: &mut Turn,
        now: DateTime<Utc>,
    ) -> Result<JobClaims, StoreError> {
        let doing = "claim jobs";
        // A look alone costs no lock; mostly there is nothing.
        let orgs = self.orgs_with_jobs(wanted, turn).await?;
        let mut claims = JobClaims::default();
        let Some(last) = orgs.last().cloned() else { return Ok(claims) };
        let tx = self.transaction(doing).await?;
        let mut moved = Vec::new();
        let mut picked: Vec<String> = Vec::new();
        for (served, org) in orgs.iter().enumerate() {
            let left = wanted.count.saturating_sub(picked.len());
            let share = left.div_ceil(orgs.len() - served);
            if share == 0 {
                break;
            }
            picked.extend(self.pick(&tx, wanted, org, share, turn, now, &mut moved).await?);
        }
        turn.org = last;
        let jobs = self.take(&tx, &picked, wanted.lease, now).await?;
        tx.commit().await.map_err(failed(doing))?;
        let taken = jobs.iter().map(|row| Moved { org_id: row.org_id.clone(), kind: row.kind.clone() });
        claims.moved = !moved.is_empty();
        moved.extend(taken);
        self.jobs_moved(&moved);
        for row in jobs {
            let claim = row.claim;
            claims.jobs.push(ClaimedJob { job: row.try_into()?, claim });
        }
        claims.jobs.sort_by(|a, b| (a.job.due_at, &a.job.id).cmp(&(b.job.due_at, &b.job.id)));
        Ok(claims)
    }

    /// Orgs with jobs that are ready, from the one after whose turn it was, each found by one probe.
    async fn orgs_with_jobs(&self, wanted: &JobsWanted, turn: &Turn) -> Result<Vec<String>, StoreError> {
        let sql = format!(
            "WITH RECURSIVE o(id) AS (SELECT {} UNION ALL SELECT {} FROM o WHERE o.id IS NOT NULL) \
             SELECT id FROM o WHERE id IS NOT NULL LIMIT $3",
            next_ready(&["kind", "org_id"], "$2"),
            next_ready(&["kind", "org_id"], "o.id || ''")
        );
        let doing = "look for jobs";
        let kind = wanted.kind.as_str();
        let count = i64::try_from(wanted.count).unwrap_or(i64::MAX);
        let after = values![kind, turn.org.as_str(), count];
        let mut orgs: Vec<sql::Id> = sql::all(self.db(), doing, sql.as_str(), after).await?;
        let left = wanted.count.saturating_sub(orgs.len());
        if left > 0 && !turn.org.is_empty() {
            let from_the_first = values![kind, "", i64::try_from(left).unwrap_or(i64::MAX)];
            let known: HashSet<String> = orgs.iter().map(|org| org.id.clone()).collect();
            let more: Vec<sql::Id> = sql::all(self.db(), doing, sql, from_the_first).await?;
            orgs.extend(more.into_iter().filter(|org| !known.contains(&org.id)));
        }
        Ok(orgs.into_iter().map(|org| org.id).collect())
    }

    /// Ids of an org's next jobs, at most its share, lane by lane.
    #[expect(clippy::too_many_arguments, reason = "one step of a claim, with all that the claim has")]
    async fn pick(
        &self,
        tx: &impl ConnectionTrait,
        wanted: &JobsWanted,
        org: &str,
        share: usize,
        turn: &mut Turn,
        now: DateTime<Utc>,
        moved: &mut Vec<Moved>,
    ) -> Result<Vec<String>, StoreError> {
        let mut picked = Vec::new();
        let kind = wanted.kind;
        if !kind.needs_connector() && !kind.has_lane_of_subject() {
            return self.pick_lane(tx, wanted, org, NO_LANE, share).await;
        }
        for lane in self.free_lanes(tx, wanted, org, share, turn).await? {
            let left = share.saturating_sub(picked.len());
            if left == 0 {
                break;
            }
            if lane.id != NO_LANE && kind.needs_connector() {
                let health = lane.health.as_deref().and_then(Health::parse);
                match job::admission(health) {
                    Admission::Run if !lane.parked => {}
                    Admission::Run => moved.extend(lanes::release_lane(tx, &lane.id, now).await?),
                    Admission::Park => moved.extend(lanes::park_lane(tx, &lane.id, now).await?),
                    Admission::End(reason) => moved.extend(lanes::end_lane(tx, &lane.id, reason, now).await?),
                }
                if job::admission(health) != Admission::Run {
                    continue;
                }
            }
            picked.extend(self.pick_lane(tx, wanted, org, &lane.id, left).await?);
        }
        Ok(picked)
    }

    /// Lanes of an org with jobs that are ready and room for one more, which nobody else is looking at, from the one after
    /// where the last look ended; each found by one probe, as the orgs.
    async fn free_lanes(
        &self,
        tx: &impl ConnectionTrait,
        wanted: &JobsWanted,
        org: &str,
        count: usize,
        turn: &mut Turn,
    ) -> Result<Vec<Lane>, StoreError> {
        let running = "FROM jobs r WHERE r.state = 'running' AND r.kind = $1 AND r.lane = l.lane";
        let sql = format!(
            "WITH RECURSIVE l(lane) AS (SELECT {} UNION ALL SELECT {} FROM l WHERE l.lane IS NOT NULL) \
             SELECT l.lane AS id, (SELECT c.health FROM connectors c WHERE c.id = l.lane) AS health, \
             EXISTS (SELECT 1 FROM jobs p WHERE p.lane = l.lane AND p.state = 'parked' AND {}) AS parked \
             FROM l WHERE l.lane IS NOT NULL AND (l.lane = '{NO_LANE}' OR (SELECT COUNT(*) {running}) < $4) LIMIT $5",
            next_ready(&["kind", "org_id", "lane"], "$3"),
            next_ready(&["kind", "org_id", "lane"], "l.lane || ''"),
            lanes::OPEN
        );
        let tried = match tx.get_database_backend() {
            DbBackend::Postgres => "pg_try_advisory_xact_lock(hashtextextended('jobs ' || $1 || ' ' || found.id, 0))",
            _ => "TRUE",
        };
        let sql = format!("SELECT id, health, parked, id = '{NO_LANE}' OR {tried} AS free FROM ({sql}) found");
        let after = turn.lanes.remove(org).unwrap_or_default();
        let per_connector = i64::from(wanted.per_connector);
        let limit = i64::try_from(count).unwrap_or(i64::MAX);
        let values = values![wanted.kind.as_str(), org, after.as_str(), per_connector, limit];
        let mut lanes: Vec<Lane> = sql::all(tx, "look for jobs", sql, values).await?;
        // The next look goes on behind the last of these; where there were no more, it begins again.
        if let Some(last) = lanes.last().filter(|_| lanes.len() >= count) {
            turn.lanes.insert(org.to_owned(), last.id.clone());
        }
        lanes.retain(|lane| lane.free);
        Ok(lanes)
    }

    /// Ids of the oldest jobs of a lane, as many as it has room for. Who holds the lane's lock asks in a statement of its
    /// own, which sees what the holder before has committed.
    async fn pick_lane(
        &self,
        tx: &impl ConnectionTrait,
        wanted: &JobsWanted,
        org: &str,
        lane: &str,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let limit = if lane == NO_LANE {
            "$4"
        } else {
            "(SELECT CASE WHEN COUNT(*) < $4 THEN $4 - COUNT(*) ELSE 0 END FROM jobs r \
             WHERE r.state = 'running' AND r.kind = $1 AND r.lane = $3)"
        };
        let sql = format!(
            "SELECT id FROM jobs WHERE state = 'ready' AND kind = $1 AND org_id = $2 AND lane = $3 \
             ORDER BY due_at, id LIMIT {limit}{}",
            sql::for_update_of_the_free(tx.get_database_backend())
        );
        let most_rows = i64::try_from(most).unwrap_or(i64::MAX);
        let room = if lane == NO_LANE { most_rows } else { i64::from(wanted.per_connector) };
        let picked: Vec<sql::Id> =
            sql::all(tx, "look for jobs", sql, values![wanted.kind.as_str(), org, lane, room]).await?;
        Ok(picked.into_iter().map(|row| row.id).take(most).collect())
    }

    /// They are this replica's now.
    async fn take(
        &self,
        tx: &impl ConnectionTrait,
        picked: &[String],
        lease: Duration,
        now: DateTime<Utc>,
    ) -> Result<Vec<Row>, StoreError> {
        if picked.is_empty() {
            return Ok(Vec::new());
        }
        let mut values: Vec<sea_orm::Value> = picked.iter().map(|id| id.as_str().into()).collect();
        let count = values.len();
        values.extend(values![self.inner.options.replica.as_str(), micros(now), ms(lease)]);
        let sql = format!(
            "UPDATE jobs SET state = 'running', claim = claim + 1, attempts = attempts + 1, holder = ${}, \
             started_at = ${}, lease_expires_at_ms = {} + ${} WHERE id IN ({}) AND state = 'ready' RETURNING {COLUMNS}",
            count + 1,
            count + 2,
            sql::now_ms(self.backend()),
            count + 3,
            sql::list(count)
        );
        sql::all(tx, "claim jobs", sql, values).await
    }

    /// Extends the leases of these jobs. Answers those that are not this claim's any more: somebody else may have them.
    pub async fn renew_jobs(&self, jobs: &[(JobId, i64)], lease: Duration) -> Result<Vec<JobId>, StoreError> {
        let mut lost = Vec::new();
        for jobs in jobs.chunks(500) {
            let (pairs, mut values) = pairs(jobs.iter().map(|(id, claim)| (id, *claim)));
            values.push(ms(lease).into());
            let sql = format!(
                "UPDATE jobs SET lease_expires_at_ms = {} + ${} WHERE id IN (SELECT id FROM jobs \
                 WHERE state = 'running' AND (id, claim) IN ({pairs}) ORDER BY id{}) RETURNING id",
                sql::now_ms(self.backend()),
                values.len(),
                sql::for_update(self.backend())
            );
            let renewed: Vec<sql::Id> = sql::all(self.db(), "renew the leases of jobs", sql, values).await?;
            let renewed: HashSet<String> = renewed.into_iter().map(|row| row.id).collect();
            lost.extend(jobs.iter().filter(|(id, _)| !renewed.contains(id.as_str())).map(|(id, _)| id.clone()));
        }
        Ok(lost)
    }

    /// Whose time has come is ready; answers when the next one's comes, if that is known.
    pub async fn ready_due_jobs(&self, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, StoreError> {
        #[derive(FromQueryResult)]
        struct Next {
            due_at: DateTime<Utc>,
        }
        let doing = "look for jobs whose time has come";
        let next = "SELECT due_at FROM jobs WHERE state = 'waiting' ORDER BY due_at LIMIT 1";
        loop {
            let first: Option<Next> = sql::one(self.db(), doing, next, values![]).await?;
            let Some(first) = first else { return Ok(None) };
            if first.due_at > micros(now) {
                return Ok(Some(first.due_at));
            }
            let sql = format!(
                "UPDATE jobs SET state = 'ready' WHERE state = 'waiting' AND id IN (SELECT id FROM jobs \
                 WHERE state = 'waiting' AND due_at <= $1 ORDER BY due_at LIMIT {}{}) RETURNING org_id, kind",
                super::ROWS,
                sql::for_update_of_the_free(self.backend())
            );
            let moved: Vec<Moved> = sql::all(self.db(), doing, sql, values![micros(now)]).await?;
            if moved.is_empty() {
                // Others are at it.
                return Ok(Some(now));
            }
            self.jobs_moved(&moved);
        }
    }
}

/// The next value of the last of these columns behind `after`, among jobs that are ready, where those before it are `$1`, `$2`, …;
/// found by one probe of the index: nothing but `jobs_ready` has this order, so that databases take it also where they do not
/// know yet how many rows there are. (SQLite compares a column of a recursion by the whole index only where it is an
/// expression, hence `|| ''`.)
fn next_ready(columns: &[&str], after: &str) -> String {
    let (last, before) = columns.split_last().expect("there is a column");
    let known: Vec<_> = (1..=before.len()).map(|number| format!("${number}")).collect();
    let same: Vec<_> = before.iter().zip(&known).map(|(column, value)| format!("n.{column} = {value}")).collect();
    let (columns, known, same) = (columns.join(", "), known.join(", "), same.join(" AND "));
    format!(
        "(SELECT n.{last} FROM (SELECT {columns} FROM jobs WHERE state = 'ready' AND ({columns}) > ({known}, {after}) \
         ORDER BY {columns} LIMIT 1) n WHERE {same})"
    )
}

/// `($1, $2), ($3, $4), …` with their values, for `(id, claim) IN (VALUES …)`.
pub(super) fn pairs<'a>(jobs: impl Iterator<Item = (&'a JobId, i64)>) -> (String, Vec<sea_orm::Value>) {
    let mut values = Vec::new();
    let mut rows = Vec::new();
    for (id, claim) in jobs {
        rows.push(format!("(${}, ${})", values.len() + 1, values.len() + 2));
        values.extend(values![id.as_str(), claim]);
    }
    (format!("VALUES {}", rows.join(", ")), values)
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}
