//! TE: what a token endpoint's answers mean.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use holdfast_core::{
    AuthError, Health, Need, Version,
    credential::{Fingerprint, Reason, Trouble},
    health::Effect,
    ports::Trigger,
    provider::{ClientAuth, HostField, Hosts, TokenBody},
    refresh::OutcomeKind,
    testkit::{FakeProvider, OneApp, Script},
};
use secrecy::SecretString;
use serde_json::json;

use crate::{HOUR, Rig, ask, ask_token, scheduler, token};

fn class(error: &AuthError) -> Option<Trouble> {
    match error {
        AuthError::Unavailable { class, .. } => Some(*class),
        _ => None,
    }
}

fn with_provider(change: impl FnOnce(&mut FakeProvider)) -> Rig {
    let mut rig = Rig::new();
    let mut provider = FakeProvider::new();
    change(&mut provider);
    rig.provider = Arc::new(provider);
    rig
}

/// TE-01
#[tokio::test(start_paused = true)]
async fn form_encoded_answers_are_understood() {
    let (rig, engine, connector) = Rig::expired();
    let form = |body: &str| Script::Answer {
        status: 200,
        headers: vec![("content-type", "application/x-www-form-urlencoded; charset=utf-8".to_owned())],
        body: body.to_owned(),
    };
    rig.endpoint.script([form("access_token=AT2&expires_in=28800&refresh_token=RT2&token_type=bearer")]);

    let snapshot = ask(&engine, &connector).await.unwrap();
    assert_eq!(token(&snapshot), "AT2");
    let tokens = snapshot.credential.secret.tokens().unwrap();
    assert_eq!(tokens.life(), Some(TimeDelta::hours(8)));
    assert_eq!(rig.endpoint.posts()[0].accept.as_deref(), Some("application/json"));

    rig.pass(HOUR * 9).await;
    rig.endpoint.script([form("error=bad_refresh_token"), form("error=bad_refresh_token")]);
    let error = ask(&engine, &connector).await.unwrap_err();
    assert!(matches!(error, AuthError::AuthFailed { reason: Reason::RefreshRefused, .. }), "{error:?}");
}

/// TE-02
#[tokio::test(start_paused = true)]
async fn an_answer_without_a_usable_access_token_changes_nothing() {
    for access_token in [json!(null), json!(""), json!(12345), json!("two words"), json!(["AT2"])] {
        let (rig, engine, connector) = Rig::expired();
        rig.endpoint.script([Script::json(200, &json!({"token_type": "Bearer", "access_token": access_token}))]);

        let error = ask(&engine, &connector).await.unwrap_err();

        assert_eq!(class(&error), Some(Trouble::Ambiguous), "{access_token}: {error:?}");
        let row = rig.store.row(&connector);
        assert_eq!((row.health, row.credential.version), (Health::Connected, Version(1)));
    }
}

/// TE-03
#[tokio::test(start_paused = true)]
async fn a_refresh_token_that_the_answer_does_not_carry_is_kept() {
    let (rig, engine, connector) = Rig::expired();
    for access in ["AT2", "AT3", "AT4"] {
        rig.endpoint.script([Script::json(200, &json!({"access_token": access, "expires_in": 3600}))]);
        assert_eq!(ask_token(&engine, &connector).await, access);
        rig.pass(HOUR * 2).await;
    }

    assert_eq!(rig.spent(), ["RT1"; 3]);
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

/// TE-04
#[tokio::test(start_paused = true)]
async fn a_providers_own_refusal_code_is_a_verdict_only_where_it_is_declared() {
    let refusal = Script::json(200, &json!({"ok": false, "error": "token_gone_for_good"}));
    let rig = with_provider(|provider| provider.facts.rejected_codes = vec!["token_gone_for_good".to_owned()]);
    let (engine, connector) = (rig.replica("a").0, rig.expired_connector("con"));
    rig.endpoint.script(vec![refusal.clone(); 2]);
    let error = ask(&engine, &connector).await.unwrap_err();
    assert!(matches!(error, AuthError::AuthFailed { .. }), "{error:?}");

    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script(vec![refusal; 1000]);
    for _ in 0..1000 {
        ask(&engine, &connector).await.unwrap_err();
        rig.pass(Duration::from_secs(1)).await;
    }
    let row = rig.store.row(&connector);
    assert_eq!(row.health, Health::Connected, "without a declaration it is no verdict");
    assert!(row.credential.degraded.is_some(), "but it is visible");
    let attempts = rig.endpoint.posts().len();
    assert!(attempts < 40, "{attempts} attempts in 1000 s: they back off");
}

/// TE-05
#[tokio::test(start_paused = true)]
async fn a_5xx_is_never_a_verdict_whatever_it_says() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::json(503, &json!({"error": "invalid_grant"}))]);

    assert_eq!(class(&ask(&engine, &connector).await.unwrap_err()), Some(Trouble::Ambiguous));
    rig.pass(rig.settings.backoff_cap).await;

    assert_eq!(ask_token(&engine, &connector).await, "AT2");
    assert!(rig.store.effects().is_empty());
}

