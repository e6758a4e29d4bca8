//! Times of a calendar, as cron writes them, in a time zone: `0 9 * * MON-FRI` in `Europe/Berlin`.
//!
//! A clock that is put forward skips no day: what falls into the hour that is missing is due once, when that is over. A clock that is
//! put back makes nothing due twice.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};

/// Minutes by which a clock is put forward, at most: a zone that crosses the date line skips a day.
const MISSING_AT_MOST: i64 = 24 * 60;
/// Characters of a pattern.
const LONGEST: usize = 100;
/// What is later than this was missed: nobody looked when it was due.
pub const LATE: Duration = Duration::from_mins(5);

/// Such times, and what becomes of one that was missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    pattern: String,
    zone: Tz,
    missed: Missed,
}

/// What becomes of times at which nothing could run: the service was down, or the agent stopped or paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// They are made up for once, however many they were.
    RunOnce,
    /// They are over.
    Skip,
}

impl Missed {
    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunOnce => "run_once",
            Self::Skip => "skip",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::RunOnce, Self::Skip].into_iter().find(|missed| missed.as_str() == word)
    }
}

/// Why such times make no sense; for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCalendar {
    /// The pattern.
    #[error("{0}")]
    Pattern(String),
    /// The time zone.
    #[error("there is no time zone of this name; take one like Europe/Berlin, America/New_York or UTC")]
    Zone,
}

impl Calendar {
    /// Of a pattern with five fields (minute, hour, day, month, weekday), and a time zone by its IANA name.
    pub fn of(pattern: &str, zone: &str, missed: Missed) -> Result<Self, NoCalendar> {
        let pattern = pattern.trim();
        let zone: Tz = zone.trim().parse().map_err(|_| NoCalendar::Zone)?;
        if pattern.len() > LONGEST {
            return Err(NoCalendar::Pattern(format!("it is longer than {LONGEST} characters")));
        }
        let calendar = Self { pattern: pattern.to_owned(), zone, missed };
        let wrong = "write five fields: minute, hour, day of the month, month, weekday, as in 0 9 * * MON-FRI";
        let cron = calendar.cron().ok_or_else(|| NoCalendar::Pattern(wrong.to_owned()))?;
        let never = "there is no such day: it would never run";
        cron.find_next_occurrence(&DateTime::<Utc>::UNIX_EPOCH, false)
            .map_err(|_| NoCalendar::Pattern(never.to_owned()))?;
        Ok(calendar)
    }

    fn cron(&self) -> Option<Cron> {
        CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build().parse(&self.pattern).ok()
    }

