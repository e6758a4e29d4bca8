//! Dead tokens, rate limits, silence and other trouble.

use std::{sync::Arc, time::Duration};

use holdfast_sandbox::Canned;
use holdfast_tests::{
    database::Database,
    on_both,
    service::{LIFE, TestApp},
    wait::until,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ME, ours, sent, theirs, unharmed};

on_both! {
    calls_with_a_dead_token_make_one_refresh_and_all_succeed,
    a_401_that_means_not_allowed_is_passed_on,
    a_token_that_would_die_on_the_way_is_renewed_first,
    a_rate_limit_is_waited_for_as_told,
    a_rate_limit_as_a_date_is_measured_by_the_answers_own_clock,
    a_rate_limit_beyond_the_bound_is_the_callers_to_wait_for,
    a_provider_that_is_silent_or_hangs_up_is_told_as_such,
    a_provider_that_is_away_was_sent_nothing,
    trouble_with_the_refresh_is_the_token_calls,
}

async fn calls_with_a_dead_token_make_one_refresh_and_all_succeed(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.acme.expire_access_tokens();

    let calls = futures::future::join_all((0..20).map(|_| app.proxy(Method::GET, &id, ME, ""))).await;

    for call in calls {
        let _me = theirs(call).expect(200);
    }
    assert_eq!(app.acme.counters().exchanges, 1);
    assert_eq!(app.show(&id).await["health"], "connected");
}

