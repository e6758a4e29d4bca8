//! Bad days.

use std::sync::Arc;
use std::time::Duration;

use holdfast_sandbox::{Canned, Download, GrantRequest, PresentationOutcome as Outcome};
use serde_json::Value;

use crate::support::{Fixture, error_of};

fn last(it: &Fixture) -> Outcome {
    it.acme.ledger().presentations.last().expect("one was presented").outcome
}

async fn until(condition: impl Fn() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    for _ in 0..4_000 {
        if condition() {
            return;
        }
        ticks.tick().await;
    }
    panic!("it did not happen within 20 s");
}

#[tokio::test]
async fn a_lost_answer_rotates_and_closes_the_connection_without_a_byte() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| faults.lose_next_answer = 1);

    let error = it.refresh(&grant.refresh_token).await.unwrap_err();

    assert!(error.is_request() && !error.is_timeout(), "{error:?}");
    assert_eq!(last(&it), Outcome::RotatedAnswerLost);
    assert!(!it.acme.accepts(&grant.access_token));
    assert!(it.acme.ledger().sets[1].answer_lost);
    assert_eq!(it.acme.faults().lose_next_answer, 0);
    let again = it.refresh(&grant.refresh_token).await.unwrap();
    assert_eq!(error_of(again, 400).await, "invalid_grant");
    let counters = it.acme.counters();
    assert_eq!((counters.exchanges, counters.rotations, counters.reuses), (2, 1, 1));
}

#[tokio::test]
async fn an_answer_lost_part_way_starts_and_breaks_off() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| {
        faults.lose_next_answer = 1;
        faults.lose_part_way = true;
    });

    let response = it.refresh(&grant.refresh_token).await.unwrap();

    assert_eq!(response.status(), 200);
    assert!(response.bytes().await.is_err());
    assert_eq!(last(&it), Outcome::RotatedAnswerLost);
}

#[tokio::test]
async fn a_dropped_request_spends_nothing() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| faults.drop_before = 1);

    assert!(it.refresh(&grant.refresh_token).await.is_err());

    assert_eq!(last(&it), Outcome::Dropped);
    assert_eq!(it.acme.counters().exchanges, 0);
    assert_eq!(it.refresh(&grant.refresh_token).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_refusal_on_order_spends_nothing() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| faults.refuse_next = 1);

    let refused = it.refresh(&grant.refresh_token).await.unwrap();

    assert_eq!(error_of(refused, 400).await, "invalid_grant");
    assert_eq!(last(&it), Outcome::RefusedOnOrder);
    assert_eq!(it.refresh(&grant.refresh_token).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_canned_answer_comes_with_its_headers_as_often_as_it_was_ordered() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| {
        faults.token_answer = Some(Canned::new(429, "slow").header("Retry-After", "7").times(1));
        faults.api_answer = Some(Canned::new(503, "").for_secs(60));
    });

    let busy = it.refresh(&grant.refresh_token).await.unwrap();
    assert_eq!((busy.status().as_u16(), &busy.headers()["retry-after"]), (429, &"7".parse().unwrap()));
    assert_eq!(it.get("users/me", &grant.access_token).await.status(), 503);
    it.sandbox.advance(Duration::from_secs(61));
    assert_eq!(it.get("users/me", &grant.access_token).await.status(), 200);
    assert_eq!(it.refresh(&grant.refresh_token).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_canned_answer_after_processing_may_carry_the_true_tokens_as_a_form() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    let form = "access_token={access_token}&refresh_token={refresh_token}&expires_in={expires_in}";
    it.acme.trouble(|faults| {
        faults.token_answer =
            Some(Canned::new(200, form).content_type("application/x-www-form-urlencoded").after_processing().times(1));
    });

    let text = it.refresh(&grant.refresh_token).await.unwrap().text().await.unwrap();

    let fields: Vec<(String, String)> = url::form_urlencoded::parse(text.as_bytes()).into_owned().collect();
    assert!(it.acme.accepts(&fields[0].1));
    assert_eq!(fields[2].1, "1800");
    assert_eq!(last(&it), Outcome::RotatedAnswerReplaced);
}

#[tokio::test]
async fn a_delay_holds_up_nobody_else_and_the_ledger_sees_the_overlap() {
    let it = Arc::new(Fixture::start().await);
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| faults.delay_after_ms = 3_600_000);
    let held = [(); 2].map(|()| {
        let (it, token) = (Arc::clone(&it), grant.refresh_token.clone());
        tokio::spawn(async move { it.refresh(&token).await })
    });
    until(|| it.acme.counters().reuses == 1).await;

    let other = it.acme.grant(&GrantRequest::default()).unwrap();
    let me = it.get("users/me", &other.access_token).await;

    assert_eq!(me.status(), 200);
    let seen = it.acme.ledger().presentations;
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|open| open.outcome == Outcome::Open && open.answered_seq.is_none()));
    assert!(held.iter().all(|request| !request.is_finished()));
}

