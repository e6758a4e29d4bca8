//! A Redis for tests: a process that is killed and comes back empty.

use std::{net::SocketAddr, process::Stdio, time::Duration};

use holdfast_app::seams::OsRandom;
use holdfast_core::ports::Random as _;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::wait::within;

/// Debian's names for it.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const BOUND: Duration = Duration::from_secs(30);

/// A server that keeps nothing. It ends when it is dropped.
pub struct Redis {
    port: u16,
    password: String,
    folder: TempDir,
    child: Option<Child>,
}

/// The server that `cargo xtask test` starts for all, or that its caller names.
#[expect(clippy::disallowed_methods, reason = "the one setting of these tests")]
pub fn given() -> Option<String> {
    std::env::var("HOLDFAST_TEST_REDIS").ok().filter(|url| !url.is_empty())
}

/// Eight random bytes as hex digits, for names that nobody else has.
pub fn random_name() -> String {
    let mut random = [0; 8];
    OsRandom.fill(&mut random);
    format!("{:016x}", u64::from_le_bytes(random))
}

impl Redis {
    /// Starts one of its own on a free port, and waits until it answers.
    pub async fn start() -> Self {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let port = port.expect("a port is free").port();
        let mut redis = Self { port, password: random_name(), folder, child: None };
        redis.start_again().await;
        redis
    }

    /// As the setting `lock.redis_url`.
    pub fn url(&self) -> String {
        self.url_by(self.address())
    }

    /// The same by another address: a line.
    pub fn url_by(&self, address: SocketAddr) -> String {
        format!("redis://:{}@{address}/0", self.password)
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The password.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// SIGKILL. It kept nothing, and what connects from now on is refused.
    pub async fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().await.expect("it is our child");
    }

    /// Starts it where it was, empty.
    pub async fn start_again(&mut self) {
        let child = PROGRAMS.iter().find_map(|program| self.command(program).spawn().ok());
        self.child = Some(child.expect("redis-server is not installed; run `cargo xtask test`, which sees to it"));
        within("Redis answers", BOUND, async || self.ask(&["PING"]).await.map(drop)).await;
    }

    /// Forgets everything, as a failover to an empty one does.
    pub async fn forget(&self) {
        self.ask(&["FLUSHALL"]).await.expect("it answers");
    }

    /// How many keys there are.
    pub async fn keys(&self) -> i64 {
        let answer = self.ask(&["DBSIZE"]).await.expect("it answers");
        redis::from_redis_value(answer).expect("it is a number")
    }

    async fn ask(&self, words: &[&str]) -> Result<redis::Value, String> {
        let asked = async {
            let mut connection = redis::Client::open(self.url())?.get_multiplexed_async_connection().await?;
            let mut command = redis::Cmd::new();
            command.arg(words);
            command.query_async(&mut connection).await
        };
        asked.await.map_err(|error: redis::RedisError| error.to_string())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let port = self.port.to_string();
        command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"]);
        command.args(["--requirepass", &self.password]).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }
}
