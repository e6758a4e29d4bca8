//! The command line. Data goes to stdout, everything else to stderr; exit codes are 0 (done), 1 (failed), 2 (used wrongly).

mod args;
mod master_key;
mod output;

use std::process::ExitCode;

pub use args::{
    Args, Command, ConnectorCommand, DemoArgs, KeyCommand, MasterKeyCommand, MigrateArgs, MigrateCommand, Role,
    ServeArgs, UserCommand,
};
pub use output::Output;

use crate::{
    config::{Config, Sources},
    logging,
};

/// Runs the command; what went wrong is one line on stderr.
pub async fn run(args: Args) -> ExitCode {
    match dispatch(args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("holdfast: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::unused_async, reason = "the commands that meet a database or a socket are asynchronous")]
async fn dispatch(args: Args) -> anyhow::Result<ExitCode> {
    let output = Output::new(args.json);
    if let Command::MasterKey(MasterKeyCommand::New) = args.command {
        // Needs no configuration, which may still lack the very key.
        return master_key::new(output);
    }
    let config = Config::load(&sources(&args))?;
    logging::init(&config.log, args.command.usual_log_filter());
    anyhow::bail!("this command is not in this build")
}

/// The configuration's sources, with the settings among the flags.
fn sources(args: &Args) -> Sources {
    let mut sources = Sources::of_process(args.config.as_deref());
    if let Command::Serve(serve) = &args.command {
        if let Some(listen) = serve.listen {
            sources = sources.with_flag("--listen", "listen", listen.to_string());
        }
        if serve.no_migrate {
            sources = sources.with_flag("--no-migrate", "database.migrate_on_start", "false");
        }
    }
    sources
}
