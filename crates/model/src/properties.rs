//! The invariants I1 to I6 of the engine, as a model can see them.

use crate::{
    database::Statement,
    replica::{At, Mode, Replica},
    world::World,
};

/// One property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// I1: two exchanges never run at the same time with the same refresh token, unless the first one's owner has crashed,
    /// stood still or been relieved, and its lease is over.
    OneAtATime,
    /// I1: no request is sent with a token whose success is stored, or lies in the sender's own lifeboat, unless it was
    /// stored behind the sender's last read by one whose lease was over, or the sender itself has stood still since.
    NoneSpent,
    /// I1: each request is sent under the sender's own lease, unless it has stood still since it looked.
    UnderLease,
    /// I2: what is stored is replaced by its own successor or by a person's grant, and by nothing else.
    Replaced,
    /// I3: `auth_failed` is declared only when the provider does not take what is stored, and neither a living replica
    /// has the successor in its hands nor was it thrown away.
    Verdict,
    /// I3: "revoked" is never said of a token that an exchange of ours has spent: that is "response lost".
    Reason,
    /// I4: a flight that has no time left ends, a pause always has an end, and an open row of a living replica is in
    /// somebody's hands.
    Bounded,
    /// I5: a set that reached us is stored, superseded, or still held in memory or in a lifeboat.
    Kept,
    /// I6: extras are as they were last changed.
    Extras,
}

impl Property {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::OneAtATime,
        Self::NoneSpent,
        Self::UnderLease,
        Self::Replaced,
        Self::Verdict,
        Self::Reason,
        Self::Bounded,
        Self::Kept,
        Self::Extras,
    ];

    /// The head of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneAtATime => "I1 one",
            Self::NoneSpent => "I1 spent",
            Self::UnderLease => "I1 lease",
            Self::Replaced => "I2",
            Self::Verdict => "I3",
            Self::Reason => "I3 why",
            Self::Bounded => "I4",
            Self::Kept => "I5",
            Self::Extras => "I6",
        }
    }
}

/// The properties that steps have broken, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken(u16);

impl Broken {
    pub(crate) fn note(&mut self, property: Property, broken: bool) {
        self.0 |= u16::from(broken) << property as u16;
    }

    /// Whether this one is broken.
    pub fn has(self, property: Property) -> bool {
        self.0 & (1 << property as u16) != 0
    }

    /// Whether any is.
    pub fn any(self) -> bool {
        self.0 != 0
    }
}

impl World {
    /// Looks at what shows in a state and not in a step.
    pub(crate) fn judge(&mut self) {
        self.broken.note(Property::Extras, self.db.extras != self.extras);
        let orphaned = self.db.row.is_some_and(|row| {
            let holder = row.holder.map(|holder| &self.replicas[usize::from(holder)]);
            holder.is_some_and(|holder| holder.mode == Mode::Up && !in_hands(holder, row.id))
        });
        let on_its_way = |row| match self.limbo {
            Some(
                Statement::Close { row: id, .. } | Statement::Fail { row: id, .. } | Statement::CloseLost { row: id },
            ) => id == row,
            Some(Statement::Store(rotation)) => rotation.row == row,
            _ => false,
        };
        let settled_soon = self.db.row.is_some_and(|row| on_its_way(row.id));
        self.broken.note(Property::Bounded, orphaned && !settled_soon);
    }
}

/// Whether a replica works on a row.
fn in_hands(replica: &Replica, row: u8) -> bool {
    let beside = match replica.beside {
        Some(Statement::Close { row: id, .. } | Statement::Fail { row: id, .. }) => id == row,
        _ => false,
    };
    let flown = replica.flight.is_some_and(|flight| match flight.at {
        At::Renew(work)
        | At::Extend(work)
        | At::Send(work)
        | At::Sent(work, _)
        | At::Answered(work, ..)
        | At::Confirm(work) => work.row == row,
        At::Store { rotation, .. } => rotation.row == row,
        At::Close { row: id, .. } | At::Fail { row: id, .. } => id == row,
        _ => false,
    });
    beside || flown || replica.lifeboat.is_some_and(|rotation| rotation.row == row)
}
