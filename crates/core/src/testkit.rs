//! Ports in memory and clocks for tests: everything an engine needs, without a socket or a file.

pub mod answers;
mod clock;
mod endpoint;
pub mod feed;
pub mod leases;
mod lifeboat;
mod store;

pub use clock::{ManualClock, PausedClock, SeededRandom};
pub use endpoint::{Endpoint, FakeProvider, Post, Script};
pub use lifeboat::MemoryLifeboat;
pub use store::{Fault, MemoryStore, Op, Replica};

use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;

use crate::{
    oauth_app::AppId,
    ports::{Meter, OAuthApp, OAuthApps, StoreError},
    refresh::OutcomeKind,
};

/// The same app for everybody.
pub struct OneApp(pub OAuthApp);

impl OneApp {
    /// `client` with `secret`.
    pub fn new() -> Self {
        Self(OAuthApp {
            client_id: "client".to_owned(),
            client_secret: Some(SecretString::from("secret")),
            next_client_secret: None,
        })
    }
}

impl Default for OneApp {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl OAuthApps for OneApp {
    async fn find(&self, _app: &AppId) -> Result<Option<OAuthApp>, StoreError> {
        Ok(Some(self.0.clone()))
    }
}

/// Counts nothing.
pub struct NoMeter;

impl Meter for NoMeter {
    fn exchange(&self, _provider: &str, _outcome: OutcomeKind, _duration: Duration) {}
    fn joined(&self) {}
    fn lease_wait(&self, _waited: Duration) {}
    fn false_alarm(&self, _provider: &str) {}
}
