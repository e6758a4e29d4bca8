//! What a new account holds: the same in every run, as of the moment when it is made.

use serde_json::{Value, json};

use super::data::{Data, User, moment, person};
use crate::clock::random_bytes;
use crate::http::escape;

/// More than two pages of a list.
const TICKETS: i64 = 230;
/// The ticket whose conversation needs a second page.
const LONG_TICKET: i64 = 7;
const LONG_CONVERSATION: i64 = 137;
/// The first id that a double cannot hold.
const ABOVE_DOUBLE: i64 = 9_007_199_254_740_993;
const HOUR_MS: i64 = 3_600_000;

const CUSTOMERS: &[&str] = &[
    "Mira Castellan",
    "Jonas Weber",
    "Priya Raman",
    "Tom Okafor",
    "Łucja Wójcik",
    "Henrik Dahl",
    "Aisha Bello",
    "陳偉",
    "Noor Haddad",
    "Peter Lindqvist",
    "Grace Mbeki",
    "Oliver Brandt",
];

/// Subject, first words of the customer, answer of the agent, tags.
const STORIES: &[(&str, &str, &str, &[&str])] = &[
    (
        "Where is my parcel?",
        "The carrier's page says nothing since Tuesday.",
        "I have asked the carrier to look for it.",
        &["shipping"],
    ),
    (
        "Refund for a chair",
        "You have had the chair back for two weeks. When do I get my money?",
        "It left us today and takes three working days.",
        &["refund", "Billing"],
    ),
    ("Wrong size", "I ordered a 42 & got a 38.", "Please keep it, the right one is on its way.", &["exchange"]),
    (
        "Faktura bez NIP",
        "Dzień dobry, na fakturze brakuje numeru NIP.",
        "Poprawiona faktura jest w panelu.",
        &["Billing"],
    ),
    (
        "Lamp <Model 7> flickers",
        "It flickers as soon as the dimmer is below half.",
        "That dimmer is too old for it; we send a new one.",
        &["defect", "VIP"],
    ),
];

pub(crate) fn fill(name: &str, now_ms: i64) -> Data {
    let account_id = account_number(name);
    let first = account_id * 100;
    let mut data = Data {
        account_id,
        created_ms: now_ms - 9_000 * HOUR_MS,
        teams: vec![json!({"id": first + 51, "name": "Returns"}), json!({"id": first + 52, "name": "Orders"})],
        addresses: vec![format!("support@{name}.example"), format!("vip@{name}.example")],
        views: [(901, "open".to_owned()), (902, "closed".to_owned())].into(),
        last_id: ABOVE_DOUBLE + first,
        ..Data::default()
    };
    let people = [("Ada Admin", "admin"), ("Gus Agent", "agent"), ("Lia Lead", "lead-agent")];
    data.users = people
        .into_iter()
        .zip(1_i64..)
        .map(|((person, role), number)| User {
            id: first + number,
            name: person.to_owned(),
            email: format!("{}@{name}.example", person.to_lowercase().replace(' ', ".")),
            role: role.to_owned(),
            active: true,
            api_key: new_key(),
            created_ms: now_ms - 9_000 * HOUR_MS,
        })
        .collect();
    for (customer, number) in CUSTOMERS.iter().zip(1_i64..) {
        let plain = customer.to_lowercase().replace(' ', ".");
        let email =
            if plain.is_ascii() { format!("{plain}@example.com") } else { format!("customer.{number}@example.com") };
        data.add_customer(customer, Some(&email), now_ms - (5_000 - number) * HOUR_MS);
        if let Some(added) = data.customers.last_mut() {
            added["external_id"] = if number % 3 == 0 { Value::Null } else { json!(format!("crm-{number}")) };
        }
    }
    // Two who are called the same, one with a second address, and one who only calls.
    data.add_customer("Mira Castellan", Some("mira@castellan.example"), now_ms - 90 * HOUR_MS);
    if let Some(channels) = data.customers[0]["channels"].as_array_mut() {
        channels.push(json!({"id": 9, "type": "phone", "address": "+43 1 0000", "preferred": false}));
        channels.push(json!({"id": 10, "type": "email", "address": "mira.work@example.com", "preferred": false}));
    }
    data.add_customer("Phil Phone", None, now_ms - 80 * HOUR_MS);
    for number in 1..=TICKETS {
        add(&mut data, now_ms - HOUR_MS - (TICKETS - number) * 6 * HOUR_MS);
    }
    data
}

