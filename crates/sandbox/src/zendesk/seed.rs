//! What a new helpdesk holds: the same in every run.

use std::collections::{BTreeMap, HashMap};

use crate::http::escape;
use crate::zendesk::data::{Comment, Data, Role, Ticket, User};

/// Tickets of a new helpdesk: more than three pages of search.
const TICKETS: i64 = 320;
/// The ticket whose comments need a second page.
const LONG_TICKET: i64 = 7;
const LONG_TICKET_COMMENTS: usize = 137;
/// The first users are those who may sign in.
pub(crate) const SIGN_INS: usize = 4;
/// The first id that a double cannot hold.
pub(super) const ABOVE_DOUBLE: i64 = 9_007_199_254_740_993;
/// 2026-11-20T08:00:00Z: the newest seeded ticket.
const NEWEST_MS: i64 = 1_795_161_600_000;
const HOUR_MS: i64 = 3_600_000;

const CUSTOMERS: &[&str] = &[
    "Mira Castellan",
    "Jonas Weber",
    "Priya Raman",
    "Tom Okafor",
    "Lucia Ferrante",
    "Henrik Dahl",
    "Aisha Bello",
    "Chen Wei",
    "Marta Nowak",
    "Samuel Ortiz",
    "Yuki Tanaka",
    "Noor Haddad",
    "Peter Lindqvist",
    "Grace Mbeki",
    "Oliver Brandt",
    "Sofia Marques",
    "Daniel Cohen",
    "Irina Petrova",
    "Kwame Asante",
    "Emily Hart",
    "Rafael Souza",
    "Anja Keller",
    "Farid Aziz",
    "Hannah Byrne",
];

/// Subject, first words of the customer, answer of the agent, tags.
const STORIES: &[(&str, &str, &str, &[&str])] = &[
    (
        "Where is my order?",
        "I ordered two weeks ago and the tracking page has not moved since Monday.",
        "I have asked the carrier; they will scan the parcel again by tomorrow.",
        &["shipping", "tracking"],
    ),
    (
        "Refund not received",
        "The return arrived at your warehouse on the 3rd, but my bank shows nothing.",
        "The refund left us yesterday, it can take five working days.",
        &["refund", "billing"],
    ),
    (
        "Cannot sign in after password reset",
        "The reset link says that it has expired, even when I click it at once.",
        "Please use the newest mail only: each link cancels the ones before.",
        &["login", "account"],
    ),
    (
        "Invoice shows the wrong VAT number",
        "Our accountant needs the invoice of last month with our new VAT number.",
        "I have corrected it, you find the new invoice in your account.",
        &["billing", "invoice"],
    ),
    (
        "Item arrived damaged",
        "The box was crushed and the lamp inside is broken.",
        "I am sorry about that! A replacement is on its way.",
        &["damaged", "shipping"],
    ),
    (
        "How do I change my delivery address?",
        "I moved last week and the order has not shipped yet.",
        "Done: it goes to your new address.",
        &["shipping", "address"],
    ),
    (
        "App crashes when I open the calendar",
        "Since the last update the app closes as soon as I tap on Calendar.",
        "Our developers found the cause, a new version comes this week.",
        &["bug", "mobile"],
    ),
    (
        "Please cancel my subscription",
        "I do not need the service any more, please confirm the cancellation.",
        "Cancelled to the end of the month, as you asked.",
        &["cancellation", "billing"],
    ),
    (
        "Charged twice this month",
        "My card shows two charges of 49.00 on the same day.",
        "One of the two is only a reservation and will disappear.",
        &["billing", "urgent_billing"],
    ),
    (
        "Discount code does not work",
        "SPRING15 says that it is not valid for my basket.",
        "The code is not valid for items on sale; I added a credit instead.",
        &["promotion"],
    ),
    (
        "Export is missing columns",
        "The CSV export lacks the column for the order date.",
        "Switch on Extended fields in the export dialog.",
        &["export", "question"],
    ),
    (
        "Feature request: dark mode",
        "My team works at night, a dark theme would help a lot.",
        "Thank you, I have added your voice to the request.",
        &["feature_request"],
    ),
    (
        "Wrong size delivered",
        "I ordered M and received XL.",
        "The right size ships today, keep the other until the label arrives.",
        &["exchange", "shipping"],
    ),
    (
        "Two-factor code never arrives",
        "The text message with the code does not reach my phone.",
        "Please try the authenticator app, I have switched it on for you.",
        &["login", "security"],
    ),
    (
        "Question about your warranty",
        "Does the warranty cover the battery as well?",
        "It does, for two years.",
        &["warranty", "question"],
    ),
    (
        "Webhook deliveries are delayed",
        "Events reach us up to twenty minutes late since this morning.",
        "We had a backlog, it is worked off now.",
        &["integration", "incident"],
    ),
];

