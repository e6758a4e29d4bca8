//! What the tools answer, as types. The output schemas know the same fields.
//!
//! A list always says where it goes on: `next_cursor`. Where a provider shows no more although there is more, `note` says so.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::ticket::{Article, Customer, Message, Ticket};

/// Answer of `search_tickets`.
#[derive(Clone, Debug, Serialize)]
pub struct FoundTickets {
    /// This page's.
    pub tickets: Vec<Ticket>,
    /// On all pages, where the provider tells.
    pub total: Option<u64>,
    /// `None`: this is the last page.
    pub next_cursor: Option<String>,
    /// What an agent has to know about what is not here.
    pub note: Option<String>,
}

/// Answer of `get_ticket`.
#[derive(Clone, Debug, Serialize)]
pub struct TicketConversation {
    /// As it is now.
    pub ticket: Ticket,
    /// Oldest first; from a cursor on, those after it.
    pub messages: Vec<Message>,
    /// `None`: there are no later messages.
    pub next_cursor: Option<String>,
    /// What an agent has to know about what is not here.
    pub note: Option<String>,
}

/// Answer of `reply_to_ticket`.
#[derive(Clone, Debug, Serialize)]
pub struct SentReply {
    /// To which.
    pub ticket_id: String,
    /// The new message's id, where the provider tells.
    pub message_id: Option<String>,
    /// What the provider made of it.
    pub public: bool,
    /// The ticket's, after the message, where the provider tells.
    pub updated_at: Option<DateTime<Utc>>,
}

/// Answer of `update_ticket`.
#[derive(Clone, Debug, Serialize)]
pub struct UpdatedTicket {
    /// After the change.
    pub ticket: Ticket,
}

/// Answer of `create_ticket`.
#[derive(Clone, Debug, Serialize)]
pub struct CreatedTicket {
    /// The new one.
    pub ticket: Ticket,
}

/// Answer of `find_customer`.
#[derive(Clone, Debug, Serialize)]
pub struct FoundCustomers {
    /// This page's; empty: there is none.
    pub customers: Vec<Customer>,
    /// On all pages, where the provider tells.
    pub total: Option<u64>,
    /// `None`: this is the last page.
    pub next_cursor: Option<String>,
    /// What an agent has to know about what is not here.
    pub note: Option<String>,
}