/// HL-02
async fn a_401_that_means_not_allowed_is_passed_on(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let not_allowed = |times| Canned::new(401, r#"{"error":"not for you"}"#).times(times);

    for number in 0..20 {
        // The call, and its repetition with a new token; after that the provider's own test call is asked.
        let times = if number == 0 { 2 } else { 1 };
        app.acme.trouble(|faults| faults.api_answer = Some(not_allowed(times)));
        let refused = theirs(app.proxy(Method::GET, &id, "api/v2/audit_logs.json", "").await).expect(401);
        assert_eq!(refused.text, r#"{"error":"not for you"}"#);
        let _other = theirs(app.proxy(Method::GET, &id, ME, "").await).expect(200);
    }

    assert_eq!(app.acme.counters().exchanges, 1);
    assert_eq!(app.show(&id).await["health"], "connected");
    let outbox = app.app.store.outbox_rows(&id.as_str().into()).await.unwrap();
    assert!(outbox.iter().all(|row| row.effect != "mail_admins"), "{outbox:?}");
}

/// AP-07
async fn a_token_that_would_die_on_the_way_is_renewed_first(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let first = app.token(&id).await.text_of("access_token");
    app.acme.trouble(|faults| faults.api_echo = true);
    app.advance(Duration::from_secs(30 * 60 - 20));

    let echo = theirs(app.proxy(Method::GET, &id, ME, "").await).expect(200).json;

    let bearer = sent(&echo, "authorization").unwrap();
    assert_ne!(bearer, format!("Bearer {first}"));
    assert_eq!(app.acme.counters().exchanges, 1);
    assert_eq!(bearer, format!("Bearer {}", app.token(&id).await.text_of("access_token")));
}

/// The answer to a call that is waiting once the provider has been asked `asked` times, after the clock has moved on.
async fn after(app: &Arc<TestApp>, id: &str, wait: Duration) -> holdfast_tests::service::Answer {
    let calls = app.acme.counters().api_calls;
    let call = {
        let (app, id) = (Arc::clone(app), id.to_owned());
        tokio::spawn(async move { app.proxy(Method::POST, &id, "api/v2/x", r#"{"a":1}"#).await })
    };
    until("the provider has been asked", async || app.acme.counters().api_calls, |now| *now == calls + 1).await;
    app.advance(wait);
    call.await.unwrap()
}

async fn a_rate_limit_is_waited_for_as_told(db: Arc<Database>) {
    let app = Arc::new(TestApp::start(&db).await);
    let id = app.import("acme").await;
    let busy = |secs: &str| Canned::new(429, "slow down").header("Retry-After", secs).times(1);
    app.acme.trouble(|faults| (faults.api_echo, faults.api_answer) = (false, Some(busy("15"))));

    let answer = after(&app, &id, Duration::from_secs(16)).await;

    assert_eq!(theirs(answer).status, 404, "the true answer of a path that is not there");
    assert_eq!(app.acme.counters().api_calls, 2);
    unharmed(&app, &id).await;
}

/// TE-10
async fn a_rate_limit_as_a_date_is_measured_by_the_answers_own_clock(db: Arc<Database>) {
    let app = Arc::new(TestApp::start(&db).await);
    let id = app.import("acme").await;
    // Five minutes behind our clock, and five ahead of it.
    for minutes in [-5, 5] {
        let date = app.sandbox.now() + chrono::TimeDelta::minutes(minutes);
        let told = date + chrono::TimeDelta::seconds(15);
        let http = |at: chrono::DateTime<chrono::Utc>| at.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let busy = Canned::new(429, "slow").header("Date", http(date)).header("Retry-After", http(told)).times(1);
        app.acme.trouble(|faults| faults.api_answer = Some(busy.clone()));

        let answer = after(&app, &id, Duration::from_secs(16)).await;

        assert_eq!(theirs(answer).status, 404, "15 seconds were waited for");
        // Two minutes are more than the bound: the caller gets both headers, to measure by them too.
        let later = date + chrono::TimeDelta::seconds(120);
        let busy = busy.header("Retry-After", http(later));
        app.acme.trouble(|faults| faults.api_answer = Some(busy));
        let answer = theirs(app.proxy(Method::GET, &id, ME, "").await).expect(429);
        assert_eq!((answer.header("date"), answer.header("retry-after")), (http(date).as_str(), http(later).as_str()));
    }
}

async fn a_rate_limit_beyond_the_bound_is_the_callers_to_wait_for(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let busy = Canned::new(429, "slow down").header("Retry-After", "300").header("X-Rate-Limit-Remaining", "0");
    app.acme.trouble(|faults| faults.api_answer = Some(busy));

    let answer = theirs(app.proxy(Method::GET, &id, ME, "").await).expect(429);

    assert_eq!((answer.text.as_str(), answer.header("retry-after")), ("slow down", "300"));
    assert_eq!(answer.header("x-rate-limit-remaining"), "0");
    // What cannot be sent again is not waited for, however short it is.
    let soon = Canned::new(429, "slow down").header("Retry-After", "3");
    app.acme.trouble(|faults| faults.api_answer = Some(soon));
    let large = vec![b'x'; 300 * 1024];
    let answer = theirs(app.proxy(Method::POST, &id, "api/v2/x", large).await).expect(429);
    assert_eq!(answer.header("retry-after"), "3");
    assert_eq!(app.acme.counters().api_calls, 2);
    unharmed(&app, &id).await;
}

async fn a_provider_that_is_silent_or_hangs_up_is_told_as_such(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.proxy.timeout = Duration::from_millis(300)).start().await;
    let id = app.import("acme").await;

    for method in [Method::GET, Method::POST] {
        app.acme.trouble(|faults| faults.api_delay_ms = 10_000);
        let silent = ours(app.proxy(method.clone(), &id, ME, "").await, 502, "provider_no_answer");
        app.acme.trouble(|faults| (faults.api_delay_ms, faults.api_drop_before) = (0, 1));
        let gone = ours(app.proxy(method, &id, ME, "").await, 502, "provider_no_answer");

        assert!(silent.text_of("detail").contains("within 0.3 s"), "{}", silent.text);
        for told in [silent, gone] {
            assert!(told.text_of("detail").contains("whether the call had an effect is unknown"), "{}", told.text);
            assert_eq!((told.header("retry-after"), &told.json["retry_after"]), ("", &Value::Null));
        }
    }
    unharmed(&app, &id).await;
}

async fn a_provider_that_is_away_was_sent_nothing(db: Arc<Database>) {
    let sandbox = holdfast_tests::service::sandbox().await;
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let app = TestApp::builder(&db).at(format!("http://{away}/zendesk/{{account}}")).start().await;
    drop(sandbox);
    let id = app.import("acme").await;

    let told = ours(app.proxy(Method::POST, &id, "api/v2/tickets", "{}").await, 503, "provider_unavailable");

    assert!(told.text_of("detail").contains("nothing was sent"), "{}", told.text);
    assert_eq!(told.header("retry-after"), "5");
    unharmed(&app, &id).await;
}

async fn trouble_with_the_refresh_is_the_token_calls(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.advance(LIFE);
    app.acme.trouble(|faults| {
        faults.token_answer = Some(Canned::new(429, "slow down").header("Retry-After", "120").times(1));
    });

    let told = ours(app.proxy(Method::GET, &id, ME, "").await, 503, "refresh_unavailable");

    assert_eq!((told.header("retry-after"), app.acme.counters().api_calls), ("120", 0));
    app.advance(Duration::from_secs(121));
    let _alive = theirs(app.proxy(Method::GET, &id, ME, "").await).expect(200);
    // A dead token and no new one: the caller hears of that, not of a 401.
    app.acme.expire_access_tokens();
    app.sandbox.set_client_secret("another", None);
    let _told = ours(app.proxy(Method::GET, &id, ME, "").await, 502, "oauth_app_rejected");
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["degraded"]["class"]), (&json!("connected"), &json!("app_broken")), "{shown}");
}
