//! Migrations of providers: one message per admin of each org that they concern, and one more a week ahead of the deadline
//! where something is open still.

use chrono::{DateTime, Utc};
use holdfast_core::{OrgId, ports::StoreError};
use sea_orm::FromQueryResult;
use serde_json::json;

use super::{MailKind, Tell};
use crate::{
    provider_migrations,
    sql::{self, failed, micros, values},
    store::Store,
};

/// How migrations are turned into messages.
#[derive(Clone, Debug)]
pub struct TellMigrations<'a> {
    /// Now.
    pub at: DateTime<Utc>,
    /// The right side of the messages' ids.
    pub domain: &'a str,
    /// False: there is no mail server; the messages are kept as not sent.
    pub sends: bool,
    /// At most so many orgs.
    pub orgs: u64,
}

#[derive(FromQueryResult)]
struct Untold {
    migration_id: String,
    org_id: String,
    reminder: bool,
}

/// Orgs that were not told yet, then those to be reminded; `$1` is now and `$2` today.
const UNTOLD: &str = "SELECT DISTINCT m.migration_id, m.org_id, m.told_at IS NOT NULL AS reminder \
     FROM provider_migrations g JOIN migration_connectors m ON m.migration_id = g.id \
     WHERE g.ended_at IS NULL AND (m.told_at IS NULL \
     OR (g.remind_at <= $1 AND g.deadline >= $2 AND m.reminded_at IS NULL)) LIMIT $3";

impl Store {
    /// Whether an org has to be told of a migration, or reminded of it.
    pub async fn migration_is_untold(&self, at: DateTime<Utc>) -> Result<bool, StoreError> {
        Ok(!self.untold_migrations(at, 1).await?.is_empty())
    }

    /// Makes the messages of one org after the other, each in a transaction of its own. Answers the orgs that have something
    /// to reconnect and nobody who could be told.
    pub async fn tell_migrations(&self, tell: &TellMigrations<'_>) -> Result<Vec<OrgId>, StoreError> {
        let mut nobody = Vec::new();
        for untold in self.untold_migrations(tell.at, tell.orgs).await? {
            let org = OrgId::from(untold.org_id.as_str());
            if self.tell_migration(tell, &untold, &org).await? == Some(0) {
                nobody.push(org);
            }
        }
        Ok(nobody)
    }

    /// To how many; `None`: another replica did, or nothing is open.
    async fn tell_migration(
        &self,
        tell: &TellMigrations<'_>,
        untold: &Untold,
        org: &OrgId,
    ) -> Result<Option<usize>, StoreError> {
        let doing = "tell of a provider's migration";
        let (id, at) = (untold.migration_id.as_str(), micros(tell.at));
        let tx = self.transaction(doing).await?;
        sql::alone(&tx, doing, &format!("migration {id} {org}")).await?;
        // Who hears of it so late is not reminded as well.
        let take = if untold.reminder {
            "UPDATE migration_connectors SET reminded_at = $3 \
             WHERE migration_id = $1 AND org_id = $2 AND reminded_at IS NULL"
        } else {
            "UPDATE migration_connectors SET told_at = $3, reminded_at = \
             (SELECT CASE WHEN g.remind_at <= $3 THEN $3 END FROM provider_migrations g WHERE g.id = $1) \
             WHERE migration_id = $1 AND org_id = $2 AND told_at IS NULL"
        };
        let taken = sql::run(&tx, doing, take, values![id, org.as_str(), at]).await?;
        let open = format!(
            "SELECT c.id FROM provider_migrations g JOIN migration_connectors m ON m.migration_id = g.id \
             JOIN connectors c ON c.id = m.connector_id JOIN credentials k ON k.id = c.credential_id \
             WHERE g.id = $1 AND m.org_id = $2 AND {} LIMIT 1",
            provider_migrations::open()
        );
        let open: Option<sql::Id> = sql::one(&tx, doing, open, values![id, org.as_str()]).await?;
        let mut told = None;
        if taken > 0 && open.is_some() {
            let mails = Tell { at: tell.at, domain: tell.domain.to_owned(), sends: tell.sends };
            let about = json!({ "migration": id, "reminder": untold.reminder });
            let admins = self.tell_admins(&tx, &mails, org, MailKind::MustReconnect, &about).await?;
            // Nobody wants to hear it, which is something else than that nobody is there.
            let unwanted = admins == 0 && !self.admins_to_tell(&tx, org, None, tell.at).await?.is_empty();
            told = (!unwanted).then_some(admins);
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(told)
    }

    async fn untold_migrations(&self, at: DateTime<Utc>, limit: u64) -> Result<Vec<Untold>, StoreError> {
        let values = values![micros(at), at.date_naive().to_string(), i64::try_from(limit).unwrap_or(i64::MAX)];
        sql::all(self.db(), "look for migrations to tell of", UNTOLD, values).await
    }
}
