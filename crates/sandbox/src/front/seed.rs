//! The companies that there are at the start: more than one page of everything.

use super::data::{Comment, Company, Contact, Conversation, Inbox, Message, Place, Tag, Teammate, TicketStatus};
use super::state::State;

const CONVERSATIONS: i64 = 60;
const TAGS: usize = 120;
/// Messages of the long conversation.
const LONG: i64 = 130;
const HOUR_MS: i64 = 3_600_000;

impl State {
    pub(super) fn seeded(now_ms: i64) -> Self {
        let mut state = Self::default();
        state.found("acme", "Acme", &[("Ada", "Admin", true), ("Gus", "Agent", false)], now_ms);
        state.found("globex", "Globex", &[("Gina", "Globe", true)], now_ms);
        state
    }

    /// A company with these teammates.
    pub(super) fn found(&mut self, label: &str, name: &str, people: &[(&str, &str, bool)], now_ms: i64) {
        let mut company = Company {
            id: self.id("cmp"),
            label: label.to_owned(),
            name: name.to_owned(),
            per_minute: 200,
            ..Company::default()
        };
        for (first, last, is_admin) in people {
            company.teammates.push(Teammate {
                id: self.id("tea"),
                email: format!("{}@{label}.example", first.to_lowercase()),
                first_name: (*first).to_owned(),
                last_name: (*last).to_owned(),
                is_admin: *is_admin,
            });
        }
        for (name, kind) in [("Support", "smtp"), ("Chat", "front_chat")] {
            company.inboxes.push(Inbox {
                id: self.id("inb"),
                channel_id: self.id("cha"),
                name: name.to_owned(),
                channel_type: kind.to_owned(),
                address: format!("{}@{label}.example", name.to_lowercase()),
            });
        }
        for number in 0..TAGS {
            let name = match number {
                0 => "refund".to_owned(),
                1 => "Größe".to_owned(),
                number if number == TAGS - 1 => "vip".to_owned(),
                number => format!("topic {number}"),
            };
            company.tags.push(Tag { id: self.id("tag"), name });
        }
        for (name, category) in [("Open", "open"), ("Waiting on customer", "waiting"), ("Resolved", "resolved")] {
            let (name, category) = (name.to_owned(), category.to_owned());
            company.statuses.push(TicketStatus { id: self.id("sts"), name, category });
        }
        for (name, handles) in [
            (
                Some("Mira Castellan"),
                &[("email", "mira@customer.example"), ("email", "mira@home.example"), ("phone", "+4312345")][..],
            ),
            (Some("Jörg Müller"), &[("email", "joerg@customer.example")]),
            (None, &[("phone", "+15550100")]),
        ] {
            company.contacts.push(Contact {
                id: self.id("crd"),
                name: name.map(str::to_owned),
                handles: handles.iter().map(|(source, handle)| ((*source).to_owned(), (*handle).to_owned())).collect(),
            });
        }
        for number in 1..=CONVERSATIONS {
            self.converse(&mut company, number, now_ms);
        }
        self.companies.insert(label.to_owned(), company);
    }

    /// So many more conversations of the same kind.
    pub(super) fn converse_more(&mut self, label: &str, count: i64, now_ms: i64) {
        let Some(mut company) = self.companies.remove(label) else { return };
        for number in CONVERSATIONS + 1..=CONVERSATIONS + count {
            self.converse(&mut company, number, now_ms - count * HOUR_MS);
        }
        self.companies.insert(label.to_owned(), company);
    }

    /// The first is the long one, the second was merged into the third, the fifth is a chat, each seventh is archived, the
    /// last is deleted.
    fn converse(&mut self, company: &mut Company, number: i64, now_ms: i64) {
        let at_ms = now_ms - (CONVERSATIONS - number + 1) * HOUR_MS - 250;
        let (name, handle) = if number % 2 == 0 {
            ("Mira Castellan", "mira@customer.example")
        } else {
            ("Jörg Müller", "joerg@customer.example")
        };
        let from = (Some(name.to_owned()), handle.to_owned());
        let subject = if number == 4 { "Refund for order 1042".to_owned() } else { format!("Question {number}") };
        let mut messages = vec![self.message(
            &from,
            at_ms,
            &format!("Hello, this is question {number}."),
            &company.inboxes[0].address,
        )];
        let mut comments = Vec::new();
        if number == 1 {
            for reply in 1..LONG {
                messages.push(self.message(
                    &from,
                    at_ms + reply * 10_000,
                    &format!("Line {reply}"),
                    &company.inboxes[0].address,
                ));
            }
            for (note, after) in [("Who takes this?", 5_000), ("Still open.", (LONG + 5) * 10_000)] {
                let author = company.teammates.first().map(|one| one.id.clone());
                comments.push(Comment { id: self.id("com"), author, body: note.to_owned(), at_ms: at_ms + after });
            }
        }
        let (id, seven) = (self.id("cnv"), number % 7 == 0);
        let place = match number {
            CONVERSATIONS => Place::Deleted,
            _ if seven => Place::Archived,
            _ => Place::Open,
        };
        let status = company.statuses.iter().find(|status| (status.category == "resolved") == seven);
        company.conversations.push(Conversation {
            id,
            subject,
            place,
            status_id: status.map(|status| status.id.clone()),
            assignee: (number % 3 == 0).then(|| company.teammates[0].id.clone()),
            recipient: Some(from),
            tags: if number == 4 { vec![company.tags[0].id.clone()] } else { Vec::new() },
            inbox: company.inboxes[usize::from(number == 5)].id.clone(),
            created_ms: at_ms,
            updated_ms: at_ms,
            merged_into: None,
            messages,
            comments,
        });
        if number == 3 {
            let into = company.conversations[2].id.clone();
            company.conversations[1].merged_into = Some(into);
        }
    }

    fn message(&mut self, from: &(Option<String>, String), at_ms: i64, text: &str, to: &str) -> Message {
        Message {
            id: self.id("msg"),
            uid: self.id("uid"),
            kind: "email".to_owned(),
            is_inbound: true,
            at_ms,
            body: format!("<p>{text}</p>"),
            text: text.to_owned(),
            recipients: vec![
                (from.0.clone(), from.1.clone(), "from".to_owned()),
                (None, to.to_owned(), "to".to_owned()),
            ],
            ..Message::default()
        }
    }
}
