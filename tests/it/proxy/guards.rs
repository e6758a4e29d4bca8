//! What is refused, and what leads nowhere.

use std::sync::Arc;

use holdfast_sandbox::Canned;
use holdfast_tests::{
    database::Database,
    on_both, plain,
    service::{LIFE, TestApp, proxied},
};
use reqwest::Method;
use serde_json::json;
use tokio::net::TcpListener;

use super::{ME, ours, theirs, unharmed};

on_both! {
    a_redirect_is_handed_over_and_never_followed,
    a_path_that_leaves_the_account_is_refused_before_anything_is_sent,
    the_paths_for_oauth_are_closed,
    an_answer_says_whose_it_is,
    only_an_api_key_with_the_scope_opens_it,
    what_would_repeat_the_credential_or_upgrade_is_refused,
    without_a_token_it_answers_as_the_token_call_does,
    without_a_database_it_answers_as_the_token_call_does,
}

/// AP-02
async fn a_redirect_is_handed_over_and_never_followed(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let evil = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}/x", evil.local_addr().unwrap());

    for (status, location) in [
        (302, target.as_str()),
        (307, "http://127.0.0.1/zendesk/acme/api/v2/users/me.json"),
        (308, "/zendesk/globex/api/v2/users/me.json"),
        (301, "http://169.254.169.254/latest/meta-data"),
        (303, "https://evil.example/x"),
    ] {
        let calls = app.sandbox.counters().api_calls;

        for method in [Method::GET, Method::POST] {
            app.acme.trouble(|faults| {
                faults.api_answer = Some(Canned::new(status, "").header("Location", location).times(1));
            });
            let answer = theirs(app.proxy(method, &id, "api/v2/x", "").await).expect(status);
            assert_eq!(answer.header("location"), location);
        }

        assert_eq!(app.sandbox.counters().api_calls, calls + 2);
    }
    let nobody = tokio::time::timeout(std::time::Duration::from_millis(50), evil.accept()).await;
    assert!(nobody.is_err(), "somebody called the other host");
    unharmed(&app, &id).await;
}

/// AP-03
async fn a_path_that_leaves_the_account_is_refused_before_anything_is_sent(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);

    for path in [
        "../globex/api/v2/users/me.json",
        "..",
        "api/../../globex",
        "%2e%2e/globex/api/v2/users/me.json",
        "..%2fglobex",
        "api/v2/tickets/..;/users",
        "%252e%252e/globex",
        "%25252e%25252e/globex",
        "%2525252525252e%2525252525252e/globex",
        "api/v2/..%5cusers",
        "api/./v2",
        "api/v2/%00",
        "api/v2/%ff",
        "api/v2/tickets%3fx=1",
        "api/v2/tickets%23x",
    ] {
        let reply = plain::ask(
            &app.base,
            &format!(
                "GET {} HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer {}\nConnection: close\n\n",
                proxied(&id, path),
                app.key
            ),
        )
        .await;

        assert_eq!((reply.status, reply.header("x-holdfast-source")), (422, "holdfast"), "{path}: {}", reply.text());
        let problem: serde_json::Value = serde_json::from_str(&reply.text()).unwrap();
        assert_eq!((&problem["code"], &problem["field"]), (&json!("invalid"), &json!("path")), "{path}");
    }
    assert_eq!((app.sandbox.counters().api_calls, app.acme.counters().exchanges), (0, 0));
}

async fn the_paths_for_oauth_are_closed(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;

    for path in [
        "oauth/tokens",
        "/oauth/tokens",
        "oauth/authorizations/new?client_id=x",
        "OAuth/tokens.json",
        "%6fauth/tokens",
        "o%2561uth/tokens",
        "oauth%2ftokens",
        "api/v2/oauth/tokens/current.json",
        "api/v2/oauth/tokens/current",
        "api//v2/oauth/clients.json",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let told = ours(app.proxy(method, &id, path, "").await, 403, "path_closed");
            assert!(told.text_of("detail").contains("OAuth"), "{}", told.text);
        }
    }
    let counters = app.acme.counters();
    assert_eq!((counters.api_calls, counters.exchanges, counters.revocations), (0, 0, 0));
    let _alive = theirs(app.proxy(Method::GET, &id, ME, "").await).expect(200);
}

async fn an_answer_says_whose_it_is(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let problem = json!({ "type": "/problems/connector_auth_failed", "code": "connector_auth_failed", "status": 409 });
    let theirs_409 = Canned::new(409, problem.to_string()).content_type("application/problem+json");
    app.acme.trouble(|faults| faults.api_answer = Some(theirs_409.header("X-Holdfast-Source", "holdfast").times(1)));

    let _theirs = theirs(app.proxy(Method::GET, &id, ME, "").await).expect(409);
    let unknown = app.raw(Method::GET, &proxied(&id, ME), Some("hf_unknown"), &[], Vec::new()).await;
    let _ours = ours(unknown, 401, "unauthorized");
    app.fail(&id).await;
    let _ours = ours(app.proxy(Method::GET, &id, ME, "").await, 409, "connector_auth_failed");
}

