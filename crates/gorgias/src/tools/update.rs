//! `update_ticket`.

use chrono::SecondsFormat;
use holdfast_core::{
    ApiClient,
    error::{Error, ErrorKind, Result},
    helpdesk::{Assignee, UpdateTicket, UpdatedTicket},
    ticket::Status,
    tool::invalid,
};
use serde_json::{Map, Value, json};

use super::{agent, id, tags};
use crate::{
    api::{self, Labels},
    model::{priority_word, status_word},
};

pub(super) const NAME: &str = "update_ticket";

/// Gorgias has no condition for a change: what the caller had seen is compared with what is there just before, and a change
/// of the moment between is overwritten. Single tags are added and removed without a look at the others.
pub(super) async fn run(api: &ApiClient, asked: UpdateTicket) -> Result<UpdatedTicket> {
    let refused = |message| invalid(api, NAME, message);
    let id = id("ticket_id", &asked.ticket_id).map_err(refused)?;
    asked.check().map_err(refused)?;
    let mut fields = fields(&asked).map_err(refused)?;
    let (add, remove) = (tags("add_tags", &asked.add_tags), tags("remove_tags", &asked.remove_tags));
    let (add, remove) = (add.map_err(refused)?, remove.map_err(refused)?);
    match &asked.assignee {
        Assignee::Keep => {}
        Assignee::Nobody => drop(fields.insert("assignee_user".to_owned(), Value::Null)),
        Assignee::Agent(who) => {
            let user = agent(api, NAME, who).await?;
            fields.insert("assignee_user".to_owned(), json!({"id": user}));
        }
    }
    if let Some(seen) = asked.if_updated_at {
        let there = api::ticket(api, NAME, id).await?.to_model(&api.account().base_url).updated_at;
        if seen != there {
            let at = there.to_rfc3339_opts(SecondsFormat::AutoSi, true);
            return Err(api.error(NAME, ErrorKind::Conflict, format!("the ticket changed at {at}; read it again")));
        }
    }

    let mut done = Vec::new();
    let mut answered = None;
    if !fields.is_empty() {
        answered = api::update(api, NAME, id, &Value::Object(fields)).await?;
        done.push("everything but single tags is changed");
    }
    for (what, names, word) in
        [(Labels::Add, &add, "add_tags are added"), (Labels::Remove, &remove, "remove_tags are removed")]
    {
        if !names.is_empty() {
            api::label(api, NAME, id, what, names).await.map_err(|error| so_far(error, &done))?;
            answered = None;
            done.push(word);
        }
    }
    let ticket = match answered {
        Some(ticket) => ticket,
        None => api::ticket(api, NAME, id).await.map_err(|error| so_far(error, &done))?,
    };
    Ok(UpdatedTicket { ticket: ticket.to_model(&api.account().base_url) })
}

/// What was done before it failed.
fn so_far(error: Error, done: &[&str]) -> Error {
    if done.is_empty() {
        return error;
    }
    let message = format!("{}; of this call, {}", error.message, done.join(" and "));
    Error { message, ..error }
}

/// What does not depend on the ticket.
fn fields(asked: &UpdateTicket) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    if let Some(status) = asked.status {
        fields.insert("status".to_owned(), json!(word(status)?));
    }
    if let Some(priority) = asked.priority {
        fields.insert("priority".to_owned(), json!(priority_word(priority)));
    }
    if let Some(list) = &asked.tags {
        let tags: Vec<Value> = tags("tags", list)?.into_iter().map(|name| json!({"name": name})).collect();
        fields.insert("tags".to_owned(), Value::Array(tags));
    }
    Ok(fields)
}

fn word(status: Status) -> Result<&'static str, String> {
    status_word(status)
        .ok_or_else(|| "status: Gorgias has no pending and no on_hold; expected open or solved".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_written_in_gorgiass_words() {
        let fields = |mut given: Value| {
            given["ticket_id"] = json!("5");
            super::fields(&serde_json::from_value(given).unwrap()).map(Value::Object)
        };
        for (given, expected) in [
            (json!({"status": "solved", "priority": "urgent"}), json!({"status": "closed", "priority": "critical"})),
            (json!({"status": "closed"}), json!({"status": "closed"})),
            (json!({"status": "open"}), json!({"status": "open"})),
            (json!({"tags": [" a ", "B"]}), json!({"tags": [{"name": "a"}, {"name": "B"}]})),
            (json!({"tags": []}), json!({"tags": []})),
            (json!({"assignee": null, "add_tags": ["x"]}), json!({})),
        ] {
            assert_eq!(fields(given.clone()), Ok(expected), "{given}");
        }
        for status in ["pending", "on_hold"] {
            assert!(fields(json!({"status": status})).unwrap_err().starts_with("status: Gorgias has no pending"));
        }
        assert!(fields(json!({"tags": ["a\nb"]})).unwrap_err().starts_with("tags: expected"));
    }
}
