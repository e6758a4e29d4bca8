//! What an account holds, mostly as its API shows it.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A person who works there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) email: String,
    /// `admin`, `agent`, ...
    pub(crate) role: String,
    /// A key dies with its user.
    pub(crate) active: bool,
    pub(crate) api_key: String,
    pub(crate) created_ms: i64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Data {
    pub(crate) account_id: i64,
    pub(crate) created_ms: i64,
    pub(crate) users: Vec<User>,
    pub(crate) teams: Vec<Value>,
    pub(crate) customers: Vec<Value>,
    /// Without their messages.
    pub(crate) tickets: BTreeMap<i64, Value>,
    /// Oldest first.
    pub(crate) messages: Vec<Value>,
    /// Ids of the labels, by their names: `VIP` and `vip` are two.
    pub(crate) tags: BTreeMap<String, i64>,
    /// Views that were saved: which status they show.
    pub(crate) views: BTreeMap<i64, String>,
    /// Addresses that mail is sent from and comes in at.
    pub(crate) addresses: Vec<String>,
    /// Oldest first.
    #[serde(default)]
    pub(crate) integrations: Vec<Value>,
    pub(crate) last_ticket: i64,
    pub(crate) last_id: i64,
}

impl Data {
    /// Ids of customers and messages: above 2^53, so that a reader through floating point is found out.
    pub(crate) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn user(&self, id: i64) -> Option<&User> {
        self.users.iter().find(|user| user.id == id)
    }

    /// By id, by address, or by the start of a name in any case.
    pub(crate) fn user_named(&mut self, text: &str) -> Option<&mut User> {
        let wanted = text.to_lowercase();
        self.users.iter_mut().find(|user| {
            !wanted.is_empty()
                && (user.id.to_string() == wanted
                    || user.email == wanted
                    || user.name.to_lowercase().starts_with(&wanted))
        })
    }

    pub(crate) fn customer(&self, id: i64) -> Option<&Value> {
        self.customers.iter().find(|customer| customer["id"] == id)
    }

    /// Somebody with this address, in any case.
    pub(crate) fn customer_at(&self, email: &str) -> Option<&Value> {
        self.customers.iter().find(|customer| is_same(&customer["email"], email))
    }

    /// One more customer, as the API shows them.
    pub(crate) fn add_customer(&mut self, name: &str, email: Option<&str>, now_ms: i64) -> Value {
        let id = self.next_id();
        let (first, last) = name.split_once(' ').unwrap_or((name, ""));
        let channels = email.map(|email| {
            json!([{"id": id + 500_000, "type": "email", "address": email, "preferred": true,
                "created_datetime": moment(now_ms), "customer": {"id": id}, "user": {"id": id}}])
        });
        let customer = json!({
            "id": id,
            "external_id": null,
            "active": true,
            "name": name,
            "email": email,
            "firstname": first,
            "lastname": last,
            "language": "en",
            "timezone": null,
            "note": null,
            "data": null,
            "channels": channels.unwrap_or_else(|| json!([])),
            "integrations": {},
            "created_datetime": moment(now_ms),
            "updated_datetime": moment(now_ms),
        });
        self.customers.push(customer.clone());
        customer
    }

    /// A label by its name, made when there is none.
    pub(crate) fn tag(&mut self, name: &str) -> Value {
        let next = 4_000 + i64::try_from(self.tags.len()).unwrap_or(0);
        let id = *self.tags.entry(name.to_owned()).or_insert(next);
        json!({"id": id, "name": name, "uri": format!("/api/tags/{id}/"), "decoration": {"color": null}})
    }

    pub(crate) fn messages_of(&self, ticket: i64) -> impl Iterator<Item = &Value> {
        self.messages.iter().filter(move |message| message["ticket_id"] == ticket)
    }

    /// With its messages, as the API shows one ticket by itself.
    pub(crate) fn whole_ticket(&self, id: i64) -> Option<Value> {
        let mut whole = self.tickets.get(&id)?.clone();
        whole["messages"] = self.messages_of(id).cloned().collect();
        Some(whole)
    }

    /// The ticket has changed at this moment, or a little later than before.
    pub(crate) fn touch(&mut self, id: i64, now_ms: i64) {
        if let Some(ticket) = self.tickets.get_mut(&id) {
            let before = ticket["updated_datetime"].as_str().and_then(read_moment).unwrap_or(0);
            ticket["updated_datetime"] = json!(moment(now_ms.max(before + 1)));
        }
    }

    /// Puts a message to its ticket, and says so there.
    pub(crate) fn add_message(&mut self, ticket_id: i64, message: Value, now_ms: i64) {
        let at = message["created_datetime"].clone();
        let text = message["body_text"].as_str().unwrap_or_default();
        let excerpt: String = text.chars().take(100).collect();
        let incoming = message["from_agent"] == false;
        self.messages.push(message);
        let count = self.messages_of(ticket_id).count();
        if let Some(ticket) = self.tickets.get_mut(&ticket_id) {
            ticket["messages_count"] = json!(count);
            ticket["last_message_datetime"] = at.clone();
            ticket["excerpt"] = json!(excerpt);
            if incoming {
                ticket["last_received_message_datetime"] = at;
                ticket["status"] = json!("open");
            }
        }
        self.touch(ticket_id, now_ms);
    }
}

impl User {
    pub(crate) fn to_json(&self) -> Value {
        let (first, last) = self.name.split_once(' ').unwrap_or((&self.name, ""));
        json!({
            "id": self.id,
            "active": self.active,
            "bio": null,
            "country": null,
            "email": self.email,
            "external_id": self.id.to_string(),
            "firstname": first,
            "lastname": last,
            "name": self.name,
            "language": "en",
            "meta": null,
            "role": {"name": self.role},
            "timezone": "UTC",
            "created_datetime": moment(self.created_ms),
            "updated_datetime": moment(self.created_ms),
        })
    }

    /// As tickets and messages name them.
    pub(crate) fn to_person(&self) -> Value {
        json!({"id": self.id, "name": self.name, "email": self.email})
    }
}

/// As tickets and messages name a customer.
pub(crate) fn person(customer: &Value) -> Value {
    json!({"id": customer["id"], "name": customer["name"], "email": customer["email"]})
}

pub(crate) fn is_same(value: &Value, text: &str) -> bool {
    value.as_str().is_some_and(|value| value.to_lowercase() == text.to_lowercase())
}

/// ISO 8601 with microseconds, in UTC with its offset.
pub(crate) fn moment(at_ms: i64) -> String {
    let at = DateTime::<Utc>::from_timestamp_millis(at_ms).unwrap_or_default();
    at.to_rfc3339_opts(SecondsFormat::Micros, false)
}

pub(crate) fn read_moment(text: &str) -> Option<i64> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis())
}
