//! What a new shop holds: the same in every run, with ids above 2^53, names in several scripts, more than one page of
//! everything, and an order of each kind that wants care.

use serde_json::{Value, json};

use super::money::{bag, money};
use super::shop::Data;
use crate::clock::iso;

/// Above what a double holds, so that a reader through floating point is found out.
const ABOVE_DOUBLE: i64 = 9_007_199_254_740_993;
const HOUR_MS: i64 = 3_600_000;
/// 2026-11-01T00:00:00Z.
const START_MS: i64 = 1_793_491_200_000;
const ORDERS: i64 = 60;

const CUSTOMERS: [(&str, &str, &str); 12] = [
    ("Mira", "Castellan", "mira.castellan@example.com"),
    ("Jonas", "Weber", "jonas.weber@example.com"),
    ("Priya", "Raman", "priya.raman@example.com"),
    ("Tom", "Okafor", "tom.okafor@example.com"),
    ("Łucja", "Wójcik", "lucja.wojcik@example.com"),
    ("Henrik", "Dahl", "henrik.dahl@example.com"),
    ("Aisha", "Bello", "aisha.bello@example.com"),
    ("偉", "陳", "chen.wei@example.com"),
    ("Mira", "Okafor", "mira.castellan@example.com.au"),
    ("نور", "حداد", "nour@example.com"),
    ("Olena", "Шевченко", "olena@example.com"),
    ("D'Arcy", "O\"Neil", "darcy@example.com"),
];

const GOODS: [(&str, i64); 6] = [
    ("Paper lantern", 1990),
    ("Brass lamp", 8900),
    ("Oak table", 24900),
    ("Linen shade", 3450),
    ("Bulb", 590),
    ("灯籠", 12000),
];

/// The same for the same name in every run (FNV-1a).
pub(crate) fn shop_number(name: &str) -> i64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    70_000_000_000 + i64::try_from(hash % 1_000_000).unwrap_or(0)
}

fn gid(kind: &str, number: i64) -> String {
    format!("gid://shopify/{kind}/{number}")
}

fn pick<T: Copy>(list: &[T], number: i64) -> T {
    list[usize::try_from(number).unwrap_or(0) % list.len()]
}

pub(crate) fn fill(shop: &str) -> Data {
    let mut data = Data { last_id: ABOVE_DOUBLE + 1_000_000, ..Data::default() };
    for (number, (first, last, email)) in (1..).zip(CUSTOMERS) {
        data.customers.push(json!({
            "id": gid("Customer", ABOVE_DOUBLE + number),
            "displayName": format!("{first} {last}"),
            "firstName": first,
            "lastName": last,
            "defaultEmailAddress": {"emailAddress": email},
            "defaultPhoneNumber": if number % 3 == 0 { Value::Null } else {
                json!({"phoneNumber": format!("+4930100{number:03}")})
            },
            "numberOfOrders": (ORDERS / 12).to_string(),
            "amountSpent": money(10_000 * number, "EUR"),
            "state": "ENABLED",
            "tags": if number == 1 { json!(["vip"]) } else { json!([]) },
            "note": if number == 2 { json!("Rings twice") } else { Value::Null },
            "createdAt": iso(START_MS - number * 24 * HOUR_MS),
            "lastOrder": Value::Null,
        }));
    }
    for number in 1..=ORDERS {
        let order = order(shop, number, &data.customers);
        let place = usize::try_from((number - 1) % 12).unwrap_or(0);
        data.customers[place]["lastOrder"] = json!({"id": order["id"], "name": order["name"]});
        data.orders.push(order);
    }
    for number in 1..=30 {
        data.products.push(product(number));
    }
    data.products.sort_by_key(|product| product["title"].to_string());
    data
}

