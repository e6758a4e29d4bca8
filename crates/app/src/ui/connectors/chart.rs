//! What happened over a fortnight, drawn here: bars and a strip for who sees, tables for who does not.

use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use holdfast_core::Health;
use holdfast_store::{DayCount, HealthChange};
use serde::Serialize;

use crate::ui::{
    moment::{Moment, span},
    parts::Badge,
};

/// With today.
const DAYS: u64 = 14;
/// A picture's size, in its own units.
const WIDTH: u64 = 308;
const HEIGHT: u64 = 102;
/// Where the bars stand; below are the days.
const BASE: u64 = 82;
/// Where the highest bar ends; above is its number.
const TOP: u64 = 16;
const GAP: u64 = 6;
/// Of the strip's table.
const MOST_SPELLS: usize = 50;

/// The first of the days that are drawn.
fn first_day(now: DateTime<Utc>) -> NaiveDate {
    now.date_naive() - Days::new(DAYS - 1)
}

/// When that begins.
pub(super) fn since(now: DateTime<Utc>) -> DateTime<Utc> {
    first_day(now).and_hms_opt(0, 0, 0).expect("midnight exists in UTC").and_utc()
}

/// Bars, as a page shows them.
#[derive(Serialize)]
pub(super) struct Chart {
    width: u64,
    height: u64,
    base: u64,
    top: u64,
    bars: Vec<Bar>,
    good: i64,
    bad: i64,
    /// The highest bar.
    most: i64,
}

/// A day.
#[derive(Serialize)]
struct Bar {
    /// `29 Nov`.
    day: String,
    good: i64,
    bad: i64,
    x: u64,
    width: u64,
    good_y: u64,
    good_height: u64,
    bad_y: u64,
    bad_height: u64,
    /// Where the day is written; not all have room.
    label: bool,
}

impl Chart {
    /// Of what was counted on the days up to now.
    pub(super) fn new(days: &[DayCount], now: DateTime<Utc>) -> Self {
        let first = first_day(now);
        let counts: Vec<(i64, i64)> = (0..DAYS)
            .map(|ahead| (first + Days::new(ahead)).format("%Y-%m-%d").to_string())
            .map(|day| days.iter().find(|counted| counted.day == day).map_or((0, 0), |day| (day.good, day.bad)))
            .collect();
        let most = counts.iter().map(|(good, bad)| good + bad).max().unwrap_or_default();
        let step = WIDTH / DAYS;
        let bars = counts.iter().zip(0..).map(|(&(good, bad), number)| {
            let (good_height, bad_height) = (tall(good, most), tall(bad, most));
            Bar {
                day: (first + Days::new(number)).format("%-d %b").to_string(),
                good,
                bad,
                x: number * step + GAP / 2,
                width: step - GAP,
                good_y: BASE - good_height,
                good_height,
                bad_y: (BASE - good_height).saturating_sub(bad_height),
                bad_height,
                label: (DAYS - 1 - number).is_multiple_of(4),
            }
        });
        Self {
            width: WIDTH,
            height: HEIGHT,
            base: BASE,
            top: TOP,
            bars: bars.collect(),
            good: counts.iter().map(|(good, _)| good).sum(),
            bad: counts.iter().map(|(_, bad)| bad).sum(),
            most,
        }
    }
}

/// In the picture's units; what there is can be seen.
fn tall(count: i64, most: i64) -> u64 {
    if count <= 0 || most <= 0 {
        return 0;
    }
    (count.unsigned_abs() * (BASE - TOP) / most.unsigned_abs()).max(2)
}

/// A connector's health over the same days, as a page shows it.
#[derive(Serialize)]
pub(super) struct Strip {
    width: u64,
    /// Oldest first.
    spells: Vec<Spell>,
    /// So many earlier ones are left out of the table.
    earlier: usize,
    /// Of the time that it was meant to work: `99.5 %`. `None`: it never was, or has just begun.
    worked: Option<String>,
    /// How long that was.
    meant: String,
}

/// From one change to the next.
#[derive(Serialize)]
struct Spell {
    x: u64,
    width: u64,
    badge: Badge,
    since: Moment,
    /// `3 hours`.
    length: String,
    /// Stands in the table.
    listed: bool,
}

impl Strip {
    /// `created`: nothing is drawn before that.
    pub(super) fn new(changes: &[HealthChange], created: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        let start = since(now).max(created).min(now);
        let ends = changes.iter().skip(1).map(|next| next.at).chain([now]);
        let spells: Vec<(Health, DateTime<Utc>, DateTime<Utc>)> = changes
            .iter()
            .zip(ends)
            .map(|(change, end)| (change.to, change.at.max(start), end.max(start)))
            .filter(|(_, from, to)| from < to)
            .collect();
        let lasted = |which: &dyn Fn(Health) -> bool| -> TimeDelta {
            spells.iter().filter(|(health, ..)| which(*health)).map(|(_, from, to)| *to - *from).sum()
        };
        let good = lasted(&|health| health == Health::Connected);
        let meant = lasted(&|health| matches!(health, Health::Connected | Health::AuthFailed));
        let whole = (now - since(now)).num_seconds().max(1);
        let place = |at: DateTime<Utc>| {
            let seconds = (at - since(now)).num_seconds().clamp(0, whole);
            u64::try_from(seconds * i64::try_from(WIDTH).unwrap_or(i64::MAX) / whole).unwrap_or_default()
        };
        let earlier = spells.len().saturating_sub(MOST_SPELLS);
        let drawn = spells.iter().enumerate().map(|(number, (health, from, to))| Spell {
            x: place(*from).min(WIDTH - 1),
            width: place(*to).saturating_sub(place(*from)).max(1),
            badge: Badge::of_health(*health, false),
            since: Moment::new(*from, now),
            length: length(*to - *from),
            listed: number >= earlier,
        });
        Self { width: WIDTH, spells: drawn.collect(), earlier, worked: percent(good, meant), meant: length(meant) }
    }
}

/// In words, however short.
pub(super) fn length(time: TimeDelta) -> String {
    span(time).unwrap_or_else(|| "a moment".to_owned())
}

/// Never rounded up to all of it.
fn percent(part: TimeDelta, whole: TimeDelta) -> Option<String> {
    let (part, whole) = (part.num_seconds(), whole.num_seconds());
    let tenths = (part * 1000).checked_div(whole)?;
    Some(if tenths % 10 == 0 { format!("{} %", tenths / 10) } else { format!("{}.{} %", tenths / 10, tenths % 10) })
}
