//! Waiting: for a condition, within a bound, with what was last seen in the words of the failure.

use std::{fmt::Debug, sync::LazyLock, time::Duration};

use holdfast_core::{ports::Clock, testkit::ManualClock};

/// Real time; nobody moves it.
static CLOCK: LazyLock<ManualClock> = LazyLock::new(ManualClock::new);

/// Between two looks.
const STEP: Duration = Duration::from_millis(20);

/// A stopwatch.
pub fn uptime() -> Duration {
    CLOCK.uptime()
}

/// Lets so much time pass: for callers that do as Retry-After tells them, never to wait for something.
pub async fn pause(time: Duration) {
    CLOCK.sleep(time).await;
}

/// Looks until it is so, for at most `bound`. `Err` is what was seen instead.
pub async fn until<T, S: Debug>(what: &str, bound: Duration, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let end = uptime() + bound;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => {
                assert!(uptime() < end, "waited {bound:?} in vain until {what}; last seen: {seen:?}");
                CLOCK.sleep(STEP).await;
            }
        }
    }
}
