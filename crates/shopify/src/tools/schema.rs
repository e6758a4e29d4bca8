//! The JSON Schemas of the tools, as text.

macro_rules! text {
    () => {
        r#"{"type": ["string", "null"]}"#
    };
}

macro_rules! moment {
    () => {
        r#"{"type": ["string", "null"], "format": "date-time"}"#
    };
}

macro_rules! money {
    () => {
        r#"{"type": "object", "additionalProperties": false, "required": ["amount", "currency"],
            "properties": {"amount": {"type": "string", "description": "A decimal, like 23.90"},
                           "currency": {"type": "string"}}}"#
    };
}

macro_rules! some_money {
    () => {
        r#"{"type": ["object", "null"], "additionalProperties": false, "required": ["amount", "currency"],
            "properties": {"amount": {"type": "string", "description": "A decimal, like 23.90"},
                           "currency": {"type": "string"}}}"#
    };
}

macro_rules! buyer {
    () => {
        r#"{"type": ["object", "null"], "additionalProperties": false, "required": ["id", "name"],
            "properties": {"id": {"type": "string"}, "name": {"type": ["string", "null"]}}}"#
    };
}

macro_rules! next_cursor {
    () => {
        r#"{"type": ["string", "null"], "description": "For the next page; null: this was the last"}"#
    };
}

macro_rules! note {
    () => {
        r#"{"type": ["string", "null"], "description": "What is not shown, and why"}"#
    };
}

pub(super) const FIND_ORDER_INPUT: &str = r##"{
  "type": "object", "additionalProperties": false,
  "properties": {
    "order_name": {"type": "string", "minLength": 1, "maxLength": 250, "examples": ["#1001"],
      "description": "The number that people know an order by, with or without its #"},
    "email": {"type": "string", "minLength": 1, "maxLength": 250, "examples": ["mira@example.com"],
      "description": "The buyer's e-mail address, whole"},
    "customer_id": {"type": "string", "minLength": 1, "examples": ["gid://shopify/Customer/5123456789"],
      "description": "A customer's id"},
    "confirmation_number": {"type": "string", "minLength": 1, "maxLength": 250, "examples": ["XPAV284CT"],
      "description": "The number in the order confirmation"},
    "sku": {"type": "string", "minLength": 1, "maxLength": 250, "examples": ["LAMP-1"],
      "description": "Orders that hold this article"},
    "status": {"enum": ["open", "closed", "cancelled", "not_closed"], "examples": ["open"],
      "description": "Absent: any"},
    "created_after": {"type": "string", "format": "date-time", "examples": ["2026-11-01T00:00:00Z"],
      "description": "At this moment or later"},
    "created_before": {"type": "string", "format": "date-time", "examples": ["2026-12-01T00:00:00Z"],
      "description": "Before this moment"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 25, "examples": [25],
      "description": "Orders on a page"},
    "cursor": {"type": "string", "minLength": 1, "examples": ["eyJsYXN0X2lkIjoxfQ"],
      "description": "next_cursor of the page before, with otherwise the same arguments"}
  }
}"##;

