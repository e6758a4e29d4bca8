//! `get_order`.

use holdfast_core::error::{ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{gid, invalid};
use crate::{
    graph::{Answer as Graphed, Graph, note_of},
    model::{LineItem, Order, Page, WireOrder},
};

pub(super) const NAME: &str = "get_order";
/// So many line items are read; nobody orders more by hand.
const MOST_LINE_ITEMS: usize = 500;
/// Lists without a cursor: as many as are asked for below.
const FULFILLMENTS: usize = 10;
const REFUNDS: usize = 10;
const TRANSACTIONS: usize = 20;

/// About 750 of the 1000 points that a query may ask for: the numbers in brackets multiply.
/// <https://shopify.dev/docs/api/admin-graphql/latest/queries/order>
const QUERY: &str = "query GetOrder($id: ID!) { order(id: $id) {
  id name email phone note tags createdAt cancelledAt cancelReason closedAt statusPageUrl
  displayFinancialStatus displayFulfillmentStatus returnStatus
  currentTotalPriceSet { shopMoney { amount currencyCode } presentmentMoney { amount currencyCode } }
  totalRefundedSet { shopMoney { amount currencyCode } }
  totalOutstandingSet { shopMoney { amount currencyCode } }
  shippingAddress { name address1 address2 city provinceCode zip countryCodeV2 phone }
  shippingLine { title }
  customer { id displayName }
  lineItems(first: 50) { nodes { id title variantTitle sku currentQuantity refundableQuantity unfulfilledQuantity
      originalUnitPriceSet { shopMoney { amount currencyCode } } } pageInfo { hasNextPage endCursor } }
  fulfillments(first: 10) { id name status displayStatus createdAt estimatedDeliveryAt deliveredAt
      trackingInfo(first: 5) { company number url }
      fulfillmentLineItems(first: 20) { nodes { quantity lineItem { id title } } pageInfo { hasNextPage endCursor } } }
  refunds(first: 10) { id createdAt note totalRefundedSet { shopMoney { amount currencyCode } } }
  transactions(first: 20) { id kind status gateway processedAt amountSet { shopMoney { amount currencyCode } } } } }";

const MORE_LINE_ITEMS: &str = "query MoreLineItems($id: ID!, $after: String!) { order(id: $id) {
  lineItems(first: 100, after: $after) { nodes { id title variantTitle sku currentQuantity refundableQuantity
      unfulfilledQuantity originalUnitPriceSet { shopMoney { amount currencyCode } } }
    pageInfo { hasNextPage endCursor } } } }";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    order_id: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    order: Order,
    complete: bool,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct More {
    line_items: Page<LineItem>,
}

pub(super) async fn run(graph: &Graph<'_>, arguments: Arguments) -> Result<Answer> {
    let id = gid("Order", "order_id", &arguments.order_id).map_err(invalid(graph, NAME))?;
    let Graphed { data, hidden }: Graphed<Option<WireOrder>> =
        graph.ask(NAME, QUERY, "order", json!({"id": id})).await?;
    let mut order = data.ok_or_else(|| not_found(graph, NAME))?;
    if order.id != id {
        return Err(graph.mistaken(NAME, "order"));
    }
    let mut cut = Vec::new();
    let mut next = order.line_items.page_info.next();
    while let Some(after) = next {
        if order.line_items.nodes.len() >= MOST_LINE_ITEMS {
            cut.push(format!("the first {} line items", order.line_items.nodes.len()));
            break;
        }
        let variables = json!({"id": id, "after": after});
        let more: Graphed<Option<More>> = graph.ask(NAME, MORE_LINE_ITEMS, "order", variables).await?;
        let more = more.data.ok_or_else(|| not_found(graph, NAME))?.line_items;
        next = more.page_info.next();
        if more.nodes.is_empty() || next.as_ref() == Some(&after) {
            return Err(graph.unreadable(NAME));
        }
        order.line_items.nodes.extend(more.nodes);
    }
    for (length, most, name) in [
        (order.fulfillments.len(), FULFILLMENTS, "fulfillments"),
        (order.refunds.len(), REFUNDS, "refunds"),
        (order.transactions.len(), TRANSACTIONS, "transactions"),
    ] {
        if length >= most {
            cut.push(format!("the first {most} {name}"));
        }
    }
    let cut = (!cut.is_empty()).then(|| format!("Only {} are shown; there may be more.", cut.join(", ")));
    let complete = cut.is_none() && hidden.is_empty();
    let notes: Vec<String> = [note_of(&hidden), cut].into_iter().flatten().collect();
    Ok(Answer { order: order.into(), complete, note: (!notes.is_empty()).then(|| notes.join(" ")) })
}

pub(super) fn not_found(graph: &Graph<'_>, operation: &'static str) -> holdfast_core::Error {
    let message = "Shopify has no order under this id, or it is older than the 60 days that the app may see";
    graph.error(operation, ErrorKind::NotFound, message)
}
