//! `update_ticket`.

use chrono::SecondsFormat;
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{Assignee, UpdateTicket, UpdatedTicket},
    ticket::Status,
    tool::invalid,
};
use serde_json::{Map, Value, json};

use super::{app, id, names, same, tag_ids, ticket};
use crate::{api, model::WireConversation};

pub(super) const NAME: &str = "update_ticket";

/// Front has no condition for a change: what the caller had seen is compared with what is there just before. Everything is
/// looked up before anything is written.
pub(super) async fn run(api: &ApiClient, asked: UpdateTicket) -> Result<UpdatedTicket> {
    let refused = |message| invalid(api, NAME, message);
    asked.check().map_err(refused)?;
    possible(&asked).map_err(refused)?;
    let id = ticket(api, NAME, &asked.ticket_id).await?;
    let there = api::conversation(api, NAME, &id).await?;
    unchanged(api, &asked, &there)?;

    let mut change = Map::new();
    if let Some(status) = asked.status {
        let (name, value) = status_change(api, &there, status).await?;
        change.insert(name.to_owned(), value);
    }
    match &asked.assignee {
        Assignee::Keep => {}
        Assignee::Nobody => drop(change.insert("assignee_id".to_owned(), Value::Null)),
        Assignee::Agent(who) => drop(change.insert("assignee_id".to_owned(), json!(teammate(api, who).await?))),
    }
    if let Some(tags) = &asked.tags {
        let wanted = names("tags", tags).map_err(refused)?;
        change.insert("tag_ids".to_owned(), json!(tag_ids(api, NAME, "tags", &wanted).await?));
    }
    let (add, remove) = edits(api, &asked, &there).await?;

    let nothing = change.is_empty() && add.is_empty() && remove.is_empty();
    if !change.is_empty() {
        api::update(api, NAME, &there.id, &Value::Object(change)).await?;
    }
    if !add.is_empty() {
        api::tag(api, NAME, &there.id, true, &add).await?;
    }
    if !remove.is_empty() {
        api::tag(api, NAME, &there.id, false, &remove).await?;
    }
    // The tags to add are there and those to remove are not, or Front's answer is empty.
    let after = if nothing { there } else { api::conversation(api, NAME, &there.id).await? };
    Ok(UpdatedTicket { ticket: after.to_model(&app(api)) })
}

fn possible(asked: &UpdateTicket) -> Result<(), String> {
    if asked.priority.is_some() {
        return Err("priority: Front has no priorities; leave it out, or use a tag".to_owned());
    }
    match asked.status {
        Some(Status::OnHold | Status::Closed) => {
            Err("status: Front has open, pending (with its ticketing) and solved only".to_owned())
        }
        _ => Ok(()),
    }
}

fn unchanged(api: &ApiClient, asked: &UpdateTicket, there: &WireConversation) -> Result<()> {
    match (asked.if_updated_at, there.updated_at) {
        (Some(_), None) => {
            let message = "if_updated_at: this Front does not say when a conversation last changed; leave it out";
            Err(invalid(api, NAME, message))
        }
        (Some(seen), Some(at)) if seen != at => {
            let at = at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
            Err(api.error(NAME, ErrorKind::Conflict, format!("the ticket changed at {at}; read it again")))
        }
        _ => Ok(()),
    }
}

/// With ticketing a status is one of the company's own, of which the first of the right category is taken.
async fn status_change(api: &ApiClient, there: &WireConversation, wanted: Status) -> Result<(&'static str, Value)> {
    let (word, category) = match wanted {
        Status::Pending => (None, "waiting"),
        Status::Solved => (Some("archived"), "resolved"),
        _ => (Some("open"), "open"),
    };
    let own = if there.status_category.is_some() || word.is_none() {
        match api::statuses(api, NAME).await {
            Ok(all) => all.into_iter().find(|status| status.category.as_deref() == Some(category)),
            // Ticketing is off.
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        }
    } else {
        None
    };
    match (own, word) {
        (Some(status), _) => Ok(("status_id", json!(status.id))),
        (None, Some(word)) => Ok(("status", json!(word))),
        (None, None) => {
            let message = "status: this Front has no pending: its ticketing is off, or has no status of that kind";
            Err(invalid(api, NAME, message))
        }
    }
}

/// By id or e-mail address.
async fn teammate(api: &ApiClient, who: &str) -> Result<String> {
    let who = who.trim();
    if !who.contains('@') {
        return id("assignee", who).map(str::to_owned).map_err(|_| {
            let message =
                "assignee: expected the id of a teammate, like \"tea_55c8c149\", an e-mail address, or null for nobody";
            invalid(api, NAME, message)
        });
    }
    match api::teammate_by_email(api, NAME, who).await {
        Ok(teammate) => Ok(teammate.id),
        Err(error) if error.kind == ErrorKind::NotFound => {
            Err(invalid(api, NAME, "assignee: Front has no teammate with this e-mail address"))
        }
        Err(error) => Err(error),
    }
}

/// Ids of the tags that are to come and are not there, and of those that are to go and are there. Each is changed by
/// itself, so that what others tag meanwhile, or what the app may not see, stays.
async fn edits(api: &ApiClient, asked: &UpdateTicket, there: &WireConversation) -> Result<(Vec<String>, Vec<String>)> {
    let refused = |message| invalid(api, NAME, message);
    let add = names("add_tags", &asked.add_tags).map_err(refused)?;
    let remove = names("remove_tags", &asked.remove_tags).map_err(refused)?;
    if let Some(both) = add.iter().find(|tag| remove.iter().any(|other| same(tag, other))) {
        return Err(refused(format!("remove_tags: {both} is in add_tags as well")));
    }
    let absent: Vec<String> = add.into_iter().filter(|name| there.tag(name).is_none()).collect();
    let add = if absent.is_empty() { absent } else { tag_ids(api, NAME, "add_tags", &absent).await? };
    let remove = remove.iter().filter_map(|name| there.tag(name).map(str::to_owned)).collect();
    Ok((add, remove))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_front_does_not_have_is_refused_by_name() {
        for (given, said) in [
            (json!({"priority": "high"}), "priority: Front has no priorities"),
            (json!({"status": "on_hold"}), "status: Front has"),
            (json!({"status": "closed"}), "status: Front has"),
        ] {
            let mut all = json!({"ticket_id": "cnv_1"});
            all.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
            let message = possible(&serde_json::from_value(all).unwrap()).unwrap_err();
            assert!(message.starts_with(said), "{message}");
        }
    }
}
