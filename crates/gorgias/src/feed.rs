//! What changed in the tickets: the list, the last change first.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    mirror::{Change, Feed, FeedPage, NewestFirst, Seen},
};

use crate::{api, model::WireTicket};

/// Of requests, for errors.
const OPERATION: &str = "sync";

/// Those that were thrown away are among them. What is deleted for good is in no list.
pub(crate) struct Tickets;

#[async_trait]
impl Feed for Tickets {
    fn begin(&self, since: DateTime<Utc>) -> String {
        NewestFirst::begin(since).written()
    }

    async fn page(&self, api: &ApiClient, cursor: &str) -> Result<FeedPage> {
        let walk = NewestFirst::read(cursor);
        let walk = walk.ok_or_else(|| api.error(OPERATION, ErrorKind::Invalid, "the cursor is not understood"))?;
        let listed = api::changed(api, OPERATION, walk.page.as_deref()).await?;
        let next = listed.next();
        if next.is_some() && next == walk.page {
            return Err(api.error(OPERATION, ErrorKind::Unreadable, "the list of tickets goes on where it began"));
        }
        let changes = listed.data.iter().map(|ticket| change(api, ticket)).collect();
        Ok(walk.page(changes, next))
    }
}

fn change(api: &ApiClient, ticket: &WireTicket) -> (DateTime<Utc>, Change) {
    let model = ticket.to_model(&api.account().base_url);
    let at = model.updated_at;
    let change = if ticket.trashed_datetime.is_some() {
        Change::Gone(model.id)
    } else {
        Change::Is(Box::new(Seen { ticket: model, replied_at: ticket.last_message_datetime }))
    };
    (at, change)
}
