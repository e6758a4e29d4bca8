//! Tables `provider_migrations` and `migration_connectors`: connectors that have to be reconnected since their provider
//! changes how access works. Whom it concerns is fixed at the start; who has acted is seen from the grants, so that no
//! mark can go stale.

use std::collections::HashMap;

use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeDelta, Utc};
use holdfast_core::{
    ConnectorId, Health, OrgId,
    ports::{Changed, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult, Value};
use serde_json::json;

use crate::{
    audit::Change,
    mails::ADMINS,
    row,
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// Ahead of the deadline, those who have not acted are reminded.
const REMIND: Days = Days::new(7);
/// Not when they were told only shortly before.
const BETWEEN: TimeDelta = TimeDelta::days(7);
/// Ids in one statement.
const IDS: usize = 200;

/// A migration to be started.
#[derive(Clone, Debug)]
pub struct NewMigration<'a> {
    /// The provider's id.
    pub provider: &'a str,
    /// Why, in the operator's words; one line.
    pub reason: Option<&'a str>,
    /// The last day.
    pub deadline: Option<NaiveDate>,
    /// Only connectors whose token has no end and nothing that renews it.
    pub only_endless: bool,
    /// Now.
    pub at: DateTime<Utc>,
    /// Look whom it would concern, and change nothing.
    pub dry_run: bool,
}

/// What became of a [`NewMigration`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationStart {
    /// It is under way, or would be.
    Started(MigrationProgress),
    /// The provider has this one already.
    UnderWay(String),
    /// It would concern nobody; nothing was changed.
    Nobody,
}

/// A provider's migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderMigration {
    /// Its id.
    pub id: String,
    /// The provider's id.
    pub provider: String,
    /// Why.
    pub reason: Option<String>,
    /// The last day.
    pub deadline: Option<NaiveDate>,
    /// Whether it concerns only tokens without an end.
    pub only_endless: bool,
    /// When it was started.
    pub started_at: DateTime<Utc>,
    /// When it was ended; `None`: it is under way.
    pub ended_at: Option<DateTime<Utc>>,
}

/// A migration with how far it is, of one org or of all. What was disconnected or deleted counts no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationProgress {
    /// Which.
    pub migration: ProviderMigration,
    /// Orgs that it concerns.
    pub orgs: u64,
    /// Connectors that it concerns.
    pub connectors: u64,
    /// So many of them have to be reconnected still.
    pub open: u64,
}

/// How far an org is with a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrgProgress {
    /// The org's name.
    pub org: String,
    /// Its connectors that the migration concerns.
    pub connectors: u64,
    /// So many of them have to be reconnected still.
    pub open: u64,
    /// Those who can be told, and may reconnect.
    pub admins: u64,
    /// When those of then were told.
    pub told_at: Option<DateTime<Utc>>,
}

/// A connector that nobody has reconnected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenConnector {
    /// Its id.
    pub id: ConnectorId,
    /// The org's name.
    pub org: String,
    /// The account's id at the provider.
    pub account: String,
    /// What people call it.
    pub name: String,
    /// Whether it works.
    pub health: Health,
}

/// That a connector has to be reconnected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MustReconnect {
    /// The migration's id.
    pub migration: String,
    /// The last day.
    pub by: Option<NaiveDate>,
    /// Why.
    pub reason: Option<String>,
}

#[derive(FromQueryResult)]
struct Line {
    id: String,
    provider: String,
    reason: Option<String>,
    deadline: Option<String>,
    only_endless: bool,
    started_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    orgs: i64,
    connectors: i64,
    open: i64,
}

/// Those that still work with something; others have nothing that could be replaced in place.
const HELD: &str = "c.health IN ('connected', 'auth_failed')";
/// A token without an end, and nothing that renews it.
const ENDLESS: &str = "k.kind = 'tokens' AND k.expires_at IS NULL AND k.due_at IS NULL";

/// Whether it has to be reconnected still; `g`, `m`, `c` and `k` are migration, its connector, connector and credential. A new
/// grant of one connector serves all on the same credential.
pub(crate) fn open() -> String {
    format!(
        "{HELD} AND (NOT g.only_endless OR ({ENDLESS})) AND NOT EXISTS (SELECT 1 FROM connectors c2 \
         JOIN migration_connectors m2 ON m2.connector_id = c2.id AND m2.migration_id = m.migration_id \
         WHERE c2.credential_id = c.credential_id AND c2.grant_sequence > m2.grant_sequence)"
    )
}

/// Whether a migration that is under way wants this connector reconnected; `c` and `k` are connector and credential.
pub(crate) fn must_reconnect() -> String {
    format!(
        "EXISTS (SELECT 1 FROM migration_connectors m JOIN provider_migrations g ON g.id = m.migration_id \
         WHERE m.connector_id = c.id AND g.ended_at IS NULL AND {})",
        open()
    )
}

