//! One trouble at each statement of a refresh, one after the other: what the model explores, seen on the real engine.

use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, ConnectorId, CredentialId, Engine, ExchangeId, Health, OrgId, Snapshot, TokenSet, Version,
    credential::{Reason, Trouble},
    health::Event,
    ports::{
        Acquired, Begun, Changed, Clock as _, Close, CredentialStore, Exchange, Failure, Holder, Incident, Lease,
        LeaseStore, Loss, OpenExchange, Rotation, StoreError, Stored,
    },
    provider::Found,
    testkit::{MemoryStore, PausedClock, Replica, Script},
};

use crate::{Rig, ask, token};

/// What one statement meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meets {
    /// It is not executed.
    Failure,
    /// It is executed, and nobody hears of it.
    Silence,
    /// The process ends over it.
    Crash,
    /// The process stands still before it, for longer than its lease and the wait for its row.
    Stall,
}

/// One replica's store, with trouble at one statement.
struct Troubled {
    replica: Arc<Replica>,
    shared: Arc<MemoryStore>,
    clock: Arc<PausedClock>,
    meets: Meets,
    /// Counted from 1.
    at: usize,
    so_far: AtomicUsize,
}

impl Troubled {
    fn has_met(&self) -> bool {
        self.so_far.load(Ordering::SeqCst) >= self.at
    }

    async fn run<T>(&self, statement: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.so_far.fetch_add(1, Ordering::SeqCst) + 1 != self.at {
            return statement.await;
        }
        match self.meets {
            Meets::Failure => {}
            Meets::Silence => drop(statement.await?),
            Meets::Crash => {
                self.shared.bury("a");
                return future::pending().await;
            }
            Meets::Stall => {
                self.shared.bury("a");
                self.clock.sleep(Duration::from_mins(3)).await;
                return statement.await;
            }
        }
        Err(StoreError::new("it met its trouble"))
    }
}

const LONGER_THAN_ANY_BACK_OFF: Duration = Duration::from_mins(6);

const OUTCOMES: [(Meets, bool); 8] = [
    (Meets::Failure, false),
    (Meets::Failure, true),
    (Meets::Silence, false),
    (Meets::Silence, true),
    (Meets::Crash, false),
    (Meets::Crash, true),
    (Meets::Stall, false),
    (Meets::Stall, true),
];

#[tokio::test(start_paused = true)]
async fn no_trouble_at_any_statement_loses_a_grant_that_a_living_replica_holds() {
    for (meets, lost) in OUTCOMES {
        for at in 1.. {
            let place = format!("{meets:?} at statement {at}, answer lost: {lost}");
            let rig = Rig::new();
            rig.endpoint.set_life(Duration::from_hours(48).as_secs());
            let connector = rig.expired_connector("con");
            if lost {
                rig.endpoint.script([Script::Lost]);
            }
            let (troubled, a) = with_trouble(&rig, meets, at);
            let b = rig.replica("b").0;

            for _ in 0..6 {
                let engines = if meets == Meets::Crash && troubled.has_met() { vec![&b] } else { vec![&a, &b] };
                for engine in engines {
                    let asked = rig.clock.uptime();
                    ask(engine, &connector).await.ok();
                    let waited = rig.clock.uptime() - asked;
                    assert!(waited <= rig.settings.wait_bound, "{place}: a caller waited for {waited:?}");
                }
                rig.pass(LONGER_THAN_ANY_BACK_OFF).await;
            }

            let end = rig.store.row(&connector);
            let sent = rig.spent();
            let gone = matches!(meets, Meets::Crash | Meets::Stall);
            match end.health {
                Health::Connected => {
                    assert!(!lost, "{place}: the set was lost on the way");
                    assert_eq!(token(&end), "AT2", "{place}");
                    assert_eq!(sent, ["RT1"], "{place}: each token is sent once");
                    assert!(!rig.store.journal().contains(&None), "{place}: a row is left open");
                    assert!(ask(&b, &connector).await.is_ok(), "{place}");
                }
                Health::AuthFailed => {
                    assert!(lost || gone, "{place}: nothing was lost");
                    assert_eq!(end.health_reason, Some(Reason::ResponseLost), "{place}");
                }
                other => panic!("{place}: {other:?}"),
            }
            if !troubled.has_met() {
                break;
            }
        }
    }
}

/// A database that is away for a moment says nothing about a provider: a refusal is a verdict as soon as it is back, not
/// as late as one that is held while a provider refuses all.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_declared_within_a_back_off_of_any_trouble_at_its_statements() {
    for meets in [Meets::Failure, Meets::Silence] {
        for at in 1.. {
            let place = format!("{meets:?} at statement {at}");
            let rig = Rig::new();
            let connector = rig.expired_connector("con");
            rig.endpoint.revoke();
            let (troubled, engine) = with_trouble(&rig, meets, at);

            ask(&engine, &connector).await.unwrap_err();
            let marked = rig.store.row(&connector).credential.degraded.map(|mark| mark.class);
            assert!(marked.is_none_or(|class| class == Trouble::Ours), "{place}: {marked:?}");
            rig.pass(LONGER_THAN_ANY_BACK_OFF).await;
            ask(&engine, &connector).await.unwrap_err();

            assert_eq!(rig.store.row(&connector).health, Health::AuthFailed, "{place}");
            if !troubled.has_met() {
                break;
            }
        }
    }
}

