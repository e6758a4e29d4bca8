//! What has to be met on the way, in one exploration or another: else an invariant may hold because nothing happens.

use std::sync::atomic::{AtomicU32, Ordering};

use holdfast_core::health::Health;

use crate::{
    database::Statement,
    decisions::Answer,
    protocol::Action,
    provider::Worth,
    replica::{At, Flight, Mode},
    world::World,
};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each has its words in `name`")]
pub enum Witness {
    Waited,
    Renewed,
    Relieved,
    Rotated,
    ZombieStored,
    ZombieSent,
    Superseded,
    Discarded,
    RevokedSaid,
    ResponseLostSaid,
    LateSuccessHealed,
    LifeboatAcrossCrash,
    FamilyRevoked,
    Replayed,
    Confirmed,
    LateStatement,
    LateRequest,
    NextSecret,
    ReconnectInFlight,
    TwoSuccessors,
    VerdictHeld,
    VerdictWithdrawn,
}

impl Witness {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Waited,
        Self::Renewed,
        Self::Relieved,
        Self::Rotated,
        Self::ZombieStored,
        Self::ZombieSent,
        Self::Superseded,
        Self::Discarded,
        Self::RevokedSaid,
        Self::ResponseLostSaid,
        Self::LateSuccessHealed,
        Self::LifeboatAcrossCrash,
        Self::FamilyRevoked,
        Self::Replayed,
        Self::Confirmed,
        Self::LateStatement,
        Self::LateRequest,
        Self::NextSecret,
        Self::ReconnectInFlight,
        Self::TwoSuccessors,
        Self::VerdictHeld,
        Self::VerdictWithdrawn,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waited => "a flight waits for another's lease or row",
            Self::Renewed => "a lease is renewed before a request",
            Self::Relieved => "a lost owner's row is closed",
            Self::Rotated => "a success is stored",
            Self::ZombieStored => "a relieved owner's success is stored after all",
            Self::ZombieSent => "a process that stood still sends after its lease is over",
            Self::Superseded => "a success comes after a newer one",
            Self::Discarded => "a success comes after a disconnect",
            Self::RevokedSaid => "a connector fails as revoked",
            Self::ResponseLostSaid => "a connector fails as response lost",
            Self::LateSuccessHealed => "a failed connector heals",
            Self::LifeboatAcrossCrash => "a lifeboat is drained after a crash",
            Self::FamilyRevoked => "a reuse costs the family",
            Self::Replayed => "a token is used again inside its grace",
            Self::Confirmed => "a refusal is confirmed",
            Self::LateStatement => "a statement is executed late",
            Self::LateRequest => "a request arrives late",
            Self::NextSecret => "the app's next secret is tried",
            Self::ReconnectInFlight => "a reconnect is stored during an exchange",
            Self::TwoSuccessors => "two sets are alive in place of one",
            Self::VerdictHeld => "a verdict is held",
            Self::VerdictWithdrawn => "a verdict is taken back",
        }
    }
}

/// What was met so far.
#[derive(Debug, Default)]
pub struct Met(AtomicU32);

impl Met {
    /// Whether this one was.
    pub fn has(&self, witness: Witness) -> bool {
        self.0.load(Ordering::Relaxed) & (1 << witness as u32) != 0
    }

    /// Everything that either has met.
    pub fn join(&self, other: &Self) {
        self.0.fetch_or(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn note(&self, witness: Witness, met: bool) {
        if met && !self.has(witness) {
            self.0.fetch_or(1 << witness as u32, Ordering::Relaxed);
        }
    }

    /// Looks at one step, before the replicas are sorted.
    pub(crate) fn look(&self, before: &World, action: Action, after: &World) {
        let stored = after.db.ever != before.db.ever && after.consent == before.consent;
        self.note(Witness::Rotated, stored);
        self.note(Witness::LateStatement, action == Action::ExecuteLate);
        self.note(Witness::VerdictHeld, matches!(action, Action::HoldVerdict(_)));
        self.note(Witness::VerdictWithdrawn, action == Action::Withdraw);
        self.note(Witness::LateRequest, action == Action::ArriveLate);
        self.note(Witness::LateSuccessHealed, before.db.health == Health::AuthFailed && healed(before, action));
        let in_flight =
            |world: &World| world.replicas.iter().any(|replica| matches!(at(replica.flight), Some(At::Sent(..))));
        self.note(Witness::ReconnectInFlight, action == Action::StoreGrant && in_flight(before));
        if before.provider != after.provider {
            let live = (1..=after.provider.count()).filter(|token| after.provider.get(*token).worth == Worth::Live);
            let parents: Vec<_> =
                live.map(|token| after.provider.get(token).parent).filter(|parent| *parent != 0).collect();
            self.note(Witness::TwoSuccessors, (1..parents.len()).any(|more| parents[..more].contains(&parents[more])));
        }
        let (Action::Step(r, _) | Action::Drain(r, _) | Action::Arrive(r, _)) = action else { return };
        let (was, is) = (before.replicas[r].flight, after.replicas[r].flight);
        if matches!(action, Action::Drain(..)) {
            self.note(Witness::LifeboatAcrossCrash, stored && before.db.row.is_none_or(|row| row.holder.is_none()));
            return;
        }
        let Some(was) = at(was) else { return };
        let spent = before.db.row.is_some() && after.db.row.is_none();
        match was {
            At::Relieve(..) => self.note(Witness::Relieved, spent),
            At::GiveBack(..) => self.note(Witness::Waited, at(is) == Some(At::Wait)),
            At::Extend(_) => self.note(Witness::Renewed, matches!(at(is), Some(At::Send(_)))),
            At::Send(work) => self.note(Witness::ZombieSent, work.stalled && work.held.left == 0),
            At::Confirm(_) => self.note(Witness::Confirmed, matches!(at(is), Some(At::Send(_)))),
            At::Store { excused, .. } => {
                self.note(Witness::ZombieStored, stored && excused);
                let done = matches!(at(is), Some(At::GiveBack(..)));
                self.note(Witness::Superseded, done && !stored && after.db.token != 0);
                self.note(Witness::Discarded, done && after.db.token == 0);
            }
            At::Fail { response_lost, .. } => {
                let failed = before.db.health != after.db.health;
                self.note(Witness::ResponseLostSaid, failed && response_lost);
                self.note(Witness::RevokedSaid, failed && !response_lost);
            }
            At::Sent(work, _) => {
                let again = matches!(at(is), Some(At::Answered(_, _, Answer::Rotated(_))));
                self.note(Witness::Replayed, again && before.provider.get(work.read.token).spent);
                self.note(Witness::NextSecret, again && work.done.on_next_secret);
                let live = |world: &World| (1..=world.provider.count()).any(|token| world.provider.accepts(token));
                self.note(Witness::FamilyRevoked, live(before) && !live(after) && !again);
            }
            _ => {}
        }
    }
}

fn at(flight: Option<Flight>) -> Option<At> {
    flight.map(|flight| flight.at)
}

fn healed(world: &World, action: Action) -> bool {
    match action {
        Action::Step(r, _) => {
            let replica = &world.replicas[r];
            replica.mode == Mode::Up
                && matches!(at(replica.flight), Some(At::Heal(_, version)) if version == world.db.version)
        }
        Action::ExecuteLate => matches!(world.limbo, Some(Statement::Heal { .. })),
        _ => false,
    }
}
