//! One message: claimed, and settled by whoever claimed it. A claim ends by the database's clock; what its owner left
//! unsettled is claimed again, and may have been accepted already.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, Health, OrgId,
    ports::{Changed, StoreError},
};
use sea_orm::FromQueryResult;
use serde_json::Value;
use tracing::debug;

use super::{MailKind, MailStage, ROWS};
use crate::{
    exchanges::whole_ms,
    sql::{self, micros, nonsense, values},
    store::{Kind, Store},
};

/// A message that is this replica's to send.
#[derive(Clone, Debug)]
pub struct ClaimedMail {
    /// Of the row.
    pub id: String,
    /// Whose; `None`: the instance's own matter.
    pub org: Option<OrgId>,
    /// To whom; `None`: to the address in `recipient`.
    pub user: Option<String>,
    /// The user's id, or an address.
    pub recipient: String,
    /// Why.
    pub kind: MailKind,
    /// What a kind needs beside its items.
    pub about: Value,
    /// With its angle brackets; the same at each attempt.
    pub message_id: String,
    /// Ids of the messages that it belongs under, oldest first.
    pub answers: Vec<String>,
    /// An earlier attempt may have been accepted.
    pub unsure: bool,
    /// With this one.
    pub attempts: u32,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// The connectors that it is about, those left out already excepted; the oldest first.
    pub items: Vec<MailItem>,
    pub(super) claim: String,
}

/// A connector that a message is about.
#[derive(Clone, Debug)]
pub struct MailItem {
    /// Whose.
    pub org: OrgId,
    /// Which.
    pub connector: ConnectorId,
    /// Of the change that is told.
    pub epoch: i64,
    /// When it failed.
    pub since: DateTime<Utc>,
    /// When the change happened that is told.
    pub at: DateTime<Utc>,
    /// Its health and epoch when the message was claimed; `None`: it was removed.
    pub now: Option<(Health, i64)>,
}

/// What became of a [`ClaimedMail`] message.
#[derive(Clone, Debug)]
pub enum MailOutcome {
    /// The mail server has accepted it for this address.
    Sent {
        /// As it was sent to.
        address: String,
    },
    /// Refused for good.
    Refused {
        /// As it was sent to.
        address: String,
        /// In short.
        error: String,
    },
    /// Put off too often.
    GivenUp {
        /// As it was sent to.
        address: String,
        /// In short.
        error: String,
    },
    /// There is nothing to tell any more, or nobody to tell it to.
    Dropped {
        /// In short.
        reason: String,
    },
    /// To be tried again.
    PutOff {
        /// As it was sent to.
        address: String,
        /// In short.
        error: String,
        /// Not before this.
        next_at: DateTime<Utc>,
        /// It may have been accepted.
        unsure: bool,
    },
    /// There is no mail server.
    Unsent,
    /// Nothing was handed over, and it was not this message's fault: as if it had not been claimed.
    Released,
}

impl MailOutcome {
    /// Where the message is now.
    pub fn stage(&self) -> MailStage {
        match self {
            Self::Sent { .. } => MailStage::Sent,
            Self::Refused { .. } => MailStage::Refused,
            Self::GivenUp { .. } => MailStage::GivenUp,
            Self::Dropped { .. } => MailStage::Dropped,
            Self::PutOff { .. } => MailStage::Waiting,
            Self::Unsent => MailStage::Unsent,
            Self::Released => MailStage::Queued,
        }
    }
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    org_id: Option<String>,
    user_id: Option<String>,
    recipient: String,
    kind: String,
    about: Value,
    message_id: String,
    answers: Value,
    unsure: bool,
    attempts: i64,
    created_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct ItemRow {
    org_id: String,
    connector_id: String,
    epoch: i64,
    since: DateTime<Utc>,
    at: DateTime<Utc>,
    health: Option<String>,
    epoch_now: Option<i64>,
}

impl From<ItemRow> for MailItem {
    fn from(row: ItemRow) -> Self {
        let health = row.health.as_deref().and_then(Health::parse);
        Self {
            org: row.org_id.into(),
            connector: row.connector_id.into(),
            epoch: row.epoch,
            since: row.since,
            at: row.at,
            now: health.zip(row.epoch_now),
        }
    }
}

const OPEN: &str = "settled_at IS NULL AND next_at <= $1 AND (state <> 'sending' OR claimed_until_ms <= ";

impl Store {
    /// Whether there is a message to be sent now.
    pub async fn mail_is_due(&self, at: DateTime<Utc>) -> Result<bool, StoreError> {
        let sql = format!("SELECT id FROM mails WHERE {OPEN}{}) LIMIT 1", sql::now_ms(self.backend()));
        let due: Option<sql::Id> = sql::one(self.db(), "look for mail", sql, values![micros(at)]).await?;
        Ok(due.is_some())
    }

