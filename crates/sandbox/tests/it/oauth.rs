//! Consent, codes, refreshes.

use std::time::Duration;

use holdfast_sandbox::{CLIENT_ID, GrantRequest, PresentationOutcome, Sandbox};
use serde_json::{Value, json};

use crate::support::{Fixture, REDIRECT_URI, VERIFIER, error_of, param};

#[tokio::test]
async fn a_person_consents_on_a_page_without_script_and_the_code_buys_tokens() {
    let it = Fixture::start().await;
    let url = it.authorize_url(&[]);
    let page = it.http.get(&url).send().await.unwrap();
    assert_eq!(page.status(), 200);
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("form-action 'self' http://127.0.0.1:8080"), "{policy}");
    let html = page.text().await.unwrap();
    assert!(html.contains("Ada Admin") && html.contains("Eve Enduser"), "{html}");
    assert!(html.contains(r#"value="s&amp;t=1""#) && !html.contains("<script"));

    let mut form: Vec<(String, String)> = url::Url::parse(&url).unwrap().query_pairs().into_owned().collect();
    form.push(("user".to_owned(), "gus".to_owned()));
    form.push(("decision".to_owned(), "allow".to_owned()));
    let answer = it.http.post(format!("{}/oauth/authorizations", it.acme.url())).form(&form).send().await.unwrap();

    assert_eq!(answer.status(), 302);
    let back = answer.headers()["location"].to_str().unwrap();
    assert!(back.starts_with(REDIRECT_URI));
    assert_eq!(param(back, "state").unwrap(), "s&t=1");
    let tokens = it.exchange(&param(back, "code").unwrap()).await;
    assert_eq!(tokens.status(), 200);
    let tokens: Value = tokens.json().await.unwrap();
    assert_eq!(tokens["expires_in"], 1800);
    let me = it.get_json("users/me.json", tokens["access_token"].as_str().unwrap()).await;
    assert_eq!(me["user"]["name"], "Gus Agent");
    assert_eq!(it.acme.counters().code_exchanges, 1);
}

#[tokio::test]
async fn a_denied_request_goes_back_with_access_denied_and_the_state() {
    let it = Fixture::start().await;

    let back = it.sandbox.deny(&it.authorize_url(&[])).unwrap();

    assert_eq!(param(&back, "error").unwrap(), "access_denied");
    assert_eq!(param(&back, "state").unwrap(), "s&t=1");
}

#[tokio::test]
async fn a_faulty_authorisation_request_gets_a_page_and_never_a_redirect() {
    let it = Fixture::start().await;
    for (name, value, error) in [
        ("client_id", "someone", "invalid_client"),
        ("redirect_uri", "https://evil.example/", "invalid_request"),
        ("redirect_uri", "http://127.0.0.1.evil.example/", "invalid_request"),
        ("response_type", "token", "unsupported_response_type"),
        ("scope", "read everything", "invalid_scope"),
        ("state", "", "invalid_request"),
        ("code_challenge", "", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
    ] {
        let url = it.authorize_url(&[(name, value)]);
        let response = it.http.get(&url).send().await.unwrap();
        assert_eq!(response.status(), 400, "{name}={value}");
        assert!(response.text().await.unwrap().contains(error), "{name}={value}");
        assert_eq!(it.sandbox.consent(&url, "ada").unwrap_err().error, error);
    }
}

#[tokio::test]
async fn a_code_works_once_within_two_minutes_and_only_with_its_verifier() {
    let it = Fixture::start().await;

    let wrong = it
        .token(json!({
            "grant_type": "authorization_code", "code": it.code(), "redirect_uri": REDIRECT_URI,
            "code_verifier": VERIFIER.replace('a', "b"), "expires_in": 1800,
        }))
        .await
        .unwrap();
    assert_eq!(error_of(wrong, 400).await, "invalid_grant");

    let code = it.code();
    let tokens: Value = it.exchange(&code).await.json().await.unwrap();
    let access_token = tokens["access_token"].as_str().unwrap();
    assert!(it.acme.accepts(access_token));
    assert_eq!(error_of(it.exchange(&code).await, 400).await, "invalid_grant");
    assert!(!it.acme.accepts(access_token), "a replayed code takes its tokens along");

    let late = it.code();
    it.sandbox.advance(Duration::from_secs(121));
    assert_eq!(error_of(it.exchange(&late).await, 400).await, "invalid_grant");
}

#[tokio::test]
async fn a_code_exchange_that_asks_for_no_expiry_gets_neither_expiry_nor_refresh_token() {
    let it = Fixture::start().await;
    let tokens: Value = it
        .token(json!({
            "grant_type": "authorization_code", "code": it.code(), "redirect_uri": REDIRECT_URI,
            "code_verifier": VERIFIER,
        }))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();

    assert!(tokens.get("expires_in").is_none() && tokens.get("refresh_token").is_none());
    it.sandbox.advance(Duration::from_hours(10 * 365 * 24));
    assert!(it.acme.accepts(tokens["access_token"].as_str().unwrap()));
}

#[tokio::test]
async fn a_refresh_kills_both_old_tokens_at_once() {
    let it = Fixture::start().await;
    let old = it.acme.grant(&GrantRequest::default()).unwrap();

    let new: Value = it.refresh(&old.refresh_token).await.unwrap().json().await.unwrap();

    let denied = it.get("users/me.json", &old.access_token).await;
    assert_eq!(error_of(denied, 401).await, "invalid_token");
    assert!(it.acme.accepts(new["access_token"].as_str().unwrap()));
    let counters = it.acme.counters();
    assert_eq!((counters.exchanges, counters.rotations, counters.reuses), (1, 1, 0));
}

#[tokio::test]
async fn a_spent_refresh_token_kills_the_family() {
    let it = Fixture::start().await;
    let old = it.acme.grant(&GrantRequest::default()).unwrap();
    let other = it.acme.grant(&GrantRequest::default()).unwrap();
    let new: Value = it.refresh(&old.refresh_token).await.unwrap().json().await.unwrap();

    let reused = it.refresh(&old.refresh_token).await.unwrap();
    assert_eq!(error_of(reused, 400).await, "invalid_grant");

    assert!(!it.acme.accepts(new["access_token"].as_str().unwrap()));
    let newest = it.refresh(new["refresh_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(error_of(newest, 400).await, "invalid_grant");
    assert!(it.acme.accepts(&other.access_token), "another grant is not touched");
    assert_eq!(it.acme.counters().reuses, 1);
    let outcomes: Vec<_> = it.acme.ledger().presentations.iter().map(|presentation| presentation.outcome).collect();
    assert_eq!(outcomes, [PresentationOutcome::Rotated, PresentationOutcome::Reused, PresentationOutcome::Refused]);
}

#[tokio::test]
async fn inside_a_grace_a_spent_refresh_token_gets_the_same_pair_again() {
    let it = Fixture::with(Sandbox::builder().with(|options| options.reuse_grace_secs = 30)).await;
    let old = it.acme.grant(&GrantRequest::default()).unwrap();
    let first: Value = it.refresh(&old.refresh_token).await.unwrap().json().await.unwrap();

    let again: Value = it.refresh(&old.refresh_token).await.unwrap().json().await.unwrap();
    assert_eq!(first, again);
    assert_eq!((it.acme.counters().replays, it.acme.counters().rotations), (1, 1));

    it.sandbox.advance(Duration::from_secs(31));
    let late = it.refresh(&old.refresh_token).await.unwrap();
    assert_eq!(error_of(late, 400).await, "invalid_grant");
    assert_eq!(it.acme.counters().reuses, 1);
}

#[tokio::test]
async fn a_refresh_that_asks_for_no_expiry_gets_tokens_that_die_without_saying_when() {
    let it = Fixture::start().await;
    let old = it.acme.grant(&GrantRequest::default()).unwrap();

    let new: Value = it
        .token(json!({"grant_type": "refresh_token", "refresh_token": old.refresh_token}))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();

    assert!(new.get("expires_in").is_none() && new["refresh_token"].is_string());
    let access_token = new["access_token"].as_str().unwrap();
    assert!(it.acme.accepts(access_token));
    it.sandbox.advance(Duration::from_secs(1801));
    assert!(!it.acme.accepts(access_token));
}

#[tokio::test]
async fn lives_outside_the_bounds_and_forms_are_invalid_requests() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    for (expires_in, refresh_expires_in) in [
        (json!(299), json!(7_776_000)),
        (json!(172_801), json!(7_776_000)),
        (json!("1800"), json!(7_776_000)),
        (json!(1800), json!(604_799)),
        (json!(1800), json!(7_776_001)),
    ] {
        let response = it
            .token(json!({
                "grant_type": "refresh_token", "refresh_token": grant.refresh_token,
                "expires_in": expires_in, "refresh_token_expires_in": refresh_expires_in,
            }))
            .await
            .unwrap();
        assert_eq!(error_of(response, 400).await, "invalid_request");
    }
    let form = it
        .http
        .post(format!("{}/oauth/tokens", it.acme.url()))
        .form(&[("grant_type", "refresh_token"), ("refresh_token", &grant.refresh_token)])
        .send()
        .await
        .unwrap();
    assert_eq!(error_of(form, 400).await, "invalid_request");
    assert!(it.acme.accepts(&grant.access_token));
}

#[tokio::test]
async fn a_wrong_client_secret_spends_nothing_and_a_next_one_is_accepted() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.sandbox.set_client_secret("new", Some("next"));

    let refused = it.refresh(&grant.refresh_token).await.unwrap();
    assert_eq!(error_of(refused, 401).await, "invalid_client");

    let accepted = it
        .token(json!({
            "grant_type": "refresh_token", "refresh_token": grant.refresh_token,
            "client_id": CLIENT_ID, "client_secret": "next",
        }))
        .await
        .unwrap();
    assert_eq!(accepted.status(), 200);
}

#[tokio::test]
async fn an_array_of_scopes_makes_a_token_without_rights() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();

    let new: Value = it
        .token(json!({
            "grant_type": "refresh_token", "refresh_token": grant.refresh_token, "scope": ["read"],
        }))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();

    let denied = it.get("tickets.json", new["access_token"].as_str().unwrap()).await;
    assert_eq!(error_of(denied, 403).await, "Forbidden");
}

#[tokio::test]
async fn the_current_token_tells_its_expiry_and_deletes_its_pair() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    let current = it.get_json("oauth/tokens/current.json", &grant.access_token).await;
    assert_eq!(current["token"]["scopes"], json!(["read", "write"]));
    assert!(current["token"]["expires_at"].as_str().unwrap().ends_with('Z'));

    let deleted = it
        .http
        .delete(format!("{}/api/v2/oauth/tokens/current.json", it.acme.url()))
        .bearer_auth(&grant.access_token)
        .send()
        .await
        .unwrap();

    assert_eq!(deleted.status(), 204);
    let refused = it.refresh(&grant.refresh_token).await.unwrap();
    assert_eq!(error_of(refused, 400).await, "invalid_grant");
    assert_eq!((it.acme.counters().revocations, it.acme.counters().reuses), (1, 0));
}

