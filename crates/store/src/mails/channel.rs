//! What an org's channel is told: a row of `mails` like a mail, with the channel as its recipient and a job that sends it.
//! Notices are gathered for it by themselves, so that it does not wait for a mail server.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{OrgId, job::Kind, ports::StoreError};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use super::{
    ClaimedMail, MailKind, MailStage, NewItem, NewMail, ROWS,
    gather::{NOTICES, Notice, close_window, done_in},
};
use crate::{
    jobs::{self, NewJob},
    sql::{self, failed, micros, values},
    store::Store,
};

/// The recipient.
pub(super) const CHANNEL: &str = "slack";

/// What is to be told.
#[derive(Clone, Debug)]
pub struct ToChannel<'a> {
    /// Of which org.
    pub org: &'a OrgId,
    /// One that is made from notices.
    pub kind: MailKind,
    /// Now.
    pub at: DateTime<Utc>,
    /// Until then more of the same org is kept for the next message.
    pub window: TimeDelta,
    /// The right side of the messages' ids.
    pub domain: &'a str,
}

impl Store {
    /// Orgs with a channel that has to be told of notices that have waited for company, oldest first.
    pub async fn due_for_channel(
        &self,
        at: DateTime<Utc>,
        gathered_before: DateTime<Utc>,
        limit: u64,
    ) -> Result<Vec<(OrgId, MailKind)>, StoreError> {
        let sql = "SELECT o.org_id, o.effect FROM slack_channels s JOIN outbox o ON o.org_id = s.org_id \
                   LEFT JOIN mail_windows w ON w.org_id = o.org_id AND w.kind = 'slack:' || o.effect \
                   WHERE s.stopped_at IS NULL AND o.channel_at IS NULL AND o.effect LIKE 'mail_%' \
                   AND o.created_at <= $1 AND o.created_at >= s.made_at AND (w.until_at IS NULL OR w.until_at <= $2) \
                   GROUP BY o.org_id, o.effect ORDER BY MIN(o.created_at) LIMIT $3";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = values![micros(gathered_before), micros(at), limit];
        self.due_kinds(sql, values).await
    }

    /// Makes one message for the channel of what stands of the org's notices of this kind. A recovery is told where the
    /// failure was. Answers whether there was something to tell.
    pub async fn gather_for_channel(&self, to: &ToChannel<'_>) -> Result<bool, StoreError> {
        let doing = "turn notices into a message";
        let Some(effect) = to.kind.notice() else { return Ok(false) };
        let name = format!("slack:{effect}");
        let Some(tx) = self.take_window(doing, to.org, &name, to.at).await? else { return Ok(false) };
        let undone = format!(
            "{NOTICES} WHERE o.org_id = $1 AND o.effect = $2 AND o.channel_at IS NULL \
             AND o.created_at >= (SELECT made_at FROM slack_channels WHERE org_id = $1) ORDER BY o.created_at, o.id"
        );
        let notices: Vec<Notice> = sql::all(&tx, doing, undone, values![to.org.as_str(), effect]).await?;
        let mut items = Vec::new();
        for notice in &notices {
            let since = match to.kind {
                MailKind::BackAgain => self.told_in_channel(&tx, to.org, notice).await?,
                _ => Some(notice.at()),
            };
            if let Some(since) = since.filter(|_| notice.stands(to.kind)) {
                items.push(notice.item(to.org, since));
            }
        }
        done_in(&tx, "channel_at", to.at, &notices).await?;
        let told =
            !items.is_empty() && self.tell_channel(&tx, (to.domain, to.at), to.org, to.kind, &json!({}), items).await?;
        if told {
            close_window(&tx, doing, to.org, &name, to.at + to.window).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        if told {
            self.jobs_changed(to.org, Kind::Deliver);
        }
        Ok(told)
    }

    /// Since when a connector had failed by a message of the channel. `None`: it was not told of that.
    async fn told_in_channel(
        &self,
        tx: &impl ConnectionTrait,
        org: &OrgId,
        notice: &Notice,
    ) -> Result<Option<DateTime<Utc>>, StoreError> {
        #[derive(sea_orm::FromQueryResult)]
        struct Since {
            since: DateTime<Utc>,
        }
        let sql = "SELECT since FROM mail_items WHERE org_id = $1 AND connector_id = $2 AND epoch = $3 \
                   AND recipient = $4 AND kind = 'needs_you' AND dropped IS NULL";
        let values = values![org.as_str(), notice.connector_id.as_str(), notice.epoch - 1, CHANNEL];
        Ok(sql::one::<Since>(tx, "look what a channel was told", sql, values).await?.map(|row| row.since))
    }

    /// A message to the org's channel with the job that sends it, in the caller's transaction. `false`: it has none.
    pub(super) async fn tell_channel(
        &self,
        tx: &impl ConnectionTrait,
        (domain, at): (&str, DateTime<Utc>),
        org: &OrgId,
        kind: MailKind,
        about: &Value,
        items: Vec<NewItem<'_>>,
    ) -> Result<bool, StoreError> {
        let channel = "SELECT id FROM slack_channels WHERE org_id = $1 AND stopped_at IS NULL";
        let channel: Option<sql::Id> = sql::one(tx, "look for a channel", channel, values![org.as_str()]).await?;
        let Some(channel) = channel else { return Ok(false) };
        let mail = NewMail {
            org: Some(org),
            user: None,
            recipient: CHANNEL,
            kind,
            about: about.clone(),
            answers: Vec::new(),
            stage: MailStage::Posted,
            later: None,
            items,
        };
        let id = self.insert_mail(tx, domain, at, &mail).await?;
        let job = NewJob {
            org: org.clone(),
            kind: Kind::Deliver,
            key: id.clone(),
            connector: None,
            subject: channel.id,
            payload: json!({ "mail": id }),
            due_at: at,
            at,
        };
        jobs::enqueue(self, tx, &job).await?;
        Ok(true)
    }

    /// A message to a channel that has not been settled.
    pub async fn find_posted(&self, org: &OrgId, id: &str) -> Result<Option<ClaimedMail>, StoreError> {
        let sql = "SELECT id, org_id, user_id, recipient, kind, about, message_id, answers, unsure, attempts, created_at \
                   FROM mails WHERE org_id = $1 AND id = $2 AND state = 'posted'";
        self.mail_with_items(sql, values![org.as_str(), id], String::new()).await
    }

    /// Writes down what became of a message to a channel.
    pub async fn settle_posted(
        &self,
        mail: &ClaimedMail,
        stage: MailStage,
        error: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE mails SET state = $2, error = $3, settled_at = $4 WHERE id = $1 AND state = 'posted'";
        let values = values![mail.id.as_str(), stage.as_str(), error.map(str::to_owned), micros(at)];
        sql::run(self.db(), "settle a message", sql, values).await?;
        let connectors: Vec<&str> = mail.items.iter().map(|item| item.connector.as_str()).take(ROWS).collect();
        self.mails_changed(&connectors).await;
        Ok(())
    }
}