/// Answer of `search_articles`.
#[derive(Clone, Debug, Serialize)]
pub struct FoundArticles {
    /// This page's, the best first; empty: there is none.
    pub articles: Vec<Article>,
    /// On all pages, where the provider tells.
    pub total: Option<u64>,
    /// `None`: this is the last page.
    pub next_cursor: Option<String>,
    /// What an agent has to know about what is not here.
    pub note: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        helpdesk::*,
        schema::check,
        ticket::{Attachment, Channel, Mapped, Person, Priority, Status},
        tool::{Tool, ToolOutput},
    };

    fn fits(tool: &Tool, answer: &impl Serialize) {
        let schema: Value = serde_json::from_str(tool.output_schema).unwrap();
        let ToolOutput(answer) = ToolOutput::of(answer);
        assert_eq!(check(&schema, &answer, &|_| false), Ok(()), "{}: {answer}", tool.name);
    }

    fn at() -> DateTime<Utc> {
        "2026-11-29T10:00:00Z".parse().unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "it fills fields that may be empty")]
    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn mapped<T>(value: T) -> Mapped<T> {
        Mapped { value, original: "their word".to_owned() }
    }

    fn person() -> Person {
        Person { id: "7".to_owned(), name: some("Mira"), email: some("mira@example.com") }
    }

    fn nobody() -> Person {
        Person { id: "8".to_owned(), name: None, email: None }
    }

    /// With everything, and with as little as a provider may tell.
    fn tickets() -> [Ticket; 2] {
        let bare = Ticket {
            id: "9007199254740993".to_owned(),
            url: None,
            subject: None,
            description: None,
            status: mapped(Status::Open),
            priority: None,
            channel: None,
            requester: None,
            assignee: None,
            tags: Vec::new(),
            created_at: at(),
            updated_at: at(),
        };
        let full = Ticket {
            url: some("https://example.com/1"),
            subject: some("Refund"),
            description: some("Where is it?"),
            priority: Some(mapped(Priority::Low)),
            channel: Some(mapped(Channel::Email)),
            requester: Some(person()),
            assignee: Some(nobody()),
            tags: vec!["billing".to_owned()],
            ..bare.clone()
        };
        [full, bare]
    }

    #[test]
    fn answers_fit_their_schemas_whole_and_bare() {
        let [full, bare] = tickets();
        let message = |author| Message {
            id: "1".to_owned(),
            body: String::new(),
            public: true,
            author,
            attachments: vec![Attachment {
                name: Some("cup.jpg".to_owned()),
                size_bytes: Some(1200),
                content_type: None,
                url: Some("https://files.example.com/77".to_owned()),
            }],
            created_at: at(),
        };
        let customer = Customer {
            id: "7".to_owned(),
            url: None,
            name: None,
            email: None,
            other_emails: Vec::new(),
            phone: None,
            external_id: None,
            language: None,
            time_zone: None,
            tags: Vec::new(),
            created_at: None,
            updated_at: None,
        };
        let whole_customer = Customer {
            url: some("https://example.com/7"),
            name: some("Mira"),
            email: some("mira@example.com"),
            other_emails: vec!["m@example.com".to_owned()],
            phone: some("+43 1 0000"),
            external_id: some("crm-7"),
            language: some("de"),
            time_zone: some("Vienna"),
            tags: vec!["vip".to_owned()],
            created_at: Some(at()),
            updated_at: Some(at()),
            ..customer.clone()
        };
        let article = Article {
            id: "3".to_owned(),
            url: None,
            title: String::new(),
            body: None,
            locale: None,
            published: None,
            labels: Vec::new(),
            created_at: None,
            updated_at: None,
        };
        let whole_article = Article {
            url: some("https://example.com/3"),
            body: some("Send it back."),
            locale: some("en-us"),
            published: Some(true),
            labels: vec!["returns".to_owned()],
            created_at: Some(at()),
            updated_at: Some(at()),
            ..article.clone()
        };
        for (total, next_cursor, note) in [(Some(5), some("2-25"), some("More match.")), (None, None, None)] {
            let tickets = vec![full.clone(), bare.clone()];
            let (cursor, words) = (|| next_cursor.clone(), || note.clone());
            fits(&SEARCH_TICKETS, &FoundTickets { tickets, total, next_cursor: cursor(), note: words() });
            let messages = vec![message(Some(person())), message(None)];
            let ticket = full.clone();
            fits(&GET_TICKET, &TicketConversation { ticket, messages, next_cursor: cursor(), note: words() });
            let customers = vec![customer.clone(), whole_customer.clone()];
            fits(&FIND_CUSTOMER, &FoundCustomers { customers, total, next_cursor: cursor(), note: words() });
            let articles = vec![article.clone(), whole_article.clone()];
            fits(&SEARCH_ARTICLES, &FoundArticles { articles, total, next_cursor: cursor(), note: words() });
        }
        for (message_id, updated_at) in [(some("9"), Some(at())), (None, None)] {
            let ticket_id = "5".to_owned();
            fits(&REPLY_TO_TICKET, &SentReply { ticket_id, message_id, public: false, updated_at });
        }
        for ticket in [full, bare] {
            fits(&UPDATE_TICKET, &UpdatedTicket { ticket: ticket.clone() });
            fits(&CREATE_TICKET, &CreatedTicket { ticket });
        }
    }

    #[test]
    fn the_schema_has_every_word_of_the_model() {
        use {Channel as C, Priority as P, Status as S};
        let [mut ticket, _] = tickets();
        for status in [S::New, S::Open, S::Pending, S::OnHold, S::Solved, S::Closed] {
            ticket.status = mapped(status);
            fits(&UPDATE_TICKET, &UpdatedTicket { ticket: ticket.clone() });
        }
        for priority in [P::Low, P::Normal, P::High, P::Urgent] {
            ticket.priority = Some(mapped(priority));
            fits(&UPDATE_TICKET, &UpdatedTicket { ticket: ticket.clone() });
        }
        let channels = [C::Email, C::Web, C::Chat, C::Messaging, C::Social, C::Phone, C::Sms, C::Api, C::Other];
        for channel in channels {
            ticket.channel = Some(mapped(channel));
            fits(&UPDATE_TICKET, &UpdatedTicket { ticket: ticket.clone() });
        }
        let schema: Value = serde_json::from_str(UPDATE_TICKET.output_schema).unwrap();
        let words = &schema["properties"]["ticket"]["properties"]["channel"]["properties"]["value"]["enum"];
        assert_eq!(*words, json!(channels));
    }
}
