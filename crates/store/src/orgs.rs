//! Table `orgs`.

use holdfast_core::{OrgId, ports::StoreError};

use crate::store::Store;

impl Store {
    /// The org of this name; makes it, with a data key of its own, when there is none.
    pub async fn ensure_org(&self, name: &str) -> Result<OrgId, StoreError> {
        let _ = name;
        todo!()
    }

    /// The org of this name.
    pub async fn find_org(&self, name: &str) -> Result<Option<OrgId>, StoreError> {
        let _ = name;
        todo!()
    }
}
