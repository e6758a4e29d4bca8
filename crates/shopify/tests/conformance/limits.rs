//! Points, and what a shop or its answers may be in trouble with.

use std::time::Duration;

use holdfast_core::{ErrorKind, Retry};
use holdfast_sandbox::Canned;
use serde_json::json;

use crate::rig::{Rig, SCOPES};

#[tokio::test]
async fn a_throttled_query_waits_until_its_points_are_back() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    rig.acme.set_rules(|rules| {
        rules.bucket = 500.0;
        rules.restore_rate = 50.0;
    });
    let pages = async {
        for page in 0..20 {
            let read = rig.call(&api, "search_products", json!({"limit": 20})).await;
            read.unwrap_or_else(|error| panic!("page {page}: {error}"));
        }
    };
    let time = async {
        loop {
            // Points come back only once they are missing: else a slow machine would never run out of them.
            if rig.acme.counters().rate_limited > 0 {
                rig.sandbox.advance(Duration::from_secs(1));
            }
            rig.pass(1).await;
        }
    };

    tokio::select! {
        () = pages => {}
        () = time => {}
    }

    assert!(rig.acme.counters().rate_limited > 0, "twenty pages are more than the bucket holds");
}

#[tokio::test]
async fn a_cancellation_waits_as_well() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let order = rig.acme.order("#1007").unwrap();
    let cancel = json!({"order_id": order["id"], "reason": "customer", "refund": true, "restock": true, "currency": "EUR",
        "expected_total": order["currentTotalPriceSet"]["shopMoney"]["amount"]});
    let throttled = json!({
        "errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}],
        "extensions": {"cost": {"requestedQueryCost": 100,
            "throttleStatus": {"maximumAvailable": 2000.0, "currentlyAvailable": 0, "restoreRate": 25.0}}},
    });
    rig.acme.trouble(|faults| faults.api_answer = Some(Canned::new(200, throttled.to_string()).times(3)));

    tokio::select! {
        cancelled = rig.call(&api, "cancel_order", cancel) => drop(cancelled.unwrap()),
        () = rig.pass(u32::MAX) => {}
    }

    assert!(rig.acme.order("#1007").unwrap()["cancelledAt"].is_string());
}

#[tokio::test]
async fn a_query_whose_points_come_too_late_says_when() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    rig.acme.set_rules(|rules| {
        rules.bucket = 500.0;
        rules.restore_rate = 1.0;
    });
    let page = json!({"limit": 20});
    let mut error = None;
    for _ in 0..20 {
        if let Err(busy) = rig.call(&api, "search_products", page.clone()).await {
            error = Some(busy);
            break;
        }
    }

    let error = error.expect("twenty pages are more than the bucket holds");
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    let Retry::After(wait) = error.retry else { panic!("{:?}", error.retry) };
    assert!(wait > Duration::from_secs(20), "{wait:?}");
    rig.sandbox.advance(wait);
    rig.call(&api, "search_products", page).await.unwrap();
}

#[tokio::test]
async fn no_query_asks_for_more_points_than_one_may() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    for (tool, arguments) in [
        ("find_order", json!({"limit": 50})),
        ("find_customer", json!({"name": "a", "limit": 50})),
        ("search_products", json!({"limit": 20})),
        ("get_order", json!({"order_id": rig.order_id("#1004")})),
    ] {
        rig.sandbox.advance(Duration::from_mins(1));
        rig.call(&api, tool, arguments).await.unwrap_or_else(|error| panic!("{tool}: {error}"));
    }
}

/// HL-04
#[tokio::test]
async fn a_shop_in_trouble_is_no_failed_credential() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let api = holdfast_core::ApiClient::new(&rig.engine, &rig.store.row(&connector)).unwrap();
    let errors = |status, text: &str| Canned::new(status, json!({"errors": text}).to_string());
    for (canned, kind, said) in [
        (errors(402, "Unavailable Shop"), ErrorKind::Unavailable, "frozen"),
        (errors(423, "Locked"), ErrorKind::Unavailable, "locked"),
        (errors(403, "[API] This action requires merchant approval"), ErrorKind::Forbidden, "merchant approval"),
        (errors(404, "Not Found"), ErrorKind::Unavailable, "no shop at this address"),
        (errors(430, "Security"), ErrorKind::Busy, "security"),
        (errors(540, "Off"), ErrorKind::Unavailable, "switched"),
        (Canned::new(502, "<html>").content_type("text/html"), ErrorKind::Unavailable, "HTTP 502"),
        (Canned::new(200, "<html>").content_type("text/html"), ErrorKind::Unreadable, "documentation"),
        (Canned::new(200, ""), ErrorKind::Unreadable, "documentation"),
        (Canned::new(200, "{}"), ErrorKind::Unreadable, "documentation"),
        (Canned::new(200, json!({"data": null}).to_string()), ErrorKind::Unreadable, "documentation"),
        (Canned::new(200, json!({"data": {"products": []}}).to_string()), ErrorKind::Unreadable, "documentation"),
        (Canned::new(302, "").header("Location", "https://evil.example/"), ErrorKind::Unreadable, "redirect"),
    ] {
        rig.acme.trouble(|faults| faults.api_answer = Some(canned.times(1)));
        let error = rig.call(&api, "search_products", json!({})).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(said) && !error.message.contains('<'), "{error}");
    }
    assert_eq!(rig.acme.counters().exchanges, 0, "none of it led to a refresh");
    assert_eq!(rig.store.row(&connector).health, holdfast_core::Health::Connected);
    rig.call(&api, "search_products", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_429_is_waited_for_as_it_says() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let limited = Canned::new(429, json!({"errors": "Exceeded"}).to_string()).header("Retry-After", "2.0").times(1);
    rig.acme.trouble(|faults| faults.api_answer = Some(limited));

    let (read, ()) = tokio::join!(rig.call(&api, "search_products", json!({})), rig.pass(4));

    read.unwrap();
    assert_eq!(rig.acme.counters().api_calls, 2);
}

#[tokio::test]
async fn a_shop_that_is_gone_is_no_failed_credential() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    assert!(rig.sandbox.close_shop("acme"));

    let gone = api.identity().await.unwrap_err();

    assert_eq!(gone.kind, ErrorKind::Unavailable);
    assert!(gone.message.contains("no shop at this address"), "{gone}");
}

#[tokio::test]
async fn customers_that_are_held_back_are_not_taken_for_absent() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    rig.acme.set_rules(|rules| rules.hides_customers = true);

    let read = rig.call(&api, "get_order", json!({"order_id": rig.order_id("#1001")})).await.unwrap();
    assert_eq!(read["order"]["email"], json!(null));
    assert_eq!(read["complete"], false);
    let note = read["note"].as_str().unwrap();
    assert!(note.contains("email") && note.contains("shippingAddress"), "{note}");

    // Nobody's order is handed out for an address that nobody can see.
    let found = rig.call(&api, "find_order", json!({"email": "mira.castellan@example.com"})).await.unwrap();
    assert_eq!(found["orders"], json!([]));
    assert!(found["note"].as_str().unwrap().contains("are not shown"), "{found}");
}
