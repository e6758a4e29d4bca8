//! The connect flow: a link, a page, the provider's consent, and back.

use std::{sync::Arc, time::Duration};

use holdfast_app::recovery;
use holdfast_core::TokenSet;
use holdfast_sandbox::{Canned, GrantRequest};
use holdfast_store::KeptGrant;
use holdfast_tests::{
    browser::Browser,
    database::Database,
    on_both,
    service::{Builder, TestApp},
    wait::until,
};
use reqwest::Method;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sqlx::{Connection as _, Executor as _, PgConnection};
use url::Url;

on_both! {
    a_link_is_opened_often_and_connects_once,
    the_way_back_comes_from_the_configuration,
    a_callback_that_comes_twice_exchanges_once,
    a_denial_burns_the_state_but_not_the_link,
    each_error_of_the_provider_has_its_own_words,
    another_browser_neither_connects_nor_burns_the_state,
    a_state_that_is_unknown_changes_nothing,
    a_refused_oauth_app_is_no_success,
    an_answer_without_a_token_is_no_success,
    a_success_is_shown_only_after_it_is_stored,
    a_database_in_trouble_burns_nothing,
    a_consent_that_took_too_long_can_be_started_again,
    a_link_is_over_after_an_hour,
    a_customer_of_the_helpdesk_is_refused_with_words,
    a_missing_permission_is_named_and_given_back,
    the_browser_goes_back_to_listed_origins_only,
    accounts_that_look_like_others_are_refused,
    a_failing_callback_repeats_neither_code_nor_state,
    a_link_for_a_connected_account_reconnects_it,
    the_person_behind_a_link_names_the_account,
    an_account_that_is_taken_is_not_named_twice,
    of_two_accounts_that_a_connector_is_given_at_once_the_first_stays,
    a_consent_that_is_gone_on_with_is_for_its_own_account_alone,
    a_form_from_another_site_starts_nothing,
    only_loopback_names_reach_an_instance_on_loopback,
    what_nobody_ever_connected_is_removed_in_time,
}

