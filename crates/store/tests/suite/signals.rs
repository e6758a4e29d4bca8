//! Signals, in one process and across two.

use std::sync::Arc;

use holdfast_core::{
    ConnectorId,
    ports::{CredentialStore as _, Signal, Signals as _},
};
use holdfast_store::Store;
use tokio::sync::broadcast::{Receiver, error::TryRecvError};
use tokio_util::sync::CancellationToken;

use crate::harness::{
    TestDatabase, close, connect, eventually, exchange, lease, load, moment, on_both, on_postgres, refusal, rotation,
};
use holdfast_core::refresh::OutcomeKind;

on_both! {
    every_write_of_a_connector_is_told,
}

/// Runs the store until the guard is dropped, and waits until it hears.
pub(crate) async fn running(store: &Store) -> tokio_util::sync::DropGuard {
    let stop = CancellationToken::new();
    tokio::spawn({
        let (store, stop) = (store.clone(), stop.clone());
        async move { store.run(stop).await }
    });
    eventually("signals arrive", || async { store.era().map(|_| ()) }).await;
    stop.drop_guard()
}

pub(crate) fn drain(signals: &mut Receiver<Signal>) -> Vec<Signal> {
    std::iter::from_fn(|| signals.try_recv().ok()).collect()
}

pub(crate) async fn heard(signals: &mut Receiver<Signal>, wanted: &Signal) {
    let signals = tokio::sync::Mutex::new(signals);
    eventually(&format!("{wanted:?} arrives"), || async {
        loop {
            match signals.lock().await.try_recv() {
                Ok(signal) if signal == *wanted => return Some(()),
                Ok(_) => {}
                Err(TryRecvError::Empty) => return None,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
}

async fn every_write_of_a_connector_is_told(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let _running = running(&store).await;
    let mut signals = store.subscribe();
    let (org, id) = connect(&store, "acme").await;
    let told = Signal::Connector(id.clone());
    heard(&mut signals, &told).await;

    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let rotated = exchange(&snapshot, &lease, "a");
    store.begin(&rotated).await.unwrap();
    drain(&mut signals);
    store.store_rotation(&rotated, &rotation("second")).await.unwrap();
    heard(&mut signals, &told).await;
    drain(&mut signals);

    let snapshot = load(&store, &id).await;
    let refused = exchange(&snapshot, &lease, "b");
    store.begin(&refused).await.unwrap();
    let closing = close(OutcomeKind::Rejected);
    store
        .fail(&snapshot.credential.id, &refusal(snapshot.credential.version), Some((&refused, &closing)))
        .await
        .unwrap();
    heard(&mut signals, &told).await;
    drain(&mut signals);

    store.rename_connector(&org, &id, "Support").await.unwrap();
    heard(&mut signals, &told).await;
    drain(&mut signals);
    store.disconnect(&org, &id, moment(900)).await.unwrap();
    heard(&mut signals, &told).await;
    let key = store.create_key(&org, "CI", &[], &[7; 32], moment(0)).await.unwrap();
    drain(&mut signals);
    store.revoke_key(&org, &key, moment(1)).await.unwrap();
    heard(&mut signals, &Signal::ApiKey(key)).await;
}

async fn across(db: Arc<TestDatabase>) {
    let (one, two) = (db.replica("one").await, db.replica("two").await);
    assert!(two.era().is_none(), "nobody listens yet");
    let _running = running(&two).await;
    let mut signals = two.subscribe();

    let (_, id) = connect(&one, "acme").await;

    heard(&mut signals, &Signal::Connector(id)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_one_replica_is_heard_by_another() {
    on_postgres(across).await;
}

async fn cut(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let _running = running(&store).await;
    let mut signals = store.subscribe();
    let listeners = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    assert_eq!(db.number(&format!("SELECT COUNT(*) {listeners}")).await, 1);

    let missed = db.number(&format!("SELECT COUNT(pg_terminate_backend(pid)) {listeners}")).await;

    assert_eq!(missed, 1);
    heard(&mut signals, &Signal::All).await;
    eventually("signals arrive again", || async { store.era().map(|_| ()) }).await;
    let id = ConnectorId::from("con_later");
    db.execute("SELECT pg_notify('holdfast', 'connector:con_later')").await;
    heard(&mut signals, &Signal::Connector(id)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_line_is_noticed_and_mended() {
    on_postgres(cut).await;
}

async fn deaf(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let running = running(&store).await;

    drop(running);

    eventually("silence is noticed", || async { store.era().is_none().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_hears_no_ping_does_not_trust_its_memory() {
    on_postgres(deaf).await;
}
