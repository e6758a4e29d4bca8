//! `refund_order`: what Shopify computes for what is to be refunded is asked first, and only that amount is refunded.
//!
//! Computed anew after the refund was made, it would be another amount, and the repeated call another one. So a refund that
//! is made under a caller's key carries a mark of it in its note, and a call that finds its mark answers that refund.

use holdfast_core::error::{ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{get_order::not_found, gid, invalid, is_marked, noted};
use crate::{
    graph::Graph,
    money::{Money, MoneyBag, currency, millionths, positive},
};

pub(super) const NAME: &str = "refund_order";
/// An input list takes no more (250), and no person approves more.
const MOST_LINES: usize = 100;
const LONGEST_NOTE_CHARS: usize = 255;

/// <https://shopify.dev/docs/api/admin-graphql/latest/objects/Order#field-Order.fields.suggestedRefund>
const SUGGEST: &str = "query Suggest($id: ID!, $lines: [RefundLineItemInput!], $shipping: Boolean) { order(id: $id) {
  id name totalRefundedSet { shopMoney { amount currencyCode } }
  refunds(first: 250) { id note totalRefundedSet { shopMoney { amount currencyCode } } }
  suggestedRefund(refundLineItems: $lines, refundShipping: $shipping) {
    amountSet { shopMoney { amount currencyCode } presentmentMoney { amount currencyCode } }
    maximumRefundableSet { shopMoney { amount currencyCode } }
    suggestedTransactions { gateway amountSet { shopMoney { amount currencyCode } } parentTransaction { id } } } } }";

/// The key is wanted from version 2026-04 on.
/// <https://shopify.dev/docs/api/admin-graphql/latest/mutations/refundCreate>
const REFUND: &str = "mutation Refund($input: RefundInput!, $key: String!) {
  refundCreate(input: $input) @idempotent(key: $key) {
    refund { id note totalRefundedSet { shopMoney { amount currencyCode } } } userErrors { field message } } }";

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Restock {
    /// It comes back.
    Return,
    /// It was never sent.
    Cancel,
    #[default]
    #[serde(rename = "no_restock")]
    Gone,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(rename = "line_item_id")]
    item: String,
    quantity: u32,
    #[serde(default)]
    restock: Restock,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    order_id: String,
    #[serde(default)]
    line_items: Vec<Line>,
    #[serde(default)]
    refund_shipping: bool,
    amount: String,
    currency: String,
    note: Option<String>,
    #[serde(default)]
    notify_customer: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    order_id: String,
    order_name: String,
    refund_id: String,
    refunded: Money,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    id: String,
    name: String,
    total_refunded_set: MoneyBag,
    #[serde(default)]
    refunds: Vec<Refund>,
    suggested_refund: Option<Suggested>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Suggested {
    amount_set: MoneyBag,
    maximum_refundable_set: MoneyBag,
    #[serde(rename = "suggestedTransactions")]
    payments: Vec<SuggestedTransaction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SuggestedTransaction {
    gateway: Option<String>,
    amount_set: MoneyBag,
    parent_transaction: Option<Parent>,
}

#[derive(Deserialize)]
struct Parent {
    id: String,
}

#[derive(Deserialize)]
struct Refunded {
    refund: Option<Refund>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Refund {
    id: String,
    note: Option<String>,
    total_refunded_set: MoneyBag,
}

/// What was asked for, checked.
#[derive(Debug)]
struct Asked {
    id: String,
    /// As Shopify takes them.
    lines: Vec<Value>,
    /// In millionths.
    amount: i64,
}

pub(super) async fn run(graph: &Graph<'_>, arguments: Arguments, key: Option<&str>) -> Result<Answer> {
    let asked = check(&arguments).map_err(invalid(graph, NAME))?;
    let variables = json!({"id": asked.id, "lines": asked.lines, "shipping": arguments.refund_shipping});
    let read: Option<Read> = graph.ask(NAME, SUGGEST, "order", variables).await?.data;
    let order = read.ok_or_else(|| not_found(graph, NAME))?;
    if order.id != asked.id {
        return Err(graph.mistaken(NAME, "order"));
    }
    let mark = key.map(|key| mark(graph.shop(), &arguments, &asked, key));
    if let Some(made) = mark.as_deref().and_then(|mark| made(&order, mark)) {
        return Ok(answer(&order, made));
    }
    let suggested = order.suggested_refund.as_ref().ok_or_else(|| {
        graph.error(NAME, ErrorKind::Conflict, format!("nothing of the order {} can be refunded", order.name))
    })?;
    let transactions = transactions(&arguments, &asked, &order, suggested)
        .map_err(|message| graph.error(NAME, ErrorKind::Conflict, message))?;

    let before = &order.total_refunded_set.shop_money.amount;
    let key = refund_key(graph.shop(), &arguments, &asked, key, before);
    let mut input = json!({
        "orderId": order.id,
        "note": noted(arguments.note.as_deref(), mark.as_deref()),
        "notify": arguments.notify_customer,
        "refundLineItems": asked.lines,
        "transactions": transactions,
    });
    if arguments.refund_shipping {
        input["shipping"] = json!({"fullRefund": true});
    }
    let variables = json!({"input": input, "key": key});
    let done: Refunded = graph.change(NAME, REFUND, "refundCreate", "userErrors", variables, true).await?;
    let refund = done.refund.ok_or_else(|| graph.unreadable(NAME))?;
    Ok(answer(&order, &refund))
}

fn answer(order: &Read, refund: &Refund) -> Answer {
    Answer {
        order_id: order.id.clone(),
        order_name: order.name.clone(),
        refund_id: refund.id.clone(),
        refunded: refund.total_refunded_set.shop_money.clone(),
    }
}

/// The refund that an earlier try of this call has made.
fn made<'a>(order: &'a Read, mark: &str) -> Option<&'a Refund> {
    order.refunds.iter().find(|refund| is_marked(refund.note.as_deref(), mark))
}

