//! A flight's steps, in the order and with the conditions of `core/src/refresh/flight.rs` and `flight/steps.rs`. What is
//! decided is asked of the runtime's own functions.

use holdfast_core::health::Health;

use crate::{
    bounds::{Bounds, ticks},
    database::{Id, NEVER, Reply, Rotation, Statement},
    decisions::{self, Answer, Follows, Look, Want},
    mutant::Mutant,
    properties::Property,
    replica::{At, Flight, Held, Mode, Read, Then, Work},
    world::World,
};

/// A name that nobody has yet.
const NEW: Id = 3;

/// What becomes of the statement of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is executed and answered.
    Well,
    /// It is executed, but the answer is lost.
    Unheard,
    /// The answer is lost, and it is executed later, or never.
    Late,
}

/// The answer to a statement is lost, or there is no line.
#[derive(Clone, Copy)]
struct Unknown;

impl World {
    /// Somebody asks for a token, and a flight begins.
    pub(crate) fn start(&mut self, r: usize, want: Want, mutant: Option<Mutant>) {
        let known = (mutant == Some(Mutant::NoReread)).then(|| self.read());
        let at = match want {
            // Test asks the provider about a living token of a failed connector at once.
            Want::Revived if self.look(r, want) == Look::Serve => At::Prove(0, self.db.version, self.db.token),
            _ => At::Acquire,
        };
        self.replicas[r].flight = Some(Flight { want, age: 0, at, known });
    }

    /// The next step of a flight.
    pub(crate) fn step(&mut self, r: usize, fate: Fate, bounds: &Bounds, mutant: Option<Mutant>) {
        let Some(flight) = self.replicas[r].flight else { return };
        let run = |world: &mut Self, statement| world.run(r, statement, fate, bounds, mutant);
        let next = match flight.at {
            At::Acquire => match run(self, Statement::Acquire { id: NEW }) {
                Ok(Reply::Done) => Some(At::Reread(Held { id: NEW, left: bounds.lease() })),
                Ok(_) => self.wait(&flight, bounds, mutant),
                Err(Unknown) => None,
            },
            At::Wait => match self.load(r) {
                Some(_) => (self.look(r, flight.want) == Look::Refresh).then_some(At::Acquire),
                None => None,
            },
            At::Reread(held) => Some(self.reread(r, &flight, held)),
            At::Begin(held, read) => {
                let holder = u8::try_from(r).ok();
                let (version, lease_left) = (read.version, held.left);
                let test = flight.want == Want::Revived;
                match run(self, Statement::Begin { row: NEW, holder, version, lease_left, test }) {
                    Ok(Reply::Done) => Some(Self::ready(Work::new(held, NEW, read), bounds)),
                    Ok(Reply::Other(row)) => {
                        let left = bounds.wait_bound() - flight.age;
                        Some(match decisions::orphan(&row, left, bounds) {
                            None => At::Relieve(held, row.id),
                            Some(too_long) if too_long && left > 0 => At::GiveBack(held.id, Then::End),
                            Some(_) => At::GiveBack(held.id, Then::Wait),
                        })
                    }
                    Ok(_) => Some(At::GiveBack(held.id, Then::End)),
                    Err(Unknown) if mutant == Some(Mutant::LeavesUnknownRow) => Some(At::GiveBack(held.id, Then::End)),
                    Err(Unknown) => Some(At::Close { lease: held.id, row: NEW, version, marks: None }),
                }
            }
            At::Relieve(held, row) => {
                let closed = run(self, Statement::CloseLost { row });
                Some(At::GiveBack(held.id, if closed.is_ok() { Then::Again } else { Then::End }))
            }
            At::Renew(work) => match run(self, Statement::Renew(work.held.id)) {
                Ok(Reply::Done) => Some(At::Extend(Work { held: Held { left: bounds.lease(), ..work.held }, ..work })),
                Ok(_) | Err(Unknown) => Some(work.not_sent(bounds)),
            },
            At::Extend(work) => match run(self, Statement::Extend { row: work.row, lease_left: work.held.left }) {
                Ok(_) if decisions::may_send(work.held.left, work.first, bounds) => {
                    Some(At::Send(Work { stalled: false, ..work }))
                }
                Ok(_) | Err(Unknown) => Some(work.not_sent(bounds)),
            },
            At::Send(work) => {
                self.judge_request(r, &work);
                Some(At::Sent(Work { first: false, ..work }, 0))
            }
            At::Sent(..) => return,
            At::Answered(work, _, answer) => Some(self.follow(r, flight.want, work, answer, bounds)),
            At::Confirm(work) => Some(match self.load(r) {
                Some(read) if read.version == work.read.version && read.token != 0 => {
                    let again = read.answer_lost && mutant != Some(Mutant::JudgesByOldRead);
                    let answer_lost = work.done.answer_lost || again;
                    let done = decisions::Done { answer_lost, ..work.done };
                    Self::ready(Work { read, done, overtaken: false, ..work }, bounds)
                }
                _ => work.not_sent(bounds),
            }),
            At::Store { lease, rotation, excused, .. } => {
                let stored = run(self, Statement::Store(rotation));
                Some(self.store(lease, rotation, excused, stored))
            }
            At::Close { lease, row, version, marks } => {
                let close = Statement::Close { row, version, marks };
                if run(self, close).is_err() {
                    self.replicas[r].beside = Some(close);
                }
                Some(At::GiveBack(lease, Then::End))
            }
            At::Fail { lease, row, version, token, response_lost } => {
                let fail = Statement::Fail { row, version, token, response_lost };
                if run(self, fail).is_err() {
                    self.replicas[r].beside = Some(fail);
                }
                Some(At::GiveBack(lease, Then::End))
            }
            At::Prove(lease, version, token) => Some(if self.provider.accepts(token) {
                At::Heal(lease, version)
            } else {
                At::GiveBack(lease, Then::End)
            }),
            At::Heal(lease, version) => match run(self, Statement::Heal { version }) {
                Ok(_) => Some(At::GiveBack(lease, Then::End)),
                Err(Unknown) => Some(flight.at),
            },
            At::GiveBack(lease, then) => {
                // Whether it worked or not: a lease ends by itself.
                run(self, Statement::Release(lease)).ok();
                match then {
                    Then::End => None,
                    Then::Again => Some(At::Acquire),
                    Then::Wait => self.wait(&flight, bounds, mutant),
                }
            }
        };
        self.replicas[r].flight = next.map(|at| Flight { at, ..flight });
    }

