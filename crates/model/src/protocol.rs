//! Everything that may happen next.

use std::sync::Arc;

use holdfast_core::health::Health;
use stateright::{Model, Property as Checked};

use crate::{
    bounds::{Bounds, TOKEN_SETS},
    decisions::{Answer, Look, Want, send_timeout},
    flight::Fate,
    mutant::Mutant,
    properties::Property,
    provider::Token,
    replica::{At, Mode, Replica},
    witness::Met,
    world::World,
};

/// What happens; the numbers are places of replicas in [`World::replicas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// Somebody asks for a token.
    Start(usize, Want),
    /// A flight does its next step.
    Step(usize, Fate),
    /// The request reaches the token endpoint, which answers; or refuses for a reason of its own.
    Arrive(usize, Option<Answer>),
    /// No answer comes; whether the request arrives later.
    GiveUp(usize, bool),
    /// A verdict is held, because the provider refuses many.
    HoldVerdict(usize),
    /// A verdict is taken back, for the same reason.
    Withdraw,
    /// A set that could not be stored is put into the lifeboat.
    Fsync(usize),
    /// The lifeboat is drained.
    Drain(usize, Fate),
    /// What is repeated beside the flight is tried again.
    Beside(usize, Fate),
    /// The process ends; whether its request on the wire still arrives.
    Crash(usize, bool),
    /// It starts again.
    Restart(usize),
    /// It stands still.
    Stall(usize),
    /// Its line to the database is cut.
    Cut(usize),
    /// It goes on, or its line is back.
    Mend(usize),
    /// A statement is executed that its sender has given up.
    ExecuteLate,
    /// A request arrives that its sender has given up.
    ArriveLate,
    /// A person gives a new grant.
    Consent,
    /// It is stored.
    StoreGrant,
    /// A person disconnects; whether the provider revokes.
    Disconnect(bool),
    /// Extras change.
    ChangeExtras,
    /// The grant ends at the provider.
    Revoke,
}

/// The protocol within bounds, whole or with a fault.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// How far to go.
    pub bounds: Bounds,
    /// The fault.
    pub mutant: Option<Mutant>,
    /// What is met on the way.
    pub met: Arc<Met>,
}

impl Protocol {
    fn of_replica(&self, world: &World, r: usize, actions: &mut Vec<Action>) {
        let replica = &world.replicas[r];
        let left = &world.left;
        let running = match replica.mode {
            Mode::Absent => return,
            Mode::Down => {
                actions.push(Action::Restart(r));
                return;
            }
            Mode::Stalled => false,
            Mode::Up | Mode::Cut => true,
        };
        if replica.mode != Mode::Up {
            actions.push(Action::Mend(r));
        }
        let at_work = replica.flight.is_some() || replica.beside.is_some() || replica.lifeboat.is_some();
        if at_work {
            Self::trouble(world, r, actions);
        }
        let Some(flight) = replica.flight else {
            if replica.mode == Mode::Up {
                self.starts(world, r, actions);
            }
            if running {
                Self::beside(world, r, actions);
            }
            return;
        };
        if let At::Sent(work, _) = flight.at {
            if self.may_present(world, work.read.token) {
                actions.push(Action::Arrive(r, None));
            }
            if left.moods > 0 {
                actions.extend(
                    [Answer::Busy, Answer::Unreachable, Answer::AppBroken].map(|mood| Action::Arrive(r, Some(mood))),
                );
            }
        }
        if !running {
            return;
        }
        Self::beside(world, r, actions);
        match flight.at {
            At::Sent(work, waited) => {
                if waited >= send_timeout(work.first, &self.bounds) {
                    actions.push(Action::GiveUp(r, false));
                    if left.late > 0 && world.late.is_none() {
                        actions.push(Action::GiveUp(r, true));
                    }
                }
            }
            At::Answered(_, _, answer) => {
                actions.push(Action::Step(r, Fate::Well));
                if left.lost > 0 && matches!(answer, Answer::Rotated(_) | Answer::Rejected) {
                    actions.push(Action::GiveUp(r, false));
                }
            }
            at => {
                // One thing beside a flight at a time.
                let full = replica.beside.is_some() && matches!(at, At::Close { .. } | At::Fail { .. });
                if !full {
                    actions.push(Action::Step(r, Fate::Well));
                    if is_statement(at) {
                        Self::blind(world, r, actions, Action::Step);
                    }
                }
            }
        }
        if matches!(flight.at, At::Fail { .. }) && left.incidents > 0 {
            actions.push(Action::HoldVerdict(r));
        }
        if let At::Store { tried: true, .. } = flight.at
            && replica.lifeboat.is_none()
        {
            actions.push(Action::Fsync(r));
        }
    }