fn check(arguments: &Arguments) -> Result<Asked, String> {
    let id = gid("Order", "order_id", &arguments.order_id)?;
    let amount = positive("amount", &arguments.amount)?;
    currency("currency", &arguments.currency)?;
    if arguments.line_items.is_empty() && !arguments.refund_shipping {
        return Err("line_items: expected what is refunded, or refund_shipping".to_owned());
    }
    if arguments.line_items.len() > MOST_LINES {
        return Err(format!("line_items: expected at most {MOST_LINES}"));
    }
    if arguments.note.as_deref().is_some_and(|note| note.chars().count() > LONGEST_NOTE_CHARS) {
        return Err(format!("note: expected at most {LONGEST_NOTE_CHARS} characters"));
    }
    let mut lines: Vec<Value> = Vec::new();
    for (at, line) in arguments.line_items.iter().enumerate() {
        let id = gid("LineItem", &format!("line_items[{at}].line_item_id"), &line.item)?;
        if line.quantity == 0 {
            return Err(format!("line_items[{at}].quantity: expected at least 1"));
        }
        if lines.iter().any(|known| known["lineItemId"] == id) {
            return Err(format!("line_items: {id} is there twice"));
        }
        let restock = match line.restock {
            Restock::Return => "RETURN",
            Restock::Cancel => "CANCEL",
            Restock::Gone => "NO_RESTOCK",
        };
        lines.push(json!({"lineItemId": id, "quantity": line.quantity, "restockType": restock}));
    }
    Ok(Asked { id, lines, amount })
}

/// The transactions that move the money, without which a refund moves none; or why there is none.
fn transactions(
    arguments: &Arguments,
    asked: &Asked,
    order: &Read,
    suggested: &Suggested,
) -> Result<Vec<Value>, String> {
    let name = &order.name;
    let computed = &suggested.amount_set.shop_money;
    let paid_in = suggested.amount_set.presentment_money.as_ref().map_or(&computed.currency, |money| &money.currency);
    if *paid_in != computed.currency {
        return Err(format!(
            "the order {name} was paid in {paid_in} in a shop that counts in {}; refund it in Shopify's admin",
            computed.currency
        ));
    }
    let refunded = &order.total_refunded_set.shop_money;
    if millionths(&computed.amount) != Some(asked.amount) || computed.currency != arguments.currency {
        return Err(format!(
            "Shopify computes {} {} for this of the order {name}, not {} {}; {} {} were refunded before. No money was \
             moved. Ask with what Shopify computes, if that is meant",
            computed.amount,
            computed.currency,
            arguments.amount,
            arguments.currency,
            refunded.amount,
            refunded.currency
        ));
    }
    let most = &suggested.maximum_refundable_set.shop_money;
    if millionths(&most.amount).is_none_or(|most| asked.amount > most) {
        return Err(format!("no more than {} {} of the order {name} can be refunded", most.amount, most.currency));
    }
    let mut sum = 0_i64;
    let mut list = Vec::new();
    for suggested in &suggested.payments {
        let amount = &suggested.amount_set.shop_money.amount;
        sum = millionths(amount).and_then(|amount| sum.checked_add(amount)).unwrap_or(i64::MIN);
        let parent = suggested.parent_transaction.as_ref().map(|parent| &parent.id);
        list.push(json!({"orderId": order.id, "parentId": parent, "gateway": suggested.gateway, "kind": "REFUND",
            "amount": amount}));
    }
    if sum == asked.amount {
        Ok(list)
    } else {
        Err(format!("Shopify names no payments of the order {name} that make up this amount; refund it in its admin"))
    }
}

