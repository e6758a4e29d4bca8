//! The engine's decisions: pure functions that the runtime calls, so that a model can explore the very same ones.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{AuthError, Need, OutcomeKind, Settings, timing};
#[cfg(feature = "mutants")]
use crate::mutants::{self, Mutant};
use crate::{
    credential::{Credential, Fingerprint, Reason, Secret, Snapshot, TokenSet, Trouble},
    exchange::{Outcome, Refusal},
    health::Health,
    ports::{Holder, Marks, OpenExchange},
};

/// What a snapshot means for a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// It satisfies it.
    Serve,
    /// An exchange is needed.
    Refresh,
    /// Only the provider's test call can tell.
    Prove(Reason),
    /// There is no token to be had.
    Stop(AuthError),
}

/// Compares a credential with a need. `minted_for_rejection`: the current token was made moments ago because its
/// predecessor had been rejected.
pub fn look(snapshot: &Snapshot, need: &Need, now: DateTime<Utc>, minted_for_rejection: bool) -> Look {
    match snapshot.health {
        Health::Pending => return Look::Stop(AuthError::Pending),
        Health::Disconnected => return Look::Stop(AuthError::Disconnected),
        Health::AuthFailed if *need != Need::Revived => return Look::Stop(failed(snapshot)),
        Health::AuthFailed | Health::Connected => {}
    }
    let credential = &snapshot.credential;
    let rejected = |secret| matches!(need, Need::Not(rejected) if *rejected == Fingerprint::of(secret));
    match &credential.secret {
        Secret::Absent => Look::Stop(AuthError::Pending),
        Secret::Unreadable => Look::Stop(AuthError::Unreadable),
        Secret::ApiKey(key) if rejected(key) => Look::Prove(Reason::AccessRefused),
        Secret::ApiKey(_) => Look::Serve,
        Secret::Tokens(tokens) => {
            let rejected = rejected(&tokens.access_token);
            let enough = match need {
                Need::ValidFor(wanted) => {
                    let half = tokens.life().map_or(*wanted, |life| life.to_std().unwrap_or_default() / 2);
                    tokens.lives_for(timing::delta((*wanted).min(half)), now)
                }
                Need::Not(_) => !rejected && tokens.alive(now),
                Need::Revived => true,
                Need::Ahead => credential.due_at.is_none_or(|due| due > now),
            };
            if enough && tokens.alive(now) {
                return Look::Serve;
            }
            if tokens.refresh_token.is_none() {
                return match (tokens.alive(now), rejected) {
                    (true, false) => Look::Serve,
                    (true, true) => Look::Prove(Reason::AccessRefused),
                    (false, _) => Look::Prove(Reason::NotRefreshable),
                };
            }
            if let Some(error) = backing_off(credential, now) {
                return if tokens.alive(now) && !rejected { Look::Serve } else { Look::Stop(error) };
            }
            if rejected && minted_for_rejection {
                return Look::Prove(Reason::AccessRefused);
            }
            Look::Refresh
        }
    }
}

/// The same, where the provider exchanges a token that never ends for one that is renewed: that is done as soon as somebody
/// wants the token. While the exchange backs off, it is one like any other that nothing renews; but after a lost answer it
/// is dead at the provider, and if it is rejected then, only the exchange can tell what became of it.
pub fn upgrade(look: Look, snapshot: &Snapshot, now: DateTime<Utc>) -> Look {
    if snapshot.health != Health::Connected || !snapshot.credential.secret.tokens().is_some_and(TokenSet::is_endless) {
        return look;
    }
    match (look, backing_off(&snapshot.credential, now)) {
        (Look::Serve | Look::Prove(_), None) => Look::Refresh,
        (Look::Prove(_), Some(error)) if snapshot.credential.answer_lost => Look::Stop(error),
        (look, _) => look,
    }
}

/// Whether a token may be handed out although the exchange that was wished for failed.
pub fn still_serves(snapshot: &Snapshot, need: &Need, now: DateTime<Utc>) -> bool {
    snapshot.health == Health::Connected
        && match (&snapshot.credential.secret, need) {
            (Secret::Tokens(tokens), Need::Not(rejected)) => {
                tokens.alive(now) && *rejected != Fingerprint::of(&tokens.access_token)
            }
            (Secret::Tokens(tokens), _) => tokens.alive(now),
            _ => false,
        }
}

/// What callers of a failed connector hear.
pub fn failed(snapshot: &Snapshot) -> AuthError {
    AuthError::AuthFailed {
        reason: snapshot.health_reason.unwrap_or(Reason::RefreshRefused),
        detail: snapshot.health_detail.clone(),
        since: snapshot.health_since,
    }
}

