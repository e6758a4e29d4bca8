//! How long one call waits for a provider's rate limit.

use std::time::Duration;

/// A provider that says "at once" is still given a moment: else its refusals would be answered with a storm.
const LEAST: Duration = Duration::from_secs(1);
/// How long a call waits in all, before it answers "busy".
const LONGEST: Duration = Duration::from_secs(20);

/// What a call has waited for so far.
#[derive(Debug, Default)]
pub struct RateWait(Duration);

impl RateWait {
    /// How long to wait before the next attempt, where the provider said this; at least a second. `None`: longer, in all,
    /// than a call waits, 20 s.
    pub fn next(&mut self, told: Duration) -> Option<Duration> {
        let now = told.max(LEAST);
        if self.0.saturating_add(now) > LONGEST {
            return None;
        }
        self.0 += now;
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_as_told_and_no_longer_than_twenty_seconds_in_all() {
        let secs = Duration::from_secs;
        let mut wait = RateWait::default();
        assert_eq!(wait.next(Duration::ZERO), Some(secs(1)));
        assert_eq!(wait.next(secs(12)), Some(secs(12)));
        assert_eq!(wait.next(secs(8)), None);
        assert_eq!(wait.next(Duration::MAX), None);
        assert_eq!(wait.next(secs(7)), Some(secs(7)), "what was not waited for does not count");
        assert_eq!(wait.next(Duration::ZERO), None);
    }
}
