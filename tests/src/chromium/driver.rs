//! The one chromedriver of a test program, on a free port, and the end of everything that it starts.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use tokio::sync::OnceCell;

/// Paths, where they are not in PATH.
const CHROMEDRIVER: &str = "HOLDFAST_TEST_CHROMEDRIVER";
const CHROMIUM: &str = "HOLDFAST_TEST_CHROMIUM";

/// Waits for the end of its input, which is the end of this program, however it ends. Then it ends chromedriver, which
/// leads a process group, with all its browsers, and removes their folder.
const GUARD: &str = r#"read -r _; kill -KILL -"$1"; for _ in 1 2 3; do rm -rf "$2" && exit; sleep 1; done"#;

struct Driver {
    url: String,
    _chromedriver: Child,
    /// Holds the guard's input open.
    _guard: Child,
}

static DRIVER: OnceCell<Driver> = OnceCell::const_new();

/// Where chromedriver listens; it is started by the first who asks.
pub(super) async fn url() -> &'static str {
    let started = DRIVER.get_or_init(async || {
        let started = tokio::task::spawn_blocking(start).await;
        started.expect("chromedriver can be started")
    });
    &started.await.url
}

/// The browser, where the environment names one; else chromedriver finds it.
pub(super) fn browser() -> Option<String> {
    given(CHROMIUM)
}

fn given(variable: &str) -> Option<String> {
    std::env::var_os(variable).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty())
}

fn start() -> Driver {
    let folder = tempfile::Builder::new().prefix("holdfast-chromium-").tempdir().expect("there is room for a folder");
    let folder = folder.keep();
    let program = given(CHROMEDRIVER).unwrap_or_else(|| "chromedriver".to_owned());
    let mut chromedriver = Command::new(&program);
    // Profiles are made in TMPDIR; the rest would go to the user's own folders.
    for variable in ["TMPDIR", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
        chromedriver.env(variable, &folder);
    }
    chromedriver.arg("--port=0").process_group(0);
    let started = chromedriver.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut chromedriver = started.unwrap_or_else(|error| {
        panic!("{program} cannot be started ({error}); `cargo xtask test --suite browser` says what it needs")
    });
    let guard = guard(chromedriver.id(), &folder);
    let mut said = BufReader::new(chromedriver.stdout.take().expect("it was asked for")).lines();
    let port = said.by_ref().map_while(Result::ok).find_map(|line| port(&line));
    let port = port.expect("chromedriver says where it listens");
    // What else it says is of no use, but it must not have to wait to say it.
    std::thread::spawn(move || said.for_each(drop));
    Driver { url: format!("http://127.0.0.1:{port}"), _chromedriver: chromedriver, _guard: guard }
}

fn guard(group: u32, folder: &Path) -> Child {
    let mut guard = Command::new("sh");
    guard.args(["-c", GUARD, "guard", &group.to_string()]).arg(folder).process_group(0);
    guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    guard.spawn().expect("a shell can be started")
}

fn port(line: &str) -> Option<u16> {
    line.split_once("started successfully on port ")?.1.trim_end_matches('.').parse().ok()
}
