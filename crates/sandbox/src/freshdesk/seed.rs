//! What a new account holds: the same in every run, as of the moment when it is made.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::clock::random_bytes;
use crate::freshdesk::data::{Agent, Article, Contact, Conversation, Data, Ticket, TicketScope};
use crate::http::escape;

/// More than three pages of a list, and half a year: most of them older than a list shows by itself.
const TICKETS: i64 = 330;
/// The ticket whose conversation needs a second page.
const LONG_TICKET: i64 = 7;
const LONG_CONVERSATION: usize = 137;
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
        &["refund", "billing"],
    ),
    (
        "Password reset does not arrive",
        "I have asked for it three times & looked into spam.",
        "Please try once more, your address was blocked here.",
        &["login"],
    ),
    (
        "Faktura bez NIP",
        "Dzień dobry, na fakturze brakuje numeru NIP.",
        "Poprawiona faktura jest w panelu.",
        &["billing"],
    ),
    (
        "Lamp <Model 7> flickers",
        "It flickers as soon as the dimmer is below half.",
        "That dimmer is too old for it; we send a new one.",
        &["defect", "vip"],
    ),
];

const ARTICLES: &[(&str, &str, i64, i64)] = &[
    ("How refunds work", "A refund takes three working days after the parcel is back.", 2, 1),
    ("Shipping times", "Parcels within the country take two days, others up to ten.", 2, 1),
    ("Refunds for companies", "Companies get a refund as a credit note.", 2, 2),
    ("Refund fraud: what to look for", "For agents alone.", 2, 3),
    ("Refund rules of next year", "Not decided yet.", 1, 1),
];

pub(crate) fn fill(name: &str, now_ms: i64) -> Data {
    let first = account_number(name) * 10_000;
    let mut data = Data {
        statuses: [
            (2, "Open"),
            (3, "Pending"),
            (4, "Resolved"),
            (5, "Closed"),
            (6, "Waiting on Customer"),
            (7, "Waiting on Third Party"),
        ]
        .map(|(number, label)| (number, label.to_owned()))
        .into(),
        types: ["Question", "Incident", "Problem", "Feature Request"].map(str::to_owned).into(),
        custom_fields: ["cf_order", "cf_resolution"].map(str::to_owned).into(),
        group_ids: vec![first + 9_001, first + 9_002],
        last_id: ABOVE_DOUBLE + first,
        tickets: BTreeMap::new(),
        ..Data::default()
    };
    data.agents = agents(name, first, &data.group_ids, now_ms);
    for (customer, number) in CUSTOMERS.iter().zip(1..) {
        let id = data.next_id();
        data.contacts.push(Contact {
            id,
            name: (*customer).to_owned(),
            email: Some(address(customer, id)),
            phone: None,
            external_id: Some(format!("crm-{number}")),
            active: true,
            created_ms: now_ms - 8000 * HOUR_MS,
        });
    }
    let others = [
        ("Uma Unverified", Some("uma.unverified@example.com"), None, false),
        ("Phil Phone", None, Some("+44 20 7946 0958"), true),
    ];
    for (name, email, phone, active) in others {
        let id = data.next_id();
        let (email, phone) = (email.map(str::to_owned), phone.map(str::to_owned));
        data.contacts.push(Contact {
            id,
            name: name.to_owned(),
            email,
            phone,
            external_id: None,
            active,
            created_ms: now_ms,
        });
    }
    for ((title, text, status, visibility), number) in ARTICLES.iter().zip(1..) {
        data.articles.push(Article {
            id: first + 5_000 + number,
            title: (*title).to_owned(),
            text: (*text).to_owned(),
            status: *status,
            visibility: *visibility,
            created_ms: now_ms - 4000 * HOUR_MS,
        });
    }
    let newest = now_ms - HOUR_MS;
    for number in 1..=TICKETS {
        add(&mut data, newest - (TICKETS - number) * 12 * HOUR_MS);
    }
    data
}

