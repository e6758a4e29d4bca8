//! What an idle service holds, and how soon it is there. Both on SQLite, with the settings as they ship.

use std::time::Duration;

use super::{
    median, millis, pause,
    process::Installation,
    report::{Goal, Report},
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
