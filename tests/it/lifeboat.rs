//! A database that takes nothing: no token is spent on it, none is lost to it, and it is told.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use holdfast_app::recovery;
use holdfast_tests::{
    browser::Browser,
    database::Database,
    on_both,
    service::{LIFE, TestApp},
    wait::until,
};
use serde_json::{Value, json};

on_both! {
    no_token_is_spent_while_the_database_refuses_writes,
    a_set_that_the_database_refuses_is_in_the_lifeboat_until_it_is_stored,
    a_lifeboat_in_trouble_is_told_and_keeps_nobody_from_serving,
    what_a_consent_brought_is_kept_until_it_is_stored,
    a_consent_that_ends_leaves_nothing_in_the_lifeboat,
    the_first_test_after_a_consent_may_rotate,
}

/// The files of the lifeboat.
fn files(db: &Database) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(db.path("lifeboat")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

async fn metric(app: &TestApp, name: &str) -> Option<String> {
    let (_, text) = app.plain("/metrics").await;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_owned()))
}

/// LR-03
async fn no_token_is_spent_while_the_database_refuses_writes(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    db.refuse_writes(&[]).await;

    for _ in 0..3 {
        let told = app.token(&id).await.problem(503, "refresh_unavailable");
        let detail = told.text_of("detail");
        // The engine's words, or those of the key check before it.
        let ours = ["our own storage is unavailable", "cannot reach its database"];
        assert!(ours.iter().any(|words| detail.contains(words)), "{detail}");
        assert!(told.header("retry-after").parse::<u64>().is_ok(), "{:?}", told.headers);
    }

    assert!(app.acme.ledger().presentations.is_empty(), "no token request was made");
    db.allow_writes().await;
    let token = until("it works again", async || app.token(&id).await, |answer| answer.status == 200).await;
    assert!(app.acme.accepts(&token.text_of("access_token")));
    assert_eq!(app.acme.ledger().presentations.len(), 1);
    assert_eq!(app.show(&id).await["health"], "connected");
}

/// I5
async fn a_set_that_the_database_refuses_is_in_the_lifeboat_until_it_is_stored(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.refresh.wait_bound = Duration::from_secs(1)).start().await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    db.refuse_writes(&["credentials"]).await;

    let told = app.token(&id).await.problem(503, "refresh_unavailable");

    assert!(!told.header("retry-after").is_empty());
    let [file] = &files(&db)[..] else { panic!("{:?}", files(&db)) };
    let content = fs::read(file).unwrap();
    let sets = app.acme.ledger().sets;
    assert_eq!(sets.len(), 2);
    for set in sets {
        for secret in [set.access_token.unwrap(), set.refresh_token.unwrap()] {
            let hidden = !content.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(hidden && !file.display().to_string().contains(&secret), "nobody reads it without the key");
        }
    }
    assert_eq!(metric(&app, "holdfast_lifeboat_sets").await.as_deref(), Some("1"));
    recovery::round(&app.app).await;
    assert_eq!(files(&db).len(), 1, "it is its flight's to store");
    db.allow_writes().await;
    app.clock.advance(Duration::from_secs(3));
    let token = until("it is stored", async || app.token(&id).await, |answer| answer.status == 200).await;
    assert!(app.acme.accepts(&token.text_of("access_token")));
    assert_eq!(token.json["version"], 2);
    until("the lifeboat is empty", async || files(&db), Vec::is_empty).await;
    assert_eq!(app.acme.ledger().presentations.len(), 1);
}

async fn a_lifeboat_in_trouble_is_told_and_keeps_nobody_from_serving(db: Arc<Database>) {
    fs::write(db.path("lifeboat"), "this is no folder").unwrap();
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;

    let degraded = async || {
        let (status, text) = app.plain("/readyz").await;
        (status, serde_json::from_str::<Value>(&text).unwrap()["degraded"].clone())
    };
    until("it is told", degraded, |told| *told == (200, json!(["lifeboat"]))).await;
    assert_eq!(metric(&app, "holdfast_lifeboat_ok").await.as_deref(), Some("0"));
    app.advance(LIFE);
    let token = app.token(&id).await.expect(200);
    assert!(app.acme.accepts(&token.text_of("access_token")));

    fs::remove_file(db.path("lifeboat")).unwrap();
    let degraded = async || {
        app.clock.advance(Duration::from_secs(31));
        let (status, text) = app.plain("/readyz").await;
        (status, serde_json::from_str::<Value>(&text).unwrap()["degraded"].clone())
    };
    until("it has mended", degraded, |told| *told == (200, json!([]))).await;
}

/// I5, CO: the code is spent, so that what it brought is all that there is.
async fn what_a_consent_brought_is_kept_until_it_is_stored(db: Arc<Database>) {
    let app = Arc::new(TestApp::start(&db).await);
    let (link, id) = app.link("acme").await;
    let (browser, before) = (Browser::new(), app.acme.ledger().sets.len());
    let authorize = browser.post(&link).await.location();
    let back = app.sandbox.consent(&authorize, "ada").unwrap();
    db.refuse_writes(&["credentials"]).await;
    let waiting = tokio::spawn(async move { browser.go_on(browser.get(&back).await).await });

    until("the code is exchanged", async || files(&db).len(), |count| *count == 1).await;

    assert_eq!(app.show(&id).await["health"], "pending");
    recovery::round(&app.app).await;
    db.allow_writes().await;
    let health = async || {
        app.clock.advance(Duration::from_millis(500));
        app.get(&format!("/connectors/{id}")).await.json["health"].clone()
    };
    until("it is connected", health, |health| health == "connected").await;
    let page = waiting.await.unwrap();
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    until("the lifeboat is empty", async || files(&db), Vec::is_empty).await;
    assert_eq!(app.acme.ledger().sets.len(), before + 1, "the code was exchanged once");
    assert!(app.acme.accepts(&app.token(&id).await.expect(200).text_of("access_token")));
}

async fn a_consent_that_ends_leaves_nothing_in_the_lifeboat(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, _) = app.link("acme").await;
    let page = app.consent(&link).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    assert!(files(&db).is_empty(), "{:?}", files(&db));

    let (link, _) = app.link("globex").await;
    app.sandbox.create_helpdesk("globex").unwrap();
    let browser = Browser::new();
    let denied = app.sandbox.deny(&browser.post(&link).await.location()).unwrap();
    let page = browser.go_on(browser.get(&denied).await).await;
    assert_eq!(page.status, 409, "{}", page.text);
    assert!(files(&db).is_empty(), "{:?}", files(&db));
}

/// LR-04: the record is there before the first test, and holds what that test's refresh brought.
async fn the_first_test_after_a_consent_may_rotate(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.connect("acme").await;
    app.advance(LIFE);

    let test = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);

    assert!(test.json["error"].is_null(), "{}", test.text);
    assert_eq!(app.acme.counters().exchanges, 1, "the test needed a refresh");
    app.advance(LIFE);
    let token = app.token(&id).await.expect(200);
    assert_eq!(token.json["version"], 3);
    assert!(app.acme.accepts(&token.text_of("access_token")));
}
