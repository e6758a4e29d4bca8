//! The chores of the workspace: `cargo xtask test`, `torture`, `clients`, `peers`, `lighthouse`, `lint`, `bench` and `new-provider`.

mod apt;
mod bench;
mod foreign;
mod lint;
mod new_provider;
mod postgres;
mod redis;
mod report;
mod run;
mod suites;
mod test;
mod tools;
mod workspace;

use std::{process::ExitCode, time::Duration};

use anyhow::bail;
use new_provider::Way;

const USAGE: &str = "usage: cargo xtask COMMAND

  test [--suite NAME]... [--list] [-- ARGS]   builds everything, then runs the suites; ARGS go to each test binary
  torture [--minutes N] [--seed S]            four replicas and everything that goes wrong, for so long (5)
  clients [-- ARGS]                           the sandboxes against client libraries from PyPI and npm
  peers [-- ARGS]                             the service against OAuth servers from npm and PyPI
  lighthouse                                  the main pages, measured with Lighthouse from npm
  lint                                        formatting, clippy, dependencies, Dockerfile, compose file
  bench [-- ARGS]                             builds for release and runs the benchmark
  new-provider NAME [--key]                   an adapter with sandbox and tests to begin with; --key: by API key, not OAuth

HOLDFAST_TEST_POSTGRES: URL of a PostgreSQL server where databases may be created. Without it, `test` and `bench`
start a server of their own in a temporary folder.
HOLDFAST_TEST_REDIS: URL of a Redis where keys may be made. Without it, `test` starts one of its own that keeps nothing.
HOLDFAST_TEST_CHROMIUM, HOLDFAST_TEST_CHROMEDRIVER: paths of the two, where they are not in PATH, for suites with a browser.";

enum Command {
    Test { wanted: Vec<String>, list: bool, passed_on: Vec<String> },
    Torture { minutes: u32, seed: u64 },
    Foreign { suite: &'static str, passed_on: Vec<String> },
    Lint,
    Bench { passed_on: Vec<String> },
    NewProvider { name: String, way: Way },
    Help,
}

fn main() -> ExitCode {
    let command = match parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("xtask: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = run::heed_signals().and_then(|()| match command {
        Command::Test { wanted, list, passed_on } => test::run(&wanted, list, &passed_on, &[], Duration::ZERO),
        Command::Torture { minutes, seed } => torture(minutes, seed),
        Command::Foreign { suite, passed_on } => test::run(&[suite.to_owned()], false, &passed_on, &[], Duration::ZERO),
        Command::Lint => lint::run(),
        Command::Bench { passed_on } => bench::run(&passed_on),
        Command::NewProvider { name, way } => new_provider::run(&name, way),
        Command::Help => {
            println!("{USAGE}");
            Ok(true)
        }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn torture(minutes: u32, seed: u64) -> anyhow::Result<bool> {
    let settings = [("HOLDFAST_TORTURE_MINUTES", minutes.to_string()), ("HOLDFAST_TORTURE_SEED", seed.to_string())];
    let more = Duration::from_mins(u64::from(minutes));
    test::run(&["torture".to_owned()], false, &["--nocapture".to_owned()], &settings, more)
}

fn parse(args: impl Iterator<Item = String>) -> anyhow::Result<Command> {
    let mut own: Vec<String> = args.collect();
    let passed_on = match own.iter().position(|arg| arg == "--") {
        Some(at) => own.split_off(at).split_off(1),
        None => Vec::new(),
    };
    let mut own = own.into_iter();
    let command = match own.next().as_deref() {
        Some("test") => {
            let (mut wanted, mut list) = (Vec::new(), false);
            while let Some(arg) = own.next() {
                match (arg.as_str(), arg.strip_prefix("--suite=")) {
                    ("--list", _) => list = true,
                    (_, Some(name)) => wanted.push(name.to_owned()),
                    ("--suite", _) => match own.next() {
                        Some(name) => wanted.push(name),
                        None => bail!("--suite wants a name"),
                    },
                    _ => bail!("test does not know {arg}"),
                }
            }
            return Ok(Command::Test { wanted, list, passed_on });
        }
        Some("torture") if passed_on.is_empty() => {
            let (mut minutes, mut seed) = (5, 1);
            while let Some(arg) = own.next() {
                let value = own.next().and_then(|value| value.parse::<u64>().ok());
                match (arg.as_str(), value) {
                    ("--minutes", Some(value)) => minutes = u32::try_from(value)?,
                    ("--seed", Some(value)) => seed = value,
                    ("--minutes" | "--seed", None) => bail!("{arg} wants a number"),
                    _ => bail!("torture does not know {arg}"),
                }
            }
            return Ok(Command::Torture { minutes, seed });
        }
        Some("clients") => Command::Foreign { suite: suites::CLIENTS, passed_on },
        Some("peers") => Command::Foreign { suite: suites::PEERS, passed_on },
        Some("lighthouse") => {
            let passed_on = [passed_on, vec!["--nocapture".to_owned()]].concat();
            Command::Foreign { suite: suites::LIGHTHOUSE, passed_on }
        }
        Some("lint") if passed_on.is_empty() => Command::Lint,
        Some("bench") => Command::Bench { passed_on },
        Some("new-provider") if passed_on.is_empty() => {
            let (mut name, mut way) = (None, Way::OAuth);
            for arg in own {
                match arg.as_str() {
                    "--key" => way = Way::Key,
                    _ if name.is_some() || arg.starts_with("--") => bail!("new-provider does not know {arg}"),
                    _ => name = Some(arg),
                }
            }
            let Some(name) = name else { bail!("new-provider wants a name, like help-scout") };
            return Ok(Command::NewProvider { name, way });
        }
        Some("help" | "--help" | "-h") => Command::Help,
        Some(other) => bail!("there is no command {other}, or it takes no arguments"),
        None => bail!("a command is needed"),
    };
    match own.next() {
        Some(arg) => bail!("unexpected: {arg}"),
        None => Ok(command),
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, Way, parse};

    fn parsed(line: &str) -> anyhow::Result<Command> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn suites_and_passed_on_arguments_are_told_apart() {
        let Ok(Command::Test { wanted, list, passed_on }) =
            parsed("test --suite unit --suite=store -- --nocapture refresh")
        else {
            panic!("it is a test command");
        };

        assert_eq!((wanted, list), (vec!["unit".to_owned(), "store".to_owned()], false));
        assert_eq!(passed_on, ["--nocapture", "refresh"]);
    }

    #[test]
    fn torture_has_a_length_and_a_seed() {
        let Ok(Command::Torture { minutes, seed }) = parsed("torture --seed 7 --minutes 60") else { panic!() };

        assert_eq!((minutes, seed), (60, 7));
    }

    #[test]
    fn a_new_provider_has_a_name_and_may_have_a_key() {
        for line in ["new-provider help-scout --key", "new-provider --key help-scout"] {
            let Ok(Command::NewProvider { name, way }) = parsed(line) else { panic!("{line}") };
            assert_eq!((name.as_str(), way), ("help-scout", Way::Key));
        }
        let Ok(Command::NewProvider { way, .. }) = parsed("new-provider front2") else { panic!() };
        assert_eq!(way, Way::OAuth);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "",
            "tests",
            "test --suite",
            "test unit",
            "torture 5",
            "torture --minutes x",
            "lint now",
            "clients zenpy",
            "peers django",
            "lighthouse home",
            "lint -- x",
            "bench x",
            "new-provider",
            "new-provider a b",
            "new-provider a --keys",
        ] {
            assert!(parsed(line).is_err(), "{line:?}");
        }
    }
}
