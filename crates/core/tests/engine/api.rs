//! AP: tokens as callers use them, and the API client.

use std::{sync::Arc, time::Duration};

use base64::Engine as _;
use bytes::Bytes;
use futures::stream;
use holdfast_core::{
    ApiClient, AuthError, ConnectorId, Engine, Error, ErrorKind, Health, Need, Retry, Secret,
    api_client::Refused,
    credential::{Fingerprint, Reason},
    ports::{Body, Clock, Trigger},
    provider::ApiKeyAuth,
    testkit::{FakeProvider, Script},
};
use http::{HeaderMap, Method, StatusCode};
use secrecy::SecretString;
use serde_json::json;

use crate::{HOUR, Rig, ask, token};

async fn client(engine: &Arc<Engine>, connector: &ConnectorId) -> ApiClient {
    let snapshot = engine.snapshot(connector).await.unwrap().unwrap();
    ApiClient::new(engine, &snapshot).unwrap()
}

fn live() -> (Rig, Arc<Engine>, ConnectorId) {
    let rig = Rig::new();
    let engine = rig.replica("a").0;
    let connector = rig.store.connect("con", &rig.endpoint.grant(), HOUR);
    (rig, engine, connector)
}

fn refused(error: &Error) -> Option<&Refused> {
    error.source.as_ref()?.downcast_ref()
}

/// AP-01
#[tokio::test(start_paused = true)]
async fn a_body_that_can_be_sent_once_renews_the_token_and_asks_to_send_again() {
    let (rig, engine, connector) = live();
    rig.endpoint.expire_access();
    let api = client(&engine, &connector).await;
    let upload = || Body::Once(Box::pin(stream::iter([Ok(Bytes::from_static(b"half a file"))])));

    let result = api.request(Method::POST, "uploads").operation("upload").body(upload()).raw().await;

    let Err(error) = result else { panic!("the 401 is not handed over as an answer") };
    assert_eq!((error.kind, error.retry), (ErrorKind::Unavailable, Retry::After(Duration::ZERO)));
    assert!(error.message.contains("send the request again"), "{error}");
    assert_eq!(refused(&error), Some(&Refused::SendAgain));
    assert_eq!(rig.endpoint.calls(), ["AT1"], "the body was sent once");
    let again = api.request(Method::POST, "uploads").operation("upload").body(upload()).raw().await.unwrap();
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(rig.endpoint.posts().len(), 1);
}

/// Each way in which providers take a key, also one whose first way is OAuth.
#[tokio::test(start_paused = true)]
async fn a_key_goes_where_its_provider_wants_it() {
    let basic = |pair: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
    let user = ("Email address".to_owned(), "ada@example.com".to_owned());
    for (auth, key, sent) in [
        (Some(ApiKeyAuth::Basic { password: "X".to_owned() }), "k1", basic("k1:X")),
        (Some(ApiKeyAuth::Basic { password: String::new() }), "k1", basic("k1:")),
        (Some(ApiKeyAuth::Pair { user }), "ada@example.com:k1", basic("ada@example.com:k1")),
        (Some(ApiKeyAuth::Bearer), "k1", "k1".to_owned()),
        (None, "k1", "k1".to_owned()),
    ] {
        let mut rig = Rig::new();
        let mut provider = FakeProvider::new();
        provider.key = auth.clone();
        rig.provider = Arc::new(provider);
        let engine = rig.replica("a").0;
        let api = ApiClient::with(&engine, "fake", "acme", Secret::ApiKey(key.into())).unwrap();

        // The endpoint knows no key; what it was called with counts.
        let _ = api.get("me").operation("me").raw().await;

        assert_eq!(rig.endpoint.calls(), [sent], "{auth:?}");
    }
}

/// AP-02
#[tokio::test(start_paused = true)]
async fn a_redirect_is_an_answer_and_a_foreign_link_is_not_followed() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;
    for (status, target) in [
        (302, "https://evil.example/x"),
        (307, "http://acme.fake.test/me"),
        (302, "https://other.fake.test/me"),
        (301, "http://169.254.169.254/"),
    ] {
        rig.endpoint.script_api([Script::Answer {
            status,
            headers: vec![("location", target.to_owned())],
            body: String::new(),
        }]);
        let before = rig.endpoint.calls().len();
        let answer = api.get("me").operation("me").raw().await.unwrap();
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(rig.endpoint.calls().len(), before + 1, "{target} was called");
        assert!(api.follow("next", target).is_err(), "{target} was followed");
    }
    assert!(api.follow("next", "https://acme.fake.test/me?page=2").is_ok());
}

