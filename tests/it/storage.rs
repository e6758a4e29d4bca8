//! What is stored comes back, and what cannot be read harms nothing else.

use std::sync::Arc;

use holdfast_sandbox::{Canned, fingerprint};
use holdfast_tests::{
    database::Database,
    on_both,
    service::{LIFE, TestApp},
};
use serde_json::json;

on_both! {
    a_refresh_token_of_six_kilobytes_is_stored,
    one_damaged_row_spoils_nothing_else,
}

/// ST-01
async fn a_refresh_token_of_six_kilobytes_is_stored(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    let long = format!("zd_rt_{}", "a1B2c3D4".repeat(768));
    let body = json!({
        "access_token": "{access_token}", "refresh_token": long, "token_type": "bearer", "scope": "read write",
        "expires_in": 1800, "refresh_token_expires_in": 2_592_000,
    });
    let answer = Canned::new(200, body.to_string()).after_processing().times(1);
    app.acme.trouble(|faults| faults.token_answer = Some(answer));

    let token = app.token(&id).await.expect(200);

    assert_eq!(token.json["version"], 2);
    app.advance(LIFE);
    // It is no real one, so the provider refuses it; but what it was shown is the whole of it.
    let _told = app.token(&id).await.problem(409, "connector_auth_failed");
    let shown = app.acme.ledger().presentations.pop().unwrap();
    assert_eq!(shown.fingerprint, fingerprint(&long));
}

/// ST-02
async fn one_damaged_row_spoils_nothing_else(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(app.import(&format!("desk{number}")).await);
    }
    let id = &ids[4];
    let credential = format!("(SELECT credential_id FROM connectors WHERE id = '{id}')");
    let junk = if db.is_sqlite() { "x'01020304'" } else { "'\\x01020304'::bytea" };
    db.execute(&format!("UPDATE credentials SET sealed = {junk} WHERE id = {credential}")).await;
    // Another process has written that; on SQLite nobody else may, so nobody tells.
    app.app.changed(&id.as_str().into());
    app.advance(LIFE);

    let list = app.get("/connectors").await.expect(200);
    assert_eq!(list.json["data"].as_array().unwrap().len(), 10);
    let shown = app.show(id).await;
    assert_eq!((&shown["credential"]["kind"], &shown["health"]), (&json!("unreadable"), &json!("connected")));
    let told = app.token(id).await.problem(503, "refresh_unavailable");
    assert!(told.text_of("detail").contains("cannot be decrypted"), "{}", told.text);
    let refreshed = app.app.scheduler().round().await.unwrap();
    assert_eq!(refreshed, 9);
    for other in ids.iter().filter(|other| *other != id) {
        let _alive = app.token(other).await.expect(200);
    }
    let desk = app.sandbox.helpdesk("desk4").unwrap();
    assert_eq!((desk.counters().exchanges, desk.counters().api_calls), (0, 0), "no provider call is made for it");

    let page = app.consent(&told.text_of("reconnect_url")).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    let token = app.token(id).await.expect(200);
    assert!(desk.accepts(&token.text_of("access_token")));
}
