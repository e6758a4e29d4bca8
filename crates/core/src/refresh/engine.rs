//! The engine: snapshots, flights, and the wait for them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::{broadcast, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, warn};

use super::{
    AuthError, Need, Settings,
    cache::Cache,
    decide::{self, Look},
    flight::Flight,
    lifeboat::Boat,
    mass::Heard,
    recovery::AtWork,
    spending::Spending,
};
use crate::{
    credential::{Snapshot, TokenSet, Trouble, Version},
    id::{ConnectorId, CredentialId},
    oauth_app::AppId,
    ports::{
        Clock, CredentialStore, Http, LeaseStore, Lifeboat, Meter, OAuthApps, Random, Signal, Signals, StoreError,
        Trigger,
    },
    provider::Providers,
};

pub(super) type FlightResult = Result<Arc<Snapshot>, AuthError>;

/// What the engine needs from outside.
#[derive(Clone)]
#[expect(missing_docs, reason = "each is documented as a port")]
pub struct Ports {
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub http: Arc<dyn Http>,
    pub store: Arc<dyn CredentialStore>,
    pub leases: Arc<dyn LeaseStore>,
    pub lifeboat: Arc<dyn Lifeboat>,
    pub signals: Arc<dyn Signals>,
    pub apps: Arc<dyn OAuthApps>,
    pub meter: Arc<dyn Meter>,
}

/// How long an alert holds.
const ALERT_AGAIN: Duration = Duration::from_hours(1);
/// When to come back while our own storage is in trouble.
pub(super) const OURS_RETRY: Duration = Duration::from_secs(2);
/// How many flights a caller waits for: its own need may differ from the one that a flight was started for.
pub(super) const ROUNDS: u32 = 3;

