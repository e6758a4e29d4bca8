//! Amounts in hundredths, and as Shopify spells them.

use serde_json::{Value, json};

/// The hundredths of `23.9` are 2390; more decimals than two are none of this sandbox's.
pub(crate) fn cents(amount: &str) -> Option<i64> {
    let (whole, part) = amount.split_once('.').unwrap_or((amount, "0"));
    let part = part.trim_end_matches('0');
    if part.len() > 2 || whole.is_empty() || !format!("{whole}{part}").bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{whole}{part:0<2}").parse().ok()
}

/// `23.9`, as Shopify drops a last zero.
pub(crate) fn decimal(cents: i64) -> String {
    let text = format!("{}.{:02}", cents / 100, cents % 100);
    text.strip_suffix('0').map_or_else(|| text.clone(), str::to_owned)
}

pub(crate) fn money(cents: i64, currency: &str) -> Value {
    json!({"amount": decimal(cents), "currencyCode": currency})
}

/// The same amount in the shop's currency and the customer's; `abroad`: that currency costs half as much.
pub(crate) fn bag(cents: i64, abroad: Option<&str>) -> Value {
    let there = abroad.map_or_else(|| money(cents, "EUR"), |currency| money(cents * 2, currency));
    json!({"shopMoney": money(cents, "EUR"), "presentmentMoney": there})
}

/// The shop's side of a bag.
pub(crate) fn of_bag(bag: &Value) -> i64 {
    bag["shopMoney"]["amount"].as_str().and_then(cents).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_go_both_ways() {
        for (text, cents_of, back) in [("23.90", 2390, "23.9"), ("5", 500, "5.0"), ("0.05", 5, "0.05")] {
            assert_eq!(cents(text), Some(cents_of));
            assert_eq!(decimal(cents_of), back);
        }
        for text in ["", "1.234", "-1", "x", "1,5"] {
            assert_eq!(cents(text), None, "{text}");
        }
    }
}
