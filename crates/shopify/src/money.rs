//! Amounts: decimal text on the wire, never a float.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

/// So many decimals are kept; no currency has more than four.
const DECIMALS: usize = 6;

/// An amount in one currency, as Shopify spells it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Money {
    #[serde(deserialize_with = "text")]
    pub(crate) amount: String,
    #[serde(rename(deserialize = "currencyCode"))]
    pub(crate) currency: String,
}

/// The same amount in the shop's currency, and in the customer's where it was asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MoneyBag {
    pub(crate) shop_money: Money,
    pub(crate) presentment_money: Option<Money>,
}

/// A decimal is a string; a number is read all the same.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(D::Error::custom("an amount is neither text nor a number")),
    }
}

/// The amount in millionths, so that `10`, `10.0` and `10.00` are one. `None`: no plain decimal, or not so many digits.
pub(crate) fn millionths(amount: &str) -> Option<i64> {
    let (negative, digits) = amount.strip_prefix('-').map_or((false, amount), |digits| (true, digits));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(part) || part.trim_end_matches('0').len() > DECIMALS {
        return None;
    }
    let part = part.trim_end_matches('0');
    let number: i64 = format!("{whole}{part:0<DECIMALS$}").parse().ok()?;
    Some(if negative { -number } else { number })
}

/// An amount that was asked for: a plain decimal above zero.
pub(crate) fn positive(field: &str, amount: &str) -> Result<i64, String> {
    millionths(amount)
        .filter(|amount| *amount > 0)
        .ok_or_else(|| format!("{field}: expected a decimal above zero, like \"23.90\""))
}

/// Three capital letters (ISO 4217).
pub(crate) fn currency(field: &str, code: &str) -> Result<(), String> {
    let good = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    if good { Ok(()) } else { Err(format!("{field}: expected a currency's three capital letters, like \"EUR\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_amount_is_the_same_however_it_is_spelled() {
        for text in ["10", "10.0", "10.00", "010.000000", "10.00000000000"] {
            assert_eq!(millionths(text), Some(10_000_000), "{text}");
        }
        assert_eq!(millionths("0.1"), Some(100_000));
        assert_eq!(millionths("-5.25"), Some(-5_250_000));
        assert_eq!(millionths("0.000001"), Some(1));
        for text in ["", "-", ".", "1.", ".5", "1e3", "1,5", "+1", " 1", "NaN", "0.0000001", "99999999999999999999"] {
            assert_eq!(millionths(text), None, "{text}");
        }
    }

    #[test]
    fn an_amount_that_is_asked_for_is_above_zero() {
        assert!(positive("amount", "0.01").is_ok());
        for text in ["0", "0.00", "-1", "ten"] {
            assert!(positive("amount", text).unwrap_err().starts_with("amount: expected"), "{text}");
        }
        assert!(currency("currency", "EUR").is_ok());
        for code in ["", "eur", "EURO", "€", "E1R"] {
            assert!(currency("currency", code).unwrap_err().starts_with("currency: expected"), "{code}");
        }
    }

    #[test]
    fn an_amount_is_read_from_text_and_number() {
        for amount in ["\"10.50\"", "10.50"] {
            let read: Money =
                serde_json::from_str(&format!("{{\"amount\": {amount}, \"currencyCode\": \"EUR\"}}")).unwrap();
            assert_eq!(millionths(&read.amount), Some(10_500_000));
        }
        assert!(serde_json::from_str::<Money>("{\"amount\": null, \"currencyCode\": \"EUR\"}").is_err());
    }
}
