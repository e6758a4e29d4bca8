//! What agents look up.

use std::collections::BTreeSet;

use holdfast_core::ErrorKind;
use serde_json::{Value, json};

use crate::rig::{Rig, SCOPES};

/// All items of a tool's pages, and how many pages there were.
async fn all(rig: &Rig, tool: &str, list: &str, arguments: Value) -> (Vec<Value>, usize) {
    let api = rig.api_as(SCOPES);
    let (mut items, mut pages, mut arguments) = (Vec::new(), 0, arguments);
    loop {
        rig.sandbox.advance(std::time::Duration::from_mins(1));
        let page = rig.call(&api, tool, arguments.clone()).await.unwrap();
        items.extend(page[list].as_array().unwrap().iter().cloned());
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => return (items, pages),
        }
    }
}

#[tokio::test]
async fn orders_are_found_newest_first_to_the_last_page() {
    let rig = Rig::start().await;

    let (orders, pages) = all(&rig, "find_order", "orders", json!({"limit": 25})).await;

    assert_eq!((orders.len(), pages), (60, 3));
    let ids: BTreeSet<&str> = orders.iter().map(|order| order["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 60);
    assert_eq!((&orders[0]["name"], &orders[59]["name"]), (&json!("#1060"), &json!("#1001")));
    assert_eq!(orders[59]["id"], "gid://shopify/Order/9007199254750994", "an id above 2^53 keeps its digits");
}

#[tokio::test]
async fn an_order_is_found_by_its_number_however_it_is_written() {
    let rig = Rig::start().await;
    // Shopify finds this one too.
    rig.acme.change_order("#1060", |order| order["name"] = json!("#10015"));
    let api = rig.api_as(SCOPES);
    for name in ["#1001", "1001", " #1001 "] {
        let found = rig.call(&api, "find_order", json!({"order_name": name})).await.unwrap();
        let names: Vec<&Value> = found["orders"].as_array().unwrap().iter().map(|order| &order["name"]).collect();
        assert_eq!(names, ["#1001"], "{name}");
        assert_eq!(found["note"], json!(null));
    }
    for name in ["\" OR status:open OR name:\"", "9999", "status:open"] {
        let found = rig.call(&api, "find_order", json!({"order_name": name})).await.unwrap();
        assert_eq!(found["orders"], json!([]), "{name}");
    }
}

#[tokio::test]
async fn filters_of_orders_hold_together() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let find = async |arguments: Value| {
        let found = rig.call(&api, "find_order", arguments).await.unwrap();
        found["orders"].as_array().unwrap().clone()
    };

    // The same address with more behind it is another customer's.
    let orders = find(json!({"email": "MIRA.castellan@example.com"})).await;
    assert_eq!(orders.len(), 5);
    assert!(orders.iter().all(|order| order["email"] == "mira.castellan@example.com"), "{orders:?}");
    let customer = orders[0]["customer"]["id"].clone();
    assert_eq!(find(json!({"customer_id": customer})).await.len(), 5);
    let number = customer.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    assert_eq!(find(json!({"customer_id": number, "status": "cancelled"})).await.len(), 0);
    let cancelled = find(json!({"status": "cancelled"})).await;
    assert_eq!((cancelled.len(), &cancelled[0]["name"]), (1, &json!("#1002")));
    assert_eq!(find(json!({"confirmation_number": "XPAV007CT"})).await[0]["name"], "#1007");
    let when = json!({"created_after": "2026-11-01T05:00:00Z", "created_before": "2026-11-01T07:00:00Z"});
    assert_eq!(find(when).await.len(), 2);
}

#[tokio::test]
async fn an_order_comes_with_its_delivery_and_its_payments() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let id = rig.order_id("#1003");
    for id in [id.as_str(), id.rsplit('/').next().unwrap()] {
        let read = rig.call(&api, "get_order", json!({"order_id": id})).await.unwrap();
        let order = &read["order"];
        assert_eq!((&order["name"], &read["complete"], &read["note"]), (&json!("#1003"), &json!(true), &json!(null)));
        assert_eq!(order["fulfillments"][0]["status"], "IN_TRANSIT");
        let tracking = &order["fulfillments"][0]["tracking"][0];
        assert_eq!((&tracking["company"], &tracking["number"]), (&json!("DHL"), &json!("00340434161094042557")));
        assert_eq!(order["fulfillments"][0]["items"].as_array().unwrap().len(), 2);
        assert_eq!(order["transactions"][0]["amount"], order["total"]);
        assert_eq!(order["customer"]["name"], "Priya Raman");
        assert_eq!(order["shipping_address"]["country"], "DE");
        assert_eq!(order["refunded"]["amount"], "0.0");
    }
}

