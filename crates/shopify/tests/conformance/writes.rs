//! What agents may do, and what is asked first.

use holdfast_core::{ApiClient, ErrorKind, Retry};
use serde_json::{Value, json};

use crate::rig::{Rig, SCOPES};

fn cancellation(rig: &Rig, name: &str) -> Value {
    let order = rig.acme.order(name).unwrap();
    json!({"order_id": order["id"], "expected_total": order["currentTotalPriceSet"]["shopMoney"]["amount"],
        "currency": "EUR", "reason": "customer", "refund": true, "restock": true})
}

/// One of the first item, with what Shopify computes for it.
fn refund(rig: &Rig, name: &str) -> Value {
    let order = rig.acme.order(name).unwrap();
    let item = &order["lineItems"][0];
    json!({"order_id": order["id"], "line_items": [{"line_item_id": item["id"], "quantity": 1, "restock": "return"}],
        "amount": item["originalUnitPriceSet"]["shopMoney"]["amount"], "currency": "EUR", "note": "Arrived broken"})
}

fn amount<'a>(order: &'a Value, field: &str) -> &'a str {
    order[field]["shopMoney"]["amount"].as_str().unwrap()
}

async fn refused(rig: &Rig, api: &ApiClient, tool: &str, arguments: Value, kind: ErrorKind, said: &str) {
    let error = rig.call(api, tool, arguments).await.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(said), "{error}");
}

#[tokio::test]
async fn an_order_is_cancelled_and_paid_back() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let total = amount(&rig.acme.order("#1007").unwrap(), "currentTotalPriceSet").to_owned();

    let done = rig.call(&api, "cancel_order", cancellation(&rig, "#1007")).await.unwrap();

    assert_eq!((&done["order_name"], &done["done"]), (&json!("#1007"), &json!(false)));
    let order = rig.acme.order("#1007").unwrap();
    assert!(order["cancelledAt"].is_string() && order["cancelReason"] == "CUSTOMER");
    assert_eq!(amount(&order, "totalRefundedSet"), total);
}

#[tokio::test]
async fn an_order_is_not_cancelled_unless_it_is_as_expected() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let with = |field: &str, value: Value| {
        let mut arguments = cancellation(&rig, "#1007");
        arguments[field] = value;
        arguments
    };
    for (arguments, kind, said) in [
        (with("expected_total", json!("1.00")), ErrorKind::Conflict, "not 1.00 EUR; nothing was changed"),
        (with("currency", json!("USD")), ErrorKind::Conflict, "nothing was changed"),
        (cancellation(&rig, "#1002"), ErrorKind::Conflict, "is cancelled already"),
        // Shopify's own refusal: it is on its way.
        (cancellation(&rig, "#1003"), ErrorKind::Invalid, "fulfillments that cannot be cancelled"),
        (with("order_id", json!("9007199254740992")), ErrorKind::NotFound, "no order"),
        (with("reason", json!("because")), ErrorKind::Invalid, "reason: unknown variant"),
    ] {
        refused(&rig, &api, "cancel_order", arguments, kind, said).await;
    }
    assert_eq!(rig.acme.order("#1007").unwrap()["cancelledAt"], json!(null));
    let read_only = rig.api_as("read_orders");
    let arguments = cancellation(&rig, "#1007");
    refused(&rig, &read_only, "cancel_order", arguments, ErrorKind::Forbidden, "write_orders").await;
}

#[tokio::test]
async fn a_cancellation_whose_fate_is_unknown_is_not_to_be_repeated_without_a_look() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    rig.http.lose_next_mutation();

    let error = rig.call(&api, "cancel_order", cancellation(&rig, "#1007")).await.unwrap_err();

    assert_eq!((error.kind, error.retry), (ErrorKind::Unavailable, Retry::Never));
    assert!(error.message.contains("read the order before you repeat it"), "{error}");
    let again = cancellation(&rig, "#1007");
    refused(&rig, &api, "cancel_order", again, ErrorKind::Conflict, "is cancelled already").await;
}

