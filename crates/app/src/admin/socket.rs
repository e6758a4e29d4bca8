//! The server's socket: one JSON line asks, one answers.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};
use tracing::{debug, warn};

use super::{Ask, Refused, run};
use crate::{app::App, config::Config, seams::Seams};

fn path(config: &Config) -> Option<PathBuf> {
    let file = config.database.sqlite_path()?;
    let mut name = file.into_os_string();
    name.push(".sock");
    Some(name.into())
}

/// The socket beside the SQLite file; `None` on PostgreSQL. The caller holds the serving lock, so what lies there is
/// of a process that is gone.
pub fn socket(config: &Config) -> anyhow::Result<Option<UnixListener>> {
    let Some(path) = path(config) else { return Ok(None) };
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace {}", path.display()));
        }
        _ => {}
    }
    match UnixListener::bind(&path) {
        Ok(listener) => {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            Ok(Some(listener))
        }
        // Too long a path, or a file system without sockets: commands then have to wait until the server is stopped.
        Err(error) => {
            warn!(%error, "cannot open {}: commands cannot act through this server", path.display());
            Ok(None)
        }
    }
}

/// Answers until the service stops.
pub async fn answer(app: Arc<App>, listener: UnixListener) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = app.draining.cancelled() => break,
        };
        match accepted {
            // Whoever came in before the permissions were set is asked as well.
            Ok((stream, _)) if !ours(&stream) => warn!("another user tried to command this server"),
            Ok((stream, _)) => {
                let app = Arc::clone(&app);
                tokio::spawn(async move {
                    if let Err(error) = converse(&app, stream).await {
                        debug!(%error, "a command went away");
                    }
                });
            }
            Err(error) => {
                warn!(%error, "could not take a command");
                app.seams.clock.sleep(Duration::from_secs(1)).await;
            }
        }
    }
    if let Some(path) = path(&app.config) {
        let _gone = fs::remove_file(path);
    }
}

/// Of our own user, or of root.
fn ours(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn converse(app: &Arc<App>, stream: UnixStream) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let answer: Result<Value, Refused> = match serde_json::from_str::<Ask>(&line) {
            Ok(ask) => run(app, ask).await,
            Err(_) => Err(Refused::new("the running server is of another version; use its own command line")),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        write.write_all(text.as_bytes()).await?;
    }
    Ok(())
}

/// A conversation with the server.
pub struct Connection {
    lines: tokio::io::Lines<BufReader<tokio::net::unix::OwnedReadHalf>>,
    write: tokio::net::unix::OwnedWriteHalf,
}

/// Reaches the server of this database, where one listens.
pub(super) async fn connect(config: &Config) -> anyhow::Result<Option<Connection>> {
    let Some(path) = path(config) else { return Ok(None) };
    match UnixStream::connect(&path).await {
        Ok(stream) => {
            let (read, write) = stream.into_split();
            Ok(Some(Connection { lines: BufReader::new(read).lines(), write }))
        }
        Err(error) if nobody_there(&error) => Ok(None),
        Err(error) => Err(error).with_context(|| not_ours(&path)),
    }
}

/// The same, for a server that is just starting: it has the lock already, and its socket soon.
pub(super) async fn connect_soon(config: &Config, seams: &Seams) -> anyhow::Result<Option<Connection>> {
    for _ in 0..30 {
        if let Some(connection) = connect(config).await? {
            return Ok(Some(connection));
        }
        seams.clock.sleep(Duration::from_millis(100)).await;
    }
    Ok(None)
}

fn nobody_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn not_ours(path: &Path) -> String {
    format!("a server of this database is running, but {} cannot be opened; run this as its user", path.display())
}

impl Connection {
    pub(super) async fn ask(&mut self, ask: &Ask) -> anyhow::Result<Result<Value, Refused>> {
        let mut text = serde_json::to_string(ask)?;
        text.push('\n');
        self.write.write_all(text.as_bytes()).await?;
        let line = self.lines.next_line().await?.context("it closed the connection")?;
        Ok(serde_json::from_str(&line)?)
    }
}
