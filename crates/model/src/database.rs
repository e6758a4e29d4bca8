//! The database: one credential with its connector, its lease row and its open journal row. Each statement is one
//! transaction under the conditions that it has in `crates/store/src`, named beside it.

use holdfast_core::{
    credential::Reason,
    health::{Event, Health},
};

use crate::{
    bounds::{ALIVE, Bounds},
    mutant::Mutant,
    provider::Token,
};

/// Names a lease's acquisition or a journal row; only sameness counts, so that numbers are given anew in each state.
pub type Id = u8;

/// A moment that everybody has left behind, whatever his clock says.
pub const LONG_AGO: i8 = -2;
/// A moment that never comes.
pub const NEVER: i8 = i8::MAX;

/// The lease row. Its id stands for the fencing token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseRow {
    /// Of the last acquisition; 0: nobody's any more.
    pub id: Id,
    /// Ticks to its end by the database's clock.
    pub left: i8,
}

/// The open row of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// Which one.
    pub id: Id,
    /// The replica that opened it; `None`: that process is gone.
    pub holder: Option<u8>,
    /// Ticks to the end of the lease that it was sent under.
    pub lease_left: i8,
    /// Ticks for which the holder still counts as alive.
    pub alive_left: i8,
    /// The credential's version.
    pub version: u8,
}

/// What is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Database {
    /// Of the credential.
    pub version: u8,
    /// The stored set; 0: none (`kind = 'none'`).
    pub token: Token,
    /// Of the connector.
    pub health: Health,
    /// Ticks to the end of the access token.
    pub expires: i8,
    /// Ticks to the end of the back-off.
    pub retry: i8,
    /// Whether an exchange has brought nothing since the last success.
    pub failures: bool,
    /// Whether an answer of this version may be lost.
    pub answer_lost: bool,
    /// Of a failed connector: whether the reason is that an answer was lost.
    pub response_lost: bool,
    /// The extras, a bit for each change.
    pub extras: u8,
    /// The last consent that was stored.
    pub sequence: u8,
    /// Sets that were ever stored, a bit for each: the outcome `rotated` in the journal.
    pub ever: u16,
    /// The lease.
    pub lease: LeaseRow,
    /// The journal.
    pub row: Option<Row>,
}

/// A success, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rotation {
    /// Of which journal row.
    pub row: Id,
    /// The version that was read under the lease.
    pub version: u8,
    /// The set that was read with it.
    pub from: Token,
    /// The new one.
    pub token: Token,
    /// The extras that were read with it; only a faulty protocol writes them.
    pub extras: u8,
    /// Ticks to the end of its access token, as its receiver's clock counted it.
    pub expires: i8,
}

/// What goes to the credential when a row closes without a new set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marks {
    /// Ticks to the end of the back-off.
    pub retry: i8,
    /// An answer may be lost.
    pub answer_lost: bool,
}

/// A statement, or a transaction of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statement {
    /// `leases.rs`: `acquire`.
    Acquire {
        /// What the acquisition is called if it works.
        id: Id,
    },
    /// `leases.rs`: `renew`.
    Renew(Id),
    /// `leases.rs`: `release`.
    Release(Id),
    /// `exchanges.rs`: `begin_exchange`.
    Begin {
        /// The new row.
        row: Id,
        /// Who opens it.
        holder: Option<u8>,
        /// The version that was read.
        version: u8,
        /// Ticks to the end of the lease.
        lease_left: i8,
        /// Whether a person's Test asked for it.
        test: bool,
    },
    /// `credentials.rs`: `extend`.
    Extend {
        /// Which row.
        row: Id,
        /// Ticks to the lease's new end.
        lease_left: i8,
    },
    /// `credentials.rs`: `store_rotation`.
    Store(Rotation),
    /// `exchanges.rs`: `close_exchange`.
    Close {
        /// Which row.
        row: Id,
        /// Its version.
        version: u8,
        /// The marks, if any.
        marks: Option<Marks>,
    },
    /// `exchanges.rs`: `close_lost`.
    CloseLost {
        /// Which row.
        row: Id,
    },
    /// `health.rs`: `declare_failed`, with the row of the exchange.
    Fail {
        /// Which row.
        row: Id,
        /// The version that was refused.
        version: u8,
        /// The set that was refused, for the properties.
        token: Token,
        /// Whether the reason is that an answer was lost.
        response_lost: bool,
    },
    /// `health.rs`: `declare_healed`.
    Heal {
        /// The version whose test call passed.
        version: u8,
    },
}

