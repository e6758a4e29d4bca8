//! What passes, and how it looks on the other side.

use std::sync::Arc;

use holdfast_sandbox::Canned;
use holdfast_tests::{
    database::Database,
    on_both, plain,
    service::{TestApp, proxied},
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ME, sent, theirs, unharmed};

on_both! {
    a_call_reaches_the_provider_and_its_answer_the_caller,
    path_query_and_headers_pass_as_they_are_written,
    every_method_passes_with_and_without_a_body,
    every_status_passes_as_it_is,
    a_403_changes_nothing,
    headers_of_an_answer_speak_for_nobody_else,
    a_compressed_answer_stays_compressed,
}

async fn a_call_reaches_the_provider_and_its_answer_the_caller(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "alias": "zammad:42" })).await;

    for name in [id.as_str(), "zammad:42", "zammad%3A42"] {
        let me = theirs(app.proxy(Method::GET, name, ME, "").await).expect(200);

        assert!(me.json["user"]["name"].as_str().unwrap().starts_with("Ada"), "{}", me.text);
        assert_eq!(me.header("cache-control"), "no-store");
        assert_eq!(me.header("x-content-type-options"), "nosniff");
        assert_eq!(me.header("content-security-policy"), "default-src 'none'; frame-ancestors 'none'; sandbox");
        assert!(!me.header("x-rate-limit").is_empty() && !me.header("x-request-id").is_empty());
    }
    let found = theirs(app.proxy(Method::GET, &id, "api/v2/search.json?query=type:ticket&per_page=2", "").await);
    assert_eq!(found.expect(200).json["results"].as_array().unwrap().len(), 2);
    // The account's own address: what it answers to that is its own matter.
    for root in ["", "/"] {
        let path = format!("/api/v1/connectors/{id}/proxy{root}");
        let answer = app.raw(Method::GET, &path, Some(&app.key), &[], Vec::new()).await;
        assert_eq!(theirs(answer).status, 404);
    }
    unharmed(&app, &id).await;
}

/// AP-03: allowed calls keep their encoding unchanged.
async fn path_query_and_headers_pass_as_they_are_written(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_echo = true);
    let token = app.token(&id).await.text_of("access_token");
    let key = &app.key;

    for target in [
        "api/v2/a%20b/%c3%a4%C3%A4/x'y(1);v=2?q='a'%27+%20&page[size]=1&r=%2f%2F&s=%E4%ff&t=a|b&u={c}&q=again",
        "api/v2//twice//",
        "api/v2/x?",
        "api/v2/x?a?b/../c#",
    ] {
        let path = proxied(&id, target);
        let reply = plain::ask(
            &app.base,
            &format!(
                "GET {path} HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer {key}\nCookie: session=1\n\
                 Connection: close, X-Hop\nX-Hop: 1\nKeep-Alive: timeout=5\nTE: trailers\nProxy-Authorization: Basic eA==\n\
                 X-Forwarded-For: 192.0.2.1\nForwarded: for=192.0.2.1\nX-Original-URL: /oauth/tokens\n\
                 X-Holdfast-Source: provider\nAccept: text/html;q=0.5\nAccept-Language: de\nIf-None-Match: \"x\"\n\
                 Idempotency-Key: k1\nRange: bytes=0-9\nUser-Agent: agent/1\nX-Zendesk-Thing: one\n\
                 X-Zendesk-Thing: two\n\n"
            ),
        )
        .await;

        let echo: Value = serde_json::from_str(&reply.text()).unwrap();
        let target = target.trim_end_matches('#');
        assert_eq!((reply.status, &echo["target"]), (200, &json!(format!("/zendesk/acme/{target}"))));
        let host = app.sandbox.addr().to_string();
        let bearer = format!("Bearer {token}");
        let mut headers: Vec<(&str, &str)> = echo["headers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|header| (header[0].as_str().unwrap(), header[1].as_str().unwrap()))
            .collect();
        headers.sort_unstable();
        assert_eq!(
            headers,
            [
                ("accept", "text/html;q=0.5"),
                ("accept-language", "de"),
                ("authorization", &bearer),
                ("host", &host),
                ("idempotency-key", "k1"),
                ("if-none-match", "\"x\""),
                ("range", "bytes=0-9"),
                ("user-agent", "agent/1"),
                ("x-zendesk-thing", "one"),
                ("x-zendesk-thing", "two"),
            ]
        );
    }
}

async fn every_method_passes_with_and_without_a_body(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_echo = true);

    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        for body in ["", r#"{"a":1}"#] {
            let echo = theirs(app.proxy(method.clone(), &id, "api/v2/x", body).await).expect(200).json;

            assert_eq!((&echo["method"], &echo["length"]), (&json!(method.as_str()), &json!(body.len())), "{echo}");
            assert_eq!(sent(&echo, "transfer-encoding"), None, "{method}: {echo}");
            if !body.is_empty() {
                assert_eq!(sent(&echo, "content-length"), Some("7"), "{method}: {echo}");
            }
        }
    }
    let head = theirs(app.proxy(Method::HEAD, &id, "api/v2/x", "").await).expect(200);
    assert_eq!((head.text.as_str(), head.header("content-type")), ("", "application/json; charset=utf-8"));
    assert!(head.header("content-length").parse::<u64>().unwrap() > 0, "{head:?}");
}