/// AP-03
#[tokio::test(start_paused = true)]
async fn a_path_that_leaves_its_base_is_refused_before_anything_is_sent() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;
    for path in
        ["../users", "tickets/%2e%2e/users", "tickets/..%2fusers", "tickets/..;/users", "tickets/%252e%252e/users"]
    {
        let Err(error) = api.get(path).within("tickets").operation("get").raw().await else {
            panic!("{path} was sent")
        };
        assert_eq!((error.kind, refused(&error)), (ErrorKind::Invalid, Some(&Refused::Path)));
    }
    assert!(rig.endpoint.calls().is_empty());
}

/// AP-03
#[tokio::test(start_paused = true)]
async fn what_is_passed_through_keeps_its_encoding() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;
    let path = "tickets/a%20b/%c3%a4%C3%A4/x'y";

    let pass = |query| api.get(path).operation("pass").pass_through(query, HeaderMap::new()).raw();
    pass(Some("q='a'&page[size]=1&r=%2f+%20")).await.unwrap();
    pass(None).await.unwrap();

    assert_eq!(rig.endpoint.targets(), [format!("/{path}?q='a'&page[size]=1&r=%2f+%20"), format!("/{path}")]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_passed_through_to_the_paths_for_oauth() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;
    for path in
        ["token", "/token/x", "authorize", "oauth/revoke", "%6fauth", "%256fauth/tokens", "//oauth/", "OAUTH;a/b"]
    {
        let Err(error) = api.get(path).operation("pass").pass_through(None, HeaderMap::new()).raw().await else {
            panic!("{path} was sent")
        };
        assert_eq!((error.kind, refused(&error)), (ErrorKind::Forbidden, Some(&Refused::OAuthPath)), "{path}");
    }
    assert!(rig.endpoint.calls().is_empty() && rig.endpoint.posts().is_empty());
    // The adapter itself may need them.
    api.get("oauth/tokens/current").operation("current").raw().await.unwrap();
}

/// AP-03
#[tokio::test(start_paused = true)]
async fn a_request_reaches_a_further_place_of_its_account_by_name_and_no_other() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;
    let pass = |path: &str, within: &str| {
        let call = api.get(path).operation("pass").pass_through(Some("a=%2f"), HeaderMap::new());
        if within.is_empty() { call } else { call.within(within) }.raw()
    };

    api.get("v1/a b").at("files").query("q", 1).operation("list").raw().await.unwrap();
    pass("files/v1//%c3%a4", "").await.unwrap();
    pass("files", "").await.unwrap();
    pass("files/v1/x", "files/v1").await.unwrap();
    pass("filesystem/v1", "").await.unwrap();
    api.get("files/v1").operation("list").raw().await.unwrap();

    let files = "https://acme.files.test";
    let own = "https://acme.fake.test";
    assert_eq!(rig.endpoint.origins(), [files, files, files, files, own, own]);
    let targets = [
        "/api/v1/a%20b?q=1",
        "/api/v1//%c3%a4?a=%2f",
        "/api/?a=%2f",
        "/api/v1/x?a=%2f",
        "/filesystem/v1?a=%2f",
        "/files/v1",
    ];
    assert_eq!(rig.endpoint.targets(), targets);
    assert!(rig.endpoint.calls().iter().all(|bearer| bearer == "AT1"));

    for (path, within) in [
        ("%66iles/v1", ""),
        ("//files/v1", ""),
        ("files%2fv1", ""),
        ("files%252fv1", ""),
        ("files/../v1", ""),
        ("files/v1/x", "v1"),
        ("v1/x", "files/v1"),
    ] {
        let Err(error) = pass(path, within).await else { panic!("{path} was sent") };
        assert_eq!((error.kind, refused(&error)), (ErrorKind::Invalid, Some(&Refused::Path)), "{path}");
    }
    let Err(error) = api.get("v1").at("evil.example").operation("list").raw().await else { panic!("it was sent") };
    assert_eq!(error.kind, ErrorKind::Invalid);
    let Err(error) = pass("files/oauth/token", "").await else { panic!("it was sent") };
    assert_eq!(refused(&error), Some(&Refused::OAuthPath));
    assert_eq!(rig.endpoint.origins().len(), 6, "nothing else was sent");
}

