//! The fields of the root, and who may see what.

use serde_json::{Map, Value, json};

use super::graphql::run::{Source, error, is_cursor};
use super::shop::{Data, Place, Rules};
use super::{orders, search, webhooks};
use crate::clock::iso;
use crate::options::CLIENT_ID;

/// A page has no more.
const LONGEST_PAGE: i64 = 250;

/// One document's way into a shop.
pub(crate) struct Root<'a> {
    pub(crate) shop: &'a Place,
    pub(crate) data: &'a mut Data,
    pub(crate) rules: &'a Rules,
    pub(crate) scope: &'a str,
    pub(crate) now_ms: i64,
    /// The app is to be taken off once this is answered.
    pub(crate) taken_off: bool,
}

impl Root<'_> {
    fn may(&self, scope: &str) -> bool {
        let write = scope.replace("read_", "write_");
        self.scope.split(',').map(str::trim).any(|granted| granted == scope || granted == write)
    }

    fn needs(&self, scope: &str, what: &str) -> Result<(), Value> {
        if self.may(scope) {
            return Ok(());
        }
        let message = format!("Access denied for {what} field. Required access: `{scope}` access scope.");
        Err(error(&message, "ACCESS_DENIED", &[]))
    }

    fn list(&self, kind: &str, arguments: &Map<String, Value>) -> Result<Value, Value> {
        let bad = |message: &str| Err(error(message, "BAD_REQUEST", &[]));
        match arguments.get("first").and_then(Value::as_i64) {
            Some(first) if (1..=LONGEST_PAGE).contains(&first) => {}
            Some(_) => return bad("first must be between 1 and 250"),
            None => return bad("you must provide one of first or last"),
        }
        if let Some(cursor) = arguments.get("after").and_then(Value::as_str)
            && !is_cursor(cursor)
        {
            return bad("Invalid cursor for current pagination sort.");
        }
        let list = match kind {
            "orders" => &self.data.orders,
            "webhooks" => &self.data.webhooks,
            "customers" => &self.data.customers,
            _ => &self.data.products,
        };
        let mut found = search::find(kind, list, arguments.get("query").and_then(Value::as_str));
        if arguments.get("reverse") == Some(&json!(true)) {
            found.reverse();
        }
        Ok(found.into())
    }
}

impl Source for Root<'_> {
    fn root(
        &mut self,
        name: &str,
        arguments: &Map<String, Value>,
        idempotency_key: Option<&str>,
    ) -> Result<Value, Value> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match name {
            "shop" => Ok(json!({
                "id": self.shop.gid(),
                "name": format!("The {} shop", self.shop.name),
                "myshopifyDomain": self.shop.domain(),
                "email": format!("owner@{}.example", self.shop.name),
                "currencyCode": "EUR",
                "ianaTimezone": "Europe/Berlin",
                "plan": {"publicDisplayName": "Basic"},
            })),
            "currentAppInstallation" => {
                let scopes = self.scope.split(',').map(str::trim).filter(|scope| !scope.is_empty());
                Ok(json!({
                    "id": format!("gid://shopify/AppInstallation/{}", self.shop.number),
                    "app": {"id": "gid://shopify/App/1", "title": CLIENT_ID},
                    "accessScopes": scopes.map(|handle| json!({"handle": handle})).collect::<Vec<_>>(),
                }))
            }
            "order" => {
                self.needs("read_orders", "order")?;
                let id = text("id");
                Ok(self.data.orders.iter().find(|order| order["id"] == id).cloned().unwrap_or_default())
            }
            "orders" => {
                self.needs("read_orders", "orders")?;
                self.list("orders", arguments)
            }
            "customers" => {
                self.needs("read_customers", "customers")?;
                self.list("customers", arguments)
            }
            "customerByIdentifier" => {
                self.needs("read_customers", "customerByIdentifier")?;
                let by = &arguments["identifier"];
                let given: Vec<&String> = by.as_object().into_iter().flat_map(Map::keys).collect();
                if given.len() != 1 {
                    return Err(error("Exactly one identifier has to be given", "BAD_REQUEST", &[]));
                }
                let same = |own: &Value, asked: &Value| {
                    let lower = |value: &Value| value.as_str().map(str::to_lowercase);
                    asked.is_string() && lower(own) == lower(asked)
                };
                let found = self.data.customers.iter().find(|customer| {
                    same(&customer["id"], &by["id"])
                        || same(&customer["defaultEmailAddress"]["emailAddress"], &by["emailAddress"])
                        || same(&customer["defaultPhoneNumber"]["phoneNumber"], &by["phoneNumber"])
                });
                Ok(found.cloned().unwrap_or_default())
            }
            "products" => {
                self.needs("read_products", "products")?;
                self.list("products", arguments)
            }
            "orderCancel" => {
                self.needs("write_orders", "orderCancel")?;
                Ok(orders::cancel(self.data, arguments, &iso(self.now_ms)))
            }
            "refundCreate" => {
                self.needs("write_orders", "refundCreate")?;
                orders::refund(self.data, idempotency_key, arguments, &iso(self.now_ms))
            }
            "webhookSubscriptions" => self.list("webhooks", arguments),
            "webhookSubscriptionCreate" => {
                let topic = text("topic");
                if topic.starts_with("ORDERS_") || topic == "REFUNDS_CREATE" {
                    self.needs("read_orders", "webhookSubscriptionCreate")?;
                }
                Ok(webhooks::create(self.data, arguments))
            }
            "webhookSubscriptionUpdate" => Ok(webhooks::update(self.data, arguments)),
            "webhookSubscriptionDelete" => Ok(webhooks::delete(self.data, arguments)),
            "appUninstall" => {
                self.taken_off = true;
                Ok(json!({"app": {"id": "gid://shopify/App/1", "title": CLIENT_ID}, "userErrors": []}))
            }
            other => Err(error(&format!("{other} is not imitated"), "INTERNAL_SERVER_ERROR", &[])),
        }
    }

    fn made(&mut self, of: &str, name: &str, object: &Value, arguments: &Map<String, Value>) -> Option<Value> {
        ((of, name) == ("Order", "suggestedRefund")).then(|| orders::suggested(object, arguments))
    }

    fn denied(&self, of: &str, name: &str) -> Option<String> {
        let protected = match of {
            "Order" => matches!(name, "email" | "phone" | "shippingAddress"),
            "Customer" => {
                matches!(name, "displayName" | "firstName" | "lastName" | "defaultEmailAddress" | "defaultPhoneNumber")
            }
            _ => false,
        };
        if protected && self.rules.hides_customers {
            return Some(format!("This app is not approved to use the {name} field. See protected customer data."));
        }
        let foreign = (of, name) == ("Order", "customer") && !self.may("read_customers");
        foreign.then(|| "Access denied for customer field. Required access: `read_customers` access scope.".to_owned())
    }
}
