//! The refresh engine on ports in memory, in paused time: every class of outcome, races, crashes and lost answers.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as the test does")]

mod answers;
mod api;
mod coordination;
mod lifeboat;
mod lives;
mod mass;
mod outcomes;
mod recovery;
mod schedule;
mod statements;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use holdfast_core::{
    AuthError, ConnectorId, Engine, Need, Providers, Snapshot,
    ports::{Clock, CredentialStore, Http, LeaseStore, Trigger},
    refresh::{
        Ports, Settings,
        schedule::{ScheduleSettings, Scheduler},
    },
    testkit::{
        Endpoint, FakeProvider, MemoryLifeboat, MemoryStore, NoMeter, OneApp, PausedClock, Replica, SeededRandom,
    },
};
use secrecy::ExposeSecret;

const HOUR: Duration = Duration::from_hours(1);

/// Everything that replicas share.
struct Rig {
    clock: Arc<PausedClock>,
    endpoint: Arc<Endpoint>,
    store: Arc<MemoryStore>,
    provider: Arc<FakeProvider>,
    app: Arc<OneApp>,
    settings: Settings,
    boats: Mutex<HashMap<String, Arc<MemoryLifeboat>>>,
}

impl Rig {
    fn new() -> Self {
        let clock = Arc::new(PausedClock::new());
        Self {
            endpoint: Endpoint::new(clock.clone()),
            store: MemoryStore::new(clock.clone()),
            provider: Arc::new(FakeProvider::new()),
            app: Arc::new(OneApp::new()),
            settings: Settings::default(),
            boats: Mutex::default(),
            clock,
        }
    }

    /// A rig with one replica and one connector whose access token is over.
    fn expired() -> (Self, Arc<Engine>, ConnectorId) {
        let rig = Self::new();
        let engine = rig.replica("a").0;
        let connector = rig.expired_connector("con");
        (rig, engine, connector)
    }

    /// With a provider that takes a used refresh token again for ten seconds, and then brings a set that works or not.
    fn with_grace(works: bool) -> Self {
        let mut rig = Self::new();
        let mut provider = FakeProvider::new();
        provider.facts.reuse_grace = Duration::from_secs(10);
        rig.provider = Arc::new(provider);
        rig.endpoint.set_grace(works);
        rig
    }

    fn expired_connector(&self, name: &str) -> ConnectorId {
        self.store.connect(name, &self.endpoint.grant(), Duration::ZERO)
    }

    fn replica(&self, name: &str) -> (Arc<Engine>, Arc<Replica>) {
        self.replica_on(name, self.endpoint.clone())
    }

    fn replica_on(&self, name: &str, http: Arc<dyn Http>) -> (Arc<Engine>, Arc<Replica>) {
        let replica = self.store.replica();
        (self.engine(name, http, replica.clone(), replica.clone(), replica.clone()), replica)
    }

    /// An engine of this name on the machine of another one.
    fn on(&self, name: &str, machine: &str, replica: Arc<Replica>) -> Arc<Engine> {
        let ports = self.ports(name, machine, self.endpoint.clone(), replica.clone(), replica.clone(), replica);
        Engine::new(ports, self.settings, Providers::new(vec![self.provider.clone()]), name.to_owned())
    }

    fn engine(
        &self,
        name: &str,
        http: Arc<dyn Http>,
        store: Arc<dyn CredentialStore>,
        leases: Arc<dyn LeaseStore>,
        signals: Arc<Replica>,
    ) -> Arc<Engine> {
        let ports = self.ports(name, name, http, store, leases, signals);
        Engine::new(ports, self.settings, Providers::new(vec![self.provider.clone()]), name.to_owned())
    }

    fn ports(
        &self,
        name: &str,
        machine: &str,
        http: Arc<dyn Http>,
        store: Arc<dyn CredentialStore>,
        leases: Arc<dyn LeaseStore>,
        signals: Arc<Replica>,
    ) -> Ports {
        Ports {
            clock: self.clock.clone(),
            random: Arc::new(SeededRandom::new(name.bytes().map(u64::from).sum())),
            http,
            store,
            leases,
            lifeboat: self.boat(machine),
            signals,
            apps: self.app.clone(),
            meter: Arc::new(NoMeter),
        }
    }

    /// The lifeboat of the machine of this name: whoever is started there again finds what is in it.
    fn boat(&self, name: &str) -> Arc<MemoryLifeboat> {
        Arc::clone(self.boats.lock().unwrap().entry(name.to_owned()).or_default())
    }

    async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    fn spent(&self) -> Vec<String> {
        self.endpoint.posts().into_iter().map(|post| post.presented).collect()
    }
}

/// The scheduler of this replica.
fn scheduler((engine, replica): &(Arc<Engine>, Arc<Replica>)) -> Scheduler {
    Scheduler::new(Arc::clone(engine), replica.clone(), ScheduleSettings::default())
}

/// One round of the scheduler of this replica, with nothing put off. Answers how many were refreshed.
async fn refresh_due(rig: &Rig, engine: &Arc<Engine>) -> usize {
    let settings = ScheduleSettings { catch_up: Duration::ZERO, ..ScheduleSettings::default() };
    Scheduler::new(Arc::clone(engine), rig.store.replica(), settings).round().await.unwrap()
}

fn minute() -> Need {
    Need::ValidFor(Duration::from_mins(1))
}

async fn ask(engine: &Arc<Engine>, connector: &ConnectorId) -> Result<Arc<Snapshot>, AuthError> {
    engine.fresh(connector, &minute(), Trigger::Caller).await
}

fn token(snapshot: &Snapshot) -> &str {
    snapshot.credential.secret.bearer().expect("there is a token").expose_secret()
}

async fn ask_token(engine: &Arc<Engine>, connector: &ConnectorId) -> String {
    token(&ask(engine, connector).await.expect("a token")).to_owned()
}
