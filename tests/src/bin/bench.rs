//! The benchmark that `cargo xtask bench` builds and runs: see `docs/BENCHMARKS.md`.

#[path = "../bench/mod.rs"]
mod bench;

use std::process::ExitCode;

fn main() -> ExitCode {
    match bench::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