/// A replica whose store meets this at one statement.
fn with_trouble(rig: &Rig, meets: Meets, at: usize) -> (Arc<Troubled>, Arc<Engine>) {
    let troubled = Arc::new(Troubled {
        replica: rig.store.replica(),
        shared: rig.store.clone(),
        clock: rig.clock.clone(),
        meets,
        at,
        so_far: AtomicUsize::new(0),
    });
    let engine = rig.engine("a", rig.endpoint.clone(), troubled.clone(), troubled.clone(), troubled.replica.clone());
    (troubled, engine)
}

#[async_trait]
impl LeaseStore for Troubled {
    async fn acquire(&self, credential: &CredentialId, holder: &str, ttl: Duration) -> Result<Acquired, StoreError> {
        self.run(self.replica.acquire(credential, holder, ttl)).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, StoreError> {
        self.run(self.replica.renew(lease, ttl)).await
    }

    async fn current(&self, credential: &CredentialId) -> Result<Option<Lease>, StoreError> {
        self.run(self.replica.current(credential)).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.run(self.replica.release(lease)).await
    }
}

#[async_trait]
impl CredentialStore for Troubled {
    async fn load(&self, connector: &ConnectorId) -> Result<Option<Snapshot>, StoreError> {
        self.run(self.replica.load(connector)).await
    }

    async fn begin(&self, exchange: &Exchange) -> Result<Begun, StoreError> {
        self.run(self.replica.begin(exchange)).await
    }

    async fn extend(&self, exchange: &ExchangeId, lease: &Lease) -> Result<(), StoreError> {
        self.run(self.replica.extend(exchange, lease)).await
    }

    async fn store_rotation(&self, exchange: &Exchange, rotation: &Rotation) -> Result<Stored, StoreError> {
        self.run(self.replica.store_rotation(exchange, rotation)).await
    }

    async fn close(&self, exchange: &Exchange, close: &Close) -> Result<(), StoreError> {
        self.run(self.replica.close(exchange, close)).await
    }

    async fn close_lost(&self, open: &ExchangeId, loss: Loss, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        self.run(self.replica.close_lost(open, loss, at)).await
    }

    async fn holder(&self, lease: &Lease) -> Result<Holder, StoreError> {
        self.run(self.replica.holder(lease)).await
    }

    async fn lost(&self, limit: u64) -> Result<Vec<(ConnectorId, OpenExchange)>, StoreError> {
        self.run(self.replica.lost(limit)).await
    }

    async fn keep_spare(&self, exchange: &Exchange, tokens: &TokenSet) -> Result<Changed, StoreError> {
        self.run(self.replica.keep_spare(exchange, tokens)).await
    }

    async fn spare(
        &self,
        org: &OrgId,
        credential: &CredentialId,
        version: Version,
    ) -> Result<Option<TokenSet>, StoreError> {
        self.run(self.replica.spare(org, credential, version)).await
    }

    async fn fail(
        &self,
        credential: &CredentialId,
        failure: &Failure,
        exchange: Option<(&Exchange, &Close)>,
    ) -> Result<Changed, StoreError> {
        self.run(self.replica.fail(credential, failure, exchange)).await
    }

    async fn heal(
        &self,
        connector: &ConnectorId,
        version: Version,
        event: Event,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        self.run(self.replica.heal(connector, version, event, at)).await
    }

    async fn keep_found(
        &self,
        connector: &ConnectorId,
        version: Version,
        found: &Found,
    ) -> Result<Changed, StoreError> {
        self.run(self.replica.keep_found(connector, version, found)).await
    }

    async fn postpone(
        &self,
        connector: &ConnectorId,
        trouble: Trouble,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        self.run(self.replica.postpone(connector, trouble, now, until)).await
    }

    async fn incident(&self, app: &AppId) -> Result<Option<Incident>, StoreError> {
        self.run(self.replica.incident(app)).await
    }

    async fn begin_incident(
        &self,
        app: &AppId,
        at: DateTime<Utc>,
        over_before: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        self.run(self.replica.begin_incident(app, at, over_before)).await
    }

    async fn end_incident(&self, app: &AppId, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        self.run(self.replica.end_incident(app, at)).await
    }

    async fn note_recovered(&self, app: &AppId) -> Result<(), StoreError> {
        self.run(self.replica.note_recovered(app)).await
    }

    async fn withdraw(
        &self,
        app: &AppId,
        since: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<Vec<ConnectorId>, StoreError> {
        self.run(self.replica.withdraw(app, since, retry_at, at)).await
    }
}
