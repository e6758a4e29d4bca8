//! How many statements a refresh costs.

use std::{
    sync::{Arc, Mutex},
    thread::ThreadId,
};

use holdfast_core::ports::{CredentialStore as _, LeaseStore as _, Stored};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::harness::{TestDatabase, connect, exchange, lease, load, on_postgres, rotation};

/// Keeps what sqlx says that it ran, and on which thread: the other tests go on meanwhile.
///
/// It is the subscriber of the whole process, because what threads without one have cached about an event decides about
/// the threads that have one.
#[derive(Clone, Default)]
struct Statements(Arc<Mutex<Vec<(ThreadId, String)>>>);

impl Statements {
    /// What this thread has run.
    fn of_this_thread(&self) -> Vec<String> {
        let here = std::thread::current().id();
        let all = self.0.lock().unwrap();
        all.iter().filter(|(thread, _)| *thread == here).map(|(_, text)| text.clone()).collect()
    }
}

impl Subscriber for Statements {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Summary(self));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Summary<'a>(&'a Statements);

impl Visit for Summary<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "summary" {
            self.0.0.lock().unwrap().push((std::thread::current().id(), value.to_owned()));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

async fn counted(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let statements = Statements::default();
    tracing::subscriber::set_global_default(statements.clone()).unwrap();
    let before = statements.of_this_thread().len();

    let lease = lease(&store, &snapshot, "one").await;
    let snapshot = load(&store, &id).await;
    let exchange = exchange(&snapshot, &lease, "a");
    store.begin(&exchange).await.unwrap();
    let stored = store.store_rotation(&exchange, &rotation("second")).await.unwrap();
    store.release(&lease).await.unwrap();

    assert!(matches!(stored, Stored::Yes(_)));
    let ran = statements.of_this_thread().split_off(before);
    let ran: Vec<_> = ran.iter().filter(|text| !text.starts_with("BEGIN") && !text.starts_with("COMMIT")).collect();
    assert_eq!(ran.len(), 6, "{ran:#?}");
}

#[tokio::test]
async fn a_refresh_takes_six_statements() {
    on_postgres(counted).await;
}
