//! The model's database does what this store does: seeded walks of statements on both, in any order, compared at each step.

use std::{collections::HashSet, sync::Arc};

use holdfast_core::{
    AppId, ConnectorId, Secret, Snapshot, Version,
    credential::{Reason, Trouble},
    health::Event,
    ports::{
        Acquired, Begun, Changed, Close, CredentialStore as _, Exchange, Failure, Lease, LeaseStore as _, Loss, Marks,
        Stored, Trigger,
    },
    refresh::OutcomeKind,
};
use holdfast_model::{
    Bounds, Mutant,
    bounds::{TICK, ticks},
    database::{self, Database, LONG_AGO, NEVER, Reply, Statement, Wrote},
};
use holdfast_store::{Grant, Granted, Store};
use secrecy::ExposeSecret as _;

use crate::harness::{TestDatabase, close, connect, exchange, load, moment, on_both, refusal, rotation, tokens};

on_both! {
    any_order_of_statements_ends_as_the_model_says,
}

const WALKS: u64 = 12;
const STEPS: u32 = 70;
/// The model counts sets in a few bits.
const SETS: u8 = 14;
const HOLDERS: [&str; 2] = ["one", "two"];

async fn any_order_of_statements_ends_as_the_model_says(db: Arc<TestDatabase>) {
    let met = walk_all(&db, None).await;

    for what in ["acquire", "renew", "release", "begin", "store", "close lost", "fail", "heal", "withdraw", "grant"] {
        for changed in [true, false] {
            assert!(met.contains(&(what, changed)), "never met: {what}, {changed}");
        }
    }
}

/// The model's word is worth something only if another one is contradicted.
#[tokio::test]
async fn each_fault_of_a_transaction_shows_on_some_walk() {
    let faults = [
        Mutant::UnconditionalWrite,
        Mutant::UnconditionalRelease,
        Mutant::FailureWithoutVersion,
        Mutant::NoReread,
        Mutant::ReliefOnOldLook,
        Mutant::ReliefForgetsAnswer,
        Mutant::WithdrawalForgetsAnswer,
    ];
    for fault in faults {
        let db = Arc::new(TestDatabase::sqlite());
        let walks = tokio::spawn(async move { walk_all(&db, Some(fault)).await });
        assert!(walks.await.is_err_and(|end| end.is_panic()), "no walk contradicts: {}", fault.name());
    }
}

/// What was met on the way: each kind of statement, and whether it changed something.
async fn walk_all(db: &TestDatabase, fault: Option<Mutant>) -> HashSet<(&'static str, bool)> {
    let store = db.store().await;
    for holder in HOLDERS {
        let sql =
            format!("INSERT INTO replicas (id, seen_at_ms) VALUES ('{holder}', {}) ON CONFLICT DO NOTHING", now(db));
        db.execute(&sql).await;
    }
    let mut met = HashSet::new();
    for seed in 1..=WALKS {
        let (_, connector) = connect(&store, &format!("walk{seed}")).await;
        Walk::new(db, &store, &connector, seed, fault).await.go(&mut met).await;
    }
    met
}

/// The database's clock, as SQL.
fn now(db: &TestDatabase) -> &'static str {
    if db.is_sqlite() {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    } else {
        "(extract(epoch from clock_timestamp()) * 1000)::bigint"
    }
}

struct Walk<'a> {
    db: &'a TestDatabase,
    store: &'a Store,
    model: Database,
    fault: Option<Mutant>,
    bounds: Bounds,
    first: Snapshot,
    /// Every lease that was ever acquired, with what its holder believes to be left.
    leases: Vec<(Lease, i8)>,
    /// Every exchange, its row in the model being its place, from 1.
    exchanges: Vec<Exchange>,
    sequence: u8,
    random: u64,
}

impl<'a> Walk<'a> {
    async fn new(
        db: &'a TestDatabase,
        store: &'a Store,
        connector: &ConnectorId,
        seed: u64,
        fault: Option<Mutant>,
    ) -> Self {
        Self {
            db,
            store,
            model: Database::new(),
            fault,
            bounds: Bounds::new("a walk"),
            first: load(store, connector).await,
            leases: Vec::new(),
            exchanges: Vec::new(),
            sequence: 0,
            random: seed,
        }
    }

