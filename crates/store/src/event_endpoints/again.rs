//! Events that are sent once more, with the id that they have, and tests.

use chrono::{DateTime, Utc};
use holdfast_core::{
    EventEndpointId, EventId, OrgId,
    event::{EventType, endpoint_test},
    job::Kind,
    ports::StoreError,
};
use sea_orm::FromQueryResult;
use serde_json::json;

use super::EventEndpoint;
use crate::{
    events::{self, NewEvent, Published},
    jobs,
    sql::{self, failed, micros, values},
    store::Store,
};

/// Events of one call, at most.
const MOST: usize = 1000;

/// Which events to send again.
#[derive(Clone, Copy, Debug)]
pub enum Replay<'a> {
    /// This one, whatever types the endpoint has chosen.
    One(&'a EventId),
    /// Those of its types since then, the oldest first, but for those that are under way to it already.
    Since(DateTime<Utc>),
}

/// What became of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// So many are on their way.
    pub count: usize,
    /// After so many, the moment of the next one: for the next call.
    pub next_since: Option<DateTime<Utc>>,
}

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tested {
    /// It is on its way.
    Sent(EventId),
    /// The same wish has sent it before.
    Already(EventId),
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    kind: String,
    at: DateTime<Utc>,
}

impl Store {
    /// Sends events again. `wish` names the call: the same one sends each event once more, and no more.
    pub async fn replay_events(
        &self,
        endpoint: &EventEndpoint,
        which: Replay<'_>,
        wish: &str,
        at: DateTime<Utc>,
    ) -> Result<Replayed, StoreError> {
        let doing = "send events again";
        let tx = self.transaction(doing).await?;
        let select = "SELECT e.id, e.kind, e.\"at\" FROM events e WHERE e.org_id = $1";
        let org = endpoint.org.as_str();
        let mut rows: Vec<Row> = match which {
            Replay::One(id) => {
                sql::all(&tx, doing, format!("{select} AND e.id = $2"), values![org, id.as_str()]).await?
            }
            Replay::Since(since) => {
                let sql = format!(
                    "{select} AND e.\"at\" >= $2 AND e.kind <> $3 AND NOT EXISTS (SELECT 1 FROM jobs j \
                     WHERE j.org_id = $1 AND j.kind = 'deliver' AND j.key = e.id || ':' || $4 \
                     AND j.state IN ('ready', 'waiting', 'running')) ORDER BY e.\"at\", e.id LIMIT {}",
                    MOST + 1
                );
                let values = values![org, micros(since), EventType::EndpointTest.as_str(), endpoint.id.as_str()];
                sql::all(&tx, doing, sql, values).await?
            }
        };
        let next_since = if rows.len() > MOST { rows.get(MOST).map(|row| row.at) } else { None };
        rows.truncate(MOST);
        let chosen = |row: &Row| {
            matches!(which, Replay::One(_))
                || endpoint.types.is_empty()
                || endpoint.types.iter().any(|kind| kind.as_str() == row.kind)
        };
        let mut count = 0;
        for row in rows.iter().filter(|row| chosen(row)) {
            let event = EventId::from(row.id.as_str());
            let key = format!("{event}:{}:again:{wish}", endpoint.id);
            jobs::enqueue(self, &tx, &events::delivery(&endpoint.org, &event, &endpoint.id, key, None, at)).await?;
            count += 1;
        }
        if count > 0 {
            self.audit(&tx, endpoint.change("event_endpoint.replayed").now(json!({ "events": count }))).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        self.jobs_changed(&endpoint.org, Kind::Deliver);
        Ok(Replayed { count, next_since })
    }

    /// Sends a test to this endpoint alone.
    pub async fn test_event_endpoint(
        &self,
        org: &OrgId,
        endpoint: &EventEndpointId,
        wish: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<Tested, StoreError> {
        let doing = "send a test";
        let event = NewEvent {
            org,
            kind: EventType::EndpointTest,
            key: wish.map(|wish| format!("test:{endpoint}:{wish}")),
            connector: None,
            data: endpoint_test(endpoint.as_str()),
            at,
        };
        let tx = self.transaction(doing).await?;
        let published = events::write(self, &tx, &event, std::slice::from_ref(endpoint)).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.jobs_changed(org, Kind::Deliver);
        match published {
            Published::Yes(id, _) => Ok(Tested::Sent(id)),
            Published::Already(id) => Ok(Tested::Already(id)),
            Published::ToNobody => Err(StoreError::new(doing)),
        }
    }
}
