//! What a new helpdesk of the demo holds: two companies with people of their own, a handful of tickets of this morning,
//! and customers who go on writing.

use std::collections::{BTreeMap, HashMap};

use crate::http::escape;
use crate::zendesk::data::{Comment, Data, Role, Ticket, User};
use crate::zendesk::seed::ABOVE_DOUBLE;

const MINUTE_MS: i64 = 60_000;

/// A company.
struct Company {
    domain: &'static str,
    /// The first four may sign in: an administrator, an agent, a light agent and somebody who is not staff.
    staff: [&'static str; 4],
    customers: &'static [&'static str],
    tickets: &'static [Story],
    /// What further customers write, in turn; all of it urgent.
    to_come: &'static [(&'static str, &'static str)],
}

/// A ticket.
struct Story {
    minutes_ago: i64,
    priority: &'static str,
    status: &'static str,
    kind: &'static str,
    tags: &'static [&'static str],
    subject: &'static str,
    question: &'static str,
    /// What an agent answered already, if anything.
    reply: &'static str,
}

/// A shop.
const ACME: Company = Company {
    domain: "acme.example",
    staff: ["Ada Lindholm", "Gus Moreau", "Lia Chen", "Eve Harper"],
    customers: &[
        "Mira Castellan",
        "Jonas Weber",
        "Priya Raman",
        "Tom Okafor",
        "Łucja Wójcik",
        "Henrik Dahl",
        "Aisha Bello",
        "陳偉",
    ],
    tickets: &[
        Story {
            minutes_ago: 12,
            priority: "urgent",
            status: "new",
            kind: "incident",
            tags: &["damaged"],
            subject: "The lamp smells burnt",
            question: "I switched it on for the first time today and after a minute it smelled burnt. Is it safe to use?",
            reply: "",
        },
        Story {
            minutes_ago: 31,
            priority: "urgent",
            status: "open",
            kind: "problem",
            tags: &["billing"],
            subject: "Charged twice, and now my card is blocked",
            question: "You charged 249.00 twice within a minute, and my bank has blocked the card. I need it for travel tonight.",
            reply: "I am sorry about this. I have asked our bank to release the second charge.",
        },
        Story {
            minutes_ago: 48,
            priority: "urgent",
            status: "open",
            kind: "question",
            tags: &["shipping"],
            subject: "Needed for a wedding tomorrow, not shipped yet",
            question: "Forty lanterns, paid for two weeks ago, and the order still says preparing. The wedding is tomorrow.",
            reply: "",
        },
        Story {
            minutes_ago: 65,
            priority: "high",
            status: "open",
            kind: "problem",
            tags: &["refund", "billing"],
            subject: "Refund not received",
            question: "The return arrived at your warehouse on the 3rd, but my bank shows nothing.",
            reply: "",
        },
        Story {
            minutes_ago: 97,
            priority: "normal",
            status: "new",
            kind: "question",
            tags: &["refund"],
            subject: "How do I get a refund for half an order?",
            question: "I keep the table but not the chairs. What do I have to do?",
            reply: "",
        },
        Story {
            minutes_ago: 140,
            priority: "normal",
            status: "open",
            kind: "question",
            tags: &["shipping", "tracking"],
            subject: "Where is my order?",
            question: "I ordered two weeks ago and the tracking page has not moved since Monday.",
            reply: "I have asked the carrier; they will scan the parcel again by tomorrow.",
        },
        Story {
            minutes_ago: 205,
            priority: "low",
            status: "pending",
            kind: "question",
            tags: &["warranty"],
            subject: "Czy gwarancja obejmuje baterię?",
            question: "Dzień dobry, czy gwarancja obejmuje również baterię?",
            reply: "Tak, przez dwa lata.",
        },
        Story {
            minutes_ago: 260,
            priority: "high",
            status: "open",
            kind: "incident",
            tags: &["damaged", "shipping"],
            subject: "Item arrived damaged",
            question: "The box was crushed and the lamp inside is broken.",
            reply: "I am sorry about that! A replacement is on its way.",
        },
        Story {
            minutes_ago: 330,
            priority: "normal",
            status: "pending",
            kind: "task",
            tags: &["billing", "invoice"],
            subject: "Invoice shows the wrong VAT number",
            question: "Our accountant needs the invoice of last month with our new VAT number.",
            reply: "I have corrected it, you find the new invoice in your account.",
        },
        Story {
            minutes_ago: 420,
            priority: "normal",
            status: "solved",
            kind: "question",
            tags: &["promotion"],
            subject: "Discount code does not work",
            question: "SPRING15 says that it is not valid for my basket.",
            reply: "The code is not valid for items on sale; I added a credit instead.",
        },
        Story {
            minutes_ago: 600,
            priority: "low",
            status: "open",
            kind: "question",
            tags: &["address"],
            subject: "我可以更改送貨地址嗎？",
            question: "我上週搬家了，訂單還沒有寄出。",
            reply: "",
        },
        Story {
            minutes_ago: 900,
            priority: "urgent",
            status: "solved",
            kind: "incident",
            tags: &["login"],
            subject: "Nobody could pay with a credit card",
            question: "The checkout says that cards are not accepted at the moment. We are about to order for the whole office.",
            reply: "It works again since 9 o'clock. Thank you for telling us at once.",
        },
    ],
    to_come: &[
        (
            "The glass door fell out of the cabinet",
            "It just fell out, nobody touched it. There are children in the house.",
        ),
        (
            "Order cancelled without a word",
            "My order of yesterday is cancelled, the money is gone, and I move in on Friday.",
        ),
        (
            "Delivered to a stranger",
            "The photo of the delivery shows a house that is not mine. The parcel was worth 900.",
        ),
        (
            "Someone ordered from my account",
            "Three orders that I have not made, to an address that I do not know. Stop them, please!",
        ),
    ],
};

