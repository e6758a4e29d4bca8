//! `holdfast demo` as a process, and what it says for people.

use std::{path::Path, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::command::binary;

/// A demo that takes longer to begin or to end hangs.
const BOUND: Duration = Duration::from_mins(1);

/// A running demo. It is killed when it is dropped.
pub struct Demo {
    process: Child,
    /// What it said when it began.
    pub said: String,
    /// The address that fills in the sign-in form.
    pub open: String,
    /// `http://127.0.0.1:PORT`.
    pub base: String,
    /// Address and password.
    pub sign_in: (String, String),
    /// The sandbox's control page.
    pub control: String,
}

impl Demo {
    /// Starts one in this folder, on a free port or the one of before, and waits until it has said what it is.
    ///
    /// # Panics
    /// When it ends instead.
    pub async fn start(folder: &Path, more: &[&str]) -> Self {
        let mut process = command(folder, more).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let mut said = String::new();
        let reading = async {
            while !said.contains("Press Ctrl-C") {
                let line = lines.next_line().await.expect("it speaks UTF-8");
                said.push_str(&line.unwrap_or_else(|| panic!("the demo has ended: {said}")));
                said.push('\n');
            }
        };
        timeout(BOUND, reading).await.expect("the demo begins");
        let after = |mark: &str| {
            let line = said.lines().find_map(|line| line.trim_start().strip_prefix(mark));
            line.unwrap_or_else(|| panic!("no {mark} in {said}")).trim().to_owned()
        };
        let open = after("Open");
        let (email, password) = after("Sign in").split_once("   ").map_or_else(
            || panic!("no password in {said}"),
            |(email, password)| (email.to_owned(), password.to_owned()),
        );
        let base = open.split_once("/demo/").expect("the address is the demo's").0.to_owned();
        Self { process, open, base, sign_in: (email, password), control: after("Sandbox"), said }
    }

    /// Runs one that ends by itself; answers exit code and what it said on stderr.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn refused(folder: &Path, more: &[&str]) -> (Option<i32>, String) {
        let output = timeout(BOUND, command(folder, more).output()).await.expect("it ends").expect("the binary starts");
        (output.status.code(), String::from_utf8(output.stderr).expect("it speaks UTF-8"))
    }

    /// SIGKILL: it has no chance to put anything in order.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub async fn kill(mut self) {
        self.process.kill().await.expect("it is ours");
    }

    /// SIGTERM, as good as Ctrl-C; answers the exit code.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn end(mut self) -> Option<i32> {
        let pid = self.process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).expect("it runs");
        kill_process(pid, Signal::TERM).expect("it is ours");
        let ended = timeout(BOUND, self.process.wait()).await.expect("it ends").expect("it can be waited for");
        ended.code()
    }

    /// What the story in docs/DEMO.md calls `H`, `Z` and the API key.
    ///
    /// # Panics
    /// When the folder has no names for it.
    pub async fn names(folder: &Path) -> [String; 3] {
        let mut text = String::new();
        let mut file = tokio::fs::File::open(folder.join("demo.env")).await.expect("the folder has names");
        file.read_to_string(&mut text).await.expect("they are text");
        ["H=", "Z=", "A='Authorization: Bearer "].map(|mark| {
            let line = text.lines().find_map(|line| line.strip_prefix(mark));
            line.unwrap_or_else(|| panic!("no {mark} in {text}")).trim_end_matches('\'').to_owned()
        })
    }
}

fn command(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(["demo", "--no-browser", "--dir"]).arg(folder);
    if !more.contains(&"--port") {
        command.args(["--port", "0"]);
    }
    command.args(more).kill_on_drop(true);
    command
}
