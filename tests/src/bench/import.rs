//! How fast connectors are taken over from another system. On SQLite, with the settings as they ship.

use std::fmt::Write as _;

use anyhow::ensure;

use super::{
    process::Installation,
    report::{Goal, Report},
    uptime,
};

const CONNECTORS: u32 = 100_000;

/// By the command line as people use it, once as the one process and once through a running server; and all of them again,
/// when each is there already.
pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let mut lines = String::new();
    for number in 0..CONNECTORS {
        writeln!(
            lines,
            "{{\"provider\":\"zendesk\",\"account\":\"desk{number}\",\"alias\":\"customer-{number}\",\"credential\":\
             {{\"access_token\":\"{number:0>64}\",\"refresh_token\":\"{number:1>64}\",\"expires_in\":86400,\
             \"scope\":\"read write\"}}}}"
        )?;
    }
    for (how, served) in [("alone", false), ("through a running server", true)] {
        let installation = Installation::new()?.with("HOLDFAST_REFRESH__LOOP_INTERVAL_SECS", "3600");
        installation.key().await?;
        let server = if served { Some(installation.serve().await?) } else { None };
        let first = take_over(&installation, &lines, &format!("{CONNECTORS} imported, 0 unchanged, 0 failed")).await?;
        report.add(
            format!("import, {how}"),
            first,
            "a second",
            Goal::AtLeast(2000.0),
            format!("{CONNECTORS} connectors"),
        );
        let again = take_over(&installation, &lines, &format!("0 imported, {CONNECTORS} unchanged, 0 failed")).await?;
        report.add(format!("import again, {how}"), again, "a second", Goal::None, "all of them are there".to_owned());
        if let Some(server) = server {
            server.stop().await?;
        }
    }
    Ok(())
}

/// Connectors per second.
async fn take_over(installation: &Installation, lines: &str, end: &str) -> anyhow::Result<f64> {
    let started = uptime();
    let said = installation.import(lines).await?;
    let took = uptime() - started;
    ensure!(said == end, "it says: {said}");
    Ok(f64::from(CONNECTORS) / took.as_secs_f64())
}
