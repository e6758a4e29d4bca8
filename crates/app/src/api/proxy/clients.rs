//! The API clients of connectors that are called, kept from call to call: making one asks the adapter for the account and
//! its OAuth addresses anew.

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

use holdfast_core::{ApiClient, ConnectorId, Engine, Snapshot};

/// Some kilobytes each; with more than this, it begins anew.
const MOST: usize = 10_000;

/// Clients by connector.
#[derive(Default)]
pub struct Clients(RwLock<HashMap<ConnectorId, ApiClient>>);

impl Clients {
    /// The one for this connector. `None`: this instance has no adapter for it, or it has no account yet.
    pub(super) fn of(&self, engine: &Arc<Engine>, known: &Snapshot) -> Option<ApiClient> {
        let kept = self.0.read().expect("no panic happens while it is held").get(&known.connector).cloned();
        // An account is named once; but a pending connector has none before.
        if let Some(client) = kept.filter(|client| client.is_for(known)) {
            return Some(client);
        }
        let client = ApiClient::new(engine, known)?;
        let mut clients = self.0.write().expect("no panic happens while it is held");
        if clients.len() >= MOST {
            clients.clear();
        }
        clients.insert(known.connector.clone(), client.clone());
        Some(client)
    }
}
