//! Credential store, leases and signals in memory, shared by any number of replicas, each with faults of its own.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use secrecy::SecretString;
use tokio::sync::{Notify, broadcast};

use crate::{
    credential::{Backoff, Credential, Degraded, Reason, Secret, Snapshot, TokenSet, Trouble, Version},
    health::{Effect, Event, Health},
    id::{ConnectorId, CredentialId, ExchangeId, OrgId},
    oauth_app::AppId,
    ports::{
        Acquired, Begun, Changed, ClaimDue, Clock, Close, CredentialStore, DueRefresh, DueStore, Exchange, Failure,
        Holder, Incident, Lease, LeaseStore, Loss, OpenExchange, Place, Rotation, Signal, Signals, StoreError, Stored,
        Trigger,
    },
    provider::{Found, RefreshLife},
    refresh::{OutcomeKind, Settings, timing},
};

/// The operations that can be made to fail or to stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after the ports' methods")]
pub enum Op {
    Load,
    Acquire,
    Release,
    Begin,
    StoreRotation,
    Close,
    Fail,
    ClaimDue,
}

/// What the next call of an operation meets.
#[derive(Clone)]
pub enum Fault {
    /// It fails.
    Error,
    /// It is held at its start until the notify fires; the first notify says that it has arrived.
    Hold(Arc<Notify>, Arc<Notify>),
    /// It panics.
    Panic,
}

struct Row {
    exchange: Exchange,
    closed: Option<(OutcomeKind, u32)>,
}

#[derive(Default)]
struct State {
    connectors: HashMap<ConnectorId, Snapshot>,
    leases: HashMap<CredentialId, (String, i64, Duration)>,
    rows: Vec<Row>,
    effects: Vec<(ConnectorId, i64, Effect)>,
    dead: Vec<String>,
    incidents: HashMap<AppId, Incident>,
    /// Replicas that share the limits.
    alive: Vec<String>,
    /// Due moment, holder and end by the uptime.
    claims: HashMap<CredentialId, (DateTime<Utc>, String, Duration)>,
    cut_off: Vec<String>,
    spares: HashMap<CredentialId, (Version, TokenSet)>,
}

/// What all replicas share: the database.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    signals: broadcast::Sender<Signal>,
}

