//! Table `leases`: the port [`LeaseStore`].

use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::{
    CredentialId,
    ports::{Acquired, Lease, LeaseStore, StoreError},
};

use crate::store::Store;

#[async_trait]
#[expect(unused_variables, reason = "a skeleton")]
impl LeaseStore for Store {
    async fn acquire(&self, credential: &CredentialId, holder: &str, ttl: Duration) -> Result<Acquired, StoreError> {
        todo!()
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, StoreError> {
        todo!()
    }
    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        todo!()
    }
}