    /// Takes the message that is due for longest, for as long as the lease lasts. `None`: there is none that nobody is at. One
    /// that was kept back counts as made when it was due: that it waited is nothing to give it up for.
    pub async fn claim_mail(&self, at: DateTime<Utc>, lease: Duration) -> Result<Option<ClaimedMail>, StoreError> {
        let now = sql::now_ms(self.backend());
        let skip = if self.kind() == Kind::Postgres { " FOR UPDATE SKIP LOCKED" } else { "" };
        let claim = self.id("claim");
        let take = format!(
            "UPDATE mails SET unsure = (unsure OR state = 'sending'), state = 'sending', claim = $2, \
             created_at = CASE WHEN state = 'held' THEN next_at ELSE created_at END, claimed_until_ms = {now} + $3, attempts = attempts + 1 \
             WHERE id = (SELECT id FROM mails WHERE {OPEN}{now}) ORDER BY next_at, id LIMIT 1{skip}) \
             RETURNING id, org_id, user_id, recipient, kind, about, message_id, answers, unsure, attempts, created_at"
        );
        let values = values![micros(at), claim.as_str(), whole_ms(lease)];
        self.mail_with_items(take, values, claim.clone()).await
    }

    /// The message that a statement finds or takes, with its items.
    pub(super) async fn mail_with_items(
        &self,
        sql: impl Into<String>,
        values: Vec<sea_orm::Value>,
        claim: String,
    ) -> Result<Option<ClaimedMail>, StoreError> {
        let doing = "claim a mail";
        let Some(row) = sql::one::<Row>(self.db(), doing, sql, values).await? else { return Ok(None) };
        let items = "SELECT i.org_id, i.connector_id, i.epoch, i.since, i.\"at\", c.health, c.epoch AS epoch_now \
                     FROM mail_items i LEFT JOIN connectors c ON c.id = i.connector_id AND c.org_id = i.org_id \
                     WHERE i.mail_id = $1 AND i.dropped IS NULL ORDER BY i.since, i.connector_id";
        let items: Vec<ItemRow> = sql::all(self.db(), doing, items, values![row.id.as_str()]).await?;
        Ok(Some(ClaimedMail {
            kind: MailKind::parse(&row.kind).ok_or_else(|| nonsense("mails", "kind", &row.id))?,
            answers: serde_json::from_value(row.answers).map_err(|_| nonsense("mails", "answers", &row.id))?,
            attempts: u32::try_from(row.attempts).map_err(|_| nonsense("mails", "attempts", &row.id))?,
            id: row.id,
            org: row.org_id.map(OrgId::from),
            user: row.user_id,
            recipient: row.recipient,
            about: row.about,
            message_id: row.message_id,
            unsure: row.unsure,
            created_at: row.created_at,
            items: items.into_iter().map(MailItem::from).collect(),
            claim,
        }))
    }

    /// Leaves a connector out of a message: what was to be told of it is over.
    pub async fn drop_mail_item(&self, mail: &ClaimedMail, item: &MailItem, reason: &str) -> Result<(), StoreError> {
        let sql = "UPDATE mail_items SET dropped = $4 WHERE mail_id = $1 AND connector_id = $2 AND epoch = $3";
        let values = values![mail.id.as_str(), item.connector.as_str(), item.epoch, reason];
        sql::run(self.db(), "leave a connector out of a mail", sql, values).await.map(|_| ())
    }

