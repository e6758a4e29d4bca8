//! Jobs at work: each kind has a [`Handler`], registered in [`handlers`]; the worker claims what is ready and hands it over.
//!
//! - [`work`]: the worker of a replica.
//! - `running`: what it has, its leases, and its settling.
//! - `subscription`: keeps what makes providers send.
//!
//! A handler may be run again for a job whose replica died in the middle, so its effects have to bear it: a row that is
//! unique, an idempotency key of the provider, or a call whose outcome is told to be unknown.

mod running;
mod subscription;
mod worker;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use async_trait::async_trait;
use holdfast_core::job::{Kind, Outcome, Policy, State};
use holdfast_store::{ByHand, ClaimedJob};

use crate::{agents::EventRuns, app::App, config::Config, endpoints::Deliver, hooks::Events, sync::Syncs};

pub(crate) use running::settle;
pub(crate) use worker::{keep_alive, work};

/// Does the jobs of one kind.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// One attempt. Its future is dropped when the attempt takes too long, and when the job is not this replica's any
    /// more; what must not be cut off runs on a task of its own. A service that stops waits for it for a while.
    async fn run(&self, app: &Arc<App>, claimed: &ClaimedJob) -> Outcome;

    /// How hard its jobs are tried: as configured, unless the kind has needs of its own.
    fn policy(&self, configured: Policy) -> Policy {
        configured
    }
}

/// The handlers of this service: the one place where a kind gets its own.
fn handlers(config: &Config) -> BTreeMap<Kind, Arc<dyn Handler>> {
    let mut handlers = BTreeMap::from([
        (Kind::Event, Arc::new(Events) as Arc<dyn Handler>),
        (Kind::AgentRun, Arc::new(EventRuns)),
        (Kind::Deliver, Arc::new(Deliver::new(&config.events))),
        (Kind::Subscription, Arc::new(subscription::Subscriptions)),
    ]);
    // Where nobody syncs, what is in the queue waits for whoever does.
    if config.sync.enabled {
        handlers.insert(Kind::Sync, Arc::new(Syncs));
    }
    handlers
}

/// What the jobs of this replica share.
pub struct Jobs {
    handlers: RwLock<BTreeMap<Kind, Arc<dyn Handler>>>,
    running: running::Running,
}

impl Jobs {
    pub(crate) fn new(config: &Config) -> Self {
        Self { handlers: RwLock::new(handlers(config)), running: running::Running::default() }
    }

    /// Gives a kind another handler, before the worker begins; for tests and benchmarks.
    pub fn handle(&self, kind: Kind, handler: Arc<dyn Handler>) {
        self.handlers.write().unwrap_or_else(PoisonError::into_inner).insert(kind, handler);
    }

    fn handler(&self, kind: Kind) -> Option<Arc<dyn Handler>> {
        self.handlers.read().unwrap_or_else(PoisonError::into_inner).get(&kind).cloned()
    }

    /// The kinds that are worked off here.
    fn kinds(&self) -> Vec<Kind> {
        self.handlers.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }
}

impl App {
    /// How hard jobs of this kind are tried.
    pub(crate) fn job_policy(&self, kind: Kind) -> Policy {
        let configured = self.config.jobs.policy(kind);
        self.jobs.handler(kind).map_or(configured, |handler| handler.policy(configured))
    }
}

/// Why a person's wish changed nothing.
pub(crate) fn refused_by_hand(wish: ByHand, state: State) -> String {
    let why = match (state, wish) {
        (State::Running, _) => "This job is running, and is not begun a second time. Look again when it is over.",
        (State::Done, _) => "This job is done.",
        (State::Discarded, _) => "This job is discarded already.",
        (State::Ready, ByHand::Retry) => "This job is next in line already.",
        (State::Parked, ByHand::Retry) => {
            "This job waits for its connector, and goes on by itself once that is reconnected."
        }
        // It changed between the two looks.
        (State::Ready | State::Waiting | State::Parked | State::Dead, _) => "This job has just changed. Try once more.",
    };
    format!("{why} Nothing was changed.")
}
