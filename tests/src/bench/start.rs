//! What an idle service holds, and how soon it is there. Both on SQLite, with the settings as they ship.

use std::time::Duration;

use futures::future::try_join_all;
use sqlx::{AssertSqlSafe, Connection as _};

use super::{
    load::open,
    median, millis, pause,
    process::Installation,
    report::{Goal, Report},
    schedule::Farm,
    wire::{self, Connection},
};

const IDLE: Duration = Duration::from_secs(5);
const STARTS: usize = 7;

/// Resident memory of a service that nobody has asked for anything.
pub(super) async fn memory(report: &mut Report) -> anyhow::Result<()> {
    let installation = Installation::new()?;
    let holdfast = installation.serve().await?;
    pause(IDLE).await;
    let resident = holdfast.resident_kib()? / 1024.0;
    let note = format!("resident, {} s after the start", IDLE.as_secs());
    report.add("idle memory", resident, "MiB", Goal::Under(40.0), note);
    holdfast.stop().await
}

/// From the start of the process to its first 200 of `/readyz`.
pub(super) async fn ready(report: &mut Report) -> anyhow::Result<()> {
    let (mut fresh, mut existing) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let installation = Installation::new()?;
        for times in [&mut fresh, &mut existing] {
            let holdfast = installation.serve().await?;
            times.push(millis(holdfast.started_in));
            holdfast.stop().await?;
        }
    }
    for (what, times) in [("start to ready, no database yet", fresh), ("start to ready, existing database", existing)] {
        let longest = times.iter().copied().fold(0.0, f64::max);
        let note = format!("median of {STARTS}; the longest {longest:.1} ms");
        report.add(what, median(times), "ms", Goal::Under(300.0), note);
    }
    Ok(())
}

/// Connectors that are read once.
const READ: u32 = 100_000;
/// Room for so many, where the setting is to show.
const ROOM: u32 = 10_000;

/// What a service holds after so many connectors were read once, over what it held before.
pub(super) async fn kept(report: &mut Report) -> anyhow::Result<()> {
    let whole = read_all(READ).await?;
    let note = format!("over {:.0} MiB before; {READ} read once, room for as many", whole.before);
    report.add("memory for 100,000 connectors", whole.after - whole.before, "MiB", Goal::Under(100.0), note);
    let bounded = read_all(ROOM).await?;
    let note = format!("over {:.0} MiB before; the same with cache.max_connectors = {ROOM}", bounded.before);
    report.add("memory with room for 10,000", bounded.after - bounded.before, "MiB", Goal::Under(30.0), note);
    Ok(())
}

/// Resident memory in MiB.
struct Held {
    before: f64,
    after: f64,
}

async fn read_all(room: u32) -> anyhow::Result<Held> {
    let room = room.to_string();
    let farm = Farm::start(1, Duration::ZERO, |with| {
        with.with("HOLDFAST_CACHE__MAX_CONNECTORS", room).with("HOLDFAST_REFRESH__LOOP_INTERVAL_SECS", "3600")
    })
    .await?;
    farm.import(1).await?;
    // Connectors of one org may share a credential; each has a snapshot of its own.
    let sql = format!(
        "ALTER TABLE connectors DISABLE TRIGGER USER; \
         INSERT INTO connectors (id, org_id, credential_id, provider, account, name, health, health_since, epoch, created_at) \
         SELECT 'con_' || lpad(i::text, 32, '0'), org_id, credential_id, provider, 'desk' || i, name, health, health_since, \
         epoch, created_at FROM connectors, generate_series(1, {READ}) i; \
         ALTER TABLE connectors ENABLE TRIGGER USER; ANALYZE"
    );
    let mut session = farm.database.session().await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut session).await?;
    session.close().await?;
    let server = &farm.running[0];
    let mut callers = open(server.address).await?;
    // Connections, statements and the allocator's first pages are there before and after.
    read(&mut callers, &farm.key, 1, 1_000).await?;
    let before = server.resident_kib()? / 1024.0;
    read(&mut callers, &farm.key, 1_001, READ).await?;
    let after = server.resident_kib()? / 1024.0;
    drop(callers);
    farm.stop().await?;
    Ok(Held { before, after })
}

async fn read(callers: &mut [Connection], key: &str, from: u32, to: u32) -> anyhow::Result<()> {
    let next = std::cell::Cell::new(from);
    let next = &next;
    let callers = callers.iter_mut().map(|caller| async move {
        while next.get() <= to {
            let number = next.replace(next.get() + 1);
            caller.must(&wire::get(&format!("/api/v1/connectors/con_{number:0>32}/token"), key)).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(callers).await.map(|_| ())
}
