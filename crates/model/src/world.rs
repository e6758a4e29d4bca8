//! The whole state, and what happens to it from outside: time, crashes, stalls, cut lines, people.

use holdfast_core::credential::Reason;

use crate::{
    bounds::{Bounds, REPLICAS},
    database::{Database, Id, LeaseRow, NEVER, Rotation, Statement, Wrote},
    decisions::{self, Look, Seen, Want},
    mutant::Mutant,
    properties::{Broken, Property},
    provider::{Provider, Token, Worth},
    replica::{At, Flight, Mode, Read, Replica},
};

/// A request whose sender has given it up, or is gone, and that may still reach the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Late {
    /// What it presents.
    pub token: Token,
    /// The lease that it was sent under, if its sender has crashed over it; 0: its sender has given it up.
    pub lease: Id,
}

/// What trouble is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the budgets of `Bounds`")]
pub struct Left {
    pub crashes: u8,
    pub stalls: u8,
    pub cuts: u8,
    pub blind: u8,
    pub lost: u8,
    pub late: u8,
    pub moods: u8,
    pub grants: u8,
    pub disconnects: u8,
    pub tests: u8,
    pub extras: u8,
    pub rejections: u8,
    pub revocations: u8,
    pub incidents: u8,
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The provider.
    pub provider: Provider,
    /// The database.
    pub db: Database,
    /// The replicas, in the order of their content: which is which makes no difference.
    pub replicas: [Replica; REPLICAS],
    /// A statement on its way whose sender has given it up.
    pub limbo: Option<Statement>,
    /// A request on its way whose sender has given it up.
    pub late: Option<Late>,
    /// A grant that a person gave and that is not stored yet, with its sequence.
    pub consent: Option<(Token, u8)>,
    /// What trouble is left.
    pub left: Left,
    /// Only for the properties: the extras as they should be.
    pub extras: u8,
    /// Only for the properties: what is broken.
    pub broken: Broken,
}

impl World {
    /// One credential whose access token is over.
    pub fn new(bounds: &Bounds) -> Self {
        let mut provider = Provider::default();
        provider.grant();
        let mut replicas = [Replica::default(); REPLICAS];
        for (replica, skew) in replicas.iter_mut().zip(bounds.skew).take(bounds.replicas) {
            *replica = Replica { mode: Mode::Up, skew, ..Replica::default() };
        }
        let mut world = Self {
            provider,
            db: Database::new(),
            replicas,
            limbo: None,
            late: None,
            consent: None,
            left: Left {
                crashes: bounds.crashes,
                stalls: bounds.stalls,
                cuts: bounds.cuts,
                blind: bounds.blind,
                lost: bounds.lost,
                late: bounds.late,
                moods: bounds.moods,
                grants: bounds.grants,
                disconnects: bounds.disconnects,
                tests: bounds.tests,
                extras: bounds.extras,
                rejections: bounds.rejections,
                revocations: bounds.revocations,
                incidents: bounds.incidents,
            },
            extras: 0,
            broken: Broken::default(),
        };
        world.settle();
        world
    }

    /// What a replica reads at this moment.
    pub(crate) fn read(&self) -> Read {
        let db = &self.db;
        Read {
            version: db.version,
            token: db.token,
            failures: db.failures,
            answer_lost: db.answer_lost,
            extras: db.extras,
        }
    }

    /// What it makes of it, by its own clock.
    pub(crate) fn look(&self, r: usize, want: Want) -> Look {
        self.look_at(r, self.db.token, want)
    }

    pub(crate) fn look_at(&self, r: usize, token: Token, want: Want) -> Look {
        let skew = self.replicas[r].skew;
        let by_clock = |left: i8| if left == NEVER { NEVER } else { left - skew };
        let (expires, retry) = (by_clock(self.db.expires), by_clock(self.db.retry));
        decisions::look(Seen { token, health: self.db.health, expires, retry }, want)
    }

    /// Whether time may pass: no running replica lets a request wait between its look at the lease and the wire, and
    /// timers end when they should.
    pub(crate) fn may_tick(&self, bounds: &Bounds) -> bool {
        !self.replicas.iter().filter(|replica| replica.runs()).filter_map(|replica| replica.flight).any(|flight| {
            match flight.at {
                At::Send(_) => true,
                At::Sent(work, waited) | At::Answered(work, waited, _) => {
                    waited >= decisions::send_timeout(work.first, bounds)
                }
                _ => false,
            }
        })
    }

