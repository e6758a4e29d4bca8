//! When to refresh, and when to try again: pure.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};

use super::Settings;
use crate::{
    credential::{TokenSet, Trouble},
    id::CredentialId,
};

/// When the scheduler should refresh: a margin ahead of the access token's end, and well inside the refresh token's
/// life where that ends first. `None`: there is nothing to refresh with, or nothing ends.
pub fn due_at(tokens: &TokenSet, credential: &CredentialId, settings: &Settings) -> Option<DateTime<Utc>> {
    tokens.refresh_token.as_ref()?;
    let access = tokens.expires_at.map(|end| {
        let life = tokens.life().unwrap_or_default().to_std().unwrap_or_default();
        // Up to a fifth of the life earlier than the margin says, so that connectors made together do not expire
        // together; never before half of the life.
        let early = (margin(life, settings) + life.mul_f64(0.2 * share_of(credential))).min(life / 2);
        end - delta(early)
    });
    let idle = tokens.refresh_expires_at.map(|end| {
        let life = (end - tokens.obtained_at).max(TimeDelta::zero());
        tokens.obtained_at + life / 2
    });
    [access, idle].into_iter().flatten().min()
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
