//! Migrations, safe with many replicas starting at once, and the check of the master key.

use holdfast_core::ports::StoreError;

use crate::store::Store;

impl Store {
    /// Applies what is pending. Safe with any number of processes starting at once.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        todo!()
    }

    /// Every step by name, oldest first, and whether it is applied. Writes nothing.
    pub async fn migration_status(&self) -> Result<Vec<(String, bool)>, StoreError> {
        todo!()
    }

    /// Checks that this master key sealed this database; an empty one is marked as this key's. After [`Store::migrate`].
    pub async fn unlock(&self) -> Result<(), StoreError> {
        todo!()
    }
}
