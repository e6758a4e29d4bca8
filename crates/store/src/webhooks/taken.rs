//! Table `deliveries`: what arrived and was taken, each event once, with the job that works it off.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    DeliveryId, JobId,
    job::Kind,
    ports::{Changed, StoreError},
    webhook::{Event, Key},
};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use serde_json::{Value, json};

use super::{Endpoint, Owner, RESET, Receiver};
use crate::{
    jobs::{self, NewJob},
    patience::Patient,
    seal::Place,
    sql::{self, failed, micros, values},
    store::Store,
};

/// That an address takes deliveries is written down no more often, so that many at once do not wait for one row.
pub(super) const ACCEPTED_EVERY: TimeDelta = TimeDelta::seconds(5);

/// A proven delivery for one connector.
#[derive(Clone, Debug)]
pub struct Arrived<'a> {
    /// Where it came.
    pub endpoint: &'a Endpoint,
    /// For whom.
    pub receiver: &'a Receiver,
    /// What it says; the error: why that is not understood. Such a one is kept to be looked at, and worked off by nobody.
    pub event: Result<&'a Event, &'a str>,
    /// It waits for a reconnect.
    pub parked: bool,
    /// Its headers, masked.
    pub headers: Value,
    /// As it came.
    pub body: &'a [u8],
    /// When.
    pub at: DateTime<Utc>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenDelivery {
    /// It is stored, with its job where it has one.
    New(DeliveryId, Option<JobId>),
    /// The event was stored before.
    Again,
}

/// Where a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// Its job is in the queue.
    Received,
    /// It waits for its connector to be reconnected.
    Parked,
    /// It is worked off.
    Processed,
    /// Its job was given up, or discarded by a person.
    Failed,
    /// It was proven, and says nothing that is understood.
    Unreadable,
}

impl DeliveryState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Received, Self::Parked, Self::Processed, Self::Failed, Self::Unreadable];

    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Parked => "parked",
            Self::Processed => "processed",
            Self::Failed => "failed",
            Self::Unreadable => "unreadable",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// The unique name of an event among those of its connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedupe {
    name: String,
    /// The name that it would have had a moment ago, and since when that one counts.
    before: Option<(String, DateTime<Utc>)>,
}

impl Dedupe {
    /// Of a key, at this moment. Names of a window change with time; the one before still counts while it is not over.
    pub fn of(key: &Key, at: DateTime<Utc>) -> Self {
        match key {
            Key::Id(id) => Self { name: format!("id:{id}"), before: None },
            Key::Digest(digest, None) => Self { name: format!("digest:{digest}"), before: None },
            Key::Digest(digest, Some(window)) => {
                let window = window.max(&Duration::from_secs(1)).as_millis();
                let window = i64::try_from(window).unwrap_or(i64::MAX);
                let number = at.timestamp_millis().div_euclid(window);
                let since = at - TimeDelta::milliseconds(window);
                Self {
                    name: format!("digest:{digest}:{number}"),
                    before: Some((format!("digest:{digest}:{}", number - 1), since)),
                }
            }
        }
    }
}

impl Store {
    /// Stores a delivery and its job, both or neither.
    pub async fn take_delivery(&self, arrived: &Arrived<'_>) -> Result<TakenDelivery, StoreError> {
        let doing = "store a delivery";
        let (at, receiver) = (arrived.at, arrived.receiver);
        let id = DeliveryId::from(self.id("dlv"));
        let key = self.data_key(self.db(), &receiver.org).await?;
        let place = Place { org: &receiver.org, owner: id.as_str(), field: "delivery.body" };
        let sealed = key.seal(place, arrived.body);
        let dedupe = match arrived.event {
            Ok(event) => Dedupe::of(&event.key, at),
            Err(_) => Dedupe { name: format!("unreadable:{id}"), before: None },
        };
        let state = match arrived.event {
            Err(_) => DeliveryState::Unreadable,
            Ok(_) if arrived.parked => DeliveryState::Parked,
            Ok(_) => DeliveryState::Received,
        };
        let tx = self.transaction(doing).await?;
        if self.came_before(&tx, arrived, &dedupe).await? {
            tx.commit().await.map_err(failed(doing))?;
            return Ok(TakenDelivery::Again);
        }
        let job = match arrived.event {
            Ok(_) => Some(jobs::enqueue(self, &tx, &job(arrived, &id)).await?.id().clone()),
            Err(_) => None,
        };
        let insert = "INSERT INTO deliveries (id, org_id, connector_id, endpoint_id, dedupe, topic, kind, subject, state, \
                      detail, job_id, size_bytes, headers, sealed_body, received_at, settled_at, author, author_id, happened_at) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) \
                      ON CONFLICT (connector_id, dedupe) DO NOTHING";
        let values = values![
            id.as_str(),
            receiver.org.as_str(),
            receiver.connector.as_str(),
            arrived.endpoint.id.as_str(),
            dedupe.name.as_str(),
            arrived.event.map_or("other", |event| event.topic.as_str()),
            arrived.event.map_or("", |event| event.kind.as_str()),
            arrived.event.ok().and_then(|event| event.subject.clone()),
            state.as_str(),
            arrived.event.err().map(str::to_owned),
            job.as_ref().map(|job| job.as_str().to_owned()),
            i64::try_from(arrived.body.len()).unwrap_or(i64::MAX),
            arrived.headers.clone(),
            sealed,
            micros(at),
            (state == DeliveryState::Unreadable).then(|| micros(at)),
            arrived.event.ok().and_then(|event| event.author.as_str()).map(str::to_owned),
            arrived.event.ok().and_then(|event| event.author.id()).map(str::to_owned),
            arrived.event.ok().and_then(|event| event.at).map(micros),
        ];
        if sql::run(&tx, doing, insert, values).await? == 0 {
            // Another replica, or another request, was faster. Its job goes with ours undone.
            tx.rollback().await.map_err(failed(doing))?;
            self.count_repeat(self.db(), arrived, &dedupe.name).await?;
            return Ok(TakenDelivery::Again);
        }
        let first = self.note_first(&tx, arrived, at).await?;
        self.note_accepted(&tx, arrived.endpoint, at).await?;
        tx.commit().await.map_err(failed(doing))?;
        if first == Changed::Yes {
            self.connector_changed(&receiver.connector);
        }
        if job.is_some() {
            self.jobs_changed(&receiver.org, Kind::Event);
        }
        Ok(TakenDelivery::New(id, job))
    }