async fn what_nobody_ever_connected_is_removed_in_time(db: Arc<Database>) {
    const DAY: Duration = Duration::from_hours(24);
    let app = TestApp::start(&db).await;
    let connected = app.connect("acme").await;
    let (_, left) = nameless(&app).await;
    let pending = async |account: &str, more: serde_json::Value| {
        app.sandbox.create_helpdesk(account).unwrap();
        let mut body = json!({ "provider": "zendesk", "account": account });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        app.post("/connectors", body).await.expect(201).text_of("id")
    };
    let known_elsewhere = pending("second", json!({ "alias": "customer-2" })).await;
    let asked_again = pending("third", json!({})).await;
    let bound = pending("fourth", json!({})).await;
    let agent = json!({
        "sample": "annotate_urgent_tickets", "connectors": [{ "connector": bound }], "trigger": { "kind": "manual" },
    });
    let _made = app.post("/agents", agent).await.expect(201);
    let there = async || {
        let list = app.get("/connectors?limit=100").await.expect(200).json;
        let mut ids: Vec<_> =
            list["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    app.advance(DAY * 13);
    assert_eq!(app.app.forget_unfinished().await.unwrap(), 0);
    let _link = app.reconnect_link(&asked_again).await;

    // The service does the same by itself once a day, and may have come first.
    app.advance(DAY * 2);
    app.app.forget_unfinished().await.unwrap();

    let kept = sorted(vec![connected.clone(), known_elsewhere.clone(), asked_again, bound.clone()]);
    assert_eq!(there().await, kept);
    assert_eq!(app.get(&format!("/connectors/{left}")).await.status, 404);
    app.advance(DAY * 15);
    app.app.forget_unfinished().await.unwrap();
    assert_eq!(there().await, sorted(vec![connected, known_elsewhere, bound]));
    assert_eq!(db.number("SELECT COUNT(*) FROM credentials").await, 3, "what they had goes with them");
}

async fn nameless(app: &TestApp) -> (String, String) {
    let made = app.post("/connect-sessions", json!({"provider": "zendesk"})).await.expect(201);
    (made.text_of("url"), made.text_of("connector_id"))
}

async fn the_person_behind_a_link_names_the_account(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = nameless(&app).await;
    let browser = Browser::new();
    let page = browser.get(&link).await;
    assert!(page.text.contains("name=\"account\""), "{}", page.text);
    assert_eq!(app.show(&id).await["account"], json!(null));

    let page = browser.fill(&link, "account", "help.acme.com").await;
    assert_eq!(page.status, 422);
    assert!(page.text.contains("value=\"help.acme.com\"") && page.text.contains("role=\"alert\""), "{}", page.text);

    // A slip that is a name all the same: the way back leads to a helpdesk that is not there, and can be mended.
    browser.fill(&link, "account", "acmee").await.location();
    let page = browser.get(&link).await;
    assert!(page.text.contains("value=\"acmee\""), "{}", page.text);
    assert_eq!(app.show(&id).await["account"], json!(null), "nothing is written before the consent");

    let authorize = browser.fill(&link, "account", "https://ACME.zendesk.com/agent").await.location();
    let page = browser.get(&app.sandbox.consent(&authorize, "ada").unwrap()).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    let shown = app.show(&id).await;
    assert_eq!((&shown["account"], &shown["name"]), (&json!("acme"), &json!("acme.zendesk.com")));
    let _served = app.token(&id).await.expect(200);
}

async fn an_account_that_is_taken_is_not_named_twice(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let other = app.import("acme").await;
    let token = app.token(&other).await.expect(200).text_of("access_token");
    let (link, id) = nameless(&app).await;
    let browser = Browser::new();

    let authorize = browser.fill(&link, "account", "acme").await.location();
    let page = browser.get(&app.sandbox.consent(&authorize, "ada").unwrap()).await;

    assert_eq!((page.status, page.title()), (409, "acme.zendesk.com is connected already"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "pending");
    assert_eq!(app.acme.counters().revocations, 1, "the grant that nobody needs is given back");
    assert!(app.acme.accepts(&token));
}

/// Two people behind one link name two accounts, and both consent.
async fn of_two_accounts_that_a_connector_is_given_at_once_the_first_stays(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let globex = app.sandbox.create_helpdesk("globex").unwrap();
    let (link, id) = nameless(&app).await;
    let other_link = app.reconnect_link(&id).await;
    let (slow, quick) = (Browser::new(), Browser::new());
    let slow_authorize = slow.fill(&link, "account", "acme").await.location();
    let slow_back = app.sandbox.consent(&slow_authorize, "ada").unwrap();
    app.acme.trouble(|faults| faults.hold_answers = true);

    let (late, ()) = tokio::join!(slow.get(&slow_back), async {
        until("it is exchanged", async || app.acme.counters().code_exchanges, |count| *count == 1).await;
        let authorize = quick.fill(&other_link, "account", "globex").await.location();
        let page = quick.get(&app.sandbox.consent(&authorize, "ada").unwrap()).await;
        assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
        app.acme.calm();
    });

    // In the order in which they began, the later one would be overtaken in any case: what it was for is told.
    assert_eq!((late.status, late.title()), (409, "That was another account"), "{}", late.text);
    assert!(late.says("belongs to globex") && late.says("acme.zendesk.com"), "{}", late.text);
    assert_eq!(app.show(&id).await["account"], "globex");
    assert_eq!(app.acme.counters().revocations, 1, "it is given back where it is from");
    assert!(globex.accepts(&app.token(&id).await.expect(200).text_of("access_token")));
}

/// After a crash: the connector was given another account before the consent could be gone on with.
async fn a_consent_that_is_gone_on_with_is_for_its_own_account_alone(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let globex = app.sandbox.create_helpdesk("globex").unwrap();
    let (link, id) = nameless(&app).await;
    let browser = Browser::new();
    let _started = browser.fill(&link, "account", "acme").await.location();
    let secret = link.rsplit('/').next().unwrap();
    let session = app.app.store.find_session_by_link(&Sha256::digest(secret.as_bytes()).into()).await.unwrap().unwrap();
    let brought = app.acme.grant(&GrantRequest::default()).unwrap();
    let tokens = TokenSet {
        access_token: brought.access_token.clone().into(),
        refresh_token: Some(brought.refresh_token.clone().into()),
        obtained_at: session.created_at,
        expires_at: None,
        expires_assumed: false,
        refresh_expires_at: None,
        refresh_end_fixed: false,
        scopes: vec!["read".to_owned(), "write".to_owned()],
        base_url: None,
        found: std::collections::BTreeMap::new(),
    };
    let kept = KeptGrant {
        app: holdfast_core::AppId::instance("zendesk"),
        org: session.org.clone(),
        connector: session.connector.clone(),
        session: session.id.clone(),
        sequence: session.sequence,
        provider: "zendesk".to_owned(),
        account: "acme".to_owned(),
        tokens,
        scopes: None,
        checked: None,
    };
    app.app.lifeboat.put_grant(&kept).await.unwrap();
    let other_link = app.reconnect_link(&id).await;
    let other = Browser::new();
    let authorize = other.fill(&other_link, "account", "globex").await.location();
    let page = other.get(&app.sandbox.consent(&authorize, "ada").unwrap()).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    let (before, calls) = (app.show(&id).await, globex.counters().api_calls);

    recovery::round(&app.app).await;
    let left = async || app.app.lifeboat.list_grants().await.unwrap().len();
    until("it has ended", left, |count| *count == 0).await;

    assert_eq!(app.show(&id).await, before);
    assert_eq!(globex.counters().api_calls, calls, "what acme brought is shown to nobody else");
    let ended = app.app.store.find_session_by_id(&session.id).await.unwrap().unwrap().result.unwrap();
    assert_eq!((&ended["ended"], &ended["got_id"]), (&json!("other_account"), &json!("acme")), "{ended}");
    let told = app.timeline(&id).await.into_iter().find(|line| line["kind"] == "consent").unwrap();
    assert!(told["detail"].as_str().unwrap().contains("acme instead of globex"), "{told}");
    assert!(globex.accepts(&app.token(&id).await.expect(200).text_of("access_token")));
}

async fn a_form_from_another_site_starts_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, _) = app.link("acme").await;

    let page = Browser::new().send_with(Method::POST, &link, &[("sec-fetch-site", "cross-site")]).await;

    assert_eq!((page.status, page.title()), (403, "This was sent from another site"), "{}", page.text);
}

async fn only_loopback_names_reach_an_instance_on_loopback(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let url = format!("{}/api/v1/openapi.json", app.base);
    for (host, status) in
        [("evil.example:80", 421), ("127.0.0.1.evil.example", 421), ("localhost:1234", 200), ("[::1]", 200)]
    {
        let page = Browser::new().send_with(Method::GET, &url, &[("host", host)]).await;
        assert_eq!(page.status, status, "{host}");
    }
}

/// A query parameter of a URL.
fn param(url: &str, name: &str) -> String {
    let url = Url::parse(url).unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

async fn a_link_is_opened_often_and_connects_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("https://ACME.zendesk.com/agent").await;
    let browser = Browser::new();

    for _ in 0..2 {
        let page = browser.get(&link).await;
        assert_eq!((page.status, page.title()), (200, "Connect acme.zendesk.com"), "{}", page.text);
        assert!(page.text.contains("<form method=\"post\">"), "{}", page.text);
    }
    let bound = "SELECT COUNT(*) FROM connect_sessions WHERE browser_hash IS NOT NULL";
    assert_eq!(db.number(bound).await, 0, "looking binds nothing");
    assert_eq!(app.show(&id).await["health"], "pending");
    assert_eq!(app.show(&id).await["credential"]["kind"], "none");
    let _told = app.token(&id).await.problem(409, "connector_pending");

    let page = app.consent_as(&browser, &link, "ada").await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    assert!(page.text.contains("Ada"), "{}", page.text);

    let shown = app.show(&id).await;
    assert_eq!(shown["health"], "connected");
    assert_eq!(shown["account"], "acme");
    assert_eq!(shown["credential"]["version"], 1);
    assert_eq!(shown["identity"]["account"], "acme.zendesk.com");
    assert!(shown["identity"]["name"].as_str().unwrap().starts_with("Ada"), "{shown}");
    let token = app.token(&id).await.expect(200);
    assert!(app.acme.accepts(&token.text_of("access_token")));
    assert_eq!(token.text_of("base_url").trim_end_matches('/'), app.acme.url());
    let timeline = app.timeline(&id).await;
    assert!(timeline.iter().any(|line| line["kind"] == "connected"), "{timeline:?}");
    let spent = browser.get(&link).await;
    assert_eq!((spent.status, spent.title()), (410, "This link has been used"));
    assert_eq!(browser.post(&link).await.status, 410);
}

/// CO-01
async fn the_way_back_comes_from_the_configuration(db: Arc<Database>) {
    let public = "https://hub.example.test";
    let app = TestApp::builder(&db)
        .with(|config| config.public_url_setting = Some(Url::parse(public).unwrap()))
        .start()
        .await;

    for headers in [
        &[("host", "10.0.0.5:8080")][..],
        &[("host", "10.0.0.5:8080"), ("x-forwarded-host", "evil.example.test"), ("x-forwarded-proto", "http")],
        &[("host", "hub.example.test"), ("forwarded", "host=evil.example.test;proto=http")],
    ] {
        let (link, _) = app.link("acme").await;
        assert!(link.starts_with("https://hub.example.test/connect/"), "{link}");
        let here = link.replace(public, &app.base);

        let page = Browser::new().press_with(&here, &here, &[], headers).await;

        assert_eq!(param(&page.location(), "redirect_uri"), "https://hub.example.test/oauth/callback");
        let cookie = page.headers["set-cookie"].to_str().unwrap();
        for part in ["__Host-holdfast_browser=", "Secure", "HttpOnly", "SameSite=Lax", "Path=/"] {
            assert!(cookie.contains(part), "no {part} in the cookie");
        }
    }
}

/// CO-02
async fn a_callback_that_comes_twice_exchanges_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    let back = app.sandbox.consent(&authorize, "ada").unwrap();
    app.acme.trouble(|faults| faults.hold_answers = true);

    let (one, two, ()) = tokio::join!(browser.get(&back), browser.get(&back), async {
        until("the code is exchanged", async || app.acme.counters().code_exchanges, |count| *count == 1).await;
        app.acme.calm();
    });

    for page in [&one, &two, &browser.get(&back).await] {
        assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    }
    assert_eq!(app.acme.counters().code_exchanges, 1);
    assert_eq!(app.show(&id).await["credential"]["version"], 1);
    assert_eq!(app.get("/connectors").await.json["data"].as_array().unwrap().len(), 1);
}

