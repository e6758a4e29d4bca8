//! Moments as people read them: relative, with the exact one beside it.

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

/// A moment for a page: `{{ <ui.time at={page.since} /> }}`.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Moment {
    /// For programs: `datetime`.
    pub(crate) iso: String,
    /// `3 minutes ago`, `in 2 days`.
    pub(crate) relative: String,
    /// `29 Nov 2026, 19:04 UTC`.
    pub(crate) exact: String,
}

impl Moment {
    /// As seen now.
    pub(crate) fn new(at: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        Self {
            iso: at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            relative: relative(at - now),
            exact: at.format("%-d %b %Y, %H:%M UTC").to_string(),
        }
    }

    /// The same where there may be none.
    pub(crate) fn maybe(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Option<Self> {
        at.map(|at| Self::new(at, now))
    }
}

/// `just now`, `3 minutes ago`, `in 2 days`.
fn relative(ahead: TimeDelta) -> String {
    let amount = if ahead > TimeDelta::zero() { span(rounded(ahead)) } else { span(-ahead) };
    match amount {
        None if ahead > TimeDelta::zero() => "in a moment".to_owned(),
        None => "just now".to_owned(),
        Some(amount) if ahead < TimeDelta::zero() => format!("{amount} ago"),
        Some(amount) => format!("in {amount}"),
    }
}

/// In seconds, the largest first.
const UNITS: [(i64, &str); 6] =
    [(31_536_000, "year"), (2_592_000, "month"), (86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")];

fn unit(seconds: i64) -> (i64, &'static str) {
    UNITS.into_iter().find(|(long, _)| seconds >= *long).unwrap_or((1, "second"))
}

/// What is to come is told by the nearest number: what lasts a week ends in 7 days also a moment after it began.
fn rounded(ahead: TimeDelta) -> TimeDelta {
    ahead + TimeDelta::seconds(unit(ahead.num_seconds()).0 / 2)
}

/// A length of time in its largest whole unit: `3 minutes`; `None` below five seconds.
pub(crate) fn span(length: TimeDelta) -> Option<String> {
    let seconds = length.num_seconds();
    if seconds < 5 {
        return None;
    }
    let (long, unit) = unit(seconds);
    let number = seconds / long;
    Some(format!("{number} {unit}{}", if number == 1 { "" } else { "s" }))
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};

    use super::Moment;

    #[test]
    fn moments_are_told_in_their_largest_unit() {
        let now = DateTime::from_timestamp(1_764_442_000, 0).unwrap();
        let table = [
            (0, "just now"),
            (-4, "just now"),
            (4, "in a moment"),
            (-5, "5 seconds ago"),
            (-60, "1 minute ago"),
            (-7_199, "1 hour ago"),
            (86_400 * 2, "in 2 days"),
            (86_400 * 7 - 2, "in 7 days"),
            (86_400 * 6 + 3600, "in 6 days"),
            (3599, "in 1 hour"),
            (59, "in 59 seconds"),
            (-86_400 * 400, "1 year ago"),
        ];
        for (seconds, relative) in table {
            assert_eq!(Moment::new(now + TimeDelta::seconds(seconds), now).relative, relative);
        }
        assert_eq!(Moment::new(now, now).exact, "29 Nov 2025, 18:46 UTC");
    }
}
