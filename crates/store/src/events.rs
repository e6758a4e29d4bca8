//! Table `events`: what an org is told of at its endpoints. An event and a job for each endpoint that wants it are written in
//! the transaction of what it tells of, so that neither is there without the other. An org without an endpoint has none.

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, CredentialId, EventEndpointId, EventId, OrgId,
    credential::Trouble,
    event::{About, EventType},
    job::Kind,
    ports::{Changed, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use crate::{
    jobs::{self, NewJob},
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// Something to be told.
#[derive(Clone, Debug)]
pub struct NewEvent<'a> {
    /// Whom.
    pub org: &'a OrgId,
    /// What.
    pub kind: EventType,
    /// Names what it tells of, within the org: the same is told once, whoever tells it, however often. `None`: whoever
    /// tells it does so once.
    pub key: Option<String>,
    /// The connector that it is about.
    pub connector: Option<&'a ConnectorId>,
    /// What it says: see [`holdfast_core::event`]. No secrets.
    pub data: Value,
    /// When it happened.
    pub at: DateTime<Utc>,
}

/// What became of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// The org has no endpoint; nothing was written.
    ToNobody,
    /// It is written, with a job for each of so many endpoints.
    Yes(EventId, usize),
    /// It was told before.
    Already(EventId),
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// Its id, the same in every attempt.
    pub id: EventId,
    /// What it tells of.
    pub kind: EventType,
    /// What it says.
    pub data: Value,
    /// When it happened.
    pub at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
pub(crate) struct Row {
    id: String,
    kind: String,
    data: Value,
    at: DateTime<Utc>,
}

impl TryFrom<Row> for StoredEvent {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let kind = EventType::parse(&row.kind).ok_or_else(|| nonsense("events", "kind", &row.id))?;
        Ok(Self { kind, id: row.id.into(), data: row.data, at: row.at })
    }
}

/// Those of the org's endpoints that want events of this type now. `None`: it has no endpoint at all.
async fn takers(
    tx: &impl ConnectionTrait,
    org: &OrgId,
    kind: EventType,
) -> Result<Option<Vec<EventEndpointId>>, StoreError> {
    #[derive(FromQueryResult)]
    struct Row {
        id: String,
        types: Value,
        enabled: bool,
    }
    let sql = "SELECT id, types, enabled FROM event_endpoints WHERE org_id = $1 ORDER BY id";
    let all: Vec<Row> = sql::all(tx, "look whom to tell", sql, values![org.as_str()]).await?;
    if all.is_empty() {
        return Ok(None);
    }
    let wants = |row: &Row| row.enabled && is_wanted(&row.types, kind);
    Ok(Some(all.into_iter().filter(wants).map(|row| row.id.into()).collect()))
}

/// An empty list means all.
fn is_wanted(types: &Value, kind: EventType) -> bool {
    types.as_array().is_none_or(|types| types.is_empty() || types.iter().any(|one| one == kind.as_str()))
}

/// Writes the event and its jobs in the caller's transaction. After the commit the caller says that there are jobs of kind
/// `deliver`: [`Store::jobs_changed`].
pub(crate) async fn publish(
    store: &Store,
    tx: &impl ConnectionTrait,
    event: &NewEvent<'_>,
) -> Result<Published, StoreError> {
    match takers(tx, event.org, event.kind).await? {
        None => Ok(Published::ToNobody),
        Some(takers) => write(store, tx, event, &takers).await,
    }
}

/// Tells of a connector; what is said is made only where somebody hears it.
#[expect(clippy::too_many_arguments, reason = "an event, before it is known whether there is one")]
pub(crate) async fn tell_of(
    store: &Store,
    tx: &impl ConnectionTrait,
    org: &OrgId,
    connector: &ConnectorId,
    kind: EventType,
    key: Option<String>,
    at: DateTime<Utc>,
    data: impl FnOnce(&About) -> Value + Send,
) -> Result<Published, StoreError> {
    let Some(takers) = takers(tx, org, kind).await? else { return Ok(Published::ToNobody) };
    let Some(about) = about(tx, connector).await? else { return Ok(Published::ToNobody) };
    let event = NewEvent { org, kind, key, connector: Some(connector), data: data(&about), at };
    write(store, tx, &event, &takers).await
}

/// How events name a connector. `None`: it is gone.
pub(crate) async fn about(tx: &impl ConnectionTrait, connector: &ConnectorId) -> Result<Option<About>, StoreError> {
    #[derive(FromQueryResult)]
    struct Row {
        provider: String,
        account: String,
        name: String,
    }
    let sql = "SELECT provider, account, name FROM connectors WHERE id = $1";
    let row: Option<Row> = sql::one(tx, "look what an event is about", sql, values![connector.as_str()]).await?;
    Ok(row.map(|row| About { id: connector.clone(), provider: row.provider, account: row.account, name: row.name }))
}

