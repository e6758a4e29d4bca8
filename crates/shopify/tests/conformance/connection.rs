//! From consent to uninstallation.

use std::time::Duration;

use holdfast_core::{
    ApiClient, ErrorKind, Health, Need, Provider, exchange::Outcome, ports::Trigger, provider::CallbackRefused,
};
use holdfast_sandbox::{CLIENT_SECRET, Canned, callback_hmac};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::rig::{Rig, SCOPES};

const SOON: Need = Need::ValidFor(Duration::from_mins(10));

/// The callback with other values, signed again where a secret is given.
fn changed(query: &[(String, String)], change: &[(&str, &str)], secret: Option<&str>) -> Vec<(String, String)> {
    let mut query = query.to_vec();
    for (name, value) in change {
        for (_, old) in query.iter_mut().filter(|(known, _)| known == name) {
            (*value).clone_into(old);
        }
    }
    if let Some(secret) = secret {
        let hmac = callback_hmac(secret, &query);
        query.retain(|(name, _)| name != "hmac");
        query.push(("hmac".to_owned(), hmac));
    }
    query
}

#[tokio::test]
async fn a_consent_becomes_a_token_set_with_both_lives_known() {
    let rig = Rig::start().await;

    let tokens = rig.token_set().await;

    assert_eq!(tokens.life().unwrap().num_seconds(), 3600);
    assert!(!tokens.expires_assumed && !tokens.refresh_end_fixed);
    assert_eq!((tokens.refresh_expires_at.unwrap() - tokens.obtained_at).num_seconds(), 7_776_000);
    assert_eq!(tokens.scopes, SCOPES.split(',').collect::<Vec<_>>());
    assert!(rig.acme.accepts(tokens.access_token.expose_secret()));
}

#[tokio::test]
async fn what_comes_back_is_signed_with_either_secret_and_names_the_shop() {
    let rig = Rig::start().await;
    let back = rig.callback();

    assert_eq!(rig.check(&back, &[CLIENT_SECRET]), Ok(()));
    assert_eq!(rig.check(&back, &["old", CLIENT_SECRET]), Ok(()));
    for secrets in [&["other"][..], &[]] {
        assert!(matches!(rig.check(&back, secrets), Err(CallbackRefused::NotProven(_))), "{secrets:?}");
    }
    for name in ["code", "shop", "state", "timestamp", "host"] {
        let tampered = changed(&back, &[(name, "1")], None);
        assert!(matches!(rig.check(&tampered, &[CLIENT_SECRET]), Err(CallbackRefused::NotProven(_))), "{name}");
    }
}

/// CO-09, CO-10
#[tokio::test]
async fn a_signed_callback_for_anything_but_this_shop_is_refused() {
    let rig = Rig::start().await;
    let back = rig.callback();
    let with_shop = |shop: &str| rig.check(&changed(&back, &[("shop", shop)], Some(CLIENT_SECRET)), &[CLIENT_SECRET]);

    assert_eq!(with_shop("acme.myshopify.com"), Ok(()));
    let globex = rig.shopify.account("globex").unwrap();
    assert_eq!(with_shop("globex.myshopify.com"), Err(CallbackRefused::OtherAccount(globex)));
    for shop in [
        "acme.myshopify.com.evil.example",
        "evil.example/acme.myshopify.com",
        "acme.myshopify.com@evil.example",
        "acme.myshopify.com%2eevil.example",
        "acme..myshopify.com",
        "\u{430}cme.myshopify.com",
        "acme.myshopify.com\n",
        "https://acme.myshopify.com",
        "acme",
    ] {
        assert!(matches!(with_shop(shop), Err(CallbackRefused::NotProven(_))), "{shop}");
    }
}

#[tokio::test]
async fn a_refresh_brings_a_new_pair_and_the_old_access_token_lives_on() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let before = rig.store.row(&connector).credential.secret.tokens().unwrap().clone();
    rig.clock.advance(Duration::from_mins(55));
    rig.sandbox.advance(Duration::from_mins(55));

    let fresh = rig.engine.fresh(&connector, &SOON, Trigger::Caller).await.unwrap();

    let tokens = fresh.credential.secret.tokens().unwrap();
    let text = |token: &SecretString| token.expose_secret().to_owned();
    assert_ne!(text(&tokens.access_token), text(&before.access_token));
    assert_ne!(tokens.refresh_token.as_ref().map(text), before.refresh_token.as_ref().map(text));
    assert!(rig.acme.accepts(before.access_token.expose_secret()));
    assert!(tokens.refresh_expires_at > before.refresh_expires_at, "each refresh begins 90 days anew");
    assert_eq!((rig.acme.counters().exchanges, rig.acme.counters().rotations), (1, 1));
}

/// LR-01
#[tokio::test]
async fn a_lost_answer_is_asked_for_once_more_and_nobody_notices() {
    for same_pair_again in [false, true] {
        for part_way in [false, true] {
            let rig = Rig::start().await;
            let connector = rig.connect().await;
            rig.acme.set_rules(|rules| rules.same_pair_again = same_pair_again);
            rig.acme.trouble(|faults| {
                faults.lose_next_answer = 1;
                faults.lose_part_way = part_way;
            });
            rig.clock.advance(Duration::from_mins(61));
            rig.sandbox.advance(Duration::from_mins(61));

            let fresh = rig.engine.fresh(&connector, &SOON, Trigger::Caller).await.unwrap();

            let access = &fresh.credential.secret.tokens().unwrap().access_token;
            assert!(rig.acme.accepts(access.expose_secret()));
            assert_eq!(rig.acme.counters().replays, 1);
            // And the pair is good for the next one.
            rig.clock.advance(Duration::from_mins(61));
            rig.sandbox.advance(Duration::from_mins(61));
            rig.engine.fresh(&connector, &SOON, Trigger::Caller).await.unwrap();
        }
    }
}

