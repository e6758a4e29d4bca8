//! Debian's packages: root gets what is missing, others are told the command.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, bail};
use rustix::process::geteuid;

use crate::{postgres::find_in_path, run};

const BOUND: Duration = Duration::from_mins(15);

/// Something that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Its name, for people.
    pub(crate) what: &'static str,
    /// Where it is in.
    pub(crate) packages: Vec<&'static str>,
    /// What else helps than to install it; empty: nothing.
    pub(crate) or: String,
}

/// The command that installs these.
pub(crate) fn command(packages: &[&str]) -> String {
    format!("apt-get install --yes --no-install-recommends {}", packages.join(" "))
}

/// Whether we could install something.
pub(crate) fn possible() -> bool {
    geteuid().is_root() && find_in_path("apt-get").is_some()
}

/// Installs all of it. Only root can; for others the error says what to do.
pub(crate) fn install(missing: &[Missing]) -> anyhow::Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    if !possible() {
        let apt = find_in_path("apt-get").is_some();
        let each = missing.iter().map(|one| {
            let how = if apt { format!("sudo {}", command(&one.packages)) } else { "your package manager".to_owned() };
            let or = if one.or.is_empty() { String::new() } else { format!(", or {}", one.or) };
            format!("{} is missing: install it with {how}{or}.", one.what)
        });
        bail!("{} Then start again.", each.collect::<Vec<_>>().join(" "));
    }
    println!("Installing {}.", missing.iter().map(|one| one.what).collect::<Vec<_>>().join(" and "));
    let apt_get = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        run::must(&mut command, BOUND)
    };
    apt_get(&["update", "--quiet"])?;
    // Without this PostgreSQL's package makes and starts a cluster of its own.
    let defaults = Path::new("/etc/postgresql-common/createcluster.conf");
    if !defaults.exists() {
        fs::create_dir_all("/etc/postgresql-common").context("could not prepare the installation")?;
        fs::write(defaults, "create_main_cluster = false\n").context("could not prepare the installation")?;
    }
    let mut args =
        vec!["install", "--yes", "--no-install-recommends", "--quiet", "-o", "Dpkg::Options::=--force-confold"];
    args.extend(missing.iter().flat_map(|one| &one.packages));
    apt_get(&args)
}