const JOINED: &str = "FROM provider_migrations g JOIN migration_connectors m ON m.migration_id = g.id \
                      JOIN connectors c ON c.id = m.connector_id JOIN credentials k ON k.id = c.credential_id";

impl Store {
    /// Starts a migration for the connectors that work, or have failed, with a grant of before this moment.
    pub async fn start_migration(&self, new: &NewMigration<'_>) -> Result<MigrationStart, StoreError> {
        let doing = "start a provider's migration";
        let id = self.id("mig");
        let tx = self.transaction(doing).await?;
        let insert = "INSERT INTO provider_migrations (id, provider, reason, deadline, only_endless, started_at, remind_at) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
        let values = values![
            id.as_str(),
            new.provider,
            new.reason.map(str::to_owned),
            new.deadline.map(|day| day.to_string()),
            new.only_endless,
            micros(new.at),
            new.deadline.and_then(|day| remind_at(day, new.at)),
        ];
        if sql::run(&tx, doing, insert, values).await? == 0 {
            let other = "SELECT id FROM provider_migrations WHERE provider = $1 AND ended_at IS NULL";
            let other: Option<sql::Id> = sql::one(&tx, doing, other, values![new.provider]).await?;
            tx.rollback().await.map_err(failed(doing))?;
            return other.map(|other| MigrationStart::UnderWay(other.id)).ok_or_else(|| StoreError::new(doing));
        }
        let only = if new.only_endless { format!(" AND {ENDLESS}") } else { String::new() };
        let concerned = format!(
            "INSERT INTO migration_connectors (migration_id, connector_id, org_id, grant_sequence) \
             SELECT $1, c.id, c.org_id, c.grant_sequence FROM connectors c JOIN credentials k ON k.id = c.credential_id \
             WHERE c.provider = $2 AND {HELD}{only}"
        );
        sql::run(&tx, doing, concerned, values![id.as_str(), new.provider]).await?;
        let found = progress(&tx, "g.id = $1", values![id.as_str()]).await?.pop();
        match found.filter(|found| found.connectors > 0) {
            Some(found) if !new.dry_run => {
                let now = json!({
                    "reason": new.reason, "deadline": new.deadline, "only_endless": new.only_endless,
                    "connectors": found.connectors,
                });
                let line = Change::new(None, "migration.started", ("migration", &id, new.provider)).now(now);
                self.audit(&tx, line).await?;
                tx.commit().await.map_err(failed(doing))?;
                Ok(MigrationStart::Started(found))
            }
            found => {
                tx.rollback().await.map_err(failed(doing))?;
                Ok(found.map_or(MigrationStart::Nobody, MigrationStart::Started))
            }
        }
    }

