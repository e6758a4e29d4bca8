//! The conformance suite of lease stores: one for all of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;

use crate::{
    id::CredentialId,
    ports::{Acquired, Clock, Fences, Lease, LeaseStore},
};

/// Hands the names of all tests to a macro: `every_lease_test! { run }` calls `run! { name, name, }`.
#[macro_export]
macro_rules! every_lease_test {
    ($run:ident) => {
        $run! {
            a_lease_has_one_holder_among_many,
            contenders_hold_it_one_after_the_other,
            a_lapsed_lease_is_taken,
            only_its_own_acquisition_renews_and_releases_a_lease,
            the_number_grows_whatever_ended_the_lease_before,
            the_end_is_told_by_the_databases_clock,
            leases_of_other_credentials_are_free,
        }
    };
}

/// Nothing here takes so long.
const LONG: Duration = Duration::from_mins(1);
/// Soon over.
const SHORT: Duration = Duration::from_millis(40);

/// What is held to the suite.
pub struct Bench {
    /// The store.
    pub leases: Arc<dyn LeaseStore>,
    /// The database behind it, or itself.
    pub fences: Arc<dyn Fences>,
    /// Real time.
    pub clock: Arc<dyn Clock>,
}

impl Bench {
    async fn try_to_take(&self, credential: &str, holder: &str, ttl: Duration) -> Result<Lease, Duration> {
        let acquired = self.leases.acquire(&CredentialId::from(credential), holder, ttl).await;
        match acquired.expect("the store works") {
            Acquired::Yes(lease) => {
                assert_eq!((lease.credential.as_str(), lease.holder.as_str()), (credential, holder));
                Ok(lease)
            }
            Acquired::Held { remaining } => {
                assert!(remaining <= LONG, "{remaining:?}");
                Err(remaining)
            }
        }
    }

    async fn take(&self, holder: &str, ttl: Duration) -> Lease {
        self.try_to_take("cred_1", holder, ttl).await.expect("it is free")
    }

    /// Nobody of this name gets it; answers what is left of it.
    async fn is_held_from(&self, holder: &str) -> Duration {
        self.try_to_take("cred_1", holder, LONG).await.expect_err("it is held")
    }

    /// Takes it as soon as it has lapsed.
    async fn take_in_the_end(&self, holder: &str, ttl: Duration) -> Lease {
        let bound = self.clock.uptime() + Duration::from_secs(30);
        loop {
            match self.try_to_take("cred_1", holder, ttl).await {
                Ok(lease) => return lease,
                Err(remaining) => assert!(self.clock.uptime() < bound, "{remaining:?} left, and it does not lapse"),
            }
            self.clock.sleep(Duration::from_millis(5)).await;
        }
    }

    async fn renew(&self, lease: &Lease) -> Option<Lease> {
        self.leases.renew(lease, LONG).await.expect("the store works")
    }

    /// Whether the lease is found to be this one's.
    async fn is_current(&self, lease: &Lease) -> bool {
        let found = self.leases.current(&lease.credential).await.expect("the store works");
        found.is_some_and(|found| (&found.holder, found.fencing_token) == (&lease.holder, lease.fencing_token))
    }

    async fn release(&self, lease: &Lease) {
        self.leases.release(lease).await.expect("the store works");
    }

    /// Forged: the same lease, by another holder or number.
    fn others(lease: &Lease) -> [Lease; 3] {
        [
            Lease { holder: "somebody else".to_owned(), ..lease.clone() },
            Lease { fencing_token: lease.fencing_token - 1, ..lease.clone() },
            Lease { fencing_token: lease.fencing_token + 1, ..lease.clone() },
        ]
    }
}

/// RF-13 beside it: who does not get it is told how long it may last.
pub async fn a_lease_has_one_holder_among_many(bench: &Bench) {
    let holders: Vec<_> = (0..40).map(|n| format!("holder {n}")).collect();
    let tries = join_all(holders.iter().map(|holder| bench.try_to_take("cred_1", holder, LONG))).await;

    assert_eq!(tries.iter().flatten().count(), 1);
    let late = bench.is_held_from("late").await;
    assert!(late > LONG / 2, "{late:?}");
    // Not even its holder takes it twice.
    let holder = &tries.iter().flatten().next().expect("there is one").holder;
    bench.is_held_from(holder).await;
}