    async fn go(mut self, met: &mut HashSet<(&'static str, bool)>) {
        for step in 0..STEPS {
            let Some((what, changed)) = self.step().await else { continue };
            met.insert((what, changed));
            let is = load(self.store, &self.first.connector).await;
            let (model, credential) = (&self.model, &is.credential);
            let place = format!("seed {:x}, step {step}, after {what}", self.random);
            assert_eq!(credential.version, Version(i64::from(model.version)), "{place}");
            assert_eq!(is.health, model.health, "{place}");
            assert_eq!(credential.answer_lost, model.answer_lost, "{place}");
            assert_eq!(credential.backoff.failures > 0, model.failures, "{place}");
            let token = credential.secret.bearer().map(|token| token.expose_secret().to_owned());
            assert_eq!(token, mark(model.token).map(|mark| format!("access-{mark}")), "{place}");
            let open = format!(
                "SELECT COUNT(*) FROM exchanges WHERE closed_at IS NULL AND credential_id = '{}'",
                self.first.credential.id
            );
            assert_eq!(self.db.number(&open).await, i64::from(model.row.is_some()), "{place}");
        }
    }

    /// Does one thing to both. `None`: it has nothing to do it with.
    async fn step(&mut self) -> Option<(&'static str, bool)> {
        let credential = self.first.credential.id.clone();
        match self.pick(16) {
            0 | 1 => self.tick().await,
            2..=4 => {
                let holder = HOLDERS[self.pick(2)];
                let id = u8::try_from(self.leases.len() + 1).unwrap();
                let won = match self.store.acquire(&credential, holder, self.bounds.settings.lease).await.unwrap() {
                    Acquired::Yes(lease) => {
                        self.leases.push((lease, ticks(self.bounds.settings.lease)));
                        true
                    }
                    Acquired::Held { .. } => false,
                };
                Some(self.agree("acquire", Statement::Acquire { id }, won))
            }
            5 => {
                let at = self.a_lease()?;
                let renewed = self.store.renew(&self.leases[at].0, self.bounds.settings.lease).await.unwrap();
                let held = renewed.is_some();
                if let Some(lease) = renewed {
                    self.leases[at] = (lease, ticks(self.bounds.settings.lease));
                }
                Some(self.agree("renew", Statement::Renew(name(at)), held))
            }
            6 => {
                let at = self.a_lease()?;
                self.store.release(&self.leases[at].0).await.unwrap();
                let (reply, _) = self.execute(Statement::Release(name(at)));
                Some(("release", reply == Reply::Done))
            }
            7..=9 => self.begin().await,
            10 => {
                let (lease, row) = (self.a_lease()?, self.a_row()?);
                let (lease, left) = self.leases[lease].clone();
                self.store.extend(&self.exchanges[row].id, &lease).await.unwrap();
                self.execute(Statement::Extend { row: name(row), lease_left: left });
                Some(("extend", true))
            }
            11 => {
                let row = self.a_row()?;
                let set = name(row) + 1;
                let exchange = &self.exchanges[row];
                let stored = self.store.store_rotation(exchange, &rotation(&mark(set)?)).await.unwrap();
                let rotation = database::Rotation {
                    row: name(row),
                    version: u8::try_from(exchange.version.0).unwrap(),
                    from: 0,
                    token: set,
                    extras: 0,
                    expires: NEVER,
                };
                let (reply, _) = self.execute(Statement::Store(rotation));
                let same = matches!(
                    (&stored, reply),
                    (Stored::Yes(_), Reply::Done)
                        | (Stored::Superseded, Reply::Superseded)
                        | (Stored::Gone, Reply::Gone)
                );
                assert!(same, "{stored:?} and {reply:?}");
                Some(("store", reply == Reply::Done))
            }
            12 => self.close().await,
            13 => {
                let row = self.a_row()?;
                let closed = self.store.close_lost(&self.exchanges[row].id, Loss::Silent, moment(300)).await.unwrap();
                Some(self.agree("close lost", Statement::CloseLost { row: name(row) }, closed == Changed::Yes))
            }
            14 => self.verdict().await,
            _ => self.person().await,
        }
    }

    async fn tick(&mut self) -> Option<(&'static str, bool)> {
        let speaks = [self.pick(2) == 0, self.pick(2) == 0];
        let ms = TICK.as_millis();
        let (credential, now) = (&self.first.credential.id, now(self.db));
        let mut sql = vec![
            format!("UPDATE leases SET expires_at_ms = expires_at_ms - {ms} WHERE credential_id = '{credential}'"),
            format!(
                "UPDATE exchanges SET lease_expires_at_ms = lease_expires_at_ms - {ms} WHERE credential_id = '{credential}'"
            ),
        ];
        for (holder, speaks) in HOLDERS.iter().zip(speaks) {
            let seen = if speaks { now.to_owned() } else { format!("seen_at_ms - {ms}") };
            sql.push(format!("UPDATE replicas SET seen_at_ms = {seen} WHERE id = '{holder}'"));
        }
        self.db.execute(&sql.join(";")).await;
        for (lease, left) in &mut self.leases {
            lease.expires_at_ms -= i64::try_from(ms).unwrap();
            *left -= 1;
        }
        self.model.tick(&self.bounds, |holder| speaks[usize::from(holder)]);
        Some(("tick", true))
    }

    async fn begin(&mut self) -> Option<(&'static str, bool)> {
        let at = self.a_lease()?;
        if self.exchanges.len() + 2 > usize::from(SETS) {
            return None;
        }
        let (lease, left) = self.leases[at].clone();
        // The current version, or an older one.
        let version = self.model.version.saturating_sub(u8::from(self.pick(4) == 0)).max(1);
        let test = self.pick(3) == 0;
        let mut exchange = exchange(&self.first, &lease, &format!("{}_{}", self.exchanges.len(), self.random));
        exchange.version = Version(i64::from(version));
        exchange.trigger = if test { Trigger::Test } else { Trigger::Caller };
        // Who opens a row has just been heard: without that the model's holder may be known to be dead from the start.
        let holder = HOLDERS.iter().position(|holder| *holder == lease.holder).unwrap();
        let seen = format!("UPDATE replicas SET seen_at_ms = {} WHERE id = '{}'", now(self.db), lease.holder);
        if self.model.row.is_none() {
            self.db.execute(&seen).await;
        }
        let begun = self.store.begin(&exchange).await.unwrap();
        let row = u8::try_from(self.exchanges.len() + 1).unwrap();
        let holder = u8::try_from(holder).ok();
        let (reply, _) = self.execute(Statement::Begin { row, holder, version, lease_left: left, test });
        match (&begun, reply) {
            (Begun::Yes, Reply::Done) => self.exchanges.push(exchange),
            (Begun::Moved, Reply::Nothing) => {}
            (Begun::Other(open), Reply::Other(row)) => {
                assert_eq!(open.id, self.exchanges[usize::from(row.id) - 1].id);
                assert_eq!(open.holder_alive, row.alive_left > 0, "{open:?} and {row:?}");
                let over = i8::try_from(open.lease_over_for.as_millis() / TICK.as_millis()).unwrap();
                assert_eq!(over.min(1), (-row.lease_left).clamp(0, 1), "{open:?} and {row:?}");
            }
            other => panic!("{other:?}"),
        }
        Some(("begin", reply == Reply::Done))
    }

    async fn close(&mut self) -> Option<(&'static str, bool)> {
        let row = self.a_row()?;
        let marks = (self.pick(2) == 0).then_some(self.pick(2) == 0);
        let exchange = &self.exchanges[row];
        let close = Close {
            marks: marks.map(|answer_lost| Marks {
                trouble: Trouble::Ambiguous,
                retry_at: moment(400),
                failures: 1,
                answer_lost,
            }),
            ..close(OutcomeKind::Ambiguous)
        };
        self.store.close(exchange, &close).await.unwrap();
        let version = u8::try_from(exchange.version.0).unwrap();
        let marks = marks.map(|answer_lost| database::Marks { retry: LONG_AGO, answer_lost });
        self.execute(Statement::Close { row: name(row), version, marks });
        Some(("close", true))
    }

    async fn verdict(&mut self) -> Option<(&'static str, bool)> {
        if self.pick(3) == 0 {
            let version = self.model.version.saturating_sub(u8::from(self.pick(3) == 0)).max(1);
            let (id, at) = (&self.first.connector, moment(350));
            let healed = self.store.heal(id, Version(i64::from(version)), Event::LateSuccess, at).await.unwrap();
            return Some(self.agree("heal", Statement::Heal { version }, healed == Changed::Yes));
        }
        let row = self.a_row()?;
        let exchange = &self.exchanges[row];
        let failure = Failure { reason: Reason::ResponseLost, ..refusal(exchange.version) };
        let closing = (exchange, &close(OutcomeKind::Rejected));
        let failed = self.store.fail(&exchange.credential, &failure, Some(closing)).await.unwrap();
        let version = u8::try_from(exchange.version.0).unwrap();
        let (_, wrote) = self.execute(Statement::Fail { row: name(row), version, token: 0, response_lost: true });
        assert_eq!(failed == Changed::Yes, matches!(wrote, Wrote::Failed(..)));
        Some(("fail", failed == Changed::Yes))
    }

    async fn person(&mut self) -> Option<(&'static str, bool)> {
        if self.pick(3) == 0 {
            let (since, retry_at, at) = (moment(0), moment(470), moment(440));
            let back = self.store.withdraw(&AppId::instance("zendesk"), since, retry_at, at).await.unwrap();
            let before = self.model.health;
            self.model.withdraw(self.fault);
            let changed = before != self.model.health;
            assert_eq!(back.contains(&self.first.connector), changed);
            return Some(("withdraw", changed));
        }
        if self.pick(4) == 0 {
            let (org, id) = (&self.first.org, &self.first.connector);
            self.store.disconnect(org, id, moment(450)).await.unwrap();
            self.model.disconnect();
            return Some(("disconnect", true));
        }
        // Sets of grants have names of their own: those of exchanges follow from their rows.
        let set = SETS + 1;
        self.sequence += u8::from(self.pick(4) > 0);
        let grant = Grant {
            connector: self.first.connector.clone(),
            sequence: i64::from(self.sequence),
            app: AppId::instance("zendesk"),
            secret: Secret::Tokens(tokens(&mark(set)?)),
            identity: None,
            extras: Vec::new(),
            due_at: None,
            at: moment(460),
            actor: None,
        };
        // The same consent once more is found to be stored, and not written again.
        let again = self.model.sequence == self.sequence;
        let granted = matches!(self.store.store_grant(&grant).await.unwrap(), Granted::Yes(_));
        let written = self.model.store_grant(set, self.sequence, &self.bounds);
        assert_eq!(granted, written || again);
        Some(("grant", written))
    }

    fn agree(&mut self, what: &'static str, statement: Statement, changed: bool) -> (&'static str, bool) {
        let (reply, _) = self.execute(statement);
        assert_eq!(reply == Reply::Done, changed, "{what}: {statement:?}");
        (what, changed)
    }

    fn execute(&mut self, statement: Statement) -> (Reply, Wrote) {
        self.model.execute(statement, &self.bounds, self.fault)
    }

    /// One that was acquired, the last ones rather.
    fn a_lease(&mut self) -> Option<usize> {
        self.late_one(self.leases.len())
    }

    fn a_row(&mut self) -> Option<usize> {
        self.late_one(self.exchanges.len())
    }

    fn late_one(&mut self, count: usize) -> Option<usize> {
        let back = if self.pick(3) == 0 { self.pick(3) } else { 0 };
        count.checked_sub(1 + back)
    }

    /// Even below `choices`; seeded.
    fn pick(&mut self, choices: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.random >> 33).unwrap() % choices
    }
}

/// The model's name of the lease or row at this place.
fn name(at: usize) -> u8 {
    u8::try_from(at + 1).unwrap()
}

/// What marks a set's tokens.
fn mark(set: u8) -> Option<String> {
    match set {
        0 => None,
        1 => Some("first".to_owned()),
        set => Some(format!("set{set}")),
    }
}
