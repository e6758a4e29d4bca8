//! The picture of the README.

use std::sync::Arc;

use holdfast_core::Role;
use holdfast_tests::{
    chromium::{Chromium, pictures},
    database::Database,
    service::TestApp,
    smtp::Smtp,
};
use serde_json::json;

use crate::{revoke, sign_in};

const ADA: &str = "ada@example.com";
const NAME: &str = "connectors-of-the-readme";

/// With `HOLDFAST_WRITE_PICTURE` set it is written to `docs/images/connectors.png`.
#[tokio::test(flavor = "multi_thread")]
async fn the_readme_shows_home_as_it_is() {
    let (db, smtp) = (Arc::new(Database::sqlite()), Smtp::start().await);
    let app = TestApp::builder(&db).at_localhost().with(|config| smtp.configure(config)).start().await;
    app.person("Acme", ADA, Role::Admin).await;
    for (account, name) in [("acme", "Acme Support"), ("acme-billing", "Billing"), ("acme-eu", "Kundendienst Wien")] {
        app.import_with(account, json!({ "name": name })).await;
    }
    let returns = app.sandbox.create_helpdesk("acme-returns").unwrap();
    let failed = app.import_with("acme-returns", json!({ "name": "Returns" })).await;
    revoke(&app, &returns, &failed).await;

    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, ADA, "/connectors").await;
            chromium.heading("Connectors").await;
            chromium.shows("Needs you").await;
            for name in ["Acme Support", "Billing", "Kundendienst Wien", "Returns"] {
                chromium.shows(name).await;
            }
            chromium.picture(NAME).await;
        })
        .await;

    if std::env::var_os("HOLDFAST_WRITE_PICTURE").is_some() {
        let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/images");
        std::fs::create_dir_all(images).unwrap();
        std::fs::copy(pictures().join(format!("{NAME}-1280-light.png")), format!("{images}/connectors.png")).unwrap();
    }
}
