//! What the scheduler may ask of one OAuth app: this replica's part of a limit that all replicas share. Pure.

use std::{collections::VecDeque, time::Duration};

use crate::ports::{DueRefresh, Place};

/// What an OAuth app may be asked by all replicas together. Callers do not wait for it: they go first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Refreshes under way.
    pub at_once: u32,
    /// Refreshes begun in a second; `None`: as many as come.
    pub per_second: Option<f64>,
}

/// A lane that woke late makes up for this much of its pace, so that timers do not slow it down.
const LATE_WAKE: Duration = Duration::from_millis(50);
/// The longest rest of a lane whose provider is busy: the busy credential itself waits as it was told.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// One OAuth app's share of this replica's work. Nobody else's backlog or slowness takes from it.
pub(super) struct Lane {
    allowance: Allowance,
    /// Claimed and not begun, with the uptime until which it may be.
    waiting: VecDeque<(DueRefresh, Duration)>,
    running: u32,
    /// Lower than the share since the provider said that it is busy.
    most: f64,
    /// By the uptime: nothing is begun before.
    next_start: Duration,
    /// There may be more to claim.
    pub(super) more: bool,
}

/// This replica's part of a limit; all parts together are the limit.
pub fn share(limit: u32, place: Place) -> u32 {
    limit / place.of + u32::from(place.rank < limit % place.of)
}

impl Lane {
    pub(super) fn new(allowance: Allowance) -> Self {
        Self {
            allowance,
            waiting: VecDeque::new(),
            running: 0,
            most: f64::INFINITY,
            next_start: Duration::ZERO,
            more: false,
        }
    }

    /// How many to claim now: none while what is claimed lasts for a while, so that a claim brings many.
    pub(super) fn wants(&self, place: Place) -> u32 {
        let at_once = self.at_once(place);
        let in_a_second = self.rate(place).map_or(u32::MAX, |rate| whole(rate.ceil()).max(1));
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let ahead = at_once.min(in_a_second);
        if waiting > ahead / 2 {
            return 0;
        }
        let free = at_once.saturating_sub(self.running).min(in_a_second);
        (free + ahead).saturating_sub(waiting)
    }

    /// Keeps what was claimed; `until` is the uptime after which it must not be begun any more.
    pub(super) fn keep(&mut self, claimed: Vec<DueRefresh>, until: Duration) {
        self.waiting.extend(claimed.into_iter().map(|due| (due, until)));
    }

    /// The next one to begin at this uptime, if one may be begun. What waited for too long is passed over: its claim is
    /// about to be anybody's.
    pub(super) fn begin(&mut self, place: Place, now: Duration) -> Option<DueRefresh> {
        while self.waiting.front().is_some_and(|(_, until)| *until <= now) {
            self.waiting.pop_front();
            self.more = true;
        }
        if self.running >= self.at_once(place) || self.next_start > now {
            return None;
        }
        let (due, _) = self.waiting.pop_front()?;
        self.running += 1;
        if let Some(rate) = self.rate(place) {
            let earliest = now.saturating_sub(LATE_WAKE);
            self.next_start = self.next_start.max(earliest) + Duration::from_secs_f64(1.0 / rate);
        }
        Some(due)
    }

    /// One is over.
    pub(super) fn ended(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// It brought a token: a lane that was slowed down takes one more after each round of them.
    pub(super) fn went_well(&mut self) {
        self.most += 1.0 / self.most;
    }

    /// The provider is busy: half as many from now on, and none for a moment. `unit` is even in `0.0..1.0`.
    pub(super) fn slow_down(&mut self, told: Duration, place: Place, now: Duration, unit: f64) {
        self.most = f64::from((self.at_once(place) / 2).max(1));
        let rest = told.min(LONGEST_REST).mul_f64(0.5 + unit / 2.0);
        self.next_start = self.next_start.max(now + rest);
    }

    /// The uptime at which something that waits may be begun; `None`: only the end of another one makes room.
    pub(super) fn next_start(&self, place: Place) -> Option<Duration> {
        (!self.waiting.is_empty() && self.running < self.at_once(place)).then_some(self.next_start)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }

    /// What was claimed and not begun.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = DueRefresh> + '_ {
        self.waiting.drain(..).map(|(due, _)| due)
    }

