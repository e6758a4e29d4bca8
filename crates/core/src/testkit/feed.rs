//! A feed, read as a sync reads it, and what every feed has to hold to.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    api_client::ApiClient,
    error::Result,
    mirror::{Change, Feed, Seen},
};

/// What a feed has told: each ticket as it was told last, `None` for one that is gone.
#[derive(Debug, Default)]
pub struct Told {
    /// By id.
    pub tickets: BTreeMap<String, Option<Seen>>,
    /// What to go on with.
    pub cursor: String,
    /// Pages until nothing more had changed.
    pub pages: usize,
}

impl Told {
    /// Those that are there.
    pub fn there(&self) -> impl Iterator<Item = &Seen> {
        self.tickets.values().flatten()
    }

    /// One that is there.
    ///
    /// # Panics
    /// When it is not, or was not told.
    pub fn seen(&self, id: &str) -> &Seen {
        self.tickets.get(id).and_then(Option::as_ref).unwrap_or_else(|| panic!("{id} was not told"))
    }
}

/// Reads on from a cursor until nothing more has changed.
///
/// # Panics
/// When it never ends.
pub async fn read_on(feed: &dyn Feed, api: &ApiClient, cursor: &str) -> Result<Told> {
    let mut told = Told { cursor: cursor.to_owned(), ..Told::default() };
    loop {
        let page = feed.page(api, &told.cursor).await?;
        for change in page.changes {
            match change {
                Change::Is(seen) => told.tickets.insert(seen.ticket.id.clone(), Some(*seen)),
                Change::Gone(id) => told.tickets.insert(id, None),
            };
        }
        told.cursor = page.cursor;
        told.pages += 1;
        assert!(told.pages < 1000, "the feed does not end");
        if page.caught_up {
            return Ok(told);
        }
    }
}

/// Reads everything from a time long ago on; and once more with a crash behind each page, so that the cursor that was kept is
/// asked for again: nothing is missed, and what was told before is told the same.
///
/// # Panics
/// When that does not hold.
pub async fn read_all(feed: &dyn Feed, api: &ApiClient) -> Told {
    let begin = feed.begin(chrono::DateTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 40));
    let told = read_on(feed, api, &begin).await.expect("it can be read");
    let mut again = BTreeMap::new();
    let mut cursor = begin;
    loop {
        let lost = feed.page(api, &cursor).await.expect("it can be read");
        let page = feed.page(api, &cursor).await.expect("it can be read again");
        assert_eq!(page, lost, "a cursor brings the same page again");
        for change in page.changes {
            match change {
                Change::Is(seen) => again.insert(seen.ticket.id.clone(), Some(*seen)),
                Change::Gone(id) => again.insert(id, None),
            };
        }
        cursor = page.cursor;
        if page.caught_up {
            break;
        }
    }
    assert_eq!(again, told.tickets);
    told
}
