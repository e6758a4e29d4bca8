//! Health: what is a verdict, what is only trouble, and how each one ends.

use std::{sync::Arc, time::Duration};

use holdfast_sandbox::{CLIENT_SECRET, Canned};
use holdfast_tests::{
    browser::Browser,
    database::Database,
    on_both,
    service::{LIFE, TestApp},
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    a_revoked_grant_is_told_once_and_asked_for_no_more,
    only_a_key_that_may_connect_gets_a_connect_link,
    a_rejected_token_leads_to_the_verdict_too,
    a_refusal_that_goes_away_is_no_verdict,
    a_test_heals_what_the_provider_takes_back,
    a_test_says_who_it_is_and_what_is_missing,
    a_refused_oauth_app_is_the_operators_matter,
    a_next_client_secret_takes_over,
    a_provider_that_is_down_is_nobodys_fault,
    a_lost_answer_is_told_as_such,
    a_provider_that_is_odd_for_a_moment_fails_nobody,
    a_busy_provider_is_left_alone_as_long_as_it_says,
}

/// AP-04, TE-06
async fn a_revoked_grant_is_told_once_and_asked_for_no_more(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.revoke(None);
    app.advance(LIFE);

    let answers = futures::future::join_all((0..20).map(|_| app.token(&id))).await;

    for answer in answers {
        let told = answer.problem(409, "connector_auth_failed");
        assert!(told.text_of("detail").contains("Zendesk refused the refresh token"), "{}", told.text);
        assert!(told.text_of("reconnect_url").starts_with(&format!("{}/connect/", app.base)), "{}", told.text);
    }
    assert_eq!(app.acme.counters().exchanges, 2, "the refusal, and one attempt that confirms it");
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["health_reason"]), (&json!("auth_failed"), &json!("refresh_refused")));
    assert!(shown["health_words"].as_str().unwrap().contains("refused the refresh token"), "{shown}");
    let outbox = app.app.store.outbox_rows(&id.as_str().into()).await.unwrap();
    let mut told: Vec<_> =
        outbox.iter().filter(|row| row.payload["to"] == "auth_failed").map(|row| row.effect.as_str()).collect();
    told.sort_unstable();
    assert_eq!(told, ["mail_admins"]);

    let before = app.acme.counters();
    for _ in 0..5 {
        let _told = app.token(&id).await.problem(409, "connector_auth_failed");
        let rejected = app.post(&format!("/connectors/{id}/token/rejected"), json!({ "access_token": "x" })).await;
        let _told = rejected.problem(409, "connector_auth_failed");
    }
    assert_eq!(app.acme.counters(), before, "nobody calls the provider any more");
    assert_eq!(app.app.store.outbox_rows(&id.as_str().into()).await.unwrap().len(), outbox.len());
}

async fn only_a_key_that_may_connect_gets_a_connect_link(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.fail(&id).await;
    let key = app.key_with(&["tokens:read"]).await;

    let path = format!("/connectors/{id}/token");
    let told = app.call(Method::GET, &path, Some(&key), None).await.problem(409, "connector_auth_failed");

    assert_eq!(told.text_of("reconnect_url"), format!("{}/connectors/{id}", app.base));
    // The connector's own page: who is not signed in learns nothing there, not even which ones exist.
    let sign_in = |id: &str| format!("/sign-in?next=%2Fconnectors%2F{id}");
    for named in [&id, "con_unknown"] {
        let page = Browser::new().get(&format!("{}/connectors/{named}", app.base)).await;
        assert_eq!((page.status, page.location()), (303, sign_in(named)));
    }
    let link = app.token(&id).await.text_of("reconnect_url");
    assert_eq!(app.token(&id).await.text_of("reconnect_url"), link, "asked a thousand times, it makes one link");
    assert_eq!(app.consent(&link).await.title(), "Connected");
    let _alive = app.token(&id).await.expect(200);
}

async fn a_rejected_token_leads_to_the_verdict_too(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let token = app.token(&id).await.expect(200).text_of("access_token");
    app.acme.revoke(None);

    let answer = app.post(&format!("/connectors/{id}/token/rejected"), json!({ "access_token": token })).await;

    let _told = answer.problem(409, "connector_auth_failed");
    assert_eq!(app.show(&id).await["health"], "auth_failed");
}