    /// Ends it: nobody is asked or told any more. `No`: there is none of this id, or it has ended.
    pub async fn end_migration(&self, id: &str, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let doing = "end a provider's migration";
        let sql = "UPDATE provider_migrations SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL \
                   RETURNING provider AS id";
        let tx = self.transaction(doing).await?;
        let ended: Option<sql::Id> = sql::one(&tx, doing, sql, values![id, micros(at)]).await?;
        if let Some(provider) = &ended {
            self.audit(&tx, Change::new(None, "migration.ended", ("migration", id, &provider.id))).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(if ended.is_none() { Changed::No } else { Changed::Yes })
    }

    /// All of them, the newest first.
    pub async fn migrations(&self) -> Result<Vec<MigrationProgress>, StoreError> {
        progress(self.db(), "1 = 1", Vec::new()).await
    }

    /// One, ended or not.
    pub async fn find_migration(&self, id: &str) -> Result<Option<MigrationProgress>, StoreError> {
        Ok(progress(self.db(), "g.id = $1", values![id]).await?.pop())
    }

    /// Those that are under way and concern this org, with how far the org is; the newest first.
    pub async fn migrations_of(&self, org: &OrgId) -> Result<Vec<MigrationProgress>, StoreError> {
        progress(self.db(), "m.org_id = $1 AND g.ended_at IS NULL", values![org.as_str()]).await
    }

    /// How far each org is, by name.
    pub async fn migration_orgs(&self, id: &str) -> Result<Vec<OrgProgress>, StoreError> {
        #[derive(FromQueryResult)]
        struct Org {
            name: String,
            connectors: i64,
            open: i64,
            admins: i64,
            told_at: Option<DateTime<Utc>>,
        }
        let sql = format!(
            "SELECT o.name, COUNT(*) AS connectors, COUNT(CASE WHEN {} THEN 1 END) AS open, MIN(m.told_at) AS told_at, \
             (SELECT COUNT(*) FROM users u WHERE u.org_id = o.id AND {ADMINS}) AS admins \
             {JOINED} JOIN orgs o ON o.id = m.org_id WHERE g.id = $1 AND {HELD} GROUP BY o.id, o.name ORDER BY o.name",
            open()
        );
        let rows: Vec<Org> = sql::all(self.db(), "look how far orgs are", sql, values![id]).await?;
        let read = |row: Org| OrgProgress {
            org: row.name,
            connectors: row.connectors.unsigned_abs(),
            open: row.open.unsigned_abs(),
            admins: row.admins.unsigned_abs(),
            told_at: row.told_at,
        };
        Ok(rows.into_iter().map(read).collect())
    }

    /// The connectors that nobody has reconnected, by org and name; the first ones, where there is a limit.
    pub async fn migration_connectors(&self, id: &str, limit: Option<u64>) -> Result<Vec<OpenConnector>, StoreError> {
        #[derive(FromQueryResult)]
        struct Connector {
            id: String,
            org: String,
            account: String,
            name: String,
            health: String,
        }
        let sql = format!(
            "SELECT c.id, o.name AS org, c.account, c.name, c.health {JOINED} JOIN orgs o ON o.id = m.org_id \
             WHERE g.id = $1 AND {} ORDER BY o.name, c.name, c.id{}",
            open(),
            limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default()
        );
        let rows: Vec<Connector> = sql::all(self.db(), "list who must reconnect", sql, values![id]).await?;
        let read = |row: Connector| {
            Ok(OpenConnector {
                health: row::health(&row.health, &row.id)?,
                id: row.id.into(),
                org: row.org,
                account: row.account,
                name: row.name,
            })
        };
        rows.into_iter().map(read).collect()
    }

    /// Which of these have to be reconnected, and why.
    pub async fn must_reconnect(&self, ids: &[ConnectorId]) -> Result<HashMap<ConnectorId, MustReconnect>, StoreError> {
        #[derive(FromQueryResult)]
        struct Must {
            id: String,
            migration: String,
            deadline: Option<String>,
            reason: Option<String>,
        }
        let mut found = HashMap::new();
        for ids in ids.chunks(IDS) {
            let sql = format!(
                "SELECT c.id, g.id AS migration, g.deadline, g.reason {JOINED} \
                 WHERE c.id IN ({}) AND g.ended_at IS NULL AND {}",
                sql::list(ids.len()),
                open()
            );
            let values = ids.iter().map(|id| Value::from(id.as_str())).collect::<Vec<_>>();
            for row in sql::all::<Must>(self.db(), "look who must reconnect", sql, values).await? {
                let by = day(row.deadline.as_deref(), &row.migration)?;
                let must = MustReconnect { migration: row.migration, by, reason: row.reason };
                found.insert(ConnectorId::from(row.id), must);
            }
        }
        Ok(found)
    }
}

/// The migrations like this, with what they concern of it. `g` and `m` are migration and its connector.
async fn progress(
    db: &impl ConnectionTrait,
    which: &str,
    values: Vec<Value>,
) -> Result<Vec<MigrationProgress>, StoreError> {
    let sql = format!(
        "SELECT g.id, g.provider, g.reason, g.deadline, g.only_endless, g.started_at, g.ended_at, \
         COUNT(DISTINCT CASE WHEN {HELD} THEN m.org_id END) AS orgs, COUNT(CASE WHEN {HELD} THEN 1 END) AS connectors, \
         COUNT(CASE WHEN {} THEN 1 END) AS open FROM provider_migrations g \
         LEFT JOIN migration_connectors m ON m.migration_id = g.id LEFT JOIN connectors c ON c.id = m.connector_id \
         LEFT JOIN credentials k ON k.id = c.credential_id WHERE {which} \
         GROUP BY g.id, g.provider, g.reason, g.deadline, g.only_endless, g.started_at, g.ended_at \
         ORDER BY g.started_at DESC, g.id DESC",
        open()
    );
    let rows: Vec<Line> = sql::all(db, "look how far a migration is", sql, values).await?;
    let read = |row: Line| {
        Ok(MigrationProgress {
            orgs: row.orgs.unsigned_abs(),
            connectors: row.connectors.unsigned_abs(),
            open: row.open.unsigned_abs(),
            migration: ProviderMigration {
                deadline: day(row.deadline.as_deref(), &row.id)?,
                id: row.id,
                provider: row.provider,
                reason: row.reason,
                only_endless: row.only_endless,
                started_at: row.started_at,
                ended_at: row.ended_at,
            },
        })
    };
    rows.into_iter().map(read).collect()
}

fn day(text: Option<&str>, row: &str) -> Result<Option<NaiveDate>, StoreError> {
    text.map(str::parse).transpose().map_err(|_| nonsense("provider_migrations", "deadline", row))
}

/// `None`: it is too near for anything but the first message.
fn remind_at(deadline: NaiveDate, started_at: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let at = deadline.checked_sub_days(REMIND)?.and_time(NaiveTime::MIN).and_utc();
    (at >= started_at + BETWEEN).then_some(at)
}
