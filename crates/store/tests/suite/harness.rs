//! A database of its own for each test, of either kind; seams; bounded waiting.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use holdfast_core::{
    ConnectorId, ExchangeId, OrgId, Secret, Snapshot, TokenSet, Version,
    ports::{
        Acquired, Clock, Close, CredentialStore as _, Exchange, Failure, Lease, LeaseStore as _, Random, Rotation,
        Trigger,
    },
    refresh::OutcomeKind,
};
use holdfast_store::{Created, MasterKey, NewConnector, Options, Store};
use secrecy::SecretString;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;

/// Both databases run each test; `fn name(db: Arc<TestDatabase>)`.
macro_rules! on_both {
    ($($name:ident,)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let db = crate::harness::TestDatabase::sqlite();
                super::$name(std::sync::Arc::new(db)).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                crate::harness::on_postgres(super::$name).await;
            })*
        }
    };
}
pub(crate) use on_both;

/// Where the server is. The half of the suite that needs it fails without it, so that nobody takes half for the whole.
#[expect(clippy::disallowed_methods, reason = "the one setting of this suite")]
fn postgres_server() -> String {
    std::env::var("HOLDFAST_TEST_POSTGRES")
        .expect("HOLDFAST_TEST_POSTGRES is not set; run `cargo xtask test`, which starts a PostgreSQL for it")
}

pub(crate) struct TestDatabase {
    pub(crate) url: String,
    pub(crate) master_key: MasterKey,
    pub(crate) dir: TempDir,
}

impl TestDatabase {
    pub(crate) fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", dir.path().join("holdfast.db").display());
        Self { url, master_key: master_key(), dir }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    pub(crate) fn options(&self, replica: &str) -> Options {
        Options {
            url: self.url.clone(),
            listen_url: None,
            max_connections: 8,
            master_key: self.master_key.clone(),
            replica: replica.to_owned(),
            clock: Arc::new(RealClock(started())),
            random: Arc::new(RealRandom),
            heartbeat: Options::HEARTBEAT,
        }
    }

    /// Connected, migrated and unlocked.
    pub(crate) async fn store(&self) -> Store {
        self.replica("one").await
    }

    pub(crate) async fn replica(&self, name: &str) -> Store {
        let store = Store::connect(self.options(name)).await.unwrap();
        store.migrate().await.unwrap();
        store.unlock().await.unwrap();
        store
    }

    /// Runs SQL behind the store's back.
    pub(crate) async fn execute(&self, sql: &str) {
        self.try_execute(sql).await.unwrap();
    }

    /// The same where it may be refused.
    pub(crate) async fn try_execute(&self, sql: &str) -> Result<(), sea_orm::DbErr> {
        let db = sea_orm::Database::connect(&self.url).await.unwrap();
        let done = sea_orm::ConnectionTrait::execute_unprepared(&db, sql).await.map(|_| ());
        db.close().await.unwrap();
        done
    }

    /// One number, behind the store's back.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let db = sea_orm::Database::connect(&self.url).await.unwrap();
        let statement = sea_orm::Statement::from_string(sea_orm::ConnectionTrait::get_database_backend(&db), sql);
        let row = sea_orm::ConnectionTrait::query_one_raw(&db, statement).await.unwrap().unwrap();
        row.try_get_by_index(0).unwrap()
    }
}

/// Runs the test on a PostgreSQL database of its own, and drops that, also after a failure.
pub(crate) async fn on_postgres<F: Future<Output = ()> + Send + 'static>(test: fn(Arc<TestDatabase>) -> F) {
    let server = postgres_server();
    let mut random = [0; 8];
    RealRandom.fill(&mut random);
    let name = format!("holdfast_test_{:016x}", u64::from_le_bytes(random));
    let mut admin = PgConnection::connect(&server).await.expect("HOLDFAST_TEST_POSTGRES is reachable");
    admin.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    let mut url = url::Url::parse(&server).unwrap();
    url.set_path(&name);
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(TestDatabase { url: url.to_string(), master_key: master_key(), dir });
    let outcome = tokio::spawn(test(db)).await;
    admin.execute(sqlx::AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await.unwrap();
    if let Err(failure) = outcome {
        std::panic::resume_unwind(failure.into_panic());
    }
}

pub(crate) fn master_key() -> MasterKey {
    MasterKey::parse(&MasterKey::generate(&RealRandom)).unwrap()
}

pub(crate) struct RealRandom;

