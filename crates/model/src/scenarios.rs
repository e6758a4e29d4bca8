//! The explorations: each has a few kinds of trouble at once, since all of them together are too many states.

use crate::{
    bounds::{Bounds, Replay, TICK},
    mutant::Mutant,
};

/// What the whole protocol goes through, breaking nothing.
pub fn all() -> Vec<Bounds> {
    let grace = |name, grace, replay| Bounds { grace, replay, token_sets: 4, ..Bounds::new(name) };
    vec![
        Bounds { replicas: 3, crashes: 1, ..Bounds::new("a crash") },
        Bounds { replicas: 3, stalls: 1, ..Bounds::new("a zombie") },
        Bounds { replicas: 3, cuts: 1, ..Bounds::new("a cut line") },
        Bounds { replicas: 3, blind: 1, ..Bounds::new("a statement of unknown fate") },
        Bounds { replicas: 3, grants: 1, disconnects: 1, ..Bounds::new("reconnect and disconnect") },
        Bounds { replicas: 3, grants: 1, lost: 1, ..Bounds::new("a lost answer and a reconnect") },
        Bounds { replicas: 3, lost: 1, ..grace("a lost answer inside a grace", 2, Replay::OneMore) },
        Bounds { replicas: 3, crashes: 1, stalls: 1, ..Bounds::new("a crash and a zombie") },
        Bounds { cuts: 1, crashes: 1, ..Bounds::new("a lifeboat and a crash") },
        Bounds { cuts: 1, blind: 1, ..Bounds::new("a cut line and a statement") },
        Bounds { crashes: 1, blind: 1, ..Bounds::new("a crash and a statement") },
        Bounds { blind: 2, ..Bounds::new("two statements") },
        Bounds { crashes: 1, stalls: 1, lost: 1, late: 1, ..Bounds::new("a zombie, a crash, late and lost") },
        Bounds { family: false, crashes: 1, stalls: 1, lost: 1, ..Bounds::new("no family revocation") },
        Bounds { stalls: 1, crashes: 1, grants: 1, disconnects: 1, ..Bounds::new("people and a zombie") },
        Bounds { cuts: 1, grants: 1, extras: 1, ..Bounds::new("people and a cut line") },
        Bounds { stalls: 1, grants: 2, token_sets: 4, ..Bounds::new("two reconnects") },
        Bounds { stalls: 1, crashes: 1, tests: 1, revocations: 1, ..Bounds::new("revoked and tested") },
        Bounds { stalls: 1, crashes: 1, moods: 1, ..Bounds::new("other refusals") },
        Bounds { stalls: 1, revocations: 1, incidents: 2, ..Bounds::new("held and taken back") },
        Bounds { crashes: 1, lost: 1, incidents: 1, ..grace("held and taken back, with a grace", 2, Replay::OneMore) },
        Bounds { cuts: 1, rejections: 1, ..Bounds::new("a rejected token") },
        Bounds { cuts: 1, life: Some(2), skew: [-1, 1, 0], ..Bounds::new("clocks that lie, and a cut line") },
        Bounds { crashes: 1, life: Some(2), skew: [-1, 1, 0], ..Bounds::new("clocks that lie") },
        Bounds { crashes: 1, stalls: 1, lost: 1, ..grace("a short grace", 2, Replay::OneMore) },
        Bounds { cuts: 1, lost: 1, ..grace("a short grace, the same again", 2, Replay::TheSame) },
        Bounds { crashes: 1, stalls: 1, ..grace("a long grace", 5, Replay::OneMore) },
        Bounds { crashes: 1, cuts: 1, ..grace("a long grace, one in place of the other", 5, Replay::InPlaceOf) },
        short_lease(),
    ]
}

/// Where a fault is looked for: where the whole protocol breaks nothing.
pub fn of(mutant: Mutant) -> Bounds {
    let bounds = Bounds::new("");
    match mutant {
        Mutant::NoReread
        | Mutant::UnconditionalRelease
        | Mutant::ReliefWithoutJournalRule
        | Mutant::WaitsForEver
        | Mutant::TimeoutIsRefusal => bounds,
        Mutant::UnconditionalWrite => Bounds { grants: 1, ..bounds },
        Mutant::FailureWithoutVersion => Bounds { grants: 1, lost: 1, ..bounds },
        Mutant::ExtrasInTokenRow => Bounds { extras: 1, ..bounds },
        Mutant::ForgetsLostAnswer => Bounds { lost: 1, ..bounds },
        Mutant::ReliefForgetsAnswer | Mutant::JudgesByOldRead => Bounds { crashes: 1, ..bounds },
        Mutant::DropsWhatIsLate | Mutant::ReliefOnOldLook => Bounds { cuts: 1, ..bounds },
        Mutant::LeaseBeforeLifeboat | Mutant::LifeboatThrownAway => Bounds { cuts: 1, crashes: 1, ..bounds },
        Mutant::WithdrawalForgetsAnswer => Bounds { lost: 1, incidents: 1, grace: 2, ..bounds },
        Mutant::LeavesUnknownRow | Mutant::LateOpening => Bounds { blind: 1, ..bounds },
        Mutant::LeaseShorterThanExchange => short_lease(),
    }
}

/// An exchange may take longer than the lease and the wait for its owner together: nothing is sent at all.
fn short_lease() -> Bounds {
    let mut bounds = Bounds { cuts: 1, ..Bounds::new("a lease that is too short") };
    bounds.settings.lease = TICK;
    bounds.settings.exchange_timeout = 3 * TICK;
    bounds
}
