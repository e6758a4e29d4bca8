//! Bounded polling, for what has no signal.

use std::{fmt::Debug, time::Duration};

/// Longer than anything takes on a busy machine.
const BOUND: Duration = Duration::from_secs(30);

/// Polls until `good` holds for what `look` sees, and answers that.
///
/// # Panics
/// After half a minute, with what was last seen.
pub async fn until<T: Debug>(what: &str, mut look: impl AsyncFnMut() -> T, good: impl Fn(&T) -> bool) -> T {
    let mut last = None;
    let polled = tokio::time::timeout(BOUND, async {
        let mut every = tokio::time::interval(Duration::from_millis(10));
        loop {
            every.tick().await;
            let seen = look().await;
            if good(&seen) {
                return seen;
            }
            last = Some(seen);
        }
    })
    .await;
    polled.unwrap_or_else(|_| panic!("waited {BOUND:?} in vain until {what}; last seen: {last:?}"))
}