/// EX-02
#[tokio::test]
async fn an_answer_without_a_life_gets_the_known_one() {
    let rig = Rig::start().await;
    rig.acme.set_rules(|rules| rules.says_expires_in = false);

    let tokens = rig.token_set().await;

    assert_eq!(tokens.life().unwrap().num_seconds(), 3600);
    assert!(tokens.expires_assumed);
}

#[tokio::test]
async fn a_newer_grant_of_the_same_shop_asks_for_a_person_once_the_token_is_over() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    rig.acme.grant(SCOPES);
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    rig.call(&api, "search_products", json!({})).await.unwrap();
    rig.clock.advance(Duration::from_mins(61));
    rig.sandbox.advance(Duration::from_mins(61));

    let (refused, ()) = tokio::join!(rig.call(&api, "search_products", json!({})), rig.pass(6));

    assert_eq!(refused.unwrap_err().kind, ErrorKind::AuthFailed);
    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
}

#[tokio::test]
async fn an_app_that_was_taken_off_asks_for_a_person() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    assert_eq!(rig.acme.uninstall(), 1);

    let (refused, ()) = tokio::join!(rig.call(&api, "search_products", json!({})), rig.pass(6));

    assert_eq!(refused.unwrap_err().kind, ErrorKind::AuthFailed);
    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
}

#[tokio::test]
async fn a_rejected_token_is_replaced_and_the_call_goes_through() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    rig.acme.expire_access_tokens();

    rig.call(&api, "search_products", json!({})).await.unwrap();

    assert_eq!(rig.acme.counters().exchanges, 1);
    assert_eq!(rig.acme.counters().unauthorized, 1);
}

#[tokio::test]
async fn a_wrong_client_secret_is_the_apps_fault() {
    let rig = Rig::start().await;
    rig.sandbox.set_client_secret("another", None);
    assert!(matches!(rig.redeem().await, Outcome::AppBroken(_)));
}

#[tokio::test]
async fn trouble_at_the_token_endpoint_is_no_verdict_on_the_grant() {
    let rig = Rig::start().await;
    let html = |status| Canned::new(status, "<html>oops</html>").content_type("text/html");
    for (canned, expected) in [
        (html(520), "Ambiguous"),
        (html(503).header("Retry-After", "30"), "Ambiguous"),
        (html(429).header("Retry-After", "2.0"), "Busy"),
        (html(404), "Transient"),
        (html(402), "Transient"),
        (html(423), "Transient"),
        (Canned::new(302, "").header("Location", "https://example.com/"), "Ambiguous"),
        (Canned::new(200, "<html>login</html>").content_type("text/html"), "Ambiguous"),
        (Canned::new(200, ""), "Ambiguous"),
        (Canned::new(401, json!({"error": "invalid_request"}).to_string()), "AppBroken"),
        (Canned::new(400, json!({"error": "invalid_subject_token"}).to_string()), "Rejected"),
    ] {
        rig.acme.trouble(|faults| faults.token_answer = Some(canned.times(1)));
        let outcome = format!("{:?}", rig.redeem().await);
        assert!(outcome.starts_with(expected), "{outcome} is not {expected}");
    }
}

#[tokio::test]
async fn the_identity_is_the_shop_with_the_scopes_that_were_granted() {
    let rig = Rig::start().await;

    let identity = rig.api().await.identity().await.unwrap();

    assert_eq!(identity.account_id, "acme");
    assert_eq!(identity.account_name, "acme.myshopify.com");
    assert_eq!(identity.user_id, rig.acme.gid());
    assert_eq!(identity.name.as_deref(), Some("The acme shop"));
    assert_eq!(identity.email.as_deref(), Some("owner@acme.example"));
    assert_eq!(identity.scopes.unwrap(), SCOPES.split(',').collect::<Vec<_>>());

    // The wider scope alone implies the other.
    let identity = rig.api_as("write_orders").identity().await.unwrap();
    assert_eq!(identity.scopes.unwrap(), ["write_orders", "read_orders"]);
}

#[tokio::test]
async fn an_endless_token_that_is_not_taken_any_more_is_no_missing_scope() {
    let rig = Rig::start().await;
    let endless = rig.acme.grant_endless(SCOPES);
    let api = rig.api_with(&endless.access_token);
    api.identity().await.unwrap();
    rig.acme.set_rules(|rules| rules.refuses_endless = true);

    let refused = api.identity().await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::AuthFailed);
    assert!(refused.message.contains("without an end") && refused.message.contains("reconnect"), "{refused}");
}

#[tokio::test]
async fn another_version_of_the_api_can_be_asked() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    for (version, good) in [("2026-07", true), ("2025-01", false)] {
        let shopify = holdfast_shopify::Shopify::with_base(&rig.sandbox.shopify_override()).unwrap();
        let found = shopify.at_version(version).unwrap().identity(&api).await;
        assert_eq!(found.is_ok(), good, "{version}");
        assert!(found.is_ok() || found.unwrap_err().message.contains("version"));
    }
}
