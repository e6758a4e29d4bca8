//! Which connector an alias means, remembered for as long as that connector has not changed.

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

use holdfast_core::{
    OrgId, Snapshot,
    ports::{Signals, StoreError},
};

use crate::app::App;

/// With more than this, it begins anew.
const MOST: usize = 10_000;

/// Snapshots by org and alias. One counts while the engine's memory still holds the very same: whatever changes the
/// connector, its alias included, makes the engine drop it.
#[derive(Default)]
pub struct Aliases(RwLock<HashMap<OrgId, HashMap<String, Arc<Snapshot>>>>);

impl Aliases {
    /// The org's connector of this id or alias, without a look into the database where it is remembered.
    pub(super) async fn find(&self, app: &App, org: &OrgId, name: &str) -> Result<Option<Arc<Snapshot>>, StoreError> {
        if let Some(kept) = self.kept(org, name)
            && let Some(current) = app.engine.snapshot(&kept.connector).await?
            && Arc::ptr_eq(&kept, &current)
        {
            return Ok(Some(current));
        }
        let Some(found) = app.store.find_connector(org, name).await?.map(|view| view.snapshot) else { return Ok(None) };
        if app.store.era().is_none() {
            // Signals are not known to arrive: memory counts for nothing.
            return Ok(Some(Arc::new(found)));
        }
        let Some(current) = app.engine.snapshot(&found.connector).await? else { return Ok(None) };
        // Had the alias moved on before the engine read the connector, no signal would tell of it any more.
        let still = app.store.find_connector(org, name).await?;
        if still.is_some_and(|view| view.snapshot.connector == found.connector) {
            self.keep(org, name, &current);
        }
        Ok(Some(current))
    }

    fn kept(&self, org: &OrgId, name: &str) -> Option<Arc<Snapshot>> {
        let all = self.0.read().expect("no panic happens while it is held");
        all.get(org)?.get(name).cloned()
    }

    fn keep(&self, org: &OrgId, name: &str, snapshot: &Arc<Snapshot>) {
        let mut all = self.0.write().expect("no panic happens while it is held");
        if all.values().map(HashMap::len).sum::<usize>() >= MOST {
            all.clear();
        }
        all.entry(org.clone()).or_default().insert(name.to_owned(), Arc::clone(snapshot));
    }
}
