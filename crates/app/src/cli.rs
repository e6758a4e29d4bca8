//! The command line. Data goes to stdout, everything else to stderr; exit codes are 0 (done), 1 (failed), 2 (used wrongly).

mod args;
mod ask;
mod demo;
mod doctor;
mod import;
mod master_key;
mod migrate;
mod migration;
mod output;
mod provider;
mod serve;
mod webhook;

use std::process::ExitCode;

pub use args::{
    Args, Command, ConnectorCommand, DemoArgs, KeyCommand, MasterKeyCommand, MigrateArgs, MigrateCommand,
    MigrationCommand, ProviderCommand, Role, ServeArgs, UserCommand, WebhookCommand,
};
pub use output::Output;

use crate::{
    config::{Config, Sources},
    logging,
};

/// Runs the command; what went wrong is one line on stderr.
pub async fn run(args: Args) -> ExitCode {
    // The settings are large, and so is what holds them.
    match Box::pin(dispatch(args)).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("holdfast: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn dispatch(args: Args) -> anyhow::Result<ExitCode> {
    let output = Output::new(args.json);
    match &args.command {
        // Neither needs settings, which may still lack the very key; the demo has its own.
        Command::MasterKey(MasterKeyCommand::New) => return master_key::new(output),
        Command::Demo(demo) => return Box::pin(demo::run(demo)).await,
        Command::Provider(ProviderCommand::Check { file }) => return provider::check(file, output),
        _ => {}
    }
    let loaded = Config::load(&sources(&args));
    if matches!(args.command, Command::Doctor) {
        return doctor::run(loaded, output).await;
    }
    let config = loaded?;
    logging::init(&config.log, args.command.usual_log_filter());
    match args.command {
        Command::Serve(_) => Box::pin(serve::run(config)).await,
        Command::Migrate(migrate) => migrate::run(&config, migrate.command, output).await,
        Command::User(command) => ask::user(config, command, output).await,
        Command::Key(command) => ask::key(config, command, output).await,
        Command::Connector(command) => ask::connector(config, command, output).await,
        Command::Provider(ProviderCommand::Try { file, account, port, wait }) => {
            Box::pin(provider::attempt(config, &file, account, port, wait, output)).await
        }
        Command::Provider(_) => provider::list(&config, output),
        Command::Migration(command) => migration::run(config, command, output).await,
        Command::Webhook(command) => webhook::run(config, command, output).await,
        Command::MasterKey(_) | Command::Demo(_) | Command::Doctor => unreachable!("handled above"),
    }
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