/// A maker of software.
const GLOBEX: Company = Company {
    domain: "globex.example",
    staff: ["Gwen Sato", "Ivo Petrov", "Noa Levi", "Max Adler"],
    customers: &[
        "Lucia Ferrante",
        "Samuel Ortiz",
        "Grace Mbeki",
        "Anja Keller",
        "Farid Aziz",
        "Søren Kjær",
        "Hannah Byrne",
    ],
    tickets: &[
        Story {
            minutes_ago: 7,
            priority: "urgent",
            status: "new",
            kind: "incident",
            tags: &["login"],
            subject: "All of us are locked out",
            question: "Since 9:10 every sign-in ends with 'organisation suspended'. We are forty people and cannot work.",
            reply: "",
        },
        Story {
            minutes_ago: 25,
            priority: "urgent",
            status: "open",
            kind: "problem",
            tags: &["export"],
            subject: "Export for the auditors fails, due today",
            question: "The yearly export stops at 80 % with error 504. The auditors need it by six.",
            reply: "We have started it by hand on our side and will send you the link.",
        },
        Story {
            minutes_ago: 70,
            priority: "high",
            status: "open",
            kind: "incident",
            tags: &["integration", "incident"],
            subject: "Webhook deliveries are delayed",
            question: "Events reach us up to twenty minutes late since this morning.",
            reply: "",
        },
        Story {
            minutes_ago: 115,
            priority: "normal",
            status: "new",
            kind: "question",
            tags: &["refund", "billing"],
            subject: "Refund for unused seats?",
            question: "Two colleagues have left. Can we get a refund for their seats?",
            reply: "",
        },
        Story {
            minutes_ago: 180,
            priority: "normal",
            status: "open",
            kind: "question",
            tags: &["login", "account"],
            subject: "Cannot sign in after password reset",
            question: "The reset link says that it has expired, even when I click it at once.",
            reply: "Please use the newest mail only: each link cancels the ones before.",
        },
        Story {
            minutes_ago: 300,
            priority: "low",
            status: "pending",
            kind: "task",
            tags: &["feature_request"],
            subject: "Feature request: dark mode",
            question: "My team works at night, a dark theme would help a lot.",
            reply: "Thank you, I have added your voice to the request.",
        },
        Story {
            minutes_ago: 510,
            priority: "normal",
            status: "solved",
            kind: "problem",
            tags: &["bug", "mobile"],
            subject: "App crashes when I open the calendar",
            question: "Since the last update the app closes as soon as I tap on Calendar.",
            reply: "A new version with the fix is in the stores.",
        },
        Story {
            minutes_ago: 760,
            priority: "high",
            status: "hold",
            kind: "question",
            tags: &["security"],
            subject: "Two-factor code never arrives",
            question: "The text message with the code does not reach my phone.",
            reply: "We are in touch with the carrier. Until then, the authenticator app works.",
        },
    ],
    to_come: &[
        (
            "Our dashboard shows another company's figures",
            "I see revenue of a company that is not ours. Please look at once.",
        ),
        ("API answers 500 to everything", "Since five minutes each call ends with 500. Our shop is down with it."),
        ("Deleted the wrong project", "I have deleted the project of a client by mistake. Can you bring it back?"),
        ("Import has doubled all customers", "Every customer is there twice, and the mails go out at noon."),
    ],
};

/// One that somebody makes on the way is like the shop.
fn company(name: &str) -> &'static Company {
    if name == "globex" { &GLOBEX } else { &ACME }
}

