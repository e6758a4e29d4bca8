//! Webhooks that have stopped, or are about to: one message per admin for each, once.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{ConnectorId, OrgId, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use super::{MailKind, Tell};
use crate::{
    sql::{self, failed, micros, values},
    store::Store,
};

/// Of one address that fails now and then, people are warned no more often.
const WARN_EVERY: TimeDelta = TimeDelta::hours(24);

/// A webhook in trouble, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookTrouble {
    /// Of which connector.
    pub connector: ConnectorId,
    /// Which of the provider's ways.
    pub kind: String,
    /// Since when it answers that it is gone.
    pub gone_at: Option<DateTime<Utc>>,
    /// All that were turned away since one was accepted.
    pub failures: u64,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Why the last one was, as a stable word.
    pub reason: Option<String>,
    /// Why its provider does not send, or will soon not any more, where that is the trouble.
    pub not_sent: Option<String>,
}

#[derive(FromQueryResult)]
struct Untold {
    id: String,
    org_id: String,
    gone: bool,
    /// What makes the provider send is in trouble.
    alarm: bool,
}

/// Those that say that they are gone, those that people are to be warned of, and those whose provider does not send; `$1` is
/// a day ago.
const UNTOLD: &str = "SELECT e.id, e.org_id, e.gone_at IS NOT NULL AS gone, FALSE AS alarm FROM webhook_endpoints e \
     WHERE e.org_id IS NOT NULL AND e.connector_id IS NOT NULL AND e.deleted_at IS NULL \
     AND ((e.gone_at IS NOT NULL AND e.gone_told_at IS NULL) OR (e.gone_at IS NULL AND e.warned_at IS NOT NULL \
     AND (e.warn_told_at IS NULL OR (e.warn_told_at < e.warned_at AND e.warn_told_at < $1)))) \
     UNION ALL SELECT e.id, e.org_id, FALSE AS gone, TRUE AS alarm FROM webhook_endpoints e \
     WHERE e.alarm_at IS NOT NULL AND e.alarm_told_at IS NULL AND e.org_id IS NOT NULL AND e.connector_id IS NOT NULL \
     AND e.deleted_at IS NULL LIMIT $2";

impl Store {
    /// Whether people have to be told of a webhook.
    pub async fn webhook_is_untold(&self, at: DateTime<Utc>) -> Result<bool, StoreError> {
        Ok(!self.untold_webhooks(at, 1).await?.is_empty())
    }

    /// Makes the messages of one webhook after the other, each in a transaction of its own; answers of how many.
    pub async fn tell_webhooks(&self, tell: &Tell) -> Result<usize, StoreError> {
        let doing = "tell of a webhook";
        let mut told = 0;
        for untold in self.untold_webhooks(tell.at, 100).await? {
            let org = OrgId::from(untold.org_id.as_str());
            let tx = self.transaction(doing).await?;
            let take = if untold.alarm {
                "UPDATE webhook_endpoints SET alarm_told_at = $2 \
                 WHERE id = $1 AND alarm_at IS NOT NULL AND alarm_told_at IS NULL"
            } else if untold.gone {
                "UPDATE webhook_endpoints SET gone_told_at = $2, warn_told_at = $2 \
                 WHERE id = $1 AND gone_at IS NOT NULL AND gone_told_at IS NULL"
            } else {
                "UPDATE webhook_endpoints SET warn_told_at = $2 WHERE id = $1 AND gone_at IS NULL \
                 AND warned_at IS NOT NULL AND (warn_told_at IS NULL OR warn_told_at < warned_at)"
            };
            if sql::run(&tx, doing, take, values![untold.id.as_str(), micros(tell.at)]).await? == 0 {
                tx.rollback().await.map_err(failed(doing))?;
                continue;
            }
            let about = json!({ "endpoint": untold.id, "not_sent": untold.alarm });
            self.tell_admins(&tx, tell, &org, MailKind::WebhookStopped, &about).await?;
            tx.commit().await.map_err(failed(doing))?;
            told += 1;
        }
        Ok(told)
    }