pub(super) const FIND_ORDER_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["orders", "next_cursor", "note"],
  "properties": {"orders": {"type": "array", "items": {"type": "object", "additionalProperties": false,
    "required": ["id", "number", "name", "confirmation_number", "email", "created_at", "cancelled_at",
                 "financial_status", "fulfillment_status", "return_status", "total", "customer"],
    "properties": {
      "id": {"type": "string"},
      "number": {"type": ["string", "null"], "description": "The id's digits"},
      "name": {"type": "string", "description": "What people know it by"},
      "confirmation_number": "#,
    text!(),
    r#", "email": "#,
    text!(),
    r#", "created_at": "#,
    moment!(),
    r#", "cancelled_at": "#,
    moment!(),
    r#", "financial_status": "#,
    text!(),
    r#", "fulfillment_status": "#,
    text!(),
    r#", "return_status": "#,
    text!(),
    r#", "total": "#,
    money!(),
    r#", "customer": "#,
    buyer!(),
    r#"}}}, "next_cursor": "#,
    next_cursor!(),
    r#", "note": "#,
    note!(),
    "}}"
);

pub(super) const GET_ORDER_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["order_id"],
  "properties": {
    "order_id": {"type": "string", "minLength": 1, "examples": ["gid://shopify/Order/5123456789"],
      "description": "The order's id, as find_order names it, or its digits; not its number like #1001"}
  }
}"#;

pub(super) const GET_ORDER_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["order", "complete", "note"],
  "properties": {
    "order": {"type": "object", "additionalProperties": false,
      "required": ["id", "name", "email", "phone", "note", "tags", "created_at", "cancelled_at", "cancel_reason",
                   "closed_at", "status_page_url", "financial_status", "fulfillment_status", "return_status", "total",
                   "customer_total", "refunded", "outstanding", "shipping_address", "shipping_method", "customer",
                   "line_items", "fulfillments", "refunds", "transactions"],
      "properties": {
        "id": {"type": "string"}, "name": {"type": "string", "description": "What people know it by"},
        "email": "#,
    text!(),
    r#", "phone": "#,
    text!(),
    r#", "note": "#,
    text!(),
    r#", "tags": {"type": "array", "items": {"type": "string"}}, "created_at": "#,
    moment!(),
    r#", "cancelled_at": "#,
    moment!(),
    r#", "cancel_reason": "#,
    text!(),
    r#", "closed_at": "#,
    moment!(),
    r#", "status_page_url": "#,
    text!(),
    r#", "financial_status": "#,
    text!(),
    r#", "fulfillment_status": "#,
    text!(),
    r#", "return_status": "#,
    text!(),
    r#", "total": "#,
    money!(),
    r#", "customer_total": "#,
    some_money!(),
    r#", "refunded": "#,
    money!(),
    r#", "outstanding": "#,
    money!(),
    r#", "shipping_address": {"type": ["object", "null"], "additionalProperties": false,
          "properties": {"name": {"type": ["string", "null"]}, "address1": {"type": ["string", "null"]},
            "address2": {"type": ["string", "null"]}, "city": {"type": ["string", "null"]},
            "province": {"type": ["string", "null"]}, "zip": {"type": ["string", "null"]},
            "country": {"type": ["string", "null"], "description": "Two letters"},
            "phone": {"type": ["string", "null"]}}},
        "shipping_method": "#,
    text!(),
    r#", "customer": "#,
    buyer!(),
    r#", "line_items": {"type": "array", "items": {"type": "object", "additionalProperties": false,
          "required": ["id", "title", "quantity", "refundable_quantity", "unfulfilled_quantity", "unit_price"],
          "properties": {
            "id": {"type": "string", "description": "What refund_order takes"}, "title": {"type": "string"},
            "variant": {"type": ["string", "null"]}, "sku": {"type": ["string", "null"]},
            "quantity": {"type": "integer", "description": "Without what was removed or refunded"},
            "refundable_quantity": {"type": "integer"}, "unfulfilled_quantity": {"type": "integer"},
            "unit_price": "#,
    money!(),
    r#"}}},
        "fulfillments": {"type": "array", "items": {"type": "object", "additionalProperties": false,
          "required": ["id", "status", "tracking", "items", "items_complete"],
          "properties": {
            "id": {"type": "string"}, "name": {"type": ["string", "null"]}, "status": {"type": ["string", "null"]},
            "created_at": "#,
    moment!(),
    r#", "estimated_delivery_at": "#,
    moment!(),
    r#", "delivered_at": "#,
    moment!(),
    r#", "tracking": {"type": "array", "items": {"type": "object", "additionalProperties": false,
              "properties": {"company": {"type": ["string", "null"]}, "number": {"type": ["string", "null"]},
                "url": {"type": ["string", "null"]}}}},
            "items": {"type": "array", "items": {"type": "object", "additionalProperties": false,
              "properties": {"line_item_id": {"type": "string"}, "title": {"type": "string"},
                "quantity": {"type": ["integer", "null"]}}}},
            "items_complete": {"type": "boolean"}}}},
        "refunds": {"type": "array", "items": {"type": "object", "additionalProperties": false,
          "required": ["id", "amount"],
          "properties": {"id": {"type": "string"}, "note": {"type": ["string", "null"]}, "created_at": "#,
    moment!(),
    r#", "amount": "#,
    money!(),
    r#"}}},
        "transactions": {"type": "array", "items": {"type": "object", "additionalProperties": false,
          "required": ["id", "kind", "status", "amount"],
          "properties": {"id": {"type": "string"}, "kind": {"type": "string"}, "status": {"type": "string"},
            "gateway": {"type": ["string", "null"]}, "processed_at": "#,
    moment!(),
    r#", "amount": "#,
    money!(),
    r#"}}}}},
    "complete": {"type": "boolean", "description": "False: something is not shown, and note says what"},
    "note": "#,
    note!(),
    "}}"
);

pub(super) const FIND_CUSTOMER_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false,
  "properties": {
    "email": {"type": "string", "minLength": 3, "examples": ["mira@example.com"],
      "description": "Their e-mail address, whole"},
    "phone": {"type": "string", "minLength": 6, "examples": ["+4930123456"],
      "description": "Their phone number with its country code"},
    "customer_id": {"type": "string", "minLength": 1, "examples": ["gid://shopify/Customer/5123456789"],
      "description": "Their id, or its digits"},
    "name": {"type": "string", "minLength": 1, "maxLength": 250, "examples": ["Mira Castellan"],
      "description": "Words of their name"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 25, "examples": [25],
      "description": "Customers on a page, where a name is looked for"},
    "cursor": {"type": "string", "minLength": 1, "examples": ["eyJsYXN0X2lkIjoxfQ"],
      "description": "next_cursor of the page before, with otherwise the same arguments"}
  }
}"#;

pub(super) const FIND_CUSTOMER_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["customers", "next_cursor", "note"],
  "properties": {"customers": {"type": "array", "items": {"type": "object", "additionalProperties": false,
    "required": ["id", "name", "first_name", "last_name", "email", "phone", "orders", "spent", "state", "tags", "note",
                 "created_at", "last_order"],
    "properties": {
      "id": {"type": "string"}, "name": {"type": ["string", "null"]}, "first_name": {"type": ["string", "null"]},
      "last_name": {"type": ["string", "null"]}, "email": {"type": ["string", "null"]},
      "phone": {"type": ["string", "null"]},
      "orders": {"type": ["string", "null"], "description": "How many orders"},
      "spent": "#,
    some_money!(),
    r#", "state": "#,
    text!(),
    r#", "tags": {"type": "array", "items": {"type": "string"}}, "note": "#,
    text!(),
    r#", "created_at": "#,
    moment!(),
    r#", "last_order": {"type": ["object", "null"], "additionalProperties": false, "required": ["id", "name"],
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}}}}}},
    "next_cursor": "#,
    next_cursor!(),
    r#", "note": "#,
    note!(),
    "}}"
);

pub(super) const SEARCH_PRODUCTS_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false,
  "properties": {
    "text": {"type": "string", "minLength": 1, "maxLength": 250, "examples": ["paper lantern"],
      "description": "Words of the title or description, one after the other"},
    "sku": {"type": "string", "minLength": 1, "maxLength": 250, "examples": ["LAMP-1"],
      "description": "The article number of one of its variants"},
    "vendor": {"type": "string", "minLength": 1, "maxLength": 250, "examples": ["Acme"],
      "description": "Who makes it"},
    "status": {"enum": ["active", "draft", "archived"], "examples": ["active"], "description": "Absent: any"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 20, "examples": [10],
      "description": "Products on a page"},
    "cursor": {"type": "string", "minLength": 1, "examples": ["eyJsYXN0X2lkIjoxfQ"],
      "description": "next_cursor of the page before, with otherwise the same arguments"}
  }
}"#;

pub(super) const SEARCH_PRODUCTS_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["products", "next_cursor", "note"],
  "properties": {"products": {"type": "array", "items": {"type": "object", "additionalProperties": false,
    "required": ["id", "title", "handle", "status", "vendor", "product_type", "stock", "url", "lowest_price",
                 "highest_price", "variants", "variants_complete"],
    "properties": {
      "id": {"type": "string"}, "title": {"type": "string"}, "handle": {"type": ["string", "null"]},
      "status": {"type": "string"}, "vendor": {"type": ["string", "null"]}, "product_type": {"type": ["string", "null"]},
      "stock": {"type": ["integer", "null"]}, "url": {"type": ["string", "null"], "description": "null: not published"},
      "lowest_price": "#,
    money!(),
    r#", "highest_price": "#,
    money!(),
    r#", "variants": {"type": "array", "items": {"type": "object", "additionalProperties": false,
        "required": ["id", "title", "sku", "price", "stock", "for_sale"],
        "properties": {"id": {"type": "string"}, "title": {"type": "string"}, "sku": {"type": ["string", "null"]},
          "price": {"type": "string", "description": "In the currency of lowest_price"},
          "stock": {"type": ["integer", "null"]}, "for_sale": {"type": "boolean"}}}},
      "variants_complete": {"type": "boolean", "description": "False: there are more than twenty"}}}},
    "next_cursor": "#,
    next_cursor!(),
    r#", "note": "#,
    note!(),
    "}}"
);

pub(super) const CANCEL_ORDER_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false,
  "required": ["order_id", "expected_total", "currency", "reason", "refund", "restock"],
  "properties": {
    "order_id": {"type": "string", "minLength": 1, "examples": ["gid://shopify/Order/5123456789"],
      "description": "The order's id, or its digits"},
    "expected_total": {"type": "string", "examples": ["23.90"],
      "description": "The order's total, as it was read: another total is a conflict, and nothing is changed"},
    "currency": {"type": "string", "examples": ["EUR"], "description": "The total's currency"},
    "reason": {"enum": ["customer", "declined", "fraud", "inventory", "staff", "other"], "examples": ["customer"],
      "description": "Why"},
    "refund": {"type": "boolean", "examples": [true], "description": "Whether what was paid is paid back"},
    "restock": {"type": "boolean", "examples": [true], "description": "Whether the items go back on stock"},
    "notify_customer": {"type": "boolean", "default": false, "examples": [false],
      "description": "Whether Shopify writes to the customer"},
    "staff_note": {"type": "string", "maxLength": 235, "examples": ["Asked for in ticket 35436"],
      "description": "For the shop's people; the customer does not see it"}
  }
}"#;

