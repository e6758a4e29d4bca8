//! `update_ticket`.

use chrono::{DateTime, SecondsFormat, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    ticket::{Priority, Status, Ticket},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::{id, invalid};
use crate::{
    api,
    model::{People, TicketAnswer, WireTicket, priority_word, status_word},
};

pub(super) const NAME: &str = "update_ticket";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    ticket_id: String,
    status: Option<Status>,
    priority: Option<Priority>,
    #[serde(default)]
    assignee: Assignee,
    tags: Option<Vec<String>>,
    #[serde(default)]
    add_tags: Vec<String>,
    #[serde(default)]
    remove_tags: Vec<String>,
    if_updated_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Default)]
enum Assignee {
    /// The field is absent.
    #[default]
    Keep,
    /// It is null.
    Nobody,
    /// An id or an address.
    Agent(String),
}

impl<'de> Deserialize<'de> for Assignee {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Nobody, Self::Agent))
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    ticket: Ticket,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let id = id("ticket_id", &arguments.ticket_id).map_err(|message| invalid(api, NAME, message))?;
    let change = Change::of(&arguments).map_err(|message| invalid(api, NAME, message))?;

    match attempt(api, id, &change, arguments.if_updated_at).await {
        // Somebody was faster, and the caller did not say what it had seen: once more, with what is there now.
        Err(error) if error.kind == ErrorKind::Conflict && arguments.if_updated_at.is_none() => {
            attempt(api, id, &change, None).await
        }
        other => other,
    }
}

/// Reads, changes, and writes if the ticket is still as it was read, or as the caller had seen it.
async fn attempt(api: &ApiClient, id: i64, change: &Change, seen: Option<DateTime<Utc>>) -> Result<Answer> {
    let TicketAnswer { ticket, users, .. } = api::ticket(api, NAME, id).await?;
    if seen.is_some_and(|seen| seen != ticket.updated_at) {
        let message = format!("the ticket changed at {}; read it again", stamp(ticket.updated_at));
        return Err(api.error(NAME, ErrorKind::Conflict, message));
    }
    let mut people = People::default();
    people.add(users);
    let base = &api.account().base_url;
    let Some(fields) = change.to_fields(&ticket) else {
        // The tags to add are there, those to remove are not: nothing to write.
        return Ok(Answer { ticket: ticket.to_model(base, &people) });
    };
    let done = api::update(api, NAME, id, &fields).await?;
    people.add(done.users);
    Ok(Answer { ticket: done.ticket.to_model(base, &people) })
}

/// What is to be changed, checked.
#[derive(Debug)]
struct Change {
    fields: Map<String, Value>,
    tags: Tags,
}

#[derive(Debug)]
enum Tags {
    Keep,
    Edit { add: Vec<String>, remove: Vec<String> },
}

impl Change {
    fn of(arguments: &Arguments) -> Result<Self, String> {
        let mut fields = Map::new();
        match arguments.status {
            Some(Status::New) => {
                return Err(
                    "status: a ticket never becomes new; expected open, pending, on_hold, solved or closed".into()
                );
            }
            Some(status) => drop(fields.insert("status".to_owned(), json!(status_word(status)))),
            None => {}
        }
        if let Some(priority) = arguments.priority {
            fields.insert("priority".to_owned(), json!(priority_word(priority)));
        }
        match &arguments.assignee {
            Assignee::Keep => {}
            Assignee::Nobody => drop(fields.insert("assignee_id".to_owned(), Value::Null)),
            Assignee::Agent(who) if who.contains('@') => {
                fields.insert("assignee_email".to_owned(), json!(who.trim()));
            }
            Assignee::Agent(who) => {
                let id =
                    id("assignee", who).map_err(|said| format!("{said}, an e-mail address, or null for nobody"))?;
                fields.insert("assignee_id".to_owned(), json!(id));
            }
        }
        let list =
            |field: &str, tags: &[String]| tags.iter().map(|text| tag(field, text)).collect::<Result<Vec<_>, _>>();
        let (add, remove) = (list("add_tags", &arguments.add_tags)?, list("remove_tags", &arguments.remove_tags)?);
        let edited = !(add.is_empty() && remove.is_empty());
        if let Some(tags) = &arguments.tags {
            if edited {
                return Err("tags: replaces all tags, so it does not go together with add_tags or remove_tags".into());
            }
            fields.insert("tags".to_owned(), json!(list("tags", tags)?));
        }
        if let Some(both) = add.iter().find(|tag| remove.contains(tag)) {
            return Err(format!("remove_tags: {both} is in add_tags as well"));
        }
        if fields.is_empty() && !edited {
            return Err("nothing to change: expected status, priority, assignee, tags, add_tags or remove_tags".into());
        }
        Ok(Self { fields, tags: if edited { Tags::Edit { add, remove } } else { Tags::Keep } })
    }

