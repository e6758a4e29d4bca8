//! Tickets of a mirror, newest first, by what lies open of them.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ports::StoreError,
    ticket::{Priority, Status, Ticket},
};
use sea_orm::FromQueryResult;

use super::{Mirror, owner, page::word, place};
use crate::{
    sql::{self, because, micros, values},
    store::Store,
};

/// What is looked for; all of it has to hold, and several values of one are alternatives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorQuery {
    /// Any of these.
    pub status: Vec<Status>,
    /// Any of these.
    pub priority: Vec<Priority>,
    /// Any of these.
    pub tags: Vec<String>,
    /// A requester's id.
    pub requester: Option<String>,
    /// After this one: when it was made, and its id.
    pub after: Option<(DateTime<Utc>, String)>,
    /// Tickets on a page.
    pub limit: u32,
}

/// A page of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredTickets {
    /// This page's.
    pub tickets: Vec<Ticket>,
    /// Whether there are more.
    pub more: bool,
}

#[derive(FromQueryResult)]
struct Row {
    ticket_id: String,
    sealed: Vec<u8>,
}

impl Store {
    /// A page of the tickets that match. One that cannot be opened is an error: who asks, asks the provider then.
    pub async fn search_mirror(&self, mirror: &Mirror, query: &MirrorQuery) -> Result<MirroredTickets, StoreError> {
        let doing = "search a mirror";
        let mut sql = "SELECT ticket_id, sealed FROM mirrored_tickets WHERE connector_id = $1".to_owned();
        let mut values = values![mirror.connector.as_str(), i64::from(query.limit) + 1];
        let any = |values: &mut Vec<sea_orm::Value>, condition: &str, all: Vec<String>| {
            let each: Vec<_> = all
                .into_iter()
                .map(|one| {
                    values.push(one.into());
                    condition.replace('?', &format!("${}", values.len()))
                })
                .collect();
            if each.is_empty() { String::new() } else { format!(" AND ({})", each.join(" OR ")) }
        };
        sql += &any(&mut values, "status = ?", query.status.iter().map(word).collect());
        sql += &any(&mut values, "priority = ?", query.priority.iter().map(word).collect());
        let tag = |tag: &String| sql::anywhere(&format!("\n{}\n", tag.to_lowercase()));
        sql += &any(&mut values, "tags LIKE ? ESCAPE '\\'", query.tags.iter().map(tag).collect());
        sql += &any(&mut values, "requester_id = ?", query.requester.iter().cloned().collect());
        if let Some((at, id)) = &query.after {
            values.extend(values![micros(*at), id.as_str()]);
            let (at, id) = (values.len() - 1, values.len());
            write!(sql, " AND (created_at < ${at} OR (created_at = ${at} AND ticket_id < ${id}))")
                .expect("writing to a String cannot fail");
        }
        sql.push_str(" ORDER BY created_at DESC, ticket_id DESC LIMIT $2");
        let mut rows: Vec<Row> = sql::all(self.db(), doing, sql, values).await?;
        let more = rows.len() > query.limit as usize;
        rows.truncate(query.limit as usize);
        let key = self.data_key(self.db(), &mirror.org).await?;
        let open = |row: Row| {
            let owner = owner(&mirror.connector, &row.ticket_id);
            let plain = key.open(place(&mirror.org, &owner), &row.sealed).map_err(|error| because(doing, error))?;
            serde_json::from_slice(&plain).map_err(|error| because(doing, error))
        };
        Ok(MirroredTickets { tickets: rows.into_iter().map(open).collect::<Result<_, _>>()?, more })
    }
}