/// CO-03
async fn a_denial_burns_the_state_but_not_the_link(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();

    let denied = browser.get(&app.sandbox.deny(&authorize).unwrap()).await;
    let late = browser.get(&app.sandbox.consent(&authorize, "ada").unwrap()).await;

    assert_eq!(denied.title(), "Access was not allowed", "{}", denied.text);
    assert_eq!(late.title(), "Access was not allowed", "a state works once: {}", late.text);
    assert_eq!(app.acme.counters().code_exchanges, 0);
    assert_eq!(app.show(&id).await["health"], "pending");
    let again = app.consent_as(&browser, &link, "ada").await;
    assert_eq!((again.status, again.title()), (200, "Connected"), "{}", again.text);
}

/// CO-04
async fn each_error_of_the_provider_has_its_own_words(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;
    let browser = Browser::new();

    for (answer, title) in [
        ("error=server_error", "Zendesk has a problem"),
        ("error=temporarily_unavailable", "Zendesk has a problem"),
        ("error=invalid_scope", "The OAuth app is not set up right"),
        ("error=unauthorized_client", "The OAuth app is not set up right"),
        ("error=something_new", "Zendesk sent an error"),
        ("nothing=1", "Nothing was received"),
    ] {
        let state = param(&browser.post(&link).await.location(), "state");

        let page = browser.get(&format!("{}/oauth/callback?{answer}&state={state}", app.base)).await;

        assert_eq!(page.title(), title, "{answer}: {}", page.text);
        assert!(!page.text.contains("declined"), "{answer}: {}", page.text);
        assert!(page.status >= 400, "{answer}");
    }
    assert_eq!(app.acme.counters().code_exchanges, 0);
    assert_eq!(app.show(&id).await["health"], "pending");
}