/// The refresh engine of one replica.
pub struct Engine {
    pub(super) ports: Ports,
    pub(super) settings: Settings,
    pub(super) providers: Providers,
    /// This replica, as leases and journal name it.
    pub(super) holder: String,
    pub(super) boat: Boat,
    pub(super) spending: Spending,
    pub(super) at_work: AtWork,
    cache: Cache,
    flights: Mutex<HashMap<CredentialId, watch::Receiver<Option<FlightResult>>>>,
    /// When the operator was told last of a provider, and of what.
    alerts: Mutex<HashMap<(AppId, &'static str), Duration>>,
    /// Versions that were minted because their predecessor was rejected, and when by the uptime.
    minted_for_rejection: Mutex<HashMap<CredentialId, (Version, Duration)>>,
    pub(super) heard: Heard,
    pub(super) tasks: TaskTracker,
    stop: CancellationToken,
}

impl Engine {
    /// `holder` names this replica; it must be unique among all that ever lived. Has to be made inside a runtime.
    pub fn new(ports: Ports, settings: Settings, providers: Providers, holder: String) -> Arc<Self> {
        let signals = ports.signals.subscribe();
        let engine = Arc::new(Self {
            ports,
            settings,
            providers,
            holder,
            boat: Boat::default(),
            spending: Spending::default(),
            at_work: AtWork::default(),
            cache: Cache::new(settings.cache_connectors),
            flights: Mutex::default(),
            alerts: Mutex::default(),
            minted_for_rejection: Mutex::default(),
            heard: Heard::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        tokio::spawn(Arc::clone(&engine).listen(signals));
        engine
    }

    /// The connector's snapshot, with a token that satisfies the need; within the wait bound.
    ///
    /// A caller that goes away cancels nothing. A token that still lives is handed out with its true expiry when the
    /// exchange that was wished for fails.
    pub async fn fresh(
        self: &Arc<Self>,
        connector: &ConnectorId,
        need: &Need,
        trigger: Trigger,
    ) -> Result<Arc<Snapshot>, AuthError> {
        // The hot path: no lock is waited for, and nothing is asked.
        if let Some(kept) = self.trusted(connector)
            && self.look(&kept, need) == Look::Serve
        {
            return Ok(kept);
        }
        tokio::select! {
            biased;
            result = self.fly_or_wait(connector, need, trigger) => result,
            () = self.ports.clock.sleep(self.settings.wait_bound) => {
                let kept = self.trusted(connector).filter(|kept| decide::still_serves(kept, need, self.now()));
                kept.ok_or_else(|| AuthError::Unavailable {
                    class: Trouble::Transient,
                    detail: "the wait bound passed before the exchange ended".to_owned(),
                    retry_after: Duration::from_secs(1),
                })
            }
        }
    }

    async fn fly_or_wait(self: &Arc<Self>, connector: &ConnectorId, need: &Need, trigger: Trigger) -> FlightResult {
        for round in 1.. {
            let snapshot = self.known(connector).await?;
            match self.look(&snapshot, need) {
                Look::Serve => return Ok(snapshot),
                Look::Stop(error) => return Err(error),
                Look::Refresh | Look::Prove(_) => {}
            }
            match landed(self.join(connector, &snapshot.credential.id, need, trigger)).await {
                // Another connector on the same credential has flown: its snapshot is not ours.
                Ok(flown) if flown.connector != *connector && round < ROUNDS => self.forget(connector),
                Ok(snapshot) if self.look(&snapshot, need) == Look::Serve => return Ok(snapshot),
                // A flight of our own has brought what there is to be had: tokens that live for a moment only.
                Ok(snapshot) if round > 1 && decide::still_serves(&snapshot, need, self.now()) => return Ok(snapshot),
                Ok(_) if round >= ROUNDS => {
                    return Err(AuthError::Unavailable {
                        class: Trouble::Transient,
                        detail: "the provider's tokens end before they can be handed out".to_owned(),
                        retry_after: Duration::from_secs(1),
                    });
                }
                Ok(_) => {}
                Err(error) => {
                    let snapshot = self.known(connector).await?;
                    return if decide::still_serves(&snapshot, need, self.now()) { Ok(snapshot) } else { Err(error) };
                }
            }
        }
        unreachable!("the rounds are bounded")
    }

    /// What memory holds, if it may be trusted.
    fn trusted(&self, connector: &ConnectorId) -> Option<Arc<Snapshot>> {
        self.cache.get(connector, self.ports.signals.era()?)
    }

    /// The connector as committed: from memory while signals are known to arrive, else from the database.
    pub async fn snapshot(&self, connector: &ConnectorId) -> Result<Option<Arc<Snapshot>>, StoreError> {
        let Some(era) = self.ports.signals.era() else {
            return Ok(self.ports.store.load(connector).await?.map(Arc::new));
        };
        if let Some(kept) = self.cache.get(connector, era) {
            return Ok(Some(kept));
        }
        let entry = self.cache.entry(connector);
        let _one = entry.loading.lock().await;
        if let Some(kept) = entry.get(era) {
            return Ok(Some(kept));
        }
        let generation = entry.generation();
        let Some(loaded) = self.ports.store.load(connector).await? else {
            self.cache.remove(connector);
            return Ok(None);
        };
        let loaded = Arc::new(loaded);
        entry.keep(Arc::clone(&loaded), era, generation);
        Ok(Some(loaded))
    }

    /// The adapters of this instance.
    pub fn providers(&self) -> &Providers {
        &self.providers
    }

    /// The engine's HTTP port.
    pub fn http(&self) -> &dyn Http {
        self.ports.http.as_ref()
    }

    /// Who counts.
    pub(crate) fn meter(&self) -> &dyn Meter {
        self.ports.meter.as_ref()
    }

    /// Where credentials are.
    pub(crate) fn store(&self) -> &dyn CredentialStore {
        self.ports.store.as_ref()
    }

    /// The engine's clock.
    pub fn clock(&self) -> &dyn Clock {
        self.ports.clock.as_ref()
    }

    /// Now, by the engine's clock.
    pub fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.ports.clock.now()
    }

    /// Drops what is remembered of a connector; for a writer that wants its next read to see its write.
    pub fn forget(&self, connector: &ConnectorId) {
        self.cache.changed(connector);
    }

    /// Work that a drain waits for and that no caller cuts off by going away.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.tasks.spawn(work)
    }

    /// Repeats a write until the database takes it: for what exists at a provider and nowhere else.
    pub async fn insist<T, F>(&self, doing: &str, attempt: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut pause = Duration::from_millis(50);
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(error) => {
                    error!(error = %chain(&error), "could not {doing}; trying again in {} ms", pause.as_millis());
                    self.ports.clock.sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
            }
        }
    }

