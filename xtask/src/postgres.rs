//! A PostgreSQL server for the tests: the one that the environment names, or our own for as long as we run.

use std::{
    ffi::OsStr,
    fmt, fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener},
    os::unix::{fs::MetadataExt, fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::process::{Signal, getegid, geteuid, test_kill_process};
use tempfile::TempDir;

use crate::{
    apt::{self, Missing},
    run,
};

/// URL of a server where databases may be created; tests read it.
pub(crate) const VARIABLE: &str = "HOLDFAST_TEST_POSTGRES";
/// Our folders in the temporary folder begin like this.
const PREFIX: &str = "holdfast-pg-";
/// Holds the process id of the xtask that a folder belongs to.
const OWNER: &str = "owner";
const START_BOUND: Duration = Duration::from_mins(1);
const STOP_BOUND: Duration = Duration::from_secs(20);

const PACKAGE: &str = "postgresql";

/// Where the server will come from.
pub(crate) enum Plan {
    Given(String),
    Own(PathBuf),
    Install,
}

/// A server that can be used until this is dropped.
pub(crate) enum Postgres {
    Given(String),
    Own(Server),
}

pub(crate) struct Server {
    url: String,
    process: Child,
    folder: TempDir,
}

/// Who runs the server: it refuses to run as root.
#[derive(Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

impl Postgres {
    pub(crate) fn plan() -> anyhow::Result<Plan> {
        match std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) {
            Some(url) => match url.into_string() {
                Ok(url) => Ok(Plan::Given(url)),
                Err(_) => bail!("{VARIABLE} is no text"),
            },
            None => Ok(find().map_or(Plan::Install, Plan::Own)),
        }
    }

    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Given(url) => url,
            Self::Own(server) => &server.url,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Not the URL: it may hold a password.
            Self::Given(_) => write!(f, "PostgreSQL, the server that {VARIABLE} names"),
            Self::Own(bin) => write!(
                f,
                "PostgreSQL, and starts a server of its own from {} on a free port, in a temporary folder",
                bin.display()
            ),
            Self::Install => write!(
                f,
                "PostgreSQL, which is not installed; installs it with `{}`, and starts a server of its own on a free \
                 port, in a temporary folder",
                apt::command(&[PACKAGE])
            ),
        }
    }
}

impl Plan {
    /// What has to be installed.
    pub(crate) fn missing(&self) -> Option<Missing> {
        let or = format!("name a server in {VARIABLE}");
        matches!(self, Self::Install).then(|| Missing { what: "PostgreSQL", packages: vec![PACKAGE], or })
    }

