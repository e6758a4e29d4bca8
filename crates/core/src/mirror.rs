//! A mirror of a helpdesk's tickets: what an adapter reads for it, and what a change that it finds is to agents.

mod newest_first;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use crate::{api_client::ApiClient, error::Result, ticket::Ticket, webhook::Topic};

pub use newest_first::NewestFirst;

/// Where the moments of a provider and of its events lie so close, they are one.
pub const SAME: TimeDelta = TimeDelta::seconds(5);

/// A provider may show a change so much later than it dates it.
const LATE: TimeDelta = TimeDelta::minutes(10);

/// What changes in a helpdesk, a page at a time. It remembers nothing: all it has to know is in the cursor.
#[async_trait]
pub trait Feed: Send + Sync {
    /// The cursor of everything that changed from then on.
    fn begin(&self, since: DateTime<Utc>) -> String;
    /// The page behind a cursor, as [`Self::begin`] or the page before gave it. Asked for again, it brings the same, or
    /// later states of it; nothing that changes meanwhile is lost. A cursor that nobody takes any more is `Invalid`.
    async fn page(&self, api: &ApiClient, cursor: &str) -> Result<FeedPage>;
    /// What has changed within this is told later.
    fn lag(&self) -> Duration {
        Duration::ZERO
    }
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPage {
    /// What changed, each ticket as it is now.
    pub changes: Vec<Change>,
    /// What to go on with.
    pub cursor: String,
    /// Nothing more has changed so far.
    pub caught_up: bool,
}

/// A ticket that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there.
    Is(Box<Seen>),
    /// It was deleted, or put where no agent works: this id.
    Gone(String),
}

/// A ticket as a feed tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// As it is.
    pub ticket: Ticket,
    /// When its last message came, where the provider tells.
    pub replied_at: Option<DateTime<Utc>>,
}

/// What a mirror knows of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// As [`Ticket::updated_at`].
    pub updated_at: DateTime<Utc>,
    /// As [`Seen::replied_at`].
    pub replied_at: Option<DateTime<Utc>>,
}

/// What has happened to a ticket since a mirror saw it. `since`: the moment that the mirror shows.
pub fn news(before: Option<Before>, seen: &Seen, since: DateTime<Utc>) -> Vec<Topic> {
    let ticket = &seen.ticket;
    let replied_after = |moment: DateTime<Utc>| seen.replied_at.is_some_and(|at| at > moment);
    match before {
        // Helpdesks date to the second: within the one that was seen a message may have come.
        Some(before)
            if ticket.updated_at < before.updated_at
                || ticket.updated_at == before.updated_at && !before.replied_at.is_some_and(replied_after) =>
        {
            Vec::new()
        }
        Some(before) if replied_after(before.replied_at.unwrap_or(before.updated_at)) => vec![Topic::TicketReplied],
        // It was known then, had it not changed long before: it is only now among what is read.
        None if ticket.updated_at < since - LATE => Vec::new(),
        // A ticket comes with its first message.
        None if ticket.created_at >= since - LATE && replied_after(ticket.created_at + SAME) => {
            vec![Topic::TicketCreated, Topic::TicketReplied]
        }
        None if ticket.created_at >= since - LATE => vec![Topic::TicketCreated],
        None if replied_after(since - LATE) => vec![Topic::TicketReplied],
        Some(_) | None => vec![Topic::TicketChanged],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::{Mapped, Status};

    fn at(secs: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(secs, 0).unwrap()
    }

    fn seen(created: i64, updated: i64, replied: Option<i64>) -> Seen {
        let ticket = Ticket {
            id: "7".to_owned(),
            url: None,
            subject: None,
            description: None,
            status: Mapped { value: Status::Open, original: "open".to_owned() },
            priority: None,
            channel: None,
            requester: None,
            assignee: None,
            tags: Vec::new(),
            created_at: at(created),
            updated_at: at(updated),
        };
        Seen { ticket, replied_at: replied.map(at) }
    }

    #[test]
    fn a_change_is_told_as_what_it_is_and_an_older_state_as_nothing() {
        use Topic::{TicketChanged, TicketCreated, TicketReplied};
        let known =
            |updated, replied: Option<i64>| Some(Before { updated_at: at(updated), replied_at: replied.map(at) });
        for (before, seen, expected) in [
            (known(500, None), seen(100, 500, None), vec![]),
            (known(500, None), seen(100, 400, Some(400)), vec![]),
            (known(500, Some(400)), seen(100, 500, Some(400)), vec![]),
            (known(500, Some(400)), seen(100, 500, Some(500)), vec![TicketReplied]),
            (known(500, Some(400)), seen(100, 600, Some(400)), vec![TicketChanged]),
            (known(500, Some(400)), seen(100, 600, Some(600)), vec![TicketReplied]),
            (known(500, None), seen(100, 600, Some(600)), vec![TicketReplied]),
            (known(500, None), seen(100, 600, None), vec![TicketChanged]),
            (None, seen(1000, 1000, Some(1000)), vec![TicketCreated]),
            (None, seen(1000, 1090, None), vec![TicketCreated]),
            (None, seen(1000, 1090, Some(1060)), vec![TicketCreated, TicketReplied]),
            (None, seen(100, 1090, Some(1060)), vec![TicketReplied]),
            (None, seen(100, 1090, Some(100)), vec![TicketChanged]),
            (None, seen(100, 300, Some(300)), vec![]),
        ] {
            assert_eq!(news(before, &seen, at(1000)), expected, "{before:?} {seen:?}");
        }
    }
}