const FOLLOW_UPS: &[&str] = &[
    "Thank you for the quick answer.",
    "Is there any news on this?",
    "I have attached the order number again: it is in the subject of my first mail.",
    "That helped, thank you!",
];

pub(crate) fn fill(account_id: i64) -> Data {
    let users = users(account_id);
    let mut data = Data {
        users,
        tickets: BTreeMap::new(),
        kept: HashMap::new(),
        group_id: account_id * 10_000 + 9_000,
        last_ticket: 0,
        last_event: ABOVE_DOUBLE + 1_000_000,
        webhooks: Vec::new(),
        deleted: BTreeMap::new(),
    };
    add_tickets(&mut data, TICKETS);
    data
}

/// Further tickets of the same kind.
pub(crate) fn add_tickets(data: &mut Data, count: i64) {
    for _ in 0..count {
        data.last_ticket += 1;
        let number = data.last_ticket;
        let ticket = ticket(data, number);
        data.tickets.insert(ticket.id, ticket);
    }
}

fn users(account_id: i64) -> Vec<User> {
    let first = account_id * 10_000;
    let staff = [
        ("Ada Admin", Role::Admin),
        ("Gus Agent", Role::Agent),
        ("Lia Light", Role::LightAgent),
        ("Eve Enduser", Role::EndUser),
    ];
    let customers = CUSTOMERS.iter().map(|name| (*name, Role::EndUser));
    staff
        .into_iter()
        .chain(customers)
        .zip(1_i64..)
        .map(|((name, role), number)| User {
            id: first + number,
            name: name.to_owned(),
            email: format!("{}@example.com", name.to_lowercase().replace(' ', ".")),
            role,
            external_id: (role == Role::EndUser).then(|| format!("crm-{number:04}")),
            phone: (number % 3 == 0).then(|| format!("+44 20 7946 {number:04}")),
            created_ms: NEWEST_MS - (400 - number) * 24 * HOUR_MS,
        })
        .collect()
}

fn pick<T>(list: &[T], number: i64) -> &T {
    &list[usize::try_from(number).unwrap_or(0) % list.len()]
}

fn ticket(data: &mut Data, number: i64) -> Ticket {
    let (subject, question, reply, tags) = *pick(STORIES, number * 7);
    let agent = data.users[usize::from(number % 3 != 0)].id;
    let requester = pick(&data.users[SIGN_INS..], number * 5).id;
    let status =
        *pick(&["open", "new", "pending", "open", "solved", "hold", "open", "closed", "solved", "pending"], number);
    let created_ms = NEWEST_MS - (TICKETS - number) * 2 * HOUR_MS;
    let comment_count = match (number, status) {
        (LONG_TICKET, _) => LONG_TICKET_COMMENTS,
        (_, "new") => 1,
        _ => 2 + usize::try_from(number % 5).unwrap_or(0),
    };
    let channel = *pick(&["email", "web", "chat"], number);

    let mut comments = Vec::with_capacity(comment_count);
    for index in 0..comment_count {
        let by_agent = index % 2 == 1;
        let note = index % 6 == 3;
        let body = match index {
            0 => question.to_owned(),
            1 => format!("Hello, thank you for writing to us. {reply}"),
            _ if note => "Note for colleagues: I have checked the account, nothing unusual.".to_owned(),
            _ if by_agent => "We are on it and will write again as soon as we know more.".to_owned(),
            _ => (*pick(FOLLOW_UPS, number + i64::try_from(index).unwrap_or(0))).to_owned(),
        };
        comments.push(Comment {
            id: data.next_event(),
            audit_id: data.next_event(),
            author_id: if by_agent { agent } else { requester },
            html_body: format!("<div class=\"zd-comment\"><p>{}</p></div>", escape(&body)),
            body,
            public: !note,
            channel: channel.into(),
            created_ms: created_ms + i64::try_from(index).unwrap_or(0) * 25 * 60_000,
        });
    }
    Ticket {
        id: if number % 40 == 0 { ABOVE_DOUBLE + number } else { number },
        external_id: None,
        subject: Some(format!("{subject} (#{})", 48_000 + number)),
        status: status.to_owned(),
        priority: pick(&[None, Some("normal"), Some("low"), Some("high"), Some("normal"), Some("urgent")], number)
            .map(str::to_owned),
        kind: pick(&[Some("question"), Some("incident"), None, Some("problem"), Some("task")], number)
            .map(str::to_owned),
        requester_id: requester,
        submitter_id: requester,
        assignee_id: (status != "new").then_some(agent),
        group_id: (number % 4 != 0).then_some(data.group_id),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        custom_fields: Vec::new(),
        channel: channel.into(),
        created_ms,
        updated_ms: comments.last().map_or(created_ms, |last| last.created_ms),
        comments,
    }
}