    /// Whether the event is there. It is the rarer case, but where names change with time the older one has to be looked for.
    async fn came_before(
        &self,
        tx: &Patient<DatabaseTransaction>,
        arrived: &Arrived<'_>,
        dedupe: &Dedupe,
    ) -> Result<bool, StoreError> {
        let Some((name, since)) = &dedupe.before else { return Ok(false) };
        let sql = "SELECT id FROM deliveries WHERE connector_id = $1 AND dedupe = $2 AND received_at > $3";
        let values = values![arrived.receiver.connector.as_str(), name.as_str(), micros(*since)];
        let there: Option<sql::Id> = sql::one(tx, "look for an event", sql, values).await?;
        if there.is_some() {
            self.count_repeat(tx, arrived, name).await?;
        }
        Ok(there.is_some())
    }

    async fn count_repeat(
        &self,
        db: &impl ConnectionTrait,
        arrived: &Arrived<'_>,
        name: &str,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE deliveries SET repeats = repeats + 1 WHERE connector_id = $1 AND dedupe = $2";
        let values = values![arrived.receiver.connector.as_str(), name];
        sql::run(db, "count an event that came again", sql, values).await?;
        self.note_accepted(db, arrived.endpoint, arrived.at).await
    }

    /// The first one that an address takes is news: whoever has set it up by hand waits for it.
    async fn note_first(
        &self,
        tx: &Patient<DatabaseTransaction>,
        arrived: &Arrived<'_>,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let endpoint = arrived.endpoint;
        let (Owner::Connector(connector), Some(org), None) = (&endpoint.owner, &endpoint.org, endpoint.first_at) else {
            return Ok(Changed::No);
        };
        let sql = "UPDATE webhook_endpoints SET first_at = $2 WHERE id = $1 AND first_at IS NULL";
        let values = values![endpoint.id.as_str(), micros(at)];
        let first = sql::changed(sql::run(tx, "note a first delivery", sql, values).await?);
        if first == Changed::Yes {
            self.webhook_line(tx, org, connector, "first_delivery", None, None, at).await?;
        }
        Ok(first)
    }

    /// The address takes deliveries: what was turned away before counts no more.
    pub(crate) async fn note_accepted(
        &self,
        db: &impl ConnectionTrait,
        endpoint: &Endpoint,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let lately = endpoint.accepted_at.is_some_and(|last| at - last < ACCEPTED_EVERY);
        if lately && endpoint.refused == 0 && endpoint.failures == 0 {
            return Ok(());
        }
        // Where only the moment is to be written, whoever is at it does that for all: nobody waits for the row.
        let nothing_else = endpoint.refused == 0 && endpoint.failures == 0;
        let free = if nothing_else { sql::for_update_of_the_free(db.get_database_backend()) } else { "" };
        // An address that has said for good that it is gone is not brought back by what was on its way.
        let sql = format!(
            "UPDATE webhook_endpoints SET first_at = COALESCE(first_at, $2), accepted_at = $2, {RESET} \
             WHERE id = (SELECT id FROM webhook_endpoints WHERE id = $1 AND gone_at IS NULL{free}) AND gone_at IS NULL"
        );
        sql::run(db, "note that a webhook works", sql, values![endpoint.id.as_str(), micros(at)]).await.map(|_| ())
    }

    /// A delivery that was for nobody here, or asked whether somebody is there: it proves that the address works.
    pub async fn note_heard(&self, endpoint: &Endpoint, at: DateTime<Utc>) -> Result<(), StoreError> {
        self.note_accepted(self.db(), endpoint, at).await
    }

