//! The lifeboat at work: a token set that the database cannot take is kept across a crash, and stored at the next chance.
//!
//! A set goes into it when the first attempt to store it has failed or has not been answered soon, not before: while the
//! database works, its commit is as durable as the lifeboat would be, and the moment before it as short.

use std::{
    collections::HashSet,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::FutureExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{
    AuthError, Engine,
    engine::{OURS_RETRY, chain, ours},
};
use crate::{
    credential::Trouble,
    health::Health,
    id::{CredentialId, ExchangeId},
    ports::{Castaway, StoreError, Stored},
    provider::{Auth, OAuth2},
};

/// A write that takes longer is doubted, and the set goes into the lifeboat while it is waited for.
const SOON: Duration = Duration::from_millis(250);
/// Between two attempts to put a set into a lifeboat that does not take it.
const PUT_AGAIN: Duration = Duration::from_secs(2);
/// So many failures in a row mean that the database takes nothing at the moment.
const ENOUGH: u32 = 3;

/// What an engine knows of its lifeboat.
#[derive(Default)]
pub(super) struct Boat {
    /// One look at a time.
    turn: tokio::sync::Mutex<()>,
    /// Credentials whose newest set is in it and nowhere else; `None`: nobody has looked yet.
    waiting: Mutex<Option<HashSet<CredentialId>>>,
    /// Exchanges of this process: their flights go on trying by themselves.
    held: Mutex<HashSet<ExchangeId>>,
}

impl Boat {
    fn is_clear_of(&self, credential: &CredentialId) -> bool {
        let waiting = self.waiting.lock().expect("no panic happens while it is held");
        waiting.as_ref().is_some_and(|waiting| !waiting.contains(credential))
    }

    fn held(&self) -> MutexGuard<'_, HashSet<ExchangeId>> {
        self.held.lock().expect("no panic happens while it is held")
    }
}

impl Engine {
    /// Stores what the lifeboat holds, by the same conditional write as a fresh answer. Answers for how many credentials
    /// that could not be done yet. What this process's own flights are about to store is theirs.
    pub async fn empty_lifeboat(self: &Arc<Self>) -> Result<usize, StoreError> {
        let _turn = self.boat.turn.lock().await;
        let mut left = HashSet::new();
        let mut in_a_row = 0;
        for castaway in self.ports.lifeboat.list().await? {
            if self.boat.held().contains(&castaway.exchange.id) {
                continue;
            }
            if in_a_row < ENOUGH {
                let Err(error) = self.land(&castaway).await else {
                    in_a_row = 0;
                    continue;
                };
                in_a_row += 1;
                let connector = &castaway.exchange.connector;
                error!(error = %chain(&error), "could not store the lifeboat's token set of connector {connector}");
            }
            left.insert(castaway.exchange.credential);
        }
        let count = left.len();
        *self.boat.waiting.lock().expect("no panic happens while it is held") = Some(left);
        Ok(count)
    }

    /// Comes before every lease: with a set of this credential in the lifeboat, an exchange would spend a token whose
    /// success we have.
    pub(super) async fn ashore(self: &Arc<Self>, credential: &CredentialId) -> Result<(), AuthError> {
        if !self.boat.is_clear_of(credential) {
            self.empty_lifeboat().await.map_err(|error| ours(&error))?;
        }
        if self.boat.is_clear_of(credential) {
            return Ok(());
        }
        Err(AuthError::Unavailable {
            class: Trouble::Ours,
            detail: "our own storage does not take a token that we hold".to_owned(),
            retry_after: OURS_RETRY,
        })
    }

    /// Stores a success, whatever it takes: tries for as long as this process lives, and keeps the set in the lifeboat
    /// once an attempt has failed or is not answered soon.
    pub(super) async fn save(self: &Arc<Self>, castaway: &Arc<Castaway>) -> Stored {
        let failed = Notify::new();
        let attempt = || async {
            let stored = self.store_once(castaway).await;
            match &stored {
                Ok(_) => self.note_stored(&castaway.provider),
                Err(error) => {
                    self.note_unstored(&castaway.provider, &castaway.exchange.connector, &chain(error));
                    failed.notify_one();
                }
            }
            stored
        };
        let mut storing = pin!(self.insist("store the rotated token", attempt));
        tokio::select! {
            biased;
            stored = &mut storing => return stored,
            () = failed.notified() => {}
            () = self.ports.clock.sleep(SOON) => {}
        }
        self.boat.held().insert(castaway.exchange.id.clone());
        let done = CancellationToken::new();
        // Beside the flight, and to its end: neither may a slow disk keep callers from a token that is stored, nor may a
        // file be left behind that was still being written when its set was stored.
        self.tasks.spawn(Arc::clone(self).keep(Arc::clone(castaway), done.clone()));
        let stored = storing.await;
        done.cancel();
        stored
    }

