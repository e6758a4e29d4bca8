//! What changed in the conversations: the list, latest activity first.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    mirror::{Change, Feed, FeedPage, NewestFirst, Seen},
    ticket::Status,
};

use crate::{api, model::WireConversation, tools::app};

/// Of requests, for errors.
const OPERATION: &str = "sync";
/// All of them: what is in the trash is told as gone.
const STATUSES: [&str; 4] = ["assigned", "unassigned", "archived", "trashed"];

/// What is deleted for good, or merged into another one, is in no list.
pub(crate) struct Conversations;

#[async_trait]
impl Feed for Conversations {
    fn begin(&self, since: DateTime<Utc>) -> String {
        NewestFirst::begin(since).written()
    }

    async fn page(&self, api: &ApiClient, cursor: &str) -> Result<FeedPage> {
        let walk = NewestFirst::read(cursor);
        let walk = walk.ok_or_else(|| api.error(OPERATION, ErrorKind::Invalid, "the cursor is not understood"))?;
        let listed = api::conversations(api, OPERATION, &STATUSES, api::PER_PAGE, walk.page.as_deref()).await?;
        if listed.next.is_some() && listed.next == walk.page {
            return Err(api.error(OPERATION, ErrorKind::Unreadable, "the list goes on and stays where it is"));
        }
        let changes = listed.items.iter().map(|one| change(api, one)).collect::<Result<_>>()?;
        Ok(walk.page(changes, listed.next))
    }
}

fn change(api: &ApiClient, one: &WireConversation) -> Result<(DateTime<Utc>, Change)> {
    let untold = || api.error(OPERATION, ErrorKind::Unreadable, "a conversation does not tell when it changed last");
    let at = one.updated_at.ok_or_else(untold)?;
    let ticket = one.to_model(&app(api));
    let change = if ticket.status.value == Status::Closed {
        Change::Gone(ticket.id)
    } else {
        // Front tells of no message when it came, but since when one waits for an answer.
        Change::Is(Box::new(Seen { ticket, replied_at: one.waiting_since }))
    };
    Ok((at, change))
}
