//! Bodies: small and large, sent again or not, cut off on either side.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use holdfast_sandbox::Download;
use holdfast_tests::{
    browser::http,
    database::Database,
    on_both,
    plain::Plain,
    service::{TestApp, proxied},
    wait::until,
};
use reqwest::{Body, Method, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{ME, sent, theirs};

on_both! {
    a_small_body_is_sent_again_with_another_token,
    a_large_body_is_passed_on_whole,
    a_body_that_can_be_sent_once_is_asked_for_again_at_once,
    a_caller_that_listens_late_hears_it_too,
    a_caller_that_asks_first_is_answered_first,
    a_body_that_stands_still_is_given_up,
    a_body_that_breaks_off_reaches_nobody_as_a_whole,
    a_large_answer_comes_whole,
    an_answer_that_breaks_off_is_not_taken_for_whole,
    a_caller_that_goes_away_ends_the_call,
}

const MIB: usize = 1024 * 1024;
const BOUND: Duration = Duration::from_mins(1);

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// The same bytes every time.
fn file(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

/// A body without a length.
fn chunked(bytes: &[u8]) -> Body {
    let pieces: Vec<_> = bytes.chunks(64 * 1024).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    Body::wrap_stream(stream::iter(pieces))
}

async fn upload(app: &TestApp, id: &str, body: impl Into<Body>) -> (Value, String) {
    let request = http().post(format!("{}{}", app.base, proxied(id, "api/v2/uploads"))).bearer_auth(&app.key);
    let sent = tokio::time::timeout(BOUND, request.body(body).send()).await.expect("an answer comes");
    let response = sent.expect("the service answers");
    let source = response.headers()["x-holdfast-source"].to_str().unwrap().to_owned();
    (response.json().await.unwrap(), source)
}

async fn download(app: &TestApp, id: &str) -> Response {
    let request = http().get(format!("{}{}", app.base, proxied(id, ME))).bearer_auth(&app.key);
    request.send().await.unwrap().error_for_status().unwrap()
}

async fn a_small_body_is_sent_again_with_another_token(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_echo = true);
    app.acme.expire_access_tokens();
    let body = file(200 * 1024);

    let calls =
        futures::future::join_all((0..20).map(|_| app.proxy(Method::POST, &id, "api/v2/uploads", body.clone()))).await;

    for call in calls {
        let echo = theirs(call).expect(200).json;
        assert_eq!(echo["sha256"], hex(&body), "{echo}");
    }
    assert_eq!(app.acme.counters().exchanges, 1);
}

async fn a_large_body_is_passed_on_whole(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_echo = true);
    let body = file(8 * MIB);

    let (told, _) = upload(&app, &id, body.clone()).await;
    let (untold, _) = upload(&app, &id, chunked(&body)).await;

    for echo in [&told, &untold] {
        assert_eq!(echo["sha256"], hex(&body), "{echo}");
    }
    assert_eq!(sent(&told, "content-length"), Some((8 * MIB).to_string().as_str()), "its length is passed on");
    assert_eq!((sent(&untold, "content-length"), sent(&untold, "transfer-encoding")), (None, Some("chunked")));
}

/// AP-01
async fn a_body_that_can_be_sent_once_is_asked_for_again_at_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let body = file(50 * MIB);
    app.acme.trouble(|faults| (faults.api_echo, faults.api_refuses_after) = (true, Some(MIB as u64)));

    for (number, body) in [Body::from(body.clone()), chunked(&body)].into_iter().enumerate() {
        app.acme.expire_access_tokens();
        let (problem, source) = upload(&app, &id, body).await;

        assert_eq!((source.as_str(), &problem["code"]), ("holdfast", &json!("send_again")), "{problem}");
        assert_eq!((&problem["status"], &problem["retry_after"]), (&json!(503), &json!(0)));
        assert_eq!(app.acme.counters().exchanges, number as u64 + 1, "the token is renewed for the next time");
    }
    let (echo, _) = upload(&app, &id, chunked(&body)).await;
    assert_eq!(echo["sha256"], hex(&body), "{echo}");
    assert_eq!(app.acme.counters().exchanges, 2);
}

