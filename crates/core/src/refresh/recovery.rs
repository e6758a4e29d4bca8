//! What lost owners leave behind: open journal rows, and second answers to one token.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tracing::{info, warn};

use super::{
    Engine, Need,
    decide::{self, Orphan},
    engine::chain,
};
use crate::{
    credential::{Fingerprint, TokenSet},
    id::{ConnectorId, ExchangeId},
    ports::{Changed, Exchange, Loss, OpenExchange, StoreError, Trigger},
};

/// Rows that one look settles.
const AT_ONCE: u64 = 100;

/// The exchanges that somebody in this process works on, and how many do.
#[derive(Default)]
pub(super) struct AtWork(Mutex<HashMap<ExchangeId, usize>>);

/// Somebody works on an exchange for as long as this lives.
pub(super) struct Worker {
    engine: Arc<Engine>,
    exchange: ExchangeId,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut at_work = self.engine.at_work.0.lock().expect("no panic happens while it is held");
        match at_work.get_mut(&self.exchange) {
            Some(workers) if *workers > 1 => *workers -= 1,
            _ => drop(at_work.remove(&self.exchange)),
        }
    }
}

impl Engine {
    /// Somebody begins to work on an exchange, before its row is opened; until it is closed or stored.
    pub(super) fn work_on(self: &Arc<Self>, exchange: &ExchangeId) -> Worker {
        let mut at_work = self.at_work.0.lock().expect("no panic happens while it is held");
        *at_work.entry(exchange.clone()).or_default() += 1;
        Worker { engine: Arc::clone(self), exchange: exchange.clone() }
    }

    /// Whether a row is ours and nobody here works on it any more. The database has forgotten what we wrote: restored, or
    /// failed over with its last commits lost. Others see us live, and would wait for ever.
    fn is_forgotten(&self, open: &OpenExchange) -> bool {
        open.holder == self.holder
            && !self.at_work.0.lock().expect("no panic happens while it is held").contains_key(&open.id)
    }

    /// What is to be done about an open row.
    pub(super) fn orphan(&self, open: &OpenExchange, grace: Duration) -> Orphan {
        if self.is_forgotten(open) { Orphan::Relieve } else { decide::orphan(open, grace, &self.settings) }
    }

    /// Settles the open exchanges of lost owners for whom no caller comes. With a reuse grace the token is shown again
    /// while that lasts; without one, only once the access token is over: haste would gain nothing. Answers how many rows
    /// were closed.
    pub async fn settle_lost(self: &Arc<Self>) -> Result<usize, StoreError> {
        let mut settled = Vec::new();
        for (connector, open) in self.ports.store.lost(AT_ONCE).await? {
            let Some(snapshot) = self.snapshot(&connector).await? else { continue };
            let grace = self.grace(&snapshot.provider, &snapshot.account);
            if self.orphan(&open, grace) != Orphan::Relieve {
                continue;
            }
            let need = match snapshot.credential.secret.bearer() {
                Some(token) if !grace.is_zero() => Need::Not(Fingerprint::of(token)),
                _ => Need::ValidFor(Duration::ZERO),
            };
            if self.settle(&open, grace).await? == Changed::Yes {
                settled.push((connector, need));
            }
        }
        let follow = settled.iter().map(|(connector, need)| self.follow(connector, need));
        Ok(futures::future::join_all(follow).await.len())
    }

    /// What comes of it is logged and journalled by its flight.
    async fn follow(self: &Arc<Self>, connector: &ConnectorId, need: &Need) {
        let _told = self.fresh(connector, need, Trigger::Schedule).await;
    }

    /// Closes a lost owner's row: from here on an answer of that version may be lost.
    pub(super) async fn settle(&self, open: &OpenExchange, grace: Duration) -> Result<Changed, StoreError> {
        let loss = match grace {
            _ if self.is_forgotten(open) => Loss::Forgotten,
            Duration::ZERO => Loss::Silent,
            _ => Loss::CutOff,
        };
        warn!(exchange.id = %open.id, holder = %open.holder, ?loss, "settling an exchange that nobody works on");
        self.ports.store.close_lost(&open.id, loss, self.ports.clock.now()).await
    }

    /// Keeps the second answer to one token, in case that the first one turns out to be worthless.
    pub(super) async fn keep_spare(&self, exchange: &Exchange, tokens: &TokenSet) {
        match self.ports.store.keep_spare(exchange, tokens).await {
            Ok(Changed::Yes) => info!("kept the second answer to one token of connector {}", exchange.connector),
            Ok(Changed::No) => {}
            Err(error) => warn!(error = %chain(&error), "could not keep the second answer to one token"),
        }
    }
}
