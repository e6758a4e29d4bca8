//! `reply_to_ticket`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{ReplyToTicket, SentReply, html_of_text, words},
    tool::{done_once, invalid},
};
use serde_json::{Value, json};

use super::id;
use crate::{
    api::{self, First},
    model::{Id, NOTE, WireMessage},
};

pub(super) const NAME: &str = "reply_to_ticket";

/// The newest messages, among which the one is that is answered.
const LOOKED_AT: u32 = 30;

/// A reply is mailed to the customer, some time after it was taken; an internal note is mailed to nobody.
pub(super) async fn run(api: &ApiClient, asked: ReplyToTicket) -> Result<SentReply> {
    let refused = |message| invalid(api, NAME, message);
    let ticket = id("ticket_id", &asked.ticket_id).map_err(refused)?;
    let text = words("body", &asked.body).map_err(refused)?;
    let mut body = json!({"via": "api", "from_agent": true, "public": asked.public, "body_text": text,
        "body_html": html_of_text(text)});
    if asked.public {
        let newest = api::messages(api, NAME, ticket, First::Newest, LOOKED_AT, None).await?.data;
        if newest.is_empty() {
            // A ticket that is not there is told as that.
            api::ticket(api, NAME, ticket).await?;
        }
        let way = Way::of(&newest).map_err(|why| invalid(api, NAME, format!("public: {why}")))?;
        body["channel"] = json!("email");
        body["source"] = json!({"type": "email", "from": {"address": way.from}, "to": [{"address": way.to}]});
        if let Some(Id(customer)) = way.customer {
            body["receiver"] = json!({"id": customer});
        }
    } else {
        body["channel"] = json!(NOTE);
        body["source"] = json!({"type": NOTE});
    }

    let sent = api::send(api, NAME, ticket, &body).await;
    let sent = sent.map_err(|error| {
        done_once(error, "the message may have been added, look at the ticket before you repeat it")
    })?;

    Ok(SentReply {
        ticket_id: ticket.to_string(),
        message_id: Some(sent.id.0.to_string()),
        public: sent.public.unwrap_or(asked.public),
        // The answer is the message; the ticket's own moment is not in it.
        updated_at: None,
    })
}

/// From where to where a mail goes. Gorgias sends none that does not come from an address that is connected to it.
#[derive(Debug, PartialEq, Eq)]
struct Way<'a> {
    from: &'a str,
    to: &'a str,
    customer: Option<Id>,
}

impl<'a> Way<'a> {
    /// Of a conversation, newest message first.
    fn of(newest: &'a [WireMessage]) -> Result<Self, String> {
        let instead = "nothing was sent; write an internal note, or answer in Gorgias";
        let public = || newest.iter().filter(|message| message.is_public());
        let answered = public().find(|message| !message.is_from_agent()).or_else(|| public().next());
        let answered = answered.ok_or_else(|| format!("there is no message yet that could be answered; {instead}"))?;
        if !is_mail(answered) {
            let by = answered.channel.as_deref().unwrap_or("an unknown channel");
            let by: String = by.chars().filter(|c| !c.is_control()).take(40).collect();
            return Err(format!(
                "this conversation goes by {by}, and only e-mail can be answered from here; {instead}"
            ));
        }
        // What was sent before came from an address that is connected.
        let sent =
            public().find(|message| message.is_from_agent() && is_mail(message) && message.failed_datetime.is_none());
        let from = sent.and_then(sender).map_or_else(|| at_which(answered), Some);
        let to = if answered.is_from_agent() { only_recipient(answered) } else { sender(answered) };
        let customer = answered.sender.as_ref().filter(|_| !answered.is_from_agent()).and_then(|sender| sender.id);
        match (from, to) {
            (Some(from), Some(to)) => Ok(Self { from, to, customer }),
            (None, _) => Err(format!(
                "nobody has answered this ticket yet, and which of your addresses the mail came in at is not clear; {instead}"
            )),
            (_, None) => Err(format!("the customer's address is not clear; {instead}")),
        }
    }
}

