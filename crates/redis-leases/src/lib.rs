//! Leases on Redis: the port [`LeaseStore`], for deployments that would rather not have waiting replicas ask the database.
//!
//! Redis may lose all of it at any moment, by a failover or a restart, and nobody is told. So it keeps nothing that
//! cannot be lost: fencing tokens are drawn from the database ([`Fences`]) and grow whatever becomes of Redis, and the
//! open journal row in the database keeps a second exchange out where two replicas believe to hold one lease.
//!
//! A lease is one key, for as long as it lasts by Redis' own clock. Every change of it is a script that compares holder
//! and fencing token first. Redis away, silent, read-only or full is an error: no lease, and so no exchange.

mod line;

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use holdfast_core::{
    CredentialId,
    ports::{Acquired, Fences, Lease, LeaseStore, Sent, StoreError},
};
use redis::Script;

pub use line::{Options, Redis};

/// Takes the key for so long if nobody has it; else answers how long somebody still has.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return -1 end \
         return math.max(redis.call('pttl', KEYS[1]), 0)",
    )
});

/// Puts another value in place of the first, if it is still there, for so long from now.
static EXCHANGE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
         redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1",
    )
});

/// Moves the end, if the value is still there.
static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('pexpire', KEYS[1], ARGV[2])",
    )
});

/// Takes the key away, if one of the values is still there.
static DROP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local value = redis.call('get', KEYS[1]) \
         for _, own in ipairs(ARGV) do if value == own then return redis.call('del', KEYS[1]) end end return 0",
    )
});

/// Whether this value is there.
static IS: LazyLock<Script> =
    LazyLock::new(|| Script::new("if redis.call('get', KEYS[1]) == ARGV[1] then return 1 end return 0"));

/// Between two attempts to give back what may have been taken.
const GIVE_BACK_AGAIN: Duration = Duration::from_secs(1);

/// The leases of all credentials.
pub struct RedisLeases {
    redis: Arc<Redis>,
    fences: Arc<dyn Fences>,
    /// Counts our attempts, so that no two of them are taken for one.
    attempts: AtomicU64,
}

impl RedisLeases {
    /// Connects to nothing yet.
    pub fn new(redis: Arc<Redis>, fences: Arc<dyn Fences>) -> Self {
        Self { redis, fences, attempts: AtomicU64::new(0) }
    }

    /// In the background, and for as long as the lease would last: an attempt whose answer did not come may have been
    /// carried out, and then nobody would refresh until it ends by itself.
    fn give_back(&self, key: String, values: Vec<String>, ttl: Duration) {
        let redis = Arc::clone(&self.redis);
        tokio::spawn(async move {
            let end = redis.clock().uptime() + ttl;
            while redis.run("give a lease back", &DROP, &key, &values).await.is_err() {
                if redis.clock().uptime() >= end {
                    return;
                }
                redis.clock().sleep(GIVE_BACK_AGAIN).await;
            }
        });
    }
}

#[async_trait]
impl LeaseStore for RedisLeases {
    async fn acquire(&self, credential: &CredentialId, holder: &str, ttl: Duration) -> Result<Acquired, StoreError> {
        let doing = "acquire a lease";
        let key = self.redis.key(credential);
        // Only who has the key draws a number, so numbers grow in the order in which leases are held.
        let attempt = format!("attempt {} {holder}", self.attempts.fetch_add(1, Ordering::Relaxed));
        let taken = self.redis.run(doing, &TAKE, &key, &[attempt.clone(), ms(ttl).to_string()]).await;
        let left = match taken {
            Ok(left) => left,
            Err(failed) => {
                if failed.sent == Sent::Maybe {
                    self.give_back(key, vec![attempt], ttl);
                }
                return Err(failed.error);
            }
        };
        if let Ok(left) = u64::try_from(left) {
            return Ok(Acquired::Held { remaining: Duration::from_millis(left) });
        }
        let lease = match self.fences.draw(credential, holder, ttl).await {
            Ok(Acquired::Yes(lease)) => lease,
            other => {
                self.give_back(key, vec![attempt], ttl);
                return other;
            }
        };
        let value = value(&lease);
        match self.redis.run(doing, &EXCHANGE, &key, &[attempt.clone(), value.clone(), ms(ttl).to_string()]).await {
            Ok(1) => Ok(Acquired::Yes(lease)),
            // It has ended meanwhile, or Redis has forgotten it. Somebody else may have it: nobody gets our number.
            Ok(_) => Ok(Acquired::Held { remaining: Duration::ZERO }),
            Err(failed) => {
                self.give_back(key, vec![attempt, value], ttl);
                Err(failed.error)
            }
        }
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, StoreError> {
        let key = self.redis.key(&lease.credential);
        // Asked for first, so that the lease lasts at least until the end that is told.
        let expires_at_ms = self.fences.end_of(ttl).await?;
        let renewed = self.redis.run("renew a lease", &RENEW, &key, &[value(lease), ms(ttl).to_string()]).await;
        let held = renewed.map_err(|failed| failed.error)? == 1;
        Ok(held.then(|| Lease { expires_at_ms, ..lease.clone() }))
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let key = self.redis.key(&lease.credential);
        let released = self.redis.run("release a lease", &DROP, &key, &[value(lease)]).await;
        released.map(drop).map_err(|failed| failed.error)
    }

    async fn current(&self, credential: &CredentialId) -> Result<Option<Lease>, StoreError> {
        let Some(lease) = self.fences.drawn(credential).await? else { return Ok(None) };
        let key = self.redis.key(credential);
        let there = self.redis.run("look at a lease", &IS, &key, &[value(&lease)]).await;
        Ok((there.map_err(|failed| failed.error)? == 1).then_some(lease))
    }
}

fn value(lease: &Lease) -> String {
    format!("lease {} {}", lease.fencing_token, lease.holder)
}

fn ms(duration: Duration) -> u64 {
    // Redis takes no end that is no signed number once its own time is added.
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).clamp(1, 1 << 50)
}