impl Random for RealRandom {
    #[expect(clippy::disallowed_methods, reason = "the seam's own home")]
    fn fill(&self, buffer: &mut [u8]) {
        rand::Rng::fill_bytes(&mut rand::rng(), buffer);
    }
}

#[expect(clippy::disallowed_methods, reason = "the seam's own home")]
fn started() -> Instant {
    Instant::now()
}

struct RealClock(Instant);

#[async_trait]
impl Clock for RealClock {
    #[expect(clippy::disallowed_methods, reason = "the seam's own home")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the seam's own home")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Polls until there is something; for half a minute at most.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut poll: impl FnMut() -> F) -> T {
    let mut every = tokio::time::interval(Duration::from_millis(10));
    let found = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            every.tick().await;
            if let Some(found) = poll().await {
                return found;
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("waited in vain until {what}"))
}

/// A moment with nanoseconds, which no database keeps.
pub(crate) fn moment(secs: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + secs, 123_456_789).unwrap()
}

/// A moment as it is stored.
pub(crate) fn kept(secs: i64) -> DateTime<Utc> {
    moment(secs).trunc_subsecs(6)
}

pub(crate) fn tokens(mark: &str) -> TokenSet {
    TokenSet {
        access_token: SecretString::from(format!("access-{mark}")),
        refresh_token: Some(SecretString::from(format!("refresh-{mark}"))),
        obtained_at: moment(0),
        expires_at: Some(moment(3600)),
        expires_assumed: true,
        refresh_expires_at: Some(moment(90_000)),
        refresh_end_fixed: false,
        scopes: vec!["read".to_owned(), "write".to_owned()],
        base_url: Some("https://acme.example/api/".parse().unwrap()),
        found: BTreeMap::from([("tenant_id".to_owned(), format!("tenant-{mark}"))]),
    }
}

pub(crate) fn new_connector(org: &OrgId, account: &str, secret: Secret) -> NewConnector {
    NewConnector {
        org: org.clone(),
        provider: "zendesk".to_owned(),
        account: account.to_owned(),
        name: format!("Helpdesk {account}"),
        alias: None,
        secret,
        app: None,
        due_at: Some(moment(3000)),
        extras: vec![("webhook_id".to_owned(), SecretString::from("wh_1"))],
        at: moment(0),
    }
}

/// A connected connector on the account.
pub(crate) async fn connect(store: &Store, account: &str) -> (OrgId, ConnectorId) {
    let org = store.ensure_org("Acme").await.unwrap();
    let new = new_connector(&org, account, Secret::Tokens(tokens("first")));
    match store.create_connector(&new).await.unwrap() {
        Created::New(id) => (org, id),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn load(store: &Store, id: &ConnectorId) -> Snapshot {
    store.load(id).await.unwrap().expect("it is there")
}

pub(crate) async fn lease(store: &Store, snapshot: &Snapshot, holder: &str) -> Lease {
    match store.acquire(&snapshot.credential.id, holder, Duration::from_secs(30)).await.unwrap() {
        Acquired::Yes(lease) => lease,
        held @ Acquired::Held { .. } => panic!("{held:?}"),
    }
}

pub(crate) fn exchange(snapshot: &Snapshot, lease: &Lease, mark: &str) -> Exchange {
    Exchange {
        id: ExchangeId::from(format!("exch_{}_{mark}", snapshot.credential.id)),
        credential: snapshot.credential.id.clone(),
        connector: snapshot.connector.clone(),
        org: snapshot.org.clone(),
        version: snapshot.credential.version,
        lease: lease.clone(),
        trigger: Trigger::Caller,
        started_at: moment(100),
    }
}

pub(crate) fn rotation(mark: &str) -> Rotation {
    Rotation {
        tokens: tokens(mark),
        due_at: Some(moment(6000)),
        sends: 1,
        duration: Duration::from_millis(120),
        at: moment(101),
    }
}

pub(crate) fn close(outcome: OutcomeKind) -> Close {
    Close {
        outcome,
        detail: Some("token revoked".to_owned()),
        sends: 2,
        duration: Duration::from_millis(80),
        at: moment(102),
        marks: None,
    }
}

pub(crate) fn refusal(version: Version) -> Failure {
    Failure {
        version,
        reason: holdfast_core::credential::Reason::RefreshRefused,
        detail: Some("invalid_grant".to_owned()),
        at: moment(103),
    }
}

pub(crate) fn seconds(secs: i64) -> TimeDelta {
    TimeDelta::seconds(secs)
}
