//! From consent to revocation.

use std::time::Duration;

use holdfast_core::{
    ApiClient, ErrorKind, Need, Provider, Secret,
    exchange::Outcome,
    ports::{Clock, Trigger},
};
use holdfast_sandbox::{Canned, Sandbox};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::rig::Rig;

#[tokio::test]
async fn a_consent_becomes_a_token_set_with_both_lives_known() {
    let rig = Rig::start().await;

    let tokens = rig.token_set("ada").await;

    assert_eq!(tokens.life().unwrap().num_seconds(), 1800);
    assert!(!tokens.expires_assumed);
    let idle = tokens.refresh_expires_at.unwrap() - tokens.obtained_at;
    assert_eq!(idle.num_seconds(), 7_775_999);
    assert_eq!(tokens.scopes, ["read", "write"]);
    assert!(tokens.refresh_token.is_some());
    assert!(rig.acme.accepts(tokens.access_token.expose_secret()));
}

#[tokio::test]
async fn a_refresh_asks_for_the_same_lives_again() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    rig.clock.advance(Duration::from_mins(29));
    rig.sandbox.advance(Duration::from_mins(29));

    let fresh = rig.engine.fresh(&connector, &Need::ValidFor(Duration::from_mins(10)), Trigger::Caller).await.unwrap();

    let tokens = fresh.credential.secret.tokens().unwrap();
    assert_eq!(tokens.life().unwrap().num_seconds(), 1800);
    assert!(!tokens.expires_assumed);
    assert_eq!((tokens.refresh_expires_at.unwrap() - tokens.obtained_at).num_seconds(), 7_775_999);
    assert!(rig.acme.accepts(tokens.access_token.expose_secret()));
    assert_eq!((rig.acme.counters().exchanges, rig.acme.counters().rotations), (1, 1));
}

#[tokio::test]
async fn another_life_can_be_asked_for_within_the_providers_bounds() {
    let short = Duration::from_secs(45);
    let builder = Sandbox::builder().with(|options| options.min_expires_in = 30);
    let rig = Rig::with(builder, |zendesk| zendesk.asking_for(short)).await;
    assert_eq!(rig.token_set("ada").await.life().unwrap().to_std().unwrap(), short);

    let strict = Rig::with(Sandbox::builder(), |zendesk| zendesk.asking_for(short)).await;
    let refused = strict.redeem("ada").await;
    assert!(matches!(refused, Outcome::AppBroken(_)), "{refused:?}");
}

#[tokio::test]
async fn the_status_that_the_openapi_file_names_is_a_success_too() {
    let rig = Rig::with(Sandbox::builder().with(|options| options.success_status = 201), |zendesk| zendesk).await;
    assert!(matches!(rig.redeem("ada").await, Outcome::Rotated(_)));
}

#[tokio::test]
async fn a_wrong_client_secret_is_the_apps_fault() {
    let rig = Rig::start().await;
    rig.sandbox.set_client_secret("another", None);
    assert!(matches!(rig.redeem("ada").await, Outcome::AppBroken(_)));
}

#[tokio::test]
async fn trouble_at_the_token_endpoint_is_no_verdict_on_the_grant() {
    let rig = Rig::start().await;
    let html = || Canned::new(503, "<html>maintenance</html>").content_type("text/html");
    for (canned, expected) in [
        (html().header("Retry-After", "30"), "Busy"),
        (Canned::new(429, "slow down").content_type("text/plain"), "Busy"),
        (html(), "Ambiguous"),
        (Canned::new(404, "<h1>No help desk at this address</h1>").content_type("text/html"), "Transient"),
        (Canned::new(302, "").header("Location", "https://example.com/"), "Transient"),
        (Canned::new(400, json!({"error": "invalid_scope"}).to_string()), "AppBroken"),
        (Canned::new(200, "<html>login</html>").content_type("text/html"), "Ambiguous"),
    ] {
        rig.acme.trouble(|faults| faults.token_answer = Some(canned.times(1)));
        let outcome = format!("{:?}", rig.redeem("ada").await);
        assert!(outcome.starts_with(expected), "{outcome} is not {expected}");
    }
}

#[tokio::test]
async fn the_identity_is_the_helpdesk_and_who_authorised() {
    let rig = Rig::start().await;

    let identity = rig.api().await.identity().await.unwrap();

    assert_eq!(identity.account_id, "acme");
    assert_eq!(identity.account_name, "acme.zendesk.com");
    assert_eq!(identity.name.as_deref(), Some("Ada Admin"));
    assert_eq!(identity.email.as_deref(), Some("ada.admin@example.com"));
    assert_eq!(identity.role.as_deref(), Some("admin"));
    assert_eq!(identity.scopes.unwrap(), ["read", "write"]);
    assert!(identity.user_id.parse::<i64>().is_ok());
}

#[tokio::test]
async fn an_anonymous_visitors_200_proves_nothing() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    let visitor = json!({"user": {"id": null, "name": "Anonymous user", "role": "end-user", "active": false}});
    rig.acme.trouble(|faults| faults.api_answer = Some(Canned::new(200, visitor.to_string())));

    let refused = api.identity().await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::AuthFailed);
    assert!(refused.message.contains("anonymous"), "{refused}");
}

