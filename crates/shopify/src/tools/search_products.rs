//! `search_products`.

use holdfast_core::error::Result;
use serde::{Deserialize, Serialize};

use super::{
    invalid,
    terms::{Terms, page},
};
use crate::{
    graph::{Answer as Graphed, Graph, note_of},
    model::Page,
    money::Money,
};

pub(super) const NAME: &str = "search_products";
/// With their variants, a page of so many costs about 600 of the 1000 points that a query may ask for.
const MOST: u32 = 20;

/// <https://shopify.dev/docs/api/admin-graphql/latest/queries/products>
const QUERY: &str = "query SearchProducts($q: String!, $n: Int!, $after: String) {
  products(first: $n, after: $after, query: $q, sortKey: TITLE) {
    nodes { id title handle status vendor productType totalInventory onlineStoreUrl
      priceRangeV2 { minVariantPrice { amount currencyCode } maxVariantPrice { amount currencyCode } }
      variants(first: 20) { nodes { id title sku price inventoryQuantity availableForSale }
        pageInfo { hasNextPage endCursor } } }
    pageInfo { hasNextPage endCursor } } }";

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Active,
    Draft,
    Archived,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    text: Option<String>,
    sku: Option<String>,
    vendor: Option<String>,
    status: Option<Status>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    products: Vec<Product>,
    next_cursor: Option<String>,
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    id: String,
    title: String,
    handle: Option<String>,
    status: String,
    vendor: Option<String>,
    product_type: Option<String>,
    total_inventory: Option<i64>,
    online_store_url: Option<String>,
    price_range_v2: Range,
    variants: Page<WireVariant>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Range {
    min_variant_price: Money,
    max_variant_price: Money,
}

#[derive(Debug, Deserialize, Serialize)]
struct WireVariant {
    id: String,
    title: String,
    sku: Option<String>,
    price: String,
    #[serde(rename(deserialize = "inventoryQuantity"))]
    stock: Option<i64>,
    #[serde(rename(deserialize = "availableForSale"))]
    for_sale: bool,
}

#[derive(Debug, Serialize)]
struct Product {
    id: String,
    title: String,
    handle: Option<String>,
    status: String,
    vendor: Option<String>,
    #[serde(rename = "product_type")]
    kind: Option<String>,
    stock: Option<i64>,
    url: Option<String>,
    lowest_price: Money,
    highest_price: Money,
    variants: Vec<WireVariant>,
    variants_complete: bool,
}

impl From<Wire> for Product {
    fn from(wire: Wire) -> Self {
        Self {
            id: wire.id,
            title: wire.title,
            handle: wire.handle,
            status: wire.status,
            vendor: wire.vendor,
            kind: wire.product_type.filter(|kind| !kind.is_empty()),
            stock: wire.total_inventory,
            url: wire.online_store_url,
            lowest_price: wire.price_range_v2.min_variant_price,
            highest_price: wire.price_range_v2.max_variant_price,
            variants_complete: wire.variants.page_info.next().is_none(),
            variants: wire.variants.nodes,
        }
    }
}

pub(super) async fn run(graph: &Graph<'_>, arguments: Arguments) -> Result<Answer> {
    let asked = query(&arguments).and_then(|query| page(&query, arguments.limit, arguments.cursor.as_deref(), MOST));
    let variables = asked.map_err(invalid(graph, NAME))?;
    let Graphed { data, hidden }: Graphed<Page<Wire>> = graph.ask(NAME, QUERY, "products", variables).await?;
    let next_cursor = data.page_info.next();
    let products = data.nodes.into_iter().map(Product::from).collect();
    Ok(Answer { products, next_cursor, note: note_of(&hidden) })
}

fn query(arguments: &Arguments) -> Result<String, String> {
    let status = arguments.status.map(|status| match status {
        Status::Active => "active",
        Status::Draft => "draft",
        Status::Archived => "archived",
    });
    let terms = Terms::default()
        .phrase("text", arguments.text.as_deref())?
        .equal("sku", arguments.sku.as_deref())?
        .equal("vendor", arguments.vendor.as_deref())?
        .word("status", status);
    Ok(terms.text())
}
