//! The binary `holdfast` as a process: a folder with its settings, commands that come and go, and a server.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, Sandbox};
use rustix::process::{Pid, Signal, kill_process};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::{database::Database, wait::until};

/// A command that takes longer hangs.
const BOUND: Duration = Duration::from_mins(1);

/// Where the binary is: Cargo puts it beside the folder of the test programs.
///
/// # Panics
/// When it is not there: a test of one package does not build the binary of another.
pub fn binary() -> PathBuf {
    let here = std::env::current_exe().expect("this program has a path");
    let folder = here.parent().and_then(Path::parent).expect("it lies in target/PROFILE/deps");
    let binary = folder.join("holdfast");
    assert!(
        binary.is_file(),
        "{} is missing; run `cargo build -p holdfast-app`, or `cargo xtask test`, which does",
        binary.display()
    );
    binary
}

/// An installation: settings, master key, database.
pub struct Installation {
    folder: PathBuf,
    vars: Vec<(String, String)>,
    /// Everything that any of its processes has said.
    said: Arc<Mutex<Vec<u8>>>,
}

/// What a command said and how it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit code; `None`: killed.
    pub code: Option<i32>,
    /// Data.
    pub out: String,
    /// Everything else.
    pub err: String,
}

impl Ended {
    /// The data as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(self.out.trim()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Itself, if it is done.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    pub fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// The one line on stderr of a command that failed and printed no data.
    ///
    /// # Panics
    /// When it is anything else.
    pub fn one_line(&self, code: i32) -> &str {
        assert_eq!((self.code, self.out.as_str()), (Some(code), ""), "{self:?}");
        let line = self.err.trim_end_matches('\n');
        assert!(!line.contains('\n') && line.starts_with("holdfast: "), "{self:?}");
        line
    }
}

