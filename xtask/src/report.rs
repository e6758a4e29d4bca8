//! The table at the end: what was done, how long it took, what came of it.

use std::time::Instant;

use crate::run;

pub(crate) struct Report {
    first_column: &'static str,
    rows: Vec<(String, f64, String)>,
    failed: bool,
}

impl Report {
    pub(crate) fn new(first_column: &'static str) -> Self {
        Self { first_column, rows: Vec::new(), failed: false }
    }

    /// Does one thing, says so before, and notes how it ended. A failure does not stop what follows.
    pub(crate) fn step(&mut self, name: &str, step: impl FnOnce() -> anyhow::Result<Ended>) -> bool {
        println!("\n== {name}");
        let started = run::now();
        let (result, fine) = match step() {
            Ok(Ended::Well) => ("ok".to_owned(), true),
            Ok(Ended::Skipped(why)) => (format!("skipped: {why}"), true),
            Ok(Ended::Badly(what)) => (format!("FAILED: {what}"), false),
            Err(error) => (format!("FAILED: {error:#}"), false),
        };
        if !fine {
            eprintln!("{name}: {result}");
        }
        self.failed |= !fine;
        self.rows.push((name.to_owned(), minutes(started), result));
        fine
    }

    /// Prints it. True: everything went well.
    pub(crate) fn close(self) -> bool {
        println!("\n{:<14}{:>7}  result", self.first_column, "minutes");
        for (name, minutes, result) in &self.rows {
            println!("{name:<14}{minutes:>7.1}  {result}");
        }
        let all: f64 = self.rows.iter().map(|(_, minutes, _)| minutes).sum();
        println!("{:<14}{all:>7.1}  {}", "all", if self.failed { "FAILED" } else { "ok" });
        !self.failed
    }
}

/// How a step ended.
pub(crate) enum Ended {
    Well,
    Badly(String),
    Skipped(String),
}

fn minutes(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() / 60.0
}