    /// Somebody else has the lease or a row: wait, if there is time.
    fn wait(&mut self, flight: &Flight, bounds: &Bounds, mutant: Option<Mutant>) -> Option<At> {
        if flight.age < bounds.wait_bound() {
            return Some(At::Wait);
        }
        if mutant == Some(Mutant::WaitsForEver) {
            self.broken.note(Property::Bounded, true);
            return Some(At::Wait);
        }
        None
    }

    fn reread(&self, r: usize, flight: &Flight, held: Held) -> At {
        let Some(mut read) = self.load(r) else { return At::GiveBack(held.id, Then::End) };
        let mut look = self.look(r, flight.want);
        if let Some(known) = flight.known {
            (read, look) = (known, Look::Refresh);
        }
        match look {
            Look::Refresh => At::Begin(held, read),
            Look::Serve if flight.want == Want::Revived && self.db.health == Health::AuthFailed => {
                At::Prove(held.id, read.version, read.token)
            }
            Look::Serve | Look::Stop | Look::Prove => At::GiveBack(held.id, Then::End),
        }
    }

    /// A load from the database; `None`: there is no line.
    fn load(&self, r: usize) -> Option<Read> {
        (self.replicas[r].mode == Mode::Up).then(|| self.read())
    }

    /// Looks at the lease before a request.
    fn ready(work: Work, bounds: &Bounds) -> At {
        if decisions::may_send(work.held.left, work.first, bounds) {
            At::Send(Work { stalled: false, ..work })
        } else {
            At::Renew(work)
        }
    }

    /// What follows from an answer. Each further request has a reason that can come once.
    fn follow(&mut self, r: usize, want: Want, work: Work, answer: Answer, bounds: &Bounds) -> At {
        let next = self.decide(r, want, work, answer, bounds);
        if let At::Confirm(again) | At::Send(again) | At::Renew(again) = next {
            self.broken.note(Property::Bounded, again.done == work.done);
        }
        next
    }