/// One more ticket of the same kind, made at that moment. Answers its number.
pub(crate) fn add(data: &mut Data, created_ms: i64) -> i64 {
    data.last_ticket += 1;
    let number = data.last_ticket;
    let (subject, question, reply, tags) = *pick(STORIES, number);
    let requester = pick(&data.contacts[..CUSTOMERS.len()], number * 5).clone();
    let agent = pick(&data.agents[..2], number).id;
    let status = *pick(&[2, 2, 3, 4, 5, 6, 4, 7, 2, 5], number);
    let source = *pick(&[1, 2, 3, 7, 9, 1, 15], number);
    let count = if number == LONG_TICKET { LONG_CONVERSATION } else { usize::try_from(number % 5).unwrap_or(0) };
    let mut conversations = Vec::with_capacity(count);
    for index in 0..count {
        let (by_agent, note) = (index % 2 == 0, index % 6 == 4);
        let text = match index {
            0 => format!("Hello, thank you for writing to us. {reply}"),
            _ if note => "Looked into the account, nothing unusual.".to_owned(),
            _ if by_agent => "We are on it.".to_owned(),
            _ => "Is there any news?".to_owned(),
        };
        conversations.push(Conversation {
            id: data.next_id(),
            user_id: if by_agent { agent } else { requester.id },
            body: html(&text),
            body_text: text,
            incoming: !by_agent,
            private: note,
            source: if note { 2 } else { 0 },
            from_email: (!by_agent).then(|| requester.email.clone()).flatten(),
            to_emails: if by_agent && !note { requester.email.clone().into_iter().collect() } else { Vec::new() },
            cc_emails: Vec::new(),
            bcc_emails: Vec::new(),
            created_ms: created_ms + i64::try_from(index + 1).unwrap_or(0) * 60_000,
        });
    }
    let open = status == 2 && number % 3 == 0;
    let ticket = Ticket {
        id: number,
        subject: Some(format!("{subject} (#{})", 70_000 + number)),
        description: html(question),
        description_text: question.to_owned(),
        status,
        priority: number % 4 + 1,
        source,
        kind: (number % 3 != 0).then(|| pick(&data.types, number).clone()),
        requester_id: requester.id,
        responder_id: (!open).then_some(agent),
        group_id: (number % 4 != 0).then(|| data.group_ids[0]),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        cc_emails: Vec::new(),
        custom_fields: data.custom_fields.iter().map(|name| (name.clone(), Value::Null)).collect(),
        spam: number % 50 == 0,
        deleted: false,
        created_ms,
        updated_ms: conversations.last().map_or(created_ms, |last| last.created_ms),
        conversations,
    };
    data.tickets.insert(number, ticket);
    number
}

/// The requester of a ticket goes on writing.
pub(crate) fn write(data: &mut Data, ticket_id: i64, times: usize, now_ms: i64) {
    for _ in 0..times {
        let id = data.next_id();
        let Some(ticket) = data.tickets.get_mut(&ticket_id) else { return };
        ticket.conversations.push(Conversation {
            id,
            user_id: ticket.requester_id,
            body: html("And another thing."),
            body_text: "And another thing.".to_owned(),
            incoming: true,
            private: false,
            source: 0,
            from_email: None,
            to_emails: Vec::new(),
            cc_emails: Vec::new(),
            bcc_emails: Vec::new(),
            created_ms: now_ms,
        });
        ticket.touch(now_ms);
    }
}

/// Keys look like nothing in particular: 20 letters and digits.
pub(crate) fn new_key() -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    random_bytes::<20>().iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

/// Text as an agent's editor would send it.
pub(crate) fn html(text: &str) -> String {
    format!("<div>{}</div>", escape(text).replace('\n', "<br>"))
}

fn agents(account: &str, first: i64, groups: &[i64], now_ms: i64) -> Vec<Agent> {
    let all = [
        ("Ada Admin", true, false, TicketScope::All, true),
        ("Gus Agent", false, false, TicketScope::All, true),
        ("Nora Notes", false, false, TicketScope::All, false),
        ("Lia Limited", false, false, TicketScope::Own, true),
        ("Oz Occasional", false, true, TicketScope::All, true),
    ];
    all.into_iter()
        .zip(1_i64..)
        .map(|((name, admin, without_pass, scope, may_reply), number)| Agent {
            id: first + number,
            name: name.to_owned(),
            email: format!("{}@{account}.example", name.to_lowercase().replace(' ', ".")),
            api_key: new_key(),
            admin,
            without_pass,
            active: true,
            may_reply,
            scope,
            group_ids: groups.iter().take(1).copied().collect(),
            created_ms: now_ms - 9000 * HOUR_MS,
        })
        .collect()
}

fn address(name: &str, id: i64) -> String {
    let plain = name.to_lowercase().replace(' ', ".");
    if plain.is_ascii() { format!("{plain}@example.com") } else { format!("customer.{id}@example.com") }
}

/// The same for the same name in every run (FNV-1a).
fn account_number(name: &str) -> i64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    15_000_000 + i64::try_from(hash % 1_000_000).unwrap_or(0)
}

fn pick<T>(from: &[T], number: i64) -> &T {
    &from[usize::try_from(number).unwrap_or(0) % from.len()]
}