    /// Says what became of an event. `No`: it was said before, or there is no such delivery.
    pub async fn settle_delivery(
        &self,
        id: &DeliveryId,
        state: DeliveryState,
        detail: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let sql = "UPDATE deliveries SET state = $2, detail = $3, settled_at = $4 \
                   WHERE id = $1 AND state IN ('received', 'parked', 'failed') AND state <> $2";
        let values = values![id.as_str(), state.as_str(), detail.map(str::to_owned), micros(at)];
        Ok(sql::changed(sql::run(self.db(), "settle a delivery", sql, values).await?))
    }

    /// Events follow their jobs: one whose job was given up, or discarded by a person, has failed, for the job's reason; one that
    /// was received when its connector still worked, and whose job waits for the reconnect now, is parked. Either may be
    /// processed after all. Answers how many have changed.
    pub async fn follow_jobs(&self, at: DateTime<Utc>) -> Result<u64, StoreError> {
        let of_job = "FROM jobs j WHERE j.id = deliveries.job_id AND j.state";
        let given_up = format!("{of_job} IN ('dead', 'discarded')");
        let fail = format!(
            "UPDATE deliveries SET state = 'failed', settled_at = $1, detail = (SELECT j.detail {given_up}) \
             WHERE state IN ('received', 'parked') AND EXISTS (SELECT 1 {given_up})"
        );
        let failed = sql::run(self.db(), "look for events that were given up", fail, values![micros(at)]).await?;
        let park = format!(
            "UPDATE deliveries SET state = 'parked' WHERE state = 'received' AND EXISTS (SELECT 1 {of_job} = 'parked')"
        );
        Ok(failed + sql::run(self.db(), "look for events that wait", park, values![]).await?)
    }

    /// Forgets the bodies of deliveries from before `bodies`, and the ones from before `rows` wholly; an event that comes
    /// again after that is a new one. At most so many of each at a time; answers how many that were.
    pub async fn forget_deliveries(
        &self,
        bodies: DateTime<Utc>,
        rows: DateTime<Utc>,
        most: u64,
    ) -> Result<u64, StoreError> {
        let doing = "forget old deliveries";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let waiting = "state NOT IN ('received', 'parked')";
        let sql = format!(
            "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE received_at < $1 AND {waiting} LIMIT $2)"
        );
        let gone = sql::run(self.db(), doing, sql, values![micros(rows), most]).await?;
        let sql = format!(
            "UPDATE deliveries SET sealed_body = NULL WHERE id IN (SELECT id FROM deliveries \
             WHERE received_at < $1 AND sealed_body IS NOT NULL AND {waiting} LIMIT $2)"
        );
        Ok(gone + sql::run(self.db(), doing, sql, values![micros(bodies), most]).await?)
    }

    /// Events that a connector's addresses took between two moments.
    pub async fn deliveries_between(
        &self,
        connector: &holdfast_core::ConnectorId,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let sql = "SELECT COUNT(*) AS number FROM deliveries WHERE connector_id = $1 AND received_at > $2 \
                   AND received_at <= $3 AND state <> 'unreadable'";
        let values = values![connector.as_str(), micros(from), micros(to)];
        let found: Option<sql::Number> = sql::one(self.db(), "count what came", sql, values).await?;
        Ok(found.map_or(0, |found| found.count()))
    }

    /// Events of a connector that wait for its reconnect, counted up to `most`.
    pub async fn parked_deliveries(
        &self,
        connector: &holdfast_core::ConnectorId,
        most: u64,
    ) -> Result<u64, StoreError> {
        let sql = "SELECT COUNT(*) AS number FROM (SELECT 1 AS one FROM deliveries \
                   WHERE connector_id = $1 AND state = 'parked' LIMIT $2) waiting";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let found: Option<sql::Number> =
            sql::one(self.db(), "count what waits", sql, values![connector.as_str(), most]).await?;
        Ok(found.map_or(0, |found| found.count()))
    }
}

/// One event, one job: the delivery's id is its key.
fn job(arrived: &Arrived<'_>, id: &DeliveryId) -> NewJob {
    let event = arrived.event.ok();
    NewJob {
        org: arrived.receiver.org.clone(),
        kind: Kind::Event,
        key: id.to_string(),
        connector: Some(arrived.receiver.connector.clone()),
        subject: id.to_string(),
        payload: json!({
            "topic": event.map(|event| event.topic.as_str()),
            "subject": event.and_then(|event| event.subject.as_deref()),
        }),
        due_at: arrived.at,
        at: arrived.at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_window_overlap_by_one() {
        let at = |secs| DateTime::from_timestamp(secs, 0).unwrap();
        let key = Key::Digest("d".to_owned(), Some(Duration::from_mins(10)));
        let (early, late) = (Dedupe::of(&key, at(599)), Dedupe::of(&key, at(601)));
        assert_eq!(Dedupe::of(&key, at(0)).name, early.name);
        assert_ne!(early.name, late.name);
        assert_eq!(late.before, Some((early.name, at(1))));
        assert_eq!(Dedupe::of(&Key::Id("x".to_owned()), at(1)), Dedupe::of(&Key::Id("x".to_owned()), at(9999)));
    }
}