/// What a statement answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It has done its work.
    Done,
    /// It has changed nothing.
    Nothing,
    /// Another row is open.
    Other(Row),
    /// Somebody newer wrote.
    Superseded,
    /// The connector was disconnected.
    Gone,
}

/// What the properties have to know of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    /// Nothing of interest.
    Nothing,
    /// A success was stored; over which set.
    Stored(Rotation, Token),
    /// A connector failed over this set, with this reason.
    Failed(Token, Reason),
    /// A row was closed in its owner's place; whether that one counted as alive.
    Relieved(Id, bool),
}

impl Database {
    /// A connected connector whose access token is over.
    #[expect(clippy::new_without_default, reason = "no state of a database is its natural one")]
    pub fn new() -> Self {
        Self {
            version: 1,
            token: 1,
            health: Health::Connected,
            expires: 0,
            retry: LONG_AGO,
            failures: false,
            answer_lost: false,
            response_lost: false,
            extras: 0,
            sequence: 0,
            ever: 1 << 1,
            lease: LeaseRow::default(),
            row: None,
        }
    }

    /// Executes a statement.
    pub fn execute(&mut self, statement: Statement, bounds: &Bounds, mutant: Option<Mutant>) -> (Reply, Wrote) {
        let done = |changed| (if changed { Reply::Done } else { Reply::Nothing }, Wrote::Nothing);
        match statement {
            Statement::Acquire { id } => {
                let free = self.lease.left <= 0;
                if free {
                    self.lease = LeaseRow { id, left: bounds.lease() };
                }
                done(free)
            }
            Statement::Renew(id) => {
                let held = self.lease.id == id && self.lease.left > 0;
                if held {
                    self.lease.left = bounds.lease();
                }
                done(held)
            }
            Statement::Release(id) => {
                let ours = self.lease.id == id || mutant == Some(Mutant::UnconditionalRelease);
                if ours {
                    self.lease.left = 0;
                }
                done(ours)
            }
            Statement::Begin { row, holder, version, lease_left, test } => {
                let usable = self.health == Health::Connected || (self.health == Health::AuthFailed && test);
                let same = self.version == version || mutant == Some(Mutant::NoReread);
                if !same || !usable || self.token == 0 {
                    return (Reply::Nothing, Wrote::Nothing);
                }
                if let Some(open) = self.row {
                    return (Reply::Other(open), Wrote::Nothing);
                }
                let alive_left = if holder.is_some() { ALIVE } else { 0 };
                self.row = Some(Row { id: row, holder, lease_left, alive_left, version });
                done(true)
            }
            Statement::Extend { row, lease_left } => {
                if let Some(open) = self.row.as_mut().filter(|open| open.id == row) {
                    open.lease_left = lease_left;
                }
                done(true)
            }
            Statement::Store(rotation) => self.store(rotation, mutant),
            Statement::Close { row, version, marks } => {
                self.close(row, version, marks);
                done(true)
            }
            Statement::CloseLost { row } => {
                let any = matches!(mutant, Some(Mutant::ReliefWithoutJournalRule | Mutant::ReliefOnOldLook));
                let lost = |open: &Row| open.id == row && (open.alive_left == 0 || any);
                let Some(open) = self.row.filter(lost) else { return done(false) };
                if self.version == open.version && mutant != Some(Mutant::ReliefForgetsAnswer) {
                    self.answer_lost = true;
                }
                self.row = None;
                (Reply::Done, Wrote::Relieved(row, open.alive_left > 0))
            }
            Statement::Fail { row, version, token, response_lost } => {
                let reason = if response_lost { Reason::ResponseLost } else { Reason::RefreshRefused };
                let current = self.version == version || mutant == Some(Mutant::FailureWithoutVersion);
                let failed = current && self.token != 0 && self.change(Event::Refused);
                self.response_lost |= failed && response_lost;
                self.close(row, version, None);
                (Reply::Done, if failed { Wrote::Failed(token, reason) } else { Wrote::Nothing })
            }
            Statement::Heal { version } => {
                // A person's act may have come first: only a failed one heals.
                done(self.version == version && self.health == Health::AuthFailed && self.change(Event::LateSuccess))
            }
        }
    }

