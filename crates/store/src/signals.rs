//! Signals: the port [`Signals`]. On SQLite the store tells itself, after each commit. On PostgreSQL triggers tell every
//! replica, this one too, and a ping that has to come back proves that they are heard.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use holdfast_core::{
    AgentId, ConnectorId, CredentialId, job,
    ports::{Signal, Signals, StoreError},
};
use sqlx::postgres::PgListener;
use tokio::sync::{Notify, broadcast};
use tracing::{info, warn};

use crate::{
    jobs::JobsChanged,
    patience::PATIENCE,
    sql::{self, because, values},
    store::{Kind, Store},
};

/// A receiver that falls behind by more is told so, and trusts nothing that it remembers.
const CAPACITY: usize = 4096;
/// Between two pings.
const PING: Duration = Duration::from_secs(1);
/// Signals are known to arrive for this long after a ping came back.
const FRESH: Duration = Duration::from_secs(3);
/// A listener that hears nothing for so long is given up: its line may be cut without a sign.
const SILENCE: Duration = Duration::from_secs(10);
/// Between the loss of the listener's line and the next attempt; doubled from one to the next, up to [`RETRY_CAP`]. Others
/// take us for gone when our line stays away for long.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_CAP: Duration = Duration::from_secs(1);
/// The one channel.
const CHANNEL: &str = "holdfast";
/// Orgs and kinds in one notice, whose length PostgreSQL bounds at 8000 bytes.
const TOLD_AT_ONCE: usize = 100;
const NEVER: u64 = u64::MAX;

/// Where signals meet their receivers.
pub(crate) struct Hub {
    kind: Kind,
    sender: broadcast::Sender<Signal>,
    /// Apart from the others: where jobs are many, nobody's memory is to be dropped for falling behind them.
    jobs: broadcast::Sender<JobsChanged>,
    /// What other replicas have not been told of yet.
    untold: Mutex<BTreeSet<JobsChanged>>,
    tell: Notify,
    /// When a ping last came back, by our uptime in milliseconds.
    heard_ms: AtomicU64,
    /// Grows with each silence.
    era: AtomicU64,
}

impl Hub {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            sender: broadcast::Sender::new(CAPACITY),
            jobs: broadcast::Sender::new(CAPACITY),
            untold: Mutex::default(),
            tell: Notify::new(),
            heard_ms: AtomicU64::new(NEVER),
            era: AtomicU64::new(0),
        }
    }

    pub(crate) fn send(&self, signal: Signal) {
        // Without receivers there is nobody to tell.
        let _receivers = self.sender.send(signal);
    }

    fn untold(&self) -> MutexGuard<'_, BTreeSet<JobsChanged>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Signals for Store {
    fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.inner.hub.sender.subscribe()
    }

    fn era(&self) -> Option<u64> {
        let hub = &self.inner.hub;
        if hub.kind == Kind::Sqlite {
            return Some(0);
        }
        // In this order: an era that has just begun is seen with the ping that began it, or not at all.
        let heard = hub.heard_ms.load(Ordering::Acquire);
        let fresh = heard != NEVER && self.uptime_ms().saturating_sub(heard) <= ms(FRESH);
        fresh.then(|| hub.era.load(Ordering::Acquire))
    }
}

impl Store {
    /// After a commit that changed a connector. On PostgreSQL the trigger has told it.
    pub(crate) fn connector_changed(&self, connector: &ConnectorId) {
        self.tell(Signal::Connector(connector.clone()));
    }

    /// After a commit that changed an API key. On PostgreSQL the trigger has told it.
    pub(crate) fn key_changed(&self, key: &str) {
        self.tell(Signal::ApiKey(key.to_owned()));
    }

    /// After a commit that changed an agent, what stops it, or a run of it. On PostgreSQL the trigger has told it.
    pub(crate) fn agent_changed(&self, agent: &AgentId) {
        self.tell(Signal::Agent(agent.clone()));
    }

    /// After a commit that changed a credential: tells of every connector on it. On PostgreSQL the trigger has.
    pub(crate) async fn credential_changed(&self, credential: &CredentialId) {
        if self.kind() == Kind::Postgres {
            return;
        }
        let sql = "SELECT id FROM connectors WHERE credential_id = $1";
        match sql::all::<sql::Id>(self.db(), "tell of a change", sql, values![credential.as_str()]).await {
            Ok(connectors) => connectors.into_iter().for_each(|row| self.connector_changed(&row.id.into())),
            Err(error) => {
                warn!(error = %error, "cannot tell what changed; telling that anything may have");
                self.tell(Signal::All);
            }
        }
    }

    /// Jobs that change, from now on. Whoever falls behind has to look at them all.
    pub fn subscribe_jobs(&self) -> broadcast::Receiver<JobsChanged> {
        self.inner.hub.jobs.subscribe()
    }

    /// Tells this process at once, and the others soon.
    pub(crate) fn tell_of_jobs(&self, changed: JobsChanged) {
        let hub = &self.inner.hub;
        // Without receivers there is nobody to tell.
        let _receivers = hub.jobs.send(changed.clone());
        if hub.kind == Kind::Postgres {
            hub.untold().insert(changed);
            hub.tell.notify_one();
        }
    }

