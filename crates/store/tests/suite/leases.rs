//! Leases, by the database's clock.

use std::{sync::Arc, time::Duration};

use holdfast_core::{
    CredentialId,
    ports::{Acquired, Lease, LeaseStore as _},
};
use holdfast_store::Store;

use crate::harness::{TestDatabase, eventually, on_both};

on_both! {
    a_lease_has_one_holder_among_many,
    a_lapsed_lease_is_taken_and_the_fencing_token_grows,
    only_its_own_holder_releases_and_renews_a_lease,
}

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(30);

async fn take(store: &Store, holder: &str, ttl: Duration) -> Option<Lease> {
    match store.acquire(&CredentialId::from("cred_1"), holder, ttl).await.unwrap() {
        Acquired::Yes(lease) => Some(lease),
        Acquired::Held { remaining } => {
            assert!(remaining <= LONG);
            None
        }
    }
}

async fn a_lease_has_one_holder_among_many(db: Arc<TestDatabase>) {
    let store = db.store().await;

    let holders: Vec<_> = (0..20).map(|n| format!("holder {n}")).collect();
    let tries = futures::future::join_all(holders.iter().map(|holder| take(&store, holder, LONG))).await;

    assert_eq!(tries.iter().flatten().count(), 1);
    let Acquired::Held { remaining } = store.acquire(&CredentialId::from("cred_1"), "late", LONG).await.unwrap() else {
        panic!("it is held");
    };
    assert!(remaining > Duration::from_secs(30), "{remaining:?}");
}

async fn a_lapsed_lease_is_taken_and_the_fencing_token_grows(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let first = take(&store, "one", SHORT).await.unwrap();

    let second = eventually("the lease lapses", || take(&store, "two", LONG)).await;

    assert!(second.fencing_token > first.fencing_token);
    assert!(second.expires_at_ms > first.expires_at_ms);
    assert_eq!(store.renew(&first, LONG).await.unwrap(), None, "it is somebody else's");
}

async fn only_its_own_holder_releases_and_renews_a_lease(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let lease = take(&store, "one", LONG).await.unwrap();

    store.release(&Lease { holder: "two".to_owned(), ..lease.clone() }).await.unwrap();
    store.release(&Lease { fencing_token: lease.fencing_token - 1, ..lease.clone() }).await.unwrap();
    assert_eq!(take(&store, "two", LONG).await, None, "nobody else's release ends it");
    let renewed = store.renew(&lease, 2 * LONG).await.unwrap().unwrap();
    assert!(renewed.expires_at_ms > lease.expires_at_ms);
    assert_eq!(renewed.fencing_token, lease.fencing_token);

    store.release(&renewed).await.unwrap();
    assert_eq!(store.renew(&renewed, LONG).await.unwrap(), None, "it is over");
    let next = take(&store, "two", SHORT).await.unwrap();
    assert!(next.fencing_token > lease.fencing_token, "the row outlives the release");

    let lapsed = eventually("the lease lapses", || async {
        (store.database_clock().await.unwrap().timestamp_millis() > next.expires_at_ms).then_some(())
    });
    lapsed.await;
    assert_eq!(store.renew(&next, LONG).await.unwrap(), None, "what has lapsed is not renewed");
}
