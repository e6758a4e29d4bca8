//! Look-ups beside the main paths.

use holdfast_core::{OrgId, ports::StoreError};
use serde_json::Value;

use crate::{sessions::Session, store::Store};

impl Store {
    /// Every org with its name, oldest first.
    pub async fn orgs(&self) -> Result<Vec<(String, OrgId)>, StoreError> {
        todo!()
    }

    /// The session whose consent carries this `state`, spent or not; spends nothing.
    pub async fn find_session_by_state(&self, state_hash: &[u8; 32]) -> Result<Option<Session>, StoreError> {
        let _ = state_hash;
        todo!()
    }

    /// How a session ended, if it has.
    pub async fn session_result(&self, id: &str) -> Result<Option<Value>, StoreError> {
        let _ = id;
        todo!()
    }
}
