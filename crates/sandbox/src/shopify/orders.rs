//! What orders go through: a refund as Shopify computes it, the refund itself, a cancellation.

use serde_json::{Map, Value, json};

use super::graphql::run::error;
use super::money::{bag, cents, decimal, of_bag};
use super::shop::Data;

fn abroad(order: &Value) -> Option<String> {
    order["_abroad"].as_str().map(str::to_owned)
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

fn items(of: &Value) -> &[Value] {
    of.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What may still be refunded of the one payment.
fn refundable(order: &Value) -> i64 {
    of_bag(&order["transactions"][0]["amountSet"]) - of_bag(&order["totalRefundedSet"])
}

/// <https://shopify.dev/docs/api/admin-graphql/latest/objects/Order#field-Order.fields.suggestedRefund>
pub(crate) fn suggested(order: &Value, arguments: &Map<String, Value>) -> Value {
    let lines = arguments.get("refundLineItems").map(items).unwrap_or_default();
    let mut amount: i64 = lines
        .iter()
        .filter_map(|line| {
            let item = items(&order["lineItems"]).iter().find(|item| item["id"] == line["lineItemId"])?;
            let quantity = line["quantity"].as_i64()?.min(item["refundableQuantity"].as_i64()?).max(0);
            Some(of_bag(&item["originalUnitPriceSet"]) * quantity)
        })
        .sum();
    if arguments.get("refundShipping") == Some(&json!(true)) {
        amount += order["_shipping"].as_i64().unwrap_or_default();
    }
    let amount = amount.min(refundable(order));
    let there = abroad(order);
    let there = there.as_deref();
    let payment = &order["transactions"][0];
    let transactions = if amount > 0 {
        json!([{"kind": "SUGGESTED_REFUND", "gateway": payment["gateway"], "amountSet": bag(amount, there),
            "parentTransaction": payment}])
    } else {
        json!([])
    };
    json!({
        "amountSet": bag(amount, there),
        "maximumRefundableSet": bag(refundable(order), there),
        "suggestedTransactions": transactions,
    })
}

fn refused(field: &[&str], message: &str) -> Value {
    json!({"order": null, "refund": null, "userErrors": [{"field": field, "message": message}]})
}

/// `refundCreate`. A key that comes again gets the answer of before, and has no second effect.
pub(crate) fn refund(
    data: &mut Data,
    key: Option<&str>,
    arguments: &Map<String, Value>,
    now: &str,
) -> Result<Value, Value> {
    let key = key.filter(|key| !key.is_empty()).ok_or_else(|| {
        error("The @idempotent directive with a key is required for this mutation", "BAD_REQUEST", &[])
    })?;
    let input = &arguments["input"];
    if let Some((before, answer)) = data.refunds.get(key) {
        if before == input {
            return Ok(answer.clone());
        }
        let message = "The idempotency key was used with other parameters";
        return Err(error(message, "IDEMPOTENCY_KEY_PARAMETER_MISMATCH", &[]));
    }
    let (refund_id, transaction_id) = (data.next_id(), data.next_id());
    let Some(order) = data.order_mut(text(input, "orderId")) else {
        return Ok(refused(&["input", "orderId"], "Order does not exist"));
    };
    let answer = match apply(order, input, refund_id, transaction_id, now) {
        Ok(refund) => json!({"order": order.clone(), "refund": refund, "userErrors": []}),
        Err((field, message)) => return Ok(refused(&field, &message)),
    };
    data.refunds.insert(key.to_owned(), (input.clone(), answer.clone()));
    Ok(answer)
}

type Refusal = (Vec<&'static str>, String);

fn apply(order: &mut Value, input: &Value, refund: i64, transaction: i64, now: &str) -> Result<Value, Refusal> {
    let no = |field: &[&'static str], message: &str| (field.to_vec(), message.to_owned());
    let mut returned = 0;
    for line in items(&input["refundLineItems"]) {
        let item = items(&order["lineItems"]).iter().find(|item| item["id"] == line["lineItemId"]);
        let item = item.ok_or_else(|| no(&["refundLineItems", "lineItemId"], "Line item does not exist"))?;
        let (asked, left) = (line["quantity"].as_i64().unwrap_or(0), item["refundableQuantity"].as_i64().unwrap_or(0));
        if asked < 1 || asked > left {
            let message = "Quantity cannot refund more items than were purchased";
            return Err(no(&["refundLineItems", "quantity"], message));
        }
        returned += of_bag(&item["originalUnitPriceSet"]) * asked;
    }
    let mut moved = 0;
    for entry in items(&input["transactions"]) {
        let known = items(&order["transactions"]).iter().any(|known| known["id"] == entry["parentId"]);
        if entry["orderId"] != order["id"] || entry["kind"] != "REFUND" || !known {
            return Err(no(&["transactions"], "Transaction is no refund of a payment of this order"));
        }
        moved += cents(text(entry, "amount")).ok_or_else(|| no(&["transactions", "amount"], "Amount is invalid"))?;
    }
    if moved > refundable(order) {
        let message = format!("Refund amount is more than {} which can be refunded", decimal(refundable(order)));
        return Err((vec!["transactions"], message));
    }
    for line in items(&input["refundLineItems"]) {
        let asked = line["quantity"].as_i64().unwrap_or(0);
        let list = order["lineItems"].as_array_mut().into_iter().flatten();
        for item in list.filter(|item| item["id"] == line["lineItemId"]) {
            for name in ["refundableQuantity", "currentQuantity"] {
                item[name] = (item[name].as_i64().unwrap_or(0) - asked).into();
            }
        }
    }
    if input["shipping"]["fullRefund"] == true {
        returned += order["_shipping"].as_i64().unwrap_or(0);
        order["_shipping"] = 0.into();
    }
    Ok(book(order, &input["note"], returned, moved, refund, transaction, now))
}

/// Notes that money went back.
fn book(order: &mut Value, note: &Value, returned: i64, moved: i64, refund: i64, transaction: i64, now: &str) -> Value {
    let there = abroad(order);
    let there = there.as_deref();
    let refunded = of_bag(&order["totalRefundedSet"]) + moved;
    let paid = of_bag(&order["transactions"][0]["amountSet"]);
    let payment = order["transactions"][0].clone();
    order["totalRefundedSet"] = bag(refunded, there);
    order["currentTotalPriceSet"] = bag((of_bag(&order["currentTotalPriceSet"]) - returned).max(0), there);
    order["displayFinancialStatus"] = if refunded >= paid { "REFUNDED" } else { "PARTIALLY_REFUNDED" }.into();
    let made = json!({
        "id": format!("gid://shopify/Refund/{refund}"),
        "createdAt": now,
        "note": note,
        "totalRefundedSet": bag(moved, there),
    });
    let entry = json!({
        "id": format!("gid://shopify/OrderTransaction/{transaction}"),
        "kind": "REFUND",
        "status": "SUCCESS",
        "gateway": payment["gateway"],
        "processedAt": now,
        "amountSet": bag(moved, there),
        "parentTransaction": payment,
    });
    for (name, value) in [("refunds", made.clone()), ("transactions", entry)] {
        if let (Some(list), true) = (order[name].as_array_mut(), name == "refunds" || moved > 0) {
            list.push(value);
        }
    }
    made
}

/// `orderCancel`: answered with a job, and irreversible.
pub(crate) fn cancel(data: &mut Data, arguments: &Map<String, Value>, now: &str) -> Value {
    let (job, refund, transaction) = (data.next_id(), data.next_id(), data.next_id());
    let no = |message: &str| json!({"job": null, "orderCancelUserErrors": [{"code": "INVALID", "field": ["orderId"], "message": message}]});
    let given = |name: &str| arguments.get(name).unwrap_or(&Value::Null);
    if given("staffNote").as_str().is_some_and(|note| note.chars().count() > 255) {
        return no("Staff note is too long (maximum is 255 characters)");
    }
    let Some(order) = data.order_mut(given("orderId").as_str().unwrap_or_default()) else {
        return no("Order does not exist");
    };
    if !order["cancelledAt"].is_null() {
        return no("Order has already been cancelled");
    }
    if !items(&order["fulfillments"]).is_empty() {
        return no("Cannot cancel an order with fulfillments that cannot be cancelled");
    }
    order["cancelledAt"] = now.into();
    order["cancelReason"] = given("reason").clone();
    order["cancellation"] = json!({"staffNote": given("staffNote")});
    order["refundable"] = false.into();
    if given("refundMethod")["originalPaymentMethodsRefund"] == true {
        let left = refundable(order);
        let total = of_bag(&order["currentTotalPriceSet"]);
        book(order, &Value::Null, total, left, refund, transaction, now);
        for item in order["lineItems"].as_array_mut().into_iter().flatten() {
            item["refundableQuantity"] = 0.into();
            item["currentQuantity"] = 0.into();
        }
    }
    json!({"job": {"id": format!("gid://shopify/Job/{job}"), "done": false}, "orderCancelUserErrors": []})
}
