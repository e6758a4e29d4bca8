//! Jobs that do nothing, on PostgreSQL with two replicas: how many a second, and whether any is run twice.

use std::time::Duration;

use anyhow::{Context, ensure};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::{
    database::Database,
    median, pause,
    process::Installation,
    report::{Goal, Report},
    uptime,
};

const REPLICAS: usize = 2;
const COUNT: i64 = 20_000;
const ORGS: i64 = 10;
const ROUNDS: usize = 3;
const BOUND: Duration = Duration::from_mins(3);

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create().await?;
    let installation =
        Installation::new()?.with("HOLDFAST_DATABASE__URL", database.url()).with("HOLDFAST_JOBS__AT_ONCE", "200");
    let mut running = Vec::new();
    for _ in 0..REPLICAS {
        running.push(installation.serve_with("worker").await?);
    }
    let mut session = database.session().await?;
    let orgs = format!(
        "INSERT INTO orgs (id, name, sealed_data_key, created_at) SELECT 'org_' || i, 'Org ' || i, '', now() \
         FROM generate_series(1, {ORGS}) i"
    );
    sqlx::raw_sql(AssertSqlSafe(orgs)).execute(&mut session).await?;

    let mut rates = Vec::new();
    for round in 0..ROUNDS {
        rates.push(one_round(&mut session, round).await?);
    }
    // An attempt is a run: no replica is lost here.
    let runs = number(&mut session, "SELECT count(*) FROM job_attempts").await?;
    let twice = number(&mut session, "SELECT count(*) FROM jobs WHERE claim <> 1 OR state <> 'done'").await?;
    session.close().await?;
    let expected = COUNT * i64::try_from(ROUNDS)?;
    ensure!(runs == expected, "{runs} runs of {expected} jobs");

    let note = format!(
        "{REPLICAS} replicas, {COUNT} jobs of {ORGS} orgs that are there at once, from their commit to the last one's; \
         median of {ROUNDS} rounds"
    );
    report.add("no-op jobs", median(rates), "per second", Goal::AtLeast(2_000.0), note);
    #[expect(clippy::cast_precision_loss, reason = "a handful at most")]
    let twice = twice as f64;
    report.add("no-op jobs run twice", twice, "", Goal::Exactly(0.0), format!("of {expected}, each with its attempts"));
    for replica in running {
        replica.stop().await?;
    }
    database.drop().await
}

/// Jobs per second.
async fn one_round(session: &mut PgConnection, round: usize) -> anyhow::Result<f64> {
    let fill = format!(
        "INSERT INTO jobs (id, org_id, kind, key, lane, subject, payload, state, due_at, created_at) \
         SELECT 'job_{round}_' || i, 'org_' || (1 + i % {ORGS}), 'deliver', 'round {round}, ' || i, '-', '', '{{}}', \
         'ready', now(), now() FROM generate_series(1, {COUNT}) i"
    );
    sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut *session).await?;
    let started = uptime();
    loop {
        let open = number(session, "SELECT count(*) FROM jobs WHERE state IN ('ready', 'running', 'waiting')").await?;
        if open == 0 {
            break;
        }
        ensure!(uptime() - started < BOUND, "{open} of {COUNT} are left");
        pause(Duration::from_millis(50)).await;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let count = COUNT as f64;
    Ok(count / (uptime() - started).as_secs_f64())
}

async fn number(session: &mut PgConnection, sql: &'static str) -> anyhow::Result<i64> {
    sqlx::query_scalar(sql).fetch_one(session).await.context(sql)
}
