//! One shop from the side that no caller of the provider sees.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::api;
use super::shop::{Place, Rules};
use crate::counters::Counters;
use crate::desk::{World, locked};
use crate::faults::Faults;
use crate::ledger::Ledger;

/// A token answer, and which grant it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfflineToken {
    /// The grant's number in this shop.
    pub grant: u64,
    /// The access token.
    pub access_token: String,
    /// Comma separated.
    pub scope: String,
    /// Seconds; none: endless.
    pub expires_in: Option<i64>,
    /// None: endless.
    pub refresh_token: Option<String>,
}

/// A shop of the sandbox. After a reset it is the old one, which nobody reaches any more: ask for it again.
///
/// Of [`Faults`], those that concern large bodies (`api_refuses_after`, `api_echo`, `api_download`) do nothing here.
#[derive(Debug, Clone)]
pub struct Shop {
    world: Arc<World>,
    place: Arc<Place>,
}

impl Shop {
    pub(crate) fn new(world: Arc<World>, place: Arc<Place>) -> Self {
        Self { world, place }
    }

    /// The name in its domain.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// The app's webhook subscriptions, oldest first: `id`, `topic`, `uri`.
    pub fn webhooks(&self) -> Vec<Value> {
        locked(&self.place.data).webhooks.clone()
    }

    /// Changes them: Shopify deletes one that has failed too often.
    pub fn change_webhooks(&self, change: impl FnOnce(&mut Vec<Value>)) {
        change(&mut locked(&self.place.data).webhooks);
    }

    /// `acme.myshopify.com`.
    pub fn domain(&self) -> String {
        self.place.domain()
    }

    /// Shopify's immutable id of it.
    pub fn gid(&self) -> String {
        self.place.gid()
    }

    /// What stands for `https://{name}.myshopify.com`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("{}/shopify/{}", self.world.start.url, self.place.name)
    }

    /// Mints a refreshable token with these scopes, which retires the refresh token of before.
    pub fn grant(&self, scope: &str) -> OfflineToken {
        self.acquire(scope, true)
    }

    /// Mints a token without an end, as apps got before 2026.
    pub fn grant_endless(&self, scope: &str) -> OfflineToken {
        self.acquire(scope, false)
    }

    fn acquire(&self, scope: &str, expiring: bool) -> OfflineToken {
        let access_secs = self.place.rules().access_secs;
        let now_ms = self.world.clock.now_ms();
        let issued = locked(&self.place.tokens).acquire(scope.to_owned(), expiring, access_secs, now_ms);
        OfflineToken {
            grant: issued.grant,
            access_token: issued.access_token,
            scope: issued.scope,
            expires_in: issued.access_secs,
            refresh_token: issued.refresh_token,
        }
    }

    /// The merchant takes the app off: every token dies. Answers how many sets did.
    pub fn uninstall(&self) -> u64 {
        api::uninstall(&self.world, &self.place)
    }

    /// Ends all access tokens now; their refresh tokens stay good.
    pub fn expire_access_tokens(&self) {
        locked(&self.place.tokens).expire_access(self.world.clock.now_ms());
    }

    /// Whether an access token works at this moment. Looking is no use of it.
    pub fn accepts(&self, access_token: &str) -> bool {
        locked(&self.place.tokens).working(access_token, self.world.clock.now_ms()).is_some()
    }

    /// How it behaves.
    pub fn rules(&self) -> Rules {
        self.place.rules()
    }

    /// Changes how it behaves.
    pub fn set_rules(&self, change: impl FnOnce(&mut Rules)) {
        self.place.set_rules(change);
    }

    /// Its numbers. `rotations` and `replays` count migrations too, `rate_limited` the throttled documents.
    pub fn counters(&self) -> Counters {
        self.place.counts.read()
    }

    /// Everything it issued and was shown, with the tokens themselves. A set's `spent_at_ms` is when its refresh token was
    /// retired; its access token lives on to its own end.
    pub fn ledger(&self) -> Ledger {
        locked(&self.place.tokens).ledger(&self.place.name)
    }

    /// The trouble that is set, with what is left of its counts.
    pub fn faults(&self) -> Faults {
        locked(&self.place.faults).clone()
    }

    /// Makes or changes trouble.
    pub fn trouble(&self, change: impl FnOnce(&mut Faults)) {
        let mut faults = locked(&self.place.faults);
        change(&mut faults);
        *faults = std::mem::take(&mut *faults).set_at(self.world.clock.now_ms());
        self.place.gate.set(&faults);
    }

    /// Ends all trouble and releases what is held.
    pub fn calm(&self) {
        self.trouble(|faults| *faults = Faults::default());
    }

    /// An order by the number that people know it by (`#1001`), with all of its fields.
    pub fn order(&self, name: &str) -> Option<Value> {
        locked(&self.place.data).orders.iter().find(|order| order["name"] == name).cloned()
    }

    /// Changes an order, as the shop's people may do at any time.
    pub fn change_order(&self, name: &str, change: impl FnOnce(&mut Value)) {
        if let Some(order) = locked(&self.place.data).orders.iter_mut().find(|order| order["name"] == name) {
            change(order);
        }
    }
}
