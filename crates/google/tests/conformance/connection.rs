//! From consent to revocation.

use std::time::Duration;

use holdfast_core::{
    ErrorKind, Health, Need, Provider,
    exchange::Outcome,
    ports::{Clock, Trigger},
};
use holdfast_sandbox::Canned;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use url::Url;

use crate::rig::{ADA, ALL, Rig};

const DAY: Duration = Duration::from_hours(24);

fn long(scope: &str) -> String {
    if scope == "openid" { scope.to_owned() } else { format!("https://www.googleapis.com/auth/{scope}") }
}

/// CO-11
#[tokio::test]
async fn every_consent_brings_a_refresh_token_and_all_that_was_asked_for() {
    let rig = Rig::start().await;
    for _ in 0..2 {
        let tokens = rig.token_set("ada", &[]).await;

        assert_eq!(tokens.life().unwrap().num_seconds(), 3599);
        assert!(tokens.refresh_token.is_some() && tokens.refresh_expires_at.is_none());
        let mut scopes = tokens.scopes.clone();
        scopes.sort();
        let mut asked: Vec<String> = ALL.iter().map(|scope| long(scope)).collect();
        asked.sort();
        assert_eq!(scopes, asked);
        assert!(rig.there.accepts(tokens.access_token.expose_secret()));
    }
    assert_eq!(rig.there.living("ada"), 2);
}

/// CO-11: what it would be without `prompt` and `access_type`.
#[tokio::test]
async fn a_second_consent_without_the_prompt_brings_no_refresh_token() {
    let rig = Rig::start().await;
    rig.token_set("ada", &[]).await;
    let (mut url, verifier) = rig.authorize();
    let kept: Vec<(String, String)> = url.query_pairs().into_owned().filter(|(name, _)| name != "prompt").collect();
    url.query_pairs_mut().clear().extend_pairs(kept);

    let back = rig.there.consent(url.as_str(), "ada", &[]).unwrap();

    let Outcome::Rotated(answer) = rig.exchange(&back, &verifier).await else { panic!("the code was not exchanged") };
    assert!(answer.refresh_token.is_none());
    assert!(rig.google.grants().need_refresh_token, "and such a grant is not to be stored");
}