    /// Tells the other replicas of jobs, each time of all that came together meanwhile: a statement at a time, and none
    /// that holds up who writes jobs.
    pub(crate) async fn tell_others_of_jobs(&self) {
        loop {
            self.inner.hub.tell.notified().await;
            loop {
                let told: Vec<JobsChanged> = {
                    let mut untold = self.inner.hub.untold();
                    let rest = untold.iter().nth(TOLD_AT_ONCE).cloned();
                    let rest = rest.map_or_else(BTreeSet::new, |first| untold.split_off(&first));
                    std::mem::replace(&mut *untold, rest).into_iter().collect()
                };
                if told.is_empty() {
                    break;
                }
                let told: Vec<String> =
                    told.iter().map(|changed| format!("{} {}", changed.kind.as_str(), changed.org)).collect();
                let payload = format!("jobs:{}:{}", self.inner.options.replica, told.join(","));
                let sql = "SELECT pg_notify($1, $2)";
                if let Err(error) = sql::run(self.db(), "tell of jobs", sql, values![CHANNEL, payload]).await {
                    warn!(error = %error, "cannot tell other replicas of jobs; their poll finds them");
                }
            }
        }
    }

    /// Another replica has told of these.
    fn hear_of_jobs(&self, told: &str) {
        let Some((replica, told)) = told.split_once(':') else { return };
        if replica == self.inner.options.replica {
            return;
        }
        for changed in told.split(',').filter_map(|changed| changed.split_once(' ')) {
            if let (Some(kind), org) = (job::Kind::parse(changed.0), changed.1.into()) {
                let _receivers = self.inner.hub.jobs.send(JobsChanged { org, kind });
            }
        }
    }

    /// To the receivers of this process, where there is no other.
    pub(crate) fn tell(&self, signal: Signal) {
        if self.kind() == Kind::Sqlite {
            self.inner.hub.send(signal);
        }
    }

    /// Sends the pings that the listener has to hear, through the pool.
    pub(crate) async fn call(&self) {
        let ping = format!("ping:{}", self.inner.options.replica);
        loop {
            let sql = "SELECT pg_notify($1, $2)";
            if let Err(error) = sql::run(self.db(), "ping the listener", sql, values![CHANNEL, ping.as_str()]).await {
                warn!(error = %error, "cannot ping the listener");
            }
            self.clock().sleep(PING).await;
        }
    }

    /// Listens for ever, over one connection after the other.
    pub(crate) async fn listen(&self) {
        let mut pause = RETRY;
        loop {
            match self.listen_once(&mut pause).await {
                Ok(()) => info!("the listener's connection was lost; listening again"),
                Err(error) => {
                    let cause = error.source.as_ref().map(ToString::to_string).unwrap_or_default();
                    warn!(error = %error, cause, "cannot listen for signals; memory is not trusted");
                    self.deaf();
                    self.clock().sleep(pause).await;
                    pause = (pause * 2).min(RETRY_CAP);
                }
            }
        }
    }

    /// Until the connection is lost. Once there is one, the next attempt after it comes soon.
    async fn listen_once(&self, pause: &mut Duration) -> Result<(), StoreError> {
        let options = &self.inner.options;
        let url = options.listen_url.as_ref().unwrap_or(&options.url);
        let connect = async {
            let mut listener = PgListener::connect(url).await?;
            listener.eager_reconnect(false);
            // Under our own name, by which others see that our line is open.
            let name = sqlx::query("SELECT set_config('application_name', $1, false)").bind(&options.replica);
            name.execute(&mut listener).await?;
            listener.listen(CHANNEL).await?;
            Ok(listener)
        };
        let connected = tokio::time::timeout(PATIENCE, connect).await;
        let connected = connected.map_err(|late| because("listen for signals", late))?;
        let mut listener = connected.map_err(|error: sqlx::Error| because("listen for signals", error))?;
        *pause = RETRY;
        let own_ping = format!("ping:{}", options.replica);
        loop {
            let heard = tokio::select! {
                heard = listener.try_recv() => heard.map_err(|error| because("listen for signals", error))?,
                () = self.clock().sleep(SILENCE) => None,
            };
            let Some(notification) = heard else {
                self.deaf();
                return Ok(());
            };
            match notification.payload().split_once(':') {
                Some(("connector", id)) => self.inner.hub.send(Signal::Connector(id.into())),
                Some(("agent", id)) => self.inner.hub.send(Signal::Agent(id.into())),
                Some(("key", id)) => self.inner.hub.send(Signal::ApiKey(id.to_owned())),
                Some(("app", provider)) => self.inner.hub.send(Signal::OAuthApp(provider.to_owned())),
                Some(("jobs", told)) => self.hear_of_jobs(told),
                _ if notification.payload() == own_ping => self.hear(),
                _ => {}
            }
        }
    }

    /// A ping came back. If none did for a while, signals before it may be gone.
    fn hear(&self) {
        if self.era().is_none() {
            self.inner.hub.era.fetch_add(1, Ordering::AcqRel);
            self.inner.hub.send(Signal::All);
        }
        self.inner.hub.heard_ms.store(self.uptime_ms(), Ordering::Release);
    }

    /// The line is cut: what is remembered is not to be trusted.
    fn deaf(&self) {
        self.inner.hub.heard_ms.store(NEVER, Ordering::Release);
        self.inner.hub.send(Signal::All);
    }

    fn uptime_ms(&self) -> u64 {
        ms(self.clock().uptime())
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NEVER - 1)
}
