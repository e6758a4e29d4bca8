//! What a user of Holdfast waits for, pays for and must never see, as figures against goals.

mod bare;
mod database;
mod deliveries;
mod endpoint;
mod import;
mod jobs;
mod load;
mod machine;
mod mail;
mod pages;
mod process;
mod proxy;
mod report;
mod scan;
mod schedule;
mod start;
mod storm;
mod token;
mod wake;
mod wire;

use std::time::Duration;

use anyhow::{Context, bail};
use holdfast_app::seams::SystemClock;
use holdfast_core::ports::Clock;
use tokio::runtime;

use report::Report;

const USAGE: &str = "usage: bench [--json] [--only PART]...

  --json        print JSON instead of a table
  --only PART   token, proxy, memory, start, pages, storm, wake, schedule, scan, kept,
                import, mail, jobs or deliveries; may be repeated

HOLDFAST_TEST_POSTGRES: URL of a PostgreSQL server where databases may be created; storm, wake, schedule, scan, kept,
jobs and deliveries need it. mail needs python3-aiosmtpd.";

const PARTS: [&str; 14] = [
    "token",
    "proxy",
    "memory",
    "start",
    "pages",
    "storm",
    "wake",
    "schedule",
    "scan",
    "kept",
    "import",
    "mail",
    "jobs",
    "deliveries",
];

/// Reads the arguments and measures. A missed goal is a figure, not an error; not being able to measure is one.
pub(crate) fn main() -> anyhow::Result<()> {
    let (mut json, mut only) = (false, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), arg.strip_prefix("--only=")) {
            // How the bare server is started: the same program, in a process of its own.
            (bare::ARGUMENT, _) => {
                return runtime::Builder::new_multi_thread().enable_all().build()?.block_on(bare::serve());
            }
            ("--json", _) => json = true,
            (_, Some(part)) => only.push(part.to_owned()),
            ("--only", _) => only.push(args.next().context("--only wants a part")?),
            _ => bail!("there is no option {arg}\n\n{USAGE}"),
        }
    }
    if let Some(unknown) = only.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("there is no part {unknown}\n\n{USAGE}");
    }
    // One thread: the callers have to leave the processors to what is measured.
    let report = runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(&only))?;
    println!("{}", if json { report.json() } else { report.table() });
    Ok(())
}

async fn measure(only: &[String]) -> anyhow::Result<Report> {
    let mut report = Report::new(machine::facts());
    let wanted = |part: &str| only.is_empty() || only.iter().any(|own| own == part);
    if wanted("memory") {
        start::memory(&mut report).await.context("idle memory")?;
    }
    if wanted("start") {
        start::ready(&mut report).await.context("start to ready")?;
    }
    if wanted("token") {
        token::run(&mut report).await.context("GET token")?;
    }
    if wanted("proxy") {
        proxy::run(&mut report).await.context("the proxy")?;
    }
    if wanted("pages") {
        pages::run(&mut report).await.context("pages")?;
    }
    if wanted("storm") {
        storm::run(&mut report).await.context("callers at expiry")?;
    }
    if wanted("wake") {
        wake::run(&mut report).await.context("waiters of another replica")?;
    }
    if wanted("schedule") {
        schedule::run(&mut report).await.context("scheduled refreshes")?;
    }
    if wanted("scan") {
        scan::run(&mut report).await.context("the look for what is due")?;
    }
    if wanted("kept") {
        start::kept(&mut report).await.context("memory for what was read")?;
    }
    if wanted("import") {
        import::run(&mut report).await.context("imports")?;
    }
    if wanted("mail") {
        mail::run(&mut report).await.context("failure to mail")?;
    }
    if wanted("jobs") {
        jobs::run(&mut report).await.context("jobs")?;
    }
    if wanted("deliveries") {
        deliveries::run(&mut report).await.context("deliveries")?;
    }
    report.ended(machine::load_average());
    Ok(report)
}

/// The stopwatch.
fn uptime() -> Duration {
    SystemClock.uptime()
}

async fn pause(duration: Duration) {
    SystemClock.sleep(duration).await;
}

fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert!((median([9.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(median([]).is_nan());
    }
}
