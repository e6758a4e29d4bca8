//! `cargo xtask bench`: the programs as they ship, and the benchmark that starts them.

use anyhow::{bail, ensure};

use crate::{
    apt,
    postgres::{self, Keeps, Postgres},
    run,
    test::BUILD_BOUND,
    workspace::{Kind, Workspace, cargo},
};

pub(crate) fn run(passed_on: &[String]) -> anyhow::Result<bool> {
    let workspace = Workspace::read()?;
    if !workspace.package("holdfast-tests").is_some_and(|package| package.has(Kind::Bin, "bench")) {
        bail!("there is no benchmark yet: the program `bench` of package holdfast-tests");
    }
    let plan = Postgres::plan()?;
    // Standard output is the benchmark's alone: it may be JSON.
    eprintln!("Builds for release, then runs the benchmark. Needs: {plan}.");
    apt::install(&Vec::from_iter(plan.missing()))?;

    // By themselves: together with the benchmark they would get its features too, and not be what ships.
    let mut programs = cargo();
    programs.args(["build", "--release", "-p", "holdfast-app", "-p", "holdfast-sandbox", "--bins"]);
    run::must(&mut programs, BUILD_BOUND)?;
    let mut bench = cargo();
    bench.args(["build", "--release", "-p", "holdfast-tests", "--bin", "bench", "--bin", "worker"]);
    run::must(&mut bench, BUILD_BOUND)?;

    let server = plan.start(Keeps::Always)?;
    let mut bench = std::process::Command::new(workspace.target.join("release/bench"));
    bench.args(passed_on).current_dir(&workspace.root).env(postgres::VARIABLE, server.url());
    let status = run::run(&mut bench, BUILD_BOUND)?;
    drop(server);
    ensure!(!run::stopped(), "interrupted");
    Ok(status.success())
}