#[tokio::test]
async fn the_consent_page_shows_a_box_for_each_product_and_who_was_asked_for() {
    let rig = Rig::start().await;
    let (url, _) = rig.authorize();

    let page = reqwest::get(url).await.unwrap().text().await.unwrap();

    assert_eq!(page.matches(r#"type="checkbox" name="granted""#).count(), 4);
    assert!(page.contains(r#"value="110248495921238986420" checked"#), "login_hint chooses Ada");
}

#[tokio::test]
async fn a_denial_and_a_foreign_client_are_told() {
    let rig = Rig::start().await;
    let (url, _) = rig.authorize();
    assert!(rig.sandbox.deny(url.as_str()).unwrap().contains("error=access_denied"));
    let foreign = url.as_str().replace("client_id=zdg-holdfast", "client_id=other");
    assert_eq!(rig.sandbox.consent(&foreign, "ada").unwrap_err().error, "invalid_client");
}

/// A person unticks a box: what was granted is what the token can do, and what is missing is no reason to refuse it.
#[tokio::test]
async fn a_partial_consent_is_known_from_the_answer() {
    let rig = Rig::start().await;

    let tokens = rig.token_set("ada", &["gmail.send", "spreadsheets"]).await;

    let asked = rig.facts().scopes;
    let missing: Vec<String> = asked.into_iter().filter(|scope| !tokens.scopes.contains(scope)).collect();
    assert_eq!(missing, [long("gmail.send"), long("spreadsheets")]);
    assert!(rig.google.indispensable(&missing).is_empty());

    let nothing = rig.token_set("ada", &["gmail.readonly", "gmail.send", "calendar.events", "spreadsheets"]).await;
    let asked = rig.facts().scopes;
    let missing: Vec<String> = asked.into_iter().filter(|scope| !nothing.scopes.contains(scope)).collect();
    assert_eq!(rig.google.indispensable(&missing), missing);
}

#[tokio::test]
async fn a_refresh_brings_an_access_token_and_keeps_the_refresh_token() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let before = rig.store.row(&connector).credential.secret.tokens().unwrap().clone();
    rig.advance(Duration::from_mins(59));

    let fresh = rig.engine.fresh(&connector, &Need::ValidFor(Duration::from_mins(10)), Trigger::Caller).await.unwrap();

    let tokens = fresh.credential.secret.tokens().unwrap();
    let exposed = |token: &Option<SecretString>| token.as_ref().unwrap().expose_secret().to_owned();
    assert_eq!(exposed(&tokens.refresh_token), exposed(&before.refresh_token));
    assert_ne!(tokens.access_token.expose_secret(), before.access_token.expose_secret());
    assert!(rig.there.accepts(tokens.access_token.expose_secret()));
    assert_eq!((rig.there.counters().exchanges, rig.there.counters().rotations), (1, 1));
}

/// No answer that is lost can lose the grant: the token works again.
#[tokio::test]
async fn a_lost_answer_to_a_refresh_loses_nothing() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    rig.advance(Duration::from_mins(70));
    rig.there.trouble(|faults| faults.lose_next_answer = 1);
    let need = Need::ValidFor(Duration::from_mins(1));
    let ask = || rig.engine.fresh(&connector, &need, Trigger::Caller);

    let mut fresh = ask().await;
    for _ in 0..5 {
        if fresh.is_ok() {
            break;
        }
        rig.advance(Duration::from_mins(2));
        fresh = ask().await;
    }

    assert!(rig.there.accepts(fresh.unwrap().credential.secret.bearer().unwrap().expose_secret()));
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

#[tokio::test]
async fn a_wrong_client_secret_is_the_apps_fault_and_a_wrong_code_is_not() {
    let rig = Rig::start().await;
    let (url, verifier) = rig.authorize();
    let back = rig.there.consent(url.as_str(), "ada", &[]).unwrap();
    assert!(matches!(rig.exchange(&back, &verifier).await, Outcome::Rotated(_)));
    assert!(matches!(rig.exchange(&back, &verifier).await, Outcome::Rejected(_)), "a code works once");
    assert_eq!(rig.there.living("ada"), 0, "and its second use takes back what the first one bought");

    let other = SecretString::from("another-verifier-of-at-least-forty-three-characters-01234");
    let back = rig.there.consent(url.as_str(), "ada", &[]).unwrap();
    assert!(matches!(rig.exchange(&back, &other).await, Outcome::Rejected(_)));

    rig.sandbox.set_client_secret("another", None);
    assert!(matches!(rig.redeem("ada", &[]).await, Outcome::AppBroken(_)));
}

#[tokio::test]
async fn trouble_at_the_token_endpoint_is_no_verdict_on_the_grant() {
    let rig = Rig::start().await;
    let html = || Canned::new(503, "<html>maintenance</html>").content_type("text/html");
    for (canned, expected) in [
        (html().header("Retry-After", "30"), "Busy"),
        (Canned::new(429, "slow down").content_type("text/plain"), "Busy"),
        (html(), "Transient"),
        (Canned::new(500, json!({"error": "invalid_grant"}).to_string()), "Transient"),
        (Canned::new(302, "").header("Location", "https://example.com/"), "Transient"),
        (Canned::new(400, json!({"error": "internal_failure"}).to_string()), "Transient"),
        (Canned::new(401, json!({"error": "deleted_client"}).to_string()), "AppBroken"),
        (Canned::new(400, json!({"error": "admin_policy_enforced"}).to_string()), "Rejected"),
        (Canned::new(200, "<html>login</html>").content_type("text/html"), "Ambiguous"),
        (Canned::new(200, ""), "Ambiguous"),
    ] {
        rig.there.trouble(|faults| faults.token_answer = Some(canned.times(1)));
        let outcome = format!("{:?}", rig.redeem("ada", &[]).await);
        assert!(outcome.starts_with(expected), "{outcome} is not {expected}");
    }
}

#[tokio::test]
async fn session_control_is_told_by_its_subtype() {
    let rig = Rig::start().await;
    let body =
        json!({"error": "invalid_grant", "error_description": "reauth related error", "error_subtype": "invalid_rapt"});
    rig.there.trouble(|faults| faults.token_answer = Some(Canned::new(400, body.to_string()).times(1)));

    let Outcome::Rejected(refusal) = rig.redeem("ada", &[]).await else { panic!("it is over") };

    assert!(refusal.words().contains("invalid_rapt"), "{}", refusal.words());
}

/// RC-09
#[tokio::test]
async fn a_grant_of_an_app_in_testing_ends_after_seven_days_and_that_is_known_before() {
    let rig = Rig::start().await;
    rig.there.set(|options| options.testing = true);
    let connector = rig.connect().await;
    let given = rig.clock.now();
    let need = Need::ValidFor(Duration::from_mins(1));
    let ask = || rig.engine.fresh(&connector, &need, Trigger::Caller);
    rig.advance(DAY);
    let fresh = ask().await.unwrap();
    let end = fresh.credential.secret.tokens().unwrap().ends_at().unwrap();
    assert!(((end - given).num_seconds() - 604_799).abs() <= 1, "refreshes do not move it");

    rig.advance(6 * DAY);
    let refused = ask().await;

    assert!(refused.is_err());
    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
    let lived = (rig.clock.now() - given).to_std().unwrap();
    assert!(rig.google.likely_end(lived).unwrap().contains("Testing"));
}

#[tokio::test]
async fn a_changed_password_and_the_hundred_and_first_token_end_a_grant() {
    let rig = Rig::start().await;
    let first = rig.there.grant("ada", &ALL).unwrap();
    for _ in 0..100 {
        rig.there.grant("ada", &ALL).unwrap();
    }
    assert!(!rig.there.is_alive(&first.refresh_token), "the oldest dies without a word");
    assert_eq!(rig.there.living("ada"), 100);

    let calendar = rig.there.grant("bob", &["openid", "calendar.events"]).unwrap();
    let mail = rig.there.grant("bob", &["openid", "gmail.readonly"]).unwrap();
    rig.there.change_password("bob");
    assert!(rig.there.is_alive(&calendar.refresh_token) && !rig.there.is_alive(&mail.refresh_token));
}

#[tokio::test]
async fn giving_one_grant_back_ends_all_of_the_person_and_of_nobody_else() {
    let rig = Rig::start().await;
    let (one, other) = (rig.there.grant("ada", &ALL).unwrap(), rig.there.grant("ada", &ALL).unwrap());
    let bobs = rig.there.grant("bob", &ALL).unwrap();
    assert!(rig.google.grants().end_together, "so it is said");

    let token = SecretString::from(one.refresh_token.clone());
    assert!(rig.engine.revoke(&rig.facts(), &rig.app, &token).await);

    assert!(!rig.there.is_alive(&one.refresh_token) && !rig.there.is_alive(&other.refresh_token));
    assert!(!rig.there.accepts(&other.access_token));
    assert!(rig.there.is_alive(&bobs.refresh_token));
    assert!(!rig.engine.revoke(&rig.facts(), &rig.app, &token).await, "it is nobody's any more");
}

#[tokio::test]
async fn the_identity_is_the_person_by_an_id_that_never_changes() {
    let rig = Rig::start().await;
    let api = rig.api().await;

    let identity = api.identity().await.unwrap();

    assert_eq!(identity.user_id, "110248495921238986420");
    assert_eq!((identity.account_id.as_str(), identity.email.as_deref()), (ADA, Some(ADA)));
    let account = rig.google.account(ADA).unwrap();
    assert!(rig.google.is_account(&account, &identity, None));

    assert!(rig.there.rename("ada", "ada@married.example", "Ada King"));
    let renamed = api.identity().await.unwrap();
    assert!(rig.google.is_account(&account, &renamed, Some("110248495921238986420")), "RC-02");
    assert!(!rig.google.is_account(&account, &renamed, None));

    let bob = rig.api_as("bob", "bob@example.com", &ALL).identity().await.unwrap();
    assert!(!rig.google.is_account(&account, &bob, Some("110248495921238986420")), "RC-01");
}

#[tokio::test]
async fn an_identity_that_is_not_proven_is_refused_with_what_to_do() {
    let rig = Rig::start().await;
    rig.there.set_verified("bob", false);
    let unproven = rig.api_as("bob", "bob@example.com", &ALL).identity().await.unwrap_err();
    assert_eq!(unproven.kind, ErrorKind::Forbidden);
    assert!(unproven.message.contains("verify it there"), "{unproven}");

    let silent = rig.api_as("ada", ADA, &["openid"]).identity().await.unwrap_err();
    assert_eq!(silent.kind, ErrorKind::Forbidden);

    let dead = rig.api_as("ada", ADA, &ALL);
    rig.there.revoke("ada");
    assert_eq!(dead.identity().await.unwrap_err().kind, ErrorKind::AuthFailed);
}

/// CO-08: the other products work on, nothing is refreshed, and no health changes.
#[tokio::test]
async fn a_tool_without_its_scope_says_which_box_to_tick() {
    let rig = Rig::start().await;
    let some = ["openid", "userinfo.email", "calendar.events"];
    let api = rig.api_as("ada", ADA, &some);
    for (tool, arguments, needs) in [
        ("search_mail", json!({}), "gmail.readonly"),
        ("get_mail", json!({"message_id": "19ab"}), "gmail.readonly"),
        ("send_mail", json!({"to": ["bob@example.com"], "subject": "x", "body": "x"}), "gmail.send"),
        ("reply_mail", json!({"message_id": "19ab", "body": "x", "to_all": false}), "gmail.send"),
        ("read_sheet", json!({"spreadsheet_id": "x", "range": "A1"}), "spreadsheets"),
        ("append_sheet", json!({"spreadsheet_id": "x", "range": "A1", "rows": [["x"]]}), "spreadsheets"),
    ] {
        let refused = rig.call(&api, tool, arguments).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{refused}");
        assert!(refused.message.contains(needs) && refused.message.contains("leave it ticked"), "{refused}");
    }
    rig.call(&api, "list_events", json!({"time_min": "2026-01-01T00:00:00Z"})).await.unwrap();
    assert_eq!(rig.there.counters().exchanges, 0);
}

#[tokio::test]
async fn an_expired_token_is_renewed_behind_a_call() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    rig.there.expire_access_tokens();

    rig.call(&api, "search_mail", json!({"limit": 1})).await.unwrap();

    assert_eq!(rig.there.counters().rotations, 1);
}

#[tokio::test]
async fn a_bad_day_of_an_api_is_told_as_what_it_is() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let reason = |code: u16, reason: &str| {
        json!({"error": {"code": code, "message": "x", "errors": [{"domain": "usageLimits", "reason": reason}]}})
            .to_string()
    };
    for (canned, kind) in [
        (Canned::new(403, reason(403, "rateLimitExceeded")), ErrorKind::Busy),
        (Canned::new(403, reason(403, "userRateLimitExceeded")), ErrorKind::Busy),
        (Canned::new(403, reason(403, "dailyLimitExceeded")), ErrorKind::Busy),
        (Canned::new(429, reason(429, "rateLimitExceeded")).header("Retry-After", "3600"), ErrorKind::Busy),
        (Canned::new(403, reason(403, "accessNotConfigured")), ErrorKind::Forbidden),
        (Canned::new(503, "<html>").content_type("text/html"), ErrorKind::Unavailable),
        (Canned::new(200, "<html>").content_type("text/html"), ErrorKind::Unreadable),
        (Canned::new(200, ""), ErrorKind::Unreadable),
        (Canned::new(200, "[]"), ErrorKind::Unreadable),
        (Canned::new(302, "").header("Location", "https://evil.example/"), ErrorKind::Unreadable),
    ] {
        rig.there.trouble(|faults| faults.api_answer = Some(canned.clone().times(1)));
        let failed = rig.call(&api, "search_mail", json!({})).await.unwrap_err();
        assert_eq!(failed.kind, kind, "{canned:?}: {failed}");
    }
}

/// The proxy's way: the name of a place comes first, and nothing but the account's APIs is reached.
#[tokio::test]
async fn a_passed_on_request_reaches_each_api_by_its_prefix() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let sheet = rig.there.spreadsheet();
    rig.http.seen();
    for path in [
        "gmail/v1/users/me/profile",
        &format!("sheets/v4/spreadsheets/{sheet}/values/Orders"),
        "openid/v1/userinfo",
        "calendar/v3/calendars/primary/events",
    ] {
        let call = api.get(path).operation("pass").pass_through(None, http::HeaderMap::new());
        assert_eq!(call.raw().await.unwrap().status, 200, "{path}");
    }
    for path in ["oauth2/v4/token", "o/oauth2/revoke", "OAuth2/v1/tokeninfo"] {
        let call = api.get(path).operation("pass").pass_through(None, http::HeaderMap::new());
        assert_eq!(call.raw().await.map(drop).unwrap_err().kind, ErrorKind::Forbidden, "{path}");
    }
    let seen = rig.http.seen();
    let base = Url::parse(&rig.sandbox.google_override()).unwrap();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|(target, bearer)| *bearer && target.contains(base.path())), "{seen:?}");
}
