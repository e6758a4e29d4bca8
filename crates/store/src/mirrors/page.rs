//! A page of a sync: its tickets, its cursor and what is news to agents, all or nothing.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, DeliveryId,
    job::Kind,
    mirror::{Before, Change, SAME, Seen, news},
    ports::StoreError,
    webhook::Topic,
};
use sea_orm::{DatabaseTransaction, FromQueryResult};
use serde_json::json;

use super::{BY_SYNC, Mirror, Told, owner, place};
use crate::{
    jobs::{self, NewJob},
    patience::Patient,
    seal::DataKey,
    sql::{self, because, failed, micros, values},
    store::Store,
};

/// Rows of one statement.
const AT_ONCE: usize = 100;

/// What a sync read.
#[derive(Clone, Copy, Debug)]
pub struct MirrorPage<'a> {
    /// As it was before the page was asked for.
    pub mirror: &'a Mirror,
    /// What changed.
    pub changes: &'a [Change],
    /// Of the next page.
    pub cursor: &'a str,
    /// When the first page was asked for since somebody had read all last.
    pub walk_began_at: DateTime<Utc>,
    /// The moment that the mirror shows now; `None`: there are more pages.
    pub as_of: Option<DateTime<Utc>>,
    /// What changed before that is news to nobody.
    pub news_since: DateTime<Utc>,
    /// When.
    pub at: DateTime<Utc>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is kept, and so many changes are told.
    Yes {
        /// Changes that no webhook told.
        told: u64,
    },
    /// Somebody else has moved the cursor, or the connector was taken off: nothing is.
    Overtaken,
}

#[derive(FromQueryResult)]
struct Known {
    ticket_id: String,
    updated_at: DateTime<Utc>,
    replied_at: Option<DateTime<Utc>>,
}

