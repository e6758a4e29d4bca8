//! The key: whose it is, what becomes of it, and what the provider's bad days look like.

use std::time::Duration;

use holdfast_core::{ErrorKind, Health, Provider, Retry, ports::Clock};
use holdfast_sandbox::{Canned, FreshdeskPlan, TicketScope};
use serde_json::json;

use crate::rig::Rig;

#[tokio::test]
async fn the_identity_is_the_account_and_whose_key_it_is() {
    let rig = Rig::start().await;

    let identity = rig.api_as("ada").identity().await.unwrap();

    assert_eq!(identity.account_id, "acme");
    assert_eq!(identity.account_name, "acme.freshdesk.com");
    assert_eq!(identity.name.as_deref(), Some("Ada Admin"));
    assert_eq!(identity.email.as_deref(), Some("ada.admin@acme.example"));
    assert_eq!(identity.role.as_deref(), Some("support_agent"));
    assert!(identity.user_id.parse::<i64>().is_ok());
    assert_eq!(rig.calls(), 1);
}

/// HL-08
#[tokio::test]
async fn a_refused_key_a_missing_right_and_a_wrong_address_have_three_texts() {
    let rig = Rig::start().await;
    let key = rig.acme.api_key("gus").unwrap();

    // No administrator, and sees only some tickets: passes, and says so.
    let limited = rig.api_as("lia").identity().await.unwrap();
    assert_eq!(limited.role.as_deref(), Some("support_agent (sees their own tickets only)"));

    let wrong_key = rig.api_with("acme", "AAAAAAAAAAAAAAAAAAAA").identity().await.unwrap_err();
    assert_eq!(wrong_key.kind, ErrorKind::AuthFailed);
    assert!(wrong_key.message.contains("refuses the API key"), "{wrong_key}");

    let no_right = rig.api_as("oz").identity().await.unwrap_err();
    assert_eq!(no_right.kind, ErrorKind::Forbidden);
    assert!(no_right.message.contains("day pass"), "{no_right}");

    let wrong_address = rig.api_with("nowhere", &key).identity().await.unwrap_err();
    assert_eq!(wrong_address.kind, ErrorKind::Unavailable);
    assert!(wrong_address.message.contains("no Freshdesk at this address"), "{wrong_address}");

    let other_account = rig.api_with("globex", &key).identity().await.unwrap_err();
    assert_eq!(other_account.kind, ErrorKind::AuthFailed, "a key is good in its own account alone");
}

#[tokio::test]
async fn a_key_that_was_reset_asks_for_a_person_after_one_confirming_call() {
    let rig = Rig::start().await;
    let connector = rig.connect("gus");
    let api = rig.api(&connector);
    rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();
    let before = rig.calls();
    rig.acme.reset_key("gus");

    let refused = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::AuthFailed);
    assert_eq!(rig.health(&connector), Health::AuthFailed);
    // The ticket, and the test call that confirmed it.
    assert_eq!(rig.calls() - before, 2);

    // Wrong keys lock the sign-in: nothing more is sent.
    rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap_err();
    assert_eq!(rig.calls() - before, 2);
}

#[tokio::test]
async fn one_401_is_no_verdict_while_the_test_call_passes() {
    let rig = Rig::start().await;
    let connector = rig.connect("gus");
    let api = rig.api(&connector);
    let refusal = json!({"code": "invalid_credentials", "message": "You have to be logged in to perform this action."});
    rig.acme.trouble(|trouble| {
        trouble.answer = Some(Canned::new(401, refusal.to_string()));
        trouble.only_at = Some("tickets/5".to_owned());
    });

    rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap_err();

    assert_eq!(rig.health(&connector), Health::Connected);
    rig.call(&api, "get_ticket", json!({"ticket_id": "7"})).await.unwrap();
}

#[tokio::test]
async fn an_agent_who_comes_back_heals_the_connector_with_a_test() {
    let rig = Rig::start().await;
    let connector = rig.connect("gus");
    rig.acme.set_active("gus", false);
    let failed = rig.engine.test(&connector).await.unwrap();
    assert_eq!(failed.identity.unwrap_err().kind, ErrorKind::AuthFailed);
    assert_eq!(rig.health(&connector), Health::AuthFailed);
    rig.acme.set_active("gus", true);

    let healed = rig.engine.test(&connector).await.unwrap();

    assert_eq!(healed.identity.unwrap().name.as_deref(), Some("Gus Agent"));
    assert_eq!(rig.health(&connector), Health::Connected);
    assert_eq!(healed.rate_room.map(|room| room.limit), Some(700));
}