#[tokio::test]
async fn an_unknown_help_desk_answers_html() {
    let it = Fixture::start().await;
    let url = format!("{}/zendesk/nobody/api/v2/users/me.json", it.sandbox.url());
    let response = it.http.get(url).send().await.unwrap();
    assert_eq!(response.status(), 404);
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(response.text().await.unwrap().contains("No help desk at this address"));
}

#[tokio::test]
async fn each_strictness_can_be_switched_off() {
    let it = Fixture::with(Sandbox::builder().with(|options| {
        options.family_revocation = false;
        options.strict_scopes = false;
        options.pkce_required = false;
        options.success_status = 201;
        options.min_expires_in = 2;
    }))
    .await;
    let old = it.acme.grant(&GrantRequest::default()).unwrap();
    let new: Value = it.refresh(&old.refresh_token).await.unwrap().json().await.unwrap();
    let reused = it.refresh(&old.refresh_token).await.unwrap();
    assert_eq!(error_of(reused, 400).await, "invalid_grant");
    assert!(it.acme.accepts(new["access_token"].as_str().unwrap()), "the family lives");

    let url = it.authorize_url(&[("scope", "everything"), ("code_challenge", ""), ("code_challenge_method", "")]);
    let code = param(&it.sandbox.consent(&url, "ada").unwrap(), "code").unwrap();
    let response = it
        .token(json!({
            "grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI, "expires_in": 2,
        }))
        .await
        .unwrap();

    assert_eq!(response.status(), 201);
    let tokens: Value = response.json().await.unwrap();
    let access_token = tokens["access_token"].as_str().unwrap();
    assert_eq!(it.get("users/me", access_token).await.status(), 403);
    it.sandbox.advance(Duration::from_secs(2));
    assert_eq!(it.get("users/me", access_token).await.status(), 401);
}

