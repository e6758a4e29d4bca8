//! What people are told of an org's connectors, and when one of them wants to hear it: pure.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Timelike as _, Utc};
pub use chrono_tz::Tz as Zone;

use crate::calendar::{Calendar, Missed};

/// Days after a failure on which those who wait for it are told again.
pub const REMINDERS: [i64; 4] = [1, 3, 7, 14];

/// What a notice is about, as far as people choose by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// A connector has failed.
    Failures,
    /// It still waits, some days later.
    Reminders,
    /// It works again.
    Recoveries,
    /// Access that ends, or has to be renewed by a day.
    Ending,
    /// What is sent by itself, in or out, has stopped.
    Webhooks,
}

impl Topic {
    /// All of them, in the order of pages.
    pub const ALL: [Self; 5] = [Self::Failures, Self::Reminders, Self::Recoveries, Self::Ending, Self::Webhooks];

    /// The stable word in forms and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::Reminders => "reminders",
            Self::Recoveries => "recoveries",
            Self::Ending => "ending",
            Self::Webhooks => "webhooks",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.as_str() == word)
    }
}

/// How often somebody wants mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// When there is something to tell.
    AtOnce,
    /// Gathered, at full hours.
    Hourly,
    /// Gathered, once a day.
    Daily,
}

impl Pace {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AtOnce, Self::Hourly, Self::Daily];

    /// The stable word in forms and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AtOnce => "at_once",
            Self::Hourly => "hourly",
            Self::Daily => "daily",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pace| pace.as_str() == word)
    }
}

/// What one person wants to hear of one org, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habits {
    /// What they do not want to hear of.
    pub off: BTreeSet<Topic>,
    /// How often.
    pub pace: Pace,
    /// The hour of a daily mail, 0 to 23.
    pub hour: u32,
    /// Where that hour is, and those that are quiet.
    pub zone: Zone,
    /// From the first of these hours to the other nothing is sent; they differ, and may lie around midnight.
    pub quiet: Option<(u32, u32)>,
    /// Failures wait like everything else; otherwise they are told at once, whatever else stands here.
    pub failures_wait: bool,
}

impl Default for Habits {
    fn default() -> Self {
        let (off, pace, hour, zone) = (BTreeSet::new(), Pace::AtOnce, 9, Zone::UTC);
        Self { off, pace, hour, zone, quiet: None, failures_wait: false }
    }
}

impl Habits {
    /// Whether they want to hear of this at all.
    pub fn wants(&self, topic: Topic) -> bool {
        !self.off.contains(&topic)
    }

    /// When they are told of something that is known now.
    pub fn when(&self, topic: Topic, now: DateTime<Utc>) -> DateTime<Utc> {
        if topic == Topic::Failures && !self.failures_wait {
            return now;
        }
        let at = match self.pace {
            Pace::AtOnce => now,
            Pace::Hourly => self.next("*", now),
            Pace::Daily => self.next(&self.hour.to_string(), now),
        };
        match self.quiet {
            Some((_, to)) if self.is_quiet(at) => self.next(&to.to_string(), at),
            _ => at,
        }
    }

    fn is_quiet(&self, at: DateTime<Utc>) -> bool {
        let hour = at.with_timezone(&self.zone).hour();
        self.quiet.is_some_and(
            |(from, to)| {
                if from < to { (from..to).contains(&hour) } else { hour >= from || hour < to }
            },
        )
    }

    /// The next time that the clock on their wall shows this hour; `*`: any full one.
    fn next(&self, hour: &str, after: DateTime<Utc>) -> DateTime<Utc> {
        let calendar = Calendar::of(&format!("0 {hour} * * *"), self.zone.name(), Missed::RunOnce).ok();
        calendar.and_then(|calendar| calendar.next(after)).unwrap_or(after)
    }
}

/// How many days a failure has lasted by the reminder that is due now, and when the next one is. The first is `None` before
/// the first day is over; of several that are due at once, the last is given.
pub fn reminder(failed_at: DateTime<Utc>, now: DateTime<Utc>) -> (Option<i64>, Option<DateTime<Utc>>) {
    let at = |days: &i64| failed_at + TimeDelta::days(*days);
    let due = REMINDERS.iter().rev().find(|days| at(days) <= now).copied();
    (due, REMINDERS.iter().map(at).find(|at| *at > now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn berlin(pace: Pace, quiet: Option<(u32, u32)>) -> Habits {
        Habits { pace, quiet, zone: Zone::Europe__Berlin, ..Habits::default() }
    }

    #[test]
    fn words_read_back() {
        for topic in Topic::ALL {
            assert_eq!(Topic::parse(topic.as_str()), Some(topic));
        }
        for pace in Pace::ALL {
            assert_eq!(Pace::parse(pace.as_str()), Some(pace));
        }
        assert_eq!((Topic::parse(""), Pace::parse("weekly")), (None, None));
    }

    #[test]
    fn what_waits_is_told_when_they_want_to_hear_it() {
        // Berlin is an hour ahead in winter.
        for (pace, quiet, now, told) in [
            (Pace::AtOnce, None, "2026-11-30T23:10:00Z", "2026-11-30T23:10:00Z"),
            (Pace::AtOnce, Some((22, 7)), "2026-11-30T20:59:00Z", "2026-11-30T20:59:00Z"),
            (Pace::AtOnce, Some((22, 7)), "2026-11-30T21:00:00Z", "2026-12-01T06:00:00Z"),
            (Pace::AtOnce, Some((22, 7)), "2026-12-01T03:30:00Z", "2026-12-01T06:00:00Z"),
            (Pace::AtOnce, Some((22, 7)), "2026-12-01T06:00:00Z", "2026-12-01T06:00:00Z"),
            (Pace::AtOnce, Some((12, 13)), "2026-12-01T11:30:00Z", "2026-12-01T12:00:00Z"),
            (Pace::Hourly, None, "2026-11-30T10:10:00Z", "2026-11-30T11:00:00Z"),
            (Pace::Hourly, Some((22, 7)), "2026-11-30T20:10:00Z", "2026-12-01T06:00:00Z"),
            (Pace::Daily, None, "2026-11-30T07:59:00Z", "2026-11-30T08:00:00Z"),
            (Pace::Daily, None, "2026-11-30T08:00:01Z", "2026-12-01T08:00:00Z"),
            (Pace::Daily, Some((8, 10)), "2026-11-30T07:00:00Z", "2026-11-30T09:00:00Z"),
        ] {
            let habits = berlin(pace, quiet);
            assert_eq!(habits.when(Topic::Recoveries, at(now)), at(told), "{pace:?} {quiet:?} {now}");
            assert_eq!(habits.when(Topic::Failures, at(now)), at(now), "a failure does not wait");
            let all = Habits { failures_wait: true, ..habits };
            assert_eq!(all.when(Topic::Failures, at(now)), at(told), "unless they say so");
        }
    }

    #[test]
    fn reminders_grow_rarer_and_end() {
        let failed = at("2026-11-01T10:00:00Z");
        for (now, due, next) in [
            ("2026-11-01T11:00:00Z", None, Some("2026-11-02T10:00:00Z")),
            ("2026-11-02T10:00:00Z", Some(1), Some("2026-11-04T10:00:00Z")),
            ("2026-11-06T10:00:00Z", Some(3), Some("2026-11-08T10:00:00Z")),
            ("2026-11-15T10:00:00Z", Some(14), None),
            ("2027-11-15T10:00:00Z", Some(14), None),
        ] {
            assert_eq!(reminder(failed, at(now)), (due, next.map(at)), "{now}");
        }
    }
}