async fn only_an_api_key_with_the_scope_opens_it(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "alias": "mine" })).await;
    let path = proxied(&id, ME);
    let ask = async |key: Option<&str>, path: &str, headers: &[(&str, &str)]| {
        app.raw(Method::GET, path, key, headers, Vec::new()).await
    };
    let token = app.token(&id).await.text_of("access_token");
    let cookie = format!("__Host-session={}; session={}", app.key, app.key);

    let _nobody = ours(ask(None, &path, &[]).await, 401, "unauthorized");
    let _cookie = ours(ask(None, &path, &[("cookie", &cookie)]).await, 401, "unauthorized");
    let _theirs = ours(ask(Some(&token), &path, &[]).await, 401, "unauthorized");
    let other = app.key_with(&["connectors:write", "tokens:read", "tools"]).await;
    let _scope = ours(ask(Some(&other), &path, &[]).await, 403, "missing_scope");
    let stranger = app.key_of("Globex").await;
    for path in [&path, &proxied("mine", ME), &proxied("con_unknown", ME), &proxied("%ff", ME), &proxied("a%00", ME)] {
        let _unknown = ours(ask(Some(&stranger), path, &[]).await, 404, "not_found");
    }
    assert_eq!(app.acme.counters().api_calls, 0);
    let narrow = app.key_with(&["proxy"]).await;
    let _open = theirs(ask(Some(&narrow), &path, &[("cookie", "session=x")]).await).expect(200);
}

async fn what_would_repeat_the_credential_or_upgrade_is_refused(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    for method in ["TRACE", "TRACK"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let _refused = ours(app.proxy(method, &id, ME, "").await, 405, "method_not_allowed");
    }
    let key = &app.key;
    let upgrade = |protocol: &str| {
        let path = proxied(&id, ME);
        format!(
            "GET {path} HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer {key}\nConnection: close, Upgrade\n\
             Upgrade: {protocol}\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Version: 13\n\n"
        )
    };

    let socket = plain::ask(&app.base, &upgrade("websocket")).await;
    let other = plain::ask(&app.base, &upgrade("h2c")).await;

    assert_eq!((socket.status, socket.header("x-holdfast-source")), (501, "holdfast"), "{}", socket.text());
    assert!(socket.text().contains("upgrade_not_supported"));
    // Everything else may be left unanswered (RFC 9110 section 7.8).
    assert_eq!((other.status, other.header("x-holdfast-source")), (200, "provider"));
    assert_eq!(app.acme.counters().api_calls, 1);
}

/// HL-01, AP-04
async fn without_a_token_it_answers_as_the_token_call_does(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (_, pending) = app.link("globex").await;
    let id = app.import("acme").await;
    let gone = app.import("initech").await;
    let _done = app.post(&format!("/connectors/{gone}/disconnect"), json!({})).await.expect(200);
    let bound = json!({ "sample": "annotate_urgent_tickets", "connectors": [{ "connector": id }] });
    let agent = app.post("/agents", bound).await.expect(201).text_of("id");
    app.acme.revoke(None);
    app.advance(LIFE);

    let told = ours(app.proxy(Method::GET, &id, ME, "").await, 409, "connector_auth_failed");

    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["health_reason"]), (&json!("auth_failed"), &json!("refresh_refused")));
    let outbox = app.app.store.outbox_rows(&id.as_str().into()).await.unwrap();
    assert_eq!(outbox.iter().filter(|row| row.effect == "mail_admins").count(), 1, "{outbox:?}");
    assert_eq!(app.get(&format!("/agents/{agent}")).await.text_of("status"), "deactivated");
    let before = app.acme.counters();
    for (id, code) in
        [(&id, "connector_auth_failed"), (&pending, "connector_pending"), (&gone, "connector_disconnected")]
    {
        let token = app.token(id).await.problem(409, code);
        for _ in 0..3 {
            let proxy = ours(app.proxy(Method::POST, id, ME, "{}").await, 409, code);
            assert_eq!(proxy.json, token.json);
        }
    }
    assert_eq!(app.acme.counters(), before, "nobody calls the provider any more");
    assert!(told.text_of("reconnect_url").starts_with(&format!("{}/connect/", app.base)), "{}", told.text);
    let narrow = app.key_with(&["proxy"]).await;
    let told = app.raw(Method::GET, &proxied(&id, ME), Some(&narrow), &[], Vec::new()).await;
    let told = ours(told, 409, "connector_auth_failed");
    assert_eq!(told.text_of("reconnect_url"), format!("{}/connectors/{id}", app.base));
}

async fn without_a_database_it_answers_as_the_token_call_does(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    // Not remembered yet, so it has to be looked up.
    let key = app.key_with(&["proxy", "tokens:read"]).await;
    db.execute("ALTER TABLE api_keys RENAME TO api_keys_away").await;

    let proxy = app.raw(Method::GET, &proxied(&id, ME), Some(&key), &[], Vec::new()).await;
    let token = app.call(Method::GET, &format!("/connectors/{id}/token"), Some(&key), None).await;

    let (proxy, token) = (ours(proxy, 503, "refresh_unavailable"), token.problem(503, "refresh_unavailable"));
    assert_eq!((&proxy.json, proxy.header("retry-after")), (&token.json, token.header("retry-after")));
    db.execute("ALTER TABLE api_keys_away RENAME TO api_keys").await;
    let again = app.raw(Method::GET, &proxied(&id, ME), Some(&key), &[], Vec::new()).await;
    let _alive = theirs(again).expect(200);
}
