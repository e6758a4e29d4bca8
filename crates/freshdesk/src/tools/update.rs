//! `update_ticket`.

use chrono::SecondsFormat;
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{Assignee, UpdateTicket, UpdatedTicket, edit_tags},
    ticket::Status,
    tool::invalid,
};
use serde_json::{Map, Value, json};

use super::{agent, id, tags, with_requester};
use crate::{
    api,
    model::{priority_number, status_number},
};

pub(super) const NAME: &str = "update_ticket";

/// Freshdesk has no condition for a change: what the caller had seen is compared with what is there just before, and a
/// change of the moment between is overwritten.
pub(super) async fn run(api: &ApiClient, asked: UpdateTicket) -> Result<UpdatedTicket> {
    let refused = |message| invalid(api, NAME, message);
    let id = id("ticket_id", &asked.ticket_id).map_err(refused)?;
    asked.check().map_err(refused)?;
    let mut fields = fields(&asked).map_err(refused)?;
    let (add, remove) = (tags("add_tags", &asked.add_tags), tags("remove_tags", &asked.remove_tags));
    let (add, remove) = (add.map_err(refused)?, remove.map_err(refused)?);
    match &asked.assignee {
        Assignee::Keep => {}
        Assignee::Nobody => drop(fields.insert("responder_id".to_owned(), Value::Null)),
        Assignee::Agent(who) => drop(fields.insert("responder_id".to_owned(), json!(agent(api, NAME, who).await?))),
    }

    let there = if asked.edits_tags() || asked.if_updated_at.is_some() {
        Some(api::ticket(api, NAME, id).await?)
    } else {
        None
    };
    if let (Some(seen), Some(there)) = (asked.if_updated_at, &there)
        && seen != there.updated_at
    {
        let at = there.updated_at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        return Err(api.error(NAME, ErrorKind::Conflict, format!("the ticket changed at {at}; read it again")));
    }
    if let Some(there) = &there
        && let Some(edited) = edit_tags(there.tags.as_deref().unwrap_or_default(), &add, &remove)
    {
        // There is no call that adds or removes one: the list is replaced.
        fields.insert("tags".to_owned(), json!(edited));
    }
    let base = &api.account().base_url;
    match there {
        // The tags to add are there, those to remove are not: nothing to write.
        Some(there) if fields.is_empty() => Ok(UpdatedTicket { ticket: there.to_model(base) }),
        there => {
            let changed = api::update(api, NAME, id, &Value::Object(fields)).await?;
            let changed = with_requester(api, NAME, changed, there).await;
            Ok(UpdatedTicket { ticket: changed.to_model(base) })
        }
    }
}

/// What does not depend on the ticket.
fn fields(asked: &UpdateTicket) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    if let Some(status) = asked.status {
        fields.insert("status".to_owned(), json!(number(status)?));
    }
    if let Some(priority) = asked.priority {
        fields.insert("priority".to_owned(), json!(priority_number(priority)));
    }
    if let Some(list) = &asked.tags {
        fields.insert("tags".to_owned(), json!(tags("tags", list)?));
    }
    Ok(fields)
}

fn number(status: Status) -> Result<i64, String> {
    status_number(status)
        .ok_or_else(|| "status: Freshdesk has no on_hold; expected open, pending, solved or closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_written_in_freshdesks_numbers() {
        let fields = |mut given: Value| {
            given["ticket_id"] = json!("5");
            super::fields(&serde_json::from_value(given).unwrap()).map(Value::Object)
        };
        for (given, expected) in [
            (json!({"status": "solved", "priority": "urgent"}), json!({"status": 4, "priority": 4})),
            (json!({"tags": [" a ", "B"]}), json!({"tags": ["a", "B"]})),
            (json!({"tags": []}), json!({"tags": []})),
            (json!({"assignee": null}), json!({})),
        ] {
            assert_eq!(fields(given.clone()), Ok(expected), "{given}");
        }
        assert!(fields(json!({"status": "on_hold"})).unwrap_err().starts_with("status: Freshdesk has no on_hold"));
        assert!(fields(json!({"tags": ["a,b"]})).unwrap_err().starts_with("tags: expected"));
    }
}
