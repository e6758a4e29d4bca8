//! The control API over HTTP, for tests of several processes.

#![expect(clippy::unwrap_used, reason = "helpers of tests: clippy only knows functions marked as tests")]

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GrantRequest, Sandbox, Scene, fingerprint};
use serde_json::{Value, json};

use crate::support::{Fixture, error_of, param};

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

async fn page(it: &Fixture, path: &str) -> String {
    let url = format!("{}{path}", it.sandbox.url());
    let page = it.http.get(url).header("accept", "text/html,*/*").send().await.unwrap();
    assert_eq!(page.status(), 200, "{path}");
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    page.text().await.unwrap()
}

async fn press(it: &Fixture, fields: &[(&str, &str)]) -> String {
    let url = format!("{}/control/zendesk/acme/do", it.sandbox.url());
    let pressed = it.http.post(url).form(fields).send().await.unwrap();
    assert_eq!(pressed.status(), 303, "{fields:?}");
    pressed.headers()["location"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn people_get_a_page_whose_buttons_work() {
    let it = Fixture::with(Sandbox::builder().scene(Scene::Demo).home("http://127.0.0.1:8080/")).await;
    let overview = page(&it, "/control").await;
    assert!(overview.contains("Lose the next answer") && overview.contains(r#"href="http://127.0.0.1:8080/""#));

    for action in ["write", "expire", "revoke", "lose", "drop", "slow", "fail"] {
        let back = press(&it, &[("action", action)]).await;
        let (address, place) = back.split_once('#').unwrap();
        let page = page(&it, address).await;
        let beside =
            page.split("<li>").find(|part| part.contains(&format!("value=\"{action}\" aria-describedby=\"acme-")));
        let notice = format!(r#"id="{place}" role="status" tabindex="-1""#);
        assert!(beside.is_some_and(|button| button.contains(&notice)), "{action}: {page}");
        assert_eq!(page.matches(r#"role="status""#).count(), 1, "{action}");
    }

    let faults = it.acme.faults();
    assert_eq!((faults.lose_next_answer, faults.drop_before, faults.delay_ms), (1, 1, 5000));
    assert_eq!(faults.api_answer.unwrap().status, 503);
    assert!(page(&it, "/control").await.contains("Trouble:"));
    press(&it, &[("action", "calm")]).await;
    assert!(!page(&it, "/control").await.contains("Trouble:"));
}

#[tokio::test]
async fn one_grant_is_taken_back_and_the_others_stay() {
    let it = Fixture::with(Sandbox::builder().scene(Scene::Demo)).await;
    let (one, other) =
        (it.control("zendesk/acme/grant", json!({})).await, it.control("zendesk/acme/grant", json!({})).await);
    assert_eq!(page(&it, "/control").await.matches("Ada Lindholm allowed").count(), 2);

    press(&it, &[("action", "revoke"), ("grant", "1")]).await;

    assert!(!it.acme.accepts(one["access_token"].as_str().unwrap()));
    assert!(it.acme.accepts(other["access_token"].as_str().unwrap()));
    let url = format!("{}/control/zendesk/acme/do", it.sandbox.url());
    let wrong = it.http.post(url).form(&[("action", "revoke"), ("grant", "all")]).send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    assert!(it.acme.accepts(other["access_token"].as_str().unwrap()));
}

#[tokio::test]
async fn the_page_masks_tokens_and_escapes_what_callers_wrote() {
    let it = Fixture::with(Sandbox::builder().scene(Scene::Demo)).await;
    let grant = it.control("zendesk/acme/grant", json!({})).await;
    let (access, refresh) = (grant["access_token"].as_str().unwrap(), grant["refresh_token"].as_str().unwrap());
    let body = json!({"ticket": {
        "tags": ["<i>tag</i>"], "comment": {"body": "<script>alert(1)</script>", "public": false},
        "subject": "<b>bold</b>",
    }});
    assert_eq!(it.put("tickets/3", access, body).await.status(), 200);

    let (overview, ticket) = (page(&it, "/control").await, page(&it, "/control/zendesk/acme/tickets/3").await);

    for text in [&overview, &ticket] {
        assert!(!text.contains(access) && !text.contains(refresh));
        assert!(!text.contains("<b>bold") && !text.contains("<i>tag") && !text.contains("<script>"), "{text}");
    }
    assert!(overview.contains(&format!("<code>{}…</code>", &fingerprint(access)[..8])));
    assert!(ticket.contains("left an internal note") && ticket.contains("&lt;script&gt;"));
}

#[tokio::test]
async fn a_provider_has_two_client_secrets_until_the_old_one_is_retired() {
    let it = Fixture::start().await;
    let press = async |provider: &str, action: &'static str| {
        let url = format!("{}/control/clients/{provider}/do", it.sandbox.url());
        let pressed = it.http.post(url).form(&[("action", action)]).send().await.unwrap();
        let to = pressed.headers().get("location").map(|to| to.to_str().unwrap().to_owned());
        (pressed.status().as_u16(), to)
    };
    let refresh = async |secret: &str| {
        let grant = it.acme.grant(&GrantRequest::default()).unwrap();
        let fields = json!({
            "client_secret": secret, "grant_type": "refresh_token", "refresh_token": grant.refresh_token,
        });
        it.token(fields).await.unwrap()
    };

    let (status, back) = press("zendesk", "make").await;
    assert_eq!(status, 303);
    let shown = page(&it, back.unwrap().split('#').next().unwrap()).await;
    let new = shown.split("readonly value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(shown.contains("Retire the old secret") && shown.contains("made a new client secret"), "{shown}");
    assert_eq!(press("zendesk", "make").await.0, 303);
    assert!(page(&it, "/control").await.contains(&new), "pressed twice it is the same one");
    for good in [CLIENT_SECRET, &new] {
        assert_eq!(refresh(good).await.status(), 200);
    }

    assert_eq!(press("zendesk", "retire").await.0, 303);

    assert_eq!(error_of(refresh(CLIENT_SECRET).await, 401).await, "invalid_client");
    assert_eq!(refresh(&new).await.status(), 200);
    assert!(!page(&it, "/control").await.contains(&new), "it is shown while it is new");
    assert_eq!((press("zendesk", "forget").await.0, press("fax", "make").await.0), (400, 404));
    let front = it.sandbox.front();
    let token = front.grant("acme").unwrap().refresh_token;
    let form = [("grant_type", "refresh_token"), ("refresh_token", &*token)];
    let url = format!("{}/app.frontapp.com/oauth/token", it.sandbox.front_override());
    let other = it.http.post(url).basic_auth(CLIENT_ID, Some(CLIENT_SECRET)).form(&form).send().await.unwrap();
    assert_eq!(other.status(), 200, "each provider has its own");
}

#[tokio::test]
async fn other_sites_reach_nothing() {
    let it = Fixture::start().await;
    let url = |path: &str| format!("{}/{path}", it.sandbox.url());
    let from = |site: &str| {
        let revoke = it.http.post(url("control/zendesk/acme/do")).form(&[("action", "revoke")]);
        revoke.header("sec-fetch-site", site.to_owned()).send()
    };
    let grant = it.control("zendesk/acme/grant", json!({})).await;

    assert_eq!(from("cross-site").await.unwrap().status(), 403);
    assert!(it.acme.accepts(grant["access_token"].as_str().unwrap()));
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        let rebound = it.http.get(url("control")).header("host", host).send().await.unwrap();
        assert_eq!(rebound.status(), 421, "{host}");
    }

    assert_eq!(it.http.get(url("control")).header("host", "localhost:1").send().await.unwrap().status(), 200);
    assert_eq!(from("same-site").await.unwrap().status(), 303, "the service on another port is the same site");
}

#[tokio::test]
async fn a_stopped_sandbox_no_longer_answers() {
    let it = Fixture::start().await;
    let url = it.sandbox.url().to_owned();

    it.sandbox.stop().await;

    assert!(it.http.get(url).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn each_other_service_has_buttons_that_end_its_access() {
    let it = Fixture::start().await;
    let (google, front) = (it.sandbox.google(), it.sandbox.front());
    let (gorgias, shop) = (it.sandbox.gorgias("acme").unwrap(), it.sandbox.shop("acme").unwrap());
    let openid = ["openid"];
    let press = async |service: &str, action: &'static str| {
        let url = format!("{}/control/others/{service}/do", it.sandbox.url());
        let pressed = it.http.post(url).form(&[("action", action)]).send().await.unwrap();
        pressed.status()
    };
    for action in ["expire", "cut"] {
        let by_google = google.grant("ada", &openid).unwrap().access_token;
        let by_front = front.grant("acme").unwrap().access_token;
        let by_gorgias = gorgias.grant("ada", "openid").unwrap().access_token;
        let by_shop = shop.grant("read_orders").access_token;
        assert!(google.accepts(&by_google) && front.accepts(&by_front), "before {action}");
        assert!(gorgias.accepts(&by_gorgias) && shop.accepts(&by_shop), "before {action}");

        for service in ["google", "front", "gorgias", "shopify"] {
            assert_eq!(press(service, action).await, 303, "{service}");
        }

        assert!(!google.accepts(&by_google) && !front.accepts(&by_front), "after {action}");
        assert!(!gorgias.accepts(&by_gorgias) && !shop.accepts(&by_shop), "after {action}");
    }
    let desk = it.sandbox.freshdesk("acme").unwrap();
    let key = desk.api_key("ada").unwrap();
    assert_eq!(press("freshdesk", "cut").await, 303);
    assert_ne!(desk.api_key("ada").unwrap(), key);

    assert_eq!(press("freshdesk", "expire").await, 400, "a key does not expire");
    assert_eq!(press("fax", "cut").await, 404);
}
