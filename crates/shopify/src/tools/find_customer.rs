//! `find_customer`.

use chrono::{DateTime, Utc};
use holdfast_core::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    gid, invalid,
    terms::{Terms, page},
};
use crate::{
    graph::{Answer as Graphed, Graph, note_of},
    model::Page,
    money::Money,
};

pub(super) const NAME: &str = "find_customer";
const MOST: u32 = 50;

macro_rules! customer {
    () => {
        "id displayName firstName lastName defaultEmailAddress { emailAddress } defaultPhoneNumber { phoneNumber } \
         numberOfOrders amountSpent { amount currencyCode } state tags note createdAt lastOrder { id name }"
    };
}

/// Exact. <https://shopify.dev/docs/api/admin-graphql/latest/queries/customerByIdentifier>
const EXACT: &str = concat!(
    "query OneCustomer($identifier: CustomerIdentifierInput!) { customerByIdentifier(identifier: $identifier) { ",
    customer!(),
    " } }"
);

/// <https://shopify.dev/docs/api/admin-graphql/latest/queries/customers>
const SEARCH: &str = concat!(
    "query FindCustomers($q: String!, $n: Int!, $after: String) { customers(first: $n, after: $after, query: $q) { nodes { ",
    customer!(),
    " } pageInfo { hasNextPage endCursor } } }"
);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    email: Option<String>,
    phone: Option<String>,
    customer_id: Option<String>,
    name: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    customers: Vec<Customer>,
    next_cursor: Option<String>,
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    id: String,
    display_name: Option<String>,
    first_name: Option<String>,
    last_name: Option<String>,
    default_email_address: Option<Email>,
    default_phone_number: Option<Phone>,
    /// An unsigned 64-bit number, as text.
    number_of_orders: Option<String>,
    amount_spent: Option<Money>,
    state: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    note: Option<String>,
    created_at: Option<DateTime<Utc>>,
    last_order: Option<LastOrder>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Email {
    email_address: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Phone {
    phone_number: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct LastOrder {
    id: String,
    name: String,
}

#[derive(Debug, Serialize)]
struct Customer {
    id: String,
    name: Option<String>,
    first_name: Option<String>,
    last_name: Option<String>,
    email: Option<String>,
    phone: Option<String>,
    orders: Option<String>,
    spent: Option<Money>,
    state: Option<String>,
    tags: Vec<String>,
    note: Option<String>,
    created_at: Option<DateTime<Utc>>,
    last_order: Option<LastOrder>,
}

impl From<Wire> for Customer {
    fn from(wire: Wire) -> Self {
        Self {
            id: wire.id,
            name: wire.display_name,
            first_name: wire.first_name,
            last_name: wire.last_name,
            email: wire.default_email_address.and_then(|email| email.email_address),
            phone: wire.default_phone_number.and_then(|phone| phone.phone_number),
            orders: wire.number_of_orders,
            spent: wire.amount_spent,
            state: wire.state,
            tags: wire.tags,
            note: wire.note.filter(|note| !note.is_empty()),
            created_at: wire.created_at,
            last_order: wire.last_order,
        }
    }
}

/// What is looked for.
#[derive(Debug, PartialEq)]
enum Asked {
    /// One, by an identifier.
    One(Value),
    /// A page of many, by these variables.
    Many(Value),
}

pub(super) async fn run(graph: &Graph<'_>, arguments: Arguments) -> Result<Answer> {
    match asked(&arguments).map_err(invalid(graph, NAME))? {
        Asked::One(identifier) => {
            let variables = json!({"identifier": identifier});
            let Graphed { data, hidden }: Graphed<Option<Wire>> =
                graph.ask(NAME, EXACT, "customerByIdentifier", variables).await?;
            let customers = data.into_iter().map(Customer::from).collect();
            Ok(Answer { customers, next_cursor: None, note: note_of(&hidden) })
        }
        Asked::Many(variables) => {
            let Graphed { data, hidden }: Graphed<Page<Wire>> = graph.ask(NAME, SEARCH, "customers", variables).await?;
            let next_cursor = data.page_info.next();
            let customers = data.nodes.into_iter().map(Customer::from).collect();
            Ok(Answer { customers, next_cursor, note: note_of(&hidden) })
        }
    }
}

fn asked(arguments: &Arguments) -> Result<Asked, String> {
    let one = |field: &str, text: &str, good: bool, like: &str| {
        if good { Ok(text.trim().to_owned()) } else { Err(format!("{field}: expected {like}")) }
    };
    match (&arguments.email, &arguments.phone, &arguments.customer_id, &arguments.name) {
        (Some(email), None, None, None) => {
            let good = email.trim().split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
            let email = one("email", email, good, "an e-mail address, like \"mira@example.com\"")?;
            Ok(Asked::One(json!({"emailAddress": email})))
        }
        (None, Some(phone), None, None) => {
            let good = phone.trim().strip_prefix('+').is_some_and(|digits| {
                (5..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
            });
            let phone = one("phone", phone, good, "a number with its country code, like \"+4930123456\"")?;
            Ok(Asked::One(json!({"phoneNumber": phone})))
        }
        (None, None, Some(id), None) => Ok(Asked::One(json!({"id": gid("Customer", "customer_id", id)?}))),
        (None, None, None, Some(name)) => {
            let query = Terms::default().phrase("name", Some(name))?.text();
            Ok(Asked::Many(page(&query, arguments.limit, arguments.cursor.as_deref(), MOST)?))
        }
        _ => Err("expected exactly one of email, phone, customer_id and name".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: Value) -> Result<Asked, String> {
        asked(&serde_json::from_value(arguments).unwrap())
    }

    #[test]
    fn a_customer_is_asked_for_by_exactly_one_thing() {
        assert_eq!(of(json!({"email": " a@b.c "})), Ok(Asked::One(json!({"emailAddress": "a@b.c"}))));
        assert_eq!(of(json!({"phone": "+4930123456"})), Ok(Asked::One(json!({"phoneNumber": "+4930123456"}))));
        assert_eq!(of(json!({"customer_id": "7"})), Ok(Asked::One(json!({"id": "gid://shopify/Customer/7"}))));
        let named = json!({"q": "\"Łucja \\\"W\\\"\"", "n": 5, "after": null});
        assert_eq!(of(json!({"name": "Łucja \"W\"", "limit": 5})), Ok(Asked::Many(named)));
        for (arguments, said) in [
            (json!({}), "exactly one of"),
            (json!({"email": "a@b.c", "name": "x"}), "exactly one of"),
            (json!({"email": "mira"}), "email: "),
            (json!({"phone": "030 123"}), "phone: "),
            (json!({"customer_id": "mira"}), "customer_id: "),
            (json!({"name": " "}), "name: "),
        ] {
            assert!(of(arguments.clone()).unwrap_err().contains(said), "{arguments}");
        }
    }
}