    fn starts(&self, world: &World, r: usize, actions: &mut Vec<Action>) {
        let replica = &world.replicas[r];
        if replica.lifeboat.is_some() && self.mutant != Some(Mutant::LeaseBeforeLifeboat) {
            return;
        }
        let mut wants = vec![];
        if world.look(r, Want::Valid) == Look::Refresh {
            wants.push(Want::Valid);
        }
        let rejected = Want::Not(world.db.token);
        if world.left.rejections > 0 && world.db.token != 0 && world.look(r, rejected) == Look::Refresh {
            wants.push(rejected);
        }
        if world.left.tests > 0 && world.db.health == Health::AuthFailed {
            wants.push(Want::Revived);
        }
        actions.extend(wants.into_iter().map(|want| Action::Start(r, want)));
    }

    fn beside(world: &World, r: usize, actions: &mut Vec<Action>) {
        let replica = &world.replicas[r];
        if replica.mode != Mode::Up {
            return;
        }
        if replica.beside.is_some() {
            actions.push(Action::Beside(r, Fate::Well));
            Self::blind(world, r, actions, Action::Beside);
        }
        // While the flight still tries, the same write is its own.
        let trying = replica.flight.is_some_and(|flight| matches!(flight.at, At::Store { .. }));
        if replica.lifeboat.is_some() && !trying {
            actions.push(Action::Drain(r, Fate::Well));
            Self::blind(world, r, actions, Action::Drain);
        }
    }

    fn trouble(world: &World, r: usize, actions: &mut Vec<Action>) {
        let replica = &world.replicas[r];
        let left = &world.left;
        if left.crashes > 0 {
            actions.push(Action::Crash(r, false));
            if matches!(replica.flight.map(|flight| flight.at), Some(At::Sent(..))) && world.late.is_none() {
                actions.push(Action::Crash(r, true));
            }
        }
        if replica.mode == Mode::Up {
            if left.stalls > 0 {
                actions.push(Action::Stall(r));
            }
            if left.cuts > 0 {
                actions.push(Action::Cut(r));
            }
        }
    }

    fn blind(world: &World, r: usize, actions: &mut Vec<Action>, action: fn(usize, Fate) -> Action) {
        if world.left.blind > 0 && world.replicas[r].mode == Mode::Up {
            actions.push(action(r, Fate::Unheard));
            if world.limbo.is_none() {
                actions.push(action(r, Fate::Late));
            }
        }
    }

    fn may_present(&self, world: &World, token: Token) -> bool {
        let full = world.provider.count() >= self.bounds.token_sets.min(u8::try_from(TOKEN_SETS).unwrap_or(u8::MAX));
        !full || !world.provider.would_issue(token, &self.bounds)
    }

    fn of_people(&self, world: &World, actions: &mut Vec<Action>) {
        let left = &world.left;
        if left.grants > 0 && world.consent.is_none() && world.provider.count() < self.bounds.token_sets {
            actions.push(Action::Consent);
        }
        if world.consent.is_some() {
            actions.push(Action::StoreGrant);
        }
        if left.disconnects > 0 && world.db.health != Health::Disconnected {
            actions.extend([Action::Disconnect(true), Action::Disconnect(false)]);
        }
        if left.incidents > 0 && world.db.health == Health::AuthFailed {
            actions.push(Action::Withdraw);
        }
        if left.extras > 0 {
            actions.push(Action::ChangeExtras);
        }
        if left.revocations > 0 && world.db.token != 0 {
            actions.push(Action::Revoke);
        }
    }
}

