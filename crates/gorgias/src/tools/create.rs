//! `create_ticket`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{CreateTicket, CreatedTicket, Requester, html_of_text, words},
    tool::{done_once, invalid},
};
use serde_json::{Map, Value, json};

use super::{agent, id, tags};
use crate::{api, model::priority_word};

pub(super) const NAME: &str = "create_ticket";

/// <https://developers.gorgias.com/reference/create-ticket>
const LONGEST_SUBJECT: usize = 998;

/// The first message is the customer's own, so that nothing is sent; an address that is not known yet makes a customer.
pub(super) async fn run(api: &ApiClient, asked: CreateTicket) -> Result<CreatedTicket> {
    let mut fields = fields(&asked).map_err(|message| invalid(api, NAME, message))?;
    if let Some(who) = &asked.assignee {
        fields.insert("assignee_user".to_owned(), json!({"id": agent(api, NAME, who).await?}));
    }

    let made = api::create(api, NAME, &Value::Object(fields)).await;
    let ticket =
        made.map_err(|error| done_once(error, "the ticket may have been made, search for it before you repeat it"))?;

    let mut ticket = ticket.to_model(&api.account().base_url);
    ticket.description = ticket.description.or(Some(asked.body));
    Ok(CreatedTicket { ticket })
}

fn fields(asked: &CreateTicket) -> Result<Map<String, Value>, String> {
    let subject = asked.heading()?;
    if subject.chars().count() > LONGEST_SUBJECT {
        return Err(format!("subject: expected at most {LONGEST_SUBJECT} characters"));
    }
    let text = words("body", &asked.body)?;
    let (customer, sender) = match asked.requester()? {
        Requester::Email { email, name: Some(name) } => {
            (json!({"email": email, "name": name}), json!({"email": email}))
        }
        Requester::Email { email, name: None } => (json!({"email": email}), json!({"email": email})),
        Requester::Id(text) => {
            let id = id("requester", text)
                .map_err(|_| "requester: expected an e-mail address, or the digits of a customer's id".to_owned())?;
            (json!({"id": id}), json!({"id": id}))
        }
    };
    let message = json!({"channel": "email", "via": "api", "from_agent": false, "public": true, "sender": sender,
        "body_text": text, "body_html": html_of_text(text)});
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    put("via", json!("api"));
    put("channel", json!("email"));
    put("from_agent", json!(false));
    put("customer", customer);
    put("subject", json!(subject));
    put("messages", json!([message]));
    if let Some(priority) = asked.priority {
        put("priority", json!(priority_word(priority)));
    }
    if !asked.tags.is_empty() {
        let tags: Vec<Value> = tags("tags", &asked.tags)?.into_iter().map(|name| json!({"name": name})).collect();
        put("tags", Value::Array(tags));
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
    fn a_ticket_is_written_as_gorgias_takes_it() {
        let usual = json!({"via": "api", "channel": "email", "from_agent": false, "customer": {"email": "a@b.c"},
            "subject": "s", "messages": [{"channel": "email", "via": "api", "from_agent": false, "public": true,
                "sender": {"email": "a@b.c"}, "body_text": "b", "body_html": "<div>b</div>"}]});
        assert_eq!(of(&json!({})), Ok(usual));
        let named = of(&json!({"requester_name": " Łucja ", "priority": "urgent", "tags": ["a b"]})).unwrap();
        assert_eq!(named["customer"], json!({"email": "a@b.c", "name": "Łucja"}));
        assert_eq!((&named["priority"], &named["tags"]), (&json!("critical"), &json!([{"name": "a b"}])));
        let known = of(&json!({"requester": "9007199254740993"})).unwrap();
        assert_eq!(known["customer"], json!({"id": 9_007_199_254_740_993_i64}));
        assert_eq!(known["messages"][0]["sender"], known["customer"]);
    }

    #[test]
    fn a_ticket_that_makes_no_sense_is_refused_before_anything_is_sent() {
        for (given, said) in [
            (json!({"subject": " "}), "subject: expected a text"),
            (json!({"subject": "x".repeat(999)}), "subject: expected at most 998"),
            (json!({"body": "\n"}), "body: expected a text"),
            (json!({"requester": "Mira"}), "requester: expected an e-mail address"),
            (json!({"requester": "7", "requester_name": "x"}), "requester_name: goes with an e-mail address"),
            (json!({"tags": ["a\nb"]}), "tags: expected"),
        ] {
            let message = of(&given).unwrap_err();
            assert!(message.starts_with(said), "{given}: {message}");
        }
    }
}
