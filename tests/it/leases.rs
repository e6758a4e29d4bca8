//! Leases on Redis: the suite of the database's own, and what Redis alone can do to them.

use std::{sync::Arc, time::Duration};

use holdfast_app::{config::LockBackend, seams::OsRandom};
use holdfast_core::{
    CredentialId, every_lease_test,
    ports::{Acquired, Fences, Lease, LeaseStore, StoreError},
    testkit::{ManualClock, leases as suite},
};
use holdfast_redis_leases::{Options, Redis, RedisLeases};
use holdfast_store::{MasterKey, Store};
use holdfast_tests::{
    cut::Line,
    database::Database,
    on_both,
    redis::{self, random_name},
    service::{LIFE, TestApp},
    wait::{until, uptime, within},
};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_mins(1);
/// Redis may take so long where it is there ...
const PATIENT: Duration = Duration::from_secs(10);
/// ... and where a test takes it away.
const SHORT: Duration = Duration::from_millis(500);
const BOUND: Duration = Duration::from_secs(30);

macro_rules! held_to {
    ($($name:ident,)*) => {
        on_both! {
            $($name,)*
            an_empty_redis_gives_nobody_a_lease_twice,
            a_lease_in_the_database_counts_too,
            a_silent_redis_holds_nobody_up_and_is_found_again,
            what_a_lost_answer_may_have_taken_is_given_back,
            without_a_number_from_the_database_there_is_no_lease,
            while_redis_is_away_what_lives_is_served_and_nothing_is_spent,
        }
        $(async fn $name(db: Arc<Database>) {
            let own = match redis::given() {
                Some(_) => None,
                None => Some(redis::Redis::start().await),
            };
            let url = own.as_ref().map_or_else(|| redis::given().unwrap(), redis::Redis::url);
            let store = store(&db).await;
            // The server may be shared.
            let leases = Arc::new(leases(&store, &url, &format!("test:{}:", random_name()), PATIENT));
            let clock = Arc::new(ManualClock::new());
            suite::$name(&suite::Bench { leases, fences: Arc::new(store), clock }).await;
        })*
    };
}
every_lease_test! { held_to }

async fn store(db: &Database) -> Store {
    let options = holdfast_store::Options {
        url: db.url.clone(),
        listen_url: None,
        max_connections: 8,
        master_key: MasterKey::parse(&db.master_key).unwrap(),
        replica: "rep_1".to_owned(),
        clock: Arc::new(ManualClock::new()),
        random: Arc::new(OsRandom),
        heartbeat: holdfast_store::Options::HEARTBEAT,
    };
    let store = Store::connect(options).await.unwrap();
    store.migrate().await.unwrap();
    store
}

/// A name before the keys, which replicas of one installation share.
fn leases(store: &Store, url: &str, prefix: &str, timeout: Duration) -> RedisLeases {
    RedisLeases::new(redis_at(url, prefix, timeout), Arc::new(store.clone()))
}

fn redis_at(url: &str, prefix: &str, timeout: Duration) -> Arc<Redis> {
    let clock = Arc::new(ManualClock::new());
    Arc::new(Redis::new(Options { url: url.into(), prefix: prefix.to_owned(), timeout, clock }).unwrap())
}

async fn take(leases: &dyn LeaseStore, holder: &str) -> Result<Acquired, StoreError> {
    leases.acquire(&CredentialId::from("cred_1"), holder, LONG).await
}

/// Takes it, in the end: what stands in the way is soon over.
async fn taken(leases: &dyn LeaseStore, holder: &str) -> Lease {
    within("the lease is taken", BOUND, async || match take(leases, holder).await {
        Ok(Acquired::Yes(lease)) => Ok(lease),
        other => Err(other),
    })
    .await
}

async fn an_empty_redis_gives_nobody_a_lease_twice(db: Arc<Database>) {
    let mut redis = redis::Redis::start().await;
    let store = store(&db).await;
    let replica = || leases(&store, &redis.url(), "holdfast:", PATIENT);
    let (one, two) = (replica(), replica());
    let first = taken(&one, "one").await;

    redis.forget().await;
    let second = taken(&two, "two").await;

    assert!(second.fencing_token > first.fencing_token, "numbers come from the database");
    assert_eq!(one.renew(&first, LONG).await.unwrap(), None);
    one.release(&first).await.unwrap();
    assert!(matches!(take(&one, "one").await, Ok(Acquired::Held { .. })), "it is the second one's");
    assert!(two.renew(&second, LONG).await.unwrap().is_some());

    redis.kill().await;
    take(&two, "two").await.unwrap_err();
    redis.start_again().await;
    let third = taken(&one, "one").await;
    assert!(third.fencing_token > second.fencing_token);
    assert_eq!(two.renew(&second, LONG).await.unwrap(), None);
}

/// While the setting is being changed, some replicas keep their leases in the database and some do not.
async fn a_lease_in_the_database_counts_too(db: Arc<Database>) {
    let redis = redis::Redis::start().await;
    let store = store(&db).await;
    let leases = leases(&store, &redis.url(), "holdfast:", PATIENT);
    let Ok(Acquired::Yes(held)) = take(&store, "old").await else { panic!("it is free") };

    let Ok(Acquired::Held { remaining }) = take(&leases, "new").await else { panic!("it is held") };

    assert!(remaining > LONG / 2, "{remaining:?}");
    until("nothing is left in Redis", async || redis.keys().await, |keys| *keys == 0).await;
    store.release(&held).await.unwrap();
    assert!(taken(&leases, "new").await.fencing_token > held.fencing_token);
}

