//! How far an exploration goes: actors, budgets of trouble, and the provider's ways.

use std::{fmt, time::Duration};

use holdfast_core::refresh::Settings;

/// The unit of time. Everything that lasts is a whole number of these.
pub const TICK: Duration = Duration::from_secs(10);
/// The most replicas that fit into a [`World`](crate::World).
pub const REPLICAS: usize = 3;
/// The most token sets that fit, the first one included.
pub const TOKEN_SETS: usize = 6;
/// How many ticks after its last sign of life a replica counts as alive.
pub const ALIVE: i8 = 1;

/// What a provider gives for a used refresh token that comes again inside its grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Replay {
    /// The successor that it gave before.
    TheSame,
    /// One more, and the one before lives on.
    OneMore,
    /// One more, and the one before is over.
    InPlaceOf,
}

/// The bounds of one exploration. Within them everything is tried: each step of each actor at each moment, and each
/// trouble at each step. Time, retries and the number of flights are not bounded.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// What it looks at.
    pub name: &'static str,
    /// Replicas.
    pub replicas: usize,
    /// Token sets that the provider issues, the first one included.
    pub token_sets: u8,
    /// Crashes; each replica may start again after one.
    pub crashes: u8,
    /// Processes that stand still for any time, signs of life and timers included.
    pub stalls: u8,
    /// Lines to the database that are cut for any time.
    pub cuts: u8,
    /// Statements whose answer is lost: executed, or executed late, or never.
    pub blind: u8,
    /// Answers of the token endpoint that are lost or come too late.
    pub lost: u8,
    /// Requests that reach the token endpoint after their sender has given them up.
    pub late: u8,
    /// Refusals that are none of a token: busy, unreachable, the OAuth app at fault.
    pub moods: u8,
    /// New grants by a person.
    pub grants: u8,
    /// Disconnects by a person.
    pub disconnects: u8,
    /// Tests by a person.
    pub tests: u8,
    /// Changes of extras.
    pub extras: u8,
    /// Tokens that live and are rejected by an API.
    pub rejections: u8,
    /// Revocations of the grant at the provider.
    pub revocations: u8,
    /// Verdicts that are held, or taken back, because the provider refuses many.
    pub incidents: u8,
    /// Ticks for which a used refresh token may come again; 0: none.
    pub grace: i8,
    /// What it brings then.
    pub replay: Replay,
    /// Whether a used refresh token that comes after all costs the whole family.
    pub family: bool,
    /// Life of an access token in ticks; `None`: only the first one is over.
    pub life: Option<i8>,
    /// How many ticks each replica's wall clock is ahead.
    pub skew: [i8; REPLICAS],
    /// Durations, in whole ticks but for the slack.
    pub settings: Settings,
}

impl Bounds {
    /// Two replicas, a strict provider, no trouble.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            replicas: 2,
            token_sets: 3,
            crashes: 0,
            stalls: 0,
            cuts: 0,
            blind: 0,
            lost: 0,
            late: 0,
            moods: 0,
            grants: 0,
            disconnects: 0,
            tests: 0,
            extras: 0,
            rejections: 0,
            revocations: 0,
            incidents: 0,
            grace: 0,
            replay: Replay::OneMore,
            family: true,
            life: None,
            skew: [0; REPLICAS],
            settings: Settings {
                lease: 2 * TICK,
                exchange_timeout: TICK,
                lease_slack: TICK / 5,
                wait_bound: 2 * TICK,
                orphan_wait: TICK,
                ..Settings::default()
            },
        }
    }

    pub(crate) fn lease(&self) -> i8 {
        ticks(self.settings.lease)
    }

    pub(crate) fn wait_bound(&self) -> i8 {
        ticks(self.settings.wait_bound)
    }

    pub(crate) fn orphan_wait(&self) -> i8 {
        ticks(self.settings.orphan_wait)
    }

    pub(crate) fn grace_time(&self) -> Duration {
        time(self.grace)
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replicas, {} token sets", self.replicas, self.token_sets)?;
        let budgets = [
            (self.crashes, "crashes"),
            (self.stalls, "stalls"),
            (self.cuts, "cut lines"),
            (self.blind, "unanswered statements"),
            (self.lost, "lost answers"),
            (self.late, "late requests"),
            (self.moods, "other refusals"),
            (self.grants, "reconnects"),
            (self.disconnects, "disconnects"),
            (self.tests, "tests"),
            (self.extras, "changes of extras"),
            (self.rejections, "rejected tokens"),
            (self.revocations, "revocations"),
            (self.incidents, "verdicts held or taken back"),
        ];
        for (budget, what) in budgets.iter().filter(|(budget, _)| *budget > 0) {
            write!(f, ", {what} {budget}")?;
        }
        if let Some(life) = self.life {
            write!(f, ", life {life}")?;
        }
        if self.skew != [0; REPLICAS] {
            write!(f, ", clocks {:?}", &self.skew[..self.replicas])?;
        }
        match (self.grace, self.replay) {
            (0, _) => write!(f, ", no grace")?,
            (grace, Replay::TheSame) => write!(f, ", grace {grace}, same successor")?,
            (grace, Replay::OneMore) => write!(f, ", grace {grace}, one more successor")?,
            (grace, Replay::InPlaceOf) => write!(f, ", grace {grace}, replaces the successor")?,
        }
        f.write_str(if self.family { ", family revocation" } else { "" })
    }
}

/// A whole number of ticks.
pub(crate) fn time(ticks: i8) -> Duration {
    TICK * u32::from(ticks.max(0).unsigned_abs())
}

/// The ticks until a moment is surely over.
pub fn ticks(duration: Duration) -> i8 {
    i8::try_from(duration.as_millis().div_ceil(TICK.as_millis())).unwrap_or(i8::MAX)
}