#[tokio::test]
async fn an_order_with_many_items_is_read_to_the_last_one() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);

    let read = rig.call(&api, "get_order", json!({"order_id": rig.order_id("#1004")})).await.unwrap();

    let ids: BTreeSet<&str> =
        read["order"]["line_items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 160);
    assert_eq!(read["complete"], true);
    // The order with 50, 100 more, the last 10.
    assert_eq!(rig.acme.counters().api_calls, 3);
}

#[tokio::test]
async fn an_order_that_is_not_there_is_not_found() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let missing = rig.call(&api, "get_order", json!({"order_id": "9007199254740992"})).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    for id in ["#1001", "gid://shopify/Customer/1", "../shop", ""] {
        let refused = rig.call(&api, "get_order", json!({"order_id": id})).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{id}");
    }
}

#[tokio::test]
async fn a_customer_is_found_by_any_one_thing() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let find = async |arguments: Value| {
        let found = rig.call(&api, "find_customer", arguments).await.unwrap();
        found["customers"].as_array().unwrap().clone()
    };

    let by_mail = find(json!({"email": "lucja.wojcik@example.com"})).await;
    assert_eq!((by_mail.len(), &by_mail[0]["name"]), (1, &json!("Łucja Wójcik")));
    assert_eq!(by_mail[0]["last_order"]["name"], "#1053");
    assert_eq!(find(json!({"customer_id": by_mail[0]["id"]})).await, by_mail);
    assert_eq!(find(json!({"phone": by_mail[0]["phone"]})).await, by_mail);
    assert_eq!(find(json!({"name": "łucja"})).await, by_mail);
    assert_eq!(find(json!({"name": "偉 陳"})).await.len(), 1);
    assert_eq!(find(json!({"name": "O\"Neil"})).await.len(), 1);
    assert_eq!(find(json!({"email": "nobody@example.com"})).await, Vec::<Value>::new());

    let (miras, pages) = all(&rig, "find_customer", "customers", json!({"name": "Mira", "limit": 1})).await;
    assert_eq!((miras.len(), pages), (2, 2));
}

#[tokio::test]
async fn products_come_with_their_variants_and_say_when_there_are_more() {
    let rig = Rig::start().await;

    let (products, pages) = all(&rig, "search_products", "products", json!({"limit": 20})).await;

    assert_eq!((products.len(), pages), (30, 2));
    let cut: Vec<&Value> = products.iter().filter(|product| product["variants_complete"] == false).collect();
    assert_eq!((cut.len(), cut[0]["variants"].as_array().unwrap().len()), (1, 20));

    let api = rig.api_as(SCOPES);
    let found = rig.call(&api, "search_products", json!({"text": "paper lantern", "status": "active"})).await.unwrap();
    assert!(!found["products"].as_array().unwrap().is_empty());
    for product in found["products"].as_array().unwrap() {
        assert!(product["title"].as_str().unwrap().starts_with("Paper lantern"), "{product}");
        assert_eq!(product["lowest_price"]["currency"], "EUR");
    }
    let found = rig.call(&api, "search_products", json!({"sku": "P7-1"})).await.unwrap();
    assert_eq!(found["products"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_cursor_of_nobodys_is_no_empty_page() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let error = rig.call(&api, "find_order", json!({"cursor": "made-up"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.message.starts_with("cursor: "), "{error}");
}

#[tokio::test]
async fn a_missing_scope_is_named() {
    let rig = Rig::start().await;
    let api = rig.api_as("read_products");
    for (tool, arguments, scope) in [
        ("find_order", json!({}), "read_orders"),
        ("get_order", json!({"order_id": "1"}), "read_orders"),
        ("find_customer", json!({"name": "x"}), "read_customers"),
    ] {
        let error = rig.call(&api, tool, arguments).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Forbidden, "{error}");
        assert!(error.message.contains(scope), "{error}");
    }
    // Only a part is missing: the order is there, and says so.
    let api = rig.api_as("read_orders");
    let read = rig.call(&api, "get_order", json!({"order_id": rig.order_id("#1001")})).await.unwrap();
    assert_eq!(read["order"]["customer"], json!(null));
    assert!(read["note"].as_str().unwrap().contains("customer"), "{read}");
}

#[tokio::test]
async fn an_unknown_tool_is_not_found() {
    let rig = Rig::start().await;
    let api = rig.api_as(SCOPES);
    let error = rig.call(&api, "delete_order", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("find_order, get_order"), "{error}");
}
