//! Refreshes over a fortnight, drawn here: bars for who sees, a table for who does not.

use chrono::{DateTime, Days, Utc};
use holdfast_core::{OrgId, Snapshot, ports::StoreError};
use serde::Serialize;

use crate::app::App;

/// With today.
const DAYS: u64 = 14;
/// The picture's size, in its own units.
const WIDTH: u64 = 308;
const HEIGHT: u64 = 90;
/// Of the bars; below stand the days.
const TALLEST: u64 = 70;
const GAP: u64 = 6;

/// As the page shows it.
#[derive(Serialize)]
pub(super) struct Chart {
    width: u64,
    height: u64,
    base: u64,
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
    /// Of this connector's exchanges.
    pub(super) async fn read(
        app: &App,
        org: &OrgId,
        connector: &Snapshot,
        now: DateTime<Utc>,
    ) -> Result<Self, StoreError> {
        let today = now.date_naive();
        let first = today - Days::new(DAYS - 1);
        let since = first.and_hms_opt(0, 0, 0).expect("midnight exists in UTC").and_utc();
        let days = app.store.exchange_days(org, &connector.connector, since).await?;
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
                good_y: TALLEST - good_height,
                good_height,
                bad_y: (TALLEST - good_height).saturating_sub(bad_height),
                bad_height,
                label: (DAYS - 1 - number).is_multiple_of(4),
            }
        });
        Ok(Self {
            width: WIDTH,
            height: HEIGHT,
            base: TALLEST,
            bars: bars.collect(),
            good: counts.iter().map(|(good, _)| good).sum(),
            bad: counts.iter().map(|(_, bad)| bad).sum(),
            most,
        })
    }
}

/// In the picture's units; what there is can be seen.
fn tall(count: i64, most: i64) -> u64 {
    if count <= 0 || most <= 0 {
        return 0;
    }
    let room = TALLEST - 8;
    (count.unsigned_abs() * room / most.unsigned_abs()).max(2)
}