/// TE-12
async fn a_refusal_that_goes_away_is_no_verdict(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    app.acme.trouble(|faults| faults.refuse_next = 1);

    let token = app.token(&id).await.expect(200);

    assert_eq!(token.json["version"], 2);
    assert_eq!(app.acme.counters().exchanges, 2);
    assert_eq!(app.show(&id).await["health"], "connected");
    assert!(app.timeline(&id).await.iter().all(|line| line["outcome"] != "auth_failed"));
}

async fn a_test_heals_what_the_provider_takes_back(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    app.acme.trouble(|faults| faults.refuse_next = 2);
    let _told = app.token(&id).await.problem(409, "connector_auth_failed");
    let epoch = app.show(&id).await["epoch"].as_i64().unwrap();

    let report = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);

    assert_eq!((&report.json["ok"], &report.json["health"]), (&json!(true), &json!("connected")), "{}", report.text);
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["health_reason"]), (&json!("connected"), &json!(null)));
    assert_eq!(shown["epoch"], epoch + 1);
    let _alive = app.token(&id).await.expect(200);
    let outbox = app.app.store.outbox_rows(&id.as_str().into()).await.unwrap();
    assert_eq!(outbox.iter().filter(|row| row.effect == "mail_recovery").count(), 1, "{outbox:?}");
}

async fn a_test_says_who_it_is_and_what_is_missing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let desk = app.sandbox.create_helpdesk("smaller").unwrap();
    let grant =
        desk.grant(&holdfast_sandbox::GrantRequest { scope: Some("read".to_owned()), ..Default::default() }).unwrap();
    let body = json!({
        "provider": "zendesk", "account": "smaller",
        "credential": { "access_token": grant.access_token, "refresh_token": grant.refresh_token, "expires_in": 1800 },
    });
    let id = app.post("/connectors", body).await.expect(201).text_of("id");
    let path = format!("/connectors/{id}/test");

    let report = app.post(&path, json!({})).await.expect(200).json;

    assert_eq!(report["ok"], true, "{report}");
    assert_eq!((&report["scopes"], &report["missing_scopes"]), (&json!(["read"]), &json!(["write"])));
    assert!(report["identity"]["name"].as_str().unwrap().starts_with("Ada"), "{report}");
    assert_eq!(report["identity"]["role"], "admin");
    assert!(report["latency_ms"].is_u64() && report["checked_at"].is_string());
    assert!(report.get("error").is_none(), "{report}");
    let line = app.timeline(&id).await.into_iter().find(|line| line["kind"] == "test").unwrap();
    assert_eq!((&line["outcome"], &line["actor"]), (&json!("passed"), &json!("key test")));

    desk.revoke(None);
    let report = app.post(&path, json!({})).await.expect(200).json;
    assert_eq!((&report["ok"], &report["health"]), (&json!(false), &json!("auth_failed")), "{report}");
    assert!(report["error"].as_str().unwrap().len() > 10, "{report}");
    assert_eq!(report["identity"], Value::Null);
}

/// TE-07
async fn a_refused_oauth_app_is_the_operators_matter(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    app.sandbox.set_client_secret("another", None);

    let told = app.token(&id).await.problem(502, "oauth_app_rejected");

    assert_eq!(told.json["retry_after"].as_u64(), told.header("retry-after").parse().ok(), "{}", told.text);
    assert!(told.json["retry_after"].is_u64(), "{}", told.text);
    assert!(told.json.get("reconnect_url").is_none(), "nobody has to reconnect: {}", told.text);
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["degraded"]["class"]), (&json!("connected"), &json!("app_broken")), "{shown}");
    let exchanges = app.acme.counters().exchanges;
    let _told = app.token(&id).await.problem(502, "oauth_app_rejected");
    assert_eq!(app.acme.counters().exchanges, exchanges, "it backs off");

    app.sandbox.set_client_secret(CLIENT_SECRET, None);
    app.advance(Duration::from_mins(6));
    let _alive = app.token(&id).await.expect(200);
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["degraded"]), (&json!("connected"), &Value::Null));
}

/// TE-11, RC-03
async fn a_next_client_secret_takes_over(db: Arc<Database>) {
    let app = TestApp::builder(&db)
        .with(|config| {
            let zendesk = config.oauth_apps.get_mut("zendesk").unwrap();
            zendesk.next_client_secret = Some("tomorrows-secret".to_owned().into());
        })
        .start()
        .await;
    let id = app.import("acme").await;
    app.sandbox.set_client_secret("tomorrows-secret", None);
    app.advance(LIFE);

    let token = app.token(&id).await.expect(200);

    assert!(app.acme.accepts(&token.text_of("access_token")));
    assert_eq!(app.show(&id).await["degraded"], Value::Null);
    assert_eq!(app.consent(&app.reconnect_link(&id).await).await.title(), "Connected");
}

