//! The sandbox's own time and chance: the one place that asks the machine for either.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

/// The machine's clock plus an offset that the control API moves forward.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    offset_ms: AtomicI64,
}

impl Clock {
    /// Milliseconds since the Unix epoch, as this sandbox sees them.
    #[expect(
        clippy::disallowed_methods,
        reason = "the home of the sandbox's time: it imitates another machine, which has its own"
    )]
    pub(crate) fn now_ms(&self) -> i64 {
        Utc::now().timestamp_millis() + self.offset_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX / 4);
        self.offset_ms.fetch_add(ms, Ordering::Relaxed);
    }

    pub(crate) fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_offset_ms(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }

    pub(crate) fn offset_secs(&self) -> i64 {
        self.offset_ms() / 1000
    }

    pub(crate) fn reset(&self) {
        self.set_offset_ms(0);
    }
}

/// Holds an answer back for `millis`, by the machine's clock whatever the offset is.
#[expect(clippy::disallowed_methods, reason = "a slow provider is what this crate has to imitate")]
pub(crate) async fn pause(millis: u64) {
    if millis > 0 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// Bytes that nobody can guess: tokens and codes are made of them.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N]
where
    rand::distr::StandardUniform: rand::distr::Distribution<[u8; N]>,
{
    rand::random()
}

/// A moment as headers write it (RFC 9110 section 5.6.7).
pub(crate) fn http_date(at_ms: i64) -> String {
    let at = DateTime::<Utc>::from_timestamp_millis(at_ms).unwrap_or_default();
    at.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A moment as Zendesk writes it: ISO 8601, UTC, whole seconds.
pub(crate) fn iso(at_ms: i64) -> String {
    DateTime::<Utc>::from_timestamp_millis(at_ms).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Secs, true)
}
