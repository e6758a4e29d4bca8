//! `create_ticket`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{CREATE_TICKET, CreateTicket, CreatedTicket, Requester, words},
    tool::{ToolCall, done_once},
};
use serde_json::{Map, Value, json};

use super::{id, invalid, tags, update::assignee};
use crate::{
    api,
    model::{People, priority_word},
};

pub(super) const NAME: &str = CREATE_TICKET.name;

/// Longer keys Zendesk does not take.
/// <https://developer.zendesk.com/api-reference/ticketing/introduction/#idempotency>
const LONGEST_KEY: usize = 255;

pub(super) async fn run(api: &ApiClient, call: &ToolCall) -> Result<CreatedTicket> {
    let ticket = fields(&call.read(api, NAME)?).map_err(invalid(api, NAME))?;
    let key = call.provider_key(LONGEST_KEY);
    let has_key = key.is_some();

    let done = api::create(api, NAME, &ticket, key).await.map_err(|error| {
        if has_key {
            // The same call with the same key brings the same ticket.
            return error;
        }
        done_once(error, "the ticket may have been created, search for it before you repeat it")
    })?;

    let mut people = People::default();
    people.add(done.users);
    Ok(CreatedTicket { ticket: done.ticket.to_model(&api.account().base_url, &people) })
}

/// The body, the same bytes for the same arguments: Zendesk holds a key to its body.
fn fields(arguments: &CreateTicket) -> Result<Value, String> {
    let mut fields = Map::new();
    fields.insert("subject".to_owned(), json!(arguments.heading()?));
    fields.insert("comment".to_owned(), json!({"body": words("body", &arguments.body)?}));
    match arguments.requester()? {
        Requester::Email { email, name: None } => fields.insert("requester".to_owned(), json!({"email": email})),
        Requester::Email { email, name: Some(name) } => {
            fields.insert("requester".to_owned(), json!({"email": email, "name": name}))
        }
        Requester::Id(who) => {
            let id = id("requester", who).map_err(|said| format!("{said}, or an e-mail address"))?;
            fields.insert("requester_id".to_owned(), json!(id))
        }
    };
    if let Some(priority) = arguments.priority {
        fields.insert("priority".to_owned(), json!(priority_word(priority)));
    }
    if let Some(who) = &arguments.assignee {
        let (name, value) = assignee(who)?;
        fields.insert(name.to_owned(), value);
    }
    if !arguments.tags.is_empty() {
        fields.insert("tags".to_owned(), json!(tags("tags", &arguments.tags)?));
    }
    Ok(Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mut given: Value) -> Result<Value, String> {
        for (name, value) in [("subject", "Damaged"), ("body", "It is torn."), ("requester", "mira@example.com")] {
            if given[name].is_null() {
                given[name] = json!(value);
            }
        }
        fields(&serde_json::from_value(given).unwrap())
    }

    #[test]
    fn a_new_ticket_is_written_in_zendesks_words() {
        let mira = json!({"email": "mira@example.com"});
        for (given, more) in [
            (json!({}), json!({"requester": mira})),
            (json!({"requester_name": "Mira"}), json!({"requester": {"email": "mira@example.com", "name": "Mira"}})),
            (json!({"requester": "9007199254740993"}), json!({"requester_id": 9_007_199_254_740_993_i64})),
            (json!({"priority": "urgent"}), json!({"requester": mira, "priority": "urgent"})),
            (json!({"assignee": "35"}), json!({"requester": mira, "assignee_id": 35})),
            (json!({"assignee": "gus@example.com"}), json!({"requester": mira, "assignee_email": "gus@example.com"})),
            (json!({"tags": ["VIP", "b"]}), json!({"requester": mira, "tags": ["vip", "b"]})),
        ] {
            let mut expected = json!({"subject": "Damaged", "comment": {"body": "It is torn."}});
            expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(of(given.clone()), Ok(expected), "{given}");
        }
    }

    #[test]
    fn a_new_ticket_that_makes_no_sense_is_refused_before_anything_is_sent() {
        for (given, said) in [
            (json!({"subject": " "}), "subject: expected"),
            (json!({"body": "\n"}), "body: expected"),
            (json!({"requester": "Mira"}), "requester: expected the digits of an id, like \"35436\", or an e-mail"),
            (json!({"requester": "7", "requester_name": "Mira"}), "requester_name: goes with"),
            (json!({"assignee": "Gus"}), "assignee: expected the digits of an id"),
            (json!({"tags": ["a b"]}), "tags: expected tags without spaces"),
        ] {
            let message = of(given.clone()).unwrap_err();
            assert!(message.starts_with(said), "{given}: {message}");
        }
    }
}