#[tokio::test]
async fn a_cancellation_whose_answer_was_lost_is_answered_when_it_is_asked_for_again() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    for note in [None, Some("Asked for in ticket 7".to_owned()), Some("x".repeat(235))] {
        let (acme, name) = (&rig.acme, "#1007");
        acme.change_order(name, |order| order["cancelledAt"] = Value::Null);
        let mut arguments = cancellation(&rig, name);
        arguments["refund"] = json!(false);
        if let Some(note) = &note {
            arguments["staff_note"] = json!(note);
        }
        rig.http.lose_next_mutation();

        let lost = rig.call_with(&api, "cancel_order", arguments.clone(), Some("approved-7")).await.unwrap_err();
        assert!(api.may_have_changed(), "{lost}");
        let again = rig.call_with(&api, "cancel_order", arguments.clone(), Some("approved-7")).await.unwrap();

        assert_eq!((&again["order_name"], &again["done"]), (&json!(name), &json!(true)), "{again}");
        let kept = acme.order(name).unwrap()["cancellation"]["staffNote"].as_str().unwrap().to_owned();
        assert!(kept.starts_with(note.as_deref().unwrap_or_default()) && kept.contains("[ref "), "{kept}");
        // It is nobody else's: not another key's, and not that of the same key with another call.
        let mut other = arguments.clone();
        other["restock"] = json!(false);
        for (arguments, key) in [(arguments, Some("approved-8")), (other, Some("approved-7"))] {
            let refused = rig.call_with(&api, "cancel_order", arguments, key).await.unwrap_err();
            assert!(refused.kind == ErrorKind::Conflict && refused.message.contains("cancelled already"), "{refused}");
        }
    }
}

#[tokio::test]
async fn an_item_is_refunded_to_where_the_money_came_from() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let arguments = refund(&rig, "#1001");

    let done = rig.call(&api, "refund_order", arguments.clone()).await.unwrap();

    assert_eq!(done["refunded"]["amount"], arguments["amount"]);
    let order = rig.acme.order("#1001").unwrap();
    assert_eq!(amount(&order, "totalRefundedSet"), arguments["amount"]);
    assert_eq!(order["displayFinancialStatus"], "PARTIALLY_REFUNDED");
    let moved = &order["transactions"][1];
    assert_eq!(
        (&moved["kind"], &moved["parentTransaction"]["id"]),
        (&json!("REFUND"), &order["transactions"][0]["id"])
    );
    let read = rig.call(&api, "get_order", json!({"order_id": order["id"]})).await.unwrap();
    assert_eq!(read["order"]["refunds"][0]["id"], done["refund_id"]);
    assert_eq!(read["order"]["refunds"][0]["note"], "Arrived broken");
}

#[tokio::test]
async fn shipping_can_be_refunded_alone_and_together() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let shipping =
        json!({"order_id": rig.order_id("#1001"), "refund_shipping": true, "amount": "4.90", "currency": "EUR"});

    let done = rig.call(&api, "refund_order", shipping.clone()).await.unwrap();

    assert_eq!(done["refunded"], json!({"amount": "4.9", "currency": "EUR"}));
    let again = rig.call(&api, "refund_order", shipping).await.unwrap_err();
    assert_eq!(again.kind, ErrorKind::Conflict, "{again}");
    assert!(again.message.contains("computes 0.0 EUR") && again.message.contains("4.9 EUR were refunded"), "{again}");
}

#[tokio::test]
async fn no_money_moves_unless_the_amount_is_the_one_that_shopify_computes() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let with = |field: &str, value: Value| {
        let mut arguments = refund(&rig, "#1001");
        arguments[field] = value;
        arguments
    };
    let item = rig.acme.order("#1001").unwrap()["lineItems"][0]["id"].clone();
    for (arguments, kind, said) in [
        (with("amount", json!("1.00")), ErrorKind::Conflict, "No money was moved"),
        (with("currency", json!("USD")), ErrorKind::Conflict, "No money was moved"),
        (with("line_items", json!([{"line_item_id": item, "quantity": 9}])), ErrorKind::Invalid, "than were purchased"),
        (refund(&rig, "#1005"), ErrorKind::Conflict, "was paid in USD"),
        (with("line_items", json!([])), ErrorKind::Invalid, "line_items: "),
    ] {
        refused(&rig, &api, "refund_order", arguments, kind, said).await;
    }
    let order = rig.acme.order("#1001").unwrap();
    assert_eq!((amount(&order, "totalRefundedSet"), order["refunds"].as_array().unwrap().len()), ("0.0", 0));
}