    /// A message to each of the org's people who are told of this, and to its channel, in the transaction that takes the mark
    /// for it; answers how many people those are.
    pub(crate) async fn tell_admins(
        &self,
        tx: &impl ConnectionTrait,
        tell: &Tell,
        org: &OrgId,
        kind: MailKind,
        about: &Value,
    ) -> Result<usize, StoreError> {
        let admins = self.admins_to_tell(tx, org, kind.topic(), tell.at).await?;
        for admin in &admins {
            self.tell_one(tx, tell, Some(org), admin, kind, about).await?;
        }
        if kind.topic().is_some() {
            self.tell_channel(tx, (&tell.domain, tell.at), org, kind, about, Vec::new()).await?;
        }
        Ok(admins.len())
    }

    /// A webhook's trouble as it stands: what is turned away here, or what is not sent there. `None`: it is over.
    pub async fn find_webhook_trouble(
        &self,
        org: &OrgId,
        endpoint: &str,
        not_sent: bool,
    ) -> Result<Option<WebhookTrouble>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            connector_id: String,
            kind: String,
            gone_at: Option<DateTime<Utc>>,
            failures: i64,
            failing_since: Option<DateTime<Utc>>,
            reason: Option<String>,
            warned_at: Option<DateTime<Utc>>,
            alarm_at: Option<DateTime<Utc>>,
            standing_words: Option<String>,
        }
        let sql = "SELECT e.connector_id, e.kind, e.gone_at, e.failures, e.failing_since, e.warned_at, e.alarm_at, e.standing_words, \
                   (SELECT r.reason FROM webhook_rejections r WHERE r.endpoint_id = e.id ORDER BY r.last_at DESC LIMIT 1) \
                   AS reason FROM webhook_endpoints e JOIN connectors c ON c.id = e.connector_id \
                   WHERE e.id = $2 AND e.org_id = $1 AND e.deleted_at IS NULL";
        let row: Option<Row> =
            sql::one(self.db(), "look at a webhook's trouble", sql, values![org.as_str(), endpoint]).await?;
        let trouble = |row: Row| {
            let since = if not_sent {
                row.alarm_at
            } else {
                row.failing_since.filter(|_| row.gone_at.or(row.warned_at).is_some())
            };
            Some(WebhookTrouble {
                connector: row.connector_id.into(),
                kind: row.kind,
                gone_at: row.gone_at,
                failures: row.failures.unsigned_abs(),
                since: since?,
                reason: row.reason,
                not_sent: not_sent.then_some(row.standing_words).flatten(),
            })
        };
        Ok(row.and_then(trouble))
    }

    /// The same of a connector, where deliveries are turned away.
    pub async fn turned_away_of(
        &self,
        org: &OrgId,
        connector: &ConnectorId,
    ) -> Result<Option<WebhookTrouble>, StoreError> {
        let sql = "SELECT id FROM webhook_endpoints WHERE org_id = $1 AND connector_id = $2 AND deleted_at IS NULL \
                   AND (gone_at IS NOT NULL OR warned_at IS NOT NULL) ORDER BY gone_at, id LIMIT 1";
        let values = values![org.as_str(), connector.as_str()];
        let endpoint: Option<sql::Id> = sql::one(self.db(), "look for a webhook's trouble", sql, values).await?;
        match endpoint {
            Some(endpoint) => self.find_webhook_trouble(org, &endpoint.id, false).await,
            None => Ok(None),
        }
    }

    /// Whether this person is about to be told that the connector has failed.
    pub async fn failure_is_about_to_be_told(
        &self,
        org: &OrgId,
        connector: &ConnectorId,
        user: &str,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT o.id FROM outbox o JOIN connectors c ON c.id = o.connector_id AND c.epoch = o.epoch \
                   WHERE o.org_id = $1 AND o.connector_id = $2 AND o.effect = 'mail_admins' AND o.done_at IS NULL \
                   UNION ALL SELECT m.id FROM mail_items i JOIN mails m ON m.id = i.mail_id \
                   JOIN connectors c ON c.id = i.connector_id AND c.epoch = i.epoch \
                   WHERE i.org_id = $1 AND i.connector_id = $2 AND i.recipient = $3 AND i.kind = 'needs_you' \
                   AND i.dropped IS NULL AND m.settled_at IS NULL LIMIT 1";
        let values = values![org.as_str(), connector.as_str(), user];
        Ok(sql::one::<sql::Id>(self.db(), "look what is about to be told", sql, values).await?.is_some())
    }

    async fn untold_webhooks(&self, at: DateTime<Utc>, most: i64) -> Result<Vec<Untold>, StoreError> {
        let values = values![micros(at - WARN_EVERY), most];
        sql::all(self.db(), "look for webhooks in trouble", UNTOLD, values).await
    }
}
