//! `search_tickets` from the mirror: same arguments, same answer, with a note of the moment that it shows.
//!
//! Words are in the provider's own language, and who asks is looked for by name and address there: such a search goes to the
//! provider, as does one while the mirror is too old. A cursor belongs to whom it came from, whatever the time.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    Snapshot,
    helpdesk::{FoundTickets, MOST_PER_PAGE, SEARCH_TICKETS, SearchTickets, USUAL_PER_PAGE, page_size},
    ticket::Status,
    tool::{ToolOutput, arguments},
};
use holdfast_store::{Mirror, MirrorQuery};
use serde_json::Value;
use tracing::warn;

use super::mirror;
use crate::app::App;

/// Before a cursor of ours; no provider's begins so.
const OURS: &str = "mirror:";

/// The answer, where the mirror may give it.
pub(crate) async fn from_mirror(app: &App, known: &Snapshot, tool: &str, given: &Value) -> Option<Value> {
    if tool != SEARCH_TICKETS.name || app.config.sync.search_within.is_zero() {
        return None;
    }
    // What is wrong with them the adapter says.
    let asked = arguments::<SearchTickets>(given).ok()?;
    let mut query = query(&asked)?;
    let mirror = mirror(app, &known.provider, &known.connector).await.ok().flatten()?;
    let as_of = mirror.as_of?;
    if let Some(cursor) = &asked.cursor {
        query.after = Some(read_cursor(cursor)?);
    } else if app.seams.clock.now() - as_of > TimeDelta::from_std(app.config.sync.search_within).ok()? {
        return None;
    }
    match search(app, &mirror, &query, as_of).await {
        Ok(found) => Some(found),
        Err(error) => {
            warn!(connector.id = %known.connector, error = %error, "a mirror cannot be searched; the provider is asked");
            None
        }
    }
}

/// What the mirror is asked; `None`: it cannot tell.
fn query(asked: &SearchTickets) -> Option<MirrorQuery> {
    let of_requester = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '_');
    let told = asked.requester.as_deref().map(str::trim);
    // What was thrown away is not in it, and some providers call that closed.
    let untold = asked.query.as_deref().is_some_and(|words| !words.trim().is_empty())
        || told.is_some_and(|text| !of_requester(text))
        || asked.status.contains(&Status::Closed);
    let ours = asked.cursor.as_deref().is_none_or(|cursor| cursor.starts_with(OURS));
    if untold || !ours {
        return None;
    }
    Some(MirrorQuery {
        status: asked.status.clone(),
        priority: asked.priority.clone(),
        tags: asked.tags.clone(),
        requester: told.map(str::to_owned),
        after: None,
        limit: page_size(asked.limit, USUAL_PER_PAGE, MOST_PER_PAGE).ok()?,
    })
}

async fn search(
    app: &App,
    mirror: &Mirror,
    query: &MirrorQuery,
    as_of: DateTime<Utc>,
) -> Result<Value, holdfast_store::StoreError> {
    let found = app.store.search_mirror(mirror, query).await?;
    let last = found.tickets.last().filter(|_| found.more);
    let next_cursor = last.map(|last| format!("{OURS}{}:{}", last.created_at.timestamp_micros(), last.id));
    let note = format!("From the mirror, as of {}.", as_of.to_rfc3339_opts(chrono::SecondsFormat::Secs, true));
    let answer = FoundTickets { tickets: found.tickets, total: None, next_cursor, note: Some(note) };
    Ok(ToolOutput::of(&answer).0)
}

fn read_cursor(cursor: &str) -> Option<(DateTime<Utc>, String)> {
    let (at, id) = cursor.strip_prefix(OURS)?.split_once(':')?;
    Some((DateTime::from_timestamp_micros(at.parse().ok()?)?, id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_provider_can_tell_is_asked_there() {
        let none = SearchTickets::default();
        assert!(query(&none).is_some());
        assert!(query(&SearchTickets { requester: Some(" 77 ".to_owned()), ..none.clone() }).is_some());
        assert!(query(&SearchTickets { cursor: Some("mirror:5:7".to_owned()), ..none.clone() }).is_some());
        for asked in [
            SearchTickets { query: Some("lamp".to_owned()), ..none.clone() },
            SearchTickets { requester: Some("mira@example.com".to_owned()), ..none.clone() },
            SearchTickets { status: vec![Status::Open, Status::Closed], ..none.clone() },
            SearchTickets { cursor: Some("2-25".to_owned()), ..none.clone() },
            SearchTickets { limit: Some(0), ..none },
        ] {
            assert_eq!(query(&asked), None, "{asked:?}");
        }
        assert_eq!(
            read_cursor("mirror:5000000:7:8"),
            Some((DateTime::from_timestamp(5, 0).unwrap(), "7:8".to_owned()))
        );
        assert_eq!(read_cursor("mirror:x:7"), None);
    }
}
