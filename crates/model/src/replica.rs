//! A replica: its process, its flight, what goes on beside the flight, and its lifeboat.

use crate::{
    bounds::Bounds,
    database::{Id, Marks, Rotation, Statement, sooner},
    decisions::{Answer, Done, Want, send_timeout},
    provider::Token,
};

/// How a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Not part of this exploration.
    #[default]
    Absent,
    /// It works.
    Up,
    /// It works, but nothing of it reaches the database: no statement, no sign of life.
    Cut,
    /// It stands still, its timers too.
    Stalled,
    /// It has crashed.
    Down,
}

/// A lease as its holder believes it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// Which acquisition.
    pub id: Id,
    /// Ticks to its end, by the holder's uptime.
    pub left: i8,
}

/// What was read under the lease, as far as it counts later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Read {
    /// The credential's version.
    pub version: u8,
    /// Its set.
    pub token: Token,
    /// Whether exchanges have brought nothing lately.
    pub failures: bool,
    /// Whether an answer of this version may be lost.
    pub answer_lost: bool,
    /// The extras; only a faulty protocol keeps them.
    pub extras: u8,
}

/// An exchange under its journal row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Work {
    /// Its lease.
    pub held: Held,
    /// Its row.
    pub row: Id,
    /// What it started from.
    pub read: Read,
    /// What was done so far.
    pub done: Done,
    /// Whether nothing was sent yet.
    pub first: bool,
    /// Only for the properties: its process has stood still meanwhile.
    pub stalled: bool,
    /// Only for the properties: its row was closed for it while it gave no sign of life.
    pub relieved: bool,
    /// Only for the properties: a stalled or relieved one stored the successor since this one has read.
    pub overtaken: bool,
}

/// What follows the release of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Then {
    /// The flight is over: its callers have their answer.
    End,
    /// It starts again from the lease.
    Again,
    /// Another row is open: it waits for its owner.
    Wait,
}

/// How far a flight is. Each is the moment before a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// Asks for the lease.
    Acquire,
    /// Somebody else has the lease, or a row open: waits, then reads.
    Wait,
    /// Reads under the lease.
    Reread(Held),
    /// Opens the journal row.
    Begin(Held, Read),
    /// Closes a lost owner's row.
    Relieve(Held, Id),
    /// Renews the lease before a request.
    Renew(Work),
    /// Notes the renewed lease on the row.
    Extend(Work),
    /// Has looked at the lease and puts the request on the wire.
    Send(Work),
    /// The request is on its way, for so many ticks.
    Sent(Work, i8),
    /// The answer has arrived; it is looked at.
    Answered(Work, i8, Answer),
    /// Reads again, after a refusal.
    Confirm(Work),
    /// Stores a success; whether the database has failed to take it, and what excuses a second exchange meanwhile.
    Store {
        /// Of the lease.
        lease: Id,
        /// What is stored.
        rotation: Rotation,
        /// The write was tried in vain.
        tried: bool,
        /// Only for the properties: it has stood still, or its row was closed while it gave no sign of life.
        excused: bool,
    },
    /// Closes the row.
    Close {
        /// Of the lease.
        lease: Id,
        /// The row.
        row: Id,
        /// Its version.
        version: u8,
        /// What is marked.
        marks: Option<Marks>,
    },
    /// Declares the connector failed.
    Fail {
        /// Of the lease.
        lease: Id,
        /// The row.
        row: Id,
        /// The refused version.
        version: u8,
        /// The refused set.
        token: Token,
        /// Whether because an answer was lost.
        response_lost: bool,
    },
    /// Makes the test call with what is stored in a failed connector.
    Prove(Id, u8, Token),
    /// Declares the connector healed.
    Heal(Id, u8),
    /// Gives the lease back.
    GiveBack(Id, Then),
}

/// A flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flight {
    /// What for.
    pub want: Want,
    /// Ticks since it was asked for, while it has no row of its own.
    pub age: i8,
    /// How far it is.
    pub at: At,
    /// What was known when it was asked for; only a faulty protocol keeps it.
    pub known: Option<Read>,
}

/// One replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// How its process is.
    pub mode: Mode,
    /// Ticks that its wall clock is ahead.
    pub skew: i8,
    /// Its flight.
    pub flight: Option<Flight>,
    /// A statement that is repeated beside the flight until the database takes it.
    pub beside: Option<Statement>,
    /// What its folder holds, across crashes.
    pub lifeboat: Option<Rotation>,
}

