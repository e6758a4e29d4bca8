//! What `cargo xtask new-provider` writes, tried out: both ways in a copy of the workspace, built there with the dependencies
//! that are built already, and their tests run.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::Context;
use serde_json::Value;

use super::{Name, Way, write};
use crate::{
    report::Ended,
    run,
    test::BUILD_BOUND,
    workspace::{Kind, Target, Workspace, cargo},
};

/// Names that no provider has, of unlike lengths: they move the lines that they stand in.
const WRITTEN: [(&str, Way); 2] = [("trial-customer-relations", Way::OAuth), ("trial-1", Way::Key)];
/// A dozen tests against a sandbox.
const BOUND: Duration = Duration::from_mins(5);
/// Not copied, wherever they lie.
const LEFT: [&str; 3] = [".git", "target", "node_modules"];

pub(crate) fn run(workspace: &Workspace, passed_on: &[String]) -> anyhow::Result<Ended> {
    let copy = workspace.target.join("new-provider");
    if copy.exists() {
        fs::remove_dir_all(&copy).with_context(|| format!("{} could not be removed", copy.display()))?;
    }
    copy_all(&workspace.root, &copy)?;
    for (name, way) in WRITTEN {
        write(&copy, &Name::read(name)?, way)?;
    }
    let mut command = cargo();
    // The whole workspace, so that dependencies are chosen with the features that they are built with. Programs are left
    // out: they would take the place of ours.
    command.args(["build", "--workspace", "--lib", "--test", "conformance"]);
    command.arg("--message-format=json-render-diagnostics").current_dir(&copy);
    command.env("CARGO_TARGET_DIR", &workspace.target).env("CARGO_INCREMENTAL", "0");
    let mut built = Vec::new();
    let status = run::lines(&mut command, BUILD_BOUND, |line| {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        let (Some(path), Some(manifest)) = (message["executable"].as_str(), message["manifest_path"].as_str()) else {
            return;
        };
        if Target::read(&message["target"]).kind == Kind::Test {
            built.push((path.to_owned(), manifest.to_owned()));
        }
    })?;
    if !status.success() {
        return Ok(Ended::Badly(format!("what it writes does not build: {}", copy.display())));
    }
    let mut failed = Vec::new();
    for (name, _) in WRITTEN {
        let folder = copy.join("crates").join(name);
        let own = built.iter().find(|(_, manifest)| *manifest == folder.join("Cargo.toml").to_string_lossy());
        let (binary, _) = own.with_context(|| format!("the tests of {name} were not built"))?;
        println!("-- {name}");
        let mut command = Command::new(binary);
        command.args(passed_on).current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder);
        if !run::run(&mut command, BOUND)?.success() {
            failed.push(name);
        }
    }
    Ok(if failed.is_empty() { Ended::Well } else { Ended::Badly(failed.join(", ")) })
}

fn copy_all(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{} could not be made", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("{} could not be read", from.display()))? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let (path, there) = (entry.path(), to.join(&name));
        if kind.is_dir() && !LEFT.iter().any(|left| name == *left) {
            copy_all(&path, &there)?;
        } else if kind.is_file() {
            fs::copy(&path, &there).with_context(|| format!("{} could not be copied", path.display()))?;
        }
    }
    Ok(())
}