/// Never two at once, and the numbers grow in the order in which it is held.
pub async fn contenders_hold_it_one_after_the_other(bench: &Bench) {
    const ROUNDS: usize = 10;
    let (held, last) = (AtomicBool::new(false), AtomicI64::new(0));
    let (held, last) = (&held, &last);
    join_all((0..8).map(|n| async move {
        let holder = format!("holder {n}");
        for _ in 0..ROUNDS {
            let lease = bench.take_in_the_end(&holder, LONG).await;
            assert!(!held.swap(true, Ordering::SeqCst), "two hold it");
            let before = last.swap(lease.fencing_token, Ordering::SeqCst);
            assert!(lease.fencing_token > before, "{} after {before}", lease.fencing_token);
            tokio::task::yield_now().await;
            held.store(false, Ordering::SeqCst);
            bench.release(&lease).await;
        }
    }))
    .await;
}

/// And whoever had it cannot have it back.
pub async fn a_lapsed_lease_is_taken(bench: &Bench) {
    let first = bench.take("one", SHORT).await;

    let second = bench.take_in_the_end("two", LONG).await;

    assert!(second.fencing_token > first.fencing_token);
    assert_eq!(bench.renew(&first).await, None, "it is somebody else's");
    bench.release(&first).await;
    bench.is_held_from("three").await;
    assert!(bench.renew(&second).await.is_some());
}

/// RF-12
pub async fn only_its_own_acquisition_renews_and_releases_a_lease(bench: &Bench) {
    let lease = bench.take("one", LONG).await;
    assert!(bench.is_current(&lease).await);

    for other in Bench::others(&lease) {
        assert_eq!(bench.renew(&other).await, None, "{other:?}");
        bench.release(&other).await;
        bench.is_held_from("two").await;
    }
    let renewed = bench.renew(&lease).await.expect("it holds it");
    assert_eq!((renewed.fencing_token, &renewed.holder), (lease.fencing_token, &lease.holder));

    assert!(bench.is_current(&renewed).await);

    bench.release(&renewed).await;
    assert!(!bench.is_current(&renewed).await);
    assert_eq!(bench.renew(&renewed).await, None, "it is over");
    // Twice does no harm.
    bench.release(&renewed).await;
    let next = bench.take("two", SHORT).await;
    let after = bench.take_in_the_end("three", SHORT).await;
    assert_eq!(bench.renew(&next).await, None, "what has lapsed is not renewed");
    assert!(after.fencing_token > next.fencing_token);
}

/// A release, a lapse, the same holder again, another one.
pub async fn the_number_grows_whatever_ended_the_lease_before(bench: &Bench) {
    let mut numbers = Vec::new();
    for (holder, ttl) in [("one", LONG), ("one", SHORT), ("two", SHORT), ("two", LONG), ("one", LONG)] {
        let lease = bench.take_in_the_end(holder, ttl).await;
        numbers.push(lease.fencing_token);
        if ttl == LONG {
            bench.release(&lease).await;
        }
    }
    assert!(numbers.is_sorted_by(|before, after| before < after), "{numbers:?}");
}

/// The journal compares it with that clock when the holder is gone.
pub async fn the_end_is_told_by_the_databases_clock(bench: &Bench) {
    let end = async |ttl| bench.fences.end_of(ttl).await.expect("the database works");
    let before = end(SHORT).await;
    let lease = bench.take("one", SHORT).await;
    assert!((before..=end(SHORT).await).contains(&lease.expires_at_ms), "{before} {lease:?}");
    let after = bench.take_in_the_end("two", LONG).await;
    assert!(end(Duration::ZERO).await >= lease.expires_at_ms, "nobody takes it before that end");

    let before = end(LONG).await;
    let renewed = bench.renew(&after).await.expect("it holds it");
    assert!((before..=end(LONG).await).contains(&renewed.expires_at_ms), "{before} {renewed:?}");
}

/// A held lease is nobody's business but its own credential's.
pub async fn leases_of_other_credentials_are_free(bench: &Bench) {
    let one = bench.take("one", LONG).await;
    let other = bench.try_to_take("cred_10", "two", LONG).await.expect("it is free");

    bench.release(&other).await;
    assert!(bench.renew(&one).await.is_some());
    bench.is_held_from("two").await;
}