impl MemoryStore {
    /// Empty.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default(), signals: broadcast::channel(1024).0 })
    }

    /// One replica's view.
    pub fn replica(self: &Arc<Self>) -> Arc<Replica> {
        Arc::new(Replica { shared: Arc::clone(self), faults: Mutex::default(), hearing: Mutex::default() })
    }

    /// A connected connector with this pair, valid for `life` from now.
    pub fn connect(&self, name: &str, pair: &(String, String), life: Duration) -> ConnectorId {
        let now = self.clock.now();
        let id = ConnectorId::from(name);
        let credential = CredentialId::from(name);
        let tokens = self.tokens(pair, life);
        let snapshot = Snapshot {
            connector: id.clone(),
            org: OrgId::from("org"),
            provider: "fake".to_owned(),
            account: "acme".to_owned(),
            name: name.to_owned(),
            health: Health::Connected,
            health_reason: None,
            health_detail: None,
            health_since: now,
            epoch: 1,
            credential: Credential {
                due_at: timing::due_at(&tokens, RefreshLife::AsTold, &credential, &Settings::default()),
                id: credential,
                app: AppId::instance("fake"),
                version: Version(1),
                secret: Secret::Tokens(tokens),
                rotated_at: Some(now),
                backoff: Backoff::default(),
                degraded: None,
                answer_lost: false,
            },
        };
        self.state().connectors.insert(id.clone(), snapshot);
        id
    }

    /// A person's new grant: version and epoch grow, health is connected.
    pub fn reconnect(&self, connector: &ConnectorId, pair: &(String, String), life: Duration) {
        let tokens = self.tokens(pair, life);
        self.change(connector, |snapshot| {
            snapshot.credential.version = snapshot.credential.version.next();
            snapshot.credential.secret = Secret::Tokens(tokens);
            snapshot.credential.backoff = Backoff::default();
            snapshot.credential.answer_lost = false;
            snapshot.credential.degraded = None;
            snapshot.health = Health::Connected;
            snapshot.epoch += 1;
        });
    }

    /// An admin takes it off.
    pub fn disconnect(&self, connector: &ConnectorId) {
        self.change(connector, |snapshot| {
            snapshot.credential.secret = Secret::Absent;
            snapshot.health = Health::Disconnected;
            snapshot.epoch += 1;
        });
    }

    /// Changes a row as another writer would, and signals it.
    pub fn change(&self, connector: &ConnectorId, change: impl FnOnce(&mut Snapshot)) {
        self.change_unheard(connector, change);
        self.signal(connector);
    }

    /// The same while nobody hears it.
    pub fn change_unheard(&self, connector: &ConnectorId, change: impl FnOnce(&mut Snapshot)) {
        change(self.state().connectors.get_mut(connector).expect("the connector exists"));
    }

    /// The row as committed.
    pub fn row(&self, connector: &ConnectorId) -> Snapshot {
        self.state().connectors[connector].clone()
    }

    /// All rows.
    pub fn all(&self) -> Vec<Snapshot> {
        self.state().connectors.values().cloned().collect()
    }

    /// The outbox: connector, epoch, effect.
    pub fn effects(&self) -> Vec<(ConnectorId, i64, Effect)> {
        self.state().effects.clone()
    }

    /// The journal's outcomes, oldest first; `None`: open.
    pub fn journal(&self) -> Vec<Option<(OutcomeKind, u32)>> {
        self.state().rows.iter().map(|row| row.closed).collect()
    }

    /// Whether the lease of this credential is held by anybody.
    pub fn leased(&self, credential: &CredentialId) -> bool {
        self.state().leases.get(credential).is_some_and(|(_, _, end)| *end > self.clock.uptime())
    }

    /// The database forgets that the connector's last exchange was closed, and what it brought.
    pub fn forget_last_exchange(&self, connector: &ConnectorId) {
        let mut state = self.state();
        let row = state.rows.iter_mut().rev().find(|row| row.exchange.connector == *connector);
        let row = row.expect("there is an exchange to forget");
        row.closed = None;
        let version = row.exchange.version;
        state.connectors.get_mut(connector).expect("connectors are not deleted").credential.version = version;
        drop(state);
        self.signal(connector);
    }

    /// This holder gives no sign of life any more.
    pub fn bury(&self, holder: &str) {
        self.state().dead.push(holder.to_owned());
    }

    /// These replicas live, and share what they may do.
    pub fn live(&self, holders: &[&str]) {
        self.state().alive = holders.iter().map(|holder| (*holder).to_owned()).collect();
    }

    /// This holder has lost its line, or has it again; it may live.
    pub fn cut_off(&self, holder: &str, cut: bool) {
        let mut state = self.state();
        state.cut_off.retain(|other| other != holder);
        if cut {
            state.cut_off.push(holder.to_owned());
        }
    }

    fn tokens(&self, pair: &(String, String), life: Duration) -> TokenSet {
        let now = self.clock.now();
        TokenSet {
            access_token: SecretString::from(pair.0.clone()),
            refresh_token: Some(SecretString::from(pair.1.clone())),
            obtained_at: now,
            expires_at: Some(now + life),
            expires_assumed: false,
            refresh_expires_at: None,
            refresh_end_fixed: false,
            scopes: vec!["read".to_owned()],
            base_url: None,
            found: BTreeMap::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic happens while it is held")
    }

    fn signal(&self, connector: &ConnectorId) {
        // Without a receiver there is nobody to tell.
        let _unheard = self.signals.send(Signal::Connector(connector.clone()));
    }
}

/// One replica's ports on the shared store.
pub struct Replica {
    shared: Arc<MemoryStore>,
    faults: Mutex<HashMap<Op, VecDeque<Fault>>>,
    /// Whether it is deaf, and the era.
    hearing: Mutex<(bool, u64)>,
}

impl Replica {
    /// The next calls of `op` meet these.
    pub fn fault(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().expect("no panic happens while it is held").entry(op).or_default().extend(faults);
    }

    /// What is left of these faults is over.
    pub fn forget(&self, op: Op) {
        self.faults.lock().expect("no panic happens while it is held").remove(&op);
    }

