//! `holdfast serve` with handlers for jobs that do nothing. Those of kind `deliver` do nothing at all; those of kind `mail`
//! are counted in two tables that a test has made: `job_runs` has each run that was begun, `job_effects` each effect once,
//! under its job's id.

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use holdfast_app::{App, Config, Seams, config::Sources, jobs::Handler, logging, seams, serve};
use holdfast_core::{
    error::Retry,
    job::{Fault, Kind, Outcome},
};
use holdfast_store::ClaimedJob;
use secrecy::ExposeSecret as _;
use sqlx::PgPool;

/// Between a run and its effect: long enough to be killed in between.
const WORK: Duration = Duration::from_millis(100);

struct Nothing;

#[async_trait]
impl Handler for Nothing {
    async fn run(&self, _: &Arc<App>, _: &ClaimedJob) -> Outcome {
        Outcome::Done
    }
}

struct Counted(PgPool);

impl Counted {
    async fn count(&self, app: &App, claimed: &ClaimedJob) -> sqlx::Result<()> {
        let id = claimed.job.id.as_str();
        let run = "INSERT INTO job_runs (job_id, claim) VALUES ($1, $2)";
        sqlx::query(run).bind(id).bind(claimed.claim).execute(&self.0).await?;
        app.seams.clock.sleep(WORK).await;
        let effect = "INSERT INTO job_effects (job_id) VALUES ($1) ON CONFLICT DO NOTHING";
        sqlx::query(effect).bind(id).execute(&self.0).await.map(|_| ())
    }
}

#[async_trait]
impl Handler for Counted {
    async fn run(&self, app: &Arc<App>, claimed: &ClaimedJob) -> Outcome {
        match self.count(app, claimed).await {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(Fault::new("not_counted", error.to_string()), Retry::Backoff),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    seams::install_tls();
    match Box::pin(run()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Takes the arguments of `holdfast serve`, of which it heeds `--listen`.
async fn run() -> anyhow::Result<()> {
    let mut sources = Sources::of_process(None);
    let mut arguments = std::env::args().skip_while(|argument| argument != "--listen").skip(1);
    if let Some(listen) = arguments.next() {
        sources = sources.with_flag("--listen", "listen", listen);
    }
    let mut config = Config::load(&sources)?;
    logging::init(&config.log, "info");
    let listener = serve::listen(config.listen, "HOLDFAST_LISTEN").await?;
    config.listen = listener.local_addr()?;
    let pool = sqlx::pool::PoolOptions::new().max_connections(8).connect_lazy(config.database.url.expose_secret())?;
    let seams = Seams::system(&config)?;
    let (app, lock) = App::build(config, seams).await?;
    app.jobs.handle(Kind::Deliver, Arc::new(Nothing));
    app.jobs.handle(Kind::Mail, Arc::new(Counted(pool)));
    serve::serve(app, lock, listener, serve::asked_to_stop()).await
}