    pub(crate) fn tick(&mut self, bounds: &Bounds) {
        self.provider.tick();
        let replicas = self.replicas;
        self.db.tick(bounds, |r| replicas[usize::from(r)].mode == Mode::Up);
        for replica in &mut self.replicas {
            replica.tick(bounds);
        }
        if let Some(statement) = &mut self.limbo {
            statement.tick();
        }
    }

    /// Everything that it had in memory is gone; what it had on the wire may still arrive.
    pub(crate) fn crash(&mut self, r: usize, arrives_late: bool) {
        let replica = &mut self.replicas[r];
        if arrives_late && let Some(Flight { at: At::Sent(work, _), .. }) = replica.flight {
            self.late = Some(Late { token: work.read.token, lease: work.held.id });
        }
        *replica = Replica { mode: Mode::Down, skew: replica.skew, lifeboat: replica.lifeboat, ..Replica::default() };
        let gone = Some(u8::try_from(r).unwrap_or(u8::MAX));
        if let Some(row) = self.db.row.as_mut().filter(|row| row.holder == gone) {
            row.holder = None;
        }
        if let Some(Statement::Begin { holder, .. }) = &mut self.limbo
            && *holder == gone
        {
            *holder = None;
        }
    }

    pub(crate) fn restart(&mut self, r: usize, mutant: Option<Mutant>) {
        self.replicas[r].mode = Mode::Up;
        if mutant == Some(Mutant::LifeboatThrownAway)
            && let Some(rotation) = self.replicas[r].lifeboat.take()
        {
            self.dropped(rotation);
        }
    }

    pub(crate) fn stall(&mut self, r: usize) {
        self.replicas[r].mode = Mode::Stalled;
        if let Some(work) = self.replicas[r].work_mut() {
            work.stalled = true;
        }
        if let Some(Flight { at: At::Store { excused, .. }, .. }) = &mut self.replicas[r].flight {
            *excused = true;
        }
    }

    /// A late request arrives; its answer finds nobody.
    pub(crate) fn arrive_late(&mut self, bounds: &Bounds) {
        if let Some(late) = self.late.take() {
            self.provider.present(late.token, bounds);
        }
    }

    /// A person has said yes at the provider.
    pub(crate) fn consent(&mut self) {
        let sequence = self.db.sequence + 1;
        self.consent = Some((self.provider.grant(), sequence));
    }

    /// The answer to the code is stored, and with it the extras that it carried.
    pub(crate) fn store_grant(&mut self, bounds: &Bounds) {
        let Some((token, sequence)) = self.consent.take() else { return };
        if self.db.store_grant(token, sequence, bounds) {
            self.change_extras();
        }
    }

    pub(crate) fn change_extras(&mut self) {
        let bit = self.extras + 1;
        self.extras |= bit;
        self.db.extras |= bit;
    }

    pub(crate) fn disconnect(&mut self, revoke: bool) {
        let held = self.db.disconnect();
        if revoke && held != 0 {
            self.provider.revoke(held);
        }
    }

    /// What a write means for the properties.
    pub(crate) fn note(&mut self, wrote: Wrote, late: bool) {
        match wrote {
            Wrote::Stored(rotation, over) => {
                let successor = rotation.from == over && self.provider.get(rotation.token).parent == over;
                self.broken.note(Property::Replaced, !successor);
                self.overtake(rotation.from, late);
            }
            Wrote::Relieved(row, alive) if !alive => self.relieve(row),
            Wrote::Nothing | Wrote::Relieved(..) => {}
            Wrote::Failed(refused, reason) => {
                let stored = self.db.token;
                let accepted = self.provider.accepts(stored) || refused != stored;
                let thrown_away = self.live_sets(stored).any(|token| self.provider.get(token).dropped);
                self.broken.note(Property::Verdict, accepted || thrown_away || self.in_living_hands(stored));
                let revoked = reason == Reason::RefreshRefused;
                self.broken.note(Property::Reason, revoked && self.provider.get(stored).spent);
            }
        }
    }

    /// A set that reached us leaves memory or the lifeboat.
    pub(crate) fn dropped(&mut self, rotation: Rotation) {
        let stored = self.db.ever & (1 << rotation.token) != 0;
        let superseded = self.db.version > rotation.version || self.db.token == 0;
        self.broken.note(Property::Kept, !stored && !superseded);
        if !stored {
            self.provider.get_mut(rotation.token).dropped = true;
        }
    }

