//! Programs that tests start themselves: a browser with its driver, a mail server.

use std::{
    fmt,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    apt::{self, Missing},
    postgres::find_in_path,
};

/// Paths of the two, where they are not in PATH; tests read them.
const CHROMEDRIVER: &str = "HOLDFAST_TEST_CHROMEDRIVER";
const CHROMIUM: &str = "HOLDFAST_TEST_CHROMIUM";
/// What chromedriver looks for by itself.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// One file of each package with letters for the screenshots: almost all scripts, and those of East Asia.
const FONTS: [(&str, &str); 2] = [
    ("fonts-noto-core", "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf"),
    ("fonts-wqy-microhei", "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc"),
];
/// Debian's Python: its packages are not those of another one in PATH.
const PYTHON: &str = "/usr/bin/python3";

/// What a suite may need beside cargo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// A PostgreSQL server: `postgres.rs`.
    Postgres,
    /// A Redis: `redis.rs`.
    Redis,
    /// Chromium, chromedriver and fonts.
    Browser,
    /// aiosmtpd, for Debian's Python.
    MailServer,
}

/// A need that is no server of ours, looked for on this machine.
#[derive(Debug)]
pub(crate) struct Tool {
    what: &'static str,
    missing: Option<Missing>,
}

impl Tool {
    /// `None`: it is not for this module.
    pub(crate) fn look_for(need: Need) -> Option<Self> {
        match need {
            Need::Postgres | Need::Redis => None,
            Need::Browser => Some(browser()),
            Need::MailServer => Some(mail_server()),
        }
    }

    /// What has to be installed.
    pub(crate) fn missing(&self) -> Option<&Missing> {
        self.missing.as_ref()
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.missing {
            None => write!(f, "{}", self.what),
            Some(missing) => {
                write!(f, "{}, and installs what is missing with `{}`", self.what, { apt::command(&missing.packages) })
            }
        }
    }
}

fn browser() -> Tool {
    let given = |variable: &str| std::env::var_os(variable).is_some_and(|path| Path::new(&path).is_file());
    let mut packages = Vec::new();
    if !given(CHROMIUM) && !BROWSERS.iter().any(|name| find_in_path(name).is_some()) {
        packages.push("chromium");
    }
    if !given(CHROMEDRIVER) && find_in_path("chromedriver").is_none() {
        packages.push("chromium-driver");
    }
    // Only where they can come along: without them the tests pass as well, and screenshots show boxes for some letters.
    if !packages.is_empty() || apt::possible() {
        packages.extend(FONTS.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(package, _)| package));
    }
    let or = format!("name the programs in {CHROMIUM} and {CHROMEDRIVER}");
    let what = "Chromium with chromedriver";
    Tool { what, missing: (!packages.is_empty()).then_some(Missing { what: "Chromium for tests", packages, or }) }
}

fn mail_server() -> Tool {
    let mut import = Command::new(PYTHON);
    import.args(["-c", "import aiosmtpd.controller"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let there = import.status().is_ok_and(|status| status.success());
    let what = "aiosmtpd, a mail server";
    let missing = Missing { what: "aiosmtpd", packages: vec!["python3-aiosmtpd"], or: String::new() };
    Tool { what, missing: (!there).then_some(missing) }
}