/// What tells the refund of this call from all others of the order: of the caller's key, and of what is asked under it, so
/// that the key with another refund is Shopify's to refuse.
fn mark(shop: &str, arguments: &Arguments, asked: &Asked, key: &str) -> String {
    let of = json!([
        "mark",
        shop,
        asked.id,
        key,
        asked.lines,
        arguments.refund_shipping,
        asked.amount,
        arguments.currency,
        arguments.note
    ]);
    super::mark(&of)
}

/// A UUID that is the same for each try of one refund: made of the caller's key, else of what is refunded and what was
/// refunded before, so that the same refund asked for once more after the first took effect is another one.
fn refund_key(shop: &str, arguments: &Arguments, asked: &Asked, key: Option<&str>, before: &str) -> String {
    let of = match key {
        Some(key) => json!(["key", shop, asked.id, key]),
        None => json!([
            "refund",
            shop,
            asked.id,
            asked.lines,
            arguments.refund_shipping,
            asked.amount,
            arguments.currency,
            arguments.note,
            before
        ]),
    };
    let mut bytes: [u8; 16] = Sha256::digest(of.to_string().as_bytes())[..16].try_into().expect("a digest has 32");
    // Version 8, the variant of RFC 9562: made by a rule of one's own.
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]];
    parts.map(hex).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(change: &[(&str, Value)]) -> Arguments {
        let mut base = json!({"order_id": "5", "line_items": [{"line_item_id": "7", "quantity": 1}],
            "amount": "10.00", "currency": "EUR"});
        for (field, value) in change {
            base[field] = value.clone();
        }
        serde_json::from_value(base).unwrap()
    }

    fn read(change: impl FnOnce(&mut Value)) -> Read {
        let eur = |amount: &str| json!({"shopMoney": {"amount": amount, "currencyCode": "EUR"}});
        let mut order = json!({"id": "gid://shopify/Order/5", "name": "#1005", "totalRefundedSet": eur("3.0"),
            "suggestedRefund": {"amountSet": eur("10.0"), "maximumRefundableSet": eur("40.0"),
                "suggestedTransactions": [
                    {"gateway": "gift_card", "amountSet": eur("4.0"), "parentTransaction": {"id": "gid://1"}},
                    {"gateway": "card", "amountSet": eur("6.00"), "parentTransaction": {"id": "gid://2"}}]}});
        change(&mut order);
        serde_json::from_value(order).unwrap()
    }

    fn judged(arguments: &Arguments, order: &Read) -> Result<Vec<Value>, String> {
        transactions(arguments, &check(arguments).unwrap(), order, order.suggested_refund.as_ref().unwrap())
    }

    #[test]
    fn money_moves_by_the_payments_that_shopify_names() {
        let list = judged(&arguments(&[]), &read(|_| ())).unwrap();
        assert_eq!(
            list,
            [
                json!({"orderId": "gid://shopify/Order/5", "parentId": "gid://1", "gateway": "gift_card",
                    "kind": "REFUND", "amount": "4.0"}),
                json!({"orderId": "gid://shopify/Order/5", "parentId": "gid://2", "gateway": "card",
                    "kind": "REFUND", "amount": "6.00"}),
            ]
        );
    }

    #[test]
    fn an_amount_that_shopify_does_not_compute_moves_no_money() {
        for (change, said) in [
            (("amount", json!("10.01")), "computes 10.0 EUR for this of the order #1005, not 10.01 EUR"),
            (("amount", json!("9.99")), "3.0 EUR were refunded before"),
            (("currency", json!("USD")), "not 10.00 USD"),
        ] {
            let refused = judged(&arguments(&[change]), &read(|_| ())).unwrap_err();
            assert!(refused.contains(said) && refused.contains("No money was moved"), "{refused}");
        }
        let most = |order: &mut Value| {
            order["suggestedRefund"]["maximumRefundableSet"]["shopMoney"]["amount"] = json!("9.0");
        };
        assert!(judged(&arguments(&[]), &read(most)).unwrap_err().contains("no more than 9.0 EUR"));
        let unpaid = |order: &mut Value| order["suggestedRefund"]["suggestedTransactions"] = json!([]);
        assert!(judged(&arguments(&[]), &read(unpaid)).unwrap_err().contains("no payments"));
        let abroad = |order: &mut Value| {
            order["suggestedRefund"]["amountSet"]["presentmentMoney"] = json!({"amount": "11", "currencyCode": "USD"});
        };
        assert!(judged(&arguments(&[]), &read(abroad)).unwrap_err().contains("was paid in USD"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_sent() {
        let twice = json!([{"line_item_id": "7", "quantity": 1}, {"line_item_id": "gid://shopify/LineItem/7",
            "quantity": 1}]);
        for (field, value, said) in [
            ("order_id", json!("#5"), "order_id: "),
            ("amount", json!("0"), "amount: "),
            ("currency", json!("€"), "currency: "),
            ("line_items", json!([]), "line_items: "),
            ("line_items", twice, "line_items: "),
            ("line_items", json!([{"line_item_id": "x", "quantity": 1}]), "line_items[0].line_item_id: "),
            ("line_items", json!([{"line_item_id": "7", "quantity": 0}]), "line_items[0].quantity: "),
            ("note", json!("x".repeat(256)), "note: "),
        ] {
            assert!(check(&arguments(&[(field, value)])).unwrap_err().starts_with(said), "{field}");
        }
        assert!(check(&arguments(&[("line_items", json!([])), ("refund_shipping", json!(true))])).is_ok());
    }

    #[test]
    fn each_try_of_one_refund_has_the_same_key_and_no_other_refund_has_it() {
        let key = |arguments: &Arguments, own: Option<&str>, before: &str| {
            refund_key("acme", arguments, &check(arguments).unwrap(), own, before)
        };
        let plain = arguments(&[]);
        let first = key(&plain, None, "0.0");
        assert_eq!(first, key(&plain, None, "0.0"));
        assert_eq!((first.len(), &first[14..15], first.matches('-').count()), (36, "8", 4));
        for other in [
            key(&plain, None, "10.0"),
            key(&arguments(&[("amount", json!("11"))]), None, "0.0"),
            key(&arguments(&[("order_id", json!("6"))]), None, "0.0"),
            key(&plain, Some("k"), "0.0"),
        ] {
            assert_ne!(first, other);
        }
        assert_eq!(key(&plain, Some("k"), "0.0"), key(&plain, Some("k"), "10.0"), "the caller's key goes first");
        assert_ne!(key(&plain, Some("k"), "0.0"), key(&plain, Some("l"), "0.0"));
    }

    #[test]
    fn a_refund_is_known_again_by_its_mark_alone() {
        let of = |arguments: &Arguments, key: &str| mark("acme", arguments, &check(arguments).unwrap(), key);
        let own = of(&arguments(&[("note", json!("Broken"))]), "k");
        let order = |note: Option<String>| {
            let refund = json!({"id": "gid://shopify/Refund/1", "note": note,
                "totalRefundedSet": {"shopMoney": {"amount": "10.0", "currencyCode": "EUR"}}});
            read(|order| order["refunds"] = json!([refund]))
        };
        for note in [None, Some(""), Some("Broken")] {
            assert!(made(&order(noted(note, Some(&own))), &own).is_some(), "{note:?}");
            assert!(made(&order(noted(note, None)), &own).is_none(), "{note:?}");
        }
        for other in [
            of(&arguments(&[("note", json!("Broken"))]), "l"),
            of(&arguments(&[]), "k"),
            of(&arguments(&[("note", json!("Broken")), ("amount", json!("9.00"))]), "k"),
        ] {
            assert!(made(&order(Some(other)), &own).is_none());
        }
        assert_eq!(noted(Some("Broken"), None).as_deref(), Some("Broken"), "without a key there is nothing to mark");
    }
}