/// A connector whose consent found a tenant, and an API base of its own.
fn found() -> (Rig, Arc<Engine>, ConnectorId) {
    let (rig, engine, connector) = live();
    rig.store.change(&connector, |row| {
        let Secret::Tokens(tokens) = &mut row.credential.secret else { panic!("it is connected") };
        tokens.found.insert("tenant".to_owned(), "t-1".to_owned());
        tokens.base_url = Some("https://eu7.fake.test/desk".parse().unwrap());
    });
    (rig, engine, connector)
}

#[tokio::test(start_paused = true)]
async fn a_header_that_chooses_the_account_is_ours_and_another_one_is_only_a_default() {
    let (rig, engine, connector) = found();
    let api = client(&engine, &connector).await;
    let mut given = HeaderMap::new();
    given.insert("x-fake-tenant", "t-2".parse().unwrap());
    given.insert("x-fake-version", "2".parse().unwrap());

    api.get("v1").operation("list").raw().await.unwrap();
    api.get("v1").operation("pass").pass_through(None, given).raw().await.unwrap();

    let seen = rig.endpoint.headers();
    let sent = |name: &str| seen.iter().map(|headers| headers[name].to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(sent("x-fake-tenant"), ["t-1", "t-1"]);
    assert_eq!(sent("x-fake-version"), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_found_at_a_consent_outlives_the_token_set_that_it_came_with() {
    let (rig, engine, connector) = found();
    rig.endpoint.expire_access();
    let api = client(&engine, &connector).await;

    api.get("v1").operation("list").raw().await.unwrap();
    api.get("v1").operation("home").at_home().raw().await.unwrap();

    assert_eq!(rig.endpoint.posts().len(), 1, "it was refreshed");
    assert_eq!(rig.endpoint.headers().last().unwrap()["x-fake-tenant"], "t-1");
    let origins = rig.endpoint.origins();
    assert_eq!(origins[origins.len() - 2..], ["https://eu7.fake.test", "https://acme.fake.test"]);
}

/// AP-04
#[tokio::test(start_paused = true)]
async fn refused_credentials_fail_fast_and_then_without_any_network_call() {
    let (rig, engine, connector) = live();
    rig.endpoint.revoke();
    let api = client(&engine, &connector).await;
    let error = api.get("me").operation("me").send().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::AuthFailed);
    assert_eq!(rig.endpoint.calls().len(), 1);
    let spent = rig.endpoint.posts().len();
    assert!(spent <= 2, "one refresh with its one confirmation");

    for _ in 0..10 {
        let error = api.get("me").operation("me").send().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::AuthFailed);
    }

    assert_eq!((rig.endpoint.calls().len(), rig.endpoint.posts().len()), (1, spent));
}

/// AP-07
#[tokio::test(start_paused = true)]
async fn no_token_is_handed_out_that_dies_on_the_way() {
    let (rig, engine, connector) = live();
    rig.pass(HOUR - Duration::from_secs(20)).await;
    let snapshot = ask(&engine, &connector).await.unwrap();
    assert_eq!(token(&snapshot), "AT2");

    // Shorter-lived than asked for: the longest possible, with its true expiry.
    rig.endpoint.set_life(40);
    rig.pass(HOUR).await;
    let snapshot = ask(&engine, &connector).await.unwrap();
    let tokens = snapshot.credential.secret.tokens().unwrap();
    assert_eq!((tokens.expires_at.unwrap() - engine.now()).num_seconds(), 40);
    assert_eq!(rig.endpoint.posts().len(), 2);
    ask(&engine, &connector).await.unwrap();
    assert_eq!(rig.endpoint.posts().len(), 2);
}

/// AP-07
#[tokio::test(start_paused = true)]
async fn a_request_is_sent_with_a_token_that_outlives_its_answer() {
    let (rig, engine, connector) = live();
    rig.pass(HOUR - Duration::from_secs(20)).await;
    let api = client(&engine, &connector).await;

    api.get("me").operation("me").least_life(Duration::from_secs(10)).send().await.unwrap();
    api.get("me").operation("me").least_life(Duration::from_mins(1)).send().await.unwrap();

    assert_eq!(rig.endpoint.calls(), ["AT1", "AT2"]);
}

#[tokio::test(start_paused = true)]
async fn ten_calls_with_a_dead_token_make_one_refresh_and_all_succeed() {
    let (rig, engine, connector) = live();
    rig.endpoint.expire_access();
    let api = client(&engine, &connector).await;

    let calls = (0..10).map(|_| {
        let api = api.clone();
        tokio::spawn(async move { api.get("me").operation("me").send().await.map(|_| ()) })
    });

    for call in futures::future::join_all(calls).await {
        call.unwrap().unwrap();
    }
    assert_eq!(rig.endpoint.posts().len(), 1);
}

/// HL-02
#[tokio::test(start_paused = true)]
async fn a_401_that_means_not_allowed_costs_one_refresh_and_is_passed_on() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;
    let not_allowed = Script::json(401, &json!({"error": "not for you"}));
    for _ in 0..20 {
        // The forbidden call, its retry; the test call in between is answered truly.
        rig.endpoint.script_api([not_allowed.clone()]);
        if rig.endpoint.posts().is_empty() {
            rig.endpoint.script_api([not_allowed.clone()]);
        }
        let answer = api.get("secret").operation("get").raw().await.unwrap();
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        assert!(api.get("me").operation("me").send().await.is_ok());
    }

    assert_eq!(rig.endpoint.posts().len(), 1);
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

/// HL-02, AP-01
#[tokio::test(start_paused = true)]
async fn a_401_that_means_not_allowed_is_no_reason_to_send_a_stream_for_ever() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;
    let not_allowed = Script::json(401, &json!({"error": "not for you"}));
    let upload = async || {
        rig.endpoint.script_api([not_allowed.clone()]);
        let body = Body::Once(Box::pin(stream::iter([Ok(Bytes::from_static(b"a file"))])));
        api.request(Method::POST, "uploads").operation("upload").body(body).raw().await
    };

    let first = upload().await.err().unwrap();
    let second = upload().await.unwrap();

    assert_eq!(refused(&first), Some(&Refused::SendAgain));
    assert_eq!(second.status, StatusCode::UNAUTHORIZED);
    assert_eq!(rig.endpoint.posts().len(), 1);
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_token_that_the_test_call_refuses_too_fails_the_connector() {
    let (rig, engine, connector) = live();
    rig.endpoint.script_api(vec![Script::json(401, &json!({"error": "suspended"})); 10]);
    let api = client(&engine, &connector).await;

    let error = api.get("me").operation("me").raw().await.err().unwrap();

    assert_eq!(error.kind, ErrorKind::AuthFailed);
    let row = rig.store.row(&connector);
    assert_eq!((row.health, row.health_reason), (Health::AuthFailed, Some(Reason::AccessRefused)));
    assert_eq!(rig.endpoint.posts().len(), 2, "one for the first 401, one to see whether the new token dies too");
    api.get("me").operation("me").raw().await.err().unwrap();
    assert_eq!(rig.endpoint.posts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_dies_twice_in_a_minute_is_renewed_twice_and_is_no_verdict() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;

    for _ in 0..2 {
        rig.endpoint.expire_access();
        api.get("me").operation("me").send().await.unwrap();
        rig.pass(Duration::from_secs(10)).await;
    }

    assert_eq!(rig.store.row(&connector).health, Health::Connected);
    assert_eq!(rig.endpoint.posts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn room_is_read_where_one_header_tells_what_is_used_of_all() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;
    for (told, room) in [
        ("nonsense", None),
        ("10/", None),
        ("10/80", Some((80, 70))),
        (" 81 / 80 ", Some((80, 0))),
        ("-1/80", Some((80, 0))),
    ] {
        let headers = vec![("x-gorgias-account-api-call-limit", told.to_owned())];
        rig.endpoint.script_api([Script::Answer { status: 200, headers, body: "{}".to_owned() }]);
        api.get("me").operation("me").send().await.unwrap();
        assert_eq!(api.rate_room().map(|room| (room.limit, room.remaining)), room, "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_for_as_told_and_no_longer_than_the_bound() {
    let (rig, engine, connector) = live();
    let api = client(&engine, &connector).await;
    let busy = |secs: u32| Script::Answer {
        status: 429,
        headers: vec![
            ("retry-after", secs.to_string()),
            ("x-rate-limit", "700".to_owned()),
            ("x-rate-limit-remaining", "0".to_owned()),
        ],
        body: "slow down".to_owned(),
    };
    rig.endpoint.script_api([busy(3)]);
    let before = rig.clock.uptime();
    api.get("me").operation("me").send().await.unwrap();
    assert_eq!((rig.clock.uptime() - before).as_secs(), 3);
    assert_eq!(api.rate_room().map(|room| (room.limit, room.remaining)), Some((700, 0)));

    rig.endpoint.script_api(vec![busy(0); 100]);
    let error = api.get("me").operation("me").send().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert!(rig.endpoint.calls().len() < 30, "a provider that says `at once` is not stormed");
    rig.endpoint.clear_api_script();

    rig.endpoint.script_api([busy(300)]);
    let error = api.get("me").operation("me").send().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);

    // What cannot be sent again does not wait.
    rig.endpoint.script_api([busy(3)]);
    let before = rig.clock.uptime();
    let upload = Body::Once(Box::pin(stream::iter([Ok(Bytes::from_static(b"a file"))])));
    let answer = api.request(Method::POST, "uploads").operation("upload").body(upload).raw().await.unwrap();
    assert_eq!((answer.status, rig.clock.uptime()), (StatusCode::TOO_MANY_REQUESTS, before));
}

#[tokio::test(start_paused = true)]
async fn a_token_without_a_refresh_token_works_to_its_end_and_then_needs_a_person() {
    let (rig, engine, connector) = live();
    rig.store.change(&connector, |row| {
        if let holdfast_core::Secret::Tokens(tokens) = &mut row.credential.secret {
            tokens.refresh_token = None;
        }
    });
    rig.pass(HOUR - Duration::from_secs(10)).await;
    assert_eq!(token(&ask(&engine, &connector).await.unwrap()), "AT1");
    rig.pass(Duration::from_secs(20)).await;
    rig.endpoint.expire_access();

    let error = ask(&engine, &connector).await.unwrap_err();

    assert!(matches!(error, AuthError::AuthFailed { reason: Reason::NotRefreshable, .. }), "{error:?}");
    assert!(rig.endpoint.posts().is_empty());
}

/// ST-02
#[tokio::test(start_paused = true)]
async fn an_unreadable_credential_calls_no_provider_and_is_no_verdict() {
    let (rig, engine, connector) = live();
    rig.store.change(&connector, |row| row.credential.secret = holdfast_core::Secret::Unreadable);

    for need in [Need::ValidFor(HOUR), Need::Ahead, Need::Not(Fingerprint::of(&SecretString::from("AT1")))] {
        let error = engine.fresh(&connector, &need, Trigger::Caller).await.unwrap_err();
        assert_eq!(error, AuthError::Unreadable);
    }

    assert!(rig.endpoint.posts().is_empty() && rig.endpoint.calls().is_empty());
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_of_the_engine_reaches_the_api_caller() {
    let (rig, engine, connector) = live();
    rig.pass(HOUR).await;
    rig.endpoint.script([Script::Answer {
        status: 429,
        headers: vec![("retry-after", "90".to_owned())],
        body: String::new(),
    }]);
    let api = client(&engine, &connector).await;

    let error = api.get("me").operation("me").send().await.unwrap_err();

    let Retry::After(after) = error.retry else { panic!("{error:?}") };
    assert_eq!(after.as_secs(), 90);
}

#[tokio::test(start_paused = true)]
async fn a_test_refreshes_a_stale_token_before_it_judges() {
    let (rig, engine, connector) = live();
    rig.pass(HOUR * 2).await;
    rig.endpoint.expire_access();

    let report = engine.test(&connector).await.unwrap();

    assert_eq!(report.identity.unwrap().user_id, "7");
    assert_eq!(report.snapshot.health, Health::Connected);
    assert_eq!(rig.endpoint.posts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_test_brings_a_connector_back_that_the_provider_takes_again() {
    let (rig, engine, connector) = live();
    rig.store.change(&connector, |row| row.health = Health::AuthFailed);
    rig.pass(HOUR * 2).await;
    rig.endpoint.expire_access();

    let report = engine.test(&connector).await.unwrap();

    assert!(report.identity.is_ok());
    assert_eq!(report.snapshot.health, Health::Connected);
    assert_eq!(token(&ask(&engine, &connector).await.unwrap()), "AT2");
}

#[tokio::test(start_paused = true)]
async fn a_test_of_a_revoked_connector_says_so_and_fails_it_once() {
    let (rig, engine, connector) = live();
    rig.endpoint.revoke();

    for _ in 0..2 {
        let report = engine.test(&connector).await.unwrap();
        assert_eq!(report.identity.unwrap_err().kind, ErrorKind::AuthFailed);
        assert_eq!(report.snapshot.health, Health::AuthFailed);
        // Also once the access token is over, when a test has to exchange first.
        rig.pass(HOUR * 2).await;
    }

    let mails =
        rig.store.effects().into_iter().filter(|(_, _, effect)| *effect == holdfast_core::health::Effect::MailAdmins);
    assert_eq!(mails.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_test_while_the_provider_is_down_is_no_verdict() {
    let (rig, engine, connector) = live();
    rig.endpoint.script_api([Script::Unreached]);

    let report = engine.test(&connector).await.unwrap();

    assert_eq!(report.identity.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(report.snapshot.health, Health::Connected);
}
