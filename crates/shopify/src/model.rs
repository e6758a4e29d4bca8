//! Wire types as Shopify spells them, and the same as agents see them. Ids are gids, in strings; states keep Shopify's own
//! words, so that one that is new is passed on as it is.

use chrono::{DateTime, NaiveDateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::money::{Money, MoneyBag};

/// A connection's page.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub(crate) nodes: Vec<T>,
    pub(crate) page_info: PageInfo,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageInfo {
    has_next_page: bool,
    end_cursor: Option<String>,
}

impl PageInfo {
    /// Where to go on, if there is more.
    pub(crate) fn next(&self) -> Option<String> {
        self.end_cursor.clone().filter(|_| self.has_next_page)
    }
}

/// RFC 3339; without a zone it is UTC.
fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let zoned = DateTime::parse_from_rfc3339(&text).map(|at| at.with_timezone(&Utc));
    let at = zoned.or_else(|_| text.parse::<NaiveDateTime>().map(|at| at.and_utc()));
    at.map(Some).map_err(|_| D::Error::custom("a moment is none"))
}

/// A buyer as an order names them.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Buyer {
    id: String,
    #[serde(rename(deserialize = "displayName"))]
    name: Option<String>,
}

/// An order in a list.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct OrderLine {
    id: String,
    #[serde(rename(deserialize = "legacyResourceId"))]
    number: Option<String>,
    pub(crate) name: String,
    #[serde(rename(deserialize = "confirmationNumber"))]
    confirmation_number: Option<String>,
    pub(crate) email: Option<String>,
    #[serde(default, rename(deserialize = "createdAt"), deserialize_with = "moment")]
    created_at: Option<DateTime<Utc>>,
    #[serde(default, rename(deserialize = "cancelledAt"), deserialize_with = "moment")]
    cancelled_at: Option<DateTime<Utc>>,
    #[serde(rename(deserialize = "displayFinancialStatus"))]
    financial_status: Option<String>,
    #[serde(rename(deserialize = "displayFulfillmentStatus"))]
    fulfillment_status: Option<String>,
    #[serde(rename(deserialize = "returnStatus"))]
    return_status: Option<String>,
    #[serde(rename(deserialize = "currentTotalPriceSet"), serialize_with = "in_shop_currency")]
    total: MoneyBag,
    customer: Option<Buyer>,
}

fn in_shop_currency<S: serde::Serializer>(bag: &MoneyBag, serializer: S) -> Result<S::Ok, S::Error> {
    bag.shop_money.serialize(serializer)
}

/// An order with everything.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireOrder {
    pub(crate) id: String,
    name: String,
    email: Option<String>,
    phone: Option<String>,
    note: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default, deserialize_with = "moment")]
    created_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "moment")]
    cancelled_at: Option<DateTime<Utc>>,
    cancel_reason: Option<String>,
    #[serde(default, deserialize_with = "moment")]
    closed_at: Option<DateTime<Utc>>,
    status_page_url: Option<String>,
    display_financial_status: Option<String>,
    display_fulfillment_status: Option<String>,
    return_status: Option<String>,
    current_total_price_set: MoneyBag,
    total_refunded_set: MoneyBag,
    total_outstanding_set: MoneyBag,
    shipping_address: Option<Address>,
    shipping_line: Option<Titled>,
    customer: Option<Buyer>,
    pub(crate) line_items: Page<LineItem>,
    #[serde(default)]
    pub(crate) fulfillments: Vec<WireFulfillment>,
    #[serde(default)]
    pub(crate) refunds: Vec<WireRefund>,
    #[serde(default)]
    pub(crate) transactions: Vec<WireTransaction>,
}