    pub(crate) fn start(self, keeps: Keeps) -> anyhow::Result<Postgres> {
        let bin = match self {
            Self::Given(url) => return Ok(Postgres::Given(url)),
            Self::Own(bin) => bin,
            Self::Install => find().context("PostgreSQL is installed, but its initdb and postgres are not found")?,
        };
        remove_leftovers();
        // Between our choice of a free port and the server's bind somebody else may take it.
        let mut tries = 0;
        loop {
            tries += 1;
            match Server::start(&bin, keeps) {
                Ok(server) => return Ok(Postgres::Own(server)),
                Err(error) if tries < 3 && !run::stopped() => eprintln!("PostgreSQL did not start: {error:#}"),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Server {
    fn start(bin: &Path, keeps: Keeps) -> anyhow::Result<Self> {
        let user = user()?;
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(parent())
            .context("could not make a temporary folder")?;
        let path = folder.path();
        fs::write(path.join(OWNER), std::process::id().to_string())?;
        let (data, secret) = (path.join("data"), path.join("password"));
        let password = password()?;
        fs::write(&secret, &password)?;
        for entry in [path, &secret] {
            std::os::unix::fs::chown(entry, Some(user.uid), Some(user.gid))
                .context("could not hand the folder to the server's user")?;
        }

        let program = |name: &str| {
            let mut command = Command::new(bin.join(name));
            command.current_dir(path);
            user.take_on(&mut command);
            command
        };
        let mut initdb = program("initdb");
        initdb.arg("--pgdata").arg(&data).arg("--pwfile").arg(&secret);
        initdb.args(["--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        initdb.args(["--auth-local=reject", "--auth-host=md5"]).stdout(Stdio::null());
        run::must(&mut initdb, START_BOUND)?;
        fs::remove_file(&secret)?;
        // The default, SCRAM, takes an unoptimised client a noticeable part of a second for each connection.
        let mut single = program("postgres");
        single
            .args(["--single", "-c", "log_checkpoints=off"])
            .arg("-D")
            .arg(&data)
            .arg("postgres")
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = run::spawn(&mut single)?;
        let statements = format!("SET password_encryption = 'md5'\nALTER ROLE postgres PASSWORD '{password}'\n");
        child.stdin.take().context("its input was asked for")?.write_all(statements.as_bytes())?;
        if !run::ended(&mut child, START_BOUND)?.is_some_and(|status| status.success()) {
            child.kill().ok();
            bail!("could not set the password of the test server");
        }

        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = path.join("log");
        let mut postgres = match find_in_path("setpriv") {
            // Should we be killed, the server ends as well.
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.current_dir(path).args(["--pdeathsig", "INT"]).arg(bin.join("postgres"));
                user.take_on(&mut command);
                command
            }
            None => program("postgres"),
        };
        postgres.arg("-D").arg(&data).arg("-k").arg(path).args(["-p", &port.to_string()]);
        for setting in
            ["listen_addresses=127.0.0.1", "max_connections=300"].into_iter().chain(keeps.settings().iter().copied())
        {
            postgres.args(["-c", setting]);
        }
        let output = fs::File::create(&log)?;
        postgres.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = run::spawn(&mut postgres)?;
        let url = format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres");
        let mut server = Self { url, process, folder };
        server.wait_until_ready(&data, &log)?;
        println!("PostgreSQL listens on 127.0.0.1:{port}; its folder is {}.", server.folder.path().display());
        Ok(server)
    }

    fn wait_until_ready(&mut self, data: &Path, log: &Path) -> anyhow::Result<()> {
        let started = run::now();
        loop {
            // The eighth line is the server's state.
            let state = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
            if state.lines().nth(7).is_some_and(|state| state.trim() == "ready") {
                return Ok(());
            }
            let ended = self.process.try_wait()?;
            if ended.is_some() || run::stopped() || started.elapsed() > START_BOUND {
                let said = fs::read_to_string(log).unwrap_or_default();
                let last: Vec<_> = said.lines().rev().take(5).collect();
                bail!("it is not ready; it said last: {}", last.into_iter().rev().collect::<Vec<_>>().join(" | "));
            }
            run::pause();
        }
    }
}

/// What is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// Over everything but a power cut: nothing in a test has to survive one.
    WhileThePowerIsOn,
    /// As a server keeps it that people use, at its price.
    Always,
}

impl Keeps {
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::WhileThePowerIsOn => &["fsync=off", "full_page_writes=off"],
            Self::Always => &[],
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A fast shutdown: it ends the sessions of tests that were killed.
        run::signal(self.process.id(), Signal::INT);
        if !matches!(run::ended(&mut self.process, STOP_BOUND), Ok(Some(_))) {
            self.process.kill().ok();
            self.process.wait().ok();
        }
    }
}

impl User {
    fn take_on(self, command: &mut Command) {
        if geteuid().is_root() {
            command.uid(self.uid).gid(self.gid);
        }
    }
}

fn user() -> anyhow::Result<User> {
    if !geteuid().is_root() {
        return Ok(User { uid: geteuid().as_raw(), gid: getegid().as_raw() });
    }
    let users = fs::read_to_string("/etc/passwd").context("could not look for a user to run PostgreSQL as")?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(User { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    };
    find("postgres").or_else(|| find("nobody")).context("PostgreSQL refuses to run as root, and there is no other user")
}

/// Where our folders lie: for root one that the server's user can enter.
fn parent() -> PathBuf {
    if geteuid().is_root() { PathBuf::from("/tmp") } else { std::env::temp_dir() }
}

pub(crate) fn password() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("no randomness")?;
    Ok(bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

/// The folder with the newest initdb and postgres. Debian's lie outside of PATH.
fn find() -> Option<PathBuf> {
    let complete = |bin: &PathBuf| ["initdb", "postgres"].iter().all(|name| bin.join(name).is_file());
    let mut debian: Vec<_> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| complete(bin))
        .collect();
    debian.sort();
    debian.pop().map(|(_, bin)| bin).or_else(|| path_folders().find(complete))
}

fn path_folders() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

pub(crate) fn find_in_path(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    path_folders().map(|folder| folder.join(program.as_ref())).find(|file| file.is_file())
}

/// Ends and removes what an xtask left that could not clean up itself.
fn remove_leftovers() {
    for entry in fs::read_dir(parent()).into_iter().flatten().flatten() {
        let (name, folder) = (entry.file_name(), entry.path());
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX)) && abandoned(&folder) {
            println!("Removing {}, which an earlier run left.", folder.display());
            end_server(&folder);
            fs::remove_dir_all(&folder).ok();
        }
    }
}

/// Ours, and its xtask is gone.
fn abandoned(folder: &Path) -> bool {
    let ours = || Some(fs::symlink_metadata(folder).ok()?.uid() == user().ok()?.uid);
    let owner = || fs::read_to_string(folder.join(OWNER)).ok()?.trim().parse::<u32>().ok();
    let gone = |id| run::pid(id).is_some_and(|pid| test_kill_process(pid).is_err());
    ours() == Some(true) && owner().is_some_and(gone)
}

/// Ends the server of a folder, if the process that its pid file names really is that server.
fn end_server(folder: &Path) {
    let id = || fs::read_to_string(folder.join("data/postmaster.pid")).ok()?.lines().next()?.trim().parse::<u32>().ok();
    let Some(id) = id() else { return };
    let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    if String::from_utf8_lossy(&line).contains(&*folder.to_string_lossy()) {
        run::signal(id, Signal::INT);
        let started = run::now();
        while Path::new(&format!("/proc/{id}")).exists() && started.elapsed() < STOP_BOUND {
            run::pause();
        }
    }
}