#[tokio::test]
async fn a_reset_releases_what_is_held_and_a_closed_help_desk_is_gone() {
    let it = std::sync::Arc::new(Fixture::start().await);
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| faults.hold = true);
    let call = tokio::spawn({
        let it = std::sync::Arc::clone(&it);
        async move { it.refresh(&grant.refresh_token).await }
    });
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    while it.acme.counters().exchanges == 0 {
        ticks.tick().await;
    }

    it.sandbox.reset();

    assert_eq!(call.await.unwrap().unwrap().status(), 200);
    assert_eq!(it.sandbox.counters().exchanges, 0);
    assert!(it.sandbox.close_helpdesk("acme"));
    assert_eq!(it.get("users/me", "any").await.status(), 404);
}

#[tokio::test]
async fn what_is_granted_to_one_client_is_refused_to_another() {
    let it = Fixture::start().await;
    it.sandbox.register_client("second", "its-secret");
    let second = |fields: Value| {
        let mut all = json!({ "client_id": "second", "client_secret": "its-secret" });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        it.token(all)
    };
    let by_code = |code: String| {
        json!({
            "grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI,
            "code_verifier": VERIFIER, "expires_in": 1800,
        })
    };
    let by_token = |tokens: &Value| json!({ "grant_type": "refresh_token", "refresh_token": tokens["refresh_token"] });
    let mine: Value = it.exchange(&it.code()).await.json().await.unwrap();

    assert_eq!(error_of(second(by_code(it.code())).await.unwrap(), 400).await, "invalid_grant");
    assert_eq!(error_of(second(by_token(&mine)).await.unwrap(), 400).await, "invalid_grant");
    let back = it.sandbox.consent(&it.authorize_url(&[("client_id", "second")]), "ada").unwrap();
    let theirs = second(by_code(param(&back, "code").unwrap())).await.unwrap();
    assert_eq!(theirs.status(), 200);
    let theirs: Value = theirs.json().await.unwrap();
    assert_eq!(error_of(it.token(by_token(&theirs)).await.unwrap(), 400).await, "invalid_grant");

    // Nothing was spent by it.
    assert_eq!(second(by_token(&theirs)).await.unwrap().status(), 200);
    assert_eq!(it.token(by_token(&mine)).await.unwrap().status(), 200);
}
