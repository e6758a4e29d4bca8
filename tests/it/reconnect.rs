//! Reconnect in place, disconnect and delete.

use std::{sync::Arc, time::Duration};

use holdfast_core::ports::Clock as _;
use holdfast_tests::{
    browser::Browser,
    database::Database,
    on_both,
    service::{LIFE, TestApp},
    wait::until,
};
use reqwest::Method;
use serde_json::json;

on_both! {
    a_reconnect_keeps_id_alias_and_extras,
    a_reconnect_that_is_abandoned_changes_nothing,
    a_consent_that_was_started_earlier_loses,
    a_reconnect_to_another_helpdesk_is_refused,
    an_old_refusal_after_a_reconnect_is_no_verdict,
    a_disconnect_during_a_refresh_gives_the_new_token_back,
    a_delete_during_a_refresh_gives_the_new_token_back,
    a_disconnect_revokes_and_keeps_the_connector,
    a_disconnect_does_not_wait_for_a_provider_that_is_down,
    a_disconnect_claims_no_revocation_that_did_not_happen,
    a_deleted_connector_is_gone_and_its_grant_too,
    a_reconnect_of_what_was_deleted_says_so,
}

async fn a_reconnect_keeps_id_alias_and_extras(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support", "alias": "old-7" })).await;
    let extras = json!({ "extras": { "webhook_id": "wh_123" } });
    let _changed =
        app.call(Method::PATCH, &format!("/connectors/{id}"), Some(&app.key), Some(extras)).await.expect(200);
    app.fail(&id).await;
    let before = app.show(&id).await;
    assert_eq!(before["health"], "auth_failed");

    let page = app.consent(&app.reconnect_link(&id).await).await;

    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    let after = app.show(&id).await;
    for field in ["id", "name", "alias", "account", "provider", "created_at"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(after["health"], "connected");
    assert_eq!(after["health_reason"], json!(null));
    assert_eq!(after["credential"]["version"], before["credential"]["version"].as_i64().unwrap() + 1);
    assert_eq!(after["epoch"], before["epoch"].as_i64().unwrap() + 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM extras").await, 1);
    let token = app.token("old-7").await.expect(200);
    assert!(app.acme.accepts(&token.text_of("access_token")));
    assert!(app.timeline(&id).await.iter().any(|line| line["kind"] == "reconnected"));
}

async fn a_reconnect_that_is_abandoned_changes_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let (shown, token) = (app.show(&id).await, app.token(&id).await.expect(200).json);
    let browser = Browser::new();

    let link = app.reconnect_link(&id).await;
    browser.get(&link).await;
    let authorize = browser.post(&link).await.location();
    let _never_opened = app.sandbox.consent(&authorize, "ada").unwrap();
    browser.get(&app.sandbox.deny(&authorize).unwrap()).await;

    assert_eq!(app.show(&id).await, shown);
    assert_eq!(app.token(&id).await.expect(200).json, token);
    assert!(app.acme.accepts(token["access_token"].as_str().unwrap()));
}

async fn a_consent_that_was_started_earlier_loses(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let (early, late) = (Browser::new(), Browser::new());
    let (early_link, late_link) = (app.reconnect_link(&id).await, app.reconnect_link(&id).await);
    let early_authorize = early.post(&early_link).await.location();
    let late_authorize = late.post(&late_link).await.location();
    let early_back = app.sandbox.consent(&early_authorize, "ada").unwrap();
    let late_back = app.sandbox.consent(&late_authorize, "ada").unwrap();

    let won = late.get(&late_back).await;
    let token = app.token(&id).await.expect(200).text_of("access_token");
    let lost = early.get(&early_back).await;

    assert_eq!(won.title(), "Connected", "{}", won.text);
    assert!(lost.text.contains("another window that was started after this one"), "{}", lost.text);
    assert_eq!(app.token(&id).await.expect(200).text_of("access_token"), token);
    assert!(app.acme.accepts(&token));
    assert_eq!(app.show(&id).await["credential"]["version"], 2);
}

/// RC-01, as far as Zendesk can show it: the account is the host that was asked, so that a code of another one is not
/// even exchanged.
async fn a_reconnect_to_another_helpdesk_is_refused(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.fail(&id).await;
    let before = app.show(&id).await;
    let browser = Browser::new();
    let authorize = browser.post(&app.reconnect_link(&id).await).await.location();
    let elsewhere = authorize.replace("/zendesk/acme/", "/zendesk/globex/");

    let page = browser.get(&app.sandbox.consent(&elsewhere, "ada").unwrap()).await;

    assert_eq!((page.status, page.title()), (409, "Zendesk did not accept the consent"), "{}", page.text);
    assert_eq!(app.show(&id).await, before);
    assert_eq!(app.consent(&app.reconnect_link(&id).await).await.title(), "Connected");
}

/// RC-04
async fn an_old_refusal_after_a_reconnect_is_no_verdict(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let link = app.reconnect_link(&id).await;
    app.advance(LIFE);
    app.acme.trouble(|faults| {
        faults.delay_ms = 1500;
        faults.refuse_next = 2;
    });

    let (token, page) = tokio::join!(app.token(&id), async {
        until("the refresh is under way", async || app.acme.counters().exchanges, |count| *count == 1).await;
        app.acme.trouble(|faults| faults.delay_ms = 0);
        app.consent(&link).await
    });

    assert_eq!(page.title(), "Connected", "{}", page.text);
    let token = token.expect(200);
    assert_eq!(token.json["version"], 2);
    assert!(app.acme.accepts(&token.text_of("access_token")));
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["credential"]["version"]), (&json!("connected"), &json!(2)));
    assert_eq!(app.acme.counters().exchanges, 1, "the refused token is not sent again");
    let outbox = app.app.store.outbox_rows(&id.as_str().into()).await.unwrap();
    assert!(outbox.iter().all(|row| row.effect != "mail_admins"), "{outbox:?}");
}

