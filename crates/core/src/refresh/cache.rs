//! Snapshots in memory. An entry is dropped when a signal says that its connector changed; a load that was under way
//! at that moment is not kept, by a generation that each drop moves on.

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

use tokio::sync::{Mutex, watch};

use crate::{credential::Snapshot, id::ConnectorId};

#[derive(Default)]
pub(super) struct Cache(RwLock<HashMap<ConnectorId, Arc<Entry>>>);

pub(super) struct Entry {
    /// With the era of the signals in which it was loaded.
    kept: RwLock<Option<(u64, Arc<Snapshot>)>>,
    generation: watch::Sender<u64>,
    /// One load at a time: the others find its result.
    pub(super) loading: Mutex<()>,
}

impl Cache {
    pub(super) fn get(&self, connector: &ConnectorId, era: u64) -> Option<Arc<Snapshot>> {
        self.read().get(connector)?.get(era)
    }

    pub(super) fn entry(&self, connector: &ConnectorId) -> Arc<Entry> {
        if let Some(entry) = self.read().get(connector) {
            return Arc::clone(entry);
        }
        let mut map = self.0.write().expect("no panic happens while it is held");
        Arc::clone(map.entry(connector.clone()).or_insert_with(|| {
            Arc::new(Entry { kept: RwLock::default(), generation: watch::Sender::new(0), loading: Mutex::default() })
        }))
    }

    /// The connector changed: what is kept of it is over, and whoever watches it wakes.
    pub(super) fn changed(&self, connector: &ConnectorId) {
        if let Some(entry) = self.read().get(connector) {
            entry.drop_kept();
        }
    }

    /// Anything may have changed.
    pub(super) fn all_changed(&self) {
        for entry in self.read().values() {
            entry.drop_kept();
        }
    }

    /// Forgets a connector that does not exist, so that asking for random ids fills no memory.
    pub(super) fn remove(&self, connector: &ConnectorId) {
        self.0.write().expect("no panic happens while it is held").remove(connector);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<ConnectorId, Arc<Entry>>> {
        self.0.read().expect("no panic happens while it is held")
    }
}

impl Entry {
    pub(super) fn get(&self, era: u64) -> Option<Arc<Snapshot>> {
        let kept = self.kept.read().expect("no panic happens while it is held");
        kept.as_ref().filter(|(loaded_in, _)| *loaded_in == era).map(|(_, snapshot)| Arc::clone(snapshot))
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    pub(super) fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    /// Keeps a snapshot that was loaded while the entry was at `generation`.
    pub(super) fn keep(&self, snapshot: Arc<Snapshot>, era: u64, generation: u64) {
        let mut kept = self.kept.write().expect("no panic happens while it is held");
        if self.generation() == generation {
            *kept = Some((era, snapshot));
        }
    }

    fn drop_kept(&self) {
        let mut kept = self.kept.write().expect("no panic happens while it is held");
        *kept = None;
        self.generation.send_modify(|generation| *generation += 1);
    }
}
