//! One flight: it gets the lease, does the exchange under it, and gives it back. It runs on a task of its own and
//! writes the effects of its exchange once.

mod steps;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use tracing::{Instrument, Span, error, field, info_span, warn};

use super::{
    AuthError, Engine, Need, OutcomeKind,
    decide::{self, Look, Orphan, Relief},
    engine::{FlightResult, OURS_RETRY, chain, ours},
    timing,
};
use crate::{
    credential::Trouble,
    id::{ConnectorId, CredentialId},
    ports::{Acquired, Exchange, Lease, Marks, Trigger},
};

/// How often a failing lease statement is repeated before the flight gives up (RF-13).
const LEASE_TRIES: u32 = 5;
/// A holder is gone once every look for this long has found it so: a line that was cut may be there again in a moment.
const GONE: Duration = Duration::from_secs(1);
/// How long a connector rests after our own code has panicked over it.
const REST_AFTER_PANIC: Duration = Duration::from_secs(30);

pub(super) struct Flight {
    engine: Arc<Engine>,
    connector: ConnectorId,
    credential: CredentialId,
    need: Need,
    trigger: Trigger,
    /// The journal row that is open, for the case that we panic.
    open: std::sync::Mutex<Option<Exchange>>,
}

/// A lease with its end by our uptime, counted from before it was asked for.
struct Held {
    lease: Lease,
    until: Duration,
}

impl Flight {
    pub(super) fn new(
        engine: Arc<Engine>,
        connector: ConnectorId,
        credential: CredentialId,
        need: Need,
        trigger: Trigger,
    ) -> Self {
        Self { engine, connector, credential, need, trigger, open: std::sync::Mutex::new(None) }
    }

    pub(super) async fn run(self) -> FlightResult {
        let span = info_span!(
            "refresh",
            connector.id = %self.connector,
            credential.id = %self.credential,
            credential.version = field::Empty,
            lease.fencing_token = field::Empty,
        );
        // A panic must not leave the flight in the map: the next caller could never start another one.
        let flown = AssertUnwindSafe(self.fly()).catch_unwind().instrument(span).await;
        flown.unwrap_or_else(|_| self.panicked())
    }

    async fn fly(&self) -> FlightResult {
        let started = self.uptime();
        let deadline = started + self.engine.settings.wait_bound;
        loop {
            let mut held = match self.acquire(deadline).await {
                Ok(held) => held,
                Err(over) => return *over,
            };
            self.engine.ports.meter.lease_wait(self.uptime().saturating_sub(started));
            let result = self.under_lease(&mut held).await;
            if let Err(error) = self.engine.ports.leases.release(&held.lease).await {
                warn!(error = %chain(&error), "could not release the lease; it ends by itself");
            }
            match result {
                Ok(result) => return result,
                Err(orphan) => {
                    if let Some(over) = self.wait_for_owner(orphan, deadline).await {
                        return over;
                    }
                }
            }
        }
    }

    /// Takes the lease. While somebody else has it, watches the credential: a version that satisfies the need ends
    /// the wait at once.
    async fn acquire(&self, deadline: Duration) -> Result<Held, Box<FlightResult>> {
        self.engine.ashore(&self.credential).await.map_err(|error| Box::new(Err(error)))?;
        let ports = &self.engine.ports;
        let ttl = self.engine.settings.lease;
        let mut changes = self.engine.watch(&self.connector);
        let (mut tries, mut gone_since) = (0, None::<Duration>);
        loop {
            changes.mark_unchanged();
            let asked = self.uptime();
            match ports.leases.acquire(&self.credential, &self.engine.holder, ttl).await {
                Ok(Acquired::Yes(lease)) => {
                    Span::current().record("lease.fencing_token", lease.fencing_token);
                    return Ok(Held { lease, until: asked + ttl });
                }
                Ok(Acquired::Held { remaining }) => {
                    let left = deadline.saturating_sub(self.uptime());
                    if left.is_zero() {
                        return Err(Box::new(Err(AuthError::Unavailable {
                            class: Trouble::Transient,
                            detail: "another replica's exchange has not ended yet".to_owned(),
                            retry_after: remaining.max(Duration::from_millis(500)),
                        })));
                    }
                    let doubted = gone_since.map_or(left, |since| (since + GONE).saturating_sub(self.uptime()));
                    self.wait(&mut changes, remaining.min(left).min(doubted)).await;
                    if let Some(over) = self.compare().await {
                        return Err(Box::new(over));
                    }
                    let (relief, lease) = self.relief().await;
                    if relief == Relief::Wait {
                        gone_since = None;
                        continue;
                    }
                    let now = self.uptime();
                    if now < *gone_since.get_or_insert(now) + GONE {
                        continue;
                    }
                    gone_since = None;
                    match (relief, lease) {
                        (Relief::Now, Some(lease)) => {
                            warn!(holder = %lease.holder, "ending the lease of a holder that is gone");
                            if let Err(error) = ports.leases.release(&lease).await {
                                warn!(error = %chain(&error), "could not end the lease");
                            }
                        }
                        (Relief::NotBeforeItsEnd, _) => {
                            return Err(Box::new(Err(unsettled(remaining + self.engine.settings.orphan_wait))));
                        }
                        _ => {}
                    }
                }
                Err(error) => {
                    tries += 1;
                    if tries >= LEASE_TRIES {
                        self.mark_ours();
                        return Err(Box::new(Err(ours(&error))));
                    }
                    warn!(error = %chain(&error), "the lease statement failed; repeating it");
                    ports.clock.sleep(Duration::from_millis(20 << tries)).await;
                }
            }
        }
    }

