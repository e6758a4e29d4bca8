//! `create_ticket`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{CreateTicket, CreatedTicket, Requester, html_of_text, words},
    ticket::Status,
    tool::{done_once, invalid},
};
use serde_json::{Map, Value, json};

use super::{agent, id, tags, with_requester};
use crate::{
    api,
    model::{priority_number, status_number},
};

pub(super) const NAME: &str = "create_ticket";

/// What Freshdesk takes where nothing is said. Sent all the same: the documentation has it as a default in one place and as
/// required in another.
const USUAL_PRIORITY: i64 = 1;

/// Sends no mail by itself; an address that is not known yet makes a contact.
pub(super) async fn run(api: &ApiClient, asked: CreateTicket) -> Result<CreatedTicket> {
    let mut fields = fields(&asked).map_err(|message| invalid(api, NAME, message))?;
    if let Some(who) = &asked.assignee {
        fields.insert("responder_id".to_owned(), json!(agent(api, NAME, who).await?));
    }

    let made = api::create(api, NAME, &Value::Object(fields)).await;
    let ticket =
        made.map_err(|error| done_once(error, "the ticket may have been made, search for it before you repeat it"))?;

    let ticket = with_requester(api, NAME, ticket, None).await;
    Ok(CreatedTicket { ticket: ticket.to_model(&api.account().base_url) })
}

fn fields(asked: &CreateTicket) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    put("subject", json!(asked.heading()?));
    put("description", json!(html_of_text(words("body", &asked.body)?)));
    put("status", json!(status_number(Status::Open)));
    put("priority", json!(asked.priority.map_or(USUAL_PRIORITY, priority_number)));
    match asked.requester()? {
        Requester::Email { email, name } => {
            put("email", json!(email));
            if let Some(name) = name {
                put("name", json!(name));
            }
        }
        Requester::Id(text) => {
            let id = id("requester", text)
                .map_err(|_| "requester: expected an e-mail address, or the digits of a customer's id".to_owned())?;
            put("requester_id", json!(id));
        }
    }
    if !asked.tags.is_empty() {
        put("tags", json!(tags("tags", &asked.tags)?));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &Value) -> Result<Value, String> {
        let mut all = json!({"subject": "s", "body": "b", "requester": "a@b.c"});
        all.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        fields(&serde_json::from_value(all).unwrap()).map(Value::Object)
    }

    #[test]
    fn a_ticket_is_written_as_freshdesk_takes_it() {
        let usual =
            json!({"subject": "s", "description": "<div>b</div>", "status": 2, "priority": 1, "email": "a@b.c"});
        assert_eq!(of(&json!({})), Ok(usual));
        let named = of(&json!({"requester_name": " Łucja ", "priority": "high", "tags": ["a b"]})).unwrap();
        assert_eq!((&named["name"], &named["priority"], &named["tags"]), (&json!("Łucja"), &json!(3), &json!(["a b"])));
        let known = of(&json!({"requester": "9007199254740993"})).unwrap();
        assert_eq!(known["requester_id"], 9_007_199_254_740_993_i64);
        assert!(known.get("name").is_none() && known.get("email").is_none());
    }

    #[test]
    fn a_ticket_that_makes_no_sense_is_refused_before_anything_is_sent() {
        for (given, said) in [
            (json!({"subject": " "}), "subject: expected a text"),
            (json!({"subject": "a\nb"}), "subject: expected a text on one line"),
            (json!({"body": "\n"}), "body: expected a text"),
            (json!({"requester": "Mira"}), "requester: expected an e-mail address"),
            (json!({"requester_name": " "}), "requester_name: expected a text"),
            (json!({"requester": "7", "requester_name": "x"}), "requester_name: goes with an e-mail address"),
            (json!({"tags": ["a,b"]}), "tags: expected"),
        ] {
            let message = of(&given).unwrap_err();
            assert!(message.starts_with(said), "{given}: {message}");
        }
    }
}