    fn at_once(&self, place: Place) -> u32 {
        share(self.allowance.at_once, place).min(whole(self.most))
    }

    fn rate(&self, place: Place) -> Option<f64> {
        self.allowance.per_second.map(|rate| rate / f64::from(place.of))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and infinity is cut to the most"
)]
fn whole(number: f64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    const ALONE: Place = Place { rank: 0, of: 1 };

    fn lane(at_once: u32, per_second: Option<f64>) -> Lane {
        Lane::new(Allowance { at_once, per_second })
    }

    fn due(count: usize) -> Vec<DueRefresh> {
        let due = |number: usize| DueRefresh {
            credential: format!("cred{number}").into(),
            connector: format!("con{number}").into(),
            due_at: DateTime::UNIX_EPOCH,
        };
        (0..count).map(due).collect()
    }

    fn begin_all(lane: &mut Lane, now: Duration) -> usize {
        std::iter::from_fn(|| lane.begin(ALONE, now)).count()
    }

    #[test]
    fn the_parts_of_a_limit_are_the_limit() {
        for limit in 0..20 {
            for of in 1..8 {
                let parts = (0..of).map(|rank| share(limit, Place { rank, of }));
                assert_eq!(parts.sum::<u32>(), limit, "{limit} over {of}");
            }
        }
    }

    #[test]
    fn a_lane_begins_as_many_as_it_may_and_claims_ahead() {
        let mut lane = lane(8, None);
        assert_eq!(lane.wants(ALONE), 16);
        lane.keep(due(16), Duration::from_mins(1));

        assert_eq!(begin_all(&mut lane, Duration::ZERO), 8);
        assert_eq!(lane.wants(ALONE), 0, "eight still wait");
        for _ in 0..4 {
            lane.ended();
        }
        assert_eq!(begin_all(&mut lane, Duration::ZERO), 4);
        assert_eq!(lane.wants(ALONE), 4);
        assert_eq!(lane.wants(Place { rank: 1, of: 4 }), 0, "its part has become two, and four wait");
    }

    #[test]
    fn a_rate_is_kept_whatever_waits() {
        let mut lane = lane(100, Some(10.0));
        assert_eq!(lane.wants(ALONE), 20);
        lane.keep(due(100), Duration::from_hours(1));

        let begun: usize = (1_u64..=100).map(|tick| begin_all(&mut lane, Duration::from_millis(tick * 50))).sum();

        assert!((50..=52).contains(&begun), "{begun} in five seconds");
    }

    #[test]
    fn what_waited_for_too_long_is_not_begun() {
        let mut lane = lane(8, None);
        lane.keep(due(3), Duration::from_secs(30));

        assert_eq!(begin_all(&mut lane, Duration::from_secs(30)), 0);
        assert!(lane.is_idle() && lane.more);
    }

    #[test]
    fn a_busy_provider_slows_its_lane_down_which_takes_one_more_with_each_round_that_goes_well() {
        let mut lane = lane(8, None);
        lane.keep(due(50), Duration::from_hours(1));
        assert_eq!(begin_all(&mut lane, Duration::ZERO), 8);

        lane.ended();
        lane.slow_down(Duration::from_secs(5), ALONE, Duration::ZERO, 0.5);
        for _ in 0..7 {
            lane.ended();
        }
        assert_eq!(begin_all(&mut lane, Duration::from_millis(700)), 0, "it rests");
        assert_eq!(begin_all(&mut lane, Duration::from_secs(1)), 4, "half of it");
        for round in 5..=8 {
            for _ in 0..round {
                lane.ended();
                lane.went_well();
            }
            assert_eq!(begin_all(&mut lane, Duration::from_secs(2)), round);
        }
    }
}
