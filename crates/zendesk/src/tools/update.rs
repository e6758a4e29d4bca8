//! `update_ticket`.

use chrono::{DateTime, SecondsFormat, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{Assignee, UPDATE_TICKET, UpdateTicket, UpdatedTicket, edit_tags},
};
use serde_json::{Map, Value, json};

use super::{id, invalid, tags};
use crate::{
    api,
    model::{People, TicketAnswer, WireTicket, priority_word, status_word},
};

pub(super) const NAME: &str = UPDATE_TICKET.name;

pub(super) async fn run(api: &ApiClient, arguments: UpdateTicket) -> Result<UpdatedTicket> {
    let id = id("ticket_id", &arguments.ticket_id).map_err(invalid(api, NAME))?;
    let seen = arguments.if_updated_at;
    let change = Change::of(arguments).map_err(invalid(api, NAME))?;

    match attempt(api, id, &change, seen).await {
        // Somebody was faster, and the caller did not say what it had seen: once more, with what is there now.
        Err(error) if error.kind == ErrorKind::Conflict && seen.is_none() => attempt(api, id, &change, None).await,
        other => other,
    }
}

/// Reads, changes, and writes if the ticket is still as it was read, or as the caller had seen it.
async fn attempt(api: &ApiClient, id: i64, change: &Change, seen: Option<DateTime<Utc>>) -> Result<UpdatedTicket> {
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
        return Ok(UpdatedTicket { ticket: ticket.to_model(base, &people) });
    };
    let done = api::update(api, NAME, id, &fields).await?;
    people.add(done.users);
    Ok(UpdatedTicket { ticket: done.ticket.to_model(base, &people) })
}

/// What is to be changed, checked.
#[derive(Debug)]
struct Change {
    fields: Map<String, Value>,
    /// Tags to add, and to remove.
    edit: Option<(Vec<String>, Vec<String>)>,
}

impl Change {
    fn of(arguments: UpdateTicket) -> Result<Self, String> {
        // In lower case, so that one tag is not added and removed in two spellings.
        let arguments = UpdateTicket {
            tags: arguments.tags.as_deref().map(|list| tags("tags", list)).transpose()?,
            add_tags: tags("add_tags", &arguments.add_tags)?,
            remove_tags: tags("remove_tags", &arguments.remove_tags)?,
            ..arguments
        };
        arguments.check()?;
        let mut fields = Map::new();
        if let Some(status) = arguments.status {
            fields.insert("status".to_owned(), json!(status_word(status)));
        }
        if let Some(priority) = arguments.priority {
            fields.insert("priority".to_owned(), json!(priority_word(priority)));
        }
        match &arguments.assignee {
            Assignee::Keep => {}
            Assignee::Nobody => drop(fields.insert("assignee_id".to_owned(), Value::Null)),
            Assignee::Agent(who) => {
                let (name, value) = assignee(who).map_err(|said| format!("{said}, or null for nobody"))?;
                fields.insert(name.to_owned(), value);
            }
        }
        if let Some(tags) = &arguments.tags {
            fields.insert("tags".to_owned(), json!(tags));
        }
        let edit = arguments.edits_tags().then_some((arguments.add_tags, arguments.remove_tags));
        Ok(Self { fields, edit })
    }

    /// The body for a ticket as it was read, guarded; `None`: it is so already.
    ///
    /// Tags are written as a whole list under the guard, and not through their own endpoint: one write, one audit.
    fn to_fields(&self, ticket: &WireTicket) -> Option<Value> {
        let mut fields = self.fields.clone();
        if let Some((add, remove)) = &self.edit
            && let Some(tags) = edit_tags(&ticket.tags, add, remove)
        {
            fields.insert("tags".to_owned(), json!(tags));
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

/// Who is to answer, as a field of a ticket: an id, or an e-mail address.
pub(super) fn assignee(who: &str) -> Result<(&'static str, Value), String> {
    if who.contains('@') {
        return Ok(("assignee_email", json!(who.trim())));
    }
    let id = id("assignee", who).map_err(|said| format!("{said}, or an e-mail address"))?;
    Ok(("assignee_id", json!(id)))
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
        Change::of(serde_json::from_value(arguments).unwrap())
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
            (
                json!({"assignee": "Gus"}),
                "assignee: expected the digits of an id, like \"35436\", or an e-mail address, or null",
            ),
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