#[tokio::test]
async fn a_refund_whose_answer_was_lost_is_answered_when_it_is_asked_for_again() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    // All of it, so that Shopify computes nothing the second time; a part; and without a note.
    let mut plain = refund(&rig, "#1001");
    plain.as_object_mut().unwrap().remove("note");
    for (name, arguments) in [("#1006", refund(&rig, "#1006")), ("#1001", plain)] {
        rig.http.lose_next_mutation();

        let lost = rig.call_with(&api, "refund_order", arguments.clone(), Some("approved-7")).await.unwrap_err();
        assert_eq!((lost.kind, lost.retry), (ErrorKind::Unavailable, Retry::Backoff));
        let again = rig.call_with(&api, "refund_order", arguments.clone(), Some("approved-7")).await.unwrap();

        let order = rig.acme.order(name).unwrap();
        assert_eq!(order["refunds"].as_array().unwrap().len(), 1);
        assert_eq!(amount(&order, "totalRefundedSet"), arguments["amount"]);
        assert_eq!(again["refund_id"], order["refunds"][0]["id"]);
        assert_eq!(again["refunded"]["amount"], order["refunds"][0]["totalRefundedSet"]["shopMoney"]["amount"]);
        let note = order["refunds"][0]["note"].as_str().unwrap();
        assert!(note.starts_with(arguments["note"].as_str().unwrap_or_default()) && note.contains("[ref "), "{note}");

        // Under another key it is another refund, of which Shopify has nothing more to compute for all of it.
        let other = rig.call_with(&api, "refund_order", arguments.clone(), Some("approved-8")).await;
        if name == "#1006" {
            assert!(other.unwrap_err().message.contains("were refunded before"));
        }
    }
}

#[tokio::test]
async fn a_refund_that_somebody_else_made_is_not_taken_for_the_callers() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let arguments = refund(&rig, "#1006");
    rig.call(&api, "refund_order", arguments.clone()).await.unwrap();

    let refused = rig.call_with(&api, "refund_order", arguments, Some("approved-7")).await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::Conflict, "{refused}");
}

#[tokio::test]
async fn a_refund_that_is_asked_for_again_with_its_key_is_made_once() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    // Of an item of which there are two, so that the second look does not show that the first was made.
    let order = rig.acme.order("#1001").unwrap();
    let item = &order["lineItems"][1];
    let arguments = json!({"order_id": order["id"], "currency": "EUR",
        "line_items": [{"line_item_id": item["id"], "quantity": 1}],
        "amount": item["originalUnitPriceSet"]["shopMoney"]["amount"]});

    let first = rig.call_with(&api, "refund_order", arguments.clone(), Some("k")).await.unwrap();
    let second = rig.call_with(&api, "refund_order", arguments.clone(), Some("k")).await.unwrap();
    let other = rig.call_with(&api, "refund_order", arguments, Some("l")).await.unwrap();

    assert_eq!(first["refund_id"], second["refund_id"]);
    assert_ne!(first["refund_id"], other["refund_id"]);
    assert_eq!(rig.acme.order("#1001").unwrap()["refunds"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_order_that_changed_between_look_and_refund_is_shopifys_to_refuse() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let acme = rig.acme.clone();
    rig.http.before_mutation(move || {
        acme.change_order("#1001", |order| order["lineItems"][0]["refundableQuantity"] = json!(0));
    });

    let error = rig.call(&api, "refund_order", refund(&rig, "#1001")).await.unwrap_err();

    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert_eq!(amount(&rig.acme.order("#1001").unwrap(), "totalRefundedSet"), "0.0");
}