pub(super) const CANCEL_ORDER_OUTPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["order_id", "order_name", "job_id", "done"],
  "properties": {
    "order_id": {"type": "string"}, "order_name": {"type": "string"},
    "job_id": {"type": ["string", "null"], "description": "Shopify's own work on it"},
    "done": {"type": "boolean", "description": "False: Shopify is at it; get_order shows cancelled_at when it is done"}
  }
}"#;

pub(super) const REFUND_ORDER_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["order_id", "amount", "currency"],
  "anyOf": [{"required": ["line_items"]}, {"required": ["refund_shipping"]}],
  "properties": {
    "order_id": {"type": "string", "minLength": 1, "examples": ["gid://shopify/Order/5123456789"],
      "description": "The order's id, or its digits"},
    "line_items": {"type": "array", "items": {"type": "object", "additionalProperties": false,
        "required": ["line_item_id", "quantity"],
        "properties": {
          "line_item_id": {"type": "string", "description": "From get_order"},
          "quantity": {"type": "integer", "minimum": 1},
          "restock": {"enum": ["return", "cancel", "no_restock"], "default": "no_restock",
            "description": "return: it comes back on stock; cancel: it was never sent"}}},
      "examples": [[{"line_item_id": "gid://shopify/LineItem/7", "quantity": 1, "restock": "return"}]],
      "description": "The items that are refunded, at most 100; needed unless refund_shipping is true"},
    "refund_shipping": {"type": "boolean", "default": false, "examples": [true],
      "description": "Whether all of the shipping is refunded"},
    "amount": {"type": "string", "examples": ["23.90"],
      "description": "What all of it comes to; another amount than Shopify computes is a conflict, and no money moves"},
    "currency": {"type": "string", "examples": ["EUR"], "description": "The amount's currency"},
    "note": {"type": "string", "maxLength": 255, "examples": ["Arrived broken"], "description": "Why, for the order"},
    "notify_customer": {"type": "boolean", "default": false, "examples": [false],
      "description": "Whether Shopify writes to the customer"}
  }
}"#;

pub(super) const REFUND_ORDER_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["order_id", "order_name", "refund_id", "refunded"],
  "properties": {"order_id": {"type": "string"}, "order_name": {"type": "string"}, "refund_id": {"type": "string"},
    "refunded": "#,
    money!(),
    "}}"
);
