//! Clocks that tests hold in their hands, and randomness that repeats.

use std::{
    sync::{Mutex, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use tokio::sync::watch;

use crate::ports::{Clock, Random};

fn start() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 11, 29, 10, 0, 0).single().expect("the moment exists")
}

/// Follows tokio's paused time: `#[tokio::test(start_paused = true)]` moves it as soon as nothing else can happen.
pub struct PausedClock(tokio::time::Instant);

impl PausedClock {
    /// Starts at 2026-11-29 10:00 UTC.
    #[expect(clippy::disallowed_methods, reason = "this is the home of test time")]
    pub fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Default for PausedClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for PausedClock {
    fn now(&self) -> DateTime<Utc> {
        start() + TimeDelta::from_std(self.uptime()).expect("tests are short")
    }

    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the home of test time")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Real time with an offset that a test moves: for tests with real sockets and databases.
pub struct ManualClock {
    real: std::time::Instant,
    offset: RwLock<Duration>,
    moved: watch::Sender<()>,
}

impl ManualClock {
    /// Starts at the real now.
    #[expect(clippy::disallowed_methods, reason = "this is the home of test time")]
    pub fn new() -> Self {
        Self { real: std::time::Instant::now(), offset: RwLock::default(), moved: watch::Sender::new(()) }
    }

    /// Moves time forward; whoever sleeps until then wakes.
    pub fn advance(&self, by: Duration) {
        *self.offset.write().expect("no panic happens while it is held") += by;
        self.moved.send_replace(());
    }

    /// Moves time on, a second at a time, with a moment of real time before each for what waits on sockets meanwhile.
    #[expect(clippy::disallowed_methods, reason = "this is the home of test time")]
    pub async fn pass(&self, seconds: u32) {
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_millis(30)).await;
            self.advance(Duration::from_secs(1));
        }
    }

    fn offset(&self) -> Duration {
        *self.offset.read().expect("no panic happens while it is held")
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for ManualClock {
    #[expect(clippy::disallowed_methods, reason = "this is the home of test time")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + TimeDelta::from_std(self.offset()).expect("tests are short")
    }

    fn uptime(&self) -> Duration {
        self.real.elapsed() + self.offset()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the home of test time")]
    async fn sleep(&self, duration: Duration) {
        let until = self.uptime() + duration;
        let mut moved = self.moved.subscribe();
        loop {
            let left = until.saturating_sub(self.uptime());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                _ = moved.changed() => {}
            }
        }
    }
}

/// Repeats from its seed (SplitMix64).
pub struct SeededRandom(Mutex<u64>);

impl SeededRandom {
    /// From this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        let mut state = self.0.lock().expect("no panic happens while it is held");
        for chunk in buffer.chunks_mut(8) {
            *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = *state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^= mixed >> 31;
            chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
        }
    }
}
