//! `holdfast migrate`.

use std::process::ExitCode;

use serde_json::json;

use super::{MigrateCommand, Output};
use crate::{app, config::Config, seams::Seams};

/// Brings the schema up to date, or shows where it is.
pub(super) async fn run(config: &Config, command: Option<MigrateCommand>, output: Output) -> anyhow::Result<ExitCode> {
    let store = app::open(config, &Seams::system(config)?, "migrate".to_owned()).await?;
    if command.is_none() {
        store.migrate().await?;
    }
    let steps = store.migration_status().await?;
    let pending = steps.iter().filter(|(_, applied)| !applied).count();
    let data: Vec<_> = steps.iter().map(|(name, applied)| json!({ "step": name, "applied": applied })).collect();
    output.print(&data, || {
        let line =
            |(name, applied): &(String, bool)| format!("{} {name}\n", if *applied { "applied" } else { "pending" });
        format!("{}{} of {} steps pending", steps.iter().map(line).collect::<String>(), pending, steps.len())
    })?;
    Ok(ExitCode::SUCCESS)
}
