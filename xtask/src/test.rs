//! `cargo xtask test`: builds everything in one go, then runs the test binaries suite by suite.
//!
//! One build for all of them: cargo would choose other features for `-p one-crate` and compile half of the
//! dependencies again. The binaries are cargo's own, run in their package's folder as `cargo test` runs them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use anyhow::{bail, ensure};
use serde_json::Value;

use crate::{
    apt, foreign, new_provider,
    postgres::{self, Keeps, Postgres},
    redis::{self, Redis},
    report::{Ended, Report},
    run,
    suites::{self, Suite},
    tools::{Need, Tool},
    workspace::{Package, Target, Workspace, cargo, text_of},
};

/// A cold build of everything takes some minutes on two cores.
pub(crate) const BUILD_BOUND: Duration = Duration::from_mins(40);
/// No test binary takes this long; one that does hangs.
const BINARY_BOUND: Duration = Duration::from_mins(25);

/// What runs for the tests, until this is dropped.
#[derive(Default)]
struct Servers {
    postgres: Option<Postgres>,
    redis: Option<Redis>,
}

struct Binary<'a> {
    package: &'a Package,
    target: Target,
    path: PathBuf,
}

/// `settings` are variables of the test binaries' environment; each of them may take `more` time than usual.
pub(crate) fn run(
    wanted: &[String],
    list: bool,
    passed_on: &[String],
    settings: &[(&str, String)],
    more: Duration,
) -> anyhow::Result<bool> {
    let workspace = Workspace::read()?;
    let suites = chosen(suites::all(&workspace), wanted)?;
    if list {
        for suite in &suites {
            println!("{:<14}{}", suite.name, suite.about);
        }
        return Ok(true);
    }
    let needs: BTreeSet<Need> = suites.iter().flat_map(|suite| suite.needs).copied().collect();
    let postgres = needs.contains(&Need::Postgres).then(Postgres::plan).transpose()?;
    let redis = needs.contains(&Need::Redis).then(Redis::plan).transpose()?;
    let tools: Vec<_> = needs.iter().copied().filter_map(Tool::look_for).collect();
    println!("Runs: {}.", suites.iter().map(|suite| suite.name.as_str()).collect::<Vec<_>>().join(", "));
    let servers = postgres.iter().map(ToString::to_string).chain(redis.iter().map(ToString::to_string));
    let said: Vec<_> = servers.chain(tools.iter().map(ToString::to_string)).collect();
    println!("Needs: {}.", if said.is_empty() { "nothing but cargo".to_owned() } else { said.join("; ") });
    let mut missing: Vec<_> = tools.iter().filter_map(Tool::missing).cloned().collect();
    missing.extend(postgres.iter().filter_map(postgres::Plan::missing));
    missing.extend(redis.iter().filter_map(redis::Plan::missing));
    apt::install(&missing)?;
    let mut settings: Vec<_> = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    for suite in suites.iter().filter(|suite| suites::FOREIGN.contains(&suite.name.as_str())) {
        settings.push(foreign::install(&workspace, &suite.name)?);
    }

    let mut report = Report::new("suite");
    let mut binaries = BTreeMap::<String, Vec<Binary<'_>>>::new();
    // That one builds what it needs, in a copy.
    let builds = suites.iter().any(|suite| suite.name != suites::NEW_PROVIDER);
    if builds && !report.step("build", || build(&workspace, &mut binaries)) {
        return Ok(report.close());
    }
    let mut servers = Servers::default();
    let started = postgres.is_none_or(|plan| {
        report.step("postgresql", || {
            servers.postgres = Some(plan.start(Keeps::WhileThePowerIsOn)?);
            Ok(Ended::Well)
        })
    });
    let started = started
        && redis.is_none_or(|plan| {
            report.step("redis", || {
                servers.redis = Some(plan.start()?);
                Ok(Ended::Well)
            })
        });
    if !started {
        return Ok(report.close());
    }
    for suite in &suites {
        if run::stopped() {
            break;
        }
        let binaries = binaries.get(&suite.name).map_or(&[][..], Vec::as_slice);
        if suite.name == suites::NEW_PROVIDER {
            report.step(&suite.name, || new_provider::trial::run(&workspace, passed_on));
            continue;
        }
        report.step(&suite.name, || execute(suite, binaries, &servers, passed_on, &settings, BINARY_BOUND + more));
    }
    drop(servers);
    let fine = report.close();
    ensure!(!run::stopped(), "interrupted");
    Ok(fine)
}

