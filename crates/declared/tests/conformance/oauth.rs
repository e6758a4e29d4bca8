//! Connect, refresh, refuse, tell accounts apart, bad days: the same questions to every shipped file with OAuth.

use std::time::Duration;

use holdfast_core::{
    ErrorKind, Need, Provider, Secret, TokenSet, exchange::Outcome, ports::Trigger, provider::CallbackRefused,
};
use holdfast_sandbox::{CLIENT_SECRET, Canned};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::rig::Rig;

/// What is expected of one service, from what is known of it.
struct Expected {
    /// Seconds; `None`: it does not end.
    life: Option<i64>,
    refresh: Refresh,
    /// What the identity says beside the account.
    user_id: &'static str,
    name: Option<&'static str>,
    other: Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Refresh {
    /// There is no refresh token.
    None,
    /// It stays.
    Kept,
    /// A new one comes.
    Replaced,
}

/// How somebody of another account is noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    /// By the test call's answer.
    Told,
    /// By what the callback brings, before the code is spent.
    Callback,
    /// Not at all: the account is where they sign in.
    Host,
}

async fn connects(id: &str, expected: &Expected) {
    let rig = Rig::start(id).await;

    let (connector, tokens) = rig.connect().await;
    let identity = rig.api(&connector).identity().await.unwrap();

    assert_eq!(tokens.life().map(|life| life.num_seconds()), expected.life);
    assert_eq!(tokens.refresh_token.is_some(), expected.refresh != Refresh::None);
    assert!(rig.provider.is_account(&rig.account, &identity, None), "{identity:?}");
    assert_eq!(identity.user_id, expected.user_id);
    assert_eq!(identity.name.as_deref(), expected.name);
    let lacks = |scope: &&holdfast_core::provider::Scope| !tokens.scopes.iter().any(|got| got == scope.name);
    assert_eq!(rig.provider.about().scopes.iter().filter(lacks).count(), 0, "{:?}", tokens.scopes);
}

fn refresh_token(tokens: &TokenSet) -> &str {
    tokens.refresh_token.as_ref().unwrap().expose_secret()
}

async fn refreshes(id: &str, expected: &Expected) {
    let rig = Rig::start(id).await;
    let (connector, tokens) = rig.connect().await;
    let Some(life) = expected.life else {
        rig.advance(Duration::from_hours(24 * 400));
        rig.api(&connector).identity().await.unwrap();
        return;
    };
    rig.advance(Duration::from_secs(u64::try_from(life).unwrap() - 5));

    let need = Need::ValidFor(Duration::from_mins(1));
    let fresh = rig.engine.fresh(&connector, &need, Trigger::Caller).await.unwrap();

    let after = fresh.credential.secret.tokens().unwrap();
    assert_ne!(after.access_token.expose_secret(), tokens.access_token.expose_secret());
    assert_eq!(refresh_token(after) != refresh_token(&tokens), expected.refresh == Refresh::Replaced);
    assert!(rig.there.is_alive(refresh_token(after)), "what is stored is what works");
    assert_eq!(after.found, tokens.found);
    rig.advance(Duration::from_secs(10));
    rig.api(&connector).identity().await.unwrap();
    assert_eq!(rig.there.refreshes(), 1);
}

async fn tells_the_end(id: &str, expected: &Expected) {
    let rig = Rig::start(id).await;
    let (_, tokens) = rig.connect().await;
    let refused = rig.redeem(&SecretString::from("no-such-code")).await;
    assert!(matches!(refused, Outcome::Rejected(_)), "a code: {refused:?}");
    rig.sandbox.set_client_secret("another", None);
    let code = rig.consent("ada").unwrap();
    let refused = rig.redeem(&code).await;
    assert!(matches!(refused, Outcome::AppBroken(_)), "a wrong secret: {refused:?}");
    rig.sandbox.set_client_secret(CLIENT_SECRET, None);

    rig.there.revoke(id);

    assert_eq!(tokens.refresh_token.is_none(), expected.refresh == Refresh::None);
    if let Some(token) = &tokens.refresh_token {
        let refused = rig.refresh(token).await;
        assert!(matches!(refused, Outcome::Rejected(_)), "a dead grant: {refused:?}");
    }
    let refused = rig.api_with(Secret::Tokens(tokens.clone())).identity().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::AuthFailed, "{refused}");
    assert!(!refused.to_string().contains(tokens.access_token.expose_secret()));
}

async fn tells_accounts_apart(id: &str, expected: &Expected) {
    let rig = Rig::start(id).await;
    let code = match rig.consent("bob") {
        Err(refused) => {
            let other = matches!(refused, CallbackRefused::OtherAccount(_));
            assert!(other && expected.other == Other::Callback, "{refused:?}");
            return;
        }
        Ok(code) => code,
    };
    let Outcome::Rotated(answer) = rig.redeem(&code).await else { panic!("the code was not exchanged") };
    let tokens = TokenSet { access_token: answer.access_token, ..rig.token_set("bob").await };
    let identity = rig.api_with(Secret::Tokens(tokens)).identity().await.unwrap();
    let same = rig.provider.is_account(&rig.account, &identity, None);
    assert_eq!(same, expected.other == Other::Host, "{identity:?}");
}