impl Store {
    /// Keeps a page. An older state of a ticket never takes the place of a newer one; one that is gone is kept no more.
    /// Changes since the first sync are told as events, unless a webhook told them or they are this service's own.
    pub async fn keep_page(&self, page: &MirrorPage<'_>) -> Result<Kept, StoreError> {
        let doing = "keep a page of a sync";
        let (mirror, at) = (page.mirror, page.at);
        let key = self.data_key(self.db(), &mirror.org).await?;
        let tx = self.transaction(doing).await?;
        let claim = "UPDATE mirrors SET cursor = $3, began_at = COALESCE(began_at, $4), walk_began_at = $5 \
                     WHERE connector_id = $1 AND cursor IS NOT DISTINCT FROM $2";
        let began = micros(page.walk_began_at);
        let values = values![mirror.connector.as_str(), mirror.cursor.clone(), page.cursor, micros(at), began];
        if sql::run(&tx, doing, claim, values).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Kept::Overtaken);
        }
        let known = self.known(&tx, page).await?;
        let (mut newer, mut gone, mut told) = (Vec::new(), Vec::new(), 0);
        for change in page.changes {
            match change {
                Change::Is(seen)
                    if known.get(&seen.ticket.id).is_none_or(|one| one.updated_at <= seen.ticket.updated_at) =>
                {
                    newer.push(seen.as_ref());
                }
                Change::Is(_) => {}
                Change::Gone(id) => gone.push(id.as_str()),
            }
        }
        // Of one that is there twice, the later state.
        newer.sort_by(|one, other| {
            (&one.ticket.id, one.ticket.updated_at).cmp(&(&other.ticket.id, other.ticket.updated_at))
        });
        newer.reverse();
        newer.dedup_by(|one, other| one.ticket.id == other.ticket.id);
        for seen in &newer {
            told += self.tell_news(&tx, page, known.get(&seen.ticket.id).copied(), seen).await?;
        }
        let new = newer.iter().filter(|seen| !known.contains_key(&seen.ticket.id)).count();
        for seen in newer.chunks(AT_ONCE) {
            write(&tx, &key, mirror, seen).await?;
        }
        let removed = remove(&tx, &mirror.connector, &gone).await?;
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let more = "UPDATE mirrors SET tickets = tickets + $2, \"read\" = \"read\" + $3 WHERE connector_id = $1";
        let grown = count(new) - i64::try_from(removed).unwrap_or(i64::MAX);
        sql::run(&tx, doing, more, values![mirror.connector.as_str(), grown, count(page.changes.len())]).await?;
        if let Some(as_of) = page.as_of {
            let done = "UPDATE mirrors SET first_at = COALESCE(first_at, $2), caught_up_at = $2, as_of = $3, \"read\" = 0, \
                        walk_began_at = NULL, code = NULL, detail = NULL, failing_since = NULL WHERE connector_id = $1";
            sql::run(&tx, doing, done, values![mirror.connector.as_str(), micros(at), micros(as_of)]).await?;
            let old = "DELETE FROM ticket_writes WHERE connector_id = $1 AND written_at < $2";
            sql::run(&tx, doing, old, values![mirror.connector.as_str(), micros(page.news_since)]).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        self.connector_changed(&mirror.connector);
        if told > 0 {
            self.jobs_changed(&mirror.org, Kind::Event);
        }
        Ok(Kept::Yes { told })
    }

    /// What the mirror knows of the page's tickets.
    async fn known(
        &self,
        tx: &Patient<DatabaseTransaction>,
        page: &MirrorPage<'_>,
    ) -> Result<HashMap<String, Before>, StoreError> {
        let ids: Vec<&str> = page
            .changes
            .iter()
            .map(|change| match change {
                Change::Is(seen) => seen.ticket.id.as_str(),
                Change::Gone(id) => id,
            })
            .collect();
        let mut known = HashMap::new();
        for ids in ids.chunks(AT_ONCE) {
            let connector_at = ids.len() + 1;
            let sql = format!(
                "SELECT ticket_id, updated_at, replied_at FROM mirrored_tickets \
                 WHERE ticket_id IN ({}) AND connector_id = ${connector_at}",
                sql::list(ids.len())
            );
            let mut values: Vec<_> = ids.iter().map(|id| sea_orm::Value::from(*id)).collect();
            values.push(page.mirror.connector.as_str().into());
            for row in sql::all::<Known>(tx, "look which tickets are known", sql, values).await? {
                known.insert(row.ticket_id, Before { updated_at: row.updated_at, replied_at: row.replied_at });
            }
        }
        Ok(known)
    }

    /// Writes an event for what is news, with its job; answers how many.
    async fn tell_news(
        &self,
        tx: &Patient<DatabaseTransaction>,
        page: &MirrorPage<'_>,
        before: Option<Before>,
        seen: &Seen,
    ) -> Result<u64, StoreError> {
        let (doing, mirror, ticket) = ("tell what a sync found", page.mirror, &seen.ticket);
        let (Some(_), Some(as_of)) = (mirror.first_at, mirror.as_of) else { return Ok(0) };
        if ticket.updated_at < page.news_since {
            return Ok(0);
        }
        // What this service did itself is none; by what was done, since others may have done something else before.
        let own = "SELECT ticket_id AS id FROM ticket_writes \
                   WHERE connector_id = $1 AND ticket_id = $2 AND topic = $3 AND written_at >= $4";
        let mut told = 0;
        for topic in news(before, seen, as_of) {
            let happened_at = match topic {
                Topic::TicketCreated => ticket.created_at,
                Topic::TicketReplied => seen.replied_at.unwrap_or(ticket.updated_at),
                _ => ticket.updated_at,
            };
            let values =
                values![mirror.connector.as_str(), ticket.id.as_str(), topic.as_str(), micros(happened_at - SAME)];
            if sql::one::<sql::Id>(tx, doing, own, values).await?.is_none() {
                told += self.tell_once(tx, page, seen, topic).await?;
            }
        }
        Ok(told)
    }

    async fn tell_once(
        &self,
        tx: &Patient<DatabaseTransaction>,
        page: &MirrorPage<'_>,
        seen: &Seen,
        topic: Topic,
    ) -> Result<u64, StoreError> {
        let (doing, mirror, ticket) = ("tell what a sync found", page.mirror, &seen.ticket);
        let change = Told {
            connector: mirror.connector.as_str(),
            ticket: &ticket.id,
            topic,
            happened_at: Some(ticket.updated_at),
            received_at: page.at,
            by_sync: true,
        };
        if change.twin(tx).await?.is_some() {
            return Ok(0);
        }
        let id = DeliveryId::from(self.id("dlv"));
        let dedupe = format!("{BY_SYNC}:{}:{}:{}", ticket.id, topic.as_str(), ticket.updated_at.timestamp_micros());
        let job = NewJob {
            org: mirror.org.clone(),
            kind: Kind::Event,
            key: id.to_string(),
            connector: Some(mirror.connector.clone()),
            subject: id.to_string(),
            payload: json!({ "topic": topic.as_str(), "subject": ticket.id }),
            due_at: page.at,
            at: page.at,
        };
        let insert = "INSERT INTO deliveries (id, org_id, connector_id, endpoint_id, dedupe, topic, kind, subject, state, headers, \
                      received_at, happened_at) VALUES ($1, $2, $3, $4, $5, $6, $4, $7, 'received', $8, $9, $10) \
                      ON CONFLICT (connector_id, dedupe) DO NOTHING";
        let values = values![
            id.as_str(),
            mirror.org.as_str(),
            mirror.connector.as_str(),
            BY_SYNC,
            dedupe,
            topic.as_str(),
            ticket.id.as_str(),
            json!({}),
            micros(page.at),
            micros(ticket.updated_at),
        ];
        if sql::run(tx, doing, insert, values).await? == 0 {
            return Ok(0);
        }
        let job = jobs::enqueue(self, tx, &job).await?.id().clone();
        let put = "UPDATE deliveries SET job_id = $2 WHERE id = $1";
        sql::run(tx, doing, put, values![id.as_str(), job.as_str()]).await?;
        Ok(1)
    }
}