    /// Writes down what became of a message. `No`: the claim has ended meanwhile, and somebody else is at it.
    pub async fn settle_mail(
        &self,
        mail: &ClaimedMail,
        outcome: &MailOutcome,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let (address, error) = match outcome {
            MailOutcome::Sent { address } => (Some(address), None),
            MailOutcome::Refused { address, error }
            | MailOutcome::GivenUp { address, error }
            | MailOutcome::PutOff { address, error, .. } => (Some(address), Some(error)),
            MailOutcome::Dropped { reason } => (None, Some(reason)),
            MailOutcome::Unsent | MailOutcome::Released => (None, None),
        };
        let stage = outcome.stage();
        let (next_at, unsure) = match outcome {
            MailOutcome::PutOff { next_at, unsure, .. } => (Some(micros(*next_at)), mail.unsure || *unsure),
            _ => (None, mail.unsure),
        };
        let open = matches!(stage, MailStage::Waiting | MailStage::Queued);
        let back = i64::from(matches!(outcome, MailOutcome::Released));
        let sql = "UPDATE mails SET state = CASE WHEN $3 = 'queued' AND attempts > 1 THEN 'waiting' ELSE $3 END, \
                   address = COALESCE($4, address), error = CASE WHEN $3 = 'queued' THEN error ELSE $5 END, \
                   next_at = COALESCE($6, next_at), unsure = $7, attempts = attempts - $8, settled_at = $9, \
                   claim = NULL, claimed_until_ms = NULL WHERE id = $1 AND claim = $2 AND state = 'sending'";
        let values = values![
            mail.id.as_str(),
            mail.claim.as_str(),
            stage.as_str(),
            address.cloned(),
            error.cloned(),
            next_at,
            unsure,
            back,
            (!open).then(|| micros(at)),
        ];
        let changed = sql::run(self.db(), "settle a mail", sql, values).await?;
        if changed > 0 && !matches!(stage, MailStage::Sent | MailStage::Queued) {
            self.close_window_of_nobody(mail, at).await?;
        }
        let connectors: Vec<&str> = mail.items.iter().map(|item| item.connector.as_str()).collect();
        self.mails_changed(&connectors).await;
        Ok(sql::changed(changed))
    }

    /// More is kept for a digest only once somebody was told: where all messages that were made together came to nothing,
    /// their window ends, and where the rest of them is put off, it ends with the next try.
    async fn close_window_of_nobody(&self, mail: &ClaimedMail, at: DateTime<Utc>) -> Result<(), StoreError> {
        let (Some(org), Some(notice)) = (&mail.org, mail.kind.notice()) else { return Ok(()) };
        let together = "FROM mails m WHERE m.org_id = $1 AND m.kind = $2 AND m.created_at";
        let sql = format!(
            "UPDATE mail_windows SET until_at = COALESCE((SELECT MIN(m.next_at) {together} = $3 AND m.state = 'waiting'), $4) \
             WHERE org_id = $1 AND kind = $5 \
             AND until_at > COALESCE((SELECT MIN(m.next_at) {together} = $3 AND m.state = 'waiting'), $4) \
             AND NOT EXISTS (SELECT 1 {together} = $3 AND (m.state IN ('queued', 'held', 'sending', 'sent') OR m.unsure)) \
             AND NOT EXISTS (SELECT 1 {together} > $3)"
        );
        let values = values![org.as_str(), mail.kind.as_str(), micros(mail.created_at), micros(at), notice];
        sql::run(self.db(), "end a window in which nobody was told", sql, values).await.map(|_| ())
    }

    /// On SQLite, messages that the process before left on their way: their claims end now. Part of
    /// [`Store::void_previous`](crate::Store::void_previous).
    pub(crate) const VOID_MAIL_CLAIMS: &str = "UPDATE mails SET claimed_until_ms = 0 WHERE state = 'sending'";

    /// Pages that show who was told of these look again.
    pub(crate) async fn mails_changed(&self, connectors: &[&str]) {
        if self.kind() == Kind::Sqlite {
            for connector in connectors {
                self.connector_changed(&(*connector).into());
            }
            return;
        }
        for some in connectors.chunks(ROWS) {
            let places: Vec<String> = (1..=some.len()).map(|place| format!("('connector:' || ${place})")).collect();
            let sql =
                format!("SELECT pg_notify('holdfast', told) FROM (VALUES {}) AS all_of_them (told)", places.join(", "));
            let values = some.iter().map(|connector| sea_orm::Value::from(*connector)).collect();
            if let Err(error) = sql::run(self.db(), "tell of a mail", sql, values).await {
                debug!(%error, "could not tell that mails have changed");
            }
        }
    }
}