    /// As it was written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The time zone's name.
    pub fn zone(&self) -> &'static str {
        self.zone.name()
    }

    /// What becomes of what was missed.
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// In English: `At 09:00, Monday through Friday, Europe/Berlin`.
    pub fn words(&self) -> String {
        let what = self.cron().map(|cron| cron.describe()).unwrap_or_default();
        format!("{}, {}", what.trim_end_matches('.'), self.zone.name())
    }

    /// The first of them after this moment; `None`: there is none for thousands of years.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let cron = self.cron()?;
        // The clock on the wall, as if it were never put forward or back.
        let mut wall = after.with_timezone(&self.zone).naive_local().and_utc();
        loop {
            wall = cron.find_next_occurrence(&wall, false).ok()?;
            // Of an hour that comes twice the first counts; one that is missing is over at its end.
            let next = (0..=MISSING_AT_MOST).find_map(|minutes| {
                let shown = wall.naive_utc() + TimeDelta::minutes(minutes);
                self.zone.from_local_datetime(&shown).earliest()
            })?;
            if next > after {
                return Some(next.with_timezone(&Utc));
            }
        }
    }

    /// Whether one that was due then is run at this moment.
    pub fn makes_up(&self, due: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        self.missed == Missed::RunOnce || now - due <= TimeDelta::from_std(LATE).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(pattern: &str, zone: &str, after: &str) -> String {
        let calendar = Calendar::of(pattern, zone, Missed::Skip).unwrap();
        calendar.next(after.parse().unwrap()).unwrap().to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
    }

    #[test]
    fn times_follow_the_clock_on_the_wall() {
        for (pattern, zone, after, expected) in [
            ("0 9 * * MON-FRI", "Europe/Berlin", "2026-11-27T08:00:00Z", "2026-11-30T08:00:00Z"),
            ("0 9 * * *", "Europe/Berlin", "2026-07-01T08:00:00Z", "2026-07-02T07:00:00Z"),
            ("*/15 * * * *", "UTC", "2026-11-30T10:07:30Z", "2026-11-30T10:15:00Z"),
            ("0 0 1 * *", "America/New_York", "2026-11-30T10:00:00Z", "2026-12-01T05:00:00Z"),
            ("0 12 29 2 *", "UTC", "2026-11-30T10:00:00Z", "2028-02-29T12:00:00Z"),
        ] {
            assert_eq!(next(pattern, zone, after), expected, "{pattern} in {zone}");
        }
    }

    /// Berlin's clocks go from 2:00 to 3:00 on 29 March 2026, and from 3:00 to 2:00 on 25 October.
    #[test]
    fn a_day_with_another_length_has_its_run_and_no_second_one() {
        let days = |pattern: &str, from: &str, to: &str| {
            let calendar = Calendar::of(pattern, "Europe/Berlin", Missed::Skip).unwrap();
            let (mut at, to): (DateTime<Utc>, DateTime<Utc>) = (from.parse().unwrap(), to.parse().unwrap());
            let mut days = Vec::new();
            while let Some(next) = calendar.next(at).filter(|next| *next < to) {
                days.push(next.with_timezone(&chrono_tz::Europe::Berlin).date_naive().to_string());
                at = next;
            }
            days
        };
        let (spring, autumn) =
            (["2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z"], ["2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z"]);
        for (pattern, [from, to], times) in [
            ("30 2 * * *", spring, 1),
            ("15,45 2 * * *", spring, 1),
            ("30 2 * * *", autumn, 1),
            ("15,45 2 * * *", autumn, 2),
            ("15 1-3 * * *", autumn, 3),
        ] {
            let days = days(pattern, from, to);
            let there = days.iter().filter(|day| **day == to[..10]).count();
            assert_eq!(there, times, "{pattern}: {days:?}");
        }
        assert_eq!(next("30 2 * * *", "Europe/Berlin", spring[0]), "2026-03-29T01:00:00Z", "three o'clock");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for pattern in ["", "0 9 * *", "0 9 * * * *", "61 * * * *", "often", "0 0 30 2 *", "@reboot", &"1,".repeat(60)]
        {
            let error = Calendar::of(pattern, "UTC", Missed::Skip).unwrap_err();
            assert!(matches!(error, NoCalendar::Pattern(_)), "{pattern}: {error:?}");
        }
        for zone in ["", "Berlin", "+01:00", "Europe/Atlantis"] {
            assert_eq!(Calendar::of("0 9 * * *", zone, Missed::Skip), Err(NoCalendar::Zone), "{zone}");
        }
    }

    #[test]
    fn what_was_missed_is_made_up_for_or_over() {
        let due: DateTime<Utc> = "2026-11-30T09:00:00Z".parse().unwrap();
        let calendar = |missed| Calendar::of("0 9 * * *", "UTC", missed).unwrap();
        let (soon, late) = (due + TimeDelta::minutes(4), due + TimeDelta::hours(2));
        assert!(calendar(Missed::Skip).makes_up(due, soon) && !calendar(Missed::Skip).makes_up(due, late));
        assert!(calendar(Missed::RunOnce).makes_up(due, late));
        assert_eq!(calendar(Missed::Skip).words(), "At 09:00, UTC");
    }
}