/// CO-06
async fn another_browser_neither_connects_nor_burns_the_state(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    let back = app.sandbox.consent(&authorize, "ada").unwrap();
    let stranger = Browser::new();

    let without = stranger.get(&back).await;
    let (other_link, _) = app.link("globex").await;
    stranger.post(&other_link).await;
    let with_its_own = stranger.get(&back).await;

    for page in [without, with_its_own] {
        assert_eq!((page.status, page.title()), (403, "This was started in another browser"), "{}", page.text);
    }
    assert_eq!(app.acme.counters().code_exchanges, 0);
    assert_eq!(app.show(&id).await["health"], "pending");
    let page = browser.get(&back).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
}

/// CO-07
async fn a_state_that_is_unknown_changes_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;
    let browser = Browser::new();
    let first = browser.post(&link).await.location();
    let second = browser.post(&link).await.location();
    let callback = format!("{}/oauth/callback", app.base);

    for back in [
        format!("{callback}?code=code&state=not-ours"),
        format!("{callback}?code=code"),
        callback.clone(),
        format!("{callback}?code=code&state="),
        // Started again since.
        app.sandbox.consent(&first, "ada").unwrap(),
    ] {
        let page = browser.get(&back).await;

        assert_eq!(page.status, 400, "{back}: {}", page.text);
        assert!(["This consent is not known", "Nothing was received"].contains(&page.title()), "{back}: {}", page.text);
    }
    assert_eq!(app.acme.counters().code_exchanges, 0);
    assert_eq!(app.show(&id).await["health"], "pending");
    let page = browser.get(&app.sandbox.consent(&second, "ada").unwrap()).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
}

