//! Table `credentials`: the port [`CredentialStore`].

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, CredentialId, ExchangeId, Snapshot, Version,
    health::Event,
    ports::{Begun, Changed, Close, CredentialStore, Exchange, Failure, Lease, Rotation, StoreError, Stored},
};

use crate::store::Store;

#[async_trait]
#[expect(unused_variables, reason = "a skeleton")]
impl CredentialStore for Store {
    async fn load(&self, connector: &ConnectorId) -> Result<Option<Snapshot>, StoreError> {
        todo!()
    }
    async fn begin(&self, exchange: &Exchange) -> Result<Begun, StoreError> {
        todo!()
    }
    async fn extend(&self, exchange: &ExchangeId, lease: &Lease) -> Result<(), StoreError> {
        todo!()
    }
    async fn store_rotation(&self, exchange: &Exchange, rotation: &Rotation) -> Result<Stored, StoreError> {
        todo!()
    }
    async fn close(&self, exchange: &Exchange, close: &Close) -> Result<(), StoreError> {
        todo!()
    }
    async fn close_orphan(&self, open: &ExchangeId, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        todo!()
    }
    async fn fail(
        &self,
        credential: &CredentialId,
        failure: &Failure,
        exchange: Option<(&Exchange, &Close)>,
    ) -> Result<Changed, StoreError> {
        todo!()
    }
    async fn heal(
        &self,
        connector: &ConnectorId,
        version: Version,
        event: Event,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        todo!()
    }
    async fn due(&self, now: DateTime<Utc>, limit: u64) -> Result<Vec<ConnectorId>, StoreError> {
        todo!()
    }
}
