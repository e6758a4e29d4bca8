//! One shop, and all of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::seed;
use super::tokens::{ACCESS_SECS, Tokens};
use crate::counters::{Counters, Counts};
use crate::desk::locked;
use crate::faults::{Faults, Gate};

/// Shops that exist at start.
const FIRST_SHOPS: [&str; 2] = ["acme", "globex"];

/// How one shop behaves. The defaults are the strictest reading of the documentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with a name")]
pub struct Rules {
    /// Life of new access tokens. Shopify: 3600.
    pub access_secs: i64,
    /// A used refresh token that comes back in time buys the same pair again, and not a new one in its place.
    pub same_pair_again: bool,
    /// Token answers say `expires_in`. Answers without it have been seen.
    pub says_expires_in: bool,
    /// What the merchant grants, comma separated, whatever is asked for.
    pub grants: Option<String>,
    /// The app is not approved for protected customer data: those fields are null, with an error.
    pub hides_customers: bool,
    /// The Admin API takes no endless tokens any more, as for all public apps from 2027 on.
    pub refuses_endless: bool,
    /// Points that the bucket holds.
    pub bucket: f64,
    /// Points that come back in a second.
    pub restore_rate: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            access_secs: ACCESS_SECS,
            same_pair_again: false,
            says_expires_in: true,
            grants: None,
            hides_customers: false,
            refuses_endless: false,
            bucket: 2000.0,
            restore_rate: 100.0,
        }
    }
}

/// What a shop sells, and to whom, as its API shows it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Data {
    /// Oldest first.
    pub(crate) orders: Vec<Value>,
    pub(crate) customers: Vec<Value>,
    /// By title.
    pub(crate) products: Vec<Value>,
    /// Of the app, oldest first.
    #[serde(default)]
    pub(crate) webhooks: Vec<Value>,
    pub(crate) last_id: i64,
    /// Input and answer of each refund, by its idempotency key.
    pub(crate) refunds: HashMap<String, (Value, Value)>,
}

impl Data {
    pub(crate) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn order_mut(&mut self, id: &str) -> Option<&mut Value> {
        self.orders.iter_mut().find(|order| order["id"] == id)
    }
}

/// The bucket of points.
#[derive(Debug)]
pub(crate) struct Points {
    pub(crate) left: f64,
    at_ms: i64,
}

impl Points {
    /// With what has come back since.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of some years are exact")]
    pub(crate) fn restore(&mut self, rules: &Rules, now_ms: i64) {
        let seconds = (now_ms - self.at_ms).max(0) as f64 / 1000.0;
        self.left = (self.left + seconds * rules.restore_rate).min(rules.bucket);
        self.at_ms = now_ms;
    }
}

/// One shop.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) number: i64,
    pub(crate) tokens: Mutex<Tokens>,
    pub(crate) data: Mutex<Data>,
    pub(crate) faults: Mutex<Faults>,
    pub(crate) gate: Gate,
    pub(crate) counts: Counts,
    pub(crate) points: Mutex<Points>,
    rules: Mutex<Rules>,
}

/// What is kept of a shop in a file. Its points are not.
#[derive(Serialize, Deserialize)]
pub(crate) struct ShopState {
    name: String,
    number: i64,
    tokens: Tokens,
    data: Data,
    faults: Faults,
    faults_end: [Option<i64>; 2],
    counters: Counters,
    rules: Rules,
}

impl Place {
    fn new(name: &str) -> Self {
        let data = seed::fill(name);
        Self::of(ShopState {
            name: name.to_owned(),
            number: seed::shop_number(name),
            tokens: Tokens::default(),
            data,
            faults: Faults::default(),
            faults_end: [None; 2],
            counters: Counters::default(),
            rules: Rules::default(),
        })
    }

    fn of(state: ShopState) -> Self {
        let faults = state.faults.ending(state.faults_end);
        let gate = Gate::default();
        gate.set(&faults);
        Self {
            name: state.name,
            number: state.number,
            tokens: Mutex::new(state.tokens),
            data: Mutex::new(state.data),
            faults: Mutex::new(faults),
            gate,
            counts: state.counters.into(),
            points: Mutex::new(Points { left: state.rules.bucket, at_ms: 0 }),
            rules: Mutex::new(state.rules),
        }
    }

    fn state(&self) -> ShopState {
        let faults = locked(&self.faults).clone();
        ShopState {
            name: self.name.clone(),
            number: self.number,
            tokens: locked(&self.tokens).clone(),
            data: locked(&self.data).clone(),
            faults_end: faults.ends(),
            faults,
            counters: self.counts.read(),
            rules: self.rules(),
        }
    }

    pub(crate) fn domain(&self) -> String {
        format!("{}.myshopify.com", self.name)
    }

    pub(crate) fn gid(&self) -> String {
        format!("gid://shopify/Shop/{}", self.number)
    }

    pub(crate) fn rules(&self) -> Rules {
        locked(&self.rules).clone()
    }

    pub(crate) fn set_rules(&self, change: impl FnOnce(&mut Rules)) {
        let mut rules = locked(&self.rules);
        change(&mut rules);
        let mut points = locked(&self.points);
        points.left = points.left.min(rules.bucket);
    }
}

/// All shops.
#[derive(Debug, Default)]
pub(crate) struct Shops(RwLock<BTreeMap<String, Arc<Place>>>);

impl Shops {
    pub(crate) fn first() -> Self {
        let shops = Self::default();
        for name in FIRST_SHOPS {
            shops.create(name);
        }
        shops
    }

    /// By the name in its domain.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Place>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Made when there is none. `None`: no shop has such a name.
    pub(crate) fn create(&self, name: &str) -> Option<Arc<Place>> {
        let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        if !(1..=61).contains(&name.len()) || !name.bytes().all(good) || name.starts_with('-') {
            return None;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(all.entry(name.to_owned()).or_insert_with(|| Arc::new(Place::new(name)))))
    }

    /// Its address answers 404 from now on. False: there was none.
    pub(crate) fn close(&self, name: &str) -> bool {
        let closed = self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        if let Some(place) = &closed {
            place.gate.set(&Faults::default());
        }
        closed.is_some()
    }

    pub(crate) fn reset(&self) {
        let names: Vec<String> = self.0.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        for name in names {
            self.close(&name);
        }
        for name in FIRST_SHOPS {
            self.create(name);
        }
    }

    pub(crate) fn states(&self) -> Vec<ShopState> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().map(|place| place.state()).collect()
    }

    /// Goes on from what was kept; a file of before shops were has none, and changes nothing.
    pub(crate) fn restore(&self, states: Vec<ShopState>) {
        if !states.is_empty() {
            let places = states.into_iter().map(|state| (state.name.clone(), Arc::new(Place::of(state))));
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = places.collect();
        }
    }
}
