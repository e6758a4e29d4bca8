//! A day that is ahead whenever the tests run.

use std::sync::LazyLock;

use chrono::Datelike as _;
use holdfast_core::{ports::Clock as _, testkit::ManualClock};

static YEAR: LazyLock<i32> = LazyLock::new(|| ManualClock::new().now().year() + 3);

/// The deadline of a migration: `2030-04-01`.
pub fn deadline() -> String {
    format!("{}-04-01", *YEAR)
}

/// The same as people read it: `1 April 2030`.
pub fn deadline_in_words() -> String {
    format!("1 April {}", *YEAR)
}