/// AP-01
async fn a_caller_that_listens_late_hears_it_too(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_refuses_after = Some(MIB as u64));
    app.acme.expire_access_tokens();
    let mut caller = Plain::open(&app.base).await;
    let head = |length: usize| {
        format!(
            "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n",
            proxied(&id, "api/v2/uploads"),
            app.key
        )
    };

    caller.send(head(20 * MIB)).await.unwrap();
    caller.send(file(20 * MIB)).await.expect("everything is taken, wanted or not");
    let reply = caller.reply().await;

    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(reply.whole && reply.text().contains("send_again"), "{}", reply.text());
    // The same where it is refused before any of it was looked at.
    let mut caller = Plain::open(&app.base).await;
    caller.send(head(20 * MIB).replace("api/v2/uploads", "oauth/tokens")).await.unwrap();
    caller.send(file(20 * MIB)).await.expect("everything is taken, wanted or not");
    assert_eq!(caller.reply().await.status, 403);
}

async fn a_caller_that_asks_first_is_answered_first(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_echo = true);
    let head = |path: &str, length: usize| {
        let (path, key) = (proxied(&id, path), &app.key);
        format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n\
             Expect: 100-continue\r\nConnection: close\r\n\r\n"
        )
    };

    let mut refused = Plain::open(&app.base).await;
    refused.send(head("oauth/tokens", MIB)).await.unwrap();
    assert_eq!(refused.reply().await.status, 403, "without a body, and without a word to go on");

    for length in [1000, MIB] {
        let body = file(length);
        let mut caller = Plain::open(&app.base).await;
        caller.send(head("api/v2/uploads", length)).await.unwrap();
        assert_eq!(caller.line().await, "HTTP/1.1 100 Continue");
        caller.send(&body).await.unwrap();

        let reply = caller.reply().await;

        let echo: Value = serde_json::from_str(&reply.text()).unwrap();
        assert_eq!((reply.status, &echo["sha256"]), (200, &json!(hex(&body))));
        assert_eq!(sent(&echo, "expect"), None);
    }
}

async fn a_body_that_stands_still_is_given_up(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.proxy.timeout = Duration::from_millis(400)).start().await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_echo = true);

    for length in [1000, 10 * MIB] {
        let mut caller = Plain::open(&app.base).await;
        let path = proxied(&id, "api/v2/uploads");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\nhalf of it",
            app.key
        );
        caller.send(head).await.unwrap();
        let reply = caller.first_reply().await;

        assert_eq!((reply.status, reply.header("x-holdfast-source")), (408, "holdfast"), "{}", reply.text());
        assert!(reply.text().contains("body_timeout"), "{}", reply.text());
    }
}

async fn a_body_that_breaks_off_reaches_nobody_as_a_whole(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.trouble(|faults| faults.api_echo = true);
    let pieces = stream::iter([Ok(vec![1; MIB]), Err(std::io::Error::other("the caller breaks off"))]);
    let path = format!("{}{}", app.base, proxied(&id, "api/v2/uploads"));

    let sent = http().post(&path).bearer_auth(&app.key).body(Body::wrap_stream(pieces)).send().await;

    assert!(sent.is_err());
    until("the provider has seen it", async || app.acme.counters().bodies_broken, |broken| *broken == 1).await;
    let _alive = theirs(app.proxy(Method::GET, &id, ME, "").await).expect(200);
}

async fn a_large_answer_comes_whole(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let bytes = 64 * MIB as u64;
    app.acme.trouble(|faults| {
        faults.api_download = Some(Download { bytes, break_off_after: None, stand_still_after: None });
    });

    let response = download(&app, &id).await;

    assert_eq!(response.content_length(), Some(bytes));
    let read = response.bytes_stream().fold(0, async |sum, piece| sum + piece.unwrap().len() as u64).await;
    assert_eq!((read, app.acme.counters().readers_gone), (bytes, 0));
}

async fn an_answer_that_breaks_off_is_not_taken_for_whole(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.proxy.timeout = Duration::from_millis(500)).start().await;
    let id = app.import("acme").await;
    let long = Download { bytes: 2 * MIB as u64, break_off_after: None, stand_still_after: None };

    for trouble in [
        Download { break_off_after: Some(MIB as u64), ..long },
        Download { stand_still_after: Some(MIB as u64), ..long },
    ] {
        app.acme.trouble(|faults| faults.api_download = Some(trouble));
        let read = tokio::time::timeout(BOUND, download(&app, &id).await.bytes()).await.expect("it ends");
        assert!(read.is_err(), "half of an answer was taken for the whole");
    }
}

async fn a_caller_that_goes_away_ends_the_call(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let endless = Download { bytes: 1 << 40, break_off_after: None, stand_still_after: None };
    app.acme.trouble(|faults| faults.api_download = Some(endless));

    let mut response = download(&app, &id).await;
    let _first = response.chunk().await.unwrap().unwrap();
    drop(response);

    until("the provider notices", async || app.acme.counters().readers_gone, |gone| *gone == 1).await;
}