/// CO-07
async fn a_refused_oauth_app_is_no_success(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;
    app.sandbox.set_client_secret("another", None);

    let page = app.consent(&link).await;

    assert_eq!((page.status, page.title()), (409, "The OAuth app is refused"), "{}", page.text);
    assert!(page.text.contains("open the link again"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "pending");
    app.sandbox.set_client_secret(holdfast_sandbox::CLIENT_SECRET, None);
    assert_eq!(app.consent(&link).await.title(), "Connected");
}

/// CO-07
async fn an_answer_without_a_token_is_no_success(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;

    for body in [r#"{"token_type":"bearer"}"#, r#"{"access_token":""}"#, r#"{"access_token":null}"#, "<html>", ""] {
        app.acme.trouble(|faults| faults.token_answer = Some(Canned::new(200, body).times(1)));

        let page = app.consent(&link).await;

        assert_eq!((page.status, page.title()), (409, "Zendesk did not answer as it should"), "{body}: {}", page.text);
        assert_eq!(app.show(&id).await["health"], "pending", "{body}");
    }
    assert_eq!(app.consent(&link).await.title(), "Connected");
}

/// CO-07: the grant exists at the provider and nowhere else, so the page waits for the database, and says nothing before.
async fn a_success_is_shown_only_after_it_is_stored(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    let back = app.sandbox.consent(&authorize, "ada").unwrap();
    db.execute("ALTER TABLE timeline RENAME TO timeline_gone").await;

    let ((), page) = tokio::join!(
        async {
            until("the identity is asked for", async || app.acme.counters().api_calls, |count| *count >= 2).await;
            assert_eq!(app.show(&id).await["health"], "pending");
            app.clock.advance(Duration::from_secs(5));
            assert_eq!(app.show(&id).await["health"], "pending");
            db.execute("ALTER TABLE timeline_gone RENAME TO timeline").await;
            app.clock.advance(Duration::from_secs(5));
        },
        browser.get(&back),
    );

    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "connected");
    assert_eq!(app.acme.counters().code_exchanges, 1);
}

/// CO-07
async fn a_database_in_trouble_burns_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, _) = app.link("acme").await;
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    let back = app.sandbox.consent(&authorize, "ada").unwrap();
    db.execute("ALTER TABLE connect_sessions RENAME TO connect_sessions_gone").await;

    let page = browser.get(&back).await;

    assert_eq!((page.status, page.title()), (503, "Not at the moment"), "{}", page.text);
    assert_eq!(app.acme.counters().code_exchanges, 0);
    db.execute("ALTER TABLE connect_sessions_gone RENAME TO connect_sessions").await;
    let page = browser.get(&back).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
}

async fn a_consent_that_took_too_long_can_be_started_again(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    app.advance(Duration::from_mins(11));

    let page = browser.get(&app.sandbox.consent(&authorize, "ada").unwrap()).await;

    assert_eq!((page.status, page.title()), (410, "That took too long"), "{}", page.text);
    assert_eq!(app.acme.counters().code_exchanges, 0);
    assert_eq!(app.show(&id).await["health"], "pending");
    assert_eq!(app.consent_as(&browser, &link, "ada").await.title(), "Connected");
}