fn is_statement(at: At) -> bool {
    !matches!(
        at,
        At::Wait
            | At::Reread(_)
            | At::Send(_)
            | At::Sent(..)
            | At::Answered(..)
            | At::Confirm(_)
            | At::Prove(..)
            | At::GiveBack(0, _)
    )
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // What is broken stays broken.
        if world.broken.any() {
            return;
        }
        if world.may_tick(&self.bounds) {
            actions.push(Action::Tick);
        }
        for r in 0..self.bounds.replicas {
            // Of two replicas that are the same, one is enough.
            if r > 0 && same(world, r - 1, r) {
                continue;
            }
            self.of_replica(world, r, actions);
        }
        if world.limbo.is_some() {
            actions.push(Action::ExecuteLate);
        }
        if world.late.is_some_and(|late| self.may_present(world, late.token)) {
            actions.push(Action::ArriveLate);
        }
        self.of_people(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = *world;
        let (bounds, mutant) = (&self.bounds, self.mutant);
        match action {
            Action::Tick => next.tick(bounds),
            Action::Start(r, want) => {
                match want {
                    Want::Valid => {}
                    Want::Not(_) => next.left.rejections -= 1,
                    Want::Revived => next.left.tests -= 1,
                }
                next.start(r, want, mutant);
            }
            Action::Step(r, fate) => next.step(r, fate, bounds, mutant),
            Action::Arrive(r, mood) => {
                next.left.moods -= u8::from(mood.is_some());
                next.arrive(r, mood, bounds);
            }
            Action::GiveUp(r, late) => {
                let answered = matches!(next.replicas[r].flight.map(|flight| flight.at), Some(At::Answered(..)));
                next.left.lost -= u8::from(answered);
                next.left.late -= u8::from(late);
                next.give_up(r, late, bounds);
            }
            Action::HoldVerdict(r) => {
                next.left.incidents -= 1;
                next.hold_verdict(r);
            }
            Action::Withdraw => {
                next.left.incidents -= 1;
                next.db.withdraw(mutant);
            }
            Action::Fsync(r) => next.fsync(r),
            Action::Drain(r, fate) => next.drain(r, fate, bounds, mutant),
            Action::Beside(r, fate) => next.beside(r, fate, bounds, mutant),
            Action::Crash(r, late) => {
                next.left.crashes -= 1;
                next.crash(r, late);
            }
            Action::Restart(r) => next.restart(r, mutant),
            Action::Stall(r) => {
                next.left.stalls -= 1;
                next.stall(r);
            }
            Action::Cut(r) => {
                next.left.cuts -= 1;
                next.replicas[r].mode = Mode::Cut;
            }
            Action::Mend(r) => next.replicas[r].mode = Mode::Up,
            Action::ExecuteLate => next.execute_late(bounds, mutant),
            Action::ArriveLate => next.arrive_late(bounds),
            Action::Consent => {
                next.left.grants -= 1;
                next.consent();
            }
            Action::StoreGrant => next.store_grant(bounds),
            Action::Disconnect(revoke) => {
                next.left.disconnects -= 1;
                next.disconnect(revoke);
            }
            Action::ChangeExtras => {
                next.left.extras -= 1;
                next.change_extras();
            }
            Action::Revoke => {
                next.left.revocations -= 1;
                next.provider.revoke(world.db.token);
            }
        }
        self.met.look(world, action, &next);
        next.judge();
        next.settle();
        Some(next)
    }

    fn properties(&self) -> Vec<Checked<Self>> {
        macro_rules! unbroken {
            ($($property:ident),*) => {
                vec![$(Checked::always(Property::$property.name(), |_: &Self, world: &World| {
                    !world.broken.has(Property::$property)
                })),*]
            };
        }
        unbroken![OneAtATime, NoneSpent, UnderLease, Replaced, Verdict, Reason, Bounded, Kept, Extras]
    }
}

fn same(world: &World, one: usize, other: usize) -> bool {
    let holder = |r: usize| world.db.row.and_then(|row| row.holder).is_some_and(|holder| usize::from(holder) == r);
    let replica = |r: usize| -> &Replica { &world.replicas[r] };
    world.limbo.is_none() && replica(one) == replica(other) && !holder(one) && !holder(other)
}