    fn store(&mut self, rotation: Rotation, mutant: Option<Mutant>) -> (Reply, Wrote) {
        let lapsed = mutant == Some(Mutant::DropsWhatIsLate) && self.row.is_none_or(|open| open.id != rotation.row);
        let same = self.version == rotation.version || mutant == Some(Mutant::UnconditionalWrite);
        if !lapsed && same && self.token != 0 {
            let over = self.token;
            self.put(rotation.token, rotation.expires);
            if mutant == Some(Mutant::ExtrasInTokenRow) {
                self.extras = rotation.extras;
            }
            self.close(rotation.row, rotation.version, None);
            return (Reply::Done, Wrote::Stored(rotation, over));
        }
        let open = self.row.is_some_and(|open| open.id == rotation.row);
        if self.ever & (1 << rotation.token) != 0 && !open {
            // The answer to that commit was lost, and we were called again.
            let reply = match (self.token, self.version == rotation.version + 1) {
                (0, _) => Reply::Gone,
                (_, true) => Reply::Done,
                (_, false) => Reply::Superseded,
            };
            return (reply, Wrote::Nothing);
        }
        self.close(rotation.row, rotation.version, None);
        (if self.token == 0 { Reply::Gone } else { Reply::Superseded }, Wrote::Nothing)
    }

    /// `grants.rs`: `store_grant`. False: a later consent is stored already.
    pub fn store_grant(&mut self, token: Token, sequence: u8, bounds: &Bounds) -> bool {
        if self.sequence >= sequence {
            return false;
        }
        self.sequence = sequence;
        self.put(token, bounds.life.unwrap_or(NEVER));
        self.change(Event::Authorized);
        true
    }

    /// `grants.rs`: `disconnect`. Answers what was held.
    pub fn disconnect(&mut self) -> Token {
        let held = self.token;
        self.token = 0;
        self.expires = LONG_AGO;
        self.retry = LONG_AGO;
        self.failures = false;
        self.answer_lost = false;
        self.change(Event::Disconnected);
        held
    }

    /// `incidents.rs`: `withdraw_verdict`.
    pub fn withdraw(&mut self, mutant: Option<Mutant>) {
        let lost = self.response_lost && mutant != Some(Mutant::WithdrawalForgetsAnswer);
        if self.change(Event::Withdrawn) {
            self.retry = 1;
            self.answer_lost |= lost;
        }
    }

    /// `WriteSecret`: one version more, marks are cleared.
    fn put(&mut self, token: Token, expires: i8) {
        self.version += 1;
        self.token = token;
        self.ever |= 1 << token;
        self.expires = expires;
        self.retry = LONG_AGO;
        self.failures = false;
        self.answer_lost = false;
    }

    /// `close_with_marks`.
    fn close(&mut self, row: Id, version: u8, marks: Option<Marks>) {
        if let Some(marks) = marks
            && self.version == version
            && self.token != 0
        {
            self.retry = marks.retry;
            self.failures = true;
            self.answer_lost |= marks.answer_lost;
        }
        if self.row.is_some_and(|open| open.id == row) {
            self.row = None;
        }
    }

    /// [`Health::next`]. Whether health changed.
    fn change(&mut self, event: Event) -> bool {
        let (to, _) = self.health.next(event);
        self.response_lost &= to == Health::AuthFailed;
        std::mem::replace(&mut self.health, to) != to
    }

    /// Time passes; `speaks`: whether a replica's sign of life reaches us.
    pub fn tick(&mut self, bounds: &Bounds, speaks: impl Fn(u8) -> bool) {
        self.lease.left = (self.lease.left - 1).max(0);
        sooner(&mut self.expires);
        sooner(&mut self.retry);
        if let Some(row) = &mut self.row {
            row.lease_left = (row.lease_left - 1).max(-bounds.orphan_wait());
            let alive = row.holder.is_some_and(&speaks);
            row.alive_left = if alive { ALIVE } else { (row.alive_left - 1).max(0) };
        }
    }
}

/// One tick less until a moment.
pub(crate) fn sooner(left: &mut i8) {
    if *left != NEVER {
        *left = (*left - 1).max(LONG_AGO);
    }
}
