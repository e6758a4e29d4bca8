//! Starting: migrations, the serving lock, what a process before left behind.

use std::sync::Arc;

use holdfast_core::{
    ConnectorId,
    ports::{Acquired, Begun, CredentialStore as _, LeaseStore as _},
};
use holdfast_store::{Kind, NewSession, Purpose, StartSession, Store, Taken, Way};

use crate::harness::{TestDatabase, connect, exchange, lease, load, moment, on_both, on_postgres};

on_both! {
    five_that_start_at_once_on_an_empty_database_come_up,
    the_steps_are_listed_with_whether_they_are_applied,
    the_databases_clock_is_read,
}

async fn five_that_start_at_once_on_an_empty_database_come_up(db: Arc<TestDatabase>) {
    let starts = (0..5).map(|n| {
        let db = Arc::clone(&db);
        tokio::spawn(async move {
            let store = Store::connect(db.options(&n.to_string())).await?;
            store.migrate().await?;
            store.unlock().await?;
            store.ensure_org("Acme").await
        })
    });

    let orgs = futures::future::join_all(starts.collect::<Vec<_>>()).await;

    let mut orgs: Vec<_> = orgs.into_iter().map(|org| org.unwrap().unwrap()).collect();
    orgs.dedup();
    assert_eq!(orgs.len(), 1, "all see one database");
    if !db.is_sqlite() {
        let locks = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'";
        let own = format!("{locks} AND database = (SELECT oid FROM pg_database WHERE datname = current_database())");
        assert_eq!(db.number(&own).await, 0, "no session keeps a lock: a pooler may stand in between");
    }
}

async fn the_steps_are_listed_with_whether_they_are_applied(db: Arc<TestDatabase>) {
    let store = Store::connect(db.options("one")).await.unwrap();
    let before = store.migration_status().await.unwrap();
    assert!(!before.is_empty() && before.iter().all(|(_, applied)| !applied), "{before:?}");

    store.migrate().await.unwrap();
    store.migrate().await.unwrap();

    let after = store.migration_status().await.unwrap();
    assert_eq!(after.len(), before.len());
    assert!(after.iter().all(|(name, applied)| *applied && name.starts_with("m2026")), "{after:?}");
}

async fn the_databases_clock_is_read(db: Arc<TestDatabase>) {
    let store = db.store().await;
    store.ping().await.unwrap();
    assert_eq!(store.kind() == Kind::Sqlite, db.is_sqlite());
    let (one, two) = (store.database_clock().await.unwrap(), store.database_clock().await.unwrap());
    assert!(one <= two && one.timestamp() > 1_700_000_000, "{one} {two}");
}

/// A consent that this replica, which lives, works on.
async fn taken_by(store: &Store, id: &ConnectorId) -> String {
    let stop = tokio_util::sync::CancellationToken::new();
    let (living, until) = (store.clone(), stop.clone());
    let life = tokio::spawn(async move { living.run(until).await });
    let org = load(store, id).await.org.clone();
    let new = NewSession {
        org,
        connector: id.clone(),
        link_hash: [1; 32],
        purpose: Purpose::Reconnect,
        return_url: None,
        way: Way::Mail,
        user: Some("user_1".to_owned()),
        at: moment(0),
        expires_at: moment(3600),
        asked_for: true,
    };
    let session = store.create_session(&new).await.unwrap();
    let start = StartSession {
        link_hash: [1; 32],
        state_hash: [2; 32],
        browser_hash: [3; 32],
        app: None,
        verifier: None,
        account: None,
        by_key: false,
        at: moment(10),
        state_expires_at: moment(610),
    };
    store.start_session(&start).await.unwrap();
    assert!(matches!(store.take_state(&[2; 32], moment(20)).await.unwrap(), Taken::Yes(_)));
    let found = store.find_session_by_id(&session).await.unwrap().unwrap();
    assert_eq!((found.way, found.worker_alive), (Way::Mail, Some(true)));
    stop.cancel();
    life.await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_serves_a_file_and_voids_what_the_one_before_left() {
    let db = TestDatabase::sqlite();
    let before = db.replica("before").await;
    let lock = before.lock_for_serving().unwrap();
    let (_, id) = connect(&before, "acme").await;
    let snapshot = load(&before, &id).await;
    let left = lease(&before, &snapshot, "before").await;
    assert_eq!(before.begin(&exchange(&snapshot, &left, "a")).await.unwrap(), Begun::Yes);
    let consent = taken_by(&before, &id).await;
    let after = db.replica("after").await;
    let refused = after.lock_for_serving().unwrap_err();
    assert!(refused.to_string().contains("another process serves this database"), "{refused}");

    drop(lock);
    let lock = after.lock_for_serving().unwrap();
    assert_eq!(after.void_previous(&lock).await.unwrap(), 1);

    let consent = after.find_session_by_id(&consent).await.unwrap().unwrap();
    assert_eq!(consent.worker_alive, Some(false), "whoever worked on it is known to be gone at once");
    let current = load(&after, &id).await;
    assert!(current.credential.answer_lost);
    let ttl = std::time::Duration::from_secs(30);
    let Acquired::Yes(lease) = after.acquire(&current.credential.id, "after", ttl).await.unwrap() else {
        panic!("the lease of the process before is void");
    };
    assert!(lease.fencing_token > left.fencing_token);
    assert_eq!(after.begin(&exchange(&current, &lease, "b")).await.unwrap(), Begun::Yes);
}

async fn others_live(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let held = lease(&store, &snapshot, "other").await;
    store.begin(&exchange(&snapshot, &held, "a")).await.unwrap();

    let lock = store.lock_for_serving().unwrap();
    assert_eq!(store.void_previous(&lock).await.unwrap(), 0);

    assert_eq!(store.open_exchange_count().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_nothing_of_others_is_voided() {
    on_postgres(others_live).await;
}

#[tokio::test]
async fn a_url_of_another_database_is_refused() {
    let db = TestDatabase::sqlite();
    let mut options = db.options("one");
    options.url = "mysql://root@localhost/x".to_owned();
    assert!(Store::connect(options).await.is_err());
}

#[cfg(unix)]
#[tokio::test]
async fn a_database_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let db = TestDatabase::sqlite();
    let store = db.store().await;
    let (_, _) = connect(&store, "acme").await;

    let mut modes = Vec::new();
    for entry in std::fs::read_dir(db.dir.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !name.contains(".lock") {
            modes.push((name, entry.metadata().unwrap().permissions().mode() & 0o777));
        }
    }

    assert!(modes.len() >= 3, "the file and what stands beside it: {modes:?}");
    assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
}

#[tokio::test]
async fn a_server_that_refuses_connections_is_told_as_such() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let mut options = TestDatabase::sqlite().options("one");
    options.url = format!("postgres://nobody@127.0.0.1:{port}/nothing");

    let Err(error) = Store::connect(options).await else { panic!("nobody is there") };

    let mut words = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    assert!(words.contains("refused") && !words.contains("timed out"), "{words}");
}
