//! The programs under measurement, as processes.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use holdfast_app::seams::OsRandom;
use holdfast_core::ports::Random as _;
use holdfast_store::MasterKey;
use rustix::process::{Pid, Signal, kill_process};
use secrecy::ExposeSecret;
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
};

use super::{load::STATEMENT, machine, pause, uptime, wire};

/// Nothing that is measured here takes nearly as long.
const START_BOUND: Duration = Duration::from_secs(30);
const STOP_BOUND: Duration = Duration::from_secs(40);
/// Between two looks at whether a port is open.
const LOOK: Duration = Duration::from_millis(1);
/// The kernel counts a process's time in hundredths of a second, whatever its own tick is.
const TICKS_PER_SEC: f64 = 100.0;
const ORG: &str = "Bench";
const SCOPES: &str = "connectors:read,connectors:write,tokens:read,proxy";

/// One installation: a folder, a database, settings. Removed when dropped.
pub(super) struct Installation {
    folder: TempDir,
    settings: Vec<(String, String)>,
}

/// A running process that is ready.
pub(super) struct Running {
    child: Child,
    pub(super) address: SocketAddr,
    /// From just before it was started to its first 200.
    pub(super) started_in: Duration,
    log: PathBuf,
}

impl Installation {
    /// On SQLite, with the settings as they ship.
    pub(super) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("holdfast-bench-").tempdir()?;
        let master_key = MasterKey::generate(&OsRandom).expose_secret().to_owned();
        // Nobody here has tickets.
        let new = Self { folder, settings: Vec::new() }.with("HOLDFAST_SYNC__ENABLED", "false");
        Ok(new.with("HOLDFAST_MASTER_KEY", master_key))
    }

    /// With one more setting, as a variable of the environment.
    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.settings.push((name.to_owned(), value.into()));
        self
    }

    /// Whose statements are those of requests alone, each of them a line of the log: what is done by itself is done once,
    /// at the start.
    pub(super) fn counting_statements(self) -> Self {
        self.with("HOLDFAST_REFRESH__LOOP_INTERVAL_SECS", "3600")
            .with("HOLDFAST_AGENTS__LOOP_INTERVAL_SECS", "3600")
            .with("HOLDFAST_MAIL__LOOP_INTERVAL_SECS", "3600")
            .with("HOLDFAST_JOBS__LOOP_INTERVAL_SECS", "3600")
            .with("HOLDFAST_LOG__FORMAT", "json")
            .with("HOLDFAST_LOG__FILTER", format!("info,{STATEMENT}=trace"))
    }

    /// Starts `holdfast serve` and waits until it is ready.
    pub(super) async fn serve(&self) -> anyhow::Result<Running> {
        self.serve_with("holdfast").await
    }

    /// The same by another program.
    pub(super) async fn serve_with(&self, program: &str) -> anyhow::Result<Running> {
        let address = free_port()?;
        let log = self.folder.path().join(format!("{}.log", address.port()));
        let mut command = self.program(program)?;
        command.args(["serve", "--listen", &address.to_string()]).stderr(File::create(&log)?);
        Running::start(&mut command, address, "/readyz", log).await
    }

    /// Makes the organisation, if there is none, and an API key that may do what the benchmark does.
    pub(super) async fn key(&self) -> anyhow::Result<String> {
        let address = format!("bench-{}@example.com", random_word());
        self.command(&["user", "create", "--org", ORG, "--email", &address]).await?;
        self.command(&["key", "create", "--org", ORG, "--name", "bench", "--scope", SCOPES]).await
    }

    /// Adds an owner who can sign in: their address and password.
    pub(super) async fn person(&self) -> anyhow::Result<(String, String)> {
        let (address, password) = (format!("owner-{}@example.com", random_word()), random_word());
        let create = ["user", "create", "--org", ORG, "--email", &address, "--role", "owner", "--password-stdin"];
        let mut child = self.holdfast()?.args(create).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("it was asked for")?;
        stdin.write_all(format!("{password}\n").as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        ensure!(output.status.success(), "user create: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok((address, password))
    }

    /// Imports connectors, and answers the last line that it says.
    pub(super) async fn import(&self, lines: &str) -> anyhow::Result<String> {
        let file = self.folder.path().join("connectors.jsonl");
        fs::write(&file, lines)?;
        let mut command = self.holdfast()?;
        let output = command.args(["connector", "import"]).arg(&file).stdout(Stdio::null()).output().await?;
        Ok(String::from_utf8(output.stderr)?.trim().lines().last().unwrap_or_default().to_owned())
    }

    /// What a command prints.
    async fn command(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.holdfast()?.args(args).output().await?;
        ensure!(output.status.success(), "{}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    fn holdfast(&self) -> anyhow::Result<Command> {
        self.program("holdfast")
    }

    fn program(&self, name: &str) -> anyhow::Result<Command> {
        let mut command = Command::new(beside(name)?);
        command.env_clear().envs(self.settings.iter().cloned()).current_dir(self.folder.path());
        command.stdin(Stdio::null()).kill_on_drop(true);
        Ok(command)
    }
}

impl Running {
    /// Starts a server and waits for its first 200.
    pub(super) async fn start(
        command: &mut Command,
        address: SocketAddr,
        path: &str,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let request = wire::get(path, "");
        let started = uptime();
        let mut child = command.kill_on_drop(true).spawn().context("the program could not be started")?;
        loop {
            if let Ok(mut connection) = wire::Connection::open(address).await
                && let Ok(answer) = connection.ask(&request).await
                && answer.status == 200
            {
                return Ok(Self { child, address, started_in: uptime() - started, log });
            }
            if let Some(status) = child.try_wait()? {
                bail!("it ended with {status}: {}", fs::read_to_string(&log).unwrap_or_default().trim());
            }
            ensure!(uptime() - started < START_BOUND, "it was not ready in time");
            pause(LOOK).await;
        }
    }

    /// Resident memory in KiB.
    pub(super) fn resident_kib(&self) -> anyhow::Result<f64> {
        let text = machine::field(&format!("/proc/{}/status", self.id()?), "VmRSS").context("no VmRSS")?;
        Ok(text.trim_end_matches("kB").trim().parse()?)
    }

    /// Processor time that it has used.
    pub(super) fn cpu_secs(&self) -> anyhow::Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.id()?))?;
        // The name, in brackets, may hold anything.
        let (_, rest) = text.rsplit_once(')').context("no name in stat")?;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Ok(ticks.sum::<Result<f64, _>>()? / TICKS_PER_SEC)
    }

    /// What it has logged so far.
    pub(super) fn log(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }

    /// Asks it to stop and waits until it has.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        let id = Pid::from_raw(self.id()?).context("no process id")?;
        kill_process(id, Signal::TERM)?;
        tokio::select! {
            status = self.child.wait() => ensure!(status?.success(), "it did not stop in good order"),
            () = pause(STOP_BOUND) => bail!("it did not stop in time"),
        }
        Ok(())
    }

    fn id(&self) -> anyhow::Result<i32> {
        Ok(self.child.id().context("it has ended")?.try_into()?)
    }
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// A program that was built together with this one.
fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.parent().unwrap_or(Path::new(".")).join(name);
    ensure!(program.exists(), "{} is missing; run this with `cargo xtask bench`", program.display());
    Ok(program)
}

/// Letters and digits that nothing else is called by.
pub(super) fn random_word() -> String {
    let mut bytes = [0; 8];
    OsRandom.fill(&mut bytes);
    format!("{:016x}", u64::from_le_bytes(bytes))
}
