//! Consent, tokens that are replaced in their last day only, identity, and bad days.

use std::time::Duration;

use chrono::TimeDelta;
use holdfast_core::{
    ErrorKind, Health, Provider, Retry,
    exchange::Outcome,
    ports::{Clock, Trigger},
    refresh::Need,
};
use holdfast_sandbox::{Canned, EndForm, Replaces};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::rig::Rig;

const DAY: Duration = Duration::from_hours(24);

fn soon() -> Need {
    Need::ValidFor(Duration::from_mins(1))
}

/// EX-05: whatever the answer calls the end, and whatever our clock says.
#[tokio::test]
async fn an_access_token_lives_an_hour_however_its_end_is_told() {
    let rig = Rig::start().await;
    rig.clock.advance(Duration::from_mins(10));
    for (end, assumed) in [
        (EndForm::At, false),
        (EndForm::AtMs, false),
        (EndForm::AtLife, false),
        (EndForm::Expires, false),
        (EndForm::In, false),
        (EndForm::Nowhere, true),
    ] {
        rig.there.set(|options| options.end = end);
        let tokens = rig.token_set("ada").await;
        let life = tokens.life().unwrap();
        assert!((life - TimeDelta::hours(1)).abs() <= TimeDelta::seconds(2), "{end:?}: {life}");
        assert_eq!(tokens.expires_assumed, assumed, "{end:?}");
        assert_eq!(tokens.ends_at(), None, "nobody has to be told of an end");
    }
}

#[tokio::test]
async fn a_consent_asks_for_nothing_and_only_an_admin_gives_it() {
    let rig = Rig::start().await;
    let url = rig.authorize();
    let names: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    assert_eq!(names, ["response_type", "client_id", "redirect_uri", "state"]);

    assert!(rig.sandbox.consent(url.as_str(), "gus").unwrap_err().description.contains("administrator"));
    assert!(rig.sandbox.deny(url.as_str()).unwrap().contains("error=access_denied"));
    let page = reqwest::get(url).await.unwrap().text().await.unwrap();
    assert!(page.contains("Ada Admin at Acme, admin") && page.contains("Gus Agent at Acme, no admin"), "{page}");
}

#[tokio::test]
async fn a_refresh_keeps_the_refresh_token_until_its_last_day_and_stores_the_new_one_there() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let exposed = || rig.tokens(&connector).refresh_token.unwrap().expose_secret().to_owned();
    let first = exposed();
    let end = rig.tokens(&connector).refresh_expires_at.unwrap();
    let refresh = async || rig.engine.fresh(&connector, &soon(), Trigger::Caller).await.unwrap();

    rig.advance(DAY * 180);
    let before = rig.tokens(&connector).access_token.expose_secret().to_owned();
    refresh().await;
    assert_eq!(exposed(), first);
    assert_ne!(rig.tokens(&connector).access_token.expose_secret(), before);
    assert_eq!(rig.tokens(&connector).refresh_expires_at, Some(end), "no refresh moves it");
    let due = rig.store.row(&connector).credential.due_at.unwrap();
    assert!(due - rig.clock.now() < TimeDelta::hours(1), "{due}");

    rig.advance(DAY + Duration::from_hours(2));
    refresh().await;
    assert_ne!(exposed(), first);
    assert!(rig.there.is_alive(&exposed()) && !rig.there.is_alive(&first));
    let moved = rig.tokens(&connector).refresh_expires_at.unwrap();
    assert!(moved - end > TimeDelta::days(180), "it lives for six months from now");

    rig.advance(DAY * 100);
    refresh().await;
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

/// The other reading of the documentation, and a provider that never does what it says.
#[tokio::test]
async fn a_new_refresh_token_at_each_refresh_is_kept_and_none_at_all_is_told_before_the_end() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    rig.there.set(|options| options.replaces = Replaces::Always);
    for _ in 0..3 {
        rig.advance(Duration::from_hours(2));
        rig.engine.fresh(&connector, &soon(), Trigger::Caller).await.unwrap();
        assert!(rig.there.is_alive(rig.tokens(&connector).refresh_token.unwrap().expose_secret()));
    }
    assert_eq!(rig.there.counters().rotations, 3);

    rig.there.set(|options| options.replaces = Replaces::Never);
    rig.advance(DAY * 180);
    rig.engine.fresh(&connector, &soon(), Trigger::Caller).await.unwrap();
    assert_eq!(rig.tokens(&connector).ends_at(), None, "one may still come");
    rig.advance(DAY + Duration::from_hours(20));
    rig.engine.fresh(&connector, &soon(), Trigger::Caller).await.unwrap();
    assert!(rig.tokens(&connector).ends_at().is_some(), "people are told");
    rig.advance(DAY);
    rig.engine.fresh(&connector, &soon(), Trigger::Caller).await.unwrap_err();
    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
    assert!(rig.front.likely_end(DAY * 182).unwrap().contains("six months"));
}