#[derive(Debug, Deserialize)]
struct Titled {
    title: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Address {
    name: Option<String>,
    address1: Option<String>,
    address2: Option<String>,
    city: Option<String>,
    #[serde(rename(deserialize = "provinceCode"))]
    province: Option<String>,
    zip: Option<String>,
    #[serde(rename(deserialize = "countryCodeV2"))]
    country: Option<String>,
    phone: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct LineItem {
    id: String,
    title: String,
    #[serde(rename(deserialize = "variantTitle"))]
    variant: Option<String>,
    sku: Option<String>,
    #[serde(rename(deserialize = "currentQuantity"))]
    quantity: i64,
    #[serde(rename(deserialize = "refundableQuantity"))]
    refundable_quantity: i64,
    #[serde(rename(deserialize = "unfulfilledQuantity"))]
    unfulfilled_quantity: i64,
    #[serde(rename(deserialize = "originalUnitPriceSet"), serialize_with = "in_shop_currency")]
    unit_price: MoneyBag,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireFulfillment {
    id: String,
    name: Option<String>,
    display_status: Option<String>,
    status: Option<String>,
    #[serde(default, deserialize_with = "moment")]
    created_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "moment")]
    estimated_delivery_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "moment")]
    delivered_at: Option<DateTime<Utc>>,
    #[serde(default)]
    tracking_info: Vec<Tracking>,
    fulfillment_line_items: Page<FulfilledLine>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Tracking {
    company: Option<String>,
    number: Option<String>,
    url: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FulfilledLine {
    quantity: Option<i64>,
    line_item: FulfilledItem,
}

#[derive(Debug, Deserialize)]
struct FulfilledItem {
    id: String,
    title: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireRefund {
    id: String,
    #[serde(default, deserialize_with = "moment")]
    created_at: Option<DateTime<Utc>>,
    note: Option<String>,
    total_refunded_set: MoneyBag,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireTransaction {
    id: String,
    kind: String,
    status: String,
    gateway: Option<String>,
    #[serde(default, deserialize_with = "moment")]
    processed_at: Option<DateTime<Utc>>,
    amount_set: MoneyBag,
}

/// An order as agents see it.
#[derive(Debug, Serialize)]
pub(crate) struct Order {
    id: String,
    name: String,
    email: Option<String>,
    phone: Option<String>,
    note: Option<String>,
    tags: Vec<String>,
    created_at: Option<DateTime<Utc>>,
    cancelled_at: Option<DateTime<Utc>>,
    cancel_reason: Option<String>,
    closed_at: Option<DateTime<Utc>>,
    status_page_url: Option<String>,
    financial_status: Option<String>,
    fulfillment_status: Option<String>,
    return_status: Option<String>,
    total: Money,
    customer_total: Option<Money>,
    refunded: Money,
    outstanding: Money,
    shipping_address: Option<Address>,
    shipping_method: Option<String>,
    customer: Option<Buyer>,
    line_items: Vec<LineItem>,
    fulfillments: Vec<Fulfillment>,
    refunds: Vec<Refund>,
    transactions: Vec<Transaction>,
}

#[derive(Debug, Serialize)]
struct Fulfillment {
    id: String,
    name: Option<String>,
    status: Option<String>,
    created_at: Option<DateTime<Utc>>,
    estimated_delivery_at: Option<DateTime<Utc>>,
    delivered_at: Option<DateTime<Utc>>,
    tracking: Vec<Tracking>,
    items: Vec<FulfillmentItem>,
    items_complete: bool,
}

#[derive(Debug, Serialize)]
struct FulfillmentItem {
    line_item_id: String,
    title: String,
    quantity: Option<i64>,
}

#[derive(Debug, Serialize)]
struct Refund {
    id: String,
    created_at: Option<DateTime<Utc>>,
    note: Option<String>,
    amount: Money,
}

#[derive(Debug, Serialize)]
struct Transaction {
    id: String,
    kind: String,
    status: String,
    gateway: Option<String>,
    processed_at: Option<DateTime<Utc>>,
    amount: Money,
}

impl From<WireOrder> for Order {
    fn from(wire: WireOrder) -> Self {
        Self {
            id: wire.id,
            name: wire.name,
            email: wire.email,
            phone: wire.phone,
            note: wire.note.filter(|note| !note.is_empty()),
            tags: wire.tags,
            created_at: wire.created_at,
            cancelled_at: wire.cancelled_at,
            cancel_reason: wire.cancel_reason,
            closed_at: wire.closed_at,
            status_page_url: wire.status_page_url,
            financial_status: wire.display_financial_status,
            fulfillment_status: wire.display_fulfillment_status,
            return_status: wire.return_status,
            total: wire.current_total_price_set.shop_money,
            customer_total: wire.current_total_price_set.presentment_money,
            refunded: wire.total_refunded_set.shop_money,
            outstanding: wire.total_outstanding_set.shop_money,
            shipping_address: wire.shipping_address,
            shipping_method: wire.shipping_line.and_then(|line| line.title),
            customer: wire.customer,
            line_items: wire.line_items.nodes,
            fulfillments: wire.fulfillments.into_iter().map(Fulfillment::from).collect(),
            refunds: wire.refunds.into_iter().map(Refund::from).collect(),
            transactions: wire.transactions.into_iter().map(Transaction::from).collect(),
        }
    }
}

impl From<WireFulfillment> for Fulfillment {
    fn from(wire: WireFulfillment) -> Self {
        Self {
            id: wire.id,
            name: wire.name,
            status: wire.display_status.or(wire.status),
            created_at: wire.created_at,
            estimated_delivery_at: wire.estimated_delivery_at,
            delivered_at: wire.delivered_at,
            tracking: wire.tracking_info,
            items_complete: wire.fulfillment_line_items.page_info.next().is_none(),
            items: wire
                .fulfillment_line_items
                .nodes
                .into_iter()
                .map(|line| FulfillmentItem {
                    line_item_id: line.line_item.id,
                    title: line.line_item.title,
                    quantity: line.quantity,
                })
                .collect(),
        }
    }
}

impl From<WireRefund> for Refund {
    fn from(wire: WireRefund) -> Self {
        let amount = wire.total_refunded_set.shop_money;
        Self { id: wire.id, created_at: wire.created_at, note: wire.note.filter(|note| !note.is_empty()), amount }
    }
}

impl From<WireTransaction> for Transaction {
    fn from(wire: WireTransaction) -> Self {
        Self {
            id: wire.id,
            kind: wire.kind,
            status: wire.status,
            gateway: wire.gateway,
            processed_at: wire.processed_at,
            amount: wire.amount_set.shop_money,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct At {
        #[serde(default, deserialize_with = "moment")]
        at: Option<DateTime<Utc>>,
    }

    #[test]
    fn a_moment_is_read_with_and_without_a_zone() {
        for text in ["2026-11-02T11:12:13Z", "2026-11-02T13:12:13+02:00", "2026-11-02T11:12:13"] {
            let read: At = serde_json::from_str(&format!("{{\"at\": \"{text}\"}}")).unwrap();
            assert_eq!(read.at.unwrap().to_rfc3339(), "2026-11-02T11:12:13+00:00", "{text}");
        }
        for absent in ["{}", "{\"at\": null}"] {
            assert_eq!(serde_json::from_str::<At>(absent).unwrap().at, None);
        }
        assert!(serde_json::from_str::<At>("{\"at\": \"yesterday\"}").is_err());
    }
}
