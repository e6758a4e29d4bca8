//! `cargo xtask clients`: the sandboxes against client libraries that nobody here wrote. They come from PyPI, so this is no
//! part of `cargo xtask test`, which gets along with Debian's packages.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::Context;

use crate::{run, suites::CLIENTS, test, workspace::Workspace};

/// Where the libraries are; the tests read it.
const VARIABLE: &str = "HOLDFAST_TEST_CLIENTS";
const INSTALL_BOUND: Duration = Duration::from_mins(10);

pub(crate) fn run(passed_on: &[String]) -> anyhow::Result<bool> {
    let workspace = Workspace::read()?;
    let folder = workspace.target.join("tools/clients");
    install(&workspace.root.join("tests/clients/requirements.txt"), &folder)?;
    let folder = folder.to_str().context("the path of the target folder is no text")?.to_owned();
    test::run(&[CLIENTS.to_owned()], false, passed_on, &[(VARIABLE, folder)], Duration::ZERO)
}

/// Once for each list of libraries.
fn install(list: &Path, folder: &Path) -> anyhow::Result<()> {
    let wanted = fs::read_to_string(list).with_context(|| format!("could not read {}", list.display()))?;
    let stamp = folder.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("Installs the client libraries of {} with pip, into {}.", list.display(), folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]);
    run::must(pip.arg("--target").arg(folder).arg("--requirement").arg(list), INSTALL_BOUND)?;
    fs::write(stamp, wanted)?;
    Ok(())
}