    /// The next call of `op` is held. Answers (it has arrived, let it go).
    pub fn hold(&self, op: Op) -> (Arc<Notify>, Arc<Notify>) {
        let pair = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        self.fault(op, [Fault::Hold(Arc::clone(&pair.0), Arc::clone(&pair.1))]);
        pair
    }

    /// Its signals are not known to arrive any more, or are again.
    pub fn set_deaf(&self, deaf: bool) {
        let mut hearing = self.hearing.lock().expect("no panic happens while it is held");
        *hearing = (deaf, hearing.1 + 1);
    }

    async fn meet(&self, op: Op) -> Result<(), StoreError> {
        let fault =
            self.faults.lock().expect("no panic happens while it is held").get_mut(&op).and_then(VecDeque::pop_front);
        match fault {
            None => Ok(()),
            Some(Fault::Error) => Err(StoreError::new(format!("{op:?} failed"))),
            Some(Fault::Panic) => panic!("{op:?} was told to panic"),
            Some(Fault::Hold(arrived, go)) => {
                arrived.notify_one();
                go.notified().await;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl LeaseStore for Replica {
    async fn acquire(&self, credential: &CredentialId, holder: &str, ttl: Duration) -> Result<Acquired, StoreError> {
        self.meet(Op::Acquire).await?;
        let now = self.shared.clock.uptime();
        let mut state = self.shared.state();
        let lease = state.leases.entry(credential.clone()).or_insert((String::new(), 0, Duration::ZERO));
        if lease.2 > now {
            return Ok(Acquired::Held { remaining: lease.2.saturating_sub(now) });
        }
        *lease = (holder.to_owned(), lease.1 + 1, now + ttl);
        Ok(Acquired::Yes(to_lease(credential, lease)))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, StoreError> {
        let now = self.shared.clock.uptime();
        let mut state = self.shared.state();
        let held = state.leases.get_mut(&lease.credential);
        Ok(held.filter(|held| held.0 == lease.holder && held.1 == lease.fencing_token && held.2 > now).map(|held| {
            held.2 = now + ttl;
            to_lease(&lease.credential, held)
        }))
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.meet(Op::Release).await?;
        let mut state = self.shared.state();
        if let Some(held) = state.leases.get_mut(&lease.credential)
            && held.0 == lease.holder
            && held.1 == lease.fencing_token
        {
            held.2 = Duration::ZERO;
        }
        Ok(())
    }

    async fn current(&self, credential: &CredentialId) -> Result<Option<Lease>, StoreError> {
        let now = self.shared.clock.uptime();
        let state = self.shared.state();
        Ok(state.leases.get(credential).filter(|held| held.2 > now).map(|held| to_lease(credential, held)))
    }
}

fn is_connected(state: &State, holder: &String) -> bool {
    !state.dead.contains(holder) && !state.cut_off.contains(holder)
}

fn open_row(state: &State, exchange: &Exchange, now: Duration) -> OpenExchange {
    let lease = &exchange.lease;
    let end = Duration::from_millis(u64::try_from(lease.expires_at_ms).expect("it is positive"));
    OpenExchange {
        id: exchange.id.clone(),
        holder: lease.holder.clone(),
        holder_alive: !state.dead.contains(&lease.holder),
        holder_connected: is_connected(state, &lease.holder),
        lease_over_for: now.saturating_sub(end),
    }
}

fn to_lease(credential: &CredentialId, lease: &(String, i64, Duration)) -> Lease {
    Lease {
        credential: credential.clone(),
        holder: lease.0.clone(),
        fencing_token: lease.1,
        expires_at_ms: i64::try_from(lease.2.as_millis()).expect("tests are short"),
    }
}

#[async_trait]
impl CredentialStore for Replica {
    async fn load(&self, connector: &ConnectorId) -> Result<Option<Snapshot>, StoreError> {
        self.meet(Op::Load).await?;
        Ok(self.shared.state().connectors.get(connector).cloned())
    }

    async fn begin(&self, exchange: &Exchange) -> Result<Begun, StoreError> {
        self.meet(Op::Begin).await?;
        let now = self.shared.clock.uptime();
        let mut state = self.shared.state();
        let open = state.rows.iter().find(|row| row.closed.is_none() && row.exchange.credential == exchange.credential);
        if let Some(row) = open {
            return Ok(Begun::Other(open_row(&state, &row.exchange, now)));
        }
        let row = &state.connectors[&exchange.connector];
        let usable = match row.health {
            Health::Connected => true,
            Health::AuthFailed => exchange.trigger == Trigger::Test,
            Health::Pending | Health::Disconnected => false,
        };
        if row.credential.version != exchange.version || !usable {
            return Ok(Begun::Moved);
        }
        if state.rows.iter().any(|row| row.exchange.id == exchange.id) {
            return Ok(Begun::Moved);
        }
        state.rows.push(Row { exchange: exchange.clone(), closed: None });
        Ok(Begun::Yes)
    }

    async fn extend(&self, exchange: &ExchangeId, lease: &Lease) -> Result<(), StoreError> {
        if let Some(row) = self.shared.state().rows.iter_mut().find(|row| row.exchange.id == *exchange) {
            row.exchange.lease = lease.clone();
        }
        Ok(())
    }

    async fn store_rotation(&self, exchange: &Exchange, rotation: &Rotation) -> Result<Stored, StoreError> {
        self.meet(Op::StoreRotation).await?;
        let stored = {
            let mut state = self.shared.state();
            let stored = match state.connectors.get_mut(&exchange.connector) {
                None => Stored::Gone,
                Some(row) if row.health == Health::Disconnected => Stored::Gone,
                Some(row) if row.credential.version != exchange.version => Stored::Superseded,
                Some(row) => {
                    row.credential.version = exchange.version.next();
                    row.credential.secret = Secret::Tokens(rotation.tokens.clone());
                    row.credential.rotated_at = Some(rotation.at);
                    row.credential.due_at = rotation.due_at;
                    row.credential.backoff = Backoff::default();
                    row.credential.degraded = None;
                    row.credential.answer_lost = false;
                    Stored::Yes(Box::new(row.clone()))
                }
            };
            let outcome = match &stored {
                Stored::Yes(_) => OutcomeKind::Rotated,
                Stored::Superseded => OutcomeKind::Superseded,
                Stored::Gone => OutcomeKind::Discarded,
            };
            settle(&mut state, exchange, outcome, rotation.sends);
            stored
        };
        self.shared.signal(&exchange.connector);
        Ok(stored)
    }

    async fn close(&self, exchange: &Exchange, close: &Close) -> Result<(), StoreError> {
        self.meet(Op::Close).await?;
        close_row(&mut self.shared.state(), exchange, close);
        self.shared.signal(&exchange.connector);
        Ok(())
    }

    async fn close_lost(&self, open: &ExchangeId, loss: Loss, _at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let connector = {
            let state = &mut *self.shared.state();
            let gone = |holder: &String| match loss {
                Loss::Silent => state.dead.contains(holder),
                Loss::CutOff => !is_connected(state, holder),
                Loss::Forgotten => true,
            };
            let found = state
                .rows
                .iter()
                .position(|row| row.exchange.id == *open && row.closed.is_none() && gone(&row.exchange.lease.holder));
            let Some(found) = found else { return Ok(Changed::No) };
            let row = &mut state.rows[found];
            row.closed = Some((OutcomeKind::OwnerLost, 0));
            let (connector, version) = (row.exchange.connector.clone(), row.exchange.version);
            let row = state.connectors.get_mut(&connector).expect("connectors are not deleted");
            if row.credential.version == version {
                row.credential.answer_lost = true;
            }
            connector
        };
        self.shared.signal(&connector);
        Ok(Changed::Yes)
    }

    async fn holder(&self, lease: &Lease) -> Result<Holder, StoreError> {
        let state = self.shared.state();
        let open = |row: &Row| row.closed.is_none() && row.exchange.credential == lease.credential;
        Ok(Holder {
            alive: !state.dead.contains(&lease.holder),
            connected: is_connected(&state, &lease.holder),
            exchanging: state.rows.iter().any(open),
        })
    }

    async fn lost(&self, _limit: u64) -> Result<Vec<(ConnectorId, OpenExchange)>, StoreError> {
        let now = self.shared.clock.uptime();
        let state = self.shared.state();
        let lost = |row: &&Row| {
            let lease = &row.exchange.lease;
            let over = open_row(&state, &row.exchange, now).lease_over_for > Duration::ZERO;
            // The holder's own view is left to the engine: in memory no replica knows its name.
            row.closed.is_none() && (over || !is_connected(&state, &lease.holder))
        };
        let lost = state.rows.iter().filter(lost);
        Ok(lost.map(|row| (row.exchange.connector.clone(), open_row(&state, &row.exchange, now))).collect())
    }

    async fn keep_spare(&self, exchange: &Exchange, tokens: &TokenSet) -> Result<Changed, StoreError> {
        let mut state = self.shared.state();
        let version = exchange.version.next();
        let rotated = state.rows.iter().any(|row| {
            let same = row.exchange.credential == exchange.credential && row.exchange.version == exchange.version;
            same && row.closed.is_some_and(|(outcome, _)| outcome == OutcomeKind::Rotated)
        });
        let row = state.connectors.get(&exchange.connector);
        if !rotated || row.is_none_or(|row| row.credential.version != version) {
            return Ok(Changed::No);
        }
        state.spares.insert(exchange.credential.clone(), (version, tokens.clone()));
        Ok(Changed::Yes)
    }

    async fn spare(
        &self,
        _org: &OrgId,
        credential: &CredentialId,
        version: Version,
    ) -> Result<Option<TokenSet>, StoreError> {
        let spare = self.shared.state().spares.get(credential).cloned();
        Ok(spare.filter(|(of, _)| *of == version).map(|(_, tokens)| tokens))
    }

    async fn fail(
        &self,
        credential: &CredentialId,
        failure: &Failure,
        exchange: Option<(&Exchange, &Close)>,
    ) -> Result<Changed, StoreError> {
        self.meet(Op::Fail).await?;
        let mut changed = Vec::new();
        {
            let mut state = self.shared.state();
            if let Some((exchange, close)) = exchange {
                close_row(&mut state, exchange, close);
            }
            let State { connectors, effects, .. } = &mut *state;
            for row in connectors.values_mut().filter(|row| row.credential.id == *credential) {
                if row.credential.version == failure.version && turn(row, Event::Refused, failure.at, effects) {
                    row.health_reason = Some(failure.reason);
                    row.health_detail.clone_from(&failure.detail);
                    changed.push(row.connector.clone());
                }
            }
        }
        for connector in &changed {
            self.shared.signal(connector);
        }
        Ok(if changed.is_empty() { Changed::No } else { Changed::Yes })
    }

    async fn heal(
        &self,
        connector: &ConnectorId,
        version: Version,
        event: Event,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let healed = {
            let mut state = self.shared.state();
            let State { connectors, effects, .. } = &mut *state;
            let row = connectors.get_mut(connector).expect("the connector exists");
            row.credential.version == version && turn(row, event, at, effects)
        };
        self.shared.signal(connector);
        Ok(if healed { Changed::Yes } else { Changed::No })
    }

    async fn keep_found(
        &self,
        connector: &ConnectorId,
        version: Version,
        found: &Found,
    ) -> Result<Changed, StoreError> {
        let kept = match self.shared.state().connectors.get_mut(connector).map(|row| &mut row.credential) {
            Some(credential) if credential.version == version => match &mut credential.secret {
                Secret::Tokens(tokens) => {
                    tokens.base_url = found.base_url.clone().or_else(|| tokens.base_url.take());
                    tokens.found.clone_from(&found.values);
                    true
                }
                _ => false,
            },
            _ => false,
        };
        self.shared.signal(connector);
        Ok(if kept { Changed::Yes } else { Changed::No })
    }

    async fn postpone(
        &self,
        connector: &ConnectorId,
        trouble: Trouble,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        if let Some(row) = self.shared.state().connectors.get_mut(connector) {
            let credential = &mut row.credential;
            if credential.due_at.is_some_and(|due| due <= now) && credential.backoff.retry_at.is_none_or(|at| at <= now)
            {
                credential.backoff.retry_at = Some(until);
                let since = credential.degraded.filter(|mark| mark.class == trouble).map_or(now, |mark| mark.since);
                credential.degraded = Some(Degraded { class: trouble, since });
            }
        }
        self.shared.signal(connector);
        Ok(())
    }

    async fn incident(&self, app: &AppId) -> Result<Option<Incident>, StoreError> {
        let state = self.shared.state();
        let held = state.connectors.values().filter(|row| {
            row.health == Health::Connected
                && row.credential.app == *app
                && row.credential.degraded.is_some_and(|mark| mark.class == Trouble::Held)
        });
        let held = u64::try_from(held.count()).expect("tests are small");
        Ok(state.incidents.get(app).map(|incident| Incident { held, ..*incident }))
    }

    async fn begin_incident(
        &self,
        app: &AppId,
        at: DateTime<Utc>,
        over_before: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let mut state = self.shared.state();
        if state.incidents.get(app).is_some_and(|on| !on.passed && on.since >= over_before) {
            return Ok(Changed::No);
        }
        state.incidents.insert(app.clone(), Incident { since: at, passed: false, held: 0, recovered: 0 });
        Ok(Changed::Yes)
    }

    async fn end_incident(&self, app: &AppId, _at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let mut state = self.shared.state();
        let on = state.incidents.get_mut(app).filter(|incident| !incident.passed);
        Ok(on.map_or(Changed::No, |incident| {
            incident.passed = true;
            Changed::Yes
        }))
    }

    async fn note_recovered(&self, app: &AppId) -> Result<(), StoreError> {
        if let Some(incident) = self.shared.state().incidents.get_mut(app).filter(|incident| !incident.passed) {
            incident.recovered += 1;
        }
        Ok(())
    }

    async fn withdraw(
        &self,
        app: &AppId,
        since: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<Vec<ConnectorId>, StoreError> {
        let mut withdrawn = Vec::new();
        {
            let mut state = self.shared.state();
            let State { connectors, effects, .. } = &mut *state;
            for row in connectors.values_mut().filter(|row| row.credential.app == *app) {
                let refused = matches!(row.health_reason, Some(Reason::RefreshRefused | Reason::ResponseLost));
                let lost = row.health_reason == Some(Reason::ResponseLost);
                if refused && row.health_since >= since && turn(row, Event::Withdrawn, at, effects) {
                    row.credential.degraded = Some(Degraded { class: Trouble::Held, since: at });
                    row.credential.backoff.retry_at = Some(retry_at);
                    row.credential.answer_lost |= lost;
                    withdrawn.push(row.connector.clone());
                }
            }
        }
        for connector in &withdrawn {
            self.shared.signal(connector);
        }
        Ok(withdrawn)
    }
}

#[async_trait]
impl DueStore for Replica {
    async fn first_due(
        &self,
        providers: &[&str],
        now: DateTime<Utc>,
    ) -> Result<Vec<(AppId, DateTime<Utc>)>, StoreError> {
        let uptime = self.shared.clock.uptime();
        let state = self.shared.state();
        let mut first: BTreeMap<AppId, DateTime<Utc>> = BTreeMap::new();
        for row in state.connectors.values().filter(|row| providers.contains(&row.provider.as_str())) {
            if let Some(due) = state.unclaimed_due(row, uptime).filter(|due| *due <= now) {
                let earliest = first.entry(row.credential.app.clone()).or_insert(due);
                *earliest = due.min(*earliest);
            }
        }
        Ok(first.into_iter().collect())
    }

    async fn claim_due(&self, claim: &ClaimDue<'_>) -> Result<Vec<DueRefresh>, StoreError> {
        self.meet(Op::ClaimDue).await?;
        let uptime = self.shared.clock.uptime();
        let mut state = self.shared.state();
        let mut due: Vec<_> = state
            .connectors
            .values()
            .filter(|row| row.credential.app == *claim.app)
            .filter_map(|row| Some((state.unclaimed_due(row, uptime).filter(|at| *at <= claim.now)?, row)))
            .collect();
        due.sort_by_key(|(at, row)| (row.credential.secret.tokens().map(|tokens| tokens.expires_at), *at));
        due.truncate(claim.limit as usize);
        let claimed: Vec<_> = due
            .into_iter()
            .map(|(due_at, row)| DueRefresh {
                credential: row.credential.id.clone(),
                connector: row.connector.clone(),
                due_at,
            })
            .collect();
        for due in &claimed {
            let until = uptime + claim.ttl;
            state.claims.insert(due.credential.clone(), (due.due_at, claim.holder.to_owned(), until));
        }
        Ok(claimed)
    }

    async fn give_back(&self, holder: &str, credentials: &[CredentialId]) -> Result<(), StoreError> {
        let mut state = self.shared.state();
        state.claims.retain(|id, (_, by, _)| by != holder || !credentials.contains(id));
        Ok(())
    }

    async fn put_off_missed(
        &self,
        app: &AppId,
        missed: DateTime<Utc>,
        now: DateTime<Utc>,
        window: Duration,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        for row in self.shared.state().connectors.values_mut().filter(|row| row.credential.app == *app) {
            let over = row.credential.secret.tokens().is_some_and(|tokens| !tokens.alive(now));
            if over && next_due(row).is_some_and(|due| due < missed) {
                count += 1;
                // Every seventh moment of the window in turn: spread, and the same in every run.
                let share = f64::from(u32::try_from(count * 7 % 100).expect("it is small")) / 100.0;
                row.credential.due_at = Some(now + window.mul_f64(share));
            }
        }
        Ok(count)
    }

    async fn place(&self, holder: &str) -> Result<Place, StoreError> {
        let mut alive = self.shared.state().alive.clone();
        if !alive.iter().any(|name| name == holder) {
            alive.push(holder.to_owned());
        }
        alive.sort();
        let rank = alive.iter().position(|name| name == holder).expect("it was added");
        let number = |number: usize| u32::try_from(number).expect("there are few");
        Ok(Place { rank: number(rank), of: number(alive.len()) })
    }
}

impl State {
    /// When it is due, if nobody has claimed that.
    fn unclaimed_due(&self, row: &Snapshot, uptime: Duration) -> Option<DateTime<Utc>> {
        let due = next_due(row)?;
        let claimed = self.claims.get(&row.credential.id).is_some_and(|(of, _, until)| *of == due && *until > uptime);
        (row.health == Health::Connected && !claimed).then_some(due)
    }
}

fn next_due(row: &Snapshot) -> Option<DateTime<Utc>> {
    row.credential.due_at.map(|due| row.credential.backoff.retry_at.map_or(due, |retry| due.max(retry)))
}

fn turn(row: &mut Snapshot, event: Event, at: DateTime<Utc>, outbox: &mut Vec<(ConnectorId, i64, Effect)>) -> bool {
    let (health, effects) = row.health.next(event);
    if health == row.health {
        return false;
    }
    row.health = health;
    row.health_reason = None;
    row.health_since = at;
    row.epoch += 1;
    outbox.extend(effects.iter().map(|effect| (row.connector.clone(), row.epoch, *effect)));
    true
}

fn settle(state: &mut State, exchange: &Exchange, outcome: OutcomeKind, sends: u32) {
    if let Some(row) = state.rows.iter_mut().find(|row| row.exchange.id == exchange.id) {
        row.closed = Some((outcome, sends));
    } else {
        state.rows.push(Row { exchange: exchange.clone(), closed: Some((outcome, sends)) });
    }
}

fn close_row(state: &mut State, exchange: &Exchange, close: &Close) {
    settle(state, exchange, close.outcome, close.sends);
    let Some(row) = state.connectors.get_mut(&exchange.connector) else { return };
    let credential = &mut row.credential;
    if let Some(marks) = close.marks.as_ref().filter(|_| credential.version == exchange.version) {
        let since = credential.degraded.filter(|mark| mark.class == marks.trouble).map_or(close.at, |mark| mark.since);
        credential.degraded = Some(Degraded { class: marks.trouble, since });
        credential.backoff = Backoff { retry_at: Some(marks.retry_at), failures: marks.failures };
        credential.answer_lost |= marks.answer_lost;
    }
}

impl Signals for Replica {
    fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.shared.signals.subscribe()
    }

    fn era(&self) -> Option<u64> {
        let (deaf, era) = *self.hearing.lock().expect("no panic happens while it is held");
        (!deaf).then_some(era)
    }
}