    /// Ends the listener and waits until no flight is under way: no exchange is cut off.
    pub async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.stop.cancel();
    }

    pub(super) fn look(&self, snapshot: &Snapshot, need: &Need) -> Look {
        let rejection = matches!(need, Need::Not(_));
        let minted = rejection
            && self.minted().get(&snapshot.credential.id).is_some_and(|(version, at)| {
                *version == snapshot.credential.version
                    && self.ports.clock.uptime().saturating_sub(*at) < self.settings.rejection_interval
            });
        let now = self.ports.clock.now();
        let look = decide::look(snapshot, need, now, minted);
        let endless = snapshot.credential.secret.tokens().is_some_and(TokenSet::is_endless);
        let provider = endless.then(|| self.providers.find(&snapshot.provider)).flatten();
        if provider.is_some_and(|provider| provider.upgrade_params().is_some()) {
            return decide::upgrade(look, snapshot, now);
        }
        look
    }

    pub(super) fn note_minted_for_rejection(&self, snapshot: &Snapshot) {
        let now = self.ports.clock.uptime();
        let mut minted = self.minted();
        minted.retain(|_, (_, at)| now.saturating_sub(*at) < self.settings.rejection_interval);
        minted.insert(snapshot.credential.id.clone(), (snapshot.credential.version, now));
    }

    /// Tells the operator, once an hour, that a provider refuses an OAuth app. An org's own is its admins' to correct.
    pub(super) fn alert_app(&self, app: &AppId, words: &str) {
        if !self.is_news(app.clone(), "OAuth app") {
            return;
        }
        let provider = app.provider();
        match app.org() {
            None => error!(
                provider,
                "the OAuth app of {provider} is refused: {words}; no connector has failed, correct the client secret where \
                 it is set: oauth_apps.{provider}, or the web UI under Settings, OAuth apps"
            ),
            Some(org) => warn!(
                provider,
                org.id = %org,
                "{org}'s own OAuth app of {provider} is refused: {words}; no connector has failed, its admins have to correct it"
            ),
        }
    }

    /// Whether the operator is to be told of this: once an hour.
    pub(super) fn is_news(&self, of: AppId, what: &'static str) -> bool {
        let now = self.ports.clock.uptime();
        let mut alerts = self.alerts.lock().expect("no panic happens while it is held");
        let key = (of, what);
        let told = alerts.get(&key).is_some_and(|at| now.saturating_sub(*at) < ALERT_AGAIN);
        if !told {
            alerts.insert(key, now);
        }
        !told
    }

    /// Wakes at each change of the connector.
    pub(super) fn watch(&self, connector: &ConnectorId) -> watch::Receiver<u64> {
        self.cache.entry(connector).watch()
    }

    pub(super) async fn known(&self, connector: &ConnectorId) -> Result<Arc<Snapshot>, AuthError> {
        self.snapshot(connector).await.map_err(|error| ours(&error))?.ok_or(AuthError::NotFound)
    }

    /// Joins the flight of this credential, or starts it on a task of its own.
    pub(super) fn join(
        self: &Arc<Self>,
        connector: &ConnectorId,
        credential: &CredentialId,
        need: &Need,
        trigger: Trigger,
    ) -> watch::Receiver<Option<FlightResult>> {
        let mut flights = self.flights.lock().expect("no panic happens while it is held");
        if let Some(flight) = flights.get(credential) {
            self.ports.meter.joined();
            return flight.clone();
        }
        let (landing, flight) = watch::channel(None);
        flights.insert(credential.clone(), flight.clone());
        drop(flights);
        let (engine, credential) = (Arc::clone(self), credential.clone());
        let run = Flight::new(Arc::clone(self), connector.clone(), credential.clone(), need.clone(), trigger).run();
        let watched = self.watch(connector);
        self.tasks.spawn(async move {
            let result = run.await;
            // Until now it keeps the connector's entry in memory.
            drop(watched);
            engine.flights.lock().expect("no panic happens while it is held").remove(&credential);
            landing.send_replace(Some(result));
        });
        flight
    }

    fn minted(&self) -> std::sync::MutexGuard<'_, HashMap<CredentialId, (Version, Duration)>> {
        self.minted_for_rejection.lock().expect("no panic happens while it is held")
    }

    async fn listen(self: Arc<Self>, mut signals: broadcast::Receiver<Signal>) {
        loop {
            let signal = tokio::select! {
                signal = signals.recv() => signal,
                () = self.stop.cancelled() => return,
            };
            match signal {
                Ok(Signal::Connector(connector)) => self.cache.changed(&connector),
                Ok(Signal::ApiKey(_) | Signal::Agent(_) | Signal::OAuthApp(_)) => {}
                Ok(Signal::All) | Err(broadcast::error::RecvError::Lagged(_)) => self.cache.all_changed(),
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }
}

pub(super) async fn landed(mut flight: watch::Receiver<Option<FlightResult>>) -> FlightResult {
    match flight.wait_for(Option::is_some).await {
        Ok(result) => result.clone().expect("it was waited for"),
        // Only if the runtime is shut down around us.
        Err(_) => Err(AuthError::Unavailable {
            class: Trouble::Ours,
            detail: "this replica is stopping".to_owned(),
            retry_after: Duration::from_secs(1),
        }),
    }
}

pub(super) fn ours(error: &StoreError) -> AuthError {
    warn!(error = %chain(error), "the store is in trouble");
    AuthError::Unavailable {
        class: Trouble::Ours,
        detail: "our own storage is unavailable".to_owned(),
        retry_after: OURS_RETRY,
    }
}

/// An error with its causes, on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