    /// Marks the connector beside the flight, where the database at least is there. It counts as no failure.
    fn mark_ours(&self) {
        let (engine, connector) = (Arc::clone(&self.engine), self.connector.clone());
        self.engine.tasks.spawn(async move {
            let now = engine.ports.clock.now();
            let until = now + timing::delta(OURS_RETRY);
            if let Err(error) = engine.ports.store.postpone(&connector, Trouble::Ours, now, until).await {
                warn!(error = %chain(&error), "could not mark that trouble of ours keeps a refresh from beginning");
            }
        });
    }

    /// What to do about the holder of the lease, and the lease that this is about. Trouble of ours is no reason to do
    /// anything.
    async fn relief(&self) -> (Relief, Option<Lease>) {
        let ports = &self.engine.ports;
        let Ok(Some(lease)) = ports.leases.current(&self.credential).await else { return (Relief::Wait, None) };
        match (ports.store.holder(&lease).await, self.engine.snapshot(&self.connector).await) {
            (Ok(holder), Ok(Some(snapshot))) => {
                let grace = self.engine.grace(&snapshot.provider, &snapshot.account);
                (decide::relief(&holder, grace), Some(lease))
            }
            _ => (Relief::Wait, None),
        }
    }

    /// Waits for a change, for at most `longest`; a slow poll with jitter is the safety net for lost signals.
    async fn wait(&self, changes: &mut tokio::sync::watch::Receiver<u64>, longest: Duration) {
        let ports = &self.engine.ports;
        let poll = Duration::from_millis(500).mul_f64(1.0 + ports.random.unit());
        tokio::select! {
            _ = changes.changed() => {}
            () = ports.clock.sleep(poll.min(longest.max(Duration::from_millis(10)))) => {}
        }
    }

    /// Reads the credential; the flight is over when it satisfies the need, or can not any more.
    async fn compare(&self) -> Option<FlightResult> {
        match self.engine.known(&self.connector).await {
            Ok(snapshot) => match self.engine.look(&snapshot, &self.need) {
                Look::Serve => Some(Ok(snapshot)),
                Look::Stop(error) => Some(Err(error)),
                Look::Refresh | Look::Prove(_) => None,
            },
            Err(error) => Some(Err(error)),
        }
    }

    /// Somebody's exchange is open. A living owner is waited for; a dead one's time is told to the caller at once.
    async fn wait_for_owner(&self, orphan: Orphan, deadline: Duration) -> Option<FlightResult> {
        let left = deadline.saturating_sub(self.uptime());
        let mut changes = self.engine.watch(&self.connector);
        let (wait, retry_after) = match orphan {
            Orphan::Wait => (left, Duration::from_secs(1)),
            Orphan::NotBefore(at) => (at, at),
            Orphan::Relieve => return None,
        };
        if left.is_zero() || wait > left {
            return Some(Err(unsettled(retry_after)));
        }
        self.wait(&mut changes, wait).await;
        self.compare().await
    }

    /// Steps 4 to 7 of the protocol. `Err`: another journal row is open.
    async fn under_lease(&self, held: &mut Held) -> Result<FlightResult, Orphan> {
        match AssertUnwindSafe(self.exchange(held)).catch_unwind().await {
            Ok(Ok(snapshot)) => Ok(Ok(snapshot)),
            Ok(Err(steps::Blocked::Over(result))) => Ok(result),
            Ok(Err(steps::Blocked::By(orphan))) => Err(orphan),
            Err(_) => {
                self.close_after_panic().await;
                Ok(self.panicked())
            }
        }
    }

    /// Our own fault is nobody's verdict: health is untouched.
    fn panicked(&self) -> FlightResult {
        error!("the refresh of connector {} panicked; its health is untouched", self.connector);
        Err(AuthError::Unavailable {
            class: Trouble::Ours,
            detail: "an internal error".to_owned(),
            retry_after: REST_AFTER_PANIC,
        })
    }

    /// The open row is closed, and the connector rests for a while: a bug must not spend one token after the other.
    async fn close_after_panic(&self) {
        let open = self.open.lock().expect("no panic happens while it is held").take();
        let Some(exchange) = open else { return };
        if let Ok(Some(snapshot)) = self.engine.snapshot(&self.connector).await {
            self.engine.note_unstored(&snapshot.provider, &self.connector, "our own code panicked");
        }
        let marks = Marks {
            trouble: Trouble::Ours,
            retry_at: self.engine.ports.clock.now() + timing::delta(REST_AFTER_PANIC),
            failures: 1,
            answer_lost: true,
        };
        let close = self.closing(OutcomeKind::Internal, None, 1, self.uptime(), Some(marks));
        self.close(&exchange, close).await;
    }

    fn uptime(&self) -> Duration {
        self.engine.ports.clock.uptime()
    }
}

fn unsettled(retry_after: Duration) -> AuthError {
    AuthError::Unavailable {
        class: Trouble::Ambiguous,
        detail: "an exchange of a lost replica has not been settled yet".to_owned(),
        retry_after: retry_after.max(Duration::from_millis(500)),
    }
}
