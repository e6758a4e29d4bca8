//! `holdfast serve`.

use std::process::ExitCode;

use crate::{app::App, config::Config, seams::Seams, serve};

/// Serves until it is asked to stop.
pub(super) async fn run(mut config: Config) -> anyhow::Result<ExitCode> {
    // The port first: an occupied one is told before anything is opened or migrated.
    let listener = serve::listen(config.listen, "--listen ADDRESS:PORT").await?;
    config.listen = listener.local_addr()?;
    let seams = Seams::system(&config)?;
    let (app, lock) = App::build(config, seams).await?;
    serve::serve(app, lock, listener, serve::asked_to_stop()).await?;
    Ok(ExitCode::SUCCESS)
}
