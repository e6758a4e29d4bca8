//! The world of the sandbox: helpdesks, and what they have in common.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use crate::client::{Client, Secrets};
use crate::clock::Clock;
use crate::counters::{AtOnce, Counts};
use crate::faults::{Faults, Gate};
use crate::freshdesk::Accounts;
use crate::front::Front;
use crate::generic::Generic;
use crate::google::Google;
use crate::gorgias;
use crate::keep::{DeskState, Keeper, State};
use crate::options::{Options, Scene};
use crate::shopify::shop::Shops;
use crate::zendesk::data::Data;
use crate::zendesk::limits::Limiter;
use crate::zendesk::tokens::Tokens;

/// Helpdesks that exist at start.
const FIRST_HELPDESKS: [&str; 2] = ["acme", "globex"];

/// Locks for a short moment. Nothing in this crate holds such a guard across an `await`.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One helpdesk.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) account_id: i64,
    pub(crate) tokens: Mutex<Tokens>,
    pub(crate) data: Mutex<Data>,
    pub(crate) faults: Mutex<Faults>,
    pub(crate) gate: Gate,
    pub(crate) limiter: Mutex<Limiter>,
    pub(crate) export_limiter: Mutex<Limiter>,
    pub(crate) counts: Counts,
}

impl Desk {
    fn new(name: &str, url: String, scene: Scene, now_ms: i64) -> Self {
        let account_id = account_id(name);
        Self {
            name: name.to_owned(),
            url,
            account_id,
            tokens: Mutex::default(),
            data: Mutex::new(Data::seeded(scene, name, account_id, now_ms)),
            faults: Mutex::default(),
            gate: Gate::default(),
            limiter: Mutex::default(),
            export_limiter: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// As it was when it was last kept.
    fn restored(state: DeskState, url: String) -> Self {
        let faults = state.faults.ending(state.faults_end);
        let gate = Gate::default();
        gate.set(&faults);
        Self {
            account_id: account_id(&state.name),
            url,
            tokens: Mutex::new(state.tokens.into()),
            data: Mutex::new(state.data),
            faults: Mutex::new(faults),
            gate,
            limiter: Mutex::default(),
            export_limiter: Mutex::default(),
            counts: state.counters.into(),
            name: state.name,
        }
    }

    /// The name as a person would write it: `acme` is Acme.
    pub(crate) fn title(&self) -> String {
        let mut letters = self.name.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }
}

/// What a sandbox starts with, and goes back to.
#[derive(Debug)]
pub(crate) struct Start {
    /// How callers reach it, without a slash at the end.
    pub(crate) url: String,
    /// Nobody reaches it from another machine.
    pub(crate) loopback_only: bool,
    /// Where its pages lead back to.
    pub(crate) home: Option<String>,
    pub(crate) scene: Scene,
    pub(crate) options: Options,
    pub(crate) redirect_uris: Vec<String>,
}

/// Everything that lives while the sandbox runs.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) start: Start,
    pub(crate) clock: Clock,
    options: RwLock<Options>,
    pub(crate) client: Mutex<Client>,
    desks: RwLock<BTreeMap<String, Arc<Desk>>>,
    pub(crate) freshdesk: Accounts,
    pub(crate) gorgias: gorgias::Accounts,
    pub(crate) pipedrive: Mutex<crate::pipedrive::State>,
    pub(crate) shops: Shops,
    front: RwLock<Arc<Front>>,
    pub(crate) generic: Generic,
    google: RwLock<Arc<Google>>,
    seq: AtomicU64,
    /// Refreshes at the token endpoints of all helpdesks.
    pub(crate) at_once: AtOnce,
    /// Where there is a file.
    pub(crate) keeper: OnceLock<Keeper>,
}

impl World {
    pub(crate) fn new(start: Start) -> Self {
        let clock = Clock::default();
        let world = Self {
            front: RwLock::new(Arc::new(Front::new(clock.now_ms()))),
            generic: Generic::default(),
            google: RwLock::new(Arc::new(Google::new(clock.now_ms()))),
            clock,
            options: RwLock::new(start.options),
            client: Mutex::new(Client::new(start.redirect_uris.clone())),
            desks: RwLock::default(),
            freshdesk: Accounts::default(),
            gorgias: gorgias::Accounts::default(),
            pipedrive: Mutex::default(),
            shops: Shops::first(),
            seq: AtomicU64::new(1),
            at_once: AtOnce::default(),
            keeper: OnceLock::new(),
            start,
        };
        for name in FIRST_HELPDESKS {
            world.create(name);
        }
        world
    }