/// A new helpdesk.
pub(crate) fn fill(name: &str, account_id: i64, now_ms: i64) -> Data {
    let company = company(name);
    let first = account_id * 10_000;
    let roles = [Role::Admin, Role::Agent, Role::LightAgent, Role::EndUser];
    let staff = company.staff.iter().zip(roles).map(|(name, role)| (*name, role, company.domain));
    let customers = company.customers.iter().map(|name| (*name, Role::EndUser, "example.com"));
    let users = staff.chain(customers).zip(1_i64..).map(|((name, role, domain), number)| User {
        id: first + number,
        name: name.to_owned(),
        email: address(name, number, domain),
        role,
        external_id: (role == Role::EndUser).then(|| format!("crm-{number:04}")),
        phone: None,
        created_ms: now_ms - (400 - number) * 24 * 60 * MINUTE_MS,
    });
    let mut data = Data {
        users: users.collect(),
        tickets: BTreeMap::new(),
        kept: HashMap::new(),
        group_id: first + 9_000,
        last_ticket: 0,
        last_event: ABOVE_DOUBLE + 1_000_000,
        webhooks: Vec::new(),
        deleted: BTreeMap::new(),
    };
    // The oldest has the smallest number.
    for story in company.tickets.iter().rev() {
        add(&mut data, story, now_ms);
    }
    data
}

/// One more customer writes, and it is urgent. Answers the ticket's number.
pub(crate) fn write(name: &str, data: &mut Data, now_ms: i64) -> i64 {
    let turn = usize::try_from(data.last_ticket).unwrap_or(0);
    let to_come = company(name).to_come;
    let (subject, question) = to_come[turn % to_come.len()];
    let story = Story {
        minutes_ago: 0,
        priority: "urgent",
        status: "new",
        kind: "incident",
        tags: &[],
        subject,
        question,
        reply: "",
    };
    add(data, &story, now_ms);
    data.last_ticket
}

/// The first name; one that an address cannot hold gets its number.
fn address(name: &str, number: i64, domain: &str) -> String {
    match name.split(' ').next() {
        Some(first) if first.is_ascii() => format!("{}@{domain}", first.to_lowercase()),
        _ => format!("customer{number}@{domain}"),
    }
}

fn add(data: &mut Data, story: &Story, now_ms: i64) {
    data.last_ticket += 1;
    let id = data.last_ticket;
    let customers: Vec<i64> =
        data.users.iter().skip(4).filter(|user| user.role == Role::EndUser).map(|user| user.id).collect();
    let requester_id = customers[usize::try_from(id).unwrap_or(0) % customers.len()];
    let agent = data.users[1].id;
    let created_ms = now_ms - story.minutes_ago * MINUTE_MS;
    let reply = (!story.reply.is_empty()).then_some((agent, story.reply));
    let words = [(requester_id, story.question)].into_iter().chain(reply);
    let comments: Vec<Comment> = words
        .zip(0_i64..)
        .map(|((author_id, body), index)| Comment {
            id: data.next_event(),
            audit_id: data.next_event(),
            author_id,
            body: body.to_owned(),
            html_body: format!("<div class=\"zd-comment\"><p>{}</p></div>", escape(body)),
            public: true,
            channel: "email".into(),
            created_ms: created_ms + index * story.minutes_ago * MINUTE_MS / 2,
        })
        .collect();
    let ticket = Ticket {
        id,
        external_id: None,
        subject: Some(story.subject.to_owned()),
        status: story.status.to_owned(),
        priority: Some(story.priority.to_owned()),
        kind: Some(story.kind.to_owned()),
        requester_id,
        submitter_id: requester_id,
        assignee_id: reply.map(|_| agent),
        group_id: Some(data.group_id),
        tags: story.tags.iter().map(|tag| (*tag).to_owned()).collect(),
        custom_fields: Vec::new(),
        channel: "email".into(),
        created_ms,
        updated_ms: comments.last().map_or(created_ms, |last| last.created_ms),
        comments,
    };
    data.tickets.insert(id, ticket);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_company_has_its_own_people_and_urgent_work_of_today() {
        let now_ms = 1_795_000_000_000;
        let (acme, globex) = (fill("acme", 1, now_ms), fill("globex", 2, now_ms));

        for data in [&acme, &globex] {
            let urgent = |ticket: &&Ticket| {
                ticket.priority.as_deref() == Some("urgent") && matches!(ticket.status.as_str(), "new" | "open")
            };
            assert!(data.tickets.values().filter(urgent).count() >= 2);
            assert!(data.tickets.values().all(|ticket| ticket.updated_ms <= now_ms && !ticket.comments.is_empty()));
            let mut addresses: Vec<&str> = data.users.iter().map(|user| user.email.as_str()).collect();
            addresses.sort_unstable();
            addresses.dedup();
            assert_eq!(addresses.len(), data.users.len(), "each address is one person's: {addresses:?}");
        }
        assert!(acme.users.iter().all(|user| globex.users.iter().all(|other| other.name != user.name)));
    }

    #[test]
    fn customers_who_write_later_are_urgent_and_new() {
        let mut data = fill("acme", 1, 0);
        let (first, second) = (write("acme", &mut data, 5), write("acme", &mut data, 6));

        assert_eq!(second, first + 1);
        let ticket = &data.tickets[&second];
        assert_eq!((ticket.status.as_str(), ticket.priority.as_deref()), ("new", Some("urgent")));
        assert_ne!(ticket.subject, data.tickets[&first].subject);
    }
}
