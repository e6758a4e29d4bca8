//! Spending with care: a fault of ours in storing or reading answers must not burn one grant after the other (LR-07).

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::Notify;
use tracing::error;

use super::{
    AuthError, Engine,
    decide::{self, Spend, Yields},
};
use crate::{credential::Trouble, id::ConnectorId};

/// Should the end of another exchange not be heard.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What became of the tokens that this process spent, by provider.
#[derive(Default)]
pub(super) struct Spending {
    providers: Mutex<HashMap<String, Account>>,
    ended: Notify,
}

#[derive(Default)]
struct Account {
    proven: bool,
    under_way: usize,
    unstored: Vec<ConnectorId>,
    last: Duration,
}

/// The right to spend one token; given back when dropped.
pub(super) struct Permit<'a> {
    spending: &'a Spending,
    provider: String,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(account) = self.spending.providers().get_mut(&self.provider) {
            account.under_way -= 1;
        }
        self.spending.ended.notify_waiters();
    }
}

impl Spending {
    fn providers(&self) -> MutexGuard<'_, HashMap<String, Account>> {
        self.providers.lock().expect("no panic happens while it is held")
    }
}

impl Engine {
    /// Waits until a token of this provider may be spent; an error where none may be.
    pub(super) async fn permit(&self, provider: &str) -> Result<Permit<'_>, AuthError> {
        loop {
            let ended = self.spending.ended.notified();
            match self.try_permit(provider) {
                Ok(permit) => return Ok(permit),
                Err(Spend::NotBefore(left)) => {
                    return Err(AuthError::Unavailable {
                        class: Trouble::Ours,
                        detail: "what the provider issued lately could not be stored; no more of its tokens are spent"
                            .to_owned(),
                        retry_after: left,
                    });
                }
                Err(Spend::Now | Spend::Wait) => {
                    tokio::select! {
                        () = ended => {}
                        () = self.ports.clock.sleep(LOOK_AGAIN) => {}
                    }
                }
            }
        }
    }

    fn try_permit(&self, provider: &str) -> Result<Permit<'_>, Spend> {
        let now = self.ports.clock.uptime();
        let mut providers = self.spending.providers();
        let account = providers.entry(provider.to_owned()).or_default();
        let yields = Yields {
            proven: account.proven,
            under_way: account.under_way,
            unstored: account.unstored.len(),
            since_last: now.saturating_sub(account.last),
        };
        match decide::spend(&yields, &self.settings) {
            Spend::Now => {
                account.under_way += 1;
                Ok(Permit { spending: &self.spending, provider: provider.to_owned() })
            }
            not_now => Err(not_now),
        }
    }

    /// The provider said yes, and nothing is stored. The operator is told of each connector, and once no more are spent.
    pub(super) fn note_unstored(&self, provider: &str, connector: &ConnectorId, why: &str) {
        let mut providers = self.spending.providers();
        let account = providers.entry(provider.to_owned()).or_default();
        account.last = self.ports.clock.uptime();
        if account.unstored.contains(connector) {
            return;
        }
        account.unstored.push(connector.clone());
        let count = account.unstored.len();
        error!(provider, connector.id = %connector, "{provider} said yes for connector {connector}, and nothing is stored: {why}");
        if u32::try_from(count).is_ok_and(|count| count == self.settings.unstored_limit) {
            let names: Vec<_> = account.unstored.iter().map(ConnectorId::as_str).collect();
            error!(
                provider,
                "no more tokens of {provider} are spent: for {count} connectors in a row it said yes and nothing was \
                 stored: {}; look for the cause in the lines above, mend it or go back to the version before, and restart",
                names.join(", ")
            );
        }
    }

    /// The provider said anything but yes, and that was understood.
    pub(super) fn note_unspent(&self, provider: &str) {
        self.spending.providers().entry(provider.to_owned()).or_default().proven = true;
    }

    /// Something that the provider issued is stored, or is not wanted any more: the chain works.
    pub(super) fn note_stored(&self, provider: &str) {
        let mut providers = self.spending.providers();
        let account = providers.entry(provider.to_owned()).or_default();
        account.proven = true;
        account.unstored.clear();
        drop(providers);
        self.spending.ended.notify_waiters();
    }
}