impl Installation {
    /// Settings for this database and provider.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn new(db: &Database, sandbox: &Sandbox) -> Self {
        let folder = db.path("installation");
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        let this = Self { folder, vars: Vec::new(), said: Arc::default() };
        this.write("master.key", db.master_key.expose_secret());
        let settings = format!(
            "listen = \"127.0.0.1:0\"\nmaster_key_file = \"{}\"\n\
             [database]\nurl = \"{}\"\n\
             [refresh]\nconfirm_pause_secs = 0.05\n\
             [network]\nallow_private_hosts = [\"loopback\"]\n\
             [events]\nallow_private_hosts = [\"loopback\"]\n\
             [sync]\nenabled = false\n\
             [oauth_apps.zendesk]\nclient_id = \"{CLIENT_ID}\"\nclient_secret = \"{CLIENT_SECRET}\"\n\
             [providers.zendesk]\nbase_url_override = \"{}\"\n",
            this.folder.join("master.key").display(),
            db.url,
            sandbox.zendesk_override(),
        );
        this.write("holdfast.toml", &settings);
        this
    }

    /// The same one without an OAuth app in its settings.
    ///
    /// # Panics
    /// When they cannot be written.
    #[must_use]
    pub fn without_oauth_app(self) -> Self {
        let settings = std::fs::read_to_string(self.folder.join("holdfast.toml")).expect("they were written");
        let (before, rest) = settings.split_once("[oauth_apps.zendesk]").expect("there is one");
        let (_, after) = rest.split_once("[providers").expect("more follows");
        self.write("holdfast.toml", &format!("{before}[providers{after}"));
        self
    }

    /// One without settings, in an empty folder.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn empty(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("the folder can be made");
        Self { folder: folder.to_owned(), vars: Vec::new(), said: Arc::default() }
    }

    /// The same one with another environment variable.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut vars = self.vars.clone();
        vars.push((name.to_owned(), value.to_owned()));
        Self { folder: self.folder.clone(), vars, said: Arc::clone(&self.said) }
    }

    /// Writes a file beside its settings.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: &str) {
        self.write_bytes(name, content.as_bytes());
    }

    /// The same of what need not be text.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write_bytes(&self, name: &str, content: &[u8]) {
        std::fs::write(self.folder.join(name), content).expect("the file can be written");
    }

    /// Everything that any of its processes has said so far.
    ///
    /// # Panics
    /// Never.
    pub fn said(&self) -> Vec<u8> {
        self.said.lock().expect("no panic happens while it is held").clone()
    }

    /// Runs a command to its end.
    pub async fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, "").await
    }

    /// Runs a command with this on its stdin.
    ///
    /// # Panics
    /// When it hangs.
    pub async fn run_with(&self, args: &[&str], input: &str) -> Ended {
        let mut child = self.spawn(args);
        let mut stdin = child.stdin.take().expect("it is piped");
        // A command that does not read has ended meanwhile, or leaves it.
        let _unread = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = timeout(BOUND, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|_| panic!("holdfast {args:?} hangs")).expect("its output can be read");
        let mut said = self.said.lock().expect("no panic happens while it is held");
        said.extend_from_slice(&output.stdout);
        said.extend_from_slice(&output.stderr);
        drop(said);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it speaks UTF-8");
        Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Starts the service and waits until it listens.
    ///
    /// # Panics
    /// When it ends instead.
    pub async fn serve(&self) -> Server {
        let mut child = self.spawn(&["serve"]);
        let log = Arc::new(Mutex::new(String::new()));
        let readers = vec![
            self.listen_to(child.stdout.take().expect("it is piped"), &log),
            self.listen_to(child.stderr.take().expect("it is piped"), &log),
        ];
        let mut server = Server { child, log, base: String::new(), readers };
        let found = until(
            "the service listens",
            async || (address(&server.log()), server.child.try_wait().expect("it can be asked")),
            |(address, ended)| address.is_some() || ended.is_some(),
        );
        match found.await {
            (Some(address), _) => server.base = address,
            (None, ended) => panic!("the service has ended: {ended:?}\n{}", server.log()),
        }
        server
    }

    /// Starts a command, for who talks to it while it runs.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = Command::new(binary());
        command.args(args).current_dir(&self.folder).env_clear().kill_on_drop(true);
        command.envs(self.vars.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary starts")
    }

    fn listen_to(&self, pipe: impl AsyncRead + Send + Unpin + 'static, log: &Arc<Mutex<String>>) -> JoinHandle<()> {
        let (log, said) = (Arc::clone(log), Arc::clone(&self.said));
        tokio::spawn(async move {
            let mut lines = BufReader::new(pipe).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut said = said.lock().expect("no panic happens while it is held");
                said.extend_from_slice(line.as_bytes());
                said.push(b'\n');
                let mut log = log.lock().expect("no panic happens while it is held");
                log.push_str(&line);
                log.push('\n');
            }
        })
    }
}

fn address(log: &str) -> Option<String> {
    let after = log.split_once("listening on ")?.1;
    after.split_once(',').map(|(address, _)| address.to_owned())
}

/// A running `holdfast serve`. It is killed when it is dropped.
pub struct Server {
    child: Child,
    log: Arc<Mutex<String>>,
    /// `http://127.0.0.1:PORT`.
    pub base: String,
    readers: Vec<JoinHandle<()>>,
}

impl Server {
    /// What it has said so far.
    ///
    /// # Panics
    /// Never.
    pub fn log(&self) -> String {
        self.log.lock().expect("no panic happens while it is held").clone()
    }

    /// SIGTERM, and how it ended.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn terminate(mut self) -> (ExitStatus, String) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).expect("it runs");
        kill_process(pid, Signal::TERM).expect("it is ours");
        let status = timeout(BOUND, self.child.wait()).await.expect("it ends").expect("it can be waited for");
        for reader in self.readers.drain(..) {
            reader.await.expect("reading does not panic");
        }
        (status, self.log())
    }
}
