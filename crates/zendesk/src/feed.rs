//! What changed in the tickets: Zendesk's incremental export.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    mirror::{Change, Feed, FeedPage, Seen},
};

use crate::{api, model::People};

/// Of requests, for errors.
const OPERATION: &str = "sync";
/// Before a cursor that is a moment, in Unix seconds. Zendesk's own are Base64.
const SINCE: &str = "since:";
/// Deleted tickets stay in the export for 30 days, scrubbed.
const DELETED: &str = "deleted";

/// By cursor, from a moment on.
pub(crate) struct Exports;

#[async_trait]
impl Feed for Exports {
    fn begin(&self, since: DateTime<Utc>) -> String {
        format!("{SINCE}{}", since.timestamp().max(0))
    }

    async fn page(&self, api: &ApiClient, cursor: &str) -> Result<FeedPage> {
        let from = match cursor.strip_prefix(SINCE) {
            Some(since) => ("start_time", since),
            None => ("cursor", cursor),
        };
        let page = api::changed(api, OPERATION, from).await?;
        let next = match page.after_cursor {
            Some(next) => next,
            None if page.end_of_stream => cursor.to_owned(),
            None => return Err(api.error(OPERATION, ErrorKind::Unreadable, "there are more pages, and no cursor")),
        };
        let replied: HashMap<i64, DateTime<Utc>> =
            page.metric_sets.iter().filter_map(|set| Some((set.ticket_id?, set.latest_comment_added_at?))).collect();
        let mut people = People::default();
        people.add(page.users);
        let base = &api.account().base_url;
        let changes = page.tickets.iter().map(|ticket| {
            if ticket.status == DELETED {
                return Change::Gone(ticket.id.to_string());
            }
            let replied_at = replied.get(&ticket.id).copied();
            Change::Is(Box::new(Seen { ticket: ticket.to_model(base, &people), replied_at }))
        });
        Ok(FeedPage { changes: changes.collect(), cursor: next, caught_up: page.end_of_stream })
    }

    fn lag(&self) -> Duration {
        Duration::from_mins(1)
    }
}
