//! From consent to the end of a grant, in both readings of what a refresh does.

use std::time::Duration;

use holdfast_core::{
    ApiClient, ErrorKind, Health, Need, Provider, Retry,
    exchange::Outcome,
    ports::{Clock, Trigger},
};
use holdfast_sandbox::{Canned, GorgiasRotation};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::rig::Rig;

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn a_consent_becomes_a_token_set_of_a_day() {
    let rig = Rig::start().await;

    let tokens = rig.token_set("ada").await;

    assert_eq!(tokens.life().unwrap().num_hours(), 24);
    assert!(!tokens.expires_assumed && tokens.refresh_token.is_some());
    assert_eq!(tokens.refresh_expires_at, None, "it does not end");
    assert_eq!(tokens.scopes, rig.facts().scopes);
    assert!(rig.acme.accepts(tokens.access_token.expose_secret()));
}

/// EX-02
#[tokio::test]
async fn an_answer_that_does_not_say_its_life_is_taken_for_a_day() {
    let rig = Rig::start().await;
    let answer = r#"{"access_token": "{access_token}", "refresh_token": "{refresh_token}", "token_type": "Bearer"}"#;
    rig.acme.trouble(|faults| faults.token_answer = Some(Canned::new(200, answer).after_processing().times(1)));

    let tokens = rig.token_set("ada").await;

    assert_eq!((tokens.life().unwrap().num_hours(), tokens.expires_assumed), (24, true));
}

/// TE-03
#[tokio::test]
async fn refreshes_go_on_for_days_whether_the_refresh_token_is_replaced_stays_or_comes_again() {
    for rotation in [GorgiasRotation::SingleUse, GorgiasRotation::Stays, GorgiasRotation::SameAgain] {
        let rig = Rig::start().await;
        rig.acme.set_rules(|rules| rules.rotation = rotation);
        let connector = rig.connect().await;
        let first = rig.store.row(&connector);
        for _ in 0..3 {
            rig.clock.advance(23 * HOUR);
            rig.sandbox.advance(23 * HOUR);

            let fresh = rig.engine.fresh(&connector, &Need::ValidFor(2 * HOUR), Trigger::Caller).await.unwrap();

            let tokens = fresh.credential.secret.tokens().unwrap();
            assert!(rig.acme.accepts(tokens.access_token.expose_secret()), "{rotation:?}");
            let token = tokens.refresh_token.as_ref().unwrap().expose_secret();
            let before = first.credential.secret.tokens().unwrap().refresh_token.as_ref().unwrap().expose_secret();
            assert_eq!(token == before, rotation != GorgiasRotation::SingleUse, "{rotation:?}");
        }
        assert_eq!((rig.acme.counters().rotations, rig.acme.counters().reuses), (3, 0), "{rotation:?}");
        assert_eq!(rig.store.row(&connector).health, Health::Connected);
    }
}

#[tokio::test]
async fn a_refresh_token_comes_with_offline_alone_and_is_needed() {
    let rig = Rig::start().await;
    assert!(rig.facts().scopes.iter().any(|scope| scope == "offline"));
    assert!(rig.gorgias.grants().need_refresh_token);
    assert_eq!(rig.acme.grant("ada", "tickets:read").unwrap().refresh_token, None);
}

#[tokio::test]
async fn a_wrong_client_secret_is_the_apps_fault() {
    let rig = Rig::start().await;
    rig.sandbox.set_client_secret("another", None);
    assert!(matches!(rig.redeem("ada").await, Outcome::AppBroken(_)));
}

/// TE-08
#[tokio::test]
async fn a_client_secret_of_odd_characters_reaches_gorgias_as_it_is() {
    let mut rig = Rig::start().await;
    let secret = "a:b+c/d=e f%g&ü";
    rig.sandbox.set_client_secret(secret, None);
    rig.app.client_secret = Some(secret.to_owned().into());
    assert!(matches!(rig.redeem("ada").await, Outcome::Rotated(_)));
}

#[tokio::test]
async fn trouble_at_the_token_endpoint_is_no_verdict_on_the_grant() {
    let rig = Rig::start().await;
    let html = || Canned::new(503, "<html>maintenance</html>").content_type("text/html");
    let standard = |status, code: &str| Canned::new(status, json!({"error": code}).to_string());
    for (canned, expected) in [
        (html().header("Retry-After", "30"), "Busy"),
        (Canned::new(429, "{}").header("Retry-After", "3"), "Busy"),
        (html(), "Ambiguous"),
        (standard(500, "invalid_grant"), "Ambiguous"),
        (Canned::new(404, "<h1>Not here</h1>").content_type("text/html"), "Transient"),
        (Canned::new(302, "").header("Location", "https://example.com/"), "Transient"),
        (Canned::new(200, "<html>login</html>").content_type("text/html"), "Ambiguous"),
        (Canned::new(200, "{}"), "Ambiguous"),
        (standard(400, "invalid_grant"), "Rejected"),
        (standard(401, "invalid_grant"), "Rejected"),
        (standard(400, "invalid_client"), "AppBroken"),
        (standard(401, "unauthorized_client"), "AppBroken"),
        (standard(400, "invalid_scope"), "AppBroken"),
        // As its API would say it: no word that can be relied on.
        (Canned::new(401, json!({"error": {"msg": "Authorization required."}}).to_string()), "Transient"),
        (Canned::new(400, "<html>bad</html>").content_type("text/html"), "Transient"),
    ] {
        let status = canned.status;
        rig.acme.trouble(|faults| faults.token_answer = Some(canned.times(1)));
        let outcome = format!("{:?}", rig.redeem("ada").await);
        assert!(outcome.starts_with(expected), "{status}: {outcome} is not {expected}");
    }
}