fn backing_off(credential: &Credential, now: DateTime<Utc>) -> Option<AuthError> {
    let retry_at = credential.backoff.retry_at.filter(|at| *at > now)?;
    let retry_after = (retry_at - now).to_std().unwrap_or_default();
    let class = credential.degraded.map_or(Trouble::Transient, |degraded| degraded.class);
    Some(if class == Trouble::AppBroken {
        AuthError::AppRejected { detail: "the provider refused it at the last attempt".to_owned(), retry_after }
    } else {
        AuthError::Unavailable {
            class,
            detail: "the last exchange brought nothing; backing off".to_owned(),
            retry_after,
        }
    })
}

/// What to do about somebody else's open journal row, while holding the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// Its holder lives and will close it.
    Wait,
    /// Its holder seems dead; it may be relieved after this long.
    NotBefore(Duration),
    /// Its holder is taken for lost: close its row and go on.
    Relieve,
}

/// A living holder keeps others from exchanging until it closes its row; a dead one's does for a configured time
/// after its lease has ended, since a lost sign of life is no proof of death. With a reuse grace nothing is at stake, and
/// the grace is short: a holder that is gone is relieved at once.
pub fn orphan(open: &OpenExchange, grace: Duration, settings: &Settings) -> Orphan {
    #[cfg(feature = "mutants")]
    if mutants::armed(Mutant::RelievesAnybody) {
        return Orphan::Relieve;
    }
    let gone = !open.holder_alive || !open.holder_connected;
    if gone && !grace.is_zero() {
        return Orphan::Relieve;
    }
    if open.holder_alive {
        return Orphan::Wait;
    }
    match settings.orphan_wait.checked_sub(open.lease_over_for) {
        None | Some(Duration::ZERO) => Orphan::Relieve,
        Some(left) => Orphan::NotBefore(left),
    }
}

/// What to do about somebody else's lease that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// Its holder is there.
    Wait,
    /// End it: its holder is gone, and no token can be spent twice by that.
    Now,
    /// Its holder is gone with an exchange under way: only the end of its lease, and the time after it, can tell.
    NotBeforeItsEnd,
}

/// A holder that is gone is relieved before its lease ends if it has no exchange journalled open (should it live after
/// all, it cannot begin one beside ours), or if the provider has a reuse grace.
pub fn relief(holder: &Holder, grace: Duration) -> Relief {
    match (holder.alive && holder.connected, holder.exchanging && grace.is_zero()) {
        (true, _) => Relief::Wait,
        (false, false) => Relief::Now,
        (false, true) => Relief::NotBeforeItsEnd,
    }
}

/// Whether a lease that lasts for `left` is enough to send a request that may take `timeout`.
pub fn may_send(left: Duration, timeout: Duration, settings: &Settings) -> bool {
    #[cfg(feature = "mutants")]
    if mutants::armed(Mutant::SendsWithoutLease) {
        return true;
    }
    left >= timeout + settings.lease_slack
}

/// How long a token request may take: below the lease, and at most half of a reuse grace for the first one.
pub fn send_timeout(grace: Duration, first: bool, settings: &Settings) -> Duration {
    if grace.is_zero() || !first { settings.exchange_timeout } else { settings.exchange_timeout.min(grace / 2) }
}

/// How it has gone with what one provider issued to this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Yields {
    /// A set of it has been stored, or at least a refusal was understood.
    pub proven: bool,
    /// Exchanges that are under way.
    pub under_way: usize,
    /// Connectors in a row for which it said yes and nothing was stored.
    pub unstored: usize,
    /// How long ago the last of those was.
    pub since_last: Duration,
}

/// Whether a refresh token may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spend {
    /// Yes.
    Now,
    /// Once one of those under way has ended.
    Wait,
    /// No: what is spent is not stored. After this long, one may be tried.
    NotBefore(Duration),
}

/// A fault of ours must not burn one grant after the other: after so many in a row that were spent for nothing, no more are,
/// but for one now and then. Until a first one has ended well, and after each that has not, no more are under way at once
/// than may be lost.
pub fn spend(yields: &Yields, settings: &Settings) -> Spend {
    let limit = usize::try_from(settings.unstored_limit).unwrap_or(usize::MAX);
    if yields.unstored >= limit {
        return match settings.unstored_rest.checked_sub(yields.since_last) {
            None | Some(Duration::ZERO) if yields.under_way == 0 => Spend::Now,
            None | Some(Duration::ZERO) => Spend::Wait,
            Some(left) => Spend::NotBefore(left),
        };
    }
    let careful = !yields.proven || yields.unstored > 0;
    if careful && yields.under_way + yields.unstored >= limit { Spend::Wait } else { Spend::Now }
}