fn chosen(mut suites: Vec<Suite>, wanted: &[String]) -> anyhow::Result<Vec<Suite>> {
    for name in wanted {
        if !suites.iter().any(|suite| suite.name == *name) {
            let names: Vec<_> = suites.iter().map(|suite| suite.name.as_str()).collect();
            bail!("there is no suite {name}; there are: {}", names.join(", "));
        }
    }
    let foreign = |suite: &Suite| suites::FOREIGN.contains(&suite.name.as_str());
    suites.retain(|suite| if wanted.is_empty() { !foreign(suite) } else { wanted.contains(&suite.name) });
    Ok(suites)
}

/// Libraries, programs and tests; the programs too, since the service's tests start them.
fn build<'a>(workspace: &'a Workspace, binaries: &mut BTreeMap<String, Vec<Binary<'a>>>) -> anyhow::Result<Ended> {
    let mut command = cargo();
    command.args(["build", "--workspace", "--lib", "--bins", "--tests"]);
    command.arg("--message-format=json-render-diagnostics").current_dir(&workspace.root);
    let status = run::lines(&mut command, BUILD_BOUND, |line| {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        let Some(path) = message["executable"].as_str() else { return };
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return;
        }
        let id = text_of(&message["package_id"]);
        let Some(package) = workspace.packages.iter().find(|package| package.id == id) else { return };
        let target = Target::read(&message["target"]);
        if let Some(suite) = suites::suite_of(&package.name, &target) {
            binaries.entry(suite.name).or_default().push(Binary { package, target, path: path.into() });
        }
    })?;
    for of_suite in binaries.values_mut() {
        of_suite.sort_by(|a, b| (&a.package.name, &a.target.name).cmp(&(&b.package.name, &b.target.name)));
    }
    Ok(if status.success() { Ended::Well } else { Ended::Badly("the workspace does not build".to_owned()) })
}

fn execute(
    suite: &Suite,
    binaries: &[Binary<'_>],
    servers: &Servers,
    passed_on: &[String],
    settings: &[(String, String)],
    bound: Duration,
) -> anyhow::Result<Ended> {
    let mut failed = Vec::new();
    if suite.name == suites::DOC {
        let mut command = cargo();
        command.args(["test", "--workspace", "--doc"]);
        if !passed_on.is_empty() {
            command.arg("--").args(passed_on);
        }
        if !run::run(&mut command, BUILD_BOUND)?.success() {
            failed.push("examples".to_owned());
        }
    }
    for binary in binaries {
        let name = format!("{} {}", binary.package.name, binary.target.name);
        println!("-- {name}");
        let mut command = Command::new(&binary.path);
        command.args(passed_on).current_dir(&binary.package.folder);
        command.env("CARGO_MANIFEST_DIR", &binary.package.folder);
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        for (variable, url) in [
            (postgres::VARIABLE, servers.postgres.as_ref().map(Postgres::url)),
            (redis::VARIABLE, servers.redis.as_ref().map(Redis::url)),
        ] {
            match url {
                Some(url) => command.env(variable, url),
                None => command.env_remove(variable),
            };
        }
        match run::run(&mut command, bound) {
            Ok(status) if status.success() => {}
            Ok(status) => failed.push(format!("{name} ({status})")),
            Err(error) => failed.push(format!("{error:#}")),
        }
        if run::stopped() {
            break;
        }
    }
    Ok(if failed.is_empty() { Ended::Well } else { Ended::Badly(failed.join(", ")) })
}
