//! What connectors are used for, counted in memory and written down every few seconds: a call to a provider costs no
//! statement here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use chrono::TimeDelta;
use holdfast_core::{ConnectorId, ports::StoreError};
use holdfast_store::Used;
use tracing::warn;

use crate::app::App;

const EVERY: Duration = Duration::from_secs(5);
/// Pages show a fortnight of it.
const KEPT: TimeDelta = TimeDelta::days(90);

/// Of this replica, since it was written down last.
#[derive(Default)]
pub struct Usage(Mutex<HashMap<ConnectorId, Used>>);

impl Usage {
    /// A request went to the provider.
    pub(crate) fn called(&self, connector: &ConnectorId, fine: bool) {
        self.count(connector, Used { calls: 1, failed: u64::from(!fine), tokens: 0 });
    }

    /// A caller was given the token.
    pub(crate) fn handed_out(&self, connector: &ConnectorId) {
        self.count(connector, Used { tokens: 1, ..Used::default() });
    }

    fn count(&self, connector: &ConnectorId, used: Used) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(connector) {
            Some(count) => count.add(used),
            None => drop(counts.insert(connector.clone(), used)),
        }
    }
}

/// Writes down what has been counted. What the database does not take is kept for the next time.
pub async fn round(app: &App) -> Result<(), StoreError> {
    let usage = &app.metrics.usage;
    let counts = std::mem::take(&mut *usage.0.lock().unwrap_or_else(PoisonError::into_inner));
    let written = app.store.add_usage(&counts, app.seams.clock.now()).await;
    if written.is_err() {
        for (connector, used) in counts {
            usage.count(&connector, used);
        }
    }
    written
}

/// What was counted longer ago than [`KEPT`].
pub(crate) async fn forget(app: &App) -> Result<(), StoreError> {
    app.store.forget_usage((app.seams.clock.now() - KEPT).date_naive()).await
}

/// Writes down until the service is asked to stop, and once more then.
pub(crate) async fn work(app: Arc<App>) {
    loop {
        let stopping = app.draining.is_cancelled();
        if let Err(error) = round(&app).await {
            warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not note what connectors were used for");
        }
        if stopping {
            return;
        }
        tokio::select! {
            () = app.seams.clock.sleep(EVERY) => {}
            () = app.draining.cancelled() => {}
        }
    }
}
