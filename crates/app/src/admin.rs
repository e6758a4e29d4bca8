//! What the command line asks of a service. On PostgreSQL a command opens the database itself; on SQLite it acts
//! through the running server when there is one, so that what the server remembers is never stale: the server listens
//! on a socket beside the database file, which only its own user may open.

mod commands;
mod migrations;
mod socket;
mod webhooks;

pub use commands::{Ask, Refused, run};
pub(crate) use migrations::{REASON, Wanted, Wrong, YEARS, start_wanted};
pub use socket::{answer, socket};

use std::sync::Arc;

use anyhow::Context;
use holdfast_store::ServingLock;
use serde_json::Value;

use crate::{
    app::{AlreadyServed, App},
    config::Config,
    seams::Seams,
};

/// Somebody who answers [`Ask`]s.
pub enum Admin {
    /// The server of this database, over its socket.
    Server(Box<socket::Connection>),
    /// This process; on SQLite it holds the right to serve meanwhile, so that no server voids its lease.
    Here(Arc<App>, ServingLock),
}

impl Admin {
    /// The server where there is one, else this process.
    pub async fn reach(config: Config) -> anyhow::Result<Self> {
        let seams = Seams::system(&config)?;
        if let Some(connection) = socket::connect(&config).await? {
            return Ok(Self::Server(Box::new(connection)));
        }
        // On the heap: it is large, and all that commands do would hold it.
        match Box::pin(App::build_for_command(config.clone(), seams.clone())).await {
            Ok((app, lock)) => Ok(Self::Here(app, lock)),
            // A server, or another command, was a moment faster.
            Err(error) if error.is::<AlreadyServed>() => match socket::connect_soon(&config, &seams).await? {
                Some(connection) => Ok(Self::Server(Box::new(connection))),
                None => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Asks.
    pub async fn ask(&mut self, ask: Ask) -> anyhow::Result<Result<Value, Refused>> {
        match self {
            Self::Server(connection) => connection.ask(&ask).await.context("the running server did not answer"),
            Self::Here(app, _) => Ok(Box::pin(run(app, ask)).await),
        }
    }

    /// Ends; waits for a rotation that a command has started.
    pub async fn end(self) {
        if let Self::Here(app, _lock) = self {
            app.engine.drain().await;
            app.stop.cancel();
        }
    }
}