/// No answer that is lost before the last day can lose the grant: the token works again.
#[tokio::test]
async fn a_lost_answer_to_a_refresh_loses_nothing() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    rig.advance(Duration::from_mins(70));
    rig.there.trouble(|faults| faults.lose_next_answer = 1);

    let mut fresh = rig.engine.fresh(&connector, &soon(), Trigger::Caller).await;
    for _ in 0..5 {
        if fresh.is_ok() {
            break;
        }
        rig.advance(Duration::from_mins(2));
        fresh = rig.engine.fresh(&connector, &soon(), Trigger::Caller).await;
    }

    assert!(rig.there.accepts(fresh.unwrap().credential.secret.bearer().unwrap().expose_secret()));
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

/// TE-07, TE-12 among them.
#[tokio::test]
async fn a_wrong_client_is_the_apps_fault_and_trouble_is_no_verdict_on_the_grant() {
    let rig = Rig::start().await;
    let back = rig.sandbox.consent(rig.authorize().as_str(), "ada").unwrap();
    assert!(matches!(rig.exchange(&back).await, Outcome::Rotated(_)));
    assert!(matches!(rig.exchange(&back).await, Outcome::Rejected(_)), "a code works once");
    for (canned, expected) in [
        (Canned::new(429, "slow down").content_type("text/plain").header("retry-after", "7"), "Busy"),
        (Canned::new(503, "<html>maintenance</html>").content_type("text/html"), "Ambiguous"),
        (Canned::new(500, json!({"error": "invalid_grant"}).to_string()), "Ambiguous"),
        (Canned::new(302, "").header("Location", "https://example.com/"), "Ambiguous"),
        (Canned::new(401, json!({"error": "invalid_grant"}).to_string()), "Rejected"),
        (Canned::new(401, json!({"error": "invalid_client"}).to_string()), "AppBroken"),
        (Canned::new(401, json!({"_error": {"status": 401, "title": "Unauthenticated"}}).to_string()), "Transient"),
        (Canned::new(200, "<html>login</html>").content_type("text/html"), "Ambiguous"),
        (Canned::new(200, ""), "Ambiguous"),
        (Canned::new(200, json!({"access_token": 5}).to_string()), "Ambiguous"),
    ] {
        rig.there.trouble(|faults| faults.token_answer = Some(canned.times(1)));
        let outcome = format!("{:?}", rig.redeem("ada").await);
        assert!(outcome.starts_with(expected), "{outcome} is not {expected}");
    }
    rig.sandbox.set_client_secret("another", None);
    assert!(matches!(rig.redeem("ada").await, Outcome::AppBroken(_)));
}

/// RC-01, RC-02
#[tokio::test]
async fn the_identity_is_the_company_by_an_id_that_never_changes() {
    let rig = Rig::start().await;
    let api = rig.api().await;

    let identity = api.identity().await.unwrap();

    assert_eq!(Some(&identity.account_id), rig.there.company_id("acme").as_ref());
    assert_eq!((identity.account_name.as_str(), &identity.name, &identity.email), ("Acme", &None, &None));
    assert_eq!(api.rate_room().map(|room| room.limit), Some(200));
    let account = rig.front.account("ACME").unwrap();
    assert!(rig.front.is_account(&account, &identity, None));
    let by_id = rig.front.account(&identity.account_id).unwrap();
    assert!(rig.front.is_account(&by_id, &identity, None));
    let globex = rig.api_as("globex").identity().await.unwrap();
    assert!(!rig.front.is_account(&account, &globex, None));

    rig.there.rename("acme", "Zeta");
    let renamed = api.identity().await.unwrap();
    assert!(rig.front.is_account(&account, &renamed, Some(&identity.user_id)));
    assert!(!rig.front.is_account(&account, &globex, Some(&identity.user_id)));
}

#[tokio::test]
async fn an_ended_token_is_renewed_behind_a_call_and_a_removed_app_asks_for_a_person() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let api = holdfast_core::ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    rig.there.expire_access_tokens();
    rig.call(&api, "get_ticket", json!({"ticket_id": rig.id(4)})).await.unwrap();
    assert_eq!(rig.there.counters().exchanges, 1);

    assert_eq!(rig.there.remove_app("acme"), 1);
    let refused = rig.call(&api, "get_ticket", json!({"ticket_id": rig.id(4)})).await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::AuthFailed, "{refused}");
    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
}

/// CO-08, HL-02
#[tokio::test]
async fn a_missing_permission_is_named_and_fails_nothing() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let api = holdfast_core::ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    let id = rig.id(4);
    for (scope, tool, arguments) in [
        ("conversations:read", "search_tickets", json!({})),
        ("comments:read", "get_ticket", json!({"ticket_id": id})),
        ("messages:send", "reply_to_ticket", json!({"ticket_id": id, "body": "x", "public": true})),
        ("comments:write", "reply_to_ticket", json!({"ticket_id": id, "body": "x", "public": false})),
        ("conversations:write", "update_ticket", json!({"ticket_id": id, "assignee": null})),
        ("messages:write", "create_ticket", json!({"subject": "s", "body": "b", "requester": "a@b.c"})),
        ("contacts:read", "find_customer", json!({"email": "a@b.c"})),
    ] {
        rig.there.set(|options| options.lacks = [scope.to_owned()].into());
        let refused = rig.call(&api, tool, arguments).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{tool}: {refused}");
        assert!(refused.message.contains(scope) && refused.message.contains("developer settings"), "{refused}");
    }
    assert_eq!(rig.there.counters().exchanges, 0, "a missing permission is no reason to refresh");
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