impl Replica {
    /// Its process runs.
    pub fn runs(&self) -> bool {
        matches!(self.mode, Mode::Up | Mode::Cut)
    }

    /// Everything under whose lease or row something is done.
    pub(crate) fn work_mut(&mut self) -> Option<&mut Work> {
        match &mut self.flight.as_mut()?.at {
            At::Renew(work)
            | At::Extend(work)
            | At::Send(work)
            | At::Sent(work, _)
            | At::Answered(work, ..)
            | At::Confirm(work) => Some(work),
            _ => None,
        }
    }

    pub(crate) fn tick(&mut self, bounds: &Bounds) {
        if let Some(statement) = &mut self.beside {
            statement.tick();
        }
        if let Some(rotation) = &mut self.lifeboat {
            sooner(&mut rotation.expires);
        }
        let Some(flight) = &mut self.flight else { return };
        let later = |held: &mut Held| held.left = (held.left - 1).max(0);
        match &mut flight.at {
            At::Reread(held) | At::Begin(held, _) | At::Relieve(held, _) => later(held),
            At::Sent(work, waited) | At::Answered(work, waited, _) => {
                later(&mut work.held);
                *waited = (*waited + 1).min(send_timeout(work.first, bounds));
            }
            At::Renew(work) | At::Extend(work) | At::Send(work) | At::Confirm(work) => later(&mut work.held),
            At::Close { marks: Some(marks), .. } => sooner(&mut marks.retry),
            At::Store { rotation, .. } => sooner(&mut rotation.expires),
            _ => {}
        }
        let waits = matches!(
            flight.at,
            At::Acquire
                | At::Wait
                | At::Reread(_)
                | At::Begin(..)
                | At::Relieve(..)
                | At::GiveBack(_, Then::Wait | Then::Again)
        );
        flight.age = if waits { (flight.age + 1).min(bounds.wait_bound()) } else { 0 };
    }

    /// Passes over every name of a lease and of a row.
    pub(crate) fn rename(&mut self, lease: impl Fn(&mut Id), row: impl Fn(&mut Id)) {
        if let Some(statement) = &mut self.beside {
            statement.rename(&lease, &row);
        }
        if let Some(rotation) = &mut self.lifeboat {
            row(&mut rotation.row);
        }
        let Some(flight) = &mut self.flight else { return };
        match &mut flight.at {
            At::Acquire | At::Wait => {}
            At::Reread(held) | At::Begin(held, _) => lease(&mut held.id),
            At::Relieve(held, id) => {
                lease(&mut held.id);
                row(id);
            }
            At::Renew(work)
            | At::Extend(work)
            | At::Send(work)
            | At::Sent(work, _)
            | At::Answered(work, ..)
            | At::Confirm(work) => {
                lease(&mut work.held.id);
                row(&mut work.row);
            }
            At::Store { lease: id, rotation, .. } => {
                lease(id);
                row(&mut rotation.row);
            }
            At::Close { lease: id, row: open, .. } | At::Fail { lease: id, row: open, .. } => {
                lease(id);
                row(open);
            }
            At::Prove(id, ..) | At::Heal(id, _) | At::GiveBack(id, _) => lease(id),
        }
    }
}

impl Statement {
    pub(crate) fn tick(&mut self) {
        match self {
            Self::Begin { lease_left, .. } | Self::Extend { lease_left, .. } => {
                sooner(lease_left);
            }
            Self::Close { marks: Some(marks), .. } => sooner(&mut marks.retry),
            Self::Store(rotation) => sooner(&mut rotation.expires),
            _ => {}
        }
    }

    pub(crate) fn rename(&mut self, lease: impl Fn(&mut Id), row: impl Fn(&mut Id)) {
        match self {
            Self::Acquire { id } | Self::Renew(id) | Self::Release(id) => lease(id),
            Self::Begin { row: id, .. }
            | Self::Extend { row: id, .. }
            | Self::Close { row: id, .. }
            | Self::CloseLost { row: id }
            | Self::Fail { row: id, .. } => row(id),
            Self::Store(rotation) => row(&mut rotation.row),
            Self::Heal { .. } => {}
        }
    }
}