/// #1001 is plain and paid; #1002 cancelled; #1003 sent; #1004 long; #1005 was paid in dollars; the others are like #1001.
fn order(shop: &str, number: i64, customers: &[Value]) -> Value {
    let id = ABOVE_DOUBLE + 10_000 + number;
    let customer = &customers[usize::try_from((number - 1) % 12).unwrap_or(0)];
    let abroad = (number == 5).then_some("USD");
    let at_ms = START_MS + number * HOUR_MS;
    let lines = if number == 4 { 160 } else { 2 };
    let mut total = 490;
    let items: Vec<Value> = (0..lines)
        .map(|line| {
            let (title, price) = pick(&GOODS, number + line);
            let quantity = 1 + line % 2;
            total += price * quantity;
            json!({
                "id": gid("LineItem", id * 1000 % ABOVE_DOUBLE + line + 1),
                "title": title,
                "variantTitle": if line % 2 == 0 { json!("Large") } else { Value::Null },
                "sku": format!("SKU-{}", (number + line) % 6 + 1),
                "quantity": quantity,
                "currentQuantity": quantity,
                "refundableQuantity": quantity,
                "unfulfilledQuantity": if number == 3 { 0 } else { quantity },
                "originalUnitPriceSet": bag(price, abroad),
            })
        })
        .collect();
    let cancelled = number == 2;
    let fulfillments: Vec<Value> = (number == 3).then(|| fulfillment(id, at_ms, &items)).into_iter().collect();
    let sale = json!({
        "id": gid("OrderTransaction", id + 500_000),
        "kind": "SALE",
        "status": "SUCCESS",
        "gateway": "shopify_payments",
        "processedAt": iso(at_ms),
        "amountSet": bag(total, abroad),
        "parentTransaction": Value::Null,
    });
    json!({
        "id": gid("Order", id),
        "legacyResourceId": id.to_string(),
        "name": format!("#{}", 1000 + number),
        "confirmationNumber": format!("XPAV{number:03}CT"),
        "email": customer["defaultEmailAddress"]["emailAddress"],
        "phone": Value::Null,
        "note": if number == 1 { json!("Leave it at the door") } else { Value::Null },
        "tags": ["web"],
        "createdAt": iso(at_ms),
        "processedAt": iso(at_ms),
        "cancelledAt": cancelled.then(|| iso(at_ms + HOUR_MS)),
        "cancelReason": cancelled.then_some("CUSTOMER"),
        "cancellation": null,
        "closedAt": Value::Null,
        "statusPageUrl": format!("https://{shop}.myshopify.com/70000/orders/{id}/authenticate"),
        "refundable": !cancelled,
        "displayFinancialStatus": "PAID",
        "displayFulfillmentStatus": if number == 3 { "FULFILLED" } else { "UNFULFILLED" },
        "returnStatus": "NO_RETURN",
        "currentTotalPriceSet": bag(total, abroad),
        "totalRefundedSet": bag(0, abroad),
        "totalOutstandingSet": bag(0, abroad),
        "shippingAddress": {
            "name": customer["displayName"], "address1": "Torstraße 1", "address2": Value::Null, "city": "Berlin",
            "provinceCode": Value::Null, "zip": "10119", "countryCodeV2": "DE", "phone": Value::Null,
        },
        "shippingLine": {"title": "Standard"},
        "customer": {"id": customer["id"], "displayName": customer["displayName"]},
        "lineItems": items,
        "fulfillments": fulfillments,
        "refunds": [],
        "transactions": [sale],
        // Not of the API: what shipping cost, and how much of it was refunded.
        "_shipping": 490,
        "_abroad": abroad,
    })
}

fn fulfillment(id: i64, at_ms: i64, items: &[Value]) -> Value {
    let lines: Vec<Value> = items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            json!({"id": gid("FulfillmentLineItem", id + i64::try_from(index).unwrap_or(0)),
                "quantity": item["quantity"], "lineItem": item})
        })
        .collect();
    json!({
        "id": gid("Fulfillment", id + 700_000),
        "name": "#1003-F1",
        "status": "SUCCESS",
        "displayStatus": "IN_TRANSIT",
        "createdAt": iso(at_ms + HOUR_MS),
        "estimatedDeliveryAt": iso(at_ms + 48 * HOUR_MS),
        "inTransitAt": iso(at_ms + 2 * HOUR_MS),
        "deliveredAt": Value::Null,
        "trackingInfo": [{"company": "DHL", "number": "00340434161094042557",
            "url": "https://www.dhl.de/track?id=00340434161094042557"}],
        "fulfillmentLineItems": lines,
    })
}

fn product(number: i64) -> Value {
    let (title, price) = pick(&GOODS, number);
    let title = format!("{title} {number:02}");
    // The first has more variants than one page.
    let variants: Vec<Value> = (0..if number == 1 { 25 } else { 2 })
        .map(|variant| {
            json!({
                "id": gid("ProductVariant", ABOVE_DOUBLE + number * 100 + variant),
                "title": format!("Size {variant}"),
                "sku": format!("P{number}-{variant}"),
                "price": super::money::decimal(price + variant * 100),
                "inventoryQuantity": 5 + variant,
                "availableForSale": true,
            })
        })
        .collect();
    let top = price + i64::try_from(variants.len()).unwrap_or(1) * 100 - 100;
    json!({
        "id": gid("Product", ABOVE_DOUBLE + number),
        "title": title,
        "handle": format!("product-{number}"),
        "status": if number % 10 == 0 { "DRAFT" } else { "ACTIVE" },
        "vendor": if number % 2 == 0 { "Acme" } else { "Globex" },
        "productType": "",
        "totalInventory": 11,
        "onlineStoreUrl": if number % 10 == 0 { Value::Null } else {
            json!(format!("https://shop.example/products/product-{number}"))
        },
        "priceRangeV2": {"minVariantPrice": money(price, "EUR"), "maxVariantPrice": money(top, "EUR")},
        "variants": variants,
    })
}