/// TE-06
#[tokio::test(start_paused = true)]
async fn a_final_refusal_is_confirmed_once_and_never_looped() {
    let nested = Script::json(401, &json!({"error": {"code": "refresh_token_reused", "message": "used"}}));
    for refusal in [nested, Script::invalid_grant()] {
        let (rig, engine, connector) = Rig::expired();
        rig.endpoint.script(vec![refusal; 10]);

        for _ in 0..10 {
            let error = ask(&engine, &connector).await.unwrap_err();
            assert!(matches!(error, AuthError::AuthFailed { reason: Reason::RefreshRefused, .. }), "{error:?}");
        }

        let posts = rig.endpoint.posts();
        assert_eq!(posts.len(), 2);
        assert!(posts[1].at - posts[0].at >= rig.settings.confirm_pause);
        let mails = rig.store.effects().into_iter().filter(|(_, _, effect)| *effect == Effect::MailAdmins).count();
        assert_eq!(mails, 1);
    }
}

/// TE-07
#[tokio::test(start_paused = true)]
async fn a_refused_oauth_app_fails_no_connector_and_its_correction_cures_all() {
    let mut rig = Rig::new();
    let engine = rig.replica("a").0;
    let connectors: Vec<_> =
        (0..40).map(|n| rig.store.connect(&format!("con{n}"), &rig.endpoint.grant(), Duration::ZERO)).collect();
    rig.endpoint.script(vec![Script::json(401, &json!({"error": "invalid_client"})); 40]);

    for connector in &connectors {
        let error = ask(&engine, connector).await.unwrap_err();
        assert!(matches!(error, AuthError::AppRejected { .. }), "{error:?}");
        let row = rig.store.row(connector);
        assert_eq!(row.health, Health::Connected);
        assert_eq!(row.credential.degraded.unwrap().class, Trouble::AppBroken);
        assert!(row.credential.secret.tokens().unwrap().refresh_token.is_some(), "the refresh token is kept");
    }
    assert!(rig.store.effects().is_empty(), "nobody is asked to reconnect");

    let mut corrected = OneApp::new();
    corrected.0.client_secret = Some(SecretString::from("corrected"));
    rig.app = Arc::new(corrected);
    rig.pass(rig.settings.backoff_cap).await;
    let engine = rig.replica("b").0;
    let last = connectors.last().unwrap();
    ask(&engine, last).await.unwrap();
    assert!(rig.store.row(last).credential.degraded.is_none());
    assert_eq!(rig.endpoint.posts().last().unwrap().secret.as_deref(), Some("corrected"));
}

