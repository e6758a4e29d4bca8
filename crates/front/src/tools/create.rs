//! `create_ticket`.

use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{CreateTicket, CreatedTicket, Requester, words},
    ticket::{Channel, Mapped, Person, Status, Ticket},
    tool::{done_once, invalid},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{ACCEPTED, app, conversation, id};
use crate::{api, text};

pub(super) const NAME: &str = "create_ticket";

/// Inboxes whose channels are looked at for one with a mail address.
const MOST_INBOXES: usize = 5;

/// Imported as a message that the customer has sent: Front's other ways send a mail to the customer, or open a discussion
/// of teammates; and none of them can be repeated without making it twice.
pub(super) async fn run(api: &ApiClient, asked: CreateTicket, key: Option<&str>) -> Result<CreatedTicket> {
    let refused = |message: String| invalid(api, NAME, message);
    let subject = asked.heading().map_err(refused)?;
    let body = words("body", &asked.body).map_err(refused)?;
    possible(&asked).map_err(refused)?;
    let requester = requester(api, &asked).await?;
    let (inbox, address, now) = inbox(api).await?;

    let email = requester.email.as_deref().unwrap_or_default();
    let message = json!({
        "sender": sender(&requester),
        "to": [address],
        "subject": subject,
        "body": text::to_html(body),
        "body_format": "html",
        "type": "email",
        "external_id": external_id(key, now, &[email, subject, body]),
        "created_at": now.timestamp(),
        "metadata": {"is_inbound": true},
    });
    let made = api::import(api, NAME, &inbox, &message).await;
    let accepted = match key {
        Some(_) => made?,
        None => {
            made.map_err(|error| done_once(error, "the ticket may have been made, search for it before you repeat it"))?
        }
    };
    // It is made, whatever comes of looking at it.
    let ticket = match made_of(api, &accepted.message_uid).await {
        Some(ticket) => Ticket { description: Some(body.to_owned()), ..ticket },
        None => Ticket {
            id: format!("{ACCEPTED}{}", accepted.message_uid),
            url: None,
            subject: Some(subject.to_owned()),
            description: Some(body.to_owned()),
            status: Mapped { value: Status::Open, original: "accepted".to_owned() },
            priority: None,
            channel: Some(Mapped { value: Channel::Email, original: "email".to_owned() }),
            requester: Some(requester),
            assignee: None,
            tags: Vec::new(),
            created_at: now,
            updated_at: now,
        },
    };
    Ok(CreatedTicket { ticket })
}

/// What an import cannot carry.
fn possible(asked: &CreateTicket) -> Result<(), String> {
    if asked.priority.is_some() {
        return Err("priority: Front has no priorities; leave it out".to_owned());
    }
    let given = if asked.assignee.is_some() { Some("assignee") } else { (!asked.tags.is_empty()).then_some("tags") };
    match given {
        Some(name) => Err(format!("{name}: Front takes none with a new ticket; set it with update_ticket")),
        None => Ok(()),
    }
}

/// With an address, which an import needs.
async fn requester(api: &ApiClient, asked: &CreateTicket) -> Result<Person> {
    let refused = |message: String| invalid(api, NAME, message);
    match asked.requester().map_err(refused)? {
        Requester::Email { email, name } => {
            Ok(Person { id: email.to_owned(), name: name.map(str::to_owned), email: Some(email.to_owned()) })
        }
        Requester::Id(text) => {
            let id = id("requester", text)
                .map_err(|_| refused("requester: expected an e-mail address, or the id of a contact".to_owned()))?;
            let contact = api::contact(api, NAME, id).await?;
            let email = contact.emails().next().map(str::to_owned);
            let email = email.ok_or_else(|| refused("requester: this contact has no e-mail address".to_owned()))?;
            Ok(Person { id: email.clone(), name: contact.name, email: Some(email) })
        }
    }
}

fn sender(requester: &Person) -> Value {
    let mut sender = json!({"handle": requester.email});
    if let Some(name) = &requester.name {
        sender["name"] = json!(name);
    }
    sender
}

/// The first shared inbox that has a mail address, that address, and what Front's clock says.
async fn inbox(api: &ApiClient) -> Result<(String, String, DateTime<Utc>)> {
    let (inboxes, now) = api::inboxes(api, NAME).await?;
    let now = now.ok_or_else(|| api.error(NAME, ErrorKind::Unreadable, "Front's answer does not say its date"))?;
    for inbox in inboxes.into_iter().filter(|inbox| !inbox.is_private).take(MOST_INBOXES) {
        let channels = api::channels(api, NAME, &inbox.id).await?;
        let addresses = channels.into_iter().filter_map(|channel| {
            [channel.send_as, channel.address].into_iter().flatten().find(|address| address.contains('@'))
        });
        if let Some(address) = { addresses }.next() {
            return Ok((inbox.id, address, now));
        }
    }
    let message = "Front shows the app no shared inbox with a mail address in which a ticket could be opened; an admin has to \
                   give it one";
    Err(api.error(NAME, ErrorKind::Forbidden, message))
}

/// The same for the same key and the same ticket; without a key, for the same ticket within a second.
fn external_id(key: Option<&str>, now: DateTime<Utc>, parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    let own = now.timestamp().to_string();
    for part in [key.map_or("at", |_| "key"), key.unwrap_or(&own)].iter().chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digits = hash.finalize();
    digits.iter().take(20).fold("holdfast-".to_owned(), |id, byte| id + &format!("{byte:02x}"))
}

/// The ticket, where Front shows it already.
async fn made_of(api: &ApiClient, uid: &str) -> Option<Ticket> {
    let message = api::message_by_uid(api, NAME, uid).await.ok()?;
    let made = api::conversation(api, NAME, &conversation(&message)?).await.ok()?;
    Some(Ticket { channel: message.channel(), ..made.to_model(&app(api)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_external_id_is_the_same_for_the_same_call_alone() {
        let (now, later) = (DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(5));
        let ticket = ["a@b.c", "s", "b"];
        let first = external_id(Some("k"), now, &ticket);
        assert_eq!(first, external_id(Some("k"), later, &ticket));
        for (key, parts) in [(Some("l"), ["a@b.c", "s", "b"]), (Some("k"), ["a@b.c", "sb", ""]), (None, ticket)] {
            assert_ne!(first, external_id(key, now, &parts), "{key:?} {parts:?}");
        }
        assert_eq!(external_id(None, now, &ticket), external_id(None, now, &ticket));
        assert_ne!(external_id(None, now, &ticket), external_id(None, later, &ticket));
        assert_ne!(external_id(Some("0"), now, &ticket), external_id(None, now, &ticket));
    }

    #[test]
    fn what_an_import_cannot_carry_is_refused_by_name() {
        for (given, said) in [
            (json!({"priority": "low"}), "priority: Front has no priorities"),
            (json!({"assignee": "tea_1"}), "assignee: Front takes none"),
            (json!({"tags": ["vip"]}), "tags: Front takes none"),
        ] {
            let mut all = json!({"subject": "s", "body": "b", "requester": "a@b.c"});
            all.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
            let message = possible(&serde_json::from_value(all).unwrap()).unwrap_err();
            assert!(message.starts_with(said), "{message}");
        }
    }
}