#[tokio::test]
async fn only_staff_can_connect_a_helpdesk() {
    let rig = Rig::start().await;
    for user in ["ada", "gus", "lia"] {
        rig.api_as(user, "read write").identity().await.unwrap();
    }
    let refused = rig.api_as("eve", "read write").identity().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    assert!(refused.message.contains("agent or an administrator"), "{refused}");
}

#[tokio::test]
async fn a_dead_token_and_a_useless_scope_are_told_apart() {
    let rig = Rig::start().await;
    let dead = rig.api_with("zd_at_nobody").identity().await.unwrap_err();
    assert_eq!(dead.kind, ErrorKind::AuthFailed);

    let useless = rig.api_as("ada", "hc:read").identity().await.unwrap_err();
    assert_eq!(useless.kind, ErrorKind::Forbidden);
    assert!(useless.message.contains("the scope read"), "{useless}");
}

#[tokio::test]
async fn a_revoked_token_is_dead_at_the_provider() {
    let rig = Rig::start().await;
    let tokens = rig.token_set("ada").await;

    assert!(rig.engine.revoke(&rig.facts(), &rig.app, &tokens.access_token).await);

    assert!(!rig.acme.accepts(tokens.access_token.expose_secret()));
    assert_eq!(rig.acme.counters().revocations, 1);
}

#[tokio::test]
async fn a_rejected_token_is_replaced_and_the_call_goes_through() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    let before = rig.store.row(&connector).credential.version;
    rig.acme.expire_access_tokens();

    let read = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();

    assert_eq!(read["ticket"]["id"], "5");
    assert_eq!(rig.acme.counters().exchanges, 1);
    assert_eq!(rig.store.row(&connector).credential.version, before.next());
}

#[tokio::test]
async fn a_taken_back_grant_asks_for_a_person() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let api = ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    rig.acme.revoke(None);

    let (refused, ()) = tokio::join!(
        rig.call(&api, "get_ticket", json!({"ticket_id": "5"})),
        // Between a refusal and its confirming attempt.
        pass(&rig, 6),
    );

    assert_eq!(refused.unwrap_err().kind, ErrorKind::AuthFailed);
    assert_eq!(rig.store.row(&connector).health, holdfast_core::Health::AuthFailed);
}

#[tokio::test]
async fn a_helpdesk_that_is_gone_is_no_failed_credential() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    assert!(rig.sandbox.close_helpdesk("acme"));

    let gone = api.identity().await.unwrap_err();

    assert_eq!(gone.kind, ErrorKind::Unavailable);
    assert!(gone.message.contains("no help desk at this address"), "{gone}");
}

#[tokio::test]
async fn what_is_no_json_is_unreadable() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    for canned in [
        Canned::new(200, "<html>Please sign in</html>").content_type("text/html"),
        Canned::new(302, "").header("Location", "https://example.com/"),
        Canned::new(403, "<html>blocked</html>").content_type("text/html"),
    ] {
        rig.acme.trouble(|faults| faults.api_answer = Some(canned));
        let error = api.identity().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unreadable, "{error}");
        assert!(!error.message.contains('<'), "{error}");
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_it_says() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    let limited = Canned::new(429, "Number of allowed API requests per minute exceeded")
        .content_type("text/plain")
        .header("Retry-After", "7")
        .times(1);
    rig.acme.trouble(|faults| faults.api_answer = Some(limited));
    let started = rig.clock.uptime();

    let (read, ()) = tokio::join!(rig.call(&api, "get_ticket", json!({"ticket_id": "5"})), pass(&rig, 10));

    read.unwrap();
    assert!(rig.clock.uptime() - started >= Duration::from_secs(7));
    // The refused one, the ticket, its comments.
    assert_eq!(rig.acme.counters().api_calls, 3);
}

#[tokio::test]
async fn a_limit_that_lasts_is_answered_busy_with_the_time() {
    let rig = Rig::with(Sandbox::builder().with(|options| options.rate_limit = 2), |zendesk| zendesk).await;
    let api = rig.api().await;
    rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();
    assert_eq!(api.rate_room().map(|room| (room.limit, room.remaining)), Some((2, 0)));

    let busy = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap_err();

    assert_eq!(busy.kind, ErrorKind::Busy);
    let holdfast_core::Retry::After(wait) = busy.retry else { panic!("{:?}", busy.retry) };
    assert!(wait > Duration::from_secs(20) && wait <= Duration::from_mins(1), "{wait:?}");
}

#[tokio::test]
async fn every_spelling_of_an_account_reaches_the_same_helpdesk() {
    let rig = Rig::start().await;
    let token = rig.token_set("gus").await.access_token;
    for typed in ["acme", "ACME.zendesk.com", "https://acme.zendesk.com/agent/tickets/1"] {
        let account = rig.zendesk.account(typed).unwrap();
        let secret = Secret::ApiKey(token.clone());
        let api = ApiClient::with(&rig.engine, "zendesk", &account.id, secret).unwrap();
        assert_eq!(api.identity().await.unwrap().account_id, "acme");
    }
}

/// Moves the engine's clock on, a second at a time, while something waits for it.
async fn pass(rig: &Rig, seconds: u32) {
    rig.clock.pass(seconds).await;
}
