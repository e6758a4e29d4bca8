//! Time.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound, Utc};
use holdfast_core::ports::Clock;

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    /// In microseconds, which is what PostgreSQL keeps: a moment that was stored compares equal to itself.
    #[expect(clippy::disallowed_methods, reason = "the one home of the wall clock")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }

    fn uptime(&self) -> Duration {
        uptime()
    }

    /// By tokio's timer, which stands still while the machine is suspended: whoever has a deadline looks at
    /// [`Clock::uptime`] again when this returns.
    #[expect(clippy::disallowed_methods, reason = "the one home of waiting by the clock")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// `CLOCK_BOOTTIME` runs through a suspend, `CLOCK_MONOTONIC` (and so `Instant`) does not: a replica that slept for an
/// hour must not believe that its lease still lasts.
#[cfg(target_os = "linux")]
fn uptime() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).expect("the time since boot is not negative")
}

/// Elsewhere there is no portable clock that runs through a suspend. The conditional write and the provider's own
/// verdict still protect the credential; what is lost is the check of the lease after a suspend.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "the one home of the steady clock")]
fn uptime() -> Duration {
    use std::{sync::LazyLock, time::Instant};

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_whole_microseconds() {
        assert_eq!(SystemClock.now().timestamp_subsec_nanos() % 1000, 0);
    }

    #[tokio::test]
    async fn the_uptime_grows_by_at_least_what_was_slept() {
        let before = SystemClock.uptime();

        SystemClock.sleep(Duration::from_millis(5)).await;

        assert!(SystemClock.uptime() >= before + Duration::from_millis(5));
    }
}
