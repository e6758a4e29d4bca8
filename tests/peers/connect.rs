//! A person connects a peer in a browser, takes the consent back there, and reconnects.

use reqwest::Method;
use serde_json::json;

use crate::{
    peer::{DJANGO, Kind, OIDC, PERSON},
    scene::Scene,
};

#[tokio::test(flavor = "multi_thread")]
async fn oidc_provider_is_connected_used_and_given_back() {
    is_connected_used_and_given_back(&OIDC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn django_oauth_toolkit_is_connected_used_and_given_back() {
    is_connected_used_and_given_back(&DJANGO).await;
}

async fn is_connected_used_and_given_back(kind: &'static Kind) {
    let scene = Scene::set(kind).await;

    let id = scene.connect().await;

    assert_eq!(scene.health(&id).await.0, "connected");
    let tested = scene.test(&id).await;
    assert_eq!((&tested["ok"], &tested["missing_scopes"]), (&json!(true), &json!([])), "{tested}");
    let said = &tested["identity"];
    assert_eq!((&said["name"], &said["email"]), (&json!("Ada Admin"), &json!(PERSON)), "{tested}");
    let through = format!("/connectors/{id}/proxy/{}", kind.me);
    let passed = scene.call(Method::GET, &through, None).await;
    assert_eq!((passed.status.as_u16(), passed.text("email")), (200, PERSON), "{passed:?}");

    let token = scene.one.token(&id).await.access_token().to_owned();
    assert!(scene.peer.accepts(&token).await);
    let _ended = scene.done(200, &format!("/connectors/{id}/disconnect"), json!({})).await;
    assert!(!scene.peer.accepts(&token).await, "the grant is given back");
    let told = scene.two.token(&id).await;
    assert_eq!((told.status.as_u16(), told.code()), (409, "connector_disconnected"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consent_taken_back_at_oidc_provider_stops_everybody_until_it_is_given_again() {
    a_consent_taken_back_stops_everybody_until_it_is_given_again(&OIDC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consent_taken_back_at_django_oauth_toolkit_stops_everybody_until_it_is_given_again() {
    a_consent_taken_back_stops_everybody_until_it_is_given_again(&DJANGO).await;
}

async fn a_consent_taken_back_stops_everybody_until_it_is_given_again(kind: &'static Kind) {
    let scene = Scene::set(kind).await;
    let id = scene.connect().await;
    // There are no tools for what a file describes; the agent stands for any that needs the connector.
    let rules = json!({ "id": "kind", "text": "hello", "rules": [{ "words": ["hello"], "give": "greeting" }] });
    let agent = json!({
        "name": "Sorter", "runner": { "kind": "playbook", "steps": [rules] }, "connectors": [{ "connector": id }],
    });
    let agent = scene.done(201, "/agents", agent).await["id"].as_str().unwrap().to_owned();
    let status = async || scene.call(Method::GET, &format!("/agents/{agent}"), None).await.text("status").to_owned();
    assert_eq!(status().await, "active");

    let token = scene.one.token(&id).await.access_token().to_owned();
    scene.peer.revoke().await;
    assert!(!scene.peer.accepts(&token).await);
    scene.relay.forget();
    let refused = json!({ "access_token": token });
    let told = scene.call(Method::POST, &format!("/connectors/{id}/token/rejected"), Some(refused)).await;

    assert_eq!((told.status.as_u16(), told.code()), (409, "connector_auth_failed"), "{told:?}");
    assert_eq!(scene.relay.statuses(), [400, 400], "a refusal is confirmed once");
    assert_eq!(scene.health(&id).await, ("auth_failed".to_owned(), "refresh_refused".to_owned()));
    for replica in [&scene.one, &scene.two] {
        let told = replica.token(&id).await;
        assert_eq!((told.status.as_u16(), told.code()), (409, "connector_auth_failed"), "{told:?}");
    }
    assert_eq!(scene.relay.refreshes().len(), 2, "nobody asks the peer again");
    assert_eq!(status().await, "deactivated");

    let link = scene.done(200, &format!("/connectors/{id}/reconnect"), json!({})).await;
    scene.consent(link["url"].as_str().unwrap()).await;

    assert_eq!(scene.health(&id).await.0, "connected");
    assert_eq!(status().await, "active");
    assert_eq!(scene.test(&id).await["ok"], true);
    scene.expire(&id).await;
    scene.storm(&id).await;
    assert_eq!(scene.relay.statuses(), [200]);
}