async fn write(
    tx: &Patient<DatabaseTransaction>,
    key: &DataKey,
    mirror: &Mirror,
    seen: &[&Seen],
) -> Result<(), StoreError> {
    let doing = "keep tickets";
    let (mut rows, mut values) = (Vec::with_capacity(seen.len()), values![mirror.connector.as_str()]);
    for Seen { ticket, replied_at } in seen.iter().copied() {
        let owner = owner(&mirror.connector, &ticket.id);
        let plain = serde_json::to_vec(ticket).map_err(|error| because(doing, error))?;
        let from = values.len();
        let places: Vec<_> = (1..=9).map(|number| format!("${}", from + number)).collect();
        rows.push(format!("($1, {})", places.join(", ")));
        values.extend(values![
            ticket.id.as_str(),
            micros(ticket.created_at),
            micros(ticket.updated_at),
            replied_at.map(micros),
            word(&ticket.status.value),
            ticket.priority.as_ref().map(|priority| word(&priority.value)),
            ticket.requester.as_ref().map(|requester| requester.id.clone()),
            tags(&ticket.tags),
            key.seal(place(&mirror.org, &owner), &plain),
        ]);
    }
    let sql = format!(
        "INSERT INTO mirrored_tickets (connector_id, ticket_id, created_at, updated_at, replied_at, status, priority, \
         requester_id, tags, sealed) VALUES {} ON CONFLICT (connector_id, ticket_id) DO UPDATE SET \
         created_at = excluded.created_at, updated_at = excluded.updated_at, replied_at = excluded.replied_at, \
         status = excluded.status, priority = excluded.priority, requester_id = excluded.requester_id, \
         tags = excluded.tags, sealed = excluded.sealed WHERE mirrored_tickets.updated_at <= excluded.updated_at",
        rows.join(", ")
    );
    sql::run(tx, doing, sql, values).await.map(|_| ())
}

async fn remove(tx: &Patient<DatabaseTransaction>, connector: &ConnectorId, gone: &[&str]) -> Result<u64, StoreError> {
    let mut removed = 0;
    for ids in gone.chunks(AT_ONCE) {
        let sql = format!(
            "DELETE FROM mirrored_tickets WHERE ticket_id IN ({}) AND connector_id = ${}",
            sql::list(ids.len()),
            ids.len() + 1
        );
        let mut values: Vec<_> = ids.iter().map(|id| sea_orm::Value::from(*id)).collect();
        values.push(connector.as_str().into());
        removed += sql::run(tx, "forget tickets", sql, values).await?;
    }
    Ok(removed)
}

/// The stable word of a shared value.
pub(super) fn word(value: &impl serde::Serialize) -> String {
    let word = serde_json::to_value(value).ok();
    word.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// Each between two line breaks, so that a whole one is looked for.
fn tags(tags: &[String]) -> String {
    tags.iter().fold("\n".to_owned(), |all, tag| all + &tag.replace(['\n', '\0'], " ").to_lowercase() + "\n")
}
