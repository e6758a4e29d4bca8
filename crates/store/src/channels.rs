//! Table `slack_channels`: where an org wants to be told beside mail. Who has the address can write there, so it is sealed.

use chrono::{DateTime, Utc};
use holdfast_core::{
    OrgId,
    ports::{Changed, StoreError},
};
use sea_orm::FromQueryResult;
use secrecy::SecretString;
use serde_json::json;

use crate::{
    audit::{CHANGED, Change},
    mails::{MailKind, Tell},
    seal::Place,
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// An org's channel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its id; another address is another channel.
    pub id: String,
    /// Where to.
    pub url: SecretString,
    /// What is shown of that.
    pub hint: String,
    /// The user who entered it.
    pub made_by: String,
    /// When.
    pub made_at: DateTime<Utc>,
    /// When a message was taken last.
    pub delivered_at: Option<DateTime<Utc>>,
    /// Since when every attempt has failed.
    pub failing_since: Option<DateTime<Utc>>,
    /// Why the last one did.
    pub error: Option<String>,
    /// Since when it gets nothing any more: it said that it is gone.
    pub stopped_at: Option<DateTime<Utc>>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    sealed_url: Vec<u8>,
    hint: String,
    made_by: String,
    made_at: DateTime<Utc>,
    delivered_at: Option<DateTime<Utc>>,
    failing_since: Option<DateTime<Utc>>,
    error: Option<String>,
    stopped_at: Option<DateTime<Utc>>,
}

const URL: &str = "slack_channel.url";

impl Store {
    /// The org's channel, if it has one.
    pub async fn find_channel(&self, org: &OrgId) -> Result<Option<Channel>, StoreError> {
        let sql = "SELECT id, sealed_url, hint, made_by, made_at, delivered_at, failing_since, error, stopped_at \
                   FROM slack_channels WHERE org_id = $1";
        let row: Option<Row> = sql::one(self.db(), "look for a channel", sql, values![org.as_str()]).await?;
        let Some(row) = row else { return Ok(None) };
        let key = self.data_key(self.db(), org).await?;
        let url = key.open_text(Place { org, owner: &row.id, field: URL }, &row.sealed_url);
        Ok(Some(Channel {
            url: url.map_err(|_| nonsense("slack_channels", "sealed_url", &row.id))?,
            id: row.id,
            hint: row.hint,
            made_by: row.made_by,
            made_at: row.made_at,
            delivered_at: row.delivered_at,
            failing_since: row.failing_since,
            error: row.error,
            stopped_at: row.stopped_at,
        }))
    }

    /// Gives the org a channel, in place of the one before. `by`: the user who does.
    pub async fn set_channel(
        &self,
        org: &OrgId,
        url: &SecretString,
        hint: &str,
        by: &str,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let doing = "set a channel";
        let id = self.id("slk");
        let tx = self.transaction(doing).await?;
        let key = self.data_key(&tx, org).await?;
        let sealed = key.seal_text(Place { org, owner: &id, field: URL }, url);
        let sql = "INSERT INTO slack_channels (org_id, id, sealed_url, hint, made_by, made_at) \
                   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (org_id) DO UPDATE SET id = EXCLUDED.id, \
                   sealed_url = EXCLUDED.sealed_url, hint = EXCLUDED.hint, made_by = EXCLUDED.made_by, \
                   made_at = EXCLUDED.made_at, delivered_at = NULL, failing_since = NULL, failures = 0, error = NULL, \
                   stopped_at = NULL";
        sql::run(&tx, doing, sql, values![org.as_str(), id.as_str(), sealed, hint, by, micros(at)]).await?;
        let line = Change::new(org, "channel.set", ("channel", &id, hint));
        self.audit(&tx, line.now(json!({ "url": CHANGED }))).await?;
        tx.commit().await.map_err(failed(doing))
    }

    /// Takes it away. `No`: there was none.
    pub async fn remove_channel(&self, org: &OrgId) -> Result<Changed, StoreError> {
        #[derive(FromQueryResult)]
        struct Gone {
            id: String,
            hint: String,
        }
        let doing = "remove a channel";
        let tx = self.transaction(doing).await?;
        let sql = "DELETE FROM slack_channels WHERE org_id = $1 RETURNING id, hint";
        let gone: Option<Gone> = sql::one(&tx, doing, sql, values![org.as_str()]).await?;
        if let Some(Gone { id, hint }) = &gone {
            self.audit(&tx, Change::new(org, "channel.removed", ("channel", id, hint))).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(if gone.is_some() { Changed::Yes } else { Changed::No })
    }

    /// Writes down what became of an attempt: `fault` is why it came to nothing, `gone` whether the channel says that it is.
    /// `Yes`: that stops it, and the admins are told, in one transaction.
    pub async fn note_channel_attempt(
        &self,
        tell: &Tell,
        org: &OrgId,
        id: &str,
        fault: Option<&str>,
        gone: bool,
    ) -> Result<Changed, StoreError> {
        let doing = "note an attempt at a channel";
        let tx = self.transaction(doing).await?;
        let at = micros(tell.at);
        let Some(fault) = fault else {
            let good = "UPDATE slack_channels SET delivered_at = $3, failing_since = NULL, failures = 0, error = NULL, \
                        stopped_at = NULL WHERE org_id = $1 AND id = $2";
            sql::run(&tx, doing, good, values![org.as_str(), id, at]).await?;
            tx.commit().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        };
        let bad = "UPDATE slack_channels SET failing_since = COALESCE(failing_since, $3), failures = failures + 1, \
                   error = $4 WHERE org_id = $1 AND id = $2";
        sql::run(&tx, doing, bad, values![org.as_str(), id, at, fault]).await?;
        let stop = "UPDATE slack_channels SET stopped_at = $3 WHERE org_id = $1 AND id = $2 AND stopped_at IS NULL";
        let stopped = gone && sql::run(&tx, doing, stop, values![org.as_str(), id, at]).await? > 0;
        if stopped {
            self.tell_admins(&tx, tell, org, MailKind::ChannelStopped, &json!({})).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(if stopped { Changed::Yes } else { Changed::No })
    }
}
