//! What only some services have: ids that requests need, hosts that answers name, graces, other regions.

use std::time::Duration;

use holdfast_core::{ErrorKind, Need, Provider, Secret, api_client::ApiRequest, exchange::Outcome, ports::Trigger};
use holdfast_sandbox::Canned;
use http::{HeaderMap, Method};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::rig::Rig;

async fn json_of(request: ApiRequest<'_>) -> Value {
    request.operation("read").fetch().await.unwrap()
}

#[tokio::test]
async fn a_xero_request_goes_to_the_connected_organisation_whatever_a_caller_says() {
    let rig = Rig::start("xero").await;
    let (connector, _) = rig.connect().await;
    let api = rig.api(&connector);
    let mut forged = HeaderMap::new();
    forged.insert("xero-tenant-id", "11111111-0000-4000-8000-000000000000".parse().unwrap());

    let own = json_of(api.get("api.xro/2.0/Organisation")).await;
    let passed = json_of(api.get("api.xro/2.0/Organisation").pass_through(None, forged)).await;

    assert_eq!(own["Organisations"][0]["Name"], "Tidewater Supply");
    assert_eq!(own, passed);
}

#[tokio::test]
async fn a_jira_request_goes_to_the_site_that_was_meant_of_several() {
    let rig = Rig::start("jira-service-management").await;
    let (connector, _) = rig.connect().await;
    let api = rig.api(&connector);
    assert_eq!(json_of(api.get("rest/api/3/myself")).await["site"], "acme");

    rig.advance(Duration::from_hours(2));

    assert_eq!(json_of(api.get("rest/api/3/myself")).await["site"], "acme", "after a refresh too");
    let escape = api.get("../11111111-0000-4000-8000-000000000000/rest/api/3/myself");
    assert!(escape.operation("read").fetch::<Value>().await.is_err());
}

#[tokio::test]
async fn a_consent_that_does_not_reach_the_site_is_told_by_what_it_reaches() {
    let rig = Rig::start("jira-service-management").await;
    let tokens = rig.token_set("bob").await;

    let identity = rig.api_with(Secret::Tokens(tokens)).identity().await.unwrap();

    let got = (identity.account_name.as_str(), identity.account_id.as_str());
    assert_eq!(got, ("globex", "https://globex.atlassian.net"));
}

#[tokio::test]
async fn a_host_out_of_an_answer_is_taken_from_the_list_alone() {
    for (id, own, field, foreign) in [
        ("salesforce", "acme.my.salesforce.com", "instance_url", "https://acme.my.salesforce.com.evil.test"),
        ("zoho", "www.zohoapis.eu", "api_domain", "https://www.zohoapis.evil"),
    ] {
        let rig = Rig::start(id).await;
        let (_, tokens) = rig.connect().await;
        let there = format!("{}/{own}/", rig.sandbox.generic_override());
        assert_eq!(tokens.base_url.as_ref().map(|url| url.as_str().to_owned()), Some(there), "{id}");

        let answer = json!({"access_token": "AT-0123456789", field: foreign});
        let canned = Canned::new(200, answer.to_string()).times(1);
        rig.there.trouble(|faults| faults.token_answer = Some(canned));
        let answer = rig.refresh(tokens.refresh_token.as_ref().unwrap()).await;

        let Outcome::Rotated(answer) = answer else { panic!("{id}: {answer:?}") };
        assert_eq!(answer.base_url, None, "{id}: tokens would go there");
    }
}

#[tokio::test]
async fn a_refresh_token_that_begins_to_rotate_is_stored() {
    let rig = Rig::start("salesforce").await;
    let (connector, tokens) = rig.connect().await;
    rig.there.rotate_all();
    rig.advance(Duration::from_hours(2));

    let need = Need::ValidFor(Duration::from_mins(1));
    let fresh = rig.engine.fresh(&connector, &need, Trigger::Caller).await.unwrap();

    let after = fresh.credential.secret.tokens().unwrap().refresh_token.clone().unwrap();
    assert_ne!(after.expose_secret(), tokens.refresh_token.unwrap().expose_secret());
    assert!(rig.there.is_alive(after.expose_secret()));
}

#[tokio::test]
async fn a_used_refresh_token_brings_the_same_set_again_within_the_grace_that_the_file_names() {
    for id in ["jira-service-management", "okta", "xero"] {
        let rig = Rig::start(id).await;
        let (_, tokens) = rig.connect().await;
        let token = tokens.refresh_token.unwrap();
        let grace = rig.facts().reuse_grace;
        let Outcome::Rotated(first) = rig.refresh(&token).await else { panic!("{id}") };

        rig.advance(grace - Duration::from_secs(5));
        let Outcome::Rotated(again) = rig.refresh(&token).await else { panic!("{id}: within the grace") };
        rig.advance(Duration::from_secs(10));
        let late = rig.refresh(&token).await;

        assert_eq!(first.access_token.expose_secret(), again.access_token.expose_secret(), "{id}");
        assert!(matches!(late, Outcome::Rejected(_)), "{id}: {late:?}");
    }
}

#[tokio::test]
async fn a_grant_that_can_be_given_back_is_dead_afterwards() {
    for id in ["dropbox", "okta", "salesforce", "slack"] {
        let rig = Rig::start(id).await;
        let (_, tokens) = rig.connect().await;

        assert!(rig.engine.revoke(&rig.facts(), &rig.app, &tokens.access_token).await, "{id}");

        let api = rig.api_with(Secret::Tokens(tokens));
        assert_eq!(api.identity().await.unwrap_err().kind, ErrorKind::AuthFailed, "{id}");
    }
}

#[tokio::test]
async fn nobody_is_let_through_to_what_ends_or_renews_a_grant() {
    for (id, path) in [
        ("intercom", "auth/uninstall"),
        ("hubspot", "oauth/2026-03/token/revoke"),
        ("slack", "auth.revoke"),
        ("salesforce", "services/oauth2/revoke"),
        ("okta", "oauth2/v1/revoke"),
        ("dropbox", "2/auth/token/revoke"),
        ("notion", "v1/oauth/token"),
    ] {
        let rig = Rig::start(id).await;
        let (connector, _) = rig.connect().await;
        let api = rig.api(&connector);
        let request = api.request(Method::POST, path).operation("pass").pass_through(None, HeaderMap::new());

        let Err(refused) = request.raw().await else { panic!("{id}: {path} was sent") };

        assert_eq!(refused.kind, ErrorKind::Forbidden, "{id}: {refused}");
        api.identity().await.unwrap();
    }
}

#[tokio::test]
async fn a_workspace_of_another_region_is_at_its_own_hosts() {
    let mut rig = Rig::start("intercom").await;
    rig.account = rig.provider.account("https://app.eu.intercom.com/a/apps/ABC12345/inbox").unwrap();
    assert!(rig.account.base_url.as_str().ends_with("/generic/api.eu.intercom.io/"), "{}", rig.account.base_url);

    let (connector, _) = rig.connect().await;

    assert_eq!(rig.api(&connector).identity().await.unwrap().account_id, "app.eu.intercom.com/a/apps/abc12345");
}

#[tokio::test]
async fn a_version_is_sent_where_a_caller_says_none() {
    let rig = Rig::start("notion").await;
    let (connector, _) = rig.connect().await;
    let api = rig.api(&connector);

    // The imitation refuses a request without one.
    assert_eq!(json_of(api.get("v1/users/me").pass_through(None, HeaderMap::new())).await["id"], "n-1");
}