#[tokio::test]
async fn a_bad_day_of_the_api_is_told_as_what_it_is() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let said = |status: u16| json!({"_error": {"status": status, "title": "t", "message": "m"}}).to_string();
    for (canned, kind) in [
        (Canned::new(500, "<html>oops</html>").content_type("text/html"), ErrorKind::Unavailable),
        (Canned::new(503, ""), ErrorKind::Unavailable),
        (Canned::new(200, "<html>Sign in</html>").content_type("text/html"), ErrorKind::Unreadable),
        (Canned::new(200, ""), ErrorKind::Unreadable),
        (Canned::new(200, "[]"), ErrorKind::Unreadable),
        (Canned::new(200, json!({"_results": {"id": 5}}).to_string()), ErrorKind::Unreadable),
        (Canned::new(200, json!({"_results": [{"id": 5, "status": "open"}]}).to_string()), ErrorKind::Unreadable),
        (
            Canned::new(200, json!({"_results": [], "_pagination": {"next": "https://x.test/"}}).to_string()),
            ErrorKind::Unreadable,
        ),
        (Canned::new(302, "").header("Location", "https://evil.example/"), ErrorKind::Unreadable),
        (Canned::new(301, "").header("Location", "https://evil.example/conversations/cnv_1"), ErrorKind::Unreadable),
        (Canned::new(400, said(400)), ErrorKind::Invalid),
        (Canned::new(403, said(403)), ErrorKind::Forbidden),
        (Canned::new(404, said(404)), ErrorKind::NotFound),
        (Canned::new(409, said(409)), ErrorKind::Conflict),
        (Canned::new(413, ""), ErrorKind::Invalid),
        (Canned::new(429, said(429)).header("Retry-After", "3600"), ErrorKind::Busy),
    ] {
        rig.there.trouble(|faults| faults.api_answer = Some(canned.clone().times(1)));
        let failed = rig.call(&api, "search_tickets", json!({})).await.unwrap_err();
        assert_eq!(failed.kind, kind, "{canned:?}: {failed}");
        assert!(!failed.message.contains('<'), "{failed}");
    }
    rig.there.trouble(|faults| faults.api_answer = Some(Canned::new(200, json!({"id": 7}).to_string()).times(1)));
    assert_eq!(api.identity().await.unwrap_err().kind, ErrorKind::Unreadable);
}

#[tokio::test]
async fn a_limit_is_waited_for_and_one_that_lasts_is_answered_busy_with_the_time() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let limited = Canned::new(429, json!({"_error": {"status": 429}}).to_string()).header("Retry-After", "7");
    rig.there.trouble(|faults| faults.api_answer = Some(limited.times(1)));
    let started = rig.clock.uptime();
    let (found, ()) = tokio::join!(rig.call(&api, "search_tickets", json!({})), rig.pass(10));
    found.unwrap();
    assert!(rig.clock.uptime() - started >= Duration::from_secs(7));

    rig.there.set_per_minute("acme", 3);
    let busy = api.identity().await;
    let busy = match busy {
        Ok(_) => loop {
            if let Err(busy) = api.identity().await {
                break busy;
            }
        },
        Err(busy) => busy,
    };
    assert_eq!(busy.kind, ErrorKind::Busy);
    let Retry::After(wait) = busy.retry else { panic!("{:?}", busy.retry) };
    assert!(wait > Duration::from_secs(20) && wait <= Duration::from_mins(1), "{wait:?}");
    assert_eq!(api.rate_room().map(|room| room.remaining), Some(0));
}

#[tokio::test]
async fn nothing_leaves_the_two_hosts_of_front_and_no_error_holds_the_token() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    rig.call(&api, "search_tickets", json!({"limit": 5})).await.unwrap();
    rig.call(&api, "get_ticket", json!({"ticket_id": rig.id(2)})).await.unwrap();
    let seen = rig.http.seen();
    let ours = |target: &str| {
        target.contains("/front/api2.frontapp.com/") || target.contains("/front/app.frontapp.com/oauth/token")
    };
    assert!(seen.iter().all(|(target, credential)| *credential && ours(target)), "{seen:?}");

    let token = rig.there.grant("acme").unwrap().access_token;
    rig.there.trouble(|faults| {
        let body = json!({"_error": {"status": 403, "message": "no"}, "token": token}).to_string();
        faults.api_answer = Some(Canned::new(403, body).times(1));
    });
    let refused = rig.call(&api, "search_tickets", json!({})).await.unwrap_err();
    assert!(!refused.to_string().contains(&token), "{refused}");
}
