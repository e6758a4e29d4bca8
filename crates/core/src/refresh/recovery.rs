//! What lost owners leave behind: open journal rows, and second answers to one token.

use std::{sync::Arc, time::Duration};

use tracing::{info, warn};

use super::{
    Engine, Need,
    decide::{self, Orphan},
    engine::chain,
};
use crate::{
    credential::{Fingerprint, TokenSet},
    id::ConnectorId,
    ports::{Changed, Exchange, OpenExchange, StoreError, Trigger},
};

/// Rows that one look settles.
const AT_ONCE: u64 = 100;

impl Engine {
    /// Settles the open exchanges of lost owners for whom no caller comes. With a reuse grace the token is shown again
    /// while that lasts; without one, only once the access token is over: haste would gain nothing. Answers how many rows
    /// were closed.
    pub async fn settle_lost(self: &Arc<Self>) -> Result<usize, StoreError> {
        let mut settled = Vec::new();
        for (connector, open) in self.ports.store.lost(AT_ONCE).await? {
            let Some(snapshot) = self.snapshot(&connector).await? else { continue };
            let grace = self.grace(&snapshot.provider, &snapshot.account);
            if decide::orphan(&open, grace, &self.settings) != Orphan::Relieve {
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
        warn!(exchange.id = %open.id, holder = %open.holder, "settling the exchange of a lost replica");
        let (store, now) = (&self.ports.store, self.ports.clock.now());
        if grace.is_zero() { store.close_orphan(&open.id, now).await } else { store.close_cut_off(&open.id, now).await }
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
