//! Table `exchanges`: the journal.

use chrono::{DateTime, Utc};
use holdfast_core::ports::StoreError;

use crate::store::Store;

impl Store {
    /// Connectors in `connected` whose refresh was due before this moment.
    pub async fn overdue_count(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let _ = before;
        todo!()
    }

    /// Exchanges that are journalled open.
    pub async fn open_exchange_count(&self) -> Result<u64, StoreError> {
        todo!()
    }
}