async fn a_silent_redis_holds_nobody_up_and_is_found_again(db: Arc<Database>) {
    let redis = redis::Redis::start().await;
    let store = store(&db).await;
    let line = Line::to(redis.address()).await;
    let leases = leases(&store, &redis.url_by(line.address()), "holdfast:", SHORT);
    let lease = taken(&leases, "one").await;

    line.silence();
    let started = uptime();
    for _ in 0..20 {
        take(&leases, "two").await.unwrap_err();
    }
    let waited = uptime() - started;
    assert!(waited < SHORT * 20, "{waited:?}: who comes after the first does not wait for its own answer");
    leases.renew(&lease, LONG).await.unwrap_err();

    line.heal();
    within("Redis is found again", BOUND, async || leases.renew(&lease, LONG).await).await.unwrap();
    // As after a server that moved to another host.
    line.strand();
    within("a new connection is opened", BOUND, async || leases.release(&lease).await).await;
    assert!(taken(&leases, "two").await.fencing_token > lease.fencing_token);
}

/// Else nobody could refresh until it ends by itself.
async fn what_a_lost_answer_may_have_taken_is_given_back(db: Arc<Database>) {
    let redis = redis::Redis::start().await;
    let store = store(&db).await;
    let line = Line::to(redis.address()).await;
    let one = leases(&store, &redis.url_by(line.address()), "holdfast:", SHORT);
    let two = leases(&store, &redis.url(), "holdfast:", PATIENT);
    let before = taken(&one, "one").await;
    one.release(&before).await.unwrap();

    line.silence();
    take(&one, "one").await.unwrap_err();
    line.heal();

    // Long before that lease would be over.
    taken(&two, "two").await;
}

struct NoDatabase;

#[async_trait::async_trait]
impl Fences for NoDatabase {
    async fn draw(&self, _: &CredentialId, _: &str, _: Duration) -> Result<Acquired, StoreError> {
        Err(StoreError::new("there is no database"))
    }

    async fn drawn(&self, _: &CredentialId) -> Result<Option<Lease>, StoreError> {
        Err(StoreError::new("there is no database"))
    }

    async fn end_of(&self, _: Duration) -> Result<i64, StoreError> {
        Err(StoreError::new("there is no database"))
    }
}

async fn without_a_number_from_the_database_there_is_no_lease(db: Arc<Database>) {
    let redis = redis::Redis::start().await;
    let store = store(&db).await;
    let alone = RedisLeases::new(redis_at(&redis.url(), "holdfast:", PATIENT), Arc::new(NoDatabase));
    let whole = leases(&store, &redis.url(), "holdfast:", PATIENT);

    take(&alone, "one").await.unwrap_err();
    let lease = taken(&whole, "two").await;

    alone.renew(&lease, LONG).await.unwrap_err();
    assert!(whole.renew(&lease, LONG).await.unwrap().is_some());
}

async fn while_redis_is_away_what_lives_is_served_and_nothing_is_spent(db: Arc<Database>) {
    let mut redis = redis::Redis::start().await;
    let url = redis.url();
    let app = TestApp::builder(&db).with(|config| {
        config.lock.backend = LockBackend::Redis;
        config.lock.redis_url = Some(url.into());
    });
    let app = app.start().await;
    let id = app.import("acme").await;
    let token = format!("/connectors/{id}/token");
    let ready = async || {
        let (status, text) = app.plain("/readyz").await;
        let body: Value = serde_json::from_str(&text).unwrap();
        (status, body["checks"]["redis"].clone())
    };
    assert_eq!(ready().await, (200, json!(true)));

    redis.kill().await;
    // Every replica has the same Redis: none is taken out, and none is gained by it.
    assert_eq!(ready().await, (200, json!(false)));
    app.advance(LIFE - Duration::from_secs(80));
    let served = app.get(&token).await.expect(200);
    app.advance(Duration::from_secs(80));
    let refused = app.get(&token).await.problem(503, "refresh_unavailable");

    assert!(refused.text.contains("(ours)") && !refused.text.contains(redis.password()), "{}", refused.text);
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|after| (1..=5).contains(&after)));
    let degraded = async || app.show(&id).await["degraded"]["class"].clone();
    until("it is marked", degraded, |class| *class == json!("ours")).await;
    assert_eq!(app.show(&id).await["health"], "connected");
    assert!(app.acme.ledger().presentations.is_empty(), "no exchange without a lease");

    redis.start_again().await;
    app.advance(Duration::from_secs(5));
    let fresh = until("there is a token", async || app.get(&token).await, |answer| answer.status == 200).await;
    assert_ne!(fresh.text_of("access_token"), served.text_of("access_token"));
    assert_eq!(app.acme.ledger().presentations.len(), 1);
    assert_eq!(app.show(&id).await["degraded"], json!(null));
    assert_eq!(ready().await, (200, json!(true)));
}
