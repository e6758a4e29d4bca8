//! `find_order`.

use chrono::{DateTime, SecondsFormat, Utc};
use holdfast_core::error::Result;
use serde::{Deserialize, Serialize};

use super::{
    gid, invalid,
    terms::{Terms, page},
};
use crate::{
    graph::{Answer as Graphed, Graph, note_of},
    model::{OrderLine, Page},
};

pub(super) const NAME: &str = "find_order";
/// A page of so many costs about 300 of the 1000 points that a query may ask for.
const MOST: u32 = 50;

/// <https://shopify.dev/docs/api/admin-graphql/latest/queries/orders>
const QUERY: &str = "query FindOrders($q: String!, $n: Int!, $after: String) {
  orders(first: $n, after: $after, query: $q, sortKey: PROCESSED_AT, reverse: true) {
    nodes { id legacyResourceId name confirmationNumber email createdAt cancelledAt
      displayFinancialStatus displayFulfillmentStatus returnStatus
      currentTotalPriceSet { shopMoney { amount currencyCode } }
      customer { id displayName } }
    pageInfo { hasNextPage endCursor } } }";

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Open,
    Closed,
    Cancelled,
    NotClosed,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    order_name: Option<String>,
    email: Option<String>,
    customer_id: Option<String>,
    confirmation_number: Option<String>,
    sku: Option<String>,
    status: Option<Status>,
    created_after: Option<DateTime<Utc>>,
    created_before: Option<DateTime<Utc>>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    orders: Vec<OrderLine>,
    next_cursor: Option<String>,
    note: Option<String>,
}

pub(super) async fn run(graph: &Graph<'_>, arguments: Arguments) -> Result<Answer> {
    let asked = query(&arguments).and_then(|query| page(&query, arguments.limit, arguments.cursor.as_deref(), MOST));
    let variables = asked.map_err(invalid(graph, NAME))?;
    let Graphed { data, hidden }: Graphed<Page<OrderLine>> = graph.ask(NAME, QUERY, "orders", variables).await?;
    let next_cursor = data.page_info.next();
    // Shopify's search knows no exact match for these two, so that others may be among what it finds.
    let found = data.nodes.len();
    let unseen = arguments.email.is_some() && data.nodes.iter().any(|order| order.email.is_none());
    let orders: Vec<OrderLine> = data.nodes.into_iter().filter(|order| fits(&arguments, order)).collect();
    let unseen = unseen.then(|| {
        format!(
            "{} orders are not shown, since Shopify does not say whether they have this e-mail address.",
            found - orders.len()
        )
    });
    let notes: Vec<String> = [note_of(&hidden), unseen].into_iter().flatten().collect();
    Ok(Answer { orders, next_cursor, note: (!notes.is_empty()).then(|| notes.join(" ")) })
}

fn query(arguments: &Arguments) -> Result<String, String> {
    let customer = arguments.customer_id.as_deref().map(|id| gid("Customer", "customer_id", id)).transpose()?;
    let number = customer.as_deref().and_then(|gid| gid.rsplit('/').next());
    let names = arguments.order_name.as_deref().map(spellings).unwrap_or_default();
    if arguments.order_name.is_some() && names.is_empty() {
        return Err("order_name: expected the number of an order, like \"#1001\"".to_owned());
    }
    let status = arguments.status.map(|status| match status {
        Status::Open => "open",
        Status::Closed => "closed",
        Status::Cancelled => "cancelled",
        Status::NotClosed => "not_closed",
    });
    let moment = |at: Option<DateTime<Utc>>| at.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
    let terms = Terms::default()
        .any("name", &names)?
        .equal("email", arguments.email.as_deref())?
        .word("customer_id", number)
        .equal("confirmation_number", arguments.confirmation_number.as_deref())?
        .equal("sku", arguments.sku.as_deref())?
        .word("status", status)
        .compared("created_at", ">=", moment(arguments.created_after))
        .compared("created_at", "<", moment(arguments.created_before));
    Ok(terms.text())
}

/// As it was given, and without the mark that shops put before it by default, or with it.
fn spellings(name: &str) -> Vec<String> {
    let bare = bare(name);
    if bare.is_empty() { Vec::new() } else { vec![format!("#{bare}"), bare.to_owned()] }
}

fn bare(name: &str) -> &str {
    name.trim().trim_start_matches('#')
}

fn fits(arguments: &Arguments, order: &OrderLine) -> bool {
    let same = |one: &str, other: &str| one.trim().to_lowercase() == other.trim().to_lowercase();
    arguments.order_name.as_deref().is_none_or(|name| same(bare(name), bare(&order.name)))
        && arguments.email.as_deref().is_none_or(|email| order.email.as_deref().is_some_and(|own| same(own, email)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_become_terms_of_shopifys_search() {
        let arguments = Arguments {
            order_name: Some(" #1001".to_owned()),
            email: Some("mira@example.com".to_owned()),
            customer_id: Some("gid://shopify/Customer/77".to_owned()),
            status: Some(Status::NotClosed),
            created_after: Some("2026-11-01T00:00:00Z".parse().unwrap()),
            ..Arguments::default()
        };
        assert_eq!(
            query(&arguments).unwrap(),
            r##"(name:"#1001" OR name:"1001") email:"mira@example.com" customer_id:77 status:not_closed created_at:>="2026-11-01T00:00:00Z""##
        );
        assert_eq!(query(&Arguments::default()).unwrap(), "");
        for (arguments, field) in [
            (Arguments { order_name: Some("#".to_owned()), ..Arguments::default() }, "order_name: "),
            (Arguments { customer_id: Some("Mira".to_owned()), ..Arguments::default() }, "customer_id: "),
            (Arguments { email: Some(" ".to_owned()), ..Arguments::default() }, "email: "),
        ] {
            assert!(query(&arguments).unwrap_err().starts_with(field));
        }
    }
}