    fn decide(&mut self, r: usize, want: Want, work: Work, answer: Answer, bounds: &Bounds) -> At {
        let skew = self.replicas[r].skew;
        let rejected = want == Want::Not(work.read.token);
        // What is left of a token that may be served meanwhile.
        let left = Some(self.db.expires).filter(|left| !rejected && *left != NEVER && *left - skew > 0);
        let lease = work.held.id;
        let Read { version, token, .. } = work.read;
        let again = |done: decisions::Done| Work { done, ..work };
        match decisions::after(answer, work.done, left.map(|left| left - skew), work.read.failures, bounds) {
            Follows::Store(new) => {
                let expires = bounds.life.map_or(NEVER, |life| life + skew);
                let rotation =
                    Rotation { row: work.row, version, from: token, token: new, extras: work.read.extras, expires };
                At::Store { lease, rotation, tried: false, excused: work.stalled || work.relieved }
            }
            Follows::Confirm => At::Confirm(again(decisions::Done { confirming: true, ..work.done })),
            Follows::NextSecret => Self::ready(again(decisions::Done { on_next_secret: true, ..work.done }), bounds),
            Follows::Replay => {
                Self::ready(again(decisions::Done { replayed: true, answer_lost: true, ..work.done }), bounds)
            }
            Follows::Close(marks) => {
                self.broken.note(Property::Bounded, marks.retry <= 0);
                let marks = Some(crate::database::Marks { retry: marks.retry + skew, ..marks });
                At::Close { lease, row: work.row, version, marks }
            }
            Follows::Fail(response_lost) => At::Fail { lease, row: work.row, version, token, response_lost },
        }
    }

    fn store(&mut self, lease: Id, rotation: Rotation, excused: bool, stored: Result<Reply, Unknown>) -> At {
        match stored {
            Err(Unknown) => At::Store { lease, rotation, tried: true, excused },
            Ok(Reply::Done) if self.db.health == Health::AuthFailed => {
                At::Prove(lease, rotation.version + 1, rotation.token)
            }
            Ok(reply) => {
                self.dropped(rotation);
                if reply == Reply::Gone {
                    self.provider.revoke(rotation.token);
                }
                At::GiveBack(lease, Then::End)
            }
        }
    }

    /// The token endpoint takes the request and answers.
    pub(crate) fn arrive(&mut self, r: usize, mood: Option<Answer>, bounds: &Bounds) {
        let Some(Flight { at: At::Sent(work, waited), .. }) = self.replicas[r].flight else { return };
        let answer = mood.unwrap_or_else(|| match self.provider.present(work.read.token, bounds) {
            Some(token) => Answer::Rotated(token),
            None => Answer::Rejected,
        });
        self.replace(r, At::Answered(work, waited, answer));
    }

    /// No answer comes any more; `late`: but the request will arrive.
    pub(crate) fn give_up(&mut self, r: usize, late: bool, bounds: &Bounds) {
        let Some(flight) = self.replicas[r].flight else { return };
        let (At::Sent(work, _) | At::Answered(work, ..)) = flight.at else { return };
        if late {
            self.late = Some(crate::world::Late { token: work.read.token, lease: 0 });
        }
        let next = self.follow(r, flight.want, work, Answer::None, bounds);
        self.replace(r, next);
    }

    /// The verdict is held: the row closes without one.
    pub(crate) fn hold_verdict(&mut self, r: usize) {
        let Some(Flight { at: At::Fail { lease, row, version, response_lost, .. }, .. }) = self.replicas[r].flight
        else {
            return;
        };
        let marks = Some(crate::database::Marks { retry: 1, answer_lost: response_lost });
        self.replace(r, At::Close { lease, row, version, marks });
    }

    /// What could not be stored is put into the lifeboat, on disk.
    pub(crate) fn fsync(&mut self, r: usize) {
        if let Some(Flight { at: At::Store { rotation, .. }, .. }) = self.replicas[r].flight {
            self.replicas[r].lifeboat = Some(rotation);
        }
    }

