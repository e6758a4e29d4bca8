//! Freshdesk, imitated from its documentation: `/freshdesk/{domain}/…` is `https://{domain}.freshdesk.com/…`.

mod account;
mod api;
mod articles;
mod changes;
mod data;
mod fields;
mod handle;
mod limits;
mod lists;
mod people;
mod query;
mod seed;
mod tickets;
mod trouble;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::response::Response;

use crate::desk::World;
use crate::http::{Answer, Request};

pub(crate) use account::{Account, Kept};
pub use data::{FreshdeskPlan, TicketScope};
pub use handle::Freshdesk;
pub use trouble::FreshdeskTrouble;

/// Accounts that exist from the start. They are made when they are first looked for: those who use only other providers
/// need not keep them.
const FIRST_ACCOUNTS: [&str; 2] = ["acme", "globex"];

/// All accounts of one sandbox, by domain; `None` is one that was closed.
#[derive(Debug, Default)]
pub(crate) struct Accounts(RwLock<BTreeMap<String, Option<Arc<Account>>>>);

impl Accounts {
    /// Back to the first moment.
    pub(crate) fn reset(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// As they were when they were last kept.
    pub(crate) fn restore(&self, kept: Vec<Kept>, url: &str) {
        let all = kept.into_iter().map(|kept| (kept.name.clone(), Some(Arc::new(Account::restored(kept, url)))));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all.collect();
    }

    pub(crate) fn find(&self, name: &str, url: &str, now_ms: i64) -> Option<Arc<Account>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        known.unwrap_or_else(|| FIRST_ACCOUNTS.contains(&name).then(|| self.create(name, url, now_ms)))
    }

    /// Those that were looked for.
    pub(crate) fn all(&self) -> Vec<Arc<Account>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().flatten().cloned().collect()
    }

    /// The account of that domain, made when there is none.
    pub(crate) fn create(&self, name: &str, url: &str, now_ms: i64) -> Arc<Account> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let slot = all.entry(name.to_owned()).or_default();
        Arc::clone(slot.get_or_insert_with(|| Arc::new(Account::new(name, url, now_ms))))
    }

    /// From then on nothing answers at its address but a page.
    pub(crate) fn close(&self, name: &str) -> bool {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let there = all.get(name).map_or(FIRST_ACCOUNTS.contains(&name), Option::is_some);
        all.insert(name.to_owned(), None);
        there
    }
}

/// `request.path` starts with the domain.
pub(crate) async fn serve(world: Arc<World>, mut request: Request) -> Response {
    let name = if request.path.is_empty() { String::new() } else { request.path.remove(0) };
    let found = world.freshdesk.find(&name, &world.start.url, world.clock.now_ms());
    let Some(account) = found else {
        return nothing_here("There is no helpdesk here", 404).into_response();
    };
    if request.path.len() < 3 || request.path[0] != "api" || request.path[1] != "v2" {
        return nothing_here("The page you were looking for does not exist", 404).into_response();
    }
    request.path.drain(..2);
    let reads = request.method == axum::http::Method::GET;
    let response = api::serve(&world, &account, request).await;
    if !reads {
        world.keep().await;
    }
    response
}

fn nothing_here(words: &str, status: u16) -> Answer {
    Answer::html(status, format!("<!DOCTYPE html><html><head><title>{words}</title></head><body>{words}</body></html>"))
}