fn is_mail(message: &WireMessage) -> bool {
    message.source["type"] == "email"
        || (message.source["type"].is_null() && message.channel.as_deref() == Some("email"))
}

fn sender(message: &WireMessage) -> Option<&str> {
    address(&message.source["from"])
}

/// The address of ours that a mail came in at, where there is only one that it can be.
fn at_which(message: &WireMessage) -> Option<&str> {
    if message.is_from_agent() { sender(message) } else { only_recipient(message) }
}

fn only_recipient(message: &WireMessage) -> Option<&str> {
    match message.source["to"].as_array()?.as_slice() {
        [one] => address(one),
        _ => None,
    }
}

fn address(person: &Value) -> Option<&str> {
    person["address"].as_str().map(str::trim).filter(|address| address.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(from_agent: bool, channel: &str, from: &str, to: &[&str]) -> Value {
        let to: Vec<Value> = to.iter().map(|address| json!({"name": "x", "address": address})).collect();
        json!({"id": 1, "public": channel != NOTE, "channel": channel, "from_agent": from_agent,
            "source": {"type": channel, "from": {"address": from}, "to": to}, "sender": {"id": 7},
            "created_datetime": "2026-11-01T10:00:00Z"})
    }

    fn way(newest: &[Value]) -> Result<(String, String, Option<Id>), String> {
        let newest: Vec<WireMessage> = newest.iter().map(|one| serde_json::from_value(one.clone()).unwrap()).collect();
        Way::of(&newest).map(|way| (way.from.to_owned(), way.to.to_owned(), way.customer))
    }

    #[test]
    fn a_mail_goes_back_the_way_it_came() {
        let (ours, theirs) = ("support@acme.example", "mira@example.com");
        let way_back = |customer| Ok((ours.to_owned(), theirs.to_owned(), customer));
        let theirs_to = |to: &[&str]| message(false, "email", theirs, to);
        let ours_to = |to: &[&str]| message(true, "email", ours, to);
        let note = || message(true, NOTE, "", &[]);

        assert_eq!(way(&[theirs_to(&[ours])]), way_back(Some(Id(7))));
        assert_eq!(way(&[note(), theirs_to(&[ours])]), way_back(Some(Id(7))));
        assert_eq!(way(&[ours_to(&[theirs])]), way_back(None), "a conversation that the helpdesk began");
        // Which of the two is ours is told by what was sent before.
        assert_eq!(way(&[theirs_to(&["x@y.z", ours]), ours_to(&[theirs])]), way_back(Some(Id(7))));
        let mut bounced = ours_to(&[theirs]);
        bounced["failed_datetime"] = json!("2026-11-01T10:00:00Z");
        bounced["source"]["from"]["address"] = json!("wrong@acme.example");
        assert_eq!(way(&[bounced, theirs_to(&[ours])]), way_back(Some(Id(7))));
    }

    #[test]
    fn what_cannot_be_answered_by_mail_is_not_tried() {
        let mira = "mira@example.com";
        let no_source = json!({"id": 1, "public": true, "channel": "email", "source": null,
            "created_datetime": "2026-11-01T10:00:00Z"});
        for (newest, why) in [
            (vec![], "there is no message yet"),
            (vec![message(true, NOTE, "", &[])], "there is no message yet"),
            (vec![message(false, "chat", "chat-1", &[])], "goes by chat"),
            (
                vec![message(false, "sms", "+43", &[]), message(true, "email", "support@acme.example", &[mira])],
                "goes by sms",
            ),
            (vec![message(false, "email", mira, &["a@b.c", "d@e.f"])], "which of your addresses"),
            (vec![message(false, "email", "", &["a@b.c"])], "the customer's address"),
            (vec![no_source], "which of your addresses"),
        ] {
            let said = way(&newest).unwrap_err();
            assert!(said.contains(why) && said.contains("nothing was sent"), "{said}");
        }
    }
}