#[tokio::test(start_paused = true)]
async fn the_apps_next_secret_is_tried_before_the_app_is_called_broken() {
    let mut rig = Rig::new();
    let mut app = OneApp::new();
    app.0.next_client_secret = Some(SecretString::from("next"));
    rig.app = Arc::new(app);
    let (engine, connector) = (rig.replica("a").0, rig.expired_connector("con"));
    rig.endpoint.script([Script::json(401, &json!({"error": "invalid_client"}))]);

    assert_eq!(ask_token(&engine, &connector).await, "AT2");

    let secrets: Vec<_> = rig.endpoint.posts().into_iter().map(|post| post.secret.unwrap()).collect();
    assert_eq!(secrets, ["secret", "next"]);
}

/// TE-08
#[tokio::test(start_paused = true)]
async fn special_characters_in_client_id_and_secret_arrive_as_they_are() {
    let odd = || {
        let mut app = OneApp::new();
        app.0.client_id = "a b/1".to_owned();
        app.0.client_secret = Some(SecretString::from("p+q%r:s=&"));
        Arc::new(app)
    };
    let basic = |text: &str| {
        use base64::Engine as _;
        Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text)))
    };
    for (client_auth, authorization) in [
        (ClientAuth::Basic, basic("a+b%2F1:p%2Bq%25r%3As%3D%26")),
        (ClientAuth::BasicRaw, basic("a b/1:p+q%r:s=&")),
        (ClientAuth::Body, None),
    ] {
        for token_body in [TokenBody::Form, TokenBody::Json] {
            let mut rig = with_provider(|provider| {
                provider.facts.client_auth = client_auth;
                provider.facts.token_body = token_body;
            });
            rig.app = odd();
            let (engine, connector) = (rig.replica("a").0, rig.expired_connector("con"));
            ask_token(&engine, &connector).await;

            let post = rig.endpoint.posts().remove(0);
            assert_eq!(post.authorization, authorization, "{client_auth:?}");
            let in_body = client_auth == ClientAuth::Body;
            assert_eq!(post.secret.as_deref(), in_body.then_some("p+q%r:s=&"));
            assert_eq!(post.fields.get("client_id").map(String::as_str), in_body.then_some("a b/1"));
        }
    }
}

/// TE-09
#[tokio::test(start_paused = true)]
async fn a_new_api_host_is_stored_with_its_token_if_it_passes_the_rule() {
    let rule = HostField {
        field: "instance_url".to_owned(),
        suffixes: vec![".fake.test".to_owned()],
        hosts: Hosts::production(),
    };
    for (host, taken) in [
        ("https://eu7.fake.test", true),
        ("http://eu7.fake.test", false),
        ("https://eu7.fake.test.evil.example", false),
        ("https://evilfake.test", false),
        ("https://eu7.fake.test:8443", false),
        ("https://user@eu7.fake.test", false),
        ("https://127.0.0.1", false),
    ] {
        let rig = with_provider(|provider| provider.facts.base_url_field = Some(rule.clone()));
        let (engine, connector) = (rig.replica("a").0, rig.expired_connector("con"));
        rig.endpoint.script([Script::Changed(json!({"instance_url": host}))]);

        let snapshot = ask(&engine, &connector).await.unwrap();

        let base_url = snapshot.credential.secret.tokens().unwrap().base_url.clone();
        assert_eq!(base_url.is_some(), taken, "{host}");
        assert_eq!(token(&snapshot), "AT2", "the token is kept either way");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_api_host_is_a_folder_of_the_operators_substitute() {
    let rig = with_provider(|provider| {
        provider.facts.base_url_field = Some(HostField {
            field: "instance_url".to_owned(),
            suffixes: vec![".fake.test".to_owned()],
            hosts: Hosts::substitute("generic", "http://127.0.0.1:9000/generic/").unwrap(),
        });
    });
    let (engine, connector) = (rig.replica("a").0, rig.expired_connector("con"));
    rig.endpoint.script([Script::Changed(json!({"instance_url": "https://eu7.fake.test/x"}))]);

    let snapshot = ask(&engine, &connector).await.unwrap();

    let base_url = snapshot.credential.secret.tokens().unwrap().base_url.clone().unwrap();
    assert_eq!(base_url.as_str(), "http://127.0.0.1:9000/generic/eu7.fake.test/x");
}

/// TE-10
#[tokio::test(start_paused = true)]
async fn retry_after_as_a_date_is_measured_against_the_answers_own_date() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::Answer {
        status: 429,
        // Five minutes behind our clock.
        headers: vec![
            ("date", "Sun, 29 Nov 2026 09:55:00 GMT".to_owned()),
            ("retry-after", "Sun, 29 Nov 2026 09:57:00 GMT".to_owned()),
        ],
        body: String::new(),
    }]);

    let error = ask(&engine, &connector).await.unwrap_err();

    let AuthError::Unavailable { class: Trouble::Busy, retry_after, .. } = error else { panic!("{error:?}") };
    assert_eq!(retry_after.as_secs(), 120);
    ask(&engine, &connector).await.unwrap_err();
    assert_eq!(rig.endpoint.posts().len(), 1, "no exchange before the time that was told");
    rig.pass(Duration::from_secs(121)).await;
    assert_eq!(ask_token(&engine, &connector).await, "AT2");
}

