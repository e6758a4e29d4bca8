//! What only a browser shows: redirects, forms, focus, no script, a phone's width, how it looks.

#![expect(clippy::unwrap_used, reason = "all of this is tests")]

mod agents;
mod connect;
mod connectors;
mod demo;
mod harness;
mod sandbox;

use holdfast_tests::{database::Database, service::TestApp};

/// The service, which the browser calls by another name than the sandbox.
async fn service() -> (std::sync::Arc<Database>, TestApp) {
    let db = std::sync::Arc::new(Database::sqlite());
    let app = TestApp::builder(&db).at_localhost().start().await;
    (db, app)
}
