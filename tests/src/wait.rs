//! Waiting, for what has no signal: for a condition, within a bound, with what was last seen in the words of the failure.

use std::{fmt::Debug, sync::LazyLock, time::Duration};

use holdfast_core::{ports::Clock, testkit::ManualClock};

/// Real time; nobody moves it.
static CLOCK: LazyLock<ManualClock> = LazyLock::new(ManualClock::new);

/// Between two looks.
const STEP: Duration = Duration::from_millis(10);
/// Longer than anything takes on a busy machine.
const BOUND: Duration = Duration::from_secs(30);

/// A stopwatch.
pub fn uptime() -> Duration {
    CLOCK.uptime()
}

/// Lets so much time pass: for callers that do as Retry-After tells them, never to wait for something.
pub async fn pause(time: Duration) {
    CLOCK.sleep(time).await;
}

/// Looks until it is so, for at most `bound`. `Err` is what was seen instead.
///
/// # Panics
/// Past the bound, with what was last seen.
pub async fn within<T, S: Debug>(what: &str, bound: Duration, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let end = uptime() + bound;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(uptime() < end, "waited {bound:?} in vain until {what}; last seen: {seen:?}"),
        }
        CLOCK.sleep(STEP).await;
    }
}

/// Looks until `good` holds for what is seen, for at most half a minute, and answers that.
///
/// # Panics
/// After it, with what was last seen.
pub async fn until<T: Debug>(what: &str, mut look: impl AsyncFnMut() -> T, good: impl Fn(&T) -> bool) -> T {
    let look = async || {
        let seen = look().await;
        if good(&seen) { Ok(seen) } else { Err(seen) }
    };
    within(what, BOUND, look).await
}