    /// Whoever is at work on the same token has been overtaken by one that stood still, was relieved, or has crashed.
    fn overtake(&mut self, from: Token, late: bool) {
        let excused = self.replicas.iter().any(|replica| match (replica.flight, replica.lifeboat) {
            (_, Some(boat)) if boat.from == from => true,
            (Some(Flight { at: At::Store { rotation, excused, .. }, .. }), _) => excused && rotation.from == from,
            _ => false,
        });
        if excused || late {
            for work in self.replicas.iter_mut().filter_map(Replica::work_mut).filter(|work| work.read.token == from) {
                work.overtaken = true;
            }
        }
    }

    /// A row was closed whose owner gave no sign of life: what it does later is a zombie's work.
    fn relieve(&mut self, row: Id) {
        for replica in &mut self.replicas {
            if let Some(work) = replica.work_mut().filter(|work| work.row == row) {
                work.relieved = true;
            }
            if let Some(Flight { at: At::Store { rotation, excused, .. }, .. }) = &mut replica.flight
                && rotation.row == row
            {
                *excused = true;
            }
        }
    }

    fn live_sets(&self, token: Token) -> impl Iterator<Item = Token> {
        let grant = if token == 0 { 0 } else { self.provider.get(token).grant };
        (1..=self.provider.count()).filter(move |other| {
            let set = self.provider.get(*other);
            set.grant == grant && set.worth == Worth::Live
        })
    }

    /// Whether a replica that others know to be alive has the successor of this set in its hands.
    fn in_living_hands(&self, token: Token) -> bool {
        self.replicas.iter().filter(|replica| replica.mode == Mode::Up).filter_map(|replica| replica.flight).any(
            |flight| match flight.at {
                At::Store { rotation, excused, .. } => rotation.from == token && !excused,
                At::Answered(work, _, decisions::Answer::Rotated(_)) => {
                    work.read.token == token && !work.relieved && !work.stalled
                }
                _ => false,
            },
        )
    }

    /// Gives names anew and sorts the replicas, so that states that differ in nothing that counts are one.
    pub(crate) fn settle(&mut self) {
        if self.db.lease.left == 0 {
            self.db.lease = LeaseRow::default();
        }
        let lease = self.db.lease.id;
        let row = self.db.row.map_or(0, |row| row.id);
        let (mut lease_in_limbo, mut row_in_limbo) = (0, 0);
        if let Some(statement) = self.limbo {
            let (leases, rows) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
            { statement }.rename(|id| leases.set(*id), |id| rows.set(*id));
            (lease_in_limbo, row_in_limbo) = (leases.get(), rows.get());
        }
        let name = |id: &mut Id, current: Id, in_limbo: Id| {
            *id = match *id {
                0 => 0,
                id if id == current => 1,
                id if id == in_limbo => 2,
                _ => 0,
            };
        };
        let of_lease = |id: &mut Id| name(id, lease, lease_in_limbo);
        let of_row = |id: &mut Id| name(id, row, row_in_limbo);
        for replica in &mut self.replicas {
            replica.rename(of_lease, of_row);
        }
        if let Some(statement) = &mut self.limbo {
            statement.rename(of_lease, of_row);
        }
        if let Some(late) = &mut self.late {
            of_lease(&mut late.lease);
        }
        of_lease(&mut self.db.lease.id);
        if let Some(row) = &mut self.db.row {
            of_row(&mut row.id);
        }
        self.sort();
    }

    fn sort(&mut self) {
        let holder = self.db.row.and_then(|row| row.holder);
        let in_limbo = match self.limbo {
            Some(Statement::Begin { holder, .. }) => holder,
            _ => None,
        };
        let mut order = [0, 1, 2_u8];
        order.sort_by_key(|r| {
            let replica = &self.replicas[usize::from(*r)];
            (replica.mode == Mode::Absent, replica, holder == Some(*r), in_limbo == Some(*r))
        });
        if order == [0, 1, 2] {
            return;
        }
        let place = |r: u8| order.iter().position(|other| *other == r).and_then(|at| u8::try_from(at).ok());
        self.replicas = order.map(|r| self.replicas[usize::from(r)]);
        if let Some(row) = &mut self.db.row {
            row.holder = row.holder.and_then(place);
        }
        if let Some(Statement::Begin { holder, .. }) = &mut self.limbo {
            *holder = holder.and_then(place);
        }
    }
}