#[tokio::test]
async fn the_identity_is_the_account_and_who_authorised_where_that_may_be_read() {
    let rig = Rig::start().await;
    let api = rig.api().await;

    let identity = api.identity().await.unwrap();

    assert_eq!((identity.account_id.as_str(), identity.account_name.as_str()), ("acme", "acme.gorgias.com"));
    assert_eq!(identity.user_id, rig.acme.user_id("ada").unwrap().to_string());
    assert_eq!(identity.name.as_deref(), Some("Ada Admin"));
    assert_eq!(identity.email.as_deref(), Some("ada.admin@acme.example"));
    assert_eq!(identity.role.as_deref(), Some("admin"));

    rig.acme.set_rules(|rules| rules.hides_current_user = true);
    let hidden = api.identity().await.unwrap();
    assert_eq!((hidden.account_id.as_str(), hidden.user_id.as_str()), ("acme", "unknown"));
    assert_eq!((hidden.name, hidden.role), (None, None));
    assert!(rig.api_as("ada", "account:read").identity().await.is_ok());
}

#[tokio::test]
async fn another_accounts_domain_is_told_as_it_is_and_none_is_the_hosts() {
    let rig = Rig::start().await;
    let api = rig.agent();
    for (body, id) in [
        (json!({"id": 1, "domain": "globex"}), "globex"),
        (json!({"id": 1, "domain": "ACME.gorgias.com"}), "acme"),
        (json!({"id": 1, "domain": null}), "acme"),
        (json!({}), "acme"),
    ] {
        rig.acme.answer_at("account", Canned::new(200, body.to_string()).times(1));
        let identity = api.identity().await.unwrap();
        assert_eq!(identity.account_id, id, "{body}");
        let account = rig.gorgias.account("acme").unwrap();
        assert_eq!(rig.gorgias.is_account(&account, &identity, None), id == "acme");
    }
}

#[tokio::test]
async fn a_dead_token_a_missing_scope_and_a_wrong_address_are_told_apart() {
    let rig = Rig::start().await;
    let dead = rig.api_with("acme", "nobody").identity().await.unwrap_err();
    assert_eq!(dead.kind, ErrorKind::AuthFailed);

    let useless = rig.api_as("ada", "tickets:read").identity().await.unwrap_err();
    assert_eq!(useless.kind, ErrorKind::Forbidden);
    assert!(useless.message.contains("lacks a scope"), "{useless}");

    let nowhere = rig.api_with("nowhere", "nobody").identity().await.unwrap_err();
    assert_eq!((nowhere.kind, nowhere.retry), (ErrorKind::Unavailable, Retry::Backoff));
    assert!(nowhere.message.contains("no Gorgias at this address"), "{nowhere}");

    let api = rig.agent();
    assert!(rig.sandbox.close_gorgias("acme"));
    assert_eq!(api.identity().await.unwrap_err().kind, ErrorKind::Unavailable);
    let gone = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn no_trouble_of_gorgiass_is_a_verdict_on_the_credential() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    for (canned, kind) in [
        (Canned::new(500, "<html>oops</html>").content_type("text/html"), ErrorKind::Unavailable),
        (Canned::new(503, ""), ErrorKind::Unavailable),
        (Canned::new(404, "<html>nothing</html>").content_type("text/html; charset=utf-8"), ErrorKind::Unavailable),
        (Canned::new(404, json!({"error": {"msg": "Not found."}}).to_string()), ErrorKind::Unavailable),
        (Canned::new(200, "<html>Sign in</html>").content_type("text/html"), ErrorKind::Unreadable),
        (Canned::new(200, "{\"domain\": 7}"), ErrorKind::Unreadable),
        (Canned::new(200, "[]"), ErrorKind::Unreadable),
        (Canned::new(200, ""), ErrorKind::Unreadable),
        (Canned::new(302, "").header("Location", "https://acme.example/"), ErrorKind::Unreadable),
        (Canned::new(403, "<html>blocked</html>").content_type("text/html"), ErrorKind::Forbidden),
        (Canned::new(402, "{}"), ErrorKind::Forbidden),
        (Canned::new(405, "{}"), ErrorKind::Unreadable),
    ] {
        let status = canned.status;
        rig.acme.trouble(|faults| faults.api_answer = Some(canned));

        let error = rig.engine.test(&connector).await.unwrap().identity.unwrap_err();

        assert_eq!(error.kind, kind, "{status}: {error}");
        assert!(!error.message.contains('<'), "{error}");
        assert_eq!(rig.store.row(&connector).health, Health::Connected, "{status}");
    }
    assert_eq!(rig.acme.counters().exchanges, 0);
}