async fn a_link_is_over_after_an_hour(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, _) = app.link("acme").await;
    app.advance(Duration::from_mins(61));
    let browser = Browser::new();

    let (shown, pressed) = (browser.get(&link).await, browser.post(&link).await);
    let unknown = browser.get(&format!("{}/connect/cut-off", app.base)).await;

    for page in [shown, pressed] {
        assert_eq!((page.status, page.title()), (410, "This link is over"), "{}", page.text);
    }
    assert_eq!((unknown.status, unknown.title()), (404, "This link is not known"));
}

async fn a_customer_of_the_helpdesk_is_refused_with_words(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;

    let page = app.consent_as(&Browser::new(), &link, "Mira Castellan").await;

    assert_eq!((page.status, page.title()), (409, "Zendesk did not let us in"), "{}", page.text);
    assert!(page.text.contains("is a customer there; an agent or an administrator should connect it"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "pending");
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()), "the mistaken grant is given back");
    assert_eq!(app.consent(&link).await.title(), "Connected", "the same link works for the right person");
}

async fn a_missing_permission_is_named_and_given_back(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, id) = app.link("acme").await;
    let less = r#"{"access_token":"{access_token}","refresh_token":"{refresh_token}","token_type":"bearer",
                   "expires_in":{expires_in},"scope":"read"}"#;
    app.acme.trouble(|faults| {
        faults.token_answer = Some(Canned::new(200, less).after_processing().times(1));
        faults.api_delay_ms = 500;
    });

    // Who it is, is told; which scopes the token has, is not, so that only the answer's scope counts.
    let (page, ()) = tokio::join!(app.consent(&link), async {
        until("the identity is asked for", async || app.acme.counters().api_calls, |count| *count == 1).await;
        app.acme.trouble(|faults| {
            faults.api_delay_ms = 0;
            faults.api_answer = Some(Canned::new(500, "{}").times(1));
        });
    });

    assert_eq!((page.status, page.title()), (409, "A permission is missing"), "{}", page.text);
    assert!(page.says("did not grant: Answer and change the tickets"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "pending");
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()), "it is given back");
}

async fn the_browser_goes_back_to_listed_origins_only(db: Arc<Database>) {
    let app = TestApp::builder(&db)
        .with(|config| config.connect.return_origins = vec![Url::parse("https://app.example.com").unwrap()])
        .start()
        .await;
    let ask = async |url: &str| {
        app.post("/connect-sessions", json!({ "provider": "zendesk", "account": "acme", "return_url": url })).await
    };

    for url in [
        "https://app.example.com.evil.test/",
        "https://app.example.com@evil.test/",
        "http://app.example.com/",
        "https://app.example.com:8443/",
        "//app.example.com/",
        "/settings",
        "javascript:alert(1)",
        "",
    ] {
        let refused = ask(url).await.problem(422, "invalid");
        assert_eq!(refused.json["field"], "return_url", "{url}");
    }

    let made = ask("https://app.example.com/done?tab=2").await.expect(201);
    let (link, id) = (made.text_of("url"), made.text_of("connector_id"));
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    let failed = browser.get(&app.sandbox.deny(&authorize).unwrap()).await;
    assert_eq!(failed.location(), format!("https://app.example.com/done?tab=2&connector_id={id}&status=failed"));
    let page = app.consent_as(&browser, &link, "ada").await;
    assert_eq!(page.location(), format!("https://app.example.com/done?tab=2&connector_id={id}&status=connected"));
}

/// CO-10
async fn accounts_that_look_like_others_are_refused(db: Arc<Database>) {
    let app = TestApp::start(&db).await;

    for account in [
        "acme.zendesk.com.evil.example",
        "evil.example/acme.zendesk.com",
        "acme.zendesk.com@evil.example",
        "https://acme.zendesk.com@evil.example/",
        "acme.zendesk.com%2eevil.example",
        "acme..zendesk.com",
        "http://[::1]/acme",
        "127.0.0.1",
        "аcme",
        "acme_corp",
        "",
        "../globex",
        "acme#evil.example",
    ] {
        for path in ["/connect-sessions", "/connectors"] {
            let body = json!({ "provider": "zendesk", "account": account });
            let refused = app.post(path, body).await.problem(422, "invalid");

            assert_eq!(refused.json["field"], "account", "{account}");
        }
    }
    assert_eq!(app.get("/connectors").await.json["data"], json!([]));
    assert_eq!(app.sandbox.counters().api_calls, 0);
}