#[tokio::test]
async fn no_trouble_of_freshdesks_is_a_verdict_on_the_key() {
    let rig = Rig::start().await;
    let connector = rig.connect("gus");
    for (canned, kind) in [
        (Canned::new(500, "<html>oops</html>").content_type("text/html"), ErrorKind::Unavailable),
        (Canned::new(503, ""), ErrorKind::Unavailable),
        (
            Canned::new(404, "<html>nothing here</html>").content_type("text/html; charset=utf-8"),
            ErrorKind::Unavailable,
        ),
        (Canned::new(200, "<html>Sign in</html>").content_type("text/html"), ErrorKind::Unreadable),
        (Canned::new(200, "{\"id\": \"x\"}"), ErrorKind::Unreadable),
        (Canned::new(200, ""), ErrorKind::Unreadable),
        (Canned::new(302, "").header("Location", "https://support.acme.example/"), ErrorKind::Unreadable),
        (Canned::new(403, "<html>blocked</html>").content_type("text/html"), ErrorKind::Forbidden),
        (Canned::new(402, "{}"), ErrorKind::Forbidden),
    ] {
        let status = canned.status;
        rig.acme.trouble(|trouble| trouble.answer = Some(canned));

        let error = rig.engine.test(&connector).await.unwrap().identity.unwrap_err();

        assert_eq!(error.kind, kind, "{status}: {error}");
        assert!(!error.message.contains('<'), "{error}");
        assert_eq!(rig.health(&connector), Health::Connected, "{status}");
    }
}

#[tokio::test]
async fn plan_and_suspension_are_told_apart_from_the_key() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");

    rig.acme.set_plan(FreshdeskPlan::Free);
    let plan = api.identity().await.unwrap_err();
    assert_eq!(plan.kind, ErrorKind::Forbidden);
    assert!(plan.message.contains("the plan of the Freshdesk account"), "{plan}");

    rig.acme.set_plan(FreshdeskPlan::Growth);
    rig.acme.set_suspended(true);
    let suspended = api.identity().await.unwrap_err();
    assert_eq!(suspended.kind, ErrorKind::Forbidden);
    assert!(suspended.message.contains("suspended"), "{suspended}");

    assert!(rig.sandbox.close_freshdesk("acme"));
    let gone = api.identity().await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_it_says() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    let limited =
        Canned::new(429, json!({"message": "You have exceeded the limit of requests per minute"}).to_string());
    rig.acme.trouble(|trouble| trouble.answer = Some(limited.header("Retry-After", "7").times(1)));
    let started = rig.clock.uptime();

    let (read, ()) = tokio::join!(rig.call(&api, "get_ticket", json!({"ticket_id": "5"})), rig.pass(10));

    read.unwrap();
    assert!(rig.clock.uptime() - started >= Duration::from_secs(7));
    // The refused one, the ticket, its conversations.
    assert_eq!(rig.calls(), 3);
}

#[tokio::test]
async fn a_limit_that_lasts_is_answered_busy_with_the_time() {
    let rig = Rig::start().await;
    rig.acme.set_plan(FreshdeskPlan::Trial);
    let api = rig.api_as("ada");
    for _ in 0..50 {
        api.identity().await.unwrap();
    }
    assert_eq!(api.rate_room().map(|room| (room.limit, room.remaining)), Some((50, 0)));

    let busy = api.identity().await.unwrap_err();

    assert_eq!(busy.kind, ErrorKind::Busy);
    let Retry::After(wait) = busy.retry else { panic!("{:?}", busy.retry) };
    assert!(wait > Duration::from_secs(20) && wait <= Duration::from_mins(1), "{wait:?}");
}

#[tokio::test]
async fn every_spelling_of_an_account_reaches_the_same_helpdesk() {
    let rig = Rig::start().await;
    let key = rig.acme.api_key("gus").unwrap();
    for typed in ["acme", "ACME.freshdesk.com", "https://acme.freshdesk.com/a/tickets/1"] {
        let account = rig.freshdesk.account(typed).unwrap();
        assert_eq!(rig.api_with(&account.id, &key).identity().await.unwrap().account_id, "acme");
    }
}

#[tokio::test]
async fn no_error_holds_the_key() {
    let rig = Rig::start().await;
    let key = "SECRETsecretSECRET12";
    let echo = json!({"code": "invalid_credentials", "message": "no"});
    let api = rig.api_with("acme", key);
    for canned in [Canned::new(401, echo.to_string()), Canned::new(500, key), Canned::new(200, format!("\"{key}\""))] {
        rig.acme.trouble(|trouble| trouble.answer = Some(canned));
        let error = api.identity().await.unwrap_err();
        assert!(!error.to_string().contains(key), "{error}");
    }
}

#[tokio::test]
async fn a_right_that_is_taken_away_hides_tickets_and_fails_nothing() {
    let rig = Rig::start().await;
    let connector = rig.connect("gus");
    let api = rig.api(&connector);
    let gus = json!(rig.acme.agent_id("gus"));
    let responder = |id: &i64| rig.acme.ticket(*id).unwrap()["responder_id"].clone();
    let others = (1..=20).find(|id| !responder(id).is_null() && responder(id) != gus);
    let id = others.unwrap().to_string();
    rig.acme.restrict("gus", TicketScope::Own);

    let error = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap_err();

    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert!(error.message.contains("the agent whose API key this is"), "{error}");
    assert_eq!(rig.health(&connector), Health::Connected);
}