#[tokio::test]
async fn a_rejected_token_is_replaced_and_the_call_goes_through() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    rig.acme.expire_access_tokens();

    let read = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();

    assert_eq!(read["ticket"]["id"], "5");
    assert_eq!(rig.acme.counters().exchanges, 1);
}

#[tokio::test]
async fn a_grant_that_was_taken_back_asks_for_a_person() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    rig.acme.revoke(None);

    // Time passes between a refusal and its confirming attempt.
    let (refused, ()) = tokio::join!(rig.call(&api, "get_ticket", json!({"ticket_id": "5"})), rig.pass(6));

    assert_eq!(refused.unwrap_err().kind, ErrorKind::AuthFailed);
    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_it_says() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let limited = Canned::new(429, json!({"error": {"msg": "Rate limit exceeded."}}).to_string());
    rig.acme.trouble(|faults| faults.api_answer = Some(limited.header("Retry-after", "7").times(1)));
    let started = rig.clock.uptime();

    let (read, ()) = tokio::join!(rig.call(&api, "get_ticket", json!({"ticket_id": "5"})), rig.pass(10));

    read.unwrap();
    assert!(rig.clock.uptime() - started >= Duration::from_secs(7));
    // The refused one, the ticket, its messages.
    assert_eq!(rig.calls(), 3);
}

#[tokio::test]
async fn a_limit_that_lasts_is_answered_busy_with_the_time_and_the_room_is_known() {
    let rig = Rig::start().await;
    let api = rig.agent();
    api.identity().await.unwrap();
    assert_eq!(api.rate_room().map(|room| (room.limit, room.remaining)), Some((80, 78)));
    rig.acme.set_rules(|rules| {
        rules.oauth_bucket = 1;
        rules.window_secs = 60;
    });

    let busy = api.identity().await.unwrap_err();

    assert_eq!(busy.kind, ErrorKind::Busy);
    let Retry::After(wait) = busy.retry else { panic!("{:?}", busy.retry) };
    assert!(wait > Duration::from_secs(20) && wait <= Duration::from_mins(2), "{wait:?}");
}

#[tokio::test]
async fn every_spelling_of_an_account_reaches_the_same_helpdesk() {
    let rig = Rig::start().await;
    let token = rig.token_set("gus").await.access_token;
    for typed in ["acme", "ACME.gorgias.com", "https://acme.gorgias.com/app/ticket/1"] {
        let account = rig.gorgias.account(typed).unwrap();
        let api = rig.api_with(&account.id, token.expose_secret());
        assert_eq!(api.identity().await.unwrap().account_id, "acme");
    }
}

#[tokio::test]
async fn no_error_holds_the_token() {
    let rig = Rig::start().await;
    let token = "SECRETsecretSECRET12";
    let api = rig.api_with("acme", token);
    for canned in [
        Canned::new(401, json!({"error": {"msg": "Authorization required."}}).to_string()),
        Canned::new(500, token),
        Canned::new(200, format!("\"{token}\"")),
    ] {
        rig.acme.trouble(|faults| faults.api_answer = Some(canned));
        let error = api.identity().await.unwrap_err();
        assert!(!error.to_string().contains(token), "{error}");
    }
}

#[tokio::test]
async fn a_key_goes_with_its_user_name_and_does_what_its_user_may() {
    let rig = Rig::start().await;
    let connector = rig.connect_by_key("gus");
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();

    let identity = api.identity().await.unwrap();

    assert_eq!((identity.account_id.as_str(), identity.name.as_deref()), ("acme", Some("Gus Agent")));
    assert_eq!(api.rate_room().map(|room| room.limit), Some(40), "a key has the smaller bucket");
    rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();
    let change = json!({"ticket_id": "5", "status": "solved", "assignee": "gus.agent@acme.example"});
    rig.call(&api, "update_ticket", change).await.unwrap();
    assert_eq!(rig.acme.counters().exchanges, 0);
}

#[tokio::test]
async fn a_key_that_was_reset_asks_for_a_person_after_one_confirming_call() {
    let rig = Rig::start().await;
    let connector = rig.connect_by_key("gus");
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    rig.acme.reset_key("gus");

    let refused = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::AuthFailed);
    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
    let before = rig.calls();
    rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap_err();
    assert_eq!(rig.calls(), before, "nothing more is sent");
}
