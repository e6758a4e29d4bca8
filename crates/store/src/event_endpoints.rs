//! Table `event_endpoints`: where an org wants its events, and the secrets that they are signed with.
//!
//! - [`attempts`]: what became of each attempt, and when an endpoint is not tried any more.
//! - [`again`]: events that are sent once more, and tests.

mod again;
mod attempts;

use chrono::{DateTime, Utc};
use holdfast_core::{
    EventEndpointId, OrgId,
    event::EventType,
    job::Kind,
    ports::{Changed, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{
    audit::{self, CHANGED, Change},
    jobs::end_deliveries,
    seal::Place,
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

pub use again::{Replay, Replayed, Tested};
pub use attempts::{AttemptMade, EventAttempt};

/// Where an org wants its events.
#[derive(Clone, Debug)]
pub struct EventEndpoint {
    /// Its id.
    pub id: EventEndpointId,
    /// Whose.
    pub org: OrgId,
    /// Where to.
    pub url: String,
    /// What people call it; may be empty.
    pub description: String,
    /// Which types; empty: all.
    pub types: Vec<EventType>,
    /// Whether events are sent there.
    pub enabled: bool,
    /// What they are signed with: the current secret, then the one before while it counts.
    pub secrets: Vec<SecretString>,
    /// Until when the one before counts.
    pub previous_until: Option<DateTime<Utc>>,
    /// When the current one was made.
    pub secret_at: DateTime<Utc>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When an event was taken last.
    pub delivered_at: Option<DateTime<Utc>>,
    /// Since when every attempt has failed.
    pub failing_since: Option<DateTime<Utc>>,
    /// Attempts that failed since then.
    pub failures: u64,
    /// Since when it is disabled.
    pub disabled_at: Option<DateTime<Utc>>,
    /// Why we stopped by ourselves; `None`: a person did, or nobody.
    pub stopped: Option<Stopped>,
}

impl EventEndpoint {
    /// For the audit log. What its address holds beyond the host may be a secret.
    fn fields(&self) -> Value {
        json!({
            "url": audit::address(&self.url), "description": self.description, "types": words(&self.types),
            "enabled": self.enabled,
        })
    }

    fn change(&self, action: &'static str) -> Change<'_> {
        Change::new(&self.org, action, ("event_endpoint", self.id.as_str(), &self.description))
    }
}

/// Why an endpoint gets nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stopped {
    /// It answered that it is gone (410).
    Gone,
    /// Every attempt has failed for too long.
    Failing,
}

impl Stopped {
    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Gone, Self::Failing].into_iter().find(|reason| reason.as_str() == word)
    }
}

/// An endpoint to be made.
#[derive(Clone, Debug)]
pub struct NewEventEndpoint<'a> {
    /// Whose.
    pub org: &'a OrgId,
    /// Where to, checked.
    pub url: &'a str,
    /// What people call it.
    pub description: &'a str,
    /// Which types; empty: all.
    pub types: &'a [EventType],
    /// What its events are signed with.
    pub secret: &'a SecretString,
    /// The idempotency key of the wish: the same makes one endpoint.
    pub wish: Option<&'a str>,
    /// When.
    pub at: DateTime<Utc>,
}

/// What became of a [`NewEventEndpoint`].
#[derive(Clone, Debug)]
pub enum MadeEventEndpoint {
    /// It was made.
    New(Box<EventEndpoint>),
    /// The same wish has made it before.
    Again(Box<EventEndpoint>),
    /// The org has so many that it gets no more.
    TooMany,
}

/// What to change; what is absent stays.
#[derive(Clone, Debug, Default)]
pub struct EventEndpointChange<'a> {
    /// Where to, checked.
    pub url: Option<&'a str>,
    /// What people call it.
    pub description: Option<&'a str>,
    /// Which types; empty: all.
    pub types: Option<&'a [EventType]>,
    /// Whether events are sent there. Enabled anew, it has failed never.
    pub enabled: Option<bool>,
}

/// Another secret for an endpoint.
#[derive(Clone, Debug)]
pub struct NewEventSecret<'a> {
    /// The secret.
    pub secret: &'a SecretString,
    /// The one before signs too until then; `None`: it is over at once.
    pub previous_until: Option<DateTime<Utc>>,
    /// The idempotency key of the wish: the same makes one secret.
    pub wish: Option<&'a str>,
    /// When.
    pub at: DateTime<Utc>,
}

/// Endpoints of one org, at most.
pub const MOST_EVENT_ENDPOINTS: u64 = 50;

const SECRET: &str = "event_endpoint.secret";
const SELECT: &str = "SELECT id, org_id, url, description, types, enabled, sealed_secret, sealed_previous, previous_until, \
                      secret_at, created_at, delivered_at, failing_since, failures, disabled_at, stopped \
                      FROM event_endpoints WHERE org_id = $1";