/// RC-05
async fn a_disconnect_during_a_refresh_gives_the_new_token_back(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    app.acme.trouble(|faults| faults.hold_answers = true);

    let (token, ()) = tokio::join!(app.token(&id), async {
        until("the token is rotated", async || app.acme.counters().rotations, |count| *count == 1).await;
        let _off = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
        app.acme.calm();
    });

    let _told = token.problem(409, "connector_disconnected");
    until("the new grant is revoked", async || app.acme.ledger().sets, |sets| sets.iter().all(|set| !set.is_live()))
        .await;
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["credential"]["kind"]), (&json!("disconnected"), &json!("none")));
    assert_eq!(db.number("SELECT COUNT(*) FROM credentials WHERE sealed IS NOT NULL").await, 0);
}

/// RC-05
async fn a_delete_during_a_refresh_gives_the_new_token_back(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    app.acme.trouble(|faults| faults.hold_answers = true);

    let (token, ()) = tokio::join!(app.token(&id), async {
        until("the token is rotated", async || app.acme.counters().rotations, |count| *count == 1).await;
        let gone = app.call(Method::DELETE, &format!("/connectors/{id}"), Some(&app.key), None).await;
        assert_eq!(gone.status, 204, "{}", gone.text);
        app.acme.calm();
    });

    assert!([404, 409].contains(&token.status), "{}", token.text);
    until("the new grant is revoked", async || app.acme.ledger().sets, |sets| sets.iter().all(|set| !set.is_live()))
        .await;
    assert_eq!(app.get("/connectors").await.json["data"], json!([]));
    for table in ["connectors", "credentials", "leases"] {
        assert_eq!(db.number(&format!("SELECT COUNT(*) FROM {table}")).await, 0, "{table}");
    }
}

async fn a_disconnect_revokes_and_keeps_the_connector(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;

    let answer = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);

    assert_eq!(answer.json["health"], "disconnected");
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()));
    let told = app.token(&id).await.problem(409, "connector_disconnected");
    assert!(told.text_of("reconnect_url").contains("/connect/"), "{}", told.text);
    let line = app.timeline(&id).await.into_iter().find(|line| line["kind"] == "disconnected").unwrap();
    assert_eq!((&line["outcome"], &line["actor"]), (&json!("revoked"), &json!("key test")));
    let again = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
    assert_eq!(again.json["health"], "disconnected");

    assert_eq!(app.consent(&app.reconnect_link(&id).await).await.title(), "Connected");
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["name"]), (&json!("connected"), &json!("Support")));
}

/// RC-06, for the grant.
async fn a_disconnect_does_not_wait_for_a_provider_that_is_down(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_delay_ms = 20_000);
    let started = app.clock.uptime();

    let answer = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);

    let took = app.clock.uptime().saturating_sub(started);
    assert!(took < Duration::from_secs(4), "it took {took:?}");
    assert_eq!(answer.json["health"], "disconnected");
    let line = app.timeline(&id).await.into_iter().find(|line| line["kind"] == "disconnected").unwrap();
    assert_eq!(line["outcome"], "not_revoked");
    assert!(line["detail"].as_str().unwrap().contains("may still exist at the provider"), "{line}");
}

/// An expired access token cannot revoke anything: the provider answers 401, and the refresh token lives on.
async fn a_disconnect_claims_no_revocation_that_did_not_happen(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);

    let _off = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);

    let line = app.timeline(&id).await.into_iter().find(|line| line["kind"] == "disconnected").unwrap();
    let lives = app.acme.ledger().sets.iter().any(holdfast_sandbox::IssuedSet::is_live);
    let expected = if lives { "not_revoked" } else { "revoked" };
    assert_eq!(line["outcome"], expected, "the grant lives: {lives}; {line}");
}

async fn a_deleted_connector_is_gone_and_its_grant_too(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let path = format!("/connectors/{id}");

    let gone = app.call(Method::DELETE, &path, Some(&app.key), None).await;

    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()));
    for (method, end) in [
        (Method::GET, ""),
        (Method::GET, "/token"),
        (Method::GET, "/timeline"),
        (Method::POST, "/test"),
        (Method::DELETE, ""),
    ] {
        let _gone = app.call(method, &format!("{path}{end}"), Some(&app.key), None).await.problem(404, "not_found");
    }
    let again = app.import("acme").await;
    assert_ne!(again, id);
}

async fn a_reconnect_of_what_was_deleted_says_so(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let link = app.reconnect_link(&id).await;
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    let back = app.sandbox.consent(&authorize, "ada").unwrap();
    let gone = app.call(Method::DELETE, &format!("/connectors/{id}"), Some(&app.key), None).await;
    assert_eq!(gone.status, 204);

    let (shown, came_back) = (browser.get(&link).await, browser.get(&back).await);

    for page in [shown, came_back] {
        assert!(page.status >= 400, "{}", page.text);
        assert_ne!(page.title(), "Connected");
    }
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()));
    assert_eq!(app.get("/connectors").await.json["data"], json!([]));
}
