//! The scheduler: how long much takes that is due at once, whether anything is late where replicas share the work, and
//! how many statements a refresh costs. All on PostgreSQL, with real processes and a token endpoint that takes 200 ms.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, Row};

use super::{
    database::Database,
    endpoint::Endpoint,
    load::STATEMENT,
    pause,
    process::{Installation, Running},
    report::{Goal, Report},
    uptime,
    wire::{self, Connection},
};

const TAKES: Duration = Duration::from_millis(200);
/// Longer than anything here should take.
const BOUND: Duration = Duration::from_mins(3);
/// Callers that import.
const IMPORTERS: usize = 16;

const TOGETHER: u32 = 1_000;
const TOGETHER_AT_ONCE: u32 = 64;

const MINUTE: u32 = 10_000;
const MINUTE_AT_ONCE: u32 = 128;
const REPLICAS: usize = 4;
/// The least margin that the settings leave, as they ship.
const MARGIN_SECS: u32 = 30;

const COUNTED: u32 = 300;

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    together(report).await.context("much at once")?;
    statements(report).await.context("statements")?;
    within_a_minute(report).await.context("much within a minute")
}

/// An installation whose connectors are refreshed at an endpoint of ours.
pub(super) struct Farm {
    pub(super) endpoint: Endpoint,
    pub(super) database: Database,
    pub(super) running: Vec<Running>,
    pub(super) key: String,
    /// Their folder, with logs and lifeboat.
    _installation: Installation,
}

impl Farm {
    /// With so many replicas.
    pub(super) async fn start(
        replicas: usize,
        takes: Duration,
        change: impl FnOnce(Installation) -> Installation,
    ) -> anyhow::Result<Self> {
        let (endpoint, database) = (Endpoint::start(takes).await?, Database::create().await?);
        let installation = change(
            Installation::new()?
                .with("HOLDFAST_DATABASE__URL", database.url())
                .with("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS", "loopback")
                .with("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_ID", "bench")
                .with("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_SECRET", "bench")
                .with("HOLDFAST_PROVIDERS__ZENDESK__BASE_URL_OVERRIDE", endpoint.base_url()),
        );
        let mut running = Vec::new();
        for _ in 0..replicas {
            running.push(installation.serve().await?);
        }
        let key = installation.key().await?;
        Ok(Self { endpoint, database, running, key, _installation: installation })
    }

    /// Connectors whose tokens live for a day.
    pub(super) async fn import(&self, count: u32) -> anyhow::Result<()> {
        let address = self.running.first().context("there is a replica")?.address;
        let numbers = std::cell::Cell::new(0);
        let importers = (0..IMPORTERS).map(|_| async {
            let mut connection = Connection::open(address).await?;
            loop {
                let number = numbers.get();
                if number == count {
                    return anyhow::Ok(());
                }
                numbers.set(number + 1);
                let account = format!("desk{number}");
                let body = json!({
                    "provider": "zendesk", "account": account,
                    "credential": {
                        "access_token": "a".repeat(64), "refresh_token": Endpoint::first(&account), "expires_in": 86_400,
                    },
                });
                connection.must(&wire::post("/api/v1/connectors", &self.key, &body)).await?;
            }
        });
        try_join_all(importers).await.map(|_| ())
    }

    /// Makes all of them due, each at a moment within `spread` seconds from now, and keeps what they were; their tokens end
    /// [`MARGIN_SECS`] later.
    async fn make_due(&self, spread: u32) -> anyhow::Result<()> {
        let sql = format!(
            "CREATE TABLE bench_due AS SELECT id, clock_timestamp() + random() * {spread} * interval '1 second' AS due_at \
             FROM credentials; \
             UPDATE credentials k SET due_at = b.due_at, expires_at = b.due_at + interval '{MARGIN_SECS} seconds' \
             FROM bench_due b WHERE b.id = k.id"
        );
        let mut session = self.database.session().await?;
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut session).await?;
        Ok(session.close().await?)
    }

    /// Waits until all are refreshed. Answers by how many seconds after they were due they were: the half of them, 99 of
    /// 100, the last; the seconds from the first that was due to the last that was refreshed; and how many were late.
    async fn refreshed(&self, count: u32) -> anyhow::Result<Lateness> {
        let mut session = self.database.session().await?;
        let started = uptime();
        loop {
            let done: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM credentials WHERE version > 1")
                .fetch_one(&mut session)
                .await?;
            if done == i64::from(count) {
                break;
            }
            ensure!(uptime() - started < BOUND, "only {done} of {count} were refreshed in time");
            pause(Duration::from_millis(250)).await;
        }
        let late = "EXTRACT(EPOCH FROM k.rotated_at - b.due_at)::float8";
        let sql = format!(
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY {late}), \
             percentile_cont(0.99) WITHIN GROUP (ORDER BY {late}), MAX({late}), \
             EXTRACT(EPOCH FROM MAX(k.rotated_at) - MIN(b.due_at))::float8, \
             COUNT(*) FILTER (WHERE k.rotated_at > b.due_at + interval '{MARGIN_SECS} seconds') \
             FROM credentials k JOIN bench_due b ON b.id = k.id"
        );
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut session).await?;
        session.close().await?;
        Ok(Lateness {
            half: row.try_get(0)?,
            most: row.try_get(1)?,
            last: row.try_get(2)?,
            all_in: row.try_get(3)?,
            late: row.try_get(4)?,
        })
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        for replica in self.running {
            replica.stop().await?;
        }
        self.database.drop().await
    }

    fn cpu_secs(&self) -> anyhow::Result<f64> {
        self.running.iter().map(Running::cpu_secs).sum()
    }
}