    /// Where the pages lead back to.
    pub(crate) fn home(&self) -> Option<&str> {
        self.start.home.as_deref()
    }

    pub(crate) fn options(&self) -> Options {
        *self.options.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_options(&self, options: Options) {
        *self.options.write().unwrap_or_else(PoisonError::into_inner) = options;
    }

    /// Goes on from what was kept.
    pub(crate) fn restore(&self, state: State) {
        self.clock.set_offset_ms(state.offset_ms);
        self.set_options(state.options);
        let common = Secrets { secret: state.client_secret, next: state.next_client_secret };
        locked(&self.client).restore(common, state.client_secrets);
        self.seq.store(state.seq, Ordering::SeqCst);
        let restored = state.helpdesks.into_iter().map(|desk| {
            let url = self.url_of(&desk.name);
            (desk.name.clone(), Arc::new(Desk::restored(desk, url)))
        });
        *self.desks.write().unwrap_or_else(PoisonError::into_inner) = restored.collect();
        self.freshdesk.restore(state.freshdesk, &self.start.url);
        self.gorgias.restore(state.gorgias);
        *locked(&self.pipedrive) = state.pipedrive;
        self.shops.restore(state.shops);
        let front = Front::restored(state.front, self.clock.now_ms());
        *self.front.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(front);
        let google = Google::restored(state.google, self.clock.now_ms());
        *self.google.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(google);
    }

    /// Returns once everything up to now is in the file, where there is one.
    pub(crate) async fn keep(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.keep().await;
        }
    }

    fn url_of(&self, name: &str) -> String {
        format!("{}/zendesk/{name}", self.start.url)
    }

    pub(crate) fn seq(&self) -> u64 {
        self.seq.load(Ordering::SeqCst)
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.seq.fetch_add(1, Ordering::SeqCst)
    }

    /// The one Front of this world.
    pub(crate) fn front(&self) -> Arc<Front> {
        Arc::clone(&self.front.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The one Google of this world.
    pub(crate) fn google(&self) -> Arc<Google> {
        Arc::clone(&self.google.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Desk>> {
        let desks = self.desks.read().unwrap_or_else(PoisonError::into_inner);
        desks.get(name).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Desk>> {
        let desks = self.desks.read().unwrap_or_else(PoisonError::into_inner);
        desks.values().cloned().collect()
    }

    /// The helpdesk of that name, made when there is none. `None` when it is no DNS label.
    pub(crate) fn create(&self, name: &str) -> Option<Arc<Desk>> {
        if !is_dns_label(name) {
            return None;
        }
        if let Some(desk) = self.find(name) {
            return Some(desk);
        }
        let desk = Arc::new(Desk::new(name, self.url_of(name), self.start.scene, self.clock.now_ms()));
        let mut desks = self.desks.write().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(desks.entry(name.to_owned()).or_insert(desk)))
    }

    /// Closes a helpdesk: from then on its address answers that there is none.
    pub(crate) fn close(&self, name: &str) -> bool {
        let closed = self.desks.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        if let Some(desk) = &closed {
            desk.gate.set(&Faults::default());
        }
        closed.is_some()
    }

    /// Back to the first moment. Requests under way end in the old helpdesks, unseen.
    pub(crate) fn reset(&self) {
        self.clock.reset();
        self.set_options(self.start.options);
        *locked(&self.client) = Client::new(self.start.redirect_uris.clone());
        for desk in self.all() {
            self.close(&desk.name);
        }
        for name in FIRST_HELPDESKS {
            self.create(name);
        }
        self.freshdesk.reset();
        self.gorgias.reset();
        *locked(&self.pipedrive) = crate::pipedrive::State::default();
        self.shops.reset();
        self.front().gate.set(&Faults::default());
        let front = Front::new(self.clock.now_ms());
        *self.front.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(front);
        self.generic.reset();
        self.google().gate.set(&Faults::default());
        let google = Google::new(self.clock.now_ms());
        *self.google.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(google);
    }
}

pub(crate) fn is_dns_label(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// The same for the same name in every run (FNV-1a).
fn account_id(name: &str) -> i64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    20_000_000 + i64::try_from(hash % 1_000_000).unwrap_or(0)
}
