//! What pages say about mail: who was told of a failure, and what could not be told.

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, ports::StoreError};
use sea_orm::FromQueryResult;

use super::{MailKind, MailStage, channel::CHANNEL};
use crate::{
    sql::{self, Number, nonsense, values},
    store::Store,
};

/// Who was told of a connector's last failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailState {
    /// The epoch of that failure.
    pub epoch: i64,
    /// It has not been turned into mails yet, since then: it waits for company, or for the mail server.
    pub gathering_since: Option<DateTime<Utc>>,
    /// Until then the org's failures are kept for a digest.
    pub kept_until: Option<DateTime<Utc>>,
    /// One line per recipient and kind, the first one told first.
    pub told: Vec<Told>,
}

/// A mail, as a page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// [`MailKind::NeedsYou`] or [`MailKind::BackAgain`].
    pub kind: MailKind,
    /// Its `Message-ID`.
    pub message_id: String,
    /// What the person is called, or their address; `None`: there was nobody.
    pub who: Option<String>,
    /// The address that it was sent to, or would be.
    pub address: Option<String>,
    /// Where it is.
    pub stage: MailStage,
    /// Why it is not sent, in short.
    pub why: Option<String>,
    /// When that was; of one that is still open, when it was made.
    pub at: DateTime<Utc>,
    /// When it is tried next, if it is still open.
    pub next_at: Option<DateTime<Utc>>,
}

/// A mail that reached nobody, over all orgs; for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailFailure {
    /// The org's name; `None`: it was for the operators.
    pub org: Option<String>,
    /// What it was to tell.
    pub kind: MailKind,
    /// What became of it: refused, given up, not sent, or nobody was there.
    pub stage: MailStage,
    /// To which address.
    pub address: Option<String>,
    /// Why, in short.
    pub why: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct Notice {
    epoch: i64,
    created_at: DateTime<Utc>,
    done_at: Option<DateTime<Utc>>,
    kept_until: Option<DateTime<Utc>>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    message_id: String,
    kind: String,
    state: String,
    org_name: Option<String>,
    user_name: Option<String>,
    recipient: String,
    email: Option<String>,
    address: Option<String>,
    error: Option<String>,
    dropped: Option<String>,
    created_at: DateTime<Utc>,
    settled_at: Option<DateTime<Utc>>,
    next_at: DateTime<Utc>,
}

impl Row {
    fn kind(&self) -> Result<MailKind, StoreError> {
        MailKind::parse(&self.kind).ok_or_else(|| nonsense("mails", "kind", &self.id))
    }

    fn stage(&self) -> Result<MailStage, StoreError> {
        MailStage::parse(&self.state).ok_or_else(|| nonsense("mails", "state", &self.id))
    }
}

impl TryFrom<Row> for Told {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        // Left out of a message that went to others about other connectors.
        let stage = if row.dropped.is_some() { MailStage::Dropped } else { row.stage()? };
        let who = row.user_name.clone().filter(|name| !name.is_empty()).or_else(|| row.email.clone());
        let who = who.or_else(|| (row.recipient == CHANNEL).then(|| "The Slack channel".to_owned()));
        Ok(Self {
            kind: row.kind()?,
            message_id: row.message_id,
            who,
            address: row.address.or(row.email),
            stage,
            why: row.dropped.or(row.error),
            at: row.settled_at.unwrap_or(row.created_at),
            next_at: row.settled_at.is_none().then_some(row.next_at),
        })
    }
}

const COLUMNS: &str = "m.id, m.message_id, m.kind, m.state, o.name AS org_name, u.name AS user_name, m.recipient, u.email, m.address, m.error, \
                       m.created_at, m.settled_at, m.next_at";

impl Store {
    /// Who was told of the connector's last failure, and of its end. `None`: it has never failed.
    pub async fn mail_state(&self, org: &OrgId, connector: &ConnectorId) -> Result<Option<MailState>, StoreError> {
        let doing = "look who was told";
        let last = "SELECT o.epoch, o.created_at, o.done_at, w.until_at AS kept_until FROM outbox o \
                    LEFT JOIN mail_windows w ON w.org_id = o.org_id AND w.kind = o.effect \
                    WHERE o.connector_id = $1 AND o.org_id = $2 AND o.effect = 'mail_admins' \
                    ORDER BY o.epoch DESC LIMIT 1";
        let key = values![connector.as_str(), org.as_str()];
        let Some(notice) = sql::one::<Notice>(self.db(), doing, last, key).await? else { return Ok(None) };
        let sql = format!(
            "SELECT {COLUMNS}, i.dropped FROM mail_items i JOIN mails m ON m.id = i.mail_id \
             LEFT JOIN users u ON u.id = m.user_id LEFT JOIN orgs o ON o.id = m.org_id \
             WHERE i.connector_id = $1 AND i.org_id = $2 AND ((i.epoch = $3 AND i.kind = 'needs_you') \
             OR (i.epoch = $4 AND i.kind = 'back_again')) ORDER BY i.epoch, m.created_at, m.id"
        );
        let values = values![connector.as_str(), org.as_str(), notice.epoch, notice.epoch + 1];
        let rows: Vec<Row> = sql::all(self.db(), doing, sql, values).await?;
        Ok(Some(MailState {
            epoch: notice.epoch,
            kept_until: notice.kept_until,
            gathering_since: notice.done_at.is_none().then_some(notice.created_at),
            told: rows.into_iter().map(Told::try_from).collect::<Result<_, _>>()?,
        }))
    }

    /// Mails that reached nobody, the newest first.
    pub async fn mail_failures(&self, limit: u64) -> Result<Vec<MailFailure>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, NULL AS dropped FROM mails m LEFT JOIN users u ON u.id = m.user_id \
             LEFT JOIN orgs o ON o.id = m.org_id WHERE m.settled_at IS NOT NULL \
             AND m.state IN ('refused', 'given_up', 'unsent', 'nobody') ORDER BY m.settled_at DESC, m.id LIMIT $1"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows: Vec<Row> = sql::all(self.db(), "list mails that failed", sql, values![limit]).await?;
        let failure = |row: Row| {
            Ok(MailFailure {
                kind: row.kind()?,
                stage: row.stage()?,
                at: row.settled_at.unwrap_or(row.created_at),
                org: row.org_name,
                address: row.address.or(row.email).or((row.recipient == CHANNEL).then(|| "Slack".to_owned())),
                why: row.error,
            })
        };
        rows.into_iter().map(failure).collect()
    }

    /// Mails that are made and not settled.
    pub async fn open_mail_count(&self) -> Result<u64, StoreError> {
        let sql = "SELECT COUNT(*) AS number FROM mails WHERE settled_at IS NULL";
        let count: Option<Number> = sql::one(self.db(), "count open mails", sql, values![]).await?;
        Ok(count.map_or(0, |count| count.count()))
    }
}
