//! When to refresh, and when to try again: pure.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};

use super::Settings;
use crate::{
    credential::{TokenSet, Trouble},
    id::CredentialId,
    provider::RefreshLife,
};

/// Into so many parts the window is cut in which a refresh brings another refresh token.
const PARTS_OF_A_WINDOW: u32 = 8;

/// When the scheduler should refresh: a margin ahead of the access token's end, and well inside the refresh token's
/// life where that ends first and a refresh begins it anew or brings another one. `None`: there is nothing to refresh with,
/// or nothing ends.
pub fn due_at(
    tokens: &TokenSet,
    life: RefreshLife,
    credential: &CredentialId,
    settings: &Settings,
) -> Option<DateTime<Utc>> {
    tokens.refresh_token.as_ref()?;
    let share = share_of(credential);
    let access = tokens.expires_at.map(|end| {
        let life = tokens.life().unwrap_or_default().to_std().unwrap_or_default();
        // Up to a fifth of the life earlier than the margin says, so that connectors made together do not expire
        // together; never before half of the life.
        let early = (margin(life, settings) + life.mul_f64(0.2 * share)).min(life / 2);
        end - delta(early)
    });
    let refresh = tokens.refresh_expires_at.and_then(|end| match life {
        RefreshLife::Replaced { window, .. } => in_window(tokens.obtained_at, end, window, share),
        _ if tokens.refresh_end_fixed => None,
        _ => Some(tokens.obtained_at + (end - tokens.obtained_at).max(TimeDelta::zero()) / 2),
    });
    [access, refresh].into_iter().flatten().min()
}

/// In the first part of the window, and after one part of it again where that brought no other refresh token.
fn in_window(obtained_at: DateTime<Utc>, end: DateTime<Utc>, window: Duration, share: f64) -> Option<DateTime<Utc>> {
    let opens = end - delta(window);
    let part = window / PARTS_OF_A_WINDOW;
    let at = if obtained_at < opens { opens + delta(part.mul_f64(share)) } else { obtained_at + delta(part) };
    (at < end).then_some(at)
}

/// People are told this long before an access ends for good: in time to find an hour for it, and at the last moment.
pub const WARNINGS: [TimeDelta; 2] = [TimeDelta::days(7), TimeDelta::days(1)];

/// The next moment after `now` at which people are to be told that an access ends; `None`: they know.
pub fn warn_at(ends_at: DateTime<Utc>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    WARNINGS.iter().map(|ahead| ends_at - *ahead).find(|at| *at > now)
}

/// The margin for a token of this life: a share, with floor and cap, and never more than half of the life.
pub fn margin(life: Duration, settings: &Settings) -> Duration {
    life.mul_f64(settings.margin_share).clamp(settings.margin_floor, settings.margin_cap).min(life / 2)
}

/// Steady in `0.0..1.0` for a credential: the same on every replica.
fn share_of(credential: &CredentialId) -> f64 {
    let digest = Sha256::digest(credential.as_str().as_bytes());
    f64::from(u16::from_le_bytes([digest[0], digest[1]])) / 65_536.0
}

/// How long to wait before the next exchange, `failures` being those in a row including this one.
///
/// Busy: as told. An ambiguous answer while the old token still lives: haste gains nothing, so half of what is left.
/// Else exponential with full jitter (`unit` is even in `0.0..1.0`), at least half a second so that no loop is hot.
pub fn pause(
    trouble: Trouble,
    told: Option<Duration>,
    left: Option<Duration>,
    failures: u32,
    unit: f64,
    settings: &Settings,
) -> Duration {
    let least = Duration::from_millis(500);
    match (trouble, told, left) {
        (_, Some(told), _) => told.max(least),
        (Trouble::Ambiguous, None, Some(left)) if !left.is_zero() => {
            (left / 2).min(settings.backoff_cap).mul_f64(0.75 + unit / 4.0).max(least)
        }
        _ => {
            let step = settings.backoff_base.saturating_mul(2_u32.saturating_pow(failures.min(16)));
            step.min(settings.backoff_cap).mul_f64(unit).max(least)
        }
    }
}

