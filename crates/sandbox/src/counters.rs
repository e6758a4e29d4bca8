//! What happened, in numbers.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Numbers of one helpdesk, or of all of them together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Refresh requests that reached the token endpoint, whatever it answered; not those dropped before it.
    pub exchanges: u64,
    /// Refreshes that replaced the pair, those with a lost answer included.
    pub rotations: u64,
    /// Spent refresh tokens that came back, outside any grace.
    pub reuses: u64,
    /// Spent refresh tokens that came back inside the grace and got the same pair again.
    pub replays: u64,
    /// Codes exchanged for tokens.
    pub code_exchanges: u64,
    /// Tokens deleted through the API, and grants revoked through the control API.
    pub revocations: u64,
    /// API requests, whatever they were answered.
    pub api_calls: u64,
    /// API requests answered 401.
    pub unauthorized: u64,
    /// API requests answered 429 by the rate limit.
    pub rate_limited: u64,
    /// Requests to the token endpoint whose connection was closed before any processing.
    pub dropped: u64,
    /// Tokens issued whose answer was cut off.
    pub answers_lost: u64,
    /// Bodies of API requests that broke off before their end.
    pub bodies_broken: u64,
    /// Downloads whose reader went away before their end.
    pub readers_gone: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.exchanges += other.exchanges;
        self.rotations += other.rotations;
        self.reuses += other.reuses;
        self.replays += other.replays;
        self.code_exchanges += other.code_exchanges;
        self.revocations += other.revocations;
        self.api_calls += other.api_calls;
        self.unauthorized += other.unauthorized;
        self.rate_limited += other.rate_limited;
        self.dropped += other.dropped;
        self.answers_lost += other.answers_lost;
        self.bodies_broken += other.bodies_broken;
        self.readers_gone += other.readers_gone;
    }
}

/// A number that many requests raise at once.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn by(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn new(n: u64) -> Self {
        Self(AtomicU64::new(n))
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many there are at the same time.
#[derive(Debug, Default)]
pub(crate) struct AtOnce {
    now: AtomicU64,
    most: AtomicU64,
}

impl AtOnce {
    /// One more, until the answer is dropped.
    pub(crate) fn enter(&self) -> impl Drop + '_ {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Inside(self)
    }

    pub(crate) fn most(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }
}

struct Inside<'a>(&'a AtOnce);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The live form of [`Counters`].
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) exchanges: Count,
    pub(crate) rotations: Count,
    pub(crate) reuses: Count,
    pub(crate) replays: Count,
    pub(crate) code_exchanges: Count,
    pub(crate) revocations: Count,
    pub(crate) api_calls: Count,
    pub(crate) unauthorized: Count,
    pub(crate) rate_limited: Count,
    pub(crate) dropped: Count,
    pub(crate) answers_lost: Count,
    pub(crate) bodies_broken: Count,
    pub(crate) readers_gone: Count,
}

impl From<Counters> for Counts {
    fn from(from: Counters) -> Self {
        Self {
            exchanges: Count::new(from.exchanges),
            rotations: Count::new(from.rotations),
            reuses: Count::new(from.reuses),
            replays: Count::new(from.replays),
            code_exchanges: Count::new(from.code_exchanges),
            revocations: Count::new(from.revocations),
            api_calls: Count::new(from.api_calls),
            unauthorized: Count::new(from.unauthorized),
            rate_limited: Count::new(from.rate_limited),
            dropped: Count::new(from.dropped),
            answers_lost: Count::new(from.answers_lost),
            bodies_broken: Count::new(from.bodies_broken),
            readers_gone: Count::new(from.readers_gone),
        }
    }
}

impl Counts {
    pub(crate) fn read(&self) -> Counters {
        Counters {
            exchanges: self.exchanges.get(),
            rotations: self.rotations.get(),
            reuses: self.reuses.get(),
            replays: self.replays.get(),
            code_exchanges: self.code_exchanges.get(),
            revocations: self.revocations.get(),
            api_calls: self.api_calls.get(),
            unauthorized: self.unauthorized.get(),
            rate_limited: self.rate_limited.get(),
            dropped: self.dropped.get(),
            answers_lost: self.answers_lost.get(),
            bodies_broken: self.bodies_broken.get(),
            readers_gone: self.readers_gone.get(),
        }
    }
}