/// HL-04
async fn every_status_passes_as_it_is(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;

    for status in
        [201, 202, 207, 300, 400, 402, 403, 404, 405, 406, 409, 410, 412, 415, 418, 422, 423, 451, 500, 502, 503, 504]
    {
        let body = format!("their {status}");
        app.acme
            .trouble(|faults| faults.api_answer = Some(Canned::new(status, &body).content_type("text/plain").times(1)));
        let calls = app.acme.counters().api_calls;

        let answer = theirs(app.proxy(Method::POST, &id, "api/v2/x", "{}").await).expect(status);

        assert_eq!((answer.text.as_str(), answer.header("content-type")), (body.as_str(), "text/plain"));
        assert_eq!(app.acme.counters().api_calls, calls + 1, "{status} is not tried again");
    }
    for status in [204, 304] {
        app.acme.trouble(|faults| faults.api_answer = Some(Canned::new(status, "").header("ETag", "\"x\"").times(1)));
        let answer = theirs(app.proxy(Method::GET, &id, "api/v2/x", "").await).expect(status);
        assert_eq!((answer.text.as_str(), answer.header("etag")), ("", "\"x\""));
    }
    unharmed(&app, &id).await;
}

/// CO-08
async fn a_403_changes_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let smaller = holdfast_sandbox::GrantRequest { scope: Some("tickets:read".to_owned()), ..Default::default() };
    let grant = app.acme.grant(&smaller).unwrap();
    let body = json!({
        "provider": "zendesk", "account": "acme",
        "credential": { "access_token": grant.access_token, "refresh_token": grant.refresh_token, "expires_in": 1800 },
    });
    let id = app.post("/connectors", body).await.expect(201).text_of("id");

    let granted = theirs(app.proxy(Method::GET, &id, "api/v2/tickets.json", "").await);
    let missing = theirs(app.proxy(Method::GET, &id, "api/v2/users/search.json?query=ada", "").await);

    let _tickets = granted.expect(200);
    assert!(missing.expect(403).text_of("description").contains("required scopes: read"));
    unharmed(&app, &id).await;
}

async fn headers_of_an_answer_speak_for_nobody_else(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let mut canned = Canned::new(200, "<script>1</script>").content_type("text/html");
    for (name, value) in [
        ("Set-Cookie", "session=theirs"),
        ("Access-Control-Allow-Origin", "*"),
        ("Alt-Svc", "h3=\":443\""),
        ("Cache-Control", "public, max-age=3600"),
        ("Clear-Site-Data", "\"*\""),
        ("Connection", "X-Hop"),
        ("Content-Security-Policy", "default-src *"),
        ("Strict-Transport-Security", "max-age=1"),
        ("X-Accel-Redirect", "/internal"),
        ("X-Frame-Options", "ALLOWALL"),
        ("X-Holdfast-Source", "holdfast"),
        ("X-Hop", "1"),
        ("X-Plain", "passes"),
        ("X-Request-Id", "theirs"),
    ] {
        canned = canned.header(name, value);
    }
    app.acme.trouble(|faults| faults.api_answer = Some(canned));

    let answer = theirs(app.proxy(Method::GET, &id, ME, "").await).expect(200);

    // Theirs ended here; of these names, the values are ours.
    for (name, value) in [
        ("set-cookie", ""),
        ("access-control-allow-origin", ""),
        ("alt-svc", ""),
        ("clear-site-data", ""),
        ("strict-transport-security", ""),
        ("x-accel-redirect", ""),
        ("x-hop", ""),
        ("cache-control", "no-store"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("x-plain", "passes"),
        ("content-type", "text/html"),
        ("x-provider-request-id", "theirs"),
    ] {
        let values: Vec<_> = answer.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(values.concat(), value, "{name}");
    }
    assert_ne!(answer.header("x-request-id"), "theirs");
}

async fn a_compressed_answer_stays_compressed(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let body = "not gzip at all, whatever the header says";
    app.acme.trouble(|faults| faults.api_answer = Some(Canned::new(200, body).header("Content-Encoding", "gzip")));
    let ask = format!(
        "GET {} HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer {}\nAccept-Encoding: gzip, br\nConnection: close\n\n",
        proxied(&id, ME),
        app.key
    );

    let reply = plain::ask(&app.base, &ask).await;

    assert_eq!((reply.status, reply.header("content-encoding"), reply.text().as_str()), (200, "gzip", body));
    assert_eq!(reply.header("content-length"), body.len().to_string());
    app.acme.trouble(|faults| (faults.api_answer, faults.api_echo) = (None, true));
    let asked: Value = serde_json::from_str(&plain::ask(&app.base, &ask).await.text()).unwrap();
    let silent: Value =
        serde_json::from_str(&plain::ask(&app.base, &ask.replace("Accept-Encoding: gzip, br\n", "")).await.text())
            .unwrap();
    assert_eq!((sent(&asked, "accept-encoding"), sent(&silent, "accept-encoding")), (Some("gzip, br"), None));
}