pub(super) fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use secrecy::SecretString;

    use super::*;

    const DAY: i64 = 24 * 3600;

    fn at(secs: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(secs)
    }

    fn tokens(access: Option<i64>, refresh: Option<i64>, fixed: bool) -> TokenSet {
        TokenSet {
            access_token: SecretString::from("at"),
            refresh_token: Some(SecretString::from("rt")),
            obtained_at: at(0),
            expires_at: access.map(at),
            expires_assumed: false,
            refresh_expires_at: refresh.map(at),
            refresh_end_fixed: fixed,
            scopes: Vec::new(),
            base_url: None,
            found: BTreeMap::new(),
        }
    }

    fn due(tokens: &TokenSet, credential: &str) -> Option<i64> {
        due_with(tokens, RefreshLife::AsTold, credential)
    }

    fn due_with(tokens: &TokenSet, life: RefreshLife, credential: &str) -> Option<i64> {
        due_at(tokens, life, &credential.into(), &Settings::default()).map(|due| (due - at(0)).num_seconds())
    }

    /// EX-03, EX-08: the margin fits every life, and connectors that were made together are spread over a fifth of it.
    #[test]
    fn a_token_is_due_within_the_second_half_of_its_life_and_each_credential_at_its_own_moment() {
        for life in [2, 10, 60, 300, 1800, 3600, DAY, 30 * DAY] {
            let dues: Vec<_> = (0..500)
                .map(|number| due(&tokens(Some(life), None, false), &format!("cred_{number}")).unwrap())
                .collect();
            let (first, last) = (*dues.iter().min().unwrap(), *dues.iter().max().unwrap());
            assert!(first >= life / 2 - 1 && last < life, "{first} to {last} of {life}");
            if life >= 300 {
                assert!(last - first >= life / 6, "{first} to {last} of {life}: too close together");
            }
        }
    }

    /// EX-09
    #[test]
    fn a_refresh_token_that_dies_of_idleness_is_used_at_half_of_its_life() {
        assert_eq!(due(&tokens(None, Some(30 * DAY), false), "cred"), Some(15 * DAY));
        let sooner = due(&tokens(Some(3600), Some(30 * DAY), false), "cred").unwrap();
        assert!(sooner < 3600);
    }

    #[test]
    fn what_no_refresh_extends_is_not_refreshed_for_it() {
        assert_eq!(due(&tokens(None, Some(30 * DAY), true), "cred"), None);
        let none = TokenSet { refresh_token: None, ..tokens(Some(3600), None, false) };
        assert_eq!(due(&none, "cred"), None);
    }

    #[test]
    fn a_token_that_is_replaced_near_its_end_is_refreshed_there_until_another_one_comes() {
        let day = Duration::from_hours(24);
        let life = RefreshLife::Replaced { life: day * 180, window: day };
        let obtained = |secs: i64| TokenSet { obtained_at: at(secs), ..tokens(None, Some(180 * DAY), false) };

        let dues: Vec<_> =
            (0..500).map(|n| due_with(&obtained(0), life, &format!("cred_{n}")).unwrap() - 179 * DAY).collect();
        let (first, last) = (*dues.iter().min().unwrap(), *dues.iter().max().unwrap());
        assert!(first >= 0 && last < DAY / 8 && last - first > DAY / 10, "{first} to {last} of the last day");

        let again = |secs: i64, fixed| {
            let tokens = TokenSet { refresh_end_fixed: fixed, ..obtained(179 * DAY + secs) };
            due_with(&tokens, life, "cred").map(|due| due - 179 * DAY)
        };
        assert_eq!(again(3600, false), Some(3600 + DAY / 8));
        assert_eq!(again(DAY / 2, true), Some(DAY / 2 + DAY / 8), "also when people know");
        assert_eq!(again(DAY - 60, true), None);
        assert_eq!(again(2 * DAY, true), None, "what is past is no reason");
        let access = TokenSet { expires_at: Some(at(3600)), ..obtained(0) };
        assert!(due_with(&access, life, "cred").unwrap() < 3600);
    }

    #[test]
    fn people_are_told_a_week_and_a_day_ahead() {
        let warn = |days: i64| warn_at(at(30 * DAY), at(days * DAY)).map(|at| at.timestamp() / DAY);
        assert_eq!(
            [warn(0), warn(22), warn(23), warn(28), warn(29), warn(31)],
            [Some(23), Some(23), Some(29), Some(29), None, None]
        );
    }
}