/// The event, and a job for each of these endpoints.
pub(crate) async fn write(
    store: &Store,
    tx: &impl ConnectionTrait,
    event: &NewEvent<'_>,
    takers: &[EventEndpointId],
) -> Result<Published, StoreError> {
    let doing = "write an event down";
    let id = EventId::from(store.id("evt"));
    let key = event.key.as_deref().unwrap_or(id.as_str());
    let insert = "INSERT INTO events (id, org_id, kind, key, data, \"at\") VALUES ($1, $2, $3, $4, $5, $6) \
                  ON CONFLICT (org_id, key) DO NOTHING";
    let org = event.org.as_str();
    let values = values![id.as_str(), org, event.kind.as_str(), key, event.data.clone(), micros(event.at)];
    if sql::run(tx, doing, insert, values).await? == 0 {
        let there = "SELECT id FROM events WHERE org_id = $1 AND key = $2";
        let there: Option<sql::Id> = sql::one(tx, doing, there, values![org, key]).await?;
        return there.map(|there| Published::Already(there.id.into())).ok_or_else(|| StoreError::new(doing));
    }
    for endpoint in takers {
        let job = delivery(event.org, &id, endpoint, format!("{id}:{endpoint}"), event.connector, event.at);
        jobs::enqueue(store, tx, &job).await?;
    }
    Ok(Published::Yes(id, takers.len()))
}

/// The job that brings an event to an endpoint. Its lane is the endpoint.
pub(crate) fn delivery(
    org: &OrgId,
    event: &EventId,
    endpoint: &EventEndpointId,
    key: String,
    connector: Option<&ConnectorId>,
    at: DateTime<Utc>,
) -> NewJob {
    NewJob {
        org: org.clone(),
        kind: Kind::Deliver,
        key,
        connector: connector.cloned(),
        subject: endpoint.to_string(),
        payload: json!({ "event": event }),
        due_at: at,
        at,
    }
}

/// Tells of every connector of a credential that has just been marked. Answers whom.
pub(crate) async fn tell_degraded(
    store: &Store,
    tx: &impl ConnectionTrait,
    credential: &CredentialId,
    class: Trouble,
    at: DateTime<Utc>,
) -> Result<Vec<OrgId>, StoreError> {
    #[derive(FromQueryResult)]
    struct Row {
        id: String,
        org_id: String,
    }
    let doing = "tell of a degraded connector";
    let working = "SELECT id, org_id FROM connectors WHERE credential_id = $1 AND health = 'connected' ORDER BY id";
    let mut told = Vec::new();
    for row in sql::all::<Row>(tx, doing, working, values![credential.as_str()]).await? {
        let (org, connector) = (OrgId::from(row.org_id), ConnectorId::from(row.id));
        let data = |about: &About| about.degraded(class, micros(at));
        tell_of(store, tx, &org, &connector, EventType::ConnectorDegraded, None, at, data).await?;
        told.push(org);
    }
    Ok(told)
}

impl Store {
    /// After a commit that told these orgs of something.
    pub(crate) fn events_told(&self, orgs: &[OrgId]) {
        for org in orgs {
            self.jobs_changed(org, Kind::Deliver);
        }
    }

    /// Tells the org's endpoints, in a transaction of its own. With a key, whoever may be run twice tells once.
    pub async fn publish_event(&self, event: &NewEvent<'_>) -> Result<Published, StoreError> {
        let doing = "tell of an event";
        let tx = self.transaction(doing).await?;
        let published = publish(self, &tx, event).await?;
        tx.commit().await.map_err(failed(doing))?;
        if matches!(published, Published::Yes(_, 1..)) {
            self.jobs_changed(event.org, Kind::Deliver);
        }
        Ok(published)
    }

    /// One of the org's events. `None`: there is none, or it is forgotten.
    pub async fn find_event(&self, org: &OrgId, id: &str) -> Result<Option<StoredEvent>, StoreError> {
        let sql = "SELECT id, kind, data, \"at\" FROM events WHERE org_id = $1 AND id = $2";
        let row: Option<Row> = sql::one(self.db(), "read an event", sql, values![org.as_str(), id]).await?;
        row.map(StoredEvent::try_from).transpose()
    }

    /// Forgets events and attempts of before this moment, some at a time. `No`: nothing was left.
    pub async fn forget_events(&self, before: DateTime<Utc>) -> Result<Changed, StoreError> {
        let doing = "forget old events";
        let mut forgotten = 0;
        for table in ["event_attempts", "events"] {
            let free = sql::for_update_of_the_free(self.backend());
            let sql = format!(
                "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE \"at\" < $1 ORDER BY \"at\" LIMIT 1000{free})"
            );
            let tx = self.transaction(doing).await?;
            forgotten += sql::run(&tx, doing, sql, values![micros(before)]).await?;
            tx.commit().await.map_err(failed(doing))?;
        }
        Ok(sql::changed(forgotten))
    }
}