/// TE-12
#[tokio::test(start_paused = true)]
async fn a_refusal_that_goes_away_is_found_out_by_the_confirming_attempt() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::invalid_grant()]);

    assert_eq!(ask_token(&engine, &connector).await, "AT2");
    assert_eq!(rig.spent(), ["RT1", "RT1"]);
    assert!(rig.store.effects().is_empty());
}

/// TE-12, the variant
#[tokio::test(start_paused = true)]
async fn a_newer_token_that_is_stored_during_the_pause_ends_the_matter() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::invalid_grant()]);
    let caller = tokio::spawn({
        let (engine, connector) = (engine.clone(), connector.clone());
        async move { ask(&engine, &connector).await }
    });
    rig.pass(Duration::from_secs(1)).await;
    rig.store.reconnect(&connector, &("AT9".to_owned(), "RT9".to_owned()), HOUR);

    assert_eq!(token(&caller.await.unwrap().unwrap()), "AT9");
    assert_eq!(rig.endpoint.posts().len(), 1);
    assert!(rig.store.effects().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_answer_says_so() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::Lost]);
    assert_eq!(class(&ask(&engine, &connector).await.unwrap_err()), Some(Trouble::Ambiguous));
    rig.pass(rig.settings.backoff_cap).await;

    let error = ask(&engine, &connector).await.unwrap_err();

    assert!(matches!(error, AuthError::AuthFailed { reason: Reason::ResponseLost, .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn inside_a_reuse_grace_a_lost_answer_is_asked_for_again_at_once() {
    let rig = with_provider(|provider| provider.facts.reuse_grace = Duration::from_secs(10));
    let (engine, connector) = (rig.replica("a").0, rig.expired_connector("con"));
    rig.endpoint.script([
        Script::json(502, &json!({})),
        Script::json(200, &json!({"access_token": "AT2", "refresh_token": "RT2", "expires_in": 3600})),
    ]);

    assert_eq!(ask_token(&engine, &connector).await, "AT2");

    let posts = rig.endpoint.posts();
    assert_eq!(posts.len(), 2);
    assert!(posts[1].at - posts[0].at < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn while_the_old_token_lives_every_trouble_still_serves_it() {
    for script in [
        Script::Unreached,
        Script::json(502, &json!({})),
        Script::json(429, &json!({})),
        Script::json(401, &json!({"error": "invalid_client"})),
        Script::json(418, &json!({"error": "what"})),
    ] {
        let rig = Rig::new();
        let engine = rig.replica("a").0;
        let connector = rig.store.connect("con", &rig.endpoint.grant(), HOUR);
        rig.pass(Duration::from_secs(3570)).await;
        rig.endpoint.script([script.clone()]);

        assert_eq!(ask_token(&engine, &connector).await, "AT1", "{script:?}");

        assert_eq!(rig.endpoint.posts().len(), 1);
        assert!(rig.store.row(&connector).credential.degraded.is_some());
        assert_eq!(rig.store.row(&connector).health, Health::Connected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_for_a_rejected_token_is_asked_for_again_soon() {
    let rig = Rig::new();
    let engine = rig.replica("a").0;
    let connector = rig.store.connect("con", &rig.endpoint.grant(), HOUR);
    rig.endpoint.script([Script::json(500, &json!({}))]);
    let rejected = Need::Not(Fingerprint::of(&SecretString::from("AT1")));

    let error = engine.fresh(&connector, &rejected, Trigger::Rejected).await.unwrap_err();

    let AuthError::Unavailable { class: Trouble::Ambiguous, retry_after, .. } = error else { panic!("{error:?}") };
    assert!(retry_after < Duration::from_secs(10), "nothing is left of the old token that would be worth waiting for");
    rig.pass(retry_after).await;
    assert_eq!(token(&engine.fresh(&connector, &rejected, Trigger::Rejected).await.unwrap()), "AT2");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_endpoint_is_tried_again_soon_and_loses_nothing() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.script([Script::Unreached]);
    assert_eq!(class(&ask(&engine, &connector).await.unwrap_err()), Some(Trouble::Transient));
    assert!(!rig.store.row(&connector).credential.answer_lost);
    rig.pass(Duration::from_secs(3)).await;

    assert_eq!(ask_token(&engine, &connector).await, "AT2");
    assert_eq!(rig.store.journal(), [Some((OutcomeKind::Transient, 1)), Some((OutcomeKind::Rotated, 1))]);
}

/// EX-01, EX-06
#[tokio::test(start_paused = true)]
async fn odd_lifetimes_never_spoil_an_answer() {
    for (expires_in, secs, assumed) in [
        (json!("3600"), 3600, false),
        (json!(3600.0), 3600, false),
        (json!("3600.0"), 3600, false),
        (json!(null), 0, true),
        (json!(""), 0, true),
        (json!(0), 0, true),
        (json!(-5), 0, true),
        (json!({"a": 1}), 0, true),
        (json!("soon"), 0, true),
        (json!(1e300), 366 * 24 * 3600, false),
    ] {
        let (rig, engine, connector) = Rig::expired();
        rig.endpoint.script([Script::Changed(json!({"expires_in": expires_in}))]);

        let snapshot = ask(&engine, &connector).await.unwrap();

        let tokens = snapshot.credential.secret.tokens().unwrap();
        assert_eq!(tokens.expires_assumed, assumed, "{expires_in}");
        let expected = if assumed { 3600 } else { secs };
        assert_eq!(tokens.life().unwrap().num_seconds(), expected, "{expires_in}");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_that_are_over_when_they_arrive_do_not_loop() {
    let (rig, engine, connector) = Rig::expired();
    let life = Duration::from_secs(1);
    rig.endpoint.set_life(life.as_secs());
    rig.endpoint.script(vec![Script::Slow(life); 10]);

    for _ in 0..3 {
        let _served_or_not = ask(&engine, &connector).await;
    }

    let posts = rig.endpoint.posts().len();
    assert!(posts <= 9, "{posts} exchanges for 3 calls");
}

/// EX-03
#[tokio::test(start_paused = true)]
async fn a_margin_larger_than_the_life_does_not_exchange_on_every_read() {
    let mut rig = Rig::new();
    rig.settings.margin_floor = Duration::from_mins(10);
    rig.settings.margin_cap = Duration::from_mins(20);
    let replica = rig.replica("a");
    let mut scheduler = scheduler(&replica);
    rig.endpoint.set_life(300);
    let connector = rig.store.connect("con", &rig.endpoint.grant(), Duration::from_mins(5));

    for _ in 0..100 {
        let need = Need::ValidFor(Duration::from_mins(10));
        replica.0.fresh(&connector, &need, Trigger::Caller).await.unwrap();
        scheduler.round().await.unwrap();
        rig.pass(Duration::from_secs(6)).await;
    }

    let posts = rig.endpoint.posts().len();
    assert!(posts <= 4, "{posts} exchanges in 10 minutes of a 5 minute token");
}
