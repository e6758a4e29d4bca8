//! A Redis for the tests: the one that the environment names, or our own for as long as we run. Tests that kill one start
//! their own, so the program has to be there either way.

use std::{
    fmt,
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    apt::{self, Missing},
    postgres::{find_in_path, password},
    run,
};

/// URL of a server where keys may be made; tests read it.
pub(crate) const VARIABLE: &str = "HOLDFAST_TEST_REDIS";
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const PACKAGE: &str = "redis-server";
const START_BOUND: Duration = Duration::from_secs(20);
const STOP_BOUND: Duration = Duration::from_secs(10);

/// Where the server will come from.
pub(crate) struct Plan {
    given: Option<String>,
    program: Option<PathBuf>,
}

/// A server that can be used until this is dropped.
pub(crate) enum Redis {
    Given(String),
    Own(Server),
}

pub(crate) struct Server {
    url: String,
    process: Child,
    _folder: TempDir,
}

impl Redis {
    pub(crate) fn plan() -> anyhow::Result<Plan> {
        let given = std::env::var_os(VARIABLE).filter(|url| !url.is_empty());
        let given = given.map(|url| url.into_string().ok().with_context(|| format!("{VARIABLE} is no text")));
        Ok(Plan { given: given.transpose()?, program: find() })
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
        f.write_str("Redis")?;
        if self.program.is_none() {
            write!(f, ", which is not installed; installs it with `{}`", apt::command(&[PACKAGE]))?;
        }
        match &self.given {
            // Not the URL: it may hold a password.
            Some(_) => write!(f, ", and uses the server that {VARIABLE} names, beside some that tests start"),
            None => f.write_str(", and starts a server of its own on a free port, which keeps nothing"),
        }
    }
}

impl Plan {
    /// What has to be installed.
    pub(crate) fn missing(&self) -> Option<Missing> {
        let missing = Missing { what: "Redis", packages: vec![PACKAGE], or: String::new() };
        self.program.is_none().then_some(missing)
    }

    pub(crate) fn start(self) -> anyhow::Result<Redis> {
        if let Some(url) = self.given {
            return Ok(Redis::Given(url));
        }
        let program = self.program.or_else(find).context("Redis is installed, but its redis-server is not found")?;
        // Between our choice of a free port and the server's bind somebody else may take it.
        let mut tries = 0;
        loop {
            tries += 1;
            match Server::start(&program) {
                Ok(server) => return Ok(Redis::Own(server)),
                Err(error) if tries < 3 && !run::stopped() => eprintln!("Redis did not start: {error:#}"),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Server {
    fn start(program: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("holdfast-redis-").tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let password = password()?;
        let mut command = match find_in_path("setpriv") {
            // Should we be killed, the server ends as well.
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "TERM"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--requirepass", &password]);
        command.args(["--save", "", "--appendonly", "no"]).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = run::spawn(&mut command)?;
        let url = format!("redis://:{password}@127.0.0.1:{port}/0");
        let mut server = Self { url, process, _folder: folder };
        let started = run::now();
        while !answers(port, &password) {
            if server.process.try_wait()?.is_some() || run::stopped() || started.elapsed() > START_BOUND {
                bail!("it does not answer on port {port}");
            }
            run::pause();
        }
        println!("Redis listens on 127.0.0.1:{port}.");
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        run::signal(self.process.id(), Signal::TERM);
        if !matches!(run::ended(&mut self.process, STOP_BOUND), Ok(Some(_))) {
            self.process.kill().ok();
            self.process.wait().ok();
        }
    }
}

fn answers(port: u16, password: &str) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(format!("AUTH {password}\r\nPING\r\n").as_bytes())?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    ask().is_ok_and(|answer| answer == *b"+OK\r\n+PONG\r\n")
}

fn find() -> Option<PathBuf> {
    PROGRAMS.iter().find_map(find_in_path)
}
