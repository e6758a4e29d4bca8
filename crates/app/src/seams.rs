//! The seams of the core, as the real world has them. Tests pass others.

mod clock;
mod guard;
mod http;
mod random;

use std::{sync::Arc, time::Duration};

use holdfast_core::ports::{Clock, Http, Random};

pub use clock::SystemClock;
pub use guard::Guard;
pub(crate) use guard::Way;
pub use http::GuardedHttp;
pub use random::OsRandom;

use crate::{
    config::Config,
    mail::{self, Transport},
};

/// A connection is made within this, or surely nothing was sent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What an instance reaches the world through.
#[derive(Clone)]
pub struct Seams {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// HTTP to providers, with the operator's exceptions from the guard: for provider endpoints and nothing else.
    pub http: Arc<dyn Http>,
    /// HTTP to the endpoints of orgs, with exceptions of its own.
    pub endpoints: Arc<dyn Http>,
    /// Whatever takes mail; `None`: nothing does, and mails are kept as not sent.
    pub mail: Option<Arc<dyn Transport>>,
}

impl Seams {
    /// The real ones.
    pub fn system(config: &Config) -> anyhow::Result<Self> {
        // Connecting has to fail before the exchange's own time-out does: only then is it known that nothing was sent.
        let connect_timeout = CONNECT_TIMEOUT.min(config.refresh.exchange_timeout / 2);
        let guard = Guard::new(&config.network.allow_private_hosts);
        Ok(Self {
            clock: Arc::new(SystemClock),
            random: Arc::new(OsRandom),
            http: Arc::new(GuardedHttp::new(guard, connect_timeout)?),
            endpoints: Arc::new(GuardedHttp::new(
                Guard::new(&config.events.allow_private_hosts),
                CONNECT_TIMEOUT.min(config.events.timeout / 2),
            )?),
            mail: mail::transport(config)?,
        })
    }
}

/// Makes *ring* the TLS implementation of this process; a second call does nothing. Has to come before the first client.
pub fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
