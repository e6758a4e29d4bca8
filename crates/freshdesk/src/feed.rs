//! What changed in the tickets: three lists, each from the oldest change on. What was deleted, and what counts as spam, is in
//! the usual one no more.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    mirror::{Change, Feed, FeedPage, Seen},
};
use serde::{Deserialize, Serialize};

use crate::{
    api::{self, Listed},
    model::WireTicket,
};

/// Of requests, for errors.
const OPERATION: &str = "sync";
/// Freshdesk's words for the lists, in the order in which they are read; the first one is the usual one.
const LISTS: [Option<&str>; 3] = [None, Some("deleted"), Some("spam")];

/// All agents' tickets, as far as the key's agent may see them.
pub(crate) struct Lists;

/// The cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// Which list is read now.
    list: usize,
    /// Of its pages.
    page: u32,
    /// For each list: it is read from here on.
    since: [DateTime<Utc>; 3],
}

#[async_trait]
impl Feed for Lists {
    fn begin(&self, since: DateTime<Utc>) -> String {
        Place { list: 0, page: 1, since: [since; 3] }.written()
    }

    async fn page(&self, api: &ApiClient, cursor: &str) -> Result<FeedPage> {
        let place: Option<Place> = serde_json::from_str(cursor).ok().filter(|place: &Place| place.list < LISTS.len());
        let place = place.ok_or_else(|| api.error(OPERATION, ErrorKind::Invalid, "the cursor is not understood"))?;
        let filter = LISTS[place.list];
        let listed = api::changed(api, OPERATION, filter, place.since[place.list], place.page).await?;
        let (next, caught_up) = place.after(&listed);
        let base = &api.account().base_url;
        let change = |ticket: &WireTicket| match filter {
            Some(_) => Change::Gone(ticket.id.to_string()),
            None => Change::Is(Box::new(Seen { ticket: ticket.to_model(base), replied_at: ticket.replied_at() })),
        };
        let changes = listed.items.iter().map(change).collect();
        Ok(FeedPage { changes, cursor: next.written(), caught_up })
    }
}

impl Place {
    fn written(&self) -> String {
        serde_json::to_string(self).expect("moments and numbers become JSON")
    }

    /// The place behind a page, and whether that was the last one of all lists. A list goes on from its last moment on rather than
    /// by pages, of which there are 300; pages are for what has the same moment.
    fn after(&self, listed: &Listed<WireTicket>) -> (Self, bool) {
        let mut next = self.clone();
        let since = &mut next.since[self.list];
        let last = listed.items.last().map_or(*since, |last| last.updated_at);
        if listed.more && !listed.items.is_empty() {
            if last > *since {
                (*since, next.page) = (last, 1);
            } else if self.page < api::LAST_LIST_PAGE {
                next.page += 1;
            } else {
                // 30,000 tickets of one second.
                (*since, next.page) = (*since + TimeDelta::seconds(1), 1);
            }
            return (next, false);
        }
        *since = last.max(*since);
        next.page = 1;
        next.list = (self.list + 1) % LISTS.len();
        let caught_up = next.list == 0;
        (next, caught_up)
    }
}