    /// The body for a ticket as it was read, guarded; `None`: it is so already.
    ///
    /// Tags are written as a whole list under the guard, and not through their own endpoint: one write, one audit.
    fn to_fields(&self, ticket: &WireTicket) -> Option<Value> {
        let mut fields = self.fields.clone();
        if let Tags::Edit { add, remove } = &self.tags {
            let mut tags: Vec<&String> = ticket.tags.iter().filter(|tag| !remove.contains(tag)).collect();
            for tag in add {
                if !tags.contains(&tag) {
                    tags.push(tag);
                }
            }
            if tags.len() != ticket.tags.len() || !tags.iter().all(|tag| ticket.tags.contains(tag)) {
                fields.insert("tags".to_owned(), json!(tags));
            }
        }
        if fields.is_empty() {
            return None;
        }
        fields.insert("safe_update".to_owned(), json!(true));
        fields.insert("updated_stamp".to_owned(), json!(stamp(ticket.updated_at)));
        Some(Value::Object(fields))
    }
}

/// As Zendesk writes a moment.
fn stamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// A tag as Zendesk keeps it: lower case, one word.
pub(super) fn tag(field: &str, text: &str) -> Result<String, String> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | ',');
    if text.is_empty() || text.contains(bad) {
        return Err(format!("{field}: expected tags without spaces, commas or quotes, like \"needs_refund\""));
    }
    Ok(text.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(tags: &[&str]) -> WireTicket {
        serde_json::from_value(json!({
            "id": 5, "status": "open", "tags": tags, "created_at": "2026-11-01T10:00:00Z",
            "updated_at": "2026-11-02T11:12:13Z",
        }))
        .unwrap()
    }

    fn change(mut arguments: Value) -> Result<Change, String> {
        arguments["ticket_id"] = json!("5");
        Change::of(&serde_json::from_value(arguments).unwrap())
    }

    #[test]
    fn a_change_is_written_in_zendesks_words_and_guarded() {
        let tags = ["a", "b"];
        for (arguments, expected) in [
            (json!({"status": "on_hold"}), json!({"status": "hold"})),
            (json!({"priority": "urgent"}), json!({"priority": "urgent"})),
            (json!({"assignee": null}), json!({"assignee_id": null})),
            (json!({"assignee": "9007199254740993"}), json!({"assignee_id": 9_007_199_254_740_993_i64})),
            (json!({"assignee": "gus@example.com"}), json!({"assignee_email": "gus@example.com"})),
            (json!({"tags": ["X", "y"]}), json!({"tags": ["x", "y"]})),
            (json!({"tags": []}), json!({"tags": []})),
            (json!({"add_tags": ["c", "a"]}), json!({"tags": ["a", "b", "c"]})),
            (json!({"add_tags": ["c"], "remove_tags": ["a", "z"]}), json!({"tags": ["b", "c"]})),
            (json!({"status": "solved", "add_tags": ["a"]}), json!({"status": "solved"})),
        ] {
            let mut expected = expected;
            expected["safe_update"] = json!(true);
            expected["updated_stamp"] = json!("2026-11-02T11:12:13Z");
            assert_eq!(change(arguments.clone()).unwrap().to_fields(&ticket(&tags)), Some(expected), "{arguments}");
        }
        for arguments in [json!({"add_tags": ["a"]}), json!({"remove_tags": ["z"]})] {
            assert_eq!(change(arguments).unwrap().to_fields(&ticket(&tags)), None);
        }
    }

    #[test]
    fn a_change_that_makes_no_sense_is_refused_before_anything_is_sent() {
        for (arguments, said) in [
            (json!({}), "nothing to change: expected status"),
            (json!({"add_tags": []}), "nothing to change"),
            (json!({"status": "new"}), "status: a ticket never becomes new"),
            (json!({"assignee": "Gus"}), "assignee: expected the digits of an id, like \"35436\", an e-mail address"),
            (json!({"tags": ["a"], "add_tags": ["b"]}), "tags: replaces all tags"),
            (json!({"add_tags": ["A"], "remove_tags": ["a"]}), "remove_tags: a is in add_tags"),
            (json!({"add_tags": ["a b"]}), "add_tags: expected tags without spaces"),
        ] {
            let message = change(arguments.clone()).unwrap_err();
            assert!(message.starts_with(said), "{arguments}: {message}");
        }
    }

    #[test]
    fn a_stamp_is_spelled_as_zendesk_spells_it() {
        for text in ["2026-11-02T11:12:13Z", "2026-11-02T11:12:13.250Z"] {
            assert_eq!(stamp(text.parse().unwrap()), text);
        }
    }
}