struct Lateness {
    half: f64,
    most: f64,
    last: f64,
    all_in: f64,
    late: i64,
}

async fn together(report: &mut Report) -> anyhow::Result<()> {
    let limit = TOGETHER_AT_ONCE.to_string();
    let farm = Farm::start(1, TAKES, |with| with.with("HOLDFAST_REFRESH__AT_ONCE", limit)).await?;
    farm.import(TOGETHER).await?;
    let cpu = farm.cpu_secs()?;
    farm.make_due(0).await?;
    let took = farm.refreshed(TOGETHER).await?;
    let (seen, cpu) = (farm.endpoint.seen(), farm.cpu_secs()? - cpu);
    ensure!(seen.refused == 0 && seen.exchanges == TOGETHER, "{} exchanges, {} refused", seen.exchanges, seen.refused);

    let ideal = f64::from(TOGETHER.div_ceil(TOGETHER_AT_ONCE)) * TAKES.as_secs_f64();
    let note = format!(
        "from the moment when they are due, the scheduler's look (1 s) included; ideal {ideal:.1} s; at most {} at once; \
         {cpu:.1} s of processor time",
        seen.most_open
    );
    report.add("1,000 due together, limit 64", took.all_in, "s", Goal::Under(ideal * 1.3), note);
    farm.stop().await
}

async fn within_a_minute(report: &mut Report) -> anyhow::Result<()> {
    let limit = MINUTE_AT_ONCE.to_string();
    let farm = Farm::start(REPLICAS, TAKES, |with| {
        with.with("HOLDFAST_REFRESH__AT_ONCE", limit).with("HOLDFAST_DATABASE__MAX_CONNECTIONS", "12")
    })
    .await?;
    farm.import(MINUTE).await?;
    let cpu = farm.cpu_secs()?;
    farm.make_due(60).await?;
    let took = farm.refreshed(MINUTE).await?;
    let (seen, cpu) = (farm.endpoint.seen(), farm.cpu_secs()? - cpu);
    ensure!(seen.refused == 0 && seen.exchanges == MINUTE, "{} exchanges, {} refused", seen.exchanges, seen.refused);

    let note = format!(
        "of 10,000: refreshed after their token's end, {MARGIN_SECS} s after they were due. From due to refreshed: median \
         {:.2} s, p99 {:.2} s, the last {:.2} s; at most {} at once; {cpu:.0} s of processor time",
        took.half, took.most, took.last, seen.most_open
    );
    let late = f64::from(u32::try_from(took.late)?);
    report.add("late, 10,000 due within a minute, 4 replicas, limit 128", late, "", Goal::Exactly(0.0), note);
    farm.stop().await
}

async fn statements(report: &mut Report) -> anyhow::Result<()> {
    let farm = Farm::start(1, Duration::from_millis(20), |with| {
        with.counting_statements().with("HOLDFAST_REFRESH__LOOP_INTERVAL_SECS", "1")
    })
    .await?;
    farm.import(COUNTED).await?;
    let (before, began) = (farm.running[0].log()?.len(), uptime());
    farm.make_due(0).await?;
    farm.refreshed(COUNTED).await?;
    // What the last one has still to release.
    pause(Duration::from_millis(500)).await;
    let (between, lasted) = (farm.running[0].log()?.len(), uptime() - began);
    // What runs by the clock, whether something is refreshed or not.
    pause(lasted).await;

    let mut log = farm.running[0].log()?;
    let idle = Statements::of(&log.split_off(between));
    let busy = Statements::of(&log.split_off(before));
    let own = f64::from(busy.own.saturating_sub(idle.own)) / f64::from(COUNTED);
    let note = format!(
        "of {COUNTED} scheduled ones, BEGIN and COMMIT not counted; besides, {} statements look and claim for all of them; \
         {} that run by the clock are taken off",
        busy.shared.saturating_sub(idle.shared),
        idle.own + idle.shared
    );
    report.add("statements per refresh", own, "", Goal::AtMost(6.0), note);
    farm.stop().await
}

/// Statements of a part of the log, without those that begin and end a transaction.
struct Statements {
    /// That look for what is due, or claim it.
    shared: u32,
    own: u32,
}

impl Statements {
    fn of(log: &str) -> Self {
        let (mut shared, mut own) = (0, 0);
        for line in log.lines().filter(|line| line.contains(STATEMENT)) {
            let any = |words: &[&str]| words.iter().any(|word| line.contains(word));
            if any(&["\"BEGIN", "\"COMMIT", "\"ROLLBACK"]) {
                continue;
            }
            if any(&["refresh_claims", "FROM replicas"]) {
                shared += 1;
            } else {
                own += 1;
            }
        }
        Self { shared, own }
    }
}
