//! Leases, by the database's clock.

use std::sync::Arc;

use holdfast_core::{every_lease_test, testkit::leases as suite};

use crate::harness::{TestDatabase, on_both};

macro_rules! held_to {
    ($($name:ident,)*) => {
        on_both! { $($name,)* }
        $(async fn $name(db: Arc<TestDatabase>) {
            let store = Arc::new(db.store().await);
            let clock = db.options("clock").clock;
            suite::$name(&suite::Bench { leases: store.clone(), fences: store, clock }).await;
        })*
    };
}
every_lease_test! { held_to }
