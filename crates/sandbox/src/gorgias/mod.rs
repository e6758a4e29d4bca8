//! Gorgias, imitated from its documentation: `/gorgias/{subdomain}/…` is `https://{subdomain}.gorgias.com/…`.
//!
//! What the documentation leaves open is a switch: [`Rules`].

mod account;
mod api;
mod changes;
pub(crate) mod consent;
mod customers;
mod data;
mod error;
mod handle;
mod integrations;
mod limits;
mod lists;
mod seed;
mod tickets;
mod token_endpoint;
mod tokens;

pub use account::{Rotation, Rules};
pub use handle::{Gorgias, GorgiasGrant};

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::Method;
use axum::response::Response;

use crate::desk::World;
use crate::faults::Faults;
use crate::http::{Answer, Request};

pub(crate) use account::{Kept, Place};

/// Accounts that exist from the start. They are made when they are first looked for: those who use only other providers
/// need not keep them.
const FIRST_ACCOUNTS: [&str; 2] = ["acme", "globex"];

/// All accounts of one sandbox, by subdomain; `None` is one that was closed.
#[derive(Debug, Default)]
pub(crate) struct Accounts(RwLock<BTreeMap<String, Option<Arc<Place>>>>);

impl Accounts {
    /// Back to the first moment.
    pub(crate) fn reset(&self) {
        let old = std::mem::take(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner));
        for place in old.into_values().flatten() {
            place.gate.set(&Faults::default());
        }
    }

    /// As they were when they were last kept.
    pub(crate) fn restore(&self, kept: Vec<Kept>) {
        let all = kept.into_iter().map(|kept| (kept.name.clone(), Some(Arc::new(Place::restored(kept)))));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all.collect();
    }

    pub(crate) fn to_keep(&self) -> Vec<Kept> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.values().flatten().map(|place| place.to_keep()).collect()
    }

    pub(crate) fn find(&self, name: &str, now_ms: i64) -> Option<Arc<Place>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        known.unwrap_or_else(|| FIRST_ACCOUNTS.contains(&name).then(|| self.create(name, now_ms)))
    }

    /// The account of that subdomain, made when there is none.
    pub(crate) fn create(&self, name: &str, now_ms: i64) -> Arc<Place> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let slot = all.entry(name.to_owned()).or_default();
        Arc::clone(slot.get_or_insert_with(|| Arc::new(Place::new(name, now_ms))))
    }

    /// From then on nothing answers at its address but a page.
    pub(crate) fn close(&self, name: &str) -> bool {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let there = all.get(name).map_or(FIRST_ACCOUNTS.contains(&name), Option::is_some);
        if let Some(place) = all.insert(name.to_owned(), None).flatten() {
            place.gate.set(&Faults::default());
        }
        there
    }
}

/// `request.path` starts with the subdomain.
pub(crate) async fn serve(world: Arc<World>, mut request: Request) -> Response {
    let name = if request.path.is_empty() { String::new() } else { request.path.remove(0) };
    let Some(place) = world.gorgias.find(&name, world.clock.now_ms()) else {
        return page("There is no account at this address").into_response();
    };
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["oauth", "authorize"]) => consent::show(&world, &place, &request).into_response(),
        ("POST", ["oauth", "authorize"]) => {
            let answer = consent::decide(&world, &place, &request);
            world.keep().await;
            answer.into_response()
        }
        // Keeps what it did by itself.
        ("POST", ["oauth", "token"]) => token_endpoint::serve(world, place, request).await,
        (_, ["api", ..]) => {
            request.path.remove(0);
            let reads = request.method == Method::GET;
            let response = api::serve(&world, &place, request).await;
            if !reads {
                world.keep().await;
            }
            response
        }
        _ => page("The page you were looking for does not exist").into_response(),
    }
}

fn page(words: &str) -> Answer {
    Answer::html(404, format!("<!DOCTYPE html><html><head><title>{words}</title></head><body>{words}</body></html>"))
}