async fn takes_trouble_for_no_verdict(id: &str) {
    let rig = Rig::start(id).await;
    let (_, tokens) = rig.connect().await;
    let token = tokens.refresh_token.clone().unwrap_or_else(|| "a-refresh-token".into());
    let html = |status| Canned::new(status, "<html>maintenance</html>").content_type("text/html");
    for (canned, wanted) in [
        (html(503).header("Retry-After", "30"), "Ambiguous"),
        (html(200), "Ambiguous"),
        (html(403), "Transient"),
        (html(302).header("Location", "https://example.com/"), "Ambiguous"),
        (Canned::new(429, "slow down").content_type("text/plain"), "Busy"),
        (Canned::new(500, json!({"error": "invalid_grant"}).to_string()), "Ambiguous"),
        (Canned::new(200, json!({"access_token": ""}).to_string()), "Ambiguous"),
        (Canned::new(200, json!({"access_token": 7, "ok": true}).to_string()), "Ambiguous"),
        (Canned::new(200, "[]"), "Ambiguous"),
    ] {
        rig.there.trouble(|faults| faults.token_answer = Some(canned.clone().times(1)));
        let outcome = format!("{:?}", rig.refresh(&token).await);
        assert!(outcome.starts_with(wanted), "{canned:?}: {outcome} is not {wanted}");
        assert!(!outcome.contains(token.expose_secret()));
    }
    let api = rig.api_with(Secret::Tokens(tokens));
    for (canned, kind) in [
        (html(200), ErrorKind::Unreadable),
        (Canned::new(200, r#""nobody""#), ErrorKind::Unreadable),
        (Canned::new(200, r#"{"nobody": true}"#), ErrorKind::Unreadable),
        (html(503), ErrorKind::Unavailable),
        (html(403), ErrorKind::Forbidden),
        (html(404), ErrorKind::NotFound),
    ] {
        rig.there.trouble(|faults| faults.api_answer = Some(canned.clone()));
        let error = api.identity().await.unwrap_err();
        assert_eq!(error.kind, kind, "{canned:?}: {error}");
    }
    rig.there.trouble(|faults| faults.api_answer = None);
    api.identity().await.unwrap();
}

macro_rules! conformance {
    ($($module:ident: $id:literal, $expected:expr;)*) => {
        $(mod $module {
            use super::*;

            #[tokio::test]
            async fn a_consent_brings_tokens_and_the_test_call_says_whose_they_are() {
                connects($id, &$expected).await;
            }

            #[tokio::test]
            async fn a_refresh_brings_a_token_that_works_and_stores_the_refresh_token_that_lives() {
                refreshes($id, &$expected).await;
            }

            #[tokio::test]
            async fn a_dead_grant_a_spent_code_and_a_wrong_secret_are_told_apart() {
                tells_the_end($id, &$expected).await;
            }

            #[tokio::test]
            async fn somebody_of_another_account_is_noticed() {
                tells_accounts_apart($id, &$expected).await;
            }

            #[tokio::test]
            async fn trouble_and_nonsense_are_no_verdict() {
                takes_trouble_for_no_verdict($id).await;
            }
        })*

        /// The ids above.
        const COVERED: &[&str] = &[$($id),*];
    };
}

const ADA: Option<&str> = Some("Ada Lindholm");

const fn expect(
    life: Option<i64>,
    refresh: Refresh,
    user_id: &'static str,
    name: Option<&'static str>,
    other: Other,
) -> Expected {
    Expected { life, refresh, user_id, name, other }
}

conformance! {
    auth0: "auth0", expect(Some(86_400), Refresh::Replaced, "00u1", ADA, Other::Host);
    dropbox: "dropbox", expect(Some(14_400), Refresh::Kept, "dbid:1", ADA, Other::Told);
    github: "github", expect(Some(28_800), Refresh::Replaced, "583231", ADA, Other::Told);
    helpscout: "helpscout", expect(Some(172_800), Refresh::Replaced, "4", ADA, Other::Told);
    hubspot: "hubspot", expect(Some(1800), Refresh::Kept, "62515987", None, Other::Told);
    intercom: "intercom", expect(None, Refresh::None, "814860", ADA, Other::Told);
    jira: "jira-service-management", expect(Some(3600), Refresh::Replaced, "acme.atlassian.net", None, Other::Told);
    microsoft: "microsoft-graph", expect(Some(4210), Refresh::Replaced, "48d31887", ADA, Other::Told);
    notion: "notion", expect(None, Refresh::None, "n-1", Some("Holdfast"), Other::Told);
    okta: "okta", expect(Some(3600), Refresh::Replaced, "00u1", ADA, Other::Host);
    quickbooks: "quickbooks", expect(Some(3600), Refresh::Replaced, "9130357849536736", None, Other::Callback);
    salesforce: "salesforce", expect(Some(7200), Refresh::Kept, "005", ADA, Other::Host);
    slack: "slack", expect(Some(43_200), Refresh::Replaced, "U7", Some("holdfast"), Other::Told);
    xero: "xero", expect(Some(1800), Refresh::Replaced, "tidewater supply", None, Other::Told);
    zoho: "zoho", expect(Some(3600), Refresh::Kept, "4150868000000225013", None, Other::Callback);
}

#[test]
fn every_shipped_file_is_asked() {
    let mut covered: Vec<_> = COVERED.iter().chain(crate::by_key::COVERED).copied().collect();
    covered.sort_unstable();
    let id = |name: &'static str| name.trim_start_matches("config/providers/").trim_end_matches(".toml");
    let shipped: Vec<_> = holdfast_declared::SHIPPED.iter().map(|(name, _)| id(name)).collect();
    assert_eq!(covered, shipped);
}
