//! Four real processes on one PostgreSQL, hundreds of connectors with short lives on the strict sandbox, callers all over,
//! and a driver that kills, stalls, cuts and drops. Afterwards the sandbox's ledger is held against the database.
//!
//! `HOLDFAST_TORTURE_MINUTES` and `HOLDFAST_TORTURE_SEED` say how long and which; `cargo xtask torture` sets them.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

mod audit;
mod callers;
mod chaos;
mod stage;

use std::{io::Write as _, time::Duration};

use futures::future::join_all;
use holdfast_tests::wait::{pause, uptime};
use tokio_util::sync::CancellationToken;

use crate::stage::Stage;

/// Callers at the same time.
const CALLERS: u64 = 24;

#[expect(clippy::disallowed_methods, reason = "the settings of this test")]
fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}, which is no number")))
}

/// Past the capture of the test's output: the figures are what one looks for in the log of a run that passed.
fn say(words: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout();
    writeln!(out, "{words}").unwrap();
}

/// Numbers that follow from a seed, so that a run can be repeated as far as timing allows.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// xorshift64*.
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Below `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll()).unwrap() % end
    }

    /// Between two times.
    fn time(&mut self, least_ms: u64, most_ms: u64) -> Duration {
        Duration::from_millis(least_ms + self.roll() % (most_ms - least_ms))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credential_is_lost_and_none_is_failed_for_nothing() {
    let minutes: f64 = setting("HOLDFAST_TORTURE_MINUTES").unwrap_or(2.0);
    let seed: u64 = setting("HOLDFAST_TORTURE_SEED").unwrap_or(1);
    say(format_args!("seed {seed}, {minutes} minutes"));
    let stage = Stage::set().await;
    let (over, began) = (CancellationToken::new(), uptime());
    let callers = join_all((0..CALLERS).map(|caller| callers::call(&stage, seed ^ caller, over.clone())));
    let end = async {
        pause(Duration::from_secs_f64(minutes * 60.0)).await;
        over.cancel();
    };
    let (met, (), ()) = tokio::join!(callers, chaos::drive(&stage, seed, over.clone()), end);
    let calls = met.into_iter().fold(callers::Calls::default(), callers::Calls::and);
    say(format_args!("{:.0} s of trouble; {calls}", (uptime() - began).as_secs_f64()));

    stage.settle().await;
    let found = audit::audit(&stage).await;
    say(format_args!("{found}"));
    let violations: Vec<_> = calls.wrong.into_iter().chain(found.violations).collect();
    assert!(violations.is_empty(), "seed {seed}:\n{}", violations.join("\n"));
    assert!(found.exchanges > 100, "this proved nothing: {} exchanges", found.exchanges);
}
