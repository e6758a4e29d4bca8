//! Jobs worked off by several replicas, some of which are killed or stand still.

use std::time::Duration;

use holdfast_tests::{
    cluster::{Cluster, Setup},
    process::Replica,
    wait::within,
};
use sqlx::Executor as _;

use crate::BOUND;

/// Over soon, so that the jobs of the killed are seen to.
const SETTINGS: [(&str, &str); 4] = [
    ("jobs.lease_secs", "5"),
    ("jobs.loop_interval_secs", "0.2"),
    ("jobs.backoff_base_secs", "0.1"),
    ("jobs.at_once", "8"),
];
const TABLES: &str = "CREATE TABLE job_runs (job_id text NOT NULL, claim bigint NOT NULL); \
                      CREATE TABLE job_effects (job_id text PRIMARY KEY)";
const FILL: &str = "INSERT INTO jobs (id, org_id, kind, key, lane, subject, payload, state, due_at, created_at) \
                    SELECT 'job_' || i, o.id, 'mail', 'key ' || i, '-', '', '{}', 'ready', now(), now() \
                    FROM orgs o CROSS JOIN generate_series(1, 1000) i";
const OPEN: &str = "SELECT count(*) FROM jobs WHERE state <> 'done'";
const EFFECTS: &str = "SELECT count(*) FROM job_effects";
/// Begun more often than replicas were lost with it.
const RUN_TWICE: &str = "SELECT count(*) FROM (SELECT r.job_id FROM job_runs r GROUP BY r.job_id HAVING count(*) > 1 + \
                         (SELECT count(*) FROM job_attempts a WHERE a.job_id = r.job_id AND a.outcome IN ('lost', \
                         'given_back'))) twice";

async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.database.session().await.execute(sqlx::raw_sql(TABLES)).await.expect("the tables can be made");
    cluster
}

fn worker<'a>(cluster: &'a Cluster, name: &'static str) -> Setup<'a> {
    cluster.replica(name).of("worker").with_all(&SETTINGS)
}

async fn fill(cluster: &Cluster) {
    cluster.database.session().await.execute(FILL).await.expect("the jobs can be made");
}

/// Waits until so many effects are there.
async fn effects(cluster: &Cluster, count: i64) {
    within(&format!("{count} jobs had their effect"), BOUND, async || {
        let seen = cluster.database.number(EFFECTS).await;
        if seen >= count { Ok(()) } else { Err(seen) }
    })
    .await;
}

async fn all_done_once(cluster: &Cluster) {
    within("every job is done", BOUND, async || match cluster.database.number(OPEN).await {
        0 => Ok(()),
        open => Err(open),
    })
    .await;
    assert_eq!(cluster.database.number(EFFECTS).await, 1000, "none is lost");
    assert_eq!(cluster.database.number(RUN_TWICE).await, 0, "none is begun twice but after a replica was lost with it");
    let done = "SELECT count(*) FROM job_attempts WHERE outcome = 'done'";
    assert_eq!(cluster.database.number(done).await, 1000, "each has one end");
}

/// QJ-01, WD-05
#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_lost_or_run_twice_when_replicas_are_killed_and_stopped() {
    let cluster = cluster().await;
    let start = |name| worker(&cluster, name).start();
    let (one, two, mut three) = tokio::join!(start("one"), start("two"), start("three"));
    fill(&cluster).await;

    effects(&cluster, 100).await;
    one.kill().await;
    effects(&cluster, 200).await;
    three.ask_to_stop();
    let four: Replica = start("four").await;
    assert!(three.end().await.success(), "it stops in good order");
    effects(&cluster, 400).await;
    two.kill().await;

    all_done_once(&cluster).await;
    let stopped = "SELECT count(*) FROM job_attempts a JOIN jobs j ON j.id = a.job_id WHERE a.outcome = 'lost' \
                   AND a.holder = (SELECT holder FROM job_attempts WHERE outcome = 'given_back' LIMIT 1)";
    assert_eq!(cluster.database.number(stopped).await, 0, "what a stopping replica had, it finished or gave back");
    let lost = "SELECT count(*) FROM job_attempts WHERE outcome = 'lost'";
    println!("{} attempts were lost with their replica", cluster.database.number(lost).await);
    drop(four);
}

/// A worker that stands still past its lease finds its jobs in other hands, and its words unheard.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stands_still_past_its_leases_ends_nothing() {
    let cluster = cluster().await;
    let (one, two) = tokio::join!(worker(&cluster, "one").start(), worker(&cluster, "two").start());
    fill(&cluster).await;

    effects(&cluster, 100).await;
    one.freeze();
    all_done_once(&cluster).await;
    one.thaw();

    // It goes on working: what comes now is done, by whomever.
    let more = "INSERT INTO jobs (id, org_id, kind, key, lane, subject, payload, state, due_at, created_at) \
                SELECT 'job_more', o.id, 'mail', 'more', '-', '', '{}', 'ready', now(), now() FROM orgs o";
    cluster.database.session().await.execute(more).await.expect("the job can be made");
    within("it is done too", Duration::from_secs(30), async || match cluster.database.number(OPEN).await {
        0 => Ok(()),
        open => Err(open),
    })
    .await;
    let twice = "SELECT count(*) FROM (SELECT job_id FROM job_attempts WHERE outcome = 'done' GROUP BY job_id \
                 HAVING count(*) > 1) twice";
    assert_eq!(cluster.database.number(twice).await, 0);
    drop((one, two));
}
