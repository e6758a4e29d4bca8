//! `cancel_order`. Shopify knows no key for it; so a cancellation under a caller's key carries a mark of it in its staff note,
//! and a call that finds the order cancelled with its mark answers as the one that did it.

use holdfast_core::error::{ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{get_order::not_found, gid, invalid, is_marked, noted};
use crate::{
    graph::Graph,
    money::{MoneyBag, currency, millionths},
};

pub(super) const NAME: &str = "cancel_order";
/// Shopify takes 255, of which the mark needs some.
const LONGEST_NOTE_CHARS: usize = 235;

const READ: &str = "query OrderToCancel($id: ID!) { order(id: $id) {
  id name cancelledAt cancellation { staffNote } currentTotalPriceSet { shopMoney { amount currencyCode } } } }";

/// No idempotency key exists for it. <https://shopify.dev/docs/api/admin-graphql/latest/mutations/orderCancel>
const CANCEL: &str = "mutation Cancel($id: ID!, $reason: OrderCancelReason!, $restock: Boolean!, $refund: Boolean!, \
    $notify: Boolean, $note: String) {
  orderCancel(orderId: $id, reason: $reason, restock: $restock, refundMethod: {originalPaymentMethodsRefund: $refund},
      notifyCustomer: $notify, staffNote: $note) {
    job { id done } orderCancelUserErrors { field message } } }";

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    Customer,
    Declined,
    Fraud,
    Inventory,
    Staff,
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    order_id: String,
    expected_total: String,
    currency: String,
    reason: Reason,
    refund: bool,
    restock: bool,
    #[serde(default)]
    notify_customer: bool,
    staff_note: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    order_id: String,
    order_name: String,
    job_id: Option<String>,
    done: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    id: String,
    name: String,
    cancelled_at: Option<String>,
    cancellation: Option<Cancellation>,
    current_total_price_set: MoneyBag,
}

/// <https://shopify.dev/docs/api/admin-graphql/latest/objects/OrderCancellation>
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancellation {
    staff_note: Option<String>,
}

#[derive(Deserialize)]
struct Cancelled {
    job: Option<Job>,
}

#[derive(Deserialize)]
struct Job {
    id: String,
    done: bool,
}

pub(super) async fn run(graph: &Graph<'_>, arguments: Arguments, key: Option<&str>) -> Result<Answer> {
    let id = check(&arguments).map_err(invalid(graph, NAME))?;
    let read: Option<Read> = graph.ask(NAME, READ, "order", json!({"id": id})).await?.data;
    let order = read.ok_or_else(|| not_found(graph, NAME))?;
    if order.id != id {
        return Err(graph.mistaken(NAME, "order"));
    }
    let conflict = |message: String| graph.error(NAME, ErrorKind::Conflict, message);
    let mark = key.map(|key| mark(graph.shop(), &arguments, &id, key));
    if order.cancelled_at.is_some() {
        let note = order.cancellation.as_ref().and_then(|cancellation| cancellation.staff_note.as_deref());
        if mark.as_deref().is_some_and(|mark| is_marked(note, mark)) {
            // An earlier try of this call did it, and its job has come to its end.
            return Ok(Answer { order_id: order.id, order_name: order.name, job_id: None, done: true });
        }
        return Err(conflict(format!("the order {} is cancelled already; nothing was changed", order.name)));
    }
    let total = &order.current_total_price_set.shop_money;
    let same =
        millionths(&total.amount).is_some() && millionths(&total.amount) == millionths(&arguments.expected_total);
    if !same || total.currency != arguments.currency {
        return Err(conflict(format!(
            "the order {} has a total of {} {}, not {} {}; nothing was changed. Read it again",
            order.name, total.amount, total.currency, arguments.expected_total, arguments.currency
        )));
    }
    let variables = json!({
        "id": order.id,
        "reason": match arguments.reason {
            Reason::Customer => "CUSTOMER",
            Reason::Declined => "DECLINED",
            Reason::Fraud => "FRAUD",
            Reason::Inventory => "INVENTORY",
            Reason::Staff => "STAFF",
            Reason::Other => "OTHER",
        },
        "restock": arguments.restock,
        "refund": arguments.refund,
        "notify": arguments.notify_customer,
        "note": noted(arguments.staff_note.as_deref(), mark.as_deref()),
    });
    let done: Cancelled = graph.change(NAME, CANCEL, "orderCancel", "orderCancelUserErrors", variables, false).await?;
    let finished = done.job.as_ref().is_none_or(|job| job.done);
    Ok(Answer { order_id: order.id, order_name: order.name, job_id: done.job.map(|job| job.id), done: finished })
}

/// What tells the cancellation of this call from any other of the order.
fn mark(shop: &str, arguments: &Arguments, order: &str, key: &str) -> String {
    let Arguments { reason, refund, restock, notify_customer, staff_note, .. } = arguments;
    let of = json!(["cancel", shop, order, key, format!("{reason:?}"), refund, restock, notify_customer, staff_note]);
    super::mark(&of)
}

fn check(arguments: &Arguments) -> Result<String, String> {
    let id = gid("Order", "order_id", &arguments.order_id)?;
    if millionths(&arguments.expected_total).is_none_or(|total| total < 0) {
        return Err("expected_total: expected a decimal, like \"23.90\"".to_owned());
    }
    currency("currency", &arguments.currency)?;
    if arguments.staff_note.as_deref().is_some_and(|note| note.chars().count() > LONGEST_NOTE_CHARS) {
        return Err(format!("staff_note: expected at most {LONGEST_NOTE_CHARS} characters"));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_sent() {
        let base = json!({"order_id": "5", "expected_total": "10.00", "currency": "EUR", "reason": "customer",
            "refund": true, "restock": true});
        let with = |field: &str, value: serde_json::Value| {
            let mut arguments = base.clone();
            arguments[field] = value;
            check(&serde_json::from_value(arguments).unwrap())
        };
        assert_eq!(with("expected_total", json!("0")).as_deref(), Ok("gid://shopify/Order/5"));
        for (field, value) in [
            ("order_id", json!("#5")),
            ("expected_total", json!("ten")),
            ("expected_total", json!("-1")),
            ("currency", json!("eur")),
            ("staff_note", json!("x".repeat(236))),
        ] {
            assert!(with(field, value).unwrap_err().starts_with(&format!("{field}: ")), "{field}");
        }
    }
}