/// ST-03
async fn a_failing_callback_repeats_neither_code_nor_state(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (link, _) = app.link("acme").await;
    let browser = Browser::new();
    let state = param(&browser.post(&link).await.location(), "state");

    let page = browser.get(&format!("{}/oauth/callback?code=SENTINEL1&state={state}", app.base)).await;

    assert_eq!((page.status, page.title()), (409, "Zendesk did not accept the consent"), "{}", page.text);
    for (name, value) in [
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(page.headers[name], value);
    }
    let everything = format!("{:?} {}", page.headers, page.text);
    assert!(!everything.contains("SENTINEL1") && !everything.contains(&state), "{everything}");
    assert!(
        !everything.contains("http://") && !everything.contains("https://"),
        "nothing from elsewhere: {everything}"
    );
}

async fn a_link_for_a_connected_account_reconnects_it(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.connect("acme").await;

    let (link, same) = app.link("acme.zendesk.com").await;

    assert_eq!(same, id);
    assert_eq!(Browser::new().get(&link).await.title(), "Reconnect acme.zendesk.com");
    assert_eq!(app.consent(&link).await.title(), "Connected");
    assert_eq!(app.show(&id).await["credential"]["version"], 2);
}

/// CO-05, and CO-02 across replicas.
#[tokio::test(flavor = "multi_thread")]
async fn a_consent_starts_on_one_replica_and_ends_on_another() {
    holdfast_tests::database::on_postgres(async |db: Arc<Database>| {
        let public = "http://localhost:9";
        let start = |builder: Builder| {
            builder.with(|config| config.public_url_setting = Some(Url::parse(public).unwrap())).start()
        };
        let one = start(TestApp::builder(&db)).await;
        let two = start(TestApp::builder(&db).beside(&one)).await;
        let on = |app: &TestApp, url: &str| url.replace(public, &app.base);
        let (link, id) = one.link("acme").await;
        let browser = Browser::new();
        let authorize = browser.post(&on(&one, &link)).await.location();
        let back = one.sandbox.consent(&authorize, "ada").unwrap();
        one.acme.trouble(|faults| faults.hold_answers = true);
        let (back_on_one, back_on_two) = (on(&one, &back), on(&two, &back));

        let (here, there, ()) = tokio::join!(browser.get(&back_on_one), browser.get(&back_on_two), async {
            until("the code is exchanged", async || one.acme.counters().code_exchanges, |count| *count == 1).await;
            one.acme.calm();
        });

        for page in [here, there] {
            assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
        }
        assert_eq!(one.acme.counters().code_exchanges, 1);

        let link = one.reconnect_link(&id).await;
        let authorize = browser.post(&on(&one, &link)).await.location();
        one.stop();
        two.advance(Duration::from_mins(5));
        let back = two.sandbox.consent(&authorize, "ada").unwrap();
        let page = browser.get(&on(&two, &back)).await;
        assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
        assert_eq!(two.show(&id).await["credential"]["version"], 2);
    })
    .await;
}

/// A browser that is clicked twice drops its first request, at any moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_goes_away_while_its_state_is_taken_loses_nothing() {
    holdfast_tests::database::on_postgres(async |db: Arc<Database>| {
        let app = TestApp::start(&db).await;
        let (link, id) = app.link("acme").await;
        let browser = Arc::new(Browser::new());
        let authorize = browser.post(&link).await.location();
        let back = app.sandbox.consent(&authorize, "ada").unwrap();
        // Sessions can be read and not written.
        let mut other = PgConnection::connect(&db.url).await.unwrap();
        other.execute("BEGIN; LOCK TABLE connect_sessions IN SHARE MODE").await.unwrap();

        let (first, url) = (Arc::clone(&browser), back.clone());
        let gone = tokio::spawn(async move { first.get(&url).await });
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                     AND wait_event_type = 'Lock' AND query LIKE 'UPDATE connect_sessions SET state_used_at%'";
        until("the state is about to be taken", async || db.number(waits).await, |count| *count == 1).await;
        gone.abort();
        until("the service has noticed", async || app.plain("/healthz").await.0, |status| *status == 200).await;
        other.execute("COMMIT").await.unwrap();

        until("it is connected", async || app.show(&id).await["health"].clone(), |health| health == "connected").await;
        let again = browser.get(&back).await;
        assert_eq!((again.status, again.title()), (200, "Connected"), "{}", again.text);
        assert_eq!(app.acme.counters().code_exchanges, 1);
    })
    .await;
}