/// LR-02, TE-05
async fn a_provider_that_is_down_is_nobodys_fault(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    app.acme.trouble(|faults| {
        faults.token_answer = Some(Canned::new(503, r#"{"error":"invalid_grant"}"#));
    });

    let told = app.token(&id).await.problem(503, "refresh_unavailable");

    assert!(told.header("retry-after").parse::<u64>().unwrap() >= 1, "{}", told.text);
    assert_eq!(told.json["retry_after"].to_string(), told.header("retry-after"));
    assert!(told.text_of("detail").contains("Nobody has to reconnect"), "{}", told.text);
    let shown = app.show(&id).await;
    assert_eq!(shown["health"], "connected");
    assert!(["transient", "ambiguous", "busy"].contains(&shown["degraded"]["class"].as_str().unwrap()), "{shown}");
    assert!(shown["degraded"]["since"].is_string() && shown["degraded"]["retry_at"].is_string(), "{shown}");

    app.acme.calm();
    app.advance(Duration::from_mins(6));
    let _alive = app.token(&id).await.expect(200);
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["degraded"]), (&json!("connected"), &Value::Null));
}

/// LR-01, to its end.
async fn a_lost_answer_is_told_as_such(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    app.acme.trouble(|faults| faults.lose_next_answer = 1);

    let first = app.token(&id).await.problem(503, "refresh_unavailable");

    assert_eq!(app.show(&id).await["health"], "connected", "an answer that is missing is no verdict: {}", first.text);
    assert_eq!(app.show(&id).await["degraded"]["class"], "ambiguous");
    app.advance(Duration::from_mins(6));
    let told = app.token(&id).await.problem(409, "connector_auth_failed");
    assert!(told.text_of("detail").contains("lost on the way"), "{}", told.text);
    assert_eq!(app.show(&id).await["health_reason"], "response_lost");
}

async fn a_busy_provider_is_left_alone_as_long_as_it_says(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    app.acme.trouble(|faults| {
        faults.token_answer = Some(Canned::new(429, "slow down").header("Retry-After", "120").times(1));
    });

    let told = app.token(&id).await.problem(503, "refresh_unavailable");

    assert_eq!(told.header("retry-after"), "120");
    assert_eq!(app.show(&id).await["degraded"]["class"], "busy");
    let exchanges = app.acme.counters().exchanges;
    app.advance(Duration::from_secs(100));
    let told = app.token(&id).await.problem(503, "refresh_unavailable");
    assert!((15..=20).contains(&told.header("retry-after").parse::<u64>().unwrap()), "{}", told.text);
    assert_eq!(app.acme.counters().exchanges, exchanges);
    app.advance(Duration::from_secs(21));
    let _alive = app.token(&id).await.expect(200);
}

/// HL-03
async fn a_provider_that_is_odd_for_a_moment_fails_nobody(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let token = app.token(&id).await.expect(200).text_of("access_token");
    app.acme.trouble(|faults| {
        faults.api_answer = Some(Canned::new(401, r#"{"error":"invalid_token"}"#).for_secs(5));
        faults.token_answer = Some(Canned::new(503, "<html>starting</html>").content_type("text/html").for_secs(5));
    });

    for _ in 0..5 {
        let report = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
        assert_eq!(report.json["ok"], false, "{}", report.text);
        let called = app.proxy(Method::GET, &id, "api/v2/users/me.json", "").await;
        assert!([401, 503].contains(&called.status), "{}", called.text);
        let rejected = app.post(&format!("/connectors/{id}/token/rejected"), json!({ "access_token": token })).await;
        let _told = rejected.problem(503, "refresh_unavailable");
        assert_eq!(app.show(&id).await["health"], "connected");
        app.advance(Duration::from_secs(1));
    }

    let called = app.proxy(Method::GET, &id, "api/v2/users/me.json", "").await;
    assert_eq!(called.status, 200, "{}", called.text);
    assert_eq!(app.token(&id).await.expect(200).text_of("access_token"), token, "it was good all the time");
    let outbox = app.app.store.outbox_rows(&id.as_str().into()).await.unwrap();
    assert!(outbox.iter().all(|row| row.payload["to"] != "auth_failed"), "{outbox:?}");
}
