//! What becomes of a proven delivery, by the health of its connector: pure.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::Health;

/// How much is kept for a connector that somebody has to reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parking {
    /// From the failure on.
    pub longest: Duration,
    /// Events that wait at a time.
    pub most: u64,
}

impl Parking {
    /// For a provider that gives up so soon that keeping costs less than refusing.
    #[must_use]
    pub fn stretched(self, times: u32) -> Self {
        Self { longest: self.longest * times, most: self.most * u64::from(times) }
    }
}

/// What is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is worked off.
    Take,
    /// It waits for a reconnect.
    Park,
    /// It is turned away, and counted.
    Refuse(Refusal),
}

/// Why a proven delivery is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The connector has waited for a reconnect for too long.
    ParkedTooLong,
    /// Too much waits for it.
    ParkedTooMuch,
    /// An admin has disconnected it.
    Disconnected,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ParkedTooLong, Self::ParkedTooMuch, Self::Disconnected];

    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ParkedTooLong => "parked_too_long",
            Self::ParkedTooMuch => "parked_too_much",
            Self::Disconnected => "disconnected",
        }
    }
}

/// By health, since when it is so, and how many wait already. A connector that nobody has connected yet keeps what comes as
/// one that has failed does.
pub fn fate(health: Health, since: DateTime<Utc>, waiting: u64, now: DateTime<Utc>, parking: Parking) -> Fate {
    match health {
        Health::Connected => Fate::Take,
        Health::Disconnected => Fate::Refuse(Refusal::Disconnected),
        Health::Pending | Health::AuthFailed => {
            let waited = (now - since).to_std().unwrap_or_default();
            if waited > parking.longest {
                Fate::Refuse(Refusal::ParkedTooLong)
            } else if waiting >= parking.most {
                Fate::Refuse(Refusal::ParkedTooMuch)
            } else {
                Fate::Park
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_health_has_its_fate() {
        let parking = Parking { longest: Duration::from_hours(72), most: 10 };
        let since = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let after = |hours: i64| since + chrono::TimeDelta::hours(hours);
        for (health, waiting, now, expected) in [
            (Health::Connected, 99, after(999), Fate::Take),
            (Health::Disconnected, 0, after(0), Fate::Refuse(Refusal::Disconnected)),
            (Health::AuthFailed, 9, after(72), Fate::Park),
            (Health::AuthFailed, 10, after(1), Fate::Refuse(Refusal::ParkedTooMuch)),
            (Health::AuthFailed, 0, after(73), Fate::Refuse(Refusal::ParkedTooLong)),
            (Health::AuthFailed, 0, after(-1), Fate::Park),
            (Health::Pending, 0, after(1), Fate::Park),
        ] {
            assert_eq!(fate(health, since, waiting, now, parking), expected, "{health:?} {waiting}");
        }
        assert_eq!(fate(Health::AuthFailed, since, 50, after(100), parking.stretched(10)), Fate::Park);
    }
}