/// One more ticket of the same kind, begun at that moment. Answers its number.
pub(crate) fn add(data: &mut Data, created_ms: i64) -> i64 {
    data.last_ticket += 1;
    let number = data.last_ticket;
    let (subject, question, reply, tags) = *pick(STORIES, number);
    let customer = pick(&data.customers[..CUSTOMERS.len()], number * 5).clone();
    let agent = pick(&data.users[..2], number).clone();
    let tags: Vec<Value> = tags.iter().map(|tag| data.tag(tag)).collect();
    let status = *pick(&["open", "closed", "closed", "open", "closed"], number + number / 5);
    let channel = *pick(&["email", "email", "email", "chat", "email", "email", "sms", "email"], number);
    let later = if number == LONG_TICKET { LONG_CONVERSATION - 1 } else { number % 4 };
    let count = later + 1;
    let mut ticket = blank(number, created_ms);
    for (name, value) in [
        ("status", json!(status)),
        ("priority", json!(*pick(&["normal", "low", "high", "critical", "normal"], number))),
        ("channel", json!(channel)),
        ("via", json!(if channel == "chat" { "gorgias_chat" } else { channel })),
        ("customer", person(&customer)),
        ("assignee_user", if status == "open" && number % 3 == 0 { Value::Null } else { agent.to_person() }),
        ("subject", json!(format!("{subject} (#{})", 80_000 + number))),
        ("tags", Value::Array(tags)),
        ("spam", json!(false)),
    ] {
        ticket[name] = value;
    }
    if number % 40 == 0 {
        ticket["trashed_datetime"] = json!(moment(created_ms + HOUR_MS));
    }
    data.tickets.insert(number, ticket);
    for index in 0..count {
        let (by_agent, note) = (index % 2 == 1, index % 6 == 5);
        let text = match index {
            0 => question.to_owned(),
            1 => format!("Hello, thank you for writing to us. {reply}"),
            _ if note => "Looked into the account, nothing unusual.".to_owned(),
            _ if by_agent => "We are on it.".to_owned(),
            _ => "Is there any news?".to_owned(),
        };
        let at_ms = created_ms + index * 60_000;
        let said = Said { channel, by_agent, note, text: &text };
        let message = message(data, number, &said, &customer, &agent, at_ms);
        data.add_message(number, message, at_ms);
    }
    if let Some(ticket) = data.tickets.get_mut(&number) {
        ticket["status"] = json!(status);
        ticket["closed_datetime"] = if status == "closed" { json!(moment(created_ms + HOUR_MS)) } else { Value::Null };
        ticket["updated_datetime"] = json!(moment(created_ms + count * 60_000));
    }
    number
}

/// What somebody said in a seeded conversation.
pub(crate) struct Said<'a> {
    pub(crate) channel: &'a str,
    pub(crate) by_agent: bool,
    pub(crate) note: bool,
    pub(crate) text: &'a str,
}

pub(crate) fn message(
    data: &mut Data,
    ticket_id: i64,
    said: &Said<'_>,
    customer: &Value,
    agent: &User,
    at_ms: i64,
) -> Value {
    let id = data.next_id();
    let support = pick(&data.addresses, ticket_id / 9).clone();
    let (channel, public) = if said.note { ("internal-note", false) } else { (said.channel, true) };
    let (theirs, ours) = (
        json!({"name": customer["name"], "address": customer["email"]}),
        json!({"name": "Support", "address": support}),
    );
    let source = match (said.note, said.channel, said.by_agent) {
        (true, ..) => json!({"type": "internal-note", "from": {}, "to": []}),
        (_, "email", true) => json!({"type": "email", "from": ours, "to": [theirs], "cc": [], "bcc": []}),
        (_, "email", false) => json!({"type": "email", "from": theirs, "to": [ours], "cc": [], "bcc": []}),
        (_, other, _) => json!({"type": other, "from": {"address": format!("{other}-1")}, "to": []}),
    };
    json!({
        "id": id,
        "uri": format!("/api/tickets/{ticket_id}/messages/{id}/"),
        "message_id": format!("<{id}@example.com>"),
        "ticket_id": ticket_id,
        "external_id": null,
        "public": public,
        "channel": channel,
        "via": channel,
        "source": source,
        "sender": if said.by_agent { agent.to_person() } else { person(customer) },
        "receiver": if said.by_agent && !said.note { person(customer) } else { Value::Null },
        "integration_id": null,
        "rule_id": null,
        "intents": [],
        "from_agent": said.by_agent,
        "subject": null,
        "body_text": said.text,
        "body_html": format!("<div>{}</div>", escape(said.text)),
        "stripped_text": said.text,
        "stripped_html": null,
        "stripped_signature": null,
        "attachments": [],
        "actions": null,
        "headers": null,
        "macros": null,
        "meta": null,
        "created_datetime": moment(at_ms),
        "sent_datetime": moment(at_ms),
        "failed_datetime": null,
        "opened_datetime": null,
        "last_sending_error": null,
        "is_retriable": false,
    })
}

/// A ticket with all of its fields, and nothing in them yet.
pub(crate) fn blank(id: i64, created_ms: i64) -> Value {
    json!({
        "id": id,
        "uri": format!("/api/tickets/{id}/"),
        "external_id": null,
        "language": "en",
        "status": "open",
        "priority": "normal",
        "channel": "email",
        "via": "email",
        "from_agent": false,
        "customer": null,
        "assignee_user": null,
        "assignee_team": null,
        "subject": null,
        "excerpt": null,
        "integrations": [],
        "meta": null,
        "tags": [],
        "messages_count": 0,
        "is_unread": false,
        "spam": false,
        "created_datetime": moment(created_ms),
        "opened_datetime": null,
        "last_received_message_datetime": null,
        "last_message_datetime": null,
        "updated_datetime": moment(created_ms),
        "closed_datetime": null,
        "snooze_datetime": null,
        "trashed_datetime": null,
        "satisfaction_survey": null,
        "custom_fields": {},
    })
}

pub(crate) fn new_key() -> String {
    random_bytes::<16>().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// The same for the same name in every run (FNV-1a).
fn account_number(name: &str) -> i64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    40_000 + i64::try_from(hash % 10_000).unwrap_or(0)
}

fn pick<T>(from: &[T], number: i64) -> &T {
    &from[usize::try_from(number).unwrap_or(0) % from.len()]
}