    /// Keeps it in the lifeboat until it is stored.
    async fn keep(self: Arc<Self>, castaway: Arc<Castaway>, done: CancellationToken) {
        let (boat, connector) = (&self.ports.lifeboat, &castaway.exchange.connector);
        while !done.is_cancelled() {
            match boat.put(&castaway).await {
                Ok(()) => {
                    warn!("the new token set of connector {connector} is kept in the lifeboat until it can be stored");
                    done.cancelled().await;
                }
                Err(error) => {
                    error!(
                        error = %chain(&error),
                        "the lifeboat does not take the new token set of connector {connector}; a crash would lose it"
                    );
                    tokio::select! {
                        () = done.cancelled() => {}
                        () = self.ports.clock.sleep(PUT_AGAIN) => {}
                    }
                }
            }
        }
        self.take_out(&castaway).await;
        self.boat.held().remove(&castaway.exchange.id);
    }

    /// A set that stays in although it is stored does no harm: it is found to be stored at the next look.
    async fn take_out(&self, castaway: &Castaway) {
        if let Err(error) = self.ports.lifeboat.remove(castaway).await {
            warn!(error = %chain(&error), "could not take a stored token set out of the lifeboat");
        }
    }

    /// One attempt. A panic of ours costs the attempt and not the token set.
    async fn store_once(&self, castaway: &Castaway) -> Result<Stored, StoreError> {
        let storing = self.ports.store.store_rotation(&castaway.exchange, &castaway.rotation);
        let stored = AssertUnwindSafe(storing).catch_unwind().await;
        stored.unwrap_or_else(|_| Err(StoreError::new("store a rotated token set: our own code panicked")))
    }

    /// From the lifeboat into the database; what follows is what follows a fresh answer.
    async fn land(self: &Arc<Self>, castaway: &Castaway) -> Result<(), StoreError> {
        let connector = &castaway.exchange.connector;
        let stored = self.store_once(castaway).await?;
        self.note_stored(&castaway.provider);
        self.forget(connector);
        match stored {
            Stored::Yes(snapshot) => {
                info!(
                    credential.version = %snapshot.credential.version,
                    "stored the token set that the lifeboat held for connector {connector}"
                );
                if snapshot.health == Health::AuthFailed {
                    let engine = Arc::clone(self);
                    tokio::spawn(async move { engine.heal_in_time(&snapshot).await });
                }
            }
            Stored::Superseded => {
                info!("a newer set of connector {connector} is stored; the lifeboat's is not the one in use");
                self.keep_spare(&castaway.exchange, &castaway.rotation.tokens).await;
            }
            Stored::Gone => {
                info!("connector {connector} is disconnected; revoking the lifeboat's token set");
                self.give_back(castaway).await;
            }
        }
        self.take_out(castaway).await;
        Ok(())
    }

    async fn give_back(&self, castaway: &Castaway) {
        let app = self.ports.apps.find(&castaway.app).await;
        if let (Some(facts), Ok(Some(app))) = (self.facts(&castaway.provider, &castaway.account), app) {
            self.revoke(&facts, &app, &castaway.rotation.tokens.access_token).await;
        }
    }

    /// How long the provider takes a used refresh token again.
    pub(super) fn grace(&self, provider: &str, account: &str) -> Duration {
        self.facts(provider, account).map_or(Duration::ZERO, |facts| facts.reuse_grace)
    }

    /// The facts of an account's token endpoint, where there is one.
    fn facts(&self, provider: &str, account: &str) -> Option<Box<OAuth2>> {
        let provider = self.providers.find(provider)?;
        match provider.auth(&provider.account(account).ok()?) {
            Auth::OAuth2(facts) => Some(facts),
            Auth::ApiKey(_) => None,
        }
    }
}