#[derive(FromQueryResult)]
struct Row {
    id: String,
    org_id: String,
    url: String,
    description: String,
    types: Value,
    enabled: bool,
    sealed_secret: Vec<u8>,
    sealed_previous: Option<Vec<u8>>,
    previous_until: Option<DateTime<Utc>>,
    secret_at: DateTime<Utc>,
    created_at: DateTime<Utc>,
    delivered_at: Option<DateTime<Utc>>,
    failing_since: Option<DateTime<Utc>>,
    failures: i64,
    disabled_at: Option<DateTime<Utc>>,
    stopped: Option<String>,
}

/// As they are stored.
fn words(types: &[EventType]) -> Value {
    types.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().into()
}

impl Store {
    /// The org's endpoints, oldest first.
    pub async fn event_endpoints(&self, org: &OrgId, now: DateTime<Utc>) -> Result<Vec<EventEndpoint>, StoreError> {
        let sql = format!("{SELECT} ORDER BY id");
        let rows: Vec<Row> = sql::all(self.db(), "list event endpoints", sql, values![org.as_str()]).await?;
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            all.push(self.event_endpoint(self.db(), row, now).await?);
        }
        Ok(all)
    }

    /// One of them.
    pub async fn find_event_endpoint(
        &self,
        org: &OrgId,
        id: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<EventEndpoint>, StoreError> {
        let sql = format!("{SELECT} AND id = $2");
        self.one_event_endpoint(self.db(), sql, values![org.as_str(), id], now).await
    }

    /// Makes one. The same wish makes no second one, and changes nothing.
    pub async fn create_event_endpoint(&self, new: &NewEventEndpoint<'_>) -> Result<MadeEventEndpoint, StoreError> {
        let doing = "make an event endpoint";
        let id = EventEndpointId::from(self.id("eep"));
        let tx = self.transaction(doing).await?;
        sql::alone(&tx, doing, &format!("event endpoints {}", new.org)).await?;
        if let Some(wish) = new.wish {
            let sql = format!("{SELECT} AND wish = $2");
            if let Some(found) = self.one_event_endpoint(&tx, sql, values![new.org.as_str(), wish], new.at).await? {
                tx.rollback().await.map_err(failed(doing))?;
                return Ok(MadeEventEndpoint::Again(Box::new(found)));
            }
        }
        let count = "SELECT COUNT(*) AS number FROM event_endpoints WHERE org_id = $1";
        let count: Option<sql::Number> = sql::one(&tx, doing, count, values![new.org.as_str()]).await?;
        if count.is_some_and(|count| count.count() >= MOST_EVENT_ENDPOINTS) {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(MadeEventEndpoint::TooMany);
        }
        let key = self.data_key(&tx, new.org).await?;
        let sealed = key.seal_text(Place { org: new.org, owner: id.as_str(), field: SECRET }, new.secret);
        let insert = "INSERT INTO event_endpoints (id, org_id, url, description, types, enabled, sealed_secret, secret_at, \
                      created_at, wish) VALUES ($1, $2, $3, $4, $5, TRUE, $6, $7, $7, $8)";
        let values = values![
            id.as_str(),
            new.org.as_str(),
            new.url,
            new.description,
            words(new.types),
            sealed,
            micros(new.at),
            new.wish.map(str::to_owned),
        ];
        sql::run(&tx, doing, insert, values).await?;
        let sql = format!("{SELECT} AND id = $2");
        let made = self.one_event_endpoint(&tx, sql, values![new.org.as_str(), id.as_str()], new.at).await?;
        if let Some(made) = &made {
            self.audit(&tx, made.change("event_endpoint.created").now(made.fields())).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        made.map(|made| MadeEventEndpoint::New(Box::new(made))).ok_or_else(|| StoreError::new(doing))
    }

    /// Changes one; answers it as it is then. `None`: the org has no such endpoint.
    pub async fn change_event_endpoint(
        &self,
        org: &OrgId,
        id: &str,
        change: &EventEndpointChange<'_>,
        at: DateTime<Utc>,
    ) -> Result<Option<EventEndpoint>, StoreError> {
        let doing = "change an event endpoint";
        let tx = self.transaction(doing).await?;
        let key = || values![org.as_str(), id];
        let before = self.one_event_endpoint(&tx, format!("{SELECT} AND id = $2"), key(), at).await?;
        let set = async |what: &str, value: Option<sea_orm::Value>| {
            let sql = format!("UPDATE event_endpoints SET {what} WHERE org_id = $1 AND id = $2");
            sql::run(&tx, doing, sql, key().into_iter().chain(value).collect()).await
        };
        if let Some(url) = change.url {
            set("url = $3", Some(url.into())).await?;
        }
        if let Some(description) = change.description {
            set("description = $3", Some(description.into())).await?;
        }
        if let Some(types) = change.types {
            set("types = $3", Some(words(types).into())).await?;
        }
        match change.enabled {
            Some(true) => {
                let what = "enabled = TRUE, disabled_at = NULL, stopped = NULL, told_at = NULL, failing_since = NULL, \
                            failures = 0";
                set(what, None).await?;
            }
            Some(false) => {
                let what = "disabled_at = CASE WHEN enabled THEN $3 ELSE disabled_at END, enabled = FALSE";
                set(what, Some(micros(at).into())).await?;
            }
            None => {}
        }
        let changed = self.one_event_endpoint(&tx, format!("{SELECT} AND id = $2"), key(), at).await?;
        if let (Some(before), Some(now)) = (&before, &changed) {
            self.audit(&tx, now.change("event_endpoint.changed").was(before.fields()).now(now.fields())).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(changed)
    }

    /// Gives it another secret; answers it with its secrets as they are then. `None`: the org has no such endpoint.
    pub async fn rotate_event_secret(
        &self,
        org: &OrgId,
        id: &str,
        new: &NewEventSecret<'_>,
    ) -> Result<Option<(EventEndpoint, Changed)>, StoreError> {
        let doing = "change an event endpoint's secret";
        let tx = self.transaction(doing).await?;
        let key = self.data_key(&tx, org).await?;
        let sealed = key.seal_text(Place { org, owner: id, field: SECRET }, new.secret);
        let sql = "UPDATE event_endpoints SET \
                   sealed_previous = CASE WHEN $4 IS NULL THEN NULL ELSE sealed_secret END, previous_until = $4, \
                   sealed_secret = $3, secret_at = $5, secret_wish = $6 \
                   WHERE org_id = $1 AND id = $2 AND ($6 IS NULL OR secret_wish IS NULL OR secret_wish <> $6)";
        let until = new.previous_until.map(micros);
        let wish = new.wish.map(str::to_owned);
        let values = values![org.as_str(), id, sealed, until, micros(new.at), wish];
        let changed = sql::changed(sql::run(&tx, doing, sql, values).await?);
        let sql = format!("{SELECT} AND id = $2");
        let found = self.one_event_endpoint(&tx, sql, values![org.as_str(), id], new.at).await?;
        if let Some(found) = found.as_ref().filter(|_| changed == Changed::Yes) {
            let now = json!({ "secret": CHANGED, "previous_until": found.previous_until });
            self.audit(&tx, found.change("event_endpoint.secret_rotated").now(now)).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(found.map(|found| (found, changed)))
    }

    /// Deletes it with its attempts; what was to be delivered there is over. `No`: the org has no such endpoint.
    pub async fn delete_event_endpoint(&self, org: &OrgId, id: &str, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let doing = "delete an event endpoint";
        let tx = self.transaction(doing).await?;
        let sql = format!("{SELECT} AND id = $2");
        let before = self.one_event_endpoint(&tx, sql, values![org.as_str(), id], at).await?;
        let sql = "DELETE FROM event_endpoints WHERE org_id = $1 AND id = $2";
        let deleted = sql::changed(sql::run(&tx, doing, sql, values![org.as_str(), id]).await?);
        if let Some(before) = before.filter(|_| deleted == Changed::Yes) {
            self.audit(&tx, before.change("event_endpoint.deleted").was(before.fields())).await?;
            end_deliveries(&tx, &id.into(), at).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        if deleted == Changed::Yes {
            self.jobs_changed(org, Kind::Deliver);
        }
        Ok(deleted)
    }

    async fn one_event_endpoint(
        &self,
        db: &impl ConnectionTrait,
        sql: String,
        values: Vec<sea_orm::Value>,
        now: DateTime<Utc>,
    ) -> Result<Option<EventEndpoint>, StoreError> {
        match sql::one(db, "read an event endpoint", sql, values).await? {
            Some(row) => Ok(Some(self.event_endpoint(db, row, now).await?)),
            None => Ok(None),
        }
    }

    async fn event_endpoint(
        &self,
        db: &impl ConnectionTrait,
        row: Row,
        now: DateTime<Utc>,
    ) -> Result<EventEndpoint, StoreError> {
        let org = OrgId::from(row.org_id.as_str());
        let key = self.data_key(db, &org).await?;
        let open = |sealed: &[u8]| {
            let place = Place { org: &org, owner: &row.id, field: SECRET };
            key.open_text(place, sealed).map_err(|error| sql::because("open an event endpoint's secret", error))
        };
        let previous_until = row.previous_until.filter(|until| now < *until);
        let mut secrets = vec![open(&row.sealed_secret)?];
        if let Some(previous) = row.sealed_previous.as_deref().filter(|_| previous_until.is_some()) {
            secrets.push(open(previous)?);
        }
        let word = |word: &str| EventType::parse(word);
        let types = row.types.as_array().map(|types| types.iter().filter_map(|one| one.as_str()).filter_map(word));
        let stopped = match row.stopped.as_deref() {
            None => None,
            Some(word) => Some(Stopped::parse(word).ok_or_else(|| nonsense("event_endpoints", "stopped", &row.id))?),
        };
        Ok(EventEndpoint {
            types: types.map(Iterator::collect).unwrap_or_default(),
            stopped,
            secrets,
            previous_until,
            id: row.id.into(),
            org,
            url: row.url,
            description: row.description,
            enabled: row.enabled,
            secret_at: row.secret_at,
            created_at: row.created_at,
            delivered_at: row.delivered_at,
            failing_since: row.failing_since,
            failures: row.failures.unsigned_abs(),
            disabled_at: row.disabled_at,
        })
    }
}
