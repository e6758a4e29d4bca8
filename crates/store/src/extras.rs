//! Table `extras`: what rides along with a credential, sealed, one row each.

use holdfast_core::{ConnectorId, ports::StoreError};
use secrecy::SecretString;

use crate::store::Store;

impl Store {
    /// By name. One that cannot be opened is left out, and logged.
    pub async fn extras(&self, connector: &ConnectorId) -> Result<Vec<(String, SecretString)>, StoreError> {
        let _ = connector;
        todo!()
    }

    /// Writes one, over an older value.
    pub async fn put_extra(&self, connector: &ConnectorId, name: &str, value: &SecretString) -> Result<(), StoreError> {
        let _ = (connector, name, value);
        todo!()
    }
}