/// What a flight has done so far under its journal row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each said once")]
pub struct SoFar {
    /// A refusal has been met; the attempt under way confirms it.
    pub confirming: bool,
    /// The app's next secret is in use.
    pub on_next_secret: bool,
    /// The same token has been sent again inside the provider's grace.
    pub replayed: bool,
    /// An answer of this version may be lost.
    pub answer_lost: bool,
    /// The spare set is in use.
    pub on_spare: bool,
}

/// What the facts of the case are.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// How long a used refresh token may be sent again.
    pub grace: Duration,
    /// Whether the app has a second secret.
    pub has_next_secret: bool,
    /// Whether another set is kept that the provider issued for the same token; asked for before a verdict alone.
    pub has_spare: bool,
    /// What is left of the current access token.
    pub left: Option<Duration>,
    /// Exchanges in a row that brought nothing, before this one.
    pub failures: u32,
    /// Even in `0.0..1.0`.
    pub unit: f64,
}

/// What follows an outcome.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Store the new set.
    Store,
    /// Pause, read again, send once more.
    Confirm,
    /// Send again with the app's next secret.
    NextSecret,
    /// Send the same token again at once.
    Replay,
    /// Send the token of the spare set.
    Spare,
    /// Close the row with these marks.
    Close(OutcomeKind, Marks),
    /// Declare the connector failed.
    Fail(Reason),
}