    /// What the lifeboat holds is stored by the same conditional write.
    pub(crate) fn drain(&mut self, r: usize, fate: Fate, bounds: &Bounds, mutant: Option<Mutant>) {
        let Some(rotation) = self.replicas[r].lifeboat else { return };
        if let Ok(reply) = self.run(r, Statement::Store(rotation), fate, bounds, mutant) {
            self.replicas[r].lifeboat = None;
            self.dropped(rotation);
            if reply == Reply::Gone {
                self.provider.revoke(rotation.token);
            }
            let free = self.replicas[r].flight.is_none();
            if reply == Reply::Done && self.db.health == Health::AuthFailed && free {
                let at = At::Prove(0, rotation.version + 1, rotation.token);
                self.replicas[r].flight = Some(Flight { want: Want::Valid, age: 0, at, known: None });
            }
        }
    }

    /// What is repeated beside the flight.
    pub(crate) fn beside(&mut self, r: usize, fate: Fate, bounds: &Bounds, mutant: Option<Mutant>) {
        let Some(statement) = self.replicas[r].beside else { return };
        if self.run(r, statement, fate, bounds, mutant).is_ok() {
            self.replicas[r].beside = None;
        }
    }

    /// A statement that its sender has given up is executed.
    pub(crate) fn execute_late(&mut self, bounds: &Bounds, mutant: Option<Mutant>) {
        if let Some(statement) = self.limbo.take() {
            let (_, wrote) = self.db.execute(statement, bounds, mutant);
            self.note(wrote, true);
        }
    }

    fn run(
        &mut self,
        r: usize,
        statement: Statement,
        fate: Fate,
        bounds: &Bounds,
        mutant: Option<Mutant>,
    ) -> Result<Reply, Unknown> {
        if self.replicas[r].mode != Mode::Up {
            return Err(Unknown);
        }
        if fate != Fate::Well {
            self.left.blind -= 1;
        }
        if fate == Fate::Late {
            self.limbo = Some(statement);
            return Err(Unknown);
        }
        if let (Statement::Close { row, .. } | Statement::Fail { row, .. }, Some(Statement::Begin { row: late, .. })) =
            (statement, self.limbo)
            && row == late
            && mutant != Some(Mutant::LateOpening)
        {
            // A row that is not there is written as closed: the late opening finds its place taken.
            self.limbo = None;
        }
        let (reply, wrote) = self.db.execute(statement, bounds, mutant);
        self.note(wrote, false);
        if fate == Fate::Well { Ok(reply) } else { Err(Unknown) }
    }

    fn replace(&mut self, r: usize, at: At) {
        if let Some(flight) = &mut self.replicas[r].flight {
            flight.at = at;
        }
    }

    /// I1, at the moment of a request.
    fn judge_request(&mut self, r: usize, work: &Work) {
        let token = work.read.token;
        let over = |lease: Id| lease == 0 || lease != self.db.lease.id || self.db.lease.left == 0;
        let another = (0..self.replicas.len()).filter(|other| *other != r).any(|other| {
            match self.replicas[other].flight.map(|flight| flight.at) {
                Some(At::Sent(running, _)) => {
                    let excused = running.stalled && (running.relieved || over(running.held.id));
                    running.read.token == token && !excused
                }
                _ => false,
            }
        });
        let crashed = self.late.is_some_and(|late| late.token == token && !over(late.lease));
        // A process that stands still between its look at the lease and the wire sends whenever it wakes.
        let late = work.stalled && (work.relieved || over(work.held.id));
        self.broken.note(Property::OneAtATime, (another || crashed) && !late);

        let stored = (1..=self.provider.count())
            .any(|other| self.provider.get(other).parent == token && self.db.ever & (1 << other) != 0);
        let at_hand = self.replicas[r].lifeboat.is_some_and(|rotation| rotation.from == token);
        self.broken.note(Property::NoneSpent, (stored && !work.stalled && !work.overtaken) || at_hand);
        self.broken.note(Property::UnderLease, !work.stalled && over(work.held.id));
    }
}

impl Work {
    fn new(held: Held, row: Id, read: Read) -> Self {
        let done = decisions::Done { answer_lost: read.answer_lost, ..decisions::Done::default() };
        Self { held, row, read, done, first: true, stalled: false, relieved: false, overtaken: false }
    }

    /// Closes the row without a request; an answer that was lost on the way stays lost.
    fn not_sent(self, bounds: &Bounds) -> At {
        let retry = ticks(bounds.settings.backoff_base);
        let marks = self.done.answer_lost.then_some(crate::database::Marks { retry, answer_lost: true });
        At::Close { lease: self.held.id, row: self.row, version: self.read.version, marks }
    }
}
