//! The control API over HTTP, for tests of several processes.

use holdfast_sandbox::{CLIENT_ID, fingerprint};
use serde_json::{Value, json};

use crate::support::{Fixture, param};

#[tokio::test]
async fn the_control_api_does_what_the_methods_do() {
    let it = Fixture::start().await;
    let made = it.control("zendesk", json!({"name": "initech"})).await;
    assert!(made["url"].as_str().unwrap().ends_with("/zendesk/initech"));

    let grant = it.control("zendesk/acme/grant", json!({"user": "gus", "expires_in": 5})).await;
    let access_token = grant["access_token"].as_str().unwrap();
    assert!(it.acme.accepts(access_token));
    it.control("clock", json!({"advance_secs": 6})).await;
    assert!(!it.acme.accepts(access_token));

    let location = it.control("consent", json!({"authorize_url": it.authorize_url(&[])})).await;
    assert!(param(location["location"].as_str().unwrap(), "code").is_some());

    it.control("client", json!({"client_secret": "changed"})).await;
    let refused = it.refresh(grant["refresh_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(refused.status(), 401);

    let state: Value = it.http.get(format!("{}/control", it.sandbox.url())).send().await.unwrap().json().await.unwrap();
    assert_eq!(state["client_id"], CLIENT_ID);
    assert_eq!((&state["counters"]["exchanges"], &state["offset_secs"]), (&json!(1), &json!(6)));
    assert_eq!(state["helpdesks"].as_array().unwrap().len(), 3);

    it.control("options", json!({"rate_limit": 0})).await;
    assert_eq!(it.sandbox.options().rate_limit, 0);
    it.control("reset", json!({})).await;
    assert_eq!(it.sandbox.options().rate_limit, 700);
    assert_eq!(it.sandbox.counters().exchanges, 0);
    assert!(it.sandbox.helpdesk("initech").is_none());
}

#[tokio::test]
async fn faults_are_patched_and_what_is_not_named_stays() {
    let it = Fixture::start().await;
    it.control("zendesk/*/faults", json!({"token_answer": {"status": 503, "for_secs": 60}})).await;
    let faults = it.control("zendesk/acme/faults", json!({"delay_ms": 1})).await;

    assert_eq!((&faults["delay_ms"], &faults["token_answer"]["status"]), (&json!(1), &json!(503)));
    let grant = it.control("zendesk/acme/grant", json!({})).await;
    let refresh_token = grant["refresh_token"].as_str().unwrap();
    assert_eq!(it.refresh(refresh_token).await.unwrap().status(), 503);
    it.sandbox.advance(std::time::Duration::from_secs(61));
    assert_eq!(it.refresh(refresh_token).await.unwrap().status(), 200);
    let unknown = it
        .http
        .post(format!("{}/control/zendesk/acme/faults", it.sandbox.url()))
        .json(&json!({"dealy_ms": 1}))
        .send()
        .await
        .unwrap();
    assert_eq!(unknown.status(), 400);
}

#[tokio::test]
async fn the_ledger_shows_fingerprints_unless_values_are_asked_for() {
    let it = Fixture::start().await;
    let grant = it.control("zendesk/acme/grant", json!({})).await;
    let refresh_token = grant["refresh_token"].as_str().unwrap();
    it.refresh(refresh_token).await.unwrap();
    let url = format!("{}/control/zendesk/acme/ledger", it.sandbox.url());

    let ledger = it.http.get(&url).send().await.unwrap().text().await.unwrap();
    assert!(!ledger.contains(refresh_token));
    let ledger: Value = serde_json::from_str(&ledger).unwrap();
    assert_eq!(ledger["sets"][1]["parent"], fingerprint(refresh_token));
    assert_eq!(ledger["presentations"][0]["outcome"], "rotated");
    let full = it.http.get(format!("{url}?values=1")).send().await.unwrap().text().await.unwrap();
    assert!(full.contains(refresh_token));
}

#[tokio::test]
async fn people_get_a_page_whose_buttons_work() {
    let it = Fixture::start().await;
    let get = it.http.get(format!("{}/control", it.sandbox.url()));
    let page = get.header("accept", "text/html,*/*").send().await.unwrap();
    assert!(page.text().await.unwrap().contains("Lose the next answer"));
    for action in ["revoke", "expire", "lose", "drop", "slow", "fail"] {
        let pressed = it
            .http
            .post(format!("{}/control/zendesk/acme/do", it.sandbox.url()))
            .form(&[("action", action)])
            .send()
            .await
            .unwrap();
        assert_eq!(pressed.status(), 303, "{action}");
    }

    let faults = it.acme.faults();
    assert_eq!((faults.lose_next_answer, faults.drop_before, faults.delay_ms), (1, 1, 5000));
    assert_eq!(faults.api_answer.unwrap().status, 503);
}

#[tokio::test]
async fn a_stopped_sandbox_no_longer_answers() {
    let it = Fixture::start().await;
    let url = it.sandbox.url().to_owned();

    it.sandbox.stop().await;

    assert!(it.http.get(url).send().await.unwrap_err().is_connect());
}