/// The outcome table of the design.
pub fn after(outcome: &Outcome, so_far: &SoFar, case: &Case, now: DateTime<Utc>, settings: &Settings) -> Next {
    #[cfg(feature = "mutants")]
    if mutants::armed(Mutant::TimeoutIsRefusal) && matches!(outcome, Outcome::Ambiguous(_)) {
        return Next::Fail(Reason::RefreshRefused);
    }
    let close = |kind, trouble, refusal: &Refusal, answer_lost| {
        #[cfg(feature = "mutants")]
        let answer_lost = answer_lost && !mutants::armed(Mutant::ForgetsLostAnswer);
        let failures = case.failures.saturating_add(1);
        let pause = timing::pause(trouble, refusal.retry_after, case.left, failures, case.unit, settings);
        let retry_at = now + timing::delta(pause);
        Next::Close(kind, Marks { trouble, retry_at, failures, answer_lost: so_far.answer_lost || answer_lost })
    };
    match outcome {
        Outcome::Rotated(_) => Next::Store,
        Outcome::Rejected(_) if so_far.confirming && case.has_spare && !so_far.on_spare => Next::Spare,
        // Nothing is left to be had, but the token that is there still works: nobody is stopped before its end.
        Outcome::Rejected(refusal)
            if so_far.confirming && so_far.answer_lost && !case.left.unwrap_or_default().is_zero() =>
        {
            let retry_after = case.left.map(|left| left.min(settings.backoff_cap));
            close(OutcomeKind::Rejected, Trouble::Ambiguous, &Refusal { retry_after, ..refusal.clone() }, true)
        }
        Outcome::Rejected(_) if so_far.confirming && so_far.answer_lost => Next::Fail(Reason::ResponseLost),
        Outcome::Rejected(_) if so_far.confirming => Next::Fail(Reason::RefreshRefused),
        Outcome::Rejected(_) => Next::Confirm,
        Outcome::AppBroken(_) if case.has_next_secret && !so_far.on_next_secret => Next::NextSecret,
        Outcome::AppBroken(refusal) => close(OutcomeKind::AppBroken, Trouble::AppBroken, refusal, false),
        Outcome::Busy(refusal) => close(OutcomeKind::Busy, Trouble::Busy, refusal, false),
        Outcome::Transient(refusal) => close(OutcomeKind::Transient, Trouble::Transient, refusal, false),
        Outcome::Ambiguous(_) if !case.grace.is_zero() && !so_far.replayed => Next::Replay,
        Outcome::Ambiguous(refusal) => close(OutcomeKind::Ambiguous, Trouble::Ambiguous, refusal, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ExchangeId;

    const GRACE: Duration = Duration::from_secs(10);

    #[test]
    fn a_holder_is_relieved_early_only_where_no_token_can_be_spent_twice() {
        use Relief::{NotBeforeItsEnd, Now, Wait};
        for (alive, connected, exchanging, without, with) in [
            (true, true, false, Wait, Wait),
            (true, true, true, Wait, Wait),
            (true, false, false, Now, Now),
            (false, true, false, Now, Now),
            (false, false, false, Now, Now),
            (true, false, true, NotBeforeItsEnd, Now),
            (false, true, true, NotBeforeItsEnd, Now),
            (false, false, true, NotBeforeItsEnd, Now),
        ] {
            let holder = Holder { alive, connected, exchanging };
            assert_eq!((relief(&holder, Duration::ZERO), relief(&holder, GRACE)), (without, with), "{holder:?}");
        }
    }

    /// LR-06
    #[test]
    fn an_endless_token_is_exchanged_unless_that_backs_off_or_its_connector_does_not_work() {
        let now = DateTime::UNIX_EPOCH;
        let snapshot = |refresh: bool, expires: bool, health, retry_at| {
            let clock = crate::testkit::ManualClock::new();
            let store = crate::testkit::MemoryStore::new(std::sync::Arc::new(clock));
            let pair = ("AT1".to_owned(), "RT1".to_owned());
            let mut row = store.row(&store.connect("con", &pair, Duration::from_hours(1)));
            let Secret::Tokens(tokens) = &mut row.credential.secret else { panic!("it has tokens") };
            tokens.refresh_token = tokens.refresh_token.take().filter(|_| refresh);
            tokens.expires_at = tokens.expires_at.filter(|_| expires);
            row.health = health;
            row.credential.backoff.retry_at = retry_at;
            row
        };
        let (serve, prove) = (Look::Serve, Look::Prove(Reason::AccessRefused));
        let endless = snapshot(false, false, Health::Connected, None);
        for look in [&serve, &prove] {
            assert_eq!(upgrade(look.clone(), &endless, now), Look::Refresh);
        }
        let resting = snapshot(false, false, Health::Connected, Some(now + chrono::TimeDelta::seconds(9)));
        assert_eq!(upgrade(serve.clone(), &resting, now), Look::Serve);
        assert_eq!(upgrade(prove.clone(), &resting, now), prove);
        let mut lost = resting;
        lost.credential.answer_lost = true;
        assert!(matches!(upgrade(prove.clone(), &lost, now), Look::Stop(AuthError::Unavailable { .. })));
        for other in [
            snapshot(true, false, Health::Connected, None),
            snapshot(false, true, Health::Connected, None),
            snapshot(false, false, Health::AuthFailed, None),
            snapshot(false, false, Health::Disconnected, None),
        ] {
            for look in [&serve, &prove] {
                assert_eq!(upgrade(look.clone(), &other, now), *look);
            }
        }
        let stop = Look::Stop(AuthError::Unreadable);
        assert_eq!(upgrade(stop.clone(), &endless, now), stop);
    }

    /// LR-07
    #[test]
    fn no_more_tokens_are_under_way_than_may_be_lost_until_one_is_stored() {
        let settings = Settings { unstored_limit: 3, ..Settings::default() };
        let (rest, second) = (settings.unstored_rest, Duration::from_secs(1));
        for (proven, under_way, unstored, since_last, expected) in [
            (false, 2, 0, second, Spend::Now),
            (false, 3, 0, second, Spend::Wait),
            (true, 100, 0, second, Spend::Now),
            (true, 0, 2, second, Spend::Now),
            (true, 1, 2, second, Spend::Wait),
            (true, 0, 3, second, Spend::NotBefore(rest.saturating_sub(second))),
            (true, 0, 3, rest, Spend::Now),
            (true, 1, 3, rest, Spend::Wait),
        ] {
            let yields = Yields { proven, under_way, unstored, since_last };
            assert_eq!(spend(&yields, &settings), expected, "{yields:?}");
        }
    }

    #[test]
    fn an_open_row_is_settled_after_its_holders_time_or_inside_a_grace() {
        let settings = Settings::default();
        let (early, late) = (Duration::from_secs(1), settings.orphan_wait);
        let not_before = Orphan::NotBefore(settings.orphan_wait.saturating_sub(early));
        for (holder_alive, holder_connected, lease_over_for, without, with) in [
            (true, true, early, Orphan::Wait, Orphan::Wait),
            (true, true, late, Orphan::Wait, Orphan::Wait),
            // Cut off, and yet it lives: it may be about to store.
            (true, false, late, Orphan::Wait, Orphan::Relieve),
            (false, false, early, not_before, Orphan::Relieve),
            (false, true, early, not_before, Orphan::Relieve),
            (false, false, late, Orphan::Relieve, Orphan::Relieve),
        ] {
            let id = ExchangeId::from("exch_1");
            let open = OpenExchange { id, holder: "one".to_owned(), holder_alive, holder_connected, lease_over_for };
            let found = (orphan(&open, Duration::ZERO, &settings), orphan(&open, GRACE, &settings));
            assert_eq!(found, (without, with), "{open:?}");
        }
    }
}