#[tokio::test]
async fn a_held_request_goes_on_when_it_is_released() {
    let it = Arc::new(Fixture::start().await);
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| faults.hold = true);
    let call = tokio::spawn({
        let it = Arc::clone(&it);
        async move { it.refresh(&grant.refresh_token).await }
    });
    until(|| it.acme.counters().exchanges == 1).await;
    assert_eq!(it.acme.counters().rotations, 0);

    it.acme.trouble(|faults| {
        faults.hold = false;
        faults.hold_answers = true;
    });
    until(|| it.acme.counters().rotations == 1).await;
    assert_eq!(last(&it), Outcome::Open);

    it.acme.calm();
    assert_eq!(call.await.unwrap().unwrap().status(), 200);
    assert_eq!(last(&it), Outcome::Rotated);
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_stop_the_rotation() {
    let it = Arc::new(Fixture::start().await);
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| faults.delay_ms = 200);
    let caller = Arc::clone(&it);
    let call = tokio::spawn(async move { caller.refresh(&grant.refresh_token).await });

    until(|| !it.acme.ledger().presentations.is_empty()).await;
    call.abort();

    until(|| it.acme.counters().rotations == 1).await;
}

#[tokio::test]
async fn revoked_and_expired_tokens_are_refused_and_are_no_reuse() {
    let it = Fixture::start().await;
    let one = it.acme.grant(&GrantRequest::default()).unwrap();
    let two = it.acme.grant(&GrantRequest::default()).unwrap();

    assert_eq!(it.acme.expire_access_tokens(), 2);
    assert!(!it.acme.accepts(&two.access_token));
    assert_eq!(it.acme.revoke(Some(one.grant)), 1);

    let refused = it.refresh(&one.refresh_token).await.unwrap();
    assert_eq!(error_of(refused, 400).await, "invalid_grant");
    let new: Value = it.refresh(&two.refresh_token).await.unwrap().json().await.unwrap();
    it.sandbox.advance(Duration::from_secs(7_776_001));
    let late = it.refresh(new["refresh_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(error_of(late, 400).await, "invalid_grant");
    assert_eq!(it.acme.counters().reuses, 0);
}

#[tokio::test]
async fn an_echo_says_what_was_asked_to_whom_may_ask() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| faults.api_echo = true);
    let url = format!("{}/api/v2/a%20b?c=%2f", it.acme.url());
    let ask = |token: &str| it.http.post(&url).bearer_auth(token).header("x-own", "1").body("abc").send();

    assert_eq!(error_of(ask("unknown").await.unwrap(), 401).await, "invalid_token");
    let echo: Value = ask(&grant.access_token).await.unwrap().json().await.unwrap();

    assert_eq!((&echo["method"], &echo["target"]), (&"POST".into(), &"/zendesk/acme/api/v2/a%20b?c=%2f".into()));
    assert_eq!(
        (&echo["length"], echo["headers"].as_array().unwrap().contains(&serde_json::json!(["x-own", "1"]))),
        (&3.into(), true)
    );
    assert_eq!(echo["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let counters = it.acme.counters();
    assert_eq!((counters.api_calls, counters.unauthorized, counters.bodies_broken), (2, 1, 0));
}

#[tokio::test]
async fn a_download_is_as_long_as_ordered_unless_it_breaks_off() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    let whole = Download { bytes: 300_000, break_off_after: None, stand_still_after: None };

    it.acme.trouble(|faults| faults.api_download = Some(whole));
    assert_eq!(it.get("tickets", &grant.access_token).await.bytes().await.unwrap().len(), 300_000);
    it.acme.trouble(|faults| faults.api_download = Some(Download { break_off_after: Some(100_000), ..whole }));
    assert!(it.get("tickets", &grant.access_token).await.bytes().await.is_err());
    assert_eq!(it.acme.counters().readers_gone, 0);
    it.acme.trouble(|faults| faults.api_download = Some(Download { stand_still_after: Some(1), ..whole }));
    drop(it.get("tickets", &grant.access_token).await);

    until(|| it.acme.counters().readers_gone == 1).await;
}

#[tokio::test]
async fn a_body_may_be_refused_before_its_end_and_a_call_before_its_beginning() {
    let it = Fixture::start().await;
    let grant = it.acme.grant(&GrantRequest::default()).unwrap();
    it.acme.trouble(|faults| faults.api_refuses_after = Some(10));
    let url = format!("{}/api/v2/tickets", it.acme.url());
    let endless = || {
        let begin = futures::stream::iter([Ok::<_, std::io::Error>("ten bytes."), Ok("more")]);
        reqwest::Body::wrap_stream(futures::StreamExt::chain(begin, futures::stream::pending()))
    };

    let refused = it.http.post(&url).bearer_auth("unknown").body(endless()).send().await.unwrap();
    assert_eq!(error_of(refused, 401).await, "invalid_token");
    let read = it.http.post(&url).bearer_auth(&grant.access_token).body("more than ten bytes").send().await.unwrap();
    assert_eq!(read.status(), 415, "the whole of it went to the resource");
    it.acme.trouble(|faults| faults.api_drop_before = 1);
    assert!(it.http.get(&url).bearer_auth(&grant.access_token).send().await.is_err());
    assert_eq!(it.get("tickets", &grant.access_token).await.status(), 200);
}
